package idsim

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// TestChecker shows the checker each fault, and what is none.
func TestChecker(t *testing.T) {
	l := kazahana.DefaultLayout()
	now := time.UnixMilli(l.CustomEpoch + 60_000)
	// id is a number of the present millisecond: machine ID and sequence.
	id := func(after, machine, sequence int64) kazahana.ID {
		return kazahana.ID((60_000+after)<<22 | machine<<8 | sequence)
	}
	type ids = []kazahana.ID
	const fallback = 1 << 13
	for name, c := range map[string]struct {
		first, second ids // of two makers with leases of machine IDs 1 to 3
		want          [faults]int
		collisions    int64
	}{
		"different":           {first: ids{id(0, 1, 0), id(0, 1, 1)}, second: ids{id(0, 2, 0)}},
		"one after the other": {first: ids{id(0, 1, 0)}, second: ids{id(1, 1, 0)}},
		"over a block's end":  {first: ids{id(0, 1, 254), id(0, 1, 255), id(0, 2, 0), id(0, 2, 1)}},
		"twice": {first: ids{id(0, 1, 7)}, second: ids{id(0, 1, 7)},
			want: [faults]int{Duplicate: 1}},
		"two of a run": {first: ids{id(0, 1, 63), id(0, 1, 64)},
			second: ids{id(0, 1, 62), id(0, 1, 63), id(0, 1, 64)}, want: [faults]int{Duplicate: 2}},
		"the same millisecond": {first: ids{id(0, 1, 0)}, second: ids{id(0, 1, 200)}, want: [faults]int{Shared: 1}},
		"back":                 {first: ids{id(0, 1, 1), id(0, 1, 0)}, want: [faults]int{Disorder: 1}},
		"the same again": {first: ids{id(0, 1, 1), id(0, 1, 1)},
			want: [faults]int{Disorder: 1, Duplicate: 1}},
		"back from fallback":       {first: ids{id(0, fallback, 0), id(0, 1, 0)}, want: [faults]int{Disorder: 1}},
		"without a lease":          {first: ids{id(0, 4, 0)}, want: [faults]int{Stray: 1}},
		"before the lease":         {first: ids{id(-11, 1, 0)}, want: [faults]int{Stray: 1}},
		"at its first millisecond": {first: ids{id(-10, 1, 0)}},
		"at its last":              {first: ids{id(9, 1, 0)}},
		"at its end":               {first: ids{id(10, 1, 0)}, want: [faults]int{Stray: 1}},
		"fallback collides":        {first: ids{id(0, fallback, 5)}, second: ids{id(0, fallback, 5)}, collisions: 1},
		"fallback collides with its own": {first: ids{id(0, fallback, 5), id(0, fallback, 5)},
			want: [faults]int{Disorder: 1, Duplicate: 1}},
		"too long ago to compare": {first: ids{id(-9000, fallback, 5)}, want: [faults]int{Ancient: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			check := NewChecker(l)
			a, b := check.Maker("a"), check.Maker("b")
			for machine := range int64(3) {
				lease := kazahana.Lease{ID: machine + 1, Created: now.UnixMilli() - 10, Expired: now.UnixMilli() + 10, Layout: l}
				a.granted([]kazahana.Lease{lease})
				b.granted([]kazahana.Lease{lease})
			}
			check.Check(a, now, false, c.first...)
			check.Check(b, now, false, c.second...)
			if check.found != c.want || check.collisions != c.collisions {
				t.Errorf("%v and %d collisions, want %v and %d; %q", check.found, check.collisions, c.want,
					c.collisions, check.reports)
			}
		})
	}
}

// TestCheckerForgets: a millisecond is replaced by the one sixteen seconds later.
func TestCheckerForgets(t *testing.T) {
	l := kazahana.DefaultLayout()
	c := NewChecker(l)
	m := c.Maker("a")
	for _, ms := range []int64{60_000, 60_000 + slots} {
		at := time.UnixMilli(ms + l.CustomEpoch)
		m.granted([]kazahana.Lease{{ID: 1, Created: at.UnixMilli(), Expired: at.UnixMilli() + 1, Layout: l}})
		c.Check(m, at, false, kazahana.ID(ms<<22|1<<8))
	}
	if c.found != [faults]int{} || c.most != 1 || c.leased != 2 {
		t.Errorf("%v, %d kept, %d made; %q", c.found, c.most, c.leased, c.reports)
	}
}
