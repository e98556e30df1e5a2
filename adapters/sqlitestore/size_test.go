package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestSizeOfALock: with ordinary names and 256 bytes of labels, the row of a lock that has been used for long. docs/stores.md has the
// figures.
func TestSizeOfALock(t *testing.T) {
	clock := suite.NewClock()
	path := filepath.Join(t.TempDir(), "leasehold.db")
	locks := lock.New(open(t, path, &sqlitestore.Options{Now: clock.Now}), nil)
	c := dial(t, path)
	plain, forced := suite.UsedLock(t, locks, clock.Advance, func() (n int) {
		row := c.QueryRowContext(t.Context(), "SELECT octet_length(kind) + octet_length(tenant) + octet_length(id) + octet_length(doc) + 8 FROM docs WHERE kind = ?", lock.Kind)
		if err := row.Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	})
	if plain > 1063 || forced > 1155 {
		t.Errorf("%d bytes, %d after force-releases: correct docs/stores.md", plain, forced)
	}
}
