package idsim

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// maxSkew is how far a clock is from the present at most.
const maxSkew = 5 * time.Second

// Clock is the clock of one machine, over the time of the bubble: it runs a bit too fast or too slow, and its time of
// day can be set.
type Clock struct {
	start time.Time
	drift float64
	off   atomic.Int64 // of the time of day, nanoseconds
}

var _ kazahana.Clock = (*Clock)(nil)

// NewClock draws a clock that is anywhere within a bound. Its drift is at most that of clocks which NTP slews, 500 ppm;
// over a run of minutes that is tenths of a second.
func NewClock(random *rand.Rand, bound time.Duration) *Clock {
	c := &Clock{start: time.Now().Round(0), drift: (2*random.Float64() - 1) * 500e-6}
	c.off.Store(within(random, bound))
	return c
}

// Monotonic implements [kazahana.Clock].
func (c *Clock) Monotonic() time.Duration {
	d := time.Since(c.start)
	return d + time.Duration(float64(d)*c.drift)
}

// Wall implements [kazahana.Clock].
func (c *Clock) Wall() time.Time { return c.start.Add(c.Monotonic() + time.Duration(c.off.Load())) }

// step sets the clock anew: mostly as NTP does, a few milliseconds away, else anywhere within the bound.
func (c *Clock) step(random *rand.Rand, bound time.Duration) {
	off := within(random, bound)
	if random.IntN(2) == 0 {
		off = max(-int64(bound), min(c.off.Load()+within(random, 20*time.Millisecond), int64(bound)))
	}
	c.off.Store(off)
}

// within draws nanoseconds from -bound to bound.
func within(random *rand.Rand, bound time.Duration) int64 {
	return int64((2*random.Float64() - 1) * float64(bound))
}

// exponential draws a duration with a mean, five times that at most.
func exponential(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(min(random.ExpFloat64(), 5) * float64(mean))
}
