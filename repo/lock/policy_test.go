package lock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// replacing is an acquire that replaces and may be replaced.
func replacing(owner, request string, delay int64) lock.Acquire {
	c := acquire(owner, request, 30)
	c.Replace, c.LockDelaySeconds = true, delay
	return c
}

// delaying is an acquire with a lock delay.
func delaying(owner, request string, delay int64) lock.Acquire {
	c := acquire(owner, request, 30)
	c.LockDelaySeconds = delay
	return c
}

// cost fails the test unless the command cost so many writes and nothing else.
func (b *bench) cost(writes int) {
	b.t.Helper()
	if want := slices.Repeat([]string{"Write"}, writes); !slices.Equal(b.store.requests, want) {
		b.t.Errorf("requests %v, want %v", b.store.requests, want)
	}
	b.store.requests = nil
}

// TestReplace: one write takes the lock from a holder that agreed, at any time of its lease. The old token is dead in
// that write, and the old holder learns of it.
func TestReplace(t *testing.T) {
	b := begin(t)
	b.gets(replacing("ann", "a1", 0), lock.OK, false)
	b.clock.Advance(10 * time.Second)
	b.store.requests = nil
	o := b.gets(replacing("bob", "b1", 0), lock.OK, false)
	b.cost(1)
	if l := o.Lease; l.Token != nth(2) || l.Owner != "bob" || !l.AcquiredAt.Equal(epoch.Add(10*time.Second)) ||
		!l.ExpiresAt.Equal(epoch.Add(40*time.Second)) {
		t.Errorf("the new lease is %+v", l)
	}
	b.gets(renew("ann", 1, "n1", 30), lock.LeaseLost, false)
	b.gets(release("ann", 1, "e1"), lock.LeaseLost, false)
	b.gets(replacing("ann", "a1", 0), lock.RequestIDReused, false) // a late duplicate replaces no one
	b.gets(replacing("bob", "b1", 0), lock.OK, true)
	b.gets(renew("bob", 2, "n2", 30), lock.OK, false)
	b.gets(release("bob", 2, "e2"), lock.OK, false)
	b.gets(acquire("ann", "a2", 30), lock.OK, false)

	o = b.gets(replacing("bob", "b2", 0), lock.Held, false) // that one did not agree
	if !strings.Contains(o.Detail, "without replace") || o.RetryAfter != 30*time.Second || o.Lease.Owner != "ann" ||
		o.Lease.Token != 0 {
		t.Errorf("%+v", o)
	}
	b.gets(release("ann", 3, "e3"), lock.OK, false)
	b.gets(replacing("ann", "a3", 0), lock.OK, false)
	b.gets(acquire("bob", "b3", 30), lock.Held, false) // nor does this one ask for it
	b.gets(replacing("ann", "a4", 0), lock.OK, false)  // an owner replaces itself
}

// TestReplaceWithALockDelay: a lock delay is for those who lost their lease against their will. A holder that agreed to
// be replaced is replaced without one while its lease lasts, and not once the delay has begun.
func TestReplaceWithALockDelay(t *testing.T) {
	b := begin(t)
	b.gets(replacing("ann", "a1", 10), lock.OK, false)
	b.clock.Advance(30*time.Second - time.Millisecond)
	b.store.requests = nil
	b.gets(replacing("bob", "b1", 10), lock.OK, false)
	b.cost(2)
	b.clock.Advance(30 * time.Second)
	o := b.gets(replacing("ann", "a2", 10), lock.Delayed, false)
	b.cost(1)
	if o.RetryAfter != 10*time.Second {
		t.Errorf("%+v", o)
	}
}

// TestLockDelay: what expired, or was ended by force, stays closed, to the millisecond; what was released is open at
// once. Renewals need not know of it: they cost what they always did.
func TestLockDelay(t *testing.T) {
	b := begin(t)
	b.gets(delaying("ann", "a1", 15), lock.OK, false)
	o := b.gets(acquire("bob", "b0", 30), lock.Held, false)
	if o.RetryAfter != 45*time.Second || !o.Lease.FreeAt.IsZero() {
		t.Errorf("while it is held: %+v", o)
	}
	b.clock.Advance(20 * time.Second)
	b.store.requests = nil
	b.gets(renew("ann", 1, "n1", 30), lock.OK, false) // until 50
	b.cost(1)
	b.clock.Advance(30 * time.Second)
	const detail = "the lease of ann expired at 2026-01-01T00:00:50.000Z; its lock delay of 15 s keeps the lock closed until 2026-01-01T00:01:05.000Z"
	o = b.gets(acquire("bob", "b1", 30), lock.Delayed, false)
	b.cost(1)
	if o.Detail != detail || o.RetryAfter != 15*time.Second || !o.Lease.FreeAt.Equal(epoch.Add(65*time.Second)) ||
		o.Lease.Token != 0 {
		t.Errorf("%+v", o)
	}
	b.gets(acquire("ann", "a2", 30), lock.Delayed, false) // also to the owner that lost it
	b.gets(release("ann", 1, "e1"), lock.LeaseExpired, false)
	s, _, err := b.locks.Get(t.Context(), deploy)
	if err != nil || s.Phase != lock.Expired || !s.FreeAt.Equal(epoch.Add(65*time.Second)) {
		t.Errorf("%+v, %v", s, err)
	}
	b.clock.Advance(15*time.Second - time.Millisecond)
	if o := b.gets(acquire("bob", "b1", 30), lock.Delayed, false); o.RetryAfter != time.Millisecond {
		t.Errorf("%+v", o)
	}
	b.clock.Advance(time.Millisecond)
	b.store.requests = nil
	b.gets(delaying("bob", "b1", 15), lock.OK, false)
	b.cost(2)
	b.gets(delaying("bob", "b1", 15), lock.OK, true)
	b.gets(delaying("bob", "b1", 14), lock.RequestIDReused, false)
	b.gets(release("bob", 2, "e2"), lock.OK, false)
	b.store.requests = nil
	b.gets(delaying("ann", "a3", 15), lock.OK, false)
	b.cost(1)

	b.gets(force("f1"), lock.OK, false)
	b.clock.Advance(15*time.Second - time.Millisecond)
	o = b.gets(acquire("bob", "b2", 30), lock.Delayed, false)
	if !strings.Contains(o.Detail, "was ended by force at 2026-01-01T00:01:05.000Z") || o.RetryAfter != time.Millisecond ||
		o.Lease.Phase != lock.Released {
		t.Errorf("%+v", o)
	}
	another := force("f2")
	another.LeaseID = "another"
	b.gets(another, lock.NotHeld, false)
	b.clock.Advance(time.Millisecond)
	b.gets(acquire("bob", "b2", 30), lock.OK, false)
	b.clock.Advance(30 * time.Second)
	b.gets(acquire("ann", "a4", 30), lock.OK, false) // and that one had no delay
}

// TestSecondWriteIsAmbiguous: the write that takes a lock after its delay is lost on the way there or on the way back,
// or sent twice. The retry gets the one lease.
func TestSecondWriteIsAmbiguous(t *testing.T) {
	lost := errors.New("the connection was closed")
	for name, between := range map[string]func(apply func() (docstore.Result, error)) (docstore.Result, error){
		"request lost": func(func() (docstore.Result, error)) (docstore.Result, error) { return docstore.Result{}, lost },
		"response lost": func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if _, err := apply(); err != nil {
				return docstore.Result{}, err
			}
			return docstore.Result{}, lost
		},
		"sent twice": func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if _, err := apply(); err != nil {
				return docstore.Result{}, err
			}
			return apply()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.gets(delaying("ann", "a1", 15), lock.OK, false)
			b.clock.Advance(45 * time.Second)
			second := false
			b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				if !second {
					second = true
					return apply()
				}
				return between(apply)
			}
			o, err := b.do(delaying("bob", "b1", 15))
			if sentTwice := name == "sent twice"; sentTwice != (err == nil) || sentTwice &&
				(o.Code != lock.OK || !o.Replayed || o.Lease.Token != nth(2)) {
				t.Fatalf("%+v, %v", o, err)
			}
			b.store.write = nil
			if o := b.gets(delaying("bob", "b1", 15), lock.OK, name != "request lost"); o.Lease.Token != nth(2) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestLateSecondWrite: another acquire, a release or a renewal comes between the two writes. No lease is taken that the
// second write was not for.
func TestLateSecondWrite(t *testing.T) {
	for name, c := range map[string]struct {
		delay int64
		meet  func(b *bench)
		code  lock.Code
	}{
		"taken by another": {15, func(b *bench) { b.gets(acquire("cem", "c1", 30), lock.OK, false) }, lock.Held},
		"taken by another with a delay": {15, func(b *bench) {
			b.gets(delaying("cem", "c1", 20), lock.OK, false)
		}, lock.Held},
		"taken by another and released": {15, func(b *bench) {
			b.gets(acquire("cem", "c1", 30), lock.OK, false)
			b.gets(release("cem", 2, "e1"), lock.OK, false)
		}, lock.OK},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.gets(delaying("ann", "a1", c.delay), lock.OK, false)
			b.clock.Advance(45 * time.Second)
			b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				r, err := apply()
				b.store.write = nil
				c.meet(b)
				return r, err
			}
			o, err := b.do(acquire("bob", "b1", 30))
			if err != nil || o.Code != c.code {
				t.Fatalf("%+v, %v", o, err)
			}
		})
	}
}

// TestPoliciesOnAnUncertainClock: a delay has passed when it has by the earliest that the time can be; a holder is
// there to be replaced until then.
func TestPoliciesOnAnUncertainClock(t *testing.T) {
	b := begin(t)
	b.store.Store = lock.Uncertain{Store: b.store.Store, Margin: time.Second}
	b.gets(delaying("ann", "a1", 15), lock.OK, false)
	b.clock.Advance(46*time.Second - time.Millisecond)
	if o := b.gets(acquire("bob", "b1", 30), lock.Delayed, false); o.RetryAfter != time.Millisecond {
		t.Errorf("%+v", o)
	}
	b.clock.Advance(time.Millisecond)
	b.gets(replacing("bob", "b1", 15), lock.OK, false)
	b.clock.Advance(30*time.Second - time.Millisecond)
	b.gets(replacing("ann", "a2", 15), lock.OK, false)
	b.clock.Advance(31*time.Second - time.Millisecond)
	b.gets(replacing("bob", "b2", 15), lock.OK, false) // it may not have ended
	b.clock.Advance(31 * time.Second)
	b.gets(replacing("ann", "a3", 15), lock.Delayed, false)
}

// TestReplacedOften: many replace one another, and each holder's token is dead before the next one works.
func TestReplacedOften(t *testing.T) {
	b := begin(t)
	for n := int64(1); n < 20; n++ {
		o := b.gets(replacing("ann", "a"+string(rune('a'+n)), 0), lock.OK, false)
		if o.Lease.Token != nth(n) {
			t.Errorf("grant %d has token %d", n, o.Lease.Token)
		}
		for before := int64(1); before < n; before++ {
			b.gets(renew("ann", before, "n", 30), lock.LeaseLost, false)
		}
		b.gets(renew("ann", n, "n", 30), lock.OK, false)
	}
}

// TestAReleaseThatIsForgottenAlarmsNoOne: a release that comes again after so many others that the lock does not
// remember it gets the code that it always did, and is told what is known of its lease: only one that expired was lost.
func TestAReleaseThatIsForgottenAlarmsNoOne(t *testing.T) {
	const since = "; later leases have been granted since"
	for name, c := range map[string]struct {
		end   func(b *bench, n int64)
		after int
		want  string
	}{
		"released, long ago": {func(b *bench, n int64) {
			b.gets(release("ann", n, "e1"), lock.OK, false)
		}, 9, "the lease has ended, whether by a release is no longer remembered" + since},
		"expired, long ago": {func(b *bench, _ int64) { b.clock.Advance(30 * time.Second) }, 9,
			"the lease has ended, whether by a release is no longer remembered" + since},
		"released under another request_id": {func(b *bench, n int64) {
			b.gets(release("ann", n, "e0"), lock.OK, false)
		}, 1, "the lease was released at 2026-01-01T00:00:00.000Z, by a request that is no longer remembered" + since},
		"ended by force": {func(b *bench, _ int64) { b.gets(force("f1"), lock.OK, false) }, 1,
			"the lease was ended by root at 2026-01-01T00:00:00.000Z" + since},
		"expired, and followed": {func(b *bench, _ int64) { b.clock.Advance(30 * time.Second) }, 1,
			"the lease expired at 2026-01-01T00:00:30.000Z, and a later lease has been granted; stop the work that this token protects"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.gets(acquire("ann", "a1", 30), lock.OK, false)
			c.end(b, 1)
			for i := range int64(c.after) {
				request := string(rune('0' + i))
				b.gets(acquire("bob", request, 30), lock.OK, false)
				b.gets(release("bob", 2+i, request), lock.OK, false)
			}
			if o := b.gets(release("ann", 1, "e1"), lock.LeaseLost, false); o.Detail != c.want {
				t.Errorf("got  %q\nwant %q", o.Detail, c.want)
			}
		})
	}
}
