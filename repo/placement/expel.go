package placement

import (
	"context"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Expel is the eviction of a member whose lease may still last: of one that hangs and sends heartbeats all the same.
// What it does until it learns of it, with its next heartbeat, is fenced by the tokens.
type Expel struct {
	Cluster

	Incarnation Incarnation
	Reason      string // required; it stays in the event
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Expel) Validate() error {
	return first(c.Cluster.Validate(), c.Incarnation.Validate(), field.Text("reason", c.Reason, MaxReasonBytes))
}

// Expel evicts a member; see [Expel]. It costs what a join costs. Expelling it again changes nothing. The codes of
// rejections are MemberUnknown and StaleIncarnation.
func (s *Service) Expel(ctx context.Context, c Expel) (MemberOutcome, error) {
	if err := c.Validate(); err != nil {
		return MemberOutcome{}, err
	}
	i := c.Incarnation
	return s.change(ctx, c.Cluster, DefaultPartitions, []string{i.Member}, func(v *sight) plan {
		found := v.seats[i.Member]
		switch {
		case found.number == i.Number && found.status == MemberDead:
			return v.rejected(MemberOutcome{Code: OK, Replayed: true, Incarnation: i, Status: MemberDead})
		case !v.lives(i):
			return v.stale(i)
		}
		seat := ending(c.seatWrite(i, found, MemberDead, v.top.Epoch+1), s.retention)
		return plan{
			outcome: MemberOutcome{Code: OK, Incarnation: i, Status: MemberDead}, cause: i.Member + " is evicted",
			members: without(slices.Clone(v.top.Members), i.Member),
			writes:  []docstore.Write{seat, c.leaseEnd(i, false, s.retention)},
			events:  []Event{{Member: i, From: string(found.status), To: string(MemberDead), Reason: c.Reason}},
		}
	})
}
