package setup

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// Identity returns who callers are: by the tokens of the issuer, if there is one, and otherwise by the given identity.
// Tenant, administrators and workers are those of the settings. ctx is the lifetime of the identity.
func Identity(ctx context.Context, c *settings.Config, otherwise httpapi.Identity) (httpapi.Identity, error) {
	who := otherwise
	if c.AuthIssuer != "" {
		var err error
		if who, err = oidc.New(ctx, tokens(c)); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name("LEASEHOLD_AUTH_ISSUER"), err)
		}
	}
	of := map[httpapi.Rights][]string{httpapi.Admin: c.AuthAdmins, httpapi.Operate: c.AuthOperators,
		httpapi.Worker: c.AuthWorkers, httpapi.MachineIDs: c.AuthIDSubjects}
	maps.DeleteFunc(of, func(_ httpapi.Rights, subjects []string) bool { return subjects == nil })
	if len(of) > 0 {
		who = roles{who, of}
	}
	if oneTenant(c) {
		who = fixedTenant{who, c.AuthTenant, c.AuthSubjects}
	}
	return who, nil
}

// tokens are the settings of the issuer's tokens.
func tokens(c *settings.Config) oidc.Config {
	return oidc.Config{
		Issuer: c.AuthIssuer, Audience: c.AuthAudience, Clients: c.AuthClients, JWKSURL: c.AuthJWKSURL,
		TenantClaim: TenantClaim(c), Scopes: Scopes(c), RequiredScope: c.AuthRequiredScope, Leeway: c.AuthLeeway,
	}
}

// Scopes are those that give rights.
func Scopes(c *settings.Config) httpapi.Scopes {
	return httpapi.Scopes{Admin: c.AuthAdminScope, Operate: c.AuthOperateScope, Worker: c.AuthWorkerScope,
		MachineIDs: c.AuthIDScope}
}

// TenantClaim is the claim that an identity reads the tenant from. If all callers have one tenant, it is a claim that
// every token has; [Identity] replaces the tenant.
func TenantClaim(c *settings.Config) string {
	if oneTenant(c) {
		return "sub"
	}
	return c.AuthTenantClaim
}

// oneTenant reports whether all callers have the tenant AuthTenant. Without an issuer, callers verified by the platform
// keep the tenant of their claim unless the subjects of AuthTenant are listed: no caller is moved into a tenant without
// being named.
func oneTenant(c *settings.Config) bool {
	return c.AuthTenant != "" && !c.Given("LEASEHOLD_AUTH_TENANT_CLAIM") && (c.AuthIssuer != "" || c.AuthSubjects != nil)
}

// roles are subjects with rights that their tokens do not name: Google's tokens have no scopes.
type roles struct {
	httpapi.Identity

	of map[httpapi.Rights][]string // by the right
}

// Identify implements [httpapi.Identity].
func (i roles) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := i.Identity.Identify(r)
	if err == nil {
		for right, subjects := range i.of {
			if slices.Contains(subjects, c.Subject) {
				c.Rights |= right
			}
		}
	}
	return c, err
}

// fixedTenant puts all callers into one tenant, or some subjects and rejects all others.
type fixedTenant struct {
	httpapi.Identity

	tenant   string
	subjects []string // nil: all
}

// Identify implements [httpapi.Identity].
func (i fixedTenant) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := i.Identity.Identify(r)
	if err != nil {
		return httpapi.Caller{}, err
	}
	if i.subjects != nil && !slices.Contains(i.subjects, c.Subject) {
		return httpapi.Caller{}, httpapi.Unauthenticated("the caller's subject is not in LEASEHOLD_AUTH_SUBJECTS")
	}
	c.Tenant = i.tenant
	return c, nil
}
