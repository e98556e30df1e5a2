package machineid

import (
	"context"
	"time"
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
	size := min(0, sp.minSeq-seen.g.unit)
	o = Occupancy{Space: name, At: time.UnixMilli(seen.at).UTC(), Units: seen.g.units() << -size, Services: make(map[string]int)}
	next := int64(0)
	for index, p := range seen.pages {
		p = p.fit(size)
		free, n := p.runs(index, size, seen.at)
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
	return o, true, nil
}
