package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// callers is an identity whose caller the test changes.
type callers struct {
	caller httpapi.Caller
	err    error
}

func (c *callers) Identify(*http.Request) (httpapi.Caller, error) { return c.caller, c.err }
func (*callers) Challenge() string                                { return "Bearer" }
func (*callers) Unverified() bool                                 { return false }

// remembering is an api that remembers so many outcomes of each kind.
func remembering(t *testing.T, who httpapi.Identity, size int) *api {
	t.Helper()
	d := open(t, who)
	d.handler = contracttest.Handler(t, httpapi.New(d.store, who, &httpapi.Options{Outcomes: size, Now: d.clock.Now}))
	return d
}

// outcomes are those that a query finds.
func (d *api) outcomes(query string) contracts.OutcomePage {
	d.t.Helper()
	var p contracts.OutcomePage
	a := d.get("/v1/outcomes" + query)
	if err := json.Unmarshal([]byte(a.raw), &p); err != nil || a.status != http.StatusOK {
		d.t.Fatalf("%s: %d %s, %v", query, a.status, a.raw, err)
	}
	return p
}

// brief is what a test compares of outcomes: number, status and code.
func brief(p contracts.OutcomePage) string {
	all := make([]string, len(p.Outcomes))
	for i, o := range p.Outcomes {
		code := "ok"
		if o.Problem != nil {
			code = string(o.Problem.Code)
		}
		all[i] = fmt.Sprint(o.Number, " ", o.Status, " ", code)
	}
	return strings.Join(all, ", ")
}

func (d *api) named(id, method, target, body string) answer {
	d.t.Helper()
	d.header.Set("X-Request-Id", id)
	defer d.header.Del("X-Request-Id")
	return d.send(method, target, body)
}

func TestOutcomes(t *testing.T) {
	d := remembering(t, httpapi.Development{}, 3)
	if a := d.named("q1", "POST", deploy+"/acquire",
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	d.named("q2", "POST", deploy+"/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":30}`).refuses(t,
		409, "LOCK_HELD", "")
	d.named("q3", "GET", "/v1/tenants/acme/locks/none", "").refuses(t, 404, "NOT_FOUND", "")
	d.named("q4", "GET", "/nowhere", "").refuses(t, 404, "NOT_FOUND", "") // no endpoint: not remembered
	d.named("q5", "POST", deploy+"/force-release", `{"request_id":"f1","owner_id":"root","reason":"stuck"}`)

	p := d.outcomes("")
	if got, want := brief(p), "4 200 ok, 3 404 NOT_FOUND, 2 409 LOCK_HELD, 1 200 ok"; got != want ||
		p.Since != "2026-01-01T00:00:00.000Z" || p.Forgotten != 0 {
		t.Errorf("%s, since %s, %d forgotten; want %s", got, p.Since, p.Forgotten, want)
	}
	held := p.Outcomes[2]
	if held.RequestID != "q2" || held.Path != deploy+"/acquire" || held.TenantID != "acme" ||
		held.Action != "lock.acquire" || held.OwnerID != "bob" ||
		held.Problem.OwnerID != "ann" || held.Problem.Instance != "urn:request:q2" {
		t.Errorf("the rejection: %+v", held)
	}
	if forced := p.Outcomes[0]; forced.Reason != "stuck" || forced.OwnerID != "ann" {
		t.Errorf("the force-release: %+v", forced)
	}
	for query, want := range map[string]string{
		"?request_id=q2": "2 409 LOCK_HELD", "?request_id=other": "", "?rejected=true": "3 404 NOT_FOUND, 2 409 LOCK_HELD",
		"?rejected=false": "4 200 ok, 1 200 ok", "?after=2": "4 200 ok, 3 404 NOT_FOUND",
		"?path=" + deploy + "/acquire":                             "2 409 LOCK_HELD, 1 200 ok",
		"?page_size=1&page_token=3":                                "2 409 LOCK_HELD",
		"?path=/v1/tenants/%2561cme/locks/deploy%252Dprod/acquire": "2 409 LOCK_HELD, 1 200 ok",
	} {
		if got := brief(d.outcomes(query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if first := d.outcomes("?page_size=3"); first.NextPageToken != "2" ||
		brief(d.outcomes("?page_size=3&page_token=2")) != "1 200 ok" {
		t.Errorf("pages: %+v", first)
	}
}

// TestOutcomesAreForgotten: rejections push out rejections only, and renewals nothing.
func TestOutcomesAreForgotten(t *testing.T) {
	d := remembering(t, httpapi.Development{}, 3)
	a := d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`)
	token := int64(a.body["fencing_token"].(float64))
	for i := range 5 {
		d.get(fmt.Sprint("/v1/tenants/acme/locks/none-", i)).refuses(t, 404, "NOT_FOUND", "")
		if a := d.post(deploy+"/renew", fmt.Sprintf(
			`{"request_id":"n%d","owner_id":"ann","fencing_token":%d,"ttl_seconds":30}`, i, token)); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	p := d.outcomes("")
	if got, want := brief(p), "6 404 NOT_FOUND, 5 404 NOT_FOUND, 4 404 NOT_FOUND, 1 200 ok"; got != want ||
		p.Forgotten != 2 {
		t.Errorf("%s, %d forgotten; want %s, 2", got, p.Forgotten, want)
	}
}

// TestOutcomesOfATenant: an administrator sees what callers of its tenant asked for, and nothing of other tenants,
// whatever they asked.
func TestOutcomesOfATenant(t *testing.T) {
	who := &callers{}
	d := remembering(t, who, 100)
	const rival = "/v1/tenants/acmf/locks/k"
	as := func(tenant, id, path string) {
		who.caller, who.err = httpapi.Caller{Subject: "s-" + tenant, Tenant: tenant, Rights: httpapi.MachineIDs}, nil
		if tenant == "" {
			who.err = httpapi.Unauthenticated("no token")
		}
		d.named(id, "POST", path, `{"request_id":"r1","ttl_seconds":30}`)
	}
	as("acme", "own", deploy+"/acquire")
	as("acmf", "theirs", rival+"/acquire")
	as("acme", "own-elsewhere", rival+"/acquire")
	as("acmf", "theirs-here", deploy+"/acquire")
	as("", "unknown-here", deploy+"/acquire")
	as("", "unknown-there", rival+"/acquire")
	as("", "unknown-nowhere", "/v1/machine-ids/lease")
	as("acmf", "theirs-of-no-tenant", "/v1/machine-ids/lease")

	who.caller, who.err = httpapi.Caller{Subject: "root", Tenant: "acme", Rights: httpapi.Admin}, nil
	var seen []string
	for _, o := range d.outcomes("").Outcomes {
		seen = append(seen, o.RequestID)
	}
	if got := fmt.Sprint(seen); got != "[own-elsewhere own]" {
		t.Errorf("seen: %s", got)
	}
	who.caller.Rights = httpapi.AllRights &^ (httpapi.Admin | httpapi.Operate)
	d.get("/v1/outcomes").refuses(t, 403, "PERMISSION_DENIED", "")
	who.caller, who.err = httpapi.Caller{}, httpapi.Unauthenticated("no token")
	d.get("/v1/outcomes").refuses(t, 401, "UNAUTHENTICATED", "")
}

// TestOutcomesOfEachTenant: nothing that others do, identified or not, takes an outcome of a tenant away, or shows in
// its numbers. Callers that could not be identified have a small memory of their own, for those who see all tenants.
func TestOutcomesOfEachTenant(t *testing.T) {
	who := &callers{}
	d := remembering(t, who, 128)
	as := func(tenant string, admin bool) {
		who.caller, who.err = httpapi.Caller{Subject: "s", Tenant: tenant}, nil
		if admin {
			who.caller.Rights = httpapi.Admin
		}
	}
	ask := func(tenant, id string) {
		t.Helper()
		d.named(id, "POST", "/v1/tenants/"+tenant+"/locks/k/acquire", `{}`)
	}
	as("quiet", false)
	ask("quiet", "first")
	as("busy", false)
	for i := range 200 {
		ask("busy", fmt.Sprint("b", i))
	}
	who.err = httpapi.Unauthenticated("no token")
	for i := range 200 {
		ask("quiet", fmt.Sprint("u", i))
	}
	as("quiet", false)
	ask("quiet", "second")
	as("quiet", true)
	if p := d.outcomes(""); brief(p) != "2 400 INVALID_ARGUMENT, 1 400 INVALID_ARGUMENT" || p.Forgotten != 0 {
		t.Errorf("the quiet tenant: %s, %d forgotten", brief(p), p.Forgotten)
	}
	as("busy", true)
	if p := d.outcomes("?page_size=1"); p.Outcomes[0].Number != 200 || p.Forgotten != 72 {
		t.Errorf("the busy tenant: %s, %d forgotten", brief(p), p.Forgotten)
	}
	as("new", true)
	if p := d.outcomes(""); len(p.Outcomes) != 0 || p.Forgotten != 0 {
		t.Errorf("a tenant that did nothing: %s, %d forgotten", brief(p), p.Forgotten)
	}
	as("", true)
	p := d.outcomes("?page_size=1000&path=/v1/tenants/quiet/")
	ids := make([]string, len(p.Outcomes))
	for i, o := range p.Outcomes {
		ids[i] = o.RequestID
	}
	if len(ids) != 2+64 || ids[0] != "second" || ids[1] != "u199" || ids[64] != "u136" || ids[65] != "first" {
		t.Errorf("all: %q", ids)
	}
	if p.Outcomes[0].Number != 402 || p.Forgotten != 402-2-128-64 {
		t.Errorf("all: number %d, %d forgotten", p.Outcomes[0].Number, p.Forgotten)
	}
	if next := d.outcomes("?page_size=1&page_token=402"); next.Outcomes[0].RequestID != "u199" ||
		next.NextPageToken != "401" {
		t.Errorf("all, the second page: %+v", next)
	}
}

// TestOutcomesOfManyTenants: all together have a bound. Those with the most lose theirs first, and of more tenants than
// are remembered the one that was idle for the longest time. If that comes again, its numbers are higher than before.
func TestOutcomesOfManyTenants(t *testing.T) {
	who := &callers{}
	d := remembering(t, who, 10)
	ask := func(tenant string, times int) {
		d.clock.Advance(time.Millisecond)
		for range times {
			who.caller = httpapi.Caller{Subject: "s", Tenant: tenant}
			d.post("/v1/tenants/"+tenant+"/locks/k/acquire", `{}`).refuses(t, 400, "INVALID_ARGUMENT", "ttl_seconds")
		}
	}
	seen := func(tenant string) contracts.OutcomePage {
		who.caller = httpapi.Caller{Subject: "s", Tenant: tenant, Rights: httpapi.Admin}
		return d.outcomes("")
	}
	ask("small", 3)
	for i := range 12 {
		ask(fmt.Sprint("large", i), 10)
	}
	if p := seen("small"); brief(p) != "3 400 INVALID_ARGUMENT, 2 400 INVALID_ARGUMENT, 1 400 INVALID_ARGUMENT" {
		t.Errorf("the small tenant: %s", brief(p))
	}
	all, least := 3, 10
	for i := range 12 {
		p := seen(fmt.Sprint("large", i))
		if len(p.Outcomes) > 0 && p.Outcomes[0].Number != 10 || p.Forgotten != int64(10-len(p.Outcomes)) {
			t.Errorf("large%d: %s, %d forgotten", i, brief(p), p.Forgotten)
		}
		all, least = all+len(p.Outcomes), min(least, len(p.Outcomes))
	}
	if all != 40 || least < 2 {
		t.Errorf("all tenants have %d, one has %d", all, least)
	}
	for i := range 256 {
		ask(fmt.Sprint("t", i), 1)
	}
	if p := seen("small"); len(p.Outcomes) != 0 {
		t.Errorf("it was idle for the longest time: %s", brief(p))
	}
	who.caller = httpapi.Caller{Rights: httpapi.Admin}
	if p := d.outcomes("?page_size=1000"); len(p.Outcomes) > 40 {
		t.Errorf("all tenants have %d", len(p.Outcomes))
	}
	ask("small", 1)
	if p := seen("small"); len(p.Outcomes) != 1 || p.Outcomes[0].Number <= 3 || p.Forgotten != 0 ||
		p.Since <= "2026-01-01T00:00:00.000Z" {
		t.Errorf("it comes again: %s, since %s, %d forgotten", brief(p), p.Since, p.Forgotten)
	}
}

// TestOutcomesAreBounded: what callers send is cut, and nothing secret is kept.
func TestOutcomesAreBounded(t *testing.T) {
	d := remembering(t, httpapi.Development{}, 10)
	long := strings.Repeat("é", 4000)
	d.post("/v1/tenants/"+strings.Repeat("a", 3000)+"/locks/k/acquire?secret=s3cret",
		`{"request_id":"r1","owner_id":"me","ttl_seconds":30}`)
	d.post(deploy+"/acquire", `{"`+long+`":1}`)
	d.post(deploy+"/acquire", `{"request_id":"r-s3cret","owner_id":"`+long+`","ttl_seconds":30,"metadata":{"a":"s3cret"}}`)
	d.post(machineIDs+"/lease", `{"meta":{"host":"s3cret"}}`)
	a := d.get("/v1/outcomes")
	if len(a.raw) > 12<<10 || strings.Contains(a.raw, "s3cret") || strings.Count(a.raw, `"number"`) != 4 {
		t.Errorf("%d bytes: %s", len(a.raw), a.raw)
	}
}

func TestBadOutcomeQueries(t *testing.T) {
	d := remembering(t, httpapi.Development{}, 10)
	for query, field := range map[string]string{
		"?rejected=yes": "rejected", "?after=-1": "after", "?after=x": "after", "?page_size=0": "page_size",
		"?page_size=1001": "page_size",
		"?page_token=x":   "page_token", "?page_token=": "page_token", "?request_id=" +
			strings.Repeat("r", 129): "request_id",
		"?path=%00": "path", "?tenant=acme": "tenant",
	} {
		d.get("/v1/outcomes"+query).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
	without := open(t, httpapi.Development{})
	without.get("/v1/outcomes").refuses(t, 501, "NOT_CONFIGURED", "")
}

func TestCaller(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{}, &httpapi.Options{Now: d.clock.Now}))
	d.get("/v1/caller").wants(t, 200,
		`{"administrator":true,"operator":true,"worker":true,"machine_ids":true,"development":true,"at":"2026-01-01T00:00:00.000Z"}`)
	who := &callers{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Worker}}
	d.handler = contracttest.Handler(t, httpapi.New(d.store, who, &httpapi.Options{Now: d.clock.Now}))
	d.get("/v1/caller").wants(t, 200,
		`{"subject":"ann","tenant_id":"acme","administrator":false,"operator":false,"worker":true,"machine_ids":false,"development":false,
		"at":"2026-01-01T00:00:00.000Z"}`)
	who.err = httpapi.Unauthenticated("no token")
	d.get("/v1/caller").refuses(t, 401, "UNAUTHENTICATED", "")
}

func TestReadFence(t *testing.T) {
	d := open(t, httpapi.Development{})
	const fence = "/v1/tenants/acme/fences/orders-db"
	d.get(fence).refuses(t, 404, "NOT_FOUND", "")
	if a := d.post(fence+"/check", `{"fencing_token":1767225600000000,"subject":"lock/db"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	d.get(fence).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","highest_token":1767225600000000,"subject":"lock/db"}`)
	d.get("/v1/tenants/acme/fences/"+strings.Repeat("r", 257)).refuses(t, 400, "INVALID_ARGUMENT", "resource")
	d.get("/v1/tenants/acmf/fences/orders-db").refuses(t, 404, "NOT_FOUND", "")
}

func TestClusters(t *testing.T) {
	d := open(t, httpapi.Development{})
	const join = `{"request_id":"r1","kinds":["room"],"partitions":16}`
	for _, name := range []string{"acme/clusters/b", "acme/clusters/a", "acme/clusters/c", "acme%2Fa/clusters/secret",
		"acme%2Fz/clusters/secret", "acmf/clusters/secret"} {
		if a := d.post("/v1/tenants/"+name+"/members/m/join", join); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.raw)
		}
	}
	const clusters = "/v1/tenants/acme/clusters"
	d.get(clusters).wants(t, 200, `{"clusters":[{"cluster":"a"},{"cluster":"b"},{"cluster":"c"}]}`)
	d.get(clusters+"?page_size=1").wants(t, 200, `{"clusters":[{"cluster":"a"}],"next_page_token":"a"}`)
	d.get(clusters+"?page_size=2&page_token=a").wants(t, 200,
		`{"clusters":[{"cluster":"b"},{"cluster":"c"}],"next_page_token":"c"}`)
	// behind it is another tenant's only, which the page before could not know
	d.get(clusters+"?page_token=c").wants(t, 200, `{"clusters":[]}`)
	d.get("/v1/tenants/other/clusters").wants(t, 200, `{"clusters":[]}`)
	d.get(clusters+"?page_token=a%2Fb").refuses(t, 400, "INVALID_ARGUMENT", "page_token")
	d.get(clusters+"?page_size=0").refuses(t, 400, "INVALID_ARGUMENT", "page_size")
	d.get("/v1/tenants/"+strings.Repeat("t", 129)+"/clusters").refuses(t, 400, "INVALID_ARGUMENT", "tenant_id")
}

func TestMachineIDMap(t *testing.T) {
	d := open(t, httpapi.Development{})
	const space = machineIDs + "/spaces/default"
	d.lease(`{"throughputPerMs":512}`)
	a := d.get(space)
	var m contracts.MachineIDMap
	if err := json.Unmarshal([]byte(a.raw), &m); err != nil || len(m.Pages) != 64 {
		t.Fatalf("%d %.200s %v", a.status, a.raw, err)
	}
	all := strings.Join(m.Pages, "")
	if len(all) != 8192 || strings.Count(all, "9") != 2 || strings.Count(all, "0") != 8190 || m.Leased != 2 ||
		m.LongestLease != 600_000 || m.At != 1767225600000 ||
		m.BitID != 14 || m.BitTS != 41 || m.CustomEpoch != 1767225600000 {
		t.Errorf("%+v", m)
	}
	d.clock.Advance(599_999 * 1_000_000) // a millisecond is left
	if a := d.get(space); strings.Count(a.raw, "1") < 2 || strings.Contains(strings.Join(pages(t, a), ""), "9") {
		t.Errorf("%.300s", a.raw)
	}
	d.get(machineIDs+"/spaces/other").refuses(t, 404, "NOT_FOUND", "")
	d.get(machineIDs+"/spaces/").refuses(t, 400, "INVALID_ARGUMENT", "space")
	d.get(machineIDs+"/spaces/"+strings.Repeat("s", 129)).refuses(t, 400, "INVALID_ARGUMENT", "space")
}

func pages(t *testing.T, a answer) []string {
	t.Helper()
	var m contracts.MachineIDMap
	if err := json.Unmarshal([]byte(a.raw), &m); err != nil {
		t.Fatal(err)
	}
	return m.Pages
}

// TestPathsThatEndInASlash: those of routes are served, and no others.
func TestPathsThatEndInASlash(t *testing.T) {
	page := httpapi.Route{Method: "GET", Path: "/console/{$}", Do: func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write([]byte("page"))
		return err
	}}
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{Routes: []httpapi.Route{page}})
	for path, want := range map[string]int{
		"/console/": 200, "/console//": 404, "//console/": 404, "/console/x": 404, "/console/../console/": 404,
		"/console%2F": 404,
		"/healthz/":   404, "/healthz": 200, "/%63onsole/": 404, "/v1/analyses/": 400,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
