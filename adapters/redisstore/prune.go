package redisstore

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Prune implements [docstore.Pruner]. It is two round trips for each hundred documents, one that finds them and one that removes
// those that are still due, and one for each shard, which finds no more.
func (s *Store) Prune(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: limit %d: 1 or more", docstore.ErrInvalid, limit)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.End()
	for _, of := range s.keys.shards {
		for removed < limit {
			_, due, err := s.members(ctx, of, of.ends, min(limit-removed, docstore.MaxWrites))
			if err != nil {
				return removed, err
			}
			if len(due) == 0 {
				break
			}
			n, err := s.remove(ctx, of, due)
			if removed += n; err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// remove removes those documents of a shard that are due. due are members of its set of ends.
func (s *Store) remove(ctx context.Context, of *shard, due []string) (removed int, err error) {
	keys := append(make([]string, 0, 2+3*len(due)), of.ends, of.tenants)
	ids := appendList(nil, len(due))
	for _, member := range due {
		k, err := docstore.ParseKey(member)
		if err != nil {
			return 0, fmt.Errorf("%w: %s holds %q: %w", docstore.ErrDamaged, of.ends, member, err)
		}
		ids = appendText(ids, "", k.ID)
		keys = of.appendKeys(keys, k)
	}
	reply, err := s.do(ctx, "prune", pruneScript, true, of, keys, ids)
	if err != nil {
		return 0, err
	}
	n, err := reply.rest.number()
	if err != nil {
		return 0, s.unreadable("prune", err)
	}
	return int(n), nil
}
