package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// TestRemoveCluster: an administrator removes a cluster that has no members, by its epoch, once; it is in the log, and
// the cluster is listed no more.
func TestRemoveCluster(t *testing.T) {
	d := open(t, httpapi.Development{})
	const list = "/v1/tenants/acme/clusters"
	cluster := chat[len(list)+1:]
	d.post(chat+"/remove", `{"epoch":1,"reason":"x"}`).refuses(t, 404, "NOT_FOUND", "")
	alice := d.join("alice", "")
	d.post(chat+"/activations/room/lobby/claim", `{"request_id":"c"}`).ok(t)
	d.post(chat+"/remove", `{"epoch":1}`).refuses(t, 400, "INVALID_ARGUMENT", "reason")
	d.post(chat+"/remove", `{"reason":"x"}`).refuses(t, 400, "INVALID_ARGUMENT", "epoch")
	if a := d.post(chat+"/remove", `{"epoch":1,"reason":"x"}`); a.body["retry_after_ms"] == nil {
		a.refuses(t, 409, "MEMBER_EXISTS", "")
		t.Errorf("%s", a.raw)
	}
	d.post(chat+"/members/alice/leave", `{"incarnation":`+alice+`}`).ok(t)
	a := d.post(chat+"/remove", `{"epoch":1,"reason":"x"}`)
	a.refuses(t, 409, "STALE_EPOCH", "")
	if a.number("epoch") != "2" {
		t.Errorf("%s", a.raw)
	}
	if a := d.get(list).ok(t); !strings.Contains(a.raw, cluster) {
		t.Errorf("%s", a.raw)
	}
	for _, replayed := range []bool{false, true} {
		d.log.Reset()
		a := d.post(chat+"/remove", `{"epoch":2,"reason":"the test is over"}`).ok(t)
		if identities := map[bool]string{false: "1", true: "0"}[replayed]; a.body["replayed"] != replayed ||
			a.number("identities") != identities {
			t.Errorf("%s", a.raw)
		}
		for _, part := range []string{`"action":"placement.remove"`, `"epoch":2`, `"reason":"the test is over"`} {
			if !strings.Contains(d.log.String(), part) {
				t.Errorf("the log has no %s: %s", part, d.log.String())
			}
		}
	}
	if a := d.get(list).ok(t); strings.Contains(a.raw, cluster) {
		t.Errorf("%s", a.raw)
	}
	d.clock.Advance(time.Second)
	if again := d.join("alice", ""); again <= alice {
		t.Errorf("incarnation %s after %s", again, alice)
	}
}
