package lease

import (
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestSets: a response is taken only if it is about all of the leases that were asked for, and about no other.
func TestSets(t *testing.T) {
	sound := func() contracts.LockSet {
		return contracts.LockSet{
			TenantID: "acme", OwnerID: "ci#ann", State: contracts.StateActive, ExpiresAt: "2026-01-01T00:00:30.000Z",
			RemainingMs: 30000,
			Leases:      []contracts.LockSetLease{{LockKey: "a", FencingToken: 7}, {LockKey: "b", FencingToken: 9}},
		}
	}
	asked := AskedSet{Tenant: "acme", Keys: []string{"b", "a"}, Owner: "ann"}
	known := asked
	known.Tokens = contracts.LockSetTokens{{LockKey: "b", FencingToken: 9}, {LockKey: "a", FencingToken: 7}}
	for _, a := range []AskedSet{asked, known} {
		if err := a.Granted(sound()); err != nil {
			t.Errorf("a sound response: %v", err)
		}
	}
	for name, spoil := range map[string]func(*contracts.LockSet){
		"another tenant":  func(s *contracts.LockSet) { s.TenantID = "other" },
		"no tenant":       func(s *contracts.LockSet) { s.TenantID = "" },
		"another owner":   func(s *contracts.LockSet) { s.OwnerID = "bob" },
		"no owner":        func(s *contracts.LockSet) { s.OwnerID = "" },
		"released":        func(s *contracts.LockSet) { s.State = contracts.StateReleased },
		"no end":          func(s *contracts.LockSet) { s.ExpiresAt = "" },
		"nothing remains": func(s *contracts.LockSet) { s.RemainingMs = 0 },
		"no leases":       func(s *contracts.LockSet) { s.Leases = nil },
		"one is missing":  func(s *contracts.LockSet) { s.Leases = s.Leases[:1] },
		"one more": func(s *contracts.LockSet) {
			s.Leases = append(s.Leases, contracts.LockSetLease{LockKey: "c", FencingToken: 1})
		},
		"one twice":        func(s *contracts.LockSet) { s.Leases[1] = s.Leases[0] },
		"another key":      func(s *contracts.LockSet) { s.Leases[1].LockKey = "c" },
		"no token":         func(s *contracts.LockSet) { s.Leases[1].FencingToken = 0 },
		"a negative token": func(s *contracts.LockSet) { s.Leases[0].FencingToken = -7 },
	} {
		s := sound()
		spoil(&s)
		for _, a := range []AskedSet{asked, known} {
			if a.Granted(s) == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
	other := sound()
	other.Leases = slices.Clone(other.Leases)
	other.Leases[1].FencingToken = 10
	if known.Granted(other) == nil {
		t.Error("another lease of the key: no error")
	}
	ended := contracts.LockSetReleased{TenantID: "acme", OwnerID: "ann", State: contracts.StateReleased,
		Leases: sound().Leases}
	if err := known.Ended(ended); err != nil {
		t.Errorf("a sound end: %v", err)
	}
	if ended.State = contracts.StateActive; known.Ended(ended) == nil {
		t.Error("leases that have not ended: no error")
	}
}
