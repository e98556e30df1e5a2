package bench

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func floor(b *testing.B, n int) func(int) error {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	resp := []byte(`{"tenant_id":"acme","lock_key":"k0","lease_id":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","owner_id":"ann","fencing_token":1767225600000000,"state":"ACTIVE","acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","remaining_ms":60000,"ttl_seconds":60,"metadata":{},"replayed":false}`)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(resp)
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	body := []byte(`{"request_id":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","owner_id":"ann","ttl_seconds":60}`)
	url := "http://" + l.Addr().String() + "/v1/tenants/acme/locks/k0/acquire"
	return func(int) error {
		for range 2 {
			r, err := c.Post(url, "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			_, _ = io.ReadAll(r.Body)
			_ = r.Body.Close()
		}
		return nil
	}
}

func BenchmarkFloor(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run("n", func(b *testing.B) {
			f := floor(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			c := cpu()
			clients(b, n, f)
			b.ReportMetric(float64((cpu()-c).Microseconds())/float64(b.N), "cpu-us/cycle")
		})
	}
}
