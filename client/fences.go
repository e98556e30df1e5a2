package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Fences is the client of a server's fences, which remember the highest fencing token that each resource has seen.
type Fences struct{ client *Client }

// Fences returns the client of the server's fences.
func (c *Client) Fences() *Fences { return &Fences{c} }

// Check passes a lease by the resource's fence: locks.Lock.Lease, once.Lock.Lease. The error STALE_TOKEN means that a
// higher token was seen and that the holder of this one must stop; it has the highest token. OTHER_SUBJECT means that
// tokens of another lock or run were seen, with which this one has no order.
func (f *Fences) Check(ctx context.Context, tenant, resource string, l fencing.Lease) (contracts.FencePassed, error) {
	return call(ctx, f.client, http.MethodPost, fencePath(tenant, resource)+"/check",
		contracts.FenceRequest{FencingToken: l.Token, Subject: l.Subject}, isFencePassed(tenant, resource, l))
}

// Get reads the highest token that the resource's fence has seen. The error NOT_FOUND means that it has seen none.
func (f *Fences) Get(ctx context.Context, tenant, resource string) (contracts.Fence, error) {
	return call(ctx, f.client, http.MethodGet, fencePath(tenant, resource), nil, func(got contracts.Fence) error {
		if got.TenantID != tenant || got.Resource != resource || got.HighestToken < 1 {
			return fmt.Errorf("it is about token %d of the fence of %q of tenant %q, which was not asked for", got.HighestToken,
				got.Resource, got.TenantID)
		}
		return nil
	})
}

// Reset makes the resource's fence forget its highest token, if that still is HighestToken: an administrator's tool for
// a fence that a wrong token has closed. Until a current token has been checked again, old ones pass. Sending it again
// has no second effect. Errors: PERMISSION_DENIED without the administrator's scope; STALE_TOKEN, with the highest
// token, if it is another one by now; NOT_FOUND if the fence has seen no token.
func (f *Fences) Reset(ctx context.Context, tenant, resource string,
	r contracts.FenceResetRequest) (contracts.FenceReset, error) {
	return call(ctx, f.client, http.MethodPost, fencePath(tenant, resource)+"/reset", r,
		func(got contracts.FenceReset) error {
			if got.TenantID != tenant || got.Resource != resource || got.ResetToken != r.HighestToken {
				return fmt.Errorf("it is about token %d of the fence of %q of tenant %q, which was not asked for", got.ResetToken,
					got.Resource, got.TenantID)
			}
			return nil
		})
}

// Remove removes the resource's fence, if its highest token still is HighestToken, or was reset from it: an
// administrator's tool for a resource that is gone. What the fence knew is lost: if the resource is used again, the
// next token that is checked passes, whichever it is. Without a fence nothing is done. Errors: PERMISSION_DENIED
// without the administrator's scope; STALE_TOKEN, with the highest token, if it is another one by now.
func (f *Fences) Remove(ctx context.Context, tenant, resource string,
	r contracts.FenceRemoveRequest) (contracts.FenceRemoved, error) {
	return call(ctx, f.client, http.MethodPost, fencePath(tenant, resource)+"/remove", r,
		func(got contracts.FenceRemoved) error {
			if got.TenantID != tenant || got.Resource != resource || got.RemovedToken != r.HighestToken {
				return fmt.Errorf("it is about token %d of the fence of %q of tenant %q, which was not asked for", got.RemovedToken,
					got.Resource, got.TenantID)
			}
			return nil
		})
}

func fencePath(tenant, resource string) string {
	return "/v1/tenants/" + url.PathEscape(tenant) + "/fences/" + url.PathEscape(resource)
}

func isFencePassed(tenant, resource string, l fencing.Lease) func(contracts.FencePassed) error {
	return func(p contracts.FencePassed) error {
		if p.TenantID != tenant || p.Resource != resource || p.Subject != l.Subject {
			return fmt.Errorf("it is about the fence of %q of tenant %q and %q, which was not asked for", p.Resource, p.TenantID,
				p.Subject)
		}
		return lease.SameToken(l.Token, p.FencingToken)
	}
}

// For returns the fences of a tenant as package fence needs them: a fence.Store.
func (f *Fences) For(tenant string) *TenantFences { return &TenantFences{f, tenant} }

// TenantFences are the fences of one tenant.
type TenantFences struct {
	fences *Fences
	tenant string
}

// Check passes a lease by the resource's fence: see [Fences.Check].
func (f *TenantFences) Check(ctx context.Context, resource string, l fencing.Lease) error {
	_, err := f.fences.Check(ctx, f.tenant, resource, l)
	return err
}
