package direct_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// several is a client of locks on a store in memory, whose responses get lost as a test says.
type several struct {
	*locks.Client
	service *lock.Locks
}

func newSeveral(t *testing.T, store docstore.Store, owner string) several {
	t.Helper()
	s := lock.New(store, nil)
	c, err := locks.New(direct.Locks(s, "acme"), &locks.Options{Owner: owner, TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("%s: %v", owner, err)
		}
	})
	return several{c, s}
}

func (s several) phase(t *testing.T, key string) lock.Phase {
	t.Helper()
	got, _, err := s.service.Get(t.Context(), lock.ID{Tenant: "acme", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return got.Phase
}

// TestDoAll: several locks are held for longer than a lease, with a token each, and released together.
func TestDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSeveral(t, docstore.NewMemory(nil), "ann")
		err := c.DoAll(t.Context(), []string{"b", "a"}, nil, func(ctx context.Context, s *locks.Set) error {
			if !slices.Equal(s.Keys(), []string{"a", "b"}) || s.Token("a") <= 0 || s.Token("b") <= 0 || s.Token("c") != 0 {
				t.Errorf("keys %q, tokens %d and %d", s.Keys(), s.Token("a"), s.Token("b"))
			}
			if token, ok := fence.From(ctx); ok {
				t.Errorf("the context carries the lease %v", token)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if c.phase(t, "a") != lock.Active || c.phase(t, "b") != lock.Active || s.Remaining() <= 0 ||
				s.Left() <= s.Remaining() {
				t.Errorf("after a minute %s and %s, %v of %v left", c.phase(t, "a"), c.phase(t, "b"), s.Remaining(), s.Left())
			}
			return locks.Check(ctx)
		})
		if err != nil || c.phase(t, "a") != lock.Released || c.phase(t, "b") != lock.Released {
			t.Errorf("%v; %s and %s", err, c.phase(t, "a"), c.phase(t, "b"))
		}
	})
}

// TestDoAllLosesOne: when one of the locks is lost the context of all ends, and the others are released once the work
// has returned.
func TestDoAllLosesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSeveral(t, docstore.NewMemory(nil), "ann")
		err := c.DoAll(t.Context(), []string{"a", "b", "c"}, nil, func(ctx context.Context, _ *locks.Set) error {
			o, err := c.service.ForceRelease(t.Context(), lock.ForceRelease{
				ID: lock.ID{Tenant: "acme", Key: "b"}, By: "root", Reason: "test", RequestID: "f",
			})
			if err != nil || o.Code != lock.OK {
				t.Errorf("%+v, %v", o, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
				t.Error("the work was not told")
			}
			if c.phase(t, "a") != lock.Active {
				t.Error("another lock was released while the work was not over")
			}
			return ctx.Err()
		})
		if !errors.Is(err, locks.ErrLost) || !errors.Is(err, contracts.CodeLeaseReleased) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if c.phase(t, "a") != lock.Released || c.phase(t, "c") != lock.Released {
			t.Errorf("the others are %s and %s", c.phase(t, "a"), c.phase(t, "c"))
		}
	})
}

// TestLockAllWaits: a set that is not free is asked for again, and given up with nothing held.
func TestLockAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		ann, bob := newSeveral(t, store, "ann"), newSeveral(t, store, "bob")
		held, err := bob.Lock(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ann.LockAll(t.Context(), []string{"a", "b"}, &locks.LockOptions{Wait: new(time.Duration)})
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeLockHeld || e.LockKey != "b" ||
			e.Owner != "bob" {
			t.Errorf("without waiting: %v", err)
		}
		if _, err = ann.LockAll(t.Context(), []string{"a", "b"}, &locks.LockOptions{Wait: new(30 * time.Second)}); !errors.Is(err,
			contracts.CodeLockHeld) {
			t.Errorf("after a wait: %v", err)
		}
		if p := ann.phase(t, "a"); p != lock.None {
			t.Errorf("a lock of a set that was not acquired is %s", p)
		}
		time.AfterFunc(20*time.Second, func() { _ = held.Unlock(t.Context()) })
		s, err := ann.LockAll(t.Context(), []string{"a", "b"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLockAllRejects: what sets cannot be is an error before anything is sent.
func TestLockAllRejects(t *testing.T) {
	c := newSeveral(t, docstore.NewMemory(nil), "ann")
	many := make([]string, locks.MaxKeys+1)
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	for name, do := range map[string]func() error{
		"no keys":  func() error { _, err := c.LockAll(t.Context(), nil, nil); return err },
		"too many": func() error { _, err := c.LockAll(t.Context(), many, nil); return err },
		"twice":    func() error { _, err := c.LockAll(t.Context(), []string{"a", "b", "a"}, nil); return err },
		"empty":    func() error { _, err := c.LockAll(t.Context(), []string{"a", ""}, nil); return err },
		"fair": func() error {
			_, err := c.LockAll(t.Context(), []string{"a"}, &locks.LockOptions{Fair: true})
			return err
		},
		"delay": func() error {
			_, err := c.LockAll(t.Context(), []string{"a"}, &locks.LockOptions{LockDelay: time.Second})
			return err
		},
		"no work":   func() error { return c.DoAll(t.Context(), []string{"a"}, nil, nil) },
		"a bad ttl": func() error { _, err := c.LockAll(t.Context(), []string{"a"}, &locks.LockOptions{TTL: 1}); return err },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	plain, err := locks.New(struct{ locks.Provider }{direct.Locks(c.service, "acme")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.LockAll(t.Context(), []string{"a"}, nil); !errors.Is(err, contracts.CodeNotConfigured) {
		t.Errorf("a provider without sets: %v", err)
	}
}

// losing is a store that loses requests and responses.
type losing struct {
	docstore.Store
	mu     sync.Mutex
	random *rand.Rand
}

func (s *losing) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.mu.Lock()
	fate := s.random.IntN(8)
	s.mu.Unlock()
	if fate == 0 {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	r, err := s.Store.Write(ctx, writes...)
	if fate == 1 {
		return docstore.Result{}, errors.Join(docstore.ErrUnavailable, err)
	}
	return r, err
}

// TestOverlappingSets: clients whose keys overlap, in any order, with responses that get lost: no two hold a key at
// once, and each is served.
func TestOverlappingSets(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			store := &losing{Store: docstore.NewMemory(nil), random: rand.New(rand.NewPCG(seed, 1))}
			var (
				mu   sync.Mutex
				held = map[string]string{}
				all  sync.WaitGroup
			)
			for n := range 5 {
				who := fmt.Sprint("client ", n)
				c, random := newSeveral(t, store, who), rand.New(rand.NewPCG(seed, uint64(10+n)))
				all.Go(func() {
					for range 6 {
						keys := []string{"a", "b", "c", "d"}
						random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
						keys = keys[:1+random.IntN(3)]
						work := time.Duration(random.IntN(20)) * time.Second
						err := c.DoAll(t.Context(), keys, &locks.LockOptions{Poll: 200 * time.Millisecond},
							func(ctx context.Context, s *locks.Set) error {
								mu.Lock()
								for _, k := range s.Keys() {
									if held[k] != "" {
										t.Errorf("%s has %q while %s holds it", who, k, held[k])
									}
									held[k] = who
								}
								mu.Unlock()
								select {
								case <-time.After(work):
								case <-ctx.Done():
								}
								mu.Lock()
								defer mu.Unlock()
								for _, k := range s.Keys() {
									delete(held, k)
								}
								return nil
							})
						if err != nil && !errors.Is(err, locks.ErrLost) && !errors.Is(err, locks.ErrNotReleased) &&
							!errors.Is(err, docstore.ErrUnavailable) &&
							!errors.Is(err, contracts.CodeUnavailable) &&
							!errors.Is(err, contracts.CodeLeaseExpired) { // responses were lost until it ended: no grant
							t.Errorf("%s: %v", who, err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestSetsAsOverHTTP: what a program is told of several locks is the same over HTTP and on a store.
func TestSetsAsOverHTTP(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(&docstore.MemoryOptions{Now: now}), httpapi.Development{},
		&httpapi.Options{Now: now}))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	service := lock.New(docstore.NewMemory(&docstore.MemoryOptions{Now: now}), &lock.Options{Now: now})
	both := []locks.Provider{c.LockAPI().For("acme"), direct.Locks(service, "acme")}

	token := at.UnixMicro() + 1
	tokens := contracts.LockSetTokens{{LockKey: "b", FencingToken: token}, {LockKey: "a/x", FencingToken: token}}
	acquire := func(owner, request string, keys ...string) func(locks.SetProvider) (any, error) {
		return func(p locks.SetProvider) (any, error) {
			s, err := p.AcquireSet(t.Context(), contracts.LockSetAcquireRequest{LockKeys: keys, OwnerID: owner,
				RequestID: request, TTLSeconds: 30})
			for i := range s.Leases {
				s.Leases[i].LeaseID = "" // which is random
			}
			return s, err
		}
	}
	renew := func(owner, request, expires string) func(locks.SetProvider) (any, error) {
		return func(p locks.SetProvider) (any, error) {
			return p.RenewSet(t.Context(), contracts.LockSetRenewRequest{
				Leases: tokens, OwnerID: owner, RequestID: request, TTLSeconds: 60, ExpiresAt: expires,
			})
		}
	}
	release := func(owner, request string) func(locks.SetProvider) (any, error) {
		return func(p locks.SetProvider) (any, error) {
			return p.ReleaseSet(t.Context(), contracts.LockSetReleaseRequest{Leases: tokens, OwnerID: owner, RequestID: request})
		}
	}
	for _, step := range []struct {
		name string
		do   func(locks.SetProvider) (any, error)
		code contracts.Code // of the rejection
	}{
		{"acquire", acquire("ann", "a1", "b", "a/x"), ""},
		{"acquire again", acquire("ann", "a1", "a/x", "b"), ""},
		{"acquire again with another key", acquire("ann", "a1", "a/x", "b", "c"), contracts.CodeRequestIDReused},
		{"acquire what is held", acquire("bob", "a2", "c", "b"), contracts.CodeLockHeld},
		{"acquire nothing", acquire("bob", "a3"), contracts.CodeInvalidArgument},
		{"renew", renew("ann", "r1", "2026-01-01T00:00:30.000Z"), ""},
		{"renew again", renew("ann", "r1", "2026-01-01T00:00:30.000Z"), ""},
		{"renew from another expiry", renew("ann", "r2", "2026-01-01T00:00:30.000Z"), contracts.CodeLeaseChanged},
		{"renew from no time", renew("ann", "r3", "soon"), contracts.CodeInvalidArgument},
		{"renew as another", renew("bob", "r4", ""), contracts.CodeNotOwner},
		{"release as another", release("bob", "e1"), contracts.CodeNotOwner},
		{"release", release("ann", "e2"), ""},
		{"release again", release("ann", "e2"), ""},
		{"release once more", release("ann", "e3"), contracts.CodeLeaseReleased},
		{"renew what was released", renew("ann", "r5", ""), contracts.CodeLeaseReleased},
		{"acquire after the release", acquire("bob", "a4", "c", "b"), ""},
	} {
		var said [2]string
		for i, p := range both {
			several, ok := p.(locks.SetProvider)
			if !ok {
				t.Fatalf("%T has no sets", p)
			}
			got, err := step.do(several)
			if (step.code == "") != (err == nil) || err != nil && !errors.Is(err, step.code) {
				t.Errorf("%s: %v, want %q", step.name, err, step.code)
			}
			if e, ok := errors.AsType[*contracts.Error](err); ok {
				e.RequestID = "" // of the exchange
				got = e.Problem()
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			said[i] = string(text)
		}
		if said[0] != said[1] && step.code != contracts.CodeInvalidArgument { // which on a store is the field's error itself
			t.Errorf("%s:\nover HTTP %s\non a store %s", step.name, said[0], said[1])
		}
	}
}

// TestHandleOfSeveral: the context of the acquire bounds that alone, and locks that no one has any more expire.
func TestHandleOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forgotten := make(chan locks.Event, 1)
		c, err := direct.NewLocks(docstore.NewMemory(nil), "default", &locks.Options{Observe: func(e locks.Event) {
			if e.What == locks.Forgotten {
				forgotten <- e
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		acquire := func() *locks.Set {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := c.LockAll(ctx, []string{"a", "b"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := acquire()
		time.Sleep(5 * time.Minute)
		if err := locks.Check(s.Context()); err != nil {
			t.Errorf("after the context of the acquire: %v", err)
		}
		if err := s.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		acquire()
		for {
			runtime.GC()
			select {
			case e := <-forgotten:
				if e.Key != "a, b" || e.Token == 0 {
					t.Errorf("the event is %+v", e)
				}
			case <-time.After(10 * time.Second):
				continue
			}
			break
		}
		if s, err = c.LockAll(t.Context(), []string{"a"}, nil); err != nil { // when they have expired
			t.Fatal(err)
		}
		if err := s.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
