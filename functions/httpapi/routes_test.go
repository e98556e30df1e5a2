package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// api is a handler on an empty store in memory, each exchange held against the contract.
type api struct {
	t       *testing.T
	clock   *suite.Clock
	store   docstore.Store
	handler http.Handler
	log     *bytes.Buffer
	header  http.Header // sent with every request
}

func open(t *testing.T, identity httpapi.Identity) *api {
	t.Helper()
	c := suite.NewClock()
	d := &api{t: t, clock: c, store: docstore.NewMemory(&docstore.MemoryOptions{Now: c.Now}), log: &bytes.Buffer{},
		header: http.Header{}}
	d.serve(identity, d.store)
	return d
}

// serve puts the handler on a store.
func (d *api) serve(identity httpapi.Identity, s docstore.Store) {
	d.handler = contracttest.Handler(d.t, httpapi.New(s, identity, &httpapi.Options{
		Log: slog.New(slog.NewJSONHandler(io.MultiWriter(d.log, distinct{d.t}), nil)), Timeout: time.Minute,
	}))
}

// distinct reports lines of a log that have a member twice: readers keep either of them.
type distinct struct{ t *testing.T }

func (d distinct) Write(line []byte) (int, error) {
	if v := jsontext.Value(line); !v.IsValid(jsontext.AllowDuplicateNames(false)) {
		d.t.Errorf("the log has a member twice: %s", line)
	}
	return len(line), nil
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (d *api) send(method, target, body string) answer {
	d.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, strings.NewReader(body))
	maps.Copy(r.Header, d.header)
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if strings.Contains(w.Header().Get("Content-Type"), "json") {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			d.t.Fatalf("%s %s: %v in %q", method, target, err, a.raw)
		}
	}
	return a
}

const deploy = "/v1/tenants/acme/locks/deploy-prod"

func (d *api) post(target, body string) answer { d.t.Helper(); return d.send("POST", target, body) }
func (d *api) get(target string) answer        { d.t.Helper(); return d.send("GET", target, "") }

// wants fails the test unless the answer has the status and exactly the members of the JSON object want.
func (a answer) wants(t *testing.T, status int, want string) {
	t.Helper()
	var w map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	got, _ := json.Marshal(a.body)
	exact, _ := json.Marshal(w)
	if a.status != status || !bytes.Equal(got, exact) {
		t.Errorf("got  %d %s\nwant %d %s", a.status, got, status, exact)
	}
}

// refuses fails the test unless the answer is a problem with the status, the code and the field ("" for none).
func (a answer) refuses(t *testing.T, status int, code, field string) {
	t.Helper()
	named, _ := a.body["field"].(string)
	if a.status != status || a.body["code"] != code || named != field {
		t.Errorf("got  %d %s\nwant %d %s, field %q", a.status, a.raw, status, code, field)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %q", ct)
	}
}

// TestHostsInDevelopment: in development mode a request names this machine, unless any host is allowed; a page of
// another site is rejected either way.
func TestHostsInDevelopment(t *testing.T) {
	for _, x := range []struct {
		any          bool
		host, origin string
		status       int
	}{
		{false, "localhost:8080", "", http.StatusOK},
		{false, "leasehold:8080", "", http.StatusForbidden},
		{true, "leasehold:8080", "", http.StatusOK},
		{true, "leasehold:8080", "https://evil.example", http.StatusForbidden},
	} {
		h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{InsecureAnyHost: x.any})
		r := httptest.NewRequest(http.MethodPost, "http://"+x.host+"/v1/tenants/acme/fences/r/check",
			strings.NewReader(`{"fencing_token":1,"subject":"lock/r"}`))
		if x.origin != "" {
			r.Header.Set("Origin", x.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%+v: %d %s", x, w.Code, w.Body)
		}
	}
}

// TestEscapedParts: a path belongs to the same part of the API when its segments are escaped that need not be.
func TestEscapedParts(t *testing.T) {
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil)
	for path, says := range map[string]string{
		"/v1/tenants/acme/locks/k":     "no record of this lock",
		"/%76%31/tenants/acme/locks/k": "no record of this lock",
		"/v1/%74enants/acme/%6cocks/k": "no record of this lock",
		"/v1/tenants/acme/lo%2Fcks/k":  "no such path",
		"/v1/tenants/acme/clocks/k":    "no such path",
		"/v1/tenants/acme":             "no such path",
		"/v2/tenants/acme/locks/k":     "no such path",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s, want %q", path, w.Code, w.Body, says)
		}
	}
}

// TestHeadersAreNotShared: what a handler adds to the headers of one response is not in those of the next.
func TestHeadersAreNotShared(t *testing.T) {
	h := httpapi.Handler([]httpapi.Route{{
		Method: http.MethodGet, Path: "/x",
		Do: func(w http.ResponseWriter, _ *http.Request) error {
			for name := range w.Header() {
				w.Header().Add(name, "more")
			}
			return httpapi.Send(w, map[string]string{})
		},
	}}, nil)
	for i := range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/x", http.NoBody))
		w.Header().Add("Cache-Control", "more")
		w.Header().Add("Content-Type", "more")
		want := map[string]string{"X-Content-Type-Options": "[nosniff more]", "Cache-Control": "[no-store more]",
			"Content-Type": "[application/json more]", "Content-Length": "[3]"}
		for name, values := range want {
			if got := fmt.Sprint(w.Header().Values(name)); got != values {
				t.Errorf("response %d: %s is %s, want %s", i, name, got, values)
			}
		}
	}
}
