package suite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// onlySignalled is a store whose documents can be read after a signal, and not otherwise: who learns of something by
// the clock learns nothing here.
type onlySignalled struct {
	docstore.Store
	signals atomic.Int64 // that were not read yet
}

// Watch implements [docstore.Watcher].
func (s *onlySignalled) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	//nolint:forcetypeassert // the suite is for those that are
	w, err := s.Store.(docstore.Watcher).Watch(ctx, k)
	changed := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-w.Changed:
				s.signals.Add(1)
				select {
				case changed <- struct{}{}:
				default: // it has an entry
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return docstore.Watch{Changed: changed, Complete: w.Complete}, err
}

// Get implements [docstore.Store].
func (s *onlySignalled) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if s.signals.Swap(0) == 0 {
		return docstore.Snapshot{}, fmt.Errorf("%w: nothing was signalled", docstore.ErrUnavailable)
	}
	return s.Store.Get(ctx, keys...)
}

// HandOvers lets processes hand a lock over to each other, in line or not: each has a store of its own on the same
// data. Each learns of each release by a signal; none reads by the clock.
func HandOvers(t *testing.T, stores ...docstore.Store) {
	t.Helper()
	const rounds = 4
	for _, fair := range []bool{true, false} {
		t.Run(fmt.Sprintf("fair=%v", fair), func(t *testing.T) {
			id := lock.ID{Tenant: "acme", Key: fmt.Sprintf("handed over, %v", fair)}
			var done sync.WaitGroup
			for n, s := range stores {
				l, owner := lock.New(&onlySignalled{Store: s}, nil), fmt.Sprint("process-", n)
				done.Go(func() { handOver(t, l, id, owner, rounds, fair) })
			}
			done.Wait()
		})
	}
}

// handOver obtains and releases a lock some times.
func handOver(t *testing.T, l *lock.Locks, id lock.ID, owner string, rounds int, fair bool) {
	t.Helper()
	for n := range rounds {
		c := lock.Acquire{ID: id, Owner: owner, RequestID: fmt.Sprint("r", n), TTLSeconds: 3600,
			WaitSeconds: lock.MaxWaitSeconds, Fair: fair}
		o, err := l.Acquire(t.Context(), c)
		if err != nil || o.Code != lock.OK {
			t.Errorf("%s, round %d: %+v, error %v", owner, n, o, err)
			return
		}
		time.Sleep(20 * time.Millisecond) // the others get in line
		if o, err := l.Release(t.Context(), lock.Release{ID: id, Owner: owner, Token: o.Lease.Token,
			RequestID: fmt.Sprint("e", n)}); err != nil || o.Code != lock.OK {
			t.Errorf("%s releases: %+v, error %v", owner, o, err)
			return
		}
	}
}
