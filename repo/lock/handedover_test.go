package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestHandedOver: each lease that a command grants to a request in line is told once, with its owner and token, by the
// command that did it; what a request obtains itself is not.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	type told struct {
		by, owner string
		token     int64 // counted from the first of the lock
	}
	exclusive := lock.Acquire{Fair: true, TTLSeconds: 15}
	shared := lock.Acquire{Mode: lock.Shared, TTLSeconds: 60}
	permits := lock.Acquire{Mode: lock.Permits, Limit: 1, TTLSeconds: 60}
	rate := lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: 10}
	for name, c := range map[string]struct {
		first, waiting lock.Acquire
		hands          func(n *handing)
		want           []told
	}{
		"release": {exclusive, exclusive, func(n *handing) { n.release() }, []told{{"release", "w0", 1}}},
		"release of several": {exclusive, exclusive, func(n *handing) { n.releaseSet() },
			[]told{{"release", "w0", 1}}},
		"release to readers": {exclusive, shared, func(n *handing) { n.release() },
			[]told{{"release", "w0", 1}, {"release", "w1", 2}}},
		"release of a permit": {permits, permits, func(n *handing) { n.release() }, []told{{"release", "w0", 1}}},
		"force-release":       {exclusive, exclusive, func(n *handing) { n.force() }, []told{{"force", "w0", 1}}},
		"give up":             {exclusive, exclusive, func(n *handing) { n.giveUp() }, []told{{"give up", "w0", 1}}},
		"another asks when it expired": {exclusive, exclusive, func(n *handing) { n.wait(15); n.acquire("other", 0) },
			[]told{{"other", "w0", 1}}},
		"the next asks when it expired": {exclusive, exclusive, func(n *handing) { n.wait(15); n.acquire("w0", 20) }, nil},
		"the second asks when it expired": {exclusive, exclusive, func(n *handing) { n.wait(15); n.acquire("w1", 20) },
			[]told{{"w1", "w0", 1}}},
		"a rate, another asks": {rate, rate, func(n *handing) { n.wait(10); n.acquire("other", 0) }, nil},
		"a rate, the second asks": {rate, rate, func(n *handing) { n.wait(10); n.acquire("w1", 20) },
			[]told{{"w1", "w0", 2}}},
		"nothing": {exclusive, exclusive, func(n *handing) { n.acquire("other", 0) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &handing{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), form: c.waiting}
			store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return n.now }})
			var got []told
			n.locks = lock.New(store, &lock.Options{Now: func() time.Time { return n.now },
				HandedOver: func(ctx context.Context, o lock.Outcome) {
					by, _ := ctx.Value(byKey{}).(string)
					if o.Code != lock.OK || o.Lease.Key != deploy.Key || o.Lease.Tenant != deploy.Tenant ||
						o.Lease.LeaseID == "" || !o.At.Equal(n.now) || !o.Lease.AcquiredAt.Equal(n.now) ||
						!o.Lease.ExpiresAt.After(n.now) {
						t.Errorf("%+v", o)
					}
					got = append(got, told{by, o.Lease.Owner, o.Lease.Token - n.first})
				}})
			form := n.form
			n.form = c.first
			n.first = n.acquire("first", 0).Lease.Token
			if c.first.Mode == lock.Rate {
				n.acquire("another", 0)
			}
			n.form = form
			for i := range 2 {
				if o := n.acquire(fmt.Sprint("w", i), 20); o.Code != lock.Held || o.Position != int64(i)+1 {
					t.Fatalf("in line: %+v", o)
				}
			}
			c.hands(n)
			if !slices.Equal(got, c.want) {
				t.Errorf("told %v, want %v", got, c.want)
			}
			told := slices.Clone(got)
			for _, l := range told { // its request learns of the same lease, and is told no more
				if o := n.acquire(l.owner, 20); o.Code != lock.OK || o.Lease.Token-n.first != l.token {
					t.Errorf("%s was told to have %d: %+v", l.owner, l.token, o)
				}
			}
			if len(got) != len(told) {
				t.Errorf("told again: %v", got[len(told):])
			}
		})
	}
}

type byKey struct{}

// handing is a lock that is held, with a line.
type handing struct {
	t     *testing.T
	now   time.Time
	locks *lock.Locks
	form  lock.Acquire
	first int64
}

func (n *handing) by(who string) context.Context {
	return context.WithValue(n.t.Context(), byKey{}, who)
}

func (n *handing) wait(seconds int) { n.now = n.now.Add(time.Duration(seconds) * time.Second) }

// acquire sends an acquire once, whatever its wait.
func (n *handing) acquire(owner string, wait int64) lock.Outcome {
	n.t.Helper()
	c := n.form
	c.ID, c.Owner, c.RequestID, c.WaitSeconds = deploy, owner, "r", wait
	o, err := n.locks.LineUp(n.by(owner), c)
	if err != nil {
		n.t.Fatal(err)
	}
	return o
}

func (n *handing) ok(code lock.Code, err error) {
	n.t.Helper()
	if err != nil || code != lock.OK {
		n.t.Fatal(code, err)
	}
}

func (n *handing) release() {
	o, err := n.locks.Release(n.by("release"), lock.Release{ID: deploy, Owner: "first", RequestID: "e", Token: n.first})
	n.ok(o.Code, err)
}

func (n *handing) releaseSet() {
	o, err := n.locks.ReleaseSet(n.by("release"), lock.ReleaseSet{Tenant: deploy.Tenant, Owner: "first", RequestID: "e",
		Leases: []lock.SetLease{{Key: deploy.Key, Token: n.first}}})
	n.ok(o.Code, err)
}

func (n *handing) force() {
	o, err := n.locks.ForceRelease(n.by("force"), lock.ForceRelease{ID: deploy, By: "root", RequestID: "f", Reason: "x"})
	n.ok(o.Code, err)
}

func (n *handing) giveUp() {
	c := n.form
	c.ID, c.Owner, c.RequestID = deploy, "first", "r"
	o, err := n.locks.GiveUp(n.by("give up"), lock.GiveUp{Acquire: c})
	n.ok(o.Code, err)
}

// TestAJoinTellsOfNoHandOver: a request that takes a place in line does not tell of what another server handed over
// while it came.
func TestAJoinTellsOfNoHandOver(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock})
	other := &handing{t: t, now: now, locks: lock.New(store, &lock.Options{Now: clock}),
		form: lock.Acquire{Fair: true, TTLSeconds: 20}}
	other.first = other.acquire("first", 0).Lease.Token
	for i := range 3 {
		other.acquire(fmt.Sprint("w", i), 20)
	}
	writes := 0
	here := &handing{t: t, now: now, form: other.form, locks: lock.New(beforeWrite{store, func() {
		if writes++; writes == 2 {
			other.release()
		}
	}}, &lock.Options{Now: clock, HandedOver: func(_ context.Context, o lock.Outcome) { t.Errorf("told of %+v", o) }})}
	if o := here.acquire("late", 20); o.Code != lock.Held || o.Position != 3 || writes != 2 {
		t.Errorf("after %d writes: %+v", writes, o)
	}
}

// beforeWrite is a store to which something is done before each write.
type beforeWrite struct {
	docstore.Store
	do func()
}

func (s beforeWrite) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.do()
	return s.Store.Write(ctx, w...)
}
