package firestoretest

import (
	"sync"
	"time"
)

// A clock gives the server's times: whole microseconds, never going back, whatever the clock behind it does. Times of
// commits are all different.
type clock struct {
	now    func() time.Time
	mu     sync.Mutex
	offset time.Duration
	last   time.Time
}

// read returns the present. A commit that follows it has a later time.
func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.advance(0)
}

// tick returns a time that is later than all before.
func (c *clock) tick() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.advance(time.Microsecond)
}

func (c *clock) advance(step time.Duration) time.Time {
	t := c.now().Add(c.offset).UTC().Truncate(time.Microsecond)
	if floor := c.last.Add(step); t.Before(floor) {
		t = floor
	}
	c.last = t
	return t
}

func (c *clock) setOffset(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = d
}
