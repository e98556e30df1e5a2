package projectlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/owner"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/locks"
)

// DefaultName is what the names of the locks begin with.
const DefaultName = "imgponic:project"

// Options are the settings of [New]. The zero value uses the file.
type Options struct {
	// Service keeps the lock instead of the file: the locks of one tenant, over HTTP or on a store. The file is then
	// neither read nor written, and when the service cannot be reached no lease is granted: a fallback would give the lock
	// to a second holder.
	Service locks.Provider

	// Name is what the names of the locks begin with: ":" and the scope follow. They are the keys with the service, so
	// that each project of a tenant needs a name of its own. 1 to 240 bytes of UTF-8 without control characters; empty
	// means DefaultName. The file does not use it.
	Name string

	// Owner is who asks, for people and for the service: 1 to 64 letters, digits, ".", "_" and "-". Empty means host name,
	// process ID and a random part. The file does not use it.
	Owner string

	// Warn receives what disturbs no lock: a panic of a listener. nil drops it. It may be called from several goroutines
	// at once.
	Warn func(error)

	clock term.Clock
	disk  disk
}

// AcquireOptions are the settings of one acquire. The zero value works.
type AcquireOptions struct {
	Scope Scope       // empty means Autosave
	Retry RetryPolicy // what is 0 has its default
}

// Project is the lock of one project. Its methods may be called from several goroutines at once.
type Project struct {
	backend backend
	clock   term.Clock
	events  events

	cleaning  sync.Mutex
	mu        sync.Mutex
	leftovers []*leftover
}

// leftover is a lease whose lock was not removed: it is over, or its renewals failed, and the next acquire ends it.
type leftover struct {
	id       string
	scope    Scope
	held     *held     // nil if its acquire was given up
	until    time.Time // when the lock expires, at the latest
	failures int
	taken    bool // a later try of its acquire has the lock
}

// tries is how often a lock is removed before it is left to its expiry.
const tries = 3

// New returns the lock of a project. folder is the project's own, which has the file .lock; it must exist when a lease
// is acquired, and is not used with Options.Service. New reads and writes nothing. Options may be nil. The error names
// a setting that cannot work.
func New(folder string, o *Options) (*Project, error) {
	var s Options
	if o != nil {
		s = *o
	}
	s.Name = cmp.Or(s.Name, DefaultName)
	if s.Owner == "" {
		s.Owner = owner.Process(fmt.Sprintf("%d-%.8s", os.Getpid(), newID()))
	}
	if s.Warn == nil {
		s.Warn = func(error) {}
	}
	if s.clock == nil {
		s.clock = term.Now
	}
	if s.disk == nil {
		s.disk = realDisk{}
	}
	if len(s.Name) > 240 || !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, unicode.IsControl) {
		return nil, fmt.Errorf("Options.Name %.50q: must have 1 to 240 bytes of UTF-8 without control characters", s.Name)
	}
	if len(s.Owner) > 64 || !owner.Plain(s.Owner) {
		return nil, fmt.Errorf(`Options.Owner %.100q: must have 1 to 64 letters, digits, ".", "_" and "-"`, s.Owner)
	}
	p := &Project{clock: s.clock, events: events{now: func() time.Time { return s.clock().Wall() }, warn: s.Warn}}
	if s.Service != nil {
		p.backend = &service{provider: s.Service, prefix: s.Name, owner: s.Owner, clock: s.clock}
		return p, nil
	}
	if folder == "" {
		return nil, errors.New("folder is empty: name the project's folder, \".\" for the current one")
	}
	path, err := filepath.Abs(filepath.Join(folder, fileName)) // it stays the same if the process changes its folder
	if err != nil {
		return nil, fmt.Errorf("folder %q: %w", folder, err)
	}
	p.backend = &fileLock{path: path, disk: s.disk, clock: s.clock, left: p.isLeftover, taken: p.taken}
	return p, nil
}

// Subscribe calls the listener with every event from now on, until the function that it returns is called; calling that
// again does nothing. Listeners are called one event at a time, in the order of their subscription, before the method
// returns that caused the event; if several goroutines cause events at the same time, by the first of them. A listener
// may call the project. One that panics disturbs no other, and no lock.
func (p *Project) Subscribe(listener func(Event)) (unsubscribe func()) {
	return p.events.subscribe(listener)
}

// Acquire takes the lock. It makes several attempts, each of TryTimeout at most, and waits between them as the policy
// says. After the last one the error is [CodeLockUnavailable]; that of a context that ended before is
// [CodeLockTimeout]. Errors are a [LockError], other than those of wrong options. Options may be nil.
//
// The lease lasts for TTL. The caller renews it every RenewAfter, and releases it.
func (p *Project) Acquire(ctx context.Context, o *AcquireOptions) (Lease, error) {
	h, err := p.acquire(ctx, context.WithoutCancel(ctx), o)
	if err != nil {
		return Lease{}, err
	}
	return h.lease(), nil
}

// acquire makes a lease whose term has a context that is derived from within.
func (p *Project) acquire(ctx, within context.Context, o *AcquireOptions) (*held, error) {
	var s AcquireOptions
	if o != nil {
		s = *o
	}
	s.Scope = cmp.Or(s.Scope, Autosave)
	if s.Scope != Autosave && s.Scope != History {
		return nil, fmt.Errorf("Scope is %q: must be %q or %q", s.Scope, Autosave, History)
	}
	retry, err := s.Retry.withDefaults()
	if err != nil {
		return nil, err
	}
	p.clean(ctx)
	a := newAttempt(s.Scope)
	a.warn = func(message string) { p.warn(&leftover{id: a.id, scope: a.scope}, message) }
	a.remains = func(err error) { p.remains(&leftover{id: a.id, scope: a.scope, until: p.clock().Wall().Add(TTL)}, err) }
	for n := 1; ctx.Err() == nil; n++ {
		var h *held
		if h, err = p.once(ctx, within, a); err == nil {
			p.push(h, Event{Type: Acquired, Attempt: n})
			p.events.flush()
			return h, nil
		}
		if ctx.Err() != nil {
			break
		}
		reason, permanent := p.backend.judge(err)
		if permanent || n >= retry.MaxAttempts {
			p.backend.abandon(a)
			failed := &LockError{Code: CodeLockUnavailable, Cause: err}
			p.events.push(Event{Type: Failed, LeaseID: a.id, Backend: p.backend.name(), Scope: a.scope, Err: failed})
			p.events.flush()
			return nil, failed
		}
		delay := retry.delay(n)
		p.events.push(Event{
			Type: RetryScheduled, LeaseID: a.id, Backend: p.backend.name(), Scope: a.scope, Attempt: n, Delay: delay,
			Reason: reason,
		})
		p.events.flush()
		_ = backoff.Sleep(ctx, delay) // the loop ends with ctx
	}
	p.backend.abandon(a)
	return nil, &LockError{Code: CodeLockTimeout, Retryable: true, Cause: context.Cause(ctx)}
}

// once makes one attempt to acquire.
func (p *Project) once(ctx, within context.Context, a *attempt) (*held, error) {
	g, err := run(ctx, TryTimeout, func(ctx context.Context, t *try) (grant, error) {
		g, err := p.backend.acquire(ctx, t, a)
		p.events.flush() // of an attempt that was given up
		return g, err
	})
	if err != nil {
		return nil, err
	}
	h := &held{
		project: p, id: a.id, scope: a.scope, acquiredAt: g.acquiredAt(), token: g.service.FencingToken, service: g.service,
		turn: make(chan struct{}, 1),
	}
	h.set(g)
	h.term = term.New(fencing.With(within, fencing.OfLock(h.service.LockKey, 0, h.token)), p.clock,
		g.begin.End(g.lasts), expired)
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(within))
	if err := h.term.Check(); err != nil { // the process was stopped for longer than the lease
		h.term.Cancel(err)
		h.cancel()
		return nil, err
	}
	return h, nil
}

// push notes an event of a lease.
func (p *Project) push(h *held, e Event) {
	e.LeaseID, e.Backend, e.Scope = h.id, p.backend.name(), h.scope
	p.events.push(e)
}

// Renew moves the expiry of a lease to TTL from now, and returns the lease as it is then. Any lease value of the same
// acquire may be passed. A write that fails is tried again after 500, 1000, 2000 and 4000 ms, while the lease lasts
// that long. The error is [CodeLockRenewalFailed], retryable if the caller should acquire the lock again: after five
// failures, if ctx ended, or if the lease is lost ([ErrLost]), which is never renewed. Until it expires a lease that
// could not be renewed still holds the lock.
func (p *Project) Renew(ctx context.Context, l Lease) (Lease, error) {
	if err := p.owns(l); err != nil {
		return Lease{}, err
	}
	return p.renew(ctx, l.held)
}

func (p *Project) renew(ctx context.Context, h *held) (Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(errReleased) })()
	r := renewal{request: newID()}
	for n := 1; ; n++ {
		l, wait, err := p.renewOnce(ctx, h, r, n)
		p.events.flush()
		if wait == 0 {
			return l, err
		}
		_ = backoff.Sleep(ctx, wait) // the next attempt finds that ctx has ended
	}
}

// renewOnce makes one attempt to renew, in the turn of the lease. If there is to be another one it says when.
func (p *Project) renewOnce(ctx context.Context, h *held, r renewal, n int) (l Lease, wait time.Duration, err error) {
	if err := h.enter(ctx); err != nil {
		return Lease{}, 0, &LockError{Code: CodeLockRenewalFailed, Retryable: true, Cause: err}
	}
	defer h.leave()
	r.known, r.unsure = h.service, h.unsure
	err = cmp.Or(context.Cause(ctx), h.over())
	if err == nil {
		var g grant
		g, err = run(ctx, min(TryTimeout, max(h.term.Left()/3, 10*time.Millisecond)),
			func(ctx context.Context, _ *try) (grant, error) {
				return p.backend.renew(ctx, h, r)
			})
		h.unsure = err != nil && (h.unsure || lease.Unsettled(err))
		if errors.Is(err, lease.ErrElsewhere) {
			h.elsewhere = err
		}
		switch {
		case err == nil && h.term.Extend(g.begin.End(g.lasts)):
			h.service = g.service
			h.set(g)
			p.forget(h.id)
			p.push(h, Event{Type: Renewed, TTLExpiresAt: g.expiresAt})
			return h.lease(), 0, nil
		case err == nil:
			err = h.term.Check() // it came too late
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
	}
	failed := &LockError{Code: CodeLockRenewalFailed, Retryable: true, Cause: err}
	if errors.Is(err, ErrLost) {
		h.term.Lose(err)
		return Lease{}, 0, failed
	}
	if ctx.Err() != nil {
		return Lease{}, 0, failed
	}
	h.term.Failed(err)
	reason, permanent := p.backend.judge(err)
	delay := renewals.delay(n)
	switch {
	case permanent:
		p.unrenewed(h)
		failed.Retryable = false
		p.push(h, Event{Type: Failed, Err: failed})
	case n < renewals.MaxAttempts && delay < h.term.Left():
		p.push(h, Event{Type: RetryScheduled, Attempt: n, Delay: delay, Reason: reason})
		return Lease{}, delay, nil
	default:
		p.unrenewed(h)
	}
	return Lease{}, 0, failed
}

// unrenewed notes that the renewals of a lease failed: its caller acquires again, and is not to wait for its own lease.
func (p *Project) unrenewed(h *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.leftovers, func(l *leftover) bool { return l.id == h.id }) {
		p.leftovers = append(p.leftovers, &leftover{id: h.id, scope: h.scope, held: h, until: h.lease().expiresAt})
	}
}

// forget ends what unrenewed noted: the lease was renewed after all.
func (p *Project) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leftovers = slices.DeleteFunc(p.leftovers, func(l *leftover) bool { return l.id == id })
}

// errFollowed is the cause of the end of a lease that could not be renewed and that another acquire followed.
var errFollowed = fmt.Errorf("%w: its renewals failed, and another acquire followed", ErrLost)

// errReleased is the cause of a renewal that ended because the lease was released.
var errReleased = fmt.Errorf("%w: it was released", ErrLost)

// Release ends a lease and frees the lock. Any lease value of the same acquire may be passed; what has been released
// already is nil. It works with a context that has ended, and takes TryTimeout at most. The error is
// [CodeLockReleaseFailed]: the lock could not be removed, and that is tried again by the next acquire of this project,
// or by Release; or it was not the lease's any more ([ErrLost]), and was left alone. Either is a CleanupWarning.
func (p *Project) Release(ctx context.Context, l Lease) error {
	if err := p.owns(l); err != nil {
		return err
	}
	return p.release(ctx, l.held)
}

func (p *Project) release(ctx context.Context, h *held) error {
	h.release()
	_ = h.term.Settle() // it is not lost by time any more
	defer h.term.Cancel(errReleased)
	ctx = context.WithoutCancel(ctx)
	err := p.releaseOnce(ctx, h)
	p.events.flush()
	return err
}

// releaseOnce makes one attempt to release, in the turn of the lease.
func (p *Project) releaseOnce(ctx context.Context, h *held) error {
	h.turn <- struct{}{} // a renewal that is under way ends now
	defer h.leave()
	if h.ended {
		return nil
	}
	l := p.leftover(h.id)
	if l == nil {
		l = &leftover{id: h.id, scope: h.scope, held: h, until: h.lease().expiresAt}
	}
	err := p.remove(ctx, l)
	switch {
	case err == nil:
		h.ended = true
		p.push(h, Event{Type: Released})
		return nil
	case errors.Is(err, ErrLost):
		h.ended = true
		p.warn(l, fmt.Sprintf("the lock was left alone: %v", err))
	default:
		p.remains(l, err)
	}
	return &LockError{Code: CodeLockReleaseFailed, Retryable: true, Cause: err}
}

// remove frees the lock of a lease that is over.
func (p *Project) remove(ctx context.Context, l *leftover) error {
	_, err := run(ctx, TryTimeout, func(ctx context.Context, _ *try) (struct{}, error) {
		return struct{}{}, p.backend.release(ctx, l)
	})
	if err == nil || errors.Is(err, ErrLost) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leftovers = slices.DeleteFunc(p.leftovers, func(other *leftover) bool { return other == l })
	}
	return err
}

// remains notes that a lock could not be removed, and warns.
func (p *Project) remains(l *leftover, err error) {
	p.mu.Lock()
	if l.taken {
		p.mu.Unlock()
		return
	}
	l.failures++
	n := l.failures
	if !slices.Contains(p.leftovers, l) {
		p.leftovers = append(p.leftovers, l)
	}
	p.mu.Unlock()
	next := "the next acquire tries again"
	if n >= tries {
		next = "it is left to its expiry"
	}
	p.warn(l, fmt.Sprintf("the lock could not be removed, %d of %d times; %s: %v", n, tries, next, err))
}

// clean removes what could not be removed before, unless another goroutine does.
func (p *Project) clean(ctx context.Context) {
	if !p.cleaning.TryLock() {
		return
	}
	defer p.cleaning.Unlock()
	now := p.clock().Wall()
	p.mu.Lock()
	p.leftovers = slices.DeleteFunc(p.leftovers, func(l *leftover) bool {
		return l.failures >= tries && now.After(l.until)
	})
	due := slices.DeleteFunc(slices.Clone(p.leftovers), func(l *leftover) bool { return l.failures >= tries })
	p.mu.Unlock()
	for _, l := range due {
		p.cleanOne(ctx, l)
		p.events.flush()
	}
}

func (p *Project) cleanOne(ctx context.Context, l *leftover) {
	if h := l.held; h != nil {
		if h.enter(ctx) != nil {
			return
		}
		defer h.leave()
		if p.leftover(l.id) != l {
			return // it was renewed or released meanwhile
		}
		h.term.Lose(errFollowed)
		h.release()
	}
	err := p.remove(ctx, l)
	switch {
	case err == nil || errors.Is(err, ErrLost):
		if l.held != nil {
			l.held.ended = true
		}
	case ctx.Err() == nil:
		p.remains(l, err)
	}
}

// leftover finds what was noted about a lease, nil if nothing was.
func (p *Project) leftover(id string) *leftover {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leftovers {
		if l.id == id {
			return l
		}
	}
	return nil
}

// taken forgets what earlier tries of an acquire left behind, because its file is that of the lease now.
func (p *Project) taken(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leftovers = slices.DeleteFunc(p.leftovers, func(l *leftover) bool {
		l.taken = l.taken || l.id == id
		return l.id == id
	})
}

// isLeftover reports whether the lock of a lease is free for the next one of this project: the lease is over.
func (p *Project) isLeftover(id string) bool {
	l := p.leftover(id)
	return l != nil && (l.held == nil || l.held.isReleased())
}

// owns reports whether the lease is one of this project.
func (p *Project) owns(l Lease) error {
	if l.held == nil || l.held.project != p {
		return errors.New("the lease is not of this project: pass what Acquire or Renew returned")
	}
	return nil
}

func (p *Project) warn(l *leftover, message string) {
	p.events.push(Event{Type: CleanupWarning, LeaseID: l.id, Backend: p.backend.name(), Scope: l.scope, Message: message})
}
