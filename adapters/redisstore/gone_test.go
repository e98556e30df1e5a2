package redisstore_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestCallsOfThoseWhoAreGone: what waits for its turn is not written once its caller has gone, or its time has passed.
func TestCallsOfThoseWhoAreGone(t *testing.T) { docstoretest.Gone(t, redisstore.Sent) }
