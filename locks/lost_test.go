package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/locks"
)

// losses are the errors of the Lost events of a key, so far.
func (w *world) losses(key string) (all []error) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.What == locks.Lost && e.Key == key {
			all = append(all, e.Err)
		}
	}
	return all
}

// refuse makes requests of a name fail.
func refuse(name string, err error) func(context.Context, call) fault {
	return func(_ context.Context, k call) fault {
		if k.name == name {
			return fault{err: err}
		}
		return fault{}
	}
}

// freezing is a client whose process can be stopped for a while: its clocks go on, and its timers do not.
func (w *world) freezing() (c *locks.Client, freeze func(time.Duration)) {
	var ahead atomic.Int64
	c = w.client(locks.Options{}.WithClock(func() term.Moment {
		return term.Of(time.Now().Add(time.Duration(ahead.Load())))
	}))
	return c, func(d time.Duration) { ahead.Add(int64(d)) }
}

// TestEachLossIsOneEvent: whatever ends a lease, and however that is noticed, there is one Lost event: before the lock
// is unlocked, with the cause of the context, and no other when it is unlocked.
func TestEachLossIsOneEvent(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(context.Context, call) fault
		o      locks.LockOptions
		expiry bool // the provider says that the renewed lease has expired
		frozen func(*locks.Lock)
		want   error // beside ErrLost
	}{
		"renewal refused: lost": {fault: refuse("renew", contracts.Errorf(contracts.CodeLeaseLost, "")),
			want: contracts.CodeLeaseLost},
		"renewal refused: expired": {fault: refuse("renew", contracts.Errorf(contracts.CodeLeaseExpired, "")),
			want: contracts.CodeLeaseExpired},
		"renewal refused: released": {fault: refuse("renew", contracts.Errorf(contracts.CodeLeaseReleased, "")),
			want: contracts.CodeLeaseReleased},
		"renewal refused: another": {fault: refuse("renew", contracts.Errorf(contracts.CodeNotOwner, "")),
			want: contracts.CodeNotOwner},
		"renewed too late": {expiry: true, want: contracts.CodeLeaseExpired},
		"ran out":          {fault: refuse("renew", errNetwork), want: errNetwork},
		"ran out while a renewal hangs": {fault: func(ctx context.Context, k call) fault {
			if k.name == "renew" {
				return hang(ctx)
			}
			return fault{}
		}},
		"held for as long as it may be": {o: locks.LockOptions{MaxHold: 45 * time.Second}, want: locks.ErrMaxHold},
		"frozen, its context is asked":  {frozen: func(l *locks.Lock) { _ = l.Context().Err() }},
		"frozen, Check asks":            {frozen: func(l *locks.Lock) { _ = locks.Check(l.Context()) }},
		"frozen, Left asks":             {frozen: func(l *locks.Lock) { _ = l.Left() }},
		"frozen, no one asks":           {frozen: func(*locks.Lock) { time.Sleep(time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = c.fault
				if c.expiry {
					w.Provider = short{w.Provider, -1}
				}
				client, freeze := w.freezing()
				held := map[string]*locks.Lock{}
				for i := range 20 { // at once: who notices first is not the same for all
					key := fmt.Sprint("lock-", i)
					held[key] = w.take(client, key, &c.o)
				}
				working, over, done := make(chan *locks.Lock), make(chan struct{}), make(chan error, 1)
				go func() {
					done <- client.Do(w.t.Context(), "work", &c.o, func(_ context.Context, l *locks.Lock) error {
						working <- l
						<-over
						return nil
					})
				}()
				held["work"] = <-working
				if c.frozen != nil {
					time.Sleep(8 * time.Second)
					freeze(40 * time.Second)
					for _, l := range held {
						c.frozen(l)
					}
				}
				for key, l := range held {
					<-l.Context().Done()
					oneLoss(w, key, context.Cause(l.Context()), c.want)
				}
				close(over)
				wantErr(w.t, "the work", <-done, locks.ErrLost)
				for key, l := range held {
					wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost)
					want(w.t, "losses of "+key, len(w.losses(key)), 1)
				}
			})
		})
	}
}

// oneLoss checks that the loss of a lock is one event, with the cause of its context.
func oneLoss(w *world, key string, cause, also error) {
	w.t.Helper()
	wantErr(w.t, "the cause", cause, locks.ErrLost)
	if also != nil {
		wantErr(w.t, "the cause", cause, also)
	}
	if lost := w.losses(key); len(lost) != 1 || !errors.Is(lost[0], cause) {
		w.t.Errorf("%s: Lost events %v, want one: %v", key, lost, cause)
	}
}

// TestLossFoundByTheRelease: a release that finds that the lease is another's is the loss, and one event, also when
// Close releases.
func TestLossFoundByTheRelease(t *testing.T) {
	for _, code := range []contracts.Code{contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased,
		contracts.CodeNotOwner} {
		t.Run(string(code), func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = refuse("release", contracts.Errorf(code, ""))
				c := w.client(nil)
				l := w.take(c, "unlocked", nil)
				w.take(c, "left to Close", nil)
				for range 2 {
					wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost, code)
				}
				wantErr(w.t, "do", c.Do(w.t.Context(), "work", nil, func(context.Context, *locks.Lock) error { return nil }),
					locks.ErrLost, code)
				ended, cancel := context.WithCancel(w.t.Context())
				cancel()
				wantErr(w.t, "close", c.Close(ended), locks.ErrLost, code)
				for _, key := range []string{"unlocked", "work", "left to Close"} {
					lost := w.losses(key)
					if len(lost) != 1 || !errors.Is(lost[0], locks.ErrLost) || !errors.Is(lost[0], code) {
						w.t.Errorf("%s: Lost events %v, want one: %s", key, lost, code)
					}
				}
			})
		})
	}
}

// TestLossWhileItCloses: Close ends contexts; a lock that is not unlocked then is lost all the same, once, and Close
// says so.
func TestLossWhileItCloses(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		l := w.take(c, "handle", nil)
		done := make(chan error, 1)
		go func() { // it does not stop, and its lock is not renewed any more when Close has returned
			done <- c.Do(w.t.Context(), "work", nil, func(context.Context, *locks.Lock) error {
				time.Sleep(5 * time.Minute)
				return nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(ctx) }()
		time.Sleep(27 * time.Second) // it is not renewed any more, and Close still waits
		want(w.t, "losses of the handle", len(w.losses("handle")), 1)
		wantErr(w.t, "close", <-closed, locks.ErrLost, locks.ErrNotReleased)
		wantErr(w.t, "the cause", context.Cause(l.Context()), locks.ErrClosed)
		want(w.t, "losses of the handle", len(w.losses("handle")), 1)
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost, w.losses("handle")[0])
		wantErr(w.t, "the work", <-done, locks.ErrLost)
		for _, key := range []string{"handle", "work"} {
			want(w.t, "losses of "+key, len(w.losses(key)), 1)
		}
	})
}

// TestUnlockAtTheLoss: a lock that is unlocked in the moment of its loss is either released or lost. If Unlock says
// that it was lost, there is one event of it, otherwise none.
func TestUnlockAtTheLoss(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		at    time.Duration
	}{
		"renewal refused": {contracts.Errorf(contracts.CodeLeaseLost, ""), 10 * time.Second},
		"ran out":         {errNetwork, 27*time.Second - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = refuse("renew", c.fault)
				client := w.client(nil)
				var all sync.WaitGroup
				for i := range 50 {
					key := fmt.Sprint("lock-", i)
					l := w.take(client, key, nil)
					all.Go(func() {
						time.Sleep(c.at)
						err := l.Unlock(w.t.Context())
						time.Sleep(time.Second)
						lost := 0
						if errors.Is(err, locks.ErrLost) {
							lost = 1
						}
						w.mu.Lock()
						defer w.mu.Unlock()
						events := 0
						for _, e := range w.events {
							if e.Key == key && e.What == locks.Lost {
								events++
							}
						}
						want(w.t, fmt.Sprintf("losses of %s, whose unlock said %v", key, err), events, lost)
					})
				}
				all.Wait()
			})
		})
	}
}

// TestFrozenBetweenReleases: a process that was stopped between two tries of a release, for longer than the lease,
// sends none after its end.
func TestFrozenBetweenReleases(t *testing.T) {
	inWorlds(t, func(w *world) {
		c, freeze := w.freezing()
		l := w.take(c, "deploy", nil)
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "release" {
				freeze(40 * time.Second)
				return fault{err: errNetwork}
			}
			return fault{}
		}
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrNotReleased, errNetwork)
		want(w.t, "releases", len(w.of("release")), 1)
		want(w.t, "events", w.whats(), []string{"Acquired", "ReleaseFailed"})
	})
}
