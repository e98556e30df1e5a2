package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// findAtOnce is how many documents that are due are found in one round trip.
const findAtOnce = 500

// Prune implements [docstore.Pruner]. It is six round trips for each 500 documents: one that finds them, and one for
// each hundred that removes those that are still due, so that no other caller waits for more than a hundred. Another
// one for each shard finds no more. What another program has put in the place of a document is left there: the error, a
// [docstore.Unreadable], names it, once, after all others were removed.
func (s *Store) Prune(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: limit %d: 1 or more", docstore.ErrInvalid, limit)
	}
	if err := s.calls.Begin(ctx); err != nil {
		return 0, err
	}
	defer s.calls.End()
	var failed error
	var unreadable docstore.Unreadable
	for _, of := range s.keys.shards {
		for removed < limit {
			_, due, err := s.members(ctx, of, of.ends, min(limit-removed, findAtOnce))
			if errors.Is(err, docstore.ErrDamaged) {
				failed = errors.Join(failed, err) // the ends of this shard are something else; others have theirs
				break
			}
			if err != nil {
				return removed, errors.Join(failed, err, unreadable.Err())
			}
			if len(due) == 0 {
				break
			}
			for some := range slices.Chunk(due, docstore.MaxWrites) {
				n, damaged, err := s.remove(ctx, of, some)
				for _, member := range damaged {
					unreadable.Take(fmt.Errorf("%w: %s:doc:%s is to be removed and holds something else than "+
						"Leasehold put there: it is left alone", docstore.ErrDamaged, of.root, member))
				}
				if removed += n; err != nil {
					return removed, errors.Join(failed, err, unreadable.Err())
				}
			}
		}
	}
	return removed, errors.Join(failed, unreadable.Err())
}

// remove removes those documents of a shard that are due. due are members of its set of ends; damaged are those of them
// that were taken off it, because there is no document in their place.
func (s *Store) remove(ctx context.Context, of *shard, due []string) (removed int, damaged []string, err error) {
	keys := append(make([]string, 0, 2+3*len(due)), of.ends, of.tenants)
	ids := appendList(nil, len(due))
	var none []string
	for _, member := range due {
		k, err := docstore.ParseKey(member)
		if err != nil {
			none = append(none, member)
			continue
		}
		ids = appendText(ids, "", k.ID)
		keys = of.appendKeys(keys, k)
	}
	for _, member := range none {
		ids = appendText(ids, "", member)
	}
	reply, err := s.do(ctx, "prune", pruneScript, nil, of, keys, ids)
	if err != nil {
		return 0, nil, err
	}
	n, err := reply.rest.number()
	if err != nil {
		return 0, nil, s.unreadable("prune", err)
	}
	if damaged, err = reply.rest.list(); err != nil {
		return int(n), nil, s.unreadable("prune", err)
	}
	return int(n), damaged, nil
}
