// Package telemetry_test runs a server beside the receiver of a real OpenTelemetry collector. It is a module of its
// own: a user of Leasehold does not need the collector.
package telemetry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/leasehold-dev/leasehold/functions/metrics"
)

// build makes a program of the repository.
func build(t *testing.T, pkg string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	c := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", path}, flags...), "./"+pkg)...)
	c.Dir = filepath.Join("..", "..")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// free is an address that no one listens on.
func free(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestCollector: a collector's receiver takes what a server sends, by both protocols, and finds the instruments of the
// table with their units, kinds and attributes, and who sent them.
func TestCollector(t *testing.T) {
	program := build(t, "cmd/leasehold")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			overGRPC, overHTTP, sink := collect(t)
			address := overGRPC
			if protocol != "grpc" {
				address = overHTTP
			}
			serve(t, program, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol,
				"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
			judge(t, sink.AllMetrics())
		})
	}
}

// collect starts a collector's receiver for metrics, by both protocols. It does not take traces.
func collect(t *testing.T) (overGRPC, overHTTP string, sink *consumertest.MetricsSink) {
	t.Helper()
	sink = new(consumertest.MetricsSink)
	f := otlpreceiver.NewFactory()
	c := f.CreateDefaultConfig().(*otlpreceiver.Config)
	overGRPC, overHTTP = free(t), free(t)
	c.Protocols.GRPC.GetOrInsertDefault().NetAddr.Endpoint,
		c.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = overGRPC, overHTTP
	r, err := f.CreateMetrics(t.Context(), receivertest.NewNopSettings(f.Type()), c, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return overGRPC, overHTTP, sink
}

// serve runs a server, sends it a request, and ends it: what it measured is sent then at the latest.
func serve(t *testing.T, program string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--store", "memory")
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	go func() { _, _ = io.Copy(io.Discard, out) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/tenants/default/locks/deploy/acquire",
		strings.NewReader(`{"request_id":"r1","owner_id":"ann","ttl_seconds":60}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode, err)
	}
}

// judge compares what was received with the table.
func judge(t *testing.T, received []pmetric.Metrics) {
	t.Helper()
	found := map[string]bool{}
	for _, all := range received {
		for _, r := range all.ResourceMetrics().All() {
			if who := fmt.Sprint(r.Resource().Attributes().AsRaw()); !strings.Contains(who, "service.name:leasehold") ||
				!strings.Contains(who, "service.version:") ||
				!strings.Contains(who, "deployment.environment.name:test") {
				t.Errorf("it says that it is %s", who)
			}
			for _, s := range r.ScopeMetrics().All() {
				for _, m := range s.Metrics().All() {
					i := slices.IndexFunc(metrics.Table, func(i metrics.Instrument) bool { return i.Name == m.Name() })
					if i < 0 || s.Scope().Name() != metrics.Scope {
						t.Errorf("%s of %s is not in the table", m.Name(), s.Scope().Name())
						continue
					}
					found[m.Name()] = true
					row := metrics.Table[i]
					if m.Unit() != row.Unit || m.Description() != row.Help || kind(m) != row.Kind {
						t.Errorf("%s: %s, %s, %s", m.Name(), m.Unit(), m.Description(), kind(m))
					}
				}
			}
		}
	}
	for _, want := range []string{
		"http.server.request.duration", "leasehold.operations", "leasehold.leases.held", "leasehold.audit.events",
		"db.client.operation.duration", "leasehold.store.writes",
	} {
		if !found[want] {
			t.Errorf("%s was not received: %v", want, found)
		}
	}
}

// kind is what an instrument is, as far as it can be told from what was received.
func kind(m pmetric.Metric) metrics.Kind {
	switch m.Type() {
	case pmetric.MetricTypeHistogram:
		return metrics.Histogram
	case pmetric.MetricTypeGauge:
		return metrics.Gauge
	case pmetric.MetricTypeSum:
		if !m.Sum().IsMonotonic() {
			return metrics.UpDown
		}
		if m.Sum().DataPoints().Len() > 0 &&
			m.Sum().DataPoints().At(0).ValueType() == pmetric.NumberDataPointValueTypeDouble {
			return metrics.ObservedCounter
		}
		return metrics.Counter
	default:
		return ""
	}
}
