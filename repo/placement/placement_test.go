package placement_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// counted counts the requests to a store.
type counted struct {
	docstore.Store
	mu                   sync.Mutex
	reads, writes, lists int
}

func (c *counted) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	return c.Store.List(ctx, q)
}

func (c *counted) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Store.Get(ctx, keys...)
}

func (c *counted) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Store.Write(ctx, writes...)
}

// took is how many reads and writes there were since it was last asked.
func (c *counted) took() [2]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := [2]int{c.reads, c.writes}
	c.reads, c.writes = 0, 0
	return n
}

// world is a cluster on a store in memory.
type world struct {
	*testing.T
	*placement.Service

	clock   *suite.Clock
	store   *counted
	cluster placement.Cluster
	next    int // request number
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := suite.NewClock()
	store := &counted{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	return &world{
		T: t, Service: placement.New(store, &placement.Options{Now: clock.Now}), clock: clock, store: store,
		cluster: placement.Cluster{Tenant: "acme", Name: "prod"},
	}
}

// another is another process on the same store.
func (w *world) another() *placement.Service {
	return placement.New(w.store, &placement.Options{Now: w.clock.Now})
}

func (w *world) request() string {
	w.next++
	return fmt.Sprint("request ", w.next)
}

func must[O any](w *world) func(O, error) O {
	return func(o O, err error) O {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return o
	}
}

func (w *world) join(name string, change ...func(*placement.Join)) placement.Incarnation {
	w.Helper()
	c := placement.Join{
		Cluster: w.cluster, Member: name, RequestID: w.request(), Partitions: 64, TTL: 10 * time.Second,
		Offer: placement.Offer{Kinds: []string{"room"}},
	}
	for _, f := range change {
		f(&c)
	}
	o := must[placement.MemberOutcome](w)(w.Join(w.Context(), c))
	if o.Code != placement.OK || o.Status != placement.MemberActive || !o.ExpiresAt.Equal(w.clock.Now().Add(c.TTL)) {
		w.Fatalf("join of %s: %+v", name, o)
	}
	return o.Incarnation
}

func room(id string) placement.Identity { return placement.Identity{Kind: "room", ID: id} }

func (w *world) claim(id placement.Identity, change ...func(*placement.Claim)) placement.Outcome {
	w.Helper()
	c := placement.Claim{Cluster: w.cluster, Identity: id, RequestID: w.request()}
	for _, f := range change {
		f(&c)
	}
	return must[placement.Outcome](w)(w.Claim(w.Context(), c))
}

func (w *world) hold(o placement.Outcome) placement.Hold {
	return placement.Hold{Cluster: w.cluster, Identity: o.Activation.Identity, Owner: o.Activation.Owner,
		Token: o.Activation.Token}
}

func (w *world) lookup(id placement.Identity) placement.Placement {
	w.Helper()
	return must[placement.Placement](w)(w.Lookup(w.Context(), placement.Lookup{Cluster: w.cluster, Identity: id}))
}

func (w *world) want(got, want placement.Code) {
	w.Helper()
	if got != want {
		w.Errorf("%s, want %s", got, want)
	}
}

// active claims an identity and activates it.
func (w *world) active(id placement.Identity) placement.Hold {
	w.Helper()
	o := w.claim(id)
	w.want(o.Code, placement.OK)
	h := w.hold(o)
	w.want(must[placement.Outcome](w)(w.Activated(w.Context(), placement.Activated{Hold: h})).Code, placement.OK)
	return h
}

// TestIneligible: PLC-ONE-3. Members that drain, are full, or lack the kind or a label are given nothing, also when
// they ask themselves.
func TestIneligible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	bob := w.join("bob", func(c *placement.Join) {
		c.Kinds, c.Labels = []string{"room", "device"}, map[string]string{"zone": "b"}
	})
	for n := range 20 {
		id := placement.Identity{Kind: "device", ID: strconv.Itoa(n)}
		if o := w.claim(id); o.Code != placement.OK || o.Activation.Owner != bob {
			t.Errorf("a kind that bob alone offers: %+v", o)
		}
		o := w.claim(placement.Identity{Kind: "device", ID: fmt.Sprint("by ", n)}, func(c *placement.Claim) { c.By = ann })
		if o.Code != placement.MemberIneligible || o.Ineligible != placement.LacksKind {
			t.Errorf("a kind that ann does not offer: %+v", o)
		}
		o = w.claim(room(strconv.Itoa(n)), func(c *placement.Claim) { c.Labels = map[string]string{"zone": "b"} })
		if o.Code != placement.OK || o.Activation.Owner != bob {
			t.Errorf("a label that bob alone has: %+v", o)
		}
	}
	if o := w.claim(placement.Identity{Kind: "car", ID: "1"}); o.Code != placement.NoEligibleMember {
		t.Errorf("a kind that no one offers: %+v", o)
	}
	full := placement.ChangeOffer{Cluster: w.cluster, Incarnation: bob, RequestID: "full",
		Offer: placement.Offer{Kinds: []string{"room", "device"}, Full: true}}
	w.want(must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), full)).Code, placement.OK)
	if o := w.claim(placement.Identity{Kind: "device", ID: "another"}); o.Code != placement.NoEligibleMember {
		t.Errorf("while bob is full: %+v", o)
	}
	w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, bob)).Code, placement.OK)
	for reason, by := range map[placement.Ineligible]placement.Incarnation{
		placement.IsDraining: bob, placement.NotAMember: {Member: "ann", Number: ann.Number - 1},
	} {
		o := w.claim(room("x"), func(c *placement.Claim) { c.By = by })
		if o.Code != placement.MemberIneligible || o.Ineligible != reason {
			t.Errorf("claimed by %v: %+v", by, o)
		}
	}
	// An offer that is delivered again, late, changes nothing back.
	empty := full
	empty.RequestID, empty.Offer = "none", placement.Offer{}
	w.want(must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), empty)).Code, placement.OK)
	if o := must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), full)); o.Code != placement.OK || !o.Replayed {
		t.Errorf("a late duplicate: %+v", o)
	}
	if got := w.Cached(w.cluster).Find("bob"); len(got.Kinds) != 0 {
		t.Errorf("the late duplicate was carried out: %+v", got)
	}
}

// TestTransferKeepsTheNeed: what a claim needed is needed of each member to which the activation is handed over, until
// another claim.
func TestTransferKeepsTheNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zone := func(z string) func(*placement.Join) {
		return func(j *placement.Join) { j.Labels = map[string]string{"zone": z} }
	}
	ann, bob := w.join("ann", zone("b")), w.join("bob", zone("b"))
	w.join("cleo", zone("a"))
	need := placement.Need{Labels: map[string]string{"zone": "b"}}
	hand := func(step string, o placement.Outcome, to string, need placement.Need, code placement.Code,
		owner string) placement.Outcome {
		t.Helper()
		h := w.hold(o)
		w.want(must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: h})).Code, placement.OK)
		got := must[placement.Outcome](w)(
			w.Transfer(t.Context(), placement.Transfer{Hold: h, RequestID: step, To: to, Need: need}))
		if got.Code != code || code == placement.OK && got.Activation.Owner.Member != owner {
			t.Errorf("%s: %+v", step, got)
		}
		return got
	}
	id := room("lobby")
	o := w.claim(id, func(c *placement.Claim) { c.Need = need })
	owner, other := ann, bob
	if o.Activation.Owner == bob {
		owner, other = bob, ann
	}
	w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, owner)).Code, placement.OK)
	hand("to one that lacks it", o, "cleo", placement.Need{}, placement.MemberIneligible, "")
	o = hand("to another that has it", o, "", placement.Need{}, placement.OK, other.Member)
	w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, other)).Code, placement.OK)
	hand("when no other has it", o, "", placement.Need{}, placement.NoEligibleMember, "")
	o = hand("for another need", o, "", placement.Need{Labels: map[string]string{"zone": "a"}}, placement.OK, "cleo")
	w.join("dave", zone("b"))
	hand("which holds from then on", o, "dave", placement.Need{}, placement.MemberIneligible, "")
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: w.hold(o)})).Code, placement.OK)
	o = w.claim(id, func(c *placement.Claim) { c.Prefer = map[string]string{"zone": "a"} })
	hand("a claim without it", o, "dave", placement.Need{}, placement.OK, "dave")
}

// TestMemberThatIsGone: PLC-PLACE-2, PLC-ONE-5. A member whose lease ended is evicted by the caller that needs to know,
// its activations are taken over under higher tokens, and nothing that it sends has an effect, also under its old name.
func TestMemberThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	h := w.active(room("lobby"))
	waiting := w.claim(room("waiting"))
	w.clock.Advance(5 * time.Second)
	bob := w.join("bob")
	w.clock.Advance(5*time.Second - time.Millisecond)
	if p := w.lookup(room("lobby")); p.Owner == nil || p.Owner.Incarnation != ann {
		t.Errorf("before the lease ended: %+v", p)
	}
	w.clock.Advance(time.Millisecond)
	before := w.Cached(w.cluster).Epoch
	p := w.lookup(room("lobby"))
	if p.Owner != nil || p.Placed.Incarnation != bob || p.Epoch != before+1 {
		t.Errorf("after the lease ended: %+v", p)
	}
	o := w.claim(room("lobby"))
	if o.Code != placement.OK || o.Activation.Owner != bob || o.Activation.Token <= h.Token {
		t.Errorf("taken over: %+v", o)
	}
	beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1, TTL: time.Minute}
	if o := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)); o.Code != placement.StaleIncarnation {
		t.Errorf("a heartbeat of the dead: %+v", o)
	}
	if o := must[placement.Outcome](w)(
		w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "s"})); o.Code != placement.StaleToken {
		t.Errorf("state of the dead: %+v", o)
	}
	if o := must[placement.Outcome](w)(
		w.Activated(t.Context(), placement.Activated{Hold: w.hold(waiting)})); o.Code != placement.MemberIneligible {
		t.Errorf("an activation by the dead that no one has taken over: %+v", o)
	}
	again := w.join("ann")
	if again.Number <= ann.Number {
		t.Errorf("incarnation %d after %d", again.Number, ann.Number)
	}
	if p := w.lookup(room("waiting")); p.Owner != nil {
		t.Errorf("a process under its old name inherits: %+v", p)
	}
	// The incarnation is compared, not the name.
	if o := must[placement.Outcome](w)(
		w.Activated(t.Context(), placement.Activated{Hold: w.hold(waiting)})); o.Code != placement.MemberIneligible {
		t.Errorf("an activation by the dead under a new name: %+v", o)
	}
}

// TestTwoMembersWithOneName: the second is refused while the first lives, and gets another incarnation once it does
// not.
func TestTwoMembersWithOneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	w.clock.Advance(4 * time.Second)
	c := placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "second",
		Offer: placement.Offer{Kinds: []string{"room"}}}
	o := must[placement.MemberOutcome](w)(w.Join(t.Context(), c))
	if o.Code != placement.MemberExists || o.RetryAfter != 6*time.Second || o.Incarnation != ann ||
		w.Cached(w.cluster).Epoch != 1 {
		t.Errorf("the second: %+v", o)
	}
	w.clock.Advance(o.RetryAfter)
	if o = must[placement.MemberOutcome](w)(w.Join(t.Context(), c)); o.Code != placement.OK ||
		o.Incarnation.Number <= ann.Number {
		t.Errorf("after the lease ended: %+v", o)
	}
	if e := w.events(); len(e) != 3 || e[1].To != string(placement.MemberDead) && e[2].To != string(placement.MemberDead) {
		t.Errorf("events %+v", e)
	}
}

func (w *world) events() []placement.Event {
	w.Helper()
	page, err := w.Events(w.Context(), w.cluster, placement.EventQuery{After: "", Limit: docstore.MaxLimit})
	if err != nil {
		w.Fatal(err)
	}
	return page.Events
}

// TestJoinsAndLateDuplicates: every command on a member has one effect, however often and however late it is delivered.
func TestJoinsAndLateDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "j1",
		Offer: placement.Offer{Kinds: []string{"room"}}}
	first := must[placement.MemberOutcome](w)(w.Join(t.Context(), c))
	if o := must[placement.MemberOutcome](w)(w.another().Join(t.Context(), c)); o.Code != placement.OK || !o.Replayed ||
		o.Incarnation != first.Incarnation ||
		!o.ExpiresAt.Equal(first.ExpiresAt) {
		t.Errorf("delivered again: %+v", o)
	}
	other := c
	other.Weight = 2
	w.want(must[placement.MemberOutcome](w)(w.Join(t.Context(), other)).Code, placement.RequestIDReused)

	beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: first.Incarnation, Seq: 1}
	w.clock.Advance(3 * time.Second)
	b1 := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat))
	w.clock.Advance(3 * time.Second)
	if o := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)); o.Code != placement.OK || !o.Replayed ||
		!o.ExpiresAt.Equal(b1.ExpiresAt) {
		t.Errorf("a heartbeat that comes twice: %+v, then %+v", b1, o)
	}
	later, sooner := beat, beat // the third arrives before the second, which asks for less
	later.Seq, later.TTL = 3, time.Minute
	sooner.Seq, sooner.TTL = 2, time.Second
	b3 := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), later))
	w.clock.Advance(time.Second)
	for _, late := range []placement.Heartbeat{sooner, later} {
		if o := must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), late)); o.Code != placement.OK || !o.Replayed ||
			!o.ExpiresAt.Equal(b3.ExpiresAt) {
			t.Errorf("heartbeat %d, after the third: %+v, then %+v", late.Seq, b3, o)
		}
	}
	unknown := beat
	unknown.Incarnation.Member = "bob"
	w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), unknown)).Code, placement.MemberUnknown)

	for range 2 {
		o := must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, first.Incarnation))
		if o.Code != placement.OK || o.Epoch != 2 {
			t.Errorf("drain: %+v", o)
		}
	}
	for range 2 {
		o := must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, first.Incarnation))
		if o.Code != placement.OK || o.Epoch != 3 {
			t.Errorf("leave: %+v", o)
		}
	}
	w.want(must[placement.MemberOutcome](w)(w.Join(t.Context(), c)).Code, placement.RequestIDReused)
	w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.StaleIncarnation)
	second := w.join("ann", func(j *placement.Join) { j.Partitions = 0 })
	w.want(must[placement.MemberOutcome](w)(w.Join(t.Context(), c)).Code, placement.RequestIDReused)
	w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, first.Incarnation)).Code,
		placement.StaleIncarnation)
	w.want(must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, first.Incarnation)).Code,
		placement.StaleIncarnation)
	if m := w.Cached(w.cluster).Find("ann"); m.Incarnation != second || m.Status != placement.MemberActive ||
		w.Cached(w.cluster).Epoch != 4 {
		t.Errorf("late duplicates changed %+v", m)
	}
	w.want(must[placement.MemberOutcome](w)(w.Join(t.Context(), placement.Join{
		Cluster: w.cluster, Member: "bob", RequestID: "j9", Partitions: 128,
	})).Code, placement.ClusterDiffers)
}

// TestReplace: PLC-PLACE-2. A member that takes the place of another gets its partitions and no others, in one epoch;
// what the other serves stays there until it is handed over.
func TestReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	w.join("bob")
	before := w.Cached(w.cluster)
	var mine placement.Identity
	for n := 0; mine.ID == ""; n++ {
		if id := room(strconv.Itoa(n)); before.Place(id, placement.Need{}).Incarnation == ann {
			mine = id
		}
	}
	h := w.active(mine)
	cleo := w.join("cleo", func(c *placement.Join) { c.Replaces = ann })
	after := w.Cached(w.cluster)
	if after.Epoch != before.Epoch+1 {
		t.Errorf("epoch %d after %d", after.Epoch, before.Epoch)
	}
	for p := range before.Table() {
		want := before.Primary(p).Member
		if want == "ann" {
			want = "cleo"
		}
		if got := after.Primary(p).Member; got != want {
			t.Errorf("partition %d went from %s to %s", p, before.Primary(p).Member, got)
		}
	}
	if p := w.lookup(mine); p.Owner.Incarnation != ann || p.Placed.Incarnation != cleo {
		t.Errorf("not handed over yet: %+v", p)
	}
	o := must[placement.Outcome](w)(w.Transfer(t.Context(), placement.Transfer{Hold: h, RequestID: "t1"}))
	if o.Code != placement.OK || o.Activation.Owner != cleo || o.Activation.Token != h.Token+1 ||
		o.Activation.Phase != placement.Locked {
		t.Errorf("transferred: %+v", o)
	}
	if o := must[placement.Outcome](w)(
		w.Transfer(t.Context(), placement.Transfer{Hold: h, RequestID: "t1"})); o.Code != placement.OK || !o.Replayed {
		t.Errorf("transferred again: %+v", o)
	}
	w.want(must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "s1"})).Code,
		placement.StaleToken)
	w.want(must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: w.hold(o)})).Code, placement.OK)
	w.want(must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann)).Code, placement.OK)
	if moved := w.Cached(w.cluster); moved.Primary(0).Member != after.Primary(0).Member ||
		w.events()[len(w.events())-1].Moved != 0 {
		t.Errorf("leaving moved partitions")
	}
}

// TestRoundTrips: a placement by a cached epoch costs no request, a lookup one, a claim one read and one write, of what
// exists one read, and what an owner does one write.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann")
	took := func(step string, want [2]int) {
		t.Helper()
		if got := w.store.took(); got != want {
			t.Errorf("%s: %d reads and %d writes, want %v", step, got[0], got[1], want)
		}
	}
	took("first join, with which sweeps find the cluster", [2]int{1, 2})
	w.Cached(w.cluster).Place(room("lobby"), placement.Need{})
	took("cached", [2]int{0, 0})
	w.lookup(room("lobby"))
	took("lookup", [2]int{1, 0})
	o := w.claim(room("lobby"))
	took("claim", [2]int{1, 1})
	h := w.hold(o)
	must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: h}))
	took("activated", [2]int{0, 1})
	w.claim(room("lobby"))
	took("claim of what exists", [2]int{1, 0})
	must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "s"}))
	took("state", [2]int{0, 1})
	must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: h}))
	took("deactivate", [2]int{0, 1})
	must[placement.MemberOutcome](w)(
		w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: h.Owner, Seq: 1}))
	took("heartbeat", [2]int{0, 1})
	fresh := w.another()
	for _, want := range [][2]int{{3, 0}, {1, 0}} {
		must[placement.Placement](w)(
			fresh.Lookup(t.Context(), placement.Lookup{Cluster: w.cluster, Identity: room("garden")}))
		took("lookup by a process that knows no epoch", want)
	}
	w.join("bob")
	took("join", [2]int{1, 1})
	must[placement.Outcome](w)(
		fresh.Claim(t.Context(), placement.Claim{Cluster: w.cluster, Identity: room("garden"), RequestID: "g"}))
	took("claim after a new epoch, by which it is elsewhere", [2]int{3, 1})
}

// TestStaleEpoch: a caller that placed by an epoch which is over is told the current one.
func TestStaleEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann")
	w.join("bob")
	if o := w.claim(room("lobby"), func(c *placement.Claim) { c.Epoch = 1 }); o.Code != placement.StaleEpoch ||
		o.Epoch != 2 {
		t.Errorf("%+v", o)
	}
	p := must[placement.Placement](w)(
		w.Lookup(t.Context(), placement.Lookup{Cluster: w.cluster, Identity: room("lobby"), Epoch: 1}))
	if p.Code != placement.StaleEpoch || p.Epoch != 2 {
		t.Errorf("%+v", p)
	}
}

// TestClaimOfADeadOwnerIsNoReplay: a claim that is sent again after the end of its owner's lease got what has ended,
// with other members or without.
func TestClaimOfADeadOwnerIsNoReplay(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{true, false} {
		w := newWorld(t)
		w.join("ann")
		c := placement.Claim{Cluster: w.cluster, Identity: room("lobby"), RequestID: "c1"}
		first := must[placement.Outcome](w)(w.Claim(t.Context(), c))
		must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: w.hold(first)}))
		w.clock.Advance(time.Hour)
		if others {
			w.join("bob")
		}
		if o := must[placement.Outcome](w)(w.Claim(t.Context(), c)); o.Code != placement.LateAnswer {
			t.Errorf("others %t: %+v", others, o)
		}
	}
}

// TestReplayOfWhatHasEnded: a join, a claim or a heartbeat that comes again when what it obtained has ended is told so,
// also while no one has evicted the member, and with an end in the past. A request with another request_id is granted (PLC-ONE-2).
func TestReplayOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("eve", func(c *placement.Join) { c.TTL = time.Hour })
	join := placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "j1", TTL: 10 * time.Second,
		Offer: placement.Offer{Kinds: []string{"room"}}}
	ann := must[placement.MemberOutcome](w)(w.Join(t.Context(), join))
	claim := placement.Claim{Cluster: w.cluster, Identity: room("lobby"), RequestID: "c1", LockTTL: 10 * time.Second}
	w.want(must[placement.Outcome](w)(w.Claim(t.Context(), claim)).Code, placement.OK)
	short := placement.Claim{Cluster: w.cluster, Identity: room("hall"), RequestID: "c2", LockTTL: 5 * time.Second}
	w.want(must[placement.Outcome](w)(w.Claim(t.Context(), short)).Code, placement.OK)
	beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: ann.Incarnation, Seq: 1, TTL: 10 * time.Second}
	w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, placement.OK)
	for _, c := range []struct {
		after time.Duration
		want  placement.Code
	}{{10*time.Second - time.Millisecond, placement.OK}, {time.Millisecond, placement.LateAnswer}} {
		w.clock.Advance(c.after)
		w.want(must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat)).Code, c.want)
		w.want(must[placement.Outcome](w)(w.Claim(t.Context(), short)).Code, placement.LateAnswer)
		ends := []time.Time{{}, w.clock.Now().Add(-time.Hour)}
		for _, end := range ends {
			again := join
			again.NotAfter = end
			if o := must[placement.MemberOutcome](w)(w.Join(t.Context(), again)); o.Code != c.want ||
				o.Incarnation != ann.Incarnation {
				t.Errorf("join: %+v, want %s", o, c.want)
			}
		}
		for _, end := range ends { // the first that comes late evicts the member
			late := claim
			late.NotAfter = end
			w.want(must[placement.Outcome](w)(w.Claim(t.Context(), late)).Code, c.want)
		}
	}
	w.join("ann", func(c *placement.Join) { c.Partitions = 0 })
	w.want(w.claim(room("lobby")).Code, placement.OK)
}

// TestLateDuplicatesOfActivations: no command on an activation has a second effect, however late it is delivered.
func TestLateDuplicatesOfActivations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	c := placement.Claim{Cluster: w.cluster, Identity: room("lobby"), RequestID: "c1"}
	first := must[placement.Outcome](w)(w.Claim(t.Context(), c))
	if o := must[placement.Outcome](w)(w.another().Claim(t.Context(), c)); o.Code != placement.OK || !o.Replayed ||
		o.Activation.Token != first.Activation.Token {
		t.Errorf("claimed again: %+v", o)
	}
	other := c
	other.LockTTL = time.Minute
	w.want(must[placement.Outcome](w)(w.Claim(t.Context(), other)).Code, placement.RequestIDReused)
	h := w.hold(first)
	must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: h}))
	s1 := placement.WriteState{Hold: h, RequestID: "s1", Data: []byte("one")}
	must[placement.Outcome](w)(w.WriteState(t.Context(), s1))
	must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "s2", Version: 1,
		Data: []byte("two")}))
	if o := must[placement.Outcome](w)(w.WriteState(t.Context(), s1)); o.Code != placement.OK || !o.Replayed ||
		string(o.Activation.State) != "two" {
		t.Errorf("a late state: %+v", o)
	}
	w.want(must[placement.Outcome](w)(
		w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "s3", Version: 1})).Code, placement.StateChanged)
	d := placement.Deactivate{Hold: h}
	must[placement.Outcome](w)(w.Deactivate(t.Context(), d))
	if o := must[placement.Outcome](w)(w.Deactivate(t.Context(), d)); o.Code != placement.OK || !o.Replayed {
		t.Errorf("deactivated again: %+v", o)
	}
	w.want(must[placement.Outcome](w)(w.Claim(t.Context(), c)).Code, placement.RequestIDReused)
	next := w.claim(room("lobby"), func(c *placement.Claim) { c.By = ann })
	w.want(must[placement.Outcome](w)(w.Claim(t.Context(), c)).Code, placement.RequestIDReused)
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), d)).Code, placement.StaleToken)
	if p := w.lookup(room("lobby")); p.Activation.Token != next.Activation.Token || string(p.Activation.State) != "two" {
		t.Errorf("after all: %+v", p)
	}
}

// TestBadInput: what cannot be is refused by the name of its field, and no store is asked.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, i, id := t.Context(), placement.Incarnation{Member: "ann", Number: 1}, room("lobby")
	h := placement.Hold{Cluster: w.cluster, Identity: id, Owner: i, Token: 1}
	member := func(_ placement.MemberOutcome, err error) error { return err }
	outcome := func(_ placement.Outcome, err error) error { return err }
	for want, err := range map[string]error{
		"cluster": member(w.DrainMember(ctx, placement.Cluster{Tenant: "acme", Name: "a/b"}, i)),
		"kind": outcome(
			w.Claim(ctx, placement.Claim{Cluster: w.cluster, Identity: placement.Identity{Kind: "a b", ID: "x"},
				RequestID: "r"})),
		"id": outcome(
			w.Claim(ctx, placement.Claim{Cluster: w.cluster, Identity: placement.Identity{Kind: "room", ID: "a\x00"},
				RequestID: "r"})),
		"member": member(w.Leave(ctx, w.cluster, placement.Incarnation{Number: 1})),
		"lock_ttl": outcome(w.Claim(ctx, placement.Claim{Cluster: w.cluster, Identity: id, RequestID: "r",
			LockTTL: time.Millisecond})),
		"fencing_token": outcome(
			w.Activated(ctx, placement.Activated{Hold: placement.Hold{Cluster: w.cluster, Identity: id, Owner: i}})),
		"reason": outcome(w.Fail(ctx, placement.Fail{Hold: h})),
		"state": outcome(
			w.WriteState(ctx, placement.WriteState{Hold: h, RequestID: "r", Data: make([]byte, placement.MaxStateBytes+1)})),
		"ttl": member(w.Join(ctx, placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "r",
			TTL: 2 * time.Hour})),
		"weight": member(w.Join(ctx, placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "r",
			Offer: placement.Offer{Weight: -1}})),
		"kinds": member(w.Join(ctx, placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "r",
			Offer: placement.Offer{Kinds: []string{"a", "a"}}})),
		"partitions": member(w.Join(ctx, placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "r",
			Partitions: 100})),
		"replaces":   member(w.Join(ctx, placement.Join{Cluster: w.cluster, Member: "ann", RequestID: "r", Replaces: i})),
		"seq":        member(w.Heartbeat(ctx, placement.Heartbeat{Cluster: w.cluster, Incarnation: i})),
		"request_id": outcome(w.Transfer(ctx, placement.Transfer{Hold: h})),
		"incarnation": member(w.Heartbeat(ctx, placement.Heartbeat{Cluster: w.cluster,
			Incarnation: placement.Incarnation{Member: "ann"}, Seq: 1})),
	} {
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	if got := w.store.took(); got != [2]int{} {
		t.Errorf("%v requests", got)
	}
	if _, err := w.Events(ctx, w.cluster, placement.EventQuery{After: "now?"}); err == nil ||
		!strings.Contains(err.Error(), "after") {
		t.Errorf("%v", err)
	}
}

// TestStoppedBetweenReadAndWrite: a process that was stopped after it read that an identity has no document gives it no
// token that is lower than one which was given meanwhile, although the document has come and gone.
func TestStoppedBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.join("ann")
	var token int64
	store := &suite.Watched{Store: w.store}
	store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		store.OnWrite = nil
		// The identity lives elsewhere, and its retention passes. The member goes on all the while.
		h := w.active(room("lobby"))
		token = h.Token
		must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: h}))
		key := docstore.Key{Kind: placement.ActivationKind, Tenant: "acme/prod", ID: "room/lobby"}
		if _, err := w.store.Write(t.Context(), docstore.Write{Key: key, If: docstore.Has{Field: "token"},
			Delete: true}); err != nil {
			t.Fatal(err)
		}
		beat := placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 1, TTL: time.Hour}
		must[placement.MemberOutcome](w)(w.Heartbeat(t.Context(), beat))
		w.clock.Advance(time.Minute)
		return apply()
	}
	stopped := placement.New(store, &placement.Options{Now: func() time.Time { return suite.Epoch }})
	w.clock.Advance(-time.Millisecond)
	o := must[placement.Outcome](w)(
		stopped.Claim(t.Context(), placement.Claim{Cluster: w.cluster, Identity: room("lobby"), RequestID: "late"}))
	if o.Code != placement.OK || o.Activation.Token <= token || len(store.Requests()) < 4 {
		t.Errorf("token %d after %d: %+v, requests %v", o.Activation.Token, token, o, store.Requests())
	}
}

// TestLapsedLock: a claim of an activation whose lock phase has ended is decided by the store's time, and on the
// document that was read: at the time of the write the lock may not have ended for certain, and its token may have been
// raised.
func TestLapsedLock(t *testing.T) {
	t.Parallel()
	raise := func(w *world, to int64) {
		key := docstore.Key{Kind: placement.ActivationKind, Tenant: "acme/prod", ID: "room/lobby"}
		must[docstore.Result](w)(
			w.store.Write(w.Context(), docstore.Write{Key: key, Set: docstore.Doc{"token": docstore.Int(to)}}))
	}
	for name, c := range map[string]struct {
		between func(w *world, token int64)
		code    placement.Code
		token   int64 // above that of the lock
		wait    time.Duration
	}{
		"ended": {func(*world, int64) {}, placement.OK, placement.DefaultLockTTL.Microseconds(), 0}, // the time
		"not for all": {func(w *world, _ int64) { w.clock.Advance(-time.Millisecond) }, placement.Locking, 0,
			time.Millisecond},
		"raised": {func(w *world, token int64) { raise(w, token+1e9) }, placement.OK, 1e9 + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
			token := w.claim(room("lobby")).Activation.Token
			w.clock.Advance(placement.DefaultLockTTL)
			store := &suite.Watched{Store: w.store}
			store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				store.OnWrite = nil
				c.between(w, token)
				return apply()
			}
			o := must[placement.Outcome](w)(placement.New(store, &placement.Options{Now: w.clock.Now}).Claim(
				t.Context(), placement.Claim{
					Cluster: w.cluster, Identity: room("lobby"), RequestID: "next",
				}))
			if o.Code != c.code || o.Activation.Token != token+c.token || o.RetryAfter != c.wait {
				t.Errorf("token %d: %+v", token, o)
			}
			if a := w.lookup(room("lobby")).Activation; a.Token != token+c.token {
				t.Errorf("after it: %+v", a)
			}
		})
	}
}

// heavy is an offer that has everything that an offer can have, so that few members fill a cluster.
func heavy() placement.Offer {
	offer := placement.Offer{Labels: map[string]string{}}
	for n := range placement.MaxKinds {
		offer.Kinds = append(offer.Kinds, fmt.Sprintf("k%0*d", placement.MaxKindBytes-1, n))
	}
	for n := range placement.MaxLabels {
		offer.Labels[fmt.Sprintf("%0*d", placement.MaxLabelKeyBytes, n)] = strings.Repeat("v", placement.MaxLabelValueBytes)
	}
	return offer
}

// TestClusterFull: a cluster takes no more members than the document of an epoch can hold, says until when, and goes
// on. Members that drain or leave are never in the way of it.
func TestClusterFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	join := func(n int) placement.MemberOutcome {
		return must[placement.MemberOutcome](w)(w.Join(t.Context(), placement.Join{
			Cluster: w.cluster, Member: fmt.Sprint("member-", n), RequestID: "j", TTL: time.Hour - time.Duration(n)*time.Second,
			Offer: heavy(),
		}))
	}
	n := 0
	o := join(n)
	for ; o.Code == placement.OK && n < placement.MaxMembers; o = join(n) {
		n++
	}
	before := w.Cached(w.cluster)
	if o.Code != placement.ClusterFull || n < 40 || len(before.Members) != n || o.Epoch != before.Epoch {
		t.Fatalf("%d members: %+v", n, o)
	}
	if want := time.Hour - time.Duration(n-1)*time.Second; o.RetryAfter != want {
		t.Errorf("retry after %v, want %v: when the first lease ends", o.RetryAfter, want)
	}
	offered := must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), placement.ChangeOffer{
		Cluster: w.cluster, Incarnation: before.Members[0].Incarnation, RequestID: "o",
		Address: strings.Repeat("a", placement.MaxAddressBytes), Offer: heavy(),
	}))
	for i := 1; offered.Code == placement.OK && i < n; i++ { // until there is no room for another byte
		offered = must[placement.MemberOutcome](w)(w.ChangeOffer(t.Context(), placement.ChangeOffer{
			Cluster: w.cluster, Incarnation: before.Members[i].Incarnation, RequestID: "o",
			Address: strings.Repeat("a", placement.MaxAddressBytes), Offer: heavy(),
		}))
	}
	w.want(offered.Code, placement.ClusterFull)
	for _, m := range before.Members {
		w.want(must[placement.MemberOutcome](w)(w.DrainMember(t.Context(), w.cluster, m.Incarnation)).Code, placement.OK)
	}
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, before.Members[0].Incarnation))
	must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, before.Members[1].Incarnation))
	w.want(join(n).Code, placement.OK)
}

// TestClusterFullOfTheDead: members whose leases have ended keep no other from joining. The join evicts as many as it
// needs, and what it does costs nothing while there is room. [TestMostMembers] does it with many.
func TestClusterFullOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	join := func(member string) placement.MemberOutcome {
		return must[placement.MemberOutcome](w)(w.Join(t.Context(), placement.Join{
			Cluster: w.cluster, Member: member, RequestID: "j", TTL: 30 * time.Second, Offer: heavy(),
			Partitions: placement.MinPartitions,
		}))
	}
	w.want(join("first").Code, placement.OK)
	w.store.took()
	w.want(join("second").Code, placement.OK)
	if got := w.store.took(); got != [2]int{1, 1} {
		t.Errorf("a join with room: %v reads and writes", got)
	}
	n := 2
	for ; join(fmt.Sprint("restart-", n)).Code == placement.OK; n++ {
		w.clock.Advance(time.Millisecond) // a process that crashes as it starts
	}
	w.clock.Advance(time.Minute)
	for i := range 3 { // one after the other, each asks once
		if o := join(fmt.Sprint("late-", i)); o.Code != placement.OK {
			t.Fatalf("after %d dead members: %+v", n, o)
		}
	}
	if left := len(w.Cached(w.cluster).Members); left >= n || left < 3 {
		t.Errorf("%d members", left)
	}
}

// TestTokensOfAStoreThatCameBackOlder (LS-INV-002): the token of a claim is above those that the store has forgotten.
func TestTokensOfAStoreThatCameBackOlder(t *testing.T) {
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	before := w.claim(room("lobby")).Activation
	key := docstore.Key{Kind: placement.ActivationKind, Tenant: "acme/prod", ID: "room/lobby"}
	snap := must[docstore.Snapshot](w)(w.store.Get(t.Context(), key))
	forgotten := before.Token
	for range 3 {
		w.clock.Advance(placement.DefaultLockTTL)
		forgotten = w.claim(room("lobby")).Activation.Token
	}
	must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: key, Set: snap.Docs[0]}))
	w.clock.Advance(placement.DefaultLockTTL)
	if o := w.claim(room("lobby")); o.Code != placement.OK || o.Activation.Token <= forgotten {
		t.Errorf("token %d after %d: %+v", o.Activation.Token, forgotten, o)
	}
}
