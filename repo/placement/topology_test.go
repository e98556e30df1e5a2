package placement

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// members are so many active members that offer the kind "room".
func members(n int) []Member {
	all := make([]Member, n)
	for i := range all {
		all[i] = Member{
			Incarnation: Incarnation{Member: fmt.Sprintf("member-%04d", i), Number: 1},
			Offer:       Offer{Kinds: []string{"room"}}, Status: MemberActive,
		}
	}
	return all
}

// grown is a topology that the members joined one after the other.
func grown(partitions, n int) *Topology {
	t := NewTopology(partitions)
	all := members(n)
	t, _ = t.Next(all[:n/2], nil, "half")
	t, _ = t.Next(all, nil, "all")
	return t
}

// share is how many partitions each member of a topology has.
func share(t *Topology) map[string]int {
	n := map[string]int{}
	for p := range t.table {
		if m := t.Primary(p); m != nil {
			n[m.Member]++
		}
	}
	return n
}

// spread is the largest and the smallest number of partitions that an active member has.
func spread(t *Topology) (most, least int) {
	n, first := share(t), true
	for i, w := range t.weights() {
		if w == 0 {
			continue
		}
		has := n[t.Members[i].Member]
		if first {
			most, least, first = has, has, false
		}
		most, least = max(most, has), min(least, has)
	}
	return most, least
}

// unforced is how many partitions went from one member that is active before and after to another.
func unforced(before, after *Topology) (n int) {
	activeIn := func(t *Topology, name string) bool {
		m := t.Find(name)
		return m != nil && m.Status == MemberActive
	}
	for p := range before.table {
		from, to := before.Primary(p), after.Primary(p)
		if from == nil || to == nil || from.Member == to.Member {
			continue
		}
		if activeIn(after, from.Member) && activeIn(before, to.Member) {
			n++
		}
	}
	return n
}

// leastMoves is, found by trying every way to round the shares, how few partitions must change hands.
func leastMoves(partitions int, weights []int, owned []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		return 0 // those of members that are gone are no one's
	}
	best := partitions
	var try func(m, left, kept int)
	try = func(m, left, kept int) {
		if m == len(weights) {
			if left == 0 {
				best = min(best, partitions-kept)
			}
			return
		}
		low, high := partitions*weights[m]/total, (partitions*weights[m]+total-1)/total
		for q := low; q <= high; q++ {
			if q <= left {
				try(m+1, left-q, kept+min(q, owned[m]))
			}
		}
	}
	try(0, partitions, 0)
	return best
}

// TestTables: over random changes of the members, all who compute an epoch compute the same (I5), active members of
// equal weight have numbers of partitions that differ by one at most and others their share (I6), and no partition
// moves that need not (I7).
func TestTables(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		const partitions = 64
		weighted := rapid.Bool().Draw(r, "weighted")
		top := NewTopology(partitions)
		var now []Member
		for step := range rapid.IntRange(1, 12).Draw(r, "steps") {
			next := slices.Clone(now)
			for range rapid.IntRange(1, 3).Draw(r, "changes") {
				switch i := rapid.IntRange(0, 11).Draw(r, "member"); {
				case i >= len(next) && len(next) < 8:
					m := members(1)[0]
					m.Member = fmt.Sprint("member ", step, i)
					if weighted {
						m.Weight = rapid.IntRange(0, 5).Draw(r, "weight")
					}
					if !slices.ContainsFunc(next, func(o Member) bool { return o.Member == m.Member }) {
						next = append(next, m)
					}
				case i >= len(next):
				case rapid.Bool().Draw(r, "drain"):
					next[i].Status = MemberDraining
				default:
					next = slices.Delete(next, i, i+1)
				}
			}
			after, moved := top.Next(next, nil, "a change")
			slices.Reverse(next) // in whatever order they are listed
			if again, _ := top.Next(next, nil, "a change"); !slices.Equal(again.table, after.table) {
				r.Fatalf("two tables of one epoch:\n%v\n%v", after.table, again.table)
			}
			checkShares(r, after, weighted)
			had := make([]int, len(after.Members))
			for i, m := range after.Members {
				had[i] = share(top)[m.Member]
				if m.Status != MemberActive {
					had[i] = 0
				}
			}
			want := leastMoves(partitions, after.weights(), had)
			if !after.Ready() && top.Ready() {
				want = partitions
			}
			if moved != want {
				r.Fatalf("%d partitions moved, %d are enough: from %v to %v", moved, want, share(top), share(after))
			}
			top, now = after, slices.Clone(after.Members)
		}
	})
}

func checkShares(r *rapid.T, top *Topology, weighted bool) {
	weights, n, total := top.weights(), share(top), 0
	for _, w := range weights {
		total += w
	}
	if most, least := spread(top); !weighted && most-least > 1 {
		r.Fatalf("from %d to %d partitions: %v", least, most, n)
	}
	for i, w := range weights {
		share := 0.0
		if total > 0 {
			share = float64(len(top.table)*w) / float64(total)
		}
		if has := float64(n[top.Members[i].Member]); has <= share-1 || has >= share+1 {
			r.Fatalf("%s has %v partitions, its share is %v", top.Members[i].Member, has, share)
		}
	}
}

// TestReplace: a member that takes the place of another gets exactly its partitions, and no other moves.
func TestReplace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(r, "members")
		top := grown(256, n)
		all := slices.Clone(top.Members)
		i := rapid.IntRange(0, n-1).Draw(r, "old")
		old, heir := all[i].Member, rapid.SampledFrom([]string{"a", "member-0003b", "z"}).Draw(r, "new")
		if rapid.Bool().Draw(r, "the old one stays to hand over") {
			all[i].Status = MemberDraining
			all = append(all, all[i])
			i = len(all) - 1
		}
		all[i].Member, all[i].Status = heir, MemberActive
		after, moved := top.Next(all, map[string]string{old: heir}, "replace")
		if want := share(top)[old]; moved != want {
			r.Fatalf("%d partitions moved, %d were the old one's", moved, want)
		}
		for p := range top.table {
			want := top.Primary(p).Member
			if want == old {
				want = heir
			}
			if got := after.Primary(p).Member; got != want {
				r.Fatalf("partition %d is %s's, want %s", p, got, want)
			}
		}
	})
}

// TestPlace: PLC-PLACE-4. Placements are on eligible members only, on the owner of the partition if it is as good as
// any other, and the same however often they are asked for. The oracle is the definition, said over all members.
func TestPlace(t *testing.T) {
	t.Parallel()
	labels := rapid.MapOf(rapid.SampledFrom([]string{"zone", "disk"}), rapid.SampledFrom([]string{"a", "b"}))
	rapid.Check(t, func(r *rapid.T) {
		all := members(rapid.IntRange(0, 6).Draw(r, "members"))
		for i := range all {
			all[i].Kinds = rapid.SampledFrom([][]string{nil, {"room"}, {"room", "user"}}).Draw(r, "kinds")
			all[i].Labels = labels.Draw(r, "labels")
			all[i].Full = rapid.SampledFrom([]bool{false, false, true}).Draw(r, "full")
			all[i].Status = rapid.SampledFrom([]Status{MemberActive, MemberActive, MemberDraining}).Draw(r, "status")
		}
		top, _ := NewTopology(16).Next(all, nil, "members")
		id := Identity{Kind: rapid.SampledFrom([]string{"room", "user"}).Draw(r, "kind"),
			ID: rapid.StringN(1, 5, 20).Draw(r, "id")}
		need := Need{Labels: labels.Draw(r, "required"), Prefer: labels.Draw(r, "preferred")}
		if rapid.Bool().Draw(r, "anywhere") {
			need.Labels = nil
		}
		has := func(m Member, k, v string) bool { return m.Labels[k] == v }
		var best []string
		most := 0
		for _, m := range top.Members {
			ok := m.Status == MemberActive && !m.Full && slices.Contains(m.Kinds, id.Kind)
			for k, v := range need.Labels {
				ok = ok && has(m, k, v)
			}
			n := 0
			for k, v := range need.Prefer {
				if has(m, k, v) {
					n++
				}
			}
			if ok && (best == nil || n > most) {
				best, most = nil, n
			}
			if ok && n == most {
				best = append(best, m.Member)
			}
		}
		got := top.Place(id, need)
		switch primary := top.Primary(top.Partition(id)); {
		case got == nil:
			if best != nil {
				r.Fatalf("placed on no member, want one of %v", best)
			}
		case !slices.Contains(best, got.Member):
			r.Fatalf("%s, want one of %v", got.Member, best)
		case slices.Contains(best, primary.Member) && got != primary:
			r.Fatalf("%s, although %s has the partition", got.Member, primary.Member)
		}
		if again := top.Place(id, need); again != got {
			r.Fatalf("%v, then %v", got, again)
		}
	})
}

// TestPartsAreNotJoined: identities whose parts make the same text are two.
func TestPartsAreNotJoined(t *testing.T) {
	t.Parallel()
	if a, b := (Identity{"ab", "c"}), (Identity{"a", "bc"}); a.Hash() == b.Hash() {
		t.Errorf("%v and %v have one hash", a, b)
	}
}

// TestRollingReplace renews 100 members one by one: each partition moves once.
func TestRollingReplace(t *testing.T) {
	t.Parallel()
	const partitions, n = 4096, 100
	top, total := grown(partitions, n), 0
	for i := range n {
		all := slices.Clone(top.Members)
		old := fmt.Sprintf("member-%04d", i)
		at := slices.IndexFunc(all, func(m Member) bool { return m.Member == old })
		all[at].Member = fmt.Sprintf("renewed-%04d", i)
		var moved int
		top, moved = top.Next(all, map[string]string{old: all[at].Member}, "replace")
		total += moved
	}
	if most, least := spread(top); total != partitions || most-least > 1 {
		t.Errorf("%d moves of %d partitions, from %d to %d for each member", total, partitions, least, most)
	}
}

// TestMovement is the movement at the size for which the goals are: joins and leaves of one among a thousand.
func TestMovement(t *testing.T) {
	t.Parallel()
	const partitions, n = 16384, 1000
	top := grown(partitions, n)
	fair := partitions / n
	for i := range 5 {
		joined, moved := top.Next(append(slices.Clone(top.Members), Member{
			Incarnation: Incarnation{Member: fmt.Sprint("joiner ", i)}, Status: MemberActive,
		}), nil, "join")
		if u := unforced(top, joined); u != 0 || moved > fair+1 {
			t.Errorf("join %d: %d moves, %d unforced", i, moved, u)
		}
		leaver := joined.Members[(i*197)%n].Member
		left, moved := joined.Next(slices.DeleteFunc(slices.Clone(joined.Members),
			func(m Member) bool { return m.Member == leaver }), nil, "leave")
		if u := unforced(joined, left); u != 0 || moved > fair+1 {
			t.Errorf("leave %d: %d moves, %d unforced", i, moved, u)
		}
		top = left
	}
	most, _ := spread(top)
	if ratio := float64(most) * n / partitions; ratio > 1.05 {
		t.Errorf("the largest share is %.3f of the mean", ratio)
	}
}

// TestPlaceAllocatesNothing: a placement from a topology at hand costs no memory.
func TestPlaceAllocatesNothing(t *testing.T) {
	top := grown(DefaultPartitions, 10)
	id := Identity{Kind: "room", ID: "a room with a name of thirty characters"}
	if n := testing.AllocsPerRun(100, func() { top.Place(id, Need{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// rendezvous places as Proto.Actor does, beside which ours is measured: the member with the highest FNV-32a hash over
// the identity and the member, asked of every member each time.
func rendezvous(members []Member, id Identity) *Member {
	var best *Member
	var highest uint32
	for i := range members {
		if !slices.Contains(members[i].Kinds, id.Kind) {
			continue
		}
		h := fnv.New32a()
		h.Write([]byte(id.ID))
		h.Write([]byte(members[i].Member))
		if s := h.Sum32(); best == nil || s > highest {
			best, highest = &members[i], s
		}
	}
	return best
}

func BenchmarkPlace(b *testing.B) {
	ids := make([]Identity, 1024)
	for i := range ids {
		ids[i] = Identity{Kind: "room", ID: fmt.Sprintf("room-%020d", i)}
	}
	top := grown(16384, 1000)
	for _, c := range []struct {
		name  string
		place func(Identity) *Member
	}{
		{"table, 1000 members", func(id Identity) *Member { return top.Place(id, Need{}) }},
		{"rendezvous of FNV-32a, 1000 members", func(id Identity) *Member { return rendezvous(top.Members, id) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.place(ids[i%len(ids)]) == nil {
					b.Fatal("placed on no member")
				}
			}
		})
	}
}

// BenchmarkNext measures the table of the next epoch when one of a thousand members joins, and reports how even it is
// and what moved.
func BenchmarkNext(b *testing.B) {
	for _, partitions := range []int{4096, 16384, 65536} {
		b.Run(fmt.Sprint(partitions, " partitions"), func(b *testing.B) {
			const n = 1000
			top := grown(partitions, n)
			all := append(slices.Clone(top.Members), Member{Incarnation: Incarnation{Member: "joiner"}, Status: MemberActive})
			var after *Topology
			var moved int
			for b.Loop() {
				after, moved = top.Next(all, nil, "join")
			}
			most, _ := spread(after)
			b.ReportMetric(float64(most)*float64(len(all))/float64(partitions), "max/mean")
			b.ReportMetric(float64(moved), "moved")
			b.ReportMetric(float64(unforced(top, after)), "unforced")
		})
	}
}

// BenchmarkReplace100 renews 100 members one by one, and reports how often a partition moved.
func BenchmarkReplace100(b *testing.B) {
	const partitions, n = 4096, 100
	for b.Loop() {
		top, total := grown(partitions, n), 0
		for i := range n {
			all := slices.Clone(top.Members)
			at := slices.IndexFunc(all, func(m Member) bool { return m.Member == fmt.Sprintf("member-%04d", i) })
			old := all[at].Member
			all[at].Member = fmt.Sprintf("renewed-%04d", i)
			var moved int
			top, moved = top.Next(all, map[string]string{old: all[at].Member}, "replace")
			total += moved
		}
		b.ReportMetric(float64(total)/partitions, "moves/partition")
	}
}
