package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/locks"
)

// LockAPI is the client of a server's locks, one request at a time. Each method is one operation of the contract. A
// response that is not about the lock, the owner and the token of the request is an error.
type LockAPI struct{ client *Client }

// LockAPI returns the client of the server's locks, one request at a time.
func (c *Client) LockAPI() *LockAPI { return &LockAPI{c} }

// Locks returns a client that holds locks of a tenant: see package locks. Options may be nil.
func (c *Client) Locks(tenant string, o *locks.Options) (*locks.Client, error) {
	return locks.New(c.LockAPI().For(tenant), o)
}

// For returns the locks of a tenant as package locks needs them: each request is sent once, because that package
// retries by itself.
func (l *LockAPI) For(tenant string) locks.Provider {
	once := *l.client
	once.tries = 1
	return tenantLocks{&LockAPI{&once}, tenant}
}

// tenantLocks are the locks of a tenant.
type tenantLocks struct {
	locks  *LockAPI
	tenant string
}

// Acquire implements [locks.Provider].
func (t tenantLocks) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	lease, err := t.locks.Acquire(ctx, t.tenant, key, r)
	return lease.Lease, err
}

// Renew implements [locks.Provider].
func (t tenantLocks) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	lease, err := t.locks.Renew(ctx, t.tenant, key, r)
	return lease.Lease, err
}

// Release implements [locks.Provider].
func (t tenantLocks) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease,
	error) {
	return t.locks.Release(ctx, t.tenant, key, r)
}

// Get implements [locks.Provider].
func (t tenantLocks) Get(ctx context.Context, key string) (contracts.Lock, error) {
	return t.locks.Get(ctx, t.tenant, key)
}

// Lease is a lease of a lock, with the time that is left of it.
type Lease struct {
	contracts.Lease

	begin time.Time // before the request that the lease was the response to, and what the server waited after it
	owner string    // owner_id of that request
}

// Remaining returns how long the lease lasts from now on, at least; 0 or less means that it has expired. It counts from
// before the request, on the monotonic clock and on the wall clock, whichever has gone further, so that this machine's
// time need not be right. A force-release is not seen: that takes a Renew.
func (l Lease) Remaining() time.Duration {
	now := time.Now()
	gone := max(now.Sub(l.begin), now.Round(0).Sub(l.begin.Round(0)))
	return time.Duration(l.RemainingMs)*time.Millisecond - gone
}

// since is the time since begin, by the clock that says less.
func since(begin time.Time) time.Duration {
	now := time.Now()
	return min(now.Sub(begin), now.Round(0).Sub(begin.Round(0)))
}

// UnknownOutcomeError is the error of a command of locks, or of [Analyses.Retry], that ended without a definite
// response: the server may have carried it out, or may still do so.
type UnknownOutcomeError struct {
	RequestID string // sent again with it, the command takes effect once
	Err       error  // why there is no response

	// Released is closed when the client has ended its attempt to give up what a cancelled [LockAPI.Acquire] or
	// [LockAPI.AcquireSet] has asked for. nil if it makes none.
	Released <-chan struct{}
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%v (request_id %s may have been carried out)", e.Err, e.RequestID)
}

// Unwrap returns Err.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// abandonTimeout bounds the attempt to give up what a cancelled acquire has asked for.
const abandonTimeout = 10 * time.Second

// Acquire takes the lock. The error LOCK_HELD has the holder and when its lease expires. An empty RequestID is filled
// in; if ctx then ends before there is a response, Acquire returns at once and the client gives the request up in the
// background, as [LockAPI.Abandon] does, for 10 s at most. It does so too when the server refuses a request of which an
// earlier try had no response: that try may still be on its way. A lease that has expired by the time its response
// arrives is the error LEASE_EXPIRED.
//
// With WaitSeconds the server waits for a lock that is held, and the client so much longer for the response. LOCK_HELD
// then says that the wait is over: send the same request again to wait on, or call [LockAPI.Abandon] to give the place
// in line to the next. A grant of the mode rate is a [Lease] that cannot be renewed or released. With GiveUp it is
// [LockAPI.Abandon].
func (l *LockAPI) Acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (Lease, error) {
	if r.GiveUp {
		return Lease{}, l.Abandon(ctx, tenant, key, r)
	}
	own := r.RequestID == ""
	fill(&r.RequestID)
	slow := &LockAPI{l.client.waiting(time.Duration(r.WaitSeconds) * time.Second)}
	granted, end, err := slow.acquire(ctx, tenant, key, r)
	if err != nil {
		r := r // only then it is kept
		return Lease{}, l.client.givenUp(ctx, err, end, own, func(ctx context.Context) error {
			return l.Abandon(ctx, tenant, key, r)
		})
	}
	return leased(granted, end.begin.Add(lease.Waited(r, granted, since(end.begin))), r.OwnerID)
}

// acquire sends an acquire, or gives it up.
func (l *LockAPI) acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (contracts.Lease, ended,
	error) {
	return command(ctx, l.client, lockPath(tenant, key)+"/acquire", r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter, givesUp: r.GiveUp,
	}, func(got contracts.Lease) error {
		return lease.Asked{Tenant: tenant, Key: key, Owner: r.OwnerID}.Acquired(r, got)
	})
}

// Abandon gives up an Acquire whose response is not wanted any more, such as one with an [UnknownOutcomeError]: what it
// obtained ends, its place in line and its waits end too, at every server, and no delivery of it that comes late
// obtains anything. r is the request with its RequestID. There is nothing to do if it obtained a lease that has ended.
// A grant of the mode rate stays used. Any error says that the request may still have an effect.
func (l *LockAPI) Abandon(ctx context.Context, tenant, key string, r contracts.AcquireRequest) error {
	if r.RequestID == "" {
		return errNoRequest
	}
	r.GiveUp = true
	_, _, err := l.acquire(ctx, tenant, key, r)
	return overAnyway(err)
}

// errNoRequest is the error of a request to give up that does not say which.
var errNoRequest = errors.New("abandon: RequestID is required: that of the request to give up")

// overAnyway is the error of a request to give up, but for that which says that the request obtained something which
// has ended: then nothing is left to give up.
func overAnyway(err error) error {
	if errors.Is(err, contracts.CodeRequestIDReused) {
		return nil
	}
	return err
}

// givenUp is the error of a request that obtained nothing the caller knows of. If the caller does not know its
// request_id either, and it may still obtain something, it is given up in the background.
func (c *Client) givenUp(ctx context.Context, err error, end ended, own bool,
	giveUp func(context.Context) error) error {
	unknown, ok := errors.AsType[*UnknownOutcomeError](err)
	if ok && ctx.Err() == nil || !ok && !end.lost || !own || errors.Is(err, contracts.CodeRequestIDReused) {
		return err
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
		defer cancel()
		_ = hold.GiveUp(ctx, giveUp) // otherwise the lease expires
	}()
	if ok {
		unknown.Released = released
	}
	return err
}

// Renew moves the lease's expiry to now + TTLSeconds. After LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER the
// caller must stop what the lock protects. With ExpiresAt, the error LEASE_CHANGED means that the lease expires at
// another time, which the error has: it is still held. [LockAPI.RenewLease] takes care of that.
func (l *LockAPI) Renew(ctx context.Context, tenant, key string, r contracts.RenewRequest) (Lease, error) {
	fill(&r.RequestID)
	granted, end, err := command(ctx, l.client, lockPath(tenant, key)+"/renew", r.RequestID, r,
		lease.Asked{Tenant: tenant, Key: key, Owner: r.OwnerID, Token: r.FencingToken}.Granted)
	if err != nil {
		return Lease{}, err
	}
	return leased(granted, end.begin, r.OwnerID)
}

// RenewLease renews a lease that this client returned, to now + ttlSeconds, and names when it expires, so that a
// delivery that is delayed on its way never undoes a later renewal. If a renewal whose response was lost has moved the
// expiry, it is renewed from there. Errors are those of [LockAPI.Renew].
func (l *LockAPI) RenewLease(ctx context.Context, held Lease, ttlSeconds int64) (Lease, error) {
	r := contracts.RenewRequest{
		OwnerID: held.owner, FencingToken: held.FencingToken, TTLSeconds: ttlSeconds, ExpiresAt: held.ExpiresAt,
	}
	renewed, err := l.Renew(ctx, held.TenantID, held.LockKey, r)
	const unsure = true // what became of earlier calls is not known here
	if at, _ := lease.Changed(err, held.ExpiresAt, unsure); at != "" {
		r.ExpiresAt = at
		return l.Renew(ctx, held.TenantID, held.LockKey, r)
	}
	return renewed, err
}

// leased is a lease that was asked for at begin, unless it has expired by now.
func leased(granted contracts.Lease, begin time.Time, owner string) (Lease, error) {
	got := Lease{granted, begin, owner}
	if got.Remaining() <= 0 {
		return Lease{}, contracts.Errorf(contracts.CodeLeaseExpired,
			"the lease expired before its response arrived: use a longer ttl")
	}
	return got, nil
}

// command sends a command with a request_id. Its error says whether the command may have been carried out.
func command[T any](ctx context.Context, c *Client, path, requestID string, r any, valid func(T) error) (T, ended,
	error) {
	got, end, err := exchanges(ctx, c, http.MethodPost, path, r, valid)
	if end.unknown {
		err = &UnknownOutcomeError{RequestID: requestID, Err: err}
	}
	return got, end, err
}

// Release ends the caller's lease.
func (l *LockAPI) Release(ctx context.Context, tenant, key string, r contracts.ReleaseRequest) (contracts.EndedLease,
	error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, lockPath(tenant, key)+"/release", r.RequestID, r, lease.Asked{
		Tenant: tenant, Key: key, Owner: r.OwnerID, Token: r.FencingToken,
	}.Ended)
	return got, err
}

// ForceRelease ends another owner's lease; it needs the administrator's scope.
func (l *LockAPI) ForceRelease(ctx context.Context, tenant, key string,
	r contracts.ForceReleaseRequest) (contracts.ForceReleased, error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, lockPath(tenant, key)+"/force-release", r.RequestID, r,
		func(f contracts.ForceReleased) error {
			return cmp.Or(lease.Asked{Tenant: tenant, Key: key}.Lock(f.TenantID, f.LockKey),
				lease.InState(contracts.StateReleased, f.State))
		})
	return got, err
}

// Get reads a lock. The error NOT_FOUND means that there is no record of it.
func (l *LockAPI) Get(ctx context.Context, tenant, key string) (contracts.Lock, error) {
	return call(ctx, l.client, http.MethodGet, lockPath(tenant, key), nil, isLock(tenant, key))
}

// LockQuery selects locks for [LockAPI.List]. The zero value selects all.
type LockQuery struct {
	Prefix    string          // of the key
	State     contracts.State // empty selects all
	Owner     string          // who holds it, held it last, or waits in line; empty selects all
	Urgent    bool            // only locks with a line, and leases of which less than a third is left
	PageSize  int             // 1 to 1000; 0 means the server's default
	PageToken string          // LockPage.NextPageToken of the page before
}

// List returns a page of the tenant's locks by ascending bytes of their keys. A page that is filtered can be short, or
// even empty, and still have a NextPageToken; its Counts are those of all locks that were read for it.
func (l *LockAPI) List(ctx context.Context, tenant string, q LockQuery) (contracts.LockPage, error) {
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/locks" +
		listQuery(q.PageSize, map[string]string{"prefix": q.Prefix, "state": string(q.State), "owner_id": q.Owner,
			"urgent": ifTrue(q.Urgent), "page_token": q.PageToken})
	return call(ctx, l.client, http.MethodGet, path, nil, isLockPage(tenant, q))
}

// All are the locks of a tenant that a query selects, over all pages from q.PageToken on. An error ends them.
func (l *LockAPI) All(ctx context.Context, tenant string, q LockQuery) iter.Seq2[contracts.Lock, error] {
	return func(yield func(contracts.Lock, error) bool) {
		for {
			page, err := l.List(ctx, tenant, q)
			if err != nil {
				yield(contracts.Lock{}, err)
				return
			}
			for _, lock := range page.Locks {
				if !yield(lock, nil) {
					return
				}
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				return
			}
		}
	}
}

// ifTrue is a parameter that is left out if it is false.
func ifTrue(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// listQuery is the query of a list, with its "?"; what is empty is left out.
func listQuery(pageSize int, parameters map[string]string) string {
	v := url.Values{}
	for name, s := range parameters {
		if s != "" {
			v.Set(name, s)
		}
	}
	if pageSize != 0 {
		v.Set("page_size", strconv.Itoa(pageSize))
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

func lockPath(tenant, key string) string {
	return "/v1/tenants/" + url.PathEscape(tenant) + "/locks/" + url.PathEscape(key)
}

func fill(requestID *string) {
	if *requestID == "" {
		*requestID = NewRequestID()
	}
}

func isLock(tenant, key string) func(contracts.Lock) error {
	return func(l contracts.Lock) error {
		// that of a lease that has ended may be forgotten
		if l.LeaseID == "" && (l.State == "" || l.State == contracts.StateActive) {
			return lease.ErrMissing
		}
		return lease.Asked{Tenant: tenant, Key: key}.Lock(l.TenantID, l.LockKey)
	}
}

func isLockPage(tenant string, q LockQuery) func(contracts.LockPage) error {
	return func(p contracts.LockPage) error {
		if p.Locks == nil {
			return lease.ErrMissing
		}
		for _, l := range p.Locks {
			if err := isLock(tenant, l.LockKey)(l); err != nil {
				return err
			}
			if !strings.HasPrefix(l.LockKey, q.Prefix) || q.State != "" && l.State != q.State {
				return fmt.Errorf("it lists the lock %q in the state %s, which was not asked for", l.LockKey, l.State)
			}
		}
		return nil
	}
}
