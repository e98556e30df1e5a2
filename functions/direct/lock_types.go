package direct

import (
	"cmp"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// NoLock is the rejection of a request for a lock of which there is no record.
func NoLock() error {
	return contracts.Errorf(contracts.CodeNotFound, "there is no record of this lock: it was never held, or not for long")
}

// rejection is the outcome of a command of locks that is not OK.
func rejection(o lock.Outcome) *contracts.Error {
	if e := endRejection(o.Code, notAfter, o.Detail, o.At); e != nil {
		return e
	}
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	if o.Code == lock.Held {
		e.Owner, e.ExpiresAt, e.RetryAfter, e.Position = o.Lease.Owner, o.Lease.ExpiresAt, o.RetryAfter, o.Position
	}
	if o.Lease.Mode == lock.Rate {
		e.ExpiresAt = time.Time{} // no lease ends then: the detail says when the next grant is possible, and RetryAfter
	}
	switch o.Code {
	case lock.Limit, lock.Delayed, lock.QueueFull:
		e.RetryAfter = o.RetryAfter
	case lock.LeaseChanged:
		e.ExpiresAt = o.Lease.ExpiresAt
	default: // the others say no more
	}
	return e
}

// Lease is the lease of an acquire or a renewal that is OK, else its rejection as a [contracts.Error].
func Lease(o lock.Outcome) (contracts.Lease, error) {
	if o.Code != lock.OK {
		return contracts.Lease{}, rejection(o)
	}
	l := o.Lease
	return contracts.Lease{
		TenantID: l.Tenant, LockKey: l.Key, LeaseID: l.LeaseID, OwnerID: l.Owner, FencingToken: l.Token,
		State: contracts.State(l.Phase), AcquiredAt: Time(l.AcquiredAt), ExpiresAt: Time(l.ExpiresAt),
		RemainingMs: l.ExpiresAt.Sub(o.At).Milliseconds(), TTLSeconds: ttl(l.Status), Metadata: labels(l.Metadata),
		Replayed: o.Replayed,
		Mode:     mode(l.Mode), Permit: l.Permit, WaitedMs: o.Waited.Milliseconds(),
	}, nil
}

// ttl is a lease's ttl. A grant of a rate, which has none, counts for a window.
func ttl(s lock.Status) int64 {
	if s.Mode == lock.Rate {
		return s.WindowSeconds
	}
	return s.TTLSeconds
}

// mode is how the contract says a mode; the exclusive one is left out.
func mode(m lock.Mode) contracts.LockMode {
	if m == lock.Exclusive {
		return ""
	}
	return contracts.LockMode(m)
}

// GaveUp is nil if an acquire is given up, else the rejection as a [contracts.Error].
func GaveUp(o lock.Outcome) error {
	if o.Code != lock.OK {
		return rejection(o)
	}
	return nil
}

// Acquire is an acquire of the contract. One that gives the request up may name the end of its copies, and is never
// refused because of it. The error is a [field.Error].
func Acquire(id lock.ID, r contracts.AcquireRequest) (lock.Acquire, error) {
	if r.Mode == contracts.LockModeExclusive {
		r.Mode = ""
	}
	end, err := endOf(notAfter, r.NotAfter)
	if r.GiveUp {
		err = nil
	}
	return lock.Acquire{
		ID: id, End: end, Owner: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, Metadata: r.Metadata,
		Mode: lock.Mode(r.Mode), Limit: r.Limit, WindowSeconds: r.WindowSeconds,
		WaitSeconds: r.WaitSeconds, Fair: r.Fair, MaxWaiting: r.MaxWaiting, Replace: r.Replace,
		LockDelaySeconds: r.LockDelaySeconds,
	}, err
}

// Renew is a renewal of the contract. The error is a [field.Error].
func Renew(id lock.ID, r contracts.RenewRequest) (c lock.Renew, err error) {
	c = lock.Renew{ID: id, Owner: r.OwnerID, Token: r.FencingToken, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds}
	if r.ExpiresAt == "" {
		return c, nil
	}
	if c.ExpiresAt, err = docstore.ParseTime(docstore.String(r.ExpiresAt)); err != nil {
		return c, field.Errorf("expires_at", "must be the time that the lease showed, like %q", contracts.TimeFormat)
	}
	return c, nil
}

// Release is a release of the contract.
func Release(id lock.ID, r contracts.ReleaseRequest) lock.Release {
	return lock.Release{ID: id, Owner: r.OwnerID, Token: r.FencingToken, RequestID: r.RequestID}
}

// EndedLease is the lease of a release that is OK, else its rejection as a [contracts.Error].
func EndedLease(o lock.Outcome) (contracts.EndedLease, error) {
	if o.Code != lock.OK {
		return contracts.EndedLease{}, rejection(o)
	}
	l := o.Lease
	return contracts.EndedLease{
		TenantID: l.Tenant, LockKey: l.Key, LeaseID: l.LeaseID, OwnerID: l.Owner, FencingToken: l.Token,
		State: contracts.State(l.Phase), AcquiredAt: Time(l.AcquiredAt), ExpiresAt: Time(l.ExpiresAt),
		ReleasedAt: Time(l.ReleasedAt),
		TTLSeconds: l.TTLSeconds, Metadata: l.Metadata, Replayed: o.Replayed,
	}, nil
}

// ForceReleased is the lease that an administrator ended if that is OK, else the rejection as a [contracts.Error].
func ForceReleased(o lock.Outcome) (contracts.ForceReleased, error) {
	if o.Code != lock.OK {
		return contracts.ForceReleased{}, rejection(o)
	}
	s := o.Lease.Status
	return contracts.ForceReleased{
		TenantID: s.Tenant, LockKey: s.Key, LeaseID: s.LeaseID, OwnerID: s.Owner,
		State: contracts.State(s.Phase), AcquiredAt: Time(s.AcquiredAt), ExpiresAt: Time(s.ExpiresAt),
		ReleasedAt: Time(s.ReleasedAt),
		TTLSeconds: s.TTLSeconds, Metadata: s.Metadata, ForceRelease: forced(s), Replayed: o.Replayed,
	}, nil
}

// Lock is a lock as anyone may see it: without its token. Of a lease that ended before others of its lock, little is
// known once all have ended: what has a time in the contract is then when it ended.
func Lock(s lock.Status) contracts.Lock {
	if s.AcquiredAt.IsZero() {
		s.AcquiredAt = s.ReleasedAt
	}
	if s.ExpiresAt.IsZero() {
		s.ExpiresAt = s.ReleasedAt
	}
	return contracts.Lock{
		TenantID: s.Tenant, LockKey: s.Key, LeaseID: s.LeaseID, OwnerID: s.Owner,
		State: contracts.State(s.Phase), AcquiredAt: Time(s.AcquiredAt), ExpiresAt: Time(s.ExpiresAt),
		ReleasedAt: Time(s.ReleasedAt),
		TTLSeconds: ttl(s), Metadata: labels(s.Metadata), ForceRelease: forced(s),
		Mode: mode(s.Mode), Limit: s.Limit, WindowSeconds: s.WindowSeconds, FreeAt: Time(s.FreeAt),
		Holders: each(s.Holders, holder), Waiting: each(s.Waiting, waiter), History: each(s.History, past),
		Refused: refused(s.Refused),
	}
}

func holder(h lock.Holder) contracts.LockHolder {
	return contracts.LockHolder{
		LeaseID: h.LeaseID, OwnerID: h.Owner, Mode: fullMode(h.Mode), Permit: h.Permit,
		AcquiredAt: Time(h.AcquiredAt), ExpiresAt: Time(h.ExpiresAt), TTLSeconds: h.TTLSeconds, Metadata: h.Metadata,
	}
}

func waiter(w lock.Waiter) contracts.LockWaiter {
	return contracts.LockWaiter{OwnerID: w.Owner, Mode: fullMode(w.Mode), Since: Time(w.Since), Until: Time(w.Until)}
}

func past(p lock.Past) contracts.PastLease {
	return contracts.PastLease{
		OwnerID: p.Owner, FencingToken: p.Token, AcquiredAt: Time(p.AcquiredAt), EndedAt: Time(p.EndedAt),
		Ended: contracts.PastLeaseEnded(p.Ended), EndedBy: p.By,
	}
}

func refused(r lock.Refused) *contracts.LockRefusal {
	if r == (lock.Refused{}) {
		return nil
	}
	return &contracts.LockRefusal{OwnerID: r.Owner, At: Time(r.At)}
}

// fullMode is a mode that is always said.
func fullMode(m lock.Mode) contracts.LockMode {
	return cmp.Or(contracts.LockMode(m), contracts.LockModeExclusive)
}

// each converts the elements of a list; an empty one is left out.
func each[A, B any](list []A, convert func(A) B) (out []B) {
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}

// forced is how an administrator ended the lease, nil if none did.
func forced(s lock.Status) *contracts.ForcedRelease {
	if s.Forced == (lock.Forced{}) {
		return nil
	}
	return &contracts.ForcedRelease{By: s.Forced.By, Reason: s.Forced.Reason, At: Time(s.Forced.At)}
}

// labels makes a missing table an empty one, because the contract promises an object.
func labels(m map[string]string) contracts.Metadata {
	if m == nil {
		return contracts.Metadata{}
	}
	return m
}

// FenceRejection is the outcome of a check of a fence, as a [contracts.Error] unless the token passed.
func FenceRejection(c lock.Fence, o lock.FenceOutcome) error {
	switch {
	case o.Other != "":
		return contracts.Errorf(contracts.CodeOtherSubject, "%s", fencing.OtherSubject(c.Lease, o.Other))
	case o.Limit:
		e := contracts.Errorf(contracts.CodeLockLimit,
			"the tenant has as many fences as this server allows; the token was not checked")
		e.RetryAfter = time.Minute // an administrator may remove fences, or raise the bound
		return e
	case !o.Passed:
		e := contracts.Errorf(contracts.CodeStaleToken, "the sender of this token has lost the lock: stop the work")
		e.HighestToken = o.Highest
		return e
	default:
		return nil
	}
}
