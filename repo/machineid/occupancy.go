package machineid

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Occupancy is how full a space is. It names no holder and no secret.
type Occupancy struct {
	Space    string
	At       time.Time      // the store's time
	Units    int            // in the space: what a lease with the smallest sequence takes
	Leased   int            // units that cannot be leased now
	Free     int            // the others
	NextFree time.Time      // when the next of the leased units becomes free; zero if none is leased
	Services map[string]int // leases that are held now, by service

	Unreadable docstore.Unreadable // pages that cannot be read: their units count as leased
}

// Occupancy counts a space. One read of all its pages. ok is false if no space has the name.
func (s *Service) Occupancy(ctx context.Context, name string) (o Occupancy, ok bool, err error) {
	sp := s.spaces[name]
	if sp == nil {
		return Occupancy{}, false, nil
	}
	seen, err := s.read(ctx, sp, geometry.all)
	if err != nil {
		return Occupancy{}, false, err
	}
	return sp.occupancy(seen), true, nil
}

// Map is which units of a space are leased, and for how long. It names no holder and no secret.
type Map struct {
	Occupancy

	Layout       kazahana.Layout // of the service with the shortest sequence
	LongestLease time.Duration   // of the services

	// Pages has a digit for each unit of each page: 0 if all of it is free, otherwise how long it stays leased at most, in
	// ninths of LongestLease, rounded up; 9 also for more. Units that are divided for smaller leases count as one.
	Pages []string
}

// Map reads a space like [Service.Occupancy].
func (s *Service) Map(ctx context.Context, name string) (m Map, ok bool, err error) {
	sp := s.spaces[name]
	if sp == nil {
		return Map{}, false, nil
	}
	seen, err := s.read(ctx, sp, geometry.all)
	if err != nil {
		return Map{}, false, err
	}
	m = Map{Occupancy: sp.occupancy(seen), Layout: sp.layout, Pages: make([]string, seen.g.pages)}
	m.Layout.BitSeq = sp.minSeq
	m.Layout.BitID = sp.layout.BitNode() - sp.minSeq
	longest := int64(0) // milliseconds
	for _, id := range sp.services {
		longest = max(longest, s.services[id].LeaseDuration)
	}
	m.LongestLease = time.Duration(longest) * time.Millisecond
	for index, p := range seen.pages {
		digits := make([]byte, 0, seen.g.slots)
		for unit := range slices.Chunk(p.notBefore, 1<<p.split) {
			left := max(0, slices.Max(unit)-seen.at)
			digits = append(digits, "0123456789"[min(9, (9*left+longest-1)/longest)])
		}
		m.Pages[index] = string(digits)
	}
	return m, true, nil
}

// occupancy counts a space of which all pages were read.
func (sp *guarded) occupancy(seen view) Occupancy {
	size := min(0, sp.minSeq-seen.g.unit)
	o := Occupancy{Space: sp.name, At: time.UnixMilli(seen.at).UTC(), Units: seen.g.units() << -size,
		Services: make(map[string]int)}
	next := int64(0)
	for _, index := range slices.Sorted(maps.Keys(seen.damaged)) {
		o.Unreadable.Take(seen.damaged[index])
	}
	for index, p := range seen.pages {
		if seen.damaged[index] != nil {
			continue // none of its units become free by themselves
		}
		p = p.fit(size)
		free, n := p.runs(index, size, size, seen.at)
		o.Free += len(free)
		if n != 0 && (next == 0 || n < next) {
			next = n
		}
		for _, l := range p.held {
			if p.live(l, seen.at) {
				o.Services[l.service]++
			}
		}
	}
	o.Leased = o.Units - o.Free
	if next != 0 {
		o.NextFree = time.UnixMilli(next).UTC()
	}
	return o
}
