package aws

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Defaults of [Authorizer], and the bound of tenants.
const (
	DefaultTenantClaim = "tenant_id"

	maxTenantBytes = 200
)

// Authorizer is the [httpapi.Identity] of callers that the front end verified before the function:
//
//   - by a JWT authorizer of an HTTP API or a Cognito authorizer of a REST API. The subject is the claim sub, the
//     tenant is the claim TenantClaim, and administrators, workers and callers that lease machine IDs have the scopes
//     Scopes in the claim scope or scp.
//   - by a Lambda authorizer of either, whose context has these claims. Without sub, the subject is principalId.
//   - by IAM, at either or at a function URL. The subject is the caller's ARN, the tenant is IAMTenant. The ARN of a
//     role is without its session, whose name the caller chooses: processes of one role are one subject, and differ by
//     owner_id. For an identity of a Cognito pool, which shares its role with all others, the identity's ID replaces
//     the session.
//
// What was verified once is not verified again while a request waits. Of a JWT its claim exp is known; that of an IAM
// caller holds for the request.
//
// All other callers are unauthenticated, and all callers of a load balancer: what it says about them is in headers,
// which reach the function in other ways too. Claims that are not text count as text.
type Authorizer struct {
	TenantClaim string // empty means DefaultTenantClaim
	Scopes      httpapi.Scopes
	IAMTenant   string // empty rejects IAM callers
}

var _ httpapi.Identity = Authorizer{}

// Challenge implements [httpapi.Identity].
func (Authorizer) Challenge() string { return `Bearer realm="leasehold"` }

// Unverified implements [httpapi.Identity].
func (Authorizer) Unverified() bool { return false }

// Identify implements [httpapi.Identity]. It reads the event in the request's context, never headers.
func (a Authorizer) Identify(r *http.Request) (httpapi.Caller, error) {
	e, _ := r.Context().Value(eventKey{}).(*event)
	switch {
	case e == nil:
		return httpapi.Caller{}, errNoAuthorizer
	case e.caller.iam:
		return a.byARN(e.caller)
	case e.caller.claims != nil:
		return a.byClaims(e.caller)
	default:
		return httpapi.Caller{}, errNoAuthorizer
	}
}

func (a Authorizer) byClaims(v verified) (httpapi.Caller, error) {
	whose := "token's"
	if v.authorizer {
		whose = "Lambda authorizer's"
	}
	claim := cmp.Or(a.TenantClaim, DefaultTenantClaim)
	subject, tenant := v.claims.text("sub"), v.claims.text(claim)
	if err := field.Text("sub", subject, httpapi.MaxSubjectBytes); err != nil {
		return httpapi.Caller{}, httpapi.Unauthenticated("the %s claim %s: it must name the caller", whose, err)
	}
	// The subjects of IAM callers are ARNs: an issuer must not be able to name one of them.
	if strings.HasPrefix(subject, "arn:") {
		return httpapi.Caller{}, httpapi.Unauthenticated(
			"the %s claim sub begins with arn:, which is for callers that IAM has verified", whose)
	}
	// To httpapi, a caller without a tenant is one that may use every tenant.
	if err := field.Text(claim, tenant, maxTenantBytes); err != nil {
		return httpapi.Caller{}, httpapi.Unauthenticated("the %s claim %s: it must name the caller's tenant", whose, err)
	}
	return httpapi.Caller{
		Subject: subject, Tenant: tenant, Rights: a.Scopes.Rights(v.claims.hasScope), Until: v.claims.expiry(),
	}, nil
}

func (a Authorizer) byARN(v verified) (httpapi.Caller, error) {
	if a.IAMTenant == "" {
		return httpapi.Caller{}, httpapi.Unauthenticated(
			"IAM callers have no tenant here: set LEASEHOLD_AUTH_TENANT for this function")
	}
	subject, err := v.subject()
	if err != nil {
		return httpapi.Caller{}, err
	}
	return httpapi.Caller{Subject: subject, Tenant: a.IAMTenant}, nil
}

// subject names the caller by its ARN: arn:partition:iam or sts::account:resource.
func (v verified) subject() (string, error) {
	arn := v.arn
	if parts := strings.SplitN(arn, ":", 6); len(parts) != 6 || parts[0] != "arn" || parts[5] == "" {
		return "", httpapi.Unauthenticated("the IAM authorizer named no caller: userArn is %q", arn)
	}
	if before, role, ok := strings.Cut(arn, ":assumed-role/"); ok {
		role, _, _ = strings.Cut(role, "/")
		arn = before + ":assumed-role/" + role
		if id := v.identity; id != "" {
			arn += "/" + id
		}
	}
	if err := field.Text("userArn", arn, httpapi.MaxSubjectBytes); err != nil {
		return "", httpapi.Unauthenticated("the caller's %s", err)
	}
	return arn, nil
}

type eventKey struct{}

func withEvent(ctx context.Context, e *event) context.Context {
	return context.WithValue(ctx, eventKey{}, e)
}

var errNoAuthorizer = httpapi.Unauthenticated(
	"no authorizer verified this request: put a JWT, Lambda or IAM authorizer before this function, " +
		"or set LEASEHOLD_AUTH_ISSUER for it")
