package httpapi

import (
	"cmp"
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// DefaultMaxWaiting is how many responses one process holds at once, for locks and for events each.
const DefaultMaxWaiting = 1024

// waiters counts the requests that wait for one kind of thing: their responses are held, they take no slot, and are
// bounded by themselves. One tenant has a quarter of what there is, and one of its subjects half of that.
type waiters struct {
	what string // for which they wait
	most int    // 0: no bound

	mu  sync.Mutex
	all int
	of  map[waiting]int
}

// waiting is on whose behalf a request waits: a subject of a tenant, or, without one, the tenant.
type waiting struct{ tenant, subject string }

// enter counts a request that may wait, or says that there is no room: OVERLOADED. The caller calls leave afterwards.
// In development mode callers have no subject.
func (s *waiters) enter(tenant, subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ofTenant := max(1, s.most/4)
	ofSubject := max(1, ofTenant/2)
	whole, own := waiting{tenant: tenant}, waiting{tenant, subject}
	if s.most > 0 && (s.all >= s.most || s.of[whole] >= ofTenant || subject != "" && s.of[own] >= ofSubject) {
		e := contracts.Errorf(contracts.CodeOverloaded,
			"as many requests wait for %s as may, %d of a tenant and %d of a subject; nothing was done", s.what, ofTenant,
			ofSubject)
		e.RetryAfter = overloadedFor
		return e
	}
	if s.of == nil {
		s.of = map[waiting]int{}
	}
	s.all++
	s.of[whole]++
	if subject != "" {
		s.of[own]++
	}
	return nil
}

// count is how many requests wait.
func (s *waiters) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *waiters) leave(tenant, subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	for _, w := range []waiting{{tenant: tenant}, {tenant, subject}} {
		if s.of[w]--; s.of[w] <= 0 {
			delete(s.of, w)
		}
		if subject == "" {
			return
		}
	}
}

// DefaultMaxWait is how long a response is held at most: as long as a request can ask for.
const DefaultMaxWait = lock.MaxWaitSeconds * time.Second

// longest is how long the response of a request may be held: as long as it asks for and as the server holds one, but
// for the time that it needs before the platform ends the request.
func (a *api) longest(ctx context.Context, asked time.Duration) time.Duration {
	most := min(asked, a.maxWait)
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)-a.timeout)
	}
	return most
}

// When a request that waits comes again if its response is not held. Who is next in line comes often, because only that
// one can have the lock; the others come less often the further behind they are.
const (
	pollNext   = time.Second
	pollBehind = 4 * time.Second // by the fourth and those after it
	pollFree   = 2 * time.Second // by one without a place in line
	pollLeast  = 50 * time.Millisecond
)

// pollAfter is when an acquire comes again that was refused, after its response was held for so long: 0 if it was held
// for about as long as it asked for, which may be no time, or is not to come again. What the line grants a request
// lasts for twice as long, so that it is there to claim it.
func pollAfter(c lock.Acquire, o lock.Outcome, held time.Duration) time.Duration {
	asked := time.Duration(c.WaitSeconds) * time.Second
	if o.Code != lock.Held && o.Code != lock.Delayed || heldEnough(held, asked) {
		return 0
	}
	free := cmp.Or(o.RetryAfter, pollNext) // when it is, if its holder does nothing
	together := max(1, c.Limit)            // so many in line can have it at a time
	turn := (o.Position + together - 1) / together
	var after time.Duration
	switch {
	case o.Newcomer: // its place counts from then on
		after = min(free, spread(pollNext, c.RequestID))
	case turn == 0: // not all who wait at the same time
		after = min(spread(pollFree, c.RequestID), free+spread(pollNext, c.RequestID)-3*pollNext/4)
	case turn == 1 && c.Mode == lock.Rate: // what is granted there is not released
		after = min(pollBehind, free)
	case turn == 1:
		after = min(pollNext, free)
	default:
		after = spread(min(time.Duration(turn)*pollNext, pollBehind), c.RequestID)
	}
	if turn > 0 {
		after = min(after, claimTime(c)/2)
	}
	return max(after-held, pollLeast).Truncate(time.Millisecond)
}

// heldEnough reports whether a response was held for about as long as its request asked for: a platform that ends
// requests leaves a little less.
func heldEnough(held, asked time.Duration) bool { return held >= asked-asked/10 }

// claimTime is how long the line keeps for a request what it has granted to it.
func claimTime(c lock.Acquire) time.Duration {
	if c.Mode == lock.Rate {
		return lock.ClaimTime
	}
	return min(lock.ClaimTime, time.Duration(c.TTLSeconds)*time.Second)
}

// spread is three to five quarters of a time, always the same for one request: so those that came together do not come
// together again, and how often one comes is known.
func spread(d time.Duration, requestID string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(requestID)) // never fails
	return 3*d/4 + d/2*time.Duration(h.Sum32()%1001)/1000
}
