package aws_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// identify asks who sent an event.
func identify(t *testing.T, a aws.Authorizer, event []byte) (c httpapi.Caller, err error) {
	t.Helper()
	invoke(t, func(_ http.ResponseWriter, r *http.Request) { c, err = a.Identify(r) }, event)
	return c, err
}

const (
	role = "arn:aws:sts::123456789012:assumed-role/Deployer"
	pool = "arn:aws:sts::123456789012:assumed-role/Cognito_appAuth_Role/CognitoIdentityCredentials"
	user = "arn:aws:iam::123456789012:user/ops/ann"
)

// TestCallersInEvents: who the platform says the caller is (LS-AUTH-001). IAM callers have no rights beyond their
// tenant: settings name those that do.
func TestCallersInEvents(t *testing.T) {
	a := aws.Authorizer{IAMTenant: "acme"}
	for name, want := range map[string]httpapi.Caller{
		"apigw_jwt.json":    {Subject: "svc-deploy", Tenant: "acme", Rights: httpapi.Admin, Until: time.Unix(1773345838, 0)},
		"apigw_base64.json": {Subject: "svc-deploy", Tenant: "acme", Until: time.Unix(1773345838, 0)},
		"apigw_iam.json":    {Subject: role, Tenant: "acme"},
		"url_iam.json":      {Subject: user, Tenant: "acme"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := identify(t, a, file(t, name)); err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

// TestForgedHeaders: whatever a caller writes into headers, without an authorizer it has no identity.
func TestForgedHeaders(t *testing.T) {
	got, err := identify(t, aws.Authorizer{IAMTenant: "acme"}, file(t, "forged_headers.json"))
	if !errors.Is(err, httpapi.ErrUnauthenticated) || got != (httpapi.Caller{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAuthorizers: each thing that an authorizer can say.
func TestAuthorizers(t *testing.T) {
	claims := func(kv ...string) map[string]any {
		c := map[string]any{"sub": "ann", "tenant_id": "acme"}
		for i := 0; i < len(kv); i += 2 {
			c[kv[i]] = kv[i+1]
		}
		return map[string]any{"jwt": map[string]any{"claims": c, "scopes": []string{"leasehold:admin"}}}
	}
	lambda := func(kv ...any) map[string]any {
		c := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			c[kv[i].(string)] = kv[i+1]
		}
		return map[string]any{"lambda": c}
	}
	iam := func(arn, identity string) map[string]any {
		return map[string]any{"iam": map[string]any{"userArn": arn, "cognitoIdentity": map[string]any{
			"identityId": identity}}}
	}
	ann := httpapi.Caller{Subject: "ann", Tenant: "acme"}
	admin := httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Admin}
	worker := httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Worker}
	named := func(subject string) httpapi.Caller { return httpapi.Caller{Subject: subject, Tenant: "acme"} }
	withIAM := aws.Authorizer{IAMTenant: "acme"}

	for _, c := range []struct {
		name       string
		a          aws.Authorizer
		authorizer any
		want       httpapi.Caller
		says       string // of the error
	}{
		{"no authorizer", withIAM, nil, httpapi.Caller{}, "no authorizer verified this request"},
		{"Lambda authorizer", withIAM, lambda("sub", "ann", "tenant_id", "acme", "scope", []string{"leasehold:admin", "x"}),
			admin, ""},
		{"Lambda authorizer with a principal", withIAM, lambda("principalId", "ann", "tenant_id", "acme"), ann, ""},
		{"Lambda authorizer with both", withIAM, lambda("principalId", "eve", "sub", "ann", "tenant_id", "acme"), ann, ""},
		{"Lambda authorizer without a caller", withIAM, lambda("tenant_id", "acme"), httpapi.Caller{},
			"the Lambda authorizer's claim sub is required"},
		{"Lambda authorizer without a tenant", withIAM, lambda("sub", "ann"), httpapi.Caller{},
			"the Lambda authorizer's claim tenant_id is required"},
		{"Lambda authorizer with an ARN", withIAM, lambda("sub", user, "tenant_id", "acme"), httpapi.Caller{},
			"claim sub begins with arn:"},
		{"Lambda authorizer that says nothing", withIAM, lambda(), httpapi.Caller{}, "claim sub is required"},
		{"numbers", withIAM, lambda("sub", 1057, "tenant_id", 42, "scope", true),
			httpapi.Caller{Subject: "1057", Tenant: "42"}, ""},
		{"large number", withIAM, lambda("sub", json.RawMessage("12345678901234567890"), "tenant_id", "acme"),
			named("12345678901234567890"), ""},
		{"list as text", withIAM, lambda("sub", "ann", "tenant_id", []any{"a", 1, nil}),
			httpapi.Caller{Subject: "ann", Tenant: "[a 1 ]"}, ""},
		{"null", withIAM, lambda("sub", nil, "tenant_id", "acme"), httpapi.Caller{}, "claim sub is required"},
		{"claims of a token that are not text", withIAM, map[string]any{"jwt": map[string]any{"claims": map[string]any{
			"sub": "ann", "tenant_id": "acme", "exp": 1773345838, "admin": true, "groups": []string{"a"},
			"address": map[string]string{"country": "x"},
		}}}, httpapi.Caller{Subject: "ann", Tenant: "acme", Until: time.Unix(1773345838, 0)}, ""},
		{"an end that is no number", withIAM, claims("exp", "Thu Mar 12 20:03:58 UTC 2026"), ann, ""},
		{"no claims", withIAM, map[string]any{"jwt": map[string]any{}}, httpapi.Caller{},
			"the token's claim sub is required"},
		{"the route's scopes are not the caller's", withIAM, claims(), ann, ""},
		{"scope for machine IDs", withIAM, claims("scp", "[openid leasehold:ids]"),
			httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.MachineIDs}, ""},
		{"scope for machine IDs by another name", aws.Authorizer{Scopes: httpapi.Scopes{MachineIDs: "ids"}}, claims("scope", "ids"),
			httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.MachineIDs}, ""},
		{"admin scope", withIAM, claims("scope", "openid leasehold:admin"), admin, ""},
		{"admin scope in a flattened list", withIAM, claims("scp", "[leasehold:admin openid]"), admin, ""},
		{"half a list", withIAM, claims("scope", "[leasehold:admin"), ann, ""},
		{"the other half", withIAM, claims("scope", "openid leasehold:admin]"), ann, ""},
		{"a list in a list", withIAM, claims("scp", "[[leasehold:admin]]"), ann, ""},
		{"scopes on lines of their own", withIAM, claims("scope", "openid\nleasehold:admin\tx"), ann, ""},
		{"part of the admin scope", withIAM, claims("scope", "leasehold:admins xleasehold:admin leasehold"), ann, ""},
		{"admin scope by another name", aws.Authorizer{Scopes: httpapi.Scopes{Admin: "root"}}, claims("scope", "root"), admin, ""},
		{"default scope where another is set", aws.Authorizer{Scopes: httpapi.Scopes{Admin: "root"}}, claims("scope", "leasehold:admin"), ann,
			""},
		{"worker scope", withIAM, claims("scope", "openid leasehold:worker"), worker, ""},
		{"worker scope in a flattened list", withIAM, claims("scp", "[leasehold:worker openid]"), worker, ""},
		{"part of the worker scope", withIAM, claims("scope", "leasehold:workers"), ann, ""},
		{"worker scope by another name", aws.Authorizer{Scopes: httpapi.Scopes{Worker: "jobs"}}, claims("scope", "jobs leasehold:worker2"),
			worker, ""},
		{"default worker scope where another is set", aws.Authorizer{Scopes: httpapi.Scopes{Worker: "jobs"}},
			claims("scope", "leasehold:worker"), ann, ""},
		{"tenant by another claim", aws.Authorizer{TenantClaim: "custom:org"}, claims("custom:org", "rival"),
			httpapi.Caller{Subject: "ann", Tenant: "rival"}, ""},
		{"no subject", withIAM, claims("sub", ""), httpapi.Caller{},
			"claim sub is required: 1 to 512 bytes of text: it must name the caller"},
		{"long subject", withIAM, claims("sub", strings.Repeat("x", 513)), httpapi.Caller{},
			"claim sub has 513 bytes, 512 at most"},
		{"the name of an IAM caller", withIAM, claims("sub", user), httpapi.Caller{}, "claim sub begins with arn:"},
		{"no tenant", withIAM, claims("tenant_id", ""), httpapi.Caller{}, "claim tenant_id is required"},
		{"control character in the tenant", withIAM, claims("tenant_id", "a\nb"), httpapi.Caller{},
			"claim tenant_id has the control character U+000A"},

		{"user", withIAM, iam(user, ""), named(user), ""},
		{"account", withIAM, iam("arn:aws:iam::123456789012:root", ""), named("arn:aws:iam::123456789012:root"), ""},
		{"role, without its session", withIAM, iam(role+"/anything/else", ""), named(role), ""},
		{"role of another partition", withIAM, iam("arn:aws-cn:sts::1:assumed-role/R/s", ""),
			named("arn:aws-cn:sts::1:assumed-role/R"), ""},
		{"federated user", withIAM, iam("arn:aws:sts::1:federated-user/bob", ""), named("arn:aws:sts::1:federated-user/bob"),
			""},
		{"Cognito identity", withIAM, iam(pool, "eu-north-1:3f29"),
			named(strings.TrimSuffix(pool, "CognitoIdentityCredentials") + "eu-north-1:3f29"), ""},
		{"no tenant for IAM", aws.Authorizer{}, iam(user, ""), httpapi.Caller{}, "set LEASEHOLD_AUTH_TENANT"},
		{"no ARN", withIAM, iam("", ""), httpapi.Caller{}, `userArn is ""`},
		{"not an ARN", withIAM, iam("ann", ""), httpapi.Caller{}, `userArn is "ann"`},
		{"ARN of nothing", withIAM, iam("arn:aws:iam::1:", ""), httpapi.Caller{}, `userArn is "arn:aws:iam::1:"`},
		{"long ARN", withIAM, iam(user+strings.Repeat("x", 475), ""), httpapi.Caller{}, "userArn has 513 bytes, 512 at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			event, err := json.Marshal(map[string]any{
				"version": "2.0", "rawPath": "/",
				"requestContext": map[string]any{"http": map[string]string{"method": "GET"}, "authorizer": c.authorizer},
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := identify(t, c.a, event)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if c.says == "" && err != nil {
				t.Error(err)
			}
			if c.says != "" && (!errors.Is(err, httpapi.ErrUnauthenticated) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("rejected with %v, want %q", err, c.says)
			}
		})
	}
}

// TestOutsideOfAnInvocation: a request that came by another way has no caller.
func TestOutsideOfAnInvocation(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if got, err := (aws.Authorizer{IAMTenant: "acme"}).Identify(r); !errors.Is(err, httpapi.ErrUnauthenticated) {
		t.Errorf("%+v, %v", got, err)
	}
	if c := (aws.Authorizer{}).Challenge(); c != `Bearer realm="leasehold"` {
		t.Errorf("challenge %q", c)
	}
}
