package idempotency_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestNestedTwice: a middleware within itself, or within one of the same name, lets the request pass, and says so once;
// one of another name does its own work.
func TestNestedTwice(t *testing.T) {
	for _, name := range []string{"payments", "other"} {
		var runs atomic.Int64
		var warned []error
		store := docstore.NewMemory(nil)
		warn := func(_ *http.Request, err error) { warned = append(warned, err) }
		inner := middleware(t, gate(store), &idempotency.Options{Name: name, Warn: warn})
		outer := middleware(t, gate(store), &idempotency.Options{Warn: warn})
		h := outer.Wrap(inner.Wrap(payments(&runs, 0)))
		for i := range 4 {
			if w := post(h, fmt.Sprint("k", i/2), "ten"); w.Code != 201 || replayed(w) != (i%2 == 1) {
				t.Errorf("%s: %d: %d %s", name, i, w.Code, w.Body)
			}
		}
		if runs.Load() != 2 || (len(warned) == 1 && errors.Is(warned[0], idempotency.ErrNested)) != (name == "payments") {
			t.Errorf("%s: %d runs, %v", name, runs.Load(), warned)
		}
	}
}

// TestGatewayAndService: a gateway passes the key on to a service of the same tenant, which has a middleware, too. The
// payment is made, once; and what the service says of a request that is under way burns no key of the gateway.
func TestGatewayAndService(t *testing.T) {
	var runs atomic.Int64
	store := docstore.NewMemory(nil)
	service := httptest.NewServer(middleware(t, gate(store), &idempotency.Options{Name: "service", Wait: new(time.Duration)}).
		Wrap(payments(&runs, 200*time.Millisecond)))
	defer service.Close()
	to, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	gateway := middleware(t, gate(store), &idempotency.Options{Name: "gateway"}).
		Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	direct := make(chan struct{})
	go func() { // someone is there already, past the gateway
		defer close(direct)
		r, err := http.NewRequest(http.MethodPost, service.URL+"/payments", strings.NewReader("ten"))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Idempotency-Key", "k1")
		if got, err := http.DefaultClient.Do(r); err == nil {
			_ = got.Body.Close()
		}
	}()
	for runs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	is(t, "meanwhile", post(gateway, "k1", "ten"), 409, "IDEMPOTENT_REQUEST_RUNNING")
	<-direct
	for i := range 2 {
		if w := post(gateway, "k1", "ten"); w.Code != 201 || w.Body.String() != "payment 1 of ten" || !replayed(w) {
			t.Errorf("%d: %d %s", i, w.Code, w.Body)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d payments", runs.Load())
	}
}

// TestWarnsByDefault: without Options.Warn warnings are logged, and a panic with its stack.
func TestWarnsByDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	m, err := idempotency.New(gate(docstore.NewMemory(nil)), user, &idempotency.Options{Name: "payments"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = panics(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })))
	for _, part := range []string{"level=ERROR", "path=/payments", "broken", "nested_test.go"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %s in %s", part, &log)
		}
	}
}
