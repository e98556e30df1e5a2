package sqlitestore

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Pruner = (*Store)(nil)

// pruneSQL removes documents whose end has passed, those that waited longest first.
const pruneSQL = "DELETE FROM docs WHERE (kind, tenant, id) IN " +
	"(SELECT kind, tenant, id FROM docs INDEXED BY docs_by_end WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2)"

// Prune implements [docstore.Pruner]. It goes through the queue as writes do, [maxBatch] documents at a time, so that
// no write waits for more than that.
func (s *Store) Prune(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: limit %d: 1 or more", docstore.ErrInvalid, limit)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.End()
	for removed < limit {
		c := &call{ctx: ctx, prune: min(limit-removed, maxBatch), done: make(chan struct{})}
		s.writer.queue.add(c)
		if err := c.wait(ctx, s.path); err != nil {
			return removed, err
		}
		if removed += c.pruned; c.pruned < c.prune {
			break
		}
	}
	return removed, nil
}
