package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// MaxKeys is how many locks can be held together.
const MaxKeys = 20

// SetProvider is a [Provider] that can acquire, renew and release several locks in one step. What is said there of
// requests and errors is so here.
type SetProvider interface {
	// AcquireSet takes all of the locks, or none. The error LOCK_HELD says which of them is held, and for how long. With
	// GiveUp it gives the request up, and returns the zero value.
	AcquireSet(ctx context.Context, r contracts.LockSetAcquireRequest) (contracts.LockSet, error)

	// RenewSet moves the expiry of all of the leases, or of none: then one of them is the caller's no more.
	RenewSet(ctx context.Context, r contracts.LockSetRenewRequest) (contracts.LockSet, error)

	// ReleaseSet ends those of the leases that are the caller's still. The error says that one of them was not.
	ReleaseSet(ctx context.Context, r contracts.LockSetReleaseRequest) (contracts.LockSetReleased, error)
}

// Set is several locks that are held together: until [Set.Unlock], or until its context ends because one of them is
// lost. Its methods may be called from several goroutines at once.
type Set struct {
	lock   *Lock
	tokens map[string]int64 // by key
	rest   sync.Once
}

// DoAll is [Client.Do] for several locks, which are acquired in one step, all or none. See [Client.LockAll].
func (c *Client) DoAll(ctx context.Context, keys []string, o *LockOptions,
	work func(ctx context.Context, s *Set) error) error {
	if work == nil {
		return errors.New("the work is nil")
	}
	s, err := c.acquireSet(ctx, keys, o, true)
	if err != nil {
		return err
	}
	return s.lock.do(ctx, s.Unlock, func(ctx context.Context) error { return work(ctx, s) })
}

// LockAll is [Client.Lock] for 1 to MaxKeys locks of one holder each. They are acquired, and renewed, in one step, all
// or none: no one waits with some of its locks held, so that those whose keys overlap cannot block each other for good.
// They are asked for again and again, see LockOptions.Poll; those who want few can overtake it, but a line at one of
// them does not keep it waiting for good. The order of the keys has no meaning.
//
// If one of the locks is lost, the context ends, and [Set.Unlock] releases the others. Where the provider is no
// [SetProvider], there is an error. In events and errors the key is all keys, separated by ", ", and the token that of
// the first.
func (c *Client) LockAll(ctx context.Context, keys []string, o *LockOptions) (*Set, error) {
	return c.acquireSet(ctx, keys, o, false)
}

// acquireSet is what DoAll and LockAll have in common.
func (c *Client) acquireSet(ctx context.Context, keys []string, o *LockOptions, working bool) (*Set, error) {
	defer c.underway.begin()()
	keys = slices.Sorted(slices.Values(keys))
	name := strings.Join(keys, ", ")
	s, err := c.setSettings(keys, o)
	if err != nil {
		return nil, fmt.Errorf("locks %q: %w", name, err)
	}
	several, ok := c.provider.(SetProvider)
	if !ok {
		return nil, fmt.Errorf("locks %q: %w", name, contracts.Errorf(contracts.CodeNotConfigured,
			"the provider cannot hold several locks together"))
	}
	p := &asOne{provider: several, name: name, keys: keys, granted: map[int64]contracts.LockSetTokens{}}
	a := &acquisition{
		client: c, provider: p, ctx: context.WithoutCancel(ctx), key: name, o: s, request: s.request(c.o.Owner),
		leave: func() {}, skipsLocalQueue: true, exclusive: true, several: true,
	}
	k, err := a.hold(ctx, working)
	if err != nil {
		return nil, err
	}
	l := &Lock{k}
	if !working {
		l = handle(k)
	}
	set := &Set{lock: l, tokens: make(map[string]int64, len(keys))}
	for _, t := range p.tokens(k.token) {
		set.tokens[t.LockKey] = t.FencingToken
	}
	return set, nil
}

// setSettings are LockOptions with their defaults. All keys must be ones that a lock can have.
func (c *Client) setSettings(sorted []string, o *LockOptions) (s LockOptions, err error) {
	if len(sorted) < 1 || len(sorted) > MaxKeys {
		return s, fmt.Errorf("%d keys: must be 1 to %d", len(sorted), MaxKeys)
	}
	for i, k := range sorted {
		if s, err = c.settings(k, o); err != nil {
			return s, err
		}
		if i > 0 && k == sorted[i-1] {
			return s, fmt.Errorf("the key %q is given twice", k)
		}
	}
	if s.Shared || s.Permits > 0 || s.Fair || s.MaxWaiting > 0 || s.Replace || s.LockDelay > 0 {
		return s, errors.New(
			"several locks are held by one holder each: LockOptions.Shared, Permits, Fair, MaxWaiting, Replace and LockDelay are for one lock")
	}
	return s, nil
}

// Keys are those of the locks, in the order of their bytes.
func (s *Set) Keys() []string { return slices.Sorted(maps.Keys(s.tokens)) }

// Token is the fencing token of one of the locks, see [Lock.Token]; 0 for a key that is not one of them. The context
// carries none.
func (s *Set) Token(key string) int64 { return s.tokens[key] }

// Lease is the token of a lock of the set with its lock, for package fence.
func (s *Set) Lease(key string) fencing.Lease { return fencing.OfLock(key, 0, s.tokens[key]) }

// Context is the context of the work: see [Lock.Context]. It ends when the first of the locks is lost.
func (s *Set) Context() context.Context { return s.lock.Context() }

// Remaining is after how long Context ends unless the leases are renewed; 0 if it has ended.
func (s *Set) Remaining() time.Duration { return s.lock.Remaining() }

// Left is after how long the first of the leases ends: see [Lock.Left].
func (s *Set) Left() time.Duration { return s.lock.Left() }

// Unlock ends the context and releases the locks: see [Lock.Unlock]. If one of them was lost, the error is an
// [ErrLost], and the others are released in the background.
func (s *Set) Unlock(ctx context.Context) error {
	err := s.lock.Unlock(ctx)
	if lease.Gone(err) {
		s.rest.Do(func() { s.release(ctx) })
	}
	return err
}

// release releases what is left of the leases after one of them was lost.
func (s *Set) release(ctx context.Context) {
	k := s.lock.keeper
	left := k.left()
	if left <= 0 {
		return
	}
	k.client.underway.run(func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
		defer cancel()
		_ = k.client.releaseOrphan(late, k.provider, k.key, contracts.Lease{FencingToken: k.token}) // otherwise they expire
	})
}

// asOne is several locks as a provider of one: its token is that of the first key. So one lease of the package is
// several of the provider.
type asOne struct {
	provider SetProvider
	name     string   // for people
	keys     []string // sorted

	mu      sync.Mutex
	granted map[int64]contracts.LockSetTokens // by the token of the first key
}

var _ Provider = (*asOne)(nil)

func (p *asOne) tokens(first int64) contracts.LockSetTokens {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted[first]
}

// Acquire implements [Provider].
func (p *asOne) Acquire(ctx context.Context, _ string, r contracts.AcquireRequest) (contracts.Lease, error) {
	got, err := p.provider.AcquireSet(ctx, contracts.LockSetAcquireRequest{
		LockKeys: p.keys, OwnerID: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, Metadata: r.Metadata,
		NotAfter: r.NotAfter, GiveUp: r.GiveUp,
	})
	if err != nil || r.GiveUp && len(got.Leases) == 0 {
		return contracts.Lease{}, err
	}
	tokens := make(contracts.LockSetTokens, len(got.Leases))
	for i, l := range got.Leases {
		tokens[i] = contracts.LockSetToken{LockKey: l.LockKey, FencingToken: l.FencingToken}
	}
	if err := (lease.AskedSet{Keys: p.keys, Owner: r.OwnerID}).Granted(got); err != nil {
		return contracts.Lease{}, lease.Invalid("", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted[tokens[0].FencingToken] = tokens
	return p.lease(got, tokens[0].FencingToken), nil
}

// Renew implements [Provider].
func (p *asOne) Renew(ctx context.Context, _ string, r contracts.RenewRequest) (contracts.Lease, error) {
	tokens := p.tokens(r.FencingToken)
	got, err := p.provider.RenewSet(ctx, contracts.LockSetRenewRequest{
		Leases: tokens, OwnerID: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, ExpiresAt: r.ExpiresAt,
	})
	if err != nil {
		return contracts.Lease{}, err
	}
	if err := (lease.AskedSet{Keys: p.keys, Owner: r.OwnerID, Tokens: tokens}).Granted(got); err != nil {
		return contracts.Lease{}, lease.Invalid("", err)
	}
	return p.lease(got, r.FencingToken), nil
}

// lease is the leases as one. It has no ID of its own.
func (p *asOne) lease(got contracts.LockSet, token int64) contracts.Lease {
	return contracts.Lease{
		TenantID: got.TenantID, LockKey: p.name, LeaseID: p.name, OwnerID: got.OwnerID, FencingToken: token, State: got.State,
		AcquiredAt: got.AcquiredAt, ExpiresAt: got.ExpiresAt, RemainingMs: got.RemainingMs, TTLSeconds: got.TTLSeconds,
		Replayed: got.Replayed,
	}
}

// Release implements [Provider].
func (p *asOne) Release(ctx context.Context, _ string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	tokens := p.tokens(r.FencingToken)
	got, err := p.provider.ReleaseSet(ctx, contracts.LockSetReleaseRequest{Leases: tokens, OwnerID: r.OwnerID,
		RequestID: r.RequestID})
	if err != nil {
		return contracts.EndedLease{}, err
	}
	if err := (lease.AskedSet{Keys: p.keys, Owner: r.OwnerID, Tokens: tokens}).Ended(got); err != nil {
		return contracts.EndedLease{}, lease.Invalid("", err)
	}
	return contracts.EndedLease{
		TenantID: got.TenantID, LockKey: p.name, OwnerID: got.OwnerID, FencingToken: r.FencingToken, State: got.State,
		Replayed: got.Replayed,
	}, nil
}

// Get implements [Provider].
func (p *asOne) Get(context.Context, string) (contracts.Lock, error) {
	return contracts.Lock{}, contracts.Errorf(contracts.CodeNotConfigured, "several locks are read one by one")
}
