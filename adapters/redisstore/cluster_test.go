package redisstore_test

import (
	"fmt"
	"testing"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestCluster runs the whole suite on a cluster, which rejects a script whose keys are not all in one slot.
func TestCluster(t *testing.T) {
	server := redistest.StartCluster(t)
	s := open(t, server, nil)
	writes := make([]docstore.Write, docstore.MaxWrites)
	keys := make([]docstore.Key, len(writes))
	for i := range writes {
		keys[i] = docstore.Key{Kind: fmt.Sprint("kind", i%7), Tenant: "{t}", ID: fmt.Sprint("}{", i)}
		writes[i] = docstore.Write{Key: keys[i], Add: map[string]int64{"n": 1}}
	}
	if r, err := s.Write(t.Context(), writes...); err != nil || !r.Applied {
		t.Errorf("applied %v, %v", r.Applied, err)
	}
	if _, err := s.Get(t.Context(), keys...); err != nil {
		t.Error(err)
	}
	admin := client(t, server)
	slots := map[int64]bool{}
	for _, k := range admin.Keys(t.Context(), "*").Val() {
		slots[admin.ClusterKeySlot(t.Context(), k).Val()] = true
	}
	if len(slots) != 1 {
		t.Errorf("the keys are in the slots %v", slots)
	}
	t.Run("conformance", func(t *testing.T) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store { return open(t, server, nil) })
	})
	t.Run("a client that does not know of the cluster", func(t *testing.T) {
		c := sdk.NewClient(&sdk.Options{Addr: server.Addr(), OnConnect: onConnect(t, "brought")})
		defer c.Close()
		// This member serves all slots, so that nothing is missing.
		if _, err := open(t, server, &redisstore.Options{Client: c, Prefix: "brought"}).Get(t.Context(), key("k")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a database", func(t *testing.T) {
		_, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: "redis://" + server.Addr() + "/1"})
		says(t, err, []string{server.Addr(), "leave out DB"})
	})
	t.Run("a slot that no server has", func(t *testing.T) {
		slot := admin.ClusterKeySlot(t.Context(), "{unknown}").Val()
		if err := admin.ClusterDelSlots(t.Context(), int(slot)).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: server.Addr(), Prefix: "unknown"})
		says(t, err, []string{"CLUSTERDOWN", "nothing was changed"})
	})
}
