// Package contracttest holds exchanges against contracts/openapi.yaml, so that a test that talks to the API also checks
// that the document tells the truth.
package contracttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TB is what the checks need of a test.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var load = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(contracts.OpenAPI)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	// The checks are about paths, whatever host and port the test's server has.
	doc.Servers = nil
	return gorillamux.NewRouter(doc)
})

// Handler returns a handler that passes everything on to next and reports to t what the contract does not allow: an
// answer of another shape or with an undeclared status, a 2xx for a request that the contract refuses, and anything but
// a problem for a path that the contract does not have.
func Handler(t TB, next http.Handler) http.Handler {
	router, err := load()
	if err != nil {
		t.Fatalf("contracts/openapi.yaml: %v", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Helper()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			// The caller broke off: let next see the same. There is no exchange to judge.
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
			next.ServeHTTP(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if err := check(router, r, body, answer); err != nil {
			t.Errorf("%s %s is not as the contract says: %v\nrequest: %.300s\nanswer: %d %.300s",
				r.Method, r.URL.EscapedPath(), err, body, answer.Code, answer.Body)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func check(router routers.Router, r *http.Request, body []byte, answer *httptest.ResponseRecorder) error {
	// Callers may leave the Content-Type out; the contract can only be asked with it.
	q := r.Clone(context.Background())
	if q.Method == http.MethodHead {
		q.Method = http.MethodGet // every GET answers HEAD as well; the contract does not list it
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) > 0 {
		q.Header.Set("Content-Type", "application/json")
	}
	route, params, err := router.FindRoute(q)
	if err != nil {
		if answer.Code < 400 || answer.Header().Get("Content-Type") != "application/problem+json" {
			return fmt.Errorf("a path or method that it does not have (%w) must be answered with a problem", err)
		}
		return nil
	}
	in := &openapi3filter.RequestValidationInput{
		Request: q, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(q.Context(), in); err != nil && answer.Code < 400 {
		return fmt.Errorf("answered %d, but the request: %w", answer.Code, err)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: answer.Code, Header: answer.Header(), Options: in.Options,
	}
	out.SetBodyBytes(answer.Body.Bytes())
	return openapi3filter.ValidateResponse(q.Context(), out)
}
