package locks_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// scripted is a provider in a bubble that responds as a test says. Its leases can be renewed and released.
type scripted struct {
	t     *testing.T
	begin time.Time
	// acquire is the n-th of them. A lease without a token is filled in.
	acquire func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error)
	// giveUp is the n-th request that gives another up, as far as a test says something of it.
	giveUp func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error)

	mu     sync.Mutex
	asked  []contracts.AcquireRequest
	given  []contracts.AcquireRequest // that give others up
	at     []time.Duration            // when
	calls  []string
	events []locks.Event
}

// inScript runs a test with a client of a scripted provider. What it left to the background has ended when it returns.
func inScript(
	t *testing.T, acquire func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error),
	test func(p *scripted, c *locks.Client),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &scripted{t: t, begin: time.Now(), acquire: acquire}
		c, err := locks.New(p, &locks.Options{Owner: "ann", Observe: func(e locks.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		test(p, c)
		if err := c.Close(background); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func (p *scripted) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	p.mu.Lock()
	if r.GiveUp {
		n := len(p.given)
		p.given, p.calls = append(p.given, r), append(p.calls, "give up")
		p.mu.Unlock()
		if p.giveUp == nil {
			return contracts.Lease{}, nil
		}
		return p.giveUp(ctx, n, r)
	}
	n := len(p.asked)
	p.asked, p.at, p.calls = append(p.asked, r), append(p.at, time.Since(p.begin)), append(p.calls, "acquire")
	p.mu.Unlock()
	l, err := p.acquire(ctx, n, r)
	if err == nil && l.FencingToken == 0 {
		waited := l.WaitedMs
		l = p.lease(key, r, int64(n)+1)
		l.WaitedMs = waited
	}
	return l, err
}

func (p *scripted) lease(key string, r contracts.AcquireRequest, token int64) contracts.Lease {
	l := contracts.Lease{
		TenantID: "acme", LockKey: key, LeaseID: "lease", OwnerID: r.OwnerID, FencingToken: token,
		State:     contracts.StateActive,
		ExpiresAt: "2026-01-01T00:00:00.000Z", RemainingMs: 1000 * (r.TTLSeconds + r.WindowSeconds), TTLSeconds: r.TTLSeconds,
		Mode: r.Mode,
	}
	if r.Mode == contracts.LockModePermits {
		l.Permit = 2
	}
	return l
}

func (p *scripted) Renew(_ context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	p.mu.Lock()
	p.calls = append(p.calls, "renew")
	p.mu.Unlock()
	return p.lease(key, contracts.AcquireRequest{OwnerID: r.OwnerID, TTLSeconds: r.TTLSeconds}, r.FencingToken), nil
}

func (p *scripted) Release(_ context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	p.mu.Lock()
	p.calls = append(p.calls, "release")
	p.mu.Unlock()
	return contracts.EndedLease{
		TenantID: "acme", LockKey: key, LeaseID: "lease", OwnerID: r.OwnerID, FencingToken: r.FencingToken,
		State: contracts.StateReleased,
	}, nil
}

func (p *scripted) Get(context.Context, string) (contracts.Lock, error) {
	return contracts.Lock{}, contracts.CodeNotFound
}

// waits are the wait_seconds of the acquires so far.
func (p *scripted) waits() (all []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.asked {
		all = append(all, r.WaitSeconds)
	}
	return all
}

// names are the calls so far.
func (p *scripted) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// gaveUp are the requests so far that gave others up.
func (p *scripted) gaveUp() []contracts.AcquireRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.given)
}

// last is the latest event.
func (p *scripted) last() locks.Event {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[len(p.events)-1]
}

// requests are the acquires so far, and when they arrived.
func (p *scripted) requests() ([]contracts.AcquireRequest, []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked), slices.Clone(p.at)
}

// ids is how many request_ids the acquires had.
func (p *scripted) ids() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]bool{}
	for _, r := range p.asked {
		all[r.RequestID] = true
	}
	return len(all)
}

// refusal is an error of a provider with a place in line, if there is one.
func refusal(code contracts.Code, position int64) error {
	e := contracts.Errorf(code, "")
	e.Position, e.Owner, e.RetryAfter = position, "bob", 10*time.Second
	return e
}

// waited is a wait of the provider, as long as the request asks for, or until the lock is free.
func waited(ctx context.Context, r contracts.AcquireRequest, free time.Duration) bool {
	wait := time.Duration(r.WaitSeconds) * time.Second
	select {
	case <-time.After(min(wait, free)):
	case <-ctx.Done():
	}
	return free <= wait
}

// TestProviderWaits: the lock is asked for once without a wait, so that it is known whether it is held, and then the
// provider waits, 20 s at a time, with one request_id and no pause in between. The lease is counted from when the
// provider granted it.
func TestProviderWaits(t *testing.T) {
	for name, c := range map[string]struct {
		says int64         // WaitedMs of the lease that is granted after 15 s of the third request
		left time.Duration // of the lock's context
	}{
		"said":                 {15_000, 27*time.Second - time.Millisecond},
		"less than the truth":  {10_000, 22*time.Second - time.Millisecond},
		"not said":             {0, 12*time.Second - time.Millisecond},
		"more than the truth":  {9_000_000, 27*time.Second - time.Millisecond},
		"less than no time":    {-5000, 12*time.Second - time.Millisecond},
		"more than fits a day": {1 << 62, 27*time.Second - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error) {
				if n == 2 && waited(ctx, r, 15*time.Second) {
					return contracts.Lease{WaitedMs: c.says}, nil
				}
				waited(ctx, r, time.Hour)
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
			}, func(p *scripted, client *locks.Client) {
				l, err := client.Lock(background, "deploy", nil)
				if err != nil {
					t.Fatal(err)
				}
				want(t, "remaining", l.Remaining(), c.left)
				want(t, "waits", p.waits(), []int64{0, 20, 20})
				_, at := p.requests()
				want(t, "at", at, s(0, 0, 20))
				want(t, "request_ids", p.ids(), 1)
				want(t, "unlock", l.Unlock(background), nil)
			})
		})
	}
}

// TestWaitedIsOfTheWait: a lease that did not wait is counted from before its request, whatever the response says.
func TestWaitedIsOfTheWait(t *testing.T) {
	inScript(t, func(context.Context, int, contracts.AcquireRequest) (contracts.Lease, error) {
		time.Sleep(1500 * time.Millisecond)
		return contracts.Lease{WaitedMs: 1500}, nil
	}, func(_ *scripted, c *locks.Client) {
		l, err := c.Lock(background, "deploy", nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "remaining", l.Remaining(), 25500*time.Millisecond-time.Millisecond)
		want(t, "unlock", l.Unlock(background), nil)
	})
}

// TestHowLongTheProviderWaits: no longer than the caller does, in whole seconds.
func TestHowLongTheProviderWaits(t *testing.T) {
	for name, c := range map[string]struct {
		o     locks.LockOptions
		limit time.Duration // of the context; 0: none
		waits []int64
	}{
		"not at all":    {locks.LockOptions{Wait: new(time.Duration)}, 0, []int64{0}},
		"a bit":         {locks.LockOptions{Wait: new(1100 * time.Millisecond)}, 0, []int64{0, 2}},
		"a bit more":    {locks.LockOptions{Wait: new(21 * time.Second)}, 0, []int64{0, 20, 1}},
		"the context's": {locks.LockOptions{Wait: new(time.Hour)}, 3 * time.Second, []int64{0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(ctx context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
				waited(ctx, r, time.Hour)
				if ctx.Err() != nil {
					return contracts.Lease{}, ctx.Err()
				}
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
			}, func(p *scripted, client *locks.Client) {
				ctx := background
				if c.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.limit)
					defer cancel()
				}
				_, err := client.Lock(ctx, "deploy", &c.o)
				wantErr(t, "the error", err, contracts.CodeLockHeld)
				// one more if the last was cut off
				if got := p.waits(); !slices.Equal(got[:len(c.waits)], c.waits) || len(got) > len(c.waits)+1 {
					t.Errorf("waits: got %v, want %v", got, c.waits)
				}
				want(t, "request_ids", p.ids(), 1)
			})
		})
	}
}

// TestGiveUpThePlace: who stops to wait says so to a provider that has a place in line for it, or may have one, or may
// have a request that waits: with the same request, once.
func TestGiveUpThePlace(t *testing.T) {
	for name, c := range map[string]struct {
		o        locks.LockOptions
		position int64 // that the provider says
		hangs    bool  // and does not respond to those that wait
		leaves   int   // requests
	}{
		"in line":                          {locks.LockOptions{Fair: true}, 3, false, 1},
		"shared":                           {locks.LockOptions{Shared: true}, 0, false, 1},
		"no line":                          {locks.LockOptions{}, 0, false, 0},
		"in the line of others":            {locks.LockOptions{}, 1, false, 1},
		"no line, a request is under way":  {locks.LockOptions{}, 0, true, 1},
		"in line, a request is under way":  {locks.LockOptions{Fair: true}, 1, true, 1},
		"in line, for a bound time":        {locks.LockOptions{Fair: true, Wait: new(60 * time.Second)}, 1, false, 1},
		"in line, and the bound is passed": {locks.LockOptions{Fair: true, Wait: new(5 * time.Second)}, 1, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(ctx context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
				if r.WaitSeconds > 0 && c.hangs {
					<-ctx.Done()
					return contracts.Lease{}, ctx.Err()
				}
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, c.position*min(1, r.WaitSeconds))
			}, func(p *scripted, client *locks.Client) {
				ctx, cancel := context.WithTimeout(background, 10*time.Second)
				defer cancel()
				_, err := client.Lock(ctx, "deploy", &c.o)
				wantErr(t, "the error", err, contracts.CodeLockHeld)
				time.Sleep(time.Minute)
				want(t, "request_ids", p.ids(), 1)
				asked, _ := p.requests()
				given := asked[0]
				given.GiveUp = true
				want(t, "requests that give up", p.gaveUp(), slices.Repeat([]contracts.AcquireRequest{given}, c.leaves))
			})
		})
	}
}

// TestGiveUpUntilItIsCarriedOut: a request is given up until that is carried out, or rejected for good. That the lock
// is held, and all else that may be said of it, settles nothing: a delivery of the request may still be on its way.
func TestGiveUpUntilItIsCarriedOut(t *testing.T) {
	busy := []error{refusal(contracts.CodeLockHeld, 0), refusal(contracts.CodeLockDelayed, 0),
		contracts.Errorf(contracts.CodeLockQueueFull, ""), contracts.Errorf(contracts.CodeRateLimited, ""),
		contracts.Errorf(contracts.CodeUnavailable, ""), errNetwork}
	for name, c := range map[string]struct {
		says []error // to requests that give up
		want error   // of the event
	}{
		"carried out":     {[]error{nil}, nil},
		"at last":         {append(slices.Clone(busy), nil), nil},
		"it has ended":    {[]error{contracts.Errorf(contracts.CodeRequestIDReused, "")}, nil},
		"busy, and ended": {append(slices.Clone(busy), contracts.CodeRequestIDReused), nil},
		"not allowed":     {[]error{contracts.CodePermissionDenied}, contracts.CodePermissionDenied},
		"not understood":  {[]error{errNetwork, contracts.CodeInvalidArgument}, contracts.CodeInvalidArgument},
	} {
		for _, o := range []locks.LockOptions{{}, {Fair: true}, {Replace: true}} {
			t.Run(name, func(t *testing.T) {
				inScript(t, func(ctx context.Context, _ int, _ contracts.AcquireRequest) (contracts.Lease, error) {
					<-ctx.Done()
					return contracts.Lease{}, ctx.Err()
				}, func(p *scripted, client *locks.Client) {
					p.giveUp = func(_ context.Context, n int, _ contracts.AcquireRequest) (contracts.Lease, error) {
						return contracts.Lease{}, c.says[n]
					}
					ctx, cancel := context.WithTimeout(background, time.Second)
					defer cancel()
					_, err := client.Lock(ctx, "deploy", &o)
					wantErr(t, "the error", err, context.DeadlineExceeded)
					time.Sleep(time.Minute)
					want(t, "requests that give up", len(p.gaveUp()), len(c.says))
					if e := p.last(); e.What != locks.Abandoned || !errors.Is(e.Err, c.want) || (e.Err == nil) != (c.want == nil) {
						t.Errorf("the event %+v, want %v", e, c.want)
					}
				})
			})
		}
	}
}

// TestGiveUpAfterARefusal: an acquire that was refused is given up if one of its tries had no response, and only then;
// not if the same request would be rejected again.
func TestGiveUpAfterARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		says  []error // to each request
		given int
	}{
		"refused":                {[]error{refusal(contracts.CodeLockHeld, 0)}, 0},
		"lost, and refused":      {[]error{errNetwork, refusal(contracts.CodeLockHeld, 0)}, 1},
		"lost, and another mode": {[]error{errNetwork, contracts.CodeLockModeDiffers}, 0},
		"lost, and granted":      {[]error{errNetwork, nil}, 0},
		"its ID is used, then taken": {[]error{errNetwork, contracts.CodeRequestIDReused,
			refusal(contracts.CodeLockHeld, 0)}, 0},
		"it was not sent": {[]error{contracts.Errorf(contracts.CodeRateLimited, ""),
			refusal(contracts.CodeLockHeld, 0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(_ context.Context, n int, _ contracts.AcquireRequest) (contracts.Lease, error) {
				return contracts.Lease{}, c.says[n]
			}, func(p *scripted, client *locks.Client) {
				l, err := client.TryLock(background, "deploy", nil)
				if last := c.says[len(c.says)-1]; (err == nil) != (last == nil) || !errors.Is(err, last) {
					t.Errorf("%v, want %v", err, last)
				}
				if err == nil {
					want(t, "unlock", l.Unlock(background), nil)
				}
				time.Sleep(time.Minute)
				want(t, "requests that give up", len(p.gaveUp()), c.given)
			})
		})
	}
}

// TestProviderThatDoesNotGiveUp: one that does not know GiveUp, and grants the lock instead, is told that it is free.
func TestProviderThatDoesNotGiveUp(t *testing.T) {
	inScript(t, func(ctx context.Context, _ int, _ contracts.AcquireRequest) (contracts.Lease, error) {
		<-ctx.Done()
		return contracts.Lease{}, ctx.Err()
	}, func(p *scripted, client *locks.Client) {
		p.giveUp = func(_ context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
			return p.lease("deploy", r, 7), nil
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := client.Lock(ctx, "deploy", nil)
		wantErr(t, "the error", err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		want(t, "calls", p.names(), []string{"acquire", "give up", "release"})
	})
}

// TestCloseWhileGivenUp: a client that is closed gives up what is to be given up, and waits for that; if there is no
// answer, no longer than it must.
func TestCloseWhileGivenUp(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		inScript(t, func(ctx context.Context, _ int, _ contracts.AcquireRequest) (contracts.Lease, error) {
			<-ctx.Done()
			return contracts.Lease{}, ctx.Err()
		}, func(p *scripted, _ *locks.Client) {
			p.giveUp = func(ctx context.Context, _ int, _ contracts.AcquireRequest) (contracts.Lease, error) {
				if hangs {
					<-ctx.Done()
				}
				time.Sleep(10 * time.Millisecond)
				return contracts.Lease{}, ctx.Err()
			}
			c, err := locks.New(p, &locks.Options{Owner: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(background, time.Second)
			_, err = c.Lock(ctx, "deploy", nil)
			cancel()
			wantErr(t, "the error", err, context.DeadlineExceeded)
			begin := time.Now()
			ctx, cancel = context.WithTimeout(background, time.Second)
			defer cancel()
			err = c.Close(ctx)
			if took := time.Since(begin); hangs != errors.Is(err, locks.ErrNotReleased) || took > 3*time.Second ||
				!hangs && took != 10*time.Millisecond {
				t.Errorf("closed after %v: %v", took, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestProviderThatDoesNotWait: one that has no room for those who wait, or responds at once, is asked as often as
// LockOptions.Poll says, and the lock is acquired in the end.
func TestProviderThatDoesNotWait(t *testing.T) {
	for name, c := range map[string]struct {
		response  error // to a request that waits
		most, min int   // requests
	}{
		"has no room":   {contracts.Errorf(contracts.CodeOverloaded, ""), 72, 30},
		"does not wait": {refusal(contracts.CodeLockHeld, 0), 62, 30},
		"full":          {refusal(contracts.CodeLockQueueFull, 0), 72, 30},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Duration(0)
			inScript(t, func(_ context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
				if begin == 0 {
					begin = time.Duration(time.Now().UnixNano())
				}
				held := time.Duration(time.Now().UnixNano()) < begin+time.Minute
				switch {
				case r.WaitSeconds > 0 && (held || !errors.Is(c.response, contracts.CodeLockHeld)):
					return contracts.Lease{}, c.response
				case held:
					return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
				default:
					return contracts.Lease{}, nil
				}
			}, func(p *scripted, client *locks.Client) {
				l, err := client.Lock(background, "deploy", nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(p.begin); took > 62*time.Second {
					t.Errorf("acquired after %v", took)
				}
				if n := len(p.waits()); n > c.most || n < c.min {
					t.Errorf("%d requests, want %d to %d", n, c.min, c.most)
				}
				want(t, "unlock", l.Unlock(background), nil)
			})
		})
	}
}

// TestTroubleWhileInLine: a request that failed is sent again so that the place in line is kept: with a short wait. If
// the provider has no room for those who wait, that is tried a few times.
func TestTroubleWhileInLine(t *testing.T) {
	for name, c := range map[string]struct {
		err   error // of the requests with a short wait, and of the second one; nil: none to the latter
		times int
		waits []int64 // of the first requests
	}{
		"no response":  {errNetwork, 2, []int64{0, 20, 1, 1, 20}},
		"no room":      {contracts.Errorf(contracts.CodeOverloaded, ""), 9, []int64{0, 20, 1, 1, 0}},
		"hangs":        {nil, 1, []int64{0, 20, 1, 20}},
		"before it is": {contracts.Errorf(contracts.CodeUnavailable, ""), 1, []int64{0, 20, 1, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error) {
				switch {
				case n == 0 || r.WaitSeconds == 0:
					return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
				case n == 1 && name == "no room": // it had a place before
					time.Sleep(20 * time.Second)
					return contracts.Lease{}, refusal(contracts.CodeLockHeld, 1)
				case n <= c.times && c.err == nil:
					<-ctx.Done()
					return contracts.Lease{}, ctx.Err()
				case n <= c.times:
					return contracts.Lease{}, c.err
				case waited(ctx, r, time.Hour):
				}
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, 1)
			}, func(p *scripted, client *locks.Client) {
				ctx, cancel := context.WithTimeout(background, time.Minute)
				defer cancel()
				_, err := client.Lock(ctx, "deploy", &locks.LockOptions{Fair: true})
				if err == nil {
					t.Error("it was acquired")
				}
				got := p.waits()
				if name == "no room" {
					got = slices.Delete(got, 2, 3) // it was asked as long as it said
				}
				if len(got) < len(c.waits) || !slices.Equal(got[:len(c.waits)], c.waits) {
					t.Errorf("waits: got %v, want %v", p.waits(), c.waits)
				}
			})
		})
	}
}

// TestRefusalsOfModes: what there is no use to wait for is said at once; a lock that is closed for its delay is waited
// for.
func TestRefusalsOfModes(t *testing.T) {
	for name, c := range map[string]struct {
		o        locks.LockOptions
		code     contracts.Code
		requests int // until the error; 0: acquired
	}{
		"another mode":           {locks.LockOptions{Permits: 3}, contracts.CodeLockModeDiffers, 1},
		"full":                   {locks.LockOptions{Fair: true, MaxWaiting: 1}, contracts.CodeLockQueueFull, 1},
		"delayed":                {locks.LockOptions{}, contracts.CodeLockDelayed, 0},
		"delayed, does not wait": {locks.LockOptions{Wait: new(time.Duration)}, contracts.CodeLockDelayed, 1},
		"full, does not wait":    {locks.LockOptions{Fair: true, Wait: new(time.Duration)}, contracts.CodeLockQueueFull, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inScript(t, func(_ context.Context, n int, _ contracts.AcquireRequest) (contracts.Lease, error) {
				if n == 0 {
					return contracts.Lease{}, refusal(c.code, 0)
				}
				return contracts.Lease{}, nil
			}, func(p *scripted, client *locks.Client) {
				l, err := client.Lock(background, "deploy", &c.o)
				if c.requests == 0 {
					want(t, "error", err, nil)
					want(t, "unlock", l.Unlock(background), nil)
					return
				}
				wantErr(t, "error", err, c.code)
				want(t, "requests", len(p.waits()), c.requests)
				want(t, "after", time.Since(p.begin), 0)
			})
		})
	}
}

// TestNotTheModeThatWasAskedFor: a lease in another mode, or with a permit that there is not, is none.
func TestNotTheModeThatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		o      locks.LockOptions
		change func(*contracts.Lease)
	}{
		"shared":           {locks.LockOptions{}, func(l *contracts.Lease) { l.Mode = contracts.LockModeShared }},
		"exclusive":        {locks.LockOptions{Shared: true}, func(l *contracts.Lease) { l.Mode = "" }},
		"no permit":        {locks.LockOptions{Permits: 3}, func(l *contracts.Lease) { l.Permit = 0 }},
		"the fourth of 3":  {locks.LockOptions{Permits: 3}, func(l *contracts.Lease) { l.Permit = 4 }},
		"a permit of none": {locks.LockOptions{}, func(l *contracts.Lease) { l.Permit = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			var p *scripted
			inScript(t, func(_ context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
				if r.RequestID == "" {
					return contracts.Lease{}, errNetwork
				}
				l := p.lease("deploy", r, 7)
				if time.Since(p.begin) < 30*time.Second {
					c.change(&l)
				}
				return l, nil
			}, func(own *scripted, client *locks.Client) {
				p = own
				_, err := client.TryLock(background, "deploy", &c.o)
				if err == nil || !strings.Contains(err.Error(), "invalid response: the lease has the ") {
					t.Errorf("the error is %v", err)
				}
				time.Sleep(time.Minute)
				// What it did not want. A try that began at the very end of the call may come after it.
				if last := p.names()[max(0, len(p.names())-2):]; !slices.Contains(last, "give up") {
					t.Errorf("the last calls are %q", last)
				}
			})
		})
	}
}

// TestWaitersOfOneClient: goroutines that ask for a lock with several holders ask at once, and while it is held one at
// a time waits at the provider, in their order. With MaxWaiting, and for what replaces, each is on its own.
func TestWaitersOfOneClient(t *testing.T) {
	for name, c := range map[string]struct {
		o        locks.LockOptions
		first    int // requests of 5 goroutines without a wait
		together int // that wait at the provider at a time
	}{
		"shared":                 {locks.LockOptions{Shared: true}, 5, 1},
		"permits":                {locks.LockOptions{Permits: 3}, 5, 1},
		"exclusive":              {locks.LockOptions{}, 1, 1},
		"fair":                   {locks.LockOptions{Fair: true}, 1, 1},
		"each with a place":      {locks.LockOptions{Fair: true, MaxWaiting: 9}, 5, 5},
		"permits, each a place":  {locks.LockOptions{Permits: 3, MaxWaiting: 9}, 5, 5},
		"each replaces the last": {locks.LockOptions{Replace: true}, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var first, waiting, most int
			var order []string
			inScript(t, func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error) {
				mu.Lock()
				if r.WaitSeconds == 0 {
					if n == 0 || c.first == 5 {
						first++
					}
					mu.Unlock()
					return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
				}
				waiting++
				most = max(most, waiting)
				order = append(order, r.Metadata["i"])
				mu.Unlock()
				waited(ctx, r, time.Second)
				mu.Lock()
				defer mu.Unlock()
				waiting--
				return contracts.Lease{}, nil
			}, func(_ *scripted, client *locks.Client) {
				var all sync.WaitGroup
				for i := range 5 {
					o := c.o
					o.Metadata = map[string]string{"i": strconv.Itoa(i)}
					all.Go(func() {
						if err := client.Do(background, "deploy", &o,
							func(context.Context, *locks.Lock) error { return nil }); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				want(t, "first requests", first, c.first)
				want(t, "at a time", most, c.together)
				want(t, "order", order, []string{"0", "1", "2", "3", "4"})
			})
		})
	}
}

// TestTake: a grant of a rate is a token, after as long a wait as it takes. It is not renewed and not released.
func TestTake(t *testing.T) {
	rate := locks.Rate{Limit: 10, Window: time.Minute}
	t.Run("granted", func(t *testing.T) {
		inScript(t, func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error) {
			if n == 0 || !waited(ctx, r, 4*time.Second) {
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
			}
			return contracts.Lease{}, nil
		}, func(p *scripted, c *locks.Client) {
			token, err := c.Take(background, "mail", rate, &locks.TakeOptions{MaxWaiting: 5,
				Metadata: map[string]string{"a": "b"}})
			want(t, "error", err, nil)
			want(t, "token", token, 2)
			want(t, "after", time.Since(p.begin), 4*time.Second)
			asked, _ := p.requests()
			r := asked[1]
			r.RequestID = ""
			want(t, "request", r, contracts.AcquireRequest{
				OwnerID: "ann", Mode: contracts.LockModeRate, Limit: 10, WindowSeconds: 60, WaitSeconds: 20, MaxWaiting: 5,
				Metadata: map[string]string{"a": "b"},
			})
			time.Sleep(time.Hour)
			want(t, "calls", p.names(), []string{"acquire", "acquire"})
			want(t, "event", p.last().What, locks.Taken)
		})
	})
	t.Run("not now", func(t *testing.T) {
		inScript(t, func(context.Context, int, contracts.AcquireRequest) (contracts.Lease, error) {
			return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
		}, func(_ *scripted, c *locks.Client) {
			_, err := c.Take(background, "mail", rate, &locks.TakeOptions{Wait: new(time.Duration)})
			if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeLockHeld ||
				e.RetryAfter != 10*time.Second {
				t.Errorf("the error is %v", err)
			}
		})
	})
	t.Run("given up", func(t *testing.T) {
		inScript(t, func(ctx context.Context, n int, r contracts.AcquireRequest) (contracts.Lease, error) {
			if n < 2 {
				waited(ctx, r, time.Hour)
				return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
			}
			return contracts.Lease{}, nil
		}, func(p *scripted, c *locks.Client) {
			_, err := c.Take(background, "mail", rate, &locks.TakeOptions{Wait: new(3 * time.Second)})
			wantErr(t, "error", err, contracts.CodeLockHeld)
			time.Sleep(time.Minute)
			want(t, "waits", p.waits(), []int64{0, 3})
			want(t, "calls", p.names(), []string{"acquire", "acquire", "give up"})
		})
	})
	t.Run("given up before it waited", func(t *testing.T) { // it may use up a grant when it arrives
		inScript(t, func(ctx context.Context, _ int, _ contracts.AcquireRequest) (contracts.Lease, error) {
			<-ctx.Done()
			return contracts.Lease{}, ctx.Err()
		}, func(p *scripted, c *locks.Client) {
			ctx, cancel := context.WithTimeout(background, 1500*time.Millisecond)
			defer cancel()
			_, err := c.Take(ctx, "mail", rate, nil)
			wantErr(t, "error", err, context.DeadlineExceeded)
			time.Sleep(time.Minute)
			want(t, "calls", p.names(), []string{"acquire", "give up"})
		})
	})
	t.Run("closed", func(t *testing.T) {
		inScript(t, func(ctx context.Context, _ int, r contracts.AcquireRequest) (contracts.Lease, error) {
			waited(ctx, r, time.Hour)
			return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
		}, func(_ *scripted, c *locks.Client) {
			time.AfterFunc(5*time.Second, func() { want(t, "close", c.Close(background), nil) })
			_, err := c.Take(background, "mail", rate, nil)
			wantErr(t, "error", err, locks.ErrClosed)
		})
	})
}

// TestOptionsOfModes: what cannot work is an error that names the field; the bounds are those of the rule.
func TestOptionsOfModes(t *testing.T) {
	if locks.MaxPermits != lock.MaxPermits || locks.MaxWaiting != lock.MaxWaiting || locks.MaxRate != lock.MaxRate ||
		locks.MaxWindow != lock.MaxWindowSeconds*time.Second || locks.MaxLockDelay != lock.MaxLockDelaySeconds*time.Second {
		t.Error("the bounds differ from those of package lock")
	}
	inScript(t, func(context.Context, int, contracts.AcquireRequest) (contracts.Lease, error) {
		return contracts.Lease{}, refusal(contracts.CodeLockHeld, 0)
	}, func(p *scripted, c *locks.Client) {
		for text, o := range map[string]locks.LockOptions{
			"LockOptions.Permits is 101":                 {Permits: 101},
			"LockOptions.Permits is -1":                  {Permits: -1},
			"LockOptions.Shared and Permits":             {Shared: true, Permits: 2},
			"LockOptions.Replace is set":                 {Replace: true, Permits: 2},
			"LockOptions.Replace is set: a":              {Replace: true, Shared: true},
			"LockOptions.MaxWaiting is 101":              {MaxWaiting: 101, Fair: true},
			"LockOptions.MaxWaiting is -1":               {MaxWaiting: -1, Fair: true},
			"LockOptions.MaxWaiting is set: it needs":    {MaxWaiting: 1},
			"LockOptions.LockDelay is -1s":               {LockDelay: -time.Second},
			"LockOptions.LockDelay is 1.5s: must be who": {LockDelay: 1500 * time.Millisecond},
			"LockOptions.LockDelay is 1h0m1s":            {LockDelay: time.Hour + time.Second},
		} {
			if _, err := c.TryLock(background, "deploy", &o); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", text, err)
			}
		}
		ok := locks.Rate{Limit: 1, Window: time.Second}
		for text, take := range map[string]struct {
			key  string
			rate locks.Rate
			o    locks.TakeOptions
		}{
			"Rate.Limit is 0":     {"k", locks.Rate{Window: time.Second}, locks.TakeOptions{}},
			"Rate.Limit is 1001":  {"k", locks.Rate{Limit: 1001, Window: time.Second}, locks.TakeOptions{}},
			"Rate.Window is 0s":   {"k", locks.Rate{Limit: 1}, locks.TakeOptions{}},
			"Rate.Window is 1.5s": {"k", locks.Rate{Limit: 1, Window: 1500 * time.Millisecond}, locks.TakeOptions{}},
			"Rate.Window is 24h0m1s": {"k", locks.Rate{Limit: 1, Window: 24*time.Hour + time.Second},
				locks.TakeOptions{}},
			"TakeOptions.Wait is -1s":       {"k", ok, locks.TakeOptions{Wait: new(-time.Second)}},
			"TakeOptions.Poll is 1ms":       {"k", ok, locks.TakeOptions{Poll: time.Millisecond}},
			"TakeOptions.MaxWaiting is 101": {"k", ok, locks.TakeOptions{MaxWaiting: 101}},
			"the key has 0 bytes":           {"", ok, locks.TakeOptions{}},
		} {
			if _, err := c.Take(background, take.key, take.rate, &take.o); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", text, err)
			}
		}
		want(t, "requests", len(p.waits()), 0)
		for _, o := range []locks.LockOptions{{Permits: 100}, {Shared: true, MaxWaiting: 100},
			{LockDelay: time.Hour, Replace: true, Fair: true, MaxWaiting: 1}} {
			_, err := c.TryLock(background, "deploy", &o)
			wantErr(t, "at the bound", err, contracts.CodeLockHeld)
		}
		_, err := c.Take(background, "mail", locks.Rate{Limit: 1000, Window: 24 * time.Hour},
			&locks.TakeOptions{Wait: new(time.Duration)})
		wantErr(t, "at the bound", err, contracts.CodeLockHeld)
		want(t, "requests", len(p.waits()), 4)
	})
}
