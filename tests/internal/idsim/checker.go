package idsim

import (
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// Maker is one life of a process: a generator, and the leases that it was granted.
type Maker struct {
	name  string
	index int32
	last  kazahana.ID // -1: none yet; the checker's

	mu     sync.Mutex
	leases []kazahana.Lease
}

// granted records leases before the generator gets them.
func (m *Maker) granted(leases []kazahana.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = append(m.leases, leases...)
}

// covers returns the lease under which a number below the timestamp may be stamped with a millisecond.
func (m *Maker) covers(ms, node int64) (kazahana.Lease, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.leases {
		if at := ms + l.CustomEpoch; l.ID == node>>l.BitSeq && l.Created <= at && at < l.Expired {
			return l, true
		}
	}
	return kazahana.Lease{}, false
}

// Fault is a kind of mistake in IDs.
type Fault int

// The kinds of faults.
const (
	Duplicate Fault = iota // an ID without the fallback bit was made before
	Disorder               // a generator made an ID that is not larger than the one before
	Stray                  // an ID without the fallback bit lies in no lease of its generator
	Shared                 // two generators stamped one machine ID with the same millisecond, if with different sequences
	Ancient                // an ID is stamped so far from the present that the checker cannot compare it
	faults
)

var faultNames = [faults]string{"duplicate", "disorder", "stray", "shared millisecond", "ancient"}

// String is a word for logs.
func (f Fault) String() string { return faultNames[f] }

// memory is how far from the present an ID's timestamp may be for the checker to compare it. Clocks are within
// [maxSkew] of the present, IDs are looked at a few seconds after they were made at the latest.
const memory = 8 * time.Second

// slots is how many milliseconds the checker remembers: more than memory twice.
const slots = 1 << 14

// Checker looks at every ID. It keeps the last sixteen seconds of IDs as bits, 256 numbers to a block, which is the
// size of the smallest lease.
type Checker struct {
	layout kazahana.Layout

	mu      sync.Mutex
	makers  []*Maker
	ring    []millisecond // by millisecond, modulo its length
	found   [faults]int
	reports []string
	kept    int // claims in the ring
	most    int // of kept

	leased, cached, random int64 // IDs
	collisions             int64 // of random IDs
}

// millisecond is a millisecond.
type millisecond struct {
	ms     int64
	claims []claim
}

// claim is what one maker made of one block in one millisecond.
type claim struct {
	maker, block int32
	made         [4]uint64
}

// NewChecker returns a checker for generators whose layouts have the epoch and the widths of timestamp and rest in
// common.
func NewChecker(l kazahana.Layout) *Checker {
	return &Checker{layout: l, ring: make([]millisecond, slots)}
}

// Maker announces a generator.
func (c *Checker) Maker(name string) *Maker {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &Maker{name: name, index: int32(len(c.makers)), last: -1}
	c.makers = append(c.makers, m)
	return m
}

// Check takes the IDs that a generator returned, in order, at the time now. Cached says that its provider cannot be
// reached, so that those under a lease are made from what it has.
func (c *Checker) Check(m *Maker, now time.Time, cached bool, ids ...kazahana.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(ids) > 0 {
		// A run of consecutive numbers in one block of one millisecond.
		n, left := 1, int(blockSize-int64(ids[0])%blockSize)
		for n < min(len(ids), left) && ids[n] == ids[n-1]+1 {
			n++
		}
		if ids[0] <= m.last {
			c.fault(Disorder, m, ids[0], fmt.Sprintf("after %d", m.last))
		}
		m.last = ids[n-1]
		c.run(m, now, cached, ids[0], n)
		ids = ids[n:]
	}
}

const blockSize = 256

// run takes n consecutive IDs of one block and millisecond.
func (c *Checker) run(m *Maker, now time.Time, cached bool, first kazahana.ID, n int) {
	width := c.layout.BitNode()
	ms, node := int64(first)>>width, int64(first)&(1<<width-1)
	fallback := node>>(width-1) == 1
	switch {
	case fallback:
		c.random += int64(n)
	case cached:
		c.cached += int64(n)
	default:
		c.leased += int64(n)
	}
	if !fallback {
		if _, ok := m.covers(ms, node); !ok {
			c.fault(Stray, m, first, "no lease of its own")
		}
	}
	if now.Sub(time.UnixMilli(ms+c.layout.CustomEpoch)).Abs() > memory {
		c.fault(Ancient, m, first, "at "+now.Format(time.StampMilli))
		return
	}
	at := &c.ring[ms&(slots-1)]
	if at.ms != ms {
		c.kept -= len(at.claims)
		at.ms, at.claims = ms, at.claims[:0]
	}
	made := span(int(node%blockSize), n)
	block := int32(node / blockSize)
	own := -1
	for i, other := range at.claims {
		if other.block != block {
			continue
		}
		if other.maker == m.index {
			own = i
		}
		twice := 0
		for w, mask := range made {
			twice += bits.OnesCount64(mask & other.made[w])
		}
		switch {
		case fallback && other.maker != m.index:
			c.collisions += int64(twice)
		case twice > 0:
			c.found[Duplicate] += twice - 1
			c.fault(Duplicate, m, first, fmt.Sprintf("%d IDs from it on, which were made by %s", twice,
				c.describe(other.maker, ms, node)))
		case other.maker != m.index:
			c.fault(Shared, m, first, c.describe(other.maker, ms, node))
		}
	}
	if own < 0 {
		at.claims = append(at.claims, claim{m.index, block, made})
		c.kept++
		c.most = max(c.most, c.kept)
		return
	}
	for w, mask := range made {
		at.claims[own].made[w] |= mask
	}
}

// span is the bits from first on, n of them.
func span(first, n int) (b [4]uint64) {
	for n > 0 {
		in := min(n, 64-first%64)
		b[first/64] |= (1<<in - 1) << (first % 64)
		first, n = first+in, n-in
	}
	return b
}

// describe is a maker and the lease that it has for a number in a millisecond.
func (c *Checker) describe(maker int32, ms, node int64) string {
	m := c.makers[maker]
	if l, ok := m.covers(ms, node); ok {
		return m.name + " under the lease of " + l.String()
	}
	return m.name
}

// fault counts, and describes the first few.
func (c *Checker) fault(f Fault, m *Maker, id kazahana.ID, more string) {
	c.found[f]++
	const most = 3
	if c.found[f] > most {
		return
	}
	width := c.layout.BitNode()
	ms, node := int64(id)>>width, int64(id)&(1<<width-1)
	c.reports = append(c.reports, fmt.Sprintf("%s: ID %d (%s, block %d, sequence %d) of %s: %s", f, id,
		id.Time(c.layout).Format(time.StampMilli), node/blockSize, node%blockSize, c.describe(m.index, ms, node), more))
}
