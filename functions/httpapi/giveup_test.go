package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// TestGiveUpALock: an acquire that is given up is answered without content, also when it had nothing, when that is
// repeated, and after its end; whatever its mode, and with a wait. Nothing is held, and a copy obtains nothing. With
// other parameters it changes nothing.
func TestGiveUpALock(t *testing.T) {
	for name, members := range map[string]string{
		"exclusive": `"ttl_seconds":30`, "waits": `"ttl_seconds":30,"wait_seconds":20`,
		"fair": `"ttl_seconds":30,"fair":true`, "replace": `"ttl_seconds":30,"replace":true`,
		"shared": `"ttl_seconds":30,"mode":"shared"`, "permits": `"ttl_seconds":30,"mode":"permits","limit":2`,
		"rate":     `"mode":"rate","limit":2,"window_seconds":10`,
		"too late": `"ttl_seconds":30,"not_after":"2025-01-01T00:00:00Z"`,
	} {
		for _, before := range []bool{false, true} {
			d := open(t, httpapi.Development{})
			body := `{"request_id":"r1","owner_id":"ann",` + members
			if before && name != "too late" {
				if a := d.post(deploy+"/acquire", body+`}`); a.status != 200 {
					t.Fatalf("%s: %d %s", name, a.status, a.raw)
				}
			}
			for range 2 {
				a := d.post(deploy+"/acquire", body+`,"give_up":true}`)
				if a.status != 204 || a.raw != "" || a.header.Get("Cache-Control") != "no-store" ||
					a.header.Get("Content-Type") != "" || a.header.Get("X-Request-Id") == "" {
					t.Errorf("%s: %d %s %v", name, a.status, a.raw, a.header)
				}
			}
			if a := d.get(deploy); a.body["state"] == "ACTIVE" && a.body["mode"] != "rate" {
				t.Errorf("%s: %s", name, a.raw)
			}
			other := `{"request_id":"r1","owner_id":"ann",` + members + `,"metadata":{"build":"9"}`
			for _, again := range []string{body + `}`, other + `}`, other + `,"give_up":true}`} {
				if a := d.post(deploy+"/acquire", again); a.status != 422 || a.body["code"] != "REQUEST_ID_REUSED" {
					t.Errorf("%s, %s: %d %s", name, again, a.status, a.raw)
				}
			}
			d.clock.Advance(time.Minute)
			if a := d.post(deploy+"/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":30}`); a.status != 200 {
				t.Errorf("%s: another: %d %s", name, a.status, a.raw)
			}
		}
	}
	d := open(t, httpapi.Development{})
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","give_up":true}`).refuses(t, 400, "INVALID_ARGUMENT",
		"ttl_seconds")
	d.post(deploy+"/acquire", `{"owner_id":"ann","ttl_seconds":30,"give_up":true}`).refuses(t, 400, "INVALID_ARGUMENT",
		"request_id")
}

// TestGiveUpOfALockThatIsWaitedFor: the delivery that waits responds at once.
func TestGiveUpOfALockThatIsWaitedFor(t *testing.T) {
	d := open(t, httpapi.Development{})
	if a := d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`); a.status != 200 {
		t.Fatal(a.raw)
	}
	const bob = `{"request_id":"r2","owner_id":"bob","ttl_seconds":30,"wait_seconds":20,"fair":true`
	first := make(chan answer)
	go func() { first <- d.post(deploy+"/acquire", bob+`}`) }()
	for waiting := 0; waiting == 0; {
		all, _ := d.get(deploy).body["waiting"].([]any)
		waiting = len(all)
	}
	if a := d.post(deploy+"/acquire", bob+`,"give_up":true}`); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := <-first; a.status != 409 && a.status != 422 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := d.get(deploy); a.body["waiting"] != nil {
		t.Error(a.raw)
	}
}

// TestGiveUpASet is the same of several locks, and what of it is audited.
func TestGiveUpASet(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "ann", Tenant: "acme"}})
	const body = `{"request_id":"r1","lock_keys":["b","a"],"ttl_seconds":30`
	if a := d.post(sets+"/acquire", body+`}`); a.status != 200 {
		t.Fatal(a.raw)
	}
	d.audited(t)
	for range 2 {
		a := d.post(sets+"/acquire", body+`,"not_after":"2025-01-01T00:00:00Z","give_up":true}`)
		if a.status != 204 || a.raw != "" {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if a := d.post(deploy+"/acquire", `{"request_id":"r3","ttl_seconds":30,"give_up":true}`); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	event := func(action, path, key, request string, more func(*contracts.AuditEvent)) contracts.AuditEvent {
		e := contracts.AuditEvent{Action: action, Outcome: "ok", Path: path, Subject: "ann", CallerTenant: "acme",
			Tenant: "acme", Kind: "lock", Key: key, Owner: "ann", Chosen: &contracts.AuditChosen{RequestID: request}}
		more(&e)
		return e
	}
	ended := func(e *contracts.AuditEvent) {
		e.FencingToken, e.EndedAt = 1767225600000001, "2026-01-01T00:00:00.000Z"
	}
	again := func(e *contracts.AuditEvent) { e.Replayed = true }
	const set = sets + "/acquire"
	sameEvents(t, "given up", d.audited(t), []contracts.AuditEvent{
		event("lock.give_up_set", set, "b", "r1", ended), event("lock.give_up_set", set, "a", "r1", ended),
		event("lock.give_up_set", set, "b", "r1", again), event("lock.give_up_set", set, "a", "r1", again),
		event("lock.give_up", deploy+"/acquire", "deploy-prod", "r3", func(*contracts.AuditEvent) {}),
	})
	a := d.post(sets+"/acquire", `{"request_id":"r1","lock_keys":["b"],"ttl_seconds":30,"give_up":true}`)
	if a.status != 422 || a.body["code"] != "REQUEST_ID_REUSED" || a.body["lock_key"] != "b" {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a = d.post(sets+"/acquire", `{"request_id":"r2","lock_keys":["b","a"],"ttl_seconds":30}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// TestALateCopyReplacesNoOne: pushes that are given up with their ends are forgotten in the end, and known to be: a copy
// of the first is told so, and a later push replaces.
func TestALateCopyReplacesNoOne(t *testing.T) {
	d := open(t, httpapi.Development{})
	body := func(n int, more string) string {
		end := d.clock.Now().Add(10 * time.Minute).UTC().Format(contracts.TimeFormat)
		return fmt.Sprintf(`{"request_id":"r%d","owner_id":"push-%[1]d","ttl_seconds":600,"replace":true,"not_after":"%s"%s}`, n, end,
			more)
	}
	first := body(1, "")
	for n := range 6 {
		if a := d.post(deploy+"/acquire", body(n+1, `,"give_up":true`)); a.status != 204 {
			t.Fatal(a.raw)
		}
		d.clock.Advance(time.Second)
	}
	if a := d.post(deploy+"/acquire", body(7, "")); a.status != 200 {
		t.Fatal(a.raw)
	}
	a := d.post(deploy+"/acquire", first)
	if detail, _ := a.body["detail"].(string); a.status != 409 || a.body["code"] != "LOCK_HELD" ||
		a.body["owner_id"] != "push-7" || !strings.Contains(detail, "may be a late copy") {
		t.Errorf("%d %s", a.status, a.raw)
	}
	d.clock.Advance(time.Second)
	if a := d.post(deploy+"/acquire", body(8, "")); a.status != 200 || a.body["owner_id"] != "push-8" {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
