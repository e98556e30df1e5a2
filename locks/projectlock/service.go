package projectlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
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
	pending int  // tries without a response
	open    bool // one of those that are over may have been carried out, or may still be
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
	r.open = lease.Unsettled(err) || r.open && (!lease.Settles(err) || !lease.Final(err))
}

// lost notes a lease that was granted to a try that was given up.
func (r *request) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// another is for an acquire whose lease has ended already.
func (r *request) another() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.open = newID(), false
}

// unknown reports whether a try of an acquire that has no lease may have obtained one, or may still do so. A refusal of
// a later one does not say that.
func (r *request) unknown() (id string, unknown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id, r.pending > 0 || r.open
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
	if !t.commit() {
		a.request.lost() // it is that of the next try, or is given up
		return grant{}, errAbandoned
	}
	return s.granted(begin, got), nil
}

// ask sends the acquire.
func (s *service) ask(ctx context.Context, a *attempt) (contracts.Lease, error) {
	got, err := s.provider.Acquire(ctx, s.key(a.scope), s.request(a.scope, a.request.begin()))
	if err == nil {
		err = s.asked(a.scope, 0).Granted(got)
	}
	a.request.end(err)
	return got, err
}

// request is an acquire.
func (s *service) request(scope Scope, id string) contracts.AcquireRequest {
	return contracts.AcquireRequest{
		OwnerID: s.owner, RequestID: id, TTLSeconds: int64(TTL / time.Second),
		Metadata: contracts.Metadata{"scope": string(scope)},
	}
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
	if at, elsewhere := lease.Changed(err, req.ExpiresAt, r.unsure); elsewhere != nil {
		return grant{}, fmt.Errorf("%w: %w", ErrLost, elsewhere)
	} else if at != "" { // a renewal of this lease whose response was lost
		req.RequestID, req.ExpiresAt = newID(), at
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
	if l.held.elsewhere != nil {
		return l.held.elsewhere
	}
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

// abandon gives up the request of an acquire whose outcome is not known, while what it obtained would last: then
// nothing comes of it, however late it arrives.
func (s *service) abandon(a *attempt) {
	id, unknown := a.request.unknown()
	if !unknown {
		return
	}
	r := s.request(a.scope, id)
	r.GiveUp = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), TTL)
		defer cancel()
		_ = hold.GiveUp(ctx, func(ctx context.Context) error { // otherwise the lease expires
			got, err := run(ctx, TryTimeout, func(ctx context.Context, _ *try) (contracts.Lease, error) {
				return s.provider.Acquire(ctx, s.key(a.scope), r)
			})
			if err == nil && got.FencingToken > 0 { // of a provider that does not know GiveUp
				err = s.end(ctx, a.scope, a.id, got.FencingToken)
			}
			return err
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
