package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/locks"
)

// Locks is the client of a server's locks. Each method is one operation of the contract. A response that is not about
// the lock, the owner and the token of the request is an error.
type Locks struct{ client *Client }

// For returns the locks of a tenant as package locks needs them: each request is sent once, because that package
// retries by itself.
func (l *Locks) For(tenant string) locks.Provider {
	once := *l.client
	once.tries = 1
	return tenantLocks{&Locks{&once}, tenant}
}

// tenantLocks are the locks of a tenant.
type tenantLocks struct {
	locks  *Locks
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

	// Released is closed when the client has ended its attempt to release what a cancelled [Locks.Acquire] may have
	// acquired. nil if it makes none.
	Released <-chan struct{}
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("%v (request_id %s may have been carried out)", e.Err, e.RequestID)
}

// Unwrap returns Err.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// abandonTimeout bounds the attempt to release what a cancelled acquire may have acquired, beside the wait that the
// server was asked for.
const abandonTimeout = 10 * time.Second

// Acquire takes the lock. The error LOCK_HELD has the holder and when its lease expires. An empty RequestID is filled
// in; if ctx then ends before there is a response, Acquire returns at once and the client calls [Locks.Abandon] in the
// background, for 10 s at most; with WaitSeconds a few times more while it is refused, until the wait that the server
// was asked for has ended, because another server may still wait. A lease that has expired by the time its response
// arrives is the error LEASE_EXPIRED.
//
// With WaitSeconds the server waits for a lock that is held, and the client so much longer for the response. LOCK_HELD
// then says that the wait is over: send the same request again to wait on, or call [Locks.Abandon] to give the place in
// line to the next. A grant of the mode rate is a [Lease] that cannot be renewed or released.
func (l *Locks) Acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (Lease, error) {
	own := r.RequestID == ""
	fill(&r.RequestID)
	valid := func(got contracts.Lease) error {
		return lease.Asked{Tenant: tenant, Key: key, Owner: r.OwnerID}.Acquired(r, got)
	}
	asked := time.Now()
	slow := &Locks{l.client.waiting(time.Duration(r.WaitSeconds) * time.Second)}
	lease, err := slow.lease(ctx, tenant, key, "/acquire", r.OwnerID, r.RequestID, r, valid)
	if unknown, ok := errors.AsType[*UnknownOutcomeError](err); ok && own && ctx.Err() != nil {
		released := make(chan struct{})
		unknown.Released = released
		go func() {
			defer close(released)
			l.settle(context.WithoutCancel(ctx), tenant, key, r, asked) // otherwise the lease expires
		}()
	}
	return lease, err
}

// Abandon releases the lease that an Acquire with an [UnknownOutcomeError] may have obtained, and gives up the place in
// line of one that waited. r is the request with its RequestID: it is sent again, without the wait, which returns the
// lease of the first delivery if there was one, and the lease is released. If the lock is held by another request, or
// the lease has ended already, there is nothing to do. With Replace it is sent only if without that the server says
// that it was carried out, so that it replaces no one now. A grant of the mode rate stays used.
//
// The server that it reaches ends its own waits for the request. A delivery that waits at another server may obtain the
// lock until its wait ends.
func (l *Locks) Abandon(ctx context.Context, tenant, key string, r contracts.AcquireRequest) error {
	err := l.abandon(ctx, tenant, key, r)
	if lease.Refused(err) {
		return nil
	}
	return err
}

// settle is Abandon in the background. While it is refused it goes on until the wait of the request has ended, which
// was sent at a time.
func (l *Locks) settle(ctx context.Context, tenant, key string, r contracts.AcquireRequest, asked time.Time) {
	end := asked
	if r.WaitSeconds > 0 {
		end = asked.Add(time.Duration(r.WaitSeconds)*time.Second + lease.LateWait)
	}
	ctx, cancel := context.WithTimeout(ctx, max(0, time.Until(end))+abandonTimeout)
	defer cancel()
	for retry := 0; ; retry++ {
		left := time.Until(end)
		if err := l.abandon(ctx, tenant, key, r); !lease.Refused(err) || left <= 0 {
			return
		}
		if backoff.Sleep(ctx, min(left, lease.GivenUp.Delay(retry))) != nil {
			return
		}
	}
}

// abandon is Abandon, whose error says if the request was refused.
func (l *Locks) abandon(ctx context.Context, tenant, key string, r contracts.AcquireRequest) error {
	if r.RequestID == "" {
		return errors.New("abandon: RequestID is required: that of the acquire to undo")
	}
	replace := r.Replace
	r.WaitSeconds, r.Replace = 0, false
	valid := func(got contracts.Lease) error {
		return lease.Asked{Tenant: tenant, Key: key, Owner: r.OwnerID}.Acquired(r, got)
	}
	lease, err := call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/acquire", r, valid)
	if replace && errors.Is(err, contracts.CodeRequestIDReused) {
		r.Replace = true
		lease, err = call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/acquire", r, valid)
	}
	if err == nil && r.Mode != contracts.LockModeRate {
		_, err = l.Release(ctx, tenant, key, contracts.ReleaseRequest{OwnerID: r.OwnerID, FencingToken: lease.FencingToken})
	}
	for _, over := range []contracts.Code{
		contracts.CodeRequestIDReused, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeLeaseLost,
		contracts.CodeNotOwner,
	} {
		if errors.Is(err, over) {
			return nil
		}
	}
	return err
}

// Renew moves the lease's expiry to now + TTLSeconds. After LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER the
// caller must stop what the lock protects. With ExpiresAt, the error LEASE_CHANGED means that the lease expires at
// another time, which the error has: it is still held. [Locks.RenewLease] takes care of that.
func (l *Locks) Renew(ctx context.Context, tenant, key string, r contracts.RenewRequest) (Lease, error) {
	fill(&r.RequestID)
	return l.lease(ctx, tenant, key, "/renew", r.OwnerID, r.RequestID, r,
		lease.Asked{Tenant: tenant, Key: key, Owner: r.OwnerID, Token: r.FencingToken}.Granted)
}

// RenewLease renews a lease that this client returned, to now + ttlSeconds, and names when it expires, so that a
// delivery that is delayed on its way never undoes a later renewal. If a renewal whose response was lost has moved the
// expiry, it is renewed from there. Errors are those of [Locks.Renew].
func (l *Locks) RenewLease(ctx context.Context, lease Lease, ttlSeconds int64) (Lease, error) {
	r := contracts.RenewRequest{
		OwnerID: lease.owner, FencingToken: lease.FencingToken, TTLSeconds: ttlSeconds, ExpiresAt: lease.ExpiresAt,
	}
	renewed, err := l.Renew(ctx, lease.TenantID, lease.LockKey, r)
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeLeaseChanged && !e.ExpiresAt.IsZero() {
		r.ExpiresAt = e.ExpiresAt.UTC().Format(contracts.TimeFormat)
		return l.Renew(ctx, lease.TenantID, lease.LockKey, r)
	}
	return renewed, err
}

// lease sends a command of an owner whose response is a lease.
func (l *Locks) lease(ctx context.Context, tenant, key, name, owner, requestID string, r any,
	valid func(contracts.Lease) error) (Lease, error) {
	granted, end, err := command(ctx, l.client, lockPath(tenant, key)+name, requestID, r, valid)
	if err != nil {
		return Lease{}, err
	}
	if asked, ok := r.(contracts.AcquireRequest); ok {
		end.begin = end.begin.Add(lease.Waited(asked, granted, since(end.begin)))
	}
	got := Lease{granted, end.begin, owner}
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
func (l *Locks) Release(ctx context.Context, tenant, key string, r contracts.ReleaseRequest) (contracts.EndedLease,
	error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, lockPath(tenant, key)+"/release", r.RequestID, r, lease.Asked{
		Tenant: tenant, Key: key, Owner: r.OwnerID, Token: r.FencingToken,
	}.Ended)
	return got, err
}

// ForceRelease ends another owner's lease; it needs the administrator's scope.
func (l *Locks) ForceRelease(ctx context.Context, tenant, key string,
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
func (l *Locks) Get(ctx context.Context, tenant, key string) (contracts.Lock, error) {
	return call(ctx, l.client, http.MethodGet, lockPath(tenant, key), nil, isLock(tenant, key))
}

// LockQuery selects locks for [Locks.List]. The zero value selects all.
type LockQuery struct {
	Prefix    string          // of the key
	State     contracts.State // empty selects all
	PageSize  int             // 1 to 1000; 0 means the server's default
	PageToken string          // LockPage.NextPageToken of the page before
}

// List returns a page of the tenant's locks by ascending bytes of their keys.
func (l *Locks) List(ctx context.Context, tenant string, q LockQuery) (contracts.LockPage, error) {
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/locks" +
		listQuery(q.PageSize, map[string]string{"prefix": q.Prefix, "state": string(q.State), "page_token": q.PageToken})
	return call(ctx, l.client, http.MethodGet, path, nil, isLockPage(tenant, q))
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
