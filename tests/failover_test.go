package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// failoverTTL is the lease of the members whose failover is measured: the default.
const failoverTTL = 10 * time.Second

// failovers are how long identities were not served after their members died.
type failovers []time.Duration

func (f failovers) p50() time.Duration  { slices.Sort(f); return f[len(f)/2] }
func (f failovers) most() time.Duration { return slices.Max(f) }

// mortal is a store of a process that may die: from then on nothing comes from it.
type mortal struct {
	docstore.Store

	dead atomic.Bool
}

func (m *mortal) err() error {
	if m.dead.Load() {
		// final, so that what belongs to it ends
		return fmt.Errorf("%w: the process has ended", contracts.CodePermissionDenied)
	}
	return nil
}

// Get implements [docstore.Store].
func (m *mortal) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := m.err(); err != nil {
		return docstore.Snapshot{}, err
	}
	return m.Store.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (m *mortal) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := m.err(); err != nil {
		return docstore.Result{}, err
	}
	return m.Store.Write(ctx, writes...)
}

// List implements [docstore.Store].
func (m *mortal) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := m.err(); err != nil {
		return docstore.Page{}, err
	}
	return m.Store.List(ctx, q)
}

// noting is a host that says when it serves what.
type noting chan cluster.Activation

// Activate implements [cluster.Host].
func (h noting) Activate(_ context.Context, a cluster.Activation) error {
	h <- a
	return nil
}

// Deactivate implements [cluster.Host].
func (noting) Deactivate(context.Context, cluster.Activation, error) {}

// failover lets a member die, at any point between two heartbeats, and measures until another one serves its room. The
// caller asks twenty times a second; with visits it connects to the member, otherwise that learns of the claim from the
// events. It runs in a bubble.
func failover(t *testing.T, random *rand.Rand, open func() docstore.Store, visits bool) time.Duration {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	provider := func(s docstore.Store) cluster.Provider {
		return direct.Cluster(placement.New(s, nil), placement.Cluster{Tenant: "acme", Name: "chat"})
	}
	members, lives, served := map[string]*cluster.Member{}, map[string]*mortal{}, noting(make(chan cluster.Activation, 10))
	for _, name := range []string{"ann", "bob"} {
		lives[name] = &mortal{Store: open()}
		m, err := cluster.NewMember(provider(lives[name]), name, served,
			&cluster.Options{Kinds: []string{"room"}, Partitions: 16, TTL: failoverTTL})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		members[name] = m
		defer m.Stop(context.WithoutCancel(ctx))
	}
	l := cluster.NewLocator(provider(open()), nil)
	if err := l.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	id := cluster.Identity{Kind: "room", ID: "lobby"}
	first, err := l.Activate(ctx, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := <-served; a.Token != first.Token {
		t.Fatalf("%+v serves, %+v was found", a, first)
	}
	// in the bubble: it dies at any time between two heartbeats
	time.Sleep(failoverTTL + time.Duration(random.Int64N(int64(failoverTTL))))
	died := time.Now()
	lives[first.Member].dead.Store(true)
	for {
		select {
		case a := <-served:
			if a.Token <= first.Token {
				t.Fatalf("token %d after %d", a.Token, first.Token)
			}
			return time.Since(died)
		case <-time.After(50 * time.Millisecond):
		}
		asking, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		where, err := l.Activate(asking, id, nil)
		if visits && err != nil {
			where, err = l.Locate(asking, id, nil) // it is claimed: whose is it?
		}
		if err == nil && where.Member == first.Member {
			l.Forget(where) // no one is there
		} else if err == nil && visits {
			_, _ = members[where.Member].Serve(asking, id, nil)
		}
		cancel()
	}
}

// TestFailover: after its member died, an identity is served by another within the lease and a little, in virtual time,
// which is exact: by the components of package cluster, and on DynamoDB by callers that have just begun and whose
// clocks are apart.
func TestFailover(t *testing.T) {
	t.Parallel()
	memory := func(*testing.T, *rand.Rand) func() docstore.Store {
		s := docstore.NewMemory(nil)
		return func() docstore.Store { return s }
	}
	for _, c := range []struct {
		name      string
		seeds     int
		open      func(*testing.T, *rand.Rand) func() docstore.Store
		visits    bool
		p50, most time.Duration
	}{
		{"a store with a clock, callers go to the member", suite.AtDepth(100, 500), memory, true, 8500 * time.Millisecond,
			10500 * time.Millisecond},
		{"a store with a clock, members follow events", suite.AtDepth(100, 500), memory, false, 9500 * time.Millisecond,
			11500 * time.Millisecond},
		{"DynamoDB, clocks 0.99 s off", suite.AtDepth(10, 100), func(t *testing.T, r *rand.Rand) func() docstore.Store {
			client := dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper())
			// begin anywhere in a second: a Date header has whole ones
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			n := 0
			return func() docstore.Store {
				off := []time.Duration{990 * time.Millisecond, -990 * time.Millisecond, 0}[n%3]
				n++
				return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: time.Second,
					Now: func() time.Time { return time.Now().Add(off) }})
			}
		}, true, 9500 * time.Millisecond, 11500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var all failovers
			for seed := range c.seeds {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(uint64(seed), 0))
					all = append(all, failover(t, random, c.open(t, random), c.visits))
				})
			}
			p50, most := all.p50(), all.most()
			t.Logf("ttl %v, %d failovers: p50 %.2f s, at most %.2f s", failoverTTL, len(all), p50.Seconds(), most.Seconds())
			if most > c.most || len(all) >= 50 && p50 > c.p50 {
				t.Errorf("want p50 %v, at most %v", c.p50, c.most)
			}
		})
	}
}

// BenchmarkFailover prints how long an identity is not served after its member died, at a ttl of 10 s. The time is that
// of a clock which the benchmark moves, so that it is exact; it counts from the death, at any point between two
// heartbeats, until another member has reported that it serves. A caller claims ten times a second.
func BenchmarkFailover(b *testing.B) {
	var all failovers
	for seed := uint64(0); b.Loop(); seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			all = append(all, protocolFailover(b, random))
		}
	}
	b.ReportMetric(all.p50().Seconds(), "p50-s")
	b.ReportMetric(all.most().Seconds(), "max-s")
}

// protocolFailover is [failover] by the commands alone.
func protocolFailover(b *testing.B, random *rand.Rand) time.Duration {
	b.Helper()
	const tick, every = 100 * time.Millisecond, failoverTTL / 3
	clock := suite.NewClock()
	s := placement.New(docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}), &placement.Options{Now: clock.Now})
	c, id := placement.Cluster{Tenant: "acme", Name: "chat"}, placement.Identity{Kind: "room", ID: "lobby"}
	type beating struct {
		placement.Incarnation

		seq  int64
		next time.Time
	}
	lives := map[string]*beating{}
	for _, name := range []string{"ann", "bob"} {
		clock.Advance(time.Duration(random.Int64N(int64(every))))
		o, err := s.Join(b.Context(), placement.Join{
			Cluster: c, Member: name, RequestID: name, TTL: failoverTTL, Partitions: 16,
			Offer: placement.Offer{Kinds: []string{"room"}},
		})
		if err != nil || o.Code != placement.OK {
			b.Fatalf("%+v, %v", o, err)
		}
		lives[name] = &beating{Incarnation: o.Incarnation, next: clock.Now().Add(every)}
	}
	claims := 0
	claim := func() placement.Outcome {
		claims++
		o, err := s.Claim(b.Context(), placement.Claim{Cluster: c, Identity: id, RequestID: strconv.Itoa(claims)})
		if err != nil {
			b.Fatal(err)
		}
		return o
	}
	activate := func(a placement.Activation) {
		hold := placement.Hold{Cluster: c, Identity: id, Owner: a.Owner, Token: a.Token}
		if o, err := s.Activated(b.Context(), placement.Activated{Hold: hold}); err != nil || o.Code != placement.OK {
			b.Fatalf("%+v, %v", o, err)
		}
	}
	first := claim().Activation
	activate(first)
	dies := clock.Now().Add(failoverTTL + time.Duration(random.Int64N(int64(failoverTTL))))
	for dead := false; ; {
		for _, m := range lives {
			if !clock.Now().Before(m.next) {
				m.seq++
				m.next = m.next.Add(every)
				o, err := s.Heartbeat(b.Context(), placement.Heartbeat{Cluster: c, Incarnation: m.Incarnation, Seq: m.seq,
					TTL: failoverTTL})
				if err != nil || o.Code != placement.OK {
					b.Fatalf("%+v, %v", o, err)
				}
			}
		}
		if !dead && !clock.Now().Before(dies) {
			delete(lives, first.Owner.Member)
			dies, dead = clock.Now(), true
		}
		clock.Advance(tick)
		if !dead {
			continue
		}
		if o := claim(); o.Code == placement.OK {
			activate(o.Activation)
			return clock.Now().Sub(dies)
		}
	}
}
