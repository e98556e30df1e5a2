package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rates"
)

// Limits bound what verified callers can ask, so that none of them takes the service from the others. The rates and
// the numbers of documents hold for all processes together that use the same store, the rest for one process. The zero
// value bounds nothing.
type Limits struct {
	// Concurrent is how many requests of the API, other than lists, are worked on at once: from when their bodies have
	// arrived to when their responses are known. As many more wait for a moment, and tenants take turns; what is beyond
	// that, or has waited, is OVERLOADED. One tenant, and one subject, have less than that, as of all that follows: see
	// the table in shares.go. 0: no bound.
	Concurrent int

	// BodyBytes is how many bytes of bodies may be on their way at once. A body counts as its Content-Length, as the most
	// that it can have where it has none, and as 16 KiB at the least. What does not fit waits and is OVERLOADED in the
	// same way. 0: no bound.
	BodyBytes int64

	// Lists is how many lists are read from the store at once, beside the requests of Concurrent. A list takes a
	// processor for a while, and a lock a millisecond. 0: no bound.
	Lists int

	// PageBytes is how much memory the pages of lists take at once, while they are read and while their callers read
	// them slowly. What does not fit waits and is OVERLOADED in the same way. At least one page always fits. 0: no bound.
	PageBytes int64

	// PerTenant and PerSubject are requests a second of one tenant and of one subject of a tenant; two seconds' worth
	// may come at once, and more is RATE_LIMITED. A page of a list counts as one request for each 64 KiB that are read
	// for it. All processes together hold callers to it: see package rates. 0: no bound.
	PerTenant, PerSubject float64

	// RefuseWithoutStore refuses requests while the store cannot be asked for the rate of their callers. Without it, each
	// process holds callers to the rate by itself then.
	RefuseWithoutStore bool

	// LocksPerTenant is how many locks a tenant may have, and how many fences; another one is LOCK_LIMIT. See
	// [lock.Options].MaxPerTenant. 0: no bound.
	LocksPerTenant int

	// RunsPerTenant is how many runs a tenant may have a record of; another one is RUN_LIMIT. See
	// runs.Options.MaxPerTenant. 0: no bound.
	RunsPerTenant int

	// ClustersPerTenant is how many clusters of placement a tenant can set up, and IdentitiesPerCluster how many
	// identities one has a record of; another one is PLACEMENT_LIMIT. See placement.Options. 0 is no bound.
	ClustersPerTenant, IdentitiesPerCluster int
}

// The Limits.PageBytes and the Limits.BodyBytes of the programs that serve.
const (
	DefaultPageBytes = 64 << 20
	DefaultBodyBytes = 32 << 20
)

// DefaultLists is their Limits.Lists: two for each processor.
func DefaultLists() int { return 2 * runtime.GOMAXPROCS(0) }

const (
	// overloadedFor is when to try again after OVERLOADED.
	overloadedFor = time.Second

	// maxWait is how long a request waits for its turn at most: long enough for a burst to pass, short enough for a
	// caller to ask another server. A list, on which no lease depends, waits for a quarter of the time limit of a
	// request, and no other request waits for more than that, so that the rest is left for the work.
	maxWait = 500 * time.Millisecond

	// maxWaitingLists is how many lists wait at once, for their turn to be read or for memory.
	maxWaitingLists = 64

	// maxWaitingBodies is how many requests wait at once for room for their bodies.
	maxWaitingBodies = 256

	// maxHistories is how many requests read audit events at once: a file takes seconds to read, and a processor.
	maxHistories = 2
)

// What a list takes of Limits.PageBytes.
const (
	pageReading = 4 << 20  // while it is read from the store, whose form of the documents is in memory as well
	pageLeast   = 64 << 10 // while it is sent, for a connection that reads slowly
)

// admission admits requests of verified callers.
type admission struct {
	tenants, subjects              *rates.Rates
	slots, lists, pages, histories *bound

	log    *slog.Logger
	now    func() time.Time
	refuse bool         // see Limits.RefuseWithoutStore
	told   atomic.Int64 // when the log last said that the store was away
}

func newAdmission(l Limits, store docstore.Store, f *frame, now func() time.Time) *admission {
	if now == nil {
		now = time.Now
	}
	a := &admission{log: f.log, now: now, refuse: l.RefuseWithoutStore}
	a.tenants, a.subjects = rates.New(store, l.PerTenant, now, a.away), rates.New(store, l.PerSubject, now, a.away)
	ofLists := f.timeout / 4
	if l.Concurrent > 0 {
		a.slots = newBound(slots, int64(l.Concurrent), l.Concurrent, min(maxWait, ofLists))
	}
	if l.Lists > 0 {
		a.lists = newBound(lists, int64(l.Lists), maxWaitingLists, ofLists)
	}
	if l.PageBytes > 0 {
		a.pages = newBound(pages, l.PageBytes, maxWaitingLists, ofLists)
	}
	a.histories = newBound(histories, maxHistories, maxWaitingLists, ofLists)
	return a
}

// rates takes a request from the rates of its caller and tenant. The error is RATE_LIMITED and says when to try again,
// or that of a store that is away.
func (a *admission) rates(ctx context.Context, c Caller, tenant string) error {
	if a.tenants == nil && a.subjects == nil {
		return nil
	}
	for _, limit := range a.limitsOf(c, tenant) {
		wait, err := limit.of.Take(ctx, limit.tenant, limit.id)
		if err != nil {
			return err
		}
		if wait > 0 {
			e := contracts.Errorf(contracts.CodeRateLimited, "%s sends more than %v requests a second; nothing was done",
				limit.whose, limit.of.PerSecond())
			e.RetryAfter = max(wait, time.Millisecond)
			return e
		}
	}
	return nil
}

// charge takes what a request that was carried out cost beyond one, so that those that follow it wait.
func (a *admission) charge(c Caller, tenant string, n int) {
	for _, limit := range a.limitsOf(c, tenant) {
		limit.of.Charge(limit.tenant, limit.id, n)
	}
}

// rateLimit is a rate of a caller, and whose it is in the words of an error.
type rateLimit struct {
	of                *rates.Rates
	tenant, id, whose string
}

func (a *admission) limitsOf(c Caller, tenant string) []rateLimit {
	limits := []rateLimit{{a.tenants, tenant, "tenant", "your tenant"}}
	if c.Subject != "" { // there is none in development mode
		limits = []rateLimit{{a.subjects, c.Tenant, "subject/" + ownerOf(c.Subject), "your subject"}, limits[0]}
	}
	return limits
}

// awayEvery is how often the log says that callers are held to their rates in this process alone.
const awayEvery = time.Minute

// away is told that the store could not be asked for a rate. The metrics of the store count it, with the collection
// "rates".
func (a *admission) away(ctx context.Context, err error) error {
	now := a.now().UnixNano()
	if last := a.told.Load(); (last == 0 || now-last >= int64(awayEvery)) && a.told.CompareAndSwap(last, now) {
		a.log.WarnContext(ctx, "the store cannot be asked for rates of callers", "refused", a.refuse, "err", err)
	}
	if a.refuse {
		return err
	}
	return nil
}

// handler handles a request of a caller.
type handler func(http.ResponseWriter, *http.Request, Caller) error

// authenticated authenticates the caller by the header alone, before the body is read, and holds it to its rates and to
// its share of its connection.
func (a *api) authenticated(do handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := a.callerOf(r)
		if err != nil {
			return err
		}
		return onConnection(w, r, c, do)
	}
}

// callerOf is the caller of a request, within its rates.
func (a *api) callerOf(r *http.Request) (Caller, error) {
	c, err := a.identify(r)
	n := noteOf(r)
	n.caller, n.known = c, err == nil
	if n.party = stranger(r.RemoteAddr); err != nil {
		return c, err
	}
	n.party = party{payer(r, c), c.Subject}
	return c, a.admission.rates(r.Context(), c, n.party.tenant)
}

// payer is the tenant for which a request counts.
func payer(r *http.Request, c Caller) string {
	if c.Tenant == "" {
		return r.PathValue("tenant_id") // development mode
	}
	return c.Tenant
}

// answer does the work of a request when there is a slot for it. Nothing that the caller's network decides is part of
// it: the body has been read before, and the response is written afterwards.
func answer[R any](a *api, r *http.Request, work func() (R, error)) (R, error) {
	by := noteOf(r).party
	if err := a.admission.slots.enter(r.Context(), by, 1); err != nil {
		return *new(R), err
	}
	defer a.admission.slots.leave(by, 1)
	return work()
}
