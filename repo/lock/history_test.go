package lock_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// shows fails the test unless the lock has this history, in one read.
func (b *bench) shows(want ...lock.Past) {
	b.t.Helper()
	s, _, err := b.locks.Get(b.t.Context(), deploy)
	if err != nil || !reflect.DeepEqual(s.History, want) {
		b.t.Errorf("got  %+v, %v\nwant %+v", s.History, err, want)
	}
}

// TestHistory: how each lease ended, and when; the latest one too, once it has. The third before the latest is
// forgotten.
func TestHistory(t *testing.T) {
	b := begin(t)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	wait := func(seconds int) { b.clock.Advance(time.Duration(seconds) * time.Second) }
	b.shows()
	b.gets(acquire("ann", "a1", 30), lock.OK, false)
	b.shows()
	wait(10)
	b.gets(release("ann", 1, "e1"), lock.OK, false)
	released := lock.Past{Owner: "ann", Token: nth(1), AcquiredAt: at(0), EndedAt: at(10), Ended: lock.EndedReleased}
	b.shows(released)
	wait(5)
	b.gets(acquire("bob", "a2", 30), lock.OK, false)
	b.shows(released)
	wait(5)
	b.gets(renew("bob", 2, "n1", 5), lock.OK, false)
	wait(5)
	expired := lock.Past{Owner: "bob", Token: nth(2), AcquiredAt: at(15), EndedAt: at(25), Ended: lock.EndedExpired}
	b.shows(expired, released)
	wait(5)
	b.gets(replacing("cem", "a3", 0), lock.OK, false)
	b.shows(expired, released)
	wait(5)
	b.gets(replacing("dan", "a4", 0), lock.OK, false)
	replaced := lock.Past{Owner: "cem", Token: nth(3), AcquiredAt: at(30), EndedAt: at(35), Ended: lock.EndedReplaced,
		By: "dan"}
	b.shows(replaced, expired)
	const detail = "the lease was replaced by dan; stop the work that this token protects"
	if o := b.gets(renew("cem", 3, "n2", 30), lock.LeaseLost, false); o.Detail != detail {
		t.Errorf("%+v", o)
	}
	if o := b.gets(renew("bob", 2, "n2", 30), lock.LeaseLost, false); strings.Contains(o.Detail, "replaced") {
		t.Errorf("%+v", o)
	}
	wait(5)
	b.gets(force("f1"), lock.OK, false)
	forced := lock.Past{Owner: "dan", Token: nth(4), AcquiredAt: at(35), EndedAt: at(40), Ended: lock.EndedForced,
		By: "root"}
	b.shows(forced, replaced, expired)
	b.gets(acquire("ann", "a5", 30), lock.OK, false)
	b.shows(forced, replaced)
	if o := b.gets(renew("cem", 3, "n3", 30), lock.LeaseLost, false); o.Detail != detail {
		t.Errorf("%+v", o)
	}
	b.gets(release("ann", 5, "e5"), lock.OK, false)
	b.gets(acquire("ann", "a6", 30), lock.OK, false)
	b.shows(lock.Past{Owner: "ann", Token: nth(5), AcquiredAt: at(40), EndedAt: at(40), Ended: lock.EndedReleased}, forced)
	for _, s := range []string{"b1", "d1", "c1", "o1"} {
		if d := b.document(); d[s] == nil {
			t.Errorf("the document has no %s: %v", s, d)
		}
	}
}

// TestHistoryCutsNames: to 32 bytes, and whole characters. Lists have no history.
func TestHistoryCutsNames(t *testing.T) {
	b := begin(t)
	for owner, want := range map[string]string{
		strings.Repeat("x", 32): strings.Repeat("x", 32), strings.Repeat("x", 256): strings.Repeat("x", 32),
		strings.Repeat("x", 31) + "é" + "y": strings.Repeat("x", 31), strings.Repeat("x", 29) +
			"日本": strings.Repeat("x", 29) + "日",
	} {
		o := b.gets(acquire(owner, "a "+owner[:1]+strconv.Itoa(len(owner)), 30), lock.OK, false)
		f := force("f" + strconv.Itoa(len(owner)))
		f.By = owner
		b.gets(f, lock.OK, false)
		b.gets(acquire("next", "n "+strconv.Itoa(len(owner)), 30), lock.OK, false)
		s, _, err := b.locks.Get(t.Context(), deploy)
		if err != nil || len(s.History) == 0 || s.History[0].Owner != want || s.History[0].By != want ||
			s.History[0].Token != o.Lease.Token {
			t.Errorf("%s: %+v, %v", owner, s.History, err)
		} else if !utf8.ValidString(s.History[0].Owner) {
			t.Errorf("%q", s.History[0].Owner)
		}
		b.gets(release("next", o.Lease.Token+1, "e"), lock.OK, false)
	}
	p, err := b.locks.List(t.Context(), lock.List{Tenant: "acme"})
	if err != nil || len(p.Locks) != 1 || p.Locks[0].History != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestHistoryOfLargeLocks: an acquire whose document has no room left in its KiB keeps fewer leases, or none, and one
// with room keeps them again. What was kept is not mistaken for something later.
func TestHistoryOfLargeLocks(t *testing.T) {
	b := begin(t)
	grant := int64(0)
	take := func(labels int, want int) {
		t.Helper()
		grant++
		c := acquire("ann", fmt.Sprint("a", grant), 30)
		c.Metadata = map[string]string{"x": strings.Repeat("x", labels)}
		b.gets(c, lock.OK, false)
		s, _, err := b.locks.Get(t.Context(), deploy)
		if err != nil || len(s.History) != want {
			t.Errorf("grant %d: %+v, %v; want %d", grant, s.History, err, want)
		}
		for i, p := range s.History {
			if p.Token != nth(grant-1-int64(i)) {
				t.Errorf("grant %d: %+v", grant, s.History)
			}
		}
		b.gets(release("ann", grant, "e"), lock.OK, false)
		b.clock.Advance(time.Second)
	}
	take(10, 0)
	take(10, 1)
	take(10, 2)
	take(200, 1)
	take(200, 1)
	take(10, 2)
	take(460, 0)
	take(10, 0) // the owner of the one before was not kept
	take(10, 1)
	take(500, 2)
}

// TestRecordedRefusals: who was refused last, at the cost of one write for each lock in a time. Nothing that a command
// rests on changes, and what comes of the write is the caller's neither.
func TestRecordedRefusals(t *testing.T) {
	b := begin(t)
	b.locks = lock.New(b.store, &lock.Options{Now: b.clock.Now, RecordRefusals: time.Minute})
	refused := func(want lock.Refused) {
		t.Helper()
		s, _, err := b.locks.Get(t.Context(), deploy)
		if err != nil || s.Refused != want {
			t.Errorf("got %+v, %v, want %+v", s.Refused, err, want)
		}
		b.store.requests = nil
	}
	b.gets(acquire("ann", "a1", 600), lock.OK, false)
	b.cost(1)
	b.gets(acquire("bob", "b1", 600), lock.Held, false)
	b.cost(2)
	at := b.clock.Now()
	refused(lock.Refused{Owner: "bob", At: at})
	b.clock.Advance(time.Minute - time.Millisecond)
	b.gets(acquire("cem", "c1", 600), lock.Held, false)
	b.cost(1)
	other := acquire("cem", "c2", 600)
	other.Key = "other"
	b.gets(other, lock.OK, false) // another lock has a time of its own
	other.Owner, other.RequestID = "bob", "c3"
	b.store.requests = nil
	b.gets(other, lock.Held, false)
	b.cost(2)
	refused(lock.Refused{Owner: "bob", At: at})
	b.clock.Advance(time.Millisecond)
	b.gets(acquire(strings.Repeat("d", 40), "d1", 600), lock.Held, false)
	b.cost(2)
	refused(lock.Refused{Owner: strings.Repeat("d", 32), At: b.clock.Now()})

	b.gets(renew("ann", 1, "n1", 600), lock.OK, false)
	b.cost(1)
	b.gets(renew("bob", 1, "n2", 600), lock.NotOwner, false)
	b.cost(1)
	b.gets(acquire("ann", "a1", 60), lock.RequestIDReused, false)
	b.cost(1)
	b.gets(acquire("ann", "a1", 600), lock.OK, true)
	b.cost(1)

	b.clock.Advance(time.Minute)
	writes := 0
	b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if writes++; writes == 2 {
			return docstore.Result{}, errors.New("the store is away")
		}
		return apply()
	}
	b.gets(acquire("bob", "b2", 600), lock.Held, false)
	if writes != 2 {
		t.Errorf("%d writes", writes)
	}
}

// slow is a store whose second write hangs until its caller gives up.
type slow struct {
	docstore.Store
	writes *int
}

func (s slow) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if *s.writes++; *s.writes > 2 {
		<-ctx.Done()
		return docstore.Result{}, ctx.Err()
	}
	return s.Store.Write(ctx, writes...)
}

// TestRecordingARefusalIsBounded: a store that hangs delays the response to a refused caller by a second at the most.
func TestRecordingARefusalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := lock.New(slow{docstore.NewMemory(nil), new(int)}, &lock.Options{RecordRefusals: time.Minute})
		if o, err := locks.Acquire(t.Context(), acquire("ann", "a1", 600)); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		begin := time.Now()
		o, err := locks.Acquire(t.Context(), acquire("bob", "b1", 600))
		if took := time.Since(begin); err != nil || o.Code != lock.Held || took != time.Second {
			t.Errorf("%+v, %v after %v", o, err, took)
		}
	})
}

// TestRecordsOfManyLocks: a process keeps the time of the last record for so many locks, and forgets those that are
// over.
func TestRecordsOfManyLocks(t *testing.T) {
	b := begin(t)
	b.locks = lock.New(b.store, &lock.Options{Now: b.clock.Now, RecordRefusals: time.Minute})
	refuse := func(key string, writes int) {
		t.Helper()
		c := acquire("ann", "a1", 600)
		c.Key = key
		if o, err := b.do(c); err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		b.store.requests = nil
		c.Owner = "bob"
		b.gets(c, lock.Held, false)
		b.cost(writes)
	}
	for n := range 10_000 {
		refuse(fmt.Sprint("k", n), 2)
	}
	refuse("one more", 1)
	b.clock.Advance(time.Minute)
	refuse("another", 2)
}

// TestHistoryAcrossForms: a lock whose document takes the shared form, and the plain one again, goes on with its
// history. The next acquire in plain form keeps the lease before it, and drops what is older than that.
func TestHistoryAcrossForms(t *testing.T) {
	b := begin(t)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	wait := func(seconds int) { b.clock.Advance(time.Duration(seconds) * time.Second) }
	b.gets(acquire("ann", "a1", 30), lock.OK, false)
	wait(1)
	b.gets(release("ann", 1, "e1"), lock.OK, false)
	ann := lock.Past{Owner: "ann", Token: nth(1), AcquiredAt: at(0), EndedAt: at(1), Ended: lock.EndedReleased}
	b.gets(replacing("bob", "a2", 0), lock.OK, false)
	wait(1)
	b.gets(replacing("cem", "a3", 0), lock.OK, false)
	bob := lock.Past{Owner: "bob", Token: nth(2), AcquiredAt: at(1), EndedAt: at(2), Ended: lock.EndedReplaced, By: "cem"}
	b.shows(bob, ann)

	shared := func(owner, request string) lock.Acquire {
		c := acquire(owner, request, 30)
		c.Mode = lock.Shared
		return c
	}
	wait(1)
	b.gets(release("cem", 3, "e3"), lock.OK, false)
	cem := lock.Past{Owner: "cem", Token: nth(3), AcquiredAt: at(2), EndedAt: at(3), Ended: lock.EndedReleased}
	b.gets(shared("dan", "s1"), lock.OK, false)
	b.shows(cem, bob, ann)
	for _, f := range []string{"o0", "o1", "o2", "b1", "d2", "c1", "w0", "w2"} {
		if v, ok := b.document()[f]; ok {
			t.Errorf("in shared form, %s is %v", f, v)
		}
	}
	b.gets(shared("eve", "s2"), lock.OK, false)
	const detail = "the lease was replaced by cem; stop the work that this token protects"
	if o := b.gets(renew("bob", 2, "n1", 30), lock.LeaseLost, false); o.Detail != detail {
		t.Errorf("%+v", o)
	}
	wait(1)
	b.gets(release("dan", 4, "e4"), lock.OK, false)
	wait(1)
	b.gets(release("eve", 5, "e5"), lock.OK, false)
	dan := lock.Past{Owner: "dan", Token: nth(4), AcquiredAt: at(3), EndedAt: at(4), Ended: lock.EndedReleased}
	eve := lock.Past{Owner: "eve", Token: nth(5), AcquiredAt: at(3), EndedAt: at(5), Ended: lock.EndedReleased}
	if s, _, err := b.locks.Get(t.Context(), deploy); err != nil || s.Phase != lock.Released || len(s.History) < 3 ||
		s.History[0] != eve || s.History[1] != dan {
		t.Errorf("%+v, %v", s.History, err)
	}
	b.store.requests = nil
	b.gets(acquire("ann", "a4", 30), lock.OK, false)
	b.cost(1)
	b.shows(eve)
	if v, ok := b.document()["rev"]; ok { // no more to store than a lock has that was never shared
		t.Errorf("in plain form, with a new token, rev is %v", v)
	}
	b.gets(release("ann", 6, "e6"), lock.OK, false)
	b.gets(acquire("bob", "a5", 30), lock.OK, false)
	b.shows(lock.Past{Owner: "ann", Token: nth(6), AcquiredAt: at(5), EndedAt: at(5), Ended: lock.EndedReleased}, eve)

	b.gets(force("f1"), lock.OK, false) // in plain form, then shared, then plain
	b.gets(shared("dan", "s3"), lock.OK, false)
	b.gets(force("f2"), lock.OK, false)
	b.gets(acquire("ann", "a6", 30), lock.OK, false)
	b.shows(lock.Past{Owner: "dan", Token: nth(8), AcquiredAt: at(5), EndedAt: at(5), Ended: lock.EndedForced, By: "root"})
}

// TestRefusalOfARemovedLock: recording a refusal makes no record of a lock that was removed meanwhile.
func TestRefusalOfARemovedLock(t *testing.T) {
	b := begin(t)
	b.locks = lock.New(b.store, &lock.Options{Now: b.clock.Now, RecordRefusals: time.Minute})
	b.gets(acquire("ann", "a1", 600), lock.OK, false)
	writes := 0
	b.store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if writes++; writes == 2 {
			key := docstore.Key{Kind: lock.Kind, Tenant: deploy.Tenant, ID: deploy.Key}
			if _, err := b.store.Store.Write(t.Context(), docstore.Write{Key: key, If: docstore.Not{Cond: docstore.Absent{}},
				Delete: true}); err != nil {
				t.Error(err)
			}
		}
		return apply()
	}
	b.gets(acquire("bob", "b1", 600), lock.Held, false)
	if d := b.document(); writes != 2 || d != nil {
		t.Errorf("%d writes left %v", writes, d)
	}
}
