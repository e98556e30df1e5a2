package cluster_test

import (
	"context"
	"fmt"
	"slices"
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

var chat = placement.Cluster{Tenant: "acme", Name: "chat"}

// world is a cluster on a store in memory, in a bubble of virtual time.
type world struct {
	t       *testing.T
	store   docstore.Store
	service *placement.Service

	mu      sync.Mutex
	ahead   time.Duration // of the clocks to the timers: processes were frozen for so long
	serving map[cluster.Identity]string
	twice   []string
}

// inWorld runs a test in a bubble of synctest: sleeping there moves the clock and takes no time, so each sleep is
// exactly as long as what the test waits for. A goroutine that is left at its end fails the test.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, serving: map[cluster.Identity]string{}}
		w.store = docstore.NewMemory(&docstore.MemoryOptions{Now: w.now})
		w.service = placement.New(w.store, &placement.Options{Now: w.now})
		test(t, w)
		time.Sleep(2 * time.Minute) // joins that were given up are taken back until then
		if len(w.twice) > 0 {
			t.Errorf("served twice at a time: %v", w.twice)
		}
	})
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// freeze lets the clocks go on while timers stand still, as for a process that was stopped and goes on.
func (w *world) freeze(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

// fault is what befalls requests of a provider. With after, the request was carried out first.
type fault func(request string) (err error, after bool)

// faulty is a provider with faults; it counts its requests.
type faulty struct {
	cluster.Provider

	mu    sync.Mutex
	fault fault
	sent  map[string]int
	tap   func(contracts.EventPage) contracts.EventPage
}

func (w *world) provider() *faulty {
	return &faulty{Provider: direct.Cluster(w.service, chat), sent: map[string]int{}}
}

func (f *faulty) set(fault fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// alter changes the pages of events from now on.
func (f *faulty) alter(tap func(contracts.EventPage) contracts.EventPage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tap = tap
}

func (f *faulty) count(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[request]
}

func through[T any](f *faulty, request string, do func() (T, error)) (T, error) {
	f.mu.Lock()
	f.sent[request]++
	fault := f.fault
	f.mu.Unlock()
	var none T
	if fault == nil {
		return do()
	}
	err, after := fault(request)
	if err != nil && !after {
		return none, err
	}
	got, e := do()
	if err != nil {
		return none, err
	}
	return got, e
}

func (f *faulty) Join(ctx context.Context, m string, r contracts.MemberJoinRequest) (contracts.MemberState, error) {
	return through(f, "join", func() (contracts.MemberState, error) { return f.Provider.Join(ctx, m, r) })
}

func (f *faulty) Replace(ctx context.Context, m string, r contracts.MemberReplaceRequest) (contracts.MemberState,
	error) {
	return through(f, "replace", func() (contracts.MemberState, error) { return f.Provider.Replace(ctx, m, r) })
}

func (f *faulty) Heartbeat(ctx context.Context, m string, r contracts.MemberHeartbeatRequest) (contracts.MemberState,
	error) {
	return through(f, "heartbeat", func() (contracts.MemberState, error) { return f.Provider.Heartbeat(ctx, m, r) })
}

func (f *faulty) ChangeOffer(ctx context.Context, m string, r contracts.MemberOfferRequest) (contracts.MemberState,
	error) {
	return through(f, "offer", func() (contracts.MemberState, error) { return f.Provider.ChangeOffer(ctx, m, r) })
}

func (f *faulty) Drain(ctx context.Context, m string, r contracts.MemberRequest) (contracts.MemberState, error) {
	return through(f, "drain", func() (contracts.MemberState, error) { return f.Provider.Drain(ctx, m, r) })
}

func (f *faulty) Leave(ctx context.Context, m string, r contracts.MemberRequest) (contracts.MemberState, error) {
	return through(f, "leave", func() (contracts.MemberState, error) { return f.Provider.Leave(ctx, m, r) })
}

func (f *faulty) Members(ctx context.Context) (contracts.MemberList, error) {
	return through(f, "members", func() (contracts.MemberList, error) { return f.Provider.Members(ctx) })
}

func (f *faulty) Lookup(ctx context.Context, kind, id string, q cluster.Query) (contracts.Placement, error) {
	return through(f, "lookup", func() (contracts.Placement, error) { return f.Provider.Lookup(ctx, kind, id, q) })
}

func (f *faulty) Events(ctx context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	return through(f, "events", func() (contracts.EventPage, error) {
		page, err := f.Provider.Events(ctx, q)
		f.mu.Lock()
		tap := f.tap
		f.mu.Unlock()
		if tap != nil && err == nil {
			page = tap(page)
		}
		return page, err
	})
}

func (f *faulty) Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (
	contracts.ActivationOutcome, error) {
	return through(f, "claim", func() (contracts.ActivationOutcome, error) { return f.Provider.Claim(ctx, kind, id, r) })
}

func (f *faulty) Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (
	contracts.ActivationOutcome, error) {
	return through(f, "activated", func() (contracts.ActivationOutcome, error) {
		return f.Provider.Activated(ctx, kind, id, r)
	})
}

func (f *faulty) Deactivate(ctx context.Context, kind, id string,
	r contracts.ActivationEndRequest) (contracts.ActivationOutcome, error) {
	return through(f, "deactivate", func() (contracts.ActivationOutcome, error) {
		return f.Provider.Deactivate(ctx, kind, id, r)
	})
}

func (f *faulty) WriteState(ctx context.Context, kind, id string, r contracts.ActivationStateRequest) (
	contracts.ActivationOutcome, error) {
	return through(f, "write", func() (contracts.ActivationOutcome, error) {
		return f.Provider.WriteState(ctx, kind, id, r)
	})
}

func (f *faulty) SetAlarm(ctx context.Context, kind, id string, r contracts.ActivationAlarmRequest) (
	contracts.ActivationOutcome, error) {
	return through(f, "alarm", func() (contracts.ActivationOutcome, error) {
		return f.Provider.SetAlarm(ctx, kind, id, r)
	})
}

func (f *faulty) Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (
	contracts.ActivationOutcome, error) {
	return through(f, "transfer", func() (contracts.ActivationOutcome, error) {
		return f.Provider.Transfer(ctx, kind, id, r)
	})
}

// host serves identities and keeps an account of it.
type host struct {
	w        *world
	name     string
	activate func(ctx context.Context, a cluster.Activation) error // nil: at once
	ending   func(a cluster.Activation, reason error)
	alarm    func(ctx context.Context, a cluster.Activation) error // nil: it has none
	mu       sync.Mutex
	contexts map[cluster.Identity]context.Context
	given    []cluster.Activation
	ended    []error
}

func (h *host) Activate(ctx context.Context, a cluster.Activation) error {
	h.mu.Lock()
	h.given = append(h.given, a)
	h.contexts[a.Identity] = ctx //nolint:fatcontext // the test asks whether it has ended
	h.mu.Unlock()
	if h.activate != nil {
		if err := h.activate(ctx, a); err != nil {
			return err
		}
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if other := h.w.serving[a.Identity]; other != "" {
		h.w.twice = append(h.w.twice, fmt.Sprintf("%v by %s and %s", a.Identity, other, h.name))
	}
	h.w.serving[a.Identity] = h.name
	return nil
}

func (h *host) Deactivate(_ context.Context, a cluster.Activation, reason error) {
	if h.ending != nil {
		h.ending(a, reason)
	}
	h.mu.Lock()
	h.ended = append(h.ended, reason)
	h.mu.Unlock()
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.w.serving[a.Identity] == h.name {
		delete(h.w.serving, a.Identity)
	}
}

// ringing is a host with alarms.
type ringing struct{ *host }

func (h ringing) Alarm(ctx context.Context, a cluster.Activation) error { return h.alarm(ctx, a) }

func (h *host) context(id cluster.Identity) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.contexts[id]
}

func (h *host) counts() (given, ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.given), len(h.ended)
}

// journal keeps events, and the states that they lead through.
type journal struct {
	mu     sync.Mutex
	events []cluster.Event
}

func (j *journal) add(e cluster.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) states() (all []cluster.State) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		if e.What == cluster.StateChanged {
			all = append(all, e.To)
		}
	}
	return all
}

func (j *journal) has(what string) (found []cluster.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		if e.What == what {
			found = append(found, e)
		}
	}
	return found
}

func (j *journal) went(t *testing.T, want ...cluster.State) {
	t.Helper()
	if got := j.states(); !slices.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, e := range j.events {
		if e.At.IsZero() || e.At.After(time.Now()) || i > 0 && e.At.Before(j.events[i-1].At) {
			t.Errorf("%+v has no real time", e)
		}
	}
}

// joined is a member that a test has.
type joined struct {
	*cluster.Member

	*host
	*journal
	p *faulty
}

func (w *world) member(name string, change func(*cluster.Options, *host)) joined {
	w.t.Helper()
	h := &host{w: w, name: name, contexts: map[cluster.Identity]context.Context{}}
	o := cluster.Options{Kinds: []string{"room"}, Address: name + ":1", Partitions: 16}
	j := &journal{}
	o.Observe = j.add
	if change != nil {
		change(&o, h)
	}
	p := w.provider()
	hosts := cluster.Host(h)
	if h.alarm != nil {
		hosts = ringing{h}
	}
	m, err := cluster.NewMember(p, name, hosts, o.WithClock(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	return joined{m, h, j, p}
}

func (w *world) start(name string, change func(*cluster.Options, *host)) joined {
	w.t.Helper()
	m := w.member(name, change)
	if err := m.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) stop(members ...joined) {
	w.t.Helper()
	for _, m := range members {
		if err := m.Stop(w.t.Context()); err != nil {
			w.t.Error(err)
		}
		if s := m.Status(); s.State != cluster.Stopped {
			w.t.Errorf("%+v after Stop", s)
		}
	}
}

func (w *world) locator(o *cluster.LocatorOptions) (*cluster.Locator, *faulty) {
	w.t.Helper()
	p := w.provider()
	l := cluster.NewLocator(p, o)
	if err := l.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return l, p
}

func room(id string) cluster.Identity { return cluster.Identity{Kind: "room", ID: id} }

// record is an activation as the store has it.
func (w *world) record(id cluster.Identity) contracts.Activation {
	w.t.Helper()
	a, err := direct.Cluster(w.service, chat).Activation(w.t.Context(), id.Kind, id.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}
