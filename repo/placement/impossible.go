package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Ends that a wrong clock has written, see [rule.When.Impossible]: who reads one counts it anew, by a write that is
// sent in that case only.

// longest is how long what was given for a time lasts: of what another program has written, the longest that there is.
func longest(given time.Duration) time.Duration {
	if given < MinTTL || given > MaxTTL {
		return MaxTTL
	}
	return given
}

// lasting is a member's lease that was read at a time, with the end that counts.
func (s *Service) lasting(ctx context.Context, c Cluster, member string, l LeaseState, at rule.When) (LeaseState,
	error) {
	ttl := longest(l.ttl)
	counts, is := at.Impossible(l.ExpiresAt, ttl)
	if !is {
		return l, nil
	}
	_, err := s.store.Write(ctx, docstore.Write{ // a heartbeat that comes first says more
		Key: c.lease(member),
		If: docstore.All{docstore.Eq{Field: fIncarnation, Value: docstore.Int(l.Number)},
			docstore.Eq{Field: fSeq, Value: docstore.Int(l.Seq)},
			docstore.Eq{Field: fExpiresAt, Value: docstore.FormatTime(l.ExpiresAt)}, rule.ImpossibleEnd(fExpiresAt, ttl)},
		Set: map[string]docstore.Value{fExpiresAt: docstore.Now.Add(ttl)},
	})
	if err != nil {
		return l, fmt.Errorf("%s: %w", c.lease(member), err)
	}
	l.ExpiresAt = counts
	return l, nil
}

// countAnew is the write that counts the end of a lock phase anew, if that is impossible.
func (s subject) countAnew(a Activation, at rule.When) (w docstore.Write, is bool) {
	ttl := longest(a.LockUntil.Sub(a.ClaimedAt))
	if _, is = at.Impossible(a.LockUntil, ttl); !is || a.Phase != Locked {
		return w, false
	}
	return docstore.Write{
		Key: s.key(),
		If: docstore.All{docstore.Eq{Field: fRev, Value: docstore.Int(a.rev)},
			docstore.Eq{Field: fToken, Value: docstore.Int(a.Token)}, rule.ImpossibleEnd(fLockUntil, ttl)},
		Set: map[string]docstore.Value{fClaimedAt: docstore.Now, fLockUntil: docstore.Now.Add(ttl)},
		Add: map[string]int64{fRev: 1},
	}, true
}
