package lease

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/contracts"
)

// AskedSet is what a request about several leases is about.
type AskedSet struct {
	Tenant string // empty if the caller does not know it
	Keys   []string
	Owner  string                  // owner_id of the request
	Tokens contracts.LockSetTokens // empty for new ones
}

// Granted says what is wrong with a response that should be the caller's leases, all of them.
func (a AskedSet) Granted(s contracts.LockSet) error {
	if s.ExpiresAt == "" || s.RemainingMs == 0 {
		return ErrMissing
	}
	return cmp.Or(a.leases(s.TenantID, s.OwnerID, s.Leases), InState(contracts.StateActive, s.State))
}

// Ended says what is wrong with a response that should be the end of the caller's leases.
func (a AskedSet) Ended(s contracts.LockSetReleased) error {
	return cmp.Or(a.leases(s.TenantID, s.OwnerID, s.Leases), InState(contracts.StateReleased, s.State))
}

// leases compares the leases of a response with those that were asked for.
func (a AskedSet) leases(tenant, owner string, leases []contracts.LockSetLease) error {
	if tenant == "" || len(leases) == 0 {
		return ErrMissing
	}
	if a.Tenant != "" && tenant != a.Tenant {
		return fmt.Errorf("it is about locks of the tenant %q, not of %q", tenant, a.Tenant)
	}
	want := slices.Sorted(slices.Values(a.Keys))
	var got []string
	for _, l := range leases {
		got = append(got, l.LockKey)
		asked := l.FencingToken
		if i := slices.IndexFunc(a.Tokens, func(t contracts.LockSetToken) bool { return t.LockKey == l.LockKey }); i >= 0 {
			asked = a.Tokens[i].FencingToken
		}
		if err := SameToken(asked, l.FencingToken); err != nil {
			return fmt.Errorf("lock %q: %w", l.LockKey, err)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("it is about the locks %q, not %q", got, want)
	}
	return SameOwner(a.Owner, owner)
}
