package setup

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestSweepLoop: a member that is gone is evicted within two minutes although no one asks; sweeps without anything to
// do are not logged.
func TestSweepLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := placement.New(docstore.NewMemory(nil), nil)
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
			SweepLoop(ctx, clusters, slog.New(slog.NewTextHandler(&log, nil)), nil)
		}()
		time.Sleep(10 * time.Minute) // ten rounds
		cancel()
		<-ended
		if top, err := clusters.Topology(t.Context(), cluster); err != nil || top.Epoch != 2 ||
			top.At.Sub(m.At) > 2*time.Minute {
			t.Errorf("%+v, %v", top, err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "clusters=1 evicted=1 freed=0") {
			t.Errorf("the log: %s", got)
		}
	})
	t.Run("a store that is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := docstore.NewMemory(nil)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			SweepLoop(t.Context(), placement.New(store, nil), slog.New(slog.DiscardHandler), nil) // returns
		})
	})
}
