package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Limits bound what verified callers can ask of one process, so that none of them takes it from the others. The zero
// value bounds nothing.
type Limits struct {
	// Concurrent is how many requests of the API, other than lists, are worked on at once. As many more wait for a moment,
	// and tenants take turns; what is beyond that, or has waited, is OVERLOADED. 0: no bound.
	Concurrent int

	// Lists is how many lists are read from the store at once, beside the requests of Concurrent, and half as many for one
	// tenant. A list takes a processor for a while, and a lock a millisecond. 0: no bound.
	Lists int

	// PageBytes is how much memory the pages of lists take at once, while they are read and while their callers read them
	// slowly; those of one tenant take three quarters of it at most. What does not fit waits and is OVERLOADED in the same
	// way. At least one page always fits. 0: no bound.
	PageBytes int64

	// PerTenant and PerSubject are requests a second of one tenant and of one subject of a tenant; two seconds' worth may
	// come at once, and more is RATE_LIMITED. A page of a list counts as one request for each 64 KiB that are read for it.
	// 0: no bound.
	PerTenant, PerSubject float64

	// LocksPerTenant is how many locks a tenant may have, and how many fences; another one is LOCK_LIMIT. See
	// [lock.Options].MaxPerTenant. 0: no bound.
	LocksPerTenant int

	// ClustersPerTenant is how many clusters of placement a tenant can set up, and IdentitiesPerCluster how many
	// identities one has a record of; another one is PLACEMENT_LIMIT. See placement.Options. 0 is no bound.
	ClustersPerTenant, IdentitiesPerCluster int
}

// DefaultPageBytes is the Limits.PageBytes of the programs that serve.
const DefaultPageBytes = 64 << 20

// DefaultLists is their Limits.Lists: two for each processor.
func DefaultLists() int { return 2 * runtime.GOMAXPROCS(0) }

const (
	// overloadedFor is when to try again after OVERLOADED.
	overloadedFor = time.Second

	// maxWait is how long a request waits for its turn at most: long enough for a burst to pass, short enough for a caller
	// to ask another server. A list, on which no lease depends, waits for a quarter of the time limit of a request, and no
	// other request waits for more than that, so that the rest is left for the work.
	maxWait = 500 * time.Millisecond

	// maxWaitingLists is how many lists wait at once, for their turn to be read or for memory.
	maxWaitingLists = 64

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
	tenants, subjects   *buckets
	slots, lists, pages *bound
}

func newAdmission(l Limits, timeout time.Duration, now func() time.Time) *admission {
	if now == nil {
		now = time.Now
	}
	a := &admission{tenants: newBuckets(l.PerTenant, now), subjects: newBuckets(l.PerSubject, now)}
	ofLists := timeout / 4
	wait := min(maxWait, ofLists)
	if n := int64(l.Concurrent); n > 0 {
		a.slots = &bound{left: n, share: n, queue: l.Concurrent, wait: wait, held: map[string]int64{},
			says: fmt.Sprintf("the server works on %d requests, which is its bound, and others wait", n)}
	}
	if n := int64(l.Lists); n > 0 {
		a.lists = &bound{left: n, share: max(1, n/2), queue: maxWaitingLists, wait: ofLists, held: map[string]int64{},
			says: fmt.Sprintf("the server reads %d lists, which is its bound, or %d of your tenant, and others wait", n,
				max(1, n/2))}
	}
	if l.PageBytes > 0 {
		size := max(l.PageBytes, pageReading)
		a.pages = &bound{left: size, share: max(size/4*3, pageReading), queue: maxWaitingLists, wait: ofLists,
			held: map[string]int64{},
			says: "the pages that the server sends, or those of your tenant, take as much memory as they may: ask for smaller ones, and read them to the end"}
	}
	return a
}

// rates takes a request from the buckets of its caller and tenant. The error is RATE_LIMITED and says when to try
// again.
func (a *admission) rates(c Caller, tenant string) error {
	if a.tenants == nil && a.subjects == nil {
		return nil
	}
	for _, limit := range a.limitsOf(c, tenant) {
		if wait := limit.of.take(limit.key); wait > 0 {
			e := contracts.Errorf(contracts.CodeRateLimited, "%s sends more than %v requests a second; nothing was done",
				limit.whose, float64(limit.of.perSecond))
			e.RetryAfter = max(wait, time.Millisecond)
			return e
		}
	}
	return nil
}

// charge takes what a request that was carried out cost beyond one, so that those that follow it wait.
func (a *admission) charge(c Caller, tenant string, n int) {
	for _, limit := range a.limitsOf(c, tenant) {
		limit.of.charge(limit.key, n)
	}
}

// rateLimit is a bucket of a caller, and whose it is in the words of an error.
type rateLimit struct {
	of         *buckets
	key, whose string
}

func (a *admission) limitsOf(c Caller, tenant string) []rateLimit {
	limits := []rateLimit{{a.tenants, tenant, "your tenant"}}
	if c.Subject != "" { // there is none in development mode
		limits = []rateLimit{{a.subjects, c.Tenant + "\x00" + c.Subject, "your subject"}, limits[0]}
	}
	return limits
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
		perSecond: rate.Limit(perSecond), burst: max(1, int(math.Ceil(burstSeconds*perSecond))), now: now,
		named: map[string]*rate.Limiter{},
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
	r := b.bucket(name, now).ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// charge takes n tokens, whether the bucket has them or not; no more than are in a full one.
func (b *buckets) charge(name string, n int) {
	if b == nil || n <= 0 {
		return
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket(name, now).ReserveN(now, min(n, b.burst))
}

// bucket returns the bucket of a name. b.mu is held.
func (b *buckets) bucket(name string, now time.Time) *rate.Limiter {
	l := b.named[name]
	if l == nil {
		b.forget(now)
		l = rate.NewLimiter(b.perSecond, b.burst)
		b.named[name] = l
	}
	return l
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

// handler handles a request of a caller.
type handler func(http.ResponseWriter, *http.Request, Caller) error

// authenticated authenticates the caller and holds it to its rates.
func (a *api) authenticated(do handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := a.callerOf(r)
		if err != nil {
			return err
		}
		return do(w, r, c)
	}
}

// callerOf is the caller of a request, within its rates.
func (a *api) callerOf(r *http.Request) (Caller, error) {
	c, err := a.identify(r)
	if err != nil {
		return c, err
	}
	n := noteOf(r)
	n.caller, n.known = c, true
	return c, a.admission.rates(c, payer(r, c))
}

// payer is the tenant for which a request counts.
func payer(r *http.Request, c Caller) string {
	if c.Tenant == "" {
		return r.PathValue("tenant_id") // development mode
	}
	return c.Tenant
}

// withSlot handles a request when there is a slot for it, and keeps the slot until the response has been written.
func (a *api) withSlot(do handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error { return a.inSlot(w, r, c, do) }
}

func (a *api) inSlot(w http.ResponseWriter, r *http.Request, c Caller, do handler) error {
	return a.admission.slots.with(r.Context(), payer(r, c), func() error { return do(w, r, c) })
}

// admitted passes on the requests of known callers for which there is a slot.
func (a *api) admitted(do handler) func(http.ResponseWriter, *http.Request) error {
	return a.authenticated(a.withSlot(do))
}
