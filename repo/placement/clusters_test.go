package placement_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// noLists is a store that counts requests and lists nothing.
type noLists struct{ *counted }

func (noLists) List(context.Context, docstore.Query) (docstore.Page, error) {
	return docstore.Page{}, errors.New("a list in a join")
}

// clusters is the clusters of tenants, in a bubble.
type clusters struct {
	*testing.T
	*counted
	next atomic.Int64
}

func newClusters(t *testing.T) *clusters {
	t.Helper()
	return &clusters{T: t, counted: &counted{Store: docstore.NewMemory(nil)}}
}

// process is one with a bound.
func (w *clusters) process(most int, store docstore.Store) *placement.Service {
	return placement.New(store, &placement.Options{MaxClusters: most})
}

func (w *clusters) join(s *placement.Service, tenant, cluster string, code placement.Code) {
	w.Helper()
	name := fmt.Sprint("m", w.next.Add(1))
	o, err := s.Join(w.Context(), placement.Join{Cluster: placement.Cluster{Tenant: tenant, Name: cluster}, Member: name,
		RequestID: "j", TTL: time.Hour, Partitions: 16})
	if err != nil || o.Code != code {
		w.Errorf("%s of %s: %+v, %v; want %s", cluster, tenant, o, err, code)
	}
}

// correct counts the clusters of all tenants.
func (w *clusters) correct() {
	w.Helper()
	time.Sleep(24 * time.Hour)
	if _, err := census.Correct(w.Context(), w.counted, 0); err != nil {
		w.Fatal(err)
	}
}

// TestClustersAreNotListed (LIM-NUMBER-2): what it costs to set up a cluster, and to be refused, is the same for any
// number of them.
func TestClustersAreNotListed(t *testing.T) {
	t.Parallel()
	for _, there := range []int{1, 30_000} {
		for _, bounded := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newClusters(t)
				for i := range there {
					if _, err := w.Store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "placement_registry",
						ID: fmt.Sprint("acme/c", i)}, Set: map[string]docstore.Value{"at": docstore.Now}}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := w.Store.Write(t.Context(), docstore.Write{
					Key: docstore.Key{Kind: census.TallyKind, ID: "placement_registry/acme"},
					Set: map[string]docstore.Value{"count": docstore.Int(there), "named": docstore.Bool(true)}}); err != nil {
					t.Fatal(err)
				}
				most, name := 0, 1 // its name
				if bounded {
					most, name = there+1, 2 // its name, and the tally
				}
				s := w.process(most, noLists{w.counted})
				want := func(what string, reads, writes int) {
					t.Helper()
					if n := w.took(); n != [2]int{reads, writes} {
						t.Errorf("%d clusters, bound %v: %s took %d reads and writes", there, bounded, what, n)
					}
				}
				w.join(s, "acme", "new", placement.OK)
				want("the first join", 1, name+1)
				w.join(s, "acme", "new", placement.OK)
				want("the second", 1, 1)
				if !bounded {
					return
				}
				w.join(s, "acme", "beyond", placement.Limit)
				want("a join beyond the bound", 1, 3) // its name, the tally, and its name goes
				for range 10 {
					w.join(s, "acme", "beyond", placement.Limit)
					want("another one", 1, 2)
				}
				time.Sleep(24 * time.Hour)
				w.correct()
				w.took()
				w.join(s, "acme", "beyond", placement.Limit)
				want("a join after they were counted", 1, 3)
			})
		}
	}
}

// TestMembersOfANewClusterComeTogether (LIM-NUMBER-3): all of them join it, also where it is the only one that the
// tenant may have, and it counts once.
func TestMembersOfANewClusterComeTogether(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			w := newClusters(t)
			far := suite.NewFar(w.counted, 10*time.Millisecond, 1)
			var all sync.WaitGroup
			for range n {
				all.Go(func() { w.join(w.process(1, far), "acme", "prod", placement.OK) })
			}
			all.Wait()
			s := w.process(2, w.counted)
			w.join(s, "acme", "second", placement.OK)
			w.join(s, "acme", "third", placement.Limit)
			w.correct()
			w.join(s, "acme", "third", placement.Limit)
		})
	}
}

// TestClustersOfProcesses (LIM-NUMBER-1): processes that set up ten times as many clusters as there may be set up as
// many as the bound says, and no more.
func TestClustersOfProcesses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			const most = 64
			w := newClusters(t)
			far := suite.NewFar(w.counted, 10*time.Millisecond, 1)
			var made atomic.Int64
			var all sync.WaitGroup
			for i := range n {
				s := w.process(most, far)
				all.Go(func() {
					for j := range 10 * most / n {
						o, err := s.Join(t.Context(), placement.Join{Cluster: placement.Cluster{Tenant: "acme",
							Name: fmt.Sprint(i, "-", j)}, Member: "m", RequestID: "j", TTL: time.Hour, Partitions: 16})
						if err != nil || o.Code != placement.OK && o.Code != placement.Limit {
							t.Errorf("%+v, %v", o, err)
						}
						if o.Code == placement.OK {
							made.Add(1)
						}
					}
				})
			}
			all.Wait()
			if made.Load() != most {
				t.Errorf("%d processes set up %d clusters", n, made.Load())
			}
			names, next, err := w.process(0, w.counted).Clusters(t.Context(), placement.Clusters{Tenant: "acme", Limit: 1000})
			if err != nil || len(names) != most || next != "" {
				t.Errorf("%d processes: %d names, %v", n, len(names), err)
			}
		})
	}
}

// TestClustersAreCounted (LIM-NUMBER-4) by the correction: those of the tenant, and not those of one whose name begins
// alike; a name that went without making room is found.
func TestClustersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClusters(t)
		s := w.process(3, w.counted)
		for _, name := range []string{"a", "b", "c"} {
			w.join(s, "acme/x", name, placement.OK)
			w.join(s, "acmf", name, placement.OK)
		}
		w.join(s, "acme", "a", placement.OK)
		w.correct()
		w.join(s, "acme", "b", placement.OK)
		w.join(s, "acme", "c", placement.OK)
		for _, tenant := range []string{"acme", "acme/x", "acmf"} {
			w.join(s, tenant, "d", placement.Limit)
		}
		if _, err := w.Store.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: "placement_registry", ID: "acme/x/a"}, If: docstore.Not{Cond: docstore.Absent{}},
			Delete: true,
		}); err != nil {
			t.Fatal(err)
		}
		w.correct()
		w.join(s, "acme", "d", placement.Limit)
		w.join(s, "acme/x", "d", placement.OK)
		w.join(s, "acme/x", "e", placement.Limit)
	})
}

// TestTallyOfClustersAway: a cluster that could not be counted is not set up, and has no name.
func TestTallyOfClustersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClusters(t)
		away := &tallyAway{Store: w.counted, away: true}
		s := w.process(1, away)
		for range 3 {
			o, err := s.Join(t.Context(), placement.Join{Cluster: placement.Cluster{Tenant: "acme", Name: "a"}, Member: "m",
				RequestID: "j", TTL: time.Hour, Partitions: 16})
			if !errors.Is(err, docstore.ErrUnavailable) {
				t.Errorf("%+v, %v", o, err)
			}
		}
		if names, _, err := s.Clusters(t.Context(), placement.Clusters{Tenant: "acme"}); err != nil || len(names) != 0 {
			t.Errorf("%v, %v", names, err)
		}
		away.away = false
		w.join(s, "acme", "a", placement.OK)
		w.join(s, "acme", "b", placement.Limit)
	})
}

// tallyAway is a store whose tallies may be away.
type tallyAway struct {
	docstore.Store

	away bool
}

func (s *tallyAway) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if w[0].Key.Kind == census.TallyKind && s.away {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return s.Store.Write(ctx, w...)
}

// TestALateNameOfAClusterStays: a cluster that is refused loses its name, unless another join has found it meanwhile: a
// sweep would not find that cluster.
func TestALateNameOfAClusterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClusters(t)
		s := w.process(1, w.counted)
		w.join(s, "acme", "first", placement.OK)
		held := &heldTally{Store: w.counted, begun: make(chan struct{}), end: make(chan struct{})}
		refused := make(chan struct{})
		go func() {
			w.join(w.process(1, held), "acme", "second", placement.Limit)
			close(refused)
		}()
		<-held.begun
		w.join(s, "acme", "second", placement.OK) // at the same millisecond
		close(held.end)
		<-refused
		names, _, err := s.Clusters(t.Context(), placement.Clusters{Tenant: "acme"})
		if err != nil || len(names) != 2 {
			t.Errorf("%v, %v", names, err)
		}
		w.correct()
		w.join(s, "acme", "third", placement.Limit)
	})
}

// heldTally is a store whose writes of tallies wait.
type heldTally struct {
	docstore.Store

	begun, end chan struct{}
	once       sync.Once
}

func (s *heldTally) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if w[0].Key.Kind == census.TallyKind {
		s.once.Do(func() { close(s.begun) })
		<-s.end
	}
	return s.Store.Write(ctx, w...)
}
