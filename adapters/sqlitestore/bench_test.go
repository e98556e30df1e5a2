package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// BenchmarkWrite acquires and renews locks, each goroutine its own. The disk's sync is shared by those who write at
// the same time, so that more goroutines get more done.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "leasehold.db"), nil)
			b.SetParallelism((n + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			if n == 1 {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			}
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				w := grant(fmt.Sprintf("deploy-%03d", next.Add(1)))
				for pb.Next() {
					if r, err := s.Write(b.Context(), w); err != nil || !r.Applied {
						b.Errorf("applied %v, error %v", r.Applied, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(s.Stats().Applied)/float64(s.Stats().Transactions), "writes/commit")
		})
	}
}

// grant is a write like that of a lock's acquire.
func grant(id string) docstore.Write {
	return docstore.Write{
		Key: key(id),
		If: docstore.Any{
			docstore.Absent{}, docstore.Eq{Field: "owner", Value: docstore.String("ci-42")},
			docstore.LE{Field: "expires_at", Value: docstore.Now},
		},
		Set: docstore.Doc{
			"state": docstore.String("ACTIVE"), "owner": docstore.String("ci-42"),
			"lease_id":   docstore.String("7f1c9a40-63c1-4a7e"),
			"request_id": docstore.String("0d9e2c55-11ab"), "acquired_at": docstore.Now,
			"expires_at": docstore.Now.Add(30 * time.Second),
			"ttl_ms":     docstore.Int(30000), "metadata": docstore.Map{"build": "991", "branch": "main"},
		},
		Add: map[string]int64{"token": 1},
	}
}

// BenchmarkPrune removes documents that have ended, as retention does.
func BenchmarkPrune(b *testing.B) {
	clock := newHands(noon)
	s := open(b, filepath.Join(b.TempDir(), "leasehold.db"), clock.options())
	for i := range b.N {
		w := grant(strconv.Itoa(i))
		w.Keep = time.Hour
		if _, err := s.Write(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
	clock.set(noon.Add(2 * time.Hour))
	b.ResetTimer()
	for left := b.N; left > 0; {
		n, err := s.Prune(b.Context(), 500)
		if err != nil || n == 0 {
			b.Fatalf("%d removed, %v", n, err)
		}
		left -= n
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
}

func BenchmarkGet(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "leasehold.db"), nil)
	if _, err := s.Write(b.Context(), grant("deploy")); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), key("deploy")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	doc, err := sqlitestore.ParseDoc(`{"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z",` +
		`"lease_id":"7f1c9a40-63c1-4a7e","metadata":{"branch":"main","build":"991"},"owner":"ci-42","request_id":"0d9e2c55-11ab",` +
		`"state":"ACTIVE","token":12,"ttl_ms":30000}`)
	if err != nil {
		b.Fatal(err)
	}
	text := string(sqlitestore.AppendDoc(nil, doc))
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := sqlitestore.ParseDoc(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = sqlitestore.AppendDoc(buf[:0], doc)
		}
	})
}
