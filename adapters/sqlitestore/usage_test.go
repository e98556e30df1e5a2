package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Meter = (*sqlitestore.Store)(nil)

// TestUsage: requests are transactions, whose number is that of the writes if they do not come at once; a refusal
// writes nothing.
func TestUsage(t *testing.T) {
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	before := store.Usage()
	for range 2 {
		w := docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}, If: docstore.Absent{},
			Set: map[string]docstore.Value{"n": docstore.Int(1)}}
		if _, err := store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.Usage(); got.Requests-before.Requests != 1 || got.Requests != store.Stats().Transactions ||
		got.Warnings != len(store.Warnings()) || got.Clock.Known {
		t.Errorf("%+v, before that %+v", got, before)
	}
}
