// Package contracttest checks exchanges against the OpenAPI documents of package contracts, so that a test that talks
// to the API also checks that the documents are true.
package contracttest

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// Load returns the two documents.
func Load() (public, internal *openapi3.T, err error) {
	l := openapi3.NewLoader()
	l.IsExternalRefsAllowed = true
	l.ReadFromURIFunc = func(_ *openapi3.Loader, u *url.URL) ([]byte, error) {
		if u.Path != "openapi.yaml" {
			return nil, fmt.Errorf("a reference to %q, and only openapi.yaml is there", u)
		}
		return contracts.OpenAPI, nil
	}
	if public, err = l.LoadFromData(contracts.OpenAPI); err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	internal, err = l.LoadFromDataWithPath(contracts.OpenAPIInternal, &url.URL{Path: "openapi-internal.yaml"})
	if err != nil {
		return nil, nil, fmt.Errorf("openapi-internal.yaml: %w", err)
	}
	return public, internal, nil
}

// documents finds the route of a request in the public document, or in the internal one for paths under /internal/.
type documents struct{ public, internal routers.Router }

func (d documents) FindRoute(r *http.Request) (*routers.Route, map[string]string, error) {
	if strings.HasPrefix(r.URL.Path, "/internal/") {
		return d.internal.FindRoute(r)
	}
	return d.public.FindRoute(r)
}

var load = sync.OnceValues(func() (routers.Router, error) {
	public, internal, err := Load()
	if err != nil {
		return nil, err
	}
	// The checks are about paths, whatever host and port the test's server has.
	public.Servers, internal.Servers = nil, nil
	var d documents
	if d.public, err = gorillamux.NewRouter(public); err != nil {
		return nil, err
	}
	if d.internal, err = gorillamux.NewRouter(internal); err != nil {
		return nil, err
	}
	return d, nil
})

// Handler returns a handler that passes everything on to next and reports to t what the contract does not allow: a
// response of another shape or with an undeclared status, a 2xx for a request that the contract rejects, and anything
// but a problem for a path that the contract does not have.
func Handler(t TB, next http.Handler) http.Handler {
	router, err := load()
	if err != nil {
		t.Fatalf("contracts: %v", err)
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
		response := httptest.NewRecorder()
		next.ServeHTTP(response, r)
		if err := check(router, r, body, response); err != nil {
			t.Errorf("%s %s is not as the contract says: %v\nrequest: %.300s\nanswer: %d %.300s",
				r.Method, r.URL.EscapedPath(), err, body, response.Code, response.Body)
		}
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes())
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func check(router routers.Router, r *http.Request, body []byte, response *httptest.ResponseRecorder) error {
	// Callers may leave the Content-Type out; the contract can only be asked with it.
	q := r.Clone(context.Background())
	if q.Method == http.MethodHead {
		q.Method = http.MethodGet // every GET serves HEAD as well; the contract does not list it
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) > 0 {
		q.Header.Set("Content-Type", "application/json")
	}
	route, params, err := router.FindRoute(q)
	if err != nil {
		if response.Code < 400 || response.Header().Get("Content-Type") != "application/problem+json" {
			return fmt.Errorf("a path or method that it does not have (%w) must result in a problem", err)
		}
		return nil
	}
	in := &openapi3filter.RequestValidationInput{
		Request: q, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(q.Context(), in); err != nil && response.Code < 400 {
		return fmt.Errorf("responded %d, but the request: %w", response.Code, err)
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: response.Code, Header: response.Header(), Options: in.Options,
	}
	plain, err := decompressed(response)
	if err != nil {
		return err
	}
	out.SetBodyBytes(plain)
	return openapi3filter.ValidateResponse(q.Context(), out)
}

// decompressed is the body of a response.
func decompressed(response *httptest.ResponseRecorder) ([]byte, error) {
	if response.Header().Get("Content-Encoding") != "gzip" {
		return response.Body.Bytes(), nil
	}
	z, err := gzip.NewReader(bytes.NewReader(response.Body.Bytes()))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
