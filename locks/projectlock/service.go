package projectlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/locks"
)

// service is the lock in a Leasehold service or on a store. Each scope has its own.
type service struct {
	provider locks.Provider
	prefix   string
	owner    string
	clock    term.Clock
}

// request is what an acquire sends: all its tries have one ID, so that they obtain one lease.
type request struct {
	mu      sync.Mutex
	id      string
	pending int // tries without a response
	// one of those that are over may have been carried out, or may still be, and obtained a lease that no one has
	open  bool
	over  bool  // the acquire has returned
	token int64 // of the lease that it returned
}

func (r *request) begin() (id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending++
	return r.id
}

func (r *request) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	r.open = err != nil && (lease.Unsettled(err) || r.open && !lease.Settles(err))
}

// another is for an acquire whose lease has ended already.
func (r *request) another() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.open, r.over, r.token = newID(), false, false, 0
}

// granted notes the lease that the acquire returns.
func (r *request) granted(token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.over, r.token = false, true, token
}

// late notes a lease that was granted to a try that was given up. It reports whether it is to be released now. While
// the acquire goes on it is not: its next try is the same request, and obtains the same lease.
func (r *request) late(token int64) (stray bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = !r.over
	return r.over && r.token != token
}

// giveUp ends the acquire without a lease. It reports whether there may be one.
func (r *request) giveUp() (unknown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.pending > 0 || r.open
}

func (*service) name() Backend { return Service }

func (s *service) key(scope Scope) string { return s.prefix + ":" + string(scope) }

func (s *service) acquire(ctx context.Context, t *try, a *attempt) (grant, error) {
	begin := s.clock()
	got, err := s.ask(ctx, a)
	if (errors.Is(err, contracts.CodeRequestIDReused) || errors.Is(err, contracts.CodeLeaseExpired)) && ctx.Err() == nil {
		a.request.another() // an earlier try obtained a lease, which has ended
		begin = s.clock()
		got, err = s.ask(ctx, a)
	}
	if err != nil {
		return grant{}, err
	}
	g := s.granted(begin, got)
	if t.commit() {
		a.request.granted(got.FencingToken)
		return g, nil
	}
	if !a.request.late(got.FencingToken) {
		return grant{}, errAbandoned
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), TryTimeout)
	defer cancel()
	return grant{}, cmp.Or(s.end(ctx, a.scope, a.id, got.FencingToken), errAbandoned)
}

// ask sends the acquire.
func (s *service) ask(ctx context.Context, a *attempt) (contracts.Lease, error) {
	got, err := s.provider.Acquire(ctx, s.key(a.scope), contracts.AcquireRequest{
		OwnerID: s.owner, RequestID: a.request.begin(), TTLSeconds: int64(TTL / time.Second),
		Metadata: contracts.Metadata{"scope": string(a.scope)},
	})
	if err == nil {
		err = s.asked(a.scope, 0).Granted(got)
	}
	a.request.end(err)
	return got, err
}

func (s *service) granted(begin term.Moment, l contracts.Lease) grant {
	g := newGrant(begin, min(TTL, time.Duration(l.RemainingMs)*time.Millisecond))
	g.service = l
	return g
}

// asked is what a request about a lock is about. A token of 0 means a new lease.
func (s *service) asked(scope Scope, token int64) lease.Asked {
	return lease.Asked{Key: s.key(scope), Owner: s.owner, Token: token}
}

func (s *service) renew(ctx context.Context, h *held, r renewal) (grant, error) {
	req := contracts.RenewRequest{
		OwnerID: s.owner, FencingToken: h.token, RequestID: r.request, TTLSeconds: int64(TTL / time.Second),
		ExpiresAt: r.known.ExpiresAt,
	}
	begin := s.clock()
	got, err := s.provider.Renew(ctx, s.key(h.scope), req)
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeLeaseChanged && !e.ExpiresAt.IsZero() {
		// a renewal of this lease whose response was lost
		req.RequestID, req.ExpiresAt = newID(), e.ExpiresAt.UTC().Format(contracts.TimeFormat)
		begin = s.clock()
		got, err = s.provider.Renew(ctx, s.key(h.scope), req)
	}
	if err == nil {
		err = s.asked(h.scope, h.token).Granted(got)
	}
	if lease.Gone(err) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return grant{}, err
	}
	return s.granted(begin, got), nil
}

func (s *service) release(ctx context.Context, l *leftover) error {
	return s.end(ctx, l.scope, l.id, l.held.token)
}

// end releases a lease. Its own ID makes the request the same whenever it is sent again.
func (s *service) end(ctx context.Context, scope Scope, id string, token int64) error {
	ended, err := s.provider.Release(ctx, s.key(scope), contracts.ReleaseRequest{OwnerID: s.owner, FencingToken: token,
		RequestID: id})
	if lease.Gone(err) || errors.Is(err, contracts.CodeLockNotHeld) || errors.Is(err, contracts.CodeNotFound) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err == nil {
		err = s.asked(scope, token).Ended(ended)
	}
	return err
}

// abandon sends the request of an acquire again whose outcome is not known. That returns the lease if there is one,
// which it releases.
func (s *service) abandon(a *attempt) {
	if !a.request.giveUp() {
		return
	}
	go func() {
		_, _ = run(context.Background(), TryTimeout, func(ctx context.Context, _ *try) (struct{}, error) {
			got, err := s.ask(ctx, a)
			if err == nil {
				err = s.end(ctx, a.scope, a.id, got.FencingToken)
			}
			return struct{}{}, err // otherwise the lease expires
		})
	}()
}

func (*service) judge(err error) (r Reason, permanent bool) {
	code, coded := errors.AsType[contracts.Code](err)
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		code, coded = e.Code, true
	}
	switch {
	case code == contracts.CodeLockHeld:
		return Contended, false
	case errors.Is(err, ErrLost), code == contracts.CodeLeaseExpired:
		return TransientError, false
	case lease.Final(err):
		return Unavailable, true
	case !coded, code == contracts.CodeUnavailable, code == contracts.CodeDeadlineExceeded,
		code == contracts.CodeOverloaded:
		return Unavailable, false
	default:
		return TransientError, false
	}
}
