package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// slowQueue takes a second for each message.
type slowQueue struct{ ids []analysis.ID }

func (q *slowQueue) Enqueue(ctx context.Context, id analysis.ID, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		q.ids = append(q.ids, id)
		return nil
	}
}

// TestKindsShareASweep: a backlog of analyses that takes longer than a sweep has leaves clusters and retention their
// parts, each sweep is one that was done, and the next goes on where it stopped.
func TestKindsShareASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		const backlog = 300
		for i := range backlog {
			b.put(fmt.Sprintf("a%03d", i), docstore.Doc{
				"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
				"lockToken": docstore.Int(3),
			})
		}
		clusters := placement.New(b.store, nil)
		cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
		q, pruned := &slowQueue{}, 0
		route, err := tasks.SweepEndpoint{
			Analyses: analysis.New(b.store, nil), Sweep: analysis.Sweep{Queue: q}, Clusters: clusters, Guard: tasks.Platform{},
			Timeout: time.Minute,
			Prune: func(ctx context.Context) (int, error) { // a document in a second, without end
				for n := 0; ; n++ {
					select {
					case <-ctx.Done():
						return n, ctx.Err()
					case <-time.After(time.Second):
						pruned++
					}
				}
			},
		}.Route()
		if err != nil {
			t.Fatal(err)
		}
		h := contracttest.Handler(t, httpapi.Handler([]httpapi.Route{route}, nil))
		for sweep := 1; ; sweep++ {
			join := placement.Join{Cluster: cluster, Member: "ann", RequestID: fmt.Sprint("j", sweep),
				Offer: placement.Offer{Kinds: []string{"room"}}}
			if m, err := clusters.Join(t.Context(), join); err != nil || m.Code != placement.OK {
				t.Fatalf("%+v, %v", m, err)
			}
			time.Sleep(placement.DefaultTTL)
			pruned = 0
			begin, queued := time.Now(), len(q.ids)
			w := post(t.Context(), h, tasks.SweepPath, nil)
			var got contracts.SweepDone
			if err := json.Unmarshal(w.Body.Bytes(), &got); w.Code != 200 || err != nil {
				t.Fatalf("sweep %d: %d, %s", sweep, w.Code, w.Body)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("sweep %d took %v", sweep, took)
			}
			if !got.More || got.Clusters.Evicted != 1 || got.Clusters.Errors != 0 || got.Pruned != pruned || pruned < 19 {
				t.Errorf("sweep %d: %s; pruned %d", sweep, w.Body, pruned)
			}
			if len(q.ids) == backlog {
				break
			}
			if n := len(q.ids) - queued; n < 19 || got.Requeued != n {
				t.Fatalf("sweep %d queued %d: %s", sweep, n, w.Body)
			}
		}
		if !slices.IsSorted(q.ids) || len(slices.Compact(q.ids)) != backlog {
			t.Errorf("queued %v", q.ids)
		}
	})
}

// TestTimeThatIsNotUsed: what one kind of work does not use goes to the one that is cut off, and nothing is begun that
// has no time.
func TestTimeThatIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		for i := range 100 {
			b.put(fmt.Sprintf("a%03d", i), docstore.Doc{
				"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
				"lockToken": docstore.Int(3),
			})
		}
		q, prunes := &slowQueue{}, 0
		s := tasks.Sweeps{
			Analyses: analysis.New(b.store, nil), Sweep: analysis.Sweep{Queue: q}, Clusters: placement.New(b.store, nil),
			Prune: func(context.Context) (int, error) { prunes++; return 0, nil }, Log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := s.Run(ctx)
		if n := done.Analyses.Requeued; n != len(q.ids) || n < 55 || !done.Analyses.More || done.AnalysesErr != nil ||
			done.ClustersErr != nil || prunes != 1 {
			t.Errorf("%+v; queued %d; prunes %d", done, len(q.ids), prunes)
		}
		// The rest, without a bound of time.
		if done = s.Run(t.Context()); done.Analyses.More || len(q.ids) != 100 {
			t.Errorf("the rest: %+v; queued %d", done, len(q.ids))
		}
		// One that takes all the time is an error, and passed by in the rest.
		b.put("z", docstore.Doc{
			"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T22:00:00.000Z"),
			"lockToken": docstore.Int(3),
		})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if done = s.Run(ctx); !errors.Is(done.AnalysesErr, context.DeadlineExceeded) || done.ClustersErr != nil ||
			done.Analyses != (analysis.Swept{Stale: 101, Skipped: 100, Errors: 1}) {
			t.Errorf("%+v", done)
		}
	})
}

// TestSweepNamesDamage: what cannot be read is counted, and the response and one line of the log for each kind say what
// is wrong with the first of it.
func TestSweepNamesDamage(t *testing.T) {
	b := newBench(t, nil)
	for i := range 30 {
		b.put(fmt.Sprintf("a%02d", i), docstore.Doc{
			"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
			"lockToken": docstore.String("x"),
		})
	}
	b.put("u", docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("0")})
	w := post(t.Context(), b.sweepDoor(&queueOf{}), tasks.SweepPath, nil)
	var got contracts.SweepDone
	if err := json.Unmarshal(w.Body.Bytes(), &got); w.Code != 200 || err != nil {
		t.Fatalf("%d, %s", w.Code, w.Body)
	}
	if got.Stale != 31 || got.Errors != 31 || got.Damaged != 31 || len(got.Unreadable) != 20 ||
		!strings.Contains(got.Unreadable[0], "LOCK_UNREADABLE") ||
		!strings.Contains(got.Unreadable[1], `a00: field "lockToken"`) {
		t.Errorf("%s", w.Body)
	}
	if lines := strings.Count(b.log.String(), `"msg":"sweep"`); lines != 1 ||
		!strings.Contains(b.log.String(), `"level":"WARN","msg":"sweep"`) ||
		!strings.Contains(b.log.String(), `"damaged":31`) || !strings.Contains(b.log.String(), `and 11 more`) ||
		strings.Contains(b.log.String(), `"err"`) {
		t.Errorf("the log: %s", b.log)
	}
}

// TestDamageHidesNoFailure: a sweep that went past more documents which cannot be read than it names has not failed, of
// whatever kind they are, and says so if it has.
func TestDamageHidesNoFailure(t *testing.T) {
	b := newBench(t, nil)
	for i := range 25 {
		b.put(fmt.Sprintf("a%02d", i), docstore.Doc{
			"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"),
			"lockToken": docstore.String("x"),
		})
	}
	b.put("z", docstore.Doc{"lockOwner": docstore.String("w"),
		"lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z"), "lockToken": docstore.Int(3)})
	k := docstore.Key{Kind: "placement_registry", ID: "no cluster"}
	if _, err := b.store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"at": docstore.Int(1)}}); err != nil {
		t.Fatal(err)
	}
	var left docstore.Unreadable
	left.Take(fmt.Errorf("%w: a key of another type", docstore.ErrDamaged))
	full := errors.New("the queue is full")
	var log strings.Builder
	var damage metrics.Damage
	s := tasks.Sweeps{
		Damage:   &damage,
		Analyses: analysis.New(b.store, nil), Sweep: analysis.Sweep{Queue: &queueOf{err: full}},
		Clusters: placement.New(b.store, nil),
		Prune:    func(context.Context) (int, error) { return 3, left.Err() }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	done := s.Run(t.Context())
	if !errors.Is(done.AnalysesErr, full) || errors.Is(done.AnalysesErr, docstore.ErrDamaged) || done.ClustersErr != nil ||
		done.PruneErr != nil ||
		done.Unreadable.Count != 27 || done.Analyses.Damaged != 25 || done.Analyses.Errors != 26 {
		t.Errorf("%+v", done)
	}
	if got := damage.Last(); got.Count != 27 || got.Operation != "sweep.ended" {
		t.Errorf("counted %+v", got)
	}
	if strings.Count(log.String(), "level=ERROR") != 1 || strings.Count(log.String(), "level=WARN") != 2 ||
		!strings.Contains(log.String(), "the queue is full") {
		t.Errorf("the log: %s", log.String())
	}
	s.Sweep.Queue = &queueOf{}
	if done = s.Run(t.Context()); done.AnalysesErr != nil || done.ClustersErr != nil || done.Analyses.Requeued != 1 ||
		done.Unreadable.Count != 27 {
		t.Errorf("%+v", done)
	}
}
