// Package lease judges responses to requests about a lease: whether one is the lease that was asked for (a cache, a
// proxy that mixes up connections, or a server of another kind may send anything), and what an error says of the
// request.
package lease

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// ErrMissing is a response without what it must have.
var ErrMissing = errors.New("required members are missing")

// Asked is what a request is about.
type Asked struct {
	Tenant string // empty if the caller does not know it
	Key    string
	Owner  string // owner_id of the request
	Token  int64  // 0 for a new one
}

// Granted says what is wrong with a response that should be the caller's lease.
func (a Asked) Granted(l contracts.Lease) error {
	if a.Token == 0 && l.FencingToken > 0 {
		a.Token = l.FencingToken
	}
	if l.LeaseID == "" || l.ExpiresAt == "" || l.RemainingMs == 0 {
		return ErrMissing
	}
	return cmp.Or(a.Lock(l.TenantID, l.LockKey), SameOwner(a.Owner, l.OwnerID), SameToken(a.Token, l.FencingToken),
		InState(contracts.StateActive, l.State))
}

// Acquired says what is wrong with a response that should be the lease that an acquire asked for.
func (a Asked) Acquired(r contracts.AcquireRequest, l contracts.Lease) error {
	if err := a.Granted(l); err != nil {
		return err
	}
	asked, got := cmp.Or(r.Mode, contracts.LockModeExclusive), cmp.Or(l.Mode, contracts.LockModeExclusive)
	most := int64(0)
	if asked == contracts.LockModePermits {
		most = r.Limit
	}
	switch {
	case got != asked:
		return fmt.Errorf("the lease has the mode %s, not %s", got, asked)
	case l.Permit > most || l.Permit < min(1, most):
		return fmt.Errorf("the lease has the permit %d of %d", l.Permit, most)
	default:
		return nil
	}
}

// Waited is how much later than before its request a lease begins at the earliest: as long as the server waited. took
// is how long the request took; no response can make it longer.
func Waited(r contracts.AcquireRequest, l contracts.Lease, took time.Duration) time.Duration {
	if r.WaitSeconds == 0 {
		return 0
	}
	return time.Duration(max(0, min(l.WaitedMs, took.Milliseconds()))) * time.Millisecond
}

// Ended says what is wrong with a response that should be the end of the caller's lease.
func (a Asked) Ended(l contracts.EndedLease) error {
	return cmp.Or(a.Lock(l.TenantID, l.LockKey), SameOwner(a.Owner, l.OwnerID), SameToken(a.Token, l.FencingToken),
		InState(contracts.StateReleased, l.State))
}

// Lock compares the lock that a response is about.
func (a Asked) Lock(tenant, key string) error {
	switch {
	case tenant == "" && key == "":
		return ErrMissing
	case key != a.Key || tenant != a.Tenant && a.Tenant != "":
		return fmt.Errorf("it is about the lock %q of tenant %q, not %q of %q", key, tenant, a.Key, cmp.Or(a.Tenant, tenant))
	default:
		return nil
	}
}

// SameOwner compares the owner with the owner_id of the request: it is that, or ends with it after the subject of the
// token.
func SameOwner(asked, got string) error {
	if got == "" || asked != "" && got != asked && !strings.HasSuffix(got, "#"+asked) {
		return fmt.Errorf("the lease belongs to %q, not to %q", got, asked)
	}
	return nil
}

// SameToken compares fencing tokens.
func SameToken(asked, got int64) error {
	if got <= 0 || got != asked {
		return fmt.Errorf("the lease has the fencing token %d, not %d", got, asked)
	}
	return nil
}

// InState compares the state.
func InState(want, got contracts.State) error {
	if got != want {
		return fmt.Errorf("the lease is %q, not %s", got, want)
	}
	return nil
}
