package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite/idtable"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// MachineIDs proves that machine IDs can be leased from a store, by the oracle of package idtable. newStore returns an
// empty store with the given clock, and closes it with the test.
func MachineIDs(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	on := func(name string, seeds uint64, test func(s *idSpace, seed uint64)) {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				clock := NewClock()
				s := newIDSpace(t, newStore(t, clock.Now), clock)
				test(s, seed)
				if err := s.table.Err(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
	on("the whole space", 1, wholeSpace)
	on("releases", 1, releases)
	on("callers at the same moment", 1, sameMoment)
	on("processes that set up a space at the same moment", 1, setUp)
	on("pages that are deleted", 1, deletedPages)
	on("a set-up that was cut short", 1, cutShort)

	type services = []machineid.ServiceConfig
	one, large := idService("default", 50, 8), idService("large", 50, 9) // 16 and 8 machine IDs
	on("programs", 5, func(s *idSpace, seed uint64) { s.program(seed, services{one, large}) })
	on("programs while widths change", 3, func(s *idSpace, seed uint64) {
		s.program(seed, services{one, large}, services{idService("default", 50, 6), large})
	})
	on("programs of every size", 2, func(s *idSpace, seed uint64) { // of 512 units in four pages
		s.program(seed, services{idService("1", 45, 8), idService("4", 45, 10), idService("32", 45, 13),
			idService("128", 45, 15)})
	})
	t.Run("what comes late has no effect", func(t *testing.T) { lateRequests(t, newStore, LateMachineIDs) })
}

// idService is a service whose leases last a second.
func idService(name string, bitTs, bitSeq int) machineid.ServiceConfig {
	c := machineid.DefaultService()
	c.ServiceID, c.BitTs, c.BitSeq, c.BitID, c.LeaseDuration = name, bitTs, bitSeq, 63-bitTs-bitSeq, 1000
	return c
}

// machineIDsOnce carries out one program on a store.
func machineIDsOnce(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	clock := NewClock()
	s := newIDSpace(t, newStore(t, clock.Now), clock)
	s.program(0, []machineid.ServiceConfig{idService("default", 50, 8), idService("large", 50, 9)})
	if err := s.table.Err(); err != nil {
		t.Fatal(err)
	}
}

// idSpace is a store with spaces of machine IDs, and the oracle of one.
type idSpace struct {
	*testing.T
	docstore.Store

	clock *Clock
	table *idtable.Table
}

func newIDSpace(t *testing.T, store docstore.Store, clock *Clock) *idSpace {
	return &idSpace{t, store, clock, idtable.New(clock.Now)}
}

// server is another process with the services.
func (s *idSpace) server(services ...machineid.ServiceConfig) *machineid.Service {
	s.Helper()
	server, err := machineid.New(s.Store, services, &machineid.Options{Now: s.clock.Now})
	if err != nil {
		s.Fatal(err)
	}
	return server
}

// serve is [idSpace.server] where the table knows all that happens, so that what it grants and refuses is judged.
func (s *idSpace) serve(services ...machineid.ServiceConfig) *idtable.Holder {
	s.Helper()
	return s.table.Holder("the caller", s.server(services...), services...)
}

// lease leases machine IDs of the default service, as many as there are if that is fewer than n.
func (s *idSpace) lease(from kazahana.LeaseProvider, n int) []kazahana.Lease {
	s.Helper()
	r, err := from.Acquire(s.Context(), kazahana.AcquireOptions{ThroughputPerMs: int64(n-1)*256 + 1})
	if err != nil && !errors.Is(err, kazahana.ErrExhausted) {
		s.Error(err)
	}
	return r.Leases
}

// leases is [idSpace.lease] where there must be one.
func (s *idSpace) leases(from kazahana.LeaseProvider, n int) []kazahana.Lease {
	s.Helper()
	got := s.lease(from, n)
	if len(got) == 0 {
		s.Fatal("no lease")
	}
	return got
}

// give releases a lease, signed at a time.
func (s *idSpace) give(to kazahana.LeaseProvider, l kazahana.Lease, secret string, at time.Time) error {
	ms := at.UnixMilli()
	return to.Release(s.Context(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: ms,
		Signature: kazahana.Sign(secret, l.ID, ms)})
}

// leased is how many units of the default space are leased.
func (s *idSpace) leased(services ...machineid.ServiceConfig) int {
	s.Helper()
	o, _, err := s.server(services...).Occupancy(s.Context(), machineid.DefaultSpace)
	if err != nil || o.Free != o.Units-o.Leased {
		s.Fatalf("occupancy %+v, %v", o, err)
	}
	return o.Leased
}

func (s *idSpace) wantLeased(want int, services ...machineid.ServiceConfig) {
	s.Helper()
	if got := s.leased(services...); got != want {
		s.Fatalf("%d units are leased, want %d", got, want)
	}
}

// wholeSpace leases all 8192 machine IDs, many at once, and then asks for one more.
func wholeSpace(s *idSpace, _ uint64) {
	h := s.serve(machineid.DefaultService())
	for _, n := range []int{1, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 190} {
		s.lease(h, n)
	}
	s.wantLeased(8192)
	s.clock.Advance(time.Second)
	s.lease(h, 1)
	s.clock.Advance(599 * time.Second)
	s.wantLeased(0)
	s.lease(h, 8192)
}

// releases releases leases: by their holder only, once, and with no effect on the next holder of the machine ID.
func releases(s *idSpace, _ uint64) {
	h := s.serve(machineid.DefaultService())
	l := s.leases(h, 8192)[0]
	s.clock.Advance(time.Minute)
	if err := s.give(h, l, strings.Repeat("0", 32), s.clock.Now()); !errors.Is(err, machineid.ErrBadSignature) {
		s.Errorf("another caller's release: %v", err)
	}
	s.wantLeased(8192)
	for range 2 {
		if err := s.give(h, l, l.Secret, s.clock.Now().Add(5*time.Second)); err != nil { // the holder's clock is ahead
			s.Error(err)
		}
	}
	s.clock.Advance(5 * time.Second)
	s.wantLeased(8192) // stamped up to this millisecond
	s.clock.Advance(time.Millisecond)
	s.wantLeased(8191)
	next := s.leases(h, 1)[0]
	if next.ID != l.ID || next.Secret == l.Secret {
		s.Fatalf("the next lease: %+v", next)
	}
	if err := s.give(h, l, l.Secret, s.clock.Now()); !errors.Is(err, machineid.ErrBadSignature) {
		s.Errorf("a release of the lease before: %v", err)
	}
	s.wantLeased(8192)
	s.clock.Advance(time.Hour)
	if err := s.give(h, next, next.Secret, s.clock.Now()); err != nil {
		s.Errorf("a release after the end: %v", err)
	}
	s.wantLeased(0)
}

// program runs a random program of leases of all sizes, releases, holders that die, and a clock that is set back at
// times. Each step asks one of the servers, which may differ in the widths of a service. Once in a while all that is
// left is used up, and who asks then asks again at the time that it is told.
func (s *idSpace) program(seed uint64, servers ...[]machineid.ServiceConfig) {
	var (
		r       = rand.New(rand.NewPCG(seed, 0))
		holders []*idtable.Holder
		held    []kazahana.Lease
	)
	for _, services := range servers {
		holders = append(holders, s.serve(services...))
	}
	ask := func(from *idtable.Holder, c machineid.ServiceConfig, most int) error {
		n := min(int64(1+r.IntN(most)), c.MaxMachineID()+1)
		got, err := from.Acquire(s.Context(), kazahana.AcquireOptions{ServiceID: c.ServiceID,
			ThroughputPerMs: n * c.Throughput()})
		held = append(held, got.Leases...)
		return err
	}
	s.clock.Advance(time.Hour) // it is set back at times, and must not come before the epoch
	for range 150 {
		i := r.IntN(len(servers))
		from, service := holders[i], servers[i][r.IntN(len(servers[i]))]
		switch n := r.IntN(16); {
		case n < 4:
			s.clock.Advance(time.Duration(r.IntN(400)-100) * time.Millisecond) // also back
		case n < 8 && len(held) > 0:
			i := r.IntN(len(held))
			l := held[i]
			held = append(held[:i], held[i+1:]...)
			err := s.give(from, l, l.Secret, s.clock.Now().Add(time.Duration(r.IntN(400)-200)*time.Millisecond))
			if err != nil && !errors.Is(err, machineid.ErrBadSignature) {
				s.Fatal(err)
			}
		case n == 8:
			var err error
			for err == nil {
				err = ask(from, service, 32)
			}
			if full, ok := errors.AsType[*kazahana.ExhaustedError](err); ok {
				s.clock.Advance(full.RetryAfter)
			}
			_ = ask(from, service, 1) // the table knows whether there must be one
		default:
			_ = ask(from, service, 3)
		}
	}
}

// atOnce lets callers ask at the same moment, and leaves a lease of each.
func (s *idSpace) atOnce(service machineid.ServiceConfig, callers ...*idtable.Holder) {
	var done sync.WaitGroup
	start := make(chan struct{})
	for _, h := range callers {
		done.Go(func() {
			<-start
			s.lease(h, 1)
		})
	}
	close(start)
	done.Wait()
	s.wantLeased(len(callers), service)
}

// sameMoment lets fifty callers of one server ask at once.
func sameMoment(s *idSpace, _ uint64) {
	c := machineid.DefaultService()
	server := s.server(c)
	callers := make([]*idtable.Holder, 50)
	for i := range callers {
		callers[i] = s.table.Holder(fmt.Sprint("caller ", i), server, c)
	}
	s.atOnce(c, callers...)
}

// setUp lets processes set up a space of more documents than one write takes, all at once.
func setUp(s *idSpace, _ uint64) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID, c.BitSeq = 41, 15, 7 // 128 pages
	s.atOnce(c, s.serve(c), s.serve(c), s.serve(c), s.serve(c), s.serve(c), s.serve(c), s.serve(c), s.serve(c))
	if docs := s.documents(); len(docs) != 129 || docs[128].Doc["pages"] != docstore.Int(128) {
		s.Errorf("%d documents", len(docs))
	}
}

// documents are those of the default space, by their IDs: its pages and then its own.
func (s *idSpace) documents() []docstore.Entry {
	s.Helper()
	page, err := s.List(s.Context(), docstore.Query{Kind: machineid.Kind, Tenant: machineid.DefaultSpace,
		Limit: docstore.MaxLimit})
	if err != nil || page.Next != "" {
		s.Fatal(page.Next, err)
	}
	return page.Entries
}

// change writes to a document that is there.
func (s *idSpace) change(w docstore.Write) {
	s.Helper()
	w.If = docstore.Not{Cond: docstore.Absent{}}
	if r, err := s.Write(s.Context(), w); err != nil || !r.Applied {
		s.Fatal(r, err)
	}
}

// deletedPages deletes pages while their leases last, and lets a process that knows the space and one that does not
// lease what there is. No machine ID has a second holder in the first one's term, and in the end all can be leased
// again.
func deletedPages(s *idSpace, _ uint64) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID, c.LeaseDuration = 45, 10, machineid.MaxLeaseDuration // four pages
	old := s.table.Holder("a process that knows the space", s.server(c))
	s.lease(old, 300)
	s.clock.Advance(time.Second)
	for _, e := range s.documents()[1:4:4] {
		s.change(docstore.Write{Key: e.Key, Delete: true})
		for _, h := range []*idtable.Holder{old, s.table.Holder("a process that does not", s.server(c))} {
			for range 3 {
				s.lease(h, 50)
			}
		}
	}
	if got := len(s.documents()); got != 5 {
		s.Errorf("%d documents, want all five again", got)
	}
	s.clock.Advance(24*time.Hour + time.Minute)
	s.wantLeased(0, c)
	if got := len(s.lease(old, 512)); got != 512 {
		s.Errorf("%d machine IDs in the end", got)
	}
}

// cutShort makes a space what a process leaves that ends while it sets it up: one page, from which others lease. Two
// processes go on with it.
func cutShort(s *idSpace, _ uint64) {
	c := machineid.DefaultService()
	r := s.leases(s.serve(c), 100)
	used := r[0].ID / 128 // all are in one page
	docs := s.documents()
	for i, e := range docs[:64] {
		if i != int(used) {
			s.change(docstore.Write{Key: e.Key, Delete: true})
		}
	}
	s.change(docstore.Write{Key: docs[64].Key, Unset: []string{"pages"}})
	s.clock.Advance(time.Second)
	if err := s.give(s.serve(c), r[0], r[0].Secret, s.clock.Now()); err != nil {
		s.Errorf("a release before the space is complete: %v", err)
	}
	s.clock.Advance(time.Millisecond)
	s.wantLeased(99)
	one, two := s.serve(c), s.serve(c)
	for range 4 {
		s.lease(one, 1000)
		s.lease(two, 1000)
	}
	docs = s.documents()
	if len(docs) != 65 || docs[64].Doc["pages"] != docstore.Int(64) {
		s.Errorf("%d documents, the last one %v", len(docs), docs[len(docs)-1].Doc)
	}
}

// AmbiguousMachineIDs holds the rule of the ambiguous write against every fate of a grant's write: who has an answer
// has a lease of its own, a lost answer costs machine IDs for a while and gives none to two, and a store whose library
// sends again by itself allocates once.
func AmbiguousMachineIDs(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	everyFate(t, newStore, ambiguousMachineIDs, "set-up", "lease")
}

func ambiguousMachineIDs(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	s := newIDSpace(t, store, clock)
	h := s.table.Holder("the caller", s.server())
	var leases []kazahana.Lease
	if do == "lease" { // the space has been set up
		leases = s.lease(h, 1)
	}
	tries := 0
	got, err := untilAnswered(t, faults, fate, func(ctx context.Context) (kazahana.AcquireResponse, error) {
		tries++
		return h.Acquire(ctx, kazahana.AcquireOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	leases = append(leases, got.Leases...)
	leases = append(leases, s.lease(h, 1)...)
	// Each lease without an answer may take a machine ID.
	leased, lost := s.leased(), s.leased()-len(leases)
	if lost < 0 || lost > tries-1 || fate == LostRequest && lost > 0 {
		t.Errorf("%d machine IDs are leased after %d tries, and %d have answers", leased, tries, len(leases))
	}
	if got := len(s.documents()); got != 65 {
		t.Errorf("%d documents, want 65", got)
	}
	// All leases are there, with their secrets.
	clock.Advance(time.Second)
	for _, l := range leases {
		if err := s.give(h, l, l.Secret, clock.Now()); err != nil {
			t.Error(err)
		}
	}
	clock.Advance(time.Millisecond)
	s.wantLeased(lost)
	if err := s.table.Err(); err != nil {
		t.Error(err)
	}
}
