package direct

import (
	"context"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/wire"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Locks is the locks of a tenant on a store.
func Locks(s *lock.Locks, tenant string) locks.Provider { return lockProvider{s, tenant} }

type lockProvider struct {
	service *lock.Locks
	tenant  string
}

var (
	_ locks.Provider    = lockProvider{}
	_ locks.SetProvider = lockProvider{}
)

func (p lockProvider) id(key string) lock.ID { return lock.ID{Tenant: p.tenant, Key: key} }

// Acquire implements [locks.Provider].
func (p lockProvider) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	return lease(p.service.Acquire(ctx, wire.Acquire(p.id(key), r.OwnerID, r)))
}

// Renew implements [locks.Provider].
func (p lockProvider) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	command := lock.Renew{ID: p.id(key), Owner: r.OwnerID, Token: r.FencingToken, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds}
	if r.ExpiresAt != "" {
		var err error
		if command.ExpiresAt, err = docstore.ParseTime(docstore.String(r.ExpiresAt)); err != nil {
			return contracts.Lease{}, judged(field.Errorf("expires_at", "must be the time that the lease showed, like %q", contracts.TimeFormat))
		}
	}
	return lease(p.service.Renew(ctx, command))
}

// Release implements [locks.Provider].
func (p lockProvider) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	o, err := p.service.Release(ctx, lock.Release{ID: p.id(key), Owner: r.OwnerID, Token: r.FencingToken, RequestID: r.RequestID})
	switch {
	case err != nil:
		return contracts.EndedLease{}, judged(err)
	case o.Code != lock.OK:
		return contracts.EndedLease{}, wire.LockRejection(o)
	default:
		return wire.EndedLease(o), nil
	}
}

// Get implements [locks.Provider].
func (p lockProvider) Get(ctx context.Context, key string) (contracts.Lock, error) {
	s, found, err := p.service.Get(ctx, p.id(key))
	switch {
	case err != nil:
		return contracts.Lock{}, judged(err)
	case !found:
		return contracts.Lock{}, wire.NoLock()
	default:
		return wire.Lock(s), nil
	}
}

// lease is the outcome of an acquire or a renewal.
func lease(o lock.Outcome, err error) (contracts.Lease, error) {
	switch {
	case err != nil:
		return contracts.Lease{}, judged(err)
	case o.Code != lock.OK:
		return contracts.Lease{}, wire.LockRejection(o)
	default:
		return wire.Lease(o), nil
	}
}

// AcquireSet implements [locks.SetProvider].
func (p lockProvider) AcquireSet(ctx context.Context, r contracts.LockSetAcquireRequest) (contracts.LockSet, error) {
	o, err := p.service.AcquireSet(ctx, wire.AcquireSet(p.tenant, r.OwnerID, r))
	if err != nil {
		return contracts.LockSet{}, judged(err)
	}
	return wire.LockSet(p.tenant, o)
}

// RenewSet implements [locks.SetProvider].
func (p lockProvider) RenewSet(ctx context.Context, r contracts.LockSetRenewRequest) (contracts.LockSet, error) {
	c, err := wire.RenewSet(p.tenant, r.OwnerID, r)
	if err != nil {
		return contracts.LockSet{}, judged(err)
	}
	o, err := p.service.RenewSet(ctx, c)
	if err != nil {
		return contracts.LockSet{}, judged(err)
	}
	return wire.LockSet(p.tenant, o)
}

// ReleaseSet implements [locks.SetProvider].
func (p lockProvider) ReleaseSet(ctx context.Context, r contracts.LockSetReleaseRequest) (contracts.LockSetReleased, error) {
	o, err := p.service.ReleaseSet(ctx, wire.ReleaseSet(p.tenant, r.OwnerID, r))
	if err != nil {
		return contracts.LockSetReleased{}, judged(err)
	}
	return wire.LockSetReleased(p.tenant, o)
}
