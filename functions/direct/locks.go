package direct

import (
	"context"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/ends"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// NewLocks is a client that holds locks of a tenant on a store, without a server. Options may be nil. See [Locks] for
// how many locks a tenant may have and other settings of the rule.
func NewLocks(s docstore.Store, tenant string, o *locks.Options) (*locks.Client, error) {
	return locks.New(Locks(lock.New(s, nil), tenant), o)
}

// Locks is the locks of a tenant on a store.
func Locks(s *lock.Locks, tenant string) locks.Provider {
	return lockProvider{s, tenant, &ends.Clock{}}
}

type lockProvider struct {
	service *lock.Locks
	tenant  string
	ends    *ends.Clock
}

var (
	_ locks.Provider    = lockProvider{}
	_ locks.SetProvider = lockProvider{}
)

func (p lockProvider) id(key string) lock.ID { return lock.ID{Tenant: p.tenant, Key: key} }

// Acquire implements [locks.Provider]. One that gives the request up has no lease.
func (p lockProvider) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	return ended(ctx, p.ends, &r.NotAfter, func() (contracts.Lease, error) {
		c, err := Acquire(p.id(key), r)
		if err != nil {
			return contracts.Lease{}, withCode(err)
		}
		if r.GiveUp {
			o, err := p.service.GiveUp(ctx, lock.GiveUp{Acquire: c})
			return said(o, err, func(o lock.Outcome) (contracts.Lease, error) { return contracts.Lease{}, GaveUp(o) })
		}
		o, err := p.service.Acquire(ctx, c)
		return said(o, err, Lease)
	})
}

// Renew implements [locks.Provider].
func (p lockProvider) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	c, err := Renew(p.id(key), r)
	if err != nil {
		return contracts.Lease{}, withCode(err)
	}
	o, err := p.service.Renew(ctx, c)
	return said(o, err, Lease)
}

// Release implements [locks.Provider].
func (p lockProvider) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease,
	error) {
	o, err := p.service.Release(ctx, Release(p.id(key), r))
	return said(o, err, EndedLease)
}

// Get implements [locks.Provider].
func (p lockProvider) Get(ctx context.Context, key string) (contracts.Lock, error) {
	s, found, err := p.service.Get(ctx, p.id(key))
	switch {
	case err != nil:
		return contracts.Lock{}, withCode(err)
	case !found:
		return contracts.Lock{}, NoLock()
	default:
		return Lock(s), nil
	}
}

// AcquireSet implements [locks.SetProvider]. One that gives the request up has no leases.
func (p lockProvider) AcquireSet(ctx context.Context, r contracts.LockSetAcquireRequest) (contracts.LockSet, error) {
	return ended(ctx, p.ends, &r.NotAfter, func() (contracts.LockSet, error) {
		c, err := AcquireSet(p.tenant, r)
		if err != nil {
			return contracts.LockSet{}, withCode(err)
		}
		if r.GiveUp {
			o, err := p.service.GiveUpSet(ctx, lock.GiveUpSet{Acquire: c})
			return said(o, err, func(o lock.SetOutcome) (contracts.LockSet, error) { return contracts.LockSet{}, GaveUpSet(o) })
		}
		o, err := p.service.AcquireSet(ctx, c)
		return said(o, err, p.set)
	})
}

// RenewSet implements [locks.SetProvider].
func (p lockProvider) RenewSet(ctx context.Context, r contracts.LockSetRenewRequest) (contracts.LockSet, error) {
	c, err := RenewSet(p.tenant, r)
	if err != nil {
		return contracts.LockSet{}, withCode(err)
	}
	o, err := p.service.RenewSet(ctx, c)
	return said(o, err, p.set)
}

func (p lockProvider) set(o lock.SetOutcome) (contracts.LockSet, error) { return LockSet(p.tenant, o) }

// ReleaseSet implements [locks.SetProvider].
func (p lockProvider) ReleaseSet(ctx context.Context, r contracts.LockSetReleaseRequest) (contracts.LockSetReleased,
	error) {
	o, err := p.service.ReleaseSet(ctx, ReleaseSet(p.tenant, r))
	return said(o, err, func(o lock.SetOutcome) (contracts.LockSetReleased, error) { return LockSetReleased(p.tenant, o) })
}
