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
// by whom and until when. An empty RequestID is filled in. After an [UnknownOutcomeError] send the request again with
// its RequestID, and release what it returns: otherwise the leases expire.
func (l *Locks) AcquireSet(ctx context.Context, tenant string, r contracts.LockSetAcquireRequest) (contracts.LockSet,
	error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, setPath(tenant)+"/acquire", r.RequestID, r,
		lease.AskedSet{Tenant: tenant, Keys: r.LockKeys, Owner: r.OwnerID}.Granted)
	return got, err
}

// RenewSet moves the expiry of several leases to now + TTLSeconds, of all or of none. Its errors are those of
// [Locks.Renew], and say in LockKey which lease they are about.
func (l *Locks) RenewSet(ctx context.Context, tenant string, r contracts.LockSetRenewRequest) (contracts.LockSet,
	error) {
	fill(&r.RequestID)
	got, _, err := command(ctx, l.client, setPath(tenant)+"/renew", r.RequestID, r,
		askedSet(tenant, r.OwnerID, r.Leases).Granted)
	return got, err
}

// ReleaseSet ends those of the caller's leases that last. An error such as LEASE_LOST says that one of them, LockKey,
// was lost before; the others are released.
func (l *Locks) ReleaseSet(ctx context.Context, tenant string, r contracts.LockSetReleaseRequest) (
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
