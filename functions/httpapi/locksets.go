package httpapi

import (
	"log/slog"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// acquireSet replies with the leases, or with nothing if the request is given up.
func (a *api) acquireSet(c call, b *contracts.LockSetAcquireRequest) (set any, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return nil, err
	}
	command, err := direct.AcquireSet(c.PathValue("tenant_id"), *b)
	if err != nil {
		return nil, err
	}
	c.audit(slog.String("owner", b.OwnerID), slog.Any("locks", b.LockKeys))
	if b.GiveUp {
		c.audit(gaveUp)
		o, err := a.locks.GiveUpSet(c.Context(), lock.GiveUpSet{Acquire: command})
		return reply(c, o, o.Replayed, err, func(o lock.SetOutcome) (any, error) { return nil, direct.GaveUpSet(o) })
	}
	o, err := a.locks.AcquireSet(c.Context(), command)
	return a.heldSet(c, o, err)
}

func (a *api) renewSet(c call, b *contracts.LockSetRenewRequest) (set contracts.LockSet, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return set, err
	}
	command, err := direct.RenewSet(c.PathValue("tenant_id"), *b)
	if err != nil {
		return set, err
	}
	o, err := a.locks.RenewSet(c.Context(), command)
	return a.heldSet(c, o, err)
}

// heldSet replies to an acquire or a renewal of several locks.
func (a *api) heldSet(c call, o lock.SetOutcome, err error) (contracts.LockSet, error) {
	return reply(c, o, o.Replayed, err, func(o lock.SetOutcome) (contracts.LockSet, error) {
		return direct.LockSet(c.PathValue("tenant_id"), o)
	})
}

func (a *api) releaseSet(c call, b *contracts.LockSetReleaseRequest) (released contracts.LockSetReleased, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return released, err
	}
	o, err := a.locks.ReleaseSet(c.Context(), direct.ReleaseSet(c.PathValue("tenant_id"), *b))
	return reply(c, o, o.Replayed, err, func(o lock.SetOutcome) (contracts.LockSetReleased, error) {
		return direct.LockSetReleased(c.PathValue("tenant_id"), o)
	})
}
