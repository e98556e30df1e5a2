package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Defaults of [Authorizer], and the bound of what becomes the owner of leases.
const (
	DefaultTenantClaim = "tenant_id"
	DefaultAdminScope  = "leasehold:admin"
	DefaultWorkerScope = httpapi.DefaultWorkerScope

	maxSubjectBytes = 200
)

// Authorizer is the [httpapi.Identity] of callers whom the platform has verified (LS-AUTH-001), before the function:
//
//   - by an HTTP API's JWT authorizer. The subject is the claim sub, the tenant is the claim TenantClaim, and
//     administrators and workers have the scopes AdminScope and WorkerScope in the claim scope or scp.
//   - by IAM, at an HTTP API or a function URL. The subject is the caller's ARN, and IAMTenant is everybody's
//     tenant. For a role the ARN is without its session, whose name whoever assumes the role chooses: processes of one role
//     are one subject, and tell themselves apart by owner_id. For an identity of a Cognito pool, which
//     shares its role with all others, the identity's ID takes the place of the session.
//
// Everybody else is unauthenticated.
type Authorizer struct {
	TenantClaim string   // empty: DefaultTenantClaim
	AdminScope  string   // empty: DefaultAdminScope
	WorkerScope string   // empty: DefaultWorkerScope
	IAMTenant   string   // empty: IAM callers are not accepted
	IAMAdmins   []string // subjects of IAM callers who may end other owners' leases
	IAMWorkers  []string // subjects of IAM callers who may run analyses
}

var _ httpapi.Identity = Authorizer{}

// Challenge implements [httpapi.Identity].
func (Authorizer) Challenge() string { return `Bearer realm="leasehold"` }

// Identify implements [httpapi.Identity]. It looks at the event of the request's context alone, never at headers.
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
		return httpapi.Caller{}, refuse("the token's claim %s: it must name the caller", err)
	}
	// To the door, a caller without a tenant is one who may touch every tenant.
	if err := field.Text(claim, tenant, maxSubjectBytes); err != nil {
		return httpapi.Caller{}, refuse("the token's claim %s: it must name the caller's tenant", err)
	}
	return httpapi.Caller{
		Subject: subject, Tenant: tenant,
		Admin:  hasScope(claims, cmp.Or(a.AdminScope, DefaultAdminScope)),
		Worker: hasScope(claims, cmp.Or(a.WorkerScope, DefaultWorkerScope)),
	}, nil
}

// hasScope looks at the claims alone: the event's own list of scopes is about the route. The authorizer flattens lists
// to "[a b]".
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
		return httpapi.Caller{}, refuse("IAM callers have no tenant here: set LEASEHOLD_TENANT for the function")
	}
	subject, err := subjectOfARN(iam)
	if err != nil {
		return httpapi.Caller{}, err
	}
	return httpapi.Caller{
		Subject: subject, Tenant: a.IAMTenant,
		Admin: slices.Contains(a.IAMAdmins, subject), Worker: slices.Contains(a.IAMWorkers, subject),
	}, nil
}

// subjectOfARN names the caller by its ARN: arn:partition:iam or sts::account:resource.
func subjectOfARN(iam *events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription) (string, error) {
	arn := iam.UserARN
	if parts := strings.SplitN(arn, ":", 6); len(parts) != 6 || parts[0] != "arn" || parts[5] == "" {
		return "", refuse("the IAM authorizer named no caller: userArn is %q", arn)
	}
	if before, role, ok := strings.Cut(arn, ":assumed-role/"); ok {
		role, _, _ = strings.Cut(role, "/")
		arn = before + ":assumed-role/" + role
		if id := iam.CognitoIdentity.IdentityID; id != "" {
			arn += "/" + id
		}
	}
	if err := field.Text("userArn", arn, maxSubjectBytes); err != nil {
		return "", refuse("the caller's %s", err)
	}
	return arn, nil
}

type eventKey struct{}

func withEvent(ctx context.Context, event *events.APIGatewayV2HTTPRequest) context.Context {
	return context.WithValue(ctx, eventKey{}, event)
}

// refusal is an [httpapi.ErrUnauthenticated] whose text is the sentence for the caller and nothing more.
type refusal string

const errNoAuthorizer refusal = "nobody vouches for this request: put a JWT or IAM authorizer before the function, " +
	"or set LEASEHOLD_AUTH_ISSUER for it"

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Error is the sentence.
func (r refusal) Error() string { return string(r) }

// Unwrap says what kind of error it is.
func (refusal) Unwrap() error { return httpapi.ErrUnauthenticated }
