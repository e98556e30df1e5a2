package setup

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	// PruneEvery is about how often [PruneLoop] looks for documents to remove.
	PruneEvery = 5 * time.Minute

	pruneBatch   = 500              // documents in one call, so that other writes get their turn
	pruneTimeout = 30 * time.Second // for one call

	prunedBySweep = 10 * pruneBatch // documents in one sweep: a scheduler waits for it
)

// Prune removes the documents whose end has passed, in small batches. It returns how many. An error means that some may be left.
func Prune(ctx context.Context, store docstore.Pruner) (removed int, err error) {
	for {
		n, more, err := pruneOnce(ctx, store)
		if removed += n; err != nil || !more {
			return removed, err
		}
	}
}

// pruneSome is [Prune] for some thousand documents.
func pruneSome(ctx context.Context, store docstore.Pruner) (removed int, err error) {
	for removed < prunedBySweep {
		n, more, err := pruneOnce(ctx, store)
		if removed += n; err != nil || !more {
			return removed, err
		}
	}
	return removed, nil
}

func pruneOnce(ctx context.Context, store docstore.Pruner) (removed int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	removed, err = store.Prune(ctx, pruneBatch)
	return removed, removed == pruneBatch, err
}

// PruneLoop prunes a store every five minutes, more or less, until ctx ends. It returns at once for a store that removes documents by
// itself (DynamoDB, Firestore). Several processes may do it for one store.
func PruneLoop(ctx context.Context, store docstore.Store, log *slog.Logger) {
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
		n, err := Prune(ctx, p)
		switch {
		case ctx.Err() != nil || errors.Is(err, docstore.ErrClosed):
			return
		case err != nil:
			log.WarnContext(ctx, "cannot remove ended locks; the next attempt follows in some minutes", "removed", n, "err", err)
		case n > 0:
			log.InfoContext(ctx, "removed ended locks", "removed", n)
		}
	}
}
