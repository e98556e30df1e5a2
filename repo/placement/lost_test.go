package placement_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// copied is a store with what the cluster has now. To put it in the place of the store loses what comes later, as a
// fail-over of Redis does, or a backup.
func (w *world) copied() docstore.Store {
	w.Helper()
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: w.clock.Now})
	for _, kind := range []string{"placement_clusters", "placement_epochs", "placement_members",
		"placement_member_leases", "placement_events", placement.ActivationKind} {
		p := must[docstore.Page](w)(w.store.List(w.Context(), docstore.Query{Kind: kind,
			Tenant: w.cluster.Tenant + "/" + w.cluster.Name, Limit: docstore.MaxLimit}))
		for _, e := range p.Entries {
			must[docstore.Result](w)(store.Write(w.Context(), docstore.Write{Key: e.Key, Set: e.Doc}))
		}
	}
	return store
}

// changing makes a change of the members by a process.
func (e *evolving) changing(s *placement.Service, what, by string) {
	e.Helper()
	var o placement.MemberOutcome
	a := must[*placement.Topology](e.world)(s.Topology(e.Context(), e.cluster)).Find("a").Incarnation
	switch what {
	case "join":
		o = must[placement.MemberOutcome](e.world)(s.Join(e.Context(), placement.Join{Cluster: e.cluster, Member: by,
			RequestID: e.request(), TTL: time.Hour, Partitions: 64, Offer: placement.Offer{Kinds: []string{"room"}}}))
	case "drain":
		o = must[placement.MemberOutcome](e.world)(s.DrainMember(e.Context(), e.cluster, a))
	default:
		c := placement.ChangeOffer{Cluster: e.cluster, Incarnation: a, RequestID: e.request(),
			Offer: placement.Offer{Kinds: []string{"room"}}}
		switch what {
		case "kinds":
			c.Kinds = []string{by}
		case "labels":
			c.Labels = map[string]string{"by": by}
		case "weight":
			c.Weight = len(by)
		case "full":
			c.Full = by == "lost"
		case "address":
			c.Address = by
		}
		o = must[placement.MemberOutcome](e.world)(s.ChangeOffer(e.Context(), c))
	}
	e.want(o.Code, placement.OK)
}

// learn notes the current epoch as a process has it.
func (e *evolving) learn(s *placement.Service) {
	e.Helper()
	top := must[*placement.Topology](e.world)(s.Topology(e.Context(), e.cluster))
	if top == nil {
		e.Fatal("the cluster has no epoch")
	}
	e.epochs[top.Epoch], e.latest = top, top.Epoch
}

// TestLostEpochs: a store loses its latest epochs, and others begin under the same numbers. A process that knows the
// lost ones has the current epoch as it is, whatever the two differ in, and changes that one: so all read the next one.
func TestLostEpochs(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"join", "drain", "kinds", "labels", "weight", "full", "address"} {
		for _, n := range []struct {
			lost, since int
			later       time.Duration // 0: in the same millisecond
		}{{1, 0, time.Second}, {1, 1, time.Second}, {1, 1, 0}, {1, 5, time.Second}, {1, 5, 0}, {3, 1, time.Second},
			{3, 4, 0}} {
			t.Run(fmt.Sprintf("%s, %d lost, %d since, %v later", what, n.lost, n.since, n.later), func(t *testing.T) {
				t.Parallel()
				e := newEvolving(t, 7)
				e.join("a", func(j *placement.Join) { j.TTL = time.Hour })
				e.many(5)
				before, known, other := e.copied(), e.Service, e.another()
				e.changing(known, what, "lost")
				for i := range n.lost - 1 {
					e.changing(known, "join", fmt.Sprint("lost too ", i))
				}
				e.store.Store = before
				e.clock.Advance(n.later)
				e.learn(other)
				for i := range n.since {
					if i == 0 {
						e.changing(other, what, "another")
					} else {
						e.changing(other, "join", fmt.Sprint("since ", i))
					}
					e.learn(other)
				}
				lost := known.Cached(e.cluster)
				number := lost.Epoch
				if want := e.epochs[number]; want != nil {
					e.same("by its number", must[*placement.Topology](e.world)(known.Epoch(t.Context(), e.cluster, number)),
						number)
				}
				e.same("one that knows what was lost",
					must[*placement.Topology](e.world)(known.Topology(t.Context(), e.cluster)), e.latest)
				e.store.took()
				e.same("and again", must[*placement.Topology](e.world)(known.Topology(t.Context(), e.cluster)), e.latest)
				if got := e.store.took(); got != [2]int{1, 0} {
					t.Errorf("%v requests for an epoch that is known", got)
				}
				told := e.since("one that knows what was lost", known, e.all()...)
				if n.later > 0 && e.since("of what was lost", known, lost) != 1 || told == 0 {
					t.Errorf("it says nothing of what changed since the lost epoch, or since %d others", told)
				}
				e.changing(known, "join", "z")
				e.learn(known)
				e.same("one that knows what was before",
					must[*placement.Topology](e.world)(other.Topology(t.Context(), e.cluster)), e.latest)
				e.same("one that knows nothing",
					must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster)), e.latest)
			})
		}
	}
}

// TestWhoIsGoneAfterALoss: a member joined in an epoch that was lost, and another one has its slot. When that leaves,
// it is the one that is gone, also for a process that knows the lost epoch, and no other: the state after the last
// change does not tell the two apart.
func TestWhoIsGoneAfterALoss(t *testing.T) {
	t.Parallel()
	e := newEvolving(t, 7)
	join := func(s *placement.Service, member string) placement.Incarnation {
		t.Helper()
		o := must[placement.MemberOutcome](e.world)(s.Join(t.Context(), placement.Join{Cluster: e.cluster, Member: member,
			RequestID: "j", TTL: time.Hour, Partitions: 16, Offer: placement.Offer{Kinds: []string{"room"}}}))
		e.want(o.Code, placement.OK)
		e.clock.Advance(time.Second)
		e.learn(s)
		return o.Incarnation
	}
	for i := range 20 { // there is no partition for those behind them
		join(e.Service, fmt.Sprint("a", i))
	}
	before, known := e.copied(), e.Service
	join(known, "lost")
	e.store.Store = before
	other := e.another()
	b := join(other, "b")
	join(other, "c")
	must[placement.MemberOutcome](e.world)(other.Leave(t.Context(), e.cluster, b))
	e.learn(other)
	if n := e.since("one that knows what was lost", known, e.epochs[22]); n != 1 {
		t.Error("it does not say what changed since the epoch before")
	}
}

// meanwhile is a store in which something happens once between a request and the one before it, or its response.
type meanwhile struct {
	docstore.Store

	written, got func() // before a write, after a read
}

func (m *meanwhile) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	snap, err := m.Store.Get(ctx, keys...)
	once(&m.got)
	return snap, err
}

func (m *meanwhile) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	once(&m.written)
	return m.Store.Write(ctx, writes...)
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

// TestLostBetweenReadAndWrite: a change of the members, and a removal of the cluster, are not written on what was lost
// after they were decided, also where there is another epoch of that number by then.
func TestLostBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	for what, act := range map[string]func(e *evolving, s *placement.Service){
		"change": func(e *evolving, s *placement.Service) {
			e.changing(s, "join", "z")
			e.learn(s)
			if top := e.epochs[4]; top == nil || top.Find("since") == nil {
				e.Errorf("%+v", top)
			}
		},
		"removal": func(e *evolving, s *placement.Service) {
			a := s.Cached(e.cluster).Find("a").Incarnation
			e.want(must[placement.MemberOutcome](e.world)(e.Leave(e.Context(), e.cluster, a)).Code, placement.OK)
			o := must[placement.Removal](e.world)(s.RemoveCluster(e.Context(), placement.RemoveCluster{Cluster: e.cluster,
				Epoch: 3, Reason: "it has no members"}))
			e.want(o.Code, placement.MemberExists)
			e.learn(s)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEvolving(t, 7)
			e.join("a", func(j *placement.Join) { j.TTL = time.Hour })
			e.changing(e.Service, "kinds", "room")
			store := &meanwhile{Store: e.store}
			s := placement.New(store, &placement.Options{Now: e.clock.Now, Sleep: e.clock.Sleep})
			must[*placement.Topology](e.world)(s.Topology(t.Context(), e.cluster))
			before := e.copied()
			if what == "change" {
				e.changing(e.Service, "join", "lost")
			}
			store.written = func() {
				e.store.Store = before // its clock is behind: the next epoch begins when the lost one began
				e.changing(e.another(), "join", "since")
			}
			act(e, s)
			e.same("one that knows nothing", must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster)),
				e.latest)
		})
	}
}

// TestALateResponseIsNotKept: a head that was read before the members changed does not take the place of what is known.
func TestALateResponseIsNotKept(t *testing.T) {
	t.Parallel()
	e := newEvolving(t, 7)
	e.join("a")
	store := &meanwhile{Store: e.store}
	s := placement.New(store, &placement.Options{Now: e.clock.Now})
	store.got = func() { e.changing(s, "join", "b") }
	if top := must[*placement.Topology](e.world)(s.Topology(t.Context(), e.cluster)); top.Epoch != 1 {
		t.Errorf("epoch %d, and the head says 1", top.Epoch)
	}
	if top := s.Cached(e.cluster); top.Epoch != 2 {
		t.Errorf("epoch %d is known, and 2 began later", top.Epoch)
	}
}

// TestSweepAfterALoss: a sweep had looked through the cluster at an epoch that the store then lost. At the one that
// begins again under its number it looks again, and frees what a member had that is gone.
func TestSweepAfterALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL, j.Kinds = time.Hour, nil })
	bob := w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	id := room("lobby")
	w.want(w.claim(id, func(c *placement.Claim) { c.By = bob }).Code, placement.OK)
	before := w.copied()
	must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, bob))
	w.sweep(0)
	entry := docstore.Key{Kind: "placement_registry", ID: "acme/prod"}
	walked := must[docstore.Snapshot](w)(w.store.Get(t.Context(), entry)).Docs[0]
	w.store.Store = before
	must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: entry, Set: walked}))
	w.clock.Advance(time.Second)
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, bob))
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 1, Freed: 1})
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 1})
}
