package gcpfirestore_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Meter = (*gcpfirestore.Store)(nil)

// TestUsage: reads and commits are counted, those that were sent again and those for which the quota was used up, too.
func TestUsage(t *testing.T) {
	server := firestoretest.Start(t, nil)
	store := open(t, server, "")
	fault(server, firestoretest.Fail{Code: codes.ResourceExhausted}, func() {})
	before := store.Usage()
	if r, err := store.Write(t.Context(), create); err != nil || !r.Applied {
		t.Fatal(r, err)
	}
	// A read and a commit that is rejected, then both again.
	if got := store.Usage(); got.Requests-before.Requests != 4 || got.Retries-before.Retries != 1 ||
		got.Throttled-before.Throttled != 1 || got.Clock.Known {
		t.Errorf("%+v, before that %+v", got, before)
	}
}
