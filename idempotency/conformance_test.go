package idempotency_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: the middleware does what the scripts say, which hold for those in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.OfMiddleware, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.OfMiddleware, openConformance)
}

// TestConformanceCatches: clients that do what none may do fail.
func TestConformanceCatches(t *testing.T) {
	conformancetest.Catch(t, conformance.OfMiddleware, openConformance, "all commands have one request_id",
		"each request is sent twice")
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	s := e.Client.Middleware
	o := idempotency.Options{Name: s.Name, Required: s.Required, MaxBody: s.MaxBody, Owner: e.Client.Owner,
		Warn: func(*http.Request, error) {}}
	if s.Store == conformance.StoreSuccess {
		o.Store = idempotency.StoreSuccess
	}
	if s.Wait != nil {
		o.Wait = new(time.Duration(*s.Wait * float64(time.Second)))
	}
	m, err := idempotency.New(e.Dial(t).Runs(e.Client.Tenant), func(r *http.Request) string {
		return cmp.Or(r.Header.Get("X-Account"), "ann")
	}, &o)
	if err != nil {
		t.Fatal(err)
	}
	return &program{m}
}

// program is a middleware in the terms of the scripts.
type program struct{ m *idempotency.Middleware }

// Close ends what goes on in the background, when those requests have ended that a failed run has left.
func (p *program) Close() error {
	time.Sleep(time.Minute)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return p.m.Shutdown(ended)
}

// Do implements [conformancetest.Program].
func (p *program) Do(ctx context.Context, c conformancetest.Call) (conformancetest.Obtained, error) {
	switch c.Op {
	case "handle":
		return p.handle(ctx, c)
	case "close":
		ctx, cancel := context.WithTimeout(ctx, time.Duration(*c.Options.Wait*float64(time.Second)))
		defer cancel()
		err := p.m.Shutdown(ctx)
		return conformancetest.Obtained{Value: map[string]any{"not_stored": err != nil}}, nil
	}
	return conformancetest.Obtained{}, fmt.Errorf("there is no operation %q", c.Op)
}

// handle hands a request to the middleware.
func (p *program) handle(ctx context.Context, c conformancetest.Call) (got conformancetest.Obtained, err error) {
	r := httptest.NewRequestWithContext(ctx, c.HTTP.Method, "http://pay.example"+c.HTTP.Path,
		strings.NewReader(c.HTTP.Body))
	for _, f := range c.HTTP.Headers {
		r.Header.Add(f[0], f[1])
	}
	w := httptest.NewRecorder()
	defer func() {
		if broke := recover(); broke != nil {
			err, _ = broke.(error)
		}
	}()
	p.m.Wrap(handler(c)).ServeHTTP(w, r)
	value := map[string]any{"status": w.Code, "body": w.Body.String()}
	fields := map[string]string{}
	for name := range w.Header() {
		fields[strings.ToLower(name)] = w.Header().Get(name)
	}
	value["headers"] = fields
	if strings.HasSuffix(w.Header().Get("Content-Type"), "json") {
		value["json"] = json.RawMessage(w.Body.Bytes())
	}
	return conformancetest.Obtained{Value: value}, nil
}

// handler responds as the script says. An error of it is a panic.
func handler(c conformancetest.Call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		lease, _ := fence.From(r.Context())
		text, err := c.Work(r.Context(), map[string]any{"token": lease.Token, "body": string(body)})
		if err != nil {
			panic(err)
		}
		if text == "" {
			return
		}
		var does conformance.Response
		if err := json.Unmarshal([]byte(text), &does); err != nil {
			panic(err)
		}
		if does.NothingDone {
			idempotency.NothingDone(r)
		}
		for _, f := range does.Headers {
			w.Header().Add(f[0], f[1])
		}
		w.WriteHeader(does.Status)
		_, _ = io.WriteString(w, strings.Repeat(does.Body, max(1, does.Times)))
	})
}

// Describe implements [conformancetest.Program].
func (*program) Describe(err error) map[string]any {
	d := map[string]any{"class": "unavailable"}
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		d["code"] = e.Code
	}
	switch {
	case errors.As(err, new(*conformancetest.WorkError)):
		d["class"] = "failed"
	case once.IsLost(err):
		d["class"] = "lost"
	}
	return d
}
