package lock_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

func acquireSet(owner, request string, keys ...string) lock.AcquireSet {
	return lock.AcquireSet{Tenant: "acme", Keys: keys, Owner: owner, RequestID: request, TTLSeconds: 30, Metadata: labels}
}

func leasesOf(o lock.SetOutcome) (leases []lock.SetLease) {
	for _, l := range o.Leases {
		leases = append(leases, lock.SetLease{Key: l.Key, Token: l.Token})
	}
	return leases
}

func renewSet(owner, request string, leases []lock.SetLease) lock.RenewSet {
	return lock.RenewSet{Tenant: "acme", Leases: leases, Owner: owner, RequestID: request, TTLSeconds: 60}
}

func releaseSet(owner, request string, leases []lock.SetLease) lock.ReleaseSet {
	return lock.ReleaseSet{Tenant: "acme", Leases: leases, Owner: owner, RequestID: request}
}

// set carries out a command on several locks, and fails the test unless it ends with the code, after these requests.
func (b *bench) set(c any, code lock.Code, replayed bool, requests ...string) lock.SetOutcome {
	b.t.Helper()
	var (
		o   lock.SetOutcome
		err error
	)
	b.store.requests = nil
	switch c := c.(type) {
	case lock.AcquireSet:
		o, err = b.locks.AcquireSet(b.t.Context(), c)
	case lock.RenewSet:
		o, err = b.locks.RenewSet(b.t.Context(), c)
	case lock.ReleaseSet:
		o, err = b.locks.ReleaseSet(b.t.Context(), c)
	case lock.GiveUpSet:
		o, err = b.locks.GiveUpSet(b.t.Context(), c)
	}
	if err != nil || o.Code != code || o.Replayed != replayed || !slices.Equal(b.store.requests, requests) {
		b.t.Fatalf("%#v:\ngot  %+v, %v, requests %q\nwant %s, replayed %v, %q", c, o, err, b.store.requests, code,
			replayed, requests)
	}
	return o
}

// lineUp lets a request wait in line for the lock b, which is held.
func (b *bench) lineUp() {
	b.t.Helper()
	id := lock.ID{Tenant: "acme", Key: "b"}
	c := lock.Acquire{ID: id, Owner: "bob", RequestID: "in line", TTLSeconds: 30, Fair: true, WaitSeconds: 20}
	o, err := b.locks.LineUp(b.t.Context(), c)
	if err != nil || o.Code != lock.Held || o.Position != 1 {
		b.t.Fatalf("%+v, %v", o, err)
	}
	if s, _, err := b.locks.Get(b.t.Context(), id); err != nil || len(s.Waiting) != 1 {
		b.t.Fatalf("%+v, %v", s, err)
	}
}

// mute is a store that returns no documents after several writes, as DynamoDB does, and lets a test come between the
// write and what follows.
type mute struct {
	docstore.Store
	then func()
}

func (s *mute) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	if r.Applied && len(writes) > 1 {
		clear(r.Docs)
		if s.then != nil {
			s.then()
		}
	}
	return r, err
}

// shy is a store that stops at the first write that is refused.
type shy struct{ docstore.Store }

func (s shy) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	for _, i := range r.Refused[min(1, len(r.Refused)):] {
		r.Docs[i] = nil
	}
	r.Refused = r.Refused[:min(1, len(r.Refused))]
	return r, err
}

// TestSetCosts: one request for a command on several locks, whatever its outcome; one more to release what is left.
func TestSetCosts(t *testing.T) {
	b := begin(t)
	o := b.set(acquireSet("ann", "r1", "b", "a", "c"), lock.OK, false, "Write")
	leases := leasesOf(o)
	if len(leases) != 3 || leases[0].Key != "a" || leases[2].Key != "c" || o.ExpiresAt() != epoch.Add(30*time.Second) {
		t.Errorf("the leases are %+v", o)
	}
	b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.OK, true, "Write")
	b.set(acquireSet("ann", "r1", "a", "b"), lock.RequestIDReused, false, "Write")
	if o = b.set(acquireSet("bob", "r2", "d", "c"), lock.Held, false, "Write"); o.Refusal.Lease.Key != "c" ||
		o.Refusal.RetryAfter != 30*time.Second ||
		o.Refusal.Lease.Owner != "ann" || o.Refusal.Lease.Token != 0 {
		t.Errorf("held: %+v", o.Refusal)
	}
	b.set(renewSet("ann", "n1", leases), lock.OK, false, "Write")
	b.set(renewSet("ann", "n1", leases), lock.OK, true, "Write")
	b.set(renewSet("ann", "n1", leases[:2]), lock.RequestIDReused, false, "Write")
	b.set(renewSet("bob", "n2", leases), lock.NotOwner, false, "Write")
	if _, err := b.locks.Release(t.Context(), lock.Release{ID: lock.ID{Tenant: "acme", Key: "b"}, Owner: "ann",
		Token: leases[1].Token, RequestID: "e0"}); err != nil {
		t.Fatal(err)
	}
	if o = b.set(renewSet("ann", "n3", leases), lock.LeaseReleased, false, "Write"); o.Refusal.Lease.Key != "b" {
		t.Errorf("the one that was released: %+v", o.Refusal)
	}
	o = b.set(releaseSet("ann", "e1", leases), lock.LeaseReleased, false, "Write", "Write")
	if got := leasesOf(o); o.Refusal.Lease.Key != "b" || !slices.Equal(got, []lock.SetLease{leases[0], leases[2]}) {
		t.Errorf("the others: %+v, %+v", got, o.Refusal)
	}
	b.set(releaseSet("ann", "e1", leases), lock.LeaseReleased, false, "Write")
	b.set(releaseSet("ann", "e1", []lock.SetLease{leases[0], leases[2]}), lock.OK, true, "Write")
	b.set(acquireSet("bob", "r3", "d", "c", "b", "a"), lock.OK, false, "Write")
}

// TestARepeatedSetOfWhichOneHasEnded: a request that obtained its leases is not told that others hold one of them now,
// because waiting does not help: the lease has ended, and the request_id with it.
func TestARepeatedSetOfWhichOneHasEnded(t *testing.T) {
	for name, later := range map[string]int{"free": 0, "held by another": 1, "held by another, the request forgotten": 8} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			leases := leasesOf(b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.OK, false, "Write"))
			b.set(releaseSet("ann", "e1", leases[1:2]), lock.OK, false, "Write")
			for n := range later {
				if o := b.set(acquireSet("bob", fmt.Sprint("r", n), "b"), lock.OK, false, "Write"); n+1 < later {
					b.set(releaseSet("bob", fmt.Sprint("e", n), leasesOf(o)), lock.OK, false, "Write")
				}
			}
			if o := b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.RequestIDReused, false,
				"Write"); o.Refusal.Lease.Key != "b" || len(o.Leases) > 0 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestARenewedSetOfWhichOneWasRenewedSince: the repeated renewal is known in one lock and forgotten in another, so that
// neither OK nor a second renewal would be true.
func TestARenewedSetOfWhichOneWasRenewedSince(t *testing.T) {
	b := begin(t)
	leases := leasesOf(b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, false, "Write"))
	b.set(renewSet("ann", "n1", leases), lock.OK, false, "Write")
	for n := range 8 { // more than a lease remembers
		c := lock.Renew{ID: lock.ID{Tenant: "acme", Key: "b"}, Owner: "ann", Token: leases[1].Token,
			RequestID: fmt.Sprint("alone ", n), TTLSeconds: 600}
		if o, err := b.locks.Renew(t.Context(), c); err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
	o := b.set(renewSet("ann", "n1", leases), lock.LeaseChanged, false, "Write")
	if !strings.Contains(o.Refusal.Detail, "use a new request_id") || len(o.Leases) > 0 {
		t.Errorf("%+v", o)
	}
	for i, ttl := range []time.Duration{60 * time.Second, 600 * time.Second} {
		s, _, err := b.locks.Get(t.Context(), lock.ID{Tenant: "acme", Key: leases[i].Key})
		if err != nil || s.ExpiresAt != epoch.Add(ttl) {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// TestASetWhoseSecondWriteIsRefused: a lock that changes between the two writes is looked at again, as often as that
// may help.
func TestASetWhoseSecondWriteIsRefused(t *testing.T) {
	for changes, want := range map[int]error{1: nil, 100: docstore.ErrUnavailable} {
		b := begin(t)
		id := lock.ID{Tenant: "acme", Key: "b"}
		leases := leasesOf(b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, false, "Write"))
		b.lineUp() // the release of b takes a second write
		others := lock.New(b.store.Store, nil)
		writes := 0
		b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if writes++; writes > 1 && writes <= 1+changes {
				c := lock.Acquire{ID: id, Owner: fmt.Sprint("in line ", writes), RequestID: "r", TTLSeconds: 30, Fair: true,
					WaitSeconds: 20}
				if o, err := others.LineUp(t.Context(), c); err != nil || o.Code != lock.Held {
					t.Error(o, err)
				}
			}
			return apply()
		}
		o, err := b.locks.ReleaseSet(t.Context(), releaseSet("ann", "e1", leases))
		if !errors.Is(err, want) || want == nil && (o.Code != lock.OK || writes != 3) {
			t.Errorf("%d changes: %+v, %v after %d writes", changes, o, err, writes)
		}
	}
}

// TestSetTokensAreRead: where the store returns no documents, one read shows the tokens. What happens before it is not
// lost.
func TestSetTokensAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		between func(b *bench) // the write and the read
		want    lock.Code
	}{
		"nothing": {nil, lock.OK},
		"another renews a lock of its own": {func(b *bench) {
			b.gets(acquire("bob", "other", 30), lock.OK, false)
		}, lock.OK},
		"one is ended by force": {func(b *bench) {
			b.gets(lock.ForceRelease{ID: lock.ID{Tenant: "acme", Key: "b"}, By: "root", Reason: "hangs", RequestID: "f"},
				lock.OK, false)
		}, lock.RequestIDReused},
		"one is ended by force and acquired": {func(b *bench) {
			b.gets(lock.ForceRelease{ID: lock.ID{Tenant: "acme", Key: "b"}, By: "root", Reason: "hangs", RequestID: "f"},
				lock.OK, false)
			b.gets(lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "b"}, Owner: "bob", RequestID: "b", TTLSeconds: 30}, lock.OK,
				false)
		}, lock.RequestIDReused},
		"one is waited for in line": {func(b *bench) { b.lineUp() }, lock.OK},
		"its end":                   {func(b *bench) { b.own.Advance(31 * time.Second) }, lock.LeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			quiet := &mute{Store: b.store.Store}
			b.store.Store = quiet
			if c.between != nil {
				quiet.then = func() { quiet.then = nil; c.between(b) }
			}
			o, err := b.locks.AcquireSet(t.Context(), acquireSet("ann", "r1", "a", "b"))
			if err != nil || o.Code != c.want || o.Replayed || b.store.requests[len(b.store.requests)-1] != "Get" {
				t.Fatalf("%+v, %v, %q; want %s", o, err, b.store.requests, c.want)
			}
			if c.want != lock.OK {
				return
			}
			again, err := b.locks.AcquireSet(t.Context(), acquireSet("ann", "r1", "a", "b"))
			if err != nil || !again.Replayed || !slices.Equal(leasesOf(again), leasesOf(o)) {
				t.Errorf("again: %+v, %v; first %+v", again, err, o)
			}
			if n, err := b.locks.RenewSet(t.Context(), renewSet("ann", "n1", leasesOf(o))); err != nil || n.Code != lock.OK {
				t.Errorf("renew: %+v, %v", n, err)
			}
			if e, err := b.locks.ReleaseSet(t.Context(), releaseSet("ann", "e1", leasesOf(o))); err != nil || e.Code != lock.OK {
				t.Errorf("release: %+v, %v", e, err)
			}
		})
	}
}

// TestSetOnAStoreThatNamesOneRefusal: the outcomes are the same where a store stops at the first write that is refused.
func TestSetOnAStoreThatNamesOneRefusal(t *testing.T) {
	b := begin(t)
	b.store.Store = shy{b.store.Store}
	o := b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.OK, false, "Write")
	again := b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.OK, true, "Write", "Get")
	if !reflect.DeepEqual(leasesOf(o), leasesOf(again)) {
		t.Errorf("%+v, then %+v", o, again)
	}
	b.gets(lock.ForceRelease{ID: lock.ID{Tenant: "acme", Key: "b"}, By: "root", Reason: "hangs", RequestID: "f"}, lock.OK,
		false)
	b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.RequestIDReused, false, "Write", "Get")
	b.set(acquireSet("bob", "r2", "a", "b", "c"), lock.Held, false, "Write")
	b.set(releaseSet("ann", "e1", leasesOf(o)), lock.LeaseReleased, false, "Write", "Write")
	b.set(acquireSet("bob", "r3", "a", "b", "c"), lock.OK, false, "Write")
}

// TestSetAmongOtherModes: the leases of a set are renewed and released also when others wait in line for one of the
// locks, and a lock that is held in another mode is not acquired.
func TestSetAmongOtherModes(t *testing.T) {
	b := begin(t)
	leases := leasesOf(b.set(acquireSet("ann", "r1", "a", "b", "c"), lock.OK, false, "Write"))
	b.lineUp()
	o, err := b.locks.RenewSet(t.Context(), renewSet("ann", "n1", leases))
	if err != nil || o.Code != lock.OK || o.ExpiresAt() != b.clock.Now().Add(60*time.Second) {
		t.Errorf("renew: %+v, %v", o, err)
	}
	if again, err := b.locks.RenewSet(t.Context(), renewSet("ann", "n1", leases)); err != nil || again.Code != lock.OK ||
		!again.Replayed || again.ExpiresAt() != o.ExpiresAt() {
		t.Errorf("renew again: %+v, %v", again, err)
	}
	if o, err := b.locks.AcquireSet(t.Context(), acquireSet("eve", "r2", "b", "d")); err != nil || o.Code != lock.Held ||
		o.Refusal.Lease.Key != "b" {
		t.Errorf("acquire what is held: %+v, %v", o, err)
	}
	if o, err := b.locks.ReleaseSet(t.Context(), releaseSet("ann", "e1", leases)); err != nil || o.Code != lock.OK ||
		len(o.Leases) != 3 {
		t.Errorf("release: %+v, %v", o, err)
	}
	if s, _, err := b.locks.Get(t.Context(), lock.ID{Tenant: "acme", Key: "b"}); err != nil || s.Phase != lock.Active ||
		s.Owner != "bob" {
		t.Errorf("the one that was waited for: %+v, %v", s, err)
	}
	if o, err := b.locks.ReleaseSet(t.Context(), releaseSet("ann", "e1", leases)); err != nil || o.Code != lock.OK ||
		!o.Replayed {
		t.Errorf("release again: %+v, %v", o, err)
	}

	permit := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "p"}, Owner: "bob", RequestID: "p1", TTLSeconds: 30,
		Mode: lock.Permits, Limit: 2}
	b.gets(permit, lock.OK, false)
	if o, err := b.locks.AcquireSet(t.Context(), acquireSet("eve", "r3", "p", "d")); err != nil ||
		o.Code != lock.ModeDiffers || o.Refusal.Lease.Key != "p" {
		t.Errorf("acquire what has another mode: %+v, %v", o, err)
	}
	b.clock.Advance(time.Minute) // its lease is over, and no one has written that
	o, err = b.locks.AcquireSet(t.Context(), acquireSet("eve", "r4", "p", "d"))
	if err != nil || o.Code != lock.OK || len(o.Leases) != 2 {
		t.Fatalf("acquire what had another mode: %+v, %v", o, err)
	}
	if o, err := b.locks.ReleaseSet(t.Context(), releaseSet("eve", "e1", leasesOf(o))); err != nil || o.Code != lock.OK {
		t.Errorf("release what had another mode: %+v, %v", o, err)
	}
}

// TestSetOfALockWithADelay: a lock that is closed for its lock delay keeps the whole set, and no longer than that.
func TestSetOfALockWithADelay(t *testing.T) {
	b := begin(t)
	delayed := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "b"}, Owner: "bob", RequestID: "w1", TTLSeconds: 10,
		LockDelaySeconds: 15}
	b.gets(delayed, lock.OK, false)
	b.clock.Advance(11 * time.Second)
	if o := b.set(acquireSet("ann", "r1", "a", "b"), lock.Delayed, false,
		"Write"); o.Refusal.RetryAfter != 14*time.Second {
		t.Errorf("retry after %v", o.Refusal.RetryAfter)
	}
	b.clock.Advance(14 * time.Second)
	b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, false, "Write", "Write")
}

// TestSetsPerTenant: a set counts with as many locks as it creates, and creates none beyond the bound.
func TestSetsPerTenant(t *testing.T) {
	clock := suite.NewClock()
	for name, store := range map[string]docstore.Store{
		"documents": docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}),
		"none":      &mute{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})},
	} {
		t.Run(name, func(t *testing.T) {
			locks := lock.New(store, &lock.Options{Now: clock.Now, MaxPerTenant: 5})
			do := func(want lock.Code, request string, keys ...string) {
				t.Helper()
				c := acquireSet("ann", request, keys...)
				o, err := locks.AcquireSet(t.Context(), c)
				if err != nil || o.Code != want || want == lock.Limit && (o.Refusal.RetryAfter <= 0 || o.Refusal.Detail == "") {
					t.Errorf("%q: %+v, %v; want %s", keys, o, err, want)
				}
				if want != lock.OK {
					return
				}
				if o, err := locks.ReleaseSet(t.Context(), releaseSet("ann", request, leasesOf(o))); err != nil ||
					o.Code != lock.OK {
					t.Errorf("release %q: %+v, %v", keys, o, err)
				}
			}
			do(lock.OK, "r1", "a", "b", "c")
			do(lock.Limit, "r2", "d", "e", "f")
			do(lock.OK, "r3", "c", "d")
			do(lock.Limit, "r4", "e", "f")
			do(lock.OK, "r5", "a", "b", "c", "d")
			do(lock.OK, "r6", "e", "a", "b", "c", "d")
			do(lock.Limit, "r7", "a", "f")
		})
	}
}

// TestMalformedSetsAreNotSent: each error names the field, and nothing is asked of the store.
func TestMalformedSetsAreNotSent(t *testing.T) {
	b := begin(t)
	many := make([]string, lock.MaxSetKeys+1)
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	one := []lock.SetLease{{Key: "a", Token: 1}}
	for name, c := range map[string]struct {
		do   func() (lock.SetOutcome, error)
		name string
	}{
		"no keys": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("ann", "r"))
		}, "lock_keys"},
		"too many keys": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("ann", "r", many...))
		}, "lock_keys"},
		"a key twice": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("ann", "r", "a", "b", "a"))
		}, "lock_keys"},
		"an empty key": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("ann", "r", "a", ""))
		}, "lock_keys"},
		"a line break": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("ann", "r", "a\nb"))
		}, "lock_keys"},
		"no owner": {func() (lock.SetOutcome, error) {
			return b.locks.AcquireSet(t.Context(), acquireSet("", "r", "a"))
		}, "owner_id"},
		"no request": {func() (lock.SetOutcome, error) {
			return b.locks.RenewSet(t.Context(), renewSet("ann", "", one))
		}, "request_id"},
		"no leases": {func() (lock.SetOutcome, error) {
			return b.locks.RenewSet(t.Context(), renewSet("ann", "r", nil))
		}, "leases"},
		"no token": {func() (lock.SetOutcome, error) {
			return b.locks.ReleaseSet(t.Context(), releaseSet("ann", "r", []lock.SetLease{{Key: "a"}}))
		}, "leases"},
		"nothing": {func() (lock.SetOutcome, error) {
			return b.locks.ReleaseSet(t.Context(), releaseSet("ann", "r", nil))
		}, "leases"},
	} {
		_, err := c.do()
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != c.name {
			t.Errorf("%s: %v, want the field %s", name, err, c.name)
		}
	}
	if len(b.store.requests) > 0 {
		t.Errorf("sent %q", b.store.requests)
	}
}

// TestSetOnDamage: what cannot be read is an error, and a store that refuses what the rule grants is found out.
func TestSetOnDamage(t *testing.T) {
	b := begin(t)
	b.put("b", docstore.Doc{"state": docstore.String("ACTIVE"), "token": docstore.Int(1)})
	if _, err := b.locks.AcquireSet(t.Context(), acquireSet("ann", "r1", "a", "b")); !errors.Is(err, docstore.ErrDamaged) {
		t.Errorf("a document without its end: %v", err)
	}
	if s, found, err := b.locks.Get(t.Context(), lock.ID{Tenant: "acme", Key: "a"}); err != nil || found {
		t.Errorf("the other lock: %+v, %v", s, err)
	}
	b.store.write = func(func() (docstore.Result, error)) (docstore.Result, error) {
		return docstore.Result{At: epoch, Docs: make([]docstore.Doc, 2), Refused: []int{1}}, nil
	}
	if _, err := b.locks.AcquireSet(t.Context(), acquireSet("ann", "r1", "a", "c")); !errors.Is(err, docstore.ErrDamaged) {
		t.Errorf("a refusal of what is free: %v", err)
	}
}

// TestSetsThatCameTooLate: a renewal whose response takes longer than the leases last is none, and a set expires with
// the first of its leases.
func TestSetsThatCameTooLate(t *testing.T) {
	b := begin(t)
	leases := leasesOf(b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, false, "Write"))
	c := lock.Renew{ID: lock.ID{Tenant: "acme", Key: "a"}, Owner: "ann", Token: leases[0].Token, RequestID: "n0",
		TTLSeconds: 3600}
	b.gets(c, lock.OK, false)
	if o := b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, true, "Write"); o.ExpiresAt() != epoch.Add(30*time.Second) {
		t.Errorf("the first of the leases ends %v", o.ExpiresAt())
	}
	b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		defer b.own.Advance(61 * time.Second)
		return apply()
	}
	// two: the expiry of one of them is moved back
	if o := b.set(renewSet("ann", "n1", leases), lock.LeaseExpired, false, "Write", "Write"); o.Refusal.Lease.Key != "a" {
		t.Errorf("late: %+v", o)
	}
	b.set(acquireSet("ann", "r2", "c", "d"), lock.LeaseExpired, false, "Write")
}

// TestWhatIsWrongIsShownFirst: of a set that is refused for two reasons the caller gets the one that waiting does not
// cure.
func TestWhatIsWrongIsShownFirst(t *testing.T) {
	locks := lock.New(docstore.NewMemory(nil), nil)
	for _, one := range []lock.Acquire{
		{ID: lock.ID{Tenant: "acme", Key: "a"}, Owner: "bob", RequestID: "r", TTLSeconds: 60},
		{ID: lock.ID{Tenant: "acme", Key: "b"}, Owner: "ann", RequestID: "s", TTLSeconds: 60}, // by itself, not of a set
	} {
		if o, err := locks.Acquire(t.Context(), one); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	o, err := locks.AcquireSet(t.Context(), acquireSet("ann", "s", "a", "b"))
	if err != nil || o.Code != lock.RequestIDReused || o.Refusal.Lease.Key != "b" {
		t.Errorf("%+v, %v", o, err)
	}
}
