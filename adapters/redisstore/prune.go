package redisstore

import (
	"context"
	"fmt"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Prune implements [docstore.Pruner]. It is two round trips for each hundred documents, one that finds them and one that removes
// those that are still due, and one that finds no more.
func (s *Store) Prune(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: limit %d: 1 or more", docstore.ErrInvalid, limit)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.End()
	for removed < limit {
		_, due, err := s.members(ctx, s.keys.ends(), min(limit-removed, docstore.MaxWrites))
		if err != nil || len(due) == 0 {
			return removed, err
		}
		n, err := s.remove(ctx, due)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove removes those documents that are due. due are members of the set of ends.
func (s *Store) remove(ctx context.Context, due []string) (removed int, err error) {
	keys := append(make([]string, 0, 2+2*len(due)), s.keys.ends(), s.keys.tenants())
	ids := make([]string, len(due))
	for i, member := range due {
		k, err := docstore.ParseKey(member)
		if err != nil {
			return 0, fmt.Errorf("%w: %s holds %q: %w", docstore.ErrDamaged, s.keys.ends(), member, err)
		}
		ids[i] = k.ID
		keys = append(keys, s.keys.doc(k), s.keys.ids(k.Kind, k.Tenant))
	}
	reply, err := s.do(ctx, "prune", pruneScript, true, keys, ids)
	if err != nil {
		return 0, err
	}
	if len(reply.rest) == 1 {
		if n, ok := reply.rest[0].(int64); ok {
			return int(n), nil
		}
	}
	return 0, s.unreadable("prune", fmt.Errorf("it ends with %v", reply.rest))
}
