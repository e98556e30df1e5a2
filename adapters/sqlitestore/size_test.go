package sqlitestore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestSizeOfALock: with ordinary names and 256 bytes of labels, the row of a lock that has been used for long.
// docs/guides/stores.md has the figures.
func TestSizeOfALock(t *testing.T) {
	clock := suite.NewClock()
	path := filepath.Join(t.TempDir(), "leasehold.db")
	locks := lock.New(open(t, path, &sqlitestore.Options{Now: clock.Now}), nil)
	c := dial(t, path)
	plain, forced := suite.UsedLock(t, locks, clock.Advance, func() int { return rowBytes(t, c) })
	if plain > 1102 || forced > 1194 {
		t.Errorf("%d bytes, %d after force-releases: correct docs/guides/stores.md", plain, forced)
	}
}

// TestSizeOfASharedLock: what holders and places in line take of the row. docs/guides/stores.md has the figures.
func TestSizeOfASharedLock(t *testing.T) {
	clock := suite.NewClock()
	path := filepath.Join(t.TempDir(), "leasehold.db")
	locks := lock.New(open(t, path, &sqlitestore.Options{Now: clock.Now}), nil)
	c := dial(t, path)
	held, all, holder, place := suite.SharedLock(t, locks, func() int { return rowBytes(t, c) })
	if held > 16269 || all > 27636 || holder > 162 || place > 114 {
		t.Errorf("%d bytes, %d with places, %d for a holder, %d for a place: correct docs/guides/stores.md", held,
			all, holder, place)
	}
}

// rowBytes is the size of the row of the one lock.
func rowBytes(t *testing.T, c *sql.Conn) (n int) {
	t.Helper()
	row := c.QueryRowContext(t.Context(),
		"SELECT octet_length(kind) + octet_length(tenant) + octet_length(id) + octet_length(doc) + 8 FROM docs WHERE kind = ?", lock.Kind)
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
