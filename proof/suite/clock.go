// Package suite holds the rules against oracles: random programs, what can be obtained, what comes late, damage. It
// runs in memory and on a store that fails. That rules do the same on every store, and for callers at once, follows
// from what package docstoretest shows of each: a rule is one conditional write. A deep run asks every store itself.
//
// The oracle is written from the requirement (LS-SPEC-001) and shares no code with repo/lock: a mistake would have to
// be made twice to go unnoticed.
package suite

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Epoch is where the clocks of these tests begin.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock moves only when it is told to. It may be used from several goroutines.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows [Epoch].
func NewClock() *Clock { return NewClockAt(Epoch) }

// NewClockAt returns a clock that shows t.
func NewClockAt(t time.Time) *Clock { return &Clock{now: t} }

// written is the stored form of a time, empty for none.
func written(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep lets others go on, and does not move the clock: what waits for a time that was measured by a clock that others
// move would wait for long, and for no reason.
func (c *Clock) Sleep(ctx context.Context, _ time.Duration) error {
	runtime.Gosched()
	return ctx.Err()
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
