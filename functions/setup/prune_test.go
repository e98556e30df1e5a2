package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// fill writes n documents that may be removed after a time.
func fill(t *testing.T, s docstore.Store, n int, keep time.Duration) {
	t.Helper()
	for i := range n {
		w := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: fmt.Sprint(keep, i)},
			Set: map[string]docstore.Value{"n": docstore.Int(1)}, Keep: keep}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
}

func left(t *testing.T, s docstore.Store) (n int) {
	t.Helper()
	for q := (docstore.Query{Kind: "locks", Tenant: "acme", Limit: docstore.MaxLimit}); ; {
		p, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(p.Entries); p.Next == "" {
			return n
		}
		q.After = p.Next
	}
}

// failing is a store whose Prune fails as often as it says.
type failing struct {
	*docstore.Memory

	times  int64
	calls  atomic.Int64
	limits []int
}

func (f *failing) Prune(ctx context.Context, limit int) (int, error) {
	f.limits = append(f.limits, limit)
	if f.calls.Add(1) <= f.times {
		return 0, errors.New("disk on fire")
	}
	return f.Memory.Prune(ctx, limit)
}

// TestPruneLoop: what is due is removed within minutes, in batches, also after a failure; what is not due stays.
func TestPruneLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Memory: docstore.NewMemory(nil), times: 1}
		fill(t, store, 1200, time.Minute)
		fill(t, store, 3, 24*time.Hour)
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			PruneLoop(ctx, store, slog.New(slog.NewTextHandler(&log, nil)), nil, nil)
		}()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := left(t, store); n != 1203 || store.calls.Load() != 0 {
			t.Errorf("%d are left after 2 minutes", n)
		}
		time.Sleep(18 * time.Minute)
		synctest.Wait()
		if n := left(t, store); n != 3 {
			t.Errorf("%d are left after 20 minutes, want 3", n)
		}
		cancel()
		<-ended
		for _, limit := range store.limits {
			if limit > 500 {
				t.Errorf("one call removes up to %d", limit)
			}
		}
		if n := strings.Count(log.String(), "removed=1200"); n != 1 || !strings.Contains(log.String(), "disk on fire") {
			t.Errorf("the log: %s", &log)
		}
	})
	t.Run("a store that does it itself", func(t *testing.T) {
		PruneLoop(t.Context(), struct{ docstore.Store }{docstore.NewMemory(nil)}, slog.Default(), nil, nil) // returns
	})
	t.Run("a store that is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := docstore.NewMemory(nil)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			PruneLoop(t.Context(), store, slog.New(slog.DiscardHandler), nil, nil) // returns
		})
	})
}

// passing is a store with documents in each batch that cannot be read.
type passing struct{ *docstore.Memory }

func (p passing) Prune(ctx context.Context, limit int) (int, error) {
	var u docstore.Unreadable
	for range 15 {
		u.Take(docstore.ErrDamaged)
	}
	n, err := p.Memory.Prune(ctx, limit)
	return n, errors.Join(err, u.Err())
}

// TestPrunePassesDamage: what cannot be read in a batch keeps no later batch from being removed, and is said once for
// all of them.
func TestPrunePassesDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		fill(t, store, 1200, time.Minute)
		time.Sleep(time.Hour)
		n, err := Prune(t.Context(), passing{store}, nil)
		if u, failed := docstore.Failure(err); n != 1200 || failed != nil || u.Count != 45 ||
			len(u.Named) != docstore.MostNamed {
			t.Errorf("removed %d: %v, %+v", n, failed, u)
		}
		fill(t, store, 5001, time.Minute)
		time.Sleep(time.Hour)
		n, err = pruneSome(t.Context(), passing{store})
		if u, failed := docstore.Failure(err); n != 5000 || failed != nil || u.Count != 150 {
			t.Errorf("removed %d: %v, %+v", n, failed, u)
		}
		var log bytes.Buffer
		var damage metrics.Damage
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			PruneLoop(ctx, passing{store}, slog.New(slog.NewTextHandler(&log, nil)), nil, &damage)
		}()
		time.Sleep(PruneEvery + PruneEvery/2)
		synctest.Wait()
		cancel()
		<-ended
		if left(t, store) != 0 || !strings.Contains(log.String(), "damaged=15") ||
			strings.Contains(log.String(), "cannot remove") {
			t.Errorf("%d are left; the log: %s", left(t, store), &log)
		}
		if got := damage.Last(); got.Count == 0 || got.Count%15 != 0 || got.Operation != "sweep.ended" {
			t.Errorf("counted %+v", got)
		}
	})
}

// nowhere is a queue.
type nowhere struct{}

func (nowhere) Enqueue(context.Context, analysis.ID, string) error { return nil }

// TestSweepPrunes: each call of a scheduler removes some thousand of what is due, and the rest is left to the next;
// what is not due stays, and a store that removes by itself is left alone.
func TestSweepPrunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		fill(t, store, 5200, time.Minute)
		fill(t, store, 3, 24*time.Hour)
		time.Sleep(time.Hour)
		sweep := func(store docstore.Store) string {
			t.Helper()
			route, err := SweepRoute(t.Context(), config(t, settings.Serve, ""), nowhere{}, store, slog.New(slog.DiscardHandler),
				nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, tasks.SweepPath, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:50000", "127.0.0.1:8080"
			httpapi.Handler([]httpapi.Route{route}, nil).ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
			return w.Body.String()
		}
		if got := sweep(struct{ docstore.Store }{store}); strings.Contains(got, "pruned") || left(t, store) != 5203 {
			t.Error(got)
		}
		for _, want := range []struct {
			pruned string
			left   int
		}{{`"pruned":5000`, 203}, {`"pruned":200`, 3}, {"", 3}} {
			if got := sweep(store); !strings.Contains(got, want.pruned) ||
				strings.Contains(got, "pruned") != (want.pruned != "") || left(t, store) != want.left {
				t.Errorf("%s, %d are left; want %+v", got, left(t, store), want)
			}
		}
	})
}
