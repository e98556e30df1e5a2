package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestEndsOfTheGate: an analysis and a run are not locked by what comes after its end, or gives up, in the words of the
// contract.
func TestEndsOfTheGate(t *testing.T) {
	for name, path := range map[string]string{"analysis": a1 + "/lock", "run": order7 + "/begin"} {
		t.Run(name, func(t *testing.T) {
			d := open(t, httpapi.Development{})
			if name == "analysis" {
				d.order("a1", nil)
			}
			body := func(request, more string) string {
				return fmt.Sprintf(`{"owner_id":"w1","request_id":%q%s}`, request, more)
			}
			end := func(after time.Duration) string {
				return fmt.Sprintf(`,"not_after":%q`, docstore.FormatTime(d.clock.Now().Add(after)))
			}
			now := docstore.FormatTime(d.clock.Now())
			for _, late := range []time.Duration{-10 * time.Hour, -time.Millisecond} {
				r := d.post(path, body("r1", end(late)))
				r.refuses(t, 409, "TOO_LATE", "not_after")
				if r.body["store_time"] != string(now) {
					t.Errorf("store_time is %v, want %s", r.body["store_time"], now)
				}
			}
			for _, far := range []time.Duration{time.Hour + time.Millisecond, 10 * time.Hour} {
				r := d.post(path, body("r1", end(far)))
				r.refuses(t, 400, "INVALID_ARGUMENT", "not_after")
				if r.body["store_time"] != string(now) {
					t.Errorf("store_time is %v, want %s", r.body["store_time"], now)
				}
			}
			for _, no := range []string{"soon", ""} {
				for _, member := range []string{"not_after", `\u006eot_after`, `not\u005fafter`} { // one name
					d.post(path, body("r1", `,"`+member+`":"`+no+`"`)).refuses(t, 400, "INVALID_ARGUMENT", "not_after")
				}
			}

			given := func(request, more string) {
				t.Helper()
				if r := d.post(path, body(request, `,"give_up":true`+more)); r.status != 204 || r.raw != "" {
					t.Errorf("given up: %d %s", r.status, r.raw)
				}
			}
			given("r0", end(-time.Hour)) // a give-up is never too late
			d.post(path, body("r0", "")).refuses(t, 422, "REQUEST_ID_REUSED", "")
			if r := d.post(path, body("r1", end(0))); r.status != 200 || r.body["acquired"] != true {
				t.Errorf("at its end: %d %s", r.status, r.raw)
			}
			d.clock.Advance(time.Second)
			if r := d.post(path, body("r1", end(-time.Second))); r.status != 200 || r.body["replayed"] != true {
				t.Errorf("a replay after its end: %d %s", r.status, r.raw)
			}
			d.post(path, body("r1", `,"give_up":true,"ttl_seconds":7`)).refuses(t, 422, "REQUEST_ID_REUSED", "")
			given("r1", "")
			given("r1", "")
			if r := d.post(path, body("r2", "")); r.status != 200 || r.body["acquired"] != true || r.body["runs"] != 1.0 {
				t.Errorf("the next: %d %s", r.status, r.raw)
			}
		})
	}
}
