package kazahana

import (
	"context"
	"math"
	"runtime"
	"time"
)

// Clock is the source of time of a [Generator]. Its methods may be called from several goroutines at once.
//
// The generator compares the wall clock with the monotonic clock about once a second and otherwise reads the monotonic
// clock only, which is cheaper. Waiting is done by the timers of package time, after which the clock is read again.
type Clock interface {
	Wall() time.Time          // the time of day; may be set forward and back at any time
	Monotonic() time.Duration // since an arbitrary start; never goes back
}

const (
	anchorEvery = time.Second // between two samples of the wall clock
	// a step forward of at least that size means suspension, a resumed snapshot or a set clock
	jump            = time.Second
	maxSampleError  = time.Millisecond       // a sample of the wall clock that took longer is discarded
	goodSampleError = 100 * time.Microsecond // one that took less is good enough
	maxSamples      = 5                      // at most, for a good one

	spinBelow = 100 * time.Microsecond // timers end up to a millisecond late, so shorter waits spin
	spins     = 400
	maxNap    = 100 * time.Millisecond // after which a wait reads the clock again, which may have been set
)

// monotonic reads the monotonic clock.
func (g *Generator) monotonic() int64 {
	if g.clock == nil {
		return int64(time.Since(g.start))
	}
	return int64(g.clock.Monotonic())
}

func (g *Generator) wall() time.Time {
	if g.clock == nil {
		return time.Now()
	}
	return g.clock.Wall()
}

// nanos is the time in nanoseconds since the epoch, by the monotonic clock and the last sample of the wall clock.
func (g *Generator) nanos() int64 { return g.monotonic() + g.base.Load() }

// sample returns what to add to the monotonic clock for the nanoseconds since the epoch. A goroutine that is
// interrupted between reading the two clocks would see the wall clock step, so the monotonic clock is read before and
// after, and the best of a few samples is taken. ok is false if none was good.
func (g *Generator) sample() (base int64, ok bool) {
	best := int64(math.MaxInt64)
	for range maxSamples {
		before := g.monotonic()
		wall := g.wall()
		took := g.monotonic() - before
		if took < best {
			ms := wall.UnixMilli() - g.layout.CustomEpoch
			best, base = took, ms*int64(time.Millisecond)+int64(wall.Nanosecond()%int(time.Millisecond))-before
		}
		if best <= int64(goodSampleError) {
			break
		}
	}
	return base, best <= int64(maxSampleError)
}

// anchor samples the wall clock if that is due or force is set, and notes its steps. The caller holds mu.
func (g *Generator) anchor(force bool) {
	now := g.monotonic()
	if now < g.anchorAt.Load() && !force {
		return
	}
	if base, ok := g.sample(); ok {
		switch step := time.Duration(base - g.base.Load()); {
		case step <= -time.Millisecond:
			g.stats.ClockBackward++
			g.stats.LastBackward = -step
			g.note(Event{Kind: EventClockBackward, Step: step})
		case step >= jump:
			g.stats.ClockForward++
			g.note(Event{Kind: EventClockForward, Step: step})
			g.markSuspect()
		}
		g.base.Store(base)
	}
	g.anchorAt.Store(now + int64(anchorEvery))
}

// checkWall compares the wall clock with the last ID, where no step back is allowed. One millisecond may be the error
// of the sample that the ID was made with.
func (g *Generator) checkWall() error {
	at := g.wall().UnixMilli() - g.epoch.Load()
	last := int64(g.state.Load() &^ lock >> g.segment.Load().shift) //nolint:gosec // 41 bits or so
	if last-at <= 1 {
		return nil
	}
	g.mu.Lock()
	defer g.unlock()
	if g.closed {
		return ErrClosed
	}
	g.anchor(true)
	return &ClockBackwardError{BackwardMs: last - at}
}

// markSuspect is called after a jump forward. The process may have been suspended, or this may be a copy of it that was
// resumed from a snapshot while the original goes on with the same leases: they are replaced as soon as the provider
// can be asked.
func (g *Generator) markSuspect() {
	if len(g.held) == 0 {
		return
	}
	for _, h := range g.held {
		h.suspect = true
	}
	g.wake()
}

// wait returns when the clock has reached a millisecond, or a bit earlier; the caller checks again. An error is the
// context's.
func (g *Generator) wait(ctx context.Context, ms uint64) error {
	left := func() time.Duration {
		return time.Duration(min(int64(ms), farAway)*int64(time.Millisecond) - g.nanos()) //nolint:gosec // 41 bits or so
	}
	d := left()
	if d <= spinBelow {
		for range spins {
			if d <= 0 {
				return nil
			}
			runtime.Gosched()
			d = left()
		}
	}
	d = max(min(d, maxNap), time.Microsecond)
	if d < 2*time.Millisecond || ctx.Done() == nil {
		time.Sleep(d)
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const farAway = 1 << 43 // ms; more would overflow as nanoseconds
