package suite

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Far is a store that is some way off, and counts what is asked of it.
type Far struct {
	docstore.Store
	trip   time.Duration // of a request and its answer on the average; each takes from 0.7 to 1.3 of it
	mu     sync.Mutex
	random *rand.Rand
	gets   atomic.Int64
	writes atomic.Int64
}

// NewFar puts a distance before a store. In a bubble of testing/synctest the trips cost no time, and their lengths
// depend on the seed alone.
func NewFar(store docstore.Store, trip time.Duration, seed uint64) *Far {
	return &Far{Store: store, trip: trip, random: rand.New(rand.NewPCG(seed, seed))}
}

// Requests are the calls of Get and Write since the last call of Requests.
func (f *Far) Requests() (gets, writes int64) { return f.gets.Swap(0), f.writes.Swap(0) }

// way lasts as long as a request takes there, or its answer back.
func (f *Far) way() {
	if f.trip == 0 {
		return
	}
	f.mu.Lock()
	share := 0.7 + 0.6*f.random.Float64()
	f.mu.Unlock()
	time.Sleep(time.Duration(share * float64(f.trip) / 2))
}

// Get implements [docstore.Store].
func (f *Far) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	f.gets.Add(1)
	f.way()
	defer f.way()
	return f.Store.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (f *Far) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	f.writes.Add(1)
	f.way()
	defer f.way()
	return f.Store.Write(ctx, writes...)
}
