package emf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws/emf"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// embedded is a line of the format.
type embedded struct {
	AWS struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	} `json:"_aws"`
}

// invoke is an invocation that takes a lock.
type invoke struct{ locks *lock.Locks }

func (i invoke) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	o, err := i.locks.Acquire(ctx, lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: string(payload),
		RequestID: "r1", TTLSeconds: 30})
	if err == nil && o.Code != lock.OK {
		err = errors.New(string(o.Code))
	}
	return []byte("done"), err
}

// TestLines: each invocation writes what it measured, once, in the format of CloudWatch, with the dimensions of the
// table and all other attributes beside them.
func TestLines(t *testing.T) {
	p := emf.New(emf.Namespace("locks"), func() time.Time { return time.UnixMilli(1767225600123) })
	m, err := metrics.New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := docstore.NewMemory(nil)
	var out, log bytes.Buffer
	h := emf.Handler{
		Invoker:  invoke{lock.New(telemetry.Store(store, m.Observe(store, metrics.SystemMemory)...), nil)},
		Provider: p, Out: &out,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	if got, err := h.Invoke(t.Context(), []byte("ann")); string(got) != "done" || err != nil {
		t.Fatal(string(got), err)
	}
	lines := map[string]string{}
	for l := range strings.Lines(out.String()) {
		var e embedded
		all := map[string]any{}
		if err := errors.Join(json.Unmarshal([]byte(l), &e), json.Unmarshal([]byte(l), &all)); err != nil {
			t.Fatal(l, err)
		}
		if len(e.AWS.CloudWatchMetrics) != 1 || len(e.AWS.CloudWatchMetrics[0].Metrics) != 1 ||
			len(e.AWS.CloudWatchMetrics[0].Dimensions) != 1 ||
			e.AWS.CloudWatchMetrics[0].Namespace != "Leasehold/locks" || e.AWS.Timestamp != 1767225600123 {
			t.Fatal(l)
		}
		name := e.AWS.CloudWatchMetrics[0].Metrics[0].Name
		if _, ok := all[name]; !ok {
			t.Errorf("the line of %s has no value: %s", name, l)
		}
		for _, d := range e.AWS.CloudWatchMetrics[0].Dimensions[0] {
			if text, ok := all[d].(string); !ok || text == "" {
				t.Errorf("the line of %s has no dimension %s: %s", name, d, l)
			}
		}
		lines[name] = l
	}
	for name, want := range map[string]string{
		"db.client.operation.duration": `"Dimensions":[["db.operation.name"]]`,
		"leasehold.store.writes":       `"Unit":"Count"`,
	} {
		if !strings.Contains(lines[name], want) || !strings.Contains(lines[name], `"db.collection.name":"locks"`) {
			t.Errorf("%s: %s", name, lines[name])
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d metrics, want 2: %s", len(lines), &out)
	}

	// What was written is not written again, and an invocation that fails is measured, too.
	out.Reset()
	if _, err := h.Invoke(t.Context(), []byte("bob")); err == nil {
		t.Fatal("two have the lock")
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"leasehold.outcome":"refused"`) ||
		!strings.Contains(got, `"leasehold.store.writes":1`) {
		t.Error(got)
	}
	h.Out = broken{}
	if _, err := h.Invoke(t.Context(), []byte("ann")); err != nil ||
		!strings.Contains(log.String(), "cannot write metrics") {
		t.Error(err, log.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk on fire") }

// TestValues: many values of a histogram are several lines; of a counter that is observed, what was added is written.
func TestValues(t *testing.T) {
	p := emf.New(emf.Namespace("locks"), nil)
	m, err := metrics.New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	meter := &counting{Memory: docstore.NewMemory(nil)}
	m.Observe(meter, metrics.SystemDynamoDB)
	for range 250 {
		m.Behind(t.Context(), time.Second)
	}
	for _, want := range []struct {
		requests int64
		line     string
		lags     int
	}{{7, `"leasehold.store.requests":7`, 3}, {9, `"leasehold.store.requests":2`, 0}, {9, "", 0}} {
		meter.n = want.requests
		var out bytes.Buffer
		if err := p.Flush(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want.line) || want.line == "" &&
			strings.Contains(got, "store.requests") || strings.Count(got, `"leasehold.sweep.lag":[`) != want.lags ||
			!strings.Contains(got, `"leasehold.store.clock.offset":0.25`) || strings.Contains(got, "leases.held") {
			t.Errorf("%+v: %s", want, got)
		}
	}
}

// counting is a store that counts.
type counting struct {
	*docstore.Memory

	n int64
}

func (c *counting) Usage() docstore.Usage {
	return docstore.Usage{Requests: c.n, Clock: docstore.Clock{Known: true, Offset: 250 * time.Millisecond}}
}
