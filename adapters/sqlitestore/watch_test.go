package sqlitestore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestWatchOfAnotherStore: what another store, or another process, writes to the file is signalled.
func TestWatchOfAnotherStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	if err := docstoretest.Watched(t.Context(), open(t, path, nil), open(t, path, nil), true); err != nil {
		t.Error(err)
	}
}

// TestHandOvers: stores on one file hand locks over to each other without reads by the clock.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	suite.HandOvers(t, open(t, path, nil), open(t, path, nil), open(t, path, nil))
}

// writeOnce writes the document that TestWatchOfAnotherProcess watches.
func writeOnce(s *sqlitestore.Store, id string) error {
	_, err := s.Write(context.Background(), docstore.Write{Key: key(id), Add: map[string]int64{"n": 1}})
	return err
}

// TestWatchOfAnotherProcess: what another process writes is signalled, of the document that it writes and of no other.
func TestWatchOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.db")
	s := open(t, path, nil)
	a, err := s.Watch(t.Context(), key("a"))
	if err != nil {
		t.Fatal(err)
	}
	for !a.Complete() {
		time.Sleep(time.Millisecond)
	}
	b, err := s.Watch(t.Context(), key("b"))
	if err != nil {
		t.Fatal(err)
	}
	<-b.Changed // it has begun; so has the other one, which was read before
	for len(a.Changed) > 0 {
		<-a.Changed
	}
	if err := child(t, "once:b", path).Run(); err != nil {
		t.Fatal(err)
	}
	<-b.Changed
	if err := child(t, "once:a", path).Run(); err != nil {
		t.Fatal(err)
	}
	<-a.Changed
}
