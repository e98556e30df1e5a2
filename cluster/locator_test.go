package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestLocateCostsNoRequest: what the locator knows costs no request, also in later epochs; what it does not know costs
// one, however many ask.
func TestLocateCostsNoRequest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		l, p := w.locator(nil)
		p.set(func(request string) (error, bool) {
			if request == "lookup" {
				time.Sleep(time.Second)
			}
			return nil, false
		})
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if where, err := l.Locate(t.Context(), room("a"), nil); err != nil || where.Member != "ann" || where.Token == 0 ||
					where.Address != "ann:1" {
					t.Errorf("%+v, %v", where, err)
				}
			})
		}
		callers.Wait()
		other := w.start("bob", nil) // another epoch
		time.Sleep(5 * time.Second)  // it reads the epoch every 2 s
		if where, err := l.Locate(t.Context(), room("a"), nil); err != nil || where.Member != "ann" ||
			p.count("lookup") != 1 {
			t.Errorf("%+v, %v after %d lookups", where, err, p.count("lookup"))
		}
		w.stop(m)                   // and another, without the owner
		time.Sleep(5 * time.Second) // it reads the epoch every 2 s
		if where, err := l.Locate(t.Context(), room("a"), nil); err != nil || where.Member != "bob" ||
			p.count("lookup") != 2 {
			t.Errorf("%+v, %v after %d lookups", where, err, p.count("lookup"))
		}
		l.Stop()
		w.stop(other)
	})
}

// TestStaleEpoch: an identity that was placed by an epoch that is over is placed again by the current one.
func TestStaleEpoch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		l, p := w.locator(&cluster.LocatorOptions{Refresh: time.Hour, MaxStale: 2 * time.Hour})
		other := w.start("bob", nil)
		for i := range 20 {
			id := room(strconv.Itoa(i))
			where, err := l.Locate(t.Context(), id, nil)
			want, e := direct.Cluster(w.service, chat).Lookup(t.Context(), id.Kind, id.ID, cluster.Query{})
			if err != nil || e != nil || where.Member != want.Placed.Member || where.Epoch != want.Epoch || where.Token != 0 {
				t.Errorf("%+v, %v; want %+v, %v", where, err, want.Placed, e)
			}
		}
		if p.count("lookup") != 21 || p.count("members") != 2 {
			t.Errorf("%d lookups, %d topologies: want one of each more than without the new epoch", p.count("lookup"),
				p.count("members"))
		}
		l.Stop()
		w.stop(m, other)
	})
}

// TestLabels: an identity is found and activated where it has what it needs; what was found for one need does not count
// for another, until the identity is active.
func TestLabels(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann := w.start("ann", func(o *cluster.Options, _ *host) { o.Labels = map[string]string{"zone": "a"} })
		bob := w.start("bob", func(o *cluster.Options, _ *host) { o.Labels = map[string]string{"zone": "b", "gpu": "yes"} })
		l, p := w.locator(nil)
		id := room("")
		for i := 0; ; i++ { // a room that is placed on ann
			id.ID = strconv.Itoa(i)
			if where, err := l.Locate(t.Context(), id, nil); err != nil || where.Member == "ann" {
				break
			}
		}
		gpu, near := &cluster.Need{Labels: map[string]string{"gpu": "yes"}},
			&cluster.Need{Prefer: map[string]string{"zone": "b", "gpu": "no"}}
		before := p.count("lookup")
		for range 3 {
			for need, want := range map[*cluster.Need]string{nil: "ann", {}: "ann", gpu: "bob", near: "bob"} {
				if where, err := l.Locate(t.Context(), id, need); err != nil || where.Member != want || where.Token != 0 {
					t.Errorf("%+v: %+v, %v", need, where, err)
				}
			}
		}
		if n := p.count("lookup") - before; n != 2 {
			t.Errorf("%d lookups", n)
		}
		none := &cluster.Need{Labels: map[string]string{"gpu": "no"}}
		if _, err := l.Locate(t.Context(), id, none); !errors.Is(err, contracts.CodeNoEligibleMember) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Activate(ctx, id, none); !errors.Is(err, contracts.CodeNoEligibleMember) {
			t.Errorf("%v", err)
		}
		where, _ := l.Cached(id, gpu)
		l.Forget(where)
		if _, ok := l.Cached(id, gpu); ok {
			t.Error("not forgotten")
		}
		if _, ok := l.Cached(id, near); !ok {
			t.Error("forgotten")
		}

		if _, err := bob.Serve(t.Context(), room("x"+id.ID), gpu); err != nil {
			t.Errorf("a caller that came with what it needs: %v", err)
		}
		if where, err := l.Activate(t.Context(), id, gpu); err != nil || where.Member != "bob" {
			t.Errorf("%+v, %v", where, err)
		}
		before = p.count("lookup")
		for _, need := range []*cluster.Need{nil, gpu, near, none} { // it is where it is
			if where, err := l.Locate(t.Context(), id, need); err != nil || where.Member != "bob" || where.Token == 0 {
				t.Errorf("%+v: %+v, %v", need, where, err)
			}
		}
		if n := p.count("lookup") - before; n != 0 {
			t.Errorf("%d lookups of what is active", n)
		}
		w.stop(bob)                 // what was known of it counts no more
		time.Sleep(5 * time.Second) // it reads the epoch every 2 s
		if _, err := l.Locate(t.Context(), room("x"+id.ID), gpu); !errors.Is(err, contracts.CodeNoEligibleMember) {
			t.Errorf("%v", err)
		}
		l.Stop()
		w.stop(ann)
	})
}

// TestForget: what a member says that it does not host is looked up again; a late report does not undo what was found
// since.
func TestForget(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		l, p := w.locator(nil)
		before, err := l.Locate(t.Context(), room("a"), nil)
		if err != nil || before.Token != 0 {
			t.Fatalf("%+v, %v", before, err)
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		l.Forget(before)
		after, err := l.Locate(t.Context(), room("a"), nil)
		if err != nil || after.Token == 0 || p.count("lookup") != 2 {
			t.Errorf("%+v, %v after %d lookups", after, err, p.count("lookup"))
		}
		l.Forget(before)
		if again, ok := l.Cached(room("a"), nil); !ok || again != after {
			t.Errorf("%+v", again)
		}
		l.Stop()
		w.stop(m)
	})
}

// TestStatesOfALocator: nothing is served while nothing can be placed, and the observer is told of every state
// (PLC-LIFE-3, PLC-LIFE-4).
func TestStatesOfALocator(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		j := &journal{}
		p := w.provider()
		var l *cluster.Locator
		l = cluster.NewLocator(p, &cluster.LocatorOptions{Observe: func(e cluster.Event) {
			l.Forget(cluster.Location{}) // an observer may call the locator
			j.add(e)
		}})
		refused := func(want error) {
			t.Helper()
			if _, err := l.Locate(t.Context(), room("a"), nil); !errors.Is(err, want) {
				t.Errorf("locate: %v, want %v", err, want)
			}
			if _, err := l.Activate(t.Context(), room("a"), nil); !errors.Is(err, want) {
				t.Errorf("activate: %v, want %v", err, want)
			}
			if _, ok := l.Cached(room("a"), nil); ok {
				t.Error("cached")
			}
		}
		refused(cluster.ErrNotRunning)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused(cluster.ErrNotReady)
		refused(contracts.CodeTopologyUndetermined)
		m := w.start("ann", nil)
		time.Sleep(5 * time.Second) // it reads the epoch every 2 s
		if _, err := l.Locate(t.Context(), room("a"), nil); err != nil || l.Status().State != cluster.Ready {
			t.Errorf("%v in %+v", err, l.Status())
		}
		p.set(func(string) (error, bool) { return errNetwork, false })
		time.Sleep(20 * time.Second) // less than MaxStale
		if _, err := l.Locate(t.Context(), room("a"), nil); err != nil {
			t.Errorf("for 20 s out of reach: %v", err)
		}
		time.Sleep(20 * time.Second) // more than MaxStale
		refused(cluster.ErrNotReady)
		p.set(nil)
		time.Sleep(5 * time.Second) // the next reading of the epoch
		if _, err := l.Locate(t.Context(), room("a"), nil); err != nil {
			t.Error(err)
		}
		l.Stop()
		refused(cluster.ErrNotRunning)
		j.went(t, cluster.Starting, cluster.NotReady, cluster.Ready, cluster.NotReady, cluster.Ready, cluster.Stopped)
		if len(j.has(cluster.RequestFailed)) == 0 {
			t.Error("no event of the failures")
		}
		w.stop(m)
	})
}

// TestCallersOfALocatorThatStops: who waits is told, and no request is left.
func TestCallersOfALocatorThatStops(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		p := &stuck{Provider: direct.Cluster(w.service, chat)}
		l := cluster.NewLocator(p, nil)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() { _, err := l.Locate(t.Context(), room("a"), nil); failed <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Locate(ctx, room("a"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: %v", err)
		}
		l.Stop()
		if err := <-failed; err == nil {
			t.Error("found")
		}
		w.stop(m)
	})
}

// stuck never responds to lookups.
type stuck struct{ cluster.Provider }

func (s *stuck) Lookup(ctx context.Context, _, _ string, _ cluster.Query) (contracts.Placement, error) {
	<-ctx.Done()
	return contracts.Placement{}, ctx.Err()
}

// TestForgetsWhenFull: the locator remembers no more than it may, and what is asked for all the time stays.
func TestForgetsWhenFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.start("ann", nil)
		l, _ := w.locator(&cluster.LocatorOptions{Cached: 4})
		known := 0
		near := &cluster.Need{Prefer: map[string]string{"zone": "a"}}
		for i := range 10 {
			for _, need := range []*cluster.Need{nil, near} {
				if _, err := l.Locate(t.Context(), room(strconv.Itoa(i)), need); err != nil {
					t.Fatal(err)
				}
				if _, ok := l.Cached(room("0"), need); !ok {
					t.Errorf("after %d others, what was asked for just now is forgotten", i)
				}
			}
		}
		for i := range 10 {
			for _, need := range []*cluster.Need{nil, near} {
				if _, ok := l.Cached(room(strconv.Itoa(i)), need); ok {
					known++
				}
			}
		}
		if known > 4+4 || known < 2+2 {
			t.Errorf("%d are remembered", known)
		}
		l.Stop()
		w.stop(m)
	})
}

// located is a locator that knows identities, in a cluster of a thousand members.
func located(tb testing.TB) (l *cluster.Locator, ids []cluster.Identity) {
	tb.Helper()
	members := make([]contracts.ClusterMember, 1000)
	for i := range members {
		members[i] = contracts.ClusterMember{Member: fmt.Sprintf("member-%04d", i), Incarnation: int64(i + 1)}
	}
	service := placement.New(docstore.NewMemory(nil), nil)
	p := &fixed{Provider: direct.Cluster(service, chat), members: members}
	l = cluster.NewLocator(p, nil)
	if err := l.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Stop)
	for i := range 1000 {
		id := room(fmt.Sprintf("a-room-of-some-length-%04d", i))
		if _, err := l.Locate(tb.Context(), id, nil); err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, id)
	}
	return l, ids
}

// TestLostEpochOfALocator: a store that lost its latest epochs has an earlier one, or another of the number of a lost
// one. A locator goes on by that, and forgets what it found by those.
func TestLostEpochOfALocator(t *testing.T) {
	t.Parallel()
	a := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		epoch int64 // after 7
		began time.Duration
		want  string
	}{"earlier": {6, -time.Minute, "bob"}, "of that number": {7, time.Minute, "bob"}, "the same": {7, 0, "ann"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &epochs{epoch: 7, began: a, on: "ann"}
			l := cluster.NewLocator(p, &cluster.LocatorOptions{Refresh: time.Hour, MaxStale: 2 * time.Hour})
			if err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer l.Stop()
			locate := func(id string, need *cluster.Need) cluster.Location {
				t.Helper()
				where, err := l.Locate(t.Context(), room(id), need)
				if err != nil {
					t.Fatal(err)
				}
				return where
			}
			near := &cluster.Need{Prefer: map[string]string{"zone": "a"}}
			locate("x", nil)
			locate("x", near)
			p.epoch, p.began, p.on, p.stale = c.epoch, a.Add(c.began), "bob", true
			if where := locate("y", nil); where.Member != "bob" || where.Epoch != c.epoch {
				t.Errorf("another identity: %+v", where)
			}
			for _, need := range []*cluster.Need{nil, near} {
				if where := locate("x", need); where.Member != c.want {
					t.Errorf("%+v, want one on %s", where, c.want)
				}
			}
		})
	}
}

// TestLateEpochOfALocator: an epoch that was read before a later one began, and arrives after it, changes nothing.
func TestLateEpochOfALocator(t *testing.T) {
	t.Parallel()
	p := &epochs{epoch: 7, on: "ann"}
	l := cluster.NewLocator(p, &cluster.LocatorOptions{Refresh: time.Hour, MaxStale: 2 * time.Hour})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	locate := func(id string) {
		t.Helper()
		if _, err := l.Locate(t.Context(), room(id), nil); err != nil {
			t.Error(err)
		}
	}
	p.stale = true
	p.meanwhile = func() {
		p.epoch, p.stale = 8, true
		locate("x")
	}
	locate("y")
	if where, ok := l.Cached(room("x"), nil); !ok || where.Epoch != 8 {
		t.Errorf("%+v, %v", where, ok)
	}
}

// epochs is a cluster with an epoch, which rejects one request as if it was placed by another.
type epochs struct {
	cluster.Provider

	epoch int64
	began time.Time
	on    string // the only member
	stale bool

	meanwhile func() // once, before a response of members
}

func (e *epochs) Members(context.Context) (contracts.MemberList, error) {
	list := contracts.MemberList{Cluster: "chat", Status: contracts.ClusterReady, Epoch: e.epoch,
		ChangedAt: e.began.Format(time.RFC3339), Members: []contracts.ClusterMember{{Member: e.on, Incarnation: 1}}}
	if do := e.meanwhile; do != nil {
		e.meanwhile = nil
		do()
	}
	return list, nil
}

func (e *epochs) Lookup(_ context.Context, kind, id string, _ cluster.Query) (contracts.Placement, error) {
	if e.stale {
		e.stale = false
		return contracts.Placement{}, contracts.CodeStaleEpoch
	}
	return contracts.Placement{Kind: kind, ID: id, Epoch: e.epoch,
		Placed: &contracts.ClusterMember{Member: e.on, Incarnation: 1}}, nil
}

// fixed is a cluster that does not change.
type fixed struct {
	cluster.Provider

	members []contracts.ClusterMember
}

func (f *fixed) Members(context.Context) (contracts.MemberList, error) {
	return contracts.MemberList{Cluster: "chat", Status: contracts.ClusterReady, Epoch: 1, Members: f.members}, nil
}

func (f *fixed) Lookup(_ context.Context, kind, id string, _ cluster.Query) (contracts.Placement, error) {
	m := f.members[len(id)%len(f.members)]
	return contracts.Placement{
		Kind: kind, ID: id, Epoch: 1, Owner: &m,
		Activation: &contracts.Activation{Kind: kind, ID: id, FencingToken: 1, Member: m.Member, Incarnation: m.Incarnation},
	}, nil
}

// TestCachedAllocatesNothing: a lookup that is cached costs no memory.
func TestCachedAllocatesNothing(t *testing.T) {
	l, ids := located(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := l.Cached(ids[7], nil); !ok {
			t.Error("not cached")
		}
		if _, err := l.Locate(context.Background(), ids[8], nil); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCached is a lookup without a request, in a cluster of a thousand members.
func BenchmarkCached(b *testing.B) {
	l, ids := located(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := l.Cached(ids[i%len(ids)], nil); !ok {
			b.Fatal("not cached")
		}
	}
}

// TestForgetAtAnotherAddress: a location is forgotten also if the member's address changed since it was found.
func TestForgetAtAnotherAddress(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ann := w.start("ann", nil)
		if _, err := ann.Serve(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		l, _ := w.locator(nil)
		if _, err := l.Locate(t.Context(), room("a"), nil); err != nil {
			t.Fatal(err)
		}
		if err := ann.ChangeOffer(t.Context(), cluster.Offer{Kinds: []string{"room"}, Address: "ann:2"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // it reads the epoch every 2 s
		where, ok := l.Cached(room("a"), nil)
		if !ok || where.Address != "ann:2" {
			t.Errorf("%+v, %v", where, ok)
		}
		l.Forget(where)
		if where, ok := l.Cached(room("a"), nil); ok {
			t.Errorf("not forgotten: %+v", where)
		}
		l.Stop()
		w.stop(ann)
	})
}
