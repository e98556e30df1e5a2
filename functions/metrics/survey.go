package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// MaxSurveyed is how many analyses a survey counts: where there are more, it says nothing of them.
const MaxSurveyed = 100_000

// survey is what was counted last.
type survey struct {
	at       time.Time // zero before the first one
	spaces   []machineid.Occupancy
	analyses map[string]int    // by status; nil if there are too many
	clusters *placement.Survey // nil if there are too many
}

// MaxClusters is how many clusters a survey looks at: where there are more, it says nothing of them.
const MaxClusters = 1000

// Survey counts what is in the store, for the gauges of the group Survey: a read of all pages of each namespace of
// machine IDs, a list of all analyses, and a read of each cluster with a list of its members. It is for now and then,
// by one process. An error leaves the numbers before as they are. What cannot be read is counted in damage, too, which
// may be nil.
func (m *Metrics) Survey(ctx context.Context, store docstore.Store, ids *machineid.Service, damage *Damage) error {
	if m == nil {
		return nil
	}
	var s survey
	unreadable := 0
	for _, name := range ids.Spaces() {
		o, _, err := ids.Occupancy(ctx, name)
		if err != nil {
			return fmt.Errorf("survey: %w", err)
		}
		s.spaces = append(s.spaces, o)
		unreadable += o.Unreadable.Count
	}
	var err error
	if s.analyses, err = countAnalyses(ctx, store); err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	unreadable += s.analyses["UNREADABLE"]
	m.Unreadable(ctx, surveyed, unreadable)
	damage.Met(surveyed, unreadable)
	all, complete, err := placement.New(store, nil).Survey(ctx, MaxClusters)
	if err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	if complete {
		s.clusters = &all
	}
	s.at = m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = s
	return nil
}

// countAnalyses counts analyses by their status. Documents that cannot be read are UNREADABLE.
func countAnalyses(ctx context.Context, store docstore.Store) (map[string]int, error) {
	by, seen := map[string]int{"locked": 0}, 0
	for _, known := range []analysis.Status{analysis.Pending, analysis.Ready, analysis.Failed} {
		by[string(known)] = 0
	}
	for q := (docstore.Query{Kind: analysis.Kind, Limit: docstore.MaxLimit}); ; {
		p, err := store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		by["UNREADABLE"] += len(p.Damaged)
		for _, e := range p.Entries {
			s, err := analysis.ID(e.Key.ID).State(e.Doc)
			switch {
			case errors.Is(err, docstore.ErrDamaged):
				by["UNREADABLE"]++
			case err != nil:
				return nil, err
			default:
				status := string(s.Status)
				if _, ok := by[status]; !ok {
					status = "other" // statuses of other programs have no bound
				}
				if by[status]++; s.Locked(p.At) {
					by["locked"]++
				}
			}
		}
		if seen += len(p.Entries) + len(p.Damaged); seen > MaxSurveyed {
			return nil, nil //nolint:nilnil // nil says that there are too many to count
		}
		if q.After = p.Next; q.After == "" {
			return by, nil
		}
	}
}

func (m *Metrics) observeSurvey(b *builder) {
	ids, analyses, age := b.gauge(nameMachineIDs), b.gauge(nameAnalyses), b.gauge(nameSurveyed)
	members, clusters, imbalance := b.gauge(nameMembers), b.gauge(nameClusters), b.gauge(nameImbalance)
	b.observe(func(o metric.Observer) {
		m.mu.Lock()
		s := m.counted
		m.mu.Unlock()
		if s.at.IsZero() {
			return
		}
		o.ObserveFloat64(age, m.now().Sub(s.at).Seconds())
		for _, space := range s.spaces {
			o.ObserveFloat64(ids, float64(space.Leased), set(attrSpace, space.Space, attrState, "leased"))
			o.ObserveFloat64(ids, float64(space.Free), set(attrSpace, space.Space, attrState, "free"))
		}
		for status, n := range s.analyses {
			o.ObserveFloat64(analyses, float64(n), set(attrState, status))
		}
		if s.clusters == nil {
			return
		}
		o.ObserveFloat64(clusters, float64(s.clusters.Clusters))
		o.ObserveFloat64(imbalance, s.clusters.Imbalance)
		for state, n := range map[string]int{
			"active": s.clusters.Active, "full": s.clusters.Full, "draining": s.clusters.Draining, "expired": s.clusters.Expired,
		} {
			o.ObserveFloat64(members, float64(n), set(attrState, state))
		}
	}, ids, analyses, age, members, clusters, imbalance)
}
