package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Survey is what there is in all clusters of a store together.
type Survey struct {
	Clusters int // that have members
	Active   int // members that take activations
	Full     int // active members that take no more
	Draining int
	Damaged  int // documents that cannot be read: of clusters, and leases of members
	Expired  int // members whose leases have expired and who were not evicted yet; each is one of the others as well

	// Imbalance is by how much the member with the most partitions has more of them than its weight's share, in the
	// cluster where that is most: 1 is no more. 0 if no cluster has an active member.
	Imbalance float64
}

// Survey counts the members of all clusters. A cluster costs one read, one more after its members changed, and a list
// of its leases. If there are more than most clusters, complete is false and nothing is counted.
func (s *Service) Survey(ctx context.Context, most int) (sum Survey, complete bool, err error) {
	w := &sweeping{Service: s}
	entries, _, err := w.clusters(ctx)
	if err != nil || len(entries) > most {
		return Survey{}, false, err
	}
	sum.Damaged = w.done.Damaged
	for _, e := range entries {
		c, err := clusterOf(e.Key)
		if err == nil {
			err = s.survey(ctx, c, &sum)
		}
		if errors.Is(err, docstore.ErrDamaged) {
			sum.Damaged++
			continue
		}
		if err != nil {
			return Survey{}, false, fmt.Errorf("cluster %q: %w", e.Key.ID, err)
		}
	}
	return sum, true, nil
}

// clusterOf is the cluster that an entry of the registry names.
func clusterOf(k docstore.Key) (Cluster, error) {
	slash := strings.LastIndexByte(k.ID, '/')
	c := Cluster{k.ID[:max(0, slash)], k.ID[slash+1:]}
	if err := c.Validate(); err != nil {
		return Cluster{}, fmt.Errorf("%w: %s names no cluster: %w", docstore.ErrDamaged, k, err)
	}
	return c, nil
}

func (s *Service) survey(ctx context.Context, c Cluster, sum *Survey) error {
	t, err := s.Topology(ctx, c)
	if err != nil || t == nil || len(t.Members) == 0 {
		return err
	}
	sum.Clusters++
	for i := range t.Members {
		switch m := &t.Members[i]; {
		case m.Status != MemberActive:
			sum.Draining++
		case m.Full:
			sum.Full++
		default:
			sum.Active++
		}
	}
	sum.Imbalance = max(sum.Imbalance, t.imbalance())
	for q := (docstore.Query{Kind: leaseKind, Tenant: c.space(), Limit: docstore.MaxLimit}); ; {
		p, err := s.store.List(ctx, q)
		if err != nil {
			return err
		}
		sum.Damaged += len(p.Damaged)
		for _, e := range p.Entries {
			l, err := c.leaseOf(e.Key.ID, e.Doc)
			if err != nil {
				sum.Damaged++
				continue
			}
			if t.Live(Incarnation{e.Key.ID, l.Number}) && !l.held(p.At) {
				sum.Expired++
			}
		}
		if q.After = p.Next; p.Next == "" {
			return nil
		}
	}
}

// imbalance is the largest number of partitions that a member has, relative to its share; 0 without an active member.
func (t *Topology) imbalance() (most float64) {
	weights, owned := 0, make([]int, len(t.Members))
	for i := range t.Members {
		if t.Members[i].Status == MemberActive {
			weights += cmp.Or(t.Members[i].Weight, 1)
		}
	}
	for _, m := range t.table {
		if m != noMember {
			owned[m]++
		}
	}
	for i := range t.Members {
		if t.Members[i].Status == MemberActive {
			share := float64(len(t.table)) * float64(cmp.Or(t.Members[i].Weight, 1)) / float64(weights)
			most = max(most, float64(owned[i])/share)
		}
	}
	return most
}
