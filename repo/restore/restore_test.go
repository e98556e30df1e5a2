package restore_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/restore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

var present = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// put writes a document as a backup holds it.
func put(t *testing.T, s docstore.Store, kind, tenant, id string, d docstore.Doc) docstore.Key {
	t.Helper()
	k := docstore.Key{Kind: kind, Tenant: tenant, ID: id}
	if _, err := s.Write(t.Context(), docstore.Write{Key: k, Set: d}); err != nil {
		t.Fatal(err)
	}
	return k
}

func read(t *testing.T, s docstore.Store, k docstore.Key) docstore.Doc {
	t.Helper()
	got, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return got.Docs[0]
}

// TestRaiseTokens: what the store forgot is below what comes next, for locks, analyses, fences and activations of all
// tenants; nothing else changes, and a second time changes nothing (LS-INV-002).
func TestRaiseTokens(t *testing.T) {
	clock := present.Add(-24 * time.Hour)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	locks := lock.New(store, nil)
	take := func(tenant, request string) lock.Outcome {
		t.Helper()
		o, err := locks.Acquire(t.Context(), lock.Acquire{
			ID: lock.ID{Tenant: tenant, Key: "deploy"}, Owner: "ann", RequestID: request, TTLSeconds: 3600,
		})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		return o
	}
	before := take("acme", "r1").Lease.Token
	take("acmf", "r1")
	text := put(t, store, lock.Kind, "acme", "text", docstore.Doc{"token": docstore.String("7")})
	user := docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(3),
		"color": docstore.String("red")}
	a1 := put(t, store, analysis.Kind, "", "a1", user)
	a2 := put(t, store, analysis.Kind, "", "a2", docstore.Doc{"status": docstore.String("PENDING")})
	r1 := put(t, store, runs.Kind, "acme", "order-7", docstore.Doc{"lockToken": docstore.Int(before)})
	f1 := put(t, store, lock.FenceKind, "acme", "db", docstore.Doc{"token": docstore.Int(before)})
	room := put(t, store, placement.ActivationKind, "acme/prod", "room/lobby",
		docstore.Doc{"token": docstore.Int(before), "rev": docstore.Int(1)})
	other := put(t, store, "machine_ids", "acme", "page", docstore.Doc{"token": docstore.Int(5)})

	clock = present
	high := present.Add(time.Hour).UnixMicro()
	f2 := put(t, store, lock.FenceKind, "acme", "high", docstore.Doc{"token": docstore.Int(high)})
	var damaged []docstore.Key
	o := restore.Options{DryRun: true, Damaged: func(k docstore.Key, _ string) { damaged = append(damaged, k) }}
	want := []restore.Report{
		{Kind: lock.Kind, Documents: 3, Raised: 2, Damaged: 1},
		{Kind: analysis.Kind, Documents: 2, Raised: 1, Current: 1},
		{Kind: runs.Kind, Documents: 1, Raised: 1},
		{Kind: lock.FenceKind, Documents: 2, Raised: 1, Current: 1},
		{Kind: placement.ActivationKind, Documents: 1, Raised: 1},
	}
	got, err := restore.RaiseTokens(t.Context(), store, o)
	if err != nil || !reflect.DeepEqual(got.Kinds, want) || !reflect.DeepEqual(damaged, []docstore.Key{text}) {
		t.Errorf("dry run: %+v, %v, damaged %v", got, err, damaged)
	}
	if d := read(t, store, a1); !d.Equal(user) {
		t.Errorf("a dry run wrote %v", d)
	}
	o.DryRun = false
	if got, err = restore.RaiseTokens(t.Context(), store, o); err != nil || !reflect.DeepEqual(got.Kinds, want) {
		t.Errorf("%+v, %v", got, err)
	}
	raised := docstore.Int(present.Add(time.Minute).UnixMicro())
	user["lockToken"] = raised
	for k, d := range map[docstore.Key]docstore.Doc{
		a1: user, r1: {"lockToken": raised}, f1: {"token": raised}, f2: {"token": docstore.Int(high)},
		a2:   {"status": docstore.String("PENDING")},
		room: {"token": raised, "rev": docstore.Int(1)},
		text: {"token": docstore.String("7")}, other: {"token": docstore.Int(5)},
	} {
		if got := read(t, store, k); !got.Equal(d) {
			t.Errorf("%s is %v, want %v", k, got, d)
		}
	}
	want[0].Raised, want[0].Current = 0, 2
	want[1].Raised, want[1].Current = 0, 2
	want[2].Raised, want[2].Current = 0, 1
	want[3].Raised, want[3].Current = 0, 2
	want[4].Raised, want[4].Current = 0, 1
	if got, err = restore.RaiseTokens(t.Context(), store, o); err != nil || !reflect.DeepEqual(got.Kinds, want) {
		t.Errorf("again: %+v, %v", got, err)
	}

	// The holder according to the backup has lost its token; the next one has a higher one than any that was forgotten.
	if l, err := locks.Renew(t.Context(), lock.Renew{
		ID: lock.ID{Tenant: "acme", Key: "deploy"}, Owner: "ann", RequestID: "n1", Token: before, TTLSeconds: 60,
	}); err != nil || l.Code == lock.OK {
		t.Errorf("the old holder renews: %+v, %v", l, err)
	}
	clock = clock.Add(25 * time.Hour)
	if next := take("acme", "r2").Lease.Token; next <= int64(raised) {
		t.Errorf("the next token is %d, not above %d", next, raised)
	}
}

// markKind is of the document of a raise that has not ended.
const markKind = "token_raises"

// busy is a store in which another program writes to a document before each write.
type busy struct {
	docstore.Store
	docstore.Walker

	mu     sync.Mutex
	writes int // of documents
	before func(docstore.Key) error
}

func (b *busy) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w[0].Key.Kind == markKind {
		return b.Store.Write(ctx, w...)
	}
	if b.writes++; b.before != nil {
		if err := b.before(w[0].Key); err != nil {
			return docstore.Result{}, err
		}
	}
	return b.Store.Write(ctx, w...)
}

// TestRaiseTokensBesideServers: a token that is granted meanwhile is not lowered and not lost.
func TestRaiseTokensBesideServers(t *testing.T) {
	for name, c := range map[string]struct {
		writes int // of the other program
		add    int64
		want   int64
		err    error
	}{
		"none":           {0, 1, present.Add(time.Minute).UnixMicro(), nil},
		"some":           {3, 1, present.Add(time.Minute).UnixMicro(), nil},
		"a higher token": {1, present.Add(time.Hour).UnixMicro(), present.Add(time.Hour).UnixMicro() + 7, nil},
		"for a while":    {25, 1, present.Add(time.Minute).UnixMicro(), nil},
		"all the time":   {math.MaxInt, 1, 0, docstore.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return present }})
				k := put(t, memory, lock.Kind, "acme", "deploy", docstore.Doc{"token": docstore.Int(7)})
				store := &busy{Store: memory, Walker: memory}
				store.before = func(k docstore.Key) error {
					if store.writes > c.writes {
						return nil
					}
					_, err := memory.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"token": c.add}})
					return err
				}
				began := time.Now()
				_, err := restore.RaiseTokens(t.Context(), store, restore.Options{})
				if got := read(t, memory, k)["token"]; !errors.Is(err, c.err) || c.want != 0 && got != docstore.Int(c.want) {
					t.Errorf("%v, %v; want %d, %v", got, err, c.want, c.err)
				}
				if took := time.Since(began); err != nil && (took < time.Minute || took > 2*time.Minute) {
					t.Errorf("it gave up after %v", took)
				}
			})
		})
	}
	t.Run("other kinds", func(t *testing.T) {
		memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return present }})
		counters := map[docstore.Key]string{
			put(t, memory, analysis.Kind, "", "a",
				docstore.Doc{"lockToken": docstore.Int(7)}): "lockToken",
			put(t, memory, runs.Kind, "acme", "r",
				docstore.Doc{"lockToken": docstore.Int(7)}): "lockToken",
			put(t, memory, lock.FenceKind, "acme", "f", docstore.Doc{"token": docstore.Int(7)}):                         "token",
			put(t, memory, placement.ActivationKind, "acme/prod", "room/lobby", docstore.Doc{"token": docstore.Int(7)}): "token",
		}
		higher := docstore.Int(present.Add(time.Hour).UnixMicro())
		written := map[docstore.Key]bool{}
		store := &busy{Store: memory, Walker: memory, before: func(k docstore.Key) error {
			if written[k] {
				return nil
			}
			written[k] = true
			_, err := memory.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{counters[k]: higher}})
			return err
		}}
		if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil || store.writes != len(counters) {
			t.Error(store.writes, err)
		}
		for k, counter := range counters {
			if got := read(t, memory, k)[counter]; got != higher {
				t.Errorf("%s: a token that is higher was lowered to %v", k, got)
			}
		}
	})
	t.Run("a store that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			memory := docstore.NewMemory(nil)
			put(t, memory, lock.Kind, "acme", "deploy", docstore.Doc{"token": docstore.Int(7)})
			broken := errors.New("no such table")
			store := &busy{Store: memory, Walker: memory, before: func(docstore.Key) error { return broken }}
			if r, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); !errors.Is(err, broken) ||
				r.Kinds[0].Raised != 0 || store.writes != 1 {
				t.Errorf("%+v, %v, %d writes", r, err, store.writes)
			}
		})
	})
	t.Run("a store that cannot walk", func(t *testing.T) {
		if _, err := restore.RaiseTokens(t.Context(), struct{ docstore.Store }{docstore.NewMemory(nil)},
			restore.Options{}); !errors.Is(err, restore.ErrNoWalk) {
			t.Error(err)
		}
	})
}

// TestRaiseTokensOfManyDocuments: the documents of a kind come in pages, and all are raised: as many as a page has, one
// more, and ten times as many.
func TestRaiseTokensOfManyDocuments(t *testing.T) {
	for _, n := range []int{docstore.MaxLimit, docstore.MaxLimit + 1, 10 * docstore.MaxLimit} {
		store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return present }})
		for i := range n {
			put(t, store, lock.FenceKind, "t"+strconv.Itoa(i%3), strconv.Itoa(i), docstore.Doc{"token": docstore.Int(7)})
		}
		got, err := restore.RaiseTokens(t.Context(), store, restore.Options{})
		i := slices.IndexFunc(got.Kinds, func(r restore.Report) bool { return r.Kind == lock.FenceKind })
		if err != nil || got.Kinds[i] != (restore.Report{Kind: lock.FenceKind, Documents: n, Raised: n}) {
			t.Errorf("of %d: %+v, %v", n, got, err)
		}
		for i := range n {
			k := docstore.Key{Kind: lock.FenceKind, Tenant: "t" + strconv.Itoa(i%3), ID: strconv.Itoa(i)}
			if token, want := read(t, store, k)["token"], docstore.Int(present.Add(time.Minute).UnixMicro()); token != want {
				t.Fatalf("%s has %v, want %d", k, token, want)
			}
		}
	}
}

// TestFencesAfterARaise: a lock without a record starts at the present. If that is within the minute after a raise, the
// fence rejects its tokens, later ones too, until tokens are raised again.
func TestFencesAfterARaise(t *testing.T) {
	clock := present
	now := func() time.Time { return clock }
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: now})
	locks, guard := lock.New(store, nil), lock.NewGuard(store, &lock.GuardOptions{Now: now})
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
		return o.Lease.Token
	}
	passes := func(resource string, token int64, want bool) {
		t.Helper()
		o, err := guard.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: resource, Lease: fencing.OfLock("db", 0, token)})
		if err != nil || o.Passed != want {
			t.Errorf("%s: %+v, %v", resource, o, err)
		}
	}
	for _, key := range []string{"kept", "removed", "removed too"} {
		passes(key, take(key), true)
	}
	for _, key := range []string{"removed", "removed too"} {
		w := docstore.Write{Key: docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: key},
			If: docstore.Not{Cond: docstore.Absent{}}, Delete: true}
		if r, err := store.Write(t.Context(), w); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
	clock = clock.Add(time.Hour)
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Minute - time.Millisecond)
	early := take("removed")
	passes("removed", early, false)
	clock = clock.Add(2 * time.Millisecond)
	passes("removed too", take("removed too"), true)
	clock = clock.Add(time.Hour)
	passes("removed", take("removed"), false)
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Second) // its lease has ended
	passes("removed", take("removed"), true)
}

// TestLocksAfterARaise: the token of a lock with a record is above its fence at once, and so is that of a run, however
// long the command took from one document to the next.
func TestLocksAfterARaise(t *testing.T) {
	clock := present
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time {
		clock = clock.Add(time.Millisecond) // with each call
		return clock
	}})
	put(t, store, lock.Kind, "acme", "deploy", docstore.Doc{"token": docstore.Int(7),
		"state": docstore.String("RELEASED")})
	put(t, store, analysis.Kind, "", "a-1", docstore.Doc{"lockToken": docstore.Int(7)})
	for _, resource := range []string{"db", "results"} {
		put(t, store, lock.FenceKind, "acme", resource, docstore.Doc{"token": docstore.Int(7),
			"token_subject": docstore.String("lock/db")})
	}
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, nil).Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "deploy"},
		Owner: "ann", RequestID: "r1", TTLSeconds: 1})
	if err != nil || l.Code != lock.OK {
		t.Fatalf("%+v, %v", l, err)
	}
	a, err := analysis.New(store, nil).Acquire(t.Context(), analysis.Acquire{ID: "a-1", Owner: "ann",
		RequestID: "r1", TTLSeconds: 1})
	if err != nil || a.Code != analysis.OK {
		t.Fatalf("%+v, %v", a, err)
	}
	guard := lock.NewGuard(store, &lock.GuardOptions{Now: func() time.Time { return clock }})
	for resource, token := range map[string]int64{"db": l.Lease.Token, "results": a.Grant.Token} {
		if f, err := guard.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: resource, Lease: fencing.OfLock("db", 0, token)}); err != nil ||
			!f.Passed {
			t.Errorf("%s: %+v, %v", resource, f, err)
		}
	}
}

// TestRaisedTokensForgetEarlierLeases: their tokens are counted back from the latest, which was raised. What is granted
// afterwards is remembered as before.
func TestRaisedTokensForgetEarlierLeases(t *testing.T) {
	clock := present
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	locks := lock.New(store, nil)
	id := lock.ID{Tenant: "acme", Key: "deploy"}
	history := func() (tokens []int64) {
		t.Helper()
		s, _, err := locks.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.History {
			tokens = append(tokens, p.Token)
		}
		return tokens
	}
	take := func(request string) int64 {
		t.Helper()
		clock = clock.Add(time.Hour)
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: request, TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		return o.Lease.Token
	}
	first, second, third := take("a1"), take("a2"), take("a3")
	if got := history(); !slices.Equal(got, []int64{second, first}) {
		t.Errorf("before: %v", got)
	}
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := history(); got != nil {
		t.Errorf("after: %v", got)
	}
	fourth := take("a4")
	if got := history(); fourth <= third+1 || !slices.Equal(got, []int64{fourth - 1}) {
		t.Errorf("after the next grant, %d: %v", fourth, got)
	}
}

// TestRaisedTokensOfSeveralHolders: each holder of a lock has a new token that it does not know, in every mode, and the
// lock is not free before their leases end. A grant of a rate counts as before.
func TestRaisedTokensOfSeveralHolders(t *testing.T) {
	clock := present
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	locks := lock.New(store, nil)
	run := func(o lock.Outcome, err error) lock.Outcome {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	take := func(key, owner string, mode lock.Mode) lock.Outcome {
		c := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner, RequestID: owner, TTLSeconds: 60, Mode: mode,
			Fair: mode == lock.Exclusive}
		switch mode {
		case lock.Permits:
			c.Limit = 2
		case lock.Rate:
			c.Limit, c.WindowSeconds, c.TTLSeconds, c.Fair = 2, 60, 0, false
		default:
		}
		t.Helper()
		return run(locks.Acquire(t.Context(), c))
	}
	modes := map[string]lock.Mode{"shared": lock.Shared, "permits": lock.Permits, "rate": lock.Rate}
	granted := map[string][]int64{}
	for key, mode := range modes {
		for _, owner := range []string{"ann", "bob"} {
			o := take(key, owner, mode)
			if o.Code != lock.OK {
				t.Fatal(o)
			}
			granted[key] = append(granted[key], o.Lease.Token)
		}
	}
	take("one", "ann", lock.Permits)
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	raised := clock.Add(time.Minute).UnixMicro()
	for key, mode := range modes {
		writer := mode
		if mode == lock.Shared {
			writer = lock.Exclusive
		}
		if o := take(key, "eve", writer); o.Code != lock.Held {
			t.Errorf("%s: the lock is free: %+v", key, o)
		}
		for i, owner := range []string{"ann", "bob"} {
			id := lock.ID{Tenant: "acme", Key: key}
			want := lock.LeaseLost
			if mode == lock.Rate {
				want = lock.ModeDiffers
			}
			if o := run(locks.Renew(t.Context(), lock.Renew{ID: id, Owner: owner, Token: granted[key][i], RequestID: "n",
				TTLSeconds: 60})); o.Code != want {
				t.Errorf("%s: a renewal of %s: %+v", key, owner, o)
			}
			if o := run(locks.Release(t.Context(), lock.Release{ID: id, Owner: owner, Token: granted[key][i],
				RequestID: "e"})); o.Code != want {
				t.Errorf("%s: a release by %s: %+v", key, owner, o)
			}
		}
	}
	if o := take("one", "bob", lock.Permits); o.Code != lock.OK || o.Lease.Token != raised+1 {
		t.Errorf("beside the first holder: %+v", o)
	}
	clock = clock.Add(time.Minute)
	for key, mode := range modes {
		if o := take(key, "cem", mode); o.Code != lock.OK || o.Lease.Token < raised+1 {
			t.Errorf("%s, once the leases have ended: %+v", key, o)
		}
	}
}

// TestRaiseBesideAChangeOfHolders: a holder that leaves, comes or renews while tokens are raised is not undone.
func TestRaiseBesideAChangeOfHolders(t *testing.T) {
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return present }})
	locks, id := lock.New(memory, nil), lock.ID{Tenant: "acme", Key: "pool"}
	take := func(owner string) lock.Outcome {
		t.Helper()
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: owner, TTLSeconds: 60,
			Mode: lock.Permits, Limit: 3})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		return o
	}
	ann := take("ann")
	take("bob")
	store := &busy{Store: memory, Walker: memory}
	store.before = func(docstore.Key) error {
		if store.writes > 1 {
			return nil
		}
		o, err := locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: ann.Lease.Token, RequestID: "e"})
		if err != nil || o.Code != lock.OK {
			t.Error(o, err)
		}
		return nil
	}
	if _, err := restore.RaiseTokens(t.Context(), store, restore.Options{}); err != nil || store.writes != 2 {
		t.Fatal(store.writes, err)
	}
	s, _, err := locks.Get(t.Context(), id)
	if err != nil || len(s.Holders) != 1 || s.Holders[0].Owner != "bob" {
		t.Errorf("%+v, %v", s, err)
	}
}
