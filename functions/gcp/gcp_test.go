package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// env is an environment of name=value words.
func env(words string) func() []string { return func() []string { return strings.Fields(words) } }

// TestSettingsAreChecked: a function whose settings cannot work responds UNAVAILABLE, and the log has the reason. What
// only the issuer's package can reject is one of them.
func TestSettingsAreChecked(t *testing.T) {
	for words, says := range map[string]string{
		"LEASEHOLD_AUTH_ISSUER=https://issuer.example":                                  "LEASEHOLD_AUTH_ISSUER needs LEASEHOLD_AUTH_AUDIENCE",
		"LEASEHOLD_AUTH_ISSUER=http://issuer.example LEASEHOLD_AUTH_AUDIENCE=leasehold": "must begin with https://",
		"LEASEHOLD_DATABSE=x": "did you mean LEASEHOLD_DATABASE?",
	} {
		var log bytes.Buffer
		w := get(t, newAPI(env(words), NewLog(&log), memory), "/healthz")
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(log.String(), says) ||
			strings.Contains(w.Body.String(), says) {
			t.Errorf("%d %s; the log says %s", w.Code, w.Body, log.String())
		}
	}
}

// TestBasePath: paths with the base path and without it.
func TestBasePath(t *testing.T) {
	a := newAPI(env("LEASEHOLD_BASE_PATH=/leasehold"), slog.New(slog.DiscardHandler), memory)
	for path, want := range map[string]int{"/healthz": 200, "/leasehold/healthz": 200, "/other/healthz": 404,
		"/leaseholdhealthz": 404} {
		if w := get(t, a, path); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

func newAPI(environ func() []string, log *slog.Logger, open opener) *Function {
	return newFunction(settings.FunctionAPI, environ, log, newTestLife(), open, api)
}

// newTestLife is the life of one function, which no signal ends.
func newTestLife() func() *life {
	l := newLife()
	return func() *life { return l }
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func memory(context.Context, *settings.Config) (docstore.Store, error) {
	return docstore.NewMemory(nil), nil
}

// TestWithoutAnIssuer: all callers are rejected, but the platform sees that the function lives.
// TestConsole: a function serves the console if it is told to.
func TestConsole(t *testing.T) {
	for words, want := range map[string]int{"": http.StatusNotFound, "LEASEHOLD_CONSOLE=true": http.StatusOK} {
		if w := get(t, newAPI(env(words), slog.New(slog.DiscardHandler), memory), "/console/"); w.Code != want {
			t.Errorf("%q: %d %s", words, w.Code, w.Body)
		}
	}
}

func TestWithoutAnIssuer(t *testing.T) {
	a := newAPI(env("FIRESTORE_EMULATOR_HOST=127.0.0.1:1"), slog.New(slog.DiscardHandler), memory)
	if w := get(t, a, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("healthz: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/v1/tenants/acme/locks", "/v1/tenants/acme/locks/k"} {
		w := get(t, a, path)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "authentication is not configured") ||
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

// TestPlatformVerifies: where callers are left to the platform, and the platform is none, only those on this machine
// are let in.
func TestPlatformVerifies(t *testing.T) {
	for _, c := range []struct {
		words, from string
		want        int
	}{
		{"", "192.0.2.1:5000", http.StatusForbidden},
		{"", "127.0.0.1:5000", http.StatusOK}, // an empty message is done with
		{" K_SERVICE=tasks", "192.0.2.1:5000", http.StatusOK},
	} {
		f := newFunction(settings.FunctionTasks,
			env("LEASEHOLD_TARGET_URL=https://worker.example LEASEHOLD_TASK_AUTH=platform"+c.words),
			slog.New(slog.DiscardHandler), newTestLife(), memory, taskEndpoint)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tasks.TaskPath, http.NoBody)
		r.RemoteAddr = c.from
		w := httptest.NewRecorder()
		if f.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s from %s: %d %s, want %d", c.words, c.from, w.Code, w.Body, c.want)
		}
	}
}

// TestOpeningThatHangs: requests wait for an attempt to open the store that hangs for as long as a request may, and those
// that come half a minute after its begin start another one. What it opens late is not used.
func TestOpeningThatHangs(t *testing.T) {
	life := newTestLife()
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		f := newFunction(settings.FunctionAPI, env(""), slog.New(slog.DiscardHandler), life,
			func(ctx context.Context, c *settings.Config) (docstore.Store, error) {
				if opened.Add(1) == 1 {
					time.Sleep(time.Hour)
				}
				return memory(ctx, c)
			}, api)
		begin := time.Now()
		for _, want := range []struct {
			code   int
			opened int32
			after  time.Duration
		}{
			{503, 1, 10 * time.Second}, {503, 1, 20 * time.Second}, {503, 1, 30 * time.Second}, {200, 2, 30 * time.Second},
			{200, 2, 30 * time.Second},
		} {
			w := get(t, f, "/healthz")
			if took := time.Since(begin); w.Code != want.code || opened.Load() != want.opened || took != want.after {
				t.Errorf("%d after %v, opened %d times; want %+v", w.Code, took, opened.Load(), want)
			}
		}
		time.Sleep(2 * time.Hour)
		if w := get(t, f, "/healthz"); w.Code != 200 || opened.Load() != 2 {
			t.Errorf("later: %d, opened %d times", w.Code, opened.Load())
		}
	})
}

// TestOpenedOnce: the first requests share one attempt, later ones its store.
func TestOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		a := newAPI(env(""), slog.New(slog.DiscardHandler), func(context.Context, *settings.Config) (docstore.Store, error) {
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

// TestFailedOpen: the response does not have the reason, the log has it, and the next request tries again.
func TestFailedOpen(t *testing.T) {
	var log bytes.Buffer
	attempts := 0
	a := newAPI(env(""), NewLog(&log), func(context.Context, *settings.Config) (docstore.Store, error) {
		if attempts++; attempts < 3 {
			return nil, errors.New("no route to the emulator")
		}
		return docstore.NewMemory(nil), nil
	})
	for range 2 {
		w := get(t, a, "/healthz")
		var p contracts.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusServiceUnavailable ||
			p.Code != contracts.CodeUnavailable ||
			!p.Retryable || strings.Contains(w.Body.String(), "route") ||
			w.Header().Get("Content-Type") != "application/problem+json" {
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
	if !strings.Contains(log.String(),
		`"severity":"ERROR","message":"cannot start","err":"open the store: no route to the emulator"`) {
		t.Errorf("the log says %s", log.String())
	}
}

// TestSlowOpen: a request waits no longer than its deadline, and never for ever; the attempt goes on without it.
func TestSlowOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(env(""), slog.New(slog.DiscardHandler), func(context.Context, *settings.Config) (docstore.Store, error) {
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
	if want := map[string]any{"severity": "WARNING", "message": "careful",
		"g": map[string]any{"level": "low", "msg": "x"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLogOfRequests: the line of a request is what Cloud Logging shows as a request, within its trace.
func TestLogOfRequests(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, c := range []struct{ name, project, header, path, want string }{
		{"in a trace", "p1", "00-" + id + "-" + parent + "-01", "/healthz",
			`{"severity":"INFO","message":"request","outcome":"ok","took_ms":1,"request":"r1",` +
				`"httpRequest":{"requestMethod":"GET","requestUrl":"/healthz","status":200,"latency":"0.001000s"},` +
				`"logging.googleapis.com/trace":"projects/p1/traces/` + id + `","logging.googleapis.com/spanId":"` + parent +
				`","logging.googleapis.com/trace_sampled":true}`},
		{"in a trace of an unknown project", "", "00-" + id + "-" + parent + "-00", "/healthz",
			`{"severity":"INFO","message":"request","outcome":"ok","took_ms":1,"request":"r1",` +
				`"httpRequest":{"requestMethod":"GET","requestUrl":"/healthz","status":200,"latency":"0.001000s"},` +
				`"trace_id":"` + id + `","logging.googleapis.com/spanId":"` + parent +
				`","logging.googleapis.com/trace_sampled":false}`},
		{"rejected", "p1", "", "/none?a=b",
			`{"severity":"INFO","message":"request","outcome":"NOT_FOUND","took_ms":1,"request":"r1",` +
				`"httpRequest":{"requestMethod":"GET","requestUrl":"/none","status":404,"latency":"0.001000s","remoteIp":"192.0.2.1"}}`},
		{"with a trace that is none", "p1", "00-" + id + "-" + parent, "/healthz",
			`{"severity":"INFO","message":"request","outcome":"ok","took_ms":1,"request":"r1",` +
				`"httpRequest":{"requestMethod":"GET","requestUrl":"/healthz","status":200,"latency":"0.001000s"}}`},
	} {
		var log bytes.Buffer
		h := httpapi.New(docstore.NewMemory(nil), anyone{},
			&httpapi.Options{Log: slog.New(newHandler(&log, func() string { return c.project }))})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		r.Header.Set("X-Request-Id", "r1")
		if c.header != "" {
			r.Header.Set("Traceparent", c.header)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		line := regexp.MustCompile(`"took_ms":[0-9.]+`).ReplaceAllString(strings.TrimSpace(log.String()), `"took_ms":1`)
		line = regexp.MustCompile(`"latency":"[0-9]+\.[0-9]{6}s"`).ReplaceAllString(line, `"latency":"0.001000s"`)
		line = regexp.MustCompile(`"time":"[^"]*",`).ReplaceAllString(line, "")
		if line != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, line, c.want)
		}
	}
}

// anyone is an identity of callers who are verified.
type anyone struct{}

func (anyone) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{Subject: "ann", Tenant: "acme"}, nil
}
func (anyone) Challenge() string { return "" }
func (anyone) Unverified() bool  { return false }

// TestLevels: from the level of the settings on there are lines; audit events are always there, and the first line says
// what began.
func TestLevels(t *testing.T) {
	t.Setenv("PORT", "8080")
	for level, want := range map[string][]string{
		"info": {"started", "request", "audit", "request"}, "warn": {"audit"}, "error": {"audit"}, "none": {"audit"},
	} {
		var log bytes.Buffer
		a := newAPI(env("LEASEHOLD_LOG_LEVEL="+level), NewLog(&log), memory)
		get(t, a, "/healthz")
		get(t, a, "/v1/tenants/acme/locks") // no issuer: every caller is rejected, which is an audit event
		var said []string
		for line := range strings.Lines(log.String()) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			said = append(said, fmt.Sprint(l["message"]))
			if l["message"] == "started" && (l["store"] != "firestore" || l["version"] == "" || l["listen"] != ":8080" ||
				l["authentication"] != "none: every caller is rejected") {
				t.Errorf("the first line is %s", line)
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("%s: %v, want %v", level, said, want)
		}
	}
}
