package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Limits bound what verified callers can ask of one process, so that none of them takes it from the others. The zero value bounds nothing.
type Limits struct {
	// Concurrent is how many requests of the API are worked on at once. As many more wait for a moment, in the order of their
	// arrival; what is beyond that, or has waited, is OVERLOADED. 0: no bound.
	Concurrent int

	// PageBytes is how much memory the pages of lists take at once, while they are read and while their callers read them slowly.
	// What does not fit waits and is OVERLOADED in the same way. At least one page always fits. 0: no bound.
	PageBytes int64

	// PerTenant and PerSubject are requests a second of one tenant and of one subject of a tenant; two seconds' worth may come at
	// once, and more is RATE_LIMITED. 0: no bound.
	PerTenant, PerSubject float64

	// LocksPerTenant is how many locks a tenant may have, and how many fences; another one is LOCK_LIMIT. See
	// [lock.Options].MaxPerTenant. 0: no bound.
	LocksPerTenant int
}

// DefaultPageBytes is the Limits.PageBytes of the programs that serve.
const DefaultPageBytes = 64 << 20

const (
	// overloadedFor is when to try again after OVERLOADED.
	overloadedFor = time.Second

	// maxWait is how long a request waits for its turn at most: long enough for a burst to pass, short enough for a caller to ask
	// another server. It is never more than a quarter of the request's time limit, so that the rest is left for the work.
	maxWait = 250 * time.Millisecond

	burstSeconds = 2

	// maxBuckets is how many tenants or subjects are remembered before those that are idle are forgotten.
	maxBuckets = 10_000
)

// What a list takes of Limits.PageBytes.
const (
	pageReading = 4 << 20  // while it is read from the store, whose form of the documents is in memory as well
	pageLeast   = 64 << 10 // while it is sent, for a connection that reads slowly
)

// admission admits requests of verified callers.
type admission struct {
	tenants, subjects *buckets
	slots, pages      *bound
}

func newAdmission(l Limits, timeout time.Duration, now func() time.Time) *admission {
	if now == nil {
		now = time.Now
	}
	a := &admission{tenants: newBuckets(l.PerTenant, now), subjects: newBuckets(l.PerSubject, now)}
	wait := min(maxWait, timeout/4)
	if l.Concurrent > 0 {
		a.slots = newBound(int64(l.Concurrent), l.Concurrent, wait,
			fmt.Sprintf("the server works on %d requests, which is its bound, and others wait", l.Concurrent))
	}
	if l.PageBytes > 0 {
		size := max(l.PageBytes, pageReading)
		a.pages = newBound(size, 4*int(size/pageReading), wait, // as a page is read in a small part of the wait
			fmt.Sprintf("the pages that the server sends take %d MiB, which is its bound: ask for smaller ones, and read them to the end", size>>20))
	}
	return a
}

// rates takes a request from the buckets of its caller and tenant. The error is RATE_LIMITED and says when to try again.
func (a *admission) rates(c Caller, tenant string) error {
	for _, limit := range []struct {
		of    *buckets
		key   string
		whose string
	}{{a.subjects, c.Tenant + "\x00" + c.Subject, "your subject"}, {a.tenants, tenant, "your tenant"}} {
		if limit.of == a.subjects && c.Subject == "" {
			continue // development mode
		}
		if wait := limit.of.take(limit.key); wait > 0 {
			e := contracts.Errorf(contracts.CodeRateLimited, "%s sends more than %v requests a second; nothing was done", limit.whose, float64(limit.of.perSecond))
			e.RetryAfter = max(wait, time.Millisecond)
			return e
		}
	}
	return nil
}

// bound shares something that there is a limited amount of. What does not fit waits for a moment, in the order of arrival; few
// may wait at once, so that waiting takes no memory to speak of. A nil *bound has room for everything.
type bound struct {
	left    *semaphore.Weighted
	waiting chan struct{}
	wait    time.Duration
	says    string // why there is no room
}

func newBound(size int64, waiters int, wait time.Duration, says string) *bound {
	return &bound{left: semaphore.NewWeighted(size), waiting: make(chan struct{}, waiters), wait: wait, says: says}
}

// enter takes n, or says when to try again: OVERLOADED. The caller gives n back to leave.
func (b *bound) enter(ctx context.Context, n int64) error {
	if b == nil || b.left.TryAcquire(n) {
		return nil
	}
	overloaded := contracts.Errorf(contracts.CodeOverloaded, "%s; nothing was done", b.says)
	overloaded.RetryAfter = overloadedFor
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		return overloaded
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if b.left.Acquire(ctx, n) != nil {
		return overloaded
	}
	return nil
}

func (b *bound) leave(n int64) {
	if b != nil {
		b.left.Release(n)
	}
}

// buckets are token buckets by name. A nil *buckets admits everything.
type buckets struct {
	perSecond rate.Limit
	burst     int
	now       func() time.Time

	mu    sync.Mutex
	named map[string]*rate.Limiter
}

func newBuckets(perSecond float64, now func() time.Time) *buckets {
	if perSecond <= 0 {
		return nil
	}
	return &buckets{
		perSecond: rate.Limit(perSecond), burst: max(1, int(math.Ceil(burstSeconds*perSecond))), now: now, named: map[string]*rate.Limiter{},
	}
}

// take takes a token from a bucket. If it has none, nothing is taken and wait says when it has one.
func (b *buckets) take(name string) (wait time.Duration) {
	if b == nil {
		return 0
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.named[name]
	if l == nil {
		b.forget(now)
		l = rate.NewLimiter(b.perSecond, b.burst)
		b.named[name] = l
	}
	r := l.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// forget drops full buckets, which are like new ones, when there are many.
func (b *buckets) forget(now time.Time) {
	if len(b.named) < maxBuckets {
		return
	}
	for name, l := range b.named {
		if l.TokensAt(now) >= float64(b.burst) {
			delete(b.named, name)
		}
	}
}

// with does something that takes 1.
func (b *bound) with(ctx context.Context, do func() error) error {
	if err := b.enter(ctx, 1); err != nil {
		return err
	}
	defer b.leave(1)
	return do()
}

// handler handles a request of a caller.
type handler func(http.ResponseWriter, *http.Request, Caller) error

// known authenticates the caller and holds it to its rates.
func (a *api) known(do handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := a.identify(r)
		if err != nil {
			return err
		}
		noteOf(r).caller = c
		tenant := c.Tenant
		if tenant == "" {
			tenant = r.PathValue("tenant_id") // development mode
		}
		if err := a.admission.rates(c, tenant); err != nil {
			return err
		}
		return do(w, r, c)
	}
}

// working handles a request when there is a slot for it, and keeps the slot until the response has been written.
func (a *api) working(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		return a.admission.slots.with(r.Context(), func() error { return do(w, r, c) })
	}
}

// admitted passes on the requests of known callers for which there is a slot.
func (a *api) admitted(do handler) func(http.ResponseWriter, *http.Request) error {
	return a.known(a.working(do))
}
