package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// described are members with labels and an address.
func described(n int) []Member {
	all := members(n)
	for i := range all {
		all[i].Number, all[i].Since = 1767225600000000+int64(i)*7919, 1
		all[i].Address, all[i].At = fmt.Sprintf("10.0.%d.%d:9000", i/250, i%250), time.UnixMilli(1767225600000).UTC()
		all[i].Labels = map[string]string{"zone": fmt.Sprint("eu-west-1", i%3), "pod": fmt.Sprintf("%x", i*104729)}
	}
	return all
}

// TestSizesOfEpochs: with 5000 members and 65 536 partitions, each member with labels and an address, no document of an
// epoch is near the bounds of the stores, whatever can change at once: the second member joins and gets half of all
// partitions, one of 5000 joins or leaves, or 30 are evicted.
func TestSizesOfEpochs(t *testing.T) {
	t.Parallel()
	all := described(MaxMembers)
	alone, _ := NewTopology(MaxPartitions).Next(all[:1], nil, "one")
	full, _ := alone.Next(all, nil, "all")
	for _, c := range []struct {
		what   string
		before *Topology
		after  []Member
		most   int
	}{
		{"the second joins", alone, all[:2], 14_000},
		{"one leaves", full, all[1:], 6000},
		{"30 are evicted", full, all[30:], 8000},
	} {
		next, _ := c.before.Next(c.after, nil, "a change")
		w, err := next.write(Cluster{}, c.before)
		if err != nil {
			t.Fatal(err)
		}
		changes, _ := w.Set[fChanges].(docstore.Bytes)
		t.Logf("%s: %d bytes", c.what, len(changes))
		if len(changes) > c.most {
			t.Errorf("%s: %d bytes, want %d at most", c.what, len(changes), c.most)
		}
	}
}

// TestRoom: as many members as there may be have room. What they say is bounded altogether, and in each part of the
// state.
func TestRoom(t *testing.T) {
	t.Parallel()
	slot := func(i int) uint16 { return uint16(i + 1) }
	top := func(all []Member, slot func(int) uint16) *Topology {
		t := NewTopology(MinPartitions)
		t.Members, t.slots = all, make([]uint16, len(all))
		for i := range all {
			t.slots[i] = slot(i)
		}
		return t
	}
	heavy := described(500)
	for i := range heavy { // 3 KB
		for n := range 15 {
			heavy[i].Labels[fmt.Sprint("label", n)] = strings.Repeat("v", MaxLabelValueBytes+50)
		}
	}
	for _, c := range []struct {
		what string
		top  *Topology
		want bool
	}{
		{"as many as may be", top(described(MaxMembers), slot), true},
		{"one more", top(described(MaxMembers+1), slot), false},
		{"large ones", top(heavy, slot), true},
		{"more of them than may be", top(append(heavy, heavy...), slot), false},
		{"40 in one part", top(heavy[:40], func(i int) uint16 { return uint16(i*epochParts + 1) }), true},
		{"50 in one part", top(heavy[:50], func(i int) uint16 { return uint16(i*epochParts + 1) }), false},
	} {
		if ok := c.top.room(); ok != c.want {
			t.Errorf("%s: room is %t", c.what, ok)
		}
	}
}

// TestMostMembers: a cluster with all members but one and 65 536 partitions takes one more and no other, says until
// when, and goes on when one has left or died. What a join writes and what a process reads that knows nothing are far
// below the bounds of the stores: 400 KB in a document, 4 MB in a request.
func TestMostMembers(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1767225600000)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return now }})
	service := func() *Service {
		return New(store, &Options{Now: func() time.Time { return now }})
	}
	s, c := service(), Cluster{Tenant: "acme", Name: "chat"}
	fill(t, s, c, described(MaxMembers-1))
	join := func(name string) MemberOutcome {
		now = now.Add(time.Millisecond)
		o, err := s.Join(t.Context(), Join{Cluster: c, Member: name, RequestID: "j", TTL: time.Hour,
			Offer: Offer{Kinds: []string{"room"}}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := join("last"); o.Code != OK {
		t.Fatalf("%+v", o)
	}
	if o := join("one more"); o.Code != ClusterFull || o.RetryAfter <= 0 || o.RetryAfter > time.Hour {
		t.Errorf("%+v", o)
	}
	for i, m := range s.Cached(c).Members[:epochParts/2] {
		if o, err := s.Leave(t.Context(), c, m.Incarnation); err != nil || o.Code != OK {
			t.Fatalf("%+v, %v", o, err)
		}
		if o := join(fmt.Sprint("next-", i)); o.Code != OK {
			t.Fatalf("%+v", o)
		}
	}
	top := s.Cached(c)
	docs, err := s.epochDocs(t.Context(), c, top.Epoch-epochParts+1, top.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	most, sum := 0, 0
	for _, d := range docs {
		b, _ := d[fChanges].(docstore.Bytes)
		most, sum = max(most, len(b)), sum+len(b)
	}
	t.Logf("a document has %d bytes at most, all that are needed %d", most, sum)
	if most > 6000 || sum > 350_000 {
		t.Errorf("a document has %d bytes, all that are needed %d", most, sum)
	}
	if other, err := service().Topology(t.Context(), c); err != nil || len(other.Members) != MaxMembers ||
		!slices.Equal(other.table, top.table) {
		t.Errorf("what another process reads: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if o := join("after their deaths"); o.Code != OK || len(s.Cached(c).Members) != MaxMembers-evictions+1 {
		t.Errorf("%+v, with %d members", o, len(s.Cached(c).Members))
	}
}

// fill makes a cluster of these members, which have leases for an hour.
func fill(t *testing.T, s *Service, c Cluster, all []Member) {
	t.Helper()
	v, err := s.look(t.Context(), c, MaxPartitions, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := v.top.Next(all, nil, "all join")
	writes, err := s.changeWrites(c, v, plan{}, next, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		writes = append(writes, c.seatWrite(m.Incarnation, seat{}, MemberActive, next.Epoch),
			c.leaseWrite(m.Incarnation, LeaseState{}, time.Hour))
	}
	for some := range slices.Chunk(writes, docstore.MaxWrites) {
		if r, err := s.store.Write(t.Context(), some...); err != nil || !r.Applied {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}
