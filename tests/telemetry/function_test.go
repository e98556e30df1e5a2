package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// TestFrozenFunction: a Cloud Function that has no processor between requests sends all that it measured: while it
// works on later requests, and at the latest when the platform asks it to end.
func TestFrozenFunction(t *testing.T) {
	_, collector, sink := collect(t)
	firestore := firestoretest.Start(t, nil)
	function := build(t, "functions/gcp/local", "-tags", "leasehold.otlp")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const interval = 50 * time.Millisecond
	address := free(t)
	_, port, _ := strings.Cut(address, ":")
	c := exec.CommandContext(ctx, function)
	c.Env = append(os.Environ(), "FUNCTION_TARGET=API", "PORT="+port, "LEASEHOLD_DEVELOPMENT=1",
		"GOOGLE_CLOUD_PROJECT=demo", "FIRESTORE_EMULATOR_HOST="+firestore.Addr(),
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector, "OTEL_TRACES_EXPORTER=none",
		fmt.Sprintf("OTEL_METRIC_EXPORT_INTERVAL=%d", interval.Milliseconds()))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	const requests = 20
	for i := range requests {
		acquire(ctx, t, "http://"+address, i)
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * interval) // an export is due, and may have begun
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	counted := highest(sink.AllMetrics(), "leasehold.operations")
	billed := highest(sink.AllMetrics(), "leasehold.store.billed")
	if counted != requests || billed <= requests {
		t.Errorf("the collector knows of %v requests of %d, and of %v documents of Firestore", counted, requests, billed)
	}
}

// acquire takes a lock, and waits for the server if it has not begun to listen.
func acquire(ctx context.Context, t *testing.T, url string, i int) {
	t.Helper()
	for {
		body := strings.NewReader(fmt.Sprintf(`{"request_id":"r%d","owner_id":"ann","ttl_seconds":60}`, i))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost,
			fmt.Sprintf("%s/v1/tenants/default/locks/k%d/acquire", url, i), body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		switch {
		case err == nil && resp.StatusCode == http.StatusOK:
			_ = resp.Body.Close()
			return
		case err == nil:
			t.Fatal(resp.Status)
		case ctx.Err() != nil:
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// highest is the sum of a counter in what was exported last: the highest, for an export that was cut off may arrive
// after the one that followed it.
func highest(all []pmetric.Metrics, name string) (sum float64) {
	for _, received := range all {
		for _, r := range received.ResourceMetrics().All() {
			for _, s := range r.ScopeMetrics().All() {
				for _, m := range s.Metrics().All() {
					if m.Name() != name {
						continue
					}
					exported := 0.0
					for _, p := range m.Sum().DataPoints().All() {
						exported += float64(p.IntValue()) + p.DoubleValue()
					}
					sum = max(sum, exported)
				}
			}
		}
	}
	return sum
}
