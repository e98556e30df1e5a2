// Package driver is what the adapters of [docstore.Store] share: an adapter is a store's client library, the
// translation of keys, values and conditions, and these parts.
//
//   - [Evaluate] decides a group of writes in Go, for stores whose transactions run in the adapter.
//   - [Resolve] turns a symbolic time into the value to store.
//   - [InFlight] lets Close wait for the calls in progress.
//   - [DueCursor] is the page token of [docstore.DueLister], and [DuePlaces] that of one whose index has shards.
//
// Requests are checked with [docstore.ValidateKeys], [docstore.ValidateWrites] and the Validate method of the queries,
// before anything is sent. The in-memory store shares no code with Evaluate, so that docstoretest compares two
// implementations.
package driver

import (
	"maps"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Resolve returns the value to store for v when the store's time is now: a [docstore.Instant] becomes text, a map is
// copied, anything else stays.
func Resolve(v docstore.Value, now time.Time) docstore.Value {
	switch v := v.(type) {
	case docstore.Instant:
		return v.At(now)
	case docstore.Map:
		return docstore.Map(maps.Clone(map[string]string(v)))
	default:
		return v
	}
}
