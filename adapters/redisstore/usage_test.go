package redisstore_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Meter = (*redisstore.Store)(nil)

// TestUsage: a call is a request, and those that the server rejects for now are sent again.
func TestUsage(t *testing.T) {
	store := open(t, redistest.StandIn(t), nil)
	before := store.Usage()
	for range 3 {
		if _, err := store.Get(t.Context(), docstore.Key{Kind: "k", ID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.Usage(); got.Requests-before.Requests != 3 || got.Retries != before.Retries || got.Throttled != 0 ||
		got.Warnings != len(store.Warnings()) {
		t.Errorf("%+v, before that %+v", got, before)
	}
}
