package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// bounds are those of "leasehold serve" without settings.
var bounds = httpapi.Limits{Concurrent: 256, Lists: httpapi.DefaultLists(), PageBytes: httpapi.DefaultPageBytes}

// with returns the bounds with a change.
func with(change func(*httpapi.Limits)) httpapi.Limits {
	l := bounds
	change(&l)
	return l
}

// fillLarge writes locks of the largest metadata: 32 entries of 512 bytes.
func fillLarge(b *testing.B, s docstore.Store, n int) {
	b.Helper()
	metadata := map[string]string{}
	for i := range lock.MaxMetadata {
		metadata[fmt.Sprintf("label-%02d", i)] = strings.Repeat("x", lock.MaxMetadataValueBytes)
	}
	locks := lock.New(s, nil)
	var next atomic.Int64
	spread(b, 32, n, func(int) error {
		o, err := locks.Acquire(b.Context(), lock.Acquire{
			ID: lock.ID{Tenant: "acme", Key: fmt.Sprintf("k%04d", next.Add(1))}, Owner: "ann", RequestID: "r1", TTLSeconds: 3600,
			Metadata: metadata,
		})
		if err == nil && o.Code != lock.OK {
			err = fmt.Errorf("acquire: %s", o.Code)
		}
		return err
	})
}

// BenchmarkUnreadPages opens connections that each ask for the largest page of large locks and read nothing of it but
// the first bytes, and reports what the process holds before and while they wait: the heap after a collection, the heap
// in use, and the resident memory with its peak (Linux). refused counts the pages that were OVERLOADED. The bounds are
// those of "leasehold serve".
//
//	go test -C tests/bench -bench UnreadPages -benchtime 1x
func BenchmarkUnreadPages(b *testing.B) {
	s := openSQLite(b)
	fillLarge(b, s, 1000)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: httpapi.New(s, httpapi.Development{}, &httpapi.Options{
		Limits: bounds,
	}), ReadHeaderTimeout: time.Minute}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		// as for a reader far away; on this machine the kernel would take whole pages
		_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
		return ctx
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for _, readers := range []int{40, 200} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			for b.Loop() {
				before := measure(b)
				conns, refused := unread(b, l.Addr().String(), readers)
				peak := memory("VmHWM")
				held := measure(b)
				for _, c := range conns {
					_ = c.Close()
				}
				b.ReportMetric(before.live, "live-MB-before")
				b.ReportMetric(held.live, "live-MB-unread")
				b.ReportMetric(held.inUse, "heap-MB-unread")
				b.ReportMetric(before.resident, "RSS-MB-before")
				b.ReportMetric(peak, "RSS-MB-peak")
				b.ReportMetric(float64(refused), "refused")
			}
		})
	}
}

// unread asks for pages and reads the status line only.
func unread(b *testing.B, addr string, readers int) (conns []net.Conn, refused int64) {
	b.Helper()
	conns = make([]net.Conn, readers)
	var (
		overloaded atomic.Int64
		begun      sync.WaitGroup
	)
	for i := range conns {
		begun.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			conns[i] = c
			_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(c, "GET /v1/tenants/acme/locks?page_size=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
			status := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(c, status); err != nil {
				b.Error(err)
			} else if bytes.HasSuffix(status, []byte("503")) {
				overloaded.Add(1)
			}
		})
	}
	begun.Wait()
	return conns, overloaded.Load()
}

type usage struct{ live, inUse, resident float64 }

// measure returns what the process holds, in MB.
func measure(b *testing.B) usage {
	b.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	inUse := float64(m.HeapInuse) / 1e6
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	u := usage{live: float64(m.HeapAlloc) / 1e6, inUse: inUse, resident: memory("VmRSS")}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
	return u
}

// memory returns a line of /proc/self/status in MB, 0 where there is none.
func memory(name string) float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kB, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kB * 1024 / 1e6
		}
	}
	return 0
}

// tenantByHeader takes the caller's tenant from a header.
type tenantByHeader struct{}

func (tenantByHeader) Identify(r *http.Request) (httpapi.Caller, error) {
	tenant := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return httpapi.Caller{Subject: tenant, Tenant: tenant}, nil
}
func (tenantByHeader) Challenge() string { return "" }
func (tenantByHeader) Unverified() bool  { return false }

// BenchmarkNoisyTenant measures cycles of a quiet tenant, one every 5 ms, alone and beside a tenant that writes new
// locks from 64 connections and lists them from 12, as fast as it can, without and with bounds. Clients and server
// share the processors. Compare the lines with each other.
//
//	go test -C tests/bench -bench NoisyTenant -benchtime 1000x
func BenchmarkNoisyTenant(b *testing.B) {
	for _, c := range []struct {
		name   string
		noisy  bool
		limits httpapi.Limits
	}{
		{"alone", false, httpapi.Limits{}},
		{"unbounded", true, httpapi.Limits{}},
		{"default", true, bounds},
		{"concurrent=16", true, with(func(l *httpapi.Limits) { l.Concurrent = 16 })},
		{"tenant-rate=200", true, with(func(l *httpapi.Limits) { l.PerTenant = 200 })},
		{"tenant-rate=200,concurrent=16", true, with(func(l *httpapi.Limits) { l.PerTenant, l.Concurrent = 200, 16 })},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := openSQLite(b)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &http.Server{Handler: httpapi.New(s, tenantByHeader{}, &httpapi.Options{Limits: c.limits}),
				ReadHeaderTimeout: time.Minute}
			go func() { _ = server.Serve(l) }()
			defer server.Close()
			tenant := func(name string, connections int) *client.LockAPI {
				c, err := client.New("http://"+l.Addr().String(), &client.Options{
					Tries: 1, Token: func(context.Context) (string, error) { return name, nil },
					HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
				})
				if err != nil {
					b.Fatal(err)
				}
				return c.LockAPI()
			}
			ctx, stop := context.WithCancel(b.Context())
			var noise sync.WaitGroup
			var requests atomic.Int64
			if c.noisy {
				makeNoise(ctx, &noise, tenant("noisy", 76), &requests)
			}
			cycle := throughHTTPAs(b.Context(), tenant("quiet", 1), "quiet")
			var took []time.Duration
			refused := 0
			b.ResetTimer()
			begin := time.Now()
			for range b.N {
				one := time.Now()
				err := cycle()
				switch {
				case errors.Is(err, contracts.CodeOverloaded):
					refused++
				case err != nil:
					b.Fatal(err)
				}
				took = append(took, time.Since(one))
				time.Sleep(5 * time.Millisecond)
			}
			b.StopTimer()
			seconds := time.Since(begin).Seconds()
			stop()
			noise.Wait()
			slices.Sort(took)
			at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
			b.ReportMetric(at(0.5), "p50-ms")
			b.ReportMetric(at(0.99), "p99-ms")
			b.ReportMetric(float64(refused), "refused")
			b.ReportMetric(float64(requests.Load())/seconds, "noisy-done/s")
		})
	}
}

// throughHTTPAs is a cycle of a tenant's lock through the Go client, each time another lock, so that one whose release
// was rejected does no harm.
func throughHTTPAs(ctx context.Context, locks *client.LockAPI, tenant string) func() error {
	n := 0
	return func() error {
		n++
		key := fmt.Sprint("mine", n)
		l, err := locks.Acquire(ctx, tenant, key, contracts.AcquireRequest{TTLSeconds: 60})
		if err == nil {
			_, err = locks.Release(ctx, tenant, key, contracts.ReleaseRequest{RequestID: "e1", FencingToken: l.FencingToken})
		}
		return err
	}
}

// makeNoise acquires new locks over 64 connections and reads the largest pages over 12, as fast as responses arrive,
// until ctx ends. After a rejection it waits for 50 ms, which is less than it is told to: otherwise its own loop would
// take the processors.
func makeNoise(ctx context.Context, done *sync.WaitGroup, locks *client.LockAPI, requests *atomic.Int64) {
	labels := contracts.Metadata{}
	for i := range 8 {
		labels[fmt.Sprint("label-", i)] = strings.Repeat("x", 256)
	}
	count := func(err error) {
		if err == nil {
			requests.Add(1)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for i := range 64 {
		done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := locks.Acquire(ctx, "noisy", fmt.Sprint("k", i, "-", n),
					contracts.AcquireRequest{TTLSeconds: 60, Metadata: labels})
				count(err)
			}
		})
	}
	for range 12 {
		done.Go(func() {
			for ctx.Err() == nil {
				_, err := locks.List(ctx, "noisy", client.LockQuery{PageSize: 1000})
				count(err)
			}
		})
	}
}
