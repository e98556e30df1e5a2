// Package ends gives the requests of a client their ends: what a client knows of the server's time, and the text of
// not_after that follows from it.
//
// A request can arrive long after it was sent: behind a gateway, at a stopped process, in a throttled write. Its caller
// has given up by then, and what it obtained would be held by no one. So each request that grants something says until
// when it may, in the time of the store, which the client does not know. It begins with its own clock, and learns:
//
//   - from the header Date of any response ([Clock.Learn]). It has whole seconds, and is the clock of a server and not
//     that of its store, so that small differences mean nothing.
//   - from store_time in a response that refuses an end ([Clock.Correct]): that is the clock by which ends are judged.
//     What was learned so is not undone by a Date, which may be that of a proxy: otherwise a client between two clocks
//     that differ would be refused, and send twice, for each call.
//
// A client whose clock is right learns nothing and sends nothing more. One whose clock is wrong, or is set while it
// runs, sends one request more: then it is right again, for all calls of the process that share the Clock. A response
// tells the time of some moment between request and response, so no more is taken from it than that: the estimate moves
// as little as makes the response possible.
package ends

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

const (
	// allowance is how much later than the last moment at which the caller can use a response its request ends. It is for
	// what is not known of the server's time. An end that is too early costs a request more; one that is too late costs
	// nothing while clients give up what their callers do not want.
	allowance = 2 * time.Second

	// unbounded is how long a try may take that nothing bounds: servers work on a request for some seconds. Also the ends
	// of those that take longer are not further away: a server refuses ends that are more than an hour ahead, because then
	// a clock is wrong.
	unbounded = 30 * time.Minute
)

// Clock is what a client knows of the time of its server. The zero Clock takes its own clock for right. Its methods may
// be called from several goroutines at once.
type Clock struct {
	Now func() time.Time // the client's own clock; nil means [time.Now]. Not to be changed after the first use.

	mu     sync.Mutex
	ahead  time.Duration // of the server's time before the client's own
	stored bool          // a store's time is known
}

// Learn takes the time that a server has said in the header Date of a response that has just arrived, and to which it
// took so long. It counts only where it differs from the estimate by more than 2 s, and no store's time is known. The
// zero time says nothing.
func (c *Clock) Learn(date time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored || date.IsZero() {
		return
	}
	least, most := c.possible(date, date.Add(time.Second), took) // it is cut to whole seconds
	if c.ahead < least-allowance || c.ahead > most+allowance {
		c.ahead = min(max(c.ahead, least), most)
	}
}

// Correct takes the time of the store, by which it has refused an end, from a response that has just arrived and that
// took so long. The zero time says nothing.
func (c *Clock) Correct(store time.Time, took time.Duration) {
	if store.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := c.possible(store, store, took)
	c.ahead, c.stored = min(max(c.ahead, least), most), true
}

// Refused reports whether an error that has just arrived, and took so long, is the store's refusal of an end. Then it
// has corrected the clock, and the same request with a new end is to be sent once: a second refusal is an error like
// others, so that no request goes on for ever.
func (c *Clock) Refused(err error, took time.Duration) bool {
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok || e.StoreTime.IsZero() {
		return false
	}
	c.Correct(e.StoreTime, took)
	return true
}

// possible is how far the server's time can be ahead if it was between two times at some moment of the last took.
func (c *Clock) possible(from, to time.Time, took time.Duration) (least, most time.Duration) {
	now := c.own()
	return from.Sub(now), to.Sub(now.Add(-max(0, took)))
}

// own is the client's own time. It is without its monotonic reading, which stands still while a machine sleeps.
func (c *Clock) own() time.Time {
	if c.Now != nil {
		return c.Now().Round(0)
	}
	return time.Now().Round(0)
}

// End is the end of a request that is sent now, as the text of not_after: 2 s after its try is over, which takes so long
// at most with the wait that the server is asked for, or after ctx ends, whichever is first. A try of 0 is not bounded.
func (c *Clock) End(ctx context.Context, try time.Duration) string {
	left := unbounded
	if try > 0 {
		left = min(left, try)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own().Add(c.ahead + max(0, left) + allowance).UTC().Format(contracts.TimeFormat)
}
