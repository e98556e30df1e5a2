package placement_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestJoinsAtOnce: a hundred members join at the same moment, each a process of its own, on a store that is ten
// milliseconds away. There are as many epochs as members, and who comes too late lets others go first: without pauses
// it takes five times the requests.
func TestJoinsAtOnce(t *testing.T) {
	const joins = 100
	cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: docstore.NewMemory(nil)}
		far := suite.NewFar(store, 10*time.Millisecond, 1)
		begin := time.Now()
		var done sync.WaitGroup
		for n := range joins {
			done.Go(func() {
				o, err := placement.New(far, nil).Join(context.WithoutCancel(t.Context()), placement.Join{
					Cluster: cluster, Member: fmt.Sprint("m", n), RequestID: "j", TTL: time.Minute, Partitions: 256,
					Offer: placement.Offer{Kinds: []string{"room"}},
				})
				if err != nil || o.Code != placement.OK || o.Replayed {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		done.Wait()
		took, n := time.Since(begin), store.took()
		top, err := placement.New(store, nil).Topology(t.Context(), cluster)
		if err != nil || top.Epoch != joins || len(top.Members) != joins {
			t.Fatalf("%+v, %v", top, err)
		}
		t.Logf("%d reads, %d writes, %v", n[0], n[1], took)
		if reads, writes := n[0]/joins, n[1]/joins; reads > 25 || writes > 15 || took > 10*time.Second {
			t.Errorf("each join took %d reads and %d writes, all of them %v", reads, writes, took)
		}
	})
}
