package awsdynamodb_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestPlacementWithClocksApart: members take identities over from members that died, by callers whose clocks are as far
// apart as they may be. No one is evicted before its lease ends as it counts, tokens rise, and no command asks the
// store again and again.
func TestPlacementWithClocksApart(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 500 * time.Millisecond, 990 * time.Millisecond} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				synctest.Test(t, func(t *testing.T) { placementClocksApart(t, off, seed) })
			}
		})
	}
}

// placementClocksApart runs in a bubble: sleeping moves the clock and takes no time.
func placementClocksApart(t *testing.T, off time.Duration, seed uint64) {
	const ttl = 4 * time.Second
	random := rand.New(rand.NewPCG(seed, 0))
	server := dynamodbtest.New(nil)
	client := dialThrough(slowly{server.RoundTripper(), random})
	// begin anywhere in a second: a Date header has whole ones
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	// Each command comes from a process that has just begun, and knows its clock only roughly.
	service := func(i int) *placement.Service {
		o := []time.Duration{off, -off, 0}[i%3]
		return placement.New(openWith(t, client, awsdynamodb.Options{
			MaxSkew: time.Second, Now: func() time.Time { return time.Now().Add(o) },
		}), nil)
	}
	var (
		cluster = placement.Cluster{Tenant: "acme", Name: "prod"}
		id      = placement.Identity{Kind: "room", ID: "lobby"}
		token   int64
		ends    time.Time // of the owner's lease, as it counts
		owner   placement.Incarnation
	)
	// few reports a command that took more requests than it can need.
	few := func(step string, do func() error) {
		t.Helper()
		server.ResetCounts()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		sum := 0
		for _, n := range server.Requests() {
			sum += n
		}
		if sum > 12 {
			t.Errorf("%s took %v", step, server.Requests())
		}
	}
	for life := range 6 {
		mine, other := service(life), service(life+1)
		var o placement.Outcome
		few("join", func() error {
			begin := time.Now()
			m, err := mine.Join(t.Context(), placement.Join{
				Cluster: cluster, Member: fmt.Sprint("member-", life), RequestID: "j", TTL: ttl,
				Offer: placement.Offer{Kinds: []string{"room"}},
			})
			if err == nil && m.Code != placement.OK {
				t.Fatalf("join: %+v", m)
			}
			owner, ends = m.Incarnation, begin.Add(ttl)
			return err
		})
		for tries := 0; ; tries++ {
			few("claim", func() (err error) {
				o, err = other.Claim(t.Context(), placement.Claim{
					Cluster: cluster, Identity: id, RequestID: fmt.Sprint("c", life, tries), LockTTL: 2 * time.Second,
				})
				return err
			})
			if o.Code == placement.OK && o.Activation.Owner == owner {
				break
			}
			// The one before is not evicted yet, or had got it in its last moments.
			if tries > 200 || o.Code != placement.Exists && o.Code != placement.Locking && o.Code != placement.OK {
				t.Fatalf("life %d: %+v", life, o)
			}
			if o.Code == placement.OK {
				token = o.Activation.Token
			}
			beat := placement.Heartbeat{Cluster: cluster, Incarnation: owner, Seq: int64(tries + 1), TTL: ttl}
			begin := time.Now()
			if m, err := mine.Heartbeat(t.Context(), beat); err != nil || m.Code != placement.OK {
				t.Fatalf("heartbeat: %+v, %v", m, err)
			}
			ends = begin.Add(ttl)
			time.Sleep(100 * time.Millisecond)
		}
		if o.Activation.Token <= token {
			t.Errorf("token %d after %d", o.Activation.Token, token)
		}
		token = o.Activation.Token
		hold := placement.Hold{Cluster: cluster, Identity: id, Owner: owner, Token: token}
		few("activated", func() error {
			a, err := mine.Activated(t.Context(), placement.Activated{Hold: hold})
			if err == nil && a.Code != placement.OK {
				t.Errorf("activated: %+v", a)
			}
			return err
		})
		// It dies, and others look for it.
		for died := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			var p placement.Placement
			anyone := service(random.IntN(3))
			few("lookup", func() (err error) {
				p, err = anyone.Lookup(t.Context(), placement.Lookup{Cluster: cluster, Identity: id})
				return err
			})
			if p.Owner == nil {
				if time.Now().Before(ends) {
					t.Errorf("evicted %v before its lease ended as it counts", time.Until(ends))
				}
				break
			}
			if time.Since(died) > ttl+10*time.Second {
				t.Fatalf("it is not evicted %v after it died", time.Since(died))
			}
		}
	}
}
