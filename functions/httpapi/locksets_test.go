package httpapi_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

const sets = "/v1/tenants/acme/lock-sets"

// TestLifeOfASet walks through the commands on several locks, with the whole of each response.
func TestLifeOfASet(t *testing.T) {
	d := open(t, httpapi.Development{})
	withoutIDs := func(a answer) answer {
		t.Helper()
		leases, _ := a.body["leases"].([]any)
		for _, l := range leases {
			one, _ := l.(map[string]any)
			if id, _ := one["lease_id"].(string); len(id) < 26 {
				t.Errorf("lease_id %q", id)
			}
			delete(one, "lease_id")
		}
		return a
	}
	const ann = `"request_id":"r1","owner_id":"ann","ttl_seconds":30,"metadata":{"build":"991"}`
	withoutIDs(d.post(sets+"/acquire", `{"lock_keys":["b","a/x"],`+ann+`}`)).wants(
		t, 200, `{"tenant_id":"acme","owner_id":"ann","state":"ACTIVE",
		"leases":[{"lock_key":"a/x","fencing_token":1767225600000001},{"lock_key":"b","fencing_token":1767225600000001}],
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":false}`)

	d.clock.Advance(10 * time.Second)
	withoutIDs(d.post(sets+"/acquire", `{"lock_keys":["a/x","b"],`+ann+`}`)).wants(
		t, 200, `{"tenant_id":"acme","owner_id":"ann","state":"ACTIVE",
		"leases":[{"lock_key":"a/x","fencing_token":1767225600000001},{"lock_key":"b","fencing_token":1767225600000001}],
		"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":20000,"ttl_seconds":30,
		"metadata":{"build":"991"},"replayed":true}`)
	a := d.post(sets+"/acquire", `{"lock_keys":["a/x"],`+ann+`}`)
	if a.status != 422 || a.body["code"] != "REQUEST_ID_REUSED" || a.body["lock_key"] != "a/x" {
		t.Errorf("with other keys: %d %s", a.status, a.raw)
	}

	a = d.post(sets+"/acquire", `{"lock_keys":["c","b"],"request_id":"r2","owner_id":"bob","ttl_seconds":30}`)
	delete(a.body, "instance")
	a.wants(t, 409,
		`{"type":"https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md#lock_held","title":"lock is held",
		"status":409,"code":"LOCK_HELD","retryable":true,"lock_key":"b","owner_id":"ann","expires_at":"2026-01-01T00:00:30.000Z","retry_after_ms":20000}`)
	if got := a.header.Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After %q, want 20", got)
	}
	if a = d.get("/v1/tenants/acme/locks/c"); a.status != 404 {
		t.Errorf("a refused acquire left %s", a.raw)
	}

	const tokens = `"leases":[{"lock_key":"b","fencing_token":1767225600000001},{"lock_key":"a/x","fencing_token":1767225600000001}]`
	d.post(sets+"/renew", `{"request_id":"n1","owner_id":"ann",`+tokens+
		`,"ttl_seconds":60,"expires_at":"2026-01-01T00:00:30.000Z"}`).wants(t, 200,
		`{"tenant_id":"acme","owner_id":"ann","state":"ACTIVE",
		"leases":[{"lock_key":"a/x","fencing_token":1767225600000001},{"lock_key":"b","fencing_token":1767225600000001}],
		"expires_at":"2026-01-01T00:01:10.000Z","remaining_ms":60000,"ttl_seconds":60,"replayed":false}`)
	a = d.post(sets+"/renew", `{"request_id":"n2","owner_id":"ann",`+tokens+
		`,"ttl_seconds":60,"expires_at":"2026-01-01T00:00:30.000Z"}`)
	if a.status != 409 || a.body["code"] != "LEASE_CHANGED" || a.body["expires_at"] != "2026-01-01T00:01:10.000Z" {
		t.Errorf("from another end: %d %s", a.status, a.raw)
	}

	// An administrator ends one of the leases.
	if a = d.post("/v1/tenants/acme/locks/b/force-release",
		`{"request_id":"f1","owner_id":"root","reason":"test"}`); a.status != 200 {
		t.Fatal(a.raw)
	}
	a = d.post(sets+"/renew", `{"request_id":"n3","owner_id":"ann",`+tokens+`,"ttl_seconds":60}`)
	if a.status != 409 || a.body["code"] != "LEASE_RELEASED" || a.body["lock_key"] != "b" {
		t.Errorf("renew what is partly lost: %d %s", a.status, a.raw)
	}
	if a = d.get("/v1/tenants/acme/locks/a%2Fx"); a.body["expires_at"] != "2026-01-01T00:01:10.000Z" ||
		a.body["state"] != "ACTIVE" {
		t.Errorf("a refused renewal moved the end of another lease: %s", a.raw)
	}
	for range 2 {
		a = d.post(sets+"/release", `{"request_id":"e1","owner_id":"ann",`+tokens+`}`)
		if a.status != 409 || a.body["code"] != "LEASE_RELEASED" || a.body["lock_key"] != "b" {
			t.Errorf("release what is partly lost: %d %s", a.status, a.raw)
		}
	}
	if a = d.get("/v1/tenants/acme/locks/a%2Fx"); a.body["state"] != "RELEASED" {
		t.Errorf("what was left is not released: %s", a.raw)
	}
	d.post(sets+"/release",
		`{"request_id":"e1","owner_id":"ann","leases":[{"lock_key":"a/x","fencing_token":1767225600000001}]}`).wants(t, 200,
		`{"tenant_id":"acme","owner_id":"ann","state":"RELEASED","leases":[{"lock_key":"a/x","fencing_token":1767225600000001}],"replayed":true}`)
}

// TestBadSets: what is malformed names its field and changes nothing; what is at the bound is accepted.
func TestBadSets(t *testing.T) {
	d := open(t, httpapi.Development{})
	keys := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("%q", fmt.Sprint("k", i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	leases := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"lock_key":"k%d","fencing_token":1}`, i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	acquire := map[string]string{"request_id": `"r1"`, "owner_id": `"ann"`, "ttl_seconds": "30", "lock_keys": `["a"]`}
	renew := map[string]string{"request_id": `"r1"`, "owner_id": `"ann"`, "ttl_seconds": "30",
		"leases": `[{"lock_key":"a","fencing_token":1}]`}
	release := map[string]string{"request_id": `"r1"`, "owner_id": `"ann"`,
		"leases": `[{"lock_key":"a","fencing_token":1}]`}
	for _, c := range []struct {
		path  string
		body  map[string]string
		field string
		value string // empty: left out
		says  string // of the field
	}{
		{"acquire", acquire, "lock_keys", "", "lock_keys"}, {"acquire", acquire, "lock_keys", `[]`, "lock_keys"},
		{"acquire", acquire, "lock_keys", keys(21), "lock_keys"},
		{"acquire", acquire, "lock_keys", `["a","b","a"]`, "lock_keys"},
		{"acquire", acquire, "lock_keys", `["a",""]`, "lock_keys"},
		{"acquire", acquire, "lock_keys", `["a",".."]`, "lock_keys"},
		{"acquire", acquire, "lock_keys", `["a","b\nc"]`, "lock_keys"},
		{"acquire", acquire, "lock_keys", `"a"`, "lock_keys"}, {"acquire", acquire, "lock_keys", `["a",null]`, "lock_keys.1"},
		{"acquire", acquire, "lock_keys", `null`, "lock_keys"},
		{"acquire", acquire, "lock_keys", `["` + strings.Repeat("k", 257) + `"]`, "lock_keys"},
		{"acquire", acquire, "ttl_seconds", "0", "ttl_seconds"}, {"acquire", acquire, "ttl_seconds", "", "ttl_seconds"},
		{"acquire", acquire, "ttl_seconds", "86401", "ttl_seconds"},
		{"acquire", acquire, "request_id", "", "request_id"}, {"acquire", acquire, "owner_id", "", "owner_id"},
		{"acquire", acquire, "mode", `"shared"`, "mode"},
		{"acquire", acquire, "wait_seconds", "1", "wait_seconds"},
		{"renew", renew, "leases", "", "leases"}, {"renew", renew, "leases", `[]`, "leases"},
		{"renew", renew, "leases", leases(21), "leases"},
		{"renew", renew, "leases", `[{"lock_key":"a"}]`, "leases"},
		{"renew", renew, "leases", `[{"fencing_token":1}]`, "leases"},
		{"renew", renew, "leases", `[{"lock_key":"a","fencing_token":0}]`, "leases"},
		{"renew", renew, "leases", `[{"lock_key":"a","fencing_token":1,"x":1}]`, "leases.0.x"},
		{"renew", renew, "leases", `[{"lock_key":"a","fencing_token":1},{"lock_key":"a","fencing_token":2}]`, "leases"},
		{"renew", renew, "ttl_seconds", "0", "ttl_seconds"}, {"renew", renew, "expires_at", `"soon"`, "expires_at"},
		{"release", release, "leases", "", "leases"}, {"release", release, "leases", `[]`, "leases"},
		{"release", release, "leases", leases(21), "leases"},
		{"release", release, "ttl_seconds", "1", "ttl_seconds"},
	} {
		body := maps.Clone(c.body)
		if body[c.field] = c.value; c.value == "" {
			delete(body, c.field)
		}
		var members []string
		for k, v := range body {
			members = append(members, fmt.Sprintf("%q:%s", k, v))
		}
		a := d.post(sets+"/"+c.path, "{"+strings.Join(members, ",")+"}")
		if a.status != 400 || a.body["code"] != "INVALID_ARGUMENT" || a.body["field"] != c.says {
			t.Errorf("%s with %s %.60s: %d %s, want the field %s", c.path, c.field, c.value, a.status, a.raw, c.says)
		}
	}
	if a := d.get("/v1/tenants/acme/locks"); strings.Contains(a.raw, "lease_id") {
		t.Errorf("what was rejected left %s", a.raw)
	}
	if a := d.post(sets+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":86400,"lock_keys":`+keys(20)+
		`}`); a.status != 200 {
		t.Errorf("twenty keys: %d %s", a.status, a.raw)
	}
}

// TestSetsEndWithTheFirst: a set expires with the first of its leases, whichever that is.
func TestSetsEndWithTheFirst(t *testing.T) {
	for _, renewed := range []string{"a", "b"} {
		d := open(t, httpapi.Development{})
		const body = `{"lock_keys":["a","b"],"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
		d.post(sets+"/acquire", body)
		a := d.post("/v1/tenants/acme/locks/"+renewed+"/renew",
			`{"request_id":"n1","owner_id":"ann","fencing_token":1767225600000001,"ttl_seconds":60}`)
		if a.status != 200 {
			t.Fatal(a.raw)
		}
		if a = d.post(sets+"/acquire", body); a.body["expires_at"] != "2026-01-01T00:00:30.000Z" ||
			a.body["remaining_ms"] != 30000.0 {
			t.Errorf("%s renewed by itself: %s", renewed, a.raw)
		}
	}
}
