package kazahana

import (
	"context"
	"math"
	"runtime"
	"time"
)

// Clock is where a [Generator] takes its time from. Its methods may be called from several goroutines at once.
//
// Between two looks at the wall clock, about a second apart, the generator reads the steady clock only: that is cheaper, and
// a wall clock that is set is noticed at one place. Waiting is done by the real timers of package time, after which the clock
// is read again.
type Clock interface {
	Wall() time.Time       // the time of day; may be set forward and backward at any moment
	Steady() time.Duration // since a moment of its own choice; never runs backward
}

const (
	anchorEvery = time.Second            // between two looks at the wall clock
	jump        = time.Second            // a step forward of that size means suspension, a resumed snapshot or a set clock
	blur        = time.Millisecond       // a look at the wall clock that took longer says nothing
	sharp       = 100 * time.Microsecond // one that took less is good enough
	looks       = 5                      // at most, for a sharp one

	spinBelow = 100 * time.Microsecond // timers end up to a millisecond late, so very short waits do without for so many turns
	spins     = 400
	maxNap    = 100 * time.Millisecond // after which a wait looks at the clock again, which may have been set
)

// steady reads the steady clock.
func (g *Generator) steady() int64 {
	if g.clock == nil {
		return int64(time.Since(g.start))
	}
	return int64(g.clock.Steady())
}

func (g *Generator) wall() time.Time {
	if g.clock == nil {
		return time.Now()
	}
	return g.clock.Wall()
}

// nanos is the time in nanoseconds since the epoch, by the steady clock and the last look at the wall clock.
func (g *Generator) nanos() int64 { return g.steady() + g.base.Load() }

// look returns what to add to the steady clock for the nanoseconds since the epoch. A goroutine that is interrupted between
// reading the two clocks would see the wall clock step, so the steady clock is read before and after, and the best of a few
// looks is taken. ok is false if none was good.
func (g *Generator) look() (base int64, ok bool) {
	best := int64(math.MaxInt64)
	for range looks {
		before := g.steady()
		wall := g.wall()
		took := g.steady() - before
		if took < best {
			ms := wall.UnixMilli() - g.layout.CustomEpoch
			best, base = took, ms*int64(time.Millisecond)+int64(wall.Nanosecond()%int(time.Millisecond))-before
		}
		if best <= int64(sharp) {
			break
		}
	}
	return base, best <= int64(blur)
}

// anchor looks at the wall clock if that is due, or if force says so, and notes its steps. The caller holds mu.
func (g *Generator) anchor(force bool) {
	now := g.steady()
	if now < g.anchorAt.Load() && !force {
		return
	}
	if base, ok := g.look(); ok {
		switch step := time.Duration(base - g.base.Load()); {
		case step <= -time.Millisecond:
			g.stats.ClockBackward++
			g.stats.LastBackward = -step
			g.note(Event{Kind: EventClockBackward, Step: step})
		case step >= jump:
			g.stats.ClockForward++
			g.note(Event{Kind: EventClockForward, Step: step})
			g.doubt()
		}
		g.base.Store(base)
	}
	g.anchorAt.Store(now + int64(anchorEvery))
}

// doubt is called after a jump forward. The process may have been suspended, or this may be a copy of it that was resumed
// from a snapshot while the original goes on with the same leases: they are replaced as soon as the provider can be asked.
func (g *Generator) doubt() {
	if len(g.held) == 0 {
		return
	}
	for _, h := range g.held {
		h.doubtful = true
	}
	g.wake()
}

// wait returns when the clock has reached a millisecond, or a bit earlier; the caller looks again. An error is the context's.
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
