package locks

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
)

var errMissing = errors.New("invalid response: required members are missing")

// checkLease says what is wrong with a response that should be the caller's lease. A token of 0 means a new one.
func checkLease(l contracts.Lease, key, owner string, token int64) error {
	if l.LeaseID == "" || l.ExpiresAt == "" {
		return errMissing
	}
	if token == 0 && l.FencingToken > 0 {
		token = l.FencingToken
	}
	if err := cmp.Or(sameLease(key, l.LockKey, owner, l.OwnerID, token, l.FencingToken), inState(contracts.StateActive, l.State)); err != nil {
		return err
	}
	if l.RemainingMs <= 0 {
		return contracts.Errorf(contracts.CodeLeaseExpired, "the lease expired before its response arrived: use a longer ttl")
	}
	return nil
}

// checkEnded says what is wrong with a response that should be the end of the caller's lease.
func checkEnded(l contracts.EndedLease, key, owner string, token int64) error {
	return cmp.Or(sameLease(key, l.LockKey, owner, l.OwnerID, token, l.FencingToken), inState(contracts.StateReleased, l.State))
}

// sameLease compares the lease with that of the request. The owner is that of the request, or ends with it after the subject of the token.
func sameLease(key, gotKey, owner, gotOwner string, token, gotToken int64) error {
	switch {
	case gotKey != key:
		return fmt.Errorf("invalid response: it is about the lock %q, not %q", gotKey, key)
	case gotOwner != owner && !strings.HasSuffix(gotOwner, "#"+owner):
		return fmt.Errorf("invalid response: the lease belongs to %q, not to %q", gotOwner, owner)
	case gotToken <= 0 || gotToken != token:
		return fmt.Errorf("invalid response: the lease has the fencing token %d, not %d", gotToken, token)
	default:
		return nil
	}
}

func inState(want, got contracts.State) error {
	if got != want {
		return fmt.Errorf("invalid response: the lease is %q, not %s", got, want)
	}
	return nil
}
