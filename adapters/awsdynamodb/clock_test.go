package awsdynamodb

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// fakeClock is a caller's clock that is off from the true time, and a monotonic one that is not.
type fakeClock struct {
	truth time.Time
	off   time.Duration // what the caller's clock shows beyond the truth
}

func (f *fakeClock) clock(bound time.Duration) *clock {
	c := newClock(nil, bound)
	c.read = func() (time.Time, time.Duration) { return f.truth.Add(f.off), f.truth.Sub(noon) }
	return c
}

// exchange is a request that takes there and back, answered with the Date of the moment between.
func (f *fakeClock) exchange(c *clock, there, back time.Duration) {
	begin := c.start()
	f.truth = f.truth.Add(there)
	date := f.truth.Truncate(time.Second)
	f.truth = f.truth.Add(back)
	c.learn(begin, date)
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
		if r, err := c.look(); err != nil || !r.now.Equal(f.truth) {
			t.Fatalf("%v, %v; want %v", r.now, err, f.truth)
		}
	}
	if s := c.skew(); s.High-s.Low > 100*time.Millisecond {
		t.Errorf("after 100 answers the bounds are %v to %v", s.Low, s.High)
	}
}

// TestClockBounds: the truth always lies between the bounds, the correction never makes the error larger, and it closes
// in on the truth, also while the clock gains or loses.
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
			r, err := c.look()
			if err != nil {
				t.Fatalf("seed %d: %v: %+v", seed, err, c.skew())
			}
			s := c.skew()
			aged := (r.monotonic - c.last.monotonic) / drift
			if -f.off < s.Low-aged || -f.off > s.High+aged {
				t.Fatalf("seed %d: the truth %v is not between %v and %v", seed, -f.off, s.Low, s.High)
			}
			if left := r.now.Sub(f.truth).Abs(); left > f.off.Abs()+aged || left > s.High-s.Low+aged {
				t.Fatalf("seed %d: the correction makes %v of an error of %v, with bounds %v to %v", seed, left, f.off, s.Low, s.High)
			}
		}
		if s := c.skew(); s.High-s.Low > 300*time.Millisecond {
			t.Errorf("seed %d: after 60 answers the bounds are %v to %v", seed, s.Low, s.High)
		}
	}
}

func TestClockOff(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second, time.Hour, -time.Hour, 2500 * time.Millisecond} {
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
		if r, err := c.look(); err != nil || !r.now.Equal(f.truth) {
			t.Errorf("off by %v, after it was measured: %v, %v", off, r.now, err)
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
	if r, err := c.look(); err != nil || !r.now.Equal(f.truth) {
		t.Errorf("after a right Date: %v, %v", r.now, err)
	}
}

func TestTrustedClock(t *testing.T) {
	f := &fakeClock{truth: noon, off: time.Hour}
	c := f.clock(TrustClock)
	f.exchange(c, 0, 0)
	if r, err := c.look(); err != nil || !r.now.Equal(noon.Add(time.Hour)) || c.margin() != 0 || c.skew().Known {
		t.Errorf("%v, %v, margin %v, %+v", r.now, err, c.margin(), c.skew())
	}
}
