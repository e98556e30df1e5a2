package httpapi

import (
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
	c.event().Owner = b.OwnerID
	if b.GiveUp {
		c.note.action = "lock." + actionGiveUp + "_set"
		o, err := a.locks.GiveUpSet(c.Context(), lock.GiveUpSet{Acquire: command})
		if o.Code == lock.OK {
			c.note.lockSet(b.LockKeys, o, err)
		}
		c.note.endedApart(o.At)
		return reply(c, o, o.Replayed, err, func(o lock.SetOutcome) (any, error) { return nil, direct.GaveUpSet(o) })
	}
	o, err := a.locks.AcquireSet(c.Context(), command)
	c.note.lockSet(keysOf(o.Leases), o, err)
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
	c.event().Owner = b.OwnerID
	c.note.lockSet(keysOf(o.Leases), o, err) // they need not be all
	if !o.Replayed {
		c.note.endedApart(o.At)
	}
	return reply(c, o, o.Replayed, err, func(o lock.SetOutcome) (contracts.LockSetReleased, error) {
		return direct.LockSetReleased(c.PathValue("tenant_id"), o)
	})
}

// keysOf are the keys of leases.
func keysOf(leases []lock.Lease) []string {
	keys := make([]string, len(leases))
	for i, l := range leases {
		keys[i] = l.Key
	}
	return keys
}
