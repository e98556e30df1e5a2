package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Placements proves that identities can be placed on a store: programs of members and activations agree with an oracle
// (I1 to I9). newStore returns an empty store with the given clock, and closes it with the test.
func Placements(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	placementsProof.of(t, newStore)
	t.Run("what the dead had can be had", func(t *testing.T) { freePlacements(t, newStore) })
	t.Run("states are kept", func(t *testing.T) { keptStates(t, newStore) })
	t.Run("states of another setting are kept", func(t *testing.T) { statesOfAnotherSetting(t, newStore) })
	t.Run("what comes late has no effect", func(t *testing.T) { lateRequests(t, newStore, LatePlacements) })
	t.Run("round trips", func(t *testing.T) { placementRequests(t, newStore) })
}

var placementsProof = proof[PlacementStep]{program: PlacementProgram, run: RunPlacement}

// placementRequests counts calls of the store: a placement by a known epoch costs none, a lookup one, a claim one read
// and one write of one step, what an owner does one write.
func placementRequests(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	store := &Watched{Store: newStore(t, clock.Now)}
	want := map[string]string{
		"placed by a known epoch": "[]", "looked up": "[Get]", "claimed": "[Get Write]", "claimed again": "[Get]",
		"activated": "[Write]",
		"state":     "[Write]", "first alarm": "[Get Write Write]", "alarm": "[Write]", "alarm for later": "[Write]",
		"alarm for earlier": "[Write]", "looked for an alarm for later": "[List List List List Get Get Write]",
		"state with an alarm": "[Write]", "state with an alarm for later": "[Write]", "state, alarm cleared": "[Write]",
		"looked for alarms": "[List List List List Get Get Write]", "looked for alarms, none due": "[List List]",
		"alarm cleared": "[Write]", "deactivated": "[Write]", "heartbeat": "[Write]", "topology": "[Get]",
		"events, none new": "[List]", "joined": "[Get Write]",
	}
	PlacementSteps(t, store, clock, store.Forget, func(step string) {
		if got := fmt.Sprint(store.Requests()); got != want[step] {
			t.Errorf("%s: calls %s, want %s", step, got, want[step])
		}
	})
}

// PlacementSteps lets one member join and one identity live, and calls before and after around each step, to count what
// it costs.
func PlacementSteps(t *testing.T, store docstore.Store, clock *Clock, before func(), after func(step string)) {
	t.Helper()
	s := placement.New(store, &placement.Options{Now: clock.Now, Sleep: clock.Sleep})
	cluster, id := placement.Cluster{Tenant: "acme", Name: "prod"}, roomOf("lobby")
	joined, err := s.Join(t.Context(), placement.Join{
		Cluster: cluster, Member: "ann", RequestID: "j", Offer: placement.Offer{Kinds: []string{id.Kind}},
	})
	if err != nil || joined.Code != placement.OK {
		t.Fatalf("%+v, %v", joined, err)
	}
	var hold placement.Hold
	claim := func(request string) (placement.Outcome, error) {
		return s.Claim(t.Context(), placement.Claim{Cluster: cluster, Identity: id, RequestID: request})
	}
	// change is of an alarm of a version: in so much time, over one that is known to be fired in so much; -1 clears it,
	// and 0 is not known.
	change := func(version int64, in, known time.Duration) placement.AlarmChange {
		c := placement.AlarmChange{Version: version, At: clock.Now().Add(in)}
		if in == -1 {
			c.At = time.Time{}
		}
		if known != 0 {
			c.Next = clock.Now().Add(known)
		}
		return c
	}
	alarm := func(version int64, in, known time.Duration) (placement.Outcome, error) {
		return s.SetAlarm(t.Context(), placement.SetAlarm{Hold: hold, AlarmChange: change(version, in, known)})
	}
	state := func(of, version int64, in, known time.Duration) (placement.Outcome, error) {
		c := change(version, in, known)
		return s.WriteState(t.Context(), placement.WriteState{Hold: hold, RequestID: fmt.Sprint("s", of), Version: of,
			Data: []byte("\x00\xff"), Alarm: &c})
	}
	for _, c := range []struct {
		step string
		do   func() (placement.Outcome, error)
		want placement.Code
	}{
		{"placed by a known epoch", func() (placement.Outcome, error) {
			if m := s.Cached(cluster).Place(id, placement.Need{}); m.Incarnation != joined.Incarnation {
				t.Errorf("placed on %v", m)
			}
			return placement.Outcome{Code: placement.OK}, nil
		}, placement.OK},
		{"looked up", func() (placement.Outcome, error) {
			p, err := s.Lookup(t.Context(), placement.Lookup{Cluster: cluster, Identity: id})
			return p.Outcome, err
		}, placement.OK},
		{"claimed", func() (placement.Outcome, error) {
			o, err := claim("c1")
			hold = placement.Hold{Cluster: cluster, Identity: id, Owner: o.Activation.Owner, Token: o.Activation.Token}
			return o, err
		}, placement.OK},
		{"claimed again", func() (placement.Outcome, error) { return claim("c2") }, placement.Locking},
		{"activated", func() (placement.Outcome, error) {
			return s.Activated(t.Context(), placement.Activated{Hold: hold})
		}, placement.OK},
		{"state", func() (placement.Outcome, error) {
			return s.WriteState(t.Context(), placement.WriteState{Hold: hold, RequestID: "s", Data: []byte("\x00\xff")})
		}, placement.OK},
		{"first alarm", func() (placement.Outcome, error) { return alarm(0, time.Hour, 0) }, placement.OK},
		{"state with an alarm", func() (placement.Outcome, error) { return state(1, 1, 2*time.Minute, 0) }, placement.OK},
		{"state with an alarm for later", func() (placement.Outcome, error) {
			return state(2, 2, 2*time.Hour, 2*time.Minute)
		}, placement.OK},
		{"state, alarm cleared", func() (placement.Outcome, error) { return state(3, 3, -1, 0) }, placement.OK},
		{"alarm", func() (placement.Outcome, error) { return alarm(4, -time.Minute, 0) }, placement.OK},
		{"alarm for later", func() (placement.Outcome, error) { return alarm(5, time.Hour, -time.Minute) }, placement.OK},
		{"looked for an alarm for later", func() (placement.Outcome, error) {
			done, err := s.FireAlarms(t.Context())
			if done.Fired != 0 || done.Removed != 1 {
				t.Errorf("%+v", done)
			}
			return placement.Outcome{Code: placement.OK}, err
		}, placement.OK},
		{"alarm for earlier", func() (placement.Outcome, error) { return alarm(6, 0, time.Hour) }, placement.OK},
		{"looked for alarms", func() (placement.Outcome, error) {
			done, err := s.FireAlarms(t.Context())
			if done.Fired != 1 {
				t.Errorf("%+v", done)
			}
			return placement.Outcome{Code: placement.OK}, err
		}, placement.OK},
		{"looked for alarms, none due", func() (placement.Outcome, error) {
			_, err := s.FireAlarms(t.Context())
			return placement.Outcome{Code: placement.OK}, err
		}, placement.OK},
		{"alarm cleared", func() (placement.Outcome, error) {
			return alarm(7, -1, 0)
		}, placement.OK},
		{"deactivated", func() (placement.Outcome, error) {
			return s.Deactivate(t.Context(), placement.Deactivate{Hold: hold})
		}, placement.OK},
		{"heartbeat", func() (placement.Outcome, error) {
			o, err := s.Heartbeat(t.Context(), placement.Heartbeat{Cluster: cluster, Incarnation: joined.Incarnation, Seq: 1})
			return placement.Outcome{Code: o.Code}, err
		}, placement.OK},
		{"topology", func() (placement.Outcome, error) {
			_, err := s.Topology(t.Context(), cluster)
			return placement.Outcome{Code: placement.OK}, err
		}, placement.OK},
		{"events, none new", func() (placement.Outcome, error) {
			page, err := s.Events(t.Context(), cluster, placement.EventQuery{After: "9999-01-01T00:00:00.000Z", Limit: 0})
			if len(page.Events) > 0 {
				t.Errorf("events %v", page.Events)
			}
			return placement.Outcome{Code: placement.OK}, err
		}, placement.OK},
		{"joined", func() (placement.Outcome, error) {
			o, err := s.Join(t.Context(), placement.Join{Cluster: cluster, Member: "bob", RequestID: "j"})
			return placement.Outcome{Code: o.Code}, err
		}, placement.OK},
	} {
		before()
		o, err := c.do()
		if err != nil || o.Code != c.want {
			t.Fatalf("%s: %+v, %v", c.step, o, err)
		}
		after(c.step)
	}
}
