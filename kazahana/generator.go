package kazahana

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Generator makes IDs. Its methods may be called from several goroutines at once.
type Generator struct {
	set      settings
	provider LeaseProvider // nil means standalone
	clock    Clock         // nil means the system's
	start    time.Time     // of the monotonic clock
	epoch    atomic.Int64  // Unix milliseconds, of the layout

	// What each call reads.
	segment  atomic.Pointer[segment]
	base     atomic.Int64 // what to add to the monotonic clock for the nanoseconds since the epoch
	anchorAt atomic.Int64 // when to sample the wall clock again, on the monotonic clock

	_ [64]byte // what each call writes stays apart from what each call reads

	state     atomic.Uint64
	crowded   atomic.Uint64 // the millisecond that was opened when the one before was used up
	issued    atomic.Int64  // in milliseconds before that of the state
	fallbacks atomic.Int64  // of them

	_ [64]byte

	// mu guards what follows, and all changes of segments.
	mu       sync.Mutex
	stats    Stats
	events   []Event       // to be reported when mu is unlocked
	lines    []func()      // of the log, likewise
	held     []*held       // the leases, expired ones included until others take their place
	cached   []*held       // the expired leases that were replaced last; for fallback IDs
	leased   bool          // there has been a lease
	outage   outage        // of the provider
	layout   Layout        // of the last lease; before the first one by the options
	settled  bool          // IDs may have been issued: the layout no longer changes
	closed   bool          // for good
	failures int           // in a row
	failure  error         // the last one
	trying   bool          // an acquire is under way
	since    int64         // on the monotonic clock: when it began, or IDs waited for it first; negative if neither
	tried    chan struct{} // closed when the next acquire has ended
	tryAt    int64         // on the monotonic clock: no acquire before

	woken chan struct{} // wakes the background goroutine
	stop  context.CancelFunc
	done  chan struct{} // closed when that goroutine has ended
}

// New returns a generator. With a provider it begins to acquire leases in the background, and [Generator.Close] must be
// called at the end; without one it is standalone and makes fallback IDs only. Options may be nil.
//
// Settings that cannot work are errors, a [NoProviderError] among them.
func New(provider LeaseProvider, o *Options) (*Generator, error) {
	s, err := o.settings()
	if err != nil {
		return nil, err
	}
	if provider == nil && s.DisableFallback {
		return nil, &NoProviderError{}
	}
	g := &Generator{
		set: s, layout: s.layout, provider: provider, clock: s.Clock, start: time.Now(),
		since: -1, tried: make(chan struct{}), woken: make(chan struct{}, 1), done: make(chan struct{}), stop: func() {},
	}
	g.segment.Store(g.open())
	g.rebase()
	if provider == nil {
		close(g.done)
		return g, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go g.renew(ctx)
	return g, nil
}

// rebase reads the clocks for the epoch of the layout, before the first ID.
func (g *Generator) rebase() {
	g.epoch.Store(g.layout.CustomEpoch)
	base, _ := g.sample() // on an overloaded machine the best there is, until the next sample
	g.base.Store(base)
	g.anchorAt.Store(g.monotonic() + int64(anchorEvery))
}

// NextID returns an ID larger than all that this generator returned before.
//
// It waits for the next millisecond when this one's IDs are used up, for a clock that was set back (see
// [Options.MaxBackwardMs]), and, if there is no lease and no attempt has failed yet, for the attempt's outcome: for a
// second at most, unless [Options.DisableFallback] is set. The context bounds the waiting and nothing else. Errors are
// the context's, a [ClockBackwardError], a [LeaseAcquisitionError], a [ConfigurationError], [ErrTimeRange] and
// [ErrClosed].
func (g *Generator) NextID(ctx context.Context) (ID, error) {
	if g.set.backward == 0 {
		if err := g.checkWall(); err != nil {
			return 0, err
		}
	}
	for late := false; ; {
		if s, at, _ := g.take(1, late); s != nil {
			return s.id(at), nil
		}
		var err error
		if late, err = g.settle(ctx); err != nil {
			return 0, err
		}
	}
}

// NextIDs fills a slice with IDs in ascending order, as so many calls of [Generator.NextID] would, at a fraction of the
// cost. IDs of other callers may lie between them. After an error, use none of the slice.
func (g *Generator) NextIDs(ctx context.Context, ids []ID) error {
	if g.set.backward == 0 {
		if err := g.checkWall(); err != nil {
			return err
		}
	}
	for late := false; len(ids) > 0; {
		if s, at, n := g.take(uint64(len(ids)), late); s != nil {
			s.fill(ids[:n], at)
			ids = ids[n:]
			continue
		}
		var err error
		if late, err = g.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// oversleep is how long, in milliseconds, the millisecond after one that was used up stays open: callers who waited for
// it often come late, as timers do, and skipping it would cost throughput just where it is short.
const oversleep = 4

// take reserves up to n indices of one millisecond, from the state at on, without locks and without waiting. It returns
// no segment if that is not possible now; settle finds out why. late allows to go on at a last millisecond that the
// clock has not reached again.
//
// The segment is read before and after the state was advanced: if it is the same, then it was in force in between, for
// install changes it under a lock in the state that no advance gets past. So an index is never read by a segment that
// its millisecond does not lie in.
func (g *Generator) take(n uint64, late bool) (s *segment, at, got uint64) {
	s = g.segment.Load() // before the clock, so that tests can change it in between
	steady := g.monotonic()
	if steady >= g.anchorAt.Load() {
		return nil, 0, 0
	}
	//nolint:gosec // before the epoch it is far beyond every segment
	now := uint64(steady+g.base.Load()) / uint64(time.Millisecond)
	for ; ; s = g.segment.Load() {
		state := g.state.Load()
		last, index := state>>s.shift, state&s.mask
		room := s.room(last)
		if last >= s.until || last > now+1 && !late { // beyond every segment, if the lock is set
			return nil, 0, 0
		}
		next := s.from
		if now > g.set.window {
			next = max(next, now-g.set.window)
		}
		if last < next && last+oversleep >= next {
			if index >= room {
				next = max(s.from, last+1)
			} else if last >= s.from && g.crowded.Load() == last {
				next = last
			}
		}
		switch {
		case last >= next && index < room && n == 1: // the common case under load: it cannot lose a race
			at, got = g.state.Add(1)-1, 1
		case last >= next && index < room:
			at, got = state, min(n, room-index)
			if !g.state.CompareAndSwap(state, at+got) {
				continue
			}
		default:
			next = max(next, last+1)
			if next > now || next >= s.until {
				return nil, 0, 0
			}
			closes := g.segment.Load() // the segment of the state's millisecond, unless the swap fails
			at, got = next<<s.shift, min(n, s.room(next))
			if !g.state.CompareAndSwap(state, at+got) {
				continue
			}
			g.count(closes, state)
			if next == last+1 && index >= room && index < s.sealed() {
				g.crowded.Store(next)
			}
		}
		ms, index := at>>s.shift, at&s.mask
		if g.segment.Load() == s && index < s.room(ms) && s.from <= ms && ms < s.until {
			return s, at, got
		}
		// Overtaken: by install, by callers that took the last index, or by one that read the segment before this one.
		owner := s.owner(ms)
		if room := owner.room(ms); at&lock == 0 && index < room { // the caller that closes the millisecond counts it
			g.add(owner, -int64(min(got, room-index)))
		}
	}
}

// count adds up the millisecond that a state closes.
func (g *Generator) count(s *segment, state uint64) { g.add(s, s.taken(state)) }

func (g *Generator) add(s *segment, n int64) {
	g.issued.Add(n)
	if s.fallback {
		g.fallbacks.Add(n)
	}
}

const lock = uint64(1) << 63

// errSlow is why there are fallback IDs although no attempt to acquire has failed.
var errSlow = errors.New("the lease provider has not responded within a second")

// install puts a segment into force, after all issued IDs. build gets the first millisecond that the segment may
// begin with; where it finds none, none is in force. The caller holds mu.
func (g *Generator) install(build func(from uint64) *segment) bool {
	old := g.segment.Load()
	state := g.state.Or(lock) // from here on no index is handed out
	g.count(old, state)
	last := state >> old.shift
	from := g.millis()
	from = max(from-min(from, g.set.window), last+1)
	s := build(from)
	if s == nil {
		s = g.open()
	}
	s.since = last + 1
	old.next.Store(s)
	g.segment.Store(s)
	g.state.Store(last<<s.shift | s.sealed())
	switch g.settled = g.settled || s.cap > 0; {
	case s.fallback && !old.fallback && g.provider != nil:
		g.note(Event{Kind: EventFallback, Err: cmp.Or(g.failure, errSlow)})
	case old.fallback && s.leases > 0:
		g.note(Event{Kind: EventRecovered})
	}
	return s.cap > 0
}

// millis is the clock's time in milliseconds since the epoch; 0 before it.
func (g *Generator) millis() uint64 {
	return uint64(max(0, g.nanos())) / uint64(time.Millisecond)
}

// settle finds out why take returned nothing, and acts: it samples the wall clock, changes the segment, waits, or
// returns the error for the caller. late is passed on to take.
func (g *Generator) settle(ctx context.Context) (late bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	g.mu.Lock()
	v := g.diagnose()
	g.unlock()
	switch {
	case v.err != nil:
		return false, v.err
	case v.attempt != nil:
		timer := time.NewTimer(v.within) // after that the clock may show that no attempt is needed
		defer timer.Stop()
		select {
		case <-v.attempt:
			return false, nil
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	case v.until > 0:
		return v.late, g.wait(ctx, v.until)
	default:
		return v.late, nil
	}
}

// action says what settle has to do. The zero action means: try again at once.
type action struct {
	err     error
	attempt <-chan struct{} // wait for the end of an attempt to acquire
	within  time.Duration   // but no longer than that
	until   uint64          // wait for a millisecond
	late    bool            // go on at the last millisecond, though the clock was set back behind it
}

// gap is how far, in milliseconds, the clock may be behind the beginning of a lease for callers to wait for it; a
// larger gap is filled with fallback IDs.
const gap = 100

// latestStart is the last millisecond at which a lease may begin for callers to wait for it.
func (g *Generator) latestStart(now uint64) uint64 {
	if g.set.DisableFallback {
		return math.MaxUint64
	}
	return now + gap
}

// diagnose decides what settle does. The caller holds mu.
func (g *Generator) diagnose() action {
	if g.closed {
		return action{err: ErrClosed}
	}
	g.anchor(false)
	nanos := g.nanos()
	if nanos < 0 {
		return action{err: ErrTimeRange}
	}
	now := uint64(nanos) / uint64(time.Millisecond)
	s := g.segment.Load()
	state := g.state.Load()
	last, index := state>>s.shift, state&s.mask
	late := last > now+1
	// A clock behind the last ID was set back; one behind the segment's beginning is behind the provider's.
	//nolint:gosec // 41 bits or so
	if behind := int64(last - now); late && g.set.backward >= 0 && behind > g.set.backward {
		return action{err: &ClockBackwardError{BackwardMs: behind, LimitMs: g.set.backward}}
	}
	if most := max(g.set.backward, g.set.skew); s.from > now && g.set.backward >= 0 &&
		int64(s.from-now) > most { //nolint:gosec // 41 bits or so
		//nolint:gosec // 41 bits or so
		return action{err: &ClockBackwardError{BackwardMs: int64(s.from - now), LimitMs: most}}
	}
	room := s.room(last)
	next := max(s.from, now-min(now, g.set.window)) // the millisecond of the next ID, if the segment goes on
	if last >= next {
		next = last
		if index >= room {
			next = last + 1
		}
	}
	switch {
	case next > now && (!late || index >= room):
		if index >= room && index < s.sealed() {
			g.stats.SequenceWaits++
		}
		return action{until: next, late: late}
	case next >= s.until:
		return g.change(now)
	default:
		return action{late: late}
	}
}

// change leaves the segment for the one that now lies in, if there is one. The caller holds mu.
func (g *Generator) change(now uint64) action {
	switch {
	case now >= 1<<g.layout.BitTs:
		return action{err: ErrTimeRange}
	case g.install(func(from uint64) *segment { return g.build(from, g.latestStart(now)) }):
		return action{}
	case g.provider != nil:
		g.wake()
		switch {
		case g.set.DisableFallback && (g.failures == 0 && !g.coming(now) || g.trying):
			return action{attempt: g.tried, within: anchorEvery}
		case !g.set.DisableFallback && g.failures == 0 && !g.coming(now):
			if left := g.patience(); left > 0 {
				return action{attempt: g.tried, within: left}
			}
		case g.set.DisableFallback:
			return action{err: &LeaseAcquisitionError{Cause: g.failure}}
		case !g.leased && errors.Is(g.failure, ErrConfiguration):
			return action{err: &ConfigurationError{Cause: g.failure}}
		}
	}
	g.install(g.buildFallback)
	return action{}
}

// patienceTime is how long IDs wait for an attempt to acquire where there is a fallback, whatever the provider does.
const patienceTime = time.Second

// patience is how much longer IDs wait for the attempt that is under way, or that has been asked for. The caller holds
// mu.
func (g *Generator) patience() time.Duration {
	now := g.monotonic()
	if g.since < 0 {
		g.since = now
	}
	return patienceTime - time.Duration(now-g.since)
}

// coming reports whether a lease is held that begins later.
func (g *Generator) coming(now uint64) bool {
	return slices.ContainsFunc(g.held, func(h *held) bool { return now < h.from })
}

// Layout is how this generator's IDs are laid out: by its leases, or before the first one by its options. With mixed
// leases BitID and BitSeq are those of the last one.
func (g *Generator) Layout() Layout {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.layout
}

// Close stops the generator for good: it issues no more IDs, then releases the leases that have not expired. Calls of
// NextID return [ErrClosed]. The context bounds the releases; a lease that is left expires by itself, and the error
// says so. Closing again does nothing.
func (g *Generator) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.install(func(uint64) *segment { return nil })
	g.unlock()

	g.stop()
	select {
	case <-g.done: // an acquire that was under way may have brought more leases
	case <-ctx.Done():
		return errors.Join(errors.New("an attempt to acquire leases is still under way"), ctx.Err())
	}
	g.mu.Lock()
	held := g.held
	g.held = nil
	g.mu.Unlock()
	return g.release(ctx, held)
}
