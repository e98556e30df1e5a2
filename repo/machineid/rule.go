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
	split      int   // of the page
	since      int64 // from when on it is free: the latest notBefore of its slots, in Unix milliseconds
}

// runs are the groups of slots of a page that leases of a size can take at the time now, free for longest first; and the
// earliest time at which another one becomes free without a release, 0 if there is none. The size fits the page.
func (p page) runs(index, size int, now int64) (free []run, next int64) {
	bits := size + p.split
	for slot := 0; slot < len(p.notBefore); slot += 1 << bits {
		since := slices.Max(p.notBefore[slot : slot+1<<bits])
		switch {
		case since <= now:
			free = append(free, run{page: index, slot: slot, split: p.split, since: since})
		case next == 0 || since < next:
			next = since
		}
	}
	slices.SortStableFunc(free, func(a, b run) int { return cmp.Compare(a.since, b.since) })
	return free, next
}

// grant is the page after leases of a size and of the interval [created, expired) for the free runs. Leases that have run
// out are removed; their notBefore stays.
func (p page) grant(runs []run, secrets []secret, size int, service string, created, expired int64) page {
	after := p.next(created)
	bits := size + p.split
	for i, r := range runs {
		for slot := r.slot; slot < r.slot+1<<bits; slot++ {
			after.notBefore[slot] = expired
		}
		after.held = append(after.held, lease{slot: r.slot, bits: bits, created: created, secret: secrets[i], service: service}) //nolint:gosec // one for each run
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

// release decides a release of the lease at a slot, signed at a time in Unix milliseconds, if the signature verifies. After
// the signed time nothing was stamped, so the next lease may begin there; never before this one began, since earlier
// timestamps belong to others, and never later than it would have ended.
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

// choose picks want free runs: all of them in one page if there is such a page, else in as few as hold them. With fewer
// free than wanted it picks one, so that the last ones go to callers that have none. If none is free it picks none, and next
// is when one will be, in Unix milliseconds. spread draws a number below n.
func choose(pages map[int]page, size, want int, now int64, spread func(n int) int) (picked []run, next int64) {
	type candidate struct {
		index int
		free  []run
	}
	var candidates, enough []candidate
	total, roomy := 0, 0
	for index, p := range pages {
		free, n := p.runs(index, size, now)
		if n != 0 && (next == 0 || n < next) {
			next = n
		}
		if len(free) == 0 {
			continue
		}
		c := candidate{index, free}
		candidates = append(candidates, c)
		total += len(free)
		if len(free) >= want {
			enough = append(enough, c)
			roomy += len(free)
		}
	}
	// Map order is random; sort so that spread alone decides.
	byIndex := func(a, b candidate) int { return cmp.Compare(a.index, b.index) }
	slices.SortFunc(candidates, byIndex)
	slices.SortFunc(enough, byIndex)
	switch {
	case total == 0:
		return nil, next
	case len(enough) == 0 && total >= want:
		// The emptiest pages first: the fewer documents change together, the fewer conflicts.
		slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(len(b.free), len(a.free)) })
		for _, c := range candidates[:min(len(candidates), docstore.MaxWrites)] {
			picked = append(picked, c.free[:min(len(c.free), want-len(picked))]...)
		}
		if len(picked) == want {
			return picked, next
		}
	}
	if len(enough) == 0 {
		want, enough, roomy = 1, candidates, total
	}
	// A page by its share of what is free: concurrent callers spread over the pages, and fill them evenly.
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
