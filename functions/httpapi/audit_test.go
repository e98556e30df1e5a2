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
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
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

// TestAudit: grants, changes of rights and rejected callers leave an event that says who, what, whose and why; nothing
// else does.
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
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`,
			by("ann", "lock.acquire", "ok", deploy+"/acquire", "owner", "ann")},
		{root, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, nil}, // held
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1"`, nil},
		{ann, nil, "POST", deploy + "/renew", `{"request_id":"n1","fencing_token":1,"ttl_seconds":30}`, nil},
		{ann, nil, "GET", deploy, "", nil},
		{ann, nil, "GET", "/healthz", "", nil},
		{ann, nil, "POST", deploy + "/force-release", `{"request_id":"f1","reason":"stuck"}`,
			by("ann", "lock.force_release", "PERMISSION_DENIED",
				deploy+"/force-release", "reason", "ending another owner's lease needs the administrator's scope")},
		{root, nil, "POST", deploy + "/force-release", `{"request_id":"f1","reason":"stuck"}`,
			by("root", "lock.force_release", "ok",
				deploy+"/force-release", "owner", "ann", "reason", "stuck")},
		{ann, nil, "GET", rival, "", by("ann", "GET "+rival, "PERMISSION_DENIED", rival, "reason",
			`your token is for tenant "acme", the path for tenant "acmf"`)},
		{ann, fmt.Errorf("%w: the token expired", httpapi.ErrUnauthenticated), "GET", deploy, "", map[string]any{
			"action": "GET " + deploy, "outcome": "UNAUTHENTICATED", "path": deploy,
			"reason": "unauthenticated: the token expired",
		}},
		{ann, nil, "PUT", "/v1/analyses/a1", "", nil},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w1","request_id":"r1"}`,
			by("ann", "analysis.lock", "ok", "/v1/analyses/a1/lock", "owner", "ann#w1")},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w2","request_id":"r2"}`, nil},    // skipped
		{root, nil, "POST", "/v1/analyses/a1/retry", `{"request_id":"t1","reason":"fixed"}`, nil}, // not FAILED
		{ann, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("ann", "analysis.retry", "PERMISSION_DENIED",
				"/v1/analyses/a2/retry", "reason", "retrying an analysis needs the administrator's scope")},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry",
				"reason", "fixed", "replayed", false)},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry",
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
	if len(e) != 1 || e[0]["action"] != "machine_ids.lease" || e[0]["leases"] != 2. ||
		len(fmt.Sprint(e[0]["forwarded_for"])) > 70 {
		t.Errorf("machine IDs: %v", e)
	}
}

// TestRejectionsAreLogged: the log says of every rejected request who sent it, from where, and why, and nothing that is
// secret.
func TestRejectionsAreLogged(t *testing.T) {
	ann := verified{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", MachineIDs: true}}
	const body = `{"request_id":"r1","ttl_seconds":30,"metadata":{"a":"s3cret-label"}}`
	other := func(key string) string { return "/v1/tenants/acme/locks/" + key }
	broken := func(d *api) docstore.Store { return &probed{Store: d.store, err: docstore.ErrUnavailable} }
	counted := func(d *api) docstore.Store {
		if _, err := d.store.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: census.TallyKind, ID: "locks/acme"}, Set: docstore.Doc{"count": docstore.Int(1)},
		}); err != nil {
			t.Fatal(err)
		}
		return d.store
	}
	for _, c := range []struct {
		name               string
		identity           httpapi.Identity
		limits             httpapi.Limits
		store              func(*api) docstore.Store // nil: that of the test
		method, path, body string
		before             int // how often it is sent before
		status             int
		code, level        string
		why                string // of the audit event, or of the line
	}{
		{name: "unknown", identity: verified{err: httpapi.Unauthenticated("the token has expired")}, method: "POST",
			path: deploy + "/acquire", body: body,
			status: 401, code: "UNAUTHENTICATED", level: "INFO", why: "the token has expired"},
		{name: "not admitted", identity: verified{err: fmt.Errorf("%w: a scope is missing", httpapi.ErrForbidden)},
			method: "GET", path: deploy,
			status: 403, code: "PERMISSION_DENIED", level: "INFO", why: "a scope is missing"},
		{name: "cannot be verified", identity: verified{err: errors.New("no keys")}, method: "GET", path: deploy,
			status: 503, code: "UNAVAILABLE", level: "ERROR", why: "the caller could not be verified just now; try again"},
		{name: "another tenant", method: "GET", path: "/v1/tenants/acmf/locks/k", status: 403, code: "PERMISSION_DENIED",
			level: "INFO", why: `your token is for tenant "acme"`},
		{name: "no administrator", method: "POST", path: deploy + "/force-release", body: `{"request_id":"f1","reason":"x"}`,
			status: 403, code: "PERMISSION_DENIED", level: "INFO", why: "needs the administrator's scope"},
		{name: "no worker", method: "GET", path: "/v1/analyses/a1", status: 403, code: "PERMISSION_DENIED", level: "INFO",
			why: "the worker's scope"},
		{name: "a bad signature", method: "DELETE", path: "/v1/machine-ids/lease/{leased}",
			body: fmt.Sprintf(`{"serviceId":"default","signature":%q,"timestamp":%d}`, strings.Repeat("5e", 32),
				int64(1767225600000)),
			status: 403, code: "BAD_SIGNATURE", level: "INFO", why: "sign"},
		{name: "too fast", limits: httpapi.Limits{PerTenant: 1}, method: "POST", path: deploy + "/acquire",
			body: body, before: 2,
			status: 429, code: "RATE_LIMITED", level: "INFO", why: "your tenant sends more than 1 requests a second"},
		{name: "too many locks", store: counted, limits: httpapi.Limits{LocksPerTenant: 1}, method: "POST",
			path: other("second") + "/acquire", body: body,
			status: 429, code: "LOCK_LIMIT", level: "INFO", why: "the tenant has 1 locks"},
		{name: "too many machine IDs", method: "POST", path: "/v1/machine-ids/lease", body: `{"throughputPerMs":8192}`,
			before: 64,
			status: 429, code: "MACHINE_ID_LIMIT", level: "INFO", why: "your subject has 2048 leases"},
		{name: "too many at once", limits: httpapi.Limits{Concurrent: 1}, method: "GET", path: deploy,
			status: 503, code: "OVERLOADED", level: "WARN", why: "the server works on 1 requests"},
		{name: "no store", store: broken, method: "POST", path: other("new") + "/acquire", body: body,
			status: 503, code: "UNAVAILABLE", level: "ERROR", why: "send the same body again"},
		{name: "held", method: "POST", path: deploy + "/acquire", body: strings.Replace(body, "r1", "r2", 1), status: 409,
			code: "LOCK_HELD", level: "INFO"},
		{name: "bad input", method: "POST", path: deploy + "/acquire", body: `{"s3cret-field":1}`, status: 400,
			code: "INVALID_ARGUMENT", level: "INFO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, ann)
			if a := d.post(deploy+"/acquire", body); a.status != 200 {
				t.Fatal(a.raw)
			}
			path := strings.Replace(c.path, "{leased}", strconv.FormatInt(d.lease(`{}`)[0].ID, 10), 1)
			d.log.Reset()
			d.header.Set("Authorization", "Bearer s3cret-token")
			d.header.Set("X-Forwarded-For", "203.0.113.7")
			store, busy := d.store, &occupied{d.store, make(chan struct{}), make(chan struct{})}
			if c.code == "OVERLOADED" {
				store = busy
			}
			if c.store != nil {
				store = c.store(d)
			}
			if c.identity == nil {
				c.identity = ann
			}
			d.handler = httpapi.New(store, c.identity, &httpapi.Options{
				Log: slog.New(slog.NewJSONHandler(io.MultiWriter(d.log, distinct{t}), nil)), Limits: c.limits, Now: d.clock.Now,
				MachineIDs: machineid.NewDefault(d.store, &machineid.Options{}), Timeout: time.Minute,
			})
			for range c.before {
				d.send(c.method, path, c.body)
			}
			d.log.Reset()
			if store == busy {
				first := make(chan struct{})
				go func() {
					defer close(first)
					d.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+deploy,
						nil))
				}()
				<-busy.begun
				defer func() { close(busy.let); <-first }()
			}
			d.send(c.method, path, c.body).refuses(t, c.status, c.code,
				map[bool]string{true: "s3cret-field"}[c.name == "bad input"])

			line, event := map[string]any{}, map[string]any{}
			for text := range strings.Lines(d.log.String()) {
				var l map[string]any
				if err := json.Unmarshal([]byte(text), &l); err != nil {
					t.Fatal(err)
				}
				if audit, ok := l["audit"].(map[string]any); ok && l["msg"] == httpapi.AuditMessage && audit["outcome"] == c.code {
					event = audit
				} else if l["msg"] == "request" && l["outcome"] == c.code {
					line = l
				}
			}
			who := map[string]any{"remote": "192.0.2.1:1234", "forwarded_for": "203.0.113.7"}
			if c.identity == ann {
				who["subject"], who["caller_tenant"] = "ann", "acme"
			}
			why, _ := line["detail"].(string)
			if c.status == 401 || c.status == 403 {
				why, _ = event["reason"].(string)
				maps.DeleteFunc(event, func(k string, _ any) bool { return who[k] == nil })
				if !maps.Equal(event, who) {
					t.Errorf("the audit event says %v, want %v", event, who)
				}
			}
			if !strings.Contains(why, c.why) || line["level"] != c.level || line["path"] != path {
				t.Errorf("why: %q, want %q at %s: %s", why, c.why, c.level, d.log)
			}
			maps.DeleteFunc(line, func(k string, _ any) bool { return who[k] == nil })
			if !maps.Equal(line, who) {
				t.Errorf("the line says %v, want %v", line, who)
			}
			if strings.Contains(d.log.String(), "s3cret") || strings.Contains(d.log.String(), "1767225600000001") ||
				strings.Contains(d.log.String(), "5e5e5e") {
				t.Errorf("the log has a secret: %s", d.log)
			}
		})
	}
}

// occupied is a store whose first read lasts until it is let go.
type occupied struct {
	docstore.Store

	begun, let chan struct{}
}

func (o *occupied) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	close(o.begun)
	<-o.let
	return o.Store.Get(ctx, keys...)
}
