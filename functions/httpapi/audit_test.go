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
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// audited returns the audit events of the log, and empties it: without what differs from run to run, which it looks at.
func (d *api) audited(t *testing.T) (events []contracts.AuditEvent) {
	t.Helper()
	levels := map[string]string{}
	for line := range strings.Lines(d.log.String()) {
		var l struct {
			Level string               `json:"level"`
			Audit contracts.AuditEvent `json:"audit"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		levels[l.Audit.ID] = l.Level
	}
	for _, e := range contracttest.AuditEvents(t, d.log.String()) {
		if e.Remote != "192.0.2.1:1234" || e.Chosen.XRequestID == "" || e.Chosen.XRequestID == e.ID {
			t.Errorf("no address, or no request: %+v", e)
		}
		if (e.Outcome == "ok") != (levels[e.ID] == "INFO") {
			t.Errorf("level %s: %+v", levels[e.ID], e)
		}
		if e.Clock == "store" && e.At != "2026-01-01T00:00:00.000Z" { // that of the tests
			t.Errorf("the time is not the store's: %+v", e)
		}
		if e.Lease != "" && e.FencingToken == 0 {
			t.Errorf("a lease without a token: %+v", e)
		}
		e.Schema, e.ID, e.At, e.Clock, e.Remote, e.Chosen.XRequestID, e.Lease = 0, "", "", "", "", "", ""
		events = append(events, e)
	}
	d.log.Reset()
	return events
}

// sameEvents compares events, and shows them as their lines do.
func sameEvents(t *testing.T, what string, got, want []contracts.AuditEvent) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		show := func(events []contracts.AuditEvent) string {
			text, err := json.Marshal(events)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		t.Errorf("%s\ngot  %s\nwant %s", what, show(got), show(want))
	}
}

// TestAudit: grants, changes of rights and rejected callers leave an event that says who, what, whose and why; nothing
// else does.
func TestAudit(t *testing.T) {
	ann := httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Worker | httpapi.MachineIDs}
	root := httpapi.Caller{Subject: "root", Tenant: "acme", Rights: httpapi.Admin | httpapi.Operate}
	const (
		first, now, later = 1767225600000001, "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:30.000Z"
	)
	by := func(subject, action, outcome, path, kind, key string, more func(*contracts.AuditEvent)) *contracts.AuditEvent {
		e := &contracts.AuditEvent{Action: action, Outcome: outcome, Path: path, Subject: subject, CallerTenant: "acme",
			Kind: kind, Key: key, Chosen: &contracts.AuditChosen{}}
		if kind == "lock" {
			e.Tenant = "acme"
		}
		more(e)
		return e
	}
	lease := func(request string, more func(*contracts.AuditEvent)) func(*contracts.AuditEvent) {
		return func(e *contracts.AuditEvent) {
			e.Owner, e.FencingToken, e.Mode, e.GrantedAt, e.ExpiresAt = "ann", first, "exclusive", now, later
			e.Chosen.RequestID = request
			more(e)
		}
	}
	nothing := func(*contracts.AuditEvent) {}
	rejected := func(why string) func(*contracts.AuditEvent) {
		return func(e *contracts.AuditEvent) { e.Rejected = why }
	}
	analysis := func(more func(*contracts.AuditEvent)) func(*contracts.AuditEvent) {
		return func(e *contracts.AuditEvent) { e.Chosen.RequestID, e.Chosen.Reason = "t1", "fixed"; more(e) }
	}
	const runPath = "/v1/tenants/acme/runs/nightly"
	ofRun := func(action string, more func(*contracts.AuditEvent)) *contracts.AuditEvent {
		return by("ann", "run."+action, "ok", runPath+"/"+action, "run", "nightly", func(e *contracts.AuditEvent) {
			e.Tenant, e.Owner, e.FencingToken, e.Chosen.OwnerID = "acme", "ann#w1", first+3, "w1"
			more(e)
		})
	}
	d := open(t, verified{caller: ann})
	d.order("a2", map[string]docstore.Value{"status": docstore.String("FAILED")})
	const rival = "/v1/tenants/acmf/locks/k"
	for _, c := range []struct {
		caller             httpapi.Caller
		err                error
		method, path, body string
		want               *contracts.AuditEvent // nil: no event
	}{
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`,
			by("ann", "lock.acquire", "ok", deploy+"/acquire", "lock", "deploy-prod", lease("r1", nothing))},
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`,
			by("ann", "lock.acquire", "ok", deploy+"/acquire", "lock", "deploy-prod",
				lease("r1", func(e *contracts.AuditEvent) { e.Replayed = true }))},
		{root, nil, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, nil}, // held
		{ann, nil, "POST", deploy + "/acquire", `{"request_id":"r1"`, nil},
		{ann, nil, "POST", deploy + "/renew", `{"request_id":"n1","fencing_token":1,"ttl_seconds":30}`, nil},
		{ann, nil, "GET", deploy, "", nil},
		{ann, nil, "GET", "/healthz", "", nil},
		{ann, nil, "POST", deploy + "/force-release", `{"request_id":"f1","reason":"stuck"}`,
			by("ann", "lock.force_release", "PERMISSION_DENIED", deploy+"/force-release", "lock", "deploy-prod",
				rejected("ending another owner's lease needs the scope leasehold:admin, unless this server is set up with another, "+
					"or a token made with --right admin"))},
		{root, nil, "POST", deploy + "/force-release", `{"owner_id":"desk","request_id":"f1","reason":"stuck"}`,
			by("root", "lock.force_release", "ok", deploy+"/force-release", "lock", "deploy-prod",
				lease("f1", func(e *contracts.AuditEvent) {
					e.Chosen.OwnerID, e.Chosen.Reason, e.EndedAt, e.AllLeases = "desk", "stuck", now, true
				}))},
		{ann, nil, "POST", deploy + "/release", fmt.Sprintf(`{"request_id":"e1","fencing_token":%d}`, first), nil}, // forced
		{ann, nil, "POST", deploy + "/acquire", `{"owner_id":"w1","request_id":"r2","ttl_seconds":30}`,
			by("ann", "lock.acquire", "ok", deploy+"/acquire", "lock", "deploy-prod",
				lease("r2", func(e *contracts.AuditEvent) {
					e.Owner, e.FencingToken, e.Chosen.OwnerID = "ann#w1", first+1, "w1"
				}))},
		{ann, nil, "POST", deploy + "/release", fmt.Sprintf(`{"owner_id":"w1","request_id":"e2","fencing_token":%d}`, first+1),
			by("ann", "lock.release", "ok", deploy+"/release", "lock", "deploy-prod",
				lease("e2", func(e *contracts.AuditEvent) {
					e.Owner, e.FencingToken, e.Chosen.OwnerID, e.EndedAt = "ann#w1", first+1, "w1", now
				}))},
		{ann, nil, "GET", rival, "", by("ann", "GET "+rival, "PERMISSION_DENIED", rival, "lock", "k",
			func(e *contracts.AuditEvent) {
				e.Tenant, e.Rejected = "acmf", `your token is for tenant "acme", the path for tenant "acmf"`
			})},
		{ann, fmt.Errorf("%w: the token expired", httpapi.ErrUnauthenticated), "GET", deploy, "",
			by("", "GET "+deploy, "UNAUTHENTICATED", deploy, "lock", "deploy-prod", func(e *contracts.AuditEvent) {
				e.CallerTenant, e.Rejected = "", "unauthenticated: the token expired"
			})},
		{ann, nil, "PUT", "/v1/analyses/a1", "", nil},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w1","request_id":"r1"}`,
			by("ann", "analysis.lock", "ok", "/v1/analyses/a1/lock", "analysis", "a1", func(e *contracts.AuditEvent) {
				e.Owner, e.FencingToken, e.ExpiresAt = "ann#w1", first+2, "2026-01-01T00:05:00.000Z"
				e.GrantedAt, e.Runs = now, 1
				e.Chosen.OwnerID, e.Chosen.RequestID = "w1", "r1"
			})},
		{ann, nil, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w2","request_id":"r2"}`, nil}, // skipped
		{ann, nil, "POST", "/v1/analyses/a1/release", fmt.Sprintf(`{"owner_id":"w1","fencing_token":%d}`, first+2),
			by("ann", "analysis.release", "ok", "/v1/analyses/a1/release", "analysis", "a1", func(e *contracts.AuditEvent) {
				e.Owner, e.FencingToken, e.Chosen.OwnerID, e.EndedAt = "ann#w1", first+2, "w1", now
			})},
		{ann, nil, "POST", runPath + "/begin", `{"owner_id":"w1","request_id":"r1"}`,
			ofRun("begin", func(e *contracts.AuditEvent) {
				e.GrantedAt, e.Runs, e.ExpiresAt, e.Chosen.RequestID = now, 1, later, "r1"
			})},
		{ann, nil, "POST", runPath + "/begin", `{"owner_id":"w1","request_id":"r1"}`,
			ofRun("begin", func(e *contracts.AuditEvent) {
				e.Replayed, e.Runs, e.ExpiresAt, e.Chosen.RequestID = true, 1, later, "r1"
			})},
		{ann, nil, "POST", runPath + "/release",
			fmt.Sprintf(`{"owner_id":"w1","fencing_token":%d,"failure_reason":"full"}`, first+3),
			ofRun("release", func(e *contracts.AuditEvent) { e.EndedAt, e.Failures, e.Result = now, 1, "failed" })},
		{root, nil, "POST", "/v1/analyses/a1/retry", `{"request_id":"t1","reason":"fixed"}`, nil}, // not FAILED
		{ann, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("ann", "analysis.retry", "PERMISSION_DENIED", "/v1/analyses/a2/retry", "analysis", "a2",
				rejected("retrying an analysis needs the scope leasehold:operate, unless this server is set up with another, "+
					"or a token made with --right operate"))},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry", "analysis", "a2", analysis(nothing))},
		{root, nil, "POST", "/v1/analyses/a2/retry", `{"request_id":"t1","reason":"fixed"}`,
			by("root", "analysis.retry", "ok", "/v1/analyses/a2/retry", "analysis", "a2",
				analysis(func(e *contracts.AuditEvent) { e.Replayed = true }))},
		{root, nil, "GET", "/v1/analyses", "", nil},
	} {
		d.serve(verified{caller: c.caller, err: c.err}, d.store)
		d.send(c.method, c.path, c.body)
		var want []contracts.AuditEvent
		if c.want != nil {
			want = append(want, *c.want)
		}
		sameEvents(t, c.method+" "+c.path+" "+c.body, d.audited(t), want)
	}
	d.serve(verified{caller: ann}, d.store)
	d.header.Set("X-Forwarded-For", strings.Repeat("9", 1000))
	d.post("/v1/machine-ids/lease", `{"throughputPerMs":300}`)
	e := d.audited(t)
	if len(e) != 1 || e[0].Action != "machine_ids.lease" || e[0].Leases != 2 || len(e[0].MachineIDs) != 2 ||
		len(e[0].Chosen.ForwardedFor) > 70 {
		t.Errorf("machine IDs: %+v", e)
	}
}

// TestMachineIDsAreAudited: the events of a lease of machine IDs, of its release and of one that an administrator ended
// name the service, also one that the body leaves out, and which leases those were.
func TestMachineIDsAreAudited(t *testing.T) {
	const now, end = "2026-01-01T00:00:00.000Z", "2026-01-01T00:10:00.000Z"
	d := open(t, verified{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Operate | httpapi.MachineIDs}})
	l := d.lease(`{}`)[0]
	release := func(id, at int64, secret string) {
		d.send("DELETE", fmt.Sprint("/v1/machine-ids/lease/", id),
			fmt.Sprintf(`{"signature":%q,"timestamp":%d}`, kazahana.Sign(secret, id, at), at))
	}
	at := l.Created + 5
	release(l.ID, at, l.Secret)
	release(l.ID, at, l.Secret)
	other := d.lease(`{"serviceId":"orders"}`)[0]
	d.post("/v1/machine-ids/force-release", `{"serviceId":"orders","first":0,"reason":"gone"}`).ok(t)
	event := func(action, path, service string, id int64, more func(*contracts.AuditEvent)) contracts.AuditEvent {
		e := contracts.AuditEvent{Action: "machine_ids." + action, Outcome: "ok", Path: "/v1/machine-ids/" + path,
			Subject: "ann", CallerTenant: "acme", Kind: "machine_ids", Key: service, MachineIDs: []int64{id}, Leases: 1,
			Chosen: &contracts.AuditChosen{}}
		more(&e)
		return e
	}
	leased := func(e *contracts.AuditEvent) { e.Owner, e.GrantedAt, e.ExpiresAt = "ann", now, end }
	one := fmt.Sprint("lease/", l.ID)
	sameEvents(t, "machine IDs", d.audited(t), []contracts.AuditEvent{
		event("lease", "lease", "default", l.ID, leased),
		event("release", one, "default", l.ID, func(e *contracts.AuditEvent) {
			e.GrantedAt, e.EndedAt = now, "2026-01-01T00:00:00.006Z"
		}),
		event("release", one, "default", l.ID, func(e *contracts.AuditEvent) { e.Leases, e.Replayed = 0, true }),
		event("lease", "lease", "orders", other.ID, leased),
		event("force_release", "force-release", "orders", other.ID, func(e *contracts.AuditEvent) {
			e.EndedAt, e.Chosen.Reason = now, "gone"
		}),
	})
}

// TestRejectionsAreLogged: the log says of every rejected request who sent it, from where, and why, and nothing that is
// secret.
func TestRejectionsAreLogged(t *testing.T) {
	ann := verified{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.MachineIDs}}
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
		{name: "can never be verified", identity: verified{err: fmt.Errorf("%w: no keys", httpapi.ErrMisconfigured)},
			method: "GET", path: deploy,
			status: 500, code: "INTERNAL", level: "ERROR"},
		{name: "another tenant", method: "GET", path: "/v1/tenants/acmf/locks/k", status: 403, code: "PERMISSION_DENIED",
			level: "INFO", why: `your token is for tenant "acme"`},
		{name: "no administrator", method: "POST", path: deploy + "/force-release", body: `{"request_id":"f1","reason":"x"}`,
			status: 403, code: "PERMISSION_DENIED", level: "INFO", why: "needs the scope leasehold:admin"},
		{name: "no worker", method: "GET", path: "/v1/analyses/a1", status: 403, code: "PERMISSION_DENIED", level: "INFO",
			why: "or a token made with --right operate or worker"},
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
			status: 503, code: "OVERLOADED", level: "WARN", why: "the server works on as many requests as it may: 1"},
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
				why, _ = event["rejected"].(string)
				chosen, _ := event["chosen"].(map[string]any)
				event["forwarded_for"] = chosen["forwarded_for"]
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
