package kazahana

import (
	"strconv"
	"time"
)

// Stats are the counters of a generator, for its whole life. They are meant to be exported: each is a number that only
// grows, unless it says otherwise.
type Stats struct {
	ServiceID string // as in Options

	ActiveLeases    int   // now: leases that may stamp the present
	ThroughputPerMs int64 // now: IDs that they bear in a millisecond
	Fallback        bool  // now: IDs are made without a lease

	AcquireAttempts uint64
	AcquireFailures uint64
	LeasesRefused   uint64 // granted, but not usable: counted in failures, too
	EpochMismatches uint64 // of the refused, those with another epoch

	IDs           uint64 // issued, fallback IDs included
	FallbackIDs   uint64 // of them, those made without a lease
	SequenceWaits uint64 // calls that had to wait because the millisecond's IDs were used up

	ClockBackward uint64        // steps back of the wall clock by a millisecond or more
	LastBackward  time.Duration // the size of the last one
	ClockForward  uint64        // jumps forward by a second or more, such as after suspension
}

// Stats returns the counters. Calls that are under way may be missing.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.stats
	st.ServiceID = g.set.ServiceID
	now := g.millis()
	for _, h := range g.held {
		if !g.closed && h.from <= now && now < h.until {
			st.ActiveLeases++
			st.ThroughputPerMs += h.Throughput()
		}
	}
	s, state := g.segment.Load(), g.state.Load()
	st.Fallback = s.fallback
	open := s.taken(state)
	st.IDs = uint64(max(0, g.issued.Load()+open))
	fallbacks := g.fallbacks.Load()
	if s.fallback {
		fallbacks += open
	}
	st.FallbackIDs = uint64(max(0, fallbacks))
	return st
}

// EventKind is what happened.
type EventKind int

// The kinds of events. Each says which members of [Event] it fills.
const (
	EventAcquired      EventKind = iota + 1 // Leases came into force
	EventAcquireFailed                      // Err says why; the next attempt follows by itself
	EventLeaseRefused                       // Err says what is wrong with a lease that was granted
	EventFallback                           // from now on IDs are made without a lease; Err is the last failure to acquire
	EventRecovered                          // fallback is over
	EventClockBackward                      // the wall clock made a Step back, which is negative
	EventClockForward                       // the wall clock made a Step of a second or more; leases are replaced
	EventReleased                           // Leases were given back
	EventReleaseFailed                      // Err says why a lease was not given back; it runs out by itself
)

// String is a word for logs.
func (k EventKind) String() string {
	switch k {
	case EventAcquired:
		return "acquired"
	case EventAcquireFailed:
		return "acquire failed"
	case EventLeaseRefused:
		return "lease refused"
	case EventFallback:
		return "fallback"
	case EventRecovered:
		return "recovered"
	case EventClockBackward:
		return "clock backward"
	case EventClockForward:
		return "clock forward"
	case EventReleased:
		return "released"
	case EventReleaseFailed:
		return "release failed"
	default:
		return "event " + strconv.Itoa(int(k))
	}
}

// Event is something that operators want to know.
type Event struct {
	Kind   EventKind
	Leases int
	Step   time.Duration
	Err    error
}

// note keeps an event until mu is free. The caller holds mu.
func (g *Generator) note(e Event) {
	if g.set.OnEvent != nil {
		g.events = append(g.events, e)
	}
}

// unlock frees mu and tells what happened meanwhile.
func (g *Generator) unlock() {
	events := g.events
	g.events = nil
	g.mu.Unlock()
	for _, e := range events {
		g.set.OnEvent(e)
	}
}

// tell tells an event at once.
func (g *Generator) tell(e Event) {
	if g.set.OnEvent != nil {
		g.set.OnEvent(e)
	}
}
