package placement_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// evolving is a cluster whose members change, with all of its epochs as the process that made them had them.
type evolving struct {
	*world

	random *rand.Rand
	alive  []placement.Incarnation
	epochs map[int64]*placement.Topology
	latest int64
	names  int
}

func newEvolving(t *testing.T, seed uint64) *evolving {
	t.Helper()
	return &evolving{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 1)), epochs: map[int64]*placement.Topology{}}
}

// by has a process make the next epoch: a member joins, most often; or takes the place of another, drains, offers
// something else, leaves, or dies with all that have its time to live.
func (e *evolving) by(s *placement.Service) {
	e.Helper()
	var done placement.MemberOutcome
	do := e.random.IntN(10)
	if len(e.alive) == 0 {
		do = 0
	}
	some := e.random.IntN(max(1, len(e.alive)))
	switch {
	case do < 5:
		e.names++
		c := placement.Join{Cluster: e.cluster, Member: fmt.Sprint("m", e.random.IntN(1000), "-", e.names), RequestID: "j",
			TTL: time.Hour, Partitions: 64, Address: "10.0.0.1", Offer: placement.Offer{Kinds: []string{"room"},
				Labels: map[string]string{"zone": strconv.Itoa(e.random.IntN(3))}, Weight: e.random.IntN(3)}}
		if do == 0 && len(e.alive) > 0 {
			c.Replaces = e.alive[some]
		}
		if do == 1 {
			c.TTL = time.Second
		}
		done = must[placement.MemberOutcome](e.world)(s.Join(e.Context(), c))
		if c.TTL == time.Hour {
			e.alive = append(e.alive, done.Incarnation)
		}
	case do < 6:
		done = must[placement.MemberOutcome](e.world)(s.ChangeOffer(e.Context(), placement.ChangeOffer{Cluster: e.cluster,
			Incarnation: e.alive[some], RequestID: e.request(), Offer: placement.Offer{Kinds: []string{"user"}, Full: true}}))
	case do < 7:
		done = must[placement.MemberOutcome](e.world)(s.DrainMember(e.Context(), e.cluster, e.alive[some]))
	case do < 9:
		done = must[placement.MemberOutcome](e.world)(s.Leave(e.Context(), e.cluster, e.alive[some]))
		e.alive = append(e.alive[:some], e.alive[some+1:]...)
	default:
		e.clock.Advance(2 * time.Second)
		must[[]placement.Incarnation](e.world)(s.Evict(e.Context(), e.cluster))
	}
	if done.Code != "" && done.Code != placement.OK {
		e.Fatalf("%+v", done)
	}
	e.clock.Advance(time.Millisecond)
	top := must[*placement.Topology](e.world)(s.Topology(e.Context(), e.cluster))
	e.epochs[top.Epoch], e.latest = top, top.Epoch
}

// same fails unless a process that read an epoch has what the one had that made it.
func (e *evolving) same(what string, got *placement.Topology, epoch int64) {
	e.Helper()
	want := e.epochs[epoch]
	if got == nil || got.Epoch != epoch || !got.At.Equal(want.At) || got.Cause != want.Cause ||
		!reflect.DeepEqual(got.Members, want.Members) || !reflect.DeepEqual(got.Table(), want.Table()) {
		e.Fatalf("%s, epoch %d:\n%+v\n%+v", what, epoch, got, want)
	}
}

// since fails unless what a process says of an earlier epoch is what changed since, where it says anything. It returns
// of how many of the epochs it does.
func (e *evolving) since(what string, s *placement.Service, known ...*placement.Topology) (told int) {
	e.Helper()
	top := must[*placement.Topology](e.world)(s.Topology(e.Context(), e.cluster))
	for _, before := range known {
		changed, gone, ok := top.Since(before.Epoch, before.At)
		if !ok {
			continue
		}
		told++
		all := map[string]placement.Member{}
		for _, m := range before.Members {
			all[m.Member] = m
		}
		for _, name := range gone {
			delete(all, name)
		}
		for _, m := range changed {
			all[m.Member] = m
		}
		if len(all) != len(top.Members) {
			e.Fatalf("%s, since epoch %d: %d members of %d", what, before.Epoch, len(all), len(top.Members))
		}
		for _, m := range top.Members {
			if !reflect.DeepEqual(all[m.Member], m) {
				e.Fatalf("%s, since epoch %d:\n%+v\n%+v", what, before.Epoch, all[m.Member], m)
			}
		}
	}
	return told
}

// all are the epochs that there were.
func (e *evolving) all() []*placement.Topology { return slices.Collect(maps.Values(e.epochs)) }

// TestWhatChangedSince: PLC-PLACE-2. A process says what changed since an epoch that it knew, and since those that it
// never knew, as far as it read their documents: also one that knew nothing. It says nothing of others, and nothing that
// is as long as all members.
func TestWhatChangedSince(t *testing.T) {
	t.Parallel()
	e := newEvolving(t, 7)
	each, slow := e.another(), e.another()
	e.join("a", func(j *placement.Join) { j.TTL = time.Hour })
	for i := range 39 {
		e.changing(e.Service, "join", fmt.Sprint("before ", i))
	}
	e.learn(slow)
	e.learn(each)
	for i := range 12 {
		e.clock.Advance(time.Second)
		switch i {
		case 3:
			m := e.epochs[e.latest].Find("before 9").Incarnation
			must[placement.MemberOutcome](e.world)(e.Leave(t.Context(), e.cluster, m))
		case 6:
			e.changing(e.Service, "address", "elsewhere")
		default:
			e.changing(e.Service, "join", fmt.Sprint("since ", i))
		}
		e.learn(each)
		if i == 7 {
			must[*placement.Topology](e.world)(slow.Topology(t.Context(), e.cluster))
		}
	}
	for what, s := range map[string]*placement.Service{"each epoch": each, "two epochs": slow,
		"no epoch": e.another()} {
		if n := e.since("one that knew "+what, s, e.all()...); n != 13 {
			t.Errorf("one that knew %s says what changed since %d of 13", what, n)
		}
	}
	top := must[*placement.Topology](e.world)(each.Topology(t.Context(), e.cluster))
	first := e.epochs[e.latest-12]
	changed, gone, ok := top.Since(first.Epoch, first.At)
	if !ok || len(changed) != 11 || changed[0].Address != "elsewhere" || !slices.Equal(gone, []string{"before 9"}) {
		t.Errorf("%v, gone %v, %v", changed, gone, ok)
	}
	if _, _, ok := top.Since(first.Epoch, first.At.Add(time.Millisecond)); ok {
		t.Error("an epoch of another time was taken for the one of that number")
	}
	for i := range 60 {
		e.changing(e.Service, "join", fmt.Sprint("more ", i))
	}
	if _, _, ok := e.Cached(e.cluster).Since(first.Epoch, first.At); ok {
		t.Error("it says what changed since an epoch that is more than 64 epochs ago")
	}
}

// TestEpochsAreWhatTheirWritersHad: over some hundred changes of the members, by two processes in turn, every reader
// puts an epoch together as it was: one that knows nothing, one that knows any earlier one, and for any that is kept.
func TestEpochsAreWhatTheirWritersHad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		e := newEvolving(t, rapid.Uint64().Draw(r, "seed"))
		processes, slow := []*placement.Service{e.another(), e.Service}, e.another()
		for range rapid.IntRange(1, 150).Draw(r, "epochs") {
			e.by(processes[1])
			processes[0], processes[1] = processes[1], processes[0]
			if e.random.IntN(10) == 0 {
				e.same("one that knows nothing",
					must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster)), e.latest)
			}
			if e.random.IntN(20) == 0 {
				e.same("one that knows some", must[*placement.Topology](e.world)(slow.Topology(t.Context(), e.cluster)), e.latest)
			}
			e.since("one that changes members", processes[e.random.IntN(2)], e.all()...)
			if e.random.IntN(10) == 0 {
				e.since("one that knows some", slow, e.all()...)
				e.since("one that knows nothing", e.another(), e.all()...)
			}
			n := 1 + e.random.Int64N(e.latest)
			if before, ok := e.epochs[n]; ok && e.random.IntN(5) == 0 {
				e.same("an earlier epoch",
					must[*placement.Topology](e.world)(e.another().Epoch(t.Context(), e.cluster, before.Epoch)), n)
			}
		}
	})
}

// epochKey is the document of an epoch.
func (e *evolving) epochKey(n int64) docstore.Key {
	return docstore.Key{Kind: "placement_epochs", Tenant: "acme/prod", ID: fmt.Sprintf("%016d", n)}
}

// many are so many epochs.
func (e *evolving) many(n int) {
	e.Helper()
	for want := e.latest + int64(n); e.latest < want; {
		e.by(e.Service)
	}
}

// TestDamagedEpochs: while one of the latest 64 epochs cannot be read, or is missing, a process that knows nothing says
// which, and one that knows a later one goes on. When 64 others have come, it is in no one's way.
func TestDamagedEpochs(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]docstore.Doc{
		"not compressed": {"changes": docstore.Bytes("{}")}, "a time that is none": {"changed_at": docstore.Int(7)},
		"other partitions": {"partitions": docstore.Int(128)}, "missing": nil,
	} {
		for _, back := range []int64{0, 1, 63} {
			t.Run(fmt.Sprint(what, ", ", back), func(t *testing.T) {
				t.Parallel()
				e := newEvolving(t, 7)
				e.many(100)
				k := e.epochKey(e.latest - back)
				w := docstore.Write{Key: k, Set: set}
				if set == nil {
					w = docstore.Write{Key: k, If: docstore.Has{Field: "epoch"}, Delete: true}
				}
				must[docstore.Result](e.world)(e.store.Write(t.Context(), w))
				_, err := e.another().Topology(t.Context(), e.cluster)
				if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), strconv.FormatInt(e.latest, 10)) ||
					set != nil && !strings.Contains(err.Error(), k.ID) {
					t.Fatalf("%v, want damage of %s", err, k)
				}
				if _, err := e.another().Claim(t.Context(), placement.Claim{Cluster: e.cluster, Identity: room("x"),
					RequestID: "c"}); !errors.Is(err, docstore.ErrDamaged) {
					t.Errorf("a claim: %v", err)
				}
				e.many(int(64 - back))
				e.same("one that knows nothing", must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster)),
					e.latest)
			})
		}
	}
}

// TestRemoveUnreadable: a cluster whose epoch cannot be read is removed by its epoch, once no lease lasts; members join
// anew then.
func TestRemoveUnreadable(t *testing.T) {
	t.Parallel()
	e := newEvolving(t, 7)
	e.join("ann")
	e.join("bob", func(j *placement.Join) { j.TTL = time.Minute })
	must[docstore.Result](e.world)(e.store.Write(t.Context(), docstore.Write{Key: e.epochKey(1), Delete: true,
		If: docstore.Has{Field: "epoch"}}))
	remove := func(epoch int64) placement.Removal {
		t.Helper()
		return must[placement.Removal](e.world)(e.another().RemoveCluster(t.Context(), placement.RemoveCluster{
			Cluster: e.cluster, Epoch: epoch, Reason: "damaged"}))
	}
	e.clock.Advance(10 * time.Second)
	if o := remove(2); o.Code != placement.MemberExists || o.RetryAfter != 50*time.Second {
		t.Fatalf("%+v", o)
	}
	e.clock.Advance(50 * time.Second)
	if o := remove(1); o.Code != placement.StaleEpoch || o.Epoch != 2 {
		t.Fatalf("%+v", o)
	}
	if o := remove(2); o.Code != placement.OK {
		t.Fatalf("%+v", o)
	}
	e.Service = e.another()
	e.many(3)
	e.same("one that knows nothing", must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster)),
		e.latest)
}

// TestChangesAreKept: documents of epochs are removed, by the store or by a sweep, only when neither the current epoch
// nor one of the last day needs them, and then all of them.
func TestChangesAreKept(t *testing.T) {
	t.Parallel()
	for by, remove := range map[string]func(e *evolving) error{
		"a sweep": func(e *evolving) error {
			_, err := e.Sweep(e.Context(), 0)
			return err
		},
		"the store": func(e *evolving) error {
			memory, _ := e.store.Store.(*docstore.Memory)
			_, err := memory.Prune(e.Context(), docstore.MaxLimit)
			return err
		},
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			e := newEvolving(t, 3)
			e.join("lives on", func(j *placement.Join) { j.TTL = time.Hour })
			for range 200 {
				e.by(e.Service)
				if e.random.IntN(2) == 0 {
					e.alive = nil // their leases end
					e.clock.Advance(3 * time.Hour)
				}
				if err := remove(e); err != nil {
					t.Fatal(err)
				}
				top := must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster))
				e.epochs[top.Epoch], e.latest = top, top.Epoch
				oldest := e.latest // of the last day
				for e.epochs[oldest-1] != nil && e.clock.Now().Sub(e.epochs[oldest].At) < 24*time.Hour {
					oldest--
				}
				e.same("an epoch of the last day",
					must[*placement.Topology](e.world)(e.another().Epoch(t.Context(), e.cluster, oldest)), oldest)
			}
			for range 10 {
				e.clock.Advance(25 * time.Hour)
				if err := remove(e); err != nil {
					t.Fatal(err)
				}
			}
			top := must[*placement.Topology](e.world)(e.another().Topology(t.Context(), e.cluster))
			if n := len(e.kinds("placement_epochs")); n != 64 || top.Epoch < 64 {
				t.Errorf("%d documents of epochs are kept", n)
			}
		})
	}
}

// TestAnotherHash: a program does not go by a cluster that places by another version of the hash, and changes nothing.
func TestAnotherHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	w.damage("placement_clusters", "head", "hash_version", docstore.Int(placement.HashVersion+1))
	before := fmt.Sprint(w.kinds("placement_epochs"), w.kinds("placement_members"), w.kinds("placement_events"))
	_, read := w.another().Topology(t.Context(), w.cluster)
	_, drained := w.DrainMember(t.Context(), w.cluster, ann)
	_, joined := w.another().Join(t.Context(), placement.Join{Cluster: w.cluster, Member: "bob", RequestID: "j"})
	for what, err := range map[string]error{"a read": read, "a drain": drained, "a join": joined} {
		if err == nil || errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "update the program") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := fmt.Sprint(w.kinds("placement_epochs"), w.kinds("placement_members"),
		w.kinds("placement_events")); after != before {
		t.Errorf("%s, before %s", after, before)
	}
}

// getting notes how many documents each read asks for.
type getting struct {
	docstore.Store

	docs []int
}

func (g *getting) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	g.docs = append(g.docs, len(keys))
	return g.Store.Get(ctx, keys...)
}

// TestReadsOfEpochs: who knows an earlier epoch reads the documents since, and who knows none, or one that is more than
// 63 back, reads 64.
func TestReadsOfEpochs(t *testing.T) {
	t.Parallel()
	e := newEvolving(t, 5)
	g := &getting{Store: e.store}
	reader := placement.New(g, &placement.Options{Now: e.clock.Now})
	for _, c := range []struct {
		epochs int
		want   string
	}{{1, "[1 1]"}, {1, "[1 1]"}, {63, "[1 63]"}, {64, "[1 1 63]"}, {30, "[1 30]"}, {0, "[1]"}} {
		e.many(c.epochs)
		g.docs = nil
		must[*placement.Topology](e.world)(reader.Topology(t.Context(), e.cluster))
		if got := fmt.Sprint(g.docs); got != c.want {
			t.Errorf("%d epochs later: %s documents, want %s", c.epochs, got, c.want)
		}
	}
}
