package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// lease takes lease_id, which is random, out of an answer after checking that it is there.
func withoutLeaseID(t *testing.T, a answer) answer {
	t.Helper()
	if id, _ := a.body["lease_id"].(string); len(id) < 26 {
		t.Errorf("lease_id %q", id)
	}
	delete(a.body, "lease_id")
	return a
}

// TestLifeOfALease walks through the commands. LS-API: contracttest holds each exchange of this package's tests against the contract.
func TestLifeOfALease(t *testing.T) {
	d := open(t, httpapi.Development{})

	a := d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ci-42","ttl_seconds":30,"metadata":{"build":"991"}}`)
	withoutLeaseID(t, a).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1,
		"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":false}`)

	d.clock.Advance(10 * time.Second)
	a = d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ci-42","ttl_seconds":30,"metadata":{"build":"991"}}`) // LS-ACQ-004
	withoutLeaseID(t, a).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1,
		"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":20000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":true}`)

	a = d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"ci-43","ttl_seconds":30}`) // LS-ACQ-001
	delete(a.body, "instance")
	a.wants(t, 409, `{"type":"https://github.com/leasehold-dev/leasehold/blob/main/docs/errors.md#lock_held","title":"lock is held",
		"status":409,"code":"LOCK_HELD","retryable":true,"owner_id":"ci-42","expires_at":"2026-01-01T00:00:30.000Z","retry_after_ms":20000}`)
	if got := a.header.Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %q, want 20", got)
	}

	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ci-42","fencing_token":1,"ttl_seconds":60}`) // LS-RNW-002
	if a.status != 200 || a.body["expires_at"] != "2026-01-01T00:01:10.000Z" || a.body["replayed"] != false {
		t.Errorf("renew: %d %s", a.status, a.raw)
	}
	d.clock.Advance(time.Second)
	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ci-42","fencing_token":1,"ttl_seconds":60}`) // LS-RNW-003
	if a.status != 200 || a.body["expires_at"] != "2026-01-01T00:01:10.000Z" || a.body["replayed"] != true {
		t.Errorf("renew again: %d %s", a.status, a.raw)
	}

	withoutLeaseID(t, d.get(deploy)).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","state":"ACTIVE",
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:10.000Z","ttl_seconds":60,"metadata":{"build":"991"}}`)

	a = d.post(deploy+"/release", `{"request_id":"e1","owner_id":"ci-42","fencing_token":1}`) // LS-REL-001, LS-REL-002
	withoutLeaseID(t, a).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1,
		"state":"RELEASED","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:10.000Z",
		"released_at":"2026-01-01T00:00:11.000Z","ttl_seconds":60,"metadata":{"build":"991"},"replayed":false}`)

	a = d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"ci-42","ttl_seconds":5}`) // LS-ACQ-002, LS-ACQ-003
	if a.status != 200 || a.body["fencing_token"] != 2.0 {
		t.Errorf("acquire after release: %d %s", a.status, a.raw)
	}
	a = d.post(deploy+"/release", `{"request_id":"e1","owner_id":"ci-42","fencing_token":1}`) // LS-REL-003
	a.wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ci-42","fencing_token":1,"state":"RELEASED","replayed":true}`)
	if a = d.get(deploy); a.body["state"] != "ACTIVE" {
		t.Errorf("a repeated release touched a later lease of the same owner: %s", a.raw)
	}

	d.clock.Advance(5 * time.Second)
	if a = d.get(deploy); a.body["state"] != "EXPIRED" {
		t.Errorf("at expires_at the state is %v, want EXPIRED", a.body["state"])
	}
}

// TestRefusals walks through every refusal of the lock rules.
func TestRefusals(t *testing.T) {
	d := open(t, httpapi.Development{})
	take := func(key, request string) {
		t.Helper()
		if a := d.post("/v1/tenants/acme/locks/"+key+"/acquire", `{"request_id":"`+request+`","owner_id":"ann","ttl_seconds":10}`); a.status != 200 {
			t.Fatalf("acquire %s: %d %s", key, a.status, a.raw)
		}
	}
	take("held", "r1")
	take("released", "r1")
	d.post("/v1/tenants/acme/locks/released/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`)
	take("forced", "r1")
	d.post("/v1/tenants/acme/locks/forced/force-release", `{"request_id":"f1","owner_id":"root","reason":"it hangs"}`)
	take("followed", "r1")
	d.post("/v1/tenants/acme/locks/followed/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`)
	take("followed", "r2")

	cases := []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"acquire held by another", "held/acquire", `{"request_id":"r9","owner_id":"bob","ttl_seconds":5}`, 409, "LOCK_HELD"},
		{"acquire held by oneself, new intention", "held/acquire", `{"request_id":"r9","owner_id":"ann","ttl_seconds":5}`, 409, "LOCK_HELD"},
		{"acquire, request of another owner", "held/acquire", `{"request_id":"r1","owner_id":"bob","ttl_seconds":10}`, 409, "LOCK_HELD"},
		{"acquire again with another ttl", "held/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":11}`, 422, "REQUEST_ID_REUSED"},
		{"acquire again with other metadata", "held/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":10,"metadata":{"a":"b"}}`, 422, "REQUEST_ID_REUSED"},
		{"renew by another owner", "held/renew", `{"request_id":"n1","owner_id":"bob","fencing_token":1,"ttl_seconds":5}`, 403, "NOT_OWNER"},
		{"renew with a token of the future", "held/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":2,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"renew with an old token", "followed/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"renew after release", "released/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_RELEASED"},
		{"renew of a lock that was never held", "never/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`, 409, "LEASE_LOST"},
		{"release by another owner", "held/release", `{"request_id":"e1","owner_id":"bob","fencing_token":1}`, 403, "NOT_OWNER"},
		{"release with an old token and a new request", "followed/release", `{"request_id":"e2","owner_id":"ann","fencing_token":1}`, 409, "LEASE_LOST"},
		{"release after release, new request", "released/release", `{"request_id":"e2","owner_id":"ann","fencing_token":1}`, 409, "LEASE_RELEASED"},
		{"release after force-release", "forced/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`, 409, "LEASE_RELEASED"},
		{"force-release of a free lock", "released/force-release", `{"request_id":"f1","owner_id":"root","reason":"x"}`, 409, "LOCK_NOT_HELD"},
		{"force-release of another lease", "held/force-release", `{"request_id":"f1","owner_id":"root","reason":"x","lease_id":"other"}`, 409, "LEASE_LOST"},
		{"force-release again with another reason", "forced/force-release", `{"request_id":"f1","owner_id":"root","reason":"lunch"}`, 422, "REQUEST_ID_REUSED"},
	}
	before := d.get("/v1/tenants/acme/locks").raw
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d.post("/v1/tenants/acme/locks/"+c.target, c.body).refuses(t, c.status, c.code, "")
		})
	}
	if after := d.get("/v1/tenants/acme/locks").raw; after != before {
		t.Errorf("refusals changed something:\nbefore %s\nafter  %s", before, after)
	}

	d.clock.Advance(10 * time.Second) // LS-INV-004: at expires_at the lease is over, although no one took the lock since
	d.post("/v1/tenants/acme/locks/held/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":5}`).refuses(t, 409, "LEASE_EXPIRED", "")
	d.post("/v1/tenants/acme/locks/held/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`).refuses(t, 409, "LEASE_EXPIRED", "")
	d.get("/v1/tenants/acme/locks/never").refuses(t, 404, "NOT_FOUND", "")
}

func TestForceReleaseTellsTheHolderWhy(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
	lease, _ := d.get(deploy).body["lease_id"].(string)
	a := d.post(deploy+"/force-release", `{"request_id":"f1","owner_id":"root","reason":"hangs since nine","lease_id":"`+lease+`"}`)
	withoutLeaseID(t, a).wants(t, 200, `{"tenant_id":"acme","lock_key":"deploy-prod","owner_id":"ann","state":"RELEASED",
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","released_at":"2026-01-01T00:00:00.000Z",
		"ttl_seconds":60,"metadata":{},"force_release":{"by":"root","reason":"hangs since nine","at":"2026-01-01T00:00:00.000Z"}}`)

	a = d.post(deploy+"/renew", `{"request_id":"n1","owner_id":"ann","fencing_token":1,"ttl_seconds":60}`)
	a.refuses(t, 409, "LEASE_RELEASED", "")
	if a.body["detail"] != "the lease was ended by root: hangs since nine" {
		t.Errorf("detail %q", a.body["detail"])
	}

	d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":60}`)
	again := d.post(deploy+"/force-release", `{"request_id":"f1","owner_id":"root","reason":"hangs since nine"}`)
	if again.status != 200 || d.get(deploy).body["state"] != "ACTIVE" {
		t.Errorf("a repeated force-release ended a later lease: %d %s", again.status, again.raw)
	}
}

func TestListPagesByPrefixAndState(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, key := range []string{"a/1", "a/2", "a/3", "b", "ü"} {
		d.post("/v1/tenants/acme/locks/"+url.PathEscape(key)+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
	}
	d.post("/v1/tenants/acme/locks/a%2F2/release", `{"request_id":"e1","owner_id":"ann","fencing_token":1}`)
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
	} {
		if got := walk(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

// TestFence: LS-FENCE-001 over HTTP.
func TestFence(t *testing.T) {
	d := open(t, httpapi.Development{})
	check := "/v1/tenants/acme/fences/orders-db/check"
	d.post(check, `{"fencing_token":7}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":7}`)
	d.post(check, `{"fencing_token":7}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":7}`)
	d.post(check, `{"fencing_token":9}`).wants(t, 200, `{"tenant_id":"acme","resource":"orders-db","fencing_token":9}`)
	a := d.post(check, `{"fencing_token":8}`)
	a.refuses(t, 409, "STALE_TOKEN", "")
	if a.body["highest_token"] != 9.0 {
		t.Errorf("highest_token %v, want 9", a.body["highest_token"])
	}
	d.post("/v1/tenants/other/fences/orders-db/check", `{"fencing_token":1}`).wants(t, 200, `{"tenant_id":"other","resource":"orders-db","fencing_token":1}`)
	d.post(check, `{"fencing_token":0}`).refuses(t, 400, "INVALID_ARGUMENT", "fencing_token")
}

func TestKeysOfAnySpelling(t *testing.T) {
	d := open(t, httpapi.Development{})
	keys := []string{"a/b", "a%2Fb", "a b", "ロック", "\u00e9", "e\u0301", "a+b", "a?b#c", "~", "...", "a:b", `a"b\c`, strings.Repeat("k", 256), "%", "\U0010FFFF"}
	for i, key := range keys {
		a := d.post("/v1/tenants/acme/locks/"+url.PathEscape(key)+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`)
		if a.status != http.StatusOK || a.body["lock_key"] != key || a.body["fencing_token"] != 1.0 {
			t.Errorf("key %d %q: %d %s", i, key, a.status, a.raw)
		}
	}
}
