package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// counted is a store in memory, in a bubble, that counts its requests, and loses the response to a write of a run.
type counted struct {
	docstore.Store

	requests, lists atomic.Int64
	lose            atomic.Bool
}

func (s *counted) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.requests.Add(1)
	r, err := s.Store.Write(ctx, w...)
	if r.Applied && w[0].Key.Kind == runs.Kind && s.lose.Swap(false) {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return r, err
}

func (s *counted) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.requests.Add(1)
	return s.Store.Get(ctx, keys...)
}

func (s *counted) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.requests.Add(1)
	s.lists.Add(1)
	return s.Store.List(ctx, q)
}

// tenants is a process with a bound, on a store that others may share.
type tenants struct {
	*testing.T
	*counted
	*runs.Runs
}

func newTenants(t *testing.T, most int) *tenants {
	t.Helper()
	return (&tenants{T: t, counted: &counted{Store: docstore.NewMemory(nil)}}).another(most)
}

func (w *tenants) another(most int) *tenants {
	return &tenants{w.T, w.counted, runs.New(w.counted, &runs.Options{MaxPerTenant: most})}
}

func (w *tenants) named(tenant, id, request string) runs.Begin {
	return runs.Begin{ID: runs.ID{Tenant: tenant, ID: id}, Owner: "ann", RequestID: request, TTLSeconds: 30,
		KeepSeconds: 3600}
}

// does checks the outcome of a command, and how many requests it took.
func (w *tenants) does(what string, do func(context.Context, runs.Begin) (runs.Outcome, error), c runs.Begin,
	code analysis.Code, requests int64) runs.Outcome {
	w.Helper()
	w.requests.Store(0)
	o, err := do(w.Context(), c)
	if n := w.requests.Load(); err != nil || o.Code != code || n != requests {
		w.Errorf("%s: %+v, %v with %d requests; want %s with %d", what, o, err, n, code, requests)
	}
	return o
}

// correct counts the runs of all tenants.
func (w *tenants) correct() {
	w.Helper()
	time.Sleep(24 * time.Hour)
	if _, err := census.Correct(w.Context(), w.Store, 0); err != nil {
		w.Fatal(err)
	}
}

// fill begins runs until there is no room, or so many, and reports how many it has begun.
func (w *tenants) fill(name string, most int) (n int) {
	w.Helper()
	for ; n < most; n++ {
		o, err := w.Begin(w.Context(), w.named("acme", fmt.Sprint(name, "-", n), "r"))
		if err != nil || o.Code != analysis.OK {
			if err != nil || o.Code != runs.Limit {
				w.Errorf("%+v, %v", o, err)
			}
			break
		}
	}
	return n
}

// TestRunsPerTenant (LIM-NUMBER-3) walks a tenant up to its bound and beyond, with the requests that each step costs:
// one for a run that has a record, and where there is no room in hand, one more for a new one and one to the tally.
func TestRunsPerTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, 3)
		first := w.does("the first one begins the tally", w.Begin, w.named("acme", "a", "r1"), analysis.OK, 4)
		w.does("there is room", w.Begin, w.named("acme", "b", "r1"), analysis.OK, 3)
		w.does("a retry is no other run", w.Begin, w.named("acme", "b", "r1"), analysis.OK, 1)
		w.does("nor is one that goes on", w.Begin, w.named("acme", "b", "r2"), analysis.Locked, 1)
		w.does("the last place", w.Begin, w.named("acme", "c", "r1"), analysis.OK, 3)
		o := w.does("no place", w.Begin, w.named("acme", "d", "r1"), runs.Limit, 2)
		if o.RetryAfter != 5*time.Minute || !strings.Contains(o.Detail, "3 runs") {
			t.Errorf("%+v", o)
		}
		w.does("no place, again", w.Begin, w.named("acme", "d", "r1"), runs.Limit, 1)
		if s, _, err := w.Runs.Get(t.Context(), w.named("acme", "d", "").ID); err != nil || s.Exists {
			t.Errorf("it is there: %+v, %v", s, err)
		}
		w.does("what goes on", w.Begin, w.named("acme", "c", "r2"), analysis.Locked, 1)
		w.does("another tenant", w.Begin, w.named("acmf", "d", "r1"), analysis.OK, 4)
		if o, err := w.Finish(t.Context(), runs.Finish{ID: runs.ID{Tenant: "acme", ID: "a"}, Owner: "ann",
			Token: first.Grant.Token, Status: analysis.Ready, Result: "done", KeepSeconds: 3600}); err != nil ||
			o.Code != analysis.OK {
			t.Errorf("a finish at the bound: %+v, %v", o, err)
		}
		o = w.does("the result of one that has finished", w.Begin, w.named("acme", "a", "r9"), analysis.AlreadyFinished, 1)
		if o.Result != "done" {
			t.Errorf("%+v", o)
		}
		time.Sleep(31 * time.Second)
		w.does("one whose lock has ended", w.Begin, w.named("acme", "b", "r3"), analysis.OK, 2)
		w.does("a finished one counts", w.Begin, w.named("acme", "d", "r1"), runs.Limit, 2)
		for i := range 30 {
			w.does("ten times beyond", w.Begin, w.named("acme", fmt.Sprint("e", i), "r1"), runs.Limit, 1)
		}
		late := w.named("acme", "d", "r1")
		late.NotAfter = time.Now().Add(-time.Second)
		w.does("too late, at the bound", w.Begin, late, analysis.TooLate, 1)
	})
}

// TestRemovedRunsMakeRoom (LIM-NUMBER-4): with the next correction, and for as many as were removed.
func TestRemovedRunsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, 3)
		if n := w.fill("a", 30); n != 3 {
			t.Errorf("%d runs", n)
		}
		time.Sleep(time.Hour + 31*time.Second)
		if n, err := w.Store.(docstore.Pruner).Prune(t.Context(), 10); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		if n := w.fill("b", 3); n != 0 {
			t.Errorf("%d runs before they were counted", n)
		}
		w.correct()
		if n := w.fill("c", 30); n != 3 {
			t.Errorf("%d runs afterwards", n)
		}
	})
}

// TestGiveUpsAtTheBound: a request that is given up before it comes makes a record, which counts: callers cannot make
// such records without end either. In a run that there is, it can be given up at the bound.
func TestGiveUpsAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, 2)
		w.does("given up before it came", w.GiveUp, w.named("acme", "a", "r1"), analysis.OK, 4)
		w.does("again", w.GiveUp, w.named("acme", "a", "r1"), analysis.OK, 1)
		w.does("then it comes", w.Begin, w.named("acme", "a", "r1"), analysis.RequestIDReused, 1)
		w.does("the last place", w.Begin, w.named("acme", "b", "r1"), analysis.OK, 3)
		w.does("no place", w.GiveUp, w.named("acme", "c", "r1"), runs.Limit, 2)
		w.does("another request, in a run", w.GiveUp, w.named("acme", "b", "r2"), analysis.OK, 2)
		w.does("its holder's", w.GiveUp, w.named("acme", "b", "r1"), analysis.OK, 2)
		w.does("a run in the place of a memory", w.Begin, w.named("acme", "a", "r3"), analysis.OK, 1)
		w.does("no place", w.Begin, w.named("acme", "c", "r1"), runs.Limit, 1)
	})
}

// TestRoomForRunsIsTakenTogether (LIM-NUMBER-2): a new run is one request while there is room in hand, whatever number
// of runs there is. What makes no record uses none.
func TestRoomForRunsIsTakenTogether(t *testing.T) {
	t.Parallel()
	for _, there := range []int64{1, 30_000, 1_000_000} {
		synctest.Test(t, func(t *testing.T) {
			w := newTenants(t, 2_000_000)
			if _, err := w.Store.Write(t.Context(), docstore.Write{
				Key: docstore.Key{Kind: census.TallyKind, ID: "runs/acme"},
				Set: map[string]docstore.Value{"count": docstore.Int(there)}}); err != nil {
				t.Fatal(err)
			}
			// 1, 2, 4 and 8 places, and then ten at a time: two requests more for each of these
			if n := w.fill("a", 105); n != 105 || w.requests.Load() != 105+2*(4+9) || w.lists.Load() != 0 {
				t.Errorf("%d runs: %d with %d requests, %d lists", there, n, w.requests.Load(), w.lists.Load())
			}
			w.does("the next begins the next ten", w.Begin, w.named("acme", "b", "r1"), analysis.OK, 3)
			for i := range 20 {
				w.does("a retry", w.Begin, w.named("acme", "b", fmt.Sprint("r", i+1)), analysis.OK, 1)
				w.does("given up", w.GiveUp, w.named("acme", "b", fmt.Sprint("r", i+1)), analysis.OK, 2)
				w.does("a new attempt", w.Begin, w.named("acme", "b", fmt.Sprint("r", i+2)), analysis.OK, 1)
			}
			for i := range 9 {
				w.does("one of the ten", w.Begin, w.named("acme", fmt.Sprint("c", i), "r1"), analysis.OK, 1)
			}
			w.does("the next ten", w.Begin, w.named("acme", "d", "r1"), analysis.OK, 3)
		})
	}
}

// TestRunsOfProcesses (LIM-NUMBER-1): however many processes begin them, and ten times as many as there is room for, a
// tenant has as many as the bound says, and no more.
func TestRunsOfProcesses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			const most = 640
			first := newTenants(t, most)
			var begun atomic.Int64
			var all sync.WaitGroup
			for i := range n {
				w := first.another(most)
				all.Go(func() {
					begun.Add(int64(w.fill(strconv.Itoa(i), 10*most)))
					for range 10 * most / n {
						begun.Add(int64(w.fill(fmt.Sprint("beyond", i), 1)))
					}
				})
			}
			all.Wait()
			if begun.Load() != most || first.lists.Load() != 0 {
				t.Errorf("%d processes: %d runs, %d lists", n, begun.Load(), first.lists.Load())
			}
		})
	}
}

// TestRunsWithALostResponse: a write whose outcome is unknown counts, and sent again it is no other run. What is
// malformed takes no room.
func TestRunsWithALostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, 400) // four places at once
		w.fill("a", 4)          // of 1, 2 and 4
		w.lose.Store(true)
		if _, err := w.Begin(t.Context(), w.named("acme", "b", "r1")); !errors.Is(err, docstore.ErrUnavailable) {
			t.Error(err)
		}
		w.does("again", w.Begin, w.named("acme", "b", "r1"), analysis.OK, 1)
		for range 5 {
			if _, err := w.Begin(t.Context(), w.named("acme", "a/b", "r1")); !isField(err) {
				t.Error(err)
			}
		}
		w.does("one of the four", w.Begin, w.named("acme", "c", "r1"), analysis.OK, 1)
		w.does("the last of the four", w.Begin, w.named("acme", "d", "r1"), analysis.OK, 1)
		w.does("the next four", w.Begin, w.named("acme", "e", "r1"), analysis.OK, 3)
	})
}

func isField(err error) bool {
	_, ok := errors.AsType[*field.Error](err)
	return ok
}
