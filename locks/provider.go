package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Provider is the locks of one tenant: a client of a server, or the rule itself on a store. Its methods may be called
// from several goroutines at once, and return soon after their context ends. Each of them sends its request once: a
// [Client] retries by itself.
//
// Its errors carry a [contracts.Code], as errors.Is finds it, and where the code asks for more they are a
// [contracts.Error] with it. After an error without a code the request may have been carried out, or may still be.
type Provider interface {
	// Acquire takes a lock. The error LOCK_HELD says how long the holder's lease lasts, in RetryAfter. With WaitSeconds it
	// waits for a lock that is held, for so long at most, and the lease says in WaitedMs how long it did; a request with
	// WaitSeconds of 0 ends the wait of an earlier one with the same RequestID. A provider that cannot wait responds at
	// once.
	//
	// With GiveUp the request with that RequestID is given up, whose other members are as they were: what it obtained
	// ends, its place in line and its waits too, and no delivery of it obtains anything from then on. Then the response is
	// the zero Lease, also if there was nothing to give up. The error REQUEST_ID_REUSED says that what it obtained has
	// ended already.
	//
	// A request that arrives late, when its caller has given up, is to obtain nothing. Where it can be late, the provider
	// sends it with an end: NotAfter of a request without one is the provider's to set, for each try.
	Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error)

	// Renew moves the expiry of a lease. LEASE_LOST, LEASE_EXPIRED, LEASE_RELEASED and NOT_OWNER mean that it is the
	// caller's no more.
	Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error)

	// Release ends a lease.
	Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error)

	// Get reads a lock. The error NOT_FOUND means that there is no record of it.
	Get(ctx context.Context, key string) (contracts.Lock, error)
}

// bounded is one request with a time of its own. It returns in that time, also if the request does not. No request is
// sent when its caller has left.
func bounded[T any](parent context.Context, each time.Duration, do func(context.Context) (T, error)) (T, error) {
	if parent.Err() != nil {
		var none T
		return none, context.Cause(parent)
	}
	type result struct {
		got T
		err error
	}
	ctx, cancel := context.WithTimeout(parent, each)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		got, err := do(ctx)
		done <- result{got, err}
	}()
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
	}
	var none T
	select {
	case r := <-done:
		return r.got, r.err
	default:
	}
	if parent.Err() == nil {
		return none, lease.NoResponse(contracts.Errorf(contracts.CodeDeadlineExceeded, "no response within %v", each))
	}
	return none, context.Cause(parent)
}

// acquired says what is wrong with a response that should be the lease that was asked for. Which tenant it is about is
// known to the provider.
func acquired(got contracts.Lease, key string, r contracts.AcquireRequest) error {
	return valid(got, (lease.Asked{Key: key, Owner: r.OwnerID}).Acquired(r, got))
}

// renewed says what is wrong with a response that should be the lease of a lock.
func (k *keeper) renewed(got contracts.Lease) error {
	err := (lease.Asked{Key: k.key, Owner: k.release.OwnerID, Token: k.token}).Acquired(k.request, got)
	if err == nil && got.Permit != int64(k.permit) {
		err = fmt.Errorf("the lease has the permit %d, not %d", got.Permit, k.permit)
	}
	return valid(got, err)
}

// valid is err, which is what is wrong with the response, unless that is about a lease that has expired.
func valid(got contracts.Lease, err error) error {
	if err != nil {
		return lease.Invalid("", err)
	}
	if got.RemainingMs < 0 {
		return contracts.Errorf(contracts.CodeLeaseExpired, "the lease expired before its response arrived: use a longer ttl")
	}
	return nil
}
