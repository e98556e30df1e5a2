package suite

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Placements proves that identities can be placed on a store: programs of members and activations agree with an oracle,
// and what concurrent callers see of one identity can be explained one command at a time (I1 to I9). newStore returns
// an empty store with the given clock, and closes it with the test.
func Placements(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	placementsProof.of(t, newStore)
	t.Run("what the dead had can be had", func(t *testing.T) { freePlacements(t, newStore) })
	t.Run("states are kept", func(t *testing.T) { keptStates(t, newStore) })
	t.Run("states of an earlier version are kept", func(t *testing.T) { earlierStates(t, newStore) })
	t.Run("what comes late has no effect", func(t *testing.T) { lateRequests(t, newStore, LatePlacements) })
	t.Run("round trips", func(t *testing.T) { placementRequests(t, newStore) })
}

// PlacementsChecksBite shows that the checks of [Placements] notice faults.
func PlacementsChecksBite(t *testing.T) {
	t.Helper()
	placementsProof.bites(t)
	for name, plant := range placementRaces {
		t.Run("histories/"+name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			store := plant(docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}))
			const histories = 1000
			for seed := range uint64(histories) {
				if err := PlacementHistory(t.Context(), store, clock, fmt.Sprint("history ", seed), seed); err != nil {
					return
				}
			}
			t.Errorf("%d histories did not notice", histories)
		})
	}
}

var placementsProof = proof[PlacementStep]{PlacementProgram, RunPlacement, PlacementHistory, placementMutants,
	placementProgramMutants, nil}

// change is a store in front of which some writes are changed.
func change(s docstore.Store, f func(docstore.Write) docstore.Write) docstore.Store {
	return mutant{through{s}, func(_ context.Context, w docstore.Write) docstore.Write { return f(w) }}
}

// leaveOut takes comparisons with a field out of the conditions of writes to a kind.
func leaveOut(s docstore.Store, kind, field string) docstore.Store {
	return change(s, func(w docstore.Write) docstore.Write {
		if w.Key.Kind == kind && w.If != nil {
			w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
				if eq, ok := c.(docstore.Eq); ok && eq.Field == field {
					return docstore.All{}
				}
				if le, ok := c.(docstore.LE); ok && le.Field == field {
					return docstore.All{}
				}
				return c
			})
		}
		return w
	})
}

// placementMutants are faults that programs and histories notice.
var placementMutants = map[string]func(docstore.Store) docstore.Store{
	"an unfenced write": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if _, state := w.Set["state"]; state {
				w.If = rewrite(w.If, func(c docstore.Cond) docstore.Cond {
					if eq, ok := c.(docstore.Eq); ok && (eq.Field == "token" || eq.Field == "member" || eq.Field == "incarnation") {
						return docstore.All{}
					}
					return c
				})
			}
			return w
		})
	},
}

// placementRaces are faults that only concurrent callers meet.
var placementRaces = map[string]func(docstore.Store) docstore.Store{
	"the member is not part of the claim": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if w.Key.Kind == "placement_members" && len(w.Set) == 0 {
				w.If = nil
			}
			return w
		})
	},
	"a blind put": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if _, grant := w.Set["claimed_at"]; grant {
				w.If = nil
			}
			return w
		})
	},
}

// PlacementMutants are the faults by which two activations of one identity could take effect at a time, for other tests
// that must notice them.
var PlacementMutants = func() map[string]func(docstore.Store) docstore.Store {
	all := maps.Clone(placementMutants)
	maps.Copy(all, placementRaces)
	return all
}()

// placementProgramMutants are faults of commands that histories do not have.
var placementProgramMutants = map[string]func(docstore.Store) docstore.Store{
	"a heartbeat counted twice": func(s docstore.Store) docstore.Store {
		return leaveOut(s, "placement_member_leases", "seq")
	},
	"the incarnation not compared": func(s docstore.Store) docstore.Store {
		return leaveOut(s, "placement_member_leases", "incarnation")
	},
	"a state of any version replaced": func(s docstore.Store) docstore.Store {
		return leaveOut(s, placement.ActivationKind, "state_version")
	},
	"a change without its event": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if w.Key.Kind == "placement_events" && w.Set["to"] == docstore.String("DEAD") {
				w.Set = map[string]docstore.Value{"at": docstore.Now, "to": docstore.String("")}
			}
			return w
		})
	},
	"freed without an event": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if w.Key.Kind == "placement_events" && w.Set["reason"] == docstore.String("its owner is gone") {
				w.Set = map[string]docstore.Value{"at": docstore.Now, "to": docstore.String("")}
			}
			return w
		})
	},
	"removed at once": func(s docstore.Store) docstore.Store {
		return impatient{through{s}}
	},
	"an end that stays": func(s docstore.Store) docstore.Store {
		return change(s, func(w docstore.Write) docstore.Write {
			if w.Key.Kind == "placement_member_leases" {
				w.Unset = nil
			}
			return w
		})
	},
	"claims forgotten": func(s docstore.Store) docstore.Store { return amnesia(s, "c") },
	"states forgotten": func(s docstore.Store) docstore.Store { return amnesia(s, "w") },
	"joins forgotten":  func(s docstore.Store) docstore.Store { return amnesia(s, "j") },
	"offers forgotten": func(s docstore.Store) docstore.Store { return amnesia(s, "o") },
}

// impatient is a store that shows ended activations to those who look through them as if they had ended long ago.
type impatient struct{ through }

func (s impatient) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	p, err := s.through.List(ctx, q)
	p.At = p.At.Add(oracleRetention + oracleOverdue)
	return p, err
}

func (s impatient) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	for i, w := range writes {
		if w.Delete && w.Key.Kind == placement.ActivationKind {
			writes[i].If = docstore.Has{Field: "phase"}
		}
	}
	return s.through.Write(ctx, writes...)
}

// amnesia keeps requests of a kind from being remembered.
func amnesia(s docstore.Store, kind string) docstore.Store {
	return change(s, func(w docstore.Write) docstore.Write {
		set := map[string]docstore.Value{}
		for f, v := range w.Set {
			if len(f) != 2 || !strings.HasPrefix(f, kind) {
				set[f] = v
			}
		}
		w.Set = set
		return w
	})
}

// placementRequests counts calls of the store: a placement by a known epoch costs none, a lookup one, a claim one read
// and one write of one step, what an owner does one write.
func placementRequests(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	store := &Watched{Store: newStore(t, clock.Now)}
	want := map[string]string{
		"placed by a known epoch": "[]", "looked up": "[Get]", "claimed": "[Get Write]", "claimed again": "[Get]",
		"activated": "[Write]",
		"state":     "[Write]", "deactivated": "[Write]", "heartbeat": "[Write]", "topology": "[Get]",
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
