package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/hold"
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
		"ends when asked": {30 * time.Second, 0, errors.New("no route"), syscall.SIGTERM, time.Second, 0,
			[]sent{{syscall.SIGTERM, 27 * time.Second}}, locks.ErrLost},
		"ends by itself": {30 * time.Second, 0, errors.New("no route"), nil, 0, 32 * time.Second, nil, nil},
		"ignores SIGTERM": {30 * time.Second, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 27 * time.Second}, {os.Kill, 29 * time.Second}}, locks.ErrLost},
		"a long lease": {time.Hour, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 3590 * time.Second}, {os.Kill, 3599 * time.Second}}, locks.ErrLost},
		"the shortest": {time.Second, 0, errors.New("no route"), os.Kill, 0, 0,
			[]sent{{syscall.SIGTERM, 900 * time.Millisecond}, {os.Kill, 950 * time.Millisecond}}, locks.ErrLost},
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
				held, err := holder.Lock(t.Context(), "k", &locks.LockOptions{Margin: max(cmd.Grace, last(cmd.TTL))})
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

// TestNotAcquired: each error of an acquire has its exit code. A grant that came when its lease was about to end is no
// error of the caller's: it is one of a server that did not respond in time.
func TestNotAcquired(t *testing.T) {
	held, full := contracts.Errorf(contracts.CodeLockHeld, ""), contracts.Errorf(contracts.CodeLockQueueFull, "")
	for name, c := range map[string]struct {
		err     error
		wait    time.Duration
		skip    bool
		aborted bool
		want    int
	}{
		"held":                      {held, 0, false, false, exitOtherHolds},
		"held until the wait ended": {held, time.Minute, false, false, exitWaited},
		"held, and skipped":         {held, time.Minute, true, false, 0},
		"delayed":                   {contracts.Errorf(contracts.CodeLockDelayed, ""), 0, false, false, exitOtherHolds},
		"too many wait":             {full, time.Minute, false, false, exitOtherHolds},
		"too many wait, skipped":    {full, time.Minute, true, false, 0},
		"granted too late":          {contracts.Errorf(contracts.CodeLeaseExpired, ""), 0, false, false, exitUnavailable},
		"granted too late, to skip": {contracts.Errorf(contracts.CodeLeaseExpired, ""), 0, true, false, exitUnavailable},
		"not allowed":               {contracts.Errorf(contracts.CodePermissionDenied, ""), 0, true, false, exitTrouble},
		"overloaded":                {contracts.Errorf(contracts.CodeOverloaded, ""), 0, true, false, exitUnavailable},
		"no response":               {errors.New("no route"), time.Minute, true, false, exitUnavailable},
		"interrupted":               {held, time.Minute, true, true, exitInterrupted},
	} {
		var out, errs bytes.Buffer
		s := &streams{out: &out, err: &errs}
		cmd := &lockRunCmd{Key: "k", Wait: c.wait, Skip: c.skip}
		err := cmd.notAcquired(fmt.Errorf("lock \"k\": %w", c.err), &relay{over: c.aborted}, &lockCmd{}, s)
		code := 0
		if err != nil {
			code = report(t.Context(), err, false, s)
		}
		if code != c.want {
			t.Errorf("%s: exit code %d, want %d: %v", name, code, c.want, err)
		}
		if said := errs.Len() > 0; !said {
			t.Errorf("%s: nothing is said", name)
		}
	}
}

// away is a provider whose server refuses connections, or hangs, and has never answered.
type away struct {
	locks.Provider

	hangs bool
	until time.Time // when it is there again
	asked int
}

func (a *away) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	a.asked++
	end, _ := ctx.Deadline()
	switch {
	case time.Now().After(a.until):
		return a.Provider.Acquire(ctx, key, r)
	case a.hangs, !time.Now().Before(end): // what ends in a connection's place does not say that nothing was sent
		<-ctx.Done()
		return contracts.Lease{}, ctx.Err()
	default:
		return contracts.Lease{}, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
}

// TestServerThatIsAway: a command that does not wait gives up after three seconds and several tries, one that waits
// after its wait and five seconds, and no later than after ten where connections are refused. Nothing is given up then:
// nothing was granted. One that waits outlasts an outage of nine seconds.
func TestServerThatIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		wait, outage time.Duration
		hangs        bool
		want         time.Duration // 0: it has the lock
	}{
		"does not wait":                          {0, time.Hour, false, 3 * time.Second},
		"does not wait, hangs":                   {0, time.Hour, true, 3 * time.Second},
		"waits for a moment":                     {300 * time.Millisecond, time.Hour, false, 5300 * time.Millisecond},
		"waits for five minutes":                 {5 * time.Minute, time.Hour, false, 10 * time.Second},
		"waits for five minutes, and it is back": {5 * time.Minute, 9 * time.Second, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				a := &away{Provider: direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme"), hangs: c.hangs,
					until: begin.Add(c.outage)}
				cmd := &lockRunCmd{Key: "k", Wait: c.wait, Command: []string{"true"}}
				cmd.TTL = 30 * time.Second
				if _, err := cmd.prepare("acme"); err != nil {
					t.Fatal(err)
				}
				var errs bytes.Buffer
				holder, err := locks.New(a, cmd.holding(&lockCmd{}, &streams{out: &errs, err: &errs}))
				if err != nil {
					t.Fatal(err)
				}
				held, _, err := cmd.acquire(t.Context(), holder)
				took := time.Since(begin)
				if (err == nil) != (c.want == 0) || c.want > 0 && took != c.want || a.asked < 2 || a.asked > 60 {
					t.Errorf("after %v and %d requests, want %v: %v", took, a.asked, c.want, err)
				}
				if held != nil {
					_ = held.Unlock(t.Context())
				}
				begin = time.Now()
				err = holder.Close(t.Context())
				if took := time.Since(begin); !c.hangs && (err != nil || took > 0) || took > hold.CallTime {
					t.Errorf("closed after %v more: %v", took, err)
				}
				a.until = time.Time{} // what it may have asked for is given up
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestVariablesOfAnInnerCommand: a command under a lock finds its own locks in its environment, and none that an outer
// command holds.
func TestVariablesOfAnInnerCommand(t *testing.T) {
	for name, value := range map[string]string{"LEASEHOLD_KEY": "outer", "LEASEHOLD_FENCING_TOKEN": "7",
		"LEASEHOLD_FENCING_SUBJECT": "outer", "LEASEHOLD_FENCING_SUBJECT_2": "outer",
		"LEASEHOLD_KEY_2": "outer-2", "LEASEHOLD_FENCING_TOKEN_2": "8", "LEASEHOLD_PERMIT": "3", "OTHER": "stays"} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()
	for args, want := range map[string][]string{
		"lock run k -- env": {"LEASEHOLD_FENCING_SUBJECT=lock/k", "LEASEHOLD_FENCING_TOKEN", "LEASEHOLD_KEY=k", "OTHER=stays"},
		"lock run k --also l -- env": {"LEASEHOLD_FENCING_SUBJECT=lock/k", "LEASEHOLD_FENCING_SUBJECT_2=lock/l", "LEASEHOLD_FENCING_TOKEN", "LEASEHOLD_FENCING_TOKEN_2", "LEASEHOLD_KEY=k",
			"LEASEHOLD_KEY_2=l", "OTHER=stays"},
		"once report -- env": {"LEASEHOLD_FENCING_SUBJECT=run/report", "LEASEHOLD_FENCING_TOKEN", "OTHER=stays"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields("--server "+server.URL+" "+args), &out, &errs); code != 0 {
			t.Fatalf("%s: %d %s", args, code, &errs)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			name, value, _ := strings.Cut(line, "=")
			switch {
			case strings.HasPrefix(name, "LEASEHOLD_FENCING_TOKEN") && len(value) > 1: // it is not the outer one's
				got = append(got, name)
			case strings.HasPrefix(name, "LEASEHOLD_KEY"), strings.HasPrefix(name, "LEASEHOLD_FENCING_SUBJECT"), name == "LEASEHOLD_PERMIT", name == "OTHER":
				got = append(got, line)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// TestInterruptedWhileItReleases: signals are passed on to the command as long as it runs, and count for this process
// from then on: the second one does not wait for a release that hangs.
func TestInterruptedWhileItReleases(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	i := &interrupts{end: end, exit: func(int) {}, say: io.Discard, hurried: make(chan struct{})}
	api := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil)
	hurried := make(chan bool, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/release") {
			for range 2 {
				i.take()
				hurried <- i.hurry()
			}
		}
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	var out, errs bytes.Buffer
	args := strings.Fields("--server " + server.URL + " lock run k -- true")
	if code := run(context.WithValue(ctx, interruptsKey{}, i), args, &out, &errs); code != 0 || len(hurried) != 2 {
		t.Fatalf("%d %s: %d signals", code, &errs, len(hurried))
	}
	if first, second := <-hurried, <-hurried; first || !second {
		t.Errorf("hurried by the first signal: %v, by the second: %v", first, second)
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
	t.Run("before, and again", func(t *testing.T) {
		r, _, _, _ := relayed(t)
		stop, stopped := r.stop, false
		r.stop = func() { stopped = true; stop() }
		r.take(syscall.SIGHUP)
		if !stopped {
			t.Error("the second signal is taken from this process")
		}
	})
	t.Run("counted again", func(t *testing.T) {
		i := &interrupts{end: func() {}, exit: func(int) {}, say: io.Discard, hurried: make(chan struct{})}
		r := &relay{abort: func() {}}
		r.listen(context.WithValue(t.Context(), interruptsKey{}, i))
		if _, err := r.start(func() (*program, error) { return &program{}, nil }); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			i.take() // the command's
		}
		r.stop()
		i.take()
		if i.hurry() {
			t.Error("what was passed on is counted")
		}
		i.take()
		if !i.hurry() {
			t.Error("the second signal after the command's end is not counted")
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
