package clustertest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/cluster/clustertest"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// mixed is a provider of several parts.
type mixed struct {
	cluster.Membership
	cluster.Directory
	cluster.Locker
	cluster.Storage
	cluster.Alarms
}

func memory() (*suite.Clock, docstore.Store) {
	clock := suite.NewClock()
	return clock, docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
}

func chat(store docstore.Store, now func() time.Time) cluster.Provider {
	return direct.Cluster(placement.New(store, &placement.Options{Now: now}),
		placement.Cluster{Tenant: "acme", Name: "chat"})
}

// providers are what the tests run on.
var providers = map[string]clustertest.Open{
	"on a store": func(*testing.T) (cluster.Provider, func(time.Duration)) {
		clock, store := memory()
		return chat(store, clock.Now), clock.Advance
	},
	"over HTTP": func(t *testing.T) (cluster.Provider, func(time.Duration)) {
		clock, store := memory()
		server := httptest.NewServer(httpapi.New(store, httpapi.Development{}, &httpapi.Options{Now: clock.Now}))
		t.Cleanup(server.Close)
		c, err := client.New(server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Placements("acme", "chat"), clock.Advance
	},
	"with other locks": func(*testing.T) (cluster.Provider, func(time.Duration)) {
		clock, store := memory()
		p := chat(store, clock.Now)
		return mixed{p, p, newLocks(p, clock.Now), p, p}, clock.Advance
	},
	"with states elsewhere": func(*testing.T) (cluster.Provider, func(time.Duration)) {
		clock, store := memory()
		p := chat(store, clock.Now)
		return mixed{p, p, p, newFiles(p), p}, clock.Advance
	},
}

// TestLocker: an activation begins with a lock that no one else has, and which ends with it (PLC-LOCK-1, PLC-LOCK-5).
func TestLocker(t *testing.T) {
	for name, open := range providers {
		t.Run(name, func(t *testing.T) { clustertest.Locker(t, open) })
	}
}

// TestStorage: owner and state are kept (PLC-LOCK-3, PLC-LOCK-4).
func TestStorage(t *testing.T) {
	for name, open := range providers {
		t.Run(name, func(t *testing.T) { clustertest.Storage(t, open) })
	}
}

// TestEvents: the events of a cluster on a store, and over HTTP, are as their readers need them
// (PLC-LIFE-4).
func TestEvents(t *testing.T) {
	for name, open := range providers {
		t.Run(name, func(t *testing.T) { clustertest.Events(t, open, "ann", "bob") })
	}
}

func TestHost(t *testing.T) {
	clustertest.Host(t, func(*testing.T) cluster.Host { return newRooms() }, room("lobby"), room("broken"))
}

// TestMembersOfParts: members work with locks and states that are kept elsewhere; and while those locks cannot be had,
// nothing is activated (PLC-LOCK-2).
func TestMembersOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := chat(docstore.NewMemory(nil), time.Now)
		locks, files := newLocks(p, time.Now), newFiles(p)
		start := func(name string) (*cluster.Member, *rooms) {
			rooms := newRooms()
			m, err := cluster.NewMember(mixed{p, p, locks, files, p}, name, rooms,
				&cluster.Options{Kinds: []string{"room"}, Partitions: 16})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return m, rooms
		}
		ann, hers := start("ann")
		a, err := ann.Serve(t.Context(), room("lobby"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := ann.WriteState(t.Context(), room("lobby"), []byte("twenty guests")); err != nil {
			t.Error(err)
		}
		if stored, err := p.Activation(t.Context(), "room", "lobby"); err != nil || string(stored.State) == "twenty guests" {
			t.Errorf("the state is not elsewhere: %+v, %v", stored, err)
		}

		locks.fail(errLocksDown)
		if _, err := ann.Serve(t.Context(), room("garden"), nil); !errors.Is(err, errLocksDown) {
			t.Errorf("served without a lock: %v", err)
		}
		locks.fail(nil)
		locks.take(room("garden"), "of another process")
		if _, err := ann.Serve(t.Context(), room("garden"), nil); !errors.Is(err, contracts.CodeActivationLocked) {
			t.Errorf("served without a lock: %v", err)
		}
		if hers.begun != 1 || len(ann.Activations()) != 1 {
			t.Errorf("%d activations were begun", hers.begun)
		}
		if _, err := p.Activation(t.Context(), "room", "garden"); !errors.Is(err, contracts.CodeNotFound) {
			t.Errorf("it was claimed: %v", err)
		}

		if _, err := ann.Serve(t.Context(), room("broken"), nil); err == nil || len(locks.held) != 1 {
			t.Errorf("after a failure %d locks are held: %v", len(locks.held), err)
		}
		bob, his := start("bob")
		if err := ann.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Second) // bob has learned of what was handed over
		if all := bob.Activations(); len(all) != 1 || all[0].Token <= a.Token || string(all[0].State) != "twenty guests" ||
			his.open["lobby"] != 1 {
			t.Errorf("bob serves %+v", all)
		}
		if err := bob.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		m, _ := start("cleo")
		if a, err := m.Serve(t.Context(), room("lobby"), nil); err != nil || string(a.State) != "twenty guests" {
			t.Errorf("a member that claims for itself: %+v, %v", a, err)
		}
		if err := m.Stop(t.Context()); err != nil || his.open["lobby"] != 0 {
			t.Errorf("%v; bob has %v", err, his.open)
		}
	})
}

func room(id string) cluster.Identity { return cluster.Identity{Kind: "room", ID: id} }

// locks is another Locker: it has a lock of its own for each identity, and passes on what is granted there.
type locks struct {
	cluster.Locker

	now  func() time.Time
	mu   sync.Mutex
	held map[cluster.Identity]lock
	down error // with which every claim fails
}

// lock is held for a request until a time.
type lock struct {
	request string
	until   time.Time
}

func newLocks(p cluster.Locker, now func() time.Time) *locks {
	return &locks{Locker: p, now: now, held: map[cluster.Identity]lock{}}
}

var errLocksDown = errors.New("the locks cannot be reached")

func (l *locks) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

// take obtains a lock.
func (l *locks) take(id cluster.Identity, request string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[id]; ok && h.request != request && l.now().Before(h.until) {
		e := contracts.Errorf(contracts.CodeActivationLocked, "%s has the lock", h.request)
		e.RetryAfter = h.until.Sub(l.now())
		return e
	}
	l.held[id] = lock{request, l.now().Add(10 * time.Second)}
	return l.down
}

// keep releases a lock unless the activation is under it.
func (l *locks) keep(id cluster.Identity, o contracts.ActivationOutcome, err error) (contracts.ActivationOutcome,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || o.Activation.Phase != contracts.PhaseLocked {
		delete(l.held, id)
	} else if h, ok := l.held[id]; ok {
		h.until = l.now().Add(time.Duration(o.RemainingMs) * time.Millisecond)
		l.held[id] = h
	}
	return o, err
}

func (l *locks) Claim(ctx context.Context, kind, id string, r contracts.ActivationClaimRequest) (
	contracts.ActivationOutcome, error) {
	i := cluster.Identity{Kind: kind, ID: id}
	if err := l.take(i, r.RequestID); err != nil {
		return contracts.ActivationOutcome{}, err
	}
	o, err := l.Locker.Claim(ctx, kind, id, r)
	return l.keep(i, o, err)
}

func (l *locks) Transfer(ctx context.Context, kind, id string, r contracts.ActivationTransferRequest) (
	contracts.ActivationOutcome, error) {
	i := cluster.Identity{Kind: kind, ID: id}
	if err := l.take(i, r.RequestID); err != nil {
		return contracts.ActivationOutcome{}, err
	}
	o, err := l.Locker.Transfer(ctx, kind, id, r)
	return l.keep(i, o, err)
}

func (l *locks) Activated(ctx context.Context, kind, id string, r contracts.ActivationHoldRequest) (
	contracts.ActivationOutcome, error) {
	o, err := l.Locker.Activated(ctx, kind, id, r)
	if err == nil {
		return l.keep(cluster.Identity{Kind: kind, ID: id}, o, err)
	}
	return o, err // it may be the lock of another claim by now
}

func (l *locks) Failed(ctx context.Context, kind, id string, r contracts.ActivationFailedRequest) (
	contracts.ActivationOutcome, error) {
	o, err := l.Locker.Failed(ctx, kind, id, r)
	if err == nil {
		return l.keep(cluster.Identity{Kind: kind, ID: id}, o, err)
	}
	return o, err
}

// files is another Storage: it keeps states in files of its own, and their names with the owner.
type files struct {
	cluster.Storage

	mu     sync.Mutex
	states map[string][]byte
}

func newFiles(p cluster.Storage) *files { return &files{Storage: p, states: map[string][]byte{}} }

func (f *files) WriteState(ctx context.Context, kind, id string, r contracts.ActivationStateRequest) (
	contracts.ActivationOutcome, error) {
	name := fmt.Sprintf("%s-%s-%d-%x", kind, id, r.StateVersion+1, sha256.Sum256(r.State))
	f.mu.Lock()
	f.states[name] = r.State
	f.mu.Unlock()
	r.State = []byte(name)
	return f.Storage.WriteState(ctx, kind, id, r)
}

func (f *files) Activation(ctx context.Context, kind, id string) (contracts.Activation, error) {
	a, err := f.Storage.Activation(ctx, kind, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	a.State = f.states[string(a.State)]
	return a, err
}

// rooms is a host that counts.
type rooms struct {
	mu    sync.Mutex
	open  map[string]int
	begun int
}

func newRooms() *rooms { return &rooms{open: map[string]int{}} }

// Activate implements [cluster.Host].
func (r *rooms) Activate(_ context.Context, a cluster.Activation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.ID == "broken" {
		return errors.New("the gate is stuck")
	}
	r.begun++
	r.open[a.ID]++
	return nil
}

// Deactivate implements [cluster.Host].
func (r *rooms) Deactivate(_ context.Context, a cluster.Activation, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[a.ID]--
}
