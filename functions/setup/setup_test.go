package setup

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

type who func(*http.Request) (httpapi.Caller, error)

func (f who) Identify(r *http.Request) (httpapi.Caller, error) { return f(r) }
func (who) Challenge() string                                  { return "" }
func (who) Unverified() bool                                   { return false }

func config(t *testing.T, e settings.Entry, words string) *settings.Config {
	t.Helper()
	c, err := settings.Load(e, strings.Fields(words), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestIdentity: tokens of the issuer if there is one, otherwise the entry point's own identity, which stays as it is
// unless settings change who callers are.
func TestIdentity(t *testing.T) {
	const issuer = " LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=x"
	for _, c := range []struct {
		entry     settings.Entry
		env, want string
		claim     string
	}{
		{settings.Serve, "", "httpapi.Development", "tenant_id"},
		{settings.Serve, issuer, "*oidc.Identity", "tenant_id"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks", "httpapi.Development", "tenant_id"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_DEVELOPMENT=1", "httpapi.Development",
			"tenant_id"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks" + issuer, "*oidc.Identity", "tenant_id"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_AUTH_TENANT=acme",
			"httpapi.Development", "tenant_id"},
		{settings.LambdaAPI,
			"LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_SUBJECTS=1",
			"setup.fixedTenant", "sub"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_AUTH_TENANT=acme" + issuer,
			"setup.fixedTenant", "sub"},
		{settings.LambdaAPI,
			"LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_AUTH_TENANT=acme LEASEHOLD_AUTH_TENANT_CLAIM=org",
			"httpapi.Development", "org"},
		{settings.LambdaAPI, "LEASEHOLD_FRONT_DOOR=url LEASEHOLD_TABLE=locks LEASEHOLD_AUTH_ADMINS=arn:a",
			"setup.roles", "tenant_id"},
		{settings.FunctionAPI, issuer + " LEASEHOLD_AUTH_TENANT=acme", "setup.fixedTenant", "sub"},
		{settings.FunctionAPI, issuer + " LEASEHOLD_AUTH_WORKERS=1", "setup.roles", "tenant_id"},
		{settings.FunctionAPI, issuer + " LEASEHOLD_AUTH_ID_SUBJECTS=1", "setup.roles", "tenant_id"},
	} {
		s := config(t, c.entry, c.env)
		i, err := Identity(t.Context(), s, httpapi.Development{})
		if got := reflect.TypeOf(i).String(); err != nil || got != c.want || TenantClaim(s) != c.claim {
			t.Errorf("%s: %s, %v, claim %s; want %s, %s", c.env, got, err, TenantClaim(s), c.want, c.claim)
		}
	}
	if _, err := Identity(t.Context(), config(t, settings.Serve,
		"LEASEHOLD_AUTH_ISSUER=http://issuer.example LEASEHOLD_AUTH_AUDIENCE=x"), nil); err == nil ||
		!strings.Contains(err.Error(), "LEASEHOLD_AUTH_ISSUER") || !strings.Contains(err.Error(), "https://") {
		t.Errorf("an issuer without TLS: %v", err)
	}
}

// TestRoles: subjects that are administrators or workers without a scope. A scope counts all the same.
func TestRoles(t *testing.T) {
	const session = "arn:aws:sts::1:assumed-role/R/root"
	broken := errors.New("the keys cannot be read")
	for name, c := range map[string]struct {
		caller httpapi.Caller
		err    error
		want   httpapi.Caller
	}{
		"a worker": {httpapi.Caller{Subject: "1"}, nil,
			httpapi.Caller{Subject: "1", Rights: httpapi.Worker}},
		"an administrator": {httpapi.Caller{Subject: "arn:aws:iam::1:user/x"}, nil,
			httpapi.Caller{Subject: "arn:aws:iam::1:user/x", Rights: httpapi.Admin}},
		"another caller": {httpapi.Caller{Subject: "11"}, nil, httpapi.Caller{Subject: "11"}},
		"a role, where a session of it is named": {httpapi.Caller{Subject: "arn:aws:sts::1:assumed-role/R"}, nil,
			httpapi.Caller{Subject: "arn:aws:sts::1:assumed-role/R"}},
		"a caller that leases machine IDs": {httpapi.Caller{Subject: "4"}, nil,
			httpapi.Caller{Subject: "4", Rights: httpapi.MachineIDs}},
		"an operator who administers as well": {httpapi.Caller{Subject: "5"}, nil,
			httpapi.Caller{Subject: "5", Rights: httpapi.Admin | httpapi.Operate}},
		"by scope": {httpapi.Caller{Subject: "3", Rights: httpapi.Admin | httpapi.Worker}, nil,
			httpapi.Caller{Subject: "3", Rights: httpapi.Admin | httpapi.Worker}},
		"unknown": {httpapi.Caller{}, broken, httpapi.Caller{}},
	} {
		t.Run(name, func(t *testing.T) {
			i := roles{who(func(*http.Request) (httpapi.Caller, error) { return c.caller, c.err }),
				map[httpapi.Rights][]string{
					httpapi.Admin: {"arn:aws:iam::1:user/x", session, "5"}, httpapi.Operate: {"5", session},
					httpapi.Worker: {"2", "1", session}, httpapi.MachineIDs: {"4"},
				}}
			if got, err := i.Identify(nil); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestFixedTenant(t *testing.T) {
	broken := errors.New("the keys cannot be read")
	for name, c := range map[string]struct {
		subjects []string
		caller   httpapi.Caller
		err      error
		want     httpapi.Caller
		wantErr  error
	}{
		"all subjects": {nil, httpapi.Caller{Subject: "1", Tenant: "1", Rights: httpapi.Admin}, nil,
			httpapi.Caller{Subject: "1", Tenant: "acme", Rights: httpapi.Admin}, nil},
		"one of them": {[]string{"2", "1"}, httpapi.Caller{Subject: "1", Tenant: "1"}, nil,
			httpapi.Caller{Subject: "1", Tenant: "acme"}, nil},
		"another subject": {[]string{"2", "11"}, httpapi.Caller{Subject: "1", Tenant: "1"}, nil, httpapi.Caller{},
			httpapi.ErrUnauthenticated},
		"unknown": {nil, httpapi.Caller{}, broken, httpapi.Caller{}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			i := fixedTenant{who(func(*http.Request) (httpapi.Caller, error) { return c.caller, c.err }), "acme", c.subjects}
			if got, err := i.Identify(nil); got != c.want || !errors.Is(err, c.wantErr) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, c.want, c.wantErr)
			}
		})
	}
}

// TestBasePath: the escapes of the rest of the path stay, and the caller's request is not changed.
func TestBasePath(t *testing.T) {
	for sent, want := range map[string]string{
		"/a/b/v1/x":        "/v1/x",
		"/a/b/v1/x%2Fy":    "/v1/x%2Fy",
		"/a/b/v1/x%20y?q":  "/v1/x%20y",
		"/a/b/":            "/",
		"/a/b":             "/a/b",
		"/a/bc/v1":         "/a/bc/v1",
		"/v1/x":            "/v1/x",
		"/%61/b/v1/x%2Fy":  "/%61/b/v1/x%2Fy",
		"/a/b/a/b/healthz": "/a/b/healthz",
	} {
		var got string
		h := BasePath("/a/b", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.EscapedPath() }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, sent, nil)
		before := r.URL.String()
		if h.ServeHTTP(httptest.NewRecorder(), r); got != want || r.URL.String() != before {
			t.Errorf("%s: %s, want %s; the request is now %s", sent, got, want, r.URL)
		}
	}
}

// TestSettingsArriveWhereTheyBelong: what is made of settings has each in its place.
func TestSettingsArriveWhereTheyBelong(t *testing.T) {
	const all = " LEASEHOLD_TTL=60s LEASEHOLD_HEARTBEAT=7s LEASEHOLD_MAX_FAILURES=3 LEASEHOLD_TASK_TIMEOUT=9m" +
		" LEASEHOLD_MAX_TAKEOVERS=11 LEASEHOLD_REQUEUE_EVERY=13m LEASEHOLD_SWEEP_GRACE=17m"
	c := config(t, settings.Serve, "LEASEHOLD_TARGET_URL=https://worker.example/run LEASEHOLD_ON_LOCKED=ack"+all)
	w, err := Work(c, nil, docstore.NewMemory(nil), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.TTL != time.Minute || w.Heartbeat != 7*time.Second || w.MaxFailures != 3 || !w.AckLocked ||
		w.Gate == nil || w.Work == nil {
		t.Errorf("the worker: %+v", w)
	}
	if w, err := Work(config(t, settings.Serve, "LEASEHOLD_TARGET_URL=https://worker.example/run"), nil,
		docstore.NewMemory(nil), nil, nil, nil); err != nil || w.AckLocked {
		t.Errorf("without ack: %+v, %v", w, err)
	}
	for args, known := range map[string]bool{
		"LEASEHOLD_CREATE_ANALYSES=false": false, "LEASEHOLD_CREATE_ANALYSES=true": true,
	} {
		w, err := Work(config(t, settings.Worker, "LEASEHOLD_STORE=dynamodb LEASEHOLD_TABLE=t LEASEHOLD_QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/1/q"+
			" LEASEHOLD_TARGET_URL=https://worker.example/run "+args), nil, docstore.NewMemory(nil), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := w.Gate.Acquire(t.Context(), once.Acquire{RunID: "a1", Owner: "w", RequestID: "r1", TTL: time.Minute})
		if g.Acquired != known || errors.Is(err, contracts.CodeNotFound) == known {
			t.Errorf("a message for an analysis that is not there, with%q: %+v, %v", args, g, err)
		}
	}
	if got, want := Sweep(c, nil), (analysis.Sweep{MaxTakeovers: 11, RequeueEvery: 13 * time.Minute,
		Grace: 17 * time.Minute}); !reflect.DeepEqual(got, want) {
		t.Errorf("the sweep: %+v, want %+v", got, want)
	}

	log := slog.New(slog.DiscardHandler)
	o := API(config(t, settings.Serve,
		"LEASEHOLD_REQUEST_TIMEOUT=9s LEASEHOLD_MAX_CONCURRENT=7 LEASEHOLD_TENANT_RATE=11 LEASEHOLD_SUBJECT_RATE=3 LEASEHOLD_RATE_WITHOUT_STORE=refuse LEASEHOLD_MAX_LOCKS_PER_TENANT=17"+
			" LEASEHOLD_RETENTION=13h LEASEHOLD_STATE_RETENTION=43h LEASEHOLD_PLACEMENT_JOIN_DELAY=1s LEASEHOLD_RECORD_REFUSALS=29s LEASEHOLD_MAX_WAIT=5s LEASEHOLD_MAX_WAITING=31 LEASEHOLD_MAX_RUNS_PER_TENANT=37 LEASEHOLD_MAX_CLUSTERS_PER_TENANT=19 LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER=23"), nil, log)
	if want := (httpapi.Limits{Concurrent: 7, BodyBytes: httpapi.DefaultBodyBytes, Lists: httpapi.DefaultLists(),
		PageBytes: httpapi.DefaultPageBytes, PerTenant: 11, PerSubject: 3, RefuseWithoutStore: true, LocksPerTenant: 17, RunsPerTenant: 37,
		ClustersPerTenant: 19, IdentitiesPerCluster: 23}); o.Limits != want || o.Timeout != 9*time.Second || o.Log != log ||
		o.Retention != 13*time.Hour || o.RecordRefusals != 29*time.Second || o.MaxWait != 5*time.Second ||
		o.MaxWaiting != 31 || o.StateRetention != 43*time.Hour ||
		o.JoinDelay != time.Second {
		t.Errorf("the API: %+v", o)
	}
	for entry, want := range map[settings.Entry]time.Duration{
		settings.Serve: httpapi.DefaultMaxWait, settings.LambdaAPI: -1, settings.FunctionAPI: -1,
	} {
		more := "LEASEHOLD_TABLE=t LEASEHOLD_FRONT_DOOR=url"
		if entry != settings.LambdaAPI {
			more = "LEASEHOLD_MAX_WAITING=0"
		}
		o := API(config(t, entry, more), nil, log)
		waiting := httpapi.DefaultMaxWaiting
		if entry != settings.LambdaAPI {
			waiting = -1
		}
		if o.MaxWait != want || o.MaxWaiting != waiting {
			t.Errorf("%v holds responses for %v, %d of them", entry.Names(), o.MaxWait, o.MaxWaiting)
		}
	}

	c = config(t, settings.Serve,
		"LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=us LEASEHOLD_AUTH_JWKS_URL=https://keys.example/jwks"+
			" LEASEHOLD_AUTH_TENANT_CLAIM=org LEASEHOLD_AUTH_ADMIN_SCOPE=boss LEASEHOLD_AUTH_OPERATE_SCOPE=ops LEASEHOLD_AUTH_WORKER_SCOPE=hand LEASEHOLD_AUTH_ID_SCOPE=ids LEASEHOLD_AUTH_LEEWAY=19s")
	want := oidc.Config{
		Issuer: "https://issuer.example", Audience: "us", JWKSURL: "https://keys.example/jwks", TenantClaim: "org",
		Scopes: httpapi.Scopes{Admin: "boss", Operate: "ops", Worker: "hand", MachineIDs: "ids"}, Leeway: 19 * time.Second,
	}
	if got := tokens(c); !reflect.DeepEqual(got, want) {
		t.Errorf("tokens: %+v, want %+v", got, want)
	}
}
