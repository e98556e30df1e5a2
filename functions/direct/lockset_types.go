package direct

import (
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// AcquireSet is an acquire of several locks of the contract; one that gives the request up has no end. The error is a
// [field.Error].
func AcquireSet(tenant string, r contracts.LockSetAcquireRequest) (lock.AcquireSet, error) {
	if r.GiveUp {
		r.NotAfter = ""
	}
	end, err := endOf(notAfter, r.NotAfter)
	return lock.AcquireSet{
		End: end, Tenant: tenant, Keys: r.LockKeys, Owner: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds,
		Metadata: r.Metadata,
	}, err
}

// RenewSet is a renewal of several leases of the contract. The error is a [field.Error].
func RenewSet(tenant string, r contracts.LockSetRenewRequest) (lock.RenewSet, error) {
	c := lock.RenewSet{Tenant: tenant, Leases: setLeases(r.Leases), Owner: r.OwnerID, RequestID: r.RequestID,
		TTLSeconds: r.TTLSeconds}
	if r.ExpiresAt == "" {
		return c, nil
	}
	var err error
	if c.ExpiresAt, err = docstore.ParseTime(docstore.String(r.ExpiresAt)); err != nil {
		return c, field.Errorf("expires_at", "must be the time that the leases showed, like %q", contracts.TimeFormat)
	}
	return c, nil
}

// ReleaseSet is a release of several leases of the contract.
func ReleaseSet(tenant string, r contracts.LockSetReleaseRequest) lock.ReleaseSet {
	return lock.ReleaseSet{Tenant: tenant, Leases: setLeases(r.Leases), Owner: r.OwnerID, RequestID: r.RequestID}
}

func setLeases(tokens contracts.LockSetTokens) []lock.SetLease {
	return each(tokens, func(t contracts.LockSetToken) lock.SetLease {
		return lock.SetLease{Key: t.LockKey, Token: t.FencingToken}
	})
}

// LockSet is the leases of an acquire or a renewal of several that is OK, else its rejection as a [contracts.Error].
func LockSet(tenant string, o lock.SetOutcome) (contracts.LockSet, error) {
	if o.Code != lock.OK {
		return contracts.LockSet{}, setRejection(o)
	}
	first := o.Leases[0]
	end := o.ExpiresAt()
	s := contracts.LockSet{
		TenantID: tenant, OwnerID: first.Owner, State: contracts.StateActive, Leases: each(o.Leases, setLease),
		AcquiredAt: Time(first.AcquiredAt), ExpiresAt: Time(end), RemainingMs: end.Sub(o.At).Milliseconds(),
		TTLSeconds: first.TTLSeconds,
		Replayed:   o.Replayed,
	}
	if s.AcquiredAt != "" {
		s.Metadata = labels(first.Metadata)
	}
	return s, nil
}

// GaveUpSet is nil if an acquire of several locks is given up, else the rejection as a [contracts.Error].
func GaveUpSet(o lock.SetOutcome) error {
	if o.Code != lock.OK {
		return setRejection(o)
	}
	return nil
}

// LockSetReleased is the leases of a release of several that is OK, else its rejection as a [contracts.Error].
func LockSetReleased(tenant string, o lock.SetOutcome) (contracts.LockSetReleased, error) {
	if o.Code != lock.OK {
		return contracts.LockSetReleased{}, setRejection(o)
	}
	return contracts.LockSetReleased{
		TenantID: tenant, OwnerID: o.Leases[0].Owner, State: contracts.StateReleased, Leases: each(o.Leases, setLease),
		Replayed: o.Replayed,
	}, nil
}

func setLease(l lock.Lease) contracts.LockSetLease {
	return contracts.LockSetLease{LockKey: l.Key, LeaseID: l.LeaseID, FencingToken: l.Token}
}

// setRejection is the outcome of a command on several locks that is not OK, and names the lock.
func setRejection(o lock.SetOutcome) error {
	e := rejection(o.Refusal)
	e.LockKey = o.Refusal.Lease.Key
	return e
}
