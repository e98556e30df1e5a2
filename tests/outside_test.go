package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// outside is a store behind a network, for a test in virtual time: its requests are carried out outside the bubble, by
// goroutines whose channels are not the bubble's, so that time stands still while one is under way. The store's clock
// is the bubble's, as the latest request had it.
type outside struct {
	calls chan *outsideCall
	idle  chan *outsideCall // with channels that were made outside
	clock *atomic.Int64
}

type outsideCall struct {
	do   func()
	done chan struct{}
}

// openOutside opens a store outside the bubble. All that is in it when the test ends is dropped.
func openOutside(t *testing.T, open newStore) func(*testing.T, func() time.Time) docstore.Store {
	t.Helper()
	const most = 64
	o := &outside{calls: make(chan *outsideCall), idle: make(chan *outsideCall, most), clock: &atomic.Int64{}}
	o.clock.Store(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()) // when bubbles begin
	store := open(t, func() time.Time { return time.Unix(0, o.clock.Load()).UTC() })
	for range most {
		o.idle <- &outsideCall{done: make(chan struct{})}
		go func() {
			for c := range o.calls {
				c.do()
				c.done <- struct{}{}
			}
		}()
	}
	t.Cleanup(func() { close(o.calls) })
	return func(*testing.T, func() time.Time) docstore.Store { return outsideStore{o, store} }
}

// outsideStore is the store as the bubble sees it.
type outsideStore struct {
	*outside

	store docstore.Store
}

// callOutside carries out a request. It goes on when its caller does not wait any more: that is in no time.
func callOutside[R any](ctx context.Context, s outsideStore, do func(context.Context) (R, error)) (r R, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	ctx = context.WithoutCancel(ctx) // its channel is the bubble's
	s.clock.Store(time.Now().UnixNano())
	c := <-s.idle
	c.do = func() { r, err = do(ctx) }
	s.calls <- c
	<-c.done
	s.idle <- c
	return r, err
}

// Get implements [docstore.Store].
func (s outsideStore) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	return callOutside(ctx, s, func(ctx context.Context) (docstore.Snapshot, error) { return s.store.Get(ctx, keys...) })
}

// Write implements [docstore.Store].
func (s outsideStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	return callOutside(ctx, s, func(ctx context.Context) (docstore.Result, error) { return s.store.Write(ctx, writes...) })
}

// List implements [docstore.Store].
func (s outsideStore) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	return callOutside(ctx, s, func(ctx context.Context) (docstore.Page, error) { return s.store.List(ctx, q) })
}

// Close implements [docstore.Store].
func (outsideStore) Close() error { return nil }
