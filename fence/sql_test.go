package fence_test

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/proof/fencesuite"
)

// openSQLite makes a database whose writers wait for each other. A transaction begins as one that writes: one that has
// read could not wait.
func openSQLite(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+
		"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestOnSQLite: LS-FENCE-001 in a database.
func TestOnSQLite(t *testing.T) { fencesuite.Run(t, fence.SQLite, openSQLite(t)) }

// TestOnlyTransactions: LS-FENCE-001. What is no transaction does not compile: a check by itself says nothing about the
// write after it.
func TestOnlyTransactions(t *testing.T) {
	for kind, want := range map[reflect.Type]bool{
		reflect.TypeFor[*sql.Tx](): true, reflect.TypeFor[*sql.DB](): false, reflect.TypeFor[*sql.Conn](): false,
	} {
		if kind.Implements(reflect.TypeFor[fence.Tx]()) != want {
			t.Errorf("%v is a transaction: %v", kind, !want)
		}
	}
}

// TestUnknownDialect: the error names those that there are.
func TestUnknownDialect(t *testing.T) {
	if s, err := fence.NewSQL("oracle", nil); err == nil ||
		err.Error() != `fence: no dialect "oracle": take sqlite, postgresql or mysql` {
		t.Errorf("%v, %v", s, err)
	}
}
