package machineid_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// ids is a service on an empty store in memory whose requests are counted.
type ids struct {
	*machineid.Service
	t     *testing.T
	clock *suite.Clock
	far   *suite.Far
}

func open(t *testing.T, services ...machineid.ServiceConfig) ids {
	t.Helper()
	clock := suite.NewClock()
	far := suite.NewFar(docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}), 0, 1)
	return ids{serve(t, far, services...), t, clock, far}
}

func serve(t *testing.T, store docstore.Store, services ...machineid.ServiceConfig) *machineid.Service {
	t.Helper()
	s, err := machineid.New(store, services, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s ids) lease(o kazahana.AcquireOptions) []kazahana.Lease {
	s.t.Helper()
	r, err := s.Acquire(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Leases
}

// release signs with the lease's secret.
func release(s kazahana.LeaseProvider, l kazahana.Lease, at int64) error {
	return s.Release(context.Background(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: at,
		Signature: kazahana.Sign(l.Secret, l.ID, at)})
}

// costs fails the test unless just that many requests were sent since the last look.
func (s ids) costs(what string, gets, writes int64) {
	s.t.Helper()
	if g, w := s.far.Requests(); g != gets || w != writes {
		s.t.Errorf("%s: %d reads and %d writes, want %d and %d", what, g, w, gets, writes)
	}
}

func (s ids) occupancy(space string) machineid.Occupancy {
	s.t.Helper()
	o, ok, err := s.Occupancy(s.t.Context(), space)
	if err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	s.far.Requests()
	return o
}

var epoch = suite.Epoch.UnixMilli()

func TestLifeOfALease(t *testing.T) {
	s := open(t)
	l := s.lease(kazahana.AcquireOptions{Meta: map[string]string{"host": "a"}})[0]
	s.costs("the first acquire of the space", 3, 2)
	if l.Created != epoch || l.Expired != epoch+600_000 || l.ID < 0 || l.ID > 8191 || len(l.Secret) != 32 ||
		l.Layout != kazahana.DefaultLayout() {
		t.Errorf("%+v", l)
	}
	want := machineid.Occupancy{
		Space: "default", At: suite.Epoch, Units: 8192, Leased: 1, Free: 8191, NextFree: suite.Epoch.Add(10 * time.Minute),
		Services: map[string]int{"default": 1},
	}
	if o := s.occupancy("default"); fmt.Sprintf("%+v", o) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", o, want)
	}
	s.clock.Advance(time.Minute)
	other := l
	other.Secret = strings.Repeat("0", 32)
	if err := release(s, other, epoch+60_000); !errors.Is(err, machineid.ErrBadSignature) {
		t.Errorf("another caller's release: %v", err)
	}
	s.costs("a release that is refused", 2, 0)
	for i := range 2 {
		if err := release(s, l, epoch+60_000); err != nil {
			t.Errorf("release %d: %v", i, err)
		}
		s.costs("release", int64(1+i), int64(1-i))
	}
	if o := s.occupancy("default"); o.Leased != 1 || !o.NextFree.Equal(suite.Epoch.Add(time.Minute+time.Millisecond)) ||
		len(o.Services) != 0 {
		t.Errorf("in the millisecond that was signed the machine ID is still taken: %+v", o)
	}
	s.clock.Advance(time.Millisecond)
	if o := s.occupancy("default"); o.Leased != 0 || !o.NextFree.IsZero() {
		t.Errorf("after the release %+v", o)
	}
}

// TestCosts: two requests for any number of leases that a page has space for, three for more, whatever became free
// before.
func TestCosts(t *testing.T) {
	s := open(t)
	s.lease(kazahana.AcquireOptions{}) // sets up the space
	s.clock.Advance(time.Hour)
	s.far.Requests()
	for _, n := range []int64{1, 1, 5, 100} {
		s.lease(kazahana.AcquireOptions{ThroughputPerMs: n * 256})
		s.costs(fmt.Sprint(n, " leases"), 1, 1)
		s.clock.Advance(time.Hour)
	}
	if got := len(s.lease(kazahana.AcquireOptions{ThroughputPerMs: 129 * 256})); got != 129 {
		t.Errorf("%d leases, want 129", got)
	}
	s.costs("more than a page", 2, 1)
	if got := len(s.lease(kazahana.AcquireOptions{ThroughputPerMs: (8192 - 129) * 256})); got != 8192-129 {
		t.Errorf("%d leases, want the rest", got)
	}
	s.costs("the rest of the space", 2, 1)
	s.clock.Advance(time.Minute)
	_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
	var full *kazahana.ExhaustedError
	if !errors.As(err, &full) || !errors.Is(err, kazahana.ErrExhausted) || full.RetryAfter != 9*time.Minute {
		t.Errorf("on a full table: %v", err)
	}
	s.costs("to know that it is full", 2, 0)
}

// TestAllMachineIDs: 8192 acquires on an empty table give 8192 different machine IDs, and the first half cost two
// requests each.
func TestAllMachineIDs(t *testing.T) {
	s := open(t)
	seen := make(map[int64]bool)
	for i := range 8192 {
		l := s.lease(kazahana.AcquireOptions{})[0]
		if seen[l.ID] {
			t.Fatalf("%d was leased twice", l.ID)
		}
		seen[l.ID] = true
		gets, writes := s.far.Requests()
		if i > 0 && (writes != 1 || gets > 2 || i < 4096 && gets != 1) { // the first sets up the space
			t.Fatalf("acquire %d: %d reads, %d writes", i, gets, writes)
		}
	}
	_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
	if !errors.Is(err, kazahana.ErrExhausted) {
		t.Error(err)
	}
	s.clock.Advance(10 * time.Minute)
	if o := s.occupancy("default"); o.Leased != 0 || o.Free != 8192 || len(o.Services) != 0 {
		t.Errorf("when all have run out: %+v", o)
	}
}

// TestScarce: with fewer free than asked for a caller gets one, and the others are left to others.
func TestScarce(t *testing.T) {
	s := open(t)
	s.lease(kazahana.AcquireOptions{ThroughputPerMs: 8189 * 256})
	for i, c := range []struct {
		want int64
		got  int
	}{{4, 1}, {2, 2}} {
		if got := len(s.lease(kazahana.AcquireOptions{ThroughputPerMs: c.want * 256})); got != c.got {
			t.Errorf("acquire %d of %d: %d leases, want %d", i, c.want, got, c.got)
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	s := open(t)
	many := make(map[string]string)
	for i := range 33 {
		many[strconv.Itoa(i)] = ""
	}
	sign := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		err         error
		field, says string
	}{
		"negative throughput": {acquire(s, kazahana.AcquireOptions{ThroughputPerMs: -1}), "throughputPerMs",
			"from 1 to 2097152"},
		"more than the space": {acquire(s, kazahana.AcquireOptions{ThroughputPerMs: 1<<21 + 1}), "throughputPerMs",
			"from 1 to 2097152"},
		"too much meta": {acquire(s, kazahana.AcquireOptions{Meta: many}), "meta", "33 entries"},
		"empty key in meta": {acquire(s, kazahana.AcquireOptions{Meta: map[string]string{"": "x"}}),
			"meta", "1 to 64 bytes"},
		"long value in meta": {
			acquire(s, kazahana.AcquireOptions{Meta: map[string]string{"host": strings.Repeat("x", 513)}}),
			"meta.host", "512 at most"},
		"serviceId with a tab": {acquire(s, kazahana.AcquireOptions{ServiceID: "a\tb"}), "serviceId", "control character"},
		"negative id": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: -1, Signature: sign, Timestamp: epoch}),
			"id", "from 0 to 32767"},
		"id of no layout": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: 32768, Signature: sign,
			Timestamp: epoch}), "id", "from 0 to 32767"},
		"no signature": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Timestamp: epoch}), "signature",
			"64 hexadecimal digits"},
		"signature no hex": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: strings.Repeat("x", 64),
			Timestamp: epoch}), "signature", "64 hexadecimal"},
		"old timestamp": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign,
			Timestamp: epoch - 30_001}), "timestamp", "is 30001 ms from the server's time, 30000 at most"},
		"timestamp to come": {s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign,
			Timestamp: epoch + 30_001}), "timestamp", "is 30001 ms from the server's time, 30000 at most"},
		// As nanoseconds the difference is a whole number of turns of 64 bits, and some milliseconds.
		"timestamp that wraps around": {
			s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign, Timestamp: epoch + 18_446_744_073_710}),
			"timestamp", "is 18446744073710 ms from"},
		"timestamp in microseconds": {
			s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign, Timestamp: epoch * 1000}), "timestamp",
			"sign again, in Unix milliseconds"},
		"negative timestamp": {
			s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign, Timestamp: -1}), "timestamp",
			"Unix milliseconds"},
	} {
		var f *field.Error
		if !errors.As(c.err, &f) || f.Name != c.field || !strings.Contains(f.Problem, c.says) {
			t.Errorf("%s: %v, want %s and %q", name, c.err, c.field, c.says)
		}
	}
	for _, at := range []int64{epoch - 30_000, epoch + 30_000} {
		if err := s.Release(t.Context(), kazahana.ReleaseOptions{ID: 1, Signature: sign, Timestamp: at}); err != nil {
			t.Errorf("timestamp %d: %v", at-epoch, err)
		}
	}
}

// TestUnknownServices: they lease as the service "default" does, and are counted by their names, unless the list is
// closed or has no such service.
func TestUnknownServices(t *testing.T) {
	s := open(t, config("default", "d", 10), config("events", "e", 8))
	l := s.lease(kazahana.AcquireOptions{ServiceID: "payments"})[0]
	if o := s.occupancy("d"); l.BitSeq != 10 || o.Services["payments"] != 1 || o.Services["default"] != 0 {
		t.Errorf("%+v, %+v", l, o)
	}
	at := s.clock.Now().UnixMilli()
	if err := s.Release(t.Context(), kazahana.ReleaseOptions{ServiceID: "payments", ID: l.ID, Timestamp: at,
		Signature: kazahana.Sign(l.Secret, l.ID, at)}); err != nil {
		t.Error(err)
	}
	if o := s.occupancy("d"); o.Services["payments"] != 0 {
		t.Errorf("%+v", o)
	}
	closed, err := machineid.New(s.far, nil, &machineid.Options{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	sign := strings.Repeat("0", 64)
	for name, s := range map[string]*machineid.Service{"closed": closed,
		"no default": serve(t, s.far, config("events", "e", 8))} {
		_, acquire := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "payments"})
		_, force := s.ForceRelease(t.Context(), machineid.ForceRelease{ServiceID: "payments"})
		for call, err := range map[string]error{
			"acquire": acquire, "force": force,
			"release": s.Release(t.Context(), kazahana.ReleaseOptions{ServiceID: "payments", ID: 1, Signature: sign,
				Timestamp: epoch}),
		} {
			var unknown *machineid.UnknownServiceError
			if !errors.As(err, &unknown) || unknown.ServiceID != "payments" ||
				!strings.Contains(err.Error(), `"payments" is not configured`) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}

// TestMaxLeases: one request cannot take everything, at the bound and beyond it.
func TestMaxLeases(t *testing.T) {
	s, err := machineid.New(docstore.NewMemory(nil), nil, &machineid.Options{MaxLeases: 64})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 64 * 256}); err != nil ||
		len(r.Leases) != 64 {
		t.Errorf("%d leases, %v", len(r.Leases), err)
	}
	_, err = s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 64*256 + 1})
	var f *field.Error
	if !errors.As(err, &f) || f.Name != "throughputPerMs" ||
		!strings.Contains(f.Problem, "64 leases to a request at most, which are 16384 IDs") {
		t.Error(err)
	}
	if o, _, _ := s.Occupancy(t.Context(), "default"); o.Leased != 64 {
		t.Errorf("%+v", o)
	}
}

// TestForceRelease: leases of one service, and of a range, end without their holders; their machine IDs wait for a
// clock that was ahead, or for the end of the lease, and a holder that turns up releases nothing of the next one's.
func TestForceRelease(t *testing.T) {
	s := open(t, config("default", "d", 8), config("large", "d", 10))
	for _, service := range []string{"default", "gone", "large"} {
		s.lease(kazahana.AcquireOptions{ServiceID: service, ThroughputPerMs: 10 << 10})
	}
	force := func(o machineid.ForceRelease, want int) {
		t.Helper()
		got, err := s.ForceRelease(t.Context(), o)
		if err != nil || got.Leases != want || got.Space != "d" || !got.Free.Equal(s.clock.Now().Add(30*time.Second)) {
			t.Errorf("%+v: %+v, %v; want %d", o, got, err, want)
		}
	}
	force(machineid.ForceRelease{ServiceID: "unknown"}, 0)
	force(machineid.ForceRelease{ServiceID: "gone", First: 1 << 20}, 0)
	s.far.Requests()
	force(machineid.ForceRelease{ServiceID: "gone"}, 40)
	if gets, writes := s.far.Requests(); gets != 1 || writes != 1 { // a write for each page with such leases
		t.Errorf("%d reads and %d writes", gets, writes)
	}
	force(machineid.ForceRelease{ServiceID: "gone"}, 0)
	if o := s.occupancy("d"); o.Leased != 120 || !maps.Equal(o.Services, map[string]int{"default": 40, "large": 10}) {
		t.Errorf("before the delay: %+v", o)
	}
	s.clock.Advance(30 * time.Second)
	if o := s.occupancy("d"); o.Leased != 80 {
		t.Errorf("after the delay: %+v", o)
	}
	large := s.lease(kazahana.AcquireOptions{ServiceID: "large"})[0]
	force(machineid.ForceRelease{ServiceID: "large", First: large.ID, Last: &large.ID}, 1)
	// A service's number may be that of another one's lease, too: the holder says which service it is, as clients do.
	at := s.clock.Now().UnixMilli()
	if err := s.Release(t.Context(), kazahana.ReleaseOptions{
		ServiceID: "large", ID: large.ID, Timestamp: at, Signature: kazahana.Sign(large.Secret, large.ID, at),
	}); err != nil {
		t.Errorf("the holder, late: %v", err)
	}
	if o := s.occupancy("d"); o.Services["large"] != 10 {
		t.Errorf("%+v", o)
	}
	s.clock.Advance(9*time.Minute + 20*time.Second) // the first leases have ten seconds left
	force(machineid.ForceRelease{}, 40)
	s.clock.Advance(10 * time.Second)
	if o := s.occupancy("d"); o.Leased != 0 {
		t.Errorf("no machine ID is taken for longer than its lease: %+v", o)
	}
	for field, o := range map[string]machineid.ForceRelease{"first": {First: -1}, "last": {First: 2, Last: new(int64(1))},
		"serviceId": {ServiceID: "\t"}} {
		if _, err := s.ForceRelease(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), field+" ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestForceReleaseMeetsOthers: pages that change meanwhile are decided about again.
func TestForceReleaseMeetsOthers(t *testing.T) {
	clock := suite.NewClock()
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	store := &interrupted{Store: memory}
	s, other := serve(t, store), serve(t, memory)
	r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "gone", ThroughputPerMs: 128 * 256})
	if err != nil {
		t.Fatal(err)
	}
	store.before = func() { // the page is written by the holder of its first lease
		if err := release(other, r.Leases[0], clock.Now().UnixMilli()); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.ForceRelease(t.Context(), machineid.ForceRelease{ServiceID: "gone"}); err != nil ||
		got.Leases != 127 {
		t.Errorf("%+v, %v", got, err)
	}
}

func acquire(s ids, o kazahana.AcquireOptions) error {
	_, err := s.Acquire(context.Background(), o)
	return err
}

// config is a service like the default one, with so many bits of sequence.
func config(id, space string, bitSeq int) machineid.ServiceConfig {
	c := machineid.DefaultService()
	c.ServiceID, c.Space = id, space
	c.BitID, c.BitSeq = 22-bitSeq, bitSeq
	return c
}

// TestLayoutsInOneSpace: leases of services with different layouts never share a sequence number of the 22 bits that
// make machine ID and sequence.
func TestLayoutsInOneSpace(t *testing.T) {
	s := open(t, config("small", "s", 8), config("large", "s", 10), config("huge", "s", 13), config("elsewhere", "t", 10))
	type span struct{ from, to int64 }
	var taken []span
	live := make(map[string][]kazahana.Lease)
	for i := range 400 {
		id := []string{"small", "small", "small", "large", "large", "huge"}[i%6]
		for _, l := range s.lease(kazahana.AcquireOptions{ServiceID: id}) {
			mine := span{l.ID << l.BitSeq, (l.ID + 1) << l.BitSeq}
			for _, other := range taken {
				if mine.from < other.to && other.from < mine.to {
					t.Fatalf("%s got %v, and %v is leased", id, mine, other)
				}
			}
			taken = append(taken, mine)
			live[id] = append(live[id], l)
		}
		if i%50 == 49 {
			s.lease(kazahana.AcquireOptions{ServiceID: "elsewhere"}) // shares nothing with the others
		}
		if got := map[string]int{"small": 8, "large": 10, "huge": 13}[id]; live[id][0].BitSeq != got {
			t.Fatalf("bitSeq %d, want %d", live[id][0].BitSeq, got)
		}
		if id == "huge" && len(live[id]) > 20 {
			// A run that is released leaves space for a run.
			l := live[id][0]
			live[id] = live[id][1:]
			if err := release(s, l, s.clock.Now().UnixMilli()); err != nil {
				t.Fatal(err)
			}
			taken = slices.DeleteFunc(taken, func(o span) bool { return o.from == l.ID<<l.BitSeq })
			s.clock.Advance(time.Millisecond)
		}
	}
	o := s.occupancy("s")
	units := len(live["small"]) + 4*len(live["large"]) + 32*len(live["huge"])
	if o.Leased != units || o.Services["small"] != 201 || o.Services["huge"] != len(live["huge"]) {
		t.Errorf("%d units are leased: %v; want %d", o.Leased, o.Services, units)
	}
}

// TestReleaseFindsItsLease: without a serviceId the signature tells which of the leases with one machine ID is meant.
func TestReleaseFindsItsLease(t *testing.T) {
	s := open(t, config("a", "a", 8), config("b", "b", 8), config("c", "b", 10))
	one := func(service string) kazahana.Lease { return s.lease(kazahana.AcquireOptions{ServiceID: service})[0] }
	b := one("b")
	everything := s.lease(kazahana.AcquireOptions{ServiceID: "a", ThroughputPerMs: 8192 * 256})
	a := everything[slices.IndexFunc(everything, func(l kazahana.Lease) bool { return l.ID == b.ID })]
	s.far.Requests()
	before := s.occupancy("a").Leased
	if err := release(s, b, s.clock.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	s.costs("release without a service", 2, 1)
	s.clock.Advance(time.Millisecond)
	if o := s.occupancy("b"); o.Leased != 0 {
		t.Errorf("b's lease was not released: %+v", o)
	}
	if o := s.occupancy("a"); o.Leased != before {
		t.Errorf("a's lease was released: %+v", o)
	}
	at := s.clock.Now().UnixMilli()
	wrong := kazahana.ReleaseOptions{ServiceID: "b", ID: a.ID, Timestamp: at, Signature: kazahana.Sign(a.Secret, a.ID, at)}
	if err := s.Release(t.Context(), wrong); err != nil {
		t.Errorf("in b there is nothing to release: %v", err)
	}
	if o := s.occupancy("a"); o.Leased != before {
		t.Errorf("a's lease was released by b's name: %+v", o)
	}
	// A machine ID that is leased anywhere, in any size, is not released by just any signature, and what is free elsewhere
	// does not make up for that.
	refused := func(id int64) {
		t.Helper()
		if err := release(s, kazahana.Lease{ID: id, Secret: strings.Repeat("0", 32)},
			s.clock.Now().UnixMilli()); !errors.Is(err, machineid.ErrBadSignature) {
			t.Errorf("another caller's release of %d: %v", id, err)
		}
	}
	refused(a.ID) // leased in a, free in b
	s.clock.Advance(time.Hour)
	for range 20 {
		refused(one("c").ID) // leased in b as c's, mostly free as b's, free in a
	}
}

// TestSpaceIsAsItWasSetUp: a configuration that would make IDs equal to those of an earlier one is refused before
// anything is written; one that leases in other sizes from the same units is not.
func TestSpaceIsAsItWasSetUp(t *testing.T) {
	first := open(t, config("a", "s", 6), config("b", "s", 8))
	first.lease(kazahana.AcquireOptions{ServiceID: "b"})
	other := func(change func(*machineid.ServiceConfig)) machineid.ServiceConfig {
		c := config("a", "s", 8)
		change(&c)
		return c
	}
	for _, c := range []struct {
		config machineid.ServiceConfig
		says   string
	}{
		{other(func(c *machineid.ServiceConfig) { c.CustomEpoch++ }), "customEpoch"},
		{other(func(c *machineid.ServiceConfig) { c.BitReserve, c.BitID = 2, 13 }), "bitReserve"},
		{other(func(c *machineid.ServiceConfig) { c.BitTs, c.BitID = 42, 13 }), "bitTs"},
		{other(func(c *machineid.ServiceConfig) { c.BitID, c.BitSeq = 8, 14 }), "bitSeq from 6 to 13"},
	} {
		s := serve(t, first.far, c.config)
		_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a"})
		for what, err := range map[string]error{"acquire": err, "check": s.Check(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), `space "s" was set up`) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s with another %s: %v", what, c.says, err)
			}
		}
	}
	// Units of 64 stay units of 64, although the service that needed them is gone.
	s := serve(t, first.far, config("b", "s", 8), config("c", "s", 12))
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "c"}); err != nil {
		t.Fatal(err)
	}
	o, _, err := s.Occupancy(t.Context(), "s")
	if err != nil || o.Units != 32768 || o.Leased != 4+64 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestWidthsChange: a space goes on when bitId and bitSeq of its services change, up and down, below the units that it
// was divided into too, on some servers before others: no two leases ever share a number in a millisecond, and each can
// be released whatever the configuration is by then.
func TestWidthsChange(t *testing.T) {
	first := open(t, config("a", "s", 8))
	servers := []*machineid.Service{first.Service}
	for _, bitSeq := range []int{6, 7, 11, 9} {
		servers = append(servers, serve(t, first.far, config("a", "s", bitSeq)))
	}
	type span struct{ from, to, created, expired int64 }
	var spans []span
	var live []kazahana.Lease
	r := rand.New(rand.NewPCG(1, 1))
	sizes := map[int]int{}
	for range 1500 {
		s := servers[r.IntN(len(servers))]
		switch r.IntN(5) {
		case 0:
			first.clock.Advance(time.Duration(r.IntN(20)) * time.Second)
		case 1:
			if len(live) == 0 {
				continue
			}
			i := r.IntN(len(live))
			l, at := live[i], first.clock.Now().UnixMilli()
			live = slices.Delete(live, i, i+1)
			if err := release(s, l, at); err != nil && at < l.Expired {
				t.Fatalf("release of a lease with bitSeq %d: %v", l.BitSeq, err)
			}
			for i := range spans {
				if p := &spans[i]; p.from == l.ID<<l.BitSeq && p.created == l.Created && p.expired == l.Expired {
					p.expired = min(p.expired, at+1)
				}
			}
		default:
			got, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a", ThroughputPerMs: 1 << (6 + r.IntN(8))})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range got.Leases {
				mine := span{l.ID << l.BitSeq, (l.ID + 1) << l.BitSeq, l.Created, l.Expired}
				for _, other := range spans {
					if mine.from < other.to && other.from < mine.to && mine.created < other.expired && other.created < mine.expired {
						t.Fatalf("%+v with bitSeq %d, and there is %+v", mine, l.BitSeq, other)
					}
				}
				spans, live = append(spans, mine), append(live, l)
				sizes[l.BitSeq]++
			}
		}
	}
	if len(sizes) != 5 {
		t.Errorf("leases by bitSeq: %v", sizes)
	}
	for _, s := range servers {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	o, _, err := servers[1].Occupancy(t.Context(), "s")
	if err != nil || o.Units != 32768 || o.Leased+o.Free != o.Units {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestSmallerLeasesUseTheWholeSpace: after bitId 14, bitSeq 8 became 16, 6, there are four times as many machine IDs.
func TestSmallerLeasesUseTheWholeSpace(t *testing.T) {
	first := open(t, config("a", "s", 8))
	old := first.lease(kazahana.AcquireOptions{ServiceID: "a"})[0]
	s := serve(t, first.far, config("a", "s", 6))
	seen := map[int64]bool{}
	for len(seen) < 32768-4 {
		r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a",
			ThroughputPerMs: min(1000, 32768-4-int64(len(seen))) * 64})
		if err != nil {
			t.Fatal(len(seen), err)
		}
		for _, l := range r.Leases {
			if seen[l.ID] || l.ID>>2 == old.ID {
				t.Fatalf("%d is leased", l.ID)
			}
			seen[l.ID] = true
		}
	}
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a"}); !errors.Is(err, kazahana.ErrExhausted) {
		t.Error(err)
	}
}

// TestReleaseAcrossWidths: a release that no longer fits the configuration is found by the page, and refused if it is
// not the holder's; repeated, it is no error.
func TestReleaseAcrossWidths(t *testing.T) {
	first := open(t, config("a", "s", 8))
	leases := first.lease(kazahana.AcquireOptions{ServiceID: "a", ThroughputPerMs: 8192 * 256})
	i := slices.IndexFunc(leases, func(l kazahana.Lease) bool { return l.ID > 1023 }) // which bitSeq 12 does not have
	for _, bitSeq := range []int{12, 6} {
		s := serve(t, first.far, config("a", "s", bitSeq))
		l := leases[i]
		i++
		wrong := l
		wrong.Secret = strings.Repeat("0", 32)
		at := first.clock.Now().UnixMilli()
		if err := release(s, wrong, at); err != nil && !errors.Is(err, machineid.ErrBadSignature) {
			t.Errorf("bitSeq %d, another caller's: %v", bitSeq, err)
		}
		before := first.occupancy("s").Leased
		for range 2 {
			if err := s.Release(t.Context(), kazahana.ReleaseOptions{
				ServiceID: "a", ID: l.ID, Timestamp: at, Signature: kazahana.Sign(l.Secret, l.ID, at),
			}); err != nil && (bitSeq == 12 || !errors.Is(err, machineid.ErrBadSignature)) {
				// a smaller one of that number lies in another lease
				t.Errorf("bitSeq %d: %v", bitSeq, err)
			}
		}
		first.clock.Advance(time.Millisecond)
		if got := first.occupancy("s").Leased; got != before-1 {
			t.Errorf("bitSeq %d: %d units are leased, want %d", bitSeq, got, before-1)
		}
	}
}

// remove deletes a document of the default space by hand.
func remove(t *testing.T, store docstore.Store, id string) {
	t.Helper()
	key := docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: id}
	if r, err := store.Write(t.Context(), docstore.Write{Key: key, If: docstore.Not{Cond: docstore.Absent{}},
		Delete: true}); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
}

// TestPageThatWasDeleted: nothing is leased from it until the longest lease that it can have held has ended, whether or
// not the process knew the space, and the log says so once.
func TestPageThatWasDeleted(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 46, 9 // two pages
	for _, known := range []bool{true, false} {
		var log bytes.Buffer
		clock := suite.NewClock()
		store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
		serve := func() *machineid.Service {
			s, err := machineid.New(store, []machineid.ServiceConfig{c},
				&machineid.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := serve()
		lease := func(n int64) []kazahana.Lease {
			t.Helper()
			r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: n * 256})
			if err != nil {
				t.Fatal(err)
			}
			return r.Leases
		}
		before := lease(256)
		clock.Advance(time.Minute)
		remove(t, store, "page-001")
		if !known {
			s = serve()
		}
		if o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace); err != nil || o.Leased != 256 {
			t.Errorf("%+v, %v", o, err)
		}
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, kazahana.ErrExhausted) {
			t.Errorf("the first holders go on, and %v", err)
		}
		if err := release(s, before[200], clock.Now().UnixMilli()); err != nil {
			t.Errorf("a release of a lease that is not known any more: %v", err)
		}
		clock.Advance(10 * time.Minute)
		if got := lease(128); len(got) != 128 || got[0].ID > 127 {
			t.Errorf("from the page that is left: %d leases, %+v", len(got), got[0])
		}
		clock.Advance(24*time.Hour - 10*time.Minute + 59*time.Second)
		if got := lease(256); len(got) != 1 || got[0].ID > 127 {
			t.Errorf("a second too early: %d leases, %+v", len(got), got[0])
		}
		clock.Advance(time.Second)
		if got := lease(128); len(got) != 128 || got[0].ID < 128 {
			t.Errorf("a day and a minute later: %d leases, %+v", len(got), got[0])
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 1 || !strings.Contains(log.String(), "pages=[1]") {
			t.Errorf("%d warnings: %s", got, log.String())
		}
	}
}

// TestPageDeletedMeanwhile: what was read before the page was deleted, or before it was created again, is not written.
func TestPageDeletedMeanwhile(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 47, 8 // one page
	for _, again := range []bool{false, true} {
		clock := suite.NewClock()
		memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
		store := &interrupted{Store: memory}
		s, other := serve(t, store, c), serve(t, memory, c)
		if _, err := other.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.before = func() {
			remove(t, memory, "page-000")
			if !again {
				return
			}
			clock.Advance(time.Millisecond)
			if _, err := other.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, kazahana.ErrExhausted) {
				t.Error(err)
			}
		}
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, kazahana.ErrExhausted) {
			t.Errorf("created again %v: %v", again, err)
		}
	}
}

// TestSpaceThatWasDeleted: without its document a space is not leased from, in a process that knew it as soon as a page
// is missing, too; without any document it is a new one.
func TestSpaceThatWasDeleted(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 47, 8 // one page
	s := open(t, c)
	s.lease(kazahana.AcquireOptions{})
	remove(t, s.far, "space")
	wants := func(s *machineid.Service) {
		t.Helper()
		_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
		if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "machine_ids/default/space is missing") {
			t.Error(err)
		}
	}
	wants(serve(t, s.far, c))
	s.lease(kazahana.AcquireOptions{})
	remove(t, s.far, "page-000")
	wants(s.Service)
	if got := serve(t, s.far, c); acquire(ids{Service: got}, kazahana.AcquireOptions{}) != nil {
		t.Error("an empty store is not set up")
	}
}

// TestNumberOfPages: a space that says it has another number of pages than it can have is not leased from.
func TestNumberOfPages(t *testing.T) {
	s := open(t)
	s.lease(kazahana.AcquireOptions{})
	for _, v := range []docstore.Value{docstore.Int(63), docstore.String("64"), docstore.Bool(true)} {
		w := docstore.Write{
			Key: docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: "space"},
			Set: map[string]docstore.Value{"pages": v},
		}
		if _, err := s.far.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if err := serve(t, s.far).Check(t.Context()); !errors.Is(err, docstore.ErrDamaged) ||
			!strings.Contains(err.Error(), `field "pages" is not 64`) {
			t.Error(err)
		}
	}
}

// TestPausedForADay: a writer that read a page before it was deleted, and writes when it has as many revisions again,
// does not overwrite the leases of the new page.
func TestPausedForADay(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 47, 8 // one page
	clock := suite.NewClock()
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	store := &interrupted{Store: memory}
	late, other := serve(t, store, c), serve(t, memory, c)
	lease := func() kazahana.Lease {
		t.Helper()
		r, err := other.Acquire(t.Context(), kazahana.AcquireOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Leases[0]
	}
	lease()
	if err := late.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var held kazahana.Lease
	store.before = func() {
		remove(t, memory, "page-000")
		clock.Advance(time.Millisecond)
		if _, err := other.Acquire(t.Context(), kazahana.AcquireOptions{}); !errors.Is(err, kazahana.ErrExhausted) {
			t.Error(err)
		}
		clock.Advance(24*time.Hour + time.Minute)
		held = lease()
	}
	if r, err := late.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil || r.Leases[0].ID == held.ID {
		t.Errorf("%+v, %v", r, err)
	}
	if o, _, err := other.Occupancy(t.Context(), machineid.DefaultSpace); err != nil || o.Leased != 2 {
		t.Errorf("%+v, %v", o, err)
	}
}

// interrupted is a store in which something happens before a write.
type interrupted struct {
	docstore.Store
	before func()
}

func (s *interrupted) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Write(ctx, writes...)
}

// TestConfigurationsThatRace: two servers set a space up at the same moment, with units of different sizes. The one
// that comes second takes those of the first, so that their leases share no number.
func TestConfigurationsThatRace(t *testing.T) {
	for _, sizes := range [][2]int{{8, 6}, {6, 8}} {
		for range 20 { // at times both begin with the same page, which would hide the fault
			clock := suite.NewClock()
			memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
			store := &interrupted{Store: memory}
			early, late := serve(t, memory, config("a", "s", sizes[0])), serve(t, store, config("a", "s", sizes[1]))
			var all []kazahana.Lease
			lease := func(s *machineid.Service) {
				r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "a", ThroughputPerMs: 2048})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, r.Leases...)
			}
			store.before = func() { lease(early) }
			lease(late)
			for range 50 {
				lease(early)
				lease(late)
			}
			taken := map[int64]bool{}
			for _, l := range all {
				for n := l.ID << l.BitSeq; n < (l.ID+1)<<l.BitSeq; n++ {
					if taken[n] {
						t.Fatalf("bitSeq %v: the number %d is leased twice", sizes, n)
					}
					taken[n] = true
				}
			}
		}
	}
}

func TestRefusedServices(t *testing.T) {
	for text, says := range map[string]string{
		``:                                      "must be a JSON list of objects",
		`{}`:                                    "must be a JSON list of objects",
		`[]`:                                    "is empty",
		`[{"serviceId":"a"}] x`:                 "must be a JSON list",
		`[{}]`:                                  `ID service 1 (""): serviceId is required`,
		`[{"serviceId":"a","bits":1}]`:          `ID service 1: "bits" is not a member`,
		`[{"serviceId":"a"},{"serviceId":"a"}]`: `ID service 2: serviceId "a" is given twice`,
		`[{"serviceId":"a","leaseDuration":999}]`:                         "leaseDuration must be a whole number from 1000 to 86400000",
		`[{"serviceId":"a","bitSeq":9}]`:                                  "bitReserve + bitTs + bitId + bitSeq must be 64, not 65",
		`[{"serviceId":"a","customEpoch":-1}]`:                            "customEpoch -1: must be",
		`[{"serviceId":"a","space":"x\u0000"}]`:                           "space has the control character",
		`[{"serviceId":"a"},{"serviceId":"b","customEpoch":0}]`:           `ID service "b": customEpoch is 0, but "a" in the same space "default" has 1767225600000`,
		`[{"serviceId":"a"},{"serviceId":"b","bitTs":42,"bitId":13}]`:     `ID service "b": bitTs is 42, but "a"`,
		`[{"serviceId":"a","bitId":18,"bitSeq":4}]`:                       "bitSeq 4 makes 131072 machine IDs, 32768 at most",
		`[{"serviceId":"a"},{"serviceId":"b","bitId":6,"bitSeq":16}]`:     "bitSeq of its services goes from 8 to 16: at most 7 apart",
		`[{"serviceId":"a"},{"serviceId":"b","bitReserve":2,"bitId":13}]`: `ID service "b": bitReserve is 2`,
	} {
		if _, err := machineid.ParseServices([]byte(text)); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	two := []machineid.ServiceConfig{machineid.DefaultService(), machineid.DefaultService()}
	if _, err := machineid.New(docstore.NewMemory(nil), two, nil); err == nil {
		t.Error("New takes what ParseServices refuses")
	}
}

// TestServices: what an entry leaves out is as in the default service, and every layout that is taken can lease all of
// its machine IDs.
func TestServices(t *testing.T) {
	services, err := machineid.ParseServices([]byte(`[{"serviceId":"payments"},
		{"serviceId":"events","space":"events","customEpoch":0,"bitReserve":1,"bitTs":42,"bitId":4,"bitSeq":17,"leaseDuration":1000}]`))
	want := []machineid.ServiceConfig{machineid.DefaultService(), {
		ServiceID: "events", Space: "events", LeaseDuration: 1000,
		Layout: kazahana.Layout{CustomEpoch: 0, BitReserve: 1, BitTs: 42, BitID: 4, BitSeq: 17},
	}}
	want[0].ServiceID = "payments"
	if err != nil || !reflect.DeepEqual(services, want) {
		t.Fatalf("%+v, %v", services, err)
	}
	for _, l := range []kazahana.Layout{
		{BitReserve: 1, BitTs: 42, BitID: 4, BitSeq: 17}, {BitReserve: 1, BitTs: 60, BitID: 2, BitSeq: 1},
		{BitReserve: 1, BitTs: 47, BitID: 14, BitSeq: 2},
		{BitReserve: 2, BitTs: 48, BitID: 7, BitSeq: 7}, {BitReserve: 1, BitTs: 41, BitID: 10, BitSeq: 12},
		{BitReserve: 1, BitTs: 41, BitID: 16, BitSeq: 6},
	} {
		s := open(t, machineid.ServiceConfig{ServiceID: "default", Layout: l, LeaseDuration: 60_000})
		seen := make(map[int64]bool)
		for left := l.MaxMachineID() + 1; left > 0; {
			for _, granted := range s.lease(kazahana.AcquireOptions{ThroughputPerMs: min(left, 100*128) * l.Throughput()}) {
				left--
				seen[granted.ID] = true
			}
		}
		if err := acquire(s, kazahana.AcquireOptions{}); int64(len(seen)) != l.MaxMachineID()+1 ||
			!errors.Is(err, kazahana.ErrExhausted) {
			t.Errorf("%+v: %d machine IDs, then %v", l, len(seen), err)
		}
	}
}

// TestTimestampsThatDoNotExist: before the epoch and after the last timestamp nothing is leased, and no lease goes
// beyond it.
func TestTimestampsThatDoNotExist(t *testing.T) {
	c := machineid.DefaultService()
	c.CustomEpoch = epoch + 1000
	s := open(t, c)
	if err := acquire(s, kazahana.AcquireOptions{}); err == nil ||
		!strings.Contains(err.Error(), "is not among its timestamps") {
		t.Error(err)
	}
	s.clock.Advance(time.UnixMilli(c.CustomEpoch + 1<<41 - 1000).Sub(suite.Epoch))
	if l := s.lease(kazahana.AcquireOptions{})[0]; l.Expired != l.Created+1000 || l.Expired != c.CustomEpoch+1<<41 {
		t.Errorf("%+v", l)
	}
	s.clock.Advance(time.Second)
	if err := acquire(s, kazahana.AcquireOptions{}); err == nil ||
		!strings.Contains(err.Error(), "is not among its timestamps") {
		t.Error(err)
	}
}

// twice is a store whose library sends every write again, as after a lost answer.
type twice struct{ docstore.Store }

func (s twice) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if r, err := s.Store.Write(ctx, writes...); err != nil || !r.Applied {
		return r, err
	}
	return s.Store.Write(ctx, writes...)
}

// TestWriteThatArrivesTwice: an acquire or release that fails its own condition has its outcome, and is done once.
func TestWriteThatArrivesTwice(t *testing.T) {
	clock := suite.NewClock()
	far := suite.NewFar(twice{docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}, 0, 1)
	s := ids{serve(t, far), t, clock, far}
	for i, n := range []int{1, 1, 3, 300} {
		leases := s.lease(kazahana.AcquireOptions{ThroughputPerMs: int64(n) * 256})
		if got := s.occupancy("default").Leased; len(leases) != n || got != n {
			t.Fatalf("acquire %d: %d leases, %d are leased; want %d", i, len(leases), got, n)
		}
		for _, l := range leases {
			if err := release(s, l, clock.Now().UnixMilli()); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(time.Millisecond)
		if got := s.occupancy("default").Leased; got != 0 {
			t.Fatalf("%d are still leased", got)
		}
	}
}

// between is a store whose library sends a write again, and something happens before that.
type between struct {
	docstore.Store
	happens func()
}

func (s *between) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	happens := s.happens
	if err != nil || !r.Applied || happens == nil {
		return r, err
	}
	s.happens = nil
	happens()
	return s.Store.Write(ctx, writes...)
}

// TestReleaseThatWasFollowed: a release that meets its own effect is a success, although another caller has the machine
// ID by then, and leaves that one alone.
func TestReleaseThatWasFollowed(t *testing.T) {
	clock := suite.NewClock()
	store := &between{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	s := ids{serve(t, store), t, clock, suite.NewFar(store, 0, 1)}
	all := s.lease(kazahana.AcquireOptions{ThroughputPerMs: 8192 * 256})
	store.happens = func() {
		clock.Advance(time.Millisecond)
		if next := s.lease(kazahana.AcquireOptions{})[0]; next.ID != all[0].ID {
			t.Errorf("%d is leased next, want %d", next.ID, all[0].ID)
		}
	}
	if err := release(s, all[0], clock.Now().UnixMilli()); err != nil {
		t.Error(err)
	}
	if got := s.occupancy("default").Leased; got != 8192 {
		t.Errorf("%d are leased, want all", got)
	}
}

// TestLateGrant: a lease that is half over when it arrives is not handed out.
func TestLateGrant(t *testing.T) {
	for _, c := range []struct {
		trip time.Duration
		late bool
	}{{time.Minute, false}, {4 * time.Minute, true}} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(suite.Epoch))
			s := serve(t, suite.NewFar(docstore.NewMemory(nil), c.trip, 1))
			_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{})
			if errors.Is(err, docstore.ErrUnavailable) != c.late || (err != nil) != c.late {
				t.Errorf("with trips of %v: %v", c.trip, err)
			}
		})
	}
}

// TestHerd: callers who ask at the same moment get different machine IDs, after few tries.
func TestHerd(t *testing.T) {
	for _, c := range []struct {
		callers     int
		mean, worst int64 // requests
	}{{100, 4, 12}, {1000, 12, 40}} {
		t.Run(strconv.Itoa(c.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(suite.Epoch))
				far := suite.NewFar(docstore.NewMemory(nil), 10*time.Millisecond, 1)
				if _, err := serve(t, far).Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil { // the space is set up
					t.Fatal(err)
				}
				far.Requests()
				var (
					mu   sync.Mutex
					done sync.WaitGroup
				)
				seen := make(map[int64]bool)
				begin := time.Now()
				for range c.callers {
					s := serve(t, far)
					done.Go(func() {
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
				done.Wait()
				gets, writes := far.Requests()
				if len(seen) != c.callers || gets+writes > c.mean*int64(c.callers) {
					t.Errorf("%d different machine IDs for %d requests", len(seen), gets+writes)
				}
				if took := time.Since(begin); took > time.Duration(c.worst)*10*time.Millisecond {
					t.Errorf("the last one waited %v", took)
				}
			})
		})
	}
}

// TestLog: who got which machine IDs is written down, and no secret.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	store := docstore.NewMemory(nil)
	s, err := machineid.New(store, nil, &machineid.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx := machineid.WithCaller(t.Context(), "ci-42")
	r, err := s.Acquire(ctx, kazahana.AcquireOptions{Meta: map[string]string{"host": "web-1"}})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Leases[0]
	for _, want := range []string{"service=default", fmt.Sprintf("leases=1 ids=%d ", l.ID),
		fmt.Sprint("expired=", l.Expired), "host:web-1", "caller=ci-42"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), l.Secret) {
		t.Error("the log has the secret")
	}
	log.Reset()
	long := map[string]string{"a": "first"}
	for i := range 31 {
		long[strings.Repeat("k", 60)+strconv.Itoa(i)] = strings.Repeat("v", 512)
	}
	if _, err := s.Acquire(ctx, kazahana.AcquireOptions{ThroughputPerMs: 8191 * 256, Meta: long}); err != nil {
		t.Fatal(err)
	}
	if line := log.String(); len(line) > 2500 || !strings.Contains(line, "leases=8191 ids=") ||
		!strings.Contains(line, "a:first") || !strings.Contains(line, "more") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	log.Reset()
	if _, err := s.ForceRelease(ctx, machineid.ForceRelease{Reason: "lost hosts"}); err != nil {
		t.Fatal(err)
	}
	if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, `reason="lost hosts"`) ||
		!strings.Contains(line, "caller=ci-42") {
		t.Error(line)
	}
	if got := s.Spaces(); !slices.Equal(got, []string{"default"}) {
		t.Errorf("spaces %v", got)
	}
	if _, ok, err := s.Occupancy(t.Context(), "other"); ok || err != nil {
		t.Errorf("another space: %v, %v", ok, err)
	}
}

// TestStoreThatFails: its errors come through as they are.
func TestStoreThatFails(t *testing.T) {
	store := docstore.NewMemory(nil)
	s := serve(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, occupancy := s.Occupancy(t.Context(), "default")
	for name, err := range maps.All(map[string]error{
		"acquire": acquire(ids{Service: s}, kazahana.AcquireOptions{}), "occupancy": occupancy, "check": s.Check(t.Context()),
		"release": release(s, kazahana.Lease{}, time.Now().UnixMilli()),
	}) {
		if !errors.Is(err, docstore.ErrClosed) || !strings.Contains(err.Error(), `space "default"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMisconfiguredCallers: what a caller must change is a configuration error of its generator, and others are not.
func TestMisconfiguredCallers(t *testing.T) {
	s := open(t)
	closed, err := machineid.New(docstore.NewMemory(nil), nil, &machineid.Options{Closed: true, MaxLeases: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"service":    acquire(ids{Service: closed}, kazahana.AcquireOptions{ServiceID: "x"}),
		"name":       acquire(s, kazahana.AcquireOptions{ServiceID: "\t"}),
		"throughput": acquire(ids{Service: closed}, kazahana.AcquireOptions{ThroughputPerMs: 257}),
		"meta":       acquire(s, kazahana.AcquireOptions{Meta: map[string]string{"": ""}}),
	} {
		if !errors.Is(err, kazahana.ErrConfiguration) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.lease(kazahana.AcquireOptions{ThroughputPerMs: 1 << 21})
	if err := acquire(s, kazahana.AcquireOptions{}); !errors.Is(err, kazahana.ErrExhausted) ||
		errors.Is(err, kazahana.ErrConfiguration) {
		t.Error(err)
	}
}
