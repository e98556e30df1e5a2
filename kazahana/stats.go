package kazahana

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"
)

// Stats are the counters of a generator, since it was made. They are meant to be exported as metrics: each only
// grows, unless its comment says otherwise.
type Stats struct {
	ServiceID string // as in Options

	ActiveLeases    int   // now: leases whose interval contains the present
	ThroughputPerMs int64 // now: IDs per millisecond under them
	Fallback        bool  // now: IDs are made without a lease

	AcquireAttempts uint64
	AcquireFailures uint64
	LeasesRejected  uint64 // granted, but rejected: counted in failures, too
	// leases with another epoch than the IDs before: rejected, but for the first lease after fallback IDs
	EpochMismatches uint64

	IDs           uint64 // issued, fallback IDs included
	FallbackIDs   uint64 // of them, those made without a lease
	SequenceWaits uint64 // waits because the millisecond's IDs were used up

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
	EventAcquired      EventKind = iota + 1 // Leases took effect
	EventAcquireFailed                      // Err says why; the next attempt follows by itself
	EventLeaseRejected                      // Err says what is wrong with a lease that was granted
	EventFallback                           // from now on IDs are made without a lease; Err is the last failure to acquire
	EventRecovered                          // IDs are made under leases again
	EventClockBackward                      // the wall clock made a Step back, which is negative
	EventClockForward                       // the wall clock made a Step of a second or more; leases are replaced
	EventReleased                           // Leases were released
	EventReleaseFailed                      // Err says why a lease was not released; it expires by itself
	// EventEpochChanged:
	// the first lease has an earlier epoch than the fallback IDs before it; Err says which
	EventEpochChanged
)

// String is a word for logs.
func (k EventKind) String() string {
	switch k {
	case EventAcquired:
		return "acquired"
	case EventAcquireFailed:
		return "acquire failed"
	case EventLeaseRejected:
		return "lease rejected"
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
	case EventEpochChanged:
		return "epoch changed"
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

// note keeps an event until mu is unlocked. The caller holds mu.
func (g *Generator) note(e Event) {
	if g.set.Observe != nil {
		g.events = append(g.events, e)
	}
}

// line keeps a line of the log until mu is unlocked. The caller holds mu.
func (g *Generator) line(level slog.Level, text string, attrs ...slog.Attr) {
	attrs = append([]slog.Attr{slog.String("service", cmp.Or(g.set.ServiceID, "default"))}, attrs...)
	g.lines = append(g.lines, func() { g.set.Log.LogAttrs(context.Background(), level, text, attrs...) })
}

// unlock unlocks mu and reports what occurred meanwhile.
func (g *Generator) unlock() {
	events, lines := g.events, g.lines
	g.events, g.lines = nil, nil
	g.mu.Unlock()
	for _, log := range lines {
		log()
	}
	for _, e := range events {
		g.set.Observe(e)
	}
}

// tell reports an event at once.
func (g *Generator) tell(e Event) {
	if g.set.Observe != nil {
		g.set.Observe(e)
	}
}
