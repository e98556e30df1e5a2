package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const a1 = "/v1/analyses/a1"

// order makes the document of an analysis, as its producer does.
func (d *api) order(id string, fields map[string]docstore.Value) {
	d.t.Helper()
	if fields == nil {
		fields = map[string]docstore.Value{"status": docstore.String("PENDING")}
	}
	// a token that is there is counted up: short numbers are easier to read
	if fields = maps.Clone(fields); fields["lockToken"] == nil {
		fields["lockToken"] = docstore.Int(0)
	}
	if _, err := d.store.Write(d.t.Context(), docstore.Write{Key: docstore.Key{Kind: "analyses", ID: id},
		Set: fields}); err != nil {
		d.t.Fatal(err)
	}
}

func TestLifeOfAnAnalysis(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", nil)
	d.get(a1).wants(t, 200,
		`{"analysis_id":"a1","status":"PENDING","finished":false,"locked":false,"runs":0,"failures":0}`)

	lock := `{"owner_id":"worker-7","request_id":"r1","ttl_seconds":60}`
	d.post(a1+"/lock", lock).wants(t, 200,
		`{"analysis_id":"a1","acquired":true,"status":"PENDING","owner_id":"worker-7","fencing_token":1,
		"expires_at":"2026-01-01T00:01:00.000Z","remaining_ms":60000,"heartbeat_seconds":12,"runs":1,"failures":0,"replayed":false}`)
	d.clock.Advance(10 * time.Second)
	d.post(a1+"/lock", lock).wants(t, 200,
		`{"analysis_id":"a1","acquired":true,"status":"PENDING","owner_id":"worker-7","fencing_token":1,
		"expires_at":"2026-01-01T00:01:00.000Z","remaining_ms":50000,"heartbeat_seconds":12,"runs":1,"failures":0,"replayed":true}`)

	// BE-041-CONFLICT-3, rule 4: another worker is told to retry, and that is no error.
	d.post(a1+"/lock", `{"owner_id":"worker-8","request_id":"r2"}`).wants(
		t, 200, `{"analysis_id":"a1","acquired":false,"reason":"locked",
		"status":"PENDING","owner_id":"worker-7","expires_at":"2026-01-01T00:01:00.000Z","retry_after_ms":50000}`)
	a := d.get(a1)
	a.wants(t, 200, `{"analysis_id":"a1","status":"PENDING","finished":false,"locked":true,"owner_id":"worker-7",
		"expires_at":"2026-01-01T00:01:00.000Z","runs":1,"failures":0}`)

	d.post(a1+"/refresh", `{"owner_id":"worker-7","fencing_token":1,"ttl_seconds":60}`).wants(
		t, 200, `{"analysis_id":"a1","owner_id":"worker-7",
		"fencing_token":1,"expires_at":"2026-01-01T00:01:10.000Z","remaining_ms":60000}`)

	release := `{"owner_id":"worker-7","fencing_token":1,"failure_reason":"the model did not load"}`
	d.post(a1+"/release", release).wants(t, 200, `{"analysis_id":"a1","failures":1,"replayed":false}`)
	d.post(a1+"/release", release).wants(t, 200, `{"analysis_id":"a1","failures":1,"replayed":true}`)

	// BE-041-TTL: the default is five minutes, here and at a refresh. After them the run may be taken over (rule 3).
	d.post(a1+"/lock", `{"owner_id":"worker-7","request_id":"r3"}`).wants(
		t, 200, `{"analysis_id":"a1","acquired":true,"status":"PENDING",
		"owner_id":"worker-7","fencing_token":2,"expires_at":"2026-01-01T00:05:10.000Z","remaining_ms":300000,"heartbeat_seconds":60,"runs":1,
		"failures":1,"replayed":false}`)
	d.clock.Advance(time.Minute)
	d.post(a1+"/refresh", `{"owner_id":"worker-7","fencing_token":2}`).wants(
		t, 200, `{"analysis_id":"a1","owner_id":"worker-7",
		"fencing_token":2,"expires_at":"2026-01-01T00:06:10.000Z","remaining_ms":300000}`)
	d.clock.Advance(5 * time.Minute)
	d.post(a1+"/lock", `{"owner_id":"worker-8","request_id":"r4","ttl_seconds":1}`).wants(
		t, 200, `{"analysis_id":"a1","acquired":true,"status":"PENDING",
		"owner_id":"worker-8","fencing_token":3,"expires_at":"2026-01-01T00:06:11.000Z","remaining_ms":1000,"runs":2,"failures":1,"replayed":false}`)

	// The zombie can neither finish nor fail the run of another.
	d.post(a1+"/finish", `{"owner_id":"worker-7","fencing_token":2,"status":"READY","result":"old"}`).refuses(t,
		409, "LEASE_LOST", "")
	finish := `{"owner_id":"worker-8","fencing_token":3,"status":"READY","result":"s3://results/a1"}`
	d.post(a1+"/finish", finish).wants(t, 200, `{"analysis_id":"a1","status":"READY","replayed":false}`)
	d.post(a1+"/finish", finish).wants(t, 200, `{"analysis_id":"a1","status":"READY","replayed":true}`)
	d.post(a1+"/finish", `{"owner_id":"worker-8","fencing_token":3,"status":"FAILED","failure_reason":"x"}`).refuses(t,
		409, "ALREADY_FINISHED", "")

	// BE-041 rule 1.
	d.post(a1+"/lock", `{"owner_id":"worker-9","request_id":"r5"}`).wants(t, 200,
		`{"analysis_id":"a1","acquired":false,"reason":"already_finished","status":"READY","result":"s3://results/a1"}`)
	d.get(a1).wants(t, 200,
		`{"analysis_id":"a1","status":"READY","finished":true,"locked":false,"runs":0,"failures":1,"result":"s3://results/a1",
		"finished_at":"2026-01-01T00:06:10.000Z"}`)
}

// TestCreateAnalysis: a document is made once, and one that is there is never changed.
func TestCreateAnalysis(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.send("PUT", a1, "").wants(t, 200, `{"analysis_id":"a1","status":"PENDING","created":true}`)
	d.send("PUT", a1, "").wants(t, 200, `{"analysis_id":"a1","status":"PENDING","created":false}`)
	// The first token is the store's time in microseconds, and one.
	token := d.post(a1+"/lock", `{"owner_id":"w","request_id":"r1"}`).body["fencing_token"]
	if want := float64(d.clock.Now().UnixMicro() + 1); token != want {
		t.Errorf("the first token is %v, want %v", token, want)
	}
	d.post(a1+"/finish", fmt.Sprintf(`{"owner_id":"w","fencing_token":%.0f,"status":"READY","result":"x"}`, token))
	d.send("PUT", a1, "").wants(t, 200, `{"analysis_id":"a1","status":"READY","created":false}`)
	d.get(a1).wants(t, 200,
		`{"analysis_id":"a1","status":"READY","finished":true,"locked":false,"runs":0,"failures":0,"result":"x",
		"finished_at":"2026-01-01T00:00:00.000Z"}`)

	d.order("a2", map[string]docstore.Value{"name": docstore.String("no status at all")})
	d.send("PUT", "/v1/analyses/a2", "").wants(t, 200, `{"analysis_id":"a2","created":false}`)
	d.send("PUT", "/v1/analyses/a%2Fb", "").refuses(t, 400, "INVALID_ARGUMENT", "analysis_id")

	// A document in the body would be lost without a word.
	d.send("PUT", "/v1/analyses/a3", `{"title":"x"}`).refuses(t, 400, "INVALID_ARGUMENT", "body")
	d.get("/v1/analyses/a3").refuses(t, 404, "NOT_FOUND", "analysis_id")
}

func TestFailedAnalysis(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", map[string]docstore.Value{"name": docstore.String("no status at all")})
	d.post(a1+"/lock", `{"owner_id":"w","request_id":"r1"}`)
	d.post(a1+"/finish", `{"owner_id":"w","fencing_token":1,"status":"FAILED","failure_reason":"no such file"}`).wants(
		t, 200,
		`{"analysis_id":"a1","status":"FAILED","replayed":false}`)
	d.get(a1).wants(t, 200,
		`{"analysis_id":"a1","status":"FAILED","finished":true,"locked":false,"runs":0,"failures":1,"failure_reason":"no such file",
		"finished_at":"2026-01-01T00:00:00.000Z"}`)
	d.post(a1+"/lock", `{"owner_id":"w","request_id":"r2"}`).wants(
		t, 200,
		`{"analysis_id":"a1","acquired":false,"reason":"already_finished","status":"FAILED","failure_reason":"no such file"}`)
}

func TestAnalysisRefusals(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, id := range []string{"held", "released", "followed", "finished"} {
		d.order(id, nil)
		d.post("/v1/analyses/"+id+"/lock", `{"owner_id":"ann","request_id":"r1","ttl_seconds":10}`)
	}
	d.post("/v1/analyses/released/release", `{"owner_id":"ann","fencing_token":1}`)
	d.post("/v1/analyses/followed/release", `{"owner_id":"ann","fencing_token":1}`)
	d.post("/v1/analyses/followed/lock", `{"owner_id":"ann","request_id":"r2","ttl_seconds":10}`)
	d.post("/v1/analyses/finished/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY"}`)
	look := func() string {
		var all []string
		for _, id := range []string{"held", "released", "followed", "finished"} {
			all = append(all, d.get("/v1/analyses/"+id).raw)
		}
		return strings.Join(all, "")
	}
	before := look()
	for _, c := range []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"lock of none", "none/lock", `{"owner_id":"ann","request_id":"r1"}`, 404, "NOT_FOUND"},
		{"refresh of none", "none/refresh", `{"owner_id":"ann","fencing_token":1}`, 404, "NOT_FOUND"},
		{"release of none", "none/release", `{"owner_id":"ann","fencing_token":1}`, 404, "NOT_FOUND"},
		{"finish of none", "none/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY"}`, 404, "NOT_FOUND"},
		{"refresh by another", "held/refresh", `{"owner_id":"bob","fencing_token":1}`, 403, "NOT_OWNER"},
		{"release by another", "held/release", `{"owner_id":"bob","fencing_token":1}`, 403, "NOT_OWNER"},
		{"finish by another", "held/finish", `{"owner_id":"bob","fencing_token":1,"status":"FAILED","failure_reason":"x"}`,
			403, "NOT_OWNER"},
		{"refresh with an old token", "followed/refresh", `{"owner_id":"ann","fencing_token":1}`, 409, "LEASE_LOST"},
		{"release with an old token", "followed/release", `{"owner_id":"ann","fencing_token":1}`, 409, "LEASE_LOST"},
		{"finish with an old token", "followed/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY"}`,
			409, "LEASE_LOST"},
		{"refresh with a token of the future", "held/refresh", `{"owner_id":"ann","fencing_token":2}`, 409, "LEASE_LOST"},
		{"refresh after release", "released/refresh", `{"owner_id":"ann","fencing_token":1}`, 409, "LEASE_RELEASED"},
		{"finish after release", "released/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY"}`, 409,
			"LEASE_RELEASED"},
		{"refresh after finish", "finished/refresh", `{"owner_id":"ann","fencing_token":1}`, 409, "LEASE_RELEASED"},
		{"lock with another ttl", "held/lock", `{"owner_id":"ann","request_id":"r1","ttl_seconds":11}`, 422,
			"REQUEST_ID_REUSED"},
		{"lock again after release", "released/lock", `{"owner_id":"ann","request_id":"r1","ttl_seconds":10}`, 422,
			"REQUEST_ID_REUSED"},
		{"release with a reason after release", "released/release",
			`{"owner_id":"ann","fencing_token":1,"failure_reason":"x"}`, 409, "LEASE_RELEASED"},
		{"release with a reason after finish", "finished/release",
			`{"owner_id":"ann","fencing_token":1,"failure_reason":"x"}`, 409, "ALREADY_FINISHED"},
		{"finish with another result", "finished/finish",
			`{"owner_id":"ann","fencing_token":1,"status":"READY","result":"x"}`, 409, "ALREADY_FINISHED"},
		{"finish otherwise", "finished/finish", `{"owner_id":"ann","fencing_token":1,"status":"FAILED","failure_reason":"x"}`,
			409, "ALREADY_FINISHED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			field := ""
			if c.status == 404 {
				field = "analysis_id" // and not the path
			}
			d.post("/v1/analyses/"+c.target, c.body).refuses(t, c.status, c.code, field)
		})
	}
	d.get("/v1/analyses/none").refuses(t, 404, "NOT_FOUND", "analysis_id")
	if after := look(); after != before {
		t.Errorf("refusals changed something:\nbefore %s\nafter  %s", before, after)
	}
	d.clock.Advance(10 * time.Second)
	d.post("/v1/analyses/held/refresh", `{"owner_id":"ann","fencing_token":1}`).refuses(t, 409, "LEASE_EXPIRED", "")
	if d.get("/v1/analyses/held").body["locked"] != false {
		t.Error("at expires_at the analysis is still locked")
	}
	if a := d.post("/v1/analyses/held/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY"}`); a.status != 200 {
		t.Errorf("a late finish without another run: %d %s", a.status, a.raw)
	}
}

// TestBadAnalysisInput: each names the field, and nothing is changed.
func TestBadAnalysisInput(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", nil)
	d.post(a1+"/lock", `{"owner_id":"ann","request_id":"r0","ttl_seconds":60}`)
	before := d.get(a1).raw
	const (
		ok   = `"owner_id":"ann","request_id":"r1"`
		held = `"owner_id":"ann","fencing_token":1`
	)
	large := strings.Repeat("x", analysis.MaxResultBytes+1)
	for _, c := range []struct {
		name, target, body string
		status             int
		field              string
	}{
		{"retry without a reason", "a1/retry", `{"request_id":"r1","owner_id":"root"}`, 400, "reason"},
		{"retry with an empty reason", "a1/retry", `{"request_id":"r1","owner_id":"root","reason":""}`, 400, "reason"},
		{"retry with a long reason", "a1/retry", `{"request_id":"r1","owner_id":"root","reason":"` + large[:513] + `"}`, 400,
			"reason"},
		{"retry with no time", "a1/retry", `{"request_id":"r1","owner_id":"root","reason":"x","finished_at":"yesterday"}`,
			400, "finished_at"},
		{"retry without a request_id", "a1/retry", `{"owner_id":"root","reason":"x"}`, 400, "request_id"},
		{"retry without an owner_id", "a1/retry", `{"request_id":"r1","reason":"x"}`, 400, "owner_id"},
		{"retry by no text", "a1/retry", `{"request_id":"r1","owner_id":"(unreadable)","reason":"x"}`, 400, "owner_id"},
		{"no body", "a1/lock", ``, 400, "body"},
		{"not JSON", "a1/lock", `request_id=r1`, 400, "body"},
		{"cut off", "a1/lock", `{"request_id":`, 400, "body"},
		{"a list", "a1/lock", `[]`, 400, "body"},
		{"null", "a1/lock", `null`, 400, "body"},
		{"unknown", "a1/lock", `{` + ok + `,"color":"red"}`, 400, "color"},
		{"spelled as in the document", "a1/lock", `{` + ok + `,"ttlSec":5}`, 400, "ttlSec"},
		{"given twice", "a1/lock", `{` + ok + `,"ttl_seconds":5,"ttl_seconds":5}`, 400, "ttl_seconds"},
		{"ttl_seconds 0", "a1/lock", `{` + ok + `,"ttl_seconds":0}`, 400, "ttl_seconds"},
		{"ttl_seconds negative", "a1/lock", `{` + ok + `,"ttl_seconds":-1}`, 400, "ttl_seconds"},
		{"ttl_seconds too long", "a1/lock", `{` + ok + `,"ttl_seconds":86401}`, 400, "ttl_seconds"},
		{"ttl_seconds a fraction", "a1/lock", `{` + ok + `,"ttl_seconds":1.5}`, 400, "ttl_seconds"},
		{"ttl_seconds text", "a1/lock", `{` + ok + `,"ttl_seconds":"300"}`, 400, "ttl_seconds"},
		{"ttl_seconds null", "a1/lock", `{` + ok + `,"ttl_seconds":null}`, 400, "ttl_seconds"},
		{"ttl_seconds 0 at a refresh", "a1/refresh", `{` + held + `,"ttl_seconds":0}`, 400, "ttl_seconds"},
		{"no request_id", "a1/lock", `{"owner_id":"ann"}`, 400, "request_id"},
		{"request_id a number", "a1/lock", `{"owner_id":"ann","request_id":1}`, 400, "request_id"},
		{"request_id too long", "a1/lock", `{"owner_id":"ann","request_id":"` + large[:129] + `"}`, 400, "request_id"},
		{"no owner_id", "a1/lock", `{"request_id":"r1"}`, 400, "owner_id"},
		{"owner_id null", "a1/lock", `{"request_id":"r1","owner_id":null}`, 400, "owner_id"},
		{"owner_id too long", "a1/lock", `{"request_id":"r1","owner_id":"` + large[:257] + `"}`, 400, "owner_id"},
		{"owner_id with a line break", "a1/lock", `{"request_id":"r1","owner_id":"a\nb"}`, 400, "owner_id"},
		{"no fencing_token", "a1/refresh", `{"owner_id":"ann"}`, 400, "fencing_token"},
		{"fencing_token 0", "a1/release", `{"owner_id":"ann","fencing_token":0}`, 400, "fencing_token"},
		{"fencing_token text", "a1/release", `{"owner_id":"ann","fencing_token":"1"}`, 400, "fencing_token"},
		{"fencing_token beyond 2^53", "a1/release", `{"owner_id":"ann","fencing_token":9007199254740993}`,
			400, "fencing_token"},
		{"a failure without a reason", "a1/release", `{` + held + `,"failure_reason":""}`, 400, "failure_reason"},
		{"failure_reason null", "a1/release", `{` + held + `,"failure_reason":null}`, 400, "failure_reason"},
		{"failure_reason too long", "a1/release", `{` + held + `,"failure_reason":"` + large[:1025] + `"}`, 400,
			"failure_reason"},
		{"no status", "a1/finish", `{` + held + `}`, 400, "status"},
		{"another status", "a1/finish", `{` + held + `,"status":"DONE"}`, 400, "status"},
		{"status in small letters", "a1/finish", `{` + held + `,"status":"ready"}`, 400, "status"},
		{"status null", "a1/finish", `{` + held + `,"status":null}`, 400, "status"},
		{"result of FAILED", "a1/finish", `{` + held + `,"status":"FAILED","result":"x"}`, 400, "result"},
		{"reason of READY", "a1/finish", `{` + held + `,"status":"READY","failure_reason":"x"}`, 400, "failure_reason"},
		{"empty reason of READY", "a1/finish", `{` + held + `,"status":"READY","failure_reason":""}`, 400, "failure_reason"},
		{"result too large", "a1/finish", `{` + held + `,"status":"READY","result":"` + large + `"}`, 400, "result"},
		{"result an object", "a1/finish", `{` + held + `,"status":"READY","result":{"a":1}}`, 400, "result"},
		{"result null", "a1/finish", `{` + held + `,"status":"READY","result":null}`, 400, "result"},
		{"no ID", "/lock", `{` + ok + `}`, 400, "analysis_id"},
		{"a path", "a%2Fb/lock", `{` + ok + `}`, 400, "analysis_id"},
		{"a folder", "%2E%2E/lock", `{` + ok + `}`, 400, "analysis_id"},
		{"a control character", "a%00b/lock", `{` + ok + `}`, 400, "analysis_id"},
		{"a long ID", large[:257] + "/lock", `{` + ok + `}`, 400, "analysis_id"},
		{"1 MB", "a1/lock", `{` + ok + `,"ttl_seconds":` + strings.Repeat(" ", 1<<20) + `5}`, 413, ""},
		{"2 MB result", "a1/finish", `{` + held + `,"status":"READY","result":"` + strings.Repeat("x", 2<<20) + `"}`, 413,
			""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code := "INVALID_ARGUMENT"
			if c.status == 413 {
				code = "PAYLOAD_TOO_LARGE"
			}
			a := d.post("/v1/analyses/"+c.target, c.body)
			a.refuses(t, c.status, code, c.field)
			if detail, _ := a.body["detail"].(string); detail == "" || len(detail) > 400 {
				t.Errorf("detail of %d bytes: %.100q", len(detail), detail)
			}
		})
	}
	if after := d.get(a1).raw; after != before {
		t.Errorf("bad input changed something:\nbefore %s\nafter  %s", before, after)
	}
}

// TestLargestResult fits also when every byte is escaped, and whoever comes later gets it. One that is larger is refused
// with the bound, or as a body that no result can have.
func TestLargestResult(t *testing.T) {
	const most = analysis.MaxResultBytes
	d := open(t, httpapi.Development{})
	d.order("a1", nil)
	for _, c := range []struct{ path, begin, want string }{
		{a1, "/lock", `{"analysis_id":"a1","status":"READY","replayed":false}`},
		{"/v1/tenants/acme/runs/r1", "/begin", `{"run_id":"r1","status":"READY","replayed":false}`},
	} {
		token, _ := d.post(c.path+c.begin, `{"owner_id":"ann","request_id":"r0"}`).body["fencing_token"].(float64)
		finish := func(result string) answer {
			return d.post(c.path+"/finish", fmt.Sprintf(
				`{"owner_id":"ann","fencing_token":%d,"status":"READY","result":"%s"}`, int64(token), result))
		}
		a := finish(strings.Repeat(`x`, most+1))
		a.refuses(t, 400, "INVALID_ARGUMENT", "result")
		if detail, _ := a.body["detail"].(string); !strings.Contains(detail, "has 262145 bytes, 262144 at most") {
			t.Error(detail)
		}
		finish(strings.Repeat(`x`, 10*most)).refuses(t, 413, "PAYLOAD_TOO_LARGE", "")
		finish(strings.Repeat(`\u0001`, most)).wants(t, 200, c.want)
		for name, a := range map[string]answer{
			"read":  d.get(c.path),
			"begun": d.post(c.path+c.begin, `{"owner_id":"bob","request_id":"r1"}`),
		} {
			if got, _ := a.body["result"].(string); got != strings.Repeat("\x01", most) {
				t.Errorf("%s, %s: %d bytes came back", c.path, name, len(got))
			}
		}
	}
}

func TestAnalysisPaths(t *testing.T) {
	d := open(t, httpapi.Development{})
	for _, c := range []struct{ method, target, allow string }{
		{"GET", a1 + "/lock", "POST"},
		{"DELETE", a1, "GET, HEAD, PUT"},
		{"POST", a1, "GET, HEAD, PUT"},
	} {
		a := d.send(c.method, c.target, "")
		a.refuses(t, 405, "METHOD_NOT_ALLOWED", "")
		if got := a.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.target, got, c.allow)
		}
	}
	d.get("/v1/analyses/").refuses(t, 400, "INVALID_ARGUMENT", "analysis_id")
	d.post(a1+"/steal", `{}`).refuses(t, 404, "NOT_FOUND", "")
}

// TestStrangeDocuments: what others have written is taken as it is where that is safe, and refused by name where it is
// not.
func TestStrangeDocuments(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", map[string]docstore.Value{
		"status": docstore.String("処理中"), "lockOwner": docstore.String("old"), "lockExpiresAt": docstore.String("soon"),
	})
	d.get(a1).wants(t, 200,
		`{"analysis_id":"a1","status":"処理中","finished":false,"locked":true,"owner_id":"old","runs":0,"failures":0}`)
	d.post(a1+"/lock", `{"owner_id":"ann","request_id":"r1"}`).refuses(t, 409, "LOCK_UNREADABLE", "")
	d.order("a1", map[string]docstore.Value{"lockExpiresAt": docstore.String("2025-12-31T23:59:59+00:00")})
	if a := d.post(a1+"/lock", `{"owner_id":"ann","request_id":"r1"}`); a.body["acquired"] != true {
		t.Errorf("stale: %s", a.raw)
	}
	for name, fields := range map[string]map[string]docstore.Value{
		"a status that is no text":    {"status": docstore.Int(1)},
		"a token that is no number":   {"lockToken": docstore.String("1")},
		"a counter that is no number": {"lockRuns": docstore.String("many")},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, httpapi.Development{})
			d.order("a1", fields)
			for _, a := range []answer{d.post(a1+"/lock", `{"owner_id":"ann","request_id":"r1"}`), d.get(a1)} {
				a.refuses(t, 500, "DOCUMENT_DAMAGED", "")
				for field := range fields {
					if detail, _ := a.body["detail"].(string); strings.Contains(detail, field) ||
						!strings.Contains(d.log.String(), `field \"`+field) {
						t.Errorf("the field belongs into the log and not into the answer: %s", a.raw)
					}
				}
			}
		})
	}
	t.Run("of a lock", func(t *testing.T) {
		d := open(t, httpapi.Development{})
		d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`)
		w := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy-prod"},
			Set: map[string]docstore.Value{"token": docstore.String("1")}}
		if _, err := d.store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		d.get(deploy).refuses(t, 500, "DOCUMENT_DAMAGED", "")

		// It keeps no other from being listed, and is listed itself.
		d.post("/v1/tenants/acme/locks/z/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`)
		d.log.Reset()
		a := d.get("/v1/tenants/acme/locks?state=ACTIVE&page_size=2")
		unreadable, _ := json.Marshal(a.body["unreadable"])
		if a.status != 200 || string(unreadable) != `[{"code":"DOCUMENT_DAMAGED","lock_key":"deploy-prod"}]` ||
			!strings.Contains(a.raw, `"lock_key":"z"`) {
			t.Errorf("the list: %d %s", a.status, a.raw)
		}
		if log := d.log.String(); strings.Count(log, "documents of a list cannot be read") != 1 ||
			!strings.Contains(log, `field \"token\"`) {
			t.Errorf("the log: %s", log)
		}
	})
}

// TestRetryAnalysis: a FAILED analysis runs again, once for each request; nothing else can be retried.
func TestRetryAnalysis(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", nil)
	const again = `{"request_id":"t1","owner_id":"root","reason":"the model is fixed"}`
	refused := func(detail string) {
		t.Helper()
		before := d.get(a1).raw
		a := d.post(a1+"/retry", again)
		a.refuses(t, 409, "NOT_FAILED", "")
		if a.body["detail"] != detail || d.get(a1).raw != before {
			t.Errorf("%s, and then %s", a.raw, d.get(a1).raw)
		}
	}
	refused("the analysis is not FAILED: it waits to run")
	fail := func(token int) {
		t.Helper()
		d.post(a1+"/lock", fmt.Sprintf(`{"owner_id":"w","request_id":"r%d"}`, token))
		d.post(a1+"/finish", fmt.Sprintf(`{"owner_id":"w","fencing_token":%d,"status":"FAILED","failure_reason":"no model"}`,
			token)).
			wants(t, 200, `{"analysis_id":"a1","status":"FAILED","replayed":false}`)
	}
	fail(1)
	d.clock.Advance(time.Hour)
	const retry = `{"by":"root","reason":"the model is fixed","at":"2026-01-01T01:00:00.000Z"}`
	d.post(a1+"/retry", again).wants(t, 200, `{"analysis_id":"a1","status":"PENDING","retry":`+retry+`,"replayed":false}`)
	d.post(a1+"/retry", again).wants(t, 200, `{"analysis_id":"a1","status":"PENDING","retry":`+retry+`,"replayed":true}`)
	d.get(a1).wants(t, 200, `{"analysis_id":"a1","status":"PENDING","finished":false,"locked":false,"runs":0,"failures":0,
		"failure_reason":"no model","retry":`+retry+`}`)
	d.post(a1+"/retry", strings.Replace(again, "fixed", "new", 1)).refuses(t, 422, "REQUEST_ID_REUSED", "")
	d.post(a1+"/retry", strings.Replace(again, "t1", "t2", 1)).refuses(t, 409, "NOT_FAILED", "")
	fail(3) // the second token is the retry's
	d.post(a1+"/retry", again).wants(t, 200, `{"analysis_id":"a1","status":"FAILED","retry":`+retry+`,"replayed":true}`)

	named := func(request, at string) string {
		return fmt.Sprintf(`{"request_id":%q,"owner_id":"root","reason":"the model is fixed","finished_at":%q}`, request, at)
	}
	d.post(a1+"/retry", named("t3", "2026-01-01T00:00:00.000Z")).refuses(t, 409, "END_CHANGED", "")
	if a := d.post(a1+"/retry", named("t3", "2026-01-01T01:00:00.000Z")); a.body["status"] != "PENDING" {
		t.Errorf("of this failure: %s", a.raw)
	}
	d.post(a1+"/lock", `{"owner_id":"w","request_id":"r9"}`)
	running := d.post(a1+"/retry", strings.Replace(again, "t1", "t4", 1))
	if running.body["detail"] != "the analysis is not FAILED: a worker runs it, or did until its lock expired" {
		t.Errorf("running: %s", running.raw)
	}
	d.post(a1+"/finish", `{"owner_id":"w","fencing_token":5,"status":"READY"}`)
	d.post(a1+"/retry", strings.Replace(again, "t1", "t4", 1)).refuses(t, 409, "NOT_FAILED", "")
	d.post("/v1/analyses/none/retry", again).refuses(t, 404, "NOT_FOUND", "analysis_id")

	// A document in which another writer has changed what the server wrote.
	d.order("a1", map[string]docstore.Value{"lockRetriedAt": docstore.String("yesterday"),
		"lockFinishedAt": docstore.Int(1)})
	d.get(a1).wants(t, 200, `{"analysis_id":"a1","status":"READY","finished":true,"locked":false,"runs":0,"failures":0}`)

	d.serve(verified{caller: httpapi.Caller{Subject: "root", Tenant: "acme", Rights: httpapi.Operate}}, d.store)
	d.order("a2", map[string]docstore.Value{"status": docstore.String("FAILED")})
	d.post("/v1/analyses/a2/retry", `{"request_id":"t1","reason":"x"}`).wants(t, 200,
		`{"analysis_id":"a2","status":"PENDING","retry":{"by":"root","reason":"x","at":"2026-01-01T01:00:00.000Z"},"replayed":false}`)
}

// TestListAnalyses: pages by prefix and status, of which all together show each analysis once. What cannot be read is
// shown as such.
func TestListAnalyses(t *testing.T) {
	d := open(t, httpapi.Development{})
	for id, status := range map[string]string{"a/1": "FAILED", "a1": "PENDING", "a2": "FAILED", "a3": "READY",
		"a4": "queued", "b1": "FAILED", "ü": "FAILED"} {
		d.order(id, map[string]docstore.Value{"status": docstore.String(status)})
	}
	d.order("a5", map[string]docstore.Value{"status": docstore.Int(7)})
	d.order("a6", map[string]docstore.Value{"title": docstore.String("no status at all"),
		"lockRuns": docstore.String("many")})
	d.order("a7", map[string]docstore.Value{"status": docstore.String("PENDING"), "lockOwner": docstore.String("w"),
		"lockExpiresAt": docstore.String("soon")})
	d.log.Reset()
	walk := func(query string) (shown, unreadable string) {
		t.Helper()
		var ids, others []string
		for token := ""; ; {
			q := query
			if token != "" {
				q += "&page_token=" + token
			}
			a := d.get("/v1/analyses?" + q)
			if a.status != 200 || strings.Contains(a.raw, "fencing_token") {
				t.Fatalf("%s: %d %s", q, a.status, a.raw)
			}
			for _, l := range a.body["analyses"].([]any) {
				ids = append(ids, l.(map[string]any)["analysis_id"].(string))
			}
			list, _ := a.body["unreadable"].([]any)
			for _, l := range list {
				others = append(others, fmt.Sprint(l.(map[string]any)["analysis_id"], ":", l.(map[string]any)["code"]))
			}
			if token, _ = a.body["next_page_token"].(string); token == "" {
				return strings.Join(ids, " "), strings.Join(others, " ")
			}
		}
	}
	const (
		damaged = "a5:DOCUMENT_DAMAGED a6:DOCUMENT_DAMAGED"
		slash   = "a/1:INVALID_ARGUMENT " + damaged // a name that no command can have
	)
	for query, want := range map[string][2]string{
		"":                          {"a1 a2 a3 a4 a7 b1 ü", slash},
		"page_size=1":               {"a1 a2 a3 a4 a7 b1 ü", slash},
		"page_size=3":               {"a1 a2 a3 a4 a7 b1 ü", slash},
		"status=FAILED":             {"a2 b1 ü", slash},
		"status=FAILED&page_size=1": {"a2 b1 ü", slash},
		"status=queued&prefix=a4":   {"a4", ""},
		"status=LOST":               {"", slash},
		"status=LOST&page_size=1":   {"", slash},
		"prefix=a":                  {"a1 a2 a3 a4 a7", slash},
		"prefix=b":                  {"b1", ""},
		"prefix=%C3%BC":             {"ü", ""},
		"prefix=%25":                {"", ""},
		"state=FAILED":              {"a2 b1 ü", slash},
		"state=RUNNING":             {"a7", slash},
		"state=STALE&prefix=a":      {"", slash},
		"urgent=true":               {"a2 b1 ü", slash},
		"urgent=true&prefix=a7":     {"", ""},
		"owner_id=w":                {"a7", slash},
		"owner_id=W":                {"", slash},
	} {
		if shown, unreadable := walk(query); shown != want[0] || unreadable != want[1] {
			t.Errorf("%s: got %q and %q\nwant %q", query, shown, unreadable, want)
		}
	}
	if log := d.log.String(); !strings.Contains(log, `field \"status`) || !strings.Contains(log, `field \"lockRuns`) {
		t.Errorf("the log does not name the fields: %s", log)
	}
	d.get("/v1/analyses?prefix=a7").wants(t, 200,
		`{"analyses":[{"analysis_id":"a7","status":"PENDING","finished":false,"locked":true,"owner_id":"w",
		"runs":0,"failures":0}],"counts":{"documents":1,"running":1,"stale":0,"failed":0,"pending":0,"ready":0}}`)
	for query, field := range map[string]string{
		"page_size=0": "page_size", "page_size=1001": "page_size", "page_size=x": "page_size", "page_token=%21": "page_token",
		"state=failed": "state", "urgent=yes": "urgent", "locked=true": "locked",
		"status=%00": "status", "status=A&status=B": "status", "prefix=" + strings.Repeat("x", 257): "prefix",
	} {
		d.get("/v1/analyses?"+query).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
}

// TestLockOwnerComesFromIdentity: LS-AUTH-001 holds for analyses.
func TestLockOwnerComesFromIdentity(t *testing.T) {
	for i, c := range []struct{ subject, sent, want string }{
		{"svc", ``, "svc"},
		{"svc", `,"owner_id":"host-1"`, "svc#host-1"},
		{"svc", `,"owner_id":"svc"`, "svc"},
		{"svc", `,"owner_id":"svc#host-1"`, "svc#host-1"},
		{"svc#host-1", ``, "svc%23host-1"},
		{"svc#host-1", `,"owner_id":"svc%23host-1#x"`, "svc%23host-1#x"},
	} {
		t.Run(fmt.Sprint(i, c.subject, c.sent), func(t *testing.T) {
			d := open(t, verified{caller: httpapi.Caller{Subject: c.subject, Rights: httpapi.Worker}})
			d.order("a1", nil)
			a := d.post(a1+"/lock", `{"request_id":"r1"`+c.sent+`}`)
			owner, _ := a.body["owner_id"].(string)
			if owner != c.want {
				t.Fatalf("%d %s, want the owner %q", a.status, a.raw, c.want)
			}
			// What was granted can be sent back, and so can what was sent.
			sent, _ := json.Marshal(owner)
			for _, again := range []string{c.sent, `,"owner_id":` + string(sent)} {
				if a := d.post(a1+"/refresh", `{"fencing_token":1`+again+`}`); a.status != 200 || a.body["owner_id"] != c.want {
					t.Errorf("refresh with %s: %d %s", again, a.status, a.raw)
				}
			}
		})
	}
	d := open(t, verified{caller: httpapi.Caller{Subject: "svc", Rights: httpapi.Worker}})
	d.order("a1", nil)
	for _, owner := range []string{"other#host-1", "a b", "ä", "svc#", "svc#a#b", strings.Repeat("x", 65)} {
		a := d.post(a1+"/lock", `{"request_id":"r1","owner_id":"`+owner+`"}`)
		if owner == "svc#" { // no suffix
			if a.body["owner_id"] != "svc" {
				t.Errorf("%q: %s", owner, a.raw)
			}
			d.post(a1+"/release", `{"fencing_token":1}`)
			continue
		}
		a.refuses(t, 400, "INVALID_ARGUMENT", "owner_id")
	}
}

// TestAnalysisLogsKeepSecrets: neither tokens nor request IDs nor what an analysis says.
func TestAnalysisLogsKeepSecrets(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.order("a1", nil)
	d.post(a1+"/lock", `{"owner_id":"ann","request_id":"plain-request"}`)
	d.post(a1+"/refresh", `{"owner_id":"ann","fencing_token":777777}`)
	d.post(a1+"/finish", `{"owner_id":"ann","fencing_token":1,"status":"READY","result":"secret-result"}`)
	if log := d.log.String(); strings.Contains(log, "secret") || strings.Contains(log, "777777") ||
		!strings.Contains(log, `"path":"`+a1+`/finish"`) {
		t.Errorf("log: %s", log)
	}
}

// FuzzAnalysisBody sends any bytes as the body of each command: they are refused with a reason, and then nothing was
// changed, or are what the contract allows. Open's handler holds both against the contract.
func FuzzAnalysisBody(f *testing.F) {
	for i, seed := range []string{
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`,
		`{"fencing_token":1,"owner_id":"ann"}`,
		`{"fencing_token":1,"owner_id":"ann","failure_reason":"x"}`,
		`{"fencing_token":1,"owner_id":"ann","status":"READY","result":"x"}`,
		`{"fencing_token":1,"owner_id":"ann","status":"FAILED","failure_reason":null}`,
		`{"fencing_token":1,"owner_id":"ann","failure_reason":"\ud800"}`,
		`{"fencing_token":1e0,"owner_id":"ann"}`, `{"request_id":"r1","owner_id":"root","reason":"again"}`, `[[[[`,
		`{"a":1,"a":2}`, "\xff", ``, `null`, `{}`,
	} {
		f.Add(uint8(i), []byte(seed))
	}
	contracttest.Handler(f, nil) // as in FuzzBody
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		target := []string{"/lock", "/refresh", "/release", "/finish", "/retry"}[which%5]
		d := open(t, httpapi.Development{})
		d.order("a1", nil)
		if target == "/retry" {
			d.order("a1", map[string]docstore.Value{"status": docstore.String("FAILED")})
		} else if target != "/lock" {
			d.post(a1+"/lock", `{"request_id":"r0","owner_id":"ann"}`)
		}
		before := d.get(a1).raw
		a := d.post(a1+target, string(body))
		switch a.status {
		case 200:
			if !json.Valid(body) {
				t.Errorf("accepted %q", body)
			}
		case 400, 403, 409, 413:
			if name, _ := a.body["field"].(string); a.status == 400 && name == "" || d.get(a1).raw != before {
				t.Errorf("refused %q without a field, or changed something: %s", body, a.raw)
			}
			if !utf8.ValidString(a.raw) {
				t.Errorf("the answer is not UTF-8: %q", a.raw)
			}
		default:
			t.Errorf("%q: %d %s", body, a.status, a.raw)
		}
	})
}
