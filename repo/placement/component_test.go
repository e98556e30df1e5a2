package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/placement/placementtest"
)

// rooms is an activator that counts.
type rooms struct {
	mu     sync.Mutex
	open   map[string]int
	begun  int
	broken string
}

func (r *rooms) Activate(_ context.Context, a placement.Activation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	if a.ID == r.broken {
		return errors.New("the gate\nis stuck")
	}
	r.open[a.ID]++
	return nil
}

func (r *rooms) Deactivate(_ context.Context, a placement.Activation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[a.ID]--
	return nil
}

// total is how many are open, and how many were tried.
func (r *rooms) total() (open, begun int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.open {
		open += n
	}
	return open, r.begun
}

// process is a component on the store of a world.
type process struct {
	*placement.Component

	rooms   *rooms
	store   *suite.Watched
	notices []placement.Notice
	next    int
}

func (w *world) process(name string, mode placement.Mode) *process {
	w.Helper()
	p := &process{rooms: &rooms{open: map[string]int{}, broken: "broken"}, store: &suite.Watched{Store: w.store}}
	s := placement.New(p.store, &placement.Options{Now: w.clock.Now})
	var err error
	p.Component, err = placement.NewComponent(placement.ComponentOptions{
		Cluster: w.cluster, Mode: mode, Membership: s, Locker: s, Storage: s, Activator: p.rooms,
		Join:   placement.Join{Member: name, TTL: 10 * time.Second, Offer: placement.Offer{Kinds: []string{"room"}}},
		Notify: func(n placement.Notice) { p.notices = append(p.notices, n) }, Now: w.clock.Now,
	})
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// states are the states through which a component went.
func (p *process) states() string {
	var all []string
	for _, n := range p.notices {
		if n.From != n.To {
			all = append(all, string(n.To))
		}
	}
	return strings.Join(all, " ")
}

func (p *process) activate(t *testing.T, id string) placement.Outcome {
	t.Helper()
	p.next++
	o, err := p.Activate(t.Context(), room(id), placement.Need{}, fmt.Sprint("request ", id, p.next))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestLifecycle: PLC-LIFE-1, PLC-LIFE-2, PLC-LIFE-3, PLC-LIFE-4, PLC-LIFE-5. A member starts, is ready, and at its stop ends what it
// hosts and leaves; before and after, everything is refused. Each change is reported with its time.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process("ann", placement.MemberMode)
	refused := func(step string, want placement.Code) {
		t.Helper()
		l, err := p.Lookup(t.Context(), room("lobby"), placement.Need{})
		d, err2 := p.Deactivate(t.Context(), room("lobby"), "")
		if o := p.activate(t, "lobby"); o.Code != want || l.Code != want || d.Code != want || err != nil || err2 != nil || o.At.IsZero() || l.At.IsZero() {
			t.Errorf("%s: %+v, %+v, %+v, %v, %v", step, o, l, d, err, err2)
		}
	}
	refused("before the start", placement.NotRunning)
	if err := p.Refresh(t.Context()); !errors.Is(err, placement.ErrNotRunning) {
		t.Errorf("refreshed before the start: %v", err)
	}
	w.clock.Advance(time.Second)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, since := p.State(); r != placement.Ready || !since.Equal(w.clock.Now()) {
		t.Errorf("%s since %v", r, since)
	}
	if err := p.Start(t.Context()); !errors.Is(err, placement.ErrRunning) {
		t.Errorf("started again: %v", err)
	}
	for _, id := range []string{"lobby", "garden"} {
		if o := p.activate(t, id); o.Code != placement.OK || o.Activation.Phase != placement.Active {
			t.Errorf("%s: %+v", id, o)
		}
	}
	if o := p.activate(t, "lobby"); o.Code != placement.Exists {
		t.Errorf("again: %+v", o)
	}
	if got := p.Hosted(); !slices.Equal(got, []placement.Identity{room("garden"), room("lobby")}) {
		t.Errorf("it hosts %v", got)
	}
	if d, err := p.Deactivate(t.Context(), room("garden"), "idle"); err != nil || d.Code != placement.OK {
		t.Errorf("deactivated: %+v, %v", d, err)
	}
	w.clock.Advance(time.Second)
	for range 2 {
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refused("after the stop", placement.NotRunning)
	if open, begun := p.rooms.total(); open != 0 || begun != 2 {
		t.Errorf("%d rooms are open, %d were", open, begun)
	}
	if p.states() != "STARTING READY DRAINING STOPPED" {
		t.Errorf("states %s", p.states())
	}
	top, err := w.Topology(t.Context(), w.cluster)
	if err != nil || len(top.Members) != 0 {
		t.Errorf("members %+v, %v", top, err)
	}
	for _, n := range p.notices {
		if n.At.Before(suite.Epoch.Add(time.Second)) || n.Cause == "" {
			t.Errorf("notice %+v", n)
		}
	}
	if err := p.Start(t.Context()); err != nil { // and once more
		t.Fatal(err)
	}
	if o := p.activate(t, "lobby"); o.Code != placement.OK {
		t.Errorf("after another start: %+v", o)
	}
}

// TestFailedActivation: PLC-LOCK-2, PLC-LIFE-4. Without the lock nothing is activated; an activation that fails is reported with its
// reason, and is no one's.
func TestFailedActivation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process("ann", placement.MemberMode)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Second)
	o := p.activate(t, "broken")
	if o.Code != placement.ActivationFailed || o.Activation.Reason != "the gate is stuck" || len(p.Hosted()) != 0 {
		t.Errorf("%+v", o)
	}
	n := p.notices[len(p.notices)-1]
	if n.Identity != room("broken") || n.Err == nil || !n.At.Equal(w.clock.Now()) || n.From != n.To {
		t.Errorf("notice %+v", n)
	}
	if l := w.lookup(room("broken")); l.Activation.Phase != placement.Free || l.Activation.Reason != "the gate is stuck" {
		t.Errorf("looked up: %+v", l)
	}
	// Another caller holds the lock.
	if o := w.claim(room("taken")); o.Code != placement.OK {
		t.Fatalf("%+v", o)
	}
	_, before := p.rooms.total()
	if o := p.activate(t, "taken"); o.Code != placement.Locking {
		t.Errorf("%+v", o)
	}
	p.store.Err = docstore.ErrUnavailable
	if _, err := p.Activate(t.Context(), room("lobby"), placement.Need{}, "r"); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("without the store: %v", err)
	}
	if _, begun := p.rooms.total(); begun != before {
		t.Errorf("%d activations without a lock", begun-before)
	}
}

// slow is an activator that waits, and counts who is in it.
type slow struct {
	entered, leave chan struct{}
}

func (s slow) Activate(context.Context, placement.Activation) error {
	s.entered <- struct{}{}
	<-s.leave
	return nil
}

func (slow) Deactivate(context.Context, placement.Activation) error { return nil }

// TestActivatedTwice: a request that arrives again while it is being carried out does not activate again; a stop waits for it.
func TestActivatedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := slow{make(chan struct{}, 2), make(chan struct{})}
	c, err := placement.NewComponent(placement.ComponentOptions{
		Cluster: w.cluster, Mode: placement.MemberMode, Membership: w.Service, Locker: w.Service, Storage: w.Service, Activator: a,
		Join: placement.Join{Member: "ann", Offer: placement.Offer{Kinds: []string{"room"}}}, Now: w.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, stopped := make(chan placement.Outcome), make(chan error)
	go func() {
		o, err := c.Activate(t.Context(), room("lobby"), placement.Need{}, "r1")
		if err != nil {
			t.Error(err)
		}
		first <- o
	}()
	<-a.entered
	if o, err := c.Activate(t.Context(), room("lobby"), placement.Need{}, "r1"); err != nil || o.Code != placement.Locking || o.RetryAfter <= 0 {
		t.Errorf("again: %+v, %v", o, err)
	}
	go func() { stopped <- c.Stop(t.Context()) }()
	close(a.leave)
	if o := <-first; o.Code != placement.OK {
		t.Errorf("%+v", o)
	}
	if err := <-stopped; err != nil || len(c.Hosted()) != 0 || len(a.entered) != 0 {
		t.Errorf("stopped: %v; it hosts %v, and %d came in", err, c.Hosted(), len(a.entered))
	}
}

// TestNotReady: PLC-LIFE-3, PLC-PLACE-3. While no member is active, while the store has not been reached for too long, and after the lease
// was lost, requests are refused; and accepted again when that is over.
func TestNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, member := w.process("", placement.ClientMode), w.process("ann", placement.MemberMode)
	step := func(p *process, want placement.Running) {
		t.Helper()
		w.clock.Advance(3 * time.Second)
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := p.State(); r != want {
			t.Errorf("%s, want %s", r, want)
		}
	}
	for _, p := range []*process{client, member} {
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := client.Lookup(t.Context(), room("x"), placement.Need{}); err != nil || l.Code != placement.Undetermined {
		t.Errorf("before anyone joined: %+v, %v", l, err)
	}
	step(client, placement.Ready)
	if o := member.activate(t, "lobby"); o.Code != placement.OK {
		t.Fatalf("%+v", o)
	}
	if l, err := client.Lookup(t.Context(), room("lobby"), placement.Need{}); err != nil || l.Owner == nil || l.Owner.Member != "ann" {
		t.Errorf("looked up by a client: %+v, %v", l, err)
	}
	first := member.Incarnation()
	for _, p := range []*process{client, member} {
		p.store.Err = docstore.ErrUnavailable
	}
	step(member, placement.Ready) // 6 s after it joined
	step(member, placement.Ready)
	w.clock.Advance(time.Second) // its lease ends, and it says so by itself
	if o := member.activate(t, "garden"); o.Code != placement.Undetermined {
		t.Errorf("after the lease ended: %+v", o)
	}
	step(member, placement.NotReady)
	step(client, placement.NotReady)
	if open, _ := member.rooms.total(); open != 0 || len(member.Hosted()) != 0 {
		t.Errorf("%d rooms are open without a lease", open)
	}
	for _, p := range []*process{client, member} {
		p.store.Err = nil
	}
	step(member, placement.Ready)
	step(client, placement.Ready)
	if now := member.Incarnation(); now.Number <= first.Number {
		t.Errorf("incarnation %v after %v", now, first)
	}
	if o := member.activate(t, "lobby"); o.Code != placement.OK {
		t.Errorf("activated by the next incarnation: %+v", o)
	}
	// Evicted while it was not looking.
	w.clock.Advance(time.Minute)
	w.lookup(room("lobby"))
	step(member, placement.Ready)
	if open, _ := member.rooms.total(); open != 0 {
		t.Errorf("%d rooms are open after an eviction", open)
	}
	if err := errors.Join(member.Stop(t.Context()), client.Stop(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestStartFails: a member that cannot join is stopped, and says why.
func TestStartFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann")
	p := w.process("ann", placement.MemberMode)
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), string(placement.MemberExists)) {
		t.Errorf("%v", err)
	}
	if r, _ := p.State(); r != placement.Stopped || p.states() != "STARTING STOPPED" {
		t.Errorf("%s: %s", r, p.states())
	}
	for name, o := range map[string]placement.ComponentOptions{
		"mode": {}, "Membership": {Mode: placement.ClientMode},
		"Activator": {Mode: placement.MemberMode, Membership: w.Service, Locker: w.Service, Storage: w.Service},
		"member":    {Mode: placement.MemberMode, Membership: w.Service, Locker: w.Service, Storage: w.Service, Activator: p.rooms, Cluster: w.cluster},
	} {
		if _, err := placement.NewComponent(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContracts: PLC-LOCK-1, PLC-LOCK-2, PLC-LOCK-3, PLC-LOCK-4, PLC-LOCK-5. The service is a lock and a storage as a component needs them, and the tests' activator one as well.
func TestContracts(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (placement.Membership, placement.Locker, placement.Storage) {
		w := newWorld(t)
		return w.Service, w.another(), w.another()
	}
	placementtest.Locker(t, open)
	placementtest.Storage(t, open)
	placementtest.Activator(t, func(*testing.T) placement.Activator {
		return &rooms{open: map[string]int{}, broken: "broken"}
	}, room("broken"))
}
