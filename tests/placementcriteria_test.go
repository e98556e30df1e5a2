package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// placementCriteria are the criteria of acceptance that the requirement for placement has, in its words and its order.
var placementCriteria = []struct {
	criterion string
	holds     func(*trial)
}{
	{"PLC-PLACE-1: a lookup decides the partition and the member of an identity", place1},
	{"PLC-PLACE-2: what is placed after a change of the members follows the change", place2},
	{"PLC-PLACE-3: while no placement is determined, lookups and claims are refused", place3},
	{"PLC-PLACE-4: the same input is placed alike", place4},
	{"PLC-PLACE-5: a snapshot of partitions and placements can be read at any time", place5},
	{"PLC-ONE-1: a request for an activation decides the member and begins it", one1},
	{"PLC-ONE-2: what is active is returned, not created again", one2},
	{"PLC-ONE-3: a member that is not eligible gets no activation", one3},
	{"PLC-ONE-4: the reason of a failure is reported", one4},
	{"PLC-ONE-5: at most one activation of an identity at a time", one5},
	{"PLC-LOCK-1: an activation begins with an exclusive lock", lock1},
	{"PLC-LOCK-2: without the lock nothing is activated", lock2},
	{"PLC-LOCK-3: while the lock is held, the store has its owner", lock3},
	{"PLC-LOCK-4: owner and state are stored", lock4},
	{"PLC-LOCK-5: the lock is released when the activation is complete or failed", lock5},
	{"PLC-LIFE-1: a member that starts brings its component to work", life1},
	{"PLC-LIFE-2: a shutdown stops the component and releases what it holds", life2},
	{"PLC-LIFE-3: before the start, lookups and activations are refused", life3},
	{"PLC-LIFE-4: changes of state and failures are reported", life4},
	{"PLC-LIFE-5: states and events have their time", life5},
}

// TestPlacementCriteria: each criterion holds by the rules on a store, and over HTTP with two servers, of which each
// gets every other request of a client, on a store of each kind: in a run that is not deep, those over the network are
// one of them. The time is virtual.
func TestPlacementCriteria(t *testing.T) {
	t.Parallel()
	network := map[string]func(*testing.T) newStore{
		"DynamoDB": func(*testing.T) newStore { return onDynamoDB() },
		"redis-server": func(t *testing.T) newStore {
			suite.EveryStore(t)
			return onRedis(redistest.Start(t))
		},
		"miniredis": func(t *testing.T) newStore {
			suite.EveryStore(t)
			return onRedis(redistest.StandIn(t))
		},
		"Firestore": func(t *testing.T) newStore {
			suite.EveryStore(t)
			return onFirestore(firestoretest.Pessimistic)
		},
	}
	for where, open := range map[string]func(*testing.T, docstore.Store) world{"on a store": onAStore, "over HTTP": overHTTP} {
		for kind, newStore := range map[string]newStore{"memory": onMemory, "SQLite": onSQLite} {
			criteriaHold(t, where+"/"+kind+"/", open, func(*testing.T) func(*testing.T, func() time.Time) docstore.Store {
				return newStore
			})
		}
	}
	for kind, prepare := range network {
		t.Run("over HTTP/"+kind, func(t *testing.T) {
			t.Parallel()
			newStore := prepare(t)
			criteriaHold(t, "", overHTTP, func(t *testing.T) func(*testing.T, func() time.Time) docstore.Store {
				return openOutside(t, newStore)
			})
		})
	}
}

// criteriaHold tests each criterion on a store of its own. prepare is called outside the bubble.
func criteriaHold(t *testing.T, where string, open func(*testing.T, docstore.Store) world,
	prepare func(*testing.T) func(*testing.T, func() time.Time) docstore.Store) {
	t.Helper()
	for _, c := range placementCriteria {
		t.Run(where+c.criterion, func(t *testing.T) {
			t.Parallel()
			newStore := prepare(t)
			synctest.Test(t, func(t *testing.T) {
				c.holds(newTrial(t, open(t, newStore(t, time.Now))))
			})
		})
	}
}

// world is a cluster with 16 partitions, and how to ask it.
type world struct {
	cluster.Provider

	show    func(context.Context) (snapshot, error)
	another func() world // the same cluster in another process
}

// snapshot is who has which partition, and which identity. Its times are the store's.
type snapshot struct {
	Ready       bool
	Epoch       int64
	At          string   // when the epoch began
	Table       []string // the member of each partition, empty for none
	Activations []contracts.Activation
}

// chatRoom is the cluster of the criteria.
var chatRoom = placement.Cluster{Tenant: "acme", Name: "chat"}

// onAStore is the cluster by the rules themselves.
func onAStore(t *testing.T, store docstore.Store) world {
	service := placement.New(store, nil)
	show := func(ctx context.Context) (snapshot, error) {
		s, err := service.Snapshot(ctx, chatRoom, placement.Query{})
		if err != nil {
			return snapshot{}, err
		}
		got := snapshot{Ready: s.Ready, Epoch: s.Topology.Epoch, At: direct.Time(s.Topology.At),
			Table: tableNames(s.Topology.Table(), func(i int) string { return s.Topology.Members[i].Member })}
		for _, a := range s.Activations {
			got.Activations = append(got.Activations, direct.Activation(s.Topology, a))
		}
		return got, nil
	}
	return world{direct.Cluster(service, chatRoom), show, func() world { return onAStore(t, store) }}
}

// inTurn sends each request to the next of two servers.
type inTurn struct {
	servers [2]inProcess
	next    atomic.Uint32
}

// RoundTrip implements [http.RoundTripper].
func (b *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.servers[b.next.Add(1)%2].RoundTrip(r)
}

// overHTTP is the cluster as a client of two servers knows it.
func overHTTP(t *testing.T, store docstore.Store) world {
	both := &inTurn{}
	for i := range both.servers {
		both.servers[i].Handler = httpapi.New(store, httpapi.Development{}, nil)
	}
	all, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: both}})
	if err != nil {
		t.Fatal(err)
	}
	c := all.Placements(chatRoom.Tenant, chatRoom.Name)
	show := func(ctx context.Context) (snapshot, error) {
		top, err := c.Topology(ctx)
		if err != nil {
			return snapshot{}, err
		}
		page, err := c.Activations(ctx, client.ActivationQuery{})
		return snapshot{top.Status == contracts.ClusterReady, top.Epoch, top.ChangedAt,
			tableNames(top.Table, func(i int) string { return top.Members[i].Member }), page.Activations}, err
	}
	return world{c, show, func() world { return overHTTP(t, store) }}
}

// tableNames are the members of a table, which has their indexes, -1 for none.
func tableNames(table []int, name func(int) string) (names []string) {
	for _, i := range table {
		if i < 0 {
			names = append(names, "")
		} else {
			names = append(names, name(i))
		}
	}
	return names
}

// trial is a test of one criterion in one world.
type trial struct {
	world

	t       *testing.T
	ctx     context.Context //nolint:containedctx // of all requests
	next    int             // number of a request
	members []*performer

	mu      sync.Mutex
	serving map[cluster.Identity]string
}

func newTrial(t *testing.T, w world) *trial {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute) // more than any takes
	t.Cleanup(cancel)
	c := &trial{world: w, t: t, ctx: ctx, serving: map[cluster.Identity]string{}}
	t.Cleanup(func() {
		for _, p := range c.members { // those that were stopped stay so
			if err := p.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// performer is a member with its host, which notes what it is given, and what both said.
type performer struct {
	*cluster.Member

	c        *trial
	name     string
	activate func(context.Context, cluster.Activation) error // nil: at once

	mu       sync.Mutex
	given    []cluster.Activation
	contexts []context.Context // of what was given
	ended    []error
	events   []cluster.Event
}

// Activate implements [cluster.Host].
func (p *performer) Activate(ctx context.Context, a cluster.Activation) error {
	p.mu.Lock()
	p.given, p.contexts = append(p.given, a), append(p.contexts, ctx)
	p.mu.Unlock()
	if p.activate != nil {
		if err := p.activate(ctx, a); err != nil {
			return err
		}
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if other := p.c.serving[a.Identity]; other != "" {
		p.c.t.Errorf("%v is served by %s and %s", a.Identity, other, p.name)
	}
	p.c.serving[a.Identity] = p.name
	return nil
}

// Deactivate implements [cluster.Host].
func (p *performer) Deactivate(_ context.Context, a cluster.Activation, why error) {
	p.mu.Lock()
	p.ended = append(p.ended, why)
	p.mu.Unlock()
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.serving, a.Identity)
}

func (p *performer) observe(e cluster.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// said are the events of a kind, all for none.
func (p *performer) said(what string) []cluster.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.events), func(e cluster.Event) bool { return what != "" && e.What != what })
}

// has is what the host was given so far.
func (p *performer) has() []cluster.Activation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.given)
}

// member is one that was not started.
func (c *trial) member(from cluster.Provider, name string,
	activate func(context.Context, cluster.Activation) error) *performer {
	c.t.Helper()
	p := &performer{c: c, name: name, activate: activate}
	m, err := cluster.NewMember(from, name, p, &cluster.Options{Kinds: []string{"room"}, Address: name + ":1",
		Partitions: 16, Observe: p.observe})
	if err != nil {
		c.t.Fatal(err)
	}
	p.Member = m
	c.members = append(c.members, p)
	return p
}

// start starts a member in a process of its own.
func (c *trial) start(name string, activate func(context.Context, cluster.Activation) error) *performer {
	c.t.Helper()
	p := c.member(c.another(), name, activate)
	c.ok(p.Start(c.ctx))
	return p
}

func (c *trial) stop(p *performer) {
	c.t.Helper()
	c.ok(p.Stop(c.ctx))
}

// locator is a started one, in a process of its own.
func (c *trial) locator() *cluster.Locator {
	c.t.Helper()
	l := cluster.NewLocator(c.another(), nil)
	c.ok(l.Start(c.ctx))
	c.t.Cleanup(l.Stop)
	return l
}

// join joins a member without a process. Its lease lasts an hour, unless a change says otherwise.
func (c *trial) join(name string, change ...func(*contracts.MemberJoinRequest)) contracts.MemberState {
	c.t.Helper()
	r := contracts.MemberJoinRequest{RequestID: c.request(), Kinds: []string{"room"}, Partitions: 16, TTLSeconds: 3600}
	for _, f := range change {
		f(&r)
	}
	s, err := c.Join(c.ctx, name, r)
	c.ok(err)
	return s
}

func (c *trial) drain(name string, s contracts.MemberState) {
	c.t.Helper()
	_, err := c.Drain(c.ctx, name, contracts.MemberRequest{Incarnation: s.Incarnation})
	c.ok(err)
}

func (c *trial) leave(name string, s contracts.MemberState) {
	c.t.Helper()
	_, err := c.Leave(c.ctx, name, contracts.MemberRequest{Incarnation: s.Incarnation})
	c.ok(err)
}

func (c *trial) request() string {
	c.next++
	return fmt.Sprint("request-", c.next)
}

// claim asks for an activation, on the member on which the identity is placed.
func (c *trial) claim(id string) (contracts.Activation, error) {
	o, err := c.Claim(c.ctx, "room", id, contracts.ActivationClaimRequest{RequestID: c.request()})
	return o.Activation, err
}

// claimed is a claim that is granted.
func (c *trial) claimed(id string) contracts.Activation {
	c.t.Helper()
	a, err := c.claim(id)
	c.ok(err)
	if a.Phase != contracts.PhaseLocked || a.Member == "" || a.FencingToken == 0 {
		c.t.Fatalf("claimed: %+v", a)
	}
	return a
}

// active is a claim that is granted and carried out.
func (c *trial) active(id string) contracts.Activation {
	c.t.Helper()
	o, err := c.Activated(c.ctx, "room", id, held(c.claimed(id)))
	c.ok(err)
	return o.Activation
}

func held(a contracts.Activation) contracts.ActivationHoldRequest {
	return contracts.ActivationHoldRequest{Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken}
}

// end deactivates.
func (c *trial) end(a contracts.Activation, why string) error {
	_, err := c.Deactivate(c.ctx, a.Kind, a.ID, contracts.ActivationEndRequest{Member: a.Member,
		Incarnation: a.Incarnation, FencingToken: a.FencingToken, Reason: why})
	return err
}

// fail reports that an activation failed.
func (c *trial) fail(a contracts.Activation, why string) (contracts.ActivationOutcome, error) {
	return c.Failed(c.ctx, a.Kind, a.ID, contracts.ActivationFailedRequest{Member: a.Member,
		Incarnation: a.Incarnation, FencingToken: a.FencingToken, Reason: why})
}

// write stores a state in place of that of a version.
func (c *trial) write(a contracts.Activation, version int64, state string) error {
	_, err := c.WriteState(c.ctx, a.Kind, a.ID, contracts.ActivationStateRequest{
		Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken, RequestID: c.request(),
		StateVersion: version, State: []byte(state),
	})
	return err
}

// placed is where an identity is placed.
func (c *trial) placed(id string) contracts.Placement {
	c.t.Helper()
	where, err := c.Lookup(c.ctx, "room", id, cluster.Query{})
	c.ok(err)
	return where
}

// on is an identity that is placed on a member.
func (c *trial) on(member string) string {
	c.t.Helper()
	for _, id := range rooms() {
		if c.placed(id).Placed.Member == member {
			return id
		}
	}
	c.t.Fatalf("nothing is placed on %s", member)
	return ""
}

// serve lets a member serve an identity.
func (c *trial) serve(p *performer, id string) cluster.Activation {
	c.t.Helper()
	a, err := p.Serve(c.ctx, roomOf(id), nil)
	c.ok(err)
	return a
}

// record is an activation as the store has it.
func (c *trial) record(id string) contracts.Activation {
	c.t.Helper()
	a, err := c.Activation(c.ctx, "room", id)
	c.ok(err)
	return a
}

func (c *trial) snapshot() snapshot {
	c.t.Helper()
	s, err := c.show(c.ctx)
	c.ok(err)
	return s
}

// feed are all events of the cluster, each as a line.
func (c *trial) feed() (lines []string, all []contracts.PlacementEvent) {
	c.t.Helper()
	page, err := c.Events(c.ctx, cluster.EventQuery{PageSize: 1000})
	c.ok(err)
	for _, e := range page.Events {
		line := fmt.Sprintf("%s %s: %s → %s", e.Member, e.ID, e.From, e.To)
		if e.Kind != "" && e.Reason != "" {
			line += ", " + e.Reason
		}
		lines = append(lines, line)
	}
	return lines, page.Events
}

func (c *trial) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// refused reports what was not refused with a code.
func (c *trial) refused(err error, code contracts.Code) *contracts.Error {
	c.t.Helper()
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok || e.Code != code {
		c.t.Errorf("%v, want %s", err, code)
		return &contracts.Error{}
	}
	return e
}

// rooms are identities, some with names that a path has to encode.
func rooms() (all []string) {
	for i := range 50 {
		all = append(all, fmt.Sprint("ü/?", i))
	}
	return all
}

func roomOf(id string) cluster.Identity { return cluster.Identity{Kind: "room", ID: id} }

// place1 (PLC-PLACE-1): when an identity is looked up, its partition and its member are decided: the member that has
// the partition.
func place1(c *trial) {
	c.join("ann")
	c.join("bob")
	table, seen := c.snapshot().Table, map[string]int{}
	for _, id := range rooms() {
		where := c.placed(id)
		if where.Placed == nil || where.Placed.Member != table[where.Partition] || where.Owner != nil ||
			where.Activation != nil {
			c.t.Errorf("%s: %+v", id, where)
			continue
		}
		seen[where.Placed.Member]++
	}
	if len(seen) != 2 || seen["ann"] < 10 || seen["bob"] < 10 {
		c.t.Errorf("placed on %v", seen)
	}
}

// place2 (PLC-PLACE-2): when the members change, what is decided after that goes by the change, also by a process that
// knows the epoch before.
func place2(c *trial) {
	knows := map[string]world{} // of each identity a process that is asked for it alone
	for _, id := range rooms()[:20] {
		knows[id] = c.another()
	}
	decided := func(want ...string) {
		c.t.Helper()
		members, now := map[string]bool{}, c.snapshot()
		for id, w := range knows {
			where, err := w.Lookup(c.ctx, "room", id, cluster.Query{})
			c.ok(err)
			members[where.Placed.Member] = true
			if where.Placed.Member != now.Table[where.Partition] || where.Epoch != now.Epoch {
				c.t.Errorf("%s: %+v, want that of %+v", id, where, now)
			}
		}
		if got := slices.Sorted(maps.Keys(members)); !slices.Equal(got, want) {
			c.t.Errorf("placed on %v, want %v", got, want)
		}
	}
	ann := c.join("ann")
	decided("ann")
	bob := c.join("bob")
	decided("ann", "bob")
	c.drain("ann", ann)
	decided("bob")
	if a := c.claimed("lobby"); a.Member != "bob" || a.Epoch != c.snapshot().Epoch {
		c.t.Errorf("claimed: %+v", a)
	}
	c.join("cleo")
	c.leave("bob", bob)
	decided("cleo")
}

// place3 (PLC-PLACE-3): while no placement is determined, decisions are refused, however often they are asked for.
func place3(c *trial) {
	undetermined := func() {
		c.t.Helper()
		for range 3 {
			_, err := c.Lookup(c.ctx, "room", "lobby", cluster.Query{})
			c.refused(err, contracts.CodeTopologyUndetermined)
			_, err = c.claim("garden")
			c.refused(err, contracts.CodeTopologyUndetermined)
			time.Sleep(time.Minute)
		}
		_, err := c.Activation(c.ctx, "room", "garden")
		c.refused(err, contracts.CodeNotFound)
	}
	undetermined()
	ann := c.join("ann")
	c.active("lobby")
	c.drain("ann", ann)
	_, err := c.claim("garden")
	c.refused(err, contracts.CodeTopologyUndetermined)
	c.leave("ann", ann)
	undetermined()
	c.join("bob")
	c.claimed("garden")
}

// place4 (PLC-PLACE-4): the same input is placed alike, by every process and at any time.
func place4(c *trial) {
	zone := func(z string) func(*contracts.MemberJoinRequest) {
		return func(r *contracts.MemberJoinRequest) { r.Labels = contracts.Labels{"zone": z} }
	}
	c.join("ann", zone("a"))
	c.join("bob", zone("b"))
	c.join("cleo", zone("b"))
	first := map[string]contracts.Placement{}
	for range 3 {
		other := c.another()
		for _, id := range rooms() {
			for _, labels := range []map[string]string{nil, {"zone": "b"}} {
				where, err := other.Lookup(c.ctx, "room", id, cluster.Query{Labels: labels})
				c.ok(err)
				key := fmt.Sprint(id, labels)
				if before, ok := first[key]; ok && !reflect.DeepEqual(where, before) {
					c.t.Errorf("%s: %+v, and before %+v", key, where, before)
				}
				if labels != nil && where.Placed.Labels["zone"] != "b" {
					c.t.Errorf("%s: %+v", key, where)
				}
				first[key] = where
			}
		}
		time.Sleep(time.Minute)
	}
	for _, id := range rooms() {
		if a, want := c.claimed(id), first[fmt.Sprint(id, map[string]string(nil))].Placed.Member; a.Member != want {
			c.t.Errorf("%s was claimed for %s, and placed on %s", id, a.Member, want)
		}
	}
}

// place5 (PLC-PLACE-5): in every state there is a snapshot of the partitions and the placements.
func place5(c *trial) {
	shows := func(ready bool, epoch int64, activations int, members ...string) {
		c.t.Helper()
		for _, w := range []world{c.world, c.another()} {
			s, err := w.show(c.ctx)
			c.ok(err)
			table := slices.Compact(slices.Sorted(slices.Values(s.Table)))
			if s.Ready != ready || s.Epoch != epoch || len(s.Activations) != activations || !slices.Equal(table, members) ||
				epoch > 0 && len(s.Table) != 16 {
				c.t.Errorf("%+v, want ready %v, epoch %d, %d activations, members %q", s, ready, epoch, activations, members)
			}
		}
	}
	shows(false, 0, 0, "")
	ann := c.join("ann")
	shows(true, 1, 0, "ann")
	bob := c.join("bob")
	a := c.active("lobby")
	shows(true, 2, 1, "ann", "bob")
	if s := c.snapshot(); s.Activations[0].Member != a.Member || s.Activations[0].FencingToken != a.FencingToken ||
		s.Activations[0].Phase != contracts.PhaseActive {
		c.t.Errorf("%+v, want %+v", s, a)
	}
	c.drain("ann", ann)
	shows(true, 3, 1, "bob")
	for name, m := range map[string]contracts.MemberState{"ann": ann, "bob": bob} {
		c.leave(name, m)
	}
	shows(false, 5, 1, "")
}

// one1 (PLC-ONE-1): a request for an activation decides the member, and that begins it, although the caller speaks to
// the cluster alone.
func one1(c *trial) {
	members := map[string]*performer{"ann": c.start("ann", nil), "bob": c.start("bob", nil)}
	l := c.locator()
	for _, id := range rooms()[:10] {
		on := c.placed(id).Placed.Member
		where, err := l.Activate(c.ctx, roomOf(id), nil)
		c.ok(err)
		r := c.record(id)
		if where.Member != on || where.Address != on+":1" || r.Member != on || r.Phase != contracts.PhaseActive ||
			r.FencingToken != where.Token {
			c.t.Errorf("%+v is recorded as %+v, and was placed on %s", where, r, on)
		}
		if given := members[on].has(); len(given) == 0 || given[len(given)-1].Token != where.Token ||
			given[len(given)-1].Identity != roomOf(id) {
			c.t.Errorf("%s was given %+v, want %+v", on, given, where)
		}
	}
	time.Sleep(time.Minute) // the events are read again
	if n := len(members["ann"].has()) + len(members["bob"].has()); n != 10 {
		c.t.Errorf("%d were activated", n)
	}
}

// one2 (PLC-ONE-2): what exists is returned to all who ask for it, and not made again.
func one2(c *trial) {
	ann := c.start("ann", func(context.Context, cluster.Activation) error { time.Sleep(2 * time.Second); return nil })
	l := c.locator()
	tokens := make(chan int64, 20)
	for range 10 {
		go func() {
			where, err := l.Activate(c.ctx, roomOf("lobby"), nil)
			if err != nil {
				c.t.Error(err)
			}
			tokens <- where.Token
		}()
		go func() {
			a, err := ann.Serve(c.ctx, roomOf("lobby"), nil)
			if err != nil {
				c.t.Error(err)
			}
			tokens <- a.Token
		}()
	}
	first := <-tokens
	for range 19 {
		if token := <-tokens; token != first || token == 0 {
			c.t.Errorf("tokens %d and %d", first, token)
		}
	}
	for range 3 {
		_, err := c.claim("lobby")
		if e := c.refused(err, contracts.CodeActivationExists); e.Activation == nil || e.Activation.Member != "ann" ||
			e.Activation.FencingToken != first || e.Activation.Address != "ann:1" {
			c.t.Errorf("what exists: %+v", e.Activation)
		}
		if where, err := c.locator().Activate(c.ctx, roomOf("lobby"), nil); err != nil || where.Token != first {
			c.t.Errorf("%+v, %v", where, err)
		}
		time.Sleep(time.Minute)
	}
	if given := ann.has(); len(given) != 1 {
		c.t.Errorf("activated %d times", len(given))
	}
}

// one3 (PLC-ONE-3): a member that drains, is full, lacks the kind or a label, or is none, is given nothing, however
// often, and by whom, it is asked for.
func one3(c *trial) {
	ctx := c.ctx
	claimBy := func(kind, name string, incarnation int64, labels map[string]string) error {
		_, err := c.Claim(ctx, kind, "lobby", contracts.ActivationClaimRequest{RequestID: c.request(), Member: name,
			Incarnation: incarnation, Labels: labels})
		return err
	}
	ann := c.join("ann")
	bob := c.join("bob", func(r *contracts.MemberJoinRequest) { r.Full = true })
	cleo := c.join("cleo")
	c.drain("cleo", cleo)
	for range 3 {
		c.refused(claimBy("hall", "", 0, nil), contracts.CodeNoEligibleMember)
		c.refused(claimBy("room", "", 0, map[string]string{"zone": "b"}), contracts.CodeNoEligibleMember)
		for why, err := range map[contracts.Ineligible]error{
			contracts.LacksKind:   claimBy("hall", "ann", ann.Incarnation, nil),
			contracts.LacksLabels: claimBy("room", "ann", ann.Incarnation, map[string]string{"zone": "b"}),
			contracts.IsFull:      claimBy("room", "bob", bob.Incarnation, nil),
			contracts.IsDraining:  claimBy("room", "cleo", cleo.Incarnation, nil),
			contracts.NotAMember:  claimBy("room", "ann", ann.Incarnation-1, nil),
		} {
			if e := c.refused(err, contracts.CodeMemberIneligible); e.Ineligible != why {
				c.t.Errorf("%+v, want %s", e, why)
			}
		}
		time.Sleep(time.Minute)
	}
	for _, kind := range []string{"room", "hall"} {
		_, err := c.Activation(ctx, kind, "lobby")
		c.refused(err, contracts.CodeNotFound)
	}
	for _, id := range rooms() { // the one that is eligible gets all
		if a := c.claimed(id); a.Member != "ann" {
			c.t.Errorf("%+v", a)
		}
	}
}

// one4 (PLC-ONE-4): why an activation failed reaches those who wait for it, whichever way they came, those who look,
// and the events.
func one4(c *trial) {
	broken := true
	ann := c.start("ann", func(_ context.Context, a cluster.Activation) error {
		switch {
		case !broken:
			return nil
		case a.ID == "panic":
			panic("the disk is full")
		default:
			return errors.New("the disk is full")
		}
	})
	l := c.locator()
	for id, ask := range map[string]func(string) error{
		"located": func(id string) error { _, err := l.Activate(c.ctx, roomOf(id), nil); return err },
		"panic":   func(id string) error { _, err := l.Activate(c.ctx, roomOf(id), nil); return err },
		"served":  func(id string) error { _, err := ann.Serve(c.ctx, roomOf(id), nil); return err },
	} {
		err := ask(id)
		if err == nil || !strings.Contains(err.Error(), "the disk is full") ||
			id != "served" && !errors.Is(err, contracts.CodeActivationFailed) {
			c.t.Errorf("%s: %v", id, err)
		}
		if r := c.record(id); r.Phase != contracts.PhaseFree || r.Failed != (id != "served") ||
			!strings.Contains(r.Reason, "the disk is full") {
			c.t.Errorf("%s: %+v", id, r)
		}
	}
	lines, _ := c.feed()
	failures := 0
	for _, line := range lines {
		if strings.Contains(line, "FREE") && strings.Contains(line, "the disk is full") {
			failures++
		}
	}
	if failures != 3 || len(ann.said(cluster.ActivationFailed)) != 3 {
		c.t.Errorf("%d failures in %q, and %+v", failures, lines, ann.said(""))
	}
	broken = false              // without a word of the failure the next one begins
	time.Sleep(3 * time.Second) // when the pause is over
	where, err := l.Activate(c.ctx, roomOf("located"), nil)
	if r := c.record("located"); err != nil || r.Failed || r.Reason != "" || r.FencingToken != where.Token {
		c.t.Errorf("%+v is recorded as %+v: %v", where, r, err)
	}

	// A report that comes twice counts once, and the caller that claimed learns of it by the same claim.
	claim := contracts.ActivationClaimRequest{RequestID: "c1", Member: "", LockTTLSeconds: 60}
	c.stop(ann)
	c.join("bob")
	o, err := c.Claim(c.ctx, "room", "other", claim)
	c.ok(err)
	for _, again := range []bool{false, true} {
		f, err := c.fail(o.Activation, "no network")
		if err != nil || f.Replayed != again {
			c.t.Errorf("%+v, %v", f, err)
		}
	}
	_, err = c.Claim(c.ctx, "room", "other", claim)
	if e := c.refused(err, contracts.CodeActivationFailed); e.Activation == nil || e.Activation.Reason != "no network" {
		c.t.Errorf("%+v", e)
	}
}

// one5 (PLC-ONE-5): of all who claim one gets it; when its owner dies without a word, the next has it when the lease of
// the owner has ended, and nothing that the first one still sends has an effect. That no two hosts serve it at a time
// is checked throughout.
func one5(c *trial) {
	victim := c.join("victim", func(r *contracts.MemberJoinRequest) { r.TTLSeconds = 30 })
	granted := make(chan contracts.Activation, 10)
	for i := range 10 {
		w := c.another()
		go func() {
			o, err := w.Claim(c.ctx, "room", "lobby", contracts.ActivationClaimRequest{
				RequestID: fmt.Sprint("race-", i), Member: "victim", Incarnation: victim.Incarnation})
			if err != nil {
				c.refused(err, contracts.CodeActivationExists)
			}
			granted <- o.Activation
		}()
	}
	var first contracts.Activation
	for range 10 {
		if a := <-granted; a.FencingToken != 0 && first.FencingToken != 0 {
			c.t.Errorf("granted to %+v and %+v", first, a)
		} else if a.FencingToken != 0 {
			first = a
		}
	}
	c.ok(c.write(first, 0, "one"))
	end, err := time.Parse(time.RFC3339, victim.ExpiresAt)
	c.ok(err)

	bob := c.start("bob", nil)
	for {
		a, err := c.claim("lobby")
		if err == nil {
			if time.Now().Before(end) || a.Member != "bob" || a.FencingToken <= first.FencingToken || string(a.State) != "one" {
				c.t.Errorf("%v before the end of the lease %+v was followed by %+v", time.Until(end), first, a)
			}
			break
		}
		if e := c.refused(err, contracts.CodeActivationExists); c.t.Failed() || e.Activation.Member != "victim" {
			c.t.Fatalf("%+v", e)
		}
		time.Sleep(time.Second)
	}
	if late := time.Since(end); late > 2*time.Second {
		c.t.Errorf("taken over %v after the end of the lease", late)
	}
	c.refused(c.write(first, 1, "two"), contracts.CodeStaleToken)
	_, err = c.Activated(c.ctx, "room", "lobby", held(first))
	c.refused(err, contracts.CodeStaleToken)
	_, err = c.fail(first, "x")
	c.refused(err, contracts.CodeStaleToken)
	c.refused(c.end(first, ""), contracts.CodeStaleToken)
	_, err = c.Transfer(c.ctx, "room", "lobby", contracts.ActivationTransferRequest{RequestID: c.request(),
		Member: first.Member, Incarnation: first.Incarnation, FencingToken: first.FencingToken})
	c.refused(err, contracts.CodeStaleToken)
	_, err = c.Heartbeat(c.ctx, "victim",
		contracts.MemberHeartbeatRequest{Incarnation: victim.Incarnation, Seq: 1})
	c.refused(err, contracts.CodeStaleIncarnation)
	time.Sleep(5 * time.Second) // bob learns of it
	if given := bob.has(); len(given) != 1 || given[0].Token <= first.FencingToken || string(given[0].State) != "one" {
		c.t.Errorf("bob was given %+v", given)
	}
	c.ok(bob.WriteState(c.ctx, roomOf("lobby"), []byte("three")))
	if r := c.record("lobby"); string(r.State) != "three" || r.Member != "bob" {
		c.t.Errorf("%+v", r)
	}
}

// lock1 (PLC-LOCK-1): an activation begins with a lock: of claims at the same time one gets it, and no other while it
// lasts; the host is called under it. Each has a higher token than all before, the first one above the time.
func lock1(c *trial) {
	c.join("ann")
	begin := time.Now()
	results := make(chan error, 10)
	for i := range 10 {
		w := c.another()
		go func() {
			_, err := w.Claim(c.ctx, "room", "lobby", contracts.ActivationClaimRequest{
				RequestID: fmt.Sprint("race-", i), LockTTLSeconds: 20})
			results <- err
		}()
	}
	locks := 0
	for range 10 {
		if err := <-results; err == nil {
			locks++
		} else {
			c.refused(err, contracts.CodeActivationLocked)
		}
	}
	first := c.record("lobby")
	if locks != 1 || first.Phase != contracts.PhaseLocked || first.FencingToken < begin.UnixMicro() ||
		first.LockUntil != direct.Time(begin.Add(20*time.Second)) {
		c.t.Errorf("%d locks: %+v", locks, first)
	}
	time.Sleep(19 * time.Second)
	_, err := c.claim("lobby")
	if e := c.refused(err, contracts.CodeActivationLocked); e.RetryAfter <= 0 || e.Activation == nil ||
		e.Activation.FencingToken != first.FencingToken {
		c.t.Errorf("%+v", e)
	}
	time.Sleep(time.Second)
	if next := c.claimed("lobby"); next.FencingToken <= first.FencingToken {
		c.t.Errorf("%+v after %+v", next, first)
	}
	_, err = c.Activated(c.ctx, "room", "lobby", held(first))
	c.refused(err, contracts.CodeStaleToken)

	under := make(chan contracts.Activation, 1)
	bob := c.start("bob", func(_ context.Context, a cluster.Activation) error { under <- c.record(a.ID); return nil })
	id := c.on("bob")
	c.claimed(id)
	a := c.serve(bob, id)
	if r := <-under; r.Phase != contracts.PhaseLocked || r.Member != "bob" || r.FencingToken != a.Token {
		c.t.Errorf("the host was called under %+v", r)
	}
}

// unlocked is a world whose locks cannot be obtained.
type unlocked struct{ cluster.Provider }

var errNoLocks = errors.New("the locks cannot be reached")

func (unlocked) Claim(context.Context, string, string, contracts.ActivationClaimRequest) (contracts.ActivationOutcome,
	error) {
	return contracts.ActivationOutcome{}, errNoLocks
}

// lock2 (PLC-LOCK-2): without the lock the host is not called: because another has it, because the identity is not the
// member's to lock, or because no one can be asked for it.
func lock2(c *trial) {
	ctx := c.ctx
	ann := c.start("ann", nil)
	bob := c.member(unlocked{c.another()}, "bob", nil)
	c.ok(bob.Start(ctx))
	other := c.join("other")
	hers, his, others := c.on("ann"), c.on("bob"), c.on("other")
	c.claimed(others)
	if _, err := ann.Serve(ctx, roomOf(others), nil); err == nil {
		c.t.Error("served under the lock of another")
	}
	if _, err := ann.Serve(ctx, roomOf(his), nil); err == nil {
		c.t.Error("served what is placed on another")
	}
	if _, err := bob.Serve(ctx, roomOf(his), nil); !errors.Is(err, errNoLocks) {
		c.t.Errorf("without an answer: %v", err)
	}
	// Even when it is placed on ann again, the lock is not hers.
	c.drain("other", other)
	_, err := c.Activated(ctx, "room", others, contracts.ActivationHoldRequest{Member: "ann",
		Incarnation: ann.Incarnation(), FencingToken: c.record(others).FencingToken})
	c.refused(err, contracts.CodeNotOwner)
	time.Sleep(5 * time.Second)
	if len(ann.has())+len(bob.has()) != 0 || len(ann.Activations())+len(bob.Activations()) != 0 {
		c.t.Errorf("activated: %+v, %+v", ann.has(), bob.has())
	}
	if _, err := ann.Serve(ctx, roomOf(hers), nil); err != nil || len(ann.has()) != 1 {
		c.t.Errorf("with the lock: %+v, %v", ann.has(), err)
	}
}

// lock3 (PLC-LOCK-3): as long as the lock is held, however long the activation takes, the store has its owner, and all
// who ask are told.
func lock3(c *trial) {
	ann := c.start("ann", func(context.Context, cluster.Activation) error { time.Sleep(time.Minute); return nil })
	c.start("bob", nil)
	mine := c.on("ann")
	done, l := make(chan cluster.Location, 1), c.locator()
	go func() {
		where, err := l.Activate(c.ctx, roomOf(mine), nil)
		if err != nil {
			c.t.Error(err)
		}
		done <- where
	}()
	time.Sleep(2 * time.Second) // ann has learned of it
	first := c.record(mine)
	for range 11 {
		time.Sleep(5 * time.Second)
		where := c.placed(mine)
		if r := c.record(mine); r.Phase != contracts.PhaseLocked || r.Member != "ann" ||
			r.Incarnation != ann.Incarnation() || r.FencingToken != first.FencingToken || where.Owner == nil ||
			where.Owner.Member != "ann" || where.Activation.FencingToken != first.FencingToken {
			c.t.Errorf("%+v after %+v; looked up %+v", r, first, where)
		}
		_, err := c.claim(mine)
		c.refused(err, contracts.CodeActivationLocked)
	}
	if a := <-done; a.Token != first.FencingToken || c.record(mine).Phase != contracts.PhaseActive {
		c.t.Errorf("%+v after %+v", a, first)
	}
}

// lock4 (PLC-LOCK-4): owner and state are stored: other processes read them, the next owner is given the state, and
// no write is lost under another.
func lock4(c *trial) {
	ann := c.join("ann")
	a := c.active("lobby")
	c.ok(c.write(a, 0, "one"))
	c.ok(c.write(a, 1, "two"))
	c.refused(c.write(a, 1, "lost"), contracts.CodeStateChanged)
	stored := func(phase contracts.Phase) {
		c.t.Helper()
		other := c.another()
		r, err := other.Activation(c.ctx, "room", "lobby")
		where, wrong := other.Lookup(c.ctx, "room", "lobby", cluster.Query{})
		if err != nil || wrong != nil || r.Phase != phase || r.Member != "ann" || r.Incarnation != ann.Incarnation ||
			r.FencingToken != a.FencingToken || string(r.State) != "two" || r.StateVersion != 2 ||
			(where.Owner != nil) != (phase == contracts.PhaseActive) || string(where.Activation.State) != "two" {
			c.t.Errorf("%+v, %v; looked up %+v, %v", r, err, where, wrong)
		}
	}
	stored(contracts.PhaseActive)
	c.ok(c.end(a, "idle"))
	stored(contracts.PhaseFree)
	c.leave("ann", ann)
	time.Sleep(10 * time.Minute)

	bob := c.start("bob", nil)
	next, err := bob.Serve(c.ctx, roomOf("lobby"), nil)
	if err != nil || string(next.State) != "two" || next.StateVersion != 2 || next.Token <= a.FencingToken {
		c.t.Errorf("%+v, %v", next, err)
	}
	c.ok(bob.WriteState(c.ctx, roomOf("lobby"), []byte("three")))
	if r := c.record("lobby"); string(r.State) != "three" || r.Member != "bob" || r.StateVersion != 3 {
		c.t.Errorf("%+v", r)
	}
	c.refused(c.write(a, 3, "late"), contracts.CodeStaleToken)
}

// lock5 (PLC-LOCK-5): when an activation is complete or failed, its lock is released; what was not reported ends with
// the time of the lock.
func lock5(c *trial) {
	c.join("ann")
	a := c.active("complete")
	if r := c.record("complete"); r.Phase != contracts.PhaseActive || r.LockUntil != "" ||
		r.ActivatedAt != direct.Time(time.Now()) {
		c.t.Errorf("complete: %+v", r)
	}
	_, err := c.claim("complete")
	c.refused(err, contracts.CodeActivationExists)
	time.Sleep(placement.DefaultLockTTL + time.Minute)
	if r := c.record("complete"); r.Phase != contracts.PhaseActive || r.FencingToken != a.FencingToken {
		c.t.Errorf("when the lock would have ended: %+v", r)
	}
	failed := c.claimed("failed")
	_, err = c.fail(failed, "x")
	c.ok(err)
	if r := c.record("failed"); r.Phase != contracts.PhaseFree || r.LockUntil != "" {
		c.t.Errorf("failed: %+v", r)
	}
	if next := c.claimed("failed"); next.FencingToken <= failed.FencingToken { // at once
		c.t.Errorf("%+v after %+v", next, failed)
	}
	c.ok(c.end(a, ""))
	c.claimed("complete")

	left := c.claimed("left")
	until, err := time.Parse(time.RFC3339, left.LockUntil)
	c.ok(err)
	time.Sleep(time.Until(until) - time.Millisecond)
	_, err = c.claim("left")
	c.refused(err, contracts.CodeActivationLocked)
	time.Sleep(time.Millisecond)
	c.claimed("left")
}

// life1 (PLC-LIFE-1): what is started works: a member is in the cluster and serves, a locator finds.
func life1(c *trial) {
	ann := c.member(c.another(), "ann", nil)
	l := cluster.NewLocator(c.another(), nil)
	defer l.Stop()
	if ann.Status().State != cluster.Stopped || l.Status().State != cluster.Stopped {
		c.t.Errorf("before: %+v, %+v", ann.Status(), l.Status())
	}
	c.ok(ann.Start(c.ctx))
	c.ok(l.Start(c.ctx))
	if ann.Status().State != cluster.Ready || l.Status().State != cluster.Ready {
		c.t.Errorf("after: %+v, %+v", ann.Status(), l.Status())
	}
	if err := ann.Start(c.ctx); err == nil {
		c.t.Error("started twice")
	}
	all, err := c.Members(c.ctx)
	if err != nil || len(all.Members) != 1 || all.Members[0].Member != "ann" || all.Members[0].Address != "ann:1" ||
		all.Members[0].Status != contracts.MemberActive || all.Members[0].Incarnation != ann.Incarnation() {
		c.t.Errorf("%+v, %v", all, err)
	}
	time.Sleep(5 * time.Minute) // heartbeats
	a := c.serve(ann, "lobby")
	if where, err := l.Locate(c.ctx, roomOf("lobby"), nil); err != nil || where.Token != a.Token ||
		cluster.Check(ann.contexts[0]) != nil {
		c.t.Errorf("%+v, %v; want %+v", where, err, a)
	}
}

// life2 (PLC-LIFE-2): what is stopped hands over what it has, leaves the cluster, and leaves nothing running: a
// goroutine that is left fails the test.
func life2(c *trial) {
	ann := c.start("ann", nil)
	tokens := map[string]int64{}
	for _, id := range rooms()[:10] {
		a := c.serve(ann, id)
		tokens[id] = a.Token
		c.ok(ann.WriteState(c.ctx, roomOf(id), []byte("of "+id)))
	}
	bob := c.start("bob", nil)
	c.stop(ann)
	c.stop(ann) // does nothing
	if s := ann.Status(); s.State != cluster.Stopped || len(ann.Activations()) != 0 || ann.Incarnation() != 0 ||
		len(ann.ended) != 10 {
		c.t.Errorf("%+v with %+v", s, ann.Activations())
	}
	for _, ctx := range ann.contexts {
		if ctx.Err() == nil {
			c.t.Error("the context of an activation lives")
		}
	}
	all, err := c.Members(c.ctx)
	if err != nil || len(all.Members) != 1 || all.Members[0].Member != "bob" {
		c.t.Errorf("%+v, %v", all, err)
	}
	time.Sleep(20 * time.Second) // bob learns of what was handed over
	for id, token := range tokens {
		if r := c.record(id); r.Phase != contracts.PhaseActive || r.Member != "bob" || r.FencingToken <= token ||
			string(r.State) != "of "+id {
			c.t.Errorf("%+v", r)
		}
	}
	c.ok(ann.Start(c.ctx)) // it can be started again
	c.stop(ann)
	c.stop(bob) // no one is left to whom it could hand over
	for id := range tokens {
		if r := c.record(id); r.Phase != contracts.PhaseFree || string(r.State) != "of "+id {
			c.t.Errorf("%+v", r)
		}
	}
	l := c.locator()
	l.Stop()
	if l.Status().State != cluster.Stopped || c.snapshot().Ready {
		c.t.Errorf("%+v, %+v", l.Status(), c.snapshot())
	}
}

// unasked is a world that no one may ask.
type unasked struct{ cluster.Provider }

// life3 (PLC-LIFE-3): what is not started, or is stopped, refuses lookups and activations, and asks no one.
func life3(c *trial) {
	ann, l := c.member(unasked{}, "ann", nil), cluster.NewLocator(unasked{}, nil)
	refuse := func(m *performer, l *cluster.Locator) {
		c.t.Helper()
		for range 3 {
			_, served := m.Serve(c.ctx, roomOf("lobby"), nil)
			_, located := l.Locate(c.ctx, roomOf("lobby"), nil)
			_, activated := l.Activate(c.ctx, roomOf("lobby"), nil)
			for what, err := range map[string]error{"serve": served, "locate": located, "activate": activated,
				"deactivate": m.Member.Deactivate(c.ctx, roomOf("lobby"), "x"),
				"write":      m.WriteState(c.ctx, roomOf("lobby"), nil),
			} {
				want := cluster.ErrNotRunning
				if what == "write" {
					want = cluster.ErrLost
				}
				if !errors.Is(err, want) {
					c.t.Errorf("%s: %v", what, err)
				}
			}
			if _, ok := l.Cached(roomOf("lobby"), nil); ok {
				c.t.Error("cached")
			}
			time.Sleep(time.Minute)
		}
	}
	refuse(ann, l)
	bob, l := c.start("bob", nil), c.locator()
	c.serve(bob, "lobby")
	_, err := l.Locate(c.ctx, roomOf("lobby"), nil)
	c.ok(err)
	c.stop(bob)
	l.Stop()
	refuse(bob, l)
	if len(ann.has()) != 0 || len(bob.has()) != 1 {
		c.t.Errorf("%+v, %+v", ann.has(), bob.has())
	}
}

// life4 (PLC-LIFE-4): each change of a state, and each failure, is an event: of the component for its program, and of
// the cluster for all.
func life4(c *trial) {
	ann := c.start("ann", func(_ context.Context, a cluster.Activation) error {
		if a.ID == "broken" {
			return errors.New("the disk is full")
		}
		return nil
	})
	c.serve(ann, "lobby")
	if _, err := ann.Serve(c.ctx, roomOf("broken"), nil); err == nil {
		c.t.Error("served")
	}
	if _, err := ann.Serve(c.ctx, cluster.Identity{Kind: "hall", ID: "lobby"}, nil); err == nil {
		c.t.Error("served")
	}
	c.stop(ann)
	var said []string
	for _, e := range ann.said("") {
		switch e.What {
		case cluster.StateChanged:
			said = append(said, fmt.Sprintf("%s → %s", e.From, e.To))
		default:
			said = append(said, e.What+" "+e.Identity.ID)
			if failed := e.What == cluster.ActivationFailed || e.What == cluster.ClaimRefused; failed != (e.Err != nil) {
				c.t.Errorf("%+v", e)
			}
		}
	}
	if want := []string{"Stopped → Starting", "Starting → Ready", "Activated lobby", "ActivationFailed broken",
		"ClaimRefused lobby", "Ready → Draining", "ActivationEnded lobby", "Draining → Stopped"}; !slices.Equal(said, want) {
		c.t.Errorf("the member said\n%q, want\n%q", said, want)
	}
	lines, _ := c.feed()
	if want := []string{"ann :  → ACTIVE", "ann lobby: FREE → ACTIVE", "ann broken: FREE → ACTIVE",
		"ann broken:  → FREE, activation failed: the disk is full", "ann lobby: FREE → REFUSED, MEMBER_INELIGIBLE",
		"ann : ACTIVE → DRAINING",
		"ann lobby:  → FREE, the member stops", "ann : DRAINING → LEFT"}; !slices.Equal(lines, want) {
		c.t.Errorf("the cluster said\n%q, want\n%q", lines, want)
	}
}

// life5 (PLC-LIFE-5): states and events have the time at which they came to be.
func life5(c *trial) {
	at := func(what string, got string) {
		c.t.Helper()
		if want := direct.Time(time.Now()); got != want {
			c.t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	time.Sleep(10 * time.Minute)
	ann := c.start("ann", nil)
	joined := time.Now()
	at("the state of a member", direct.Time(ann.Status().Since))
	at("an epoch", c.snapshot().At)
	all, err := c.Members(c.ctx)
	c.ok(err)
	at("a member", all.Members[0].At)
	time.Sleep(time.Minute + time.Millisecond)
	a := c.serve(ann, "lobby")
	r := c.record("lobby")
	at("a claim", r.ClaimedAt)
	at("an activation", r.ActivatedAt)
	at("a change", r.ChangedAt)
	at("the event of the member", direct.Time(ann.said(cluster.Activated)[0].At))
	_, events := c.feed()
	at("the event of the cluster", events[len(events)-1].At)
	time.Sleep(time.Minute)
	c.ok(ann.Member.Deactivate(c.ctx, roomOf("lobby"), "idle"))
	at("the next change", c.record("lobby").ChangedAt)
	at("the end for the member", direct.Time(ann.said(cluster.ActivationEnded)[0].At))
	if since := ann.Status().Since; !since.Equal(joined) || a.Token == 0 {
		c.t.Errorf("the member is in its state since %v, and was joined at %v", since, joined)
	}
	c.stop(ann)
	at("the last state of a member", direct.Time(ann.Status().Since))
	last := time.Time{}
	for _, e := range ann.said("") {
		if e.At.IsZero() || e.At.Before(last) {
			c.t.Errorf("%+v after %v", e, last)
		}
		last = e.At
	}
	lines, events := c.feed()
	before := ""
	for i, e := range events {
		if _, err := time.Parse(time.RFC3339, e.At); err != nil || e.At < before {
			c.t.Errorf("%s has the time %q after %q", lines[i], e.At, before)
		}
		before = e.At
	}
}
