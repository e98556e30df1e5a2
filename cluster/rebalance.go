package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

// Rebalance are the bounds within which a member hands over what it has and the current epoch places elsewhere, so that
// load follows the table after joins and restarts. Each is a hand-over as at a drain: what has begun is finished first,
// for [Options.Grace] at most, and the next member has the state. The zero value works.
type Rebalance struct {
	// PerSecond is how many identities the member hands over in a second at most, up to 1000; 0 means 10. Of those that
	// are elsewhere it hands over a half, looks at the epoch again, and goes on with the rest.
	PerSecond int

	// AtOnce is how many it hands over at a time, up to 16; 0 means 4.
	AtOnce int

	// Calm is how long the epoch must have stayed the same; 0 means 20 s. It should be longer than a restart in a rolling
	// deployment takes, so that nothing moves twice.
	Calm time.Duration
}

func (r *Rebalance) complete() error {
	r.PerSecond, r.AtOnce = cmp.Or(r.PerSecond, 10), cmp.Or(r.AtOnce, 4)
	r.Calm = cmp.Or(r.Calm, 20*time.Second)
	switch {
	case r.PerSecond < 0 || r.PerSecond > 1000:
		return fmt.Errorf("Options.Rebalance.PerSecond is %d: must be up to 1000", r.PerSecond)
	case r.AtOnce < 0 || r.AtOnce > handOvers:
		return fmt.Errorf("Options.Rebalance.AtOnce is %d: must be up to %d", r.AtOnce, handOvers)
	case r.Calm < 0:
		return fmt.Errorf("Options.Rebalance.Calm is %v: must not be negative", r.Calm)
	}
	return nil
}

// errMoved is why an activation ends that is handed over to where the epoch places it.
var errMoved = errors.New("the current epoch places the identity on another member")

// balanceEvery is how often a member that rebalances asks for the epoch.
const balanceEvery = 2 * time.Second

// calm is an epoch by which a member looks where its activations are placed.
type calm struct {
	epoch int64
	began contracts.Time // tells two epochs of one number apart
	since time.Time      // when it was seen first, on the monotonic clock
}

// rebalance hands over what an incarnation has and the epoch places elsewhere.
func (m *Member) rebalance(l *incarnation) {
	r := m.o.Rebalance
	var c *calm
	room := make(chan struct{}, r.AtOnce)
	for sleep(l.Context(), balanceEvery) {
		asking, cancel := context.WithTimeout(l.Context(), hold.CallTime)
		list, err := m.provider.Members(asking)
		cancel()
		now := m.o.clock().Time()
		switch {
		case err != nil:
			if l.Context().Err() == nil {
				m.failed(Event{Incarnation: l.number}, "members", err)
			}
			continue
		case c == nil || list.Epoch != c.epoch || list.ChangedAt != c.began:
			c = &calm{list.Epoch, list.ChangedAt, now}
			m.mu.Lock()
			l.stays = map[Identity]struct{}{}
			m.mu.Unlock()
		}
		if now.Sub(c.since) >= r.Calm && list.Status == contracts.ClusterReady && m.ready() == nil {
			m.handOverHalf(l, c, room)
		}
	}
}

// handOverHalf hands over a half of what is placed elsewhere, and no more than the time until the next look allows.
func (m *Member) handOverHalf(l *incarnation, c *calm, room chan struct{}) {
	r := m.o.Rebalance
	away := m.placedElsewhere(l, c)
	every := time.Second / time.Duration(r.PerSecond)
	most := max(1, int(balanceEvery/every))
	for n, a := range away[:min((len(away)+1)/2, most)] {
		if n > 0 && !sleep(l.Context(), every) {
			return
		}
		select {
		case room <- struct{}{}:
		case <-l.Context().Done():
			return
		}
		if !m.handAway(l, a, func() { <-room }) {
			<-room
		}
	}
}

// placedElsewhere are the activations that the epoch places on other members. It asks for each once in an epoch, and
// for so many at a time as it would hand over in ten seconds.
func (m *Member) placedElsewhere(l *incarnation, c *calm) (away []*activation) {
	asked := 0
	for _, a := range m.all() {
		m.mu.Lock()
		_, stays := l.stays[a.Identity]
		need := a.need
		m.mu.Unlock()
		if stays || !m.serves(a.Identity) {
			continue
		}
		if a.placedBy != c {
			if asked++; asked > 10*m.o.Rebalance.PerSecond {
				continue
			}
			q := Query{Epoch: c.epoch}
			q.Labels, q.Prefer = need.labels()
			asking, cancel := context.WithTimeout(l.Context(), hold.CallTime)
			p, err := m.provider.Lookup(asking, a.Kind, a.ID, q)
			cancel()
			switch {
			case errors.Is(err, contracts.CodeStaleEpoch):
				return nil
			case err != nil: // the next turn asks again
				m.failed(Event{Incarnation: l.number, Identity: a.Identity}, "lookup", err)
				return away
			}
			a.placedBy = c
			a.away = p.Placed != nil && (p.Placed.Member != l.name || p.Placed.Incarnation != l.number)
		}
		if a.away {
			away = append(away, a)
		}
	}
	return away
}

// handAway begins to hand over an activation, and reports whether it did. over is called when it is over.
func (m *Member) handAway(l *incarnation, a *activation, over func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.closed || a.ending {
		return false
	}
	a.ending = true
	l.work.Go(func() {
		defer over()
		m.conclude(l.Context(), a, errMoved, nil)
	})
	return true
}
