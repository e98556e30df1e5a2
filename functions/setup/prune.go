package setup

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	// PruneEvery is about how often [PruneLoop] looks for documents to remove.
	PruneEvery = 5 * time.Minute

	pruneBatch   = 500              // documents in one call, so that other writes get their turn
	pruneTimeout = 30 * time.Second // for one call

	prunedBySweep = 10 * pruneBatch // documents in one sweep: a scheduler waits for it
)

// Prune removes the documents whose end has passed, in small batches. It returns how many. An error means that some may
// be left; another call goes on with those. told is called after each batch that leaves some, with the number of those
// that it removed, and ends it with an error; nil is not called.
func Prune(ctx context.Context, store docstore.Pruner, told func(removed int) error) (removed int, err error) {
	return pruneUpTo(ctx, store, math.MaxInt, told)
}

// pruneSome is [Prune] for some thousand documents.
func pruneSome(ctx context.Context, store docstore.Pruner) (removed int, err error) {
	return pruneUpTo(ctx, store, prunedBySweep, nil)
}

func pruneUpTo(ctx context.Context, store docstore.Pruner, most int, told func(int) error) (removed int, err error) {
	var unreadable docstore.Unreadable
	for removed < most {
		n, more, err := pruneOnce(ctx, store)
		passed, failed := docstore.Failure(err)
		unreadable.Add(passed) // keeps nothing behind it
		if removed += n; failed != nil || !more {
			return removed, errors.Join(failed, unreadable.Err())
		}
		if told != nil {
			if err := told(n); err != nil {
				return removed, errors.Join(err, unreadable.Err())
			}
		}
	}
	return removed, unreadable.Err()
}

func pruneOnce(ctx context.Context, store docstore.Pruner) (removed int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	removed, err = store.Prune(ctx, pruneBatch)
	return removed, removed == pruneBatch, err
}

// PruneLoop prunes a store every five minutes, more or less, until ctx ends. It returns at once for a store that
// removes documents by itself (DynamoDB, Firestore). Several processes may do it for one store.
func PruneLoop(ctx context.Context, store docstore.Store, log *slog.Logger, m *metrics.Metrics,
	d *metrics.Damage) {
	p, ok := store.(docstore.Pruner)
	if !ok {
		return
	}
	for {
		pause := PruneEvery/2 + rand.N(PruneEvery)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		n, err := Prune(ctx, p, nil)
		switch {
		case ctx.Err() != nil || errors.Is(err, docstore.ErrClosed):
			return
		case n > 0 && err == nil:
			log.InfoContext(ctx, "removed ended locks", "removed", n)
		}
		m.Pruned(ctx, err)
		d.Swept(metrics.OfEnded, err)
		tasks.LogPrune(ctx, log, n, err)
	}
}
