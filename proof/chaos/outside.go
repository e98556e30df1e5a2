package chaos

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Outside lets a bubble of testing/synctest use a store that cannot be in one because it talks to its server over a
// network: the time of a bubble stops while a goroutine in it reads from a socket. Calls are made outside, and take
// none of its time.
type Outside struct {
	free  chan *trip
	calls chan *trip
	now   atomic.Int64 // the bubble's time at the latest call, in nanoseconds
}

// trip is a call outside. Its channel does not belong to a bubble, so that the bubble's time waits for it.
type trip struct {
	call func()
	back chan struct{}
}

// trips is how many calls may be outside at once.
const trips = 8

// NewOutside must be called outside the bubble. Its goroutines end with ctx.
func NewOutside(ctx context.Context) *Outside {
	a := &Outside{free: make(chan *trip, trips), calls: make(chan *trip)}
	for range trips {
		a.free <- &trip{back: make(chan struct{})}
		go func() {
			for {
				select {
				case t := <-a.calls:
					t.call()
					t.back <- struct{}{}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return a
}

// Now is the bubble's time, for the store's server.
func (a *Outside) Now() time.Time { return time.Unix(0, a.now.Load()) }

// Store is a store that lives outside, for use in the bubble.
func (a *Outside) Store(s docstore.Store) docstore.Store { return outside{a, s} }

type outside struct {
	*Outside

	store docstore.Store
}

// goOut makes a call outside. The context stays behind, because a goroutine outside must not wait for one that belongs
// to the bubble.
func goOut[T any](ctx context.Context, a *Outside, call func(context.Context) (T, error)) (result T, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	t := <-a.free
	defer func() { a.free <- t }()
	a.now.Store(time.Now().UnixNano())
	t.call = func() { result, err = call(context.Background()) }
	a.calls <- t
	<-t.back
	return result, err
}

// Get implements [docstore.Store].
func (s outside) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	return goOut(ctx, s.Outside, func(ctx context.Context) (docstore.Snapshot, error) { return s.store.Get(ctx, keys...) })
}

// Write implements [docstore.Store].
func (s outside) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	return goOut(ctx, s.Outside, func(ctx context.Context) (docstore.Result,
		error) {
		return s.store.Write(ctx, writes...)
	})
}

// List implements [docstore.Store].
func (s outside) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return goOut(ctx, s.Outside, func(ctx context.Context) (docstore.Page, error) { return s.store.List(ctx, q) })
}

// Due implements [docstore.DueLister].
func (s outside) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	return goOut(ctx, s.Outside, func(ctx context.Context) (docstore.Page, error) { return docstore.Due(ctx, s.store, q) })
}

// Close implements [docstore.Store]. The caller that opened the store closes it.
func (s outside) Close() error { return nil }
