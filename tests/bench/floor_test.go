//go:build unix

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// alone is a cycle of net/http alone, which sends what acquire and release send, and responds with a lease.
func alone(b *testing.B, n int) func(int) error {
	b.Helper()
	const (
		request = `{"request_id":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","owner_id":"ann","ttl_seconds":60}`
		lease   = `{"tenant_id":"acme","lock_key":"k0","lease_id":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","owner_id":"ann","fencing_token":1767225600000000,` +
			`"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","remaining_ms":60000,` +
			`"ttl_seconds":60,"metadata":{},"replayed":false}`
	)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, lease)
		})}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	return func(int) error {
		for _, verb := range []string{"acquire", "release"} {
			w, err := c.Post("http://"+l.Addr().String()+"/v1/tenants/acme/locks/k0/"+verb, "application/json",
				bytes.NewReader([]byte(request)))
			if err != nil {
				return err
			}
			if _, err := io.ReadAll(w.Body); err != nil {
				return err
			}
			if err := w.Body.Close(); err != nil {
				return err
			}
		}
		return nil
	}
}

// BenchmarkFloor measures the Go client and the server beside net/http alone, in turns: cycles a second and processor
// time of a cycle, client and server together, in medians; and how many times those of net/http they are.
func BenchmarkFloor(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint("clients=", n), func(b *testing.B) {
			names := []string{"nethttp", "memory", "sqlite"}
			ways := []func(int) error{
				alone(b, n),
				throughHTTP(b.Context(), serve(b, docstore.NewMemory(nil), n)),
				throughHTTP(b.Context(), serve(b, openSQLite(b), n)),
			}
			rates, used := make([][]float64, len(ways)), make([][]float64, len(ways))
			for range b.N {
				for i, cycle := range ways {
					cycles := 10*n + 200
					before := processor()
					rates[i] = append(rates[i], float64(cycles)/spread(b, n, cycles, cycle).Seconds())
					used[i] = append(used[i], float64((processor()-before).Microseconds())/float64(cycles))
				}
			}
			median := func(list []float64) float64 {
				slices.Sort(list)
				return list[len(list)/2]
			}
			for i, name := range names {
				rate, cpu := median(rates[i]), median(used[i])
				b.ReportMetric(rate, name+"-cycles/s")
				b.ReportMetric(cpu, name+"-cpu-µs")
				if i > 0 {
					b.ReportMetric(median(rates[0])/rate, name+"-times")
					b.ReportMetric(cpu/median(used[0]), name+"-cpu-times")
				}
			}
			b.ReportMetric(0, "ns/op") // of all three together: it says nothing
		})
	}
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
