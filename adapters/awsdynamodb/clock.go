package awsdynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	// dateUnit is what the Date header leaves out: it has whole seconds (RFC 9110, section 5.6.7).
	dateUnit = time.Second

	// drift is how much a clock may gain or lose in a second: the most by which Linux slews one (adjtime), 500 µs.
	drift = 2000

	// spread is how far the clocks of the service's own servers may be apart from the one time that they mean.
	spread = 10 * time.Millisecond

	// remeasureAfter is how long a clock that is off is not measured again.
	remeasureAfter = time.Second
)

// clock knows between which two instants the service's time lies.
//
// A response with the Date D to a request that was sent when the caller's clock showed a, and received at b, proves
// that the service's clock was somewhere in [D, D+1s) while the caller's was somewhere in [a, b]: it is ahead of the
// caller's by D-b at least and D+1s-a at most. Each response gives such bounds, and together they close in on the true
// offset. Between responses the bounds widen, by what the caller's clock may gain or lose meanwhile, and by what its
// wall and its monotonic reading disagree.
//
// Nothing else is assumed of the caller's clock, so that it does not matter how far two callers' clocks are apart. That
// one which is off by more than the bound is rejected is a check of the machine.
type clock struct {
	// read returns the caller's time, and a monotonic reading that does not change when that time is set.
	read func() (wall time.Time, monotonic time.Duration)

	bound time.Duration // largest offset; negative: the clock is trusted

	mu        sync.Mutex
	known     bool          // low, high and last are of a measurement that still holds
	low, high time.Duration // the service's clock is ahead of the caller's by something between these
	last      reading       // when that was measured

	// shown is the latest time of the last reading. No reading shows an earlier one, although the bounds close in: what is
	// written does not go back then, so that a renewal right after a grant moves its expiry on.
	shown time.Time
}

// reading is one reading of the clock.
type reading struct {
	wall      time.Time // what the caller's clock shows
	monotonic time.Duration

	// The service's time lies between these, in whole milliseconds. They are the same if the clock is trusted.
	earliest, latest time.Time
}

// instants are what [docstore.Now] means in a call that begins with this reading.
func (r reading) instants() instants {
	return instants{now: r.latest, margin: r.latest.Sub(r.earliest)}
}

// Skew is what is known of the caller's clock.
type Skew struct {
	Known     bool          // false before the first measurement, after the clock was set, and with TrustClock
	Offset    time.Duration // the smallest correction that the bounds allow; off means that it is beyond Options.MaxSkew
	Low, High time.Duration // the service's clock is ahead of the caller's by something between these
}

func newClock(now func() time.Time, bound time.Duration) *clock {
	base := time.Now()
	c := &clock{bound: bound, read: func() (time.Time, time.Duration) {
		t := time.Now() // both readings in one
		return t.Round(0), t.Sub(base)
	}}
	if bound == 0 {
		c.bound = DefaultMaxSkew
	}
	if now != nil {
		c.read = func() (time.Time, time.Duration) { return now().Round(0), time.Since(base) }
	}
	return c
}

func (c *clock) trusted() bool { return c.bound < 0 }

var (
	errUnmeasured = errors.New("not measured")
	errOff        = errors.New("off")
)

// look reads the clock. The error is errUnmeasured or errOff. What was measured long ago (an hour and a little, by the
// default bound) says too little.
func (c *clock) look() (reading, error) {
	wall, monotonic := c.read()
	r := reading{wall: wall, monotonic: monotonic}
	if c.trusted() {
		r.earliest, r.latest = docstore.TruncateMilli(wall), docstore.TruncateMilli(wall)
		return r, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.jumped(c.last, r) {
		c.known = false
	}
	if !c.known || age(c.last, r) > 2*c.bound {
		return r, errUnmeasured
	}
	low, high := c.since(r)
	r.earliest = docstore.TruncateMilli(wall.Add(low))
	r.latest = docstore.TruncateMilli(wall.Add(high + time.Millisecond - 1)) // rounded up
	if r.latest.Before(c.shown) {
		r.latest = c.shown
	}
	c.shown = r.latest
	if c.offset().Abs() > c.bound {
		return r, errOff
	}
	return r, nil
}

// set is by how much a clock was set forward between two readings, or the machine slept: its wall time has passed, and
// its monotonic time has not. It is negative for a clock that was set back.
func set(from, to reading) time.Duration {
	return to.wall.Sub(from.wall) - (to.monotonic - from.monotonic)
}

// jumped reports whether the clock was set by so much between two readings that what was measured before no longer
// holds.
func (c *clock) jumped(from, to reading) bool { return set(from, to).Abs() > c.bound/4 }

// age is what a clock may have gained or lost between two readings.
func age(from, to reading) time.Duration { return (to.monotonic - from.monotonic).Abs() / drift }

// since returns the bounds as they are by a later reading. Whether the wall or the monotonic time is right where they
// disagree cannot be told: the bounds allow for both. c.mu is held.
func (c *clock) since(r reading) (low, high time.Duration) {
	aged, forward := age(c.last, r), set(c.last, r)
	return c.low - aged - max(forward, 0), c.high + aged + max(-forward, 0)
}

// offset is the smallest correction that the bounds allow. c.mu is held.
func (c *clock) offset() time.Duration { return max(c.low, min(c.high, 0)) }

// learn takes in the Date of the response to a request that was sent at begin, and was received just now.
func (c *clock) learn(begin reading, date time.Time) {
	if c.trusted() || date.IsZero() {
		return
	}
	wall, monotonic := c.read()
	end := reading{wall: wall, monotonic: monotonic}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jumped(begin, end) {
		c.known = false
		return
	}
	low := date.Sub(wall) - spread
	high := date.Add(dateUnit).Sub(begin.wall) + spread + age(begin, end) + max(-set(begin, end), 0)
	agree := false
	if c.known && !c.jumped(c.last, end) {
		l, h := c.since(end)
		if l, h = max(l, low), min(h, high); l <= h {
			low, high, agree = l, h, true
		}
		// Otherwise the two contradict each other: one of the clocks was set, and the newer response knows of it.
	}
	if !agree {
		c.shown = time.Time{}
	}
	c.known, c.low, c.high, c.last = true, low, high, end
}

func (c *clock) skew() Skew {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return Skew{}
	}
	return Skew{Known: true, Offset: c.offset(), Low: c.low, High: c.high}
}

// fresh reports whether the clock was measured so recently that it need not be measured again.
func (c *clock) fresh(r reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r.monotonic-c.last.monotonic < remeasureAfter
}

// now reads the clock for a call, and measures it first if nothing is known of it, or if it was off at the last
// reading. The error is [docstore.ErrClockSkew], or that of the measuring request.
func (s *Store) now(ctx context.Context) (reading, error) {
	r, err := s.clock.look()
	if errors.Is(err, errUnmeasured) || errors.Is(err, errOff) && !s.clock.fresh(r) {
		if err := s.measure(ctx); err != nil {
			return reading{}, err
		}
		r, err = s.clock.look()
	}
	switch {
	case errors.Is(err, errUnmeasured):
		s.skewed.Add(1)
		return reading{},
			fmt.Errorf("%w: it could not be measured: the responses for table %s carry no Date header, or the clock "+
				"was set meanwhile", docstore.ErrClockSkew, s.table)
	case errors.Is(err, errOff):
		s.skewed.Add(1)
		return reading{}, fmt.Errorf("%w: %s; set this machine's clock (chrony, NTP)", docstore.ErrClockSkew,
			s.clock.describe())
	}
	return r, nil
}

// describe says how far the clock is off.
func (c *clock) describe() string {
	offset := c.skew().Offset
	direction := "behind"
	if offset < 0 {
		direction = "ahead of"
	}
	return fmt.Sprintf("it is %v or more %s the service's, %v at most is allowed (MaxSkew)",
		offset.Abs().Round(time.Millisecond), direction, c.bound)
}

// measure sends a request that touches no document, for the Date of its response.
func (s *Store) measure(ctx context.Context) error {
	s.measured.Add(1)
	begin := s.clock.start()
	out, err := s.client.GetItem(ctx, &sdk.GetItemInput{TableName: aws.String(s.table), Key: measuringKey},
		s.attempts())
	if err != nil {
		s.learnFrom(begin, err)
		return s.explain(ctx, "measure the clock against", err)
	}
	s.clock.learn(begin, dateOf(out.ResultMetadata))
	return nil
}

// start reads the clock before a request that only measures.
func (c *clock) start() reading {
	wall, monotonic := c.read()
	return reading{wall: wall, monotonic: monotonic}
}

// dateOf is the Date of a response, zero if there is none.
func dateOf(m middleware.Metadata) time.Time {
	t, _ := awsmiddleware.GetServerTime(m)
	return t
}

// lost is by how much longer ago a reading was than the caller's monotonic clock knows, by which the rules count, see
// [docstore.Result].Lost, given the Date of a response that has just been received. It is 0 unless the two contradict
// each other: then the machine was stopped between the reading and the response, that clock with it, and the service
// has counted on. The wall clock may have gone on meanwhile.
func (c *clock) lost(of reading, date time.Time) time.Duration {
	if c.trusted() || date.IsZero() {
		return 0
	}
	wall, monotonic := c.read()
	counted := monotonic - of.monotonic + age(of, reading{wall: wall, monotonic: monotonic})
	if !date.Add(-spread).After(of.latest.Add(counted)) {
		return 0
	}
	return date.Add(dateUnit + spread).Sub(of.latest) // at the most; what the response took is counted as well
}

// learnFrom takes in the Date of an error's response, which it returns; zero if there is none.
func (s *Store) learnFrom(begin reading, err error) (date time.Time) {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil && r.Response.Response != nil {
		if t, err := http.ParseTime(r.Response.Header.Get("Date")); err == nil {
			s.clock.learn(begin, t)
			return t
		}
	}
	return time.Time{}
}

// after is the likeliest time once a response is there: that of the caller, corrected by as little as the bounds allow.
// It is for what is read; what is decided rests on the bounds.
func (c *clock) after() time.Time {
	wall, _ := c.read()
	if c.trusted() {
		return docstore.TruncateMilli(wall)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return docstore.TruncateMilli(wall)
	}
	return docstore.TruncateMilli(wall.Add(c.offset()))
}

// beyond is how far the service's time may lie beyond a time that after has given just now.
func (c *clock) beyond(at time.Time) time.Duration {
	wall, _ := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusted() || !c.known {
		return 0
	}
	return max(0, wall.Add(c.high).Sub(at), c.shown.Sub(at))
}
