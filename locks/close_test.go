package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestUnlockWithADeadContext: the lock is released although the caller's context has ended, within 5 s.
func TestUnlockWithADeadContext(t *testing.T) {
	inWorlds(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.t.Context())
		l := w.take(w.client(nil), "deploy", nil)
		cancel()
		want(w.t, "unlock", l.Unlock(ctx), nil)
		want(w.t, "holder", w.holder("deploy"), "")

		w.fault = func(ctx context.Context, k call) fault {
			if k.name == "release" {
				return hang(ctx)
			}
			return fault{}
		}
		begin := time.Now()
		err := w.client(nil).Do(ctx, "deploy", nil, nil)
		if err == nil {
			w.t.Error("no work")
		}
		l = w.take(w.client(nil), "deploy", nil)
		wantErr(w.t, "unlock of a provider that hangs", l.Unlock(ctx), locks.ErrNotReleased)
		want(w.t, "after", time.Since(begin), time.Second)
	})
}

// TestReleaseFails: a release that fails is tried again until the lease ends, with one request_id, also when the caller
// has left; the lock stays releasable, and what became of it is reported.
func TestReleaseFails(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "release" && k.n < 3 {
				return fault{errNetwork, k.n == 2} // the last one is carried out, and its response lost
			}
			return fault{}
		}
		l := w.take(c, "deploy", nil)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Millisecond)
		defer cancel()
		err := l.Unlock(ctx)
		wantErr(w.t, "unlock", err, locks.ErrNotReleased, context.DeadlineExceeded)
		want(w.t, "after", time.Since(w.begin), time.Millisecond)
		want(w.t, "unlock again", l.Unlock(w.t.Context()), nil)
		r := w.of("release")
		if len(r) != 4 || r[0].request != r[3].request {
			w.t.Errorf("releases: %+v", r)
		}
		want(w.t, "events", w.whats(), []string{"Acquired", "Released"})
	})
	inWorlds(t, func(w *world) { // never
		c := w.client(nil)
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "release" {
				return fault{err: errNetwork}
			}
			return fault{}
		}
		err := c.Do(w.t.Context(), "deploy", nil, func(context.Context, *locks.Lock) error { return nil })
		wantErr(w.t, "do", err, locks.ErrNotReleased, errNetwork)
		if errors.Is(err, locks.ErrLost) {
			w.t.Errorf("the error is %v", err)
		}
		want(w.t, "after", time.Since(w.begin), 5*time.Second)
		time.Sleep(25*time.Second - time.Millisecond)
		want(w.t, "events", w.whats(), []string{"Acquired", "ReleaseFailed"})
		if n := len(w.of("release")); n < 6 || n > 60 {
			w.t.Errorf("%d releases", n)
		}
	})
	inWorlds(t, func(w *world) { // rejected: it may be permitted later
		c := w.client(nil)
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "release" && k.n == 0 {
				return fault{err: contracts.CodeUnauthenticated}
			}
			return fault{}
		}
		l := w.take(c, "deploy", nil)
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrNotReleased, contracts.CodeUnauthenticated)
		want(w.t, "unlock again", l.Unlock(w.t.Context()), nil)
		want(w.t, "holder", w.holder("deploy"), "")
		want(w.t, "events", w.whats(), []string{"Acquired", "ReleaseFailed", "Released"})
	})
}

// TestUnlockDuringARenewal: a renewal that is under way while the lock is released brings nothing back, and starts
// nothing again.
func TestUnlockDuringARenewal(t *testing.T) {
	inWorlds(t, func(w *world) {
		release := make(chan struct{})
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "renew" {
				<-release
			}
			return fault{}
		}
		l := w.take(w.client(nil), "deploy", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
		close(release)
		time.Sleep(time.Minute)
		want(w.t, "holder", w.holder("deploy"), "")
		want(w.t, "calls", w.names(), []string{"acquire", "renew", "release"})
		want(w.t, "events", w.whats(), []string{"Acquired", "Released"})
	})
}

// TestAgainAndAgain: a key that is locked again and again is renewed by its last lock only.
func TestAgainAndAgain(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		for range 100 {
			want(w.t, "unlock", w.take(c, "deploy", nil).Unlock(w.t.Context()), nil)
		}
		l := w.take(c, "deploy", nil)
		time.Sleep(35 * time.Second)
		want(w.t, "renewals", w.renewals(), s(10, 20, 30))
		for _, k := range w.of("renew") {
			want(w.t, "token", k.token, l.Token())
		}
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
	})
}

// TestOneHangs: of many leases whose renewals are due at once, one hangs; the others are renewed in time, and it is
// lost in time.
func TestOneHangs(t *testing.T) {
	n := suite.AtDepth(200, 1000)
	inWorlds(t, func(w *world) {
		w.fault = func(ctx context.Context, k call) fault {
			if k.name == "renew" && k.key == "lock-7" {
				return hang(ctx)
			}
			return fault{}
		}
		c := w.client(nil)
		var all []*locks.Lock
		for i := range n {
			all = append(all, w.take(c, fmt.Sprint("lock-", i), nil))
		}
		time.Sleep(31 * time.Second)
		for i, l := range all {
			if err := locks.Check(l.Context()); (err != nil) != (i == 7) {
				w.t.Errorf("lock %d: %v", i, err)
			}
		}
		late := 0
		for _, k := range w.of("renew") {
			if k.key != "lock-7" && !slices.Contains(s(10, 20, 30), k.at) {
				late++
			}
		}
		want(w.t, "late renewals", late, 0)
		if err := c.Close(w.t.Context()); err != nil && !strings.Contains(err.Error(), "lock-") {
			w.t.Errorf("close: %v", err)
		}
	})
}

// TestClose: nothing more is acquired, what waits is ended, works are waited for, and everything is released; one
// release that fails skips none.
func TestClose(t *testing.T) {
	inWorlds(t, func(w *world) {
		c, other := w.client(nil), w.client(nil)
		w.fault = func(ctx context.Context, k call) fault {
			switch {
			case k.name == "release" && k.key == "hangs":
				return hang(ctx)
			case k.name == "release" && k.key == "fails":
				return fault{err: contracts.Errorf(contracts.CodePermissionDenied, "not today")}
			}
			return fault{}
		}
		taken := w.take(other, "taken", nil)
		var handles []*locks.Lock
		for _, key := range []string{"a", "fails", "hangs", "b"} {
			handles = append(handles, w.take(c, key, nil))
		}
		ended := make(chan error, 4)
		go func() { // it winds up
			ended <- c.Do(w.t.Context(), "work", nil, func(ctx context.Context, _ *locks.Lock) error {
				<-ctx.Done()
				wantErr(w.t, "the cause", context.Cause(ctx), locks.ErrClosed)
				time.Sleep(45 * time.Second)
				want(w.t, "it is still held", w.holder("work") != "", true)
				return nil
			})
		}()
		stay := make(chan struct{})
		go func() { // it does not stop
			ended <- c.Do(w.t.Context(), "deaf", nil, func(context.Context, *locks.Lock) error {
				<-stay
				return nil
			})
		}()
		for _, key := range []string{"taken", "a"} { // over the network, and in the queue
			go func() {
				_, err := c.Lock(w.t.Context(), key, nil)
				ended <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		time.AfterFunc(time.Second, func() {
			for range 2 {
				wantErr(w.t, "what waited", <-ended, locks.ErrClosed)
			}
			_, err := c.TryLock(w.t.Context(), "c", nil)
			wantErr(w.t, "a new acquire", err, locks.ErrClosed)
			for i, l := range handles {
				wantErr(w.t, "the cause", context.Cause(l.Context()), locks.ErrClosed)
				if i == 0 {
					want(w.t, "unlock while it closes", l.Unlock(w.t.Context()), nil)
				}
			}
		})
		err := c.Close(ctx)
		if took := time.Since(begin); took < time.Minute || took > time.Minute+2*time.Second {
			w.t.Errorf("it took %v", took)
		}
		wantErr(w.t, "close", err, locks.ErrNotReleased)
		for _, key := range []string{"deaf", "fails", "hangs"} {
			if !strings.Contains(err.Error(), key) {
				w.t.Errorf("it does not say %q: %v", key, err)
			}
		}
		for _, key := range []string{`"a"`, `"b" was not`, `"work"`, `"taken"`} {
			if strings.Contains(err.Error(), key) {
				w.t.Errorf("it says %s: %v", key, err)
			}
		}
		for _, key := range []string{"a", "b", "work"} {
			want(w.t, key, w.holder(key), "")
		}
		want(w.t, "the work that winds up", <-ended, nil)
		time.Sleep(30 * time.Second)
		want(w.t, "the lock of the work that runs on", w.holder("deaf"), "") // it has expired
		close(stay)
		<-ended
		want(w.t, "unlock", taken.Unlock(w.t.Context()), nil)
		want(w.t, "close again", c.Close(w.t.Context()), nil)
	})
}

// TestCloseWhileAnAcquireHangs: the locks that are held are renewed on, and Close does not wait for the provider.
func TestCloseWhileAnAcquireHangs(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		w.fault = func(ctx context.Context, k call) fault {
			if k.key == "hangs" {
				return hang(ctx)
			}
			return fault{}
		}
		l := w.take(c, "deploy", nil)
		failed := make(chan error, 1)
		go func() {
			_, err := c.Lock(w.t.Context(), "hangs", nil)
			failed <- err
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(w.t, "renewals", w.renewals(), s(10))
		time.AfterFunc(500*time.Millisecond, func() { want(w.t, "unlock", l.Unlock(w.t.Context()), nil) })
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := c.Close(ctx)
		want(w.t, "it took", time.Since(begin), 2*time.Second)
		wantErr(w.t, "close", err, locks.ErrNotReleased) // what the acquire may have obtained
		want(w.t, "holder", w.holder("deploy"), "")
		if err := <-failed; err == nil {
			w.t.Error("the acquire has no error")
		}
	})
}

// TestObserver: events come one at a time, in their order, with ascending times; an observer that is slow delays no
// lock.
func TestObserver(t *testing.T) {
	inWorlds(t, func(w *world) {
		var inside atomic.Int32
		var mu sync.Mutex
		var all []locks.Event
		c := w.client(&locks.Options{Observe: func(e locks.Event) {
			if inside.Add(1) != 1 {
				w.t.Error("two at once")
			}
			time.Sleep(time.Minute)
			inside.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, e)
		}})
		for range 2 {
			if err := c.Do(w.t.Context(), "deploy", nil, func(ctx context.Context, _ *locks.Lock) error {
				time.Sleep(35 * time.Second)
				return locks.Check(ctx)
			}); err != nil {
				w.t.Error(err)
			}
		}
		want(w.t, "time", time.Since(w.begin), 70*time.Second)
		want(w.t, "close", c.Close(w.t.Context()), nil)
		mu.Lock()
		defer mu.Unlock()
		var whats []string
		for i, e := range all {
			whats = append(whats, e.What)
			if i > 0 && e.At.Before(all[i-1].At) || e.Key != "deploy" || e.Token == 0 {
				w.t.Errorf("event %d: %+v", i, e)
			}
		}
		one := []string{"Acquired", "Renewed", "Renewed", "Renewed", "Released"}
		want(w.t, "events", whats, append(one, one...))
	})
}
