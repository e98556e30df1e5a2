package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const order7 = "/v1/tenants/acme/runs/order-7"

// TestRunsOverHTTP: each response as the contract has it.
func TestRunsOverHTTP(t *testing.T) {
	d := open(t, httpapi.Development{})
	begin := `{"owner_id":"web-1","request_id":"r1","ttl_seconds":30,"fingerprint":"f1"}`
	granted := func(replayed string, left string) string {
		return `{"run_id":"order-7","acquired":true,"owner_id":"web-1","fencing_token":1767225600000001,"expires_at":"2026-01-01T00:00:30.000Z",
			"remaining_ms":` + left + `,"heartbeat_seconds":6,"runs":1,"failures":0,"replayed":` + replayed + `}`
	}
	d.get(order7).refuses(t, 404, "NOT_FOUND", "run_id")
	d.post(order7+"/release", `{"owner_id":"web-1","fencing_token":1}`).refuses(t, 404, "NOT_FOUND", "run_id")
	d.post(order7+"/begin", begin).wants(t, 200, granted("false", "30000"))
	d.clock.Advance(10 * time.Second)
	d.post(order7+"/begin", begin).wants(t, 200, granted("true", "20000"))
	other := `{"owner_id":"web-2","request_id":"r2","fingerprint":"f1"}`
	d.post(order7+"/begin", other).wants(t, 200,
		`{"run_id":"order-7","acquired":false,"reason":"locked","owner_id":"web-1",
		"expires_at":"2026-01-01T00:00:30.000Z","retry_after_ms":20000}`)
	d.post(order7+"/begin", strings.Replace(other, "f1", "f2", 1)).refuses(t, 422, "RUN_DIFFERS", "")
	d.post(order7+"/begin", strings.Replace(begin, "30", "31", 1)).refuses(t, 422, "REQUEST_ID_REUSED", "")
	d.get(order7).wants(t, 200,
		`{"run_id":"order-7","finished":false,"locked":true,"owner_id":"web-1","expires_at":"2026-01-01T00:00:30.000Z","runs":1,"failures":0}`)
	const token = `"fencing_token":1767225600000001`
	d.post(order7+"/refresh", `{"owner_id":"web-1",`+token+`}`).wants(t, 200,
		`{"run_id":"order-7","owner_id":"web-1",`+token+`,"expires_at":"2026-01-01T00:00:40.000Z","remaining_ms":30000}`)
	d.post(order7+"/refresh", `{"owner_id":"web-2",`+token+`}`).refuses(t, 403, "NOT_OWNER", "")
	d.post(order7+"/release", `{"owner_id":"web-1",`+token+`,"failure_reason":"no network"}`).wants(
		t, 200, `{"run_id":"order-7","failures":1,"replayed":false}`)
	d.post(order7+"/release", `{"owner_id":"web-1",`+token+`,"failure_reason":"no network"}`).wants(
		t, 200, `{"run_id":"order-7","failures":1,"replayed":true}`)
	d.post(order7+"/finish", `{"owner_id":"web-1",`+token+`,"status":"READY"}`).refuses(t, 409, "LEASE_RELEASED", "")
	d.post(order7+"/begin", other)
	finish := `{"owner_id":"web-2","fencing_token":1767225600000002,"status":"READY","result":"ch_1"}`
	d.post(order7+"/finish", finish).wants(t, 200, `{"run_id":"order-7","status":"READY","replayed":false}`)
	d.post(order7+"/finish", finish).wants(t, 200, `{"run_id":"order-7","status":"READY","replayed":true}`)
	d.post(order7+"/finish", strings.Replace(finish, "ch_1", "ch_2", 1)).refuses(t, 409, "ALREADY_FINISHED", "")
	d.post(order7+"/begin", `{"owner_id":"web-3","request_id":"r3"}`).wants(t, 200,
		`{"run_id":"order-7","acquired":false,"reason":"already_finished","status":"READY","result":"ch_1"}`)
	d.get(order7).wants(t, 200,
		`{"run_id":"order-7","status":"READY","finished":true,"locked":false,"runs":0,"failures":1,"result":"ch_1",
		"finished_at":"2026-01-01T00:00:10.000Z"}`)

	// A run that is FAILED, and one of another tenant.
	d.post("/v1/tenants/acme/runs/order-8/begin", begin)
	d.post("/v1/tenants/acme/runs/order-8/finish",
		`{"owner_id":"web-1","fencing_token":1767225610000001,"status":"FAILED","failure_reason":"no such account"}`).
		wants(t, 200, `{"run_id":"order-8","status":"FAILED","replayed":false}`)
	d.post("/v1/tenants/acme/runs/order-8/begin", other).wants(t, 200,
		`{"run_id":"order-8","acquired":false,"reason":"already_finished","status":"FAILED","failure_reason":"no such account"}`)
	d.get("/v1/tenants/other/runs/order-7").refuses(t, 404, "NOT_FOUND", "run_id")
}

// TestKeepOverHTTP: a request without keep_seconds leaves what an earlier one said, and a run whose time has passed is
// not found, not listed, and begins anew.
func TestKeepOverHTTP(t *testing.T) {
	d := open(t, httpapi.Development{})
	const held = `{"owner_id":"ann","fencing_token":1767225600000001`
	d.post(order7+"/begin", `{"owner_id":"ann","request_id":"r1","keep_seconds":60}`).ok(t)
	d.post(order7+"/refresh", held+`}`).ok(t)
	d.post(order7+"/finish", held+`,"status":"READY","result":"paid"}`).ok(t)
	begin := `{"owner_id":"bob","request_id":"r2"}`
	d.clock.Advance(time.Minute - time.Millisecond)
	d.post(order7+"/begin", begin).wants(t, 200,
		`{"run_id":"order-7","acquired":false,"reason":"already_finished","status":"READY","result":"paid"}`)
	d.clock.Advance(time.Millisecond)
	d.get(order7).refuses(t, 404, "NOT_FOUND", "run_id")
	d.get("/v1/tenants/acme/runs").wants(t, 200,
		`{"runs":[],"counts":{"documents":1,"running":0,"stale":0,"failed":0,"pending":0,"ready":0}}`)
	d.post(order7+"/finish", held+`,"status":"READY","result":"paid"}`).refuses(t, 404, "NOT_FOUND", "run_id")
	d.post(order7+"/begin", `{"owner_id":"ann","request_id":"r1","keep_seconds":60}`).refuses(t, 422, "REQUEST_ID_REUSED", "")
	if a := d.post(order7+"/begin", begin); a.status != 200 || a.body["fencing_token"] != 1767225600000002.0 ||
		a.body["runs"] != 1.0 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// TestRunRefusals: each malformed request names its field, and makes no document.
func TestRunRefusals(t *testing.T) {
	d := open(t, httpapi.Development{})
	const ok = `"owner_id":"ann","request_id":"r1"`
	const held = `"owner_id":"ann","fencing_token":1`
	long := strings.Repeat("x", 257)
	for _, c := range []struct{ command, body, field string }{
		{"begin", `{"owner_id":"ann"}`, "request_id"},
		{"begin", `{"request_id":"r1"}`, "owner_id"},
		{"begin", `{` + ok + `,"ttl_seconds":0}`, "ttl_seconds"},
		{"begin", `{` + ok + `,"ttl_seconds":86401}`, "ttl_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":59}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":0}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":2592001}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":null}`, "keep_seconds"},
		{"begin", `{` + ok + `,"fingerprint":"` + long[:129] + `"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":"a\u0000"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":"(unreadable)"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":7}`, "fingerprint"},
		{"begin", `{` + ok + `,"max_failures":-1}`, "max_failures"},
		{"begin", `{` + ok + `,"color":"red"}`, "color"},
		{"refresh", `{"owner_id":"ann"}`, "fencing_token"},
		{"refresh", `{` + held + `,"keep_seconds":59}`, "keep_seconds"},
		{"refresh", `{` + held + `,"keep_seconds":0}`, "keep_seconds"},
		{"refresh", `{` + held + `,"ttl_seconds":0}`, "ttl_seconds"},
		{"release", `{` + held + `,"failure_reason":""}`, "failure_reason"},
		{"release", `{` + held + `,"failure_reason":"` + strings.Repeat("x", 1025) + `"}`, "failure_reason"},
		{"release", `{` + held + `,"keep_seconds":59}`, "keep_seconds"},
		{"release", `{` + held + `,"keep_seconds":0}`, "keep_seconds"},
		{"finish", `{` + held + `}`, "status"},
		{"finish", `{` + held + `,"status":"DONE"}`, "status"},
		{"finish", `{` + held + `,"status":"READY","failure_reason":"x"}`, "failure_reason"},
		{"finish", `{` + held + `,"status":"FAILED","failure_reason":""}`, "failure_reason"},
		{"finish", `{` + held + `,"status":"FAILED","result":"x"}`, "result"},
		{"finish", `{` + held + `,"status":"READY","result":"` + strings.Repeat("x", 32<<10+1) + `"}`, "result"},
		{"finish", `{` + held + `,"status":"READY","keep_seconds":59}`, "keep_seconds"},
		{"finish", `{` + held + `,"status":"READY","keep_seconds":0}`, "keep_seconds"},
	} {
		d.post(order7+"/"+c.command, c.body).refuses(t, 400, "INVALID_ARGUMENT", c.field)
	}
	for path, field := range map[string]string{
		"/v1/tenants/acme/runs/a%2Fb": "run_id", "/v1/tenants/acme/runs/" + long: "run_id",
		"/v1/tenants/acme/runs/%2E%2E":    "run_id",
		"/v1/tenants/" + long + "/runs/a": "tenant_id",
	} {
		d.post(path+"/begin", `{`+ok+`}`).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
	if p, err := d.store.List(t.Context(), docstore.Query{Kind: "runs", Tenant: "acme"}); err != nil ||
		len(p.Entries) != 0 {
		t.Errorf("%v, %v", p.Entries, err)
	}
	// At the bounds.
	d.post(order7+"/begin", `{`+ok+`,"ttl_seconds":86400,"keep_seconds":2592000,"fingerprint":"`+long[:128]+`"}`).ok(t)
	d.post(order7+"/finish",
		`{"owner_id":"ann","fencing_token":1767225600000001,"status":"READY","keep_seconds":60,"result":"`+
			strings.Repeat("x", 32<<10)+`"}`).ok(t)
	d.post("/v1/tenants/acme/runs/"+long[:256]+"/begin", `{`+ok+`}`).ok(t)
}

// TestRunsBelongToTenants: a caller acts in its own tenant, under its own name, and needs no worker's scope.
func TestRunsBelongToTenants(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}})
	a := d.post(order7+"/begin", `{"owner_id":"web-1","request_id":"r1"}`)
	if a.status != 200 || a.body["owner_id"] != "svc#web-1" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for _, command := range []string{"/begin", "/refresh", "/release", "/finish"} {
		d.post("/v1/tenants/other/runs/order-7"+command, `{}`).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	d.get("/v1/tenants/other/runs/order-7").refuses(t, 403, "PERMISSION_DENIED", "")
	d.serve(verified{caller: httpapi.Caller{Subject: "thief", Tenant: "acme"}}, d.store)
	d.post(order7+"/finish", `{"owner_id":"web-1","fencing_token":1767225600000001,"status":"READY"}`).refuses(t,
		403, "NOT_OWNER", "")
	d.serve(verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme"}}, d.store)
	d.post(order7+"/finish", `{"owner_id":"svc#web-1","fencing_token":1767225600000001,"status":"READY"}`).ok(t)
}

// TestListRuns: the runs of a tenant and no other's, by name, without their results.
func TestListRuns(t *testing.T) {
	d := open(t, httpapi.Development{})
	const runs = "/v1/tenants/acme/runs"
	counts := func(documents, running, ready int) string {
		return fmt.Sprintf(`"counts":{"documents":%d,"running":%d,"stale":0,"failed":0,"pending":0,"ready":%d}`, documents,
			running, ready)
	}
	d.get(runs).wants(t, 200, `{"runs":[],`+counts(0, 0, 0)+`}`)
	for _, path := range []string{"acme/runs/order-2", "acme/runs/order-1", "acme/runs/other", "acmf/runs/secret"} {
		if a := d.post("/v1/tenants/"+path+"/begin", `{"request_id":"r1","owner_id":"w","ttl_seconds":30}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	token := d.post(runs+"/order-1/begin", `{"request_id":"r1","owner_id":"w","ttl_seconds":30}`).body["fencing_token"]
	if a := d.post(runs+"/order-1/finish",
		fmt.Sprintf(`{"owner_id":"w","fencing_token":%.0f,"status":"READY","result":"s3cret"}`, token)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	const one = `{"run_id":"order-1","status":"READY","finished":true,"locked":false,"runs":0,"failures":0,"finished_at":"2026-01-01T00:00:00.000Z"}`
	const two = `{"run_id":"order-2","finished":false,"locked":true,"owner_id":"w","expires_at":"2026-01-01T00:00:30.000Z","runs":1,"failures":0}`
	d.get(runs+"?prefix=order").wants(t, 200, `{"runs":[`+one+`,`+two+`],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?prefix=order&page_size=1").wants(t, 200, `{"runs":[`+one+`],`+counts(1, 0, 1)+
		`,"next_page_token":"b3JkZXItMQ"}`)
	d.get(runs+"?state=READY").wants(t, 200, `{"runs":[`+one+`],`+counts(3, 2, 1)+`}`)
	d.get(runs+"?owner_id=w&prefix=order").wants(t, 200, `{"runs":[`+two+`],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?urgent=true").wants(t, 200, `{"runs":[],`+counts(3, 2, 1)+`}`)
	d.get(runs+"?state=LOST").refuses(t, 400, "INVALID_ARGUMENT", "state")
	d.get(runs+"?prefix=order&page_token=b3JkZXItMQ").wants(t, 200, `{"runs":[`+two+`],`+counts(1, 1, 0)+`}`)
	if a := d.get(runs); strings.Contains(a.raw, "s3cret") || strings.Contains(a.raw, "secret") ||
		strings.Count(a.raw, "run_id") != 3 {
		t.Errorf("%s", a.raw)
	}
	d.get(runs+"?status=READY").refuses(t, 400, "INVALID_ARGUMENT", "status")
	d.get(runs+"?page_token=%20").refuses(t, 400, "INVALID_ARGUMENT", "page_token")
	d.get("/v1/tenants/"+strings.Repeat("t", 129)+"/runs").refuses(t, 400, "INVALID_ARGUMENT", "tenant_id")

	damaged := docstore.Write{Key: docstore.Key{Kind: "runs", Tenant: "acme", ID: "order-2"},
		Set: map[string]docstore.Value{"lockToken": docstore.String("x")}}
	if _, err := d.store.Write(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	d.get(runs+"?prefix=order").wants(t, 200, `{"runs":[`+one+
		`],"unreadable":[{"run_id":"order-2","code":"DOCUMENT_DAMAGED"}],`+counts(2, 0, 1)+`}`)
}
