package chaos

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Abroad lets a store be used from a bubble of testing/synctest that cannot live in one because it talks to its server over
// a network: the bubble's time would stand still for ever while somebody in there reads from a socket. Calls are made
// outside, and take none of the bubble's time.
type Abroad struct {
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

// NewAbroad must be called outside the bubble. Its goroutines end with ctx.
func NewAbroad(ctx context.Context) *Abroad {
	a := &Abroad{free: make(chan *trip, trips), calls: make(chan *trip)}
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
func (a *Abroad) Now() time.Time { return time.Unix(0, a.now.Load()) }

// Store is a store that lives outside, for use in the bubble.
func (a *Abroad) Store(s docstore.Store) docstore.Store { return abroad{a, s} }

type abroad struct {
	*Abroad

	store docstore.Store
}

// goOut makes a call outside. The context stays behind: nobody out there may wait for one that belongs to the bubble.
func goOut[T any](ctx context.Context, a *Abroad, call func(context.Context) (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	t := <-a.free
	defer func() { a.free <- t }()
	a.now.Store(time.Now().UnixNano())
	t.call = func() { answer, err = call(context.Background()) }
	a.calls <- t
	<-t.back
	return answer, err
}

// Get implements [docstore.Store].
func (s abroad) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	return goOut(ctx, s.Abroad, func(ctx context.Context) (docstore.Snapshot, error) { return s.store.Get(ctx, keys...) })
}

// Write implements [docstore.Store].
func (s abroad) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	return goOut(ctx, s.Abroad, func(ctx context.Context) (docstore.Result, error) { return s.store.Write(ctx, writes...) })
}

// List implements [docstore.Store].
func (s abroad) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return goOut(ctx, s.Abroad, func(ctx context.Context) (docstore.Page, error) { return s.store.List(ctx, q) })
}

// Due implements [docstore.DueLister].
func (s abroad) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	return goOut(ctx, s.Abroad, func(ctx context.Context) (docstore.Page, error) { return docstore.Due(ctx, s.store, q) })
}

// Close implements [docstore.Store]. Whoever opened the store closes it.
func (s abroad) Close() error { return nil }
