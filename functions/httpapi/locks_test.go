package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// withoutLeaseID takes lease_id, which is random, out of an answer after checking that it is there.
func withoutLeaseID(t *testing.T, a answer) answer {
	t.Helper()
	if id, _ := a.body["lease_id"].(string); len(id) < 26 {
		t.Errorf("lease_id %q", id)
	}
	delete(a.body, "lease_id")
	return a
}

// TestLifeOfALease walks through the commands. LS-API: contracttest holds each exchange of this package's tests against
// the contract.
func TestLifeOfALease(t *testing.T) {
	d := open(t, httpapi.Development{})

	a := d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ci-42","ttl_seconds":30,"metadata":{"build":"991"}}`)
	lease := a.body["lease_id"]
	withoutLeaseID(t, a).wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1767225600000001,
		"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":false}`)

	d.clock.Advance(10 * time.Second)
	// LS-ACQ-004
	a = d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ci-42","ttl_seconds":30,"metadata":{"build":"991"}}`)
	if a.body["lease_id"] != lease {
		t.Errorf("lease_id %v, then %v", lease, a.body["lease_id"])
	}
	withoutLeaseID(t, a).wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1767225600000001,
		"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":20000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":true}`)

	a = d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"ci-43","ttl_seconds":30}`) // LS-ACQ-001
	delete(a.body, "instance")
	a.wants(t, 409,
		`{"type":"https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md#lock_held","title":"lock is held",
		"status":409,"code":"LOCK_HELD","retryable":true,"owner_id":"ci-42","expires_at":"2026-01-01T00:00:30.000Z","retry_after_ms":20000}`)
	if got := a.header.Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %q, want 20", got)
	}

	// LS-RNW-002
	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ci-42","fencing_token":1767225600000001,"ttl_seconds":60}`)
	if a.status != 200 || a.body["expires_at"] != "2026-01-01T00:01:10.000Z" || a.body["replayed"] != false {
		t.Errorf("renew: %d %s", a.status, a.raw)
	}
	d.clock.Advance(time.Second)
	// LS-RNW-003
	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ci-42","fencing_token":1767225600000001,"ttl_seconds":60}`)
	if a.status != 200 || a.body["expires_at"] != "2026-01-01T00:01:10.000Z" || a.body["replayed"] != true {
		t.Errorf("renew again: %d %s", a.status, a.raw)
	}

	withoutLeaseID(t, d.get(deploy)).wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","state":"ACTIVE",
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:10.000Z","ttl_seconds":60,"metadata":{"build":"991"}}`)

	// LS-REL-001, LS-REL-002
	a = d.post(deploy+"/release", `{"request_id":"e1","owner_id":"ci-42","fencing_token":1767225600000001}`)
	withoutLeaseID(t, a).wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1767225600000001,
		"state":"RELEASED","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:10.000Z",
		"released_at":"2026-01-01T00:00:11.000Z","ttl_seconds":60,"metadata":{"build":"991"},"replayed":false}`)

	a = d.post(deploy+"/acquire", `{"request_id":"r3","owner_id":"ci-42","ttl_seconds":5}`) // LS-ACQ-002, LS-ACQ-003
	if a.status != 200 || a.body["fencing_token"] != 1767225600000002.0 {
		t.Errorf("acquire after release: %d %s", a.status, a.raw)
	}
	a = d.post(deploy+"/release", `{"request_id":"e1","owner_id":"ci-42","fencing_token":1767225600000001}`) // LS-REL-003
	a.wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1767225600000001,"state":"RELEASED","replayed":true}`)
	if a = d.get(deploy); a.body["state"] != "ACTIVE" {
		t.Errorf("a repeated release touched a later lease of the same owner: %s", a.raw)
	}

	d.clock.Advance(5 * time.Second)
	first := d.get(deploy)
	if first.body["state"] != "EXPIRED" {
		t.Errorf("at expires_at the state is %v, want EXPIRED", first.body["state"])
	}
	d.clock.Advance(time.Hour)
	if a = d.get(deploy); a.raw != first.raw { // LS-EXP-001: nothing has to happen, and nothing does
		t.Errorf("an hour later %s, before %s", a.raw, first.raw)
	}
	a = d.post(deploy+"/acquire", `{"request_id":"r4","owner_id":"ci-43","ttl_seconds":5}`) // LS-ACQ-002, LS-ACQ-003
	if a.status != 200 || a.body["fencing_token"] != 1767225600000003.0 || a.body["owner_id"] != "ci-43" ||
		a.body["replayed"] != false {
		t.Errorf("acquire after expiry: %d %s", a.status, a.raw)
	}
}

// TestRefusals walks through every refusal of the lock rules.
func TestRefusals(t *testing.T) {
	d := open(t, httpapi.Development{})
	tokens := map[string]int64{}
	take := func(key, request string) {
		t.Helper()
		a := d.post("/v1/tenants/acme/locks/"+key+"/acquire", `{"request_id":"`+request+
			`","owner_id":"ann","ttl_seconds":10}`)
		if a.status != 200 {
			t.Fatalf("acquire %s: %d %s", key, a.status, a.raw)
		}
		token, _ := a.body["fencing_token"].(float64)
		tokens[key] = int64(token)
	}
	// send fills in the token of the lock's first lease for 1, the next for 2.
	send := func(target, body string) answer {
		key, _, _ := strings.Cut(target, "/")
		first := max(tokens[key], 1)
		if key == "followed" {
			first--
		}
		for n := range int64(2) {
			body = strings.Replace(body, fmt.Sprintf(`"fencing_token":%d`, n+1), fmt.Sprintf(`"fencing_token":%d`, first+n), 1)
		}
		return d.post("/v1/tenants/acme/locks/"+target, body)
	}
	take("held", "r1")
	take("released", "r1")
	send("released/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`)
	take("forced", "r1")
	send("forced/force-release", `{"request_id":"f1","owner_id":"root","reason":"it hangs"}`)
	take("followed", "r1")
	d.post("/v1/tenants/acme/locks/followed/release",
		fmt.Sprintf(`{"request_id":"e1","owner_id":"ann","fencing_token":%d}`, tokens["followed"]))
	take("followed", "r2")

	cases := []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"acquire held by another", "held/acquire", `{"request_id":"r9","owner_id":"bob","ttl_seconds":5}`, 409, "LOCK_HELD"},
		{"acquire held by oneself, new intention", "held/acquire", `{"request_id":"r9","owner_id":"ann","ttl_seconds":5}`,
			409, "LOCK_HELD"},
		{"acquire, request of another owner", "held/acquire", `{"request_id":"r1","owner_id":"bob","ttl_seconds":10}`,
			409, "LOCK_HELD"},
		{"acquire again with another ttl", "held/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":11}`, 422,
			"REQUEST_ID_REUSED"},
		{"acquire again with other metadata", "held/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":10,"metadata":{"a":"b"}}`, 422, "REQUEST_ID_REUSED"},
		{"LS-ACC-04: acquire again after release", "released/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":10}`, 422, "REQUEST_ID_REUSED"},
		{"LS-ACC-04: acquire again after a later lease", "followed/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":10}`, 422, "REQUEST_ID_REUSED"},
		{"LS-INV-004: renew after release, by another", "released/renew",
			`{"request_id":"n1","owner_id":"bob","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_RELEASED"},
		{"renew for another expires_at", "held/renew",
			`{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5,"expires_at":"2026-01-01T00:00:09.000Z"}`,
			409, "LEASE_CHANGED"},
		{"renew by another owner", "held/renew", `{"request_id":"n1","owner_id":"bob","fencing_token":1,"ttl_seconds":5}`,
			403, "NOT_OWNER"},
		{"renew with a token of the future", "held/renew",
			`{"request_id":"n1","owner_id":"ann","fencing_token":2,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"renew with an old token", "followed/renew",
			`{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"renew after release", "released/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`,
			409, "LEASE_RELEASED"},
		{"renew of a lock that was never held", "never/renew",
			`{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"release by another owner", "held/release", `{"request_id":"e1","owner_id":"bob","fencing_token":1}`,
			403, "NOT_OWNER"},
		{"release with an old token and a new request", "followed/release",
			`{"request_id":"e2","owner_id":"ann","fencing_token":1}`, 409, "LEASE_LOST"},
		{"release after release, new request", "released/release", `{"request_id":"e2","owner_id":"ann","fencing_token":1}`,
			409, "LEASE_RELEASED"},
		{"release after force-release", "forced/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`, 409,
			"LEASE_RELEASED"},
		{"force-release of a free lock", "released/force-release", `{"request_id":"f1","owner_id":"root","reason":"x"}`,
			409, "LOCK_NOT_HELD"},
		{"force-release of another lease", "held/force-release",
			`{"request_id":"f1","owner_id":"root","reason":"x","lease_id":"other"}`, 409, "LEASE_LOST"},
		{"force-release again with another reason", "forced/force-release",
			`{"request_id":"f1","owner_id":"root","reason":"lunch"}`, 422, "REQUEST_ID_REUSED"},
	}
	before := d.get("/v1/tenants/acme/locks").raw
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			send(c.target, c.body).refuses(t, c.status, c.code, "")
		})
	}
	if after := d.get("/v1/tenants/acme/locks").raw; after != before {
		t.Errorf("refusals changed something:\nbefore %s\nafter  %s", before, after)
	}

	d.clock.Advance(10 * time.Second) // LS-INV-004: at expires_at the lease is over, although no one took the lock since
	send("held/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`).refuses(t, 409,
		"LEASE_EXPIRED", "")
	send("held/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`).refuses(t, 409, "LEASE_EXPIRED", "")
	// every caller gets the same
	send("held/renew", `{"request_id":"n1","owner_id":"bob","fencing_token":1,"ttl_seconds":5}`).refuses(t, 409,
		"LEASE_EXPIRED", "")
	d.get("/v1/tenants/acme/locks/never").refuses(t, 404, "NOT_FOUND", "")
}

func TestForceReleaseTellsTheHolderWhy(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
	lease, _ := d.get(deploy).body["lease_id"].(string)
	a := d.post(deploy+"/force-release", `{"request_id":"f1","owner_id":"root","reason":"hangs since nine","lease_id":"`+
		lease+`"}`)
	withoutLeaseID(t, a).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ann","state":"RELEASED",
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","released_at":"2026-01-01T00:00:00.000Z",
		"ttl_seconds":60,"replayed":false,"force_release":{"by":"root","reason":"hangs since nine","at":"2026-01-01T00:00:00.000Z"}}`)

	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1767225600000001,"ttl_seconds":60}`)
	a.refuses(t, 409, "LEASE_RELEASED", "")
	if a.body["detail"] != "the lease was ended by root: hangs since nine" {
		t.Errorf("detail %q", a.body["detail"])
	}

	d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":60}`)
	again := `{"request_id":"f1","owner_id":"root","reason":"hangs since nine","lease_id":"` + lease + `"}`
	d.post(deploy+"/force-release", again).wants(t, 200,
		`{"tenant_id":"acme","lock_key":"deploy-prod","state":"RELEASED","replayed":true}`)
	if a := d.get(deploy); a.body["state"] != "ACTIVE" || a.body["force_release"] != nil {
		t.Errorf("a repeated force-release ended a later lease, or is shown as its end: %s", a.raw)
	}

	// One that names no lease, sent again after later leases and later force-releases.
	for _, n := range []string{"2", "3"} {
		d.post(deploy+"/force-release", `{"request_id":"f`+n+`","owner_id":"root","reason":"x"}`)
		d.post(deploy+"/acquire", `{"request_id":"c`+n+`","owner_id":"cy","ttl_seconds":60}`)
	}
	d.post(deploy+"/force-release", `{"request_id":"f2","owner_id":"root","reason":"x"}`).
		wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","state":"RELEASED","replayed":true}`)
	if a := d.get(deploy); a.body["state"] != "ACTIVE" || a.body["owner_id"] != "cy" {
		t.Errorf("a force-release of an earlier lease ended a later one: %s", a.raw)
	}
}

// TestRenewalsThatComeLate: LS-RNW-003 for a renewal that was delayed on its way: it never moves the expiry back.
func TestRenewalsThatComeLate(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
	const (
		short = `{"request_id":"n1","owner_id":"ann","fencing_token":1767225600000001,"ttl_seconds":2}`
		long  = `{"request_id":"n2","owner_id":"ann","fencing_token":1767225600000001,"ttl_seconds":3600}`
	)
	for i, body := range []string{short, long, short} {
		a := d.post(deploy+"/renew", body)
		want := []string{"2026-01-01T00:00:02.000Z", "2026-01-01T01:00:00.000Z", "2026-01-01T01:00:00.000Z"}[i]
		if a.status != 200 || a.body["expires_at"] != want || a.body["replayed"] != (i == 2) {
			t.Errorf("renewal %d: %d %s, want it to expire at %s", i, a.status, a.raw, want)
		}
	}
	named := func(request, end string) string {
		return `{"request_id":"` + request +
			`","owner_id":"ann","fencing_token":1767225600000001,"ttl_seconds":30,"expires_at":"` + end + `"}`
	}
	a := d.post(deploy+"/renew", named("n3", "2026-01-01T00:00:02.000Z"))
	a.refuses(t, 409, "LEASE_CHANGED", "")
	if a.body["expires_at"] != "2026-01-01T01:00:00.000Z" || a.body["retryable"] != true {
		t.Errorf("LEASE_CHANGED does not say when the lease expires: %s", a.raw)
	}
	if a = d.post(deploy+"/renew", named("n3", "2026-01-01T01:00:00.000Z")); a.status != 200 ||
		a.body["expires_at"] != "2026-01-01T00:00:30.000Z" {
		t.Errorf("with the right end: %d %s", a.status, a.raw)
	}
	for _, end := range []string{"2026-01-01T00:00:30Z", "2026-01-01T01:00:30.000+01:00", "soon", "1767225630000"} {
		d.post(deploy+"/renew", named("n4", end)).refuses(t, 400, "INVALID_ARGUMENT", "expires_at")
	}
}

func TestListPagesByPrefixAndState(t *testing.T) {
	d := open(t, httpapi.Development{})
	tokens := map[string]float64{}
	for _, key := range []string{"a/1", "a/2", "a/3", "b", "ü"} {
		a := d.post("/v1/tenants/acme/locks/"+url.PathEscape(key)+"/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
		tokens[key], _ = a.body["fencing_token"].(float64)
	}
	d.post("/v1/tenants/acme/locks/a%2F2/release", fmt.Sprintf(`{"request_id":"e1","owner_id":"ann","fencing_token":%.0f}`,
		tokens["a/2"]))
	d.post("/v1/tenants/other/locks/a%2F9/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)

	walk := func(query string) string {
		t.Helper()
		var keys []string
		for token := ""; ; {
			q := query
			if token != "" {
				q += "&page_token=" + url.QueryEscape(token)
			}
			a := d.get("/v1/tenants/acme/locks?" + q)
			if a.status != 200 {
				t.Fatalf("%s: %d %s", q, a.status, a.raw)
			}
			if strings.Contains(a.raw, "fencing_token") {
				t.Errorf("a list shows tokens: %s", a.raw)
			}
			for _, l := range a.body["locks"].([]any) {
				keys = append(keys, l.(map[string]any)["lock_key"].(string))
			}
			if token, _ = a.body["next_page_token"].(string); token == "" {
				return strings.Join(keys, " ")
			}
		}
	}
	for query, want := range map[string]string{
		"page_size=1":                         "a/1 a/2 a/3 b ü",
		"page_size=2":                         "a/1 a/2 a/3 b ü",
		"page_size=5":                         "a/1 a/2 a/3 b ü",
		"page_size=1000":                      "a/1 a/2 a/3 b ü",
		"prefix=a/":                           "a/1 a/2 a/3",
		"prefix=a/&state=ACTIVE&page_size=1":  "a/1 a/3",
		"state=RELEASED":                      "a/2",
		"state=EXPIRED":                       "",
		"prefix=" + url.QueryEscape("ü") + "": "ü",
		"prefix=%25":                          "",
		"owner_id=ann":                        "a/1 a/2 a/3 b ü",
		"owner_id=ann&state=RELEASED":         "a/2",
		"owner_id=an":                         "",
		"urgent=true":                         "",
		"urgent=false":                        "a/1 a/2 a/3 b ü",
	} {
		if got := walk(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	for query, field := range map[string]string{"urgent=1": "urgent", "urgent=true&urgent=true": "urgent",
		"owner_id=%00": "owner_id", "owner=ann": "owner"} {
		d.get("/v1/tenants/acme/locks?"+query).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
}

// TestCountsOfAPage: a page says how many locks of each kind were read for it, also of those that it leaves out.
func TestCountsOfAPage(t *testing.T) {
	d := open(t, httpapi.Development{})
	const locks = "/v1/tenants/acme/locks"
	for _, key := range []string{"ends", "fresh", "over"} {
		ttl := map[string]int{"ends": 60, "fresh": 300, "over": 10}[key]
		d.post(locks+"/"+key+"/acquire", fmt.Sprintf(`{"request_id":"r1","owner_id":"ann","ttl_seconds":%d}`, ttl)).ok(t)
	}
	d.clock.Advance(41 * time.Second)
	const counts = `"at":"2026-01-01T00:00:41.000Z","counts":{"documents":3,"active":2,"released":0,"expired":1,` +
		`"waited_for":0,"ending":1}}`
	a := d.get(locks + "?urgent=true")
	if a.body["counts"].(map[string]any)["active"] != 2.0 || strings.Count(a.raw, "lock_key") != 1 ||
		!strings.Contains(a.raw, `"lock_key":"ends"`) {
		t.Errorf("%s", a.raw)
	}
	d.get(locks+"?owner_id=bob").wants(t, 200, `{"locks":[],`+counts)
}

// TestFence: LS-FENCE-001 over HTTP.
func TestFence(t *testing.T) {
	d := open(t, httpapi.Development{})
	check := "/v1/tenants/acme/fences/orders-db/check"
	d.post(check, `{"fencing_token":7,"subject":"lock/db"}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":7,"subject":"lock/db"}`)
	d.post(check, `{"fencing_token":7,"subject":"lock/db"}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":7,"subject":"lock/db"}`)
	d.post(check, `{"fencing_token":9,"subject":"lock/db"}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":9,"subject":"lock/db"}`)
	a := d.post(check, `{"fencing_token":8,"subject":"lock/db"}`)
	a.refuses(t, 409, "STALE_TOKEN", "")
	if a.body["highest_token"] != 9.0 {
		t.Errorf("highest_token %v, want 9", a.body["highest_token"])
	}
	a = d.post(check, `{"fencing_token":10,"subject":"run/db"}`)
	a.refuses(t, 409, "OTHER_SUBJECT", "")
	if detail, _ := a.body["detail"].(string); !strings.Contains(detail, `"run/db"`) || !strings.Contains(detail, `"lock/db"`) {
		t.Errorf("%s", a.raw)
	}
	d.post(check, `{"fencing_token":10}`).refuses(t, 400, "INVALID_ARGUMENT", "subject")
	d.get("/v1/tenants/acme/fences/orders-db").wants(t, 200,
		`{"tenant_id":"acme","resource":"orders-db","highest_token":9,"subject":"lock/db"}`)
	d.post("/v1/tenants/other/fences/orders-db/check", `{"fencing_token":1,"subject":"lock/db"}`).wants(
		t, 200, `{"tenant_id":"other","resource":"orders-db","fencing_token":1,"subject":"lock/db"}`)
	d.post(check, `{"fencing_token":0,"subject":"lock/db"}`).refuses(t, 400, "INVALID_ARGUMENT", "fencing_token")
}

// TestFencePoisoned: a token that no lock has given is refused, and an administrator opens a fence that a wrong one has
// closed.
func TestFencePoisoned(t *testing.T) {
	d := open(t, httpapi.Development{})
	const fence = "/v1/tenants/acme/fences/orders-db"
	d.post(fence+"/check", `{"fencing_token":9007199254740992,"subject":"lock/db"}`).refuses(t, 400, "INVALID_ARGUMENT", "fencing_token")
	d.post(fence+"/check", `{"fencing_token":1767225600000001,"subject":"lock/db"}`).
		wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":1767225600000001,"subject":"lock/db"}`)
	d.post(fence+"/check", `{"fencing_token":1767229200000000,"subject":"lock/db"}`).
		wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":1767229200000000,"subject":"lock/db"}`) // an hour ahead
	d.post(fence+"/check", `{"fencing_token":1767225600000001,"subject":"lock/db"}`).refuses(t, 409, "STALE_TOKEN", "")

	const body = `{"owner_id":"root","reason":"a token of the test system","highest_token":1767229200000000}`
	a := d.post(fence+"/reset", strings.Replace(body, "9200000000", "9100000000", 1))
	a.refuses(t, 409, "STALE_TOKEN", "")
	if a.body["highest_token"] != 1767229200000000.0 {
		t.Errorf("highest_token %v", a.body["highest_token"])
	}
	d.post("/v1/tenants/acme/fences/another/reset", body).refuses(t, 404, "NOT_FOUND", "")
	d.post(fence+"/reset", strings.Replace(body, "a token of the test system", "", 1)).refuses(t, 400,
		"INVALID_ARGUMENT", "reason")
	d.post(fence+"/reset", `{"owner_id":"root","reason":"x"}`).refuses(t, 400, "INVALID_ARGUMENT", "highest_token")
	for _, replayed := range []string{"false", "true"} {
		d.post(fence+"/reset", body).
			wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","reset_token":1767229200000000,"replayed":`+replayed+`}`)
	}
	d.post(fence+"/check", `{"fencing_token":1767225600000001,"subject":"lock/db"}`).
		wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":1767225600000001,"subject":"lock/db"}`)
	d.post(fence+"/reset", body).refuses(t, 409, "STALE_TOKEN", "") // late

	// The fence of a resource that is gone is removed by its highest token, once.
	d.post(fence+"/remove", body).refuses(t, 409, "STALE_TOKEN", "")
	highest := d.get(fence).ok(t).number("highest_token")
	gone := `{"owner_id":"root","highest_token":` + highest + `,"reason":"the database was deleted"}`
	d.post(fence+"/remove", strings.Replace(gone, "the database was deleted", "", 1)).refuses(t, 400,
		"INVALID_ARGUMENT", "reason")
	for _, replayed := range []bool{false, true} {
		d.log.Reset()
		a := d.post(fence+"/remove", gone).ok(t)
		if a.body["replayed"] != replayed || a.number("removed_token") != highest {
			t.Errorf("%s", a.raw)
		}
		for _, part := range []string{`"action":"fence.remove"`, `"highest_token":` + highest,
			`"reason":"the database was deleted"`} {
			if !strings.Contains(d.log.String(), part) {
				t.Errorf("the log has no %s: %s", part, d.log.String())
			}
		}
	}
	d.get(fence).refuses(t, 404, "NOT_FOUND", "")
}

func TestKeysOfAnySpelling(t *testing.T) {
	d := open(t, httpapi.Development{})
	keys := []string{"a/b", "a%2Fb", "a b", "ロック", "\u00e9", "e\u0301", "a+b", "a?b#c", "~", "...", "a:b", `a"b\c`,
		strings.Repeat("k", 256), "%", "\U0010FFFF"}
	for i, key := range keys {
		a := d.post("/v1/tenants/acme/locks/"+url.PathEscape(key)+"/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
		if a.status != http.StatusOK || a.body["lock_key"] != key || a.body["replayed"] != false {
			t.Errorf("key %d %q: %d %s", i, key, a.status, a.raw)
		}
	}
}
