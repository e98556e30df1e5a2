package sqlitestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// hands is a clock that stands where it is set.
type hands struct{ ms atomic.Int64 }

func newHands(at time.Time) *hands {
	h := &hands{}
	h.set(at)
	return h
}

func (h *hands) set(at time.Time) { h.ms.Store(at.UnixMilli()) }

func (h *hands) now() time.Time { return time.UnixMilli(h.ms.Load()).UTC() }

func (h *hands) options() *sqlitestore.Options { return &sqlitestore.Options{Now: h.now} }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// grantToken adds 1 to the token of a document, which starts at the time, and returns it.
func grantToken(t *testing.T, s docstore.Store, k docstore.Key) int64 {
	t.Helper()
	r, err := s.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"token": 1},
		StartAtNow: []string{"token"}})
	if err != nil || !r.Applied {
		t.Fatalf("applied %v, error %v", r.Applied, err)
	}
	return int64(r.Docs[0]["token"].(docstore.Int))
}

func remove(t *testing.T, s docstore.Store, k docstore.Key) {
	t.Helper()
	if r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Has{Field: "token"},
		Delete: true}); err != nil || !r.Applied {
		t.Fatalf("applied %v, error %v", r.Applied, err)
	}
}

// floor is what the file holds.
func floor(t *testing.T, c *sql.Conn) (value int64) {
	t.Helper()
	if err := c.QueryRowContext(t.Context(), "SELECT value FROM facts WHERE name = 'floor'").Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestTokensAfterTheClockWasSetBack: no token is seen twice, whether the document was removed or another is made, in
// this process, in one that shares the file, and after a restart (LS-INV-002).
func TestTokensAfterTheClockWasSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	other := open(t, path, clock.options())
	last := int64(0)
	next := func(name string, s docstore.Store, k docstore.Key) {
		t.Helper()
		token := grantToken(t, s, k)
		if token <= last {
			t.Errorf("%s: token %d after %d", name, token, last)
		}
		last = token
	}
	next("first", s, key("a"))
	if want := noon.UnixMicro() + 1; last != want {
		t.Errorf("the first token is %d, want %d", last, want)
	}
	for range 3*sqlitestore.Headroom + 7 { // a counter that runs ahead of the clock, by more than what is written ahead
		next("counted", s, key("a"))
	}
	clock.set(noon.Add(-time.Hour))
	remove(t, s, key("a"))
	next("removed", s, key("a"))
	next("another document", s, key("b"))
	next("another process", other, key("c"))
	remove(t, other, key("c"))
	next("removed by another process", s, key("c"))
	for range 10 {
		next("counted by another process", other, key("c"))
	}
	remove(t, s, key("c"))
	next("removed again", s, key("c"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	clock.set(noon.Add(-2 * time.Hour))
	s = open(t, path, clock.options())
	remove(t, s, key("c"))
	next("after a restart", s, key("c"))
	next("another document after a restart", s, key("d"))

	// The time counts again once it has passed what was given.
	clock.set(noon.Add(time.Hour))
	next("an hour later", s, key("e"))
	if want := noon.Add(time.Hour).UnixMicro() + 1; last != want {
		t.Errorf("an hour later the token is %d, want %d", last, want)
	}
}

// TestGrantsLeaveTheFloorAlone: a lock that is granted again and again writes its document and nothing else. Locks that
// are made at once do not run ahead of the clock.
func TestGrantsLeaveTheFloorAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, newHands(noon).options())
	c := dial(t, path)
	for i := range 50 {
		if want, got := noon.UnixMicro()+int64(i)+1, grantToken(t, s, key(fmt.Sprint("lock ", i))); got != want ||
			floor(t, c) != want {
			t.Fatalf("lock %d: token %d, floor %d, want %d", i, got, floor(t, c), want)
		}
	}
	grantToken(t, s, key("lock 49"))
	before := floor(t, c)
	for range sqlitestore.Headroom {
		grantToken(t, s, key("lock 49"))
	}
	if got := floor(t, c); got != before {
		t.Errorf("a thousand grants moved the floor by %d", got-before)
	}
	grantToken(t, s, key("lock 49"))
	if got, want := floor(t, c), before+1+sqlitestore.Headroom; got != want {
		t.Errorf("the floor is %d, want %d", got, want)
	}
}

// failingCommits makes every transaction fail that writes the document "poison", at its COMMIT.
func failingCommits(t *testing.T, s *sqlitestore.Store) {
	t.Helper()
	for _, sql := range []string{
		"PRAGMA foreign_keys = ON", "CREATE TABLE parents (x INTEGER PRIMARY KEY)",
		"CREATE TABLE children (x INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TRIGGER poison AFTER INSERT ON docs WHEN new.id = 'poison' BEGIN INSERT INTO children VALUES (1); END",
	} {
		if err := s.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFloorOfAFailedCommit: what a transaction would have raised the floor to counts for nothing if its commit fails.
func TestFloorOfAFailedCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	last := grantToken(t, s, key("a"))
	failingCommits(t, s)
	clock.set(noon.Add(10 * time.Hour))
	w := docstore.Write{Key: key("poison"), Add: map[string]int64{"token": 1}, StartAtNow: []string{"token"}}
	if r, err := s.Write(t.Context(), w); err == nil || r.Applied {
		t.Fatalf("applied %v, error %v", r.Applied, err)
	}
	clock.set(noon)
	for range 5 {
		last = grantToken(t, s, key("a"))
	}
	if got := floor(t, dial(t, path)); got < last {
		t.Errorf("the floor is %d, below %d", got, last)
	}
	remove(t, s, key("a"))
	if got := grantToken(t, s, key("a")); got <= last {
		t.Errorf("token %d after %d", got, last)
	}
}

// TestOutcomeOfAFailedCommit: a COMMIT that fails may have reached the log all the same, so its outcome is unknown: the
// error never says that nothing was written. That of a statement before it does.
func TestOutcomeOfAFailedCommit(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	failingCommits(t, s)
	if err := s.Exec(
		"CREATE TRIGGER broken AFTER INSERT ON docs WHEN new.id = 'broken' BEGIN SELECT RAISE(ABORT, 'broken'); END"); err != nil {
		t.Fatal(err)
	}
	for id, notWritten := range map[string]bool{"poison": false, "broken": true} {
		_, err := s.Write(t.Context(), docstore.Write{Key: key(id), Set: docstore.Doc{"a": docstore.Int(1)}})
		if err == nil || errors.Is(err, docstore.ErrNotWritten) != notWritten {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestRefusalsOfAGroupWhoseCommitFails: a refusal rests on what an earlier call of its group changed. If that is not
// stored, it must not be said either.
func TestRefusalsOfAGroupWhoseCommitFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	failingCommits(t, s)
	release := hold(t, path)
	errs := make(chan error, 2)
	write := func(w docstore.Write) {
		go func() {
			r, err := s.Write(t.Context(), w)
			switch {
			case err == nil:
				err = fmt.Errorf("applied %v, found %v", r.Applied, r.Docs)
			case !strings.Contains(err.Error(), "FOREIGN KEY"):
				err = fmt.Errorf("another error: %w", err)
			default:
				err = nil
			}
			errs <- err
		}()
	}
	take := docstore.Write{Key: key("poison"), If: docstore.Absent{}, Set: docstore.Doc{"owner": docstore.String("ann")}}
	write(take)
	until(t, "the first call waits", func() bool { return s.Queued() == 1 })
	write(take) // refused, because ann has it
	until(t, "both calls wait", func() bool { return s.Queued() == 2 })
	release()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if snap, err := s.Get(t.Context(), key("poison")); err != nil || snap.Docs[0] != nil {
		t.Errorf("stored %v, error %v", snap.Docs, err)
	}
}
