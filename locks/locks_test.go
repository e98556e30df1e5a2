package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
)

var background = context.Background()

// TestDo: the lock is held as long as the work runs, renewed every third of its ttl, and released.
func TestDo(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(&locks.Options{Owner: "ann"})
		err := c.Do(w.t.Context(), "deploy", nil, func(ctx context.Context, _ *locks.Lock) error {
			time.Sleep(35 * time.Second)
			want(w.t, "holder", w.holder("deploy"), "ann")
			return locks.Check(ctx)
		})
		want(w.t, "error", err, nil)
		want(w.t, "holder", w.holder("deploy"), "")
		want(w.t, "calls", w.names(), []string{"acquire", "renew", "renew", "renew", "release"})
		want(w.t, "renewals", w.renewals(), s(10, 20, 30))
		want(w.t, "events", w.whats(), []string{"Acquired", "Renewed", "Renewed", "Renewed", "Released"})
		want(w.t, "close", c.Close(w.t.Context()), nil)
	})
}

// TestTryLock: a lock that is held is LOCK_HELD at once, for another client and for another goroutine of the same.
func TestTryLock(t *testing.T) {
	inWorlds(t, func(w *world) {
		ann, bob := w.client(&locks.Options{Owner: "ann"}), w.client(&locks.Options{Owner: "bob"})
		l, err := ann.TryLock(w.t.Context(), "deploy", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		_, err = bob.TryLock(w.t.Context(), "deploy", nil)
		wantErr(w.t, "another client", err, contracts.CodeLockHeld)
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Owner != "ann" || e.RetryAfter != 30*time.Second {
			w.t.Errorf("the rejection is %+v", e)
		}
		_, err = ann.TryLock(w.t.Context(), "deploy", nil)
		wantErr(w.t, "the same client", err, contracts.CodeLockHeld)
		want(w.t, "calls", w.names(), []string{"acquire", "acquire"})
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
		want(w.t, "unlock again", l.Unlock(w.t.Context()), nil)
		wantErr(w.t, "its context", context.Cause(l.Context()), locks.ErrUnlocked)
		l2, err := bob.TryLock(w.t.Context(), "deploy", nil)
		if err != nil || l2.Token() <= l.Token() {
			w.t.Fatalf("token %d after %d, %v", l2.Token(), l.Token(), err)
		}
		want(w.t, "unlock", l2.Unlock(w.t.Context()), nil)
		want(w.t, "calls", w.names(), []string{"acquire", "acquire", "release", "acquire", "release"})
	})
}

// TestWhoHasIt: whether anyone holds a lock is asked, whether this one does is known.
func TestWhoHasIt(t *testing.T) {
	inWorlds(t, func(w *world) {
		ctx, c := w.t.Context(), w.client(nil)
		locked := func(is bool) {
			w.t.Helper()
			got, err := w.client(nil).Locked(ctx, "deploy")
			if err != nil || got != is {
				w.t.Errorf("locked is %v, %v", got, err)
			}
		}
		locked(false) // there is no record of it
		l := w.take(c, "deploy", &locks.LockOptions{MaxHold: time.Minute})
		locked(true)
		want(w.t, "owned", l.Owned(), true)
		time.Sleep(time.Minute)
		want(w.t, "owned after MaxHold", l.Owned(), false)
		time.Sleep(time.Minute)
		locked(false)
		l = w.take(c, "deploy", nil)
		want(w.t, "unlock", l.Unlock(ctx), nil)
		want(w.t, "owned after unlock", l.Owned(), false)
		locked(false)
	})
}
