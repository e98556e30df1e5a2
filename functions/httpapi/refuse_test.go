package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestBadInput: each gets its code and names the field, and nothing is changed.
func TestBadInput(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	const ok = `"request_id":"r1","owner_id":"ann"`
	cases := []struct {
		name, target, body string
		status             int
		code, field        string
	}{
		{"no body", "k/acquire", ``, 400, "INVALID_ARGUMENT", "body"},
		{"malformed JSON", "k/acquire", `{"request_id":`, 400, "INVALID_ARGUMENT", "body"},
		{"not JSON at all", "k/acquire", `ttl_seconds=30`, 400, "INVALID_ARGUMENT", "body"},
		{"JSON, but a list", "k/acquire", `[1]`, 400, "INVALID_ARGUMENT", "body"},
		{"JSON, but text", "k/acquire", `"acquire"`, 400, "INVALID_ARGUMENT", "body"},
		{"two objects", "k/acquire", `{` + ok + `,"ttl_seconds":30}{}`, 400, "INVALID_ARGUMENT", "body"},
		{"invalid UTF-8", "k/acquire", `{"request_id":"` + "\xff" + `","owner_id":"ann","ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "body"},
		{"nested without end", "k/acquire", strings.Repeat("[", 20_000), 400, "INVALID_ARGUMENT", "body"},
		{"unknown field", "k/acquire", `{` + ok + `,"ttl_seconds":30,"color":"red"}`, 400, "INVALID_ARGUMENT", "color"},
		{"misspelt field", "k/acquire", `{` + ok + `,"TTL_seconds":30}`, 400, "INVALID_ARGUMENT", "TTL_seconds"},
		{"field given twice", "k/acquire", `{` + ok + `,"ttl_seconds":30,"ttl_seconds":31}`, 400, "INVALID_ARGUMENT",
			"ttl_seconds"},
		{"missing request_id", "k/acquire", `{"owner_id":"ann","ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "request_id"},
		{"empty request_id", "k/acquire", `{"request_id":"","owner_id":"ann","ttl_seconds":30}`, 400, "INVALID_ARGUMENT",
			"request_id"},
		{"request_id is a number", "k/acquire", `{"request_id":7,"owner_id":"ann","ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "request_id"},
		{"request_id too long", "k/acquire", `{"request_id":"` + long + `","owner_id":"ann","ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "request_id"},
		{"request_id with a newline", "k/acquire", `{"request_id":"r\n1","owner_id":"ann","ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "request_id"},
		{"missing owner_id", "k/acquire", `{"request_id":"r1","ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "owner_id"},
		{"owner_id with NUL", "k/acquire", `{"request_id":"r1","owner_id":"a\u0000b","ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "owner_id"},
		{"missing ttl_seconds", "k/acquire", `{` + ok + `}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds null", "k/acquire", `{` + ok + `,"ttl_seconds":null}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds 0", "k/acquire", `{` + ok + `,"ttl_seconds":0}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds -1", "k/acquire", `{` + ok + `,"ttl_seconds":-1}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds 86401", "k/acquire", `{` + ok + `,"ttl_seconds":86401}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds 1e18", "k/acquire", `{` + ok + `,"ttl_seconds":1e18}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds 1e18 written out", "k/acquire", `{` + ok + `,"ttl_seconds":1000000000000000000}`, 400,
			"INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds beyond int64", "k/acquire", `{` + ok + `,"ttl_seconds":99999999999999999999}`, 400,
			"INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds as text", "k/acquire", `{` + ok + `,"ttl_seconds":"30"}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"ttl_seconds half", "k/acquire", `{` + ok + `,"ttl_seconds":0.5}`, 400, "INVALID_ARGUMENT", "ttl_seconds"},
		{"metadata is a list", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":["a"]}`, 400, "INVALID_ARGUMENT",
			"metadata"},
		{"metadata with a number", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":{"build":991}}`, 400,
			"INVALID_ARGUMENT", "metadata.build"},
		{"metadata with an empty name", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":{"":"x"}}`, 400,
			"INVALID_ARGUMENT", "metadata"},
		{"metadata value too long", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":{"a":"` + long + `"}}`, 400,
			"INVALID_ARGUMENT", "metadata.a"},
		{"metadata with 33 entries", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":{` + entries(33) + `}}`, 400,
			"INVALID_ARGUMENT", "metadata"},
		{"missing fencing_token", "k/renew", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "fencing_token"},
		{"fencing_token 0", "k/release", `{` + ok + `,"fencing_token":0}`, 400, "INVALID_ARGUMENT", "fencing_token"},
		{"fencing_token as text", "k/release", `{` + ok + `,"fencing_token":"1"}`, 400, "INVALID_ARGUMENT", "fencing_token"},
		{"fencing_token beyond 2^53", "k/release", `{` + ok + `,"fencing_token":9007199254740993}`, 400,
			"INVALID_ARGUMENT", "fencing_token"},
		{"missing reason", "k/force-release", `{` + ok + `}`, 400, "INVALID_ARGUMENT", "reason"},
		{"key of 10 kB", long + "/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key of 257 bytes", strings.Repeat("k", 257) + "/acquire", `{` + ok + `,"ttl_seconds":30}`, 400,
			"INVALID_ARGUMENT", "lock_key"},
		{"empty key", "/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key of one control character", "%00/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key with a newline", "a%0Ab/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key with DEL", "a%7Fb/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key with a C1 control", "a%C2%85b/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key that is not UTF-8", "a%FFb/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key .", "./acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key /", "%2F/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"key .., escaped", "%2E%2E/acquire", `{` + ok + `,"ttl_seconds":30}`, 400, "INVALID_ARGUMENT", "lock_key"},
		{"body of 1 MB", "k/acquire", `{` + ok + `,"ttl_seconds":30,"metadata":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`,
			413, "PAYLOAD_TOO_LARGE", ""},
		{"body one byte too large", "k/acquire", `{` + strings.Repeat(" ", httpapi.MaxBodyBytes) + `}`, 413,
			"PAYLOAD_TOO_LARGE", ""},
	}
	d := open(t, httpapi.Development{})
	d.post("/v1/tenants/acme/locks/k/acquire", `{"request_id":"r0","owner_id":"ann","ttl_seconds":60}`)
	before := d.get("/v1/tenants/acme/locks").raw
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := d.post("/v1/tenants/acme/locks/"+c.target, c.body)
			a.refuses(t, c.status, c.code, c.field)
			if detail, _ := a.body["detail"].(string); detail == "" || len(detail) > 400 {
				t.Errorf("detail of %d bytes: %.100q", len(detail), detail)
			}
		})
	}
	if after := d.get("/v1/tenants/acme/locks").raw; after != before {
		t.Errorf("bad input changed something:\nbefore %s\nafter  %s", before, after)
	}
}

func entries(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"k%d":"v"`, i))
	}
	return strings.Join(parts, ",")
}

// TestBodyThatBreaksOff: the connection ends in the middle of a body. Nothing is changed, and the response does not
// claim otherwise.
func TestBodyThatBreaksOff(t *testing.T) {
	store := docstore.NewMemory(nil)
	h := httpapi.New(store, httpapi.Development{}, nil)
	for _, c := range []struct{ method, target string }{
		{"POST", deploy + "/acquire"}, {"POST", a1 + "/lock"}, {"PUT", a1}, {"POST", "/v1/machine-ids/lease"},
	} {
		half := io.MultiReader(strings.NewReader(`{"request_id":"r1","owner_id":"ann",`),
			iotest.ErrReader(io.ErrUnexpectedEOF))
		if c.method == "PUT" {
			half = iotest.ErrReader(io.ErrUnexpectedEOF)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, "http://127.0.0.1:8080"+c.target, half))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "body ended before it was whole") {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
	}
	for _, kind := range []string{"locks", "analyses", "machine_ids"} {
		if p, err := store.List(t.Context(), docstore.Query{Kind: kind}); err != nil || len(p.Entries) != 0 {
			t.Errorf("%s: %v, %v", kind, p.Entries, err)
		}
	}
	if s, err := store.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy-prod"}); err != nil ||
		s.Docs[0] != nil {
		t.Errorf("the lock: %v, %v", s.Docs, err)
	}
}

func TestErrorsTeach(t *testing.T) {
	d := open(t, httpapi.Development{})
	for body, want := range map[string]string{
		`{"request_id":"r1","owner_id":"a","ttl_seconds":"30"}`:  `ttl_seconds must be a whole number, not text`,
		`{"request_id":"r1","owner_id":"a","ttl_seconds":0}`:     `ttl_seconds must be a whole number from 1 to 86400`,
		`{"request_id":"r1","owner_id":"a","ttl":30}`:            `ttl is not a member of this body: check its spelling, or remove it`,
		`{"owner_id":"a","ttl_seconds":30}`:                      `request_id is required: 1 to 128 bytes of text`,
		"{\"request_id\":\"r1\",\n\"owner_id\": ann}":            `body is not JSON: line 2, column 13: invalid character 'a' at start of value`,
		`{"request_id":"r1"`:                                     `body is not JSON: line 1, column 19: it ends too early`,
		`{"request_id":"r1","ttl_seconds":30}`:                   `owner_id is required: this server runs in development mode, where the body names the owner`,
		`{"request_id":"r","owner_id":"a\tb","ttl_seconds":30}`:  `owner_id has the control character U+0009 at byte 1: remove it`,
		`{"request_id":"r1","owner_id":["a"],"ttl_seconds":30}`:  `owner_id must be text, not a list`,
		`{"request_id":"r1","owner_id":"a","ttl_seconds":30e18}`: `ttl_seconds must be a whole number, not 30e18`,
	} {
		if a := d.post(deploy+"/acquire", body); a.body["detail"] != want {
			t.Errorf("%s:\ngot  %v\nwant %s", body, a.body["detail"], want)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	d := open(t, httpapi.Development{})
	cases := []struct {
		method, target string
		status         int
		code, field    string
		allow          string
	}{
		{"GET", "/", 404, "NOT_FOUND", "", ""},
		{"POST", "/v2/tenants/acme/locks/k/acquire", 404, "NOT_FOUND", "", ""},
		{"POST", deploy + "/steal", 404, "NOT_FOUND", "", ""},
		{"GET", deploy + "/acquire", 405, "METHOD_NOT_ALLOWED", "", "POST"},
		{"DELETE", deploy, 405, "METHOD_NOT_ALLOWED", "", "GET, HEAD"},
		{"POST", "/healthz", 405, "METHOD_NOT_ALLOWED", "", "GET, HEAD"},
		{"GET", "/v1/tenants//locks", 400, "INVALID_ARGUMENT", "tenant_id", ""},
		{"GET", "/v1/tenants/../locks", 400, "INVALID_ARGUMENT", "tenant_id", ""},
		{"GET", "/v1/tenants/%2E%2E/locks", 400, "INVALID_ARGUMENT", "tenant_id", ""},
		{"GET", "/v1/tenants/%2f/locks", 400, "INVALID_ARGUMENT", "tenant_id", ""},
		{"GET", "/v1/tenants/acme/locks/", 400, "INVALID_ARGUMENT", "lock_key", ""},
		{"POST", "/v1/tenants/acme/fences//check", 400, "INVALID_ARGUMENT", "resource", ""},
		{"GET", "//healthz", 404, "NOT_FOUND", "", ""},
		{"GET", "/healthz/", 404, "NOT_FOUND", "", ""},
		{"GET", "/v2/x//y", 404, "NOT_FOUND", "", ""},
		{"GET", "/v1/tenants/" + strings.Repeat("t", 129) + "/locks", 400, "INVALID_ARGUMENT", "tenant_id", ""},
		{"GET", "/v1/tenants/acme/locks?state=LOCKED", 400, "INVALID_ARGUMENT", "state", ""},
		{"GET", "/v1/tenants/acme/locks?page_size=0", 400, "INVALID_ARGUMENT", "page_size", ""},
		{"GET", "/v1/tenants/acme/locks?page_size=1001", 400, "INVALID_ARGUMENT", "page_size", ""},
		{"GET", "/v1/tenants/acme/locks?page_size=ten", 400, "INVALID_ARGUMENT", "page_size", ""},
		{"GET", "/v1/tenants/acme/locks?page_token=%21", 400, "INVALID_ARGUMENT", "page_token", ""},
		{"GET", "/v1/tenants/acme/locks?state=ACTIVE&state=EXPIRED", 400, "INVALID_ARGUMENT", "state", ""},
		{"GET", "/v1/tenants/acme/locks?color=red", 400, "INVALID_ARGUMENT", "color", ""},
		{"GET", "/v1/tenants/acme/locks?a=%zz", 400, "INVALID_ARGUMENT", "query", ""},
		{"GET", "/v1/tenants/acme/locks?prefix=%00", 400, "INVALID_ARGUMENT", "prefix", ""},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.target[:min(len(c.target), 60)], func(t *testing.T) {
			a := d.send(c.method, c.target, "")
			a.refuses(t, c.status, c.code, c.field)
			if got := a.header.Get("Allow"); got != c.allow {
				t.Errorf("Allow %q, want %q", got, c.allow)
			}
		})
	}
}

// verified is an identity that a platform has verified already.
type verified struct {
	caller httpapi.Caller
	err    error
}

func (v verified) Identify(*http.Request) (httpapi.Caller, error) { return v.caller, v.err }
func (verified) Challenge() string                                { return `Bearer realm="leasehold"` }
func (verified) Unverified() bool                                 { return false }

// TestOwnerComesFromIdentity: LS-AUTH-001.
func TestOwnerComesFromIdentity(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc-deploy", Tenant: "acme"}})
	owner := func(key, body string) any {
		t.Helper()
		return d.post("/v1/tenants/acme/locks/"+key+"/acquire", body).body["owner_id"]
	}
	if got := owner("a", `{"request_id":"r1","ttl_seconds":30}`); got != "svc-deploy" {
		t.Errorf("owner %v, want the subject", got)
	}
	b := d.post("/v1/tenants/acme/locks/b/acquire", `{"request_id":"r1","ttl_seconds":30,"owner_id":"worker-1"}`).body
	if got := b["owner_id"]; got != "svc-deploy#worker-1" {
		t.Errorf("owner %v, want the subject with its suffix", got)
	}
	for _, suffix := range []string{"a#b", "a b", "ä", strings.Repeat("x", 65), "a/b"} {
		d.post(deploy+"/acquire", `{"request_id":"r1","ttl_seconds":30,"owner_id":"`+suffix+`"}`).refuses(t, 400,
			"INVALID_ARGUMENT", "owner_id")
	}

	// A caller with the subject "svc-deploy#worker-1" is still not worker-1 of svc-deploy.
	d.serve(verified{caller: httpapi.Caller{Subject: "svc-deploy#worker-1", Tenant: "acme"}}, d.store)
	d.post("/v1/tenants/acme/locks/b/release", fmt.Sprintf(`{"request_id":"e1","fencing_token":%.0f}`,
		b["fencing_token"])).refuses(t, 403, "NOT_OWNER", "")
	if got := owner("c", `{"request_id":"r1","ttl_seconds":30}`); got != "svc-deploy%23worker-1" {
		t.Errorf("owner %v, want # escaped", got)
	}

	// Nor is the subject that is spelled like an escape: different subjects are different owners.
	owners := map[any]string{}
	for i, subject := range []string{"a#b", "a%23b", "a%2523b", "a%b", "a%25b", "a", "a%"} {
		d.serve(verified{caller: httpapi.Caller{Subject: subject, Tenant: "acme"}}, d.store)
		key := fmt.Sprint("s", i)
		for _, body := range []string{`{"request_id":"r1","ttl_seconds":30}`,
			`{"request_id":"r1","ttl_seconds":30,"owner_id":"b"}`} {
			got := owner(key+body[14:15]+strconv.Itoa(len(body)), body)
			if other, taken := owners[got]; taken || got == nil {
				t.Errorf("subject %q is the owner %v, as is %q", subject, got, other)
			}
			owners[got] = subject
		}
	}
}

func TestCallersStayInTheirTenant(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}})
	// not only of another length
	for _, other := range []string{"rival", "acmf", "bcme", "ACME", "acm", "acme2", "acme%20", "%20acme", "a"} {
		for _, target := range []string{"locks/k/acquire", "locks/k/renew", "locks/k/release", "locks/k/force-release",
			"fences/r/check", "fences/r/reset", "fences/r/remove"} {
			d.post("/v1/tenants/"+other+"/"+target, `{}`).refuses(t, 403, "PERMISSION_DENIED", "")
		}
		for _, target := range []string{"locks/k", "locks"} {
			d.get("/v1/tenants/"+other+"/"+target).refuses(t, 403, "PERMISSION_DENIED", "")
		}
	}
}

func TestOnlyAdministratorsForce(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}})
	d.post(deploy+"/acquire", `{"request_id":"r1","ttl_seconds":30}`)
	d.post(deploy+"/force-release", `{"request_id":"f1","reason":"x"}`).refuses(t, 403, "PERMISSION_DENIED", "")
	if got := d.get(deploy).body["state"]; got != "ACTIVE" {
		t.Errorf("state %v after a refused force-release", got)
	}
	d.serve(verified{caller: httpapi.Caller{Subject: "root", Tenant: "acme", Rights: httpapi.Admin}}, d.store)
	if a := d.post(deploy+"/force-release", `{"request_id":"f1","reason":"x"}`); a.status != 200 {
		t.Errorf("an administrator: %d %s", a.status, a.raw)
	}
}

func TestOnlyAdministratorsResetFences(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}})
	const fence = "/v1/tenants/acme/fences/db"
	d.post(fence+"/check", `{"fencing_token":9,"subject":"lock/db"}`)
	d.post(fence+"/reset", `{"highest_token":9,"reason":"x"}`).refuses(t, 403, "PERMISSION_DENIED", "")
	d.post(fence+"/remove", `{"highest_token":9,"reason":"x"}`).refuses(t, 403, "PERMISSION_DENIED", "")
	d.post(fence+"/check", `{"fencing_token":8,"subject":"lock/db"}`).refuses(t, 409, "STALE_TOKEN", "")
	d.serve(verified{caller: httpapi.Caller{Subject: "root", Tenant: "acme", Rights: httpapi.Admin}}, d.store)
	if a := d.post(fence+"/reset", `{"highest_token":9,"reason":"x"}`); a.status != 200 {
		t.Errorf("an administrator: %d %s", a.status, a.raw)
	}
}

// TestNumbers: what is said of a number that is missing, of the wrong kind or too large.
func TestNumbers(t *testing.T) {
	d := open(t, httpapi.Development{})
	const (
		ok      = `{"request_id":"r1","owner_id":"ann"`
		missing = " is required: a whole number"
		tooMany = " has too many digits: numbers go up to 9007199254740992"
	)
	for _, c := range []struct{ target, body, field, want string }{
		{"acquire", ok + `}`, "ttl_seconds", missing},
		{"renew", ok + `,"ttl_seconds":5}`, "fencing_token", missing},
		{"renew", ok + `,"fencing_token":5}`, "ttl_seconds", missing},
		{"release", ok + `}`, "fencing_token", missing},
		{"acquire", ok + `,"ttl_seconds":0}`, "ttl_seconds", " must be a whole number from 1 to 86400"},
		{"acquire", ok + `,"ttl_seconds":1000000000000000000}`, "ttl_seconds", " must be a whole number from 1 to 86400"},
		{"acquire", ok + `,"ttl_seconds":99999999999999999999}`, "ttl_seconds", tooMany},
		{"acquire", ok + `,"ttl_seconds":-99999999999999999999}`, "ttl_seconds", tooMany},
		{"release", ok + `,"fencing_token":` + strings.Repeat("9", 400) + `}`, "fencing_token", tooMany},
		{"acquire", ok + `,"ttl_seconds":0.5}`, "ttl_seconds", " must be a whole number, not 0.5"},
		{"acquire", ok + `,"ttl_seconds":"30"}`, "ttl_seconds", ` must be a whole number, not text`},
	} {
		a := d.post(deploy+"/"+c.target, c.body)
		a.refuses(t, 400, "INVALID_ARGUMENT", c.field)
		if a.body["detail"] != c.field+c.want {
			t.Errorf("%.80s: detail %q, want %q", c.body, a.body["detail"], c.field+c.want)
		}
	}
}

func TestUnbelievableCallers(t *testing.T) {
	d := open(t, verified{err: fmt.Errorf("%w: the token expired at noon", httpapi.ErrUnauthenticated)})
	a := d.get(deploy)
	a.refuses(t, 401, "UNAUTHENTICATED", "")
	if got := a.header.Get("WWW-Authenticate"); got != `Bearer realm="leasehold"` {
		t.Errorf("WWW-Authenticate %q", got)
	}
	if got := d.get("/healthz"); got.status != 200 {
		t.Errorf("healthz asks who is there: %d", got.status)
	}

	d.serve(verified{err: errors.New("the issuer at 10.0.0.7 does not answer")}, d.store)
	a = d.get(deploy)
	a.refuses(t, 503, "UNAVAILABLE", "")
	if strings.Contains(a.raw, "10.0.0.7") || !strings.Contains(d.log.String(), "10.0.0.7") {
		t.Errorf("the cause belongs into the log and not into the answer: %s", a.raw)
	}
}

// TestDevelopmentModeIsLocal: no web page reaches a server that believes everybody.
func TestDevelopmentModeIsLocal(t *testing.T) {
	d := open(t, httpapi.Development{})
	ask := func(host string, header http.Header) int {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+deploy+"/acquire",
			strings.NewReader(`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`))
		maps.Copy(r.Header, header)
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		return w.Code
	}
	for host, want := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:8080": 200, "LOCALHOST": 200, "[::1]:8080": 200, "127.1.2.3": 200,
		"evil.example:8080": 403, "192.168.1.7:8080": 403, "localhost.evil.example": 403, "[2001:db8::1]:8080": 403,
		"127.0.0.1.evil.example": 403,
	} {
		if got := ask(host, nil); got != want {
			t.Errorf("host %s: %d, want %d", host, got, want)
		}
	}
	for _, proxy := range []string{
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via", "X-Real-IP", "CF-Connecting-IP",
		"True-Client-IP",
	} { // a proxy that rewrites Host makes the whole world look like this machine
		h := http.Header{}
		h.Set(proxy, "192.0.2.1")
		if got := ask("127.0.0.1:8080", h); got != 403 {
			t.Errorf("%s: %d, want 403", proxy, got)
		}
	}
	for name, h := range map[string]http.Header{
		"other site, new browser": {"Sec-Fetch-Site": {"cross-site"}},
		"other site, old browser": {"Origin": {"http://evil.example"}},
		"other port":              {"Sec-Fetch-Site": {"same-site"}},
	} {
		if got := ask("127.0.0.1:8080", h); got != 403 {
			t.Errorf("%s: %d, want 403", name, got)
		}
	}
}

// named is an identity that adds something to another one, as entry points do.
type named struct{ httpapi.Identity }

// TestDevelopmentModeInDisguise: the protection belongs to the mode, not to one Go value.
func TestDevelopmentModeInDisguise(t *testing.T) {
	for _, identity := range []httpapi.Identity{&httpapi.Development{}, named{httpapi.Development{}},
		&named{&httpapi.Development{}}} {
		d := open(t, identity)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://evil.example"+deploy, nil)
		w := httptest.NewRecorder()
		if d.handler.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("%T: %d, want 403", identity, w.Code)
		}
	}
	d := open(t, named{verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}}})
	d.header.Set("X-Forwarded-For", "192.0.2.1")
	if a := d.get("/v1/tenants/acme/locks"); a.status != 200 {
		t.Errorf("behind a proxy, with a token: %d %s", a.status, a.raw)
	}
}

// TestNoSniffing: names that callers choose are in responses, and no browser may take one for a page.
func TestNoSniffing(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, a := range []answer{d.get("/healthz"), d.get(deploy), d.get("/v1/tenants/%3Cscript%3E/locks"),
		d.get("/openapi.yaml"), d.get("/none")} {
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Type") == "" {
			t.Errorf("%d with the header %v", a.status, a.header)
		}
	}
}

// broken is a store that answers every call with an error.
type broken struct {
	docstore.Store
	err error
}

func (b broken) Get(context.Context, ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, b.err
}

func (b broken) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, b.err
}

func (b broken) List(context.Context, docstore.Query) (docstore.Page, error) {
	return docstore.Page{}, b.err
}

func TestStoreFaults(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: disk on fire", docstore.ErrUnavailable), 503, "UNAVAILABLE"},
		{docstore.ErrClosed, 503, "UNAVAILABLE"},
		{fmt.Errorf("%w: by 5 s: disk on fire", docstore.ErrClockSkew), 503, "CLOCK_SKEW"},
		{context.Canceled, 503, "UNAVAILABLE"},
		{context.DeadlineExceeded, 504, "DEADLINE_EXCEEDED"},
		{fmt.Errorf("%w: locks/acme/k: disk on fire", docstore.ErrDamaged), 500, "DOCUMENT_DAMAGED"},
		{fmt.Errorf("%w: disk on fire", docstore.ErrUnsupported), 500, "INTERNAL"},
		{errors.New("disk on fire"), 500, "INTERNAL"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			d := open(t, httpapi.Development{})
			d.serve(httpapi.Development{}, broken{d.store, c.err})
			for _, a := range []answer{
				d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`),
				d.get(deploy), d.get("/v1/tenants/acme/locks"),
				d.post("/v1/tenants/acme/fences/r/check", `{"fencing_token":1,"subject":"lock/db"}`),
			} {
				a.refuses(t, c.status, c.code, "")
				if strings.Contains(a.raw, "fire") {
					t.Errorf("the cause is shown to the caller: %s", a.raw)
				}
			}
			if !strings.Contains(d.log.String(), c.err.Error()) {
				t.Errorf("the log does not tell the cause: %s", d.log)
			}
			if got := d.get("/healthz"); got.status != 200 {
				t.Errorf("healthz %d: the process is alive", got.status)
			}
		})
	}
}

// hanging is a store that never answers.
type hanging struct{ docstore.Store }

func (hanging) Write(ctx context.Context, _ ...docstore.Write) (docstore.Result, error) {
	<-ctx.Done()
	return docstore.Result{}, ctx.Err()
}

// panicking is a store with a bug.
type panicking struct{ docstore.Store }

func (panicking) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	panic("index out of range")
}

func TestHangingStoreIsATimeout(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = httpapi.New(hanging{d.store}, httpapi.Development{}, &httpapi.Options{Timeout: 1})
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`).refuses(t, 504,
		"DEADLINE_EXCEEDED", "")
}

// TestResponsesAfterLongWork: the server's time for a response does not end while work may still last. Here it is over
// before any response can be.
func TestResponsesAfterLongWork(t *testing.T) {
	d := open(t, httpapi.Development{})
	for name, c := range map[string]struct {
		timeout time.Duration
		wait    int
	}{"it may wait": {10 * time.Second, 1}, "any may take long": {time.Minute, 0}} {
		server := httpapi.Server(httpapi.New(d.store, httpapi.Development{}, &httpapi.Options{Timeout: c.timeout}),
			slog.New(slog.DiscardHandler), httpapi.MaxConnections)
		server.WriteTimeout = time.Nanosecond
		s := httptest.NewUnstartedServer(nil)
		s.Config = server
		s.Start()
		a, err := s.Client().Post(s.URL+deploy+"/acquire", "application/json", strings.NewReader(
			fmt.Sprintf(`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"wait_seconds":%d}`, c.wait)))
		if err != nil || a.StatusCode != http.StatusOK {
			t.Errorf("%s: %+v, %v", name, a, err)
		} else if err := a.Body.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

func TestPanicsAreContained(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.serve(httpapi.Development{}, panicking{d.store})
	a := d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`)
	a.refuses(t, 500, "INTERNAL", "")
	if strings.Contains(a.raw, "index") {
		t.Errorf("the panic is shown to the caller: %s", a.raw)
	}
	if log := d.log.String(); !strings.Contains(log, "index out of range") || !strings.Contains(log, "refuse_test.go") {
		t.Errorf("the log lacks the panic or its stack: %s", log)
	}
	d.log.Reset()
	d.get("/readyz").refuses(t, 503, "UNAVAILABLE", "") // by a goroutine of its own, which would end the process
	if log := d.log.String(); !strings.Contains(log, "index out of range") || !strings.Contains(log, "refuse_test.go") {
		t.Errorf("the log lacks the panic or its stack: %s", log)
	}
}

func TestLogsKeepSecrets(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}})
	d.header.Set("Authorization", "Bearer secret-credential")
	d.header.Set("X-Request-Id", "trace-1")
	d.post(deploy+"/acquire", `{"request_id":"plain-request","ttl_seconds":30,"metadata":{"k":"secret-label"}}`)
	a := d.post(deploy+"/renew", `{"request_id":"secret-request","fencing_token":777777,"ttl_seconds":30}`)
	d.get("/v1/tenants/acme/locks?prefix=secret-prefix")
	if got := a.header.Get("X-Request-Id"); got != "trace-1" {
		t.Errorf("X-Request-Id %q", got)
	}
	if a.body["instance"] != "urn:request:trace-1" {
		t.Errorf("instance %v", a.body["instance"])
	}
	log := d.log.String()
	for _, secret := range []string{"secret", "777777"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q: %s", secret, log)
		}
	}
	for _, want := range []string{`"path":"` + deploy + `/renew"`, `"status":409`, `"outcome":"LEASE_LOST"`, `"took_ms":`,
		`"request":"trace-1"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}

func TestRequestIDsAreMadeUpWhenUnusable(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, id := range []string{"", "a b", "a\x00b", strings.Repeat("x", 129), "ä"} {
		d.header.Set("X-Request-Id", id)
		if got := d.get("/healthz").header.Get("X-Request-Id"); got == id || len(got) < 20 {
			t.Errorf("for %q: %q", id, got)
		}
	}
}

// TestNullNamesWhatIsWanted: null is rejected with the member, what it is and what belongs there.
func TestNullNamesWhatIsWanted(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, c := range []struct{ target, body, field, detail string }{
		{deploy + "/acquire", `{"metadata":null}`, "metadata", "metadata must be an object whose values are text, not null"},
		{deploy + "/acquire", `{"metadata":{"a":null}}`, "metadata.a", "metadata.a must be text, not null"},
		{deploy + "/acquire", `{"request_id":null}`, "request_id", "request_id must be text, not null"},
		{deploy + "/acquire", `{"ttl_seconds":null}`, "ttl_seconds", "ttl_seconds must be a whole number, not null"},
		{"/v1/machine-ids/lease", `{"meta":null}`, "meta", "meta must be an object whose values are text, not null"},
		{"/v1/machine-ids/lease", `{"throughputPerMs":null}`, "throughputPerMs",
			"throughputPerMs must be a whole number, not null"},
		{"/v1/analyses/a1/finish", `{"status":null}`, "status", "status must be text, not null"},
	} {
		a := d.post(c.target, c.body)
		a.refuses(t, 400, "INVALID_ARGUMENT", c.field)
		if a.body["detail"] != c.detail {
			t.Errorf("%s: %v, want %s", c.body, a.body["detail"], c.detail)
		}
	}
}

func TestOperations(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.get("/healthz").wants(t, 200, `{"status":"ok"}`)
	d.get("/readyz").wants(t, 200, `{"status":"ok"}`)
	var document struct {
		OpenAPI string `json:"openapi"`
	}
	if a := d.get("/openapi.json"); a.status != 200 || json.Unmarshal([]byte(a.raw), &document) != nil ||
		document.OpenAPI != "3.1.0" {
		t.Errorf("openapi.json: %d %.40s", a.status, a.raw)
	}
	if a := d.get("/openapi.yaml"); a.status != 200 || !strings.HasPrefix(a.raw, "openapi: 3.1.0\n") {
		t.Errorf("openapi.yaml: %d %.40s", a.status, a.raw)
	}
	if a := d.send("HEAD", "/healthz", ""); a.status != 200 {
		t.Errorf("HEAD /healthz: %d", a.status)
	}
}
