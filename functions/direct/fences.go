package direct

import (
	"context"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Fences is the fences of a tenant on a store. They are those that a server on this store has.
func Fences(g *lock.Guard, tenant string) fence.Store { return fences{g, tenant} }

type fences struct {
	guard  *lock.Guard
	tenant string
}

// Check implements [fence.Store].
func (f fences) Check(ctx context.Context, resource string, l fence.Lease) error {
	c := lock.Fence{Tenant: f.tenant, Resource: resource, Lease: l}
	o, err := f.guard.Check(ctx, c)
	if err != nil {
		return withCode(err)
	}
	return FenceRejection(c, o)
}
