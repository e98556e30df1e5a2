package placement

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// # The end of a cluster
//
// A cluster without members can be removed: by an administrator at once, by sweeps when it has had none, and no
// activation either, for the retention. Its head stays for ever, a hundred bytes that say so, because what comes later
// must be above what was:
//
//	head: epoch 7 ── removal ──▶ head: epoch 1617000000, removed ── join ──▶ head: epoch 1617000001
//
// The removal counts as an epoch, so that whatever was decided before it fails its condition on the head. That epoch is
// so high that tokens and incarnations that begin by it ([firstToken]) are above all that were given until two minutes
// later by the store's clock. Therefore the documents of the earlier life are told from those of a later one by their
// epochs and incarnations, and are removed after the head was written, in any number of steps. The name of the cluster,
// which counts against the bound of its tenant, goes last.

// RemoveCluster removes a cluster that has no members, with everything that is remembered of its identities, their
// states included: an administrator's command.
type RemoveCluster struct {
	Cluster

	Epoch  int64  // the current one, as the administrator knows it: a later delivery removes nothing that came after
	Reason string // required; for the log of the caller
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c RemoveCluster) Validate() error {
	return first(c.Cluster.Validate(), field.Range("epoch", c.Epoch, 1, docstore.MaxInt),
		field.Text("reason", c.Reason, MaxReasonBytes))
}

// Removal is the outcome of [Service.RemoveCluster].
type Removal struct {
	Code     Code
	Replayed bool // it was removed before; what was left of it is removed now

	Identities int           // of which documents were removed by this call
	Epoch      int64         // the current one, where Code is StaleEpoch
	RetryAfter time.Duration // for MemberExists
	Detail     string        // a sentence for people, may be empty
}

// Fields of the head of a cluster that was removed: the epoch that was named for it.
const fRemoved = "removed_from"

// removeMargin is how far the tokens of a cluster may be ahead of the store's time when it is removed: a repair of the
// store sets them a minute ahead.
const removeMargin = 2 * time.Minute

// RemoveCluster removes a cluster; see [RemoveCluster]. Members whose leases have ended are evicted first. Three reads
// and a write of the store, and then a list and a write for each few hundred documents of the cluster; what is left
// after an error, the next call removes, or a sweep. A cluster whose epoch cannot be read is removed once all leases
// have ended. The codes of rejections are ClusterUnknown, StaleEpoch, and MemberExists while a member lives.
func (s *Service) RemoveCluster(ctx context.Context, c RemoveCluster) (Removal, error) {
	if err := c.Validate(); err != nil {
		return Removal{}, err
	}
	for range maxTries {
		named, err := s.named(ctx, c.Cluster)
		if err != nil {
			return Removal{}, err
		}
		v, err := s.look(ctx, c.Cluster, DefaultPartitions, nil)
		var next time.Duration // until the first lease ends of a cluster whose epoch cannot be read
		if errors.Is(err, docstore.ErrDamaged) {
			v, next, err = s.lookPast(ctx, c.Cluster, err)
		}
		switch {
		case err != nil:
			return Removal{}, err
		case v.head.epoch == 0:
			return Removal{Code: ClusterUnknown, Detail: "the cluster never had a member"}, nil
		case v.head.removed == c.Epoch:
			n, err := s.clear(ctx, c.Cluster, v.head, named, false)
			return Removal{Code: OK, Replayed: true, Identities: n}, err
		case v.head.removed > 0:
			return Removal{Code: ClusterUnknown, Detail: "the cluster was removed"}, nil
		case v.head.epoch != c.Epoch:
			return Removal{Code: StaleEpoch, Epoch: v.head.epoch,
				Detail: fmt.Sprintf("the epoch is %d: look at the cluster again", v.head.epoch)}, nil
		case next > 0:
			return Removal{Code: MemberExists, RetryAfter: next,
				Detail: "the epoch cannot be read, and members live: stop them, and wait until their leases have ended"}, nil
		}
		if len(v.top.Members) > 0 {
			var next time.Duration
			if v, next, err = s.emptied(ctx, c.Cluster); err != nil {
				return Removal{}, err
			}
			if n := len(v.top.Members); n > 0 {
				return Removal{Code: MemberExists, RetryAfter: next,
					Detail: fmt.Sprintf("the cluster has %d members that live: stop them, or evict them", n)}, nil
			}
		}
		h, applied, err := s.end(ctx, c.Cluster, v.head, c.Epoch)
		if err != nil {
			return Removal{}, err
		}
		if applied {
			n, err := s.clear(ctx, c.Cluster, h, named, false)
			return Removal{Code: OK, Identities: n}, err
		}
	}
	return Removal{}, fmt.Errorf("%w: cluster %q: %d changes of its members came first; try again",
		docstore.ErrUnavailable, c.Name, maxTries)
}

// lookPast is a look at a cluster whose epoch cannot be read: at its head, as if it had no members, and at the leases.
// next is how long it takes until the first of them ends, 0 if all have.
func (s *Service) lookPast(ctx context.Context, c Cluster, damage error) (v *sight, next time.Duration, err error) {
	snap, err := s.store.Get(ctx, c.head())
	if err != nil {
		return nil, 0, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	h, err := c.headOf(snap.Docs[0])
	if err != nil {
		return nil, 0, damage
	}
	for q := (docstore.Query{Kind: leaseKind, Tenant: c.space(), Limit: docstore.MaxLimit}); ; {
		p, err := s.store.List(ctx, q)
		if err != nil {
			return nil, 0, fmt.Errorf("leases of %q: %w", c.Name, err)
		}
		for e, err := range p.All() {
			var l LeaseState
			if err == nil {
				l, err = c.leaseOf(e.Key.ID, e.Doc)
			}
			if err != nil {
				return nil, 0, err
			}
			if l, err = s.lasting(ctx, c, e.Key.ID, l, rule.When{At: p.At, Margin: p.Margin}); err != nil {
				return nil, 0, err
			}
			if left := l.ExpiresAt.Sub(p.At); l.held(p.At) && (next == 0 || left < next) {
				next = left
			}
		}
		if q.After = p.Next; p.Next == "" {
			return &sight{at: snap.At, head: h, top: NewTopology(h.partitions)}, next, nil
		}
	}
}

// emptied evicts all members whose leases have ended. next is how long it takes until the first lease of another ends.
func (s *Service) emptied(ctx context.Context, c Cluster) (v *sight, next time.Duration, err error) {
	done, err := s.evictEnded(ctx, c, MaxMembers)
	if err = errors.Join(err, done.damaged.Err()); err != nil {
		return nil, 0, err
	}
	v, err = s.look(ctx, c, DefaultPartitions, nil)
	return v, done.next, err
}

// named reads the document that names a cluster, nil if there is none.
func (s *Service) named(ctx context.Context, c Cluster) (docstore.Doc, error) {
	snap, err := s.store.Get(ctx, c.entry())
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	return snap.Docs[0], nil
}

// end writes the head of a cluster that is removed, if the epoch is still the one that was read, which has no members.
func (s *Service) end(ctx context.Context, c Cluster, h head, from int64) (after head, applied bool, err error) {
	epoch := max(h.epoch, s.storeTime().Add(removeMargin).UnixMicro()>>20) + 1
	r, err := s.store.Write(ctx, docstore.Write{
		Key: c.head(),
		If:  append(h.same(), docstore.Not{Cond: docstore.Has{Field: fRemoved}}),
		Set: map[string]docstore.Value{fEpoch: docstore.Int(epoch), fRemoved: docstore.Int(from), fChangedAt: docstore.Now},
	})
	if err != nil {
		return head{}, false, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	s.forget(c)
	return head{epoch: epoch, removed: from, changedAt: r.At}, r.Applied, nil
}

// forget drops the epoch that this Service has seen last of a cluster.
func (s *Service) forget(c Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latest, c)
}

// clear removes the documents of a cluster whose removal the head says, and none of a later life. The name of the
// cluster goes last, if it is as it was named and, with quiet, if no join has written it for a while: one that is under
// way would not be found by sweeps.
func (s *Service) clear(ctx context.Context, c Cluster, h head, named docstore.Doc, quiet bool) (identities int,
	err error) {
	incarnations := docstore.LE{Field: fIncarnation, Value: docstore.Int(h.epoch << 20)}
	for _, k := range []struct {
		kind  string
		page  int
		ended docstore.Cond
	}{
		{ActivationKind, sweepPage, docstore.LE{Field: fEpoch, Value: docstore.Int(h.epoch)}},
		{alarmKind, sweepPage, docstore.LE{Field: fToken, Value: docstore.Int(h.epoch << 20)}},
		{leaseKind, sweepPage, incarnations},
		{memberKind, sweepPage, incarnations},
		{eventKind, sweepPage, docstore.LE{Field: fAt, Value: docstore.FormatTime(h.changedAt)}},
		{epochKind, epochPage, docstore.LE{Field: fEpoch, Value: docstore.Int(h.epoch)}},
	} {
		w := &sweeping{Service: s, left: math.MaxInt}
		for after := ""; ; {
			page, err := w.page(ctx, c, k.kind, after, k.page)
			if err != nil {
				return identities, err
			}
			err = w.remove(ctx, page, k.ended)
			if k.kind == ActivationKind {
				identities = w.done.Removed
			}
			if err != nil {
				return identities, err
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	if _, err := s.store.Write(ctx, docstore.Write{Key: c.alarmed(), Delete: true,
		If: docstore.All{docstore.Has{Field: fIncarnation}, incarnations}}); err != nil {
		return identities, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	if named == nil {
		return identities, nil
	}
	return identities, s.drop(ctx, c, named, quiet)
}

// drop removes the document that names a cluster, and makes room for another one; see [Service.clear].
func (s *Service) drop(ctx context.Context, c Cluster, named docstore.Doc, quiet bool) error {
	cond := docstore.All{}
	if quiet {
		cond = append(cond, docstore.LE{Field: fAt, Value: docstore.Now.Add(-time.Minute)})
	}
	gone, err := s.unname(ctx, c, named, cond...)
	if gone {
		s.clusters.Removed(ctx, c.Tenant)
	}
	return err
}

// unname removes the document that names a cluster, if it is as it was named and under a condition.
func (s *Service) unname(ctx context.Context, c Cluster, named docstore.Doc, cond ...docstore.Cond) (gone bool,
	err error) {
	r, err := s.store.Write(ctx, docstore.Write{Key: c.entry(), Delete: true,
		If: append(docstore.All{docstore.Eq{Field: fAt, Value: named[fAt]}}, cond...)})
	if err != nil {
		return false, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	return r.Applied, nil
}

// retire removes what is left of a cluster that has no epoch: it was removed, or its first member has not joined for
// the retention.
func (w *sweeping) retire(ctx context.Context, c Cluster, e docstore.Entry) error {
	snap, err := w.store.Get(ctx, c.head())
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	if snap.Docs[0] == nil {
		if unused := (docstore.LE{Field: fAt, Value: docstore.Now.Add(-w.retention)}); unused.Holds(e.Doc, snap.At) {
			return w.drop(ctx, c, e.Doc, true)
		}
		return nil
	}
	h, err := c.headOf(snap.Docs[0])
	if err != nil || h.removed == 0 {
		return err
	}
	_, err = w.clear(ctx, c, h, e.Doc, true)
	return err
}

// idle removes a cluster that has had no member and no activation for the retention. It reports whether there is
// nothing more to do for it.
func (w *sweeping) idle(ctx context.Context, c Cluster, t *Topology, e docstore.Entry) (bool, error) {
	if len(t.Members) > 0 || w.at.Before(t.At.Add(w.retention)) {
		return false, nil
	}
	page, err := w.page(ctx, c, ActivationKind, "", 1)
	if err != nil || len(page.Entries) > 0 {
		return false, err
	}
	h, applied, err := w.end(ctx, c, head{epoch: t.Epoch, changedAt: t.At, drawn: t.drawn}, t.Epoch)
	switch {
	case err != nil:
		return false, err
	case !applied: // a member joined first, or this one had been applied before: the head tells
		return true, w.retire(ctx, c, e)
	}
	w.done.Retired++
	_, err = w.clear(ctx, c, h, e.Doc, false)
	return true, err
}
