package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// # Joins that go into one epoch
//
// With [Options.JoinDelay] a join waits for others of its cluster that come to the same Service meanwhile. The first of
// them has them decided one after the other, and written in one step. Nothing is kept in the store, and no one relies
// on what is kept here: a join that is not written with others, for whatever reason, is decided by itself, and if it
// was written after all, its request_id tells.

// mostJoins is how many joins one epoch has at most: each takes up to four writes of one step, the epoch three.
const mostJoins = (docstore.MaxWrites - 3) / 4

// leaseParts is how many times the delay a lease must last for its join to wait: a member counts its lease from before
// the join.
const leaseParts = 4

// gathered is what joins must have in common to go into one epoch: the first of a cluster says how many partitions that
// has.
type gathered struct {
	Cluster
	partitions int
}

// waiting is a join that waits for its epoch.
type waiting struct {
	Join
	outcome chan MemberOutcome // has room for one; closed without one, the join is to be decided by itself
}

// gather has a join wait, and go into an epoch with others. ok is false if it is to be decided by itself.
func (s *Service) gather(ctx context.Context, c Join) (o MemberOutcome, ok bool) {
	if s.joinDelay == 0 || c.Replaces.Member != "" || c.TTL < leaseParts*s.joinDelay || s.hurries(ctx, c) {
		return o, false
	}
	g, w := gathered{c.Cluster, c.Partitions}, &waiting{c, make(chan MemberOutcome, 1)}
	s.mu.Lock()
	others := s.joining[g]
	if slices.ContainsFunc(others, func(w *waiting) bool { return w.Member == c.Member }) {
		s.mu.Unlock()
		return o, false
	}
	s.joining[g] = append(others, w)
	s.mu.Unlock()
	if len(others) == 0 {
		s.admit(ctx, g)
	}
	// after maxDelay the first of them cannot write what it has read
	ctx, cancel := context.WithTimeout(ctx, s.joinDelay+maxDelay)
	defer cancel()
	select {
	case o, ok = <-w.outcome:
		return o, ok
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.joining[g]; len(all) > 0 {
		s.joining[g] = slices.DeleteFunc(all, func(other *waiting) bool { return other == w })
	}
	return o, false
}

// hurries reports whether the caller's time, or that until the end of the join, is less than twice the delay.
func (s *Service) hurries(ctx context.Context, c Join) bool {
	limit, limited := ctx.Deadline()
	return limited && time.Until(limit) < 2*s.joinDelay ||
		!c.NotAfter.IsZero() && c.NotAfter.Sub(s.now()) < 2*s.joinDelay
}

// admit waits for others, and writes all that came.
func (s *Service) admit(ctx context.Context, g gathered) {
	ended := s.sleep(ctx, s.joinDelay)
	s.mu.Lock()
	all := s.joining[g]
	delete(s.joining, g)
	s.mu.Unlock()
	for some := range slices.Chunk(all, mostJoins) {
		var outcomes []MemberOutcome
		if ended == nil {
			outcomes = s.joinAll(ctx, some)
		}
		for i, w := range some {
			if outcomes != nil {
				w.outcome <- outcomes[i]
			}
			close(w.outcome)
		}
	}
}

// joinAll decides joins one after the other, and writes them with one epoch. It returns nil if each is to be decided by
// itself: the store did not respond, or they cannot be written together.
func (s *Service) joinAll(ctx context.Context, all []*waiting) []MemberOutcome {
	var names []string
	for _, w := range all {
		names = append(names, w.Member)
	}
	outcomes, joined := make([]MemberOutcome, len(all)), make([]bool, len(all))
	o, err := s.change(ctx, all[0].Cluster, all[0].partitions(), names, func(v *sight) plan {
		sum := plan{outcome: MemberOutcome{Code: OK}, grows: true, members: v.top.Members}
		n := 0
		for i, w := range all {
			p := w.decide(v.with(sum.members))
			if o, over := v.ended(p, rule.When{}); over {
				p = plan{outcome: o}
			}
			if outcomes[i], joined[i] = p.outcome, p.cause != ""; !joined[i] {
				continue
			}
			if n++; n == 1 {
				sum.cause, sum.end, sum.outcome.ExpiresAt = p.cause, p.end, p.outcome.ExpiresAt
			} else {
				sum.cause = fmt.Sprintf("join of %d members", n)
			}
			if end := p.end.NotAfter; !end.IsZero() && (sum.end.NotAfter.IsZero() || end.Before(sum.end.NotAfter)) {
				sum.end = p.end
			}
			if p.outcome.ExpiresAt.Before(sum.outcome.ExpiresAt) {
				sum.outcome.ExpiresAt = p.outcome.ExpiresAt
			}
			sum.members = p.members
			sum.writes, sum.events = append(sum.writes, p.writes...), append(sum.events, p.events...)
		}
		return sum
	})
	if err != nil || o.Code != OK {
		return nil
	}
	for i := range outcomes {
		if joined[i] {
			outcomes[i].Epoch, outcomes[i].Moved, outcomes[i].At = o.Epoch, o.Moved, o.At
			outcomes[i].ExpiresAt = o.At.Add(all[i].TTL)
		}
	}
	return outcomes
}

// with is the sight with the members as a change before this one, in the same step, leaves them.
func (v *sight) with(members []Member) *sight {
	after, top := *v, *v.top
	top.Members, after.top = members, &top
	return &after
}

// partitions is what the join sets a cluster up with.
func (c Join) partitions() int { return cmp.Or(c.Partitions, DefaultPartitions) }
