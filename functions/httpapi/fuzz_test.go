package httpapi_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
)

// FuzzBody sends any bytes as the body of an acquire: each is either refused with a reason, and then nothing was
// changed, or it is a JSON object that the contract allows, and then the lock is held. Open's handler holds both
// against the contract.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"metadata":{"a":"b"}}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":"30"}`,
		`{"request_id":"\ud800","owner_id":"ann","ttl_seconds":1e1}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}x`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"mode":"shared","max_waiting":1}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"mode":"permits","limit":100,"lock_delay_seconds":3600}`,
		`{"request_id":"r1","owner_id":"ann","mode":"rate","limit":1000,"window_seconds":86400}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"mode":"exclusive","fair":true,"replace":true,"wait_seconds":20}`,
		`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"mode":"","limit":0,"window_seconds":0,"max_waiting":0}`,
		`[[[[`, `{"a":1,"a":2}`, "\xff", ``, `null`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	contracttest.Handler(f, nil) // reads the contract, which takes longer than one input may
	f.Fuzz(func(t *testing.T, body []byte) {
		d := open(t, httpapi.Development{})
		a := d.post(deploy+"/acquire", string(body))
		state := d.get(deploy).body["state"]
		switch a.status {
		case 200:
			if state != "ACTIVE" || !json.Valid(body) {
				t.Errorf("granted for %q, and the lock is %v", body, state)
			}
		case 400, 413:
			if name, _ := a.body["field"].(string); a.status == 400 && name == "" || state != nil {
				t.Errorf("refused %q without a field, or the lock is %v: %s", body, state, a.raw)
			}
			if !utf8.ValidString(a.raw) {
				t.Errorf("the answer is not UTF-8: %q", a.raw)
			}
		default:
			t.Errorf("%q: %d %s", body, a.status, a.raw)
		}
	})
}

// FuzzMachineIDBody is FuzzBody for leases of machine IDs.
func FuzzMachineIDBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"serviceId":"default","meta":{"host":"web-1"},"throughputPerMs":257}`, `{"throughputPerMs":1e2}`,
		`{"serviceId":""}`,
		`null`, `{"meta":null}`, `{"meta":{"":"x"}}`, `{"throughputPerMs":2097153}`, `{"serviceId":"x"}`,
		`{"throughputPerMs":1,"throughputPerMs":2}`,
	} {
		f.Add([]byte(seed))
	}
	contracttest.Handler(f, nil) // reads the contract, which takes longer than one input may
	f.Fuzz(func(t *testing.T, body []byte) {
		d := open(t, httpapi.Development{})
		a := d.post(machineIDs+"/lease", string(body))
		spaces, _ := d.get(machineIDs).body["spaces"].([]any)
		leased, _ := spaces[0].(map[string]any)["leased"].(float64)
		switch a.status {
		case 200:
			if leases, _ := a.body["leases"].([]any); leased == 0 || int(leased) != len(leases) || !json.Valid(body) {
				t.Errorf("granted %d leases for %q, and %v are leased", len(leases), body, leased)
			}
		case 400, 404, 413:
			if name, _ := a.body["field"].(string); a.status == 400 && name == "" || leased != 0 {
				t.Errorf("refused %q without a field, or %v are leased: %s", body, leased, a.raw)
			}
		default:
			t.Errorf("%q: %d %s", body, a.status, a.raw)
		}
	})
}
