package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// probed is a store whose writes are counted, and fail or hang as the test says. Reads always work.
type probed struct {
	docstore.Store

	mu     sync.Mutex
	writes []docstore.Write
	err    error
	takes  time.Duration
}

func (p *probed) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	p.mu.Lock()
	p.writes = append(p.writes, w...)
	err, takes := p.err, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return docstore.Result{}, ctx.Err()
	}
	if err != nil {
		return docstore.Result{}, err
	}
	return p.Store.Write(ctx, w...)
}

func (p *probed) set(err error, takes time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.takes = err, takes
}

func (p *probed) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.writes)
}

// readyz is an API over a probed store, and one request to its /readyz.
func readyz(t *testing.T) (*probed, func(context.Context) (int, string)) {
	t.Helper()
	p := &probed{Store: docstore.NewMemory(nil)}
	h := contracttest.Handler(t, httpapi.New(p, httpapi.Development{}, nil))
	return p, func(ctx context.Context) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/readyz", nil))
		return w.Code, w.Body.String()
	}
}

// TestReadyMeansWritable: reading works on a full disk. Readiness is a write, and says why it fails without the
// details.
func TestReadyMeansWritable(t *testing.T) {
	for _, c := range []struct {
		err   error
		takes time.Duration
		says  string // empty: ready
	}{
		{nil, 0, ""},
		{nil, 4 * time.Second, ""},
		{nil, 6 * time.Second, "did not complete a write in time"},
		{fmt.Errorf("%w: /data/leasehold.db", docstore.ErrFull), 0, "the store is full; reading works, writing does not"},
		{fmt.Errorf("%w: /data/leasehold.db", docstore.ErrUnavailable), 0, "a write failed; the server's log has the reason"},
		{fmt.Errorf("%w: /data/leasehold.db", docstore.ErrClockSkew), 0, "clock is off"},
		{errors.New("/data/leasehold.db"), 0, "a write failed"},
	} {
		t.Run(fmt.Sprint(c.err, c.takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, ask := readyz(t)
				p.set(c.err, c.takes)
				status, body := ask(t.Context())
				if want := map[bool]int{true: 200, false: 503}[c.says == ""]; status != want || !strings.Contains(body, c.says) ||
					strings.Contains(body, "/data") || c.says != "" && !strings.Contains(body, `"UNAVAILABLE"`) {
					t.Errorf("%d %s", status, body)
				}
				p.set(nil, 0)
				time.Sleep(2 * time.Second)
				if status, body := ask(t.Context()); status != 200 {
					t.Errorf("afterwards: %d %s", status, body)
				}
			})
		})
	}
}

// TestLeaving: a server that is about to stop is not ready, says so without calling it a fault, and serves. Each
// response ends its connection, also that to a request which came before.
func TestLeaving(t *testing.T) {
	leaving, store := make(chan struct{}), &probed{Store: docstore.NewMemory(nil)}
	var log bytes.Buffer
	inside, on := make(chan struct{}), make(chan struct{})
	slow := httpapi.Route{Method: "GET", Path: "/slow", Do: func(w http.ResponseWriter, _ *http.Request) error {
		inside <- struct{}{}
		<-on
		_, err := w.Write([]byte("done"))
		return err
	}}
	empty := httpapi.Route{Method: "GET", Path: "/empty",
		Do: func(http.ResponseWriter, *http.Request) error { return nil }}
	h := httpapi.New(store, httpapi.Development{}, &httpapi.Options{Leaving: leaving,
		Log: slog.New(slog.NewTextHandler(&log, nil)), Routes: []httpapi.Route{slow, empty}})
	ask := func(method, target, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+target,
			strings.NewReader(body)))
		return w
	}
	const acquire = `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`
	for _, w := range []*httptest.ResponseRecorder{ask("GET", "/readyz", ""), ask("POST", deploy+"/acquire", acquire),
		ask("GET", "/empty", "")} {
		if w.Code != 200 || w.Header().Get("Connection") != "" {
			t.Errorf("before: %d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	earlier := make(chan *httptest.ResponseRecorder)
	go func() { earlier <- ask("GET", "/slow", "") }()
	<-inside
	close(leaving)
	close(on)
	for name, c := range map[string]struct {
		got  *httptest.ResponseRecorder
		code int
		says string
	}{
		"ready":     {ask("GET", "/readyz", ""), 503, "not ready: this server is about to stop"},
		"healthy":   {ask("GET", "/healthz", ""), 200, "ok"},
		"acquire":   {ask("POST", deploy+"/acquire", acquire), 200, `"replayed":true`},
		"rejection": {ask("POST", deploy+"/acquire", `{}`), 400, "INVALID_ARGUMENT"},
		"no body":   {ask("GET", "/empty", ""), 200, ""},
		"earlier":   {<-earlier, 200, "done"},
	} {
		if w, sent := c.got, c.got.Result().Header; w.Code != c.code || sent.Get("Connection") != "close" ||
			!strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %v %s", name, w.Code, sent, w.Body)
		}
	}
	if n := store.count(); n != 3 {
		t.Errorf("%d writes: it asked the store whether it is ready to stop", n)
	}
	if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "path=/readyz status=503") {
		t.Errorf("the log:\n%s", &log)
	}
}

// TestReadinessIsShared: /readyz needs no token. However often it is called, the store is written to every two seconds
// at most.
func TestReadinessIsShared(t *testing.T) {
	for _, failure := range []error{nil, docstore.ErrFull} {
		synctest.Test(t, func(t *testing.T) {
			p, ask := readyz(t)
			p.set(failure, 0)
			first, _ := ask(t.Context())
			for range 199 {
				time.Sleep(10 * time.Millisecond)
				if status, _ := ask(t.Context()); status != first {
					t.Fatalf("%d, then %d", first, status)
				}
			}
			if n := p.count(); n != 1 {
				t.Errorf("%d writes in 2 s", n)
			}
			time.Sleep(10 * time.Millisecond)
			ask(t.Context())
			if n := p.count(); n != 2 {
				t.Errorf("%d writes after 2 s", n)
			}
		})
	}
	t.Run("requests at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, ask := readyz(t)
			p.set(nil, 3*time.Second)
			gone, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { ask(gone) }) // the first caller, which starts the write, does not wait for it
			for range 100 {
				all.Go(func() {
					time.Sleep(2 * time.Second)
					if status, body := ask(t.Context()); status != 200 {
						t.Errorf("%d %s", status, body)
					}
				})
			}
			all.Wait()
			if n := p.count(); n != 1 {
				t.Errorf("%d writes for 101 requests", n)
			}
		})
	})
}

// TestReadySaysThatTheStoreIsBehind: a store whose time is below the highest that health checks have seen of it is ready,
// and its server says so: in the response, in the log once, and in a read at a start. It costs a write more only then.
func TestReadySaysThatTheStoreIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := time.Duration(0)
		p := &probed{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return time.Now().Add(off) }})}
		var log strings.Builder
		h := contracttest.Handler(t, httpapi.New(p, httpapi.Development{}, &httpapi.Options{
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}))
		for i, c := range []struct {
			set, after time.Duration // the store's clock, and how long ago
			behind     string
			writes     int
		}{
			{0, 0, "", 1},
			{24 * time.Hour, 0, "", 1}, // no one can tell
			{0, 0, "23h59m57s", 2},
			{0, time.Hour, "22h59m54s", 2},
			{0, 22 * time.Hour, "59m51s", 2},
			{0, time.Hour, "", 1},
			{-4 * time.Second, 0, "", 1}, // no more than a second
			{-time.Minute, 0, "53s", 2},
			{0, time.Minute, "", 1},
		} {
			off = c.set
			time.Sleep(3*time.Second + c.after) // longer than a result is given
			before := p.count()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/readyz", nil))
			body := w.Body.String()
			if w.Code != http.StatusOK || p.count()-before != c.writes ||
				strings.Contains(body, "warning") != (c.behind != "") || !strings.Contains(body, c.behind) {
				t.Errorf("%d: %d %s, %d writes", i, w.Code, body, p.count()-before)
			}
			behind, _, err := httpapi.StoreBehind(t.Context(), p)
			if err != nil || behind > 0 != (c.behind != "") {
				t.Errorf("%d: at a start it is %v, %v", i, behind, err)
			}
		}
		if n := strings.Count(log.String(), "the store's time is"); n != 2 {
			t.Errorf("it was logged %d times, want once for each time that it began:\n%s", n, log.String())
		}
	})
}

// TestReadyTellsOfUnreadable: documents that requests could not read are counted by /readyz, which is ready and names
// none of them: anyone may ask it.
func TestReadyTellsOfUnreadable(t *testing.T) {
	t.Parallel()
	d := open(t, httpapi.Development{})
	says := func(count float64, operation string) {
		t.Helper()
		a := d.get("/readyz")
		u, _ := a.body["unreadable"].(map[string]any)
		if a.status != 200 || count == 0 && u != nil || count > 0 && (u["count"] != count || u["operation"] != operation) ||
			strings.Contains(a.raw, "secret") {
			t.Errorf("got %d %s, want %v of %s", a.status, a.raw, count, operation)
		}
	}
	d.get("/v1/tenants/acme/locks").ok(t)
	says(0, "")
	for i := range 3 {
		k := docstore.Key{Kind: "locks", Tenant: "acme", ID: fmt.Sprint("secret-", i)}
		w := docstore.Write{Key: k, Set: docstore.Doc{"token": docstore.String("x")}}
		if _, err := d.store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	d.get("/v1/tenants/acme/locks/secret-0").refuses(t, 500, "DOCUMENT_DAMAGED", "")
	says(1, "lock.get")
	d.get("/v1/tenants/acme/locks").ok(t)
	says(4, "lock.list")
	d.get("/v1/tenants/acme/locks/other").refuses(t, 404, "NOT_FOUND", "")
	says(4, "lock.list")
}

// TestReadyTellsOfDamageBesideRequests: documents that sweeps could not read are counted with those of requests.
func TestReadyTellsOfDamageBesideRequests(t *testing.T) {
	t.Parallel()
	var damage metrics.Damage
	d := open(t, httpapi.Development{})
	d.handler = httpapi.New(d.store, httpapi.Development{}, &httpapi.Options{Damage: &damage})
	k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"}
	if _, err := d.store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"token": docstore.String("x")}}); err != nil {
		t.Fatal(err)
	}
	d.get("/v1/tenants/acme/locks/k").refuses(t, 500, "DOCUMENT_DAMAGED", "")
	var passed docstore.Unreadable
	passed.Take(docstore.ErrDamaged)
	damage.Swept(metrics.OfTallies, passed.Err())
	damage.Swept(metrics.OfClusters, docstore.ErrUnavailable)
	a := d.get("/readyz")
	if u, _ := a.body["unreadable"].(map[string]any); a.status != 200 || u["count"] != 2.0 ||
		u["operation"] != "sweep.tallies" {
		t.Errorf("got %d %s", a.status, a.raw)
	}
}

// TestReadinessLeavesNothing: what is written is small, in a kind of its own, and may be removed by the store.
func TestReadinessLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ask := readyz(t)
		ask(t.Context())
		w := p.writes[0]
		if w.Key.Kind != httpapi.ReadyKind || w.Key.Tenant != "" || len(w.Set) != 1 || w.Keep <= 0 {
			t.Errorf("%+v", w)
		}
		time.Sleep(w.Keep + time.Millisecond)
		n, err := p.Store.(docstore.Pruner).Prune(t.Context(), 10)
		if err != nil || n != 1 {
			t.Errorf("%d documents can be removed, %v; want 1", n, err)
		}
	})
}
