package lock

import (
	"cmp"
	"hash/fnv"
	"time"
)

// When a request that waits comes again if its response is not held. Who is next in line comes often, because only that
// one can have the lock; the others come less often the further behind they are.
const (
	pollNext   = time.Second
	pollBehind = 4 * time.Second // by the fourth and those after it
	pollFree   = 2 * time.Second // by one without a place in line
	pollLeast  = 50 * time.Millisecond
)

// PollAfter is when an acquire comes again that was refused with o, after its response was held for so long: 0 if it
// was held for about as long as it asked for, which may be no time, or is not to come again. Its place in line counts
// until then and a second longer, and so long what the line grants it is there to claim it.
func (c Acquire) PollAfter(o Outcome, held time.Duration) time.Duration {
	if !o.waits() || heldEnough(held, time.Duration(c.WaitSeconds)*time.Second) {
		return 0
	}
	free := cmp.Or(o.RetryAfter, pollNext) // when it is, if its holder does nothing
	var after time.Duration
	switch {
	case o.Newcomer: // its place counts from then on
		after = min(free, spread(pollNext, c.RequestID))
	case o.Position == 0: // not all who wait at the same time
		after = min(spread(pollFree, c.RequestID), free+spread(pollNext, c.RequestID)-3*pollNext/4)
	case c.turn(o.Position) == 1:
		after = min(c.comesWithin(o.Position), free)
	default:
		after = c.comesWithin(o.Position)
	}
	return max(after-held, pollLeast).Truncate(time.Millisecond)
}

// turn is by which turn a place in line has the lock: the limit of permits or of a rate have it at a time.
func (c Acquire) turn(position int64) int64 {
	together := max(1, c.Limit)
	return (position + together - 1) / together
}

// comesWithin is the latest that a request comes again whose response is not held, and whose place has a position.
func (c Acquire) comesWithin(position int64) time.Duration {
	turn := c.turn(position)
	after := pollNext
	switch {
	case turn > 1:
		after = spread(min(time.Duration(turn)*pollNext, pollBehind), c.RequestID)
	case c.Mode == Rate: // what is granted there is not released
		after = pollBehind
	}
	// What the line grants it lasts for twice as long.
	if c.Mode != Rate {
		return min(after, time.Duration(c.TTLSeconds)*time.Second/2)
	}
	return after
}

// heldEnough reports whether a response was held for about as long as its request asked for: a platform that ends
// requests leaves a little less.
func heldEnough(held, asked time.Duration) bool { return held >= asked-asked/10 }

// spread is three to five quarters of a time, always the same for one request: so those that came together do not come
// together again, and how often one comes is known.
func spread(d time.Duration, requestID string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(requestID)) // never fails
	return 3*d/4 + d/2*time.Duration(h.Sum32()%1001)/1000
}
