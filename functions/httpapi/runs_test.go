package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/analysis"
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
		`{"run_id":"order-7","finished":false,"locked":true,"owner_id":"web-1","expires_at":"2026-01-01T00:00:30.000Z","runs":1,"failures":0,"kept_until":"2026-01-02T00:00:30.000Z"}`)
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
		"finished_at":"2026-01-01T00:00:10.000Z","kept_until":"2026-01-02T00:00:10.000Z"}`)

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
	const due = `"due_at":"2026-01-01T00:00:00.000Z","next_due_at":"2026-01-02T00:00:00.000Z"`
	for _, c := range []struct{ command, body, field string }{
		{"begin", `{"owner_id":"ann"}`, "request_id"},
		{"begin", `{"request_id":"r1"}`, "owner_id"},
		{"begin", `{` + ok + `,"ttl_seconds":0}`, "ttl_seconds"},
		{"begin", `{` + ok + `,"ttl_seconds":86401}`, "ttl_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":59}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":0}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":316224001}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":null}`, "keep_seconds"},
		{"begin", `{` + ok + `,"fingerprint":"` + long[:129] + `"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":"a\u0000"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":"(unreadable)"}`, "fingerprint"},
		{"begin", `{` + ok + `,"fingerprint":7}`, "fingerprint"},
		{"begin", `{` + ok + `,"max_failures":-1}`, "max_failures"},
		{"begin", `{` + ok + `,"color":"red"}`, "color"},
		{"begin", `{` + ok + `,"max_takeovers":-1}`, "max_takeovers"},
		{"begin", `{` + ok + `,"every_seconds":0}`, "every_seconds"},
		{"begin", `{` + ok + `,"every_seconds":316224001}`, "every_seconds"},
		{"begin", `{` + ok + `,"every_seconds":60,` + due + `}`, "every_seconds"},
		{"begin", `{` + ok + `,"due_at":"2026-01-01T00:00:00Z"}`, "next_due_at"},
		{"begin", `{` + ok + `,"next_due_at":"2026-01-01T00:00:00Z"}`, "due_at"},
		{"begin", `{` + ok + `,"due_at":"tonight","next_due_at":"2026-01-01T00:00:00Z"}`, "due_at"},
		{"begin", `{` + ok + `,"due_at":"2026-01-01T00:00:00Z","next_due_at":"2026-01-01T00:00:00Z"}`, "next_due_at"},
		{"begin", `{` + ok + `,"due_at":"2026-01-01T00:00:00Z","next_due_at":"2037-01-01T00:00:00Z"}`, "next_due_at"},
		{"begin", `{` + ok + `,"keep_seconds":86399,` + due + `}`, "keep_seconds"},
		{"begin", `{` + ok + `,"keep_seconds":119,"every_seconds":120}`, "keep_seconds"},
		{"retry", `{` + ok + `}`, "reason"},
		{"retry", `{` + ok + `,"reason":""}`, "reason"},
		{"again", `{` + ok + `,"reason":"` + strings.Repeat("x", 513) + `"}`, "reason"},
		{"again", `{` + ok + `,"reason":"x","finished_at":"yesterday"}`, "finished_at"},
		{"remove", `{` + ok + `}`, "reason"},
		{"remove", `{"owner_id":"ann","reason":"x"}`, "request_id"},
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
		{"finish", `{` + held + `,"status":"READY","result":"` + strings.Repeat("x", analysis.MaxResultBytes+1) + `"}`, "result"},
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
	d.post(order7+"/begin", `{`+ok+`,"ttl_seconds":86400,"keep_seconds":316224000,"fingerprint":"`+long[:128]+`"}`).ok(t)
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
	for _, command := range []string{"/begin", "/refresh", "/release", "/finish", "/retry", "/again", "/remove"} {
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
	const one = `{"run_id":"order-1","status":"READY","finished":true,"locked":false,"runs":0,"failures":0,"finished_at":"2026-01-01T00:00:00.000Z","kept_until":"2026-01-02T00:00:00.000Z"}`
	const two = `{"run_id":"order-2","finished":false,"locked":true,"owner_id":"w","expires_at":"2026-01-01T00:00:30.000Z","runs":1,"failures":0,"kept_until":"2026-01-02T00:00:30.000Z"}`
	d.get(runs+"?prefix=order").wants(t, 200, `{"runs":[`+one+`,`+two+`],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?prefix=order&page_size=1").wants(t, 200, `{"runs":[`+one+`],`+counts(1, 0, 1)+
		`,"next_page_token":"b3JkZXItMQ"}`)
	d.get(runs+"?state=READY").wants(t, 200, `{"runs":[`+one+`],`+counts(3, 2, 1)+`}`)
	d.get(runs+"?owner_id=w&prefix=order").wants(t, 200, `{"runs":[`+two+`],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?urgent=true").wants(t, 200, `{"runs":[],`+counts(3, 2, 1)+`}`)
	d.get(runs+"?prefix=order&changed_after=2026-01-01T00:00:00Z&changed_before=2026-01-01T00:00:00.001Z").wants(t, 200,
		`{"runs":[`+one+`,`+two+`],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?prefix=order&changed_after=2026-01-01T00:00:00.001Z").wants(t, 200, `{"runs":[],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?prefix=order&changed_before=2026-01-01T00:00:00Z").wants(t, 200, `{"runs":[],`+counts(2, 1, 1)+`}`)
	d.get(runs+"?changed_after=today").refuses(t, 400, "INVALID_ARGUMENT", "changed_after")
	d.get(runs+"?changed_after=2026-01-01T00:00:00Z&changed_before=2026-01-01T00:00:00Z").refuses(t, 400,
		"INVALID_ARGUMENT", "changed_before")
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

// TestRunsThatComeRound: a job has one record; each time for which it is due has one run, by the store's time.
func TestRunsThatComeRound(t *testing.T) {
	d := open(t, httpapi.Development{})
	const nightly = "/v1/tenants/acme/runs/nightly"
	due := func(request, due, next string) string {
		return `{"owner_id":"m1","request_id":"` + request + `","due_at":"2026-01-` + due + `T00:00:00.000Z",
			"next_due_at":"2026-01-` + next + `T00:00:00.000Z"}`
	}
	d.post(nightly+"/begin", due("r1", "02", "03")).wants(t, 200, `{"run_id":"nightly","acquired":false,
		"reason":"not_due","now":"2026-01-01T00:00:00.000Z","retry_after_ms":86400000}`)
	d.get(nightly).refuses(t, 404, "NOT_FOUND", "run_id")
	d.post(nightly+"/begin", due("r2", "01", "02")).wants(t, 200, `{"run_id":"nightly","acquired":true,"owner_id":"m1",
		"fencing_token":1767225600000001,"expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"heartbeat_seconds":6,
		"runs":1,"failures":0,"replayed":false,"due_at":"2026-01-01T00:00:00.000Z"}`)
	d.clock.Advance(24 * time.Hour)
	finish := `{"owner_id":"m1","fencing_token":1767225600000001,"status":"READY","result":"done"}`
	d.post(nightly+"/begin", due("r3", "01", "02")).wants(t, 200, `{"run_id":"nightly","acquired":false,
		"reason":"not_due","now":"2026-01-02T00:00:00.000Z","due_at":"2026-01-01T00:00:00.000Z"}`)
	d.post(nightly+"/finish", finish).ok(t)
	d.get(nightly).wants(t, 200, `{"run_id":"nightly","status":"READY","finished":true,"locked":false,"runs":0,"failures":0,
		"result":"done","finished_at":"2026-01-02T00:00:00.000Z","due_at":"2026-01-01T00:00:00.000Z",
		"begun_at":"2026-01-01T00:00:00.000Z","kept_until":"2026-01-04T00:00:00.000Z"}`)
	token := d.post(nightly+"/begin", due("r4", "02", "03")).body["fencing_token"]
	if token != 1767225600000002. {
		t.Errorf("the token of the next night is %v", token)
	}
	d.post(nightly+"/begin", due("r5", "02", "03")).wants(t, 200, `{"run_id":"nightly","acquired":false,"reason":"locked",
		"owner_id":"m1","expires_at":"2026-01-02T00:00:30.000Z","retry_after_ms":30000,"due_at":"2026-01-02T00:00:00.000Z"}`)

	// At least so much time after the last one began.
	const often = "/v1/tenants/acme/runs/often"
	every := func(request string) string {
		return `{"owner_id":"m1","request_id":"` + request + `","every_seconds":5400}`
	}
	token = d.post(often+"/begin", every("r1")).body["fencing_token"]
	d.clock.Advance(20 * time.Second)
	d.post(often+"/finish", fmt.Sprintf(`{"owner_id":"m1","fencing_token":%.0f,"status":"READY"}`, token)).ok(t)
	d.post(often+"/begin", every("r2")).wants(t, 200, `{"run_id":"often","acquired":false,"reason":"already_finished",
		"status":"READY","retry_after_ms":5380000}`)
	d.clock.Advance(5380*time.Second - time.Millisecond)
	d.post(often+"/begin", every("r3")).wants(t, 200, `{"run_id":"often","acquired":false,"reason":"already_finished",
		"status":"READY","retry_after_ms":1}`)
	d.clock.Advance(time.Millisecond)
	if a := d.post(often+"/begin", every("r4")); a.body["acquired"] != true {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// TestRunsOnceMore: what is FAILED is retried, what is READY is run again, and what is removed is forgotten; each for
// the one end that it is for, and once.
func TestRunsOnceMore(t *testing.T) {
	d := open(t, httpapi.Development{})
	begin := func(request string) float64 {
		t.Helper()
		token, ok := d.post(order7+"/begin", `{"owner_id":"w","request_id":"`+request+`"}`).body["fencing_token"].(float64)
		if !ok {
			t.Fatal("nothing was granted")
		}
		return token
	}
	finish := func(token float64, end string) {
		t.Helper()
		d.post(order7+"/finish", fmt.Sprintf(`{"owner_id":"w","fencing_token":%.0f,%s}`, token, end)).ok(t)
	}
	const retry = `{"owner_id":"ann","request_id":"q1","reason":"mended"}`
	for _, command := range []string{"/retry", "/again", "/remove"} {
		d.post(order7+command, retry).refuses(t, 404, "NOT_FOUND", "run_id")
	}
	first := begin("r1")
	d.post(order7+"/retry", retry).refuses(t, 409, "NOT_FAILED", "")
	d.post(order7+"/again", retry).refuses(t, 409, "NOT_READY", "")
	d.post(order7+"/remove", retry).refuses(t, 409, "RUN_IN_PROGRESS", "")
	finish(first, `"status":"FAILED","failure_reason":"no account"`)
	d.post(order7+"/again", retry).refuses(t, 409, "NOT_READY", "")
	d.post(order7+"/retry", `{"owner_id":"ann","request_id":"q0","reason":"mended","finished_at":"2025-12-31T00:00:00Z"}`).
		refuses(t, 409, "END_CHANGED", "")
	const retried = `{"run_id":"order-7","retry":{"by":"ann","reason":"mended","at":"2026-01-01T00:00:00.000Z"},"replayed":`
	d.post(order7+"/retry", retry).wants(t, 200, retried+`false}`)
	d.post(order7+"/retry", retry).wants(t, 200, retried+`true}`)
	d.post(order7+"/retry", strings.Replace(retry, "mended", "x", 1)).refuses(t, 422, "REQUEST_ID_REUSED", "")
	second := begin("r2")
	if second <= first+1 {
		t.Errorf("tokens %.0f and %.0f: a retry takes one", first, second)
	}
	finish(second, `"status":"READY","result":"ch_1"`)
	d.post(order7+"/retry", strings.Replace(retry, "q1", "q2", 1)).refuses(t, 409, "NOT_FAILED", "")
	d.post(order7+"/again", `{"owner_id":"ann","request_id":"q1","reason":"wrong price"}`).wants(t, 200,
		`{"run_id":"order-7","retry":{"by":"ann","reason":"wrong price","at":"2026-01-01T00:00:00.000Z"},"replayed":false}`)
	if a := d.get(order7); a.body["result"] != nil || a.body["finished"] != false {
		t.Errorf("%s", a.raw)
	}
	finish(begin("r3"), `"status":"READY","result":"ch_2"`)

	remove := `{"owner_id":"ann","request_id":"q1","reason":"gone"}`
	d.post(order7+"/remove", remove).wants(t, 200, `{"run_id":"order-7","replayed":false}`)
	d.get(order7).refuses(t, 404, "NOT_FOUND", "run_id")
	d.get("/v1/tenants/acme/runs").wants(t, 200,
		`{"runs":[],"counts":{"documents":1,"running":0,"stale":0,"failed":0,"pending":0,"ready":0}}`)
	d.post(order7+"/begin", `{"owner_id":"w","request_id":"r3"}`).refuses(t, 422, "REQUEST_ID_REUSED", "")
	last := begin("r4")
	if last <= second {
		t.Errorf("tokens %.0f and %.0f", second, last)
	}
	finish(last, `"status":"READY","result":"ch_3"`)
	d.post(order7+"/remove", remove).wants(t, 200, `{"run_id":"order-7","replayed":true}`) // it comes late
	if a := d.get(order7); a.body["result"] != "ch_3" {
		t.Errorf("%s", a.raw)
	}
}

// TestRunAtMostOnce: with max_takeovers 0 a run whose worker died is FAILED, and never begun again.
func TestRunAtMostOnce(t *testing.T) {
	d := open(t, httpapi.Development{})
	const begin = `{"owner_id":"w","request_id":"r1","max_takeovers":0}`
	d.post(order7+"/begin", begin).ok(t)
	d.post(order7+"/begin", begin).ok(t) // a retry of the request is no takeover
	d.clock.Advance(30 * time.Second)
	d.post(order7+"/begin", strings.Replace(begin, "r1", "r2", 1)).wants(t, 200, `{"run_id":"order-7","acquired":false,
		"reason":"already_finished","status":"FAILED",
		"failure_reason":"its worker died, or lost its lock, and it must not be begun again"}`)
	d.post(order7+"/finish", `{"owner_id":"w","fencing_token":1767225600000001,"status":"READY"}`).refuses(t, 409, "LEASE_LOST",
		"")
}
