package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// nothing is a host that does nothing.
type nothing struct{}

func (nothing) Activate(context.Context, cluster.Activation) error    { return nil }
func (nothing) Deactivate(context.Context, cluster.Activation, error) {}

// TestJoinsAtOnceThroughAServer: 300 members join at the same moment through one server: none is told that its name is
// taken, and none loses its lease. In virtual time it is TestManyJoinsAtOnce of package cluster (PLC-LIFE-1).
func TestJoinsAtOnceThroughAServer(t *testing.T) {
	const members, ttl = 300, 10 * time.Second
	for name, open := range map[string]func(*testing.T) newStore{
		"memory": func(*testing.T) newStore { return onMemory },
		"SQLite": func(*testing.T) newStore { return onSQLite },
		"Redis":  func(t *testing.T) newStore { return onRedis(redistest.Start(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			suite.EveryStore(t)
			server := httptest.NewServer(httpapi.New(open(t)(t, time.Now), httpapi.Development{}, nil))
			t.Cleanup(server.Close)
			ctx, cancel := context.WithTimeout(unhurried(t), failAfter)
			defer cancel()
			var failed, lost, taken atomic.Int64
			all := make([]*cluster.Member, members)
			for i := range all {
				c, err := client.New(server.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				all[i], err = cluster.NewMember(c.Placements("acme", "chat"), fmt.Sprint("m", i), nothing{}, &cluster.Options{
					Kinds: []string{"room"}, TTL: ttl, ServeOnly: true, Observe: func(e cluster.Event) {
						switch {
						case e.What == cluster.RequestFailed:
							failed.Add(1)
							if errors.Is(e.Err, contracts.CodeMemberExists) {
								taken.Add(1)
							}
						case e.What == cluster.StateChanged && e.To == cluster.NotReady:
							lost.Add(1)
							t.Log(e.Err)
						}
					}})
				if err != nil {
					t.Fatal(err)
				}
			}
			begin := time.Now()
			var done sync.WaitGroup
			for _, m := range all {
				done.Go(func() {
					if err := m.Start(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			took := time.Since(begin)
			time.Sleep(ttl) // a lease that was not renewed in time is lost by then
			t.Logf("%d joins in %v, %d tries failed", members, took, failed.Load())
			if lost.Load() > 0 || taken.Load() > 0 {
				t.Errorf("%d leases were lost, and %d members were told that their name is taken", lost.Load(), taken.Load())
			}
			for _, m := range all {
				done.Go(func() {
					if err := m.Stop(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
		})
	}
}
