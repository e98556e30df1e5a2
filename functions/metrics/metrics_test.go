package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// TestDocumentation: the page is what the table says. Its end, on the generators of programs, is written from another.
func TestDocumentation(t *testing.T) {
	const path = "../../docs/reference/metrics.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const end = "\n<!-- Generated from kazahana/otelkazahana."
	got, rest, found := strings.Cut(string(page), end)
	want := metrics.Markdown()
	if *update {
		if err := os.WriteFile(path, []byte(want+end+rest), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if !found || got != want {
		t.Error("docs/reference/metrics.md does not agree with functions/metrics: " +
			"run go test ./functions/metrics -run TestDocumentation -update")
	}
}

// TestTable: rows are complete, and their attributes are explained and used.
func TestTable(t *testing.T) {
	explained, used := map[string]bool{}, map[string]bool{}
	for _, a := range metrics.AttributeTable {
		if a.Values == "" || explained[a.Name] {
			t.Errorf("attribute %s: %q", a.Name, a.Values)
		}
		explained[a.Name] = true
	}
	seen := map[string]bool{}
	for _, i := range metrics.Table {
		if seen[i.Name] || i.Group == "" || i.Unit == "" || !strings.HasSuffix(i.Help, ".") ||
			!strings.HasSuffix(i.Question, ".") && !strings.HasSuffix(i.Question, "?") {
			t.Errorf("%+v", i)
		}
		seen[i.Name] = true
		if (i.Kind == metrics.Histogram) != (len(i.Buckets) > 0) || !slices.IsSorted(i.Buckets) {
			t.Errorf("%s: buckets %v", i.Name, i.Buckets)
		}
		for _, d := range i.CloudWatch {
			if !slices.Contains(i.Attributes, d) {
				t.Errorf("%s has no attribute %s", i.Name, d)
			}
		}
		for _, a := range i.Attributes {
			used[a] = true
			if !explained[a] {
				t.Errorf("%s: attribute %s is not explained", i.Name, a)
			}
		}
	}
	for a := range explained {
		if !used[a] {
			t.Errorf("attribute %s is explained, and no instrument has it", a)
		}
	}
	if !slices.IsSorted(metrics.Operations) {
		t.Error("the operations are not sorted")
	}
}

// server is an API on a store in memory that is measured.
type server struct {
	t      *testing.T
	h      http.Handler
	reader *sdk.ManualReader
	store  *faulty
	m      *metrics.Metrics
}

// faulty is a store whose next calls fail.
type faulty struct {
	*docstore.Memory

	next []error // of the next writes; nil for one that works
	lose bool    // the next write is carried out, and its response lost
}

// Usage implements [docstore.Meter].
func (*faulty) Usage() docstore.Usage {
	return docstore.Usage{
		Requests: 7, Retries: 2, Throttled: 1, Warnings: 1, Billed: docstore.Billed{Known: true, Reads: 1.5, Writes: 4},
		Clock: docstore.Clock{Known: true, Offset: 250 * time.Millisecond, Uncertainty: time.Millisecond},
		Log:   docstore.Log{Known: true, Bytes: 4096},
	}
}

func (f *faulty) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if f.lose {
		f.lose = false
		_, _ = f.Memory.Write(ctx, w...)
		return docstore.Result{}, docstore.ErrUnavailable
	}
	if len(f.next) > 0 {
		err := f.next[0]
		if f.next = f.next[1:]; err != nil {
			return docstore.Result{}, err
		}
	}
	return f.Memory.Write(ctx, w...)
}

func newServer(t *testing.T, o *metrics.Options) *server {
	t.Helper()
	s := &server{t: t, reader: sdk.NewManualReader(), store: &faulty{Memory: docstore.NewMemory(nil)}}
	var err error
	if s.m, err = metrics.New(sdk.NewMeterProvider(sdk.WithReader(s.reader)), o); err != nil {
		t.Fatal(err)
	}
	store := telemetry.Store(s.store, s.m.Observe(s.store, metrics.SystemMemory)...)
	s.h = httpapi.New(store, httpapi.Development{}, &httpapi.Options{Metrics: s.m})
	return s
}

// do sends a request and returns the status and the body. The path is below /v1.
func (s *server) do(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://127.0.0.1/v1"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	if body == "" {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	var got map[string]any
	_ = json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&got)
	return w.Code, got
}

// nowhere is a queue.
type nowhere struct{}

func (nowhere) Enqueue(context.Context, analysis.ID, string) error { return nil }

// alarm sets one that is due.
func (s *server) alarm() {
	s.t.Helper()
	service := placement.New(s.store, nil)
	d := placement.Cluster{Tenant: "acme", Name: "d"}
	joined, err := service.Join(s.t.Context(), placement.Join{Cluster: d, Member: "m9", RequestID: "j", TTL: time.Hour,
		Offer: placement.Offer{Kinds: []string{"room"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	id := placement.Identity{Kind: "room", ID: "x"}
	o, err := service.Claim(s.t.Context(), placement.Claim{Cluster: d, Identity: id, RequestID: "c",
		By: joined.Incarnation})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := service.SetAlarm(s.t.Context(), placement.SetAlarm{AlarmChange: placement.AlarmChange{At: time.Unix(0, 0)},
		Hold: placement.Hold{Cluster: d, Identity: id, Owner: joined.Incarnation, Token: o.Activation.Token}}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := service.Leave(s.t.Context(), d, joined.Incarnation); err != nil {
		s.t.Fatal(err)
	}
	if _, err := service.Join(s.t.Context(), placement.Join{Cluster: d, Member: "m8", RequestID: "j", TTL: time.Hour,
		Offer: placement.Offer{Kinds: []string{"room"}}}); err != nil {
		s.t.Fatal(err)
	}
}

// sweep lets a worker die at an analysis, sweeps it and the clusters, and delivers a message about another analysis.
func (s *server) sweep() {
	s.t.Helper()
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/analyses/a2", ""},
		{"POST", "/analyses/a2/lock", `{"owner_id":"w1","request_id":"1","ttl_seconds":10}`},
		{"PUT", "/analyses/a3", ""},
	} {
		if status, got := s.do(c.method, c.path, c.body); status != 200 {
			s.t.Fatal(c, status, got)
		}
	}
	time.Sleep(time.Minute)
	store := telemetry.Store(s.store, s.m.Observe(s.store, metrics.SystemMemory)...)
	analyses := analysis.New(store, nil)
	route, err := tasks.SweepEndpoint{
		Analyses: analyses, Sweep: analysis.Sweep{Queue: nowhere{}},
		Clusters: placement.New(store, &placement.Options{Evicted: s.m.Evicted}), Guard: tasks.Development{}, Metrics: s.m,
	}.Route()
	if err != nil {
		s.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://127.0.0.1"+tasks.SweepPath, http.NoBody)
	r.RemoteAddr = "127.0.0.1:50000"
	w := httptest.NewRecorder()
	httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Metrics: s.m}).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		s.t.Fatal(w.Code, w.Body)
	}
	worker := &tasks.Worker{
		Gate: direct.Analyses(analyses), Metrics: s.m,
		Work: func(context.Context, once.Lock) (string, error) { return "done", nil },
	}
	if got := worker.Deliver(s.t.Context(), tasks.Message{Body: []byte(`{"analysisId":"a3"}`), ID: "m1"}); !got.Done {
		s.t.Fatal(got)
	}
	worker.Work = func(context.Context, once.Lock) (string, error) {
		return "", &tasks.NotBegunError{Err: errors.New("refused")}
	}
	if _, err := analyses.Create(s.t.Context(), analysis.Create{ID: "a4"}); err != nil {
		s.t.Fatal(err)
	}
	if got := worker.Deliver(s.t.Context(), tasks.Message{Body: []byte(`{"analysisId":"a4"}`), ID: "m2"}); got.Done {
		s.t.Fatal(got)
	}
}

// point is a value of an instrument with its attributes.
type point struct {
	attrs string
	value float64 // the sum of a histogram
	count uint64  // of a histogram
}

// collect returns the values of all instruments by their names.
func (s *server) collect() map[string][]point {
	s.t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(s.t.Context(), &all); err != nil {
		s.t.Fatal(err)
	}
	found := map[string][]point{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			i := slices.IndexFunc(metrics.Table, func(i metrics.Instrument) bool { return i.Name == m.Name })
			if i < 0 {
				s.t.Errorf("the table lacks %s", m.Name)
				continue
			}
			row := metrics.Table[i]
			if m.Unit != row.Unit || m.Description != row.Help {
				s.t.Errorf("%s: unit %q, %q", m.Name, m.Unit, m.Description)
			}
			found[m.Name] = points(s.t, row, m.Data)
		}
	}
	return found
}

func points(t *testing.T, row metrics.Instrument, data metricdata.Aggregation) (all []point) {
	t.Helper()
	kind := metrics.Kind("")
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		if kind = metrics.UpDown; d.IsMonotonic {
			kind = metrics.Counter
		}
		for _, p := range d.DataPoints {
			all = append(all, point{attributes(t, row, p.Attributes.MarshalLog()), float64(p.Value), 0})
		}
	case metricdata.Sum[float64]:
		kind = metrics.ObservedCounter
		for _, p := range d.DataPoints {
			all = append(all, point{attributes(t, row, p.Attributes.MarshalLog()), p.Value, 0})
		}
	case metricdata.Gauge[float64]:
		kind = metrics.Gauge
		for _, p := range d.DataPoints {
			all = append(all, point{attributes(t, row, p.Attributes.MarshalLog()), p.Value, 0})
		}
	case metricdata.Histogram[float64]:
		kind = metrics.Histogram
		for _, p := range d.DataPoints {
			all = append(all, point{attributes(t, row, p.Attributes.MarshalLog()), p.Sum, p.Count})
		}
	}
	if kind != row.Kind {
		t.Errorf("%s is a %s, the table has %s", row.Name, kind, row.Kind)
	}
	return all
}

// attributes are those of a value, as text. Each must be one of the instrument.
func attributes(t *testing.T, row metrics.Instrument, log any) string {
	t.Helper()
	pairs := []string{}
	for k, v := range log.(map[string]string) {
		if !slices.Contains(row.Attributes, k) {
			t.Errorf("%s has the attribute %s, which the table lacks", row.Name, k)
		}
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// value is that of an instrument with all of these attributes, summed; a count for a histogram.
func value(all map[string][]point, name string, attrs ...string) (sum float64) {
	for _, p := range all[name] {
		if !slices.ContainsFunc(attrs, func(a string) bool { return !slices.Contains(strings.Fields(p.attrs), a) }) {
			if sum += p.value; p.count > 0 {
				sum += float64(p.count) - p.value
			}
		}
	}
	return sum
}

const (
	lockPath = "/tenants/acme/locks/db"
	ann      = `{"request_id":"%s","owner_id":"ann","ttl_seconds":30}`
)

func body(id string) string { return fmt.Sprintf(ann, id) }

// TestEveryInstrumentIsFed: real requests move each instrument of the table, and say how.
func TestEveryInstrumentIsFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		s := newServer(t, &metrics.Options{MaxLeases: 4})

		// A lock is granted, its response is lost, and the request is sent again.
		s.store.lose = true
		if status, got := s.do("POST", lockPath+"/acquire", body("a1")); status != 503 {
			t.Fatal(status, got)
		}
		status, lease := s.do("POST", lockPath+"/acquire", body("a1"))
		if status != 200 || lease["replayed"] != true {
			t.Fatal(status, lease)
		}
		token := fmt.Sprintf(`"fencing_token":%.0f`, lease["fencing_token"])
		if status, got := s.do("POST", lockPath+"/acquire",
			`{"request_id":"b1","owner_id":"bob","ttl_seconds":30}`); status != 409 {
			t.Fatal(status, got)
		}
		time.Sleep(24 * time.Second)
		if status, got := s.do("POST", lockPath+"/renew", `{"request_id":"n1","owner_id":"ann","ttl_seconds":30,`+token+
			`}`); status != 200 {
			t.Fatal(status, got)
		}
		time.Sleep(6 * time.Second)
		all := s.collect()
		for _, want := range []struct {
			name  string
			attrs []string
			value float64
		}{
			{"leasehold.operations", []string{"leasehold.operation=lock.acquire", "leasehold.outcome=ok"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=lock.acquire", "leasehold.outcome=UNAVAILABLE"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=lock.acquire", "leasehold.outcome=LOCK_HELD"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=lock.renew", "leasehold.outcome=ok"}, 1},
			{"leasehold.operations.replayed", []string{"leasehold.operation=lock.acquire"}, 1},
			{"leasehold.store.writes", []string{"leasehold.outcome=unknown", "db.collection.name=locks"}, 1},
			{"leasehold.store.writes", []string{"leasehold.outcome=refused"}, 2},
			{"leasehold.store.writes", []string{"leasehold.outcome=applied"}, 1},
			{"db.client.operation.duration", []string{"error.type=unavailable", "db.operation.name=write",
				"db.system.name=memory"}, 1},
			{"http.server.request.duration", []string{"http.response.status_code=503", "error.type=UNAVAILABLE",
				"http.request.method=POST", "url.scheme=http"}, 1},
			{"http.server.request.duration", []string{"http.route=/v1/tenants/{tenant_id}/locks/{lock_key}/acquire"}, 3},
			{"leasehold.leases.held", []string{"leasehold.kind=lock"}, 1},
			{"leasehold.leases.oldest.age", []string{"leasehold.kind=lock"}, 30},
			{"leasehold.lease.renewal.margin", []string{"leasehold.kind=lock"}, 1},
			{"leasehold.takeovers", nil, 0},
		} {
			if got := value(all, want.name, want.attrs...); got != want.value {
				t.Errorf("%s %v: %v, want %v: %+v", want.name, want.attrs, got, want.value, all[want.name])
			}
		}
		if m := all["leasehold.lease.renewal.margin"]; len(m) != 1 || m[0].value != 0.2 {
			t.Errorf("6 s of 30 s were left: %+v", m)
		}

		// The holder dies. Another one waits, and takes over.
		time.Sleep(10 * time.Second)
		waiting := make(chan int)
		go func() {
			status, _ := s.do("POST", lockPath+"/acquire",
				`{"request_id":"b2","owner_id":"bob","ttl_seconds":30,"wait_seconds":20}`)
			waiting <- status
		}()
		time.Sleep(time.Second)
		if all = s.collect(); value(all, "leasehold.requests.waiting", "leasehold.what=locks") != 1 ||
			value(all, "http.server.active_requests") != 1 {
			t.Errorf("one request waits: %+v, %+v", all["leasehold.requests.waiting"], all["http.server.active_requests"])
		}
		if status := <-waiting; status != 200 {
			t.Fatal(status)
		}
		if status, got := s.do("POST", lockPath+"/release", `{"request_id":"e1","owner_id":"ann",`+token+`}`); status != 409 {
			t.Fatal(status, got)
		}

		// An analysis whose worker dies, and one that fails.
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{"PUT", "/analyses/a1", "", 200},
			{"POST", "/analyses/a1/lock", `{"owner_id":"w1","request_id":"1","ttl_seconds":10}`, 200},
			{"POST", "/analyses/a1/lock", `{"owner_id":"w2","request_id":"2","ttl_seconds":10}`, 200}, // skipped
		} {
			if status, got := s.do(c.method, c.path, c.body); status != c.status {
				t.Fatal(c, status, got)
			}
		}
		time.Sleep(11 * time.Second)
		status, got := s.do("POST", "/analyses/a1/lock", `{"owner_id":"w2","request_id":"3","ttl_seconds":10}`)
		if status != 200 || got["acquired"] != true {
			t.Fatal(status, got)
		}
		if status, got := s.do("POST", "/analyses/a1/finish",
			fmt.Sprintf(`{"owner_id":"w2","fencing_token":%.0f,"status":"FAILED","failure_reason":"x"}`,
				got["fencing_token"])); status != 200 {
			t.Fatal(status, got)
		}
		status, got = s.do("POST", "/tenants/acme/runs/r1/begin", `{"owner_id":"w2","request_id":"4","ttl_seconds":300}`)
		if status != 200 || got["acquired"] != true {
			t.Fatal(status, got)
		}

		// A member whose partitions move, and more leases than are remembered.
		if status, got := s.do("POST", "/tenants/acme/clusters/c/members/m1/join",
			`{"request_id":"j","kinds":["room"],"ttl_seconds":10}`); status != 200 {
			t.Fatal(status, got)
		}
		for i := range 4 {
			s.do("POST", fmt.Sprintf("/tenants/acme/locks/k%d/acquire", i), body("x"))
		}
		// A queue, sweeps, and a survey; the sweep finds an alarm.
		s.alarm()
		s.sweep()
		ids := machineid.NewDefault(s.store, nil)
		if _, err := ids.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
			t.Fatal(err)
		}
		if status, got := s.do("POST", "/tenants/acme/clusters/c/members/m2/join",
			`{"request_id":"j2","kinds":["room"],"ttl_seconds":10}`); status != 200 {
			t.Fatal(status, got)
		}
		if err := s.m.Survey(t.Context(), s.store, ids, nil); err != nil {
			t.Fatal(err)
		}
		for _, e := range []cluster.Event{
			{What: cluster.Activated, Took: time.Second, Lag: 250 * time.Millisecond}, {What: cluster.Activated},
			{What: cluster.ActivationLost}, {What: cluster.Forwarded, Peer: "bob"},
			{What: cluster.Forwarded, Peer: "bob", Err: cluster.ErrNotServed},
			{What: cluster.Forwarded, Peer: "bob", Err: context.Canceled}, {What: cluster.FailedOver, Took: 9 * time.Second},
			{What: cluster.StateChanged}, {What: cluster.Abandoned},
			{What: cluster.Forwarded, Peer: "bob", Err: fmt.Errorf("%w: bob", cluster.ErrNotProven)},
		} {
			s.m.Cluster(e)
		}
		// What was written while the clock was ahead, and a check of the store.
		if _, err := s.store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "late"},
			Set: map[string]docstore.Value{"state": docstore.String("ACTIVE"), "token": docstore.Int(1),
				"owner_id": docstore.String("x"), "ttl_seconds": docstore.Int(10),
				"expires_at": docstore.Now.Add(24 * time.Hour)}}); err != nil {
			t.Fatal(err)
		}
		s.do("POST", "/tenants/acme/locks/late/acquire", body("y"))
		ready := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/readyz", http.NoBody)
		ready.RemoteAddr = "127.0.0.1:50000"
		s.h.ServeHTTP(httptest.NewRecorder(), ready)
		time.Sleep(time.Minute)

		all = s.collect()
		for _, want := range []struct {
			name  string
			attrs []string
			value float64
		}{
			{"leasehold.deliveries", []string{"leasehold.outcome=ready"}, 1},
			{"leasehold.deliveries", []string{"leasehold.outcome=target_away"}, 1},
			{"leasehold.target.away", nil, 1},
			{"leasehold.sweeps", []string{"leasehold.what=analyses", "leasehold.outcome=ok"}, 1},
			{"leasehold.sweeps", []string{"leasehold.what=clusters", "leasehold.outcome=ok"}, 1},
			{"leasehold.sweep.documents", []string{"leasehold.what=analyses", "leasehold.outcome=requeued"}, 1},
			{"leasehold.sweep.documents", []string{"leasehold.what=clusters", "leasehold.outcome=evicted"}, 1},
			{"leasehold.sweep.lag", nil, 1},
			{"leasehold.placement.alarm.lag", nil, 1},
			{"leasehold.placement.evictions", nil, 1},
			{"leasehold.placement.eviction.delay", nil, 1},
			{"leasehold.placement.moves", []string{"leasehold.operation=placement.evict"}, 4096},
			{"leasehold.placement.clusters", nil, 2},
			{"leasehold.placement.members", []string{"leasehold.state=active"}, 2},
			{"leasehold.placement.members", []string{"leasehold.state=expired"}, 0},
			{"leasehold.placement.imbalance", nil, 1},
			{"leasehold.machine_ids", []string{"leasehold.state=leased"}, 1},
			{"leasehold.machine_ids", []string{"leasehold.state=free"}, 8191},
			{"leasehold.analyses", []string{"leasehold.state=FAILED"}, 1},
			{"leasehold.analyses", []string{"leasehold.state=READY"}, 1},
			{"leasehold.analyses", []string{"leasehold.state=PENDING"}, 2},
			{"leasehold.survey.age", nil, 60},
			{"leasehold.store.requests", []string{"db.system.name=memory"}, 7},
			{"leasehold.store.billed", []string{"leasehold.what=reads"}, 1.5},
			{"leasehold.store.billed", []string{"leasehold.what=writes"}, 4},
			{"leasehold.store.clock.offset", nil, 0.25},
			{"leasehold.store.warnings", nil, 1},
			{"leasehold.takeovers", []string{"leasehold.kind=lock"}, 1},
			{"leasehold.takeovers", []string{"leasehold.kind=analysis"}, 1},
			{"leasehold.leases.counted_anew", []string{"leasehold.kind=lock"}, 1},
			{"leasehold.store.clock.behind", nil, 0},
			{"leasehold.lock.wait.duration", []string{"leasehold.outcome=ok"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=lock.release", "leasehold.outcome=LEASE_LOST"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=analysis.lock", "leasehold.outcome=locked"}, 1},
			{"leasehold.operations", []string{"leasehold.operation=analysis.lock", "leasehold.outcome=ok"}, 3},
			{"leasehold.runs.ended", []string{"leasehold.kind=analysis", "leasehold.outcome=failed"}, 1},
			{"leasehold.leases.held", []string{"leasehold.kind=run"}, 1},
			{"leasehold.leases.held", []string{"leasehold.kind=analysis"}, 0},
			{"leasehold.leases.untracked", []string{"leasehold.kind=lock"}, 2},
			{"leasehold.placement.moves", []string{"leasehold.operation=placement.join"}, 8192},
			{"leasehold.cluster.activations", []string{"leasehold.outcome=activated"}, 2},
			{"leasehold.cluster.activations", []string{"leasehold.outcome=lost"}, 1},
			{"leasehold.cluster.activation.duration", nil, 2},
			{"leasehold.cluster.event.lag", nil, 1},
			{"leasehold.cluster.activations", []string{"leasehold.outcome=abandoned"}, 1},
			{"leasehold.cluster.forwards", []string{"leasehold.outcome=ok"}, 1},
			{"leasehold.cluster.forwards", []string{"leasehold.outcome=not_here"}, 1},
			{"leasehold.cluster.forwards", []string{"leasehold.outcome=not_proven"}, 1},
			{"leasehold.cluster.forwards", []string{"leasehold.outcome=failed"}, 1},
			{"leasehold.cluster.failover.duration", nil, 1},
			{"leasehold.audit.events", []string{"leasehold.operation=placement.join", "leasehold.outcome=ok"}, 2},
			{"http.server.active_requests", nil, 0},
		} {
			if got := value(all, want.name, want.attrs...); got != want.value {
				t.Errorf("%s %v: %v, want %v: %+v", want.name, want.attrs, got, want.value, all[want.name])
			}
		}
		for _, i := range metrics.Table {
			if len(all[i.Name]) == 0 {
				t.Errorf("nothing feeds %s", i.Name)
			}
		}
		for name, all := range all {
			for _, p := range all {
				for _, secret := range []string{"acme", "ann", "bob", "=db ", "a1", "c/m1"} {
					if strings.Contains(p.attrs+" ", secret) {
						t.Errorf("%s says %s: %s", name, secret, p.attrs)
					}
				}
			}
		}
	})
}

// TestFirst: what an alert looks for when it happens once is there before it does, so that the first time is an
// increase, for each tenant as well.
func TestFirst(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		s := newServer(t, &metrics.Options{Tenants: tenants})
		all := s.collect()
		if got := all["leasehold.placement.evictions"]; len(got) != 1 || got[0].value != 0 {
			t.Errorf("%+v", got)
		}
		for _, p := range all["leasehold.operations"] {
			operation, _, _ := strings.Cut(strings.TrimPrefix(p.attrs, "leasehold.operation="), " ")
			if !slices.Contains(metrics.Operations, operation) || p.value != 0 {
				t.Errorf("%+v", p)
			}
		}
		if status, got := s.do("POST", "/tenants/acme/fences/f/check", `{"fencing_token":2,"subject":"lock/db"}`); status != 200 {
			t.Fatal(status, got)
		}
		seen := false
		for _, p := range s.collect()["leasehold.operations"] {
			want := "leasehold.operation=fence.check leasehold.outcome=STALE_TOKEN"
			if tenants {
				want += " leasehold.tenant=acme"
			}
			seen = seen || p.attrs == want && p.value == 0
		}
		if !seen {
			t.Errorf("tenants: %v: no series waits for a stale token", tenants)
		}
	}
	// A sweep that never gets through is one of which none did for long.
	s := newServer(t, nil)
	s.m.SweptClusters(t.Context(), placement.Swept{}, docstore.ErrUnavailable)
	got := s.collect()["leasehold.sweeps"]
	if len(got) != 2 || value(map[string][]point{"": got}, "", "leasehold.outcome=failed") != 1 ||
		value(map[string][]point{"": got}, "", "leasehold.outcome=ok") != 0 {
		t.Errorf("%+v", got)
	}
}

// TestUnreadable: documents that lists and sweeps went past count for themselves, from the first one on, and such a
// sweep is one that got through.
func TestUnreadable(t *testing.T) {
	s := newServer(t, nil)
	const name = "leasehold.documents.unreadable"
	if got := s.collect()[name]; len(got) < 5 || got[0].value != 0 {
		t.Errorf("before the first: %+v", got)
	}
	for _, kind := range []string{"locks", "runs"} {
		for i := range 3 {
			k := docstore.Key{Kind: kind, Tenant: "acme", ID: strconv.Itoa(i)}
			if _, err := s.store.Write(t.Context(), docstore.Write{
				Key: k, Set: docstore.Doc{"token": docstore.String("x"), "lockToken": docstore.String("x")}}); err != nil {
				t.Fatal(err)
			}
		}
		if status, got := s.do("GET", "/tenants/acme/"+kind, ""); status != 200 {
			t.Fatal(status, got)
		}
	}
	ids := machineid.NewDefault(s.store, nil)
	if _, err := ids.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	k := docstore.Key{Kind: machineid.Kind, Tenant: machineid.DefaultSpace, ID: "page-007"}
	if _, err := s.store.Write(t.Context(),
		docstore.Write{Key: k, Set: docstore.Doc{"rev": docstore.String("x")}}); err != nil {
		t.Fatal(err)
	}
	var damage metrics.Damage
	if err := s.m.Survey(t.Context(), s.store, ids, &damage); err != nil || damage.Last().Count != 1 {
		t.Error(err, damage.Last())
	}
	var unreadable docstore.Unreadable
	for range 30 {
		unreadable.Take(docstore.ErrDamaged)
	}
	s.m.SweptAnalyses(t.Context(), analysis.Swept{Stale: 30, Errors: 30, Damaged: 30}, unreadable.Err())
	s.m.SweptClusters(t.Context(), placement.Swept{Errors: 31, Damaged: 30},
		errors.Join(docstore.ErrUnavailable, unreadable.Err()))
	s.m.Pruned(t.Context(), unreadable.Err())
	s.m.Pruned(t.Context(), docstore.ErrUnavailable)
	s.m.FiredAlarms(t.Context(), placement.Alarms{Errors: 30, Damaged: 30}, unreadable.Err())
	all := s.collect()
	for attrs, want := range map[string]float64{
		"leasehold.operation=lock.list": 3, "leasehold.operation=run.list": 3, "leasehold.operation=sweep.analyses": 30,
		"leasehold.operation=sweep.clusters": 30,
		"leasehold.operation=sweep.ended":    30, "leasehold.operation=sweep.alarms": 30,
		"leasehold.operation=survey": 1,
	} {
		if got := value(all, name, attrs); got != want {
			t.Errorf("%s: %v, want %v", attrs, got, want)
		}
	}
	for attrs, want := range map[string]float64{
		"leasehold.what=analyses leasehold.outcome=ok": 1, "leasehold.what=analyses leasehold.outcome=failed": 0,
		"leasehold.what=clusters leasehold.outcome=ok": 0, "leasehold.what=clusters leasehold.outcome=failed": 1,
	} {
		if got := value(all, "leasehold.sweeps", strings.Fields(attrs)...); got != want {
			t.Errorf("%s: %v, want %v", attrs, got, want)
		}
	}
	if got := value(all, "leasehold.sweep.documents", "leasehold.outcome=error"); got != 1 {
		t.Errorf("%v errors", got)
	}
}

// TestTenants: they are attributes of operations only if that is asked for.
func TestTenants(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		s := newServer(t, &metrics.Options{Tenants: tenants})
		s.do("GET", "/tenants/acme/locks", "")
		s.do("GET", "/tenants/%20/locks", "")
		if got := value(s.collect(), "leasehold.operations", "leasehold.tenant=acme"); (got == 1) != tenants {
			t.Errorf("%v: %v", tenants, got)
		}
	}
}

// TestSeriesAreBounded: callers choose names of all kinds, methods and paths as they like, and there are as many series
// as after the first few of them.
func TestSeriesAreBounded(t *testing.T) {
	s := newServer(t, nil)
	send := func(from, to int) map[string]bool {
		for n := from; n < to; n++ {
			name := fmt.Sprintf("name%d", n)
			in := "/tenants/" + name
			for _, c := range []struct{ method, path, body string }{
				{"POST", in + "/locks/" + name + "/acquire", `{"request_id":"1","owner_id":"` + name +
					`","ttl_seconds":30,"metadata":{"` + name + `":"a"}}`},
				{"POST", in + "/locks/" + name + "/acquire", `{"request_id":"2","owner_id":"other ` + name + `","ttl_seconds":30}`},
				{"POST", in + "/locks/" + name + "/renew", `{"request_id":"3","owner_id":"` + name +
					`","ttl_seconds":30,"fencing_token":1}`},
				{"POST", in + "/locks/" + name + "/" + name, "{}"},
				{"POST", in + "/fences/" + name + "/check", `{"fencing_token":1,"subject":"lock/db"}`},
				{"PUT", "/analyses/" + name, ""},
				{"POST", "/analyses/" + name + "/lock", `{"request_id":"1","owner_id":"` + name + `"}`},
				{"POST", in + "/runs/" + name + "/lock", `{"request_id":"1","owner_id":"` + name + `"}`},
				{"POST", in + "/clusters/" + name + "/members/" + name + "/join", `{"request_id":"1","kinds":["` + name +
					`"],"ttl_seconds":10}`},
				{"POST", in + "/clusters/" + name + "/activations/" + name + "/" + name + "/claim", `{"request_id":"1"}`},
				{"POST", "/machine-ids/lease", `{"request_id":"` + name + `","owner_id":"` + name + `","space":"` + name +
					`","ttl_seconds":60}`},
				{"GET", "/" + name + "?" + name + "=1", ""},
				{strings.ToUpper(name), in + "/locks", ""},
			} {
				s.do(c.method, c.path, c.body)
			}
		}
		series := map[string]bool{}
		for instrument, points := range s.collect() {
			for _, p := range points {
				series[instrument+" "+p.attrs] = true
				if strings.Contains(strings.ToLower(p.attrs), "name1") {
					t.Errorf("%s: %s", instrument, p.attrs)
				}
			}
		}
		return series
	}
	first := send(100, 110)
	for one := range send(110, 300) {
		if !first[one] {
			t.Errorf("a later request made %s", one)
		}
	}
	if len(first) < 50 {
		t.Errorf("%d series: are requests measured?", len(first))
	}
}

// TestOperations: each endpoint of the API counts as an operation of the list, and one that does not exist as none.
func TestOperations(t *testing.T) {
	s := newServer(t, nil)
	s.do("BREW", "/tenants/acme/pots", "")
	s.do("GET", "/nothing", "")
	all := s.collect()
	if value(all, "leasehold.operations") != 0 || value(all, "http.server.request.duration",
		"http.request.method=_OTHER") != 1 {
		t.Errorf("%+v", all)
	}
	for _, p := range all["http.server.request.duration"] {
		if strings.Contains(p.attrs, "http.route") {
			t.Errorf("a path that is no endpoint's is one: %s", p.attrs)
		}
	}
}

// TestNothing: without a provider nothing is measured, and nothing fails.
func TestNothing(t *testing.T) {
	m, err := metrics.New(nil, nil)
	if m != nil || err != nil || m.Observe(docstore.NewMemory(nil), "memory") != nil {
		t.Fatal(m, err)
	}
	store := docstore.NewMemory(nil)
	if telemetry.Store(store, m.Observe(store, "memory")...) != docstore.Store(store) {
		t.Error("a store that is not measured is wrapped")
	}
	m.Begin(t.Context(), "GET", false)
	m.End(t.Context(), &metrics.Request{})
	m.Audited(t.Context(), "lock.acquire", "")
	m.Granted(t.Context(), metrics.Lease{}, time.Now(), time.Now(), time.Now())
	m.Ended(metrics.Lease{})
	m.Waiting(nil)
}
