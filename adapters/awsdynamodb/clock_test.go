package awsdynamodb

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// fakeClock is a caller's clock that is off from the true time, and a monotonic one that stands while the machine
// sleeps.
type fakeClock struct {
	truth time.Time
	off   time.Duration // what the caller's clock shows beyond the truth
	slept time.Duration

	gained time.Duration // by both
}

func (f *fakeClock) clock(bound time.Duration) *clock {
	c := newClock(nil, bound)
	c.read = func() (time.Time, time.Duration) {
		return f.truth.Add(f.off + f.gained), f.truth.Sub(noon) - f.slept + f.gained
	}
	return c
}

// covers looks at the clock: the truth must lie within the bounds, which are returned with the width that they leave.
func (f *fakeClock) covers(t *testing.T, c *clock) (r reading, width time.Duration) {
	t.Helper()
	r, err := c.look()
	if err != nil {
		t.Fatalf("%v: %+v", err, c.skew())
	}
	if f.truth.Before(r.earliest) || f.truth.After(r.latest) {
		t.Fatalf("the truth %v is not between %v and %v", f.truth, r.earliest, r.latest)
	}
	return r, r.latest.Sub(r.earliest)
}

// exchange is a request that takes there and back, answered with the Date of the moment between.
func (f *fakeClock) exchange(c *clock, there, back time.Duration) {
	begin := c.start()
	f.truth = f.truth.Add(there)
	date := f.truth.Truncate(time.Second)
	f.truth = f.truth.Add(back)
	c.learn(begin, date)
}

// TestTheLatestTimeDoesNotGoBack: although responses narrow the bounds; but when the clock was set, nothing is known.
func TestTheLatestTimeDoesNotGoBack(t *testing.T) {
	f := &fakeClock{truth: noon}
	c := f.clock(time.Second)
	f.exchange(c, time.Millisecond, time.Millisecond)
	last, widest := f.covers(t, c)
	for range 20 {
		f.truth = f.truth.Add(470 * time.Millisecond)
		for range 2 { // before another response, and after it
			r, width := f.covers(t, c)
			if r.latest.Before(last.latest) || width > widest+time.Millisecond {
				t.Fatalf("%v after %v, %v wide", r.latest, last.latest, width)
			}
			last = r
			f.exchange(c, time.Millisecond, time.Millisecond)
		}
	}
	f.off = -10 * time.Second
	if _, err := c.look(); !errors.Is(err, errUnmeasured) {
		t.Errorf("after the clock was set: %v", err)
	}
}

func TestClockIsLeftAloneWhenRight(t *testing.T) {
	f := &fakeClock{truth: noon}
	c := f.clock(time.Second)
	if _, err := c.look(); !errors.Is(err, errUnmeasured) {
		t.Fatalf("before the first answer: %v", err)
	}
	for range 100 {
		f.exchange(c, 7*time.Millisecond, 5*time.Millisecond)
		f.truth = f.truth.Add(333 * time.Millisecond)
		if f.covers(t, c); !c.after().Equal(f.truth) {
			t.Fatalf("%v, want %v", c.after(), f.truth)
		}
	}
	if s := c.skew(); s.High-s.Low > 100*time.Millisecond {
		t.Errorf("after 100 answers the bounds are %v to %v", s.Low, s.High)
	}
}

// TestClockBounds: the truth always lies between the bounds, the correction never makes the error larger, and it closes
// in on the truth, also while the clock gains or loses, is set a little or sleeps a little.
func TestClockBounds(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := &fakeClock{truth: noon.Add(rand.N(time.Second)), off: time.Duration(random.IntN(1800)-900) * time.Millisecond}
		c := f.clock(time.Second)
		gains := random.Int64N(800) - 400 // microseconds a second
		for range 60 {
			f.exchange(c, time.Duration(random.IntN(20))*time.Millisecond, time.Duration(random.IntN(20))*time.Millisecond)
			wait := time.Duration(random.IntN(700)) * time.Millisecond
			f.truth, f.off = f.truth.Add(wait), f.off+time.Duration(gains*wait.Nanoseconds()/1e6)
			r, width := f.covers(t, c)
			if left := c.after().Sub(f.truth).Abs(); left > f.off.Abs()+age(c.last, r)+time.Millisecond || left > width {
				t.Fatalf("seed %d: the correction makes %v of an error of %v, with bounds %+v", seed, left, f.off, c.skew())
			}
		}
		if s := c.skew(); s.High-s.Low > 300*time.Millisecond {
			t.Errorf("seed %d: after 60 answers the bounds are %v to %v", seed, s.Low, s.High)
		}
	}
}

// TestServersApart: the clocks of the service's servers are a little apart, and its time has whole milliseconds here.
// Where a Date leaves no more room than that, on either side, the truth lies between the bounds all the same, also a
// part of a millisecond later.
func TestServersApart(t *testing.T) {
	for _, off := range []time.Duration{0, 300 * time.Millisecond, -300*time.Millisecond - 123*time.Microsecond} {
		for name, server := range map[string]struct{ apart, shows time.Duration }{
			"ahead":  {spread, 300 * time.Microsecond},              // its second has just begun, that of the truth has not
			"behind": {-spread, time.Second - 300*time.Microsecond}, // its second is about to end, that of the truth has ended
		} {
			f := &fakeClock{truth: noon.Add(server.shows - server.apart), off: off}
			c := f.clock(time.Second)
			c.learn(c.start(), noon)
			for range 30 {
				f.covers(t, c)
				f.truth = f.truth.Add(100 * time.Microsecond)
			}
			if s := c.skew(); s.Low > -off || s.High < -off {
				t.Errorf("%s, off by %v: the bounds are %v to %v", name, off, s.Low, s.High)
			}
		}
	}
}

// TestClockMeddledWith: steps and sleeps that are too small to be noticed stay within the bounds, whenever they happen,
// and so does what a clock gains or loses in an idle hour.
func TestClockMeddledWith(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		f := &fakeClock{truth: noon.Add(random64(random, time.Second)),
			off: random64(random, 600*time.Millisecond) - 300*time.Millisecond}
		c := f.clock(time.Second)
		measure := func() { f.exchange(c, random64(random, 50*time.Millisecond), random64(random, 50*time.Millisecond)) }
		measure()
		for range 10 {
			by := random64(random, 240*time.Millisecond)
			steps := []func(){
				func() { f.off += by },
				func() { f.off -= by },
				func() { f.truth, f.slept = f.truth.Add(by), f.slept+by }, // wall time passes, monotonic time does not
			}
			step, when := steps[random.IntN(len(steps))], random.IntN(3)
			f.truth = f.truth.Add(random64(random, 5*time.Second))
			if when == 0 {
				step()
			}
			f.covers(t, c)
			begin := c.start()
			f.truth = f.truth.Add(random64(random, 50*time.Millisecond))
			date := f.truth.Truncate(time.Second)
			if when == 1 {
				step()
			}
			f.truth = f.truth.Add(random64(random, 50*time.Millisecond))
			c.learn(begin, date)
			f.covers(t, c)
			measure()
			idle := random64(random, time.Hour)
			f.truth, f.gained = f.truth.Add(idle), f.gained+idle/drift*time.Duration(random.IntN(3)-1)
			if _, err := c.look(); !errors.Is(err, errOff) {
				f.covers(t, c)
			}
			f.off, f.gained = random64(random, 600*time.Millisecond)-300*time.Millisecond, 0 // by NTP
			measure()
			measure()
		}
	}
}

func random64(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}

// TestClockIdleForLong: what was measured hours ago says too little, and the clock is measured again.
func TestClockIdleForLong(t *testing.T) {
	f := &fakeClock{truth: noon}
	c := f.clock(time.Second)
	f.exchange(c, time.Millisecond, time.Millisecond)
	f.truth = f.truth.Add(time.Hour)
	if _, width := f.covers(t, c); width < time.Hour/1000 || width > 5*time.Second {
		t.Errorf("after an idle hour the bounds are %v apart", width)
	}
	f.truth = f.truth.Add(time.Hour)
	if _, err := c.look(); !errors.Is(err, errUnmeasured) {
		t.Errorf("after two idle hours: %v", err)
	}
	f.exchange(c, time.Millisecond, time.Millisecond)
	if _, width := f.covers(t, c); width > 1100*time.Millisecond {
		t.Errorf("measured again, the bounds are %v apart", width)
	}
}

func TestClockOff(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second, time.Hour, -time.Hour,
		2500 * time.Millisecond} {
		f := &fakeClock{truth: noon, off: off}
		c := f.clock(time.Second)
		f.exchange(c, 10*time.Millisecond, 10*time.Millisecond)
		if _, err := c.look(); !errors.Is(err, errOff) {
			t.Errorf("off by %v: %v", off, err)
		}
		// It is set: what was measured no longer holds, and the next response makes it good.
		f.off = 0
		if _, err := c.look(); !errors.Is(err, errUnmeasured) {
			t.Errorf("off by %v, after it was set: %v", off, err)
		}
		f.exchange(c, 10*time.Millisecond, 10*time.Millisecond)
		if f.covers(t, c); !c.after().Equal(f.truth) {
			t.Errorf("off by %v, after it was measured: %v, want %v", off, c.after(), f.truth)
		}
	}
}

// TestClockSetWhileRunning: a clock that is set is noticed before the next request, by the monotonic one.
func TestClockSetWhileRunning(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, time.Second, -300 * time.Millisecond} {
		f := &fakeClock{truth: noon}
		c := f.clock(time.Second)
		f.exchange(c, time.Millisecond, time.Millisecond)
		f.off = by
		if _, err := c.look(); !errors.Is(err, errUnmeasured) {
			t.Errorf("set by %v: %v", by, err)
		}
	}
	// While a request is under way: its response proves nothing.
	f := &fakeClock{truth: noon}
	c := f.clock(time.Second)
	begin := c.start()
	f.off = time.Hour
	c.learn(begin, f.truth)
	if c.skew().Known {
		t.Error("an answer counts although the clock was set while it was under way")
	}
}

// TestServiceDateWrong: a wrong Date is believed, and so is the right one after it.
func TestServiceDateWrong(t *testing.T) {
	f := &fakeClock{truth: noon}
	c := f.clock(time.Second)
	f.exchange(c, time.Millisecond, time.Millisecond)
	c.learn(c.start(), f.truth.Add(time.Hour))
	r, err := c.look()
	if !errors.Is(err, errOff) || !c.fresh(r) {
		t.Errorf("after a wrong Date: %v, fresh %v", err, c.fresh(r))
	}
	f.truth = f.truth.Add(remeasureAfter)
	if r, _ := c.look(); c.fresh(r) {
		t.Error("a clock that is off is not measured again")
	}
	f.exchange(c, time.Millisecond, time.Millisecond)
	f.covers(t, c)
}

func TestTrustedClock(t *testing.T) {
	f := &fakeClock{truth: noon, off: time.Hour}
	c := f.clock(TrustClock)
	f.exchange(c, 0, 0)
	if r, err := c.look(); err != nil || !r.latest.Equal(noon.Add(time.Hour)) || !r.earliest.Equal(r.latest) ||
		c.skew().Known {
		t.Errorf("%v to %v, %v, %+v", r.earliest, r.latest, err, c.skew())
	}
}
