package client

import (
	"context"
	"net/url"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/locks"
)

var _ locks.SetProvider = tenantLocks{}

// AcquireSet takes up to 20 locks in one step, all or none. The error LOCK_HELD says in LockKey which of them is held,
// by whom and until when. An empty RequestID is filled in, and the request is given up as [LockAPI.Acquire] says. After
// an [UnknownOutcomeError] send the request again with its RequestID, or call [LockAPI.AbandonSet]. With GiveUp it is
// that.
func (l *LockAPI) AcquireSet(ctx context.Context, tenant string, r contracts.LockSetAcquireRequest) (contracts.LockSet,
	error) {
	if r.GiveUp {
		return contracts.LockSet{}, l.AbandonSet(ctx, tenant, r)
	}
	own := r.RequestID == ""
	fill(&r.RequestID)
	got, end, err := l.acquireSet(ctx, tenant, r)
	if err != nil {
		err = l.client.givenUp(ctx, err, end, own, func(ctx context.Context) error { return l.AbandonSet(ctx, tenant, r) })
	}
	return got, err
}

// AbandonSet gives up an AcquireSet, as [LockAPI.Abandon] does an Acquire.
func (l *LockAPI) AbandonSet(ctx context.Context, tenant string, r contracts.LockSetAcquireRequest) error {
	if r.RequestID == "" {
		return errNoRequest
	}
	r.GiveUp = true
	_, _, err := l.acquireSet(ctx, tenant, r)
	return overAnyway(err)
}

// acquireSet sends an acquire of several locks, or gives it up.
func (l *LockAPI) acquireSet(ctx context.Context, tenant string, r contracts.LockSetAcquireRequest) (contracts.LockSet,
	ended, error) {
	return command(ctx, l.client, setPath(tenant)+"/acquire", r.RequestID, limited{
		with: func(end string) any { r.NotAfter = end; return &r }, end: r.NotAfter, givesUp: r.GiveUp,
	}, lease.AskedSet{Tenant: tenant, Keys: r.LockKeys, Owner: r.OwnerID}.Granted)
}

// RenewSet moves the expiry of several leases to now + TTLSeconds, of all or of none. Its errors are those of
// [LockAPI.Renew], and say in LockKey which lease they are about.
func (l *LockAPI) RenewSet(ctx context.Context, tenant string, r contracts.LockSetRenewRequest) (contracts.LockSet,
	error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, setPath(tenant)+"/renew", r.RequestID, r,
		askedSet(tenant, r.OwnerID, r.Leases).Granted)
	return got, err
}

// ReleaseSet ends those of the caller's leases that last. An error such as LEASE_LOST says that one of them, LockKey,
// was lost before; the others are released.
func (l *LockAPI) ReleaseSet(ctx context.Context, tenant string, r contracts.LockSetReleaseRequest) (
	contracts.LockSetReleased, error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, setPath(tenant)+"/release", r.RequestID, r,
		askedSet(tenant, r.OwnerID, r.Leases).Ended)
	return got, err
}

func askedSet(tenant, owner string, tokens contracts.LockSetTokens) lease.AskedSet {
	a := lease.AskedSet{Tenant: tenant, Owner: owner, Tokens: tokens}
	for _, t := range tokens {
		a.Keys = append(a.Keys, t.LockKey)
	}
	return a
}

func setPath(tenant string) string { return "/v1/tenants/" + url.PathEscape(tenant) + "/lock-sets" }

// AcquireSet implements [locks.SetProvider].
func (t tenantLocks) AcquireSet(ctx context.Context, r contracts.LockSetAcquireRequest) (contracts.LockSet, error) {
	return t.locks.AcquireSet(ctx, t.tenant, r)
}

// RenewSet implements [locks.SetProvider].
func (t tenantLocks) RenewSet(ctx context.Context, r contracts.LockSetRenewRequest) (contracts.LockSet, error) {
	return t.locks.RenewSet(ctx, t.tenant, r)
}

// ReleaseSet implements [locks.SetProvider].
func (t tenantLocks) ReleaseSet(ctx context.Context, r contracts.LockSetReleaseRequest) (contracts.LockSetReleased,
	error) {
	return t.locks.ReleaseSet(ctx, t.tenant, r)
}
