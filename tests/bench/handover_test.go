package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// BenchmarkHandOver lets 16 callers, spread over servers, obtain one lock, hold it for 5 ms, release it, and ask again,
// for as long as -benchtime says; it makes the table of docs/reference/limits.md. The servers are Locks with stores of
// their own in one process, without HTTP; Redis is a redis-server that syncs each write, Firestore and DynamoDB are the
// emulators.
func BenchmarkHandOver(b *testing.B) {
	for _, store := range []string{"sqlite", "redis", "firestore", "dynamodb"} {
		for _, fair := range []bool{true, false} {
			for _, servers := range []int{1, 2, 8} {
				b.Run(fmt.Sprintf("%s/fair=%v/servers=%d", store, fair, servers), func(b *testing.B) {
					handOver(b, together(b, store), servers, fair, 16, 5*time.Millisecond)
				})
			}
		}
	}
}

// BenchmarkHandOverAtOnce is the same with callers of one server that wait in line and hold the lock for no time: what a
// hand-over costs as the line grows.
func BenchmarkHandOverAtOnce(b *testing.B) {
	for _, store := range []string{"memory", "sqlite", "redis"} {
		for _, callers := range []int{10, 100} {
			b.Run(fmt.Sprintf("%s/callers=%d", store, callers), func(b *testing.B) {
				handOver(b, together(b, store), 1, true, callers, 0)
			})
		}
	}
}

// together makes a function that opens stores on the same data.
func together(b *testing.B, name string) func() (docstore.Store, error) {
	b.Helper()
	dir := b.TempDir()
	switch name {
	case "memory":
		memory := docstore.NewMemory(nil)
		return func() (docstore.Store, error) { return memory, nil }
	case "sqlite":
		return func() (docstore.Store, error) {
			return sqlitestore.Open(b.Context(), filepath.Join(dir, "bench.db"), nil)
		}
	case "redis":
		binary, err := exec.LookPath("redis-server")
		if err != nil {
			b.Skip("redis-server is not installed: apt-get install redis-server")
		}
		socket := filepath.Join(dir, "redis.sock")
		c := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--appendonly", "yes",
			"--appendfsync", "always")
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(socket); err == nil {
				break
			}
		}
		return func() (docstore.Store, error) {
			return redisstore.Open(b.Context(), &redisstore.Options{Addr: "unix://" + socket})
		}
	case "firestore":
		server := firestoretest.Start(b, nil)
		return func() (docstore.Store, error) {
			return gcpfirestore.Open(b.Context(), &gcpfirestore.Options{Project: "leasehold-bench",
				ClientOptions: server.ClientOptions()})
		}
	default:
		server := dynamodbtest.Start(b, nil)
		return func() (docstore.Store, error) {
			client := dynamodb.New(dynamodb.Options{Region: "local", BaseEndpoint: aws.String(server.URL),
				Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
			return awsdynamodb.Open(b.Context(), "leasehold", &awsdynamodb.Options{Client: client, CreateTable: true})
		}
	}
}

func handOver(b *testing.B, open func() (docstore.Store, error), servers int, fair bool,
	callers int, hold time.Duration) {
	b.Helper()
	var locks []*lock.Locks
	for range servers {
		s, err := open()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		locks = append(locks, lock.New(s, nil))
	}
	ctx, end := context.WithCancel(b.Context())
	defer end()
	var (
		mu     sync.Mutex
		of     = make([]int, servers)
		waited []time.Duration
		left   = b.N
		done   sync.WaitGroup
	)
	id := lock.ID{Tenant: "acme", Key: "k"}
	b.ResetTimer()
	for n := range callers {
		l, owner := locks[n%servers], fmt.Sprint("caller-", n)
		done.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				begin := time.Now()
				o, err := l.Acquire(ctx, lock.Acquire{ID: id, Owner: owner, RequestID: fmt.Sprint("r", round), TTLSeconds: 60,
					WaitSeconds: 20, Fair: fair})
				switch {
				case ctx.Err() != nil:
					return
				case errors.Is(err, docstore.ErrUnavailable) || err == nil && o.Code != lock.OK:
					continue
				case err != nil:
					b.Error(err)
					return
				}
				mu.Lock()
				of[n%servers]++
				waited = append(waited, time.Since(begin))
				left--
				last := left == 0
				mu.Unlock()
				time.Sleep(hold)
				if last {
					end()
					return
				}
				if _, err := l.Release(ctx, lock.Release{ID: id, Owner: owner, Token: o.Lease.Token,
					RequestID: fmt.Sprint("e", round)}); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
	slices.Sort(waited)
	b.ReportMetric(float64(len(waited))/b.Elapsed().Seconds(), "handovers/s")
	b.ReportMetric(float64(waited[len(waited)*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(100*float64(slices.Min(of)*servers)/float64(len(waited)), "least-share-%")
	b.ReportMetric(100*float64(slices.Max(of)*servers)/float64(len(waited)), "most-share-%")
	b.ReportMetric(0, "ns/op")
}
