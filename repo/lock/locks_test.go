package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

var (
	epoch  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	deploy = lock.ID{Tenant: "acme", Key: "deploy"}
	labels = map[string]string{"build": "7"}
)

// nth is the token of the nth grant of a lock whose first was at epoch. Other numbers, which no lock gives, are left as
// they are.
func nth(n int64) int64 {
	if n < 1 || n > 99 {
		return n
	}
	return epoch.UnixMicro() + n
}

// watched is a store that notes which requests it gets and lets a test come between a write and its response.
type watched struct {
	docstore.Store
	requests []string

	// write, if set, stands between the caller and the store.
	write func(apply func() (docstore.Result, error)) (docstore.Result, error)
}

func (s *watched) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.requests = append(s.requests, "Get")
	return s.Store.Get(ctx, keys...)
}

func (s *watched) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.requests = append(s.requests, "Write")
	apply := func() (docstore.Result, error) { return s.Store.Write(ctx, writes...) }
	if s.write != nil {
		return s.write(apply)
	}
	return apply()
}

func (s *watched) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.requests = append(s.requests, "List")
	return s.Store.List(ctx, q)
}

// bench is the lock commands on an empty store whose clock stands at epoch. Lease IDs are l1, l2 and so on.
type bench struct {
	t     *testing.T
	store *watched
	clock *suite.Clock // the store's
	own   *suite.Clock // that of Locks
	locks *lock.Locks
}

func begin(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: suite.NewClockAt(epoch), own: suite.NewClockAt(epoch.Add(-time.Hour))}
	b.store = &watched{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: b.clock.Now})}
	leases := 0
	b.locks = lock.New(b.store, &lock.Options{Now: b.own.Now,
		NewLeaseID: func() string { leases++; return fmt.Sprint("l", leases) }})
	return b
}

// do carries out a command of any kind.
func (b *bench) do(c any) (lock.Outcome, error) {
	b.t.Helper()
	switch c := c.(type) {
	case lock.Acquire:
		return b.locks.Acquire(b.t.Context(), c)
	case lock.Renew:
		return b.locks.Renew(b.t.Context(), c)
	case lock.Release:
		return b.locks.Release(b.t.Context(), c)
	case lock.ForceRelease:
		return b.locks.ForceRelease(b.t.Context(), c)
	default:
		b.t.Fatalf("%T is no command", c)
		return lock.Outcome{}, nil
	}
}

// gets fails the test unless the command ends with the code.
func (b *bench) gets(c any, code lock.Code, replayed bool) lock.Outcome {
	b.t.Helper()
	o, err := b.do(c)
	if err != nil || o.Code != code || o.Replayed != replayed {
		b.t.Fatalf("%#v:\ngot  %+v, %v\nwant %s, replayed %v", c, o, err, code, replayed)
	}
	return o
}

// put writes a document as it is.
func (b *bench) put(key string, d docstore.Doc) {
	b.t.Helper()
	r, err := b.store.Store.Write(b.t.Context(), docstore.Write{
		Key: docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: key}, Set: d,
	})
	if err != nil || !r.Applied {
		b.t.Fatalf("put %s: %+v, %v", key, r, err)
	}
}

// document reads a lock's document as it is.
func (b *bench) document() docstore.Doc {
	b.t.Helper()
	s, err := b.store.Store.Get(b.t.Context(), docstore.Key{Kind: lock.Kind, Tenant: deploy.Tenant, ID: deploy.Key})
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Docs[0]
}

func acquire(owner, request string, ttl int64) lock.Acquire {
	return lock.Acquire{ID: deploy, Owner: owner, RequestID: request, TTLSeconds: ttl, Metadata: labels}
}

func renew(owner string, token int64, request string, ttl int64) lock.Renew {
	return lock.Renew{ID: deploy, Owner: owner, Token: nth(token), RequestID: request, TTLSeconds: ttl}
}

func release(owner string, token int64, request string) lock.Release {
	return lock.Release{ID: deploy, Owner: owner, Token: nth(token), RequestID: request}
}

func force(request string) lock.ForceRelease {
	return lock.ForceRelease{ID: deploy, By: "root", Reason: "hangs", RequestID: request}
}

// TestLifeOfALock is one story: each command's whole outcome, and the one request that it costs, whatever the outcome.
func TestLifeOfALock(t *testing.T) {
	b := begin(t)
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	ann := lock.Lease{Token: nth(1), Status: lock.Status{
		Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l1", Owner: "ann",
		AcquiredAt: at(0), ExpiresAt: at(30), TTLSeconds: 30, Metadata: labels,
	}}
	bob := lock.Lease{Token: nth(2), Status: lock.Status{
		Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l4", Owner: "bob",
		AcquiredAt: at(12), ExpiresAt: at(17), TTLSeconds: 5, Metadata: labels,
	}}
	cy := lock.Lease{Token: nth(3), Status: lock.Status{
		Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l5", Owner: "cy",
		AcquiredAt: at(17), ExpiresAt: at(47), TTLSeconds: 30, Metadata: labels,
	}}
	with := func(l lock.Lease, change func(*lock.Lease)) lock.Lease { change(&l); return l }
	hidden := func(l *lock.Lease) { l.Token = 0 }
	until := func(s int, ttl int64) func(*lock.Lease) {
		return func(l *lock.Lease) { l.ExpiresAt, l.TTLSeconds = at(s), ttl }
	}
	ended := func(s int) func(*lock.Lease) {
		return func(l *lock.Lease) { l.Phase, l.ReleasedAt = lock.Released, at(s) }
	}
	forced := func(l *lock.Lease) {
		l.Phase, l.ReleasedAt = lock.Released, at(18)
		l.Forced = lock.Forced{By: "root", Reason: "hangs", At: at(18)}
	}
	named := func(token int64) lock.Lease {
		return lock.Lease{Token: nth(token), Status: lock.Status{Tenant: "acme", Key: "deploy"}}
	}
	renewed := with(ann, until(70, 60))

	steps := []struct {
		name  string
		after time.Duration // since the step before
		do    any
		want  lock.Outcome // At is filled in
	}{
		{"LS-INV-004: renew before the first grant", 0, renew("ann", 1, "n0", 30),
			lock.Outcome{Code: lock.LeaseLost, Lease: named(1),
				Detail: "there is no lease with this token: none was ever granted with it, or the record of the lock was removed since"}},
		{"force-release before the first grant", 0, force("f0"),
			lock.Outcome{Code: lock.NotHeld, Lease: named(0), Detail: "no one holds the lock"}},
		{"LS-ACQ-002, LS-ACQ-003: acquire what is free", 0, acquire("ann", "a1", 30),
			lock.Outcome{Code: lock.OK, Lease: ann}},
		{"LS-ACQ-004: acquire again", 10 * time.Second, acquire("ann", "a1", 30),
			lock.Outcome{Code: lock.OK, Replayed: true, Lease: ann}},
		{"LS-ACQ-001: acquire what is held", 0, acquire("bob", "a2", 5),
			lock.Outcome{Code: lock.Held, Lease: with(ann, hidden), RetryAfter: 20 * time.Second}},
		{"LS-RNW-002: renew", 0, renew("ann", 1, "n1", 60), lock.Outcome{Code: lock.OK, Lease: renewed}},
		{"LS-RNW-003: renew again", time.Second, renew("ann", 1, "n1", 60),
			lock.Outcome{Code: lock.OK, Replayed: true, Lease: renewed}},
		{"renew again for another time", 0, renew("ann", 1, "n1", 61), lock.Outcome{
			Code: lock.RequestIDReused, Lease: named(1),
			Detail: "this request_id renewed the lease with another ttl_seconds; use a new request_id",
		}},
		{"LS-RNW-001: renew by another", 0, renew("bob", 1, "n2", 60),
			lock.Outcome{Code: lock.NotOwner, Lease: named(1), Detail: "the lease belongs to another owner_id"}},
		{"LS-REL-001: release by another", 0, release("bob", 1, "e1"),
			lock.Outcome{Code: lock.NotOwner, Lease: named(1), Detail: "the lease belongs to another owner_id"}},
		{"LS-REL-002: release", 0, release("ann", 1, "e1"), lock.Outcome{Code: lock.OK, Lease: with(renewed, ended(11))}},
		{"LS-REL-003: release again", time.Second, release("ann", 1, "e1"),
			lock.Outcome{Code: lock.OK, Replayed: true, Lease: with(renewed, ended(11))}},
		{"LS-INV-004: renew what was released", 0, renew("ann", 1, "n3", 60), lock.Outcome{
			Code: lock.LeaseReleased, Lease: with(named(1), func(l *lock.Lease) { l.ReleasedAt = at(11) }),
			Detail: "the lease was released at 2026-01-01T00:00:11.000Z; acquire the lock again",
		}},
		{"acquire what was released", 0, acquire("bob", "a3", 5), lock.Outcome{Code: lock.OK, Lease: bob}},
		{"LS-REL-003: release again after a later lease", 0, release("ann", 1, "e1"), lock.Outcome{
			Code: lock.OK, Replayed: true,
			Lease: with(named(1), func(l *lock.Lease) { l.Owner, l.Phase = "ann", lock.Released }),
		}},
		{"LS-INV-003: renew an earlier lease", 0, renew("ann", 1, "n1", 60),
			lock.Outcome{Code: lock.LeaseLost, Lease: named(1),
				Detail: "a later lease has been granted; stop the work that this token protects"}},
		{"LS-EXP-001, LS-INV-004: renew at expires_at", 5 * time.Second, renew("bob", 2, "n4", 60), lock.Outcome{
			Code: lock.LeaseExpired, Lease: with(named(2), func(l *lock.Lease) { l.ExpiresAt = at(17) }),
			Detail: "the lease expired at 2026-01-01T00:00:17.000Z; acquire the lock again",
		}},
		{"LS-INV-004: release at expires_at", 0, release("bob", 2, "e2"), lock.Outcome{
			Code: lock.LeaseExpired, Lease: with(named(2), func(l *lock.Lease) { l.ExpiresAt = at(17) }),
			Detail: "the lease expired at 2026-01-01T00:00:17.000Z; acquire the lock again",
		}},
		{"force-release at expires_at", 0, force("f0"), lock.Outcome{
			Code: lock.NotHeld, Lease: with(bob, func(l *lock.Lease) { l.Phase = lock.Expired }),
			Detail: "no one holds the lock",
		}},
		{"LS-ACQ-002: acquire at expires_at", 0, acquire("cy", "a4", 30), lock.Outcome{Code: lock.OK, Lease: cy}},
		{"force-release another lease", time.Second, lock.ForceRelease{ID: deploy, By: "root", Reason: "hangs",
			RequestID: "f1", LeaseID: "l4"},
			lock.Outcome{Code: lock.LeaseLost, Lease: named(0),
				Detail: "the lock is held under another lease_id; look at the lock again before ending it"}},
		{"force-release", 0, force("f1"), lock.Outcome{Code: lock.OK, Lease: with(cy, forced)}},
		{"force-release again", time.Second, force("f1"), lock.Outcome{Code: lock.OK, Replayed: true,
			Lease: with(cy, forced)}},
		{"force-release again for another reason", 0, lock.ForceRelease{ID: deploy, By: "root", Reason: "lunch",
			RequestID: "f1"}, lock.Outcome{
			Code: lock.RequestIDReused, Lease: named(0),
			Detail: "this request_id ended a lease with another reason or lease_id; use a new request_id",
		}},
		{"release what was ended by force", 0, release("cy", 3, "e3"), lock.Outcome{
			Code: lock.LeaseReleased, Lease: with(named(3), func(l *lock.Lease) { l.ReleasedAt = at(18) }),
			Detail: "the lease was ended by root: hangs",
		}},
		{"LS-ACC-04: acquire again after the end", 0, acquire("cy", "a4", 30), lock.Outcome{
			Code: lock.RequestIDReused, Lease: named(0),
			Detail: "the lease that this request_id obtained has ended; use a new request_id",
		}},
		{"LS-ACC-04: acquire again after the end of an earlier lease", 0, acquire("ann", "a1", 30), lock.Outcome{
			Code: lock.RequestIDReused, Lease: named(0),
			Detail: "the lease that this request_id obtained has ended; use a new request_id",
		}},
		{"acquire anew: nothing is left of how the lease before it was ended", 0, acquire("cy", "a5", 30), lock.Outcome{
			Code: lock.OK,
			Lease: lock.Lease{Token: nth(4), Status: lock.Status{
				Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l8", Owner: "cy", AcquiredAt: at(19),
				ExpiresAt:  at(49),
				TTLSeconds: 30, Metadata: labels,
			}},
		}},
		{"force-release again after a later lease", 0, force("f1"), lock.Outcome{
			Code: lock.OK, Replayed: true, Lease: with(named(0), func(l *lock.Lease) { l.Phase = lock.Released }),
		}},
		{"acquire again with other metadata", 0, lock.Acquire{ID: deploy, Owner: "cy", RequestID: "a5", TTLSeconds: 30},
			lock.Outcome{
				Code: lock.RequestIDReused, Lease: named(0),
				Detail: "this request_id was used with other parameters, such as ttl_seconds or metadata; use a new request_id",
			}},
		{"LS-ACQ-001: acquire what one holds oneself", 0, acquire("cy", "a6", 30), lock.Outcome{
			Code: lock.Held, RetryAfter: 30 * time.Second, Detail: "this owner_id holds the lock, under another request_id",
			Lease: lock.Lease{Status: lock.Status{
				Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l8", Owner: "cy", AcquiredAt: at(19),
				ExpiresAt:  at(49),
				TTLSeconds: 30, Metadata: labels,
			}},
		}},
		{"renew for another end than the lease has", 0,
			lock.Renew{ID: deploy, Owner: "cy", Token: nth(4), RequestID: "n5", TTLSeconds: 60, ExpiresAt: at(48)}, lock.Outcome{
				Code: lock.LeaseChanged, Lease: with(named(4), func(l *lock.Lease) { l.ExpiresAt = at(49) }),
				Detail: "the lease expires at 2026-01-01T00:00:49.000Z; name this time, or none, to renew it",
			}},
		{"renew for the end that the lease has", 0,
			lock.Renew{ID: deploy, Owner: "cy", Token: nth(4), RequestID: "n5", TTLSeconds: 60, ExpiresAt: at(49)}, lock.Outcome{
				Code: lock.OK,
				Lease: lock.Lease{Token: nth(4), Status: lock.Status{
					Tenant: "acme", Key: "deploy", Phase: lock.Active, LeaseID: "l8", Owner: "cy", AcquiredAt: at(19),
					ExpiresAt:  at(79),
					TTLSeconds: 60, Metadata: labels,
				}},
			}},
	}
	for _, s := range steps {
		b.clock.Advance(s.after)
		b.store.requests = nil
		s.want.At = b.clock.Now()
		got, err := b.do(s.do)
		if err != nil || !reflect.DeepEqual(got, s.want) {
			t.Fatalf("%s:\ngot  %+v, %v\nwant %+v", s.name, got, err, s.want)
		}
		if !slices.Equal(b.store.requests, []string{"Write"}) {
			t.Errorf("%s: the store saw %v, want one Write", s.name, b.store.requests)
		}
	}
}

func TestGet(t *testing.T) {
	b := begin(t)
	look := func(want lock.Status, wantFound bool) {
		t.Helper()
		b.store.requests = nil
		got, found, err := b.locks.Get(t.Context(), deploy)
		if err != nil || found != wantFound || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v, %v\nwant %+v, %v", got, found, err, want, wantFound)
		}
		if !slices.Equal(b.store.requests, []string{"Get"}) {
			t.Errorf("the store saw %v, want one Get", b.store.requests)
		}
	}
	look(lock.Status{Tenant: "acme", Key: "deploy"}, false)
	want := b.gets(acquire("ann", "a1", 1), lock.OK, false).Lease.Status
	look(want, true)
	b.clock.Advance(time.Second - time.Millisecond)
	look(want, true)
	b.clock.Advance(time.Millisecond) // LS-EXP-001
	want.Phase = lock.Expired
	first := lock.Past{Owner: "ann", Token: nth(1), AcquiredAt: epoch, EndedAt: epoch.Add(time.Second),
		Ended: lock.EndedExpired}
	want.History = []lock.Past{first}
	look(want, true)
	want = b.gets(acquire("bob", "a2", 1), lock.OK, false).Lease.Status
	want.Phase, want.ReleasedAt = lock.Released, b.clock.Now()
	b.gets(release("bob", 2, "e1"), lock.OK, false)
	want.History = []lock.Past{{Owner: "bob", Token: nth(2), AcquiredAt: b.clock.Now(), EndedAt: b.clock.Now(),
		Ended: lock.EndedReleased}, first}
	look(want, true)
}

func TestLeaseIDs(t *testing.T) {
	b := begin(t)
	c := acquire("ann", "a1", 30)
	c.LeaseID = "chosen"
	if o := b.gets(c, lock.OK, false); o.Lease.LeaseID != "chosen" {
		t.Errorf("lease_id %q, want the command's own", o.Lease.LeaseID)
	}
	seen := map[string]bool{}
	l := lock.New(docstore.NewMemory(nil), nil)
	for _, key := range []string{"a", "b", "c"} {
		o, err := l.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann",
			RequestID: "a1", TTLSeconds: 30})
		if err != nil || o.Code != lock.OK || len(o.Lease.LeaseID) != 26 || seen[o.Lease.LeaseID] {
			t.Errorf("got %+v, %v; want a new lease_id of 128 random bits", o, err)
		}
		seen[o.Lease.LeaseID] = true
	}
}

// TestResponsesThatCameTooLate: a lease that expired before the store responded is no grant. The boundary belongs to
// the late side: a lease of 30 s is over after 30 s.
func TestResponsesThatCameTooLate(t *testing.T) {
	const late = "the store took %v to respond, longer than the lease lasts; ask for a longer ttl_seconds"
	cases := []struct {
		name     string
		age      time.Duration // of ann's lease with token 1, acquired for 30 s; negative: there is none
		do       any
		took     time.Duration
		code     lock.Code
		replayed bool
		ends     time.Duration // ExpiresAt, since epoch
	}{
		{"acquire in time", -1, acquire("ann", "a1", 30), 30*time.Second - time.Nanosecond, lock.OK, false, 30 * time.Second},
		{"acquire at the end", -1, acquire("ann", "a1", 30), 30 * time.Second, lock.LeaseExpired, false, 30 * time.Second},
		{"acquire beyond the end", -1, acquire("ann", "a1", 30), time.Hour, lock.LeaseExpired, false, 30 * time.Second},
		{"acquire under a clock that was set back", -1, acquire("ann", "a1", 30), -time.Hour, lock.OK, false,
			30 * time.Second},
		{"replay in time", 20 * time.Second, acquire("ann", "a1", 30), 10*time.Second - time.Nanosecond, lock.OK, true,
			30 * time.Second},
		{"replay at the end", 20 * time.Second, acquire("ann", "a1", 30), 10 * time.Second, lock.LeaseExpired, false,
			30 * time.Second},
		{"renew in time", 20 * time.Second, renew("ann", 1, "n1", 5), 5*time.Second - time.Nanosecond, lock.OK, false,
			25 * time.Second},
		{"renew at the end", 20 * time.Second, renew("ann", 1, "n1", 5), 5 * time.Second, lock.LeaseExpired, false,
			25 * time.Second},
		{"held, late", 20 * time.Second, acquire("bob", "a2", 5), time.Hour, lock.Held, false, 30 * time.Second},
		{"release, late", 20 * time.Second, release("ann", 1, "e1"), time.Hour, lock.OK, false, 30 * time.Second},
		{"force-release, late", 20 * time.Second, force("f1"), time.Hour, lock.OK, false, 30 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t)
			if c.age >= 0 {
				b.gets(acquire("ann", "a1", 30), lock.OK, false)
				b.clock.Advance(c.age)
			}
			b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				r, err := apply()
				b.own.Advance(c.took)
				return r, err
			}
			o := b.gets(c.do, c.code, c.replayed)
			if want := epoch.Add(c.ends); !o.Lease.ExpiresAt.Equal(want) {
				t.Errorf("the lease ends at %v, want %v", o.Lease.ExpiresAt, want)
			}
			if c.code == lock.LeaseExpired {
				if want := fmt.Sprintf(late, c.took); o.Detail != want || o.Lease.LeaseID != "" || o.Lease.Token != nth(1) {
					t.Errorf("got  %+v\nwant the token, no lease_id, and %q", o, want)
				}
			}
		})
	}
}

// TestLateGrantCanBeGivenBack: the write was applied all the same, so the lock is not free; the token that came with
// the refusal releases it.
func TestLateGrantCanBeGivenBack(t *testing.T) {
	b := begin(t)
	b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		r, err := apply()
		b.own.Advance(time.Minute)
		return r, err
	}
	o := b.gets(acquire("ann", "a1", 30), lock.LeaseExpired, false)
	b.gets(acquire("bob", "a2", 30), lock.Held, false)
	b.gets(release("ann", o.Lease.Token, "e1"), lock.OK, false)
	b.store.write = nil
	if o := b.gets(acquire("bob", "a2", 30), lock.OK, false); o.Lease.Token != nth(2) {
		t.Errorf("token %d, want %d", o.Lease.Token, nth(2))
	}
}

// failing is a store that answers everything with an error.
type failing struct {
	docstore.Store
	err error
}

func (s failing) Get(context.Context, ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, s.err
}

func (s failing) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, s.err
}

func (s failing) List(context.Context, docstore.Query) (docstore.Page, error) {
	return docstore.Page{}, s.err
}

func TestErrorsOfTheStore(t *testing.T) {
	for _, cause := range []error{
		docstore.ErrUnavailable, docstore.ErrClockSkew, docstore.ErrClosed, docstore.ErrDamaged, docstore.ErrInvalid,
		context.Canceled, context.DeadlineExceeded,
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			b := begin(t)
			b.locks = lock.New(failing{err: fmt.Errorf("%w: as planned", cause)}, nil)
			lockErr := "locks/acme/deploy: " + cause.Error() + ": as planned"
			for _, c := range []any{acquire("ann", "a1", 30), renew("ann", 1, "n1", 30), release("ann", 1, "e1"), force("f1")} {
				o, err := b.do(c)
				if !errors.Is(err, cause) || err.Error() != lockErr || !reflect.DeepEqual(o, lock.Outcome{}) {
					t.Errorf("%T: got %+v, %v", c, o, err)
				}
			}
			s, found, err := b.locks.Get(t.Context(), deploy)
			if !errors.Is(err, cause) || err.Error() != lockErr || found || !reflect.DeepEqual(s, lock.Status{}) {
				t.Errorf("Get: got %+v, %v, %v", s, found, err)
			}
			p, err := b.locks.List(t.Context(), lock.List{Tenant: "acme"})
			if !errors.Is(err, cause) || err.Error() != `locks of "acme": `+cause.Error()+": as planned" ||
				p.Locks != nil || p.Next != "" {
				t.Errorf("List: got %+v, %v", p, err)
			}
		})
	}
}

// TestDamagedDocuments: a document that does not say what the rules wrote is an error for everybody. It is not a free
// lock, and no command writes over it.
func TestDamagedDocuments(t *testing.T) {
	held := docstore.Doc{
		"token": docstore.Int(3), "state": docstore.String("ACTIVE"), "owner_id": docstore.String("ann"),
		"lease_id":    docstore.String("l0"),
		"acquired_at": docstore.FormatTime(epoch), "expires_at": docstore.FormatTime(epoch.Add(time.Minute)),
		"ttl_seconds": docstore.Int(60),
	}
	expired := maps.Clone(held)
	expired["expires_at"] = docstore.FormatTime(epoch)
	for _, c := range []struct {
		name   string
		whole  docstore.Doc
		damage docstore.Doc // nil values are taken away
		field  string
	}{
		{"no expires_at", held, docstore.Doc{"expires_at": nil}, "expires_at"},
		{"expires_at is no time", held, docstore.Doc{"expires_at": docstore.String("tomorrow")}, "expires_at"},
		{"expires_at is a number", held, docstore.Doc{"expires_at": docstore.Int(1)}, "expires_at"},
		{"an unknown state", held, docstore.Doc{"state": docstore.String("HELD")}, "state"},
		{"an unknown state of an expired lease", expired, docstore.Doc{"state": docstore.String("HELD")}, "state"},
		{"state is a number", held, docstore.Doc{"state": docstore.Int(1)}, "state"},
		{"owner_id is a number", held, docstore.Doc{"owner_id": docstore.Int(1)}, "owner_id"},
		{"metadata is a boolean", held, docstore.Doc{"metadata": docstore.Bool(true)}, "metadata"},
		{"token is text", held, docstore.Doc{"token": docstore.String("3")}, "token"},
		{"token is text, lease expired", expired, docstore.Doc{"token": docstore.String("3")}, "token"},
		{"a remembered release is a map", held, docstore.Doc{"e5": docstore.Map{"owner_id": "ann"}}, "e5"},
		{"a remembered acquire is a number", held, docstore.Doc{"a2": docstore.Int(5)}, "a2"},
		{"forced_at is no time", held, docstore.Doc{"forced_at": docstore.String("09:00")}, "forced_at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := begin(t)
			d := maps.Clone(c.whole)
			for f, v := range c.damage {
				d[f] = v
				if v == nil {
					delete(d, f)
				}
			}
			b.put("deploy", d)
			isDamage := func(err error) {
				t.Helper()
				if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "locks/acme/deploy") ||
					!strings.Contains(err.Error(), `"`+c.field+`"`) {
					t.Errorf("got %v, want ErrDamaged about %s", err, c.field)
				}
			}
			o, err := b.do(acquire("bob", "a1", 30))
			isDamage(err)
			if !reflect.DeepEqual(o, lock.Outcome{}) {
				t.Errorf("the error came with %+v", o)
			}
			_, found, err := b.locks.Get(t.Context(), deploy)
			isDamage(err)
			if found {
				t.Error("Get shows a lock")
			}
			list, err := b.locks.List(t.Context(), lock.List{Tenant: "acme"})
			if err != nil || len(list.Locks) != 0 || len(list.Damaged) != 1 {
				t.Fatalf("the list: %+v, %v", list, err)
			}
			isDamage(list.Damaged[0].Err)
			if got := b.document(); !got.Equal(d) {
				t.Errorf("the document was changed:\ngot  %v\nwant %v", got, d)
			}
		})
	}
}

// TestStoreThatRefusesWhatTheRuleGrants: a store that evaluates a condition otherwise than Go does is broken; no one is
// told that they hold the lock.
func TestStoreThatRefusesWhatTheRuleGrants(t *testing.T) {
	for _, c := range []any{acquire("bob", "a2", 30), renew("ann", 1, "n1", 30), release("ann", 1, "e1"), force("f1")} {
		t.Run(fmt.Sprintf("%T", c), func(t *testing.T) {
			b := begin(t)
			b.gets(acquire("ann", "a1", 30), lock.OK, false)
			if _, ok := c.(lock.Acquire); ok {
				b.gets(release("ann", 1, "e1"), lock.OK, false)
			}
			found := b.document()
			b.store.write = func(func() (docstore.Result, error)) (docstore.Result, error) {
				return docstore.Result{At: b.clock.Now(), Docs: []docstore.Doc{found}, Refused: []int{0}}, nil
			}
			o, err := b.do(c)
			want := "docstore: damaged document: locks/acme/deploy: the store refused what the rule grants"
			if !errors.Is(err, docstore.ErrDamaged) || err.Error() != want || !reflect.DeepEqual(o, lock.Outcome{}) {
				t.Errorf("got %+v, %v", o, err)
			}
		})
	}
}

// TestAmbiguousWrites: whatever happens to a request or its response, sending the command again with the same
// request_id finds out, has one effect, and takes one token at most (LS-ACQ-004, LS-RNW-003, LS-REL-003, LS-ACC-04).
func TestAmbiguousWrites(t *testing.T) {
	type write = func(apply func() (docstore.Result, error)) (docstore.Result, error)
	ways := []struct {
		name     string
		write    write
		replayed bool // the second delivery finds the first one's effect
	}{
		{"lost request", func(func() (docstore.Result, error)) (docstore.Result, error) {
			return docstore.Result{}, docstore.ErrUnavailable
		}, false},
		{"lost answer", func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			_, err := apply()
			return docstore.Result{}, errors.Join(docstore.ErrUnavailable, err)
		}, true},
	}
	commands := []struct {
		name    string
		before  []any // what leads to the state in which the command is granted
		do      any
		phase   lock.Phase
		token   int64
		expires time.Duration // since epoch; the command is first sent 1 s after epoch, again 2 s after
		next    any           // shows that the effect is that of one delivery
		code    lock.Code
	}{
		{"first acquire", nil, acquire("ann", "a1", 30), lock.Active, 1, 30 * time.Second, acquire("bob", "a9", 30),
			lock.Held},
		{"acquire after release", []any{acquire("cy", "a0", 30), release("cy", 1, "e0")}, acquire("ann", "a1", 30),
			lock.Active, 2, 30 * time.Second,
			acquire("bob", "a9", 30), lock.Held},
		{"renew", []any{acquire("ann", "a0", 30)}, renew("ann", 1, "n1", 60), lock.Active, 1, 60 * time.Second,
			acquire("bob", "a9", 30), lock.Held},
		{"release", []any{acquire("ann", "a0", 30)}, release("ann", 1, "e1"), lock.Released, 1, 30 * time.Second,
			acquire("bob", "a9", 30), lock.OK},
		{"force-release", []any{acquire("ann", "a0", 30)}, force("f1"), lock.Released, 1, 30 * time.Second,
			acquire("bob", "a9", 30), lock.OK},
	}
	for _, way := range ways {
		for _, c := range commands {
			t.Run(way.name+", "+c.name, func(t *testing.T) {
				b := begin(t)
				for _, before := range c.before {
					b.gets(before, lock.OK, false)
				}
				_, acquires := c.do.(lock.Acquire)
				_, renews := c.do.(lock.Renew)
				b.clock.Advance(time.Second)
				b.store.write = way.write
				if o, err := b.do(c.do); !errors.Is(err, docstore.ErrUnavailable) || !reflect.DeepEqual(o, lock.Outcome{}) {
					t.Fatalf("first delivery: %+v, %v", o, err)
				}
				b.store.write = nil
				b.clock.Advance(time.Second)

				began := time.Second // of what was granted
				if !way.replayed {
					began = 2 * time.Second
				}
				expires, token := epoch.Add(c.expires), nth(c.token)
				if acquires || renews {
					expires = expires.Add(began)
				}
				if c.before == nil {
					token += began.Microseconds()
				}
				for again := range 2 { // the second time although the response was there
					o := b.gets(c.do, lock.OK, way.replayed || again > 0)
					if o.Lease.Token != token || o.Lease.Phase != c.phase || !o.Lease.ExpiresAt.Equal(expires) {
						t.Errorf("got %+v, want token %d, %s until %v", o.Lease, token, c.phase, expires)
					}
				}
				if d := b.document(); d["token"] != docstore.Int(token) {
					t.Errorf("the counter stands at %v, want %d", d["token"], token)
				}
				o := b.gets(c.next, c.code, false)
				if c.code == lock.OK && o.Lease.Token != token+1 {
					t.Errorf("the next token is %d, want %d", o.Lease.Token, token+1)
				}
			})
		}
	}
}

// TestWriteSentTwiceBelow: an SDK repeats a request whose answer it lost and hands on the second answer only, a refusal
// by the first one's effect.
func TestWriteSentTwiceBelow(t *testing.T) {
	b := begin(t)
	b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if _, err := apply(); err != nil {
			return docstore.Result{}, err
		}
		return apply()
	}
	if o := b.gets(acquire("ann", "a1", 30), lock.OK, true); o.Lease.Token != nth(1) || o.Lease.LeaseID != "l1" {
		t.Errorf("acquire: %+v", o)
	}
	if o := b.gets(renew("ann", 1, "n1", 60), lock.OK, true); !o.Lease.ExpiresAt.Equal(epoch.Add(time.Minute)) {
		t.Errorf("renew: %+v", o)
	}
	b.gets(acquire("bob", "a2", 30), lock.Held, false)
	b.gets(release("ann", 1, "e1"), lock.OK, true)
	if o := b.gets(acquire("bob", "a2", 30), lock.OK, true); o.Lease.Token != nth(2) {
		t.Errorf("acquire by the next: %+v", o)
	}
	b.gets(force("f1"), lock.OK, true)
	if d := b.document(); d["token"] != docstore.Int(nth(2)) {
		t.Errorf("the counter stands at %v, want %d", d["token"], nth(2))
	}
}

// TestEightReleasesAreRemembered: LS-REL-003.
func TestEightReleasesAreRemembered(t *testing.T) {
	b := begin(t)
	for token := int64(1); token <= 9; token++ {
		request := fmt.Sprint("e", token)
		if o := b.gets(acquire("ann", fmt.Sprint("a", token), 30), lock.OK, false); o.Lease.Token != nth(token) {
			t.Fatalf("token %d, want %d", o.Lease.Token, nth(token))
		}
		b.gets(release("ann", token, request), lock.OK, false)
	}
	held := b.gets(acquire("ann", "a10", 30), lock.OK, false)
	for token := int64(2); token <= 9; token++ {
		o := b.gets(release("ann", token, fmt.Sprint("e", token)), lock.OK, true)
		if o.Lease.Token != nth(token) || o.Lease.Phase != lock.Released || o.Lease.Owner != "ann" {
			t.Errorf("repeated release of token %d: %+v", token, o)
		}
		b.gets(release("ann", token, "other"), lock.LeaseLost, false)
		b.gets(release("bob", token, fmt.Sprint("e", token)), lock.LeaseLost, false)
	}
	b.gets(release("ann", 1, "e1"), lock.LeaseLost, false) // forgotten

	if s, found, err := b.locks.Get(t.Context(), deploy); err != nil || !found ||
		!reflect.DeepEqual(without(s), held.Lease.Status) {
		t.Errorf("repeated releases touched the later lease: %+v, %v, %v", s, found, err)
	}
}

// without is a lock without its history.
func without(s lock.Status) lock.Status {
	s.History = nil
	return s
}

// TestFourRequestsOfAKindAreRemembered: LS-ACQ-004, LS-RNW-003, LS-ACC-04. Each kind has its own memory: renewals do
// not push out the acquire. A fifth request pushes out the first.
func TestFourRequestsOfAKindAreRemembered(t *testing.T) {
	b := begin(t)
	held := b.gets(acquire("ann", "a1", 30), lock.OK, false).Lease
	for n := range int64(6) {
		b.clock.Advance(time.Second)
		held = b.gets(renew("ann", 1, fmt.Sprint("n", n), 30+n), lock.OK, false).Lease
	}
	b.clock.Advance(time.Second)
	for n := int64(2); n < 6; n++ { // the end does not move, whichever it is
		if o := b.gets(renew("ann", 1, fmt.Sprint("n", n), 30+n), lock.OK, true); !reflect.DeepEqual(o.Lease, held) {
			t.Errorf("renewal %d again: %+v, want %+v", n, o.Lease, held)
		}
		b.gets(renew("ann", 1, fmt.Sprint("n", n), 29), lock.RequestIDReused, false)
	}
	if o := b.gets(acquire("ann", "a1", 30), lock.OK, true); !reflect.DeepEqual(o.Lease, held) {
		t.Errorf("the acquire again: %+v, want %+v", o.Lease, held)
	}
	late := renew("ann", 1, "n0", 30) // forgotten
	late.ExpiresAt = epoch.Add(30 * time.Second)
	if o := b.gets(late, lock.LeaseChanged, false); !o.Lease.ExpiresAt.Equal(held.ExpiresAt) {
		t.Errorf("a forgotten renewal that names the end it knew: %+v, want the end %v", o, held.ExpiresAt)
	}

	for n := range 6 { // five acquires by others, each ended by force
		b.gets(force(fmt.Sprint("f", n)), lock.OK, false)
		b.gets(acquire("bob", fmt.Sprint("b", n), 30), lock.OK, false)
	}
	for n := 2; n < 6; n++ { // LS-ACC-04, and the lock of the last acquire stays as it is
		if o := b.gets(force(fmt.Sprint("f", n)), lock.OK, true); o.Lease.Phase != lock.Released || o.Lease.Owner != "" {
			t.Errorf("force-release %d again: %+v", n, o)
		}
		if n < 5 {
			b.gets(acquire("bob", fmt.Sprint("b", n), 30), lock.RequestIDReused, false)
		}
		other := force(fmt.Sprint("f", n))
		other.Reason = "lunch"
		b.gets(other, lock.RequestIDReused, false)
		other.By = "toor"
		other.LeaseID = "l1"
		b.gets(other, lock.LeaseLost, false) // another administrator's request_ids are others
	}
	if s, _, err := b.locks.Get(t.Context(), deploy); err != nil || s.Phase != lock.Active || s.Owner != "bob" {
		t.Errorf("late deliveries touched the lock: %+v, %v", s, err)
	}
	b.gets(force("f0"), lock.OK, false) // forgotten: only a lease_id protects a later lease for ever
	if o := b.gets(acquire("ann", "a1", 30), lock.OK, false); o.Lease.Token != nth(8) {
		t.Errorf("a forgotten acquire: %+v", o)
	}
}

// TestEveryWriteIsKept: the store may remove a lock's document once its lease has ended for the retention, and not
// before. Each command that is granted says so in its one write.
func TestEveryWriteIsKept(t *testing.T) {
	for name, c := range map[string]struct{ set, want time.Duration }{
		"default":     {0, 30 * 24 * time.Hour},
		"an hour":     {time.Hour, time.Hour},
		"too short":   {time.Second, time.Hour},
		"off":         {lock.KeepForever, 100 * 365 * 24 * time.Hour},
		"beyond that": {1 << 62, 100 * 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClockAt(epoch)
			memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
			var keep time.Duration
			store := &keeps{memory, &keep}
			b := &bench{t: t, clock: clock, own: clock, store: &watched{Store: store}}
			b.locks = lock.New(b.store, &lock.Options{Now: clock.Now, Retention: c.set})
			for _, step := range []struct {
				do  any
				ttl time.Duration
			}{
				{acquire("ann", "a1", 30), 30 * time.Second},
				{renew("ann", 1, "n1", 86_400), 24 * time.Hour},
				{release("ann", 1, "e1"), 0},
				{acquire("ann", "a2", 1), time.Second},
				{force("f1"), 0},
			} {
				b.gets(step.do, lock.OK, false)
				if want := step.ttl + c.want; keep != want {
					t.Errorf("%T is kept for %v, want %v", step.do, keep, want)
				}
			}
		})
	}
}

// keeps notes how long the latest write is to be kept.
type keeps struct {
	docstore.Store
	keep *time.Duration
}

func (s *keeps) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	*s.keep = writes[0].Keep
	return s.Store.Write(ctx, writes...)
}

// TestTokensSurviveRemoval: LS-INV-002 and LS-INV-003 for a lock whose document was removed, by retention or by hand.
// It reads as never held, its tokens go on, and what was granted before stays lost.
func TestTokensSurviveRemoval(t *testing.T) {
	b := begin(t)
	memory := b.store.Store.(*docstore.Memory)
	last := b.gets(acquire("ann", "a1", 30), lock.OK, false).Lease.Token
	for n := range 20 {
		b.clock.Advance(30*time.Second + lock.DefaultRetention - time.Millisecond)
		if removed, err := memory.Prune(t.Context(), 10); err != nil || removed != 0 {
			t.Fatalf("removed %d a millisecond before the time, %v", removed, err)
		}
		if b.clock.Advance(time.Millisecond); n%2 == 0 {
			if removed, err := memory.Prune(t.Context(), 10); err != nil || removed != 1 {
				t.Fatalf("removed %d when it was due, %v", removed, err)
			}
			if s, found, err := b.locks.Get(t.Context(), deploy); err != nil || found || s.Phase != lock.None {
				t.Fatalf("a removed lock reads %+v, %v, %v", s, found, err)
			}
			o := b.gets(renew("ann", last, "n1", 30), lock.LeaseLost, false)
			if want :=
				"there is no lease with this token: none was ever granted with it, or the record of the lock was removed since"; o.Detail != want {
				t.Errorf("detail %q, want %q", o.Detail, want)
			}
			b.gets(release("ann", last, "e1"), lock.LeaseLost, false)
		}
		next := b.gets(acquire("ann", fmt.Sprint("b", n), 30), lock.OK, false).Lease.Token
		if next <= last {
			t.Fatalf("token %d after %d", next, last)
		}
		b.gets(renew("ann", last, "n1", 30), lock.LeaseLost, false)
		b.gets(release("ann", last, "e1"), lock.LeaseLost, false)
		last = next
	}
}

// TestTombstone: a document that keeps nothing but the counter is a free lock, and its tokens go on (LS-INV-002).
func TestTombstone(t *testing.T) {
	b := begin(t)
	b.put("deploy", docstore.Doc{"token": docstore.Int(nth(7))})
	if s, found, err := b.locks.Get(t.Context(), deploy); err != nil || found || s.Phase != lock.None {
		t.Errorf("Get: %+v, %v, %v; want nothing found", s, found, err)
	}
	if p, err := b.locks.List(t.Context(), lock.List{Tenant: "acme"}); err != nil || len(p.Locks) != 0 || p.Next != "" {
		t.Errorf("List: %+v, %v; want an empty page", p, err)
	}
	b.gets(renew("ann", 7, "n1", 30), lock.LeaseLost, false)
	if o := b.gets(acquire("ann", "a1", 30), lock.OK, false); o.Lease.Token != nth(8) {
		t.Errorf("token %d, want %d", o.Lease.Token, nth(8))
	}
}

// TestTokensEnd: beyond 2^53 JSON readers would no longer tell tokens apart, so there is no grant.
func TestTokensEnd(t *testing.T) {
	b := begin(t)
	b.put("deploy", docstore.Doc{"token": docstore.Int(docstore.MaxInt - 1)})
	if o := b.gets(acquire("ann", "a1", 30), lock.OK, false); o.Lease.Token != docstore.MaxInt {
		t.Errorf("token %d, want 2^53", o.Lease.Token)
	}
	b.gets(release("ann", docstore.MaxInt, "e1"), lock.OK, false)
	if o, err := b.do(acquire("ann", "a2", 30)); !errors.Is(err, docstore.ErrDamaged) ||
		!reflect.DeepEqual(o, lock.Outcome{}) {
		t.Errorf("got %+v, %v; want ErrDamaged", o, err)
	}
}

func TestValidate(t *testing.T) {
	type validator interface{ Validate() error }
	long := strings.Repeat("x", 1024)
	id := func(tenant, key string) lock.ID { return lock.ID{Tenant: tenant, Key: key} }
	a := func(change func(*lock.Acquire)) validator {
		c := acquire("ann", "a1", 30)
		change(&c)
		return c
	}
	n := func(change func(*lock.Renew)) validator { c := renew("ann", 1, "n1", 30); change(&c); return c }
	r := func(change func(*lock.Release)) validator { c := release("ann", 1, "e1"); change(&c); return c }
	f := func(change func(*lock.ForceRelease)) validator { c := force("f1"); change(&c); return c }
	g := func(tenant, resource string, token int64) validator {
		return lock.Fence{Tenant: tenant, Resource: resource, Lease: fencing.OfLock("db", 0, token)}
	}
	entries := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	const (
		ttl   = "ttl_seconds must be a whole number from 1 to 86400"
		delay = "lock_delay_seconds must be a whole number from 0 to 3600"
		token = "fencing_token must be a whole number from 1 to 9007199254740992"
		badMD = "metadata has a key that cannot be used: 1 to 64 bytes of text without control characters"
		page  = "page_token is not one that a page gave: leave it out to begin again"
	)
	cases := []struct {
		name string
		c    validator
		want string // empty: well formed
	}{
		{"tenant_id missing", id("", "k"), "tenant_id is required: 1 to 128 bytes of text"},
		{"tenant_id at the bound", id(long[:128], "k"), ""},
		{"tenant_id beyond", id(long[:129], "k"), "tenant_id has 129 bytes, 128 at most"},
		{"tenant_id dot", id(".", "k"), `tenant_id cannot be ".", which URLs drop: choose another name`},
		{"tenant_id dots", id("..", "k"), `tenant_id cannot be "..", which URLs drop: choose another name`},
		{"lock_key missing", id("t", ""), "lock_key is required: 1 to 256 bytes of text"},
		{"lock_key at the bound", id("t", long[:256]), ""},
		{"lock_key beyond", id("t", long[:257]), "lock_key has 257 bytes, 256 at most"},
		{"lock_key dot", id("t", "."), `lock_key cannot be ".", which URLs drop: choose another name`},
		{"lock_key dots", id("t", ".."), `lock_key cannot be "..", which URLs drop: choose another name`},
		{"lock_key three dots", id("t", "..."), ""},
		{"lock_key with slashes", id("t", "../a//b"), ""},
		{"lock_key with a control character", id("t", "a\tb"),
			"lock_key has the control character U+0009 at byte 1: remove it"},
		{"lock_key not UTF-8", id("t", "\xff"), "lock_key is not valid UTF-8"},

		{"acquire", a(func(*lock.Acquire) {}), ""},
		{"acquire, lock", a(func(c *lock.Acquire) { c.Key = "" }), "lock_key is required: 1 to 256 bytes of text"},
		{"acquire, request_id missing", a(func(c *lock.Acquire) { c.RequestID = "" }),
			"request_id is required: 1 to 128 bytes of text"},
		{"acquire, request_id at the bound", a(func(c *lock.Acquire) { c.RequestID = long[:128] }), ""},
		{"acquire, request_id beyond", a(func(c *lock.Acquire) { c.RequestID = long[:129] }),
			"request_id has 129 bytes, 128 at most"},
		{"acquire, owner_id missing", a(func(c *lock.Acquire) { c.Owner = "" }),
			"owner_id is required: 1 to 256 bytes of text"},
		{"acquire, owner_id at the bound", a(func(c *lock.Acquire) { c.Owner = long[:256] }), ""},
		{"acquire, owner_id beyond", a(func(c *lock.Acquire) { c.Owner = long[:257] }),
			"owner_id has 257 bytes, 256 at most"},
		{"acquire, ttl_seconds -1", a(func(c *lock.Acquire) { c.TTLSeconds = -1 }), ttl},
		{"acquire, ttl_seconds 0", a(func(c *lock.Acquire) { c.TTLSeconds = 0 }), ttl},
		{"acquire, ttl_seconds 1", a(func(c *lock.Acquire) { c.TTLSeconds = 1 }), ""},
		{"acquire, ttl_seconds 86400", a(func(c *lock.Acquire) { c.TTLSeconds = 86_400 }), ""},
		{"acquire, ttl_seconds 86401", a(func(c *lock.Acquire) { c.TTLSeconds = 86_401 }), ttl},
		{"acquire, no metadata", a(func(c *lock.Acquire) { c.Metadata = nil }), ""},
		{"acquire, 32 entries", a(func(c *lock.Acquire) { c.Metadata = entries(32) }), ""},
		{"acquire, 33 entries", a(func(c *lock.Acquire) { c.Metadata = entries(33) }), "metadata has 33 entries, 32 at most"},
		{"acquire, metadata at its bounds", a(func(c *lock.Acquire) {
			c.Metadata = map[string]string{long[:64]: long[:512], "e": ""}
		}), ""},
		{"acquire, metadata key beyond", a(func(c *lock.Acquire) { c.Metadata = map[string]string{long[:65]: ""} }), badMD},
		{"acquire, metadata key empty", a(func(c *lock.Acquire) { c.Metadata = map[string]string{"": "v"} }), badMD},
		{"acquire, metadata key with a line break", a(func(c *lock.Acquire) {
			c.Metadata = map[string]string{"a\n": "v"}
		}), badMD},
		{"acquire, metadata value beyond", a(func(c *lock.Acquire) { c.Metadata = map[string]string{"build": long[:513]} }),
			"metadata.build has 513 bytes, 512 at most"},
		{"acquire, metadata value not UTF-8", a(func(c *lock.Acquire) { c.Metadata = map[string]string{"build": "\xff"} }),
			"metadata.build is not valid UTF-8"},
		{"acquire, replace", a(func(c *lock.Acquire) { c.Replace = true }), ""},
		{"acquire, replace what is shared", a(func(c *lock.Acquire) { c.Replace, c.Mode = true, lock.Shared }),
			"replace belongs to the mode exclusive: a lock with several holders has none to replace"},
		{"acquire, lock_delay_seconds -1", a(func(c *lock.Acquire) { c.LockDelaySeconds = -1 }), delay},
		{"acquire, lock_delay_seconds 3600", a(func(c *lock.Acquire) { c.LockDelaySeconds = 3600 }), ""},
		{"acquire, lock_delay_seconds 3601", a(func(c *lock.Acquire) { c.LockDelaySeconds = 3601 }), delay},

		{"renew", n(func(*lock.Renew) {}), ""},
		{"renew, lock", n(func(c *lock.Renew) { c.Tenant = "" }), "tenant_id is required: 1 to 128 bytes of text"},
		{"renew, request_id", n(func(c *lock.Renew) { c.RequestID = "" }), "request_id is required: 1 to 128 bytes of text"},
		{"renew, owner_id", n(func(c *lock.Renew) { c.Owner = "" }), "owner_id is required: 1 to 256 bytes of text"},
		{"renew, expires_at", n(func(c *lock.Renew) { c.ExpiresAt = epoch }), ""},
		{"renew, expires_at beyond", n(func(c *lock.Renew) { c.ExpiresAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }),
			"expires_at must be in the years 0000 to 9999"},
		{"renew, fencing_token 0", n(func(c *lock.Renew) { c.Token = 0 }), token},
		{"renew, fencing_token 2^53", n(func(c *lock.Renew) { c.Token = 1 << 53 }), ""},
		{"renew, fencing_token 2^53+1", n(func(c *lock.Renew) { c.Token = 1<<53 + 1 }), token},
		{"renew, ttl_seconds 0", n(func(c *lock.Renew) { c.TTLSeconds = 0 }), ttl},
		{"renew, ttl_seconds 86400", n(func(c *lock.Renew) { c.TTLSeconds = 86_400 }), ""},
		{"renew, ttl_seconds 86401", n(func(c *lock.Renew) { c.TTLSeconds = 86_401 }), ttl},

		{"release", r(func(*lock.Release) {}), ""},
		{"release, lock", r(func(c *lock.Release) { c.Key = ".." }),
			`lock_key cannot be "..", which URLs drop: choose another name`},
		{"release, request_id", r(func(c *lock.Release) { c.RequestID = long[:129] }),
			"request_id has 129 bytes, 128 at most"},
		{"release, owner_id", r(func(c *lock.Release) { c.Owner = long[:257] }), "owner_id has 257 bytes, 256 at most"},
		{"release, fencing_token -1", r(func(c *lock.Release) { c.Token = -1 }), token},
		{"release, fencing_token 2^53", r(func(c *lock.Release) { c.Token = 1 << 53 }), ""},
		{"release, fencing_token 2^53+1", r(func(c *lock.Release) { c.Token = 1<<53 + 1 }), token},

		{"force-release", f(func(*lock.ForceRelease) {}), ""},
		{"force-release, lock", f(func(c *lock.ForceRelease) { c.Key = "" }), "lock_key is required: 1 to 256 bytes of text"},
		{"force-release, request_id", f(func(c *lock.ForceRelease) { c.RequestID = "" }),
			"request_id is required: 1 to 128 bytes of text"},
		{"force-release, owner_id", f(func(c *lock.ForceRelease) { c.By = "" }),
			"owner_id is required: 1 to 256 bytes of text"},
		{"force-release, reason missing", f(func(c *lock.ForceRelease) { c.Reason = "" }),
			"reason is required: 1 to 512 bytes of text"},
		{"force-release, reason at the bound", f(func(c *lock.ForceRelease) { c.Reason = long[:512] }), ""},
		{"force-release, reason beyond", f(func(c *lock.ForceRelease) { c.Reason = long[:513] }),
			"reason has 513 bytes, 512 at most"},
		{"force-release, lease_id at the bound", f(func(c *lock.ForceRelease) { c.LeaseID = long[:128] }), ""},
		{"force-release, lease_id beyond", f(func(c *lock.ForceRelease) { c.LeaseID = long[:129] }),
			"lease_id has 129 bytes, 128 at most"},

		{"fence", g("t", "r", 1), ""},
		{"fence at the bounds", g(long[:128], long[:256], 1<<53), ""},
		{"fence, tenant_id", g("", "r", 1), "tenant_id is required: 1 to 128 bytes of text"},
		{"fence, resource", g("t", "", 1), "resource is required: 1 to 256 bytes of text"},
		{"fence, resource dots", g("t", "..", 1), `resource cannot be "..", which URLs drop: choose another name`},
		{"fence, resource beyond", g("t", long[:257], 1), "resource has 257 bytes, 256 at most"},
		{"fence, fencing_token 0", g("t", "r", 0), token},
		{"fence, fencing_token 2^53+1", g("t", "r", 1<<53+1), token},

		{"list", lock.List{Tenant: "t"}, ""},
		{"list, tenant_id", lock.List{}, "tenant_id is required: 1 to 128 bytes of text"},
		{"list, prefix at the bound", lock.List{Tenant: "t", Prefix: long[:256]}, ""},
		{"list, prefix beyond", lock.List{Tenant: "t", Prefix: long[:257]}, "prefix has 257 bytes, 256 at most"},
		{"list, prefix dot", lock.List{Tenant: "t", Prefix: "."}, ""},
		{"list, state", lock.List{Tenant: "t", Phase: "HELD"}, "state must be ACTIVE, RELEASED or EXPIRED, or left out"},
		{"list, EXPIRED", lock.List{Tenant: "t", Phase: lock.Expired}, ""},
		{"list, page_size -1", lock.List{Tenant: "t", PageSize: -1}, "page_size must be a whole number from 1 to 1000"},
		{"list, page_size 1000", lock.List{Tenant: "t", PageSize: 1000}, ""},
		{"list, page_size 1001", lock.List{Tenant: "t", PageSize: 1001}, "page_size must be a whole number from 1 to 1000"},
		{"list, page_token", lock.List{Tenant: "t", PageToken: "ZGVwbG95"}, ""},
		{"list, page_token no base64", lock.List{Tenant: "t", PageToken: "no!"}, page},
		{"list, page_token padded", lock.List{Tenant: "t", PageToken: "YQ=="}, page},
		{"list, page_token with loose bits", lock.List{Tenant: "t", PageToken: "YR"}, page},
		{"list, page_token not UTF-8", lock.List{Tenant: "t", PageToken: "_w"}, page},
		{"list, page_token with a NUL", lock.List{Tenant: "t", PageToken: "AA"}, page},
		{"list, page_token too long", lock.List{Tenant: "t", PageToken: strings.Repeat("AAAA", 86)}, page},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.c.Validate()
			got := ""
			if err != nil {
				got = err.Error()
				e, ok := errors.AsType[*field.Error](err)
				if name, _, _ := strings.Cut(c.want, " "); !ok || e.Name != name {
					t.Errorf("%#v does not name the field %s", err, name)
				}
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestMalformedCommandsAreNotSent: nothing was changed, because nothing was sent.
func TestMalformedCommandsAreNotSent(t *testing.T) {
	b := begin(t)
	for _, c := range []any{acquire("", "a1", 30), renew("ann", 0, "n1", 30), release("ann", 1, ""),
		lock.ForceRelease{ID: deploy}} {
		o, err := b.do(c)
		if _, ok := errors.AsType[*field.Error](err); !ok || !reflect.DeepEqual(o, lock.Outcome{}) {
			t.Errorf("%#v: %+v, %v", c, o, err)
		}
	}
	if _, _, err := b.locks.Get(t.Context(), lock.ID{}); err == nil {
		t.Error("Get of no lock")
	}
	if _, err := b.locks.List(t.Context(), lock.List{}); err == nil {
		t.Error("List of no tenant")
	}
	if len(b.store.requests) != 0 {
		t.Errorf("the store saw %v", b.store.requests)
	}
}

// keysOf walks over all pages and returns the keys of each.
func (b *bench) keysOf(q lock.List) [][]string {
	b.t.Helper()
	var pages [][]string
	for {
		p, err := b.locks.List(b.t.Context(), q)
		if err != nil {
			b.t.Fatal(err)
		}
		var keys []string
		for _, s := range p.Locks {
			keys = append(keys, s.Key)
		}
		pages = append(pages, keys)
		if q.PageToken = p.Next; q.PageToken == "" {
			return pages
		}
	}
}

func TestList(t *testing.T) {
	b := begin(t)
	tokens := map[string]int64{}
	take := func(tenant, key string, ttl int64) {
		c := lock.Acquire{ID: lock.ID{Tenant: tenant, Key: key}, Owner: "ann", RequestID: "a1", TTLSeconds: ttl,
			Metadata: labels}
		tokens[key] = b.gets(c, lock.OK, false).Lease.Token
	}
	give := func(key string) {
		b.gets(lock.Release{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: "e1", Token: tokens[key]},
			lock.OK, false)
	}
	take("acme", "a", 60)
	take("acme", "b/1", 60)
	take("acme", "b/2", 60)
	give("b/2")
	take("acme", "b/3", 10)
	take("acme", "b/ü", 60)
	take("acme", "c", 60)
	give("c")
	take("other", "b/0", 60)
	b.clock.Advance(10 * time.Second) // b/3 expires

	cases := []struct {
		name string
		q    lock.List
		want [][]string
	}{
		{"all", lock.List{Tenant: "acme"}, [][]string{{"a", "b/1", "b/2", "b/3", "b/ü", "c"}}},
		{"of another tenant", lock.List{Tenant: "other"}, [][]string{{"b/0"}}},
		{"of a tenant without locks", lock.List{Tenant: "unknown"}, [][]string{nil}},
		{"prefix", lock.List{Tenant: "acme", Prefix: "b/"}, [][]string{{"b/1", "b/2", "b/3", "b/ü"}}},
		{"prefix that is a whole key", lock.List{Tenant: "acme", Prefix: "b/3"}, [][]string{{"b/3"}}},
		{"ACTIVE", lock.List{Tenant: "acme", Phase: lock.Active}, [][]string{{"a", "b/1", "b/ü"}}},
		{"RELEASED", lock.List{Tenant: "acme", Phase: lock.Released}, [][]string{{"b/2", "c"}}},
		{"EXPIRED", lock.List{Tenant: "acme", Phase: lock.Expired}, [][]string{{"b/3"}}},
		{"prefix and phase", lock.List{Tenant: "acme", Prefix: "b/", Phase: lock.Active}, [][]string{{"b/1", "b/ü"}}},
		{"pages of one", lock.List{Tenant: "acme", Prefix: "b/", PageSize: 1},
			[][]string{{"b/1"}, {"b/2"}, {"b/3"}, {"b/ü"}}},
		{"pages of four", lock.List{Tenant: "acme", PageSize: 4}, [][]string{{"a", "b/1", "b/2", "b/3"}, {"b/ü", "c"}}},
		{"a page that is just full", lock.List{Tenant: "acme", PageSize: 6},
			[][]string{{"a", "b/1", "b/2", "b/3", "b/ü", "c"}}},
		{"pages of a phase", lock.List{Tenant: "acme", Phase: lock.Active, PageSize: 2}, [][]string{{"a", "b/1"}, {"b/ü"}}},
		{"pages of a phase that end on the last lock", lock.List{Tenant: "acme", Phase: lock.Released, PageSize: 2},
			[][]string{{"b/2", "c"}}},
		{"behind a key that is not there", lock.List{Tenant: "acme", PageToken: "YmI"}, [][]string{{"c"}}}, // "bb"
		{"behind the last", lock.List{Tenant: "acme", PageToken: "eg"}, [][]string{nil}},                   // "z"
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			if got := b.keysOf(c.q); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	p, err := b.locks.List(t.Context(), lock.List{Tenant: "acme", Prefix: "b/3"})
	want := lock.Status{
		Tenant: "acme", Key: "b/3", Phase: lock.Expired, LeaseID: "l4", Owner: "ann", AcquiredAt: epoch,
		ExpiresAt:  epoch.Add(10 * time.Second),
		TTLSeconds: 10, Metadata: labels,
	}
	if err != nil || len(p.Locks) != 1 || !reflect.DeepEqual(p.Locks[0], want) {
		t.Errorf("got  %+v, %v\nwant %+v", p.Locks, err, want)
	}
}

// TestListDefaults: 100 locks in a page, read in one request.
func TestListDefaults(t *testing.T) {
	b := begin(t)
	for i := range 101 {
		b.put(fmt.Sprintf("%03d", i), docstore.Doc{"token": docstore.Int(1), "state": docstore.String("RELEASED")})
	}
	p, err := b.locks.List(t.Context(), lock.List{Tenant: "acme"})
	if err != nil || len(p.Locks) != lock.DefaultPageSize || p.Next == "" ||
		!slices.Equal(b.store.requests, []string{"List"}) {
		t.Errorf("%d locks, next %q, %v, after %v", len(p.Locks), p.Next, err, b.store.requests)
	}
}

// TestListIsBounded: one call looks through 5000 documents at most, in few requests however small the page is. A page
// that ends there is short and says where to go on.
func TestListIsBounded(t *testing.T) {
	b := begin(t)
	for i := range 5001 {
		b.put(fmt.Sprintf("%04d", i), docstore.Doc{"token": docstore.Int(1), "state": docstore.String("RELEASED")})
	}
	b.gets(lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "z"}, Owner: "ann", RequestID: "a1", TTLSeconds: 30}, lock.OK,
		false)
	for _, c := range []struct {
		size          int
		first, second int // requests to the store for the first and the second page
	}{
		{0, 8, 1},    // 100, 200, 400, 800, 1000, 1000, 1000, 500; then 2 that are left
		{1, 14, 2},   // 1, 2, 4 … 512, 1000, 1000, 1000, 977; then 1, 2
		{1000, 8, 1}, // 100 first, as their size is not known
	} {
		t.Run(fmt.Sprint("pages of ", c.size), func(t *testing.T) {
			b.store.requests = nil
			q := lock.List{Tenant: "acme", Phase: lock.Active, PageSize: c.size}
			p, err := b.locks.List(t.Context(), q)
			if err != nil || p.Locks == nil || len(p.Locks) != 0 || p.Next == "" {
				t.Fatalf("first page: %+v, %v; want none and a next", p, err)
			}
			if got := len(b.store.requests); got != c.first {
				t.Errorf("the first page took %d requests, want %d", got, c.first)
			}
			b.store.requests, q.PageToken = nil, p.Next
			p, err = b.locks.List(t.Context(), q)
			if err != nil || len(p.Locks) != 1 || p.Locks[0].Key != "z" || p.Next != "" {
				t.Fatalf("second page: %+v, %v; want z and no next", p, err)
			}
			if got := len(b.store.requests); got != c.second {
				t.Errorf("the second page took %d requests, want %d", got, c.second)
			}
		})
	}
}
