package httpapi

import (
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Limits bound what verified callers can ask of one process, so that none of them takes it from the others. The zero value bounds nothing.
type Limits struct {
	// Concurrent is how many requests of the API are worked on at once; one more is OVERLOADED. It also bounds the memory that
	// responses take while their callers read slowly. 0: no bound.
	Concurrent int

	// PerTenant and PerSubject are requests a second of one tenant and of one subject of a tenant; two seconds' worth may come at
	// once, and more is RATE_LIMITED. 0: no bound.
	PerTenant, PerSubject float64
}

const (
	// overloadedFor is when to try again after OVERLOADED.
	overloadedFor = time.Second

	burstSeconds = 2

	// maxBuckets is how many tenants or subjects are remembered before those that are idle are forgotten.
	maxBuckets = 10_000
)

// admission admits requests of verified callers.
type admission struct {
	slots             chan struct{} // nil: no bound
	tenants, subjects *buckets
}

func newAdmission(l Limits, now func() time.Time) *admission {
	if now == nil {
		now = time.Now
	}
	a := &admission{tenants: newBuckets(l.PerTenant, now), subjects: newBuckets(l.PerSubject, now)}
	if l.Concurrent > 0 {
		a.slots = make(chan struct{}, l.Concurrent)
	}
	return a
}

// enter admits a request, or says when to try again. The caller calls leave when the response has been written.
func (a *admission) enter(c Caller, tenant string) (leave func(), err error) {
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
			e.RetryAfter = wait
			return nil, e
		}
	}
	if a.slots == nil {
		return func() {}, nil
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots }, nil
	default:
		e := contracts.Errorf(contracts.CodeOverloaded, "the server works on %d requests, which is its bound; nothing was done", cap(a.slots))
		e.RetryAfter = overloadedFor
		return nil, e
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

// admitted authenticates the caller, applies the limits, and passes the request on.
func (a *api) admitted(do func(http.ResponseWriter, *http.Request, Caller) error) func(http.ResponseWriter, *http.Request) error {
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
		leave, err := a.admission.enter(c, tenant)
		if err != nil {
			return err
		}
		defer leave()
		return do(w, r, c)
	}
}
