package election_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// network is a provider that some owners cannot reach.
type network struct {
	locks.Provider
	down sync.Map // of owners
	gets atomic.Int32
}

var errNetwork = errors.New("no route to host")

func (n *network) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	if _, down := n.down.Load(r.OwnerID); down {
		return contracts.Lease{}, errNetwork
	}
	return n.Provider.Acquire(ctx, key, r)
}

func (n *network) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	if _, down := n.down.Load(r.OwnerID); down {
		return contracts.Lease{}, errNetwork
	}
	return n.Provider.Renew(ctx, key, r)
}

func (n *network) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	if _, down := n.down.Load(r.OwnerID); down {
		return contracts.EndedLease{}, errNetwork
	}
	return n.Provider.Release(ctx, key, r)
}

func (n *network) Get(ctx context.Context, key string) (contracts.Lock, error) {
	n.gets.Add(1)
	if _, down := n.down.Load("all"); down {
		return contracts.Lock{}, errNetwork
	}
	return n.Provider.Get(ctx, key)
}

func open(t *testing.T) *network {
	t.Helper()
	return &network{Provider: direct.Locks(lock.New(docstore.NewMemory(nil), nil), "acme")}
}

func (n *network) candidate(t *testing.T, name string, o *locks.LockOptions) *election.Election {
	t.Helper()
	c, err := locks.New(n, &locks.Options{Owner: name})
	if err != nil {
		t.Fatal(err)
	}
	return election.New(c, "scheduler", o)
}

// TestOneLeader: while leaders resign, are cut off and come back, there is one at a time, with rising tokens, and there
// is a next one soon.
func TestOneLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var leader string
		var token int64
		var terms []string
		var all sync.WaitGroup
		for i := range 3 {
			name := fmt.Sprint("node-", i)
			e := n.candidate(t, name, nil)
			all.Go(func() {
				for ctx.Err() == nil {
					err := e.Lead(ctx, func(ctx context.Context, l *election.Leader) error {
						mu.Lock()
						if leader != "" || l.Token() <= token {
							t.Errorf("%s leads with %d while %q does with %d", name, l.Token(), leader, token)
						}
						leader, token, terms = name, l.Token(), append(terms, name)
						cut := len(terms)%2 == 1
						mu.Unlock()
						defer func() {
							mu.Lock()
							defer mu.Unlock()
							leader = ""
						}()
						if cut { // from the network
							n.down.Store(name, true)
							time.AfterFunc(time.Minute, func() { n.down.Delete(name) })
							<-ctx.Done()
							if !errors.Is(context.Cause(ctx), locks.ErrLost) {
								t.Errorf("the cause is %v", context.Cause(ctx))
							}
							return ctx.Err()
						}
						select {
						case <-time.After(40 * time.Second):
						case <-ctx.Done():
						}
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		time.Sleep(10 * time.Minute)
		cancel()
		all.Wait()
		if len(terms) < 15 || len(terms) > 20 { // each pair takes 27 + 3 and 40 s, and a poll
			t.Errorf("%d terms: %v", len(terms), terms)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestCampaign: the next one is elected when the leader resigns.
func TestCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		begin := time.Now()
		first, err := n.candidate(t, "ann", nil).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			if err := first.Resign(context.Background()); err != nil {
				t.Error(err)
			}
		})
		second, err := n.candidate(t, "bob", nil).Campaign(t.Context())
		if took := time.Since(begin); err != nil || took < time.Minute || took > time.Minute+2*time.Second ||
			second.Token() <= first.Token() {
			t.Errorf("after %v: %v", took, err)
		}
		if !errors.Is(context.Cause(first.Context()), locks.ErrUnlocked) || second.Context().Err() != nil {
			t.Errorf("the first: %v, the second: %v", context.Cause(first.Context()), second.Context().Err())
		}
		_, err = n.candidate(t, "eve", &locks.LockOptions{Wait: new(time.Duration)}).Campaign(t.Context())
		if !errors.Is(err, contracts.CodeLockHeld) {
			t.Errorf("without waiting: %v", err)
		}
		if err := second.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLeadEnds: with what lead returns while it leads, with the cause of ctx, or with an error that would come again;
// and a provider that is away is waited for.
func TestLeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		errWork := errors.New("disk full")
		e := n.candidate(t, "ann", nil)
		begin := time.Now()
		n.down.Store("ann", true)
		time.AfterFunc(time.Minute, func() { n.down.Delete("ann") })
		if err := e.Lead(t.Context(), func(context.Context, *election.Leader) error { return errWork }); !errors.Is(err,
			errWork) {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begin); took < time.Minute || took > 80*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := e.Lead(ctx, func(ctx context.Context, _ *election.Leader) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if err := n.candidate(t, "bob", &locks.LockOptions{TTL: time.Hour * 24, Metadata: map[string]string{"": ""}}).Lead(
			t.Context(), nil); !errors.Is(err, contracts.CodeInvalidArgument) {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(time.Minute)
	})
}

// TestLeadLosesAnotherLock: an error about another lock, which the leader held as well, says nothing about its
// leadership.
func TestLeadLosesAnotherLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := 0
		inner := fmt.Errorf("a lock of the leader: %w", locks.ErrLost)
		err := open(t).candidate(t, "node", nil).Lead(t.Context(), func(context.Context, *election.Leader) error {
			if terms++; terms > 1 {
				return nil
			}
			return inner
		})
		if !errors.Is(err, inner) || terms != 1 {
			t.Errorf("%v after %d terms", err, terms)
		}
	})
}

// TestObserve: each change is seen, with few requests, and an outage is told once.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		watched := n.candidate(t, "eve", nil)
		go func() {
			defer close(done)
			for l, err := range watched.Observe(ctx) {
				if err != nil {
					l.Owner = "?"
				}
				seen = append(seen, l.Owner+" "+l.Metadata["zone"])
			}
		}()
		time.Sleep(10 * time.Second)
		l, err := n.candidate(t, "ann", &locks.LockOptions{Metadata: map[string]string{"zone": "b"}}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if gets := n.gets.Load(); gets > 30 {
			t.Errorf("%d requests in three minutes", gets)
		}
		n.down.Store("all", true)
		time.Sleep(time.Minute)
		n.down.Delete("all")
		time.Sleep(time.Minute)
		if err := l.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		if got, want := fmt.Sprintf("%q", seen), `[" " "ann b" "? " "ann b" " "]`; got != want {
			t.Errorf("seen %s, want %s", got, want)
		}
		for range watched.Observe(t.Context()) {
			break
		}
	})
}

// TestLeaderThatDied: who leads no more because its lease has expired is no leader, although no one has followed it.
func TestLeaderThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		eve := n.candidate(t, "eve", nil)
		leader := func(want string) {
			t.Helper()
			if l, err := eve.Leader(t.Context()); err != nil || l.Owner != want {
				t.Errorf("%+v, %v, want %q", l, err, want)
			}
		}
		leader("")
		if _, err := n.candidate(t, "ann", nil).Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.down.Store("ann", true)
		time.Sleep(locks.DefaultTTL - time.Millisecond)
		leader("ann")
		time.Sleep(time.Millisecond)
		leader("")
		time.Sleep(time.Minute)
	})
}

// TestObserveTellsEachOutage: also the second one, and soon: what went well in between counts.
func TestObserveTellsEachOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		outages := 0
		go func() {
			for _, err := range n.candidate(t, "eve", nil).Observe(ctx) {
				if err != nil {
					outages++
				}
			}
		}()
		for i := range 3 {
			time.Sleep(time.Minute)
			n.down.Store("all", true)
			time.Sleep(time.Minute)
			n.down.Delete("all")
			if synctest.Wait(); outages != i+1 {
				t.Errorf("%d outages were told after %d", outages, i+1)
			}
		}
	})
}
