package suite

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// keptStates asks for how long a store has what owners stored, once no one has the identity any more: for ever, unless
// the setting for states says how long, and then up to its last millisecond. What has no state, or an empty one, is
// removed when the retention is over (PLC-LOCK-4).
func keptStates(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	const retention = placement.MinRetention
	for name, c := range map[string]struct {
		states time.Duration // the setting
		most   time.Duration // for how long after it became free the state is there; 0 is for ever
	}{
		"for ever":           {0, 0},
		"for a time":         {3 * retention, 3 * retention},
		"not for as long":    {time.Minute, retention}, // as what has no state
		"for a long time":    {1000 * 24 * time.Hour, 1000 * 24 * time.Hour},
		"for more than ever": {150 * 365 * 24 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewClock()
			store := newStore(t, clock.Now)
			s := placement.New(store, &placement.Options{Now: clock.Now, Retention: retention, StateRetention: c.states})
			cluster := placement.Cluster{Tenant: "acme", Name: "states"}
			rooms := placement.Offer{Kinds: []string{"room"}}
			if o, err := s.Join(t.Context(), placement.Join{Cluster: cluster, Member: "ann", RequestID: "j", TTL: time.Hour,
				Partitions: placement.MinPartitions, Offer: rooms}); err != nil || o.Code != placement.OK {
				t.Fatal(o, err)
			}
			ok := func(o placement.Outcome, err error) placement.Outcome {
				t.Helper()
				if err != nil || o.Code != placement.OK {
					t.Fatalf("%+v, %v", o, err)
				}
				return o
			}
			claim := func(id string) placement.Hold {
				t.Helper()
				a := ok(s.Claim(t.Context(), placement.Claim{Cluster: cluster, Identity: placement.Identity{Kind: "room", ID: id},
					RequestID: "c"})).Activation
				return placement.Hold{Cluster: cluster, Identity: a.Identity, Owner: a.Owner, Token: a.Token}
			}
			storeState := func(h placement.Hold, data string) {
				t.Helper()
				ok(s.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "w", Data: []byte(data)}))
			}
			bare, empty, ended, failed := claim("bare"), claim("empty"), claim("ended"), claim("failed")
			orphan := claim("orphan") // its owner dies with it
			storeState(empty, "")
			for _, h := range []placement.Hold{ended, failed, orphan} {
				storeState(h, "chairs")
			}
			for _, h := range []placement.Hold{bare, empty, ended} {
				ok(s.Deactivate(t.Context(), placement.Deactivate{Hold: h}))
			}
			ok(s.Fail(t.Context(), placement.Fail{Hold: failed, Reason: "no disk"}))
			clock.Advance(time.Hour)
			pass := func() {
				t.Helper()
				if _, err := s.Sweep(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				if p, ok := store.(docstore.Pruner); ok {
					if _, err := p.Prune(t.Context(), 1000); err != nil {
						t.Fatal(err)
					}
				}
			}
			there := func() string {
				t.Helper()
				p, err := s.Snapshot(t.Context(), cluster, placement.Query{})
				if err != nil {
					t.Fatal(err)
				}
				var ids strings.Builder
				for _, a := range p.Activations {
					if a.Phase != placement.Free || string(a.State) != "chairs" {
						t.Errorf("%s is %s with %q", a.ID, a.Phase, a.State)
					}
					ids.WriteString(a.ID + " ")
				}
				return ids.String()
			}
			pass() // evicts the member, frees the orphan, and removes what has no state: the retention is an hour
			const all = "ended failed orphan "
			want := all
			if c.most == retention {
				want = there() // an hour after, a store may have removed what it was told to keep for so long
			}
			if got := there(); got != want {
				t.Fatalf("after an hour %q, want %q", got, want)
			}
			if c.most == 0 {
				for years := range 3 {
					clock.Advance(40 * 365 * 24 * time.Hour / 2)
					if pass(); there() != all {
						t.Fatalf("after %d years %q", 20*(years+1), there())
					}
				}
				// it is what the next owner goes on with
				if o, err := s.Join(t.Context(), placement.Join{Cluster: cluster, Member: "bob", RequestID: "j",
					Offer: rooms}); err != nil || o.Code != placement.OK {
					t.Fatal(o, err)
				}
				o := ok(s.Claim(t.Context(), placement.Claim{Cluster: cluster, Identity: ended.Identity, RequestID: "again"}))
				if string(o.Activation.State) != "chairs" || o.Activation.StateVersion != 1 || o.Activation.Token <= ended.Token {
					t.Errorf("the next owner has %q, version %d", o.Activation.State, o.Activation.StateVersion)
				}
				return
			}
			if c.most > retention {
				clock.Advance(c.most - time.Hour - time.Millisecond)
				if pass(); there() != all {
					t.Fatalf("a millisecond before its end: %q, want %q", there(), all)
				}
			}
			// two days late at the most, where the store removes nothing by itself
			clock.Advance(time.Hour + 49*time.Hour)
			pass()
			if got := there(); got != "" {
				t.Errorf("after %v: %q", c.most, got)
			}
		})
	}
}

// statesOfAnotherSetting asks what becomes of a state that a program with another setting has told the store to remove
// after the retention: the next sweep of one that keeps states for ever has the store keep it.
func statesOfAnotherSetting(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	other := placement.New(store, &placement.Options{Now: clock.Now, StateRetention: time.Hour})
	s := placement.New(store, &placement.Options{Now: clock.Now})
	cluster := placement.Cluster{Tenant: "acme", Name: "settings"}
	if o, err := s.Join(t.Context(), placement.Join{Cluster: cluster, Member: "ann", RequestID: "j",
		Offer: placement.Offer{Kinds: []string{"room"}}}); err != nil || o.Code != placement.OK {
		t.Fatal(o, err)
	}
	for _, state := range []string{"", "chairs"} {
		o, err := other.Claim(t.Context(), placement.Claim{Cluster: cluster,
			Identity: placement.Identity{Kind: "room", ID: "of " + state}, RequestID: "c"})
		if err != nil || o.Code != placement.OK {
			t.Fatal(o, err)
		}
		h := placement.Hold{Cluster: cluster, Identity: o.Activation.Identity, Owner: o.Activation.Owner,
			Token: o.Activation.Token}
		if o, err = other.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "w",
			Data: []byte(state)}); err != nil || o.Code != placement.OK {
			t.Fatal(o, err)
		}
		if o, err = other.Deactivate(t.Context(), placement.Deactivate{Hold: h}); err != nil || o.Code != placement.OK {
			t.Fatal(o, err)
		}
	}
	for range 4 {
		if _, err := s.Sweep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if p, ok := store.(docstore.Pruner); ok {
			if _, err := p.Prune(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(placement.DefaultRetention)
	}
	p, err := s.Snapshot(t.Context(), cluster, placement.Query{})
	if err != nil || len(p.Activations) != 1 || string(p.Activations[0].State) != "chairs" {
		t.Errorf("%+v, %v", p.Activations, err)
	}
}
