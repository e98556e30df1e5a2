package machineid

import (
	"cmp"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The size of a lease is how many units it takes, as a power of two: 0 is a unit, -1 half of one. In a page it takes so
// many bits of slots: size + split.

// run is an aligned group of slots that one lease can take.
type run struct {
	page, slot int
	split      int // of the page
}

// need is what an acquire looks for, and how to leave space for others.
type need struct {
	size, want   int
	small, large int // the smallest and the largest size of leases in the space
}

// runs are the groups of slots of a page that leases of a size can take at the time now; and the earliest time at which
// another one becomes free without a release, 0 if there is none. The size fits the page.
//
// They come in the order in which they are to be taken: those in the smallest aligned gaps first, so that what larger
// leases can take stays whole, up to the size large; and among equal gaps those that are free for longest. Any number
// of them, from the first on, leaves gaps as large as can be. Where all leases have one size, only the time counts.
func (p page) runs(index, size, large int, now int64) (free []run, next int64) {
	bits := size + p.split
	// since has from when on each aligned block is free: the latest notBefore of its slots. Blocks of a level are twice
	// those before it.
	since := [][]int64{make([]int64, len(p.notBefore)>>bits)}
	for i := range since[0] {
		since[0][i] = slices.Max(p.notBefore[i<<bits : (i+1)<<bits])
		if at := since[0][i]; at > now && (next == 0 || at < next) {
			next = at
		}
	}
	for below := since[0]; len(since) <= large-size && len(below) > 1; below = since[len(since)-1] {
		level := make([]int64, len(below)/2)
		for i := range level {
			level[i] = max(below[2*i], below[2*i+1])
		}
		since = append(since, level)
	}
	type block struct{ level, at int }
	var gaps []block // free blocks that are part of no larger one
	var find func(level, at int)
	find = func(level, at int) {
		switch {
		case since[level][at] <= now:
			gaps = append(gaps, block{level, at})
		case level > 0:
			find(level-1, 2*at)
			find(level-1, 2*at+1)
		}
	}
	for at := range since[len(since)-1] {
		find(len(since)-1, at)
	}
	slices.SortStableFunc(gaps, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(since[a.level][a.at], since[b.level][b.at]))
	})
	// A half is used up before the other one is begun.
	var take func(level, at int)
	take = func(level, at int) {
		if level == 0 {
			free = append(free, run{page: index, slot: at << bits, split: p.split})
			return
		}
		one, other := 2*at, 2*at+1
		if since[level-1][other] < since[level-1][one] {
			one, other = other, one
		}
		take(level-1, one)
		take(level-1, other)
	}
	for _, g := range gaps {
		take(g.level, g.at)
	}
	return free, next
}

// span is a range of pages: from from on, before to.
type span struct{ from, to int }

// some are pages of the range, beginning at a random one.
func (s span) some(n int, spread func(n int) int) []int {
	size := s.to - s.from
	begin := spread(size)
	pages := make([]int, min(n, size))
	for i := range pages {
		pages[i] = s.from + (begin+i)%size
	}
	return pages
}

// regions are the pages in which leases of a size are looked for one after the other, before all pages are. The largest
// leases of a space and the smaller ones begin at different ends: if either takes less than half of the space, the
// pages of the other end stay whole. Where all leases have one size, all pages are alike.
func (g geometry) regions(n need) []span {
	half, quarter := g.pages/2, g.pages/4
	switch {
	case n.small == n.large || half == 0:
		return []span{{0, g.pages}}
	case quarter == 0 && n.size < n.large:
		return []span{{0, half}}
	case quarter == 0:
		return []span{{half, g.pages}}
	case n.size < n.large:
		return []span{{0, half}, {half, half + quarter}}
	default:
		return []span{{half, g.pages}, {quarter, half}}
	}
}

// rank is which of the regions a page is in.
func rank(regions []span, page int) int {
	i := slices.IndexFunc(regions, func(s span) bool { return page >= s.from && page < s.to })
	if i < 0 {
		return len(regions)
	}
	return i
}

// grant is the page after leases of a size and of the interval [created, expired) for the free runs. Leases that have
// run out are removed; their notBefore stays.
func (p page) grant(runs []run, secrets []secret, size int, service string, created, expired int64) page {
	after := p.next(created)
	bits := size + p.split
	for i, r := range runs {
		for slot := r.slot; slot < r.slot+1<<bits; slot++ {
			after.notBefore[slot] = expired
		}
		//nolint:gosec // one for each run
		after.held = append(after.held, lease{slot: r.slot, bits: bits, created: created, secret: secrets[i],
			service: service})
	}
	return after
}

// next is a copy of the page with the next revision and without what has run out.
func (p page) next(now int64) page {
	after := page{rev: p.rev + 1, split: p.split, notBefore: slices.Clone(p.notBefore)}
	for _, l := range p.held {
		if p.live(l, now) {
			after.held = append(after.held, l)
		}
	}
	return after
}

// releaseResult is the result of a release on one page.
type releaseResult int

const (
	notThere releaseResult = iota // no lease is held there: it was released or has expired, and nothing is to be done
	refused                       // a lease is held, and the signature is not its holder's
	released                      // the page after the release is to be written
)

// release decides a release of the lease at a slot, signed at a time in Unix milliseconds, if the signature verifies.
// After the signed time nothing was stamped, so the next lease may begin there; never before this one began, since
// earlier timestamps belong to others, and never later than it would have ended.
func (p page) release(slot, bits int, signed int64, verifies func(secret) bool, now int64) (page, releaseResult) {
	i := slices.IndexFunc(p.held, func(l lease) bool { return l.slot == slot && l.bits == bits })
	if i < 0 || !p.live(p.held[i], now) {
		if i < 0 && p.taken(slot, bits, now) {
			return p, refused
		}
		return p, notThere
	}
	l := p.held[i]
	if !verifies(l.secret) {
		return p, refused
	}
	after := p.next(now)
	after.held = slices.DeleteFunc(after.held, func(o lease) bool { return o.slot == slot })
	for s := slot; s < slot+1<<bits; s++ {
		after.notBefore[s] = max(l.created, min(signed+1, p.notBefore[s]))
	}
	return after, released
}

// taken reports whether a lease of another size holds the slots.
func (p page) taken(slot, bits int, now int64) bool {
	return slices.ContainsFunc(p.held, func(l lease) bool {
		return l.slot < slot+1<<bits && slot < l.slot+1<<l.bits && p.live(l, now)
	})
}

// choose picks free runs, as many as are needed: all of them in one page if there is such a page, else in as few as
// hold them. With fewer free than wanted it picks one, so that the last ones go to callers that have none. If none is
// free it picks none, and next is when one will be, in Unix milliseconds. spread draws a number below n.
func choose(g geometry, pages map[int]page, n need, now int64, spread func(n int) int) (picked []run, next int64) {
	type candidate struct {
		index, rank int
		free        []run
	}
	regions := g.regions(n)
	var candidates, enough []candidate
	total := 0
	for index, p := range pages {
		free, at := p.runs(index, n.size, n.large, now)
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
		if len(free) == 0 {
			continue
		}
		c := candidate{index, rank(regions, index), free}
		candidates = append(candidates, c)
		total += len(free)
		if len(free) >= n.want {
			enough = append(enough, c)
		}
	}
	// Map order is random; sort so that spread alone decides.
	inOrder := func(a, b candidate) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.index, b.index)) }
	slices.SortFunc(candidates, inOrder)
	slices.SortFunc(enough, inOrder)
	switch {
	case total == 0:
		return nil, next
	case len(enough) == 0 && total >= n.want:
		// The emptiest pages first: the fewer documents change together, the fewer conflicts.
		slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(len(b.free), len(a.free)) })
		for _, c := range candidates[:min(len(candidates), docstore.MaxWrites)] {
			picked = append(picked, c.free[:min(len(c.free), n.want-len(picked))]...)
		}
		if len(picked) == n.want {
			return picked, next
		}
	}
	want := n.want
	if len(enough) == 0 {
		want, enough = 1, candidates
		slices.SortFunc(enough, inOrder)
	}
	// A page of the first region that has one, by its share of what is free there: concurrent callers spread over the
	// pages, and fill them evenly.
	roomy := 0
	enough = slices.DeleteFunc(enough, func(c candidate) bool { return c.rank > enough[0].rank })
	for _, c := range enough {
		roomy += len(c.free)
	}
	at := spread(roomy)
	for _, c := range enough {
		if at -= len(c.free); at < 0 {
			return c.free[:want], next
		}
	}
	return nil, next
}

// place finds a machine ID of a layout with so many bits of sequence: its page, and the first of its numbers there.
func (g geometry) place(bitSeq int, id int64) (index int, first int64) {
	number, page := id<<bitSeq, int64(g.slots)<<g.unit
	return int(number / page), number % page
}

// slot is where a number stands in the page.
func (p page) slot(g geometry, first int64) int { return int(first >> (g.unit - p.split)) }

// id is the machine ID of a lease of a size.
func (g geometry) id(r run, size int) int64 {
	return int64(r.page*g.slots<<r.split+r.slot) >> (size + r.split)
}
