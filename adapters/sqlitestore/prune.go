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

// The file returns space to the disk when more of it is free than one part of freeShare, and freeLeast pages: so many
// pages with each call of Prune, that no write waits for long, and that the log stays small.
const (
	incremental = 2 // PRAGMA auto_vacuum: free pages leave the file when that is asked for
	freeShare   = 4
	freeLeast   = 256
	shrinkPages = 256
)

// shrink returns free pages to the disk, inside a transaction that has begun, and reports whether it did.
func (c *conn) shrink() (bool, error) {
	var free, all int64
	for name, into := range map[string]*int64{"freelist_count": &free, "page_count": &all} {
		var err error
		if *into, err = c.number("PRAGMA " + name); err != nil {
			return false, err
		}
	}
	if free < freeLeast || free*freeShare < all {
		return false, nil
	}
	return true, c.exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
}

// Prune implements [docstore.Pruner]. It goes through the queue as writes do, [maxBatch] documents at a time, so that
// no write waits for more than that. The file shrinks by it, if much of it is free.
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
