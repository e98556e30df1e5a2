package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// cut is a provider that stops to respond, or whose server says that the lease is over.
type cut struct {
	locks.Provider

	err atomic.Pointer[error] // of renewals; nil: they succeed
}

func (c *cut) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	if err := c.err.Load(); err != nil {
		return contracts.Lease{}, *err
	}
	return c.Provider.Renew(ctx, key, r)
}

// TestLockRunTimes: when the lease is not renewed, the command is asked to end and then killed before another can have
// the lock; when it is over, the command is killed at once. The times are those of the help.
func TestLockRunTimes(t *testing.T) {
	type sent struct {
		signal os.Signal
		after  time.Duration // since the last request that succeeded
	}
	const tick = 25 * time.Millisecond // program.end looks so often
	for name, c := range map[string]struct {
		ttl, grace time.Duration
		err        error         // of renewals from the second on
		dies       os.Signal     // what ends the command
		takes      time.Duration // to end then
		itself     time.Duration // when the command ends by itself
		want       []sent
		lost       error
	}{
		"renewed": {30 * time.Second, 0, nil, nil, 0, 10 * time.Minute, nil, nil},
		"ends when asked": {30 * time.Second, 0, errors.New("no route"), syscall.SIGTERM, 2 * time.Second, 0,
			[]sent{{syscall.SIGTERM, 22500 * time.Millisecond}}, locks.ErrLost},
		"ends by itself": {30 * time.Second, 0, errors.New("no route"), nil, 0, 32 * time.Second, nil, nil},
		"ignores SIGTERM": {30 * time.Second, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 22500 * time.Millisecond}, {os.Kill, 29 * time.Second}}, locks.ErrLost},
		"a long lease": {time.Hour, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 3590 * time.Second}, {os.Kill, 3599 * time.Second}}, locks.ErrLost},
		"the shortest": {time.Second, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 750 * time.Millisecond}, {os.Kill, 950 * time.Millisecond}}, locks.ErrLost},
		"a grace": {30 * time.Second, 14 * time.Second, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 16 * time.Second}, {os.Kill, 29 * time.Second}}, locks.ErrLost},
		"no grace": {30 * time.Second, time.Nanosecond, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{os.Kill, 29 * time.Second}}, locks.ErrLost},
		"force-released": {30 * time.Second, 0, contracts.Errorf(contracts.CodeLeaseReleased, "by ann"), os.Kill, 0, 0,
			[]sent{{os.Kill, 10 * time.Second}}, contracts.CodeLeaseReleased},
		"another's already": {30 * time.Second, 0, contracts.Errorf(contracts.CodeLeaseLost, ""), os.Kill, 0, 0,
			[]sent{{os.Kill, 10 * time.Second}}, contracts.CodeLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(40 * 365 * 24 * time.Hour) // past the epoch of tokens
				service := lock.New(docstore.NewMemory(nil), nil)
				provider := &cut{Provider: direct.Locks(service, "default")}
				holder, err := locks.New(provider, &locks.Options{TTL: c.ttl})
				if err != nil {
					t.Fatal(err)
				}
				cmd := &lockRunCmd{Key: "k", Command: []string{"true"}, ttl: ttl{c.ttl}, Grace: c.grace}
				if _, err := cmd.prepare("default"); err != nil {
					t.Fatal(err)
				}
				held, err := holder.Lock(t.Context(), "k", &locks.LockOptions{Margin: max(cmd.Grace, cmd.last())})
				if err != nil {
					t.Fatal(err)
				}
				base := time.Now() // the last request that succeeds is the first renewal
				if c.err != nil {
					time.AfterFunc(c.ttl/2, func() { provider.err.Store(&c.err) })
					base = base.Add(c.ttl / 3)
				}
				var got []sent
				p := &program{name: "true", ended: make(chan struct{})}
				p.send = func(s os.Signal) {
					if at, found, err := service.Get(t.Context(), lock.ID{Tenant: "default", Key: "k"}); err != nil || !found ||
						at.Phase != lock.Active {
						t.Errorf("%v when the lease is over: %+v, %v", s, at, err)
					}
					got = append(got, sent{s, time.Since(base)})
					if s == c.dies {
						time.AfterFunc(c.takes, func() { close(p.ended) })
					}
				}
				if c.itself > 0 {
					time.AfterFunc(c.itself, func() { close(p.ended) })
				}
				if lost := cmd.watch(p, held); !errors.Is(lost, c.lost) {
					t.Errorf("lost: %v, want %v", lost, c.lost)
				}
				// Each may come as late as a look, and as early as the margins of the two clocks.
				if !slices.EqualFunc(got, c.want, func(a, b sent) bool {
					return a.signal == b.signal && a.after > b.after-10*time.Millisecond && a.after <= b.after+tick
				}) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				_ = held.Unlock(t.Context())
				_ = holder.Close(t.Context())
			})
		})
	}
}

// over is a lease that has ended, or has not.
type over struct {
	left time.Duration
	ctx  context.Context //nolint:containedctx // it is what the lease shows
}

func (o over) Left() time.Duration          { return o.left }
func (o over) Context() context.Context     { return o.ctx }
func (o over) Unlock(context.Context) error { return nil }

// TestLeaseOverWhenTheCommandEnds: a command that ends when its lease is over, because all was stopped for a while, did
// not end under the lock; one that ends when the work was to end and the lease lasts did.
func TestLeaseOverWhenTheCommandEnds(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	end(locks.ErrLost)
	cmd := &lockRunCmd{Key: "k", Grace: time.Second}
	p := &program{name: "true", send: func(os.Signal) {}, ended: make(chan struct{})}
	close(p.ended)
	for range 50 { // both have happened, and either may be seen first
		if err := cmd.watch(p, over{ctx: ctx}); !errors.Is(err, locks.ErrLost) {
			t.Fatalf("the lease is over: %v", err)
		}
	}
	if err := cmd.watch(p, over{ctx: t.Context(), left: time.Second}); err != nil {
		t.Errorf("the lease lasts: %v", err)
	}
}

// TestLostAtRelease: a release that is told that the lock was lost makes that of a command that succeeded, and of one
// that failed, because no renewal may have told it before. A release without a response changes nothing: the command
// ended under the lock.
func TestLostAtRelease(t *testing.T) {
	for _, failed := range []error{nil, errors.New("exit status 3")} {
		for _, c := range []struct {
			released error
			lost     bool
		}{
			{nil, false},
			{contracts.Errorf(contracts.CodeLeaseLost, ""), true},
			{contracts.Errorf(contracts.CodeLeaseReleased, "by ann"), true},
			{contracts.Errorf(contracts.CodeNotOwner, ""), true},
			{fmt.Errorf("%w: no route", locks.ErrNotReleased), false},
		} {
			var out, errs bytes.Buffer
			p := &program{name: "true", ended: make(chan struct{}), err: failed}
			err := (&lockRunCmd{Key: "k"}).outcome(p, nil, c.released, &lockCmd{}, &streams{out: &out, err: &errs})
			code := 0
			if e, ok := errors.AsType[*exitError](err); ok {
				code = e.code
			}
			if c.lost != (code == exitLost) || !c.lost && (code == 0) != (failed == nil) {
				t.Errorf("released: %v, the command: %v: exit code %d, %v", c.released, failed, code, err)
			}
			if told := errs.Len() > 0; told != errors.Is(c.released, locks.ErrNotReleased) {
				t.Errorf("released: %v: %q", c.released, errs.String())
			}
		}
	}
}

// TestRelay: a signal before the command is started ends the wait, and no command is started then; one after it is
// passed on and ends nothing.
func TestRelay(t *testing.T) {
	relayed := func(t *testing.T) (r *relay, waiting context.Context, p *program, got *[]os.Signal) {
		waiting, abort := context.WithCancel(t.Context())
		r, got = &relay{abort: abort}, &[]os.Signal{}
		r.listen(t.Context())
		t.Cleanup(r.stop)
		return r, waiting, &program{send: func(s os.Signal) { *got = append(*got, s) }, ended: make(chan struct{})}, got
	}
	t.Run("before", func(t *testing.T) {
		r, waiting, p, got := relayed(t)
		r.take(syscall.SIGHUP)
		if _, err := r.start(func() (*program, error) { return p, nil }); err == nil || r.program != nil ||
			waiting.Err() == nil || !r.aborted() || len(*got) > 0 {
			t.Errorf("started: %v, %v", err, *got)
		}
	})
	t.Run("after", func(t *testing.T) {
		r, waiting, p, got := relayed(t)
		if _, err := r.start(func() (*program, error) { return p, nil }); err != nil {
			t.Fatal(err)
		}
		r.take(syscall.SIGHUP)
		r.take(nil) // the context of the process
		close(p.ended)
		r.take(syscall.SIGTERM) // to no one: the number may be another's by now
		if waiting.Err() != nil || r.aborted() || !slices.Equal(*got, []os.Signal{syscall.SIGHUP}) {
			t.Errorf("ended: %v, %v", waiting.Err(), *got)
		}
	})
}
