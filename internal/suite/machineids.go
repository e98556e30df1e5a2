package suite

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// MachineIDs proves that machine IDs can be leased from a store. newStore returns an empty store with the given clock,
// and closes it with the test.
func MachineIDs(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	serve := func(t *testing.T, services ...machineid.ServiceConfig) (*machineid.Service, *Clock) {
		t.Helper()
		clock := NewClock()
		return leasing(t, newStore(t, clock.Now), clock, services...), clock
	}
	t.Run("the whole space", func(t *testing.T) { s, clock := serve(t); wholeSpace(t, s, clock) })
	t.Run("releases", func(t *testing.T) { s, clock := serve(t); releases(t, s, clock) })
	t.Run("programs agree with a table of intervals", func(t *testing.T) {
		small := machineid.DefaultService()
		small.BitTs, small.BitID, small.LeaseDuration = 50, 5, 1000 // 16 machine IDs
		large := small
		large.ServiceID, large.BitID, large.BitSeq = "large", 4, 9
		for seed := range uint64(5) {
			s, clock := serve(t, small, large)
			intervals(t, clock, seed, s)
		}
	})
	t.Run("programs agree with a table of intervals while widths change", func(t *testing.T) {
		small := machineid.DefaultService()
		small.BitTs, small.BitID, small.LeaseDuration = 50, 5, 1000
		fine, large := small, small
		fine.BitID, fine.BitSeq = 7, 6
		large.BitID, large.BitSeq = 4, 9
		large.ServiceID = "large"
		for seed := range uint64(3) {
			clock := NewClock()
			store := newStore(t, clock.Now)
			intervals(t, clock, seed, leasing(t, store, clock, small, large), leasing(t, store, clock, fine, large))
		}
	})
	t.Run("what is free can be had, in every size", func(t *testing.T) {
		for seed := range uint64(2) {
			s, clock := serve(t, sizesOfOneSpace()...)
			freeMachineIDs(t, s, clock, seed)
		}
	})
	t.Run("what comes late has no effect", func(t *testing.T) { lateRequests(t, newStore, LateMachineIDs) })
	t.Run("callers at the same moment", func(t *testing.T) {
		s, _ := serve(t)
		sameMoment(t, s)
	})
	t.Run("processes that set up a space at the same moment", func(t *testing.T) {
		clock := NewClock()
		setUp(t, newStore(t, clock.Now), clock)
	})
	t.Run("pages that are deleted", func(t *testing.T) {
		clock := NewClock()
		deletedPages(t, newStore(t, clock.Now), clock)
	})
	t.Run("a space of an older version", func(t *testing.T) {
		clock := NewClock()
		olderSpace(t, newStore(t, clock.Now), clock)
	})
}

func leasing(t *testing.T, store docstore.Store, clock *Clock, services ...machineid.ServiceConfig) *machineid.Service {
	t.Helper()
	s, err := machineid.New(store, services, &machineid.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// give releases a lease, signed at a time.
func give(s *machineid.Service, l kazahana.Lease, secret string, at time.Time) error {
	ms := at.UnixMilli()
	return s.Release(context.Background(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: ms,
		Signature: kazahana.Sign(secret, l.ID, ms)})
}

func wantLeased(t *testing.T, s *machineid.Service, want int) {
	t.Helper()
	o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
	if err != nil || o.Leased != want || o.Free != o.Units-want {
		t.Fatalf("occupancy %+v, %v; want %d leased", o, err, want)
	}
}

// wholeSpace leases all 8192 machine IDs, many at once, and then asks for one more.
func wholeSpace(t *testing.T, s *machineid.Service, clock *Clock) {
	seen := make(map[int64]bool)
	take := func(want, granted int) {
		t.Helper()
		r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: int64(want) * 256})
		if err != nil || len(r.Leases) != granted {
			t.Fatalf("%d leases, %v; want %d", len(r.Leases), err, granted)
		}
		for _, l := range r.Leases {
			if seen[l.ID] || l.Created != clock.Now().UnixMilli() || l.Expired != l.Created+600_000 {
				t.Fatalf("%+v", l)
			}
			seen[l.ID] = true
		}
	}
	take(1, 1)
	for range 8 {
		take(1000, 1000)
	}
	take(1000, 1)
	take(190, 190)
	wantLeased(t, s, 8192)
	clock.Advance(time.Second)
	_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
	var full *kazahana.ExhaustedError
	if !errors.As(err, &full) || full.RetryAfter != 599*time.Second {
		t.Errorf("on a full table: %v", err)
	}
	clock.Advance(full.RetryAfter)
	wantLeased(t, s, 0)
	clear(seen)
	take(8192, 8192)
}

// releases releases leases: by their holder only, once, and with no effect on the next holder of the machine ID.
func releases(t *testing.T, s *machineid.Service, clock *Clock) {
	r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 8192 * 256})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Leases[0]
	clock.Advance(time.Minute)
	if err := give(s, l, strings.Repeat("0", 32), clock.Now()); !errors.Is(err, machineid.ErrBadSignature) {
		t.Errorf("another caller's release: %v", err)
	}
	wantLeased(t, s, 8192)
	for range 2 {
		if err := give(s, l, l.Secret, clock.Now().Add(5*time.Second)); err != nil { // the holder's clock is ahead
			t.Error(err)
		}
	}
	clock.Advance(5 * time.Second)
	wantLeased(t, s, 8192) // stamped up to this millisecond
	clock.Advance(time.Millisecond)
	wantLeased(t, s, 8191)
	next, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
	if err != nil || len(next.Leases) != 1 || next.Leases[0].ID != l.ID || next.Leases[0].Secret == l.Secret {
		t.Fatalf("the next lease: %+v, %v", next, err)
	}
	if err := give(s, l, l.Secret, clock.Now()); !errors.Is(err, machineid.ErrBadSignature) {
		t.Errorf("a release of the lease before: %v", err)
	}
	wantLeased(t, s, 8192)
	clock.Advance(time.Hour)
	if err := give(s, next.Leases[0], next.Leases[0].Secret, clock.Now()); err != nil {
		t.Errorf("a release after the end: %v", err)
	}
	wantLeased(t, s, 0)
}

// intervals runs a random program of acquires, releases and time, and keeps a table of who may stamp which timestamps
// of which quarters of units. No two of its entries may meet, and nothing is refused while something is free. Each step
// asks one of the servers, which differ in the widths of the default service.
func intervals(t *testing.T, clock *Clock, seed uint64, servers ...*machineid.Service) {
	const units = 64
	type entry struct{ from, to int64 }
	var (
		r     = rand.New(rand.NewPCG(seed, 0))
		table [units][]entry
		held  []kazahana.Lease
	)
	last := func(unit int64) *entry {
		if n := len(table[unit]); n > 0 {
			return &table[unit][n-1]
		}
		return &entry{}
	}
	spans := func(l kazahana.Lease) (from, to int64) { return l.ID << (l.BitSeq - 6), (l.ID + 1) << (l.BitSeq - 6) }
	clock.Advance(time.Hour) // it is set back at times, and must not come before the epoch
	for range 150 {
		which := r.IntN(len(servers))
		s := servers[which]
		now := clock.Now().UnixMilli()
		switch r.IntN(4) {
		case 0:
			clock.Advance(time.Duration(r.IntN(400)-100) * time.Millisecond) // also back
		case 1:
			if len(held) == 0 {
				continue
			}
			i := r.IntN(len(held))
			l := held[i]
			held = append(held[:i], held[i+1:]...)
			at := clock.Now().Add(time.Duration(r.IntN(400)-200) * time.Millisecond)
			if err := give(s, l, l.Secret, at); err != nil && !errors.Is(err, machineid.ErrBadSignature) {
				t.Fatal(err)
			}
			from, to := spans(l)
			for unit := from; unit < to; unit++ {
				if e := last(unit); e.from == l.Created && e.to == l.Expired && e.to > now {
					e.to = max(l.Created, min(l.Expired, at.UnixMilli()+1))
				}
			}
		default:
			o := kazahana.AcquireOptions{ThroughputPerMs: 256 * int64(1+r.IntN(3))}
			if r.IntN(3) == 0 {
				o.ServiceID = "large"
			}
			got, err := s.Acquire(t.Context(), o)
			if errors.Is(err, kazahana.ErrExhausted) {
				width := int64(4) >> (2 * which) // of a lease, in quarters
				if o.ServiceID == "large" {
					width = 8
				}
				for from := int64(0); from < units; from += width {
					free := true
					for unit := from; unit < from+width; unit++ {
						free = free && last(unit).to <= now
					}
					if free {
						t.Fatalf("seed %d: exhausted, and unit %d is free", seed, from)
					}
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range got.Leases {
				from, to := spans(l)
				for unit := from; unit < to; unit++ {
					if e := last(unit); l.Created < e.to {
						t.Fatalf("seed %d: unit %d was leased from %d, and is taken until %d", seed, unit, l.Created, e.to)
					}
					table[unit] = append(table[unit], entry{l.Created, l.Expired})
				}
				held = append(held, l)
			}
		}
	}
}

// sameMoment lets fifty callers ask at once.
func sameMoment(t *testing.T, s *machineid.Service) {
	const callers = 50
	var (
		mu   sync.Mutex
		done sync.WaitGroup
		seen = make(map[int64]bool)
	)
	start := make(chan struct{})
	for i := range callers {
		done.Go(func() {
			<-start
			r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{Meta: map[string]string{"caller": strconv.Itoa(i)}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			seen[r.Leases[0].ID] = true
		})
	}
	close(start)
	done.Wait()
	if len(seen) != callers {
		t.Errorf("%d different machine IDs for %d callers", len(seen), callers)
	}
	wantLeased(t, s, callers)
}

// setUp lets processes set up a space of more documents than one write takes, all at once.
func setUp(t *testing.T, store docstore.Store, clock *Clock) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID, c.BitSeq = 41, 15, 7 // 128 pages
	var (
		mu   sync.Mutex
		done sync.WaitGroup
		seen = make(map[int64]bool)
	)
	const processes = 8
	start := make(chan struct{})
	for range processes {
		s := leasing(t, store, clock, c)
		done.Go(func() {
			<-start
			r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			seen[r.Leases[0].ID] = true
		})
	}
	close(start)
	done.Wait()
	if docs := documents(t, store); len(seen) != processes || len(docs) != 129 ||
		docs[128].Doc["pages"] != docstore.Int(128) {
		t.Errorf("%d different machine IDs, %d documents", len(seen), len(docs))
	}
	wantLeased(t, leasing(t, store, clock, c), processes)
}

// documents are those of the default space, by their IDs: its pages and then its own.
func documents(t *testing.T, store docstore.Store) []docstore.Entry {
	t.Helper()
	page, err := store.List(t.Context(), docstore.Query{Kind: machineid.Kind, Tenant: machineid.DefaultSpace,
		Limit: docstore.MaxLimit})
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	return page.Entries
}

func removeDoc(t *testing.T, store docstore.Store, k docstore.Key) {
	t.Helper()
	r, err := store.Write(t.Context(), docstore.Write{Key: k, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true})
	if err != nil || !r.Applied {
		t.Fatal(r, err)
	}
}

// deletedPages deletes pages while their leases last, and lets a process that knows the space and one that does not
// lease what there is. No machine ID has a second holder in the first one's term, and in the end all can be leased
// again.
func deletedPages(t *testing.T, store docstore.Store, clock *Clock) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID, c.LeaseDuration = 45, 10, machineid.MaxLeaseDuration // four pages
	old := leasing(t, store, clock, c)
	ends := make(map[int64]int64)
	lease := func(s *machineid.Service, n int64) (granted int) {
		t.Helper()
		r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: n * 256})
		if err != nil && !errors.Is(err, kazahana.ErrExhausted) {
			t.Fatal(err)
		}
		for _, l := range r.Leases {
			if l.Created < ends[l.ID] {
				t.Fatalf("%d is leased from %d, and was until %d", l.ID, l.Created, ends[l.ID])
			}
			ends[l.ID] = l.Expired
		}
		return len(r.Leases)
	}
	lease(old, 300)
	clock.Advance(time.Second)
	for _, e := range documents(t, store)[1:4:4] {
		removeDoc(t, store, e.Key)
		for _, s := range []*machineid.Service{old, leasing(t, store, clock, c)} {
			for range 3 {
				lease(s, 50)
			}
		}
	}
	if got := len(documents(t, store)); got != 5 {
		t.Errorf("%d documents, want all five again", got)
	}
	clock.Advance(24*time.Hour + time.Minute)
	wantLeased(t, old, 0)
	if got := lease(old, 512); got != 512 {
		t.Errorf("%d machine IDs in the end", got)
	}
}

// olderSpace makes a space what a version left that created pages when they were needed, and lets two processes go on
// with it.
func olderSpace(t *testing.T, store docstore.Store, clock *Clock) {
	first := leasing(t, store, clock)
	r, err := first.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 100 * 256})
	if err != nil {
		t.Fatal(err)
	}
	used := r.Leases[0].ID / 128 // all are in one page
	docs := documents(t, store)
	for i, e := range docs[:64] {
		w := docstore.Write{Key: e.Key, Set: map[string]docstore.Value{"rev": docstore.Int(1)}} // revisions counted from 1
		if i != int(used) {
			removeDoc(t, store, e.Key)
			continue
		}
		if _, err := store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Write(t.Context(), docstore.Write{Key: docs[64].Key, Unset: []string{"pages"}}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if err := give(leasing(t, store, clock), r.Leases[0], r.Leases[0].Secret, clock.Now()); err != nil {
		t.Errorf("a release before the space is complete: %v", err)
	}
	clock.Advance(time.Millisecond)
	wantLeased(t, leasing(t, store, clock), 99)
	one, two := leasing(t, store, clock), leasing(t, store, clock)
	taken := make(map[int64]bool)
	for _, l := range r.Leases[1:] {
		taken[l.ID] = true
	}
	for range 4 {
		for _, s := range []*machineid.Service{one, two} {
			next, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 1000 * 256})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range next.Leases {
				if taken[l.ID] {
					t.Fatalf("%d is leased twice", l.ID)
				}
				taken[l.ID] = true
			}
		}
	}
	docs = documents(t, store)
	if len(docs) != 65 || docs[64].Doc["pages"] != docstore.Int(64) {
		t.Errorf("%d documents, the last one %v", len(docs), docs[len(docs)-1].Doc)
	}
}

// AmbiguousMachineIDs holds the rule of the ambiguous write against every fate of a grant's write: who has an answer
// has a lease of its own, a lost answer costs machine IDs for a while and gives none to two, and a store whose library
// sends again by itself allocates once.
func AmbiguousMachineIDs(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	for _, fate := range []Fate{LostRequest, LostResponse, AppliedThenError, AppliedLate} {
		t.Run(string(fate)+" of a set-up", func(t *testing.T) {
			clock := NewClock()
			store, faults := newStore(t, clock.Now)
			if fate == AppliedLate && faults.Settle == nil {
				return
			}
			s := leasing(t, store, clock)
			faults.Next(t, fate)
			ctx, cancel := tryContext(t.Context(), faults, fate, 0)
			_, err := s.Acquire(ctx, kazahana.AcquireOptions{})
			cancel()
			answered := err == nil
			if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
				t.Fatal(err)
			}
			if fate == AppliedLate {
				faults.Settle(t)
			}
			o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
			if err != nil || o.Leased < 1 || o.Leased > 2 || answered && o.Leased != 2 {
				t.Errorf("answered %v, then %+v, %v", answered, o, err)
			}
			if got := len(documents(t, store)); got != 65 {
				t.Errorf("%d documents, want 65", got)
			}
		})
		t.Run(string(fate), func(t *testing.T) {
			clock := NewClock()
			store, faults := newStore(t, clock.Now)
			if fate == AppliedLate && faults.Settle == nil {
				return
			}
			s := leasing(t, store, clock)
			first, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}) // sets up the space
			if err != nil {
				t.Fatal(err)
			}
			faults.Next(t, fate)
			ctx, cancel := tryContext(t.Context(), faults, fate, 0)
			second, err := s.Acquire(ctx, kazahana.AcquireOptions{})
			cancel()
			answered := err == nil
			if !answered {
				if second, err = s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if fate == AppliedLate {
				faults.Settle(t)
			}
			one, two := first.Leases[0], second.Leases[0]
			if one.ID == two.ID {
				t.Fatalf("%d was leased twice", one.ID)
			}
			o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
			if err != nil || o.Leased < 2 || o.Leased > 3 || answered && o.Leased != 2 || fate == LostRequest && o.Leased != 2 {
				t.Errorf("answered %v, then %+v, %v", answered, o, err)
			}
			// Both leases are there, with their secrets.
			clock.Advance(time.Second)
			for _, l := range []kazahana.Lease{one, two} {
				if err := give(s, l, l.Secret, clock.Now()); err != nil {
					t.Error(err)
				}
			}
			clock.Advance(time.Millisecond)
			wantLeased(t, s, o.Leased-2)
		})
	}
}
