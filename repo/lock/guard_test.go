package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestGuard: LS-FENCE-001. Each check is one request to the store.
func TestGuard(t *testing.T) {
	store := &watched{Store: docstore.NewMemory(nil)}
	now := time.UnixMicro(docstore.MaxInt).Add(-lock.MaxAhead)
	g := lock.NewGuard(store, &lock.GuardOptions{Now: func() time.Time { return now }})
	for i, c := range []struct {
		tenant, resource string
		token            int64
		want             lock.FenceOutcome
	}{
		{"acme", "db", 2, lock.FenceOutcome{Passed: true, Highest: 2}}, // the first to come need not be 1
		{"acme", "db", 3, lock.FenceOutcome{Passed: true, Highest: 3}},
		{"acme", "db", 3, lock.FenceOutcome{Passed: true, Highest: 3}}, // a holder does more than one thing
		{"acme", "db", 2, lock.FenceOutcome{Highest: 3}},
		{"acme", "db", 1, lock.FenceOutcome{Highest: 3}},
		{"acme", "files", 1, lock.FenceOutcome{Passed: true, Highest: 1}}, // another resource
		{"other", "db", 1, lock.FenceOutcome{Passed: true, Highest: 1}},   // another tenant
		{"acme", "db", 3, lock.FenceOutcome{Passed: true, Highest: 3}},    // a refusal has changed nothing
		{"acme", "db", 10, lock.FenceOutcome{Passed: true, Highest: 10}},  // by size, not by letters
		{"acme", "db", 9, lock.FenceOutcome{Highest: 10}},
		{"acme", "db", docstore.MaxInt, lock.FenceOutcome{Passed: true, Highest: docstore.MaxInt}},
		{"acme", "db", 10, lock.FenceOutcome{Highest: docstore.MaxInt}},
	} {
		store.requests = nil
		o, err := g.Check(t.Context(), lock.Fence{Tenant: c.tenant, Resource: c.resource, Lease: fencing.OfLock("db", 0, c.token)})
		if err != nil || o != c.want {
			t.Errorf("check %d, token %d of %s/%s: %+v, %v, want %+v", i, c.token, c.tenant, c.resource, o, err, c.want)
		}
		if !slices.Equal(store.requests, []string{"Write"}) {
			t.Errorf("check %d: the store saw %v, want one Write", i, store.requests)
		}
	}
}

// TestGuardOfTwoSubjects: LS-FENCE-001. Tokens of two locks, or of a lock and a run, have no order: neither is compared,
// and what was refused changes nothing. After a reset the fence is free for either.
func TestGuardOfTwoSubjects(t *testing.T) {
	store := &watched{Store: docstore.NewMemory(nil)}
	for _, most := range []int{0, 10} { // with a bound the write of a fence that exists is another one
		g := lock.NewGuard(store, &lock.GuardOptions{MaxPerTenant: most})
		tenant := fmt.Sprint("t", most)
		check := func(l fencing.Lease) lock.FenceOutcome {
			t.Helper()
			o, err := g.Check(t.Context(), lock.Fence{Tenant: tenant, Resource: "db", Lease: l})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		orders, run := fencing.OfLock("orders", 0, 5), fencing.OfRun("orders", 7)
		for i, c := range []struct {
			l    fencing.Lease
			want lock.FenceOutcome
		}{
			{orders, lock.FenceOutcome{Passed: true, Highest: 5}},
			{run, lock.FenceOutcome{Highest: 5, Other: "lock/orders"}},
			{fencing.OfRun("orders", 4), lock.FenceOutcome{Highest: 5, Other: "lock/orders"}},
			{fencing.OfLock("orders", 1, 6), lock.FenceOutcome{Highest: 5, Other: "lock/orders"}}, // a permit is one by itself
			{orders, lock.FenceOutcome{Passed: true, Highest: 5}},
			{fencing.OfLock("orders", 0, 4), lock.FenceOutcome{Highest: 5}},
		} {
			if o := check(c.l); o != c.want {
				t.Errorf("%d: %v: %+v, want %+v", i, c.l, o, c.want)
			}
		}
		if l, err := g.Highest(t.Context(), tenant, "db"); l != orders || err != nil {
			t.Errorf("%v, %v", l, err)
		}
		if o, err := g.Reset(t.Context(), lock.FenceReset{Tenant: tenant, Resource: "db", Highest: 5, By: "ann",
			Reason: "another lock from now on"}); err != nil || !o.Reset {
			t.Fatal(o, err)
		}
		if l, err := g.Highest(t.Context(), tenant, "db"); l != (fencing.Lease{}) || err != nil {
			t.Errorf("after the reset: %v, %v", l, err)
		}
		if o := check(run); most == 0 && o != (lock.FenceOutcome{Passed: true, Highest: 7}) {
			t.Errorf("after the reset: %+v", o)
		}
	}
	for _, subject := range []string{"", strings.Repeat("x", fencing.MaxSubjectBytes+1), "a\nb", "\xff"} {
		_, err := lock.NewGuard(store, nil).Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db",
			Lease: fencing.Lease{Subject: subject, Token: 1}})
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != "subject" {
			t.Errorf("%q: %v", subject, err)
		}
	}
}

// TestGuardStopsAnEarlierHolder: LS-FENCE-001 as it happens. The lock changes hands while its first holder is paused.
func TestGuardStopsAnEarlierHolder(t *testing.T) {
	b := begin(t)
	g := lock.NewGuard(b.store, nil)
	check := func(token int64, want bool) {
		t.Helper()
		if o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "deploy", Lease: fencing.OfLock("db", 0, token)}); err != nil ||
			o.Passed != want {
			t.Errorf("token %d: %+v, %v, want passed %v", token, o, err, want)
		}
	}
	ann := b.gets(acquire("ann", "a1", 30), lock.OK, false).Lease
	check(ann.Token, true)
	b.clock.Advance(30 * time.Second)
	bob := b.gets(acquire("bob", "a2", 30), lock.OK, false).Lease
	check(ann.Token, true) // bob has not been here yet: no harm is done
	check(bob.Token, true)
	check(ann.Token, false)
}

// TestGuardRefusesTokensOfTheFuture: LS-FENCE-001 for a token that no lock has given. It would close the fence to all
// that are.
func TestGuardRefusesTokensOfTheFuture(t *testing.T) {
	store := &watched{Store: docstore.NewMemory(nil)}
	g := lock.NewGuard(store, &lock.GuardOptions{Now: func() time.Time { return epoch }})
	check := func(token int64) (lock.FenceOutcome, error) {
		return g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)})
	}
	most := epoch.Add(time.Hour).UnixMicro()
	for _, token := range []int64{most + 1, docstore.MaxInt} {
		o, err := check(token)
		e, ok := errors.AsType[*field.Error](err)
		if !ok || e.Error() != "fencing_token is a number that no lock has given: 1767229200000000 at most by now" ||
			o.Passed || len(store.requests) > 0 {
			t.Errorf("token %d: %+v, %v after %v", token, o, err, store.requests)
		}
	}
	for _, token := range []int64{1, epoch.UnixMicro(), most} {
		if o, err := check(token); err != nil || !o.Passed {
			t.Errorf("token %d: %+v, %v", token, o, err)
		}
	}
}

// TestFenceAfterAClockWasAhead: the tokens of locks that are new in a store whose clock was two days ahead are rejected
// until an hour before that time has come, also of those that are made later; those of older locks pass. A fence that
// was ahead itself accepts none of the others until it is reset.
func TestFenceAfterAClockWasAhead(t *testing.T) {
	const ahead = 48 * time.Hour
	clock := suite.NewClockAt(epoch)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	locks, g := lock.New(store, nil), lock.NewGuard(store, &lock.GuardOptions{Now: clock.Now})
	request := 0
	take := func(key string) int64 {
		t.Helper()
		request++
		id := lock.ID{Tenant: "acme", Key: key}
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: strconv.Itoa(request),
			TTLSeconds: 1})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		if o, err := locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: o.Lease.Token,
			RequestID: strconv.Itoa(request)}); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Lease.Token
	}
	check := func(resource string, token int64) lock.FenceOutcome {
		t.Helper()
		o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: resource, Lease: fencing.OfLock("db", 0, token)})
		if _, ok := errors.AsType[*field.Error](err); err != nil && !ok {
			t.Fatal(err)
		}
		return o
	}
	take("old")
	clock.Advance(ahead)
	wrong := take("wrong")
	if o := check("ahead", wrong); !o.Passed {
		t.Errorf("by its own clock: %+v", o)
	}
	clock.Advance(-ahead)
	later := take("later")
	if later <= wrong {
		t.Errorf("%d after %d", later, wrong)
	}
	if old := take("old"); !check("db", old).Passed || check("ahead", old).Passed {
		t.Errorf("the token of an older lock, %d", old)
	}
	clock.Advance(ahead - time.Hour - time.Millisecond)
	if check("db", later).Passed {
		t.Error("more than an hour ahead")
	}
	clock.Advance(2 * time.Millisecond)
	if !check("db", later).Passed {
		t.Error("an hour ahead")
	}
	o, err := g.Reset(t.Context(), lock.FenceReset{Tenant: "acme", Resource: "ahead", Highest: wrong, By: "root",
		Reason: "the clock was ahead"})
	if err != nil || !o.Reset || !check("ahead", take("old")).Passed {
		t.Errorf("after a reset: %+v, %v", o, err)
	}
}

// TestFenceReset: an administrator opens a fence that a wrong token has closed. A late delivery resets nothing that
// came after.
func TestFenceReset(t *testing.T) {
	clock := suite.NewClockAt(epoch)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	g := lock.NewGuard(store, &lock.GuardOptions{Now: clock.Now})
	key := docstore.Key{Kind: lock.FenceKind, Tenant: "acme", ID: "db"}
	check := func(token int64, want lock.FenceOutcome) {
		t.Helper()
		o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)})
		if err != nil || o != want {
			t.Errorf("token %d: %+v, %v, want %+v", token, o, err, want)
		}
	}
	reset := func(from int64, want lock.FenceResetOutcome) {
		t.Helper()
		o, err := g.Reset(t.Context(), lock.FenceReset{Tenant: "acme", Resource: "db", Highest: from, By: "root",
			Reason: "a typo"})
		if err != nil || o != want {
			t.Errorf("reset from %d: %+v, %v, want %+v", from, o, err, want)
		}
	}
	reset(9, lock.FenceResetOutcome{}) // there is none
	check(9, lock.FenceOutcome{Passed: true, Highest: 9})
	check(5, lock.FenceOutcome{Highest: 9})
	reset(8, lock.FenceResetOutcome{Highest: 9})
	check(5, lock.FenceOutcome{Highest: 9})
	reset(9, lock.FenceResetOutcome{Reset: true})
	want := docstore.Doc{
		"token": docstore.Int(0), "reset_from": docstore.Int(9), "reset_by": docstore.String("root"),
		"reset_reason": docstore.String("a typo"),
		"reset_at":     docstore.FormatTime(epoch),
	}
	if s, err := store.Get(t.Context(), key); err != nil || !s.Docs[0].Equal(want) {
		t.Errorf("the document is %v, %v, want %v", s.Docs[0], err, want)
	}
	reset(9, lock.FenceResetOutcome{Reset: true, Replayed: true})
	check(5, lock.FenceOutcome{Passed: true, Highest: 5})
	reset(9, lock.FenceResetOutcome{Highest: 5}) // late
	check(4, lock.FenceOutcome{Highest: 5})

	for name, c := range map[string]lock.FenceReset{
		"tenant_id":     {Resource: "db", Highest: 1, By: "root", Reason: "x"},
		"resource":      {Tenant: "acme", Highest: 1, By: "root", Reason: "x"},
		"highest_token": {Tenant: "acme", Resource: "db", By: "root", Reason: "x"},
		"owner_id":      {Tenant: "acme", Resource: "db", Highest: 1, Reason: "x"},
		"reason":        {Tenant: "acme", Resource: "db", Highest: 1, By: "root"},
	} {
		o, err := g.Reset(t.Context(), c)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != name || o != (lock.FenceResetOutcome{}) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// TestGuardAmongMany: a token that is lower than one that has passed before the check began never passes, and a refusal
// names a higher token.
func TestGuardAmongMany(t *testing.T) {
	g := lock.NewGuard(docstore.NewMemory(nil), nil)
	var (
		mu      sync.Mutex
		highest int64 // that has passed
		wg      sync.WaitGroup
	)
	for n := range uint64(50) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, n))
			for range 40 {
				token := 1 + random.Int64N(1000)
				mu.Lock()
				before := highest
				mu.Unlock()
				o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)})
				switch {
				case err != nil:
					t.Error(err)
				case o.Passed && (token < before || o.Highest != token):
					t.Errorf("token %d passed after %d: %+v", token, before, o)
				case !o.Passed && (o.Highest <= token || o.Highest < before):
					t.Errorf("token %d was refused after %d: %+v", token, before, o)
				}
				if o.Passed {
					mu.Lock()
					highest = max(highest, token)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for token, want := range map[int64]bool{highest - 1: false, highest: true} {
		o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)})
		if err != nil || o != (lock.FenceOutcome{Passed: want, Highest: highest}) {
			t.Errorf("afterwards token %d: %+v, %v", token, o, err)
		}
	}
}

// TestGuardLosesAResponse: asking again is harmless, and an older token stays refused.
func TestGuardLosesAResponse(t *testing.T) {
	store := &watched{Store: docstore.NewMemory(nil)}
	g := lock.NewGuard(store, nil)
	store.write = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		_, err := apply()
		return docstore.Result{}, errors.Join(docstore.ErrUnavailable, err)
	}
	c := lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, 5)}
	if o, err := g.Check(t.Context(), c); !errors.Is(err, docstore.ErrUnavailable) || o != (lock.FenceOutcome{}) {
		t.Errorf("got %+v, %v; want ErrUnavailable", o, err)
	}
	store.write = nil
	if o, err := g.Check(t.Context(), c); err != nil || !o.Passed {
		t.Errorf("again: %+v, %v", o, err)
	}
	c.Lease.Token = 4
	if o, err := g.Check(t.Context(), c); err != nil || o != (lock.FenceOutcome{Highest: 5}) {
		t.Errorf("an older token: %+v, %v", o, err)
	}
}

func TestGuardErrors(t *testing.T) {
	c := lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, 5)}
	t.Run("store", func(t *testing.T) {
		for _, cause := range []error{docstore.ErrUnavailable, docstore.ErrClosed, context.DeadlineExceeded} {
			o, err := lock.NewGuard(failing{err: cause}, nil).Check(t.Context(), c)
			if !errors.Is(err, cause) || err.Error() != "fences/acme/db: "+cause.Error() || o != (lock.FenceOutcome{}) {
				t.Errorf("%v: got %+v, %v", cause, o, err)
			}
		}
	})
	t.Run("malformed", func(t *testing.T) {
		store := &watched{Store: docstore.NewMemory(nil)}
		o, err := lock.NewGuard(store, nil).Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db"})
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != "fencing_token" || o.Passed ||
			len(store.requests) != 0 {
			t.Errorf("got %+v, %v after %v", o, err, store.requests)
		}
	})
	for name, token := range map[string]docstore.Value{"text": docstore.String("3"), "a boolean": docstore.Bool(true),
		"a map": docstore.Map{"a": "b"}} {
		t.Run("damaged: the token is "+name, func(t *testing.T) {
			store := docstore.NewMemory(nil)
			key := docstore.Key{Kind: lock.FenceKind, Tenant: "acme", ID: "db"}
			d := docstore.Doc{"token": token}
			if _, err := store.Write(t.Context(), docstore.Write{Key: key, Set: d}); err != nil {
				t.Fatal(err)
			}
			o, err := lock.NewGuard(store, nil).Check(t.Context(), c)
			want := `docstore: damaged document: fences/acme/db: field "token" is not a whole number`
			if !errors.Is(err, docstore.ErrDamaged) || err.Error() != want || o != (lock.FenceOutcome{}) {
				t.Errorf("got %+v, %v", o, err)
			}
			if s, err := store.Get(t.Context(), key); err != nil || !s.Docs[0].Equal(d) {
				t.Errorf("the document was changed: %v, %v", s, err)
			}
		})
	}
	t.Run("a store that refuses what the rule grants", func(t *testing.T) {
		store := &watched{Store: docstore.NewMemory(nil)}
		store.write = func(func() (docstore.Result, error)) (docstore.Result, error) {
			return docstore.Result{Docs: []docstore.Doc{{"token": docstore.Int(4), "token_subject": docstore.String("lock/db")}}, Refused: []int{0}}, nil
		}
		o, err := lock.NewGuard(store, nil).Check(t.Context(), c)
		want := "docstore: damaged document: fences/acme/db: the store refused what the rule grants"
		if !errors.Is(err, docstore.ErrDamaged) || err.Error() != want || o != (lock.FenceOutcome{}) {
			t.Errorf("got %+v, %v", o, err)
		}
	})
}

// TestFenceCond: LS-FENCE-001 where the resource is a document of the store itself. The comparison and the effect are
// one step, and other conditions may stand beside it.
func TestFenceCond(t *testing.T) {
	store := docstore.NewMemory(nil)
	key := docstore.Key{Kind: "accounts", Tenant: "acme", ID: "main"}
	set := func(token int64, balance docstore.Value) bool {
		t.Helper()
		values := lock.FenceSet("fence", fencing.OfLock("main", 0, token))
		values["balance"] = balance
		r, err := store.Write(t.Context(), docstore.Write{
			Key: key,
			If: docstore.All{
				lock.FenceCond("fence", fencing.OfLock("main", 0, token)),
				docstore.Not{Cond: docstore.Eq{Field: "closed", Value: docstore.Bool(true)}},
			},
			Set: values,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.Applied
	}
	want := func(d docstore.Doc) {
		t.Helper()
		s, err := store.Get(t.Context(), key)
		if err != nil || !s.Docs[0].Equal(d) {
			t.Errorf("the document is %v, %v, want %v", s.Docs[0], err, d)
		}
	}
	if !set(2, docstore.Int(100)) || !set(2, docstore.Int(90)) || !set(4, docstore.Int(80)) {
		t.Error("a current token was refused")
	}
	after := docstore.Doc{"fence": docstore.Int(4), "fence_subject": docstore.String("lock/main"), "balance": docstore.Int(80)}
	want(after)
	for token := range int64(4) {
		if set(token, docstore.Int(0)) {
			t.Errorf("the older token %d had an effect", token)
		}
	}
	want(after)

	if _, err := store.Write(t.Context(), docstore.Write{Key: key, Set: map[string]docstore.Value{
		"closed": docstore.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if set(5, docstore.Int(0)) {
		t.Error("the token passed by a condition that stands beside it")
	}
	closed := maps.Clone(after)
	closed["closed"] = docstore.Bool(true)
	want(closed)
}

// TestFenceCondHolds holds the condition by itself against documents of all sorts.
func TestFenceCondHolds(t *testing.T) {
	same := docstore.String("lock/db")
	for i, c := range []struct {
		found docstore.Doc
		want  bool
	}{
		{nil, true},
		{docstore.Doc{}, true},
		{docstore.Doc{"token": docstore.Int(9)}, true}, // another field
		{docstore.Doc{"fence": docstore.Int(4), "fence_subject": same}, true},
		{docstore.Doc{"fence": docstore.Int(5), "fence_subject": same}, true},
		{docstore.Doc{"fence": docstore.Int(6), "fence_subject": same}, false},
		{docstore.Doc{"fence": docstore.Int(4), "fence_subject": docstore.String("run/db")}, false}, // they have no order
		{docstore.Doc{"fence": docstore.Int(0)}, true},                                              // after a reset
		{docstore.Doc{"fence": docstore.Int(4)}, false},                                             // what cannot be compared lets no token pass
		{docstore.Doc{"fence": docstore.String("1"), "fence_subject": same}, false},
		{docstore.Doc{"fence": docstore.Opaque{Raw: 1.5}, "fence_subject": same}, false},
	} {
		t.Run(fmt.Sprint(i, " ", c.found), func(t *testing.T) {
			if got := lock.FenceCond("fence", fencing.OfLock("db", 0, 5)).Holds(c.found, epoch); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
