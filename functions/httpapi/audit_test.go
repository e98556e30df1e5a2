package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// audited returns the audit events of the log, and empties it.
func (d *api) audited(t *testing.T) (events []map[string]any) {
	t.Helper()
	for line := range strings.Lines(d.log.String()) {
		var l struct {
			Msg   string         `json:"msg"`
			Level string         `json:"level"`
			Audit map[string]any `json:"audit"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if l.Msg != httpapi.AuditMessage {
			continue
		}
		if request, _ := l.Audit["request"].(string); request == "" || l.Audit["remote"] != "192.0.2.1:1234" {
			t.Errorf("an event without a request or an address: %s", line)
		}
		if (l.Audit["outcome"] == "ok") != (l.Level == "INFO") {
			t.Errorf("level %s: %s", l.Level, line)
		}
		delete(l.Audit, "request")
		delete(l.Audit, "remote")
		events = append(events, l.Audit)
	}
	d.log.Reset()
	return events
}

// TestAudit: grants, changes of rights and rejected callers leave an event that says who, what, whose and why; nothing else does.
func TestAudit(t *testing.T) {
	ann := httpapi.Caller{Subject: "ann", Tenant: "acme", Worker: true, MachineIDs: true}
	root := httpapi.Caller{Subject: "root", Tenant: "acme", Admin: true}
	by := func(subject, action, outcome, path string, more ...any) map[string]any {
		e := map[string]any{"action": action, "outcome": outcome, "path": path, "subject": subject, "caller_tenant": "acme"}
		for i := 0; i < len(more); i += 2 {
			e[more[i].(string)] = more[i+1]
		}
		return e
	}
	d := open(t, verified{caller: ann})
	d.order("a2", map[string]docstore.Value{"status": docstore.String("FAILED")})
	const rival = "/v1/tenants/acmf/locks/k"
	for _, c := range []struct {
		caller             httpapi.Caller
		err                error
		method, path, body string
		want               map[string]any // nil: no event
	}{
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, by("ann", "lock.acquire", "ok", deploy+"/acquire", "owner", "ann")},
		{root, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, nil}, // held
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1"`, nil},
		{ann, nil, "POST", deploy + "/renew", `{"request_id":"n1","fencing_token":1,"ttl_seconds":30}`, nil},
		{ann, nil, "GET", deploy, "", nil},
		{ann, nil, "GET", "/healthz", "", nil},
		{ann, nil, "POST", deploy + "/force-release", `{"request_id":"f1","reason":"stuck"}`, by("ann", "lock.force_release", "PERMISSION_DENIED",
			deploy+"/force-release", "reason", "ending another owner's lease needs the administrator's scope")},
		{root, nil, "POST", deploy + "/force-release", `{"request_id":"f1","reason":"stuck"}`, by("root", "lock.force_release", "ok",
			deploy+"/force-release", "owner", "ann", "reason", "stuck")},
		{ann, nil, "GET", rival, "", by("ann", "GET "+rival, "PERMISSION_DENIED", rival, "reason", `your token is for tenant "acme", the path for tenant "acmf"`)},
		{ann, fmt.Errorf("%w: the token expired", httpapi.ErrUnauthenticated), "GET", deploy, "", map[string]any{
			"action": "GET " + deploy, "outcome": "UNAUTHENTICATED", "path": deploy, "reason": "unauthenticated: the token expired",
		}},
		{ann, nil, "PUT", "/v1/analyses/a1", "", nil},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w1","request_id":"r1"}`, by("ann", "analysis.lock", "ok", "/v1/analyses/a1/lock", "owner", "ann#w1")},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w2","request_id":"r2"}`, nil},    // skipped
		{root, nil, "POST", "/v1/analyses/a1/retry", `{"request_id":"t1","reason":"fixed"}`, nil}, // not FAILED
		{ann, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`, by("ann", "analysis.retry", "PERMISSION_DENIED",
			"/v1/analyses/a2/retry", "reason", "retrying an analysis needs the administrator's scope")},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`, by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry",
			"reason", "fixed", "replayed", false)},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`, by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry",
			"reason", "fixed", "replayed", true)},
		{root, nil, "GET", "/v1/analyses", "", nil},
	} {
		d.serve(verified{caller: c.caller, err: c.err}, d.store)
		d.send(c.method, c.path, c.body)
		got, want := d.audited(t), []map[string]any{c.want}
		if c.want == nil {
			want = nil
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s %s\ngot  %v\nwant %v", c.method, c.path, got, want)
		}
	}
	d.serve(verified{caller: ann}, d.store)
	d.header.Set("X-Forwarded-For", strings.Repeat("9", 1000))
	d.post("/v1/machine-ids/lease", `{"throughputPerMs":300}`)
	e := d.audited(t)
	if len(e) != 1 || e[0]["action"] != "machine_ids.lease" || e[0]["leases"] != 2. || len(fmt.Sprint(e[0]["forwarded_for"])) > 70 {
		t.Errorf("machine IDs: %v", e)
	}
}
