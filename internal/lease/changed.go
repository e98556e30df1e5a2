package lease

import (
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/contracts"
)

// ErrElsewhere marks a lease that is renewed from elsewhere: it expires later than its holder knows, although each of
// the holder's renewals had a response. Only the holder renews a lease, so there are two of it: its process was copied,
// such as a machine that was restored from a snapshot and still runs. One of the two must stop, and must not release
// what the other one holds.
var ErrElsewhere = errors.New("another process, a copy of this one, renews the lease")

// Changed says when a lease expires of which a renewal was refused with LEASE_CHANGED, because it named another time,
// known. That is empty for any other error. unsure says that an earlier renewal had no response, and so may have moved
// the expiry; otherwise a later one is an [ErrElsewhere]. An earlier one is a store's that has lost a write.
func Changed(err error, known string, unsure bool) (expiresAt string, elsewhere error) {
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok || e.Code != contracts.CodeLeaseChanged || e.ExpiresAt.IsZero() {
		return "", nil //nolint:nilerr // it is another error, which others judge
	}
	expiresAt = e.ExpiresAt.UTC().Format(contracts.TimeFormat)
	if !unsure && expiresAt > known {
		return expiresAt, fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	return expiresAt, nil
}

// Over reports whether an error says that a lease is not its holder's any more, or not only its: there is nothing to
// release.
func Over(err error) bool { return Gone(err) || errors.Is(err, ErrElsewhere) }
