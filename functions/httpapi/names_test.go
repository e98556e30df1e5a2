package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// traced is a store that fails, and remembers what it was asked for first.
type traced struct {
	mu    sync.Mutex
	asked string
}

func (s *traced) ask(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == "" {
		s.asked = fmt.Sprintf(format, args...)
	}
	return docstore.ErrUnavailable
}

func (s *traced) Get(_ context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, s.ask("get %q", keys)
}

func (s *traced) Write(_ context.Context, writes ...docstore.Write) (docstore.Result, error) {
	var keys []docstore.Key
	for _, w := range writes {
		if w.Key.Kind == "placement_events" {
			w.Key.ID = "" // the time
		}
		keys = append(keys, w.Key)
	}
	return docstore.Result{}, s.ask("write %q", keys)
}

func (s *traced) List(_ context.Context, q docstore.Query) (docstore.Page, error) {
	return docstore.Page{}, s.ask("list %+v", q)
}

func (*traced) Close() error { return nil }

// of is the identity of all callers: of one tenant, with all rights.
type of struct{ tenant string }

func (o *of) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{Subject: "svc", Tenant: o.tenant, Rights: httpapi.Admin | httpapi.Worker | httpapi.MachineIDs}, nil
}
func (*of) Challenge() string { return "Bearer" }
func (*of) Unverified() bool  { return false }

// asked is a request as a client sends it.
type asked struct {
	method, path, body string // the path with escapes
	header             bool   // the path is in PathHeader too
}

// sender sends a request and returns the response.
type sender func(t testing.TB, q asked) (status int, body []byte)

// fronts are the ways to the API: each makes a handler one that an HTTP client reaches at the URL.
var fronts = func() map[string]func(t testing.TB, h http.Handler) (*http.Client, string) {
	serve := func(t testing.TB, h http.Handler) (*http.Client, string) {
		t.Helper()
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	}
	all := map[string]func(t testing.TB, h http.Handler) (*http.Client, string){
		"serve": serve,
		"Cloud Functions": func(t testing.TB, h http.Handler) (*http.Client, string) {
			t.Helper()
			mux := http.NewServeMux() // the framework has one in front of the function
			mux.Handle("/", h)
			return serve(t, mux)
		},
	}
	for _, f := range lambdatest.Fronts {
		all[f.String()] = func(_ testing.TB, h http.Handler) (*http.Client, string) {
			return &http.Client{Transport: f.Transport(aws.New(h, nil).Invoke)}, "https://api.example.com"
		}
	}
	return all
}()

// through sends requests through a front end.
func through(c *http.Client, base string) sender {
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(t testing.TB, q asked) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), q.method, base+q.path, strings.NewReader(q.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if q.header {
			r.Header.Set(httpapi.PathHeader, q.path)
		}
		w, err := own.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		b, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, b
	}
}

// spellings are the escapes of the clients in Go, TypeScript and Python.
var spellings = []func(string) string{
	url.PathEscape, escapeAllBut("-_.~!'()*"), escapeAllBut("-_.~"),
}

func escapeAllBut(kept string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			c := s[i]
			if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(kept, c) >= 0 {
				b.WriteByte(c)
				continue
			}
			fmt.Fprintf(&b, "%%%02X", c)
		}
		return b.String()
	}
}

// outcome is what came of a request: the response, what the store was asked for and the path in the log.
type outcome struct {
	status      int
	code, field string
	store, path string
}

// stage has one API for many requests.
type stage struct {
	handler http.Handler
	through map[string]sender
	caller  *of
	store   *traced
	log     *bytes.Buffer
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{caller: &of{}, store: &traced{}, log: &bytes.Buffer{}, through: map[string]sender{}}
	s.handler = httpapi.New(s.store, s.caller, &httpapi.Options{Log: slog.New(slog.NewJSONHandler(s.log, nil)),
		MaxIDsPerSubject: -1})
	s.through["nothing"] = func(t testing.TB, q asked) (int, []byte) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), q.method, q.path, strings.NewReader(q.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code, w.Body.Bytes()
	}
	for name, f := range fronts {
		s.through[name] = through(f(t, s.handler))
	}
	return s
}

// send is a request of a caller of a tenant through a front end, or through nothing: the handler gets what was sent.
func (s *stage) send(t testing.TB, through, tenant string, q asked) (o outcome) {
	t.Helper()
	s.caller.tenant, s.store.asked = tenant, ""
	s.log.Reset()
	var body []byte
	o.status, body = s.through[through](t, q)
	var problem struct{ Code, Field string }
	_ = json.Unmarshal(body, &problem) // of a response that is none
	var line struct{ Path string }
	_ = json.Unmarshal(s.log.Bytes(), &line)
	o.code, o.field, o.store = problem.Code, problem.Field, s.store.asked
	var names []string
	for name := range strings.SplitSeq(line.Path, "/") {
		plain, _ := url.PathUnescape(name)
		names = append(names, plain)
	}
	o.path = fmt.Sprintf("%q", names)
	return o
}

// untouched reports that a request was rejected, by the API or before it, because its path is not what was sent.
func (o outcome) untouched() bool {
	return o.store == "" && (o.code == "AMBIGUOUS_PATH" || o.code == "INVALID_ARGUMENT" ||
		o.code == "" && o.status/100 == 3)
}

// call is an operation of the contract on paths with names.
type call struct{ method, path, body string }

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// calls are the operations on names in paths.
func calls(t testing.TB) (all []call) {
	t.Helper()
	public, _, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(public.Paths.Map())) {
		ops := public.Paths.Map()[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(ops)) {
			var body []byte
			if b := ops[method].RequestBody; b != nil {
				body, err = json.Marshal(sample("", b.Value.Content.Get("application/json").Schema.Value, true))
				if err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(path, "{") && !strings.HasPrefix(path, "/v1/machine-ids/lease") {
				all = append(all, call{method, path, string(body)})
			}
		}
	}
	return all
}

// named is the call about a tenant and a name. Names that cannot have a "/" are "plain" then.
func (c call) named(tenant, name string, escape func(string) string) asked {
	path := placeholder.ReplaceAllStringFunc(c.path, func(p string) string {
		switch {
		case p == "{tenant_id}":
			return escape(tenant)
		case strings.Contains(name, "/") && !slices.Contains([]string{"{lock_key}", "{resource}", "{member}", "{id}"}, p):
			return "plain"
		}
		return escape(name)
	})
	return asked{method: c.method, path: path, body: c.body}
}

// namesOfAllKinds are names with everything that something on the way could read in another way.
var namesOfAllKinds = []string{
	"plain", "a/b", "/a", "a/", "a//b", "//", "//a//", "a/release", "a/acquire", "a/release/acquire", "x/claim", "locks",
	"locks/a", "a/locks/b", "lock-sets", "lock-sets/acquire", "members/m/join", "clusters/c/members/m", "acquire",
	"%", "%2F", "a%2Fb", "%25", "%252F", "100%", "%zz", "a b", " ", "a+b", "+", "%20", "%2B", ".", "..", "/", "...",
	".a", "a/..", "../a", "a/../b", "a/./b", "./a", "é", "e\u0301", "日本語", "😀", "\u00a0", "a?b", "?", "a/release?x",
	"a#b", "a;b", "a:b@c",
	"a&b=c", `a"b\c`, "~", "!'()*", "arn:aws:sts::1:assumed-role/R#n", "svc#n", "a\nb", strings.Repeat("a/b", 85),
	strings.Repeat("é", 128), strings.Repeat("/", 256), strings.Repeat("x", 300),
}

var tenantsOfAllKinds = []string{"acme", "group/sub", "a/locks/b", "locks", "é/ü", "100%", "a b+c", "//", "a?b"}

// mangled reports that a name is behind a "?" in a path without escapes. Only PathHeader shows that it was cut off.
func (q asked) mangled(through string) bool {
	return through == "http-api" && !q.header && strings.Contains(strings.ToUpper(q.path), "%3F")
}

// TestNamesThroughFrontEnds: whatever a tenant and a lock, a fence, a run, an analysis, a member or an identity is
// called, each operation on it is the same through all front ends. An HTTP API loses which "/" is in a name: there it
// is the same or rejected, and it is the same if the client says what it sent.
func TestNamesThroughFrontEnds(t *testing.T) {
	all := calls(t)
	for through := range fronts {
		t.Run(through, func(t *testing.T) {
			t.Parallel()
			s, n := newStage(t), 0
			same := map[bool]int{}
			for _, tenant := range tenantsOfAllKinds {
				for _, name := range namesOfAllKinds {
					for _, c := range all {
						// Not everything with everything: that would take a minute.
						if n++; n%3 != 0 || n%11 != 0 && tenant != "group/sub" ||
							n%5 != 0 && (through == "serve" || through == "Cloud Functions") {
							continue
						}
						for _, header := range []bool{false, true} {
							q := c.named(tenant, name, spellings[(len(name)+len(tenant))%3])
							q.header = header
							if q.mangled(through) {
								continue
							}
							want, got := s.send(t, "nothing", tenant, q), s.send(t, through, tenant, q)
							cut := through == "http-api" && strings.Contains(name+tenant, "?")
							switch allowed := want.code != "INVALID_ARGUMENT"; {
							case got == want:
								same[header]++
							case !got.untouched(), allowed && (through != "http-api" || header && !cut):
								t.Errorf("%s %s, header %v:\ngot  %+v\nwant %+v", q.method, q.path, header, got, want)
							}
						}
					}
				}
			}
			if same[false] == 0 || same[true] < same[false] {
				t.Errorf("as without the front end: %v", same)
			}
		})
	}
}

// TestNamesThroughAnHTTPAPI: what works there although the client says nothing beside the path.
func TestNamesThroughAnHTTPAPI(t *testing.T) {
	s, all := newStage(t), calls(t)
	for _, tenant := range []string{"acme", "group/sub", "a/b/c", "é/ü"} {
		for _, name := range []string{
			"plain", "a/b", "/a", "a/", "a//b", "a/release", "a/release/acquire", "x/claim", "%", "%2F", "a%2Fb", "%252F", "a b",
			"a+b",
			"a/..", "../a", "a/./b", "日本語", "a#b", "a:b@c", "arn:aws:sts::1:assumed-role/R#n", "acquire",
		} {
			for _, c := range all {
				q := c.named(tenant, name, url.PathEscape)
				if want, got := s.send(t, "nothing", tenant, q), s.send(t, "http-api", tenant, q); got != want {
					t.Errorf("%s %s:\ngot  %+v\nwant %+v", q.method, q.path, got, want)
				}
			}
		}
	}
	lock := call{"POST", "/v1/tenants/{tenant_id}/locks/{lock_key}/acquire", `{"request_id":"r","ttl_seconds":30}`}
	get := call{"GET", "/v1/tenants/{tenant_id}/locks/{lock_key}", ""}
	for _, c := range []struct {
		of, caller, tenant, name string
		do                       call
		code                     string
	}{
		{"a key that may be part of the tenant", "acme", "acme", "x/locks/k", lock, "AMBIGUOUS_PATH"},
		{"another tenant, which reads as a key", "acme", "acme/locks/x", "k", lock, "AMBIGUOUS_PATH"},
		{"another tenant", "acme", "rival", "k", lock, "PERMISSION_DENIED"},
		{"another tenant with a slash", "acme", "acme/sub", "k", lock, "PERMISSION_DENIED"},
		{"another tenant, which reads as the name of a list", "acme", "acme/locks", "locks/k", get, "AMBIGUOUS_PATH"},
		{"a lock that reads as the list of another tenant", "acme", "acme", "locks", get, "UNAVAILABLE"},
		{"a caller without a tenant", "", "acme", "x/locks/k", lock, "AMBIGUOUS_PATH"},
		{"a caller without a tenant, one way to read", "", "a/b", "c/d", lock, "UNAVAILABLE"},
		{"no route", "acme", "acme", "k", call{"GET", "/v1/tenants/{tenant_id}/nothing/{lock_key}", ""}, "AMBIGUOUS_PATH"},
		{"no route of the API", "acme", "acme", "k", call{"GET", "/v2/{tenant_id}", ""}, "NOT_FOUND"},
	} {
		if got := s.send(t, "http-api", c.caller, c.do.named(c.tenant, c.name, url.PathEscape)); got.code != c.code {
			t.Errorf("%s: %+v, want %s", c.of, got, c.code)
		}
	}
}

// TestPathHeader: what the client says it sent settles what was lost on the way, and is never another path.
func TestPathHeader(t *testing.T) {
	const tenant = "/v1/tenants/acme/"
	for _, c := range []struct {
		of, arrived string
		sent        []string
		want        string // the path in the log; empty: rejected
	}{
		{"the same", tenant + "locks/a%2Fb", []string{tenant + "locks/a%2Fb"}, tenant + "locks/a%2Fb"},
		{"another spelling", tenant + "locks/a:%41", []string{tenant + "locks/a%3AA"}, tenant + "locks/a%3AA"},
		{"a proxy resolved it", tenant + "locks/a/b", []string{tenant + "locks/a%2Fb"}, tenant + "locks/a%2Fb"},
		{"a proxy resolved twice", tenant + "locks/a%2Fb", []string{tenant + "locks/a%252Fb"}, ""},
		{"another key", tenant + "locks/a", []string{tenant + "locks/b"}, ""},
		{"cut off", tenant + "locks/a", []string{tenant + "locks/a%3Fb"}, ""},
		{"slashes made one", tenant + "locks/a%2Fb", []string{tenant + "locks/a%2F%2Fb"}, ""},
		{"dots resolved", "/v1/tenants/locks/k", []string{"/v1/tenants/acme/../locks/k"}, ""},
		{"no escapes", tenant + "locks/a%20b%2Fc", []string{tenant + "locks/a b/c"}, ""},
		{"a space without an escape", tenant + "locks/a%20b", []string{tenant + "locks/a b"}, ""},
		{"a broken escape", tenant + "locks/a", []string{tenant + "locks/a%"}, ""},
		{"empty", tenant + "locks/a", []string{""}, ""},
		{"two", tenant + "locks/a", []string{tenant + "locks/a", tenant + "locks/a"}, ""},
		{"not of the API", "/healthz", []string{"/v1/caller"}, "/healthz"},
	} {
		d := open(t, httpapi.Development{})
		d.header[httpapi.PathHeader] = c.sent
		a := d.get(c.arrived)
		if refused := a.body["code"] == "AMBIGUOUS_PATH"; refused != (c.want == "") ||
			!refused && !strings.Contains(d.log.String(), `"path":"`+c.want+`"`) {
			t.Errorf("%s: %d %s\n%s", c.of, a.status, a.raw, d.log)
		}
	}
}

// TestNamesWithoutEscapes: a name with a "/" that arrives as two segments is not taken for what does not exist.
func TestNamesWithoutEscapes(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.get("/v1/tenants/acme/locks/a/b").refuses(t, 400, "AMBIGUOUS_PATH", "")
	d.get("/v1/tenants/acme/clusters/c/activations/room/a/b").refuses(t, 400, "AMBIGUOUS_PATH", "")
	d.get("/v1/tenants/group/sub/locks/a").refuses(t, 400, "AMBIGUOUS_PATH", "")
	d.post("/v1/tenants/acme/locks/a/b/acquire", "{}").refuses(t, 400, "AMBIGUOUS_PATH", "")
	d.post("/v1/tenants/acme/locks/a//acquire", "{}").refuses(t, 400, "AMBIGUOUS_PATH", "")
	d.get("/v1/tenants/acme/nothing/a/b").refuses(t, 404, "NOT_FOUND", "")
	d.get("/v1/tenants").refuses(t, 404, "NOT_FOUND", "")
}

// FuzzNames: through any front end, an operation on a tenant and a name is that or is rejected.
func FuzzNames(f *testing.F) {
	all := calls(f)
	names := slices.Sorted(maps.Keys(fronts))
	for i, name := range namesOfAllKinds {
		f.Add("acme", name, uint8(i), uint8(i), i%2 == 0)
		f.Add("group/sub", name, uint8(7*i), uint8(2), false)
		f.Add(name, "a/b", uint8(5*i), uint8(2), false)
	}
	s := newStage(f)
	f.Fuzz(func(t *testing.T, tenant, name string, do, through uint8, header bool) {
		if tenant == "" || name == "" || !utf8.ValidString(tenant) || !utf8.ValidString(name) {
			return
		}
		by := names[int(through)%len(names)]
		q := all[int(do)%len(all)].named(tenant, name, spellings[int(do)%3])
		q.header = header
		if q.mangled(by) || header && len(q.path) > 4096 {
			return
		}
		want, got := s.send(t, "nothing", tenant, q), s.send(t, by, tenant, q)
		if got != want && !got.untouched() {
			t.Errorf("%s, %s %s:\ngot  %+v\nwant %+v", by, q.method, q.path, got, want)
		}
	})
}
