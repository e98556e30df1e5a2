package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Locks is the client of a server's locks. Each method is one operation of the contract.
type Locks struct{ client *Client }

// Acquire takes the lock. The error LOCK_HELD has the holder and when its lease expires. An empty RequestID is filled in.
func (l *Locks) Acquire(ctx context.Context, tenant, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/acquire", r, isLease)
}

// Renew moves the lease's expiry to now + TTLSeconds. After LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER the caller
// must stop what the lock protects.
func (l *Locks) Renew(ctx context.Context, tenant, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	fill(&r.RequestID)
	return call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/renew", r, isLease)
}

// Release ends the caller's lease.
func (l *Locks) Release(ctx context.Context, tenant, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	fill(&r.RequestID)
	return call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/release", r, isEndedLease)
}

// ForceRelease ends another owner's lease; it needs the administrator's scope.
func (l *Locks) ForceRelease(ctx context.Context, tenant, key string, r contracts.ForceReleaseRequest) (contracts.Lock, error) {
	fill(&r.RequestID)
	return call(ctx, l.client, http.MethodPost, lockPath(tenant, key)+"/force-release", r, isLock)
}

// Get reads a lock. The error NOT_FOUND means that it was never held.
func (l *Locks) Get(ctx context.Context, tenant, key string) (contracts.Lock, error) {
	return call(ctx, l.client, http.MethodGet, lockPath(tenant, key), nil, isLock)
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
	v := url.Values{}
	for name, s := range map[string]string{"prefix": q.Prefix, "state": string(q.State), "page_token": q.PageToken} {
		if s != "" {
			v.Set(name, s)
		}
	}
	if q.PageSize != 0 {
		v.Set("page_size", strconv.Itoa(q.PageSize))
	}
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/locks"
	if len(v) > 0 {
		path += "?" + v.Encode()
	}
	return call(ctx, l.client, http.MethodGet, path, nil, isLockPage)
}

func lockPath(tenant, key string) string {
	return "/v1/tenants/" + url.PathEscape(tenant) + "/locks/" + url.PathEscape(key)
}

func fill(requestID *string) {
	if *requestID == "" {
		*requestID = NewRequestID()
	}
}

func isLease(l contracts.Lease) bool { return l.FencingToken > 0 }

func isEndedLease(l contracts.EndedLease) bool { return l.FencingToken > 0 }

func isLock(l contracts.Lock) bool { return l.LeaseID != "" }

func isLockPage(p contracts.LockPage) bool { return p.Locks != nil }
