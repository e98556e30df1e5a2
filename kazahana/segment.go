package kazahana

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// The word g.state is the last millisecond with IDs, and how many indices of it are taken:
//
//	lock (1 bit) | milliseconds since the epoch (BitTs) | indices taken (the rest: at least one bit more than is needed)
//
// What an index means is said by the segment that the millisecond lies in. Segments follow each other without overlap,
// so each pair of millisecond and index is one ID, and they are in the same order.

// segment is a span of milliseconds in which the same leases are usable, or none. It does not change once it is
// published, but for the one that follows it.
type segment struct {
	from, until uint64 // milliseconds since the epoch: [from, until)
	since       uint64 // IDs of earlier segments have lower milliseconds than this one
	next        atomic.Pointer[segment]
	cap         uint64 // indices of a millisecond

	shift  uint   // of the milliseconds in the state
	mask   uint64 // of the indices in the state
	node   uint   // width below the timestamp in an ID
	unit   uint   // width of the smallest sequence among the leases
	nodes  []uint32
	leases int

	fallback bool
	// each millisecond begins with a random index of those of cached leases; otherwise a fallback has no nodes
	random bool
	keys   [2]uint64 // of the random starts
}

// room is how many indices of a millisecond can be taken.
func (s *segment) room(ms uint64) uint64 {
	if s.random {
		return s.cap - s.first(ms)
	}
	return s.cap
}

// open says that nothing can be taken before settle has found out what is usable.
func (g *Generator) open() *segment {
	shift := uint(63 - g.layout.BitTs)
	return &segment{shift: shift, mask: 1<<shift - 1, node: uint(g.layout.BitNode())}
}

// sealed is a number of taken indices that means: all. It leaves room for callers that count one more before they see
// it.
func (s *segment) sealed() uint64 { return s.mask/4*3 + 1 }

// owner is the segment, this one or one that followed it, that was in force when an index of the millisecond was taken.
func (s *segment) owner(ms uint64) *segment {
	owner := s
	for s = s.next.Load(); s != nil; s = s.next.Load() {
		if s.since <= ms {
			owner = s
		}
	}
	return owner
}

// taken is how many indices of its millisecond a state has handed out.
func (s *segment) taken(state uint64) int64 {
	n := state & s.mask
	if n >= s.sealed() {
		return 0 // counted when it was sealed
	}
	return int64(min(n, s.room(state>>s.shift))) //nolint:gosec // fewer than 2^31
}

// id is the ID of a state's millisecond and index.
func (s *segment) id(at uint64) ID {
	ms, index := at>>s.shift, at&s.mask
	if s.fallback {
		n := s.first(ms) + index
		if s.random {
			n = uint64(s.nodes[n>>s.unit]) | n&(1<<s.unit-1)
		}
		return ID(ms<<s.node | 1<<(s.node-1) | n) //nolint:gosec // below 2^63
	}
	return ID(ms<<s.node | uint64(s.nodes[index>>s.unit]) | index&(1<<s.unit-1)) //nolint:gosec // below 2^63
}

// fill writes the IDs of consecutive indices.
func (s *segment) fill(dst []ID, at uint64) {
	if s.fallback && !s.random {
		first := s.id(at)
		for i := range dst {
			dst[i] = first + ID(i)
		}
		return
	}
	start := uint64(0)
	if s.random {
		start = s.first(at >> s.shift)
	}
	for len(dst) > 0 {
		left := 1<<s.unit - (start+at)&(1<<s.unit-1)
		part := dst[:min(uint64(len(dst)), left)]
		first := s.id(at)
		for i := range part {
			part[i] = first + ID(i)
		}
		dst, at = dst[len(part):], at+uint64(len(part))
	}
}

// first is the number that a millisecond's fallback IDs begin with: in [0, 2^(node-1)-cap], or an index of cached
// leases, in [0, cap). It is drawn anew for each millisecond, as a keyed hash of it: callers need not agree on a draw.
func (s *segment) first(ms uint64) uint64 {
	x := mix(ms ^ s.keys[0])
	x = mix(x ^ s.keys[1])
	bound := s.cap
	if !s.random {
		bound = 1<<(s.node-1) - s.cap + 1
	}
	first, _ := bits.Mul64(x, bound)
	return first
}

// mix is the finalizer of MurmurHash3 (Appleby, public domain): each bit of its input changes each of its output in
// half of all cases.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func randomKeys() (keys [2]uint64) {
	var b [16]byte
	rand.Read(b[:])
	keys[0], keys[1] = binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])
	return keys
}

// held is a lease that was accepted.
type held struct {
	Lease
	from, until uint64 // milliseconds since the epoch
	low, high   uint64 // its numbers below the timestamp: [low, high)
	renewAt     uint64 // when another one should take its place
	suspect     bool   // see markSuspect
}

// holdable is a lease as a range of timestamps and of numbers below them; the lease is valid.
func holdable(l Lease) *held {
	h := &held{
		Lease: l,
		from:  uint64(l.Created - l.CustomEpoch), until: uint64(l.Expired - l.CustomEpoch), //nolint:gosec // validated
		low: uint64(l.ID) << l.BitSeq, high: uint64(l.ID+1) << l.BitSeq, //nolint:gosec // validated
	}
	h.until = min(h.until, 1<<l.BitTs)
	return h
}

// clashes finds the fresh leases that could make the same ID as another one: a provider that grants such leases breaks
// the rule.
func clashes(old, fresh []*held) map[*held]bool {
	found := map[*held]bool{}
	all := slices.Concat(old, fresh)
	slices.SortStableFunc(all, func(a, b *held) int { return cmp.Compare(a.low, b.low) })
	var near []*held // those before that reach up to here
	for _, h := range all {
		near = slices.DeleteFunc(near, func(o *held) bool { return o.high <= h.low })
		for _, o := range near {
			if h.from < o.until && o.from < h.until {
				if slices.Contains(fresh, h) {
					found[h] = true
				} else {
					found[o] = true
				}
			}
		}
		near = append(near, h)
	}
	return found
}

// build returns the segment that a millisecond lies in. If no lease is usable then, but one begins later, not after
// before, it is the segment that begins with that one. It is nil if there is none.
func (g *Generator) build(at, before uint64) *segment {
	end := uint64(1) << g.layout.BitTs
	if at >= end {
		return nil
	}
	var live []*held
	until, next := end, uint64(math.MaxUint64)
	for _, h := range g.held {
		switch {
		case at < h.from:
			next = min(next, h.from)
		case at < h.until:
			live = append(live, h)
			until = min(until, h.until)
		}
	}
	if len(live) == 0 {
		if next > before || next >= end {
			return nil
		}
		return g.build(next, before)
	}
	s := g.open()
	s.from, s.until, s.leases = at, min(until, next), len(live)
	s.use(live)
	return s
}

// use makes the numbers of leases those of the segment, in ascending order.
func (s *segment) use(leases []*held) {
	slices.SortFunc(leases, func(a, b *held) int { return cmp.Compare(a.low, b.low) })
	s.unit = s.node
	for _, h := range leases {
		s.unit = min(s.unit, uint(h.BitSeq))
		s.cap += h.high - h.low
	}
	s.nodes = make([]uint32, 0, s.cap>>s.unit)
	for _, h := range leases {
		for n := h.low; n < h.high; n += 1 << s.unit {
			s.nodes = append(s.nodes, uint32(n)) //nolint:gosec // BitNode is at most 31
		}
	}
}

// lastLeases are the leases whose machine IDs are used for fallback IDs: those that this process had last. Leases that
// another process may share, after a jump of the clock, are not.
func (g *Generator) lastLeases(at uint64) (last []*held) {
	for _, leases := range [][]*held{g.held, g.cached} {
		leases = slices.DeleteFunc(slices.Clone(leases), func(h *held) bool { return h.suspect || at < h.from })
		slices.SortStableFunc(leases, func(a, b *held) int { return cmp.Compare(b.until, a.until) })
		for _, h := range leases { // of two leases of a machine ID, one after the other, it takes one
			if !slices.ContainsFunc(last, func(o *held) bool { return h.low < o.high && o.low < h.high }) {
				last = append(last, h)
			}
		}
		if len(last) > 0 {
			return last
		}
	}
	return nil
}

// buildFallback returns a segment without a live lease, which ends where a lease begins.
func (g *Generator) buildFallback(at uint64) *segment {
	end := uint64(1) << g.layout.BitTs
	if at >= end {
		return nil
	}
	s := g.open()
	s.from, s.until, s.fallback, s.keys = at, end, true, randomKeys()
	if last := g.lastLeases(at); len(last) > 0 {
		s.random = true
		s.use(last)
	} else {
		//nolint:gosec // positive; half of all starts stay possible
		s.cap = min(uint64(g.set.MaxThroughputPerMs), 1<<(s.node-2))
	}
	for _, h := range g.held {
		if at < h.from {
			s.until = min(s.until, h.from)
		}
	}
	return s
}
