package locks

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
)

// Why a lock's context ends, beside the end of the context that it was made of. [context.Cause] wraps one of them.
var (
	// ErrLost marks a lock that is, or very soon will be, another's: its lease was not renewed in time, the provider says
	// that it is over, or it was held for as long as it may be ([ErrMaxHold]). The error also has what the provider said:
	// the code of the rejection, or why the renewals failed.
	ErrLost = lease.Lost("the lock is lost")

	// ErrMaxHold is an ErrLost as well: LockOptions.MaxHold is over.
	ErrMaxHold = errors.New("it was held for as long as it may be")

	// ErrUnlocked says that the lock was released by its holder.
	ErrUnlocked = errors.New("the lock was released")

	// ErrClosed says that its client was closed. It is the error of what a closed client is asked, too.
	ErrClosed = errors.New("the client of locks is closed")
)

// ErrNotReleased marks the error of a lock that could not be released: it is free when its lease expires.
var ErrNotReleased = errors.New("the lock was not released")

// Client holds locks. Its methods may be called from several goroutines at once.
type Client struct {
	provider Provider
	o        Options
	events   events
	queues   queues
	ctx      context.Context //nolint:containedctx // it ends when Close begins
	cancel   context.CancelCauseFunc

	mu       sync.Mutex
	held     map[*keeper]struct{} // until they are released, or lost, or their work has returned
	failed   []error              // to release what no one holds, since Close began
	underway group                // acquires and releases, also those that no one waits for
}

// New returns a client of a provider's locks. Options may be nil.
func New(p Provider, o *Options) (*Client, error) {
	s, err := o.settings()
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, errors.New("the provider of locks is nil")
	}
	c := &Client{provider: p, o: s, events: events{observe: s.Observe}, held: map[*keeper]struct{}{}}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

// Owner is under which name the client holds locks, as it tells the provider.
func (c *Client) Owner() string { return c.o.Owner }

// Do runs the work while it holds the lock: it waits for the lock, renews it until the work returns, and releases it.
// LockOptions may be nil.
//
// The context of the work is derived from ctx and ends with an [ErrLost] if the lock is lost. The error is that of the
// work, with that of the loss if the lock was lost before the work returned; then work that returned no error has not
// failed, but was not protected until its end. An [ErrNotReleased] says that the work was done, and others wait until
// the lease expires. A panic of the work releases the lock and goes on.
func (c *Client) Do(ctx context.Context, key string, o *LockOptions,
	work func(ctx context.Context, l *Lock) error) error {
	if work == nil {
		return errors.New("the work is nil")
	}
	k, err := c.acquire(ctx, key, o, true)
	if err != nil {
		return err
	}
	l := &Lock{k} // its work has it
	return l.do(ctx, l.Unlock, func(ctx context.Context) error { return work(ctx, l) })
}

// do runs the work, and unlocks.
func (l *Lock) do(ctx context.Context, unlock func(context.Context) error, work func(context.Context) error) error {
	defer l.keeper.finish()
	returned := false
	defer func() {
		if !returned { // it panicked, or ended its goroutine
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.GraceTime)
			defer cancel()
			_ = unlock(late)
		}
	}()
	err := work(l.Context())
	returned = true
	switch cause := context.Cause(l.Context()); {
	case cause == nil || errors.Is(err, cause) || !errors.Is(err, context.Canceled):
	case err == context.Canceled: //nolint:errorlint // it says nothing more
		err = cause
	default:
		err = fmt.Errorf("%w: %w", cause, err)
	}
	unlocked := unlock(ctx)
	if errors.Is(err, ErrLost) && errors.Is(unlocked, ErrLost) {
		return err
	}
	return errors.Join(err, unlocked)
}

// TryLock acquires a lock unless it is held: then the error is LOCK_HELD, at once; LOCK_DELAYED while it is closed for
// the delay of a lease that was lost. See [Client.Lock].
func (c *Client) TryLock(ctx context.Context, key string, o *LockOptions) (*Lock, error) {
	s := LockOptions{}
	if o != nil {
		s = *o
	}
	if s.Wait == nil || *s.Wait > 0 {
		s.Wait = new(time.Duration)
	}
	return c.Lock(ctx, key, &s)
}

// Lock acquires a lock, and waits for it if it is held: see LockOptions.Wait. ctx bounds the acquire alone: the lock is
// renewed until [Lock.Unlock], [Client.Close], its loss or LockOptions.MaxHold, or until no one has it any more (see
// [Forgotten]). LockOptions may be nil. Prefer [Client.Do], which cannot forget to unlock, and stops the work when ctx
// ends.
//
// If ctx ends before the lock is acquired, nothing is held afterwards: what a request that is under way may obtain is
// released in the background.
//
// Goroutines that ask one client for the same key are served in their order, and one at a time asks the provider, or
// waits at it if several may hold the lock. With LockOptions.MaxWaiting or Replace each is on its own.
func (c *Client) Lock(ctx context.Context, key string, o *LockOptions) (*Lock, error) {
	k, err := c.acquire(ctx, key, o, false)
	if err != nil {
		return nil, err
	}
	return handle(k), nil
}

// Get reads a lock: who holds it. It sends the request once, for 5 s at most. The error NOT_FOUND means that there is
// no record of it.
func (c *Client) Get(ctx context.Context, key string) (contracts.Lock, error) {
	got, err := bounded(ctx, hold.CallTime, func(ctx context.Context) (contracts.Lock, error) {
		return c.provider.Get(ctx, key)
	})
	if err == nil && got.LockKey != key {
		err = lease.Invalid("", fmt.Errorf("it is about the lock %q, not %q", got.LockKey, key))
	}
	return got, err
}

// Locked reports whether anyone holds a lock. Errors are those of [Client.Get], but for NOT_FOUND.
func (c *Client) Locked(ctx context.Context, key string) (bool, error) {
	l, err := c.Get(ctx, key)
	if errors.Is(err, contracts.CodeNotFound) {
		return false, nil
	}
	return l.State == contracts.StateActive, err
}

// Close ends the client: it acquires nothing more, and the contexts of the locks that it holds end with [ErrClosed]. It
// waits until they are unlocked, or forgotten, and the works of [Client.Do] have returned, or until ctx ends. Then it
// releases what is left, within 1 s, except for locks whose work still runs: those expire. For requests that are under
// way without a caller it waits for 5 s, or as long. The error says which locks that concerns, and which could not be
// released.
func (c *Client) Close(ctx context.Context) error {
	c.cancel(ErrClosed)
	c.mu.Lock()
	held := make([]*keeper, 0, len(c.held))
	for k := range c.held {
		held = append(held, k)
	}
	c.mu.Unlock()
	for _, k := range held {
		k.term.Cancel(ErrClosed)
	}
	late, cancel := graced(ctx, hold.GraceTime)
	defer cancel()
	left := make([]error, len(held))
	var all sync.WaitGroup
	for i, k := range held {
		all.Go(func() { left[i] = k.closed(ctx, late) })
	}
	all.Wait()
	soon, stop := context.WithTimeout(late, hold.CallTime)
	defer stop()
	var open error
	if !c.underway.wait(soon) {
		open = fmt.Errorf("%w: requests are still under way", ErrNotReleased)
	}
	c.events.flush(late)
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(errors.Join(left...), open, errors.Join(c.failed...))
}

// closed waits until a lock is not held any more. ctx is that of Close, late the one in which it must return.
func (k *keeper) closed(ctx, late context.Context) error {
	select {
	case <-k.finished:
		return k.closingError()
	default:
	}
	look := time.NewTicker(shortPause)
	defer look.Stop()
	for waits := true; waits && !k.forgotten.Load(); { // what is forgotten no one can unlock
		select {
		case <-k.finished:
			return k.closingError()
		case <-ctx.Done():
			waits = false
		case <-look.C:
		}
	}
	if k.working {
		k.renewing.stop()
		return fmt.Errorf("lock %q: %w: its work still runs, and it expires", k.key, ErrNotReleased)
	}
	return (&Lock{k}).Unlock(late)
}

// graced returns a context that outlives ctx by a time.
func graced(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(d):
			cancel()
		}
	})
	return late, func() { stop(); cancel() }
}

// Check reports whether work under a lock may take its next step: nil while its context lives and the lease lasts.
// Otherwise the error is the cause with which the context was, or is to be, cancelled; [ErrLost] if the lock is lost.
// ctx is [Lock.Context] or one that was made of it. It consults the clocks at the time of the call and costs no
// request.
func Check(ctx context.Context) error { return term.Check(ctx) }
