package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// TestEndsOfPlacementAndMachineIDs: each request that has an end is judged by it, whatever it would come to otherwise,
// and its rejection says the store's time. An earlier delivery that had its effect is returned after the end.
func TestEndsOfPlacementAndMachineIDs(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.join("ann", `,"ttl_seconds":3600`)
	d.join("bob", `,"ttl_seconds":3600`)
	served := d.post(chat+"/activations/room/hall/claim", `{"request_id":"c0"}`).ok(t).object("activation")
	d.post(chat+"/activations/room/hall/activated", `{`+hold(served)+`}`).ok(t)
	to := "ann"
	if served.body["member"] == "ann" {
		to = "bob"
	}
	replaced := d.join("eve", `,"ttl_seconds":3600`)
	for target, c := range map[string]struct{ body, field string }{
		chat + "/members/cid/join": {`"request_id":"j","kinds":["room"],"ttl_seconds":3600`, "not_after"},
		chat + "/members/dan/replace": {`"request_id":"r","kinds":["room"],"replaces":{"member":"eve","incarnation":` +
			replaced + `}`, "not_after"},
		chat + "/activations/room/lobby/claim":   {`"request_id":"c"`, "not_after"},
		chat + "/activations/room/hall/transfer": {`"request_id":"t","to":"` + to + `",` + hold(served), "not_after"},
		machineIDs + "/lease":                    {`"throughputPerMs":1`, "notAfter"},
	} {
		before := d.cluster()
		send := func(end string) answer { return d.post(target, fmt.Sprintf(`{%s,%q:%q}`, c.body, c.field, end)) }
		at := func(in time.Duration) string { return d.clock.Now().Add(in).Format("2006-01-02T15:04:05.000Z07:00") }
		for _, late := range []time.Duration{time.Millisecond, 10 * time.Hour} {
			a := send(at(-late))
			a.refuses(t, 409, "TOO_LATE", c.field)
			if a.body["store_time"] != at(0) {
				t.Errorf("%s: %s", target, a.raw)
			}
		}
		for _, far := range []time.Duration{time.Hour + time.Millisecond, 10 * time.Hour} {
			a := send(at(far))
			a.refuses(t, 400, "INVALID_ARGUMENT", c.field)
			if detail, _ := a.body["detail"].(string); a.body["store_time"] != at(0) || !strings.HasPrefix(detail, c.field) {
				t.Errorf("%s: %s", target, a.raw)
			}
		}
		for _, no := range []string{"soon", "2026-01-01", "1767225600", ""} {
			send(no).refuses(t, 400, "INVALID_ARGUMENT", c.field)
		}
		if d.cluster() != before {
			t.Errorf("%s left %s", target, d.cluster())
		}
		send(at(0)).ok(t)
		end := at(0)
		d.clock.Advance(time.Second)
		if again := send(end); c.field == "notAfter" {
			again.refuses(t, 409, "TOO_LATE", c.field) // it has no request_id
		} else if again.ok(t); again.body["replayed"] != true {
			t.Errorf("%s: %s", target, again.raw)
		}
	}
}
