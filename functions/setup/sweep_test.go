package setup

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestSweepLoop: a member that is gone is evicted within two minutes although no one asks, and a tally is corrected;
// sweeps without anything to do are not logged.
func TestSweepLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		created := 0
		store := docstore.NewMemory(nil)
		clusters := placement.New(store, nil)
		bounded := census.New(store, lock.Kind, 1, time.Now)
		try := func(existing bool) (census.Effect, error) {
			if existing {
				return census.Missing, nil
			}
			created++
			return census.Created, nil // and the store removed it
		}
		for range 2 {
			if err := bounded.Within(t.Context(), "acme", true, try); err != nil {
				t.Fatal(err)
			}
		}
		if created != 1 {
			t.Fatalf("%d created of one", created)
		}
		cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
		m, err := clusters.Join(t.Context(), placement.Join{Cluster: cluster, Member: "ann", RequestID: "j"})
		if err != nil || m.Code != placement.OK {
			t.Fatalf("%+v, %v", m, err)
		}
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			SweepLoop(ctx, clusters, store, slog.New(slog.NewTextHandler(&log, nil)), nil, nil)
		}()
		time.Sleep(10 * time.Minute) // ten rounds
		cancel()
		<-ended
		if top, err := clusters.Topology(t.Context(), cluster); err != nil || top.Epoch != 2 ||
			top.At.Sub(m.At) > 2*time.Minute {
			t.Errorf("%+v, %v", top, err)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 ||
			!strings.Contains(got, "clusters=1 evicted=1 freed=0") || !strings.Contains(got, "tallies=1 documents=0") {
			t.Errorf("the log: %s", got)
		}
		if err := bounded.Within(t.Context(), "acme", true, try); err != nil || created != 2 {
			t.Errorf("%d created after the tally was corrected, %v", created, err)
		}
	})
	t.Run("a store that is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := docstore.NewMemory(nil)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			SweepLoop(t.Context(), placement.New(store, nil), store, slog.New(slog.DiscardHandler), nil, nil) // returns
		})
	})
}

// garbled is a store that cannot read one more document of a kind than it has.
type garbled struct {
	*docstore.Memory
	key docstore.Key
}

func (g garbled) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	p, err := g.Memory.List(ctx, q)
	if q.Kind == g.key.Kind {
		p.Damaged = append(p.Damaged, docstore.Damaged{Key: g.key, Err: docstore.ErrDamaged})
	}
	return p, err
}

// TestLoopsCountDamage: what a server meets of documents that cannot be read while no one asks for anything is counted
// for /readyz, without metrics, too.
func TestLoopsCountDamage(t *testing.T) {
	sweeps := func(ctx context.Context, store docstore.Store, d *metrics.Damage) {
		SweepLoop(ctx, placement.New(store, nil), store, slog.New(slog.DiscardHandler), nil, d)
	}
	alarms := func(ctx context.Context, store docstore.Store, d *metrics.Damage) {
		AlarmLoop(ctx, placement.New(store, nil), slog.New(slog.DiscardHandler), nil, d)
	}
	for operation, c := range map[string]struct {
		kind string
		loop func(context.Context, docstore.Store, *metrics.Damage)
	}{
		"sweep.clusters": {"placement_registry", sweeps},
		"sweep.tallies":  {census.TallyKind, sweeps},
		"sweep.alarms":   {"placement_alarm_clusters", alarms},
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := garbled{docstore.NewMemory(nil), docstore.Key{Kind: c.kind, ID: "x"}}
				var damage metrics.Damage
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.loop(ctx, store, &damage)
				}()
				time.Sleep(5 * time.Minute)
				cancel()
				<-ended
				if got := damage.Last(); got.Count == 0 || got.Operation != operation {
					t.Errorf("counted %+v", got)
				}
			})
		})
	}
}
