package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Fences is the client of a server's fences, which remember the highest fencing token that each resource has seen.
type Fences struct{ client *Client }

// Fences returns the client of the server's fences.
func (c *Client) Fences() *Fences { return &Fences{c} }

// Check passes a fencing token by the resource's fence. The error STALE_TOKEN means that a higher token was seen and that the
// holder of this one must stop; it has the highest token.
func (f *Fences) Check(ctx context.Context, tenant, resource string, token int64) (contracts.FencePassed, error) {
	path := "/v1/tenants/" + url.PathEscape(tenant) + "/fences/" + url.PathEscape(resource) + "/check"
	return call(ctx, f.client, http.MethodPost, path, contracts.FenceRequest{FencingToken: token}, isFencePassed(tenant, resource, token))
}

func isFencePassed(tenant, resource string, token int64) func(contracts.FencePassed) error {
	return func(p contracts.FencePassed) error {
		if p.TenantID != tenant || p.Resource != resource {
			return fmt.Errorf("it is about the fence of %q of tenant %q, which was not asked for", p.Resource, p.TenantID)
		}
		return sameToken(token, p.FencingToken)
	}
}
