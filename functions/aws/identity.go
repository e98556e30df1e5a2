package aws

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Defaults of [Authorizer], and the bound of subjects, which become owners of leases.
const (
	DefaultTenantClaim = "tenant_id"
	DefaultAdminScope  = "leasehold:admin"
	DefaultWorkerScope = httpapi.DefaultWorkerScope
	DefaultIDScope     = httpapi.DefaultIDScope

	maxSubjectBytes = 200
)

// Authorizer is the [httpapi.Identity] of callers that the platform verified before the function:
//
//   - by an HTTP API's JWT authorizer. The subject is the claim sub, the tenant is the claim TenantClaim, and
//     administrators, workers and callers that lease machine IDs have the scopes AdminScope, WorkerScope and IDScope in the
//     claim scope or scp.
//   - by IAM, at an HTTP API or a function URL. The subject is the caller's ARN, the tenant is IAMTenant. The ARN of a role is
//     without its session, whose name the caller chooses: processes of one role are one subject, and differ by owner_id.
//     For an identity of a Cognito pool, which shares its role with all others, the identity's ID replaces the session.
//
// All other callers are unauthenticated.
type Authorizer struct {
	TenantClaim string // empty means DefaultTenantClaim
	AdminScope  string // empty means DefaultAdminScope
	WorkerScope string // empty means DefaultWorkerScope
	IDScope     string // empty means DefaultIDScope
	IAMTenant   string // empty rejects IAM callers
}

var _ httpapi.Identity = Authorizer{}

// Challenge implements [httpapi.Identity].
func (Authorizer) Challenge() string { return `Bearer realm="leasehold"` }

// Unverified implements [httpapi.Identity].
func (Authorizer) Unverified() bool { return false }

// Identify implements [httpapi.Identity]. It reads the event in the request's context, never headers.
func (a Authorizer) Identify(r *http.Request) (httpapi.Caller, error) {
	event, _ := r.Context().Value(eventKey{}).(*events.APIGatewayV2HTTPRequest)
	if event == nil || event.RequestContext.Authorizer == nil {
		return httpapi.Caller{}, errNoAuthorizer
	}
	switch by := event.RequestContext.Authorizer; {
	case by.JWT != nil:
		return a.byClaims(by.JWT.Claims)
	case by.IAM != nil:
		return a.byARN(by.IAM)
	default:
		return httpapi.Caller{}, errNoAuthorizer
	}
}

func (a Authorizer) byClaims(claims map[string]string) (httpapi.Caller, error) {
	claim := cmp.Or(a.TenantClaim, DefaultTenantClaim)
	subject, tenant := claims["sub"], claims[claim]
	if err := field.Text("sub", subject, maxSubjectBytes); err != nil {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token's claim %s: it must name the caller", err)
	}
	// The subjects of IAM callers are ARNs: an issuer must not be able to name one of them.
	if strings.HasPrefix(subject, "arn:") {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token's claim sub begins with arn:, which is for callers that IAM has verified")
	}
	// To httpapi, a caller without a tenant is one that may use every tenant.
	if err := field.Text(claim, tenant, maxSubjectBytes); err != nil {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token's claim %s: it must name the caller's tenant", err)
	}
	return httpapi.Caller{
		Subject: subject, Tenant: tenant,
		Admin:      hasScope(claims, cmp.Or(a.AdminScope, DefaultAdminScope)),
		Worker:     hasScope(claims, cmp.Or(a.WorkerScope, DefaultWorkerScope)),
		MachineIDs: hasScope(claims, cmp.Or(a.IDScope, DefaultIDScope)),
	}, nil
}

// hasScope reads the claims only: the event's own list of scopes belongs to the route. The authorizer flattens lists to
// "[a b]".
func hasScope(claims map[string]string, want string) bool {
	for _, name := range []string{"scope", "scp"} {
		if slices.Contains(strings.Fields(strings.Trim(claims[name], "[]")), want) {
			return true
		}
	}
	return false
}

func (a Authorizer) byARN(iam *events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription) (httpapi.Caller, error) {
	if a.IAMTenant == "" {
		return httpapi.Caller{}, httpapi.Unauthenticated("IAM callers have no tenant here: set LEASEHOLD_AUTH_TENANT for this function")
	}
	subject, err := subjectOfARN(iam)
	if err != nil {
		return httpapi.Caller{}, err
	}
	return httpapi.Caller{Subject: subject, Tenant: a.IAMTenant}, nil
}

// subjectOfARN names the caller by its ARN: arn:partition:iam or sts::account:resource.
func subjectOfARN(iam *events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription) (string, error) {
	arn := iam.UserARN
	if parts := strings.SplitN(arn, ":", 6); len(parts) != 6 || parts[0] != "arn" || parts[5] == "" {
		return "", httpapi.Unauthenticated("the IAM authorizer named no caller: userArn is %q", arn)
	}
	if before, role, ok := strings.Cut(arn, ":assumed-role/"); ok {
		role, _, _ = strings.Cut(role, "/")
		arn = before + ":assumed-role/" + role
		if id := iam.CognitoIdentity.IdentityID; id != "" {
			arn += "/" + id
		}
	}
	if err := field.Text("userArn", arn, maxSubjectBytes); err != nil {
		return "", httpapi.Unauthenticated("the caller's %s", err)
	}
	return arn, nil
}

type eventKey struct{}

func withEvent(ctx context.Context, event *events.APIGatewayV2HTTPRequest) context.Context {
	return context.WithValue(ctx, eventKey{}, event)
}

var errNoAuthorizer = httpapi.Unauthenticated("no authorizer verified this request: put a JWT or IAM authorizer before this function, " +
	"or set LEASEHOLD_AUTH_ISSUER for it")
