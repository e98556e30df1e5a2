package machineid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// morePages is how many pages an acquire reads at once that found the first one full, before it reads all.
const morePages = 8

// acquire is one call of [Service.Acquire].
type acquire struct {
	*Service
	rule.End

	sv   *service
	sp   *guarded
	want int

	looked int // for how many regions of pages the acquire has looked
}

// grant is what an acquire is about to write, or has written.
type grant struct {
	g                geometry
	runs             []run
	secrets          []secret // of each run
	created, expired int64
	pages            []int // indexes in the order of the writes
	writes           []docstore.Write
}

func (a *acquire) run(ctx context.Context) ([]kazahana.Lease, error) {
	begin, seen, err := a.look(ctx)
	for range maxTries {
		for err == nil && !a.enough(seen) {
			begin, seen, err = a.look(ctx)
		}
		if err != nil {
			return nil, err
		}
		g, err := a.decide(seen)
		if err != nil {
			return nil, err
		}
		sent := a.now()
		r, err := a.store.Write(ctx, g.writes...)
		if errors.Is(err, docstore.ErrDamaged) { // since it was read
			a.looked = 0
			if begin, seen, err = a.look(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lease machine IDs of space %q: %w", a.sp.name, err)
		}
		if r.Applied || a.isOwn(g, r) {
			return a.leases(g, begin)
		}
		if err := a.ended(rule.When{At: r.At, Margin: r.Margin}); err != nil {
			return nil, err
		}
		if begin, seen, err = a.again(ctx, g, r, sent); err != nil {
			return nil, err
		}
	}
	return nil, busy(a.sp, maxTries)
}

// need is what the acquire looks for.
func (a *acquire) need(g geometry) need {
	return need{size: a.sv.size(g), want: a.want, small: a.sp.minSeq - g.unit, large: a.sp.maxSeq - g.unit}
}

// look reads pages: first one; then, if leases of other sizes are to be spared, some more of the pages that are not; in
// the end all.
func (a *acquire) look(ctx context.Context) (time.Time, view, error) {
	defer func() { a.looked++ }()
	return a.see(ctx, func(g geometry) []int {
		n := a.need(g)
		regions := g.regions(n)
		switch {
		case a.looked == 0:
			return regions[0].some(1, a.spread)
		case a.looked == 1 && len(regions) > 1 && n.want <= g.perPage(n.size):
			return append(regions[0].some(morePages-1, a.spread), regions[1].some(1, a.spread)...)
		default:
			return g.all()
		}
	})
}

// see reads pages with slots that are small enough for leases of the service, and creates what the space lacks. begin
// is before the request that told the time.
func (a *acquire) see(ctx context.Context, which func(geometry) []int) (begin time.Time, seen view, err error) {
	begin = a.now()
	seen, err = a.read(ctx, a.sp, which)
	if err == nil && seen.lacking {
		if err = a.complete(ctx, a.sp); err == nil {
			begin = a.now()
			seen, err = a.read(ctx, a.sp, which)
		}
	}
	for index, p := range seen.pages {
		seen.pages[index] = p.fit(a.sv.size(seen.g))
	}
	return begin, seen, err
}

// enough reports whether the pages read suffice: one has space for all leases, or there is no other page.
func (a *acquire) enough(seen view) bool {
	if len(seen.pages) == seen.g.pages {
		return true
	}
	n := a.need(seen.g)
	for index, p := range seen.pages {
		if free, _ := p.runs(index, n.size, n.size, seen.at); len(free) >= n.want {
			return true
		}
	}
	return false
}

// ended is the error of an acquire that came after its end, or whose end is further away than it may be.
func (a *acquire) ended(w rule.When) error {
	code, why := a.Refuses(w)
	if code == "" {
		return nil
	}
	return &EndError{Code: code, At: w.Latest(), said: why}
}

// decide is the grant for what was seen. The error is [*kazahana.ExhaustedError] if nothing is free, and [*EndError]
// if it is too late.
func (a *acquire) decide(seen view) (grant, error) {
	g := grant{g: seen.g}
	err := a.ended(rule.When{At: time.UnixMilli(seen.at).UTC()})
	if err != nil {
		return grant{}, err
	}
	if g.created, g.expired, err = a.sv.interval(seen.at); err != nil {
		return grant{}, err
	}
	n := a.need(seen.g)
	runs, next := choose(seen.g, seen.pages, n, seen.at, a.spread)
	if len(runs) == 0 {
		return grant{}, &kazahana.ExhaustedError{RetryAfter: time.Duration(next-seen.at) * time.Millisecond}
	}
	g.runs = runs
	for range runs {
		g.secrets = append(g.secrets, newSecret())
	}
	for from, to := 0, 0; from < len(runs); from = to {
		index := runs[from].page
		for to < len(runs) && runs[to].page == index {
			to++
		}
		after := seen.pages[index].grant(runs[from:to], g.secrets[from:to], n.size, a.sv.ServiceID, g.created, g.expired)
		g.pages = append(g.pages, index)
		w := after.write(a.sp.page(index))
		w.Until = a.NotAfter // of all: the step is all or none
		g.writes = append(g.writes, w)
	}
	return g, nil
}

// isOwn reports whether the refused write had been applied before: its response was lost, the store's library sent it
// again, and it failed its own condition. The writes are applied all or none, so one page is proof.
func (a *acquire) isOwn(g grant, r docstore.Result) bool {
	for _, i := range r.Refused {
		p, err := pageOf(g.g, g.writes[i].Key, r.Docs[i]) // one that cannot be read proves nothing
		if err == nil && slices.ContainsFunc(p.held, func(l lease) bool { return slices.Contains(g.secrets, l.secret) }) {
			return true
		}
	}
	return false
}

// again is what to decide about after a conflict. The refused write returned the page as it is now, so staying on it
// costs no read. Several documents are read again, and one that was deleted or damaged is looked at as any that is.
func (a *acquire) again(ctx context.Context, g grant, r docstore.Result, sent time.Time) (time.Time, view, error) {
	p, err := pageOf(g.g, g.writes[0].Key, r.Docs[0])
	if len(g.writes) > 1 || r.Docs[0] == nil || err != nil {
		a.looked = 0
		return a.look(ctx)
	}
	return sent, view{
		g: g.g, at: r.At.Add(r.Margin).UnixMilli(), pages: map[int]page{g.pages[0]: p.fit(a.sv.size(g.g))},
	}, nil
}

// leases are what was granted, for its holder. A grant of which half is over when the store responds is an error: its
// holder would have to renew at once. The time is measured from before the request that returned it, so that it errs on
// the early side.
func (a *acquire) leases(g grant, begin time.Time) ([]kazahana.Lease, error) {
	took := a.now().Sub(begin)
	if lasts := time.Duration(g.expired-g.created) * time.Millisecond; took >= lasts/2 {
		return nil, fmt.Errorf("%w: the store took %v to lease machine IDs for %v", docstore.ErrUnavailable,
			took.Round(time.Millisecond), lasts)
	}
	leases := make([]kazahana.Lease, len(g.runs))
	for i, r := range g.runs {
		leases[i] = kazahana.Lease{
			ID: g.g.id(r, a.sv.size(g.g)), Created: g.created, Expired: g.expired, Secret: g.secrets[i].text(),
			Layout: a.sv.Layout,
		}
	}
	return leases, nil
}
