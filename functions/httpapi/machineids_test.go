package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

const machineIDs = "/v1/machine-ids"

// release gives a lease back as its holder does, at the api's time.
func (d *api) release(l kazahana.Lease, secret string) answer {
	d.t.Helper()
	at := d.clock.Now().UnixMilli()
	return d.send("DELETE", fmt.Sprint(machineIDs, "/lease/", l.ID),
		fmt.Sprintf(`{"signature":%q,"timestamp":%d}`, kazahana.Sign(secret, l.ID, at), at))
}

func (d *api) lease(body string) []kazahana.Lease {
	d.t.Helper()
	a := d.post(machineIDs+"/lease", body)
	var r kazahana.AcquireResponse
	if err := json.Unmarshal([]byte(a.raw), &r); err != nil || a.status != http.StatusOK {
		d.t.Fatalf("%d %s, %v", a.status, a.raw, err)
	}
	return r.Leases
}

func TestLifeOfAMachineID(t *testing.T) {
	d := open(t, httpapi.Development{})
	a := d.post(machineIDs+"/lease", `{"serviceId":"default","meta":{"host":"web-1"},"throughputPerMs":257}`)
	leases, _ := a.body["leases"].([]any)
	if a.status != 200 || len(a.body) != 1 || len(leases) != 2 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	first := leases[0].(map[string]any)
	secret, _ := first["secret"].(string)
	id := first["id"]
	if delete(first, "id"); len(secret) != 32 || id == leases[1].(map[string]any)["id"] ||
		secret == leases[1].(map[string]any)["secret"] {
		t.Errorf("leases %v", leases)
	}
	delete(first, "secret")
	answer{status: 200, body: first}.wants(t, 200, `{"created":1767225600000,"expired":1767226200000,
		"customEpoch":1767225600000,"bitReserve":1,"bitTs":41,"bitId":14,"bitSeq":8}`)
	d.get(machineIDs).wants(t, 200,
		`{"spaces":[{"space":"default","units":8192,"leased":2,"free":8190,"next_free":1767226200000,"leases":{"default":2}}]}`)

	l := d.lease(`{}`)[0]
	d.release(l, secret).refuses(t, 403, "BAD_SIGNATURE", "")
	for range 2 {
		if a := d.release(l, l.Secret); a.status != 204 || a.raw != "" {
			t.Errorf("release: %d %s", a.status, a.raw)
		}
	}
	d.clock.Advance(10 * time.Minute)
	d.get(machineIDs).wants(t, 200, `{"spaces":[{"space":"default","units":8192,"leased":0,"free":8192,"leases":{}}]}`)
	if log := d.log.String(); strings.Contains(log, secret) || strings.Contains(log, l.Secret) ||
		!strings.Contains(log, `"host":"web-1"`) {
		t.Errorf("the log shows a secret, or not who leases: %s", log)
	}
}

func TestMachineIDsAreExhausted(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{MachineIDs: machineid.NewDefault(d.store, nil)}))
	if got := len(d.lease(`{"throughputPerMs":2097152}`)); got != 8192 {
		t.Fatalf("%d leases", got)
	}
	d.clock.Advance(time.Minute + 500*time.Millisecond)
	a := d.post(machineIDs+"/lease", `{}`)
	a.refuses(t, 503, "MACHINE_IDS_EXHAUSTED", "")
	if a.body["retryable"] != true || a.body["retry_after_ms"] != 539_500.0 || a.header.Get("Retry-After") != "540" {
		t.Errorf("%s, Retry-After %q", a.raw, a.header.Get("Retry-After"))
	}
}

func TestBadMachineIDRequests(t *testing.T) {
	d := open(t, httpapi.Development{})
	now := d.clock.Now().UnixMilli()
	signature := strings.Repeat("0", 64)
	signed := func(at int64) string { return fmt.Sprintf(`{"signature":%q,"timestamp":%d}`, signature, at) }
	for _, c := range []struct {
		name, method, target, body string
		status                     int
		code, field                string
	}{
		{"no body", "POST", "/lease", ``, 400, "INVALID_ARGUMENT", "body"},
		{"null", "POST", "/lease", `null`, 400, "INVALID_ARGUMENT", "body"},
		{"throughput null", "POST", "/lease", `{"throughputPerMs":null}`, 400, "INVALID_ARGUMENT", "throughputPerMs"},
		{"meta with null", "POST", "/lease", `{"meta":{"null":"null","a":null}}`, 400, "INVALID_ARGUMENT", "meta.a"},
		{"throughput 0", "POST", "/lease", `{"throughputPerMs":0}`, 400, "INVALID_ARGUMENT", "throughputPerMs"},
		{"throughput negative", "POST", "/lease", `{"throughputPerMs":-1}`, 400, "INVALID_ARGUMENT", "throughputPerMs"},
		{"throughput of more than the space", "POST", "/lease", `{"throughputPerMs":2097153}`, 400, "INVALID_ARGUMENT",
			"throughputPerMs"},
		{"throughput of more leases than one request gets", "POST", "/lease", `{"throughputPerMs":16385}`, 400,
			"INVALID_ARGUMENT", "throughputPerMs"},
		{"throughput as text", "POST", "/lease", `{"throughputPerMs":"256"}`, 400, "INVALID_ARGUMENT", "throughputPerMs"},
		{"throughput half", "POST", "/lease", `{"throughputPerMs":0.5}`, 400, "INVALID_ARGUMENT", "throughputPerMs"},
		{"unknown member", "POST", "/lease", `{"count":2}`, 400, "INVALID_ARGUMENT", "count"},
		{"meta with a number", "POST", "/lease", `{"meta":{"pid":7}}`, 400, "INVALID_ARGUMENT", "meta.pid"},
		{"meta with 33 entries", "POST", "/lease", `{"meta":{` + entries(33) + `}}`, 400, "INVALID_ARGUMENT", "meta"},
		{"service too long", "POST", "/lease", `{"serviceId":"` + strings.Repeat("s", 129) + `"}`, 400,
			"INVALID_ARGUMENT", "serviceId"},
		{"id no number", "DELETE", "/lease/x", signed(now), 400, "INVALID_ARGUMENT", "id"},
		{"id with a sign", "DELETE", "/lease/+1", signed(now), 400, "INVALID_ARGUMENT", "id"},
		{"id of the fallback", "DELETE", "/lease/32768", signed(now), 400, "INVALID_ARGUMENT", "id"},
		{"id negative", "DELETE", "/lease/-1", signed(now), 400, "INVALID_ARGUMENT", "id"},
		{"id empty", "DELETE", "/lease/", signed(now), 400, "INVALID_ARGUMENT", "id"},
		{"release without a body", "DELETE", "/lease/1", ``, 400, "INVALID_ARGUMENT", "body"},
		{"release without a signature", "DELETE", "/lease/1", `{"timestamp":1}`, 400, "INVALID_ARGUMENT", "signature"},
		{"release without a timestamp", "DELETE", "/lease/1", `{"signature":"` + signature + `"}`, 400,
			"INVALID_ARGUMENT", "timestamp"},
		{"timestamp too old", "DELETE", "/lease/1", signed(now - 30_001), 400, "INVALID_ARGUMENT", "timestamp"},
		{"timestamp to come", "DELETE", "/lease/1", signed(now + 30_001), 400, "INVALID_ARGUMENT", "timestamp"},
		{"timestamp in seconds", "DELETE", "/lease/1", signed(now / 1000), 400, "INVALID_ARGUMENT", "timestamp"},
		{"force-release without a reason", "POST", "/force-release", `{}`, 400, "INVALID_ARGUMENT", "reason"},
		{"force-release of a range that is empty", "POST", "/force-release", `{"reason":"x","first":2,"last":1}`, 400,
			"INVALID_ARGUMENT", "last"},
		{"force-release of a negative machine ID", "POST", "/force-release", `{"reason":"x","first":-1}`, 400,
			"INVALID_ARGUMENT", "first"},
		{"force-release of a service too long", "POST", "/force-release", `{"reason":"x","serviceId":"` +
			strings.Repeat("s", 129) + `"}`, 400, "INVALID_ARGUMENT", "serviceId"},
		{"lease by GET", "GET", "/lease", ``, 405, "METHOD_NOT_ALLOWED", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.send(c.method, machineIDs+c.target, c.body).refuses(t, c.status, c.code, c.field)
		})
	}
	d.get(machineIDs).wants(t, 200, `{"spaces":[{"space":"default","units":8192,"leased":0,"free":8192,"leases":{}}]}`)
}

// TestPagesOfMachineIDsAreDamaged: a page that cannot be read is counted where machine IDs are shown, and keeps none of
// the others from being leased.
func TestPagesOfMachineIDsAreDamaged(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.lease(`{}`)
	for _, page := range []string{"page-000", "page-063"} {
		k := docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: page}
		if _, err := d.store.Write(t.Context(),
			docstore.Write{Key: k, Set: docstore.Doc{"rev": docstore.String("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	d.clock.Advance(time.Hour)
	d.get(machineIDs).wants(t, 200,
		`{"spaces":[{"space":"default","units":8192,"leased":256,"free":7936,"leases":{},"unreadable_pages":2}]}`)
	if a := d.get(machineIDs + "/spaces/default"); a.status != 200 || !strings.Contains(a.raw, `"unreadable_pages":2`) {
		t.Errorf("%d %.300s", a.status, a.raw)
	}
	for range 20 {
		if got := len(d.lease(`{}`)); got != 1 {
			t.Errorf("%d leases", got)
		}
	}
}

// TestMachineIDsOfOneSubject: a subject has a bound for itself, which counts what has been granted and neither released
// nor expired, also while requests are under way.
func TestMachineIDsOfOneSubject(t *testing.T) {
	d := open(t, httpapi.Development{})
	who := verified{caller: httpapi.Caller{Subject: "svc", Tenant: "acme", Rights: httpapi.MachineIDs}}
	d.handler = contracttest.Handler(
		t, httpapi.New(d.store, &who, &httpapi.Options{MaxIDsPerSubject: 10, Now: d.clock.Now}))
	all := d.lease(`{"throughputPerMs":2560}`)
	d.clock.Advance(time.Minute)
	a := d.post(machineIDs+"/lease", `{}`)
	a.refuses(t, 429, "MACHINE_ID_LIMIT", "")
	if a.body["retryable"] != true || a.body["retry_after_ms"] != 540_000.0 || a.header.Get("Retry-After") != "540" ||
		a.body["detail"] != "your subject has 10 leases of this server and asks for 1, 10 at most" {
		t.Errorf("%s, Retry-After %q", a.raw, a.header.Get("Retry-After"))
	}
	who.caller.Subject = "other"
	d.lease(`{"throughputPerMs":2560}`)
	who.caller.Subject = "svc"
	for _, l := range all[:3] {
		if a := d.release(l, l.Secret); a.status != 204 {
			t.Fatal(a.raw)
		}
	}
	d.post(machineIDs+"/lease", `{"throughputPerMs":1024}`).refuses(t, 429, "MACHINE_ID_LIMIT", "")
	d.lease(`{"throughputPerMs":768}`)
	d.clock.Advance(9 * time.Minute) // seven have expired
	d.post(machineIDs+"/lease", `{"throughputPerMs":2048}`).refuses(t, 429, "MACHINE_ID_LIMIT", "")
	d.post(machineIDs+"/lease", `{"throughputPerMs":0}`).refuses(t, 400, "INVALID_ARGUMENT", "throughputPerMs")
	d.lease(`{"throughputPerMs":1792}`)

	// A grant that fails is not counted.
	broke := &fails{Store: d.store}
	d.handler = contracttest.Handler(t, httpapi.New(broke, who, &httpapi.Options{MaxIDsPerSubject: 1, Now: d.clock.Now}))
	broke.err = docstore.ErrUnavailable
	d.post(machineIDs+"/lease", `{}`).refuses(t, 503, "UNAVAILABLE", "")
	broke.err = nil
	d.lease(`{}`)
}

// fails is a store whose writes fail while there is an error.
type fails struct {
	docstore.Store
	err error
}

func (s *fails) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.err != nil {
		return docstore.Result{}, s.err
	}
	return s.Store.Write(ctx, writes...)
}

// TestForceReleaseOfMachineIDs: an administrator ends the leases of a service, and says why in the log.
func TestForceReleaseOfMachineIDs(t *testing.T) {
	d := open(t, verified{caller: httpapi.Caller{Subject: "ops", Tenant: "acme", Rights: httpapi.Operate | httpapi.MachineIDs}})
	lost := d.lease(`{"serviceId":"lost","throughputPerMs":768}`)
	d.lease(`{}`)
	for _, want := range []int{1, 0} {
		d.post(machineIDs+"/force-release", fmt.Sprintf(`{"serviceId":"lost","first":%d,"last":%d,"reason":"host gone"}`,
			lost[0].ID, lost[0].ID)).
			wants(t, 200, fmt.Sprintf(`{"space":"default","leases":%d,"free":1767225630000}`, want))
	}
	d.post(machineIDs+"/force-release", `{"serviceId":"lost","reason":"hosts gone"}`).wants(
		t, 200, `{"space":"default","leases":2,"free":1767225630000}`)
	d.clock.Advance(30 * time.Second)
	d.get(machineIDs).wants(t, 200,
		`{"spaces":[{"space":"default","units":8192,"leased":1,"free":8191,"next_free":1767226200000,"leases":{"default":1}}]}`)
	if log := d.log.String(); !strings.Contains(log, `"reason":"hosts gone"`) || !strings.Contains(log, `"caller":"ops"`) {
		t.Errorf("the log does not say who and why: %s", log)
	}
	d.serve(verified{err: httpapi.ErrUnauthenticated}, d.store)
	d.post(machineIDs+"/force-release", `{"reason":"x"}`).refuses(t, 401, "UNAUTHENTICATED", "")
	d.serve(httpapi.Development{}, broken{d.store, docstore.ErrUnavailable})
	d.post(machineIDs+"/force-release", `{"reason":"x"}`).refuses(t, 503, "UNAVAILABLE", "")
}

// TestMachineIDStoreFaults: without a request_id the advice is another.
func TestMachineIDStoreFaults(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.serve(httpapi.Development{}, broken{d.store, fmt.Errorf("%w: disk on fire", docstore.ErrUnavailable)})
	a := d.post(machineIDs+"/lease", `{}`)
	a.refuses(t, 503, "UNAVAILABLE", "")
	if a.body["detail"] != "retry: leases whose response was lost expire" {
		t.Errorf("detail %q", a.body["detail"])
	}
	signature := strings.Repeat("0", 64)
	d.send("DELETE", machineIDs+"/lease/1", `{"timestamp":1,"signature":"`+signature+`"}`).refuses(t,
		503, "UNAVAILABLE", "")
	d.get(machineIDs).refuses(t, 503, "UNAVAILABLE", "")
}

func TestConfiguredServices(t *testing.T) {
	d := open(t, httpapi.Development{})
	services, err := machineid.ParseServices(
		[]byte(
			`[{"serviceId":"payments","bitId":10,"bitSeq":12},{"serviceId":"events","space":"events","leaseDuration":60000}]`))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := machineid.New(d.store, services, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{}, &httpapi.Options{MachineIDs: ids}))
	for _, body := range []string{`{}`, `{"serviceId":"other"}`} { // there is no service default, as which it could lease
		d.post(machineIDs+"/lease", body).refuses(t, 404, "UNKNOWN_SERVICE", "")
	}
	sign := strings.Repeat("0", 64)
	d.send("DELETE", machineIDs+"/lease/1", `{"serviceId":"x","timestamp":1,"signature":"`+sign+`"}`).refuses(t, 404,
		"UNKNOWN_SERVICE", "")
	d.post(machineIDs+"/force-release", `{"serviceId":"x","reason":"x"}`).refuses(t, 404, "UNKNOWN_SERVICE", "")
	if l := d.lease(`{"serviceId":"payments"}`)[0]; l.BitSeq != 12 || l.ID > 511 {
		t.Errorf("%+v", l)
	}
	if l := d.lease(`{"serviceId":"events"}`)[0]; l.Expired-l.Created != 60_000 {
		t.Errorf("%+v", l)
	}
	d.get(machineIDs).wants(t, 200, `{"spaces":[
		{"space":"default","units":8192,"leased":16,"free":8176,"next_free":1767226200000,"leases":{"payments":1}},
		{"space":"events","units":8192,"leased":1,"free":8191,"next_free":1767225660000,"leases":{"events":1}}]}`)
}
