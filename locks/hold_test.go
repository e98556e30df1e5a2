package locks_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// take acquires a lock that is free.
func (w *world) take(c *locks.Client, key string, o *locks.LockOptions) *locks.Lock {
	w.t.Helper()
	l, err := c.TryLock(w.t.Context(), key, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// lostAfter waits until the lock's context ends, and returns after how long since a time.
func lostAfter(l *locks.Lock, since time.Time) time.Duration {
	<-l.Context().Done()
	return time.Since(since)
}

// TestLossInTime: a lock that cannot be renewed is lost a tenth of its ttl before the lease ends, counted from before
// the request that granted or last renewed it, and the cause says why.
func TestLossInTime(t *testing.T) {
	const early = time.Millisecond // a store cuts its time to milliseconds
	for name, c := range map[string]struct {
		o       locks.LockOptions
		slow    time.Duration // of the response to the acquire
		renewed int           // so many renewals succeed
		want    time.Duration // since before the acquire
	}{
		"never renewed":         {locks.LockOptions{}, 0, 0, 27*time.Second - early},
		"renewed once":          {locks.LockOptions{}, 0, 1, 37*time.Second - early},
		"a slow acquire":        {locks.LockOptions{}, 1900 * time.Millisecond, 0, 27*time.Second - early},
		"another margin":        {locks.LockOptions{Margin: 10 * time.Second}, 0, 0, 20*time.Second - early},
		"a short ttl":           {locks.LockOptions{TTL: time.Second}, 0, 0, 900*time.Millisecond - early},
		"a margin of almost no": {locks.LockOptions{Margin: 1}, 0, 0, 30*time.Second - early - 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = func(_ context.Context, k call) fault {
					switch {
					case k.name == "acquire":
						time.Sleep(c.slow)
					case k.name == "renew" && k.n >= c.renewed:
						return fault{err: errNetwork}
					}
					return fault{}
				}
				slowly := func(l *locks.Lock) {
					want(w.t, "lost after", lostAfter(l, w.begin), c.want)
					wantErr(w.t, "the cause", context.Cause(l.Context()), locks.ErrLost, errNetwork)
					wantErr(w.t, "Check", locks.Check(l.Context()), locks.ErrLost)
					want(w.t, "remaining", l.Remaining(), 0)
				}
				l := w.take(w.client(nil), "deploy", &c.o)
				slowly(l)
				if w.holder("deploy") == "" && c.slow == 0 {
					w.t.Error("the lease has ended before the context")
				}
				wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost)
				want(w.t, "holder", w.holder("deploy"), "") // it was released before its end
			})
		})
	}
}

// TestLostResponseOfARenewal: the same request is sent again, and the lease is counted from the try that has a
// response. LS-ACC-04
func TestLostResponseOfARenewal(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "renew" && k.n == 0 {
				return fault{errNetwork, true}
			}
			return fault{}
		}
		l := w.take(w.client(nil), "deploy", nil)
		time.Sleep(12 * time.Second)
		r := w.of("renew")
		if len(r) != 2 || r[0].request != r[1].request {
			w.t.Fatalf("renewals: %+v", r)
		}
		if left := l.Remaining(); left > 25*time.Second || left < 24*time.Second { // of the renewal at 10 s
			w.t.Errorf("%v are left", left)
		}
		time.Sleep(10 * time.Second)
		r = w.of("renew")
		if len(r) != 3 || r[2].request == r[0].request || r[2].at.Round(time.Second) != 20*time.Second {
			w.t.Errorf("renewals: %+v", r)
		}
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
		want(w.t, "events", w.whats(), []string{"Acquired", "RenewalFailed", "Renewed", "Renewed", "Released"})
	})
}

// TestSlowRenewal: the lease is counted from before the renewal, not from its response.
func TestSlowRenewal(t *testing.T) {
	inWorlds(t, func(w *world) {
		inner := w.Provider
		w.Provider = slow{inner, 1500 * time.Millisecond}
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "renew" && k.n > 0 {
				return fault{err: errNetwork}
			}
			return fault{}
		}
		l := w.take(w.client(nil), "deploy", nil)
		want(w.t, "lost after", lostAfter(l, w.begin), 37*time.Second-time.Millisecond)
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost)
	})
}

// slow is a provider whose responses to renewals take a while.
type slow struct {
	locks.Provider
	by time.Duration
}

func (s slow) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	l, err := s.Provider.Renew(ctx, key, r)
	time.Sleep(s.by)
	return l, err
}

// TestShortLeases: a provider whose renewals last much shorter than they should is not asked without end.
func TestShortLeases(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.Provider = short{w.Provider, 5000}
		l := w.take(w.client(nil), "deploy", nil)
		time.Sleep(70 * time.Second)
		if n := len(w.of("renew")); n < 50 || n > 61 {
			w.t.Errorf("%d renewals in a minute", n)
		}
		want(w.t, "check", locks.Check(l.Context()), nil)
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
	})
}

// short is a provider whose renewals last for so many milliseconds.
type short struct {
	locks.Provider
	ms int64
}

func (s short) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	l, err := s.Provider.Renew(ctx, key, r)
	l.RemainingMs = s.ms
	return l, err
}

// TestRenewedTooLate: a renewal that says that its lease has ended is a loss.
func TestRenewedTooLate(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.Provider = short{w.Provider, -1}
		l := w.take(w.client(nil), "deploy", nil)
		want(w.t, "lost after", lostAfter(l, w.begin), 10*time.Second)
		wantErr(w.t, "the cause", context.Cause(l.Context()), locks.ErrLost, contracts.CodeLeaseExpired)
		want(w.t, "events", w.whats(), []string{"Acquired", "Lost"})
	})
}

// TestLeaseChanged: a renewal names the expiry that it knows. If the lease expires at another time, it is renewed from
// there, at once: later if a renewal before had no response, or earlier, because the provider has lost one.
func TestLeaseChanged(t *testing.T) {
	for name, c := range map[string]struct {
		fault fault // of the first renewal
		ttl   int64 // of the duplicate
		tries int
	}{
		"later":   {fault{err: errNetwork}, 30, 3},
		"earlier": {fault{}, 20, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = func(_ context.Context, k call) fault {
					if k.name == "renew" && k.n == 0 {
						return c.fault
					}
					return fault{}
				}
				l := w.take(w.client(&locks.Options{Owner: "ann"}), "deploy", nil)
				time.Sleep(5 * time.Second)
				if _, err := w.Provider.Renew(background, "deploy", contracts.RenewRequest{
					OwnerID: "ann", FencingToken: l.Token(), RequestID: "a duplicate", TTLSeconds: c.ttl,
				}); err != nil {
					w.t.Fatal(err)
				}
				time.Sleep(7 * time.Second)
				got := w.renewals()
				if len(got) != c.tries || got[0] != 10*time.Second || got[c.tries-1] != got[c.tries-2] {
					w.t.Fatalf("renewals: %v", got)
				}
				want(w.t, "check", locks.Check(l.Context()), nil)
				want(w.t, "remaining", l.Remaining(), 15*time.Second-time.Millisecond+got[c.tries-1])
				want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
			})
		})
	}
}

// TestClones: of two copies of a process that hold one lease, one loses it at its next renewal, and leaves it to the
// other: it releases nothing.
func TestClones(t *testing.T) {
	for name, outage := range map[string]bool{"at once": false, "after an outage": true} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				ann := &locks.Options{Owner: "ann"}
				l := w.take(w.client(ann), "deploy", nil)
				time.Sleep(5 * time.Second)
				clone, err := locks.Clone(w.client(ann), l)
				if err != nil {
					w.t.Fatal(err)
				}
				if outage { // either may have renewed it, as far as they know, but not for ever
					w.fault = func(_ context.Context, k call) fault {
						if k.name == "renew" && k.at < 15*time.Second {
							return fault{err: errNetwork}
						}
						return fault{}
					}
				}
				var loser, other *locks.Lock
				select {
				case <-l.Context().Done():
					loser, other = l, clone
				case <-clone.Context().Done():
					loser, other = clone, l
				}
				if at := time.Since(w.begin); !outage && at != 10*time.Second || outage && at > 30*time.Second {
					w.t.Errorf("one is lost after %v", at)
				}
				cause := context.Cause(loser.Context())
				wantErr(w.t, "the cause", cause, locks.ErrLost, contracts.CodeLeaseChanged)
				if !strings.Contains(cause.Error(), "a copy of this one") {
					w.t.Errorf("the cause is %v", cause)
				}
				want(w.t, "left of the lost", loser.Left(), 0)
				wantErr(w.t, "unlock of the lost", loser.Unlock(w.t.Context()), locks.ErrLost)
				time.Sleep(time.Minute)
				want(w.t, "releases", len(w.of("release")), 0)
				want(w.t, "the other", locks.Check(other.Context()), nil)
				want(w.t, "unlock of the other", other.Unlock(w.t.Context()), nil)
				want(w.t, "holder", w.holder("deploy"), "")
			})
		})
	}
}

// TestTaken: what the provider says of the lease ends the context at the next renewal, with its code.
func TestTaken(t *testing.T) {
	for name, code := range map[string]contracts.Code{
		"ended by an administrator": contracts.CodeLeaseReleased,
		"the record is gone":        contracts.CodeLeaseLost,
		"expired":                   contracts.CodeLeaseExpired,
		"another owner":             contracts.CodeNotOwner,
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = func(_ context.Context, k call) fault {
					if k.name == "renew" && code != contracts.CodeLeaseReleased {
						return fault{err: contracts.Errorf(code, "")}
					}
					return fault{}
				}
				l := w.take(w.client(nil), "deploy", nil)
				if _, err := lock.New(w.store, nil).ForceRelease(background, lock.ForceRelease{
					ID: lock.ID{Tenant: "acme", Key: "deploy"}, By: "root", RequestID: "f", Reason: "maintenance",
				}); err != nil {
					w.t.Fatal(err)
				}
				want(w.t, "lost after", lostAfter(l, w.begin), 10*time.Second)
				wantErr(w.t, "the cause", context.Cause(l.Context()), locks.ErrLost, code)
				if cause := context.Cause(l.Context()).Error(); code == contracts.CodeLeaseReleased &&
					!strings.Contains(cause, "root: maintenance") {
					w.t.Errorf("the cause is %s", cause)
				}
				wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost, code)
				want(w.t, "calls", w.names(), []string{"acquire", "renew"}) // there is nothing to release
				want(w.t, "events", w.whats(), []string{"Acquired", "Lost"})
			})
		})
	}
}

// TestLeft: what is done under a lock has until the end of its lease, as the latest renewal left it, also when its
// context has ended so much before it as the margin says. Nothing is left of a lease that is over.
func TestLeft(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		l, err := c.Lock(w.t.Context(), "deploy", &locks.LockOptions{Margin: 5 * time.Second})
		if err != nil {
			w.t.Fatal(err)
		}
		left := func(what string, lease, ctx time.Duration) { // less a part that two clocks may differ by
			w.t.Helper()
			for _, d := range []struct {
				name      string
				got, most time.Duration
			}{{"Left", l.Left(), lease}, {"Remaining", l.Remaining(), ctx}} {
				if d.got > d.most || d.got < d.most-d.most/100 {
					w.t.Errorf("%s: %s is %v, want %v", what, d.name, d.got, d.most)
				}
			}
		}
		left("at once", 30*time.Second, 25*time.Second)
		time.Sleep(4 * time.Second)
		left("after 4 s", 26*time.Second, 21*time.Second)
		time.Sleep(7 * time.Second) // it was renewed after 10 s
		left("a second after the renewal", 29*time.Second, 24*time.Second)
		w.meets(func(context.Context, call) fault { return fault{err: errNetwork} })
		time.Sleep(25 * time.Second)
		left("when its context has ended", 4*time.Second, 0)
		wantErr(w.t, "the cause", locks.Check(l.Context()), locks.ErrLost)
		time.Sleep(4 * time.Second)
		left("when the lease has ended", 0, 0)
		w.meets(nil)
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost)

		if l, err = c.Lock(w.t.Context(), "deploy", nil); err != nil {
			w.t.Fatal(err)
		}
		w.meets(func(context.Context, call) fault { return fault{err: contracts.CodeLeaseReleased} })
		time.Sleep(11 * time.Second)
		left("when the provider has said that it is over", 0, 0)
		w.meets(nil)
	})
}

// TestMaxHold: the lock is given up on purpose, and not renewed beyond that.
func TestMaxHold(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		err := c.Do(w.t.Context(), "deploy", &locks.LockOptions{MaxHold: 45 * time.Second},
			func(ctx context.Context, l *locks.Lock) error {
				want(w.t, "lost after", lostAfter(l, w.begin), 45*time.Second)
				return ctx.Err()
			})
		wantErr(w.t, "the error", err, locks.ErrLost, locks.ErrMaxHold)
		want(w.t, "holder", w.holder("deploy"), "")
		want(w.t, "renewals", w.renewals(), s(10, 20))
		want(w.t, "events", w.whats(), []string{"Acquired", "Renewed", "Renewed", "Lost", "Released"})
	})
}

// TestEndOfTheCallersContext: work under Do may wind up, and the lock is renewed until it has.
func TestEndOfTheCallersContext(t *testing.T) {
	inWorlds(t, func(w *world) {
		errCause := errors.New("the machine goes down")
		c := w.client(nil)
		ctx, cancel := context.WithCancelCause(w.t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(errCause) })
		err := c.Do(ctx, "deploy", nil, func(ctx context.Context, _ *locks.Lock) error {
			<-ctx.Done()
			wantErr(w.t, "the cause", context.Cause(ctx), errCause)
			time.Sleep(40 * time.Second)
			return ctx.Err()
		})
		wantErr(w.t, "the error", err, errCause)
		if errors.Is(err, locks.ErrLost) {
			w.t.Errorf("the error is %v", err)
		}
		want(w.t, "renewals", w.renewals(), s(10, 20, 30, 40))
		want(w.t, "holder", w.holder("deploy"), "")
	})
}

// TestContextOfTheAcquire: it bounds the acquire alone. What it carries is in the context
// of the lock.
func TestContextOfTheAcquire(t *testing.T) {
	type label struct{}
	for name, take := range map[string]func(c *locks.Client, ctx context.Context, key string, o *locks.LockOptions) (
		*locks.Lock, error){"Lock": (*locks.Client).Lock, "TryLock": (*locks.Client).TryLock} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				acquire := func() (*locks.Lock, error) {
					ctx, cancel := context.WithTimeout(context.WithValue(w.t.Context(), label{}, "x"), 10*time.Second)
					defer cancel()
					return take(w.client(nil), ctx, "deploy", nil)
				}
				l, err := acquire()
				if err != nil {
					w.t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				wantErr(w.t, "the lock's context", locks.Check(l.Context()), nil)
				want(w.t, "what the context carries", l.Context().Value(label{}), any("x"))
				want(w.t, "someone holds it", w.holder("deploy") != "", true)
				wantErr(w.t, "unlock", l.Unlock(w.t.Context()), nil)
				want(w.t, "holder", w.holder("deploy"), "")
			})
		})
	}
}

// TestForgottenLock: one that no one has any more is renewed no more, which is said, and expires. As long as someone
// has it, or its context, or one made of that, it is renewed.
func TestForgottenLock(t *testing.T) {
	for name, c := range map[string]struct {
		take func(w *world, c *locks.Client) (kept any)
		held bool
	}{
		"no one": {func(w *world, c *locks.Client) any {
			w.take(c, "deploy", nil)
			return nil
		}, false},
		"its goroutine panicked": {func(w *world, c *locks.Client) any {
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() { _ = recover() }()
				w.take(c, "deploy", nil)
				panic("before it is unlocked")
			}()
			<-over
			return nil
		}, false},
		"the lock":    {func(w *world, c *locks.Client) any { return w.take(c, "deploy", nil) }, true},
		"its context": {func(w *world, c *locks.Client) any { return w.take(c, "deploy", nil).Context() }, true},
		"a context made of it": {func(w *world, c *locks.Client) any {
			ctx, cancel := context.WithCancel(w.take(c, "deploy", nil).Context())
			w.t.Cleanup(cancel)
			return ctx
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				client := w.client(nil)
				kept := c.take(w, client)
				collect(t, func() bool { return locks.HasForgotten(client, "deploy") }, !c.held)
				want(w.t, "events", slices.Contains(w.whats(), locks.Forgotten), false) // it is noticed when it is to be renewed
				time.Sleep(29 * time.Second)
				want(w.t, "it is held by a client", w.holder("deploy") != "", true)
				want(w.t, "it is said to be forgotten", slices.Contains(w.whats(), locks.Forgotten), !c.held)
				time.Sleep(2 * time.Minute)
				want(w.t, "it is held by a client, later", w.holder("deploy") != "", c.held)
				want(w.t, "it is said to be lost", slices.Contains(w.whats(), locks.Lost), !c.held)
				want(w.t, "renewals", len(w.renewals()) > 0, c.held)
				runtime.KeepAlive(kept)
				ended, cancel := context.WithCancel(w.t.Context())
				cancel()
				_ = client.Close(ended)
			})
		})
	}
}

// TestCloseReleasesWhatIsForgotten: no one can unlock it, so it is not waited for, also if it is forgotten while the
// client closes.
func TestCloseReleasesWhatIsForgotten(t *testing.T) {
	inWorlds(t, func(w *world) {
		client := w.client(nil)
		w.take(client, "deploy", nil)
		collect(w.t, func() bool { return locks.HasForgotten(client, "deploy") }, true)
		begin := time.Now()
		want(w.t, "close", client.Close(w.t.Context()), nil)
		want(w.t, "after", time.Since(begin), 0)
		want(w.t, "holder", w.holder("deploy"), "")

		client = w.client(nil)
		l := w.take(client, "deploy", nil)
		closed := make(chan error, 1)
		go func() { closed <- client.Close(w.t.Context()) }()
		time.Sleep(time.Second)
		wantErr(w.t, "its context", locks.Check(l.Context()), locks.ErrClosed)
		l = nil
		collect(w.t, func() bool { return locks.HasForgotten(client, "deploy") }, true)
		time.Sleep(time.Second)
		select {
		case err := <-closed:
			want(w.t, "close, and then it is forgotten", err, nil)
		default:
			w.t.Error("it is waited for")
		}
		want(w.t, "holder", w.holder("deploy"), "")
		_ = l
	})
}

// collect collects garbage until something is found out by that; if it is not to be, for a few times.
func collect(t *testing.T, found func() bool, is bool) {
	t.Helper()
	for i := 0; !found(); i++ {
		if i == 5 && !is {
			return
		}
		if i == 1000 {
			t.Fatal("it is not forgotten")
		}
		runtime.GC()
		runtime.Gosched()
	}
	if !is {
		t.Error("it is forgotten while someone has it")
	}
}

// TestClocks: both clocks count, at the time at which the context is asked (a thaw, a set clock, a machine that slept).
func TestClocks(t *testing.T) {
	for name, c := range map[string]struct {
		monotonic, wall time.Duration // how far they jump
		lost            bool
	}{
		"stopped for longer than the lease": {40 * time.Second, 40 * time.Second, true},
		"slept for longer than the lease":   {0, 40 * time.Second, true},
		"the clock was set back":            {40 * time.Second, -time.Hour, true},
		"the clock was set back, no time":   {0, -time.Hour, false},
		"not for as long":                   {20 * time.Second, 20 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				var mu sync.Mutex
				var monotonic, wall time.Duration
				client := w.client(locks.Options{}.WithClock(func() term.Moment {
					mu.Lock()
					defer mu.Unlock()
					return term.On(time.Now().Add(monotonic).Round(0), time.Now().Add(wall).Round(0))
				}))
				l := w.take(client, "deploy", nil)
				derived, cancel := context.WithTimeout(l.Context(), time.Hour)
				defer cancel()
				synctest.Wait()
				mu.Lock()
				monotonic, wall = c.monotonic, c.wall
				mu.Unlock()
				if err := locks.Check(derived); errors.Is(err, locks.ErrLost) != c.lost {
					w.t.Errorf("Check: %v", err)
				}
				if err := l.Context().Err(); (err != nil) != c.lost {
					w.t.Errorf("Err: %v", err)
				}
				if c.lost {
					wantErr(w.t, "the cause", context.Cause(derived), locks.ErrLost)
					want(w.t, "events", w.whats(), []string{"Acquired", "Lost"})
					return
				}
				want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
			})
		})
	}
}

// TestPanic: a panic of the work, or the end of its goroutine, releases the lock and goes on.
func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		work func()
		want any
	}{
		"panic":  {func() { panic("boom") }, "boom"},
		"Goexit": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				client := w.client(nil)
				done := make(chan any, 1)
				go func() {
					defer func() { done <- recover() }()
					_ = client.Do(w.t.Context(), "deploy", nil, func(context.Context, *locks.Lock) error {
						c.work()
						return nil
					})
				}()
				want(w.t, "recovered", <-done, c.want)
				want(w.t, "holder", w.holder("deploy"), "")
				want(w.t, "close", client.Close(w.t.Context()), nil)
			})
		})
	}
}

// TestWorkAfterTheLoss: work that returns no error although the lock was lost has not failed, and Do says that it was
// not protected.
func TestWorkAfterTheLoss(t *testing.T) {
	for name, c := range map[string]struct {
		err  error // of the work
		want []error
		not  error
	}{
		"no error":              {nil, []error{locks.ErrLost, errNetwork}, nil},
		"the context's error":   {context.Canceled, []error{locks.ErrLost}, context.Canceled},
		"an error of its own":   {errors.New("disk full"), []error{locks.ErrLost}, nil},
		"what it was cancelled": {locks.ErrLost, []error{locks.ErrLost}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = func(_ context.Context, k call) fault {
					if k.name == "renew" {
						return fault{err: errNetwork}
					}
					return fault{}
				}
				err := w.client(nil).Do(w.t.Context(), "deploy", nil, func(context.Context, *locks.Lock) error {
					time.Sleep(time.Minute)
					return c.err
				})
				wantErr(w.t, "the error", err, c.want...)
				if c.not != nil && errors.Is(err, c.not) {
					w.t.Errorf("the error is %v", err)
				}
				if c.err != nil && !errors.Is(err, c.err) && c.not == nil {
					w.t.Errorf("the error is %v, want that of the work", err)
				}
				if n := strings.Count(err.Error(), "the lock is lost"); n > 2 {
					w.t.Errorf("it says it %d times: %v", n, err)
				}
			})
		})
	}
}
