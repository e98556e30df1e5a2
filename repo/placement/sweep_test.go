package placement_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// sweep sweeps the whole store, and fails if that does.
func (w *world) sweep(limit int) placement.Swept {
	w.Helper()
	return must[placement.Swept](w)(w.another().Sweep(w.Context(), limit))
}

func (w *world) wantSwept(got, want placement.Swept) {
	w.Helper()
	if got != want {
		w.Errorf("swept %+v, want %+v", got, want)
	}
}

func (w *world) activations() (all []string) {
	w.Helper()
	for q := (placement.Query{Limit: 100}); ; {
		s := must[placement.Snapshot](w)(w.Snapshot(w.Context(), w.cluster, q))
		for _, a := range s.Activations {
			all = append(all, fmt.Sprintf("%s %s %s", a.ID, a.Phase, a.Reason))
		}
		if q.After = s.Next; s.Next == "" {
			return all
		}
	}
}

// TestSweep: no one asks for anything, and the members whose leases ended are evicted, in every cluster; what they had
// is free, with an event for each, and a claim that comes later gets a higher token.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	ann := w.join("ann")
	held := w.active(room("lobby"))
	left := w.active(room("left"))
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: left})).Code, placement.OK)
	other := *w
	other.cluster = placement.Cluster{Tenant: "a/b", Name: "prod"} // a tenant with a slash
	other.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	kept := other.active(room("kept"))
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 2})
	w.clock.Advance(10 * time.Second)
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 2, Evicted: 1, Freed: 1})
	if got := w.activations(); !slices.Equal(got, []string{"left FREE ", "lobby FREE its owner is gone"}) {
		t.Errorf("%q", got)
	}
	if p := other.lookup(room("kept")); p.Activation.Phase != placement.Active || p.Activation.Token != kept.Token {
		t.Errorf("the other cluster: %+v", p)
	}
	found := 0
	for _, e := range w.events() {
		if e.Member == ann && e.Identity == room("lobby") && e.From == "ACTIVE" && e.To == "FREE" && e.Token == held.Token &&
			e.Epoch == 2 && e.Reason == "its owner is gone" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d events of it in %+v", found, w.events())
	}
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 2})
	// The owner learns that it lost the identity, and the next one has a higher token.
	w.want(must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: held, RequestID: "late"})).Code,
		placement.WrongPhase)
	w.join("ann")
	if o := w.claim(room("lobby")); o.Code != placement.OK || o.Activation.Token <= held.Token {
		t.Errorf("%+v after token %d", o, held.Token)
	}
}

// TestSweepOfAbandonedLock: an activation that no one carried out and no one asks for again is freed an hour after its
// lock phase; until then its owner may still activate it.
func TestSweepOfAbandonedLock(t *testing.T) {
	w := newWorld(t)
	ann := w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.claim(room("lobby"))
	w.clock.Advance(59 * time.Minute)
	must[placement.MemberOutcome](w)(
		w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1, TTL: time.Hour}))
	w.clock.Advance(time.Minute)
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 1})
	for seq := range int64(48) { // a cluster whose members stay is looked through once a day
		w.clock.Advance(30 * time.Minute)
		must[placement.MemberOutcome](w)(
			w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 2 + seq, TTL: time.Hour}))
	}
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 1, Freed: 1})
	if got := w.activations(); !slices.Equal(got, []string{"lobby FREE its owner did not activate it"}) {
		t.Errorf("%q", got)
	}
}

// TestSweepRemoves: activations without a state are removed when the retention is over. Two days after a store should
// have removed them, so are states whose time has passed, ended members, old events and the epochs before the latest.
// Tokens and incarnations that come later are higher all the same.
func TestSweepRemoves(t *testing.T) {
	w := newWorld(t)
	w.Service = placement.New(w.store, &placement.Options{Now: w.clock.Now, Retention: 24 * time.Hour,
		StateRetention: 24 * time.Hour})
	sweep := func() placement.Swept {
		t.Helper()
		return must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	}
	ann := w.join("ann")
	lobby := w.active(room("lobby"))
	must[placement.Outcome](w)(w.WriteState(t.Context(),
		placement.WriteState{Hold: lobby, RequestID: "w", Data: []byte("chairs")}))
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: lobby})).Code, placement.OK)
	failed := w.claim(room("broken"))
	w.want(must[placement.Outcome](w)(w.Fail(t.Context(), placement.Fail{Hold: w.hold(failed), Reason: "no disk"})).Code,
		placement.OK)
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
	w.wantSwept(sweep(), placement.Swept{Clusters: 1})
	w.clock.Advance(24*time.Hour - time.Millisecond)
	w.wantSwept(sweep(), placement.Swept{Clusters: 1})
	w.clock.Advance(time.Millisecond)
	w.wantSwept(sweep(), placement.Swept{Clusters: 1, Removed: 1}) // what has no state
	w.clock.Advance(48*time.Hour - time.Millisecond)
	w.wantSwept(sweep(), placement.Swept{Clusters: 1})
	w.clock.Advance(24 * time.Hour)
	// An activation, a member and its lease, and seven events; both epochs are needed.
	w.wantSwept(sweep(), placement.Swept{Clusters: 1, Removed: 1 + 2 + 7})
	for kind, want := range map[string]int{
		placement.ActivationKind: 0, "placement_members": 0, "placement_member_leases": 0, "placement_events": 0,
		"placement_epochs": 2, "placement_clusters": 1,
	} {
		if got := w.kinds(kind); len(got) != want {
			t.Errorf("%s: %v, want %d", kind, got, want)
		}
	}
	// the cluster has had neither members nor activations for the retention
	w.wantSwept(sweep(), placement.Swept{Clusters: 1, Retired: 1})
	if got := w.kinds("placement_epochs"); len(got) != 0 {
		t.Errorf("epochs %v", got)
	}
	w.wantSwept(sweep(), placement.Swept{})
	if again := w.join("ann"); again.Number <= ann.Number {
		t.Errorf("incarnation %d after %d", again.Number, ann.Number)
	}
	if o := w.claim(room("lobby")); o.Code != placement.OK || o.Activation.Token <= lobby.Token || o.Epoch <= 2 {
		t.Errorf("%+v after %d", o, lobby.Token)
	}
}

// kinds are the IDs of the documents of a kind.
func (w *world) kinds(kind string) (ids []string) {
	w.Helper()
	p := must[docstore.Page](w)(w.store.List(w.Context(),
		docstore.Query{Kind: kind, Tenant: w.cluster.Tenant + "/" + w.cluster.Name, Limit: docstore.MaxLimit}))
	for _, e := range p.Entries {
		ids = append(ids, e.Key.ID)
	}
	return ids
}

// TestSweepGoesOn: a sweep ends at its limit, and others go on where it ended, one cluster after the other; members are
// evicted in all of them each time.
func TestSweepGoesOn(t *testing.T) {
	w := newWorld(t)
	var worlds []*world
	for n := range 3 {
		other := *w
		other.cluster.Name = fmt.Sprint("c", n)
		other.join("ann")
		for i := range 600 {
			other.claim(room(fmt.Sprintf("%04d", i)))
		}
		worlds = append(worlds, &other)
	}
	w.clock.Advance(10 * time.Second)
	swept, times := w.sweep(200), 1
	if swept != (placement.Swept{Clusters: 3, Evicted: 3, Freed: 200, More: true}) {
		t.Fatalf("%+v", swept)
	}
	freed := swept.Freed
	for ; swept.More; times++ {
		if swept = w.sweep(200); swept.Evicted != 0 || swept.Errors != 0 || swept.Freed > 200 || times > 200 {
			t.Fatalf("sweep %d: %+v", times, swept)
		}
		freed += swept.Freed
		if times == 2 {
			for n, other := range worlds {
				some := 0
				for _, a := range other.activations() {
					if strings.Contains(a, "FREE") {
						some++
					}
				}
				if some != 200 {
					t.Errorf("cluster %d has %d free activations after three sweeps, as many as any other: 200", n, some)
				}
			}
		}
	}
	if freed != 1800 {
		t.Errorf("%d were freed in %d sweeps", freed, times)
	}
}

// TestSweptPlus: the sum of two sweeps has each of their counts.
func TestSweptPlus(t *testing.T) {
	var one placement.Swept
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInt() {
			f.SetInt(int64(i + 1))
		}
	}
	sum := reflect.ValueOf(one.Plus(one))
	for i := range sum.NumField() {
		if f := sum.Field(i); f.CanInt() && f.Int() != 2*int64(i+1) {
			t.Errorf("%s is %d", sum.Type().Field(i).Name, f.Int())
		}
	}
}

// TestSweepOfDamage: a document that cannot be read is named, and keeps nothing else from being swept.
func TestSweepOfDamage(t *testing.T) {
	w := newWorld(t)
	w.join("ann")
	w.active(room("a"))
	w.active(room("b"))
	put := func(kind, tenant, id, field string, v docstore.Value) {
		t.Helper()
		must[docstore.Result](w)(w.store.Write(t.Context(),
			docstore.Write{Key: docstore.Key{Kind: kind, Tenant: tenant, ID: id}, Set: docstore.Doc{field: v}}))
	}
	put(placement.ActivationKind, "acme/prod", "room/a", "phase", docstore.String("LOST"))
	put("placement_registry", "", "no cluster", "at", docstore.Int(1))
	// its first member has yet to join
	put("placement_registry", "", "acme/early", "at", docstore.FormatTime(w.clock.Now()))
	w.clock.Advance(10 * time.Second)
	swept, err := w.Sweep(t.Context(), 0)
	if w.wantSwept(swept, placement.Swept{Clusters: 3, Evicted: 1, Freed: 1, Errors: 2, Damaged: 2}); !errors.Is(err,
		docstore.ErrDamaged) ||
		!strings.Contains(err.Error(), "room%2Fa") || !strings.Contains(err.Error(), `cluster "no cluster"`) {
		t.Error(err)
	}
	if _, err := w.Sweep(t.Context(), -1); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a negative limit: %v", err)
	}
}

// TestSweepFreesWhatItRead: an identity that another member claims after the sweep has read it, and before it writes,
// is that member's.
func TestSweepFreesWhatItRead(t *testing.T) {
	w := newWorld(t)
	w.join("ann")
	before := w.active(room("lobby"))
	w.clock.Advance(10 * time.Second)
	bob := w.join("bob")
	var claimed placement.Outcome
	quick := &quicker{Store: w.store, run: func() { claimed = w.claim(room("lobby")) }}
	swept := must[placement.Swept](w)(placement.New(quick, &placement.Options{Now: w.clock.Now}).Sweep(t.Context(), 0))
	if swept.Freed != 0 || claimed.Code != placement.OK || claimed.Activation.Owner != bob ||
		claimed.Activation.Token <= before.Token {
		t.Fatalf("swept %+v; the claim in between: %+v", swept, claimed)
	}
	if a := w.lookup(room("lobby")).Activation; a.Owner != bob || a.Phase != placement.Locked ||
		a.Token != claimed.Activation.Token {
		t.Errorf("after the sweep: %+v", a)
	}
}

// quicker is a store before whose first write to an activation another caller does something.
type quicker struct {
	docstore.Store
	run func()
}

func (q *quicker) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if run := q.run; run != nil && slices.ContainsFunc(writes, func(w docstore.Write) bool {
		return w.Key.Kind == placement.ActivationKind
	}) {
		q.run = nil
		run()
	}
	return q.Store.Write(ctx, writes...)
}

// TestSweepBesideANewcomer: an activation of a member that joined after the sweep had read the members, and before it
// read the activations, is that member's.
func TestSweepBesideANewcomer(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.Kinds = []string{"hall"} })
	var bob placement.Incarnation
	var held placement.Hold
	late := &listed{Store: w.store, kind: placement.ActivationKind, run: func() {
		bob = w.join("bob")
		held = w.active(room("lobby"))
	}}
	w.wantSwept(must[placement.Swept](w)(placement.New(late, &placement.Options{Now: w.clock.Now}).Sweep(t.Context(), 0)),
		placement.Swept{Clusters: 1})
	if a := w.lookup(room("lobby")).Activation; held.Owner != bob || a.Owner != bob || a.Phase != placement.Active ||
		a.Token != held.Token {
		t.Errorf("after the sweep: %+v", a)
	}
}

// listed is a store before whose first list of a kind another caller does something.
type listed struct {
	docstore.Store
	kind string
	run  func()
}

func (l *listed) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if run := l.run; run != nil && q.Kind == l.kind {
		l.run = nil
		run()
	}
	return l.Store.List(ctx, q)
}

// TestSweepBesideItsOwner: an activation that changes after the sweep has read it, and keeps its owner, is not freed:
// the owner activates it an hour after its lock phase, or a repair of the store raises its token, which the sweep's
// event would tell wrongly.
func TestSweepBesideItsOwner(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, h placement.Hold)
		want   placement.Phase
	}{
		"activated": {
			func(w *world, h placement.Hold) {
				w.want(must[placement.Outcome](w)(w.Activated(w.Context(), placement.Activated{Hold: h})).Code, placement.OK)
			},
			placement.Active,
		},
		"raised": {
			func(w *world, h placement.Hold) {
				key := docstore.Key{Kind: placement.ActivationKind, Tenant: "acme/prod", ID: "room/lobby"}
				must[docstore.Result](w)(
					w.store.Write(w.Context(), docstore.Write{Key: key, Set: docstore.Doc{"token": docstore.Int(h.Token + 1_000)}}))
			},
			placement.Locked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ann := w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
			h := w.hold(w.claim(room("lobby")))
			w.clock.Advance(time.Hour - time.Minute)
			must[placement.MemberOutcome](w)(
				w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1, TTL: time.Hour}))
			w.clock.Advance(placement.DefaultLockTTL + time.Minute)
			quick := &quicker{Store: w.store, run: func() { c.change(w, h) }}
			swept := must[placement.Swept](w)(placement.New(quick, &placement.Options{Now: w.clock.Now}).Sweep(t.Context(), 0))
			w.wantSwept(swept, placement.Swept{Clusters: 1})
			if a := w.lookup(room("lobby")).Activation; quick.run != nil || a.Phase != c.want || a.Owner != h.Owner {
				t.Errorf("after the sweep: %+v", a)
			}
		})
	}
}

// TestSweepStoreDown: a store that does not respond ends the sweep, and the next one begins behind the cluster where it
// ended.
func TestSweepStoreDown(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		other := *w
		other.cluster.Name = fmt.Sprint("c", n)
		other.join("ann")
	}
	w.clock.Advance(10 * time.Second)
	broken := placement.New(brokenCluster{w.store, "acme/c1"}, &placement.Options{Now: w.clock.Now})
	swept, err := broken.Sweep(t.Context(), 0)
	if w.wantSwept(swept, placement.Swept{Clusters: 1, Evicted: 1, Errors: 1, More: true}); !errors.Is(err,
		docstore.ErrUnavailable) {
		t.Error(err)
	}
	swept, err = broken.Sweep(t.Context(), 0)
	if w.wantSwept(swept, placement.Swept{Clusters: 2, Evicted: 1, Errors: 1, More: true}); !errors.Is(err,
		docstore.ErrUnavailable) {
		t.Error(err)
	}
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 3, Evicted: 1})
}

// brokenCluster is a store that cannot read one tenant.
type brokenCluster struct {
	docstore.Store
	tenant string
}

func (b brokenCluster) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if keys[0].Tenant == b.tenant {
		return docstore.Snapshot{}, docstore.ErrUnavailable
	}
	return b.Store.Get(ctx, keys...)
}

// TestSweepRequests: what a sweep costs where there is nothing to do.
func TestSweepRequests(t *testing.T) {
	clock := suite.NewClock()
	store := &suite.Watched{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	w := &world{T: t, Service: placement.New(store, &placement.Options{Now: clock.Now}), clock: clock,
		cluster: placement.Cluster{Tenant: "acme", Name: "prod"}}
	ann := w.join("ann")
	if _, err := w.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[Get List Get List]", "[Get List Get]"} {
		store.Forget()
		w.wantSwept(must[placement.Swept](w)(w.Sweep(t.Context(), 0)), placement.Swept{Clusters: 1})
		if got := fmt.Sprint(store.Requests()); got != want {
			t.Errorf("requests %s, want %s", got, want)
		}
		must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
		if _, err := w.Sweep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSweepOutOfTime: a sweep that runs out of time keeps how far it came, so that the next one goes on there.
func TestSweepOutOfTime(t *testing.T) {
	w := newWorld(t)
	w.join("ann")
	for i := range 1000 {
		w.claim(room(fmt.Sprintf("%04d", i)))
	}
	w.clock.Advance(10 * time.Second)
	freed := 0
	for range 10 {
		ctx, end := context.WithCancelCause(t.Context())
		s, err := placement.New(&outOfTime{w.store, 2, end}, &placement.Options{Now: w.clock.Now}).Sweep(ctx, 0)
		end(nil)
		if freed += s.Freed; err == nil {
			break
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if freed != 1000 {
		t.Errorf("%d of 1000 were freed by ten sweeps that have time for 500 each", freed)
	}
}

// outOfTime is a store that has time for so many pages of activations in a sweep.
type outOfTime struct {
	docstore.Store
	pages int
	end   context.CancelCauseFunc // of the sweep
}

func (s *outOfTime) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if q.Kind == placement.ActivationKind {
		if s.pages--; s.pages < 0 {
			s.end(context.DeadlineExceeded)
			return docstore.Page{}, context.DeadlineExceeded
		}
	}
	return s.Store.List(ctx, q)
}

// TestEvicted: each eviction is told once, by the call that made it, with how late it was and what moved.
func TestEvicted(t *testing.T) {
	w := newWorld(t)
	type told struct {
		expired []time.Duration
		moved   int
	}
	var all []told
	watching := placement.New(w.store, &placement.Options{Now: w.clock.Now,
		Evicted: func(_ context.Context, expired []time.Duration, moved int) {
			all = append(all, told{expired, moved})
		}})
	w.join("ann")
	w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	w.clock.Advance(25 * time.Second)
	for range 2 {
		if p, err := watching.Lookup(t.Context(), placement.Lookup{Cluster: w.cluster,
			Identity: room("lobby")}); err != nil || p.Code != placement.OK {
			t.Fatal(p, err)
		}
		if _, err := watching.Evict(t.Context(), w.cluster); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != 1 || len(all[0].expired) != 1 || all[0].moved != 32 {
		t.Fatalf("%+v", all)
	}
	if late := all[0].expired[0]; late < 14*time.Second || late > 15*time.Second {
		t.Errorf("its lease of 10 s began 25 s ago, and had expired for %v", late)
	}
}

// TestSurvey: members are counted in all clusters, by their state; clusters that no one is in any more are none, and
// more than one allows are not counted.
func TestSurvey(t *testing.T) {
	w := newWorld(t)
	w.wantSurvey(placement.Survey{})
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.join("bob", func(j *placement.Join) { j.TTL, j.Full = time.Hour, true })
	w.join("cat")
	other, empty := *w, *w
	other.cluster, empty.cluster = placement.Cluster{Tenant: "a/b", Name: "prod"},
		placement.Cluster{Tenant: "a", Name: "gone"}
	dan := other.join("dan", func(j *placement.Join) { j.TTL = time.Hour })
	if o := must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), other.cluster, dan)); o.Code != placement.OK {
		t.Fatal(o)
	}
	eve := empty.join("eve")
	if o := must[placement.MemberOutcome](w)(w.Leave(t.Context(), empty.cluster, eve)); o.Code != placement.OK {
		t.Fatal(o)
	}
	const balanced = 22 / (64. / 3) // 64 partitions are no multiple of three
	w.wantSurvey(placement.Survey{Clusters: 2, Active: 2, Full: 1, Draining: 1, Imbalance: balanced})
	w.clock.Advance(10 * time.Second)
	w.wantSurvey(placement.Survey{Clusters: 2, Active: 2, Full: 1, Draining: 1, Expired: 1, Imbalance: balanced})
	if got, complete, err := w.another().Survey(t.Context(), 2); err != nil || complete || got != (placement.Survey{}) {
		t.Errorf("of three clusters: %+v, %v, %v", got, complete, err)
	}
}

func (w *world) wantSurvey(want placement.Survey) {
	w.Helper()
	got, complete, err := w.another().Survey(w.Context(), 3)
	if err != nil || !complete || got != want {
		w.Errorf("%+v, %v, %v, want %+v", got, complete, err, want)
	}
}
