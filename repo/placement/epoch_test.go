package placement_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestEpoch: an epoch never changes, for all who read it, and another cluster has none of it.
func TestEpoch(t *testing.T) {
	store := docstore.NewMemory(nil)
	s, c := placement.New(store, nil), placement.Cluster{Tenant: "acme", Name: "chat"}
	var epochs []*placement.Topology
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Join(t.Context(), placement.Join{Cluster: c, Member: name, RequestID: name, TTL: time.Minute,
			Offer: placement.Offer{Kinds: []string{"room"}}, Partitions: 16}); err != nil {
			t.Fatal(err)
		}
		top, err := s.Topology(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		epochs = append(epochs, top)
	}
	for name, s := range map[string]*placement.Service{"the same process": s,
		"another process": placement.New(store, nil)} {
		for i, want := range epochs {
			got, err := s.Epoch(t.Context(), c, int64(i+1))
			if err != nil || got == nil || got.Epoch != want.Epoch || len(got.Members) != i+1 || !got.At.Equal(want.At) {
				t.Fatalf("%s, epoch %d: %+v, %v", name, i+1, got, err)
			}
			for p, m := range want.Table() {
				if got.Table()[p] != m {
					t.Errorf("%s, epoch %d: partition %d is of another member", name, i+1, p)
				}
			}
		}
		if got, err := s.Epoch(t.Context(), c, 4); got != nil || err != nil {
			t.Errorf("%s, an epoch that has not been: %+v, %v", name, got, err)
		}
		if got, err := s.Epoch(t.Context(), placement.Cluster{Tenant: "rival", Name: "chat"}, 1); got != nil || err != nil {
			t.Errorf("%s, the cluster of another tenant: %+v, %v", name, got, err)
		}
		for _, n := range []int64{0, -1} {
			if _, err := s.Epoch(t.Context(), c, n); err == nil {
				t.Errorf("%s: epoch %d", name, n)
			} else if f, ok := errors.AsType[*field.Error](err); !ok || f.Name != "epoch" {
				t.Errorf("%s, epoch %d: %v", name, n, err)
			}
		}
	}
}
