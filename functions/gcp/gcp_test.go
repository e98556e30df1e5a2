package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// env is an environment of name=value words.
func env(words string) func(string) string {
	return func(name string) string {
		for v := range strings.FieldsSeq(words) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestSettings(t *testing.T) {
	const issuer = "LEASEHOLD_AUTH_ISSUER=https://issuer.example LEASEHOLD_AUTH_AUDIENCE=leasehold "
	oidcOf := func(claim, scope string, leeway time.Duration) oidc.Config {
		return oidc.Config{Issuer: "https://issuer.example", Audience: "leasehold", TenantClaim: claim, AdminScope: scope, Leeway: leeway}
	}
	for _, c := range []struct {
		env  string
		want settings
	}{
		{"", settings{}},
		{"GOOGLE_CLOUD_PROJECT=p LEASEHOLD_DATABASE=d LEASEHOLD_ROOT=a/b", settings{project: "p", database: "d", root: "a/b"}},
		{issuer + "LEASEHOLD_AUTH_TENANT_CLAIM=org LEASEHOLD_AUTH_ADMIN_SCOPE=root LEASEHOLD_AUTH_LEEWAY=1m", settings{oidc: oidcOf("org", "root", time.Minute)}},
		{issuer + "LEASEHOLD_AUTH_WORKER_SCOPE=jobs", settings{oidc: oidc.Config{Issuer: "https://issuer.example", Audience: "leasehold", WorkerScope: "jobs"}}},
		{issuer + "LEASEHOLD_WORKERS=1,2", settings{oidc: oidcOf("", "", 0), workers: []string{"1", "2"}}},
		{issuer + "LEASEHOLD_TENANT=acme", settings{oidc: oidcOf("", "", 0), tenant: "acme"}},
		{issuer + "LEASEHOLD_TENANT=acme LEASEHOLD_SUBJECTS=1,2", settings{oidc: oidcOf("", "", 0), tenant: "acme", subjects: []string{"1", "2"}}},
		{"LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=127.0.0.1:1", settings{development: true}},
		{"LEASEHOLD_DEVELOPMENT=0 K_SERVICE=x", settings{}},
		{`LEASEHOLD_ID_SERVICES=[{"serviceId":"default"}]`, settings{idServices: []machineid.ServiceConfig{machineid.DefaultService()}}},
	} {
		if got, err := settingsFrom(env(c.env)); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", c.env, got, err, c.want)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	const google = "LEASEHOLD_AUTH_ISSUER=https://accounts.google.com LEASEHOLD_AUTH_AUDIENCE=https://x.run.app "
	for _, c := range []struct{ env, says string }{
		{"LEASEHOLD_DEVELOPMENT=1", "needs FIRESTORE_EMULATOR_HOST"},
		{"LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x K_SERVICE=api", "refused on Cloud Run"},
		{"LEASEHOLD_DEVELOPMENT=1 FIRESTORE_EMULATOR_HOST=x " + google, "set one of them"},
		{"LEASEHOLD_AUTH_AUDIENCE=x", "need LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_AUTH_WORKER_SCOPE=jobs", "need LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_WORKERS=1", "need LEASEHOLD_AUTH_ISSUER"},
		{`LEASEHOLD_ID_SERVICES=[{"serviceId":"a","bitSeq":9}]`, `LEASEHOLD_ID_SERVICES: ID service 1 ("a"): bitReserve + bitTs + bitId + bitSeq must be 64`},
		{"LEASEHOLD_AUTH_LEEWAY=1s", "need LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_TENANT=acme", "need LEASEHOLD_AUTH_ISSUER"},
		{"LEASEHOLD_SUBJECTS=1", "needs LEASEHOLD_TENANT"},
		{google + "LEASEHOLD_AUTH_LEEWAY=soon", `LEASEHOLD_AUTH_LEEWAY is "soon"`},
		{google + "LEASEHOLD_TENANT=acme", "needs LEASEHOLD_SUBJECTS with the issuer https://accounts.google.com"},
		{google + "LEASEHOLD_TENANT=acme LEASEHOLD_SUBJECTS=1 LEASEHOLD_AUTH_TENANT_CLAIM=hd", "set one of them"},
	} {
		if _, err := settingsFrom(env(c.env)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.env, err, c.says)
		}
	}
}

// TestNoAudience: what only the issuer's package can refuse ends in the same answer.
func TestNoAudience(t *testing.T) {
	var log bytes.Buffer
	w := get(t, newAPI(env("LEASEHOLD_AUTH_ISSUER=https://issuer.example"), NewLog(&log), memory), "/healthz")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(log.String(), "Audience is required") {
		t.Errorf("%d %s; the log says %s", w.Code, w.Body, log.String())
	}
}

type who func(*http.Request) (httpapi.Caller, error)

func (f who) Identify(r *http.Request) (httpapi.Caller, error) { return f(r) }
func (who) Challenge() string                                  { return "" }

// TestWorkers: Google's tokens have no scopes, so that workers are named by their subjects. A scope counts all the same.
func TestWorkers(t *testing.T) {
	broken := errors.New("the keys cannot be read")
	for name, c := range map[string]struct {
		caller httpapi.Caller
		err    error
		want   httpapi.Caller
	}{
		"one of them":   {httpapi.Caller{Subject: "1"}, nil, httpapi.Caller{Subject: "1", Worker: true}},
		"somebody else": {httpapi.Caller{Subject: "11"}, nil, httpapi.Caller{Subject: "11"}},
		"by scope":      {httpapi.Caller{Subject: "3", Worker: true}, nil, httpapi.Caller{Subject: "3", Worker: true}},
		"nobody":        {httpapi.Caller{}, broken, httpapi.Caller{}},
	} {
		t.Run(name, func(t *testing.T) {
			i := workers{who(func(*http.Request) (httpapi.Caller, error) { return c.caller, c.err }), []string{"2", "1"}}
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
		"everybody":       {nil, httpapi.Caller{Subject: "1", Tenant: "1", Admin: true}, nil, httpapi.Caller{Subject: "1", Tenant: "acme", Admin: true}, nil},
		"one of them":     {[]string{"2", "1"}, httpapi.Caller{Subject: "1", Tenant: "1"}, nil, httpapi.Caller{Subject: "1", Tenant: "acme"}, nil},
		"somebody else":   {[]string{"2", "11"}, httpapi.Caller{Subject: "1", Tenant: "1"}, nil, httpapi.Caller{}, httpapi.ErrUnauthenticated},
		"nobody is known": {nil, httpapi.Caller{}, broken, httpapi.Caller{}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			i := fixedTenant{who(func(*http.Request) (httpapi.Caller, error) { return c.caller, c.err }), "acme", c.subjects}
			if got, err := i.Identify(nil); got != c.want || !errors.Is(err, c.wantErr) {
				t.Errorf("got %+v, %v; want %+v, %v", got, err, c.want, c.wantErr)
			}
		})
	}
}

func TestSignatureThatCloudRunTook(t *testing.T) {
	i := signed{who(func(*http.Request) (httpapi.Caller, error) { return httpapi.Caller{Subject: "1"}, nil })}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer e30.e30.SIGNATURE_REMOVED_BY_GOOGLE")
	if c, err := i.Identify(r); !errors.Is(err, httpapi.ErrUnauthenticated) || !strings.Contains(err.Error(), "X-Serverless-Authorization") {
		t.Errorf("%+v, %v", c, err)
	}
	r.Header.Set("Authorization", "Bearer e30.e30.AAAA")
	if c, err := i.Identify(r); err != nil || c.Subject != "1" {
		t.Errorf("%+v, %v", c, err)
	}
}

func newAPI(getenv func(string) string, log *slog.Logger, open opener) *Function {
	return newFunction(getenv, log, open, api)
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func memory(context.Context, settings) (docstore.Store, error) { return docstore.NewMemory(nil), nil }

// TestWithoutAnIssuer: nobody gets in, but the platform sees that the function lives.
func TestWithoutAnIssuer(t *testing.T) {
	a := newAPI(env("FIRESTORE_EMULATOR_HOST=127.0.0.1:1"), slog.New(slog.DiscardHandler), memory)
	if w := get(t, a, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("healthz: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/v1/tenants/acme/locks", "/v1/tenants/acme/locks/k"} {
		w := get(t, a, path)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "believes nobody yet") ||
			w.Header().Get("WWW-Authenticate") != `Bearer realm="leasehold"` {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestDevelopment: callers on this machine are believed, others are not, whatever Host they name.
func TestDevelopment(t *testing.T) {
	a := newAPI(env("FIRESTORE_EMULATOR_HOST=127.0.0.1:1 LEASEHOLD_DEVELOPMENT=1"), slog.New(slog.DiscardHandler), memory)
	for _, c := range []struct {
		from, host string
		want       int
	}{
		{"127.0.0.1:5000", "localhost:8080", http.StatusOK},
		{"[::1]:5000", "localhost:8080", http.StatusOK},
		{"192.0.2.1:5000", "localhost:8080", http.StatusForbidden},
		{"127.0.0.1:5000", "evil.example", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/tenants/acme/locks", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		w := httptest.NewRecorder()
		if a.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("from %s for %s: %d %s, want %d", c.from, c.host, w.Code, w.Body, c.want)
		}
	}
}

// TestOpenedOnce: the first requests share one attempt, later ones its store.
func TestOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		a := newAPI(env(""), slog.New(slog.DiscardHandler), func(context.Context, settings) (docstore.Store, error) {
			opened.Add(1)
			time.Sleep(time.Second)
			return docstore.NewMemory(nil), nil
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if w := get(t, a, "/healthz"); w.Code != http.StatusOK {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		if w := get(t, a, "/healthz"); w.Code != http.StatusOK || opened.Load() != 1 {
			t.Errorf("%d %s, opened %d times", w.Code, w.Body, opened.Load())
		}
	})
}

// TestFailedOpen: the request hears of it without the reason, the log has it, and the next request tries again.
func TestFailedOpen(t *testing.T) {
	var log bytes.Buffer
	attempts := 0
	a := newAPI(env(""), NewLog(&log), func(context.Context, settings) (docstore.Store, error) {
		if attempts++; attempts < 3 {
			return nil, errors.New("no route to the emulator")
		}
		return docstore.NewMemory(nil), nil
	})
	for range 2 {
		w := get(t, a, "/healthz")
		var p contracts.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusServiceUnavailable || p.Code != contracts.CodeUnavailable ||
			!p.Retryable || strings.Contains(w.Body.String(), "route") || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
	}
	if w := get(t, a, "/healthz"); w.Code != http.StatusOK || attempts != 3 {
		t.Errorf("%d %s after %d attempts", w.Code, w.Body, attempts)
	}
	for line := range strings.Lines(log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["severity"] == nil || entry["message"] == nil {
			t.Errorf("%v in %s", err, line)
		}
	}
	if !strings.Contains(log.String(), `"severity":"ERROR","message":"cannot start","err":"open the store: no route to the emulator"`) {
		t.Errorf("the log says %s", log.String())
	}
}

// TestSlowOpen: a request waits no longer than its deadline, and never for ever; the attempt goes on without it.
func TestSlowOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(env(""), slog.New(slog.DiscardHandler), func(context.Context, settings) (docstore.Store, error) {
			time.Sleep(15 * time.Second)
			return docstore.NewMemory(nil), nil
		})
		for _, c := range []struct {
			timeout, waits time.Duration
			status         int
		}{
			{2 * time.Second, 2 * time.Second, http.StatusServiceUnavailable},
			{time.Hour, httpapi.DefaultTimeout, http.StatusServiceUnavailable},
			{time.Hour, 3 * time.Second, http.StatusOK},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			began := time.Now()
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil))
			if waited := time.Since(began); w.Code != c.status || waited != c.waits {
				t.Errorf("%d after %v, want %d after %v", w.Code, waited, c.status, c.waits)
			}
		}
	})
}

// TestLog: warnings are what Cloud Logging calls them, and members of a group keep their names.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	NewLog(&b).Warn("careful", slog.Group("g", "level", "low", "msg", "x"))
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	if want := map[string]any{"severity": "WARNING", "message": "careful", "g": map[string]any{"level": "low", "msg": "x"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
