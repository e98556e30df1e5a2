package main

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/internal/settings"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// env is an environment of name=value lines.
func env(vars ...string) func(string) string {
	return func(name string) string {
		for _, v := range vars {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestSettings(t *testing.T) {
	least, err := settingsFrom(env("LEASEHOLD_TABLE=locks"))
	if err != nil || !reflect.DeepEqual(least, apiSettings{store: settings.Store{Table: "locks"}}) {
		t.Errorf("got %+v, %v", least, err)
	}
	most, err := settingsFrom(env("LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT=http://127.0.0.1:8000", "LEASEHOLD_MAX_SKEW=500ms",
		"LEASEHOLD_TENANT=acme", "LEASEHOLD_IAM_ADMINS=arn:a, arn:b", "LEASEHOLD_IAM_WORKERS=arn:c", "LEASEHOLD_AUTH_TENANT_CLAIM=org",
		"LEASEHOLD_AUTH_ADMIN_SCOPE=root", "LEASEHOLD_AUTH_WORKER_SCOPE=jobs"))
	want := apiSettings{
		store: settings.Store{Table: "locks", Endpoint: "http://127.0.0.1:8000", MaxSkew: 500 * time.Millisecond},
		oidc:  oidc.Config{TenantClaim: "org", AdminScope: "root", WorkerScope: "jobs"},
		authorizer: aws.Authorizer{
			TenantClaim: "org", AdminScope: "root", WorkerScope: "jobs", IAMTenant: "acme",
			IAMAdmins: []string{"arn:a", "arn:b"}, IAMWorkers: []string{"arn:c"},
		},
	}
	if err != nil || !reflect.DeepEqual(most, want) {
		t.Errorf("got  %+v, %v\nwant %+v", most, err, want)
	}
	issuer, err := settingsFrom(env("LEASEHOLD_TABLE=locks", "LEASEHOLD_AUTH_ISSUER=https://issuer.example", "LEASEHOLD_AUTH_AUDIENCE=leasehold",
		"LEASEHOLD_AUTH_JWKS_URL=https://issuer.example/keys", "LEASEHOLD_AUTH_LEEWAY=1m", `LEASEHOLD_ID_SERVICES=[{"serviceId":"default"}]`))
	want = apiSettings{store: settings.Store{Table: "locks"}, idServices: []machineid.ServiceConfig{machineid.DefaultService()}, oidc: oidc.Config{
		Issuer: "https://issuer.example", Audience: "leasehold", JWKSURL: "https://issuer.example/keys", Leeway: time.Minute,
	}}
	if err != nil || !reflect.DeepEqual(issuer, want) {
		t.Errorf("got  %+v, %v\nwant %+v", issuer, err, want)
	}
}

// TestWhoSays: without an issuer the platform's authorizer decides, with one its tokens do. There is no third way.
func TestWhoSays(t *testing.T) {
	for _, c := range []struct {
		vars []string
		want string
	}{
		{[]string{"LEASEHOLD_TABLE=locks"}, "aws.Authorizer"},
		{[]string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_DEVELOPMENT=1"}, "aws.Authorizer"},
		{[]string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_AUTH_ISSUER=https://issuer.example", "LEASEHOLD_AUTH_AUDIENCE=x"}, "*oidc.Identity"},
	} {
		s, err := settingsFrom(env(c.vars...))
		if err != nil {
			t.Fatal(err)
		}
		i, err := s.identity(t.Context())
		if got := reflect.TypeOf(i).String(); err != nil || got != c.want {
			t.Errorf("%v: %s, %v; want %s", c.vars, got, err, c.want)
		}
	}
}

// TestRefusedSettings: the function does not start, and says what to change.
func TestRefusedSettings(t *testing.T) {
	for _, c := range []struct{ vars, says string }{
		{"", "LEASEHOLD_TABLE is required"},
		{`LEASEHOLD_TABLE=x LEASEHOLD_ID_SERVICES={"serviceId":"a"}`, "LEASEHOLD_ID_SERVICES: the ID services must be a JSON list"},
		{"LEASEHOLD_TABLE=x LEASEHOLD_MAX_SKEW=soon", `LEASEHOLD_MAX_SKEW is "soon"`},
		{"LEASEHOLD_TABLE=x LEASEHOLD_MAX_SKEW=-1s", `LEASEHOLD_MAX_SKEW is "-1s"`},
		{"LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=https://i.example LEASEHOLD_AUTH_AUDIENCE=a LEASEHOLD_AUTH_LEEWAY=x", `LEASEHOLD_AUTH_LEEWAY is "x"`},
		{"LEASEHOLD_TABLE=x LEASEHOLD_AUTH_AUDIENCE=a", "need LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=https://i.example", "Audience is required"},
		{"LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=http://i.example LEASEHOLD_AUTH_AUDIENCE=a", "https://"},
		{"LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=https://i.example LEASEHOLD_AUTH_AUDIENCE=a LEASEHOLD_TENANT=acme", "set either"},
	} {
		h, err := open(t.Context(), env(strings.Fields(c.vars)...), slog.New(slog.DiscardHandler))
		if err == nil || h != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.vars, err, c.says)
		}
	}
}
