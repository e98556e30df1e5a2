package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// dial opens a connection of our own beside the store, as another program would.
func dial(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func run(t *testing.T, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// hold takes the file's write lock, so that the store's writer waits, and returns what lets it go.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	c := dial(t, path)
	run(t, c, "BEGIN IMMEDIATE")
	return func() { run(t, c, "ROLLBACK") }
}

// until waits for what another goroutine is about to do.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func increment(k docstore.Key) docstore.Write {
	return docstore.Write{Key: k, Add: map[string]int64{"n": 1}}
}

// count is field n of a document, -1 if it is not there.
func count(t *testing.T, s docstore.Store, k docstore.Key) int64 {
	t.Helper()
	snap, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := snap.Docs[0]["n"].(docstore.Int); ok {
		return int64(n)
	}
	return -1
}

func TestOneWriteIsOneTransaction(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	for i := range 10 {
		if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), increment(key("a")), increment(key("b"))); err != nil {
			t.Fatal(err)
		}
		want := sqlitestore.Stats{Transactions: int64(2*i + 2), Applied: int64(2*i + 2)}
		if got := s.Stats(); got != want {
			t.Fatalf("stats are %+v, want %+v", got, want)
		}
	}
	before := s.Stats()
	for range 3 {
		if r, err := s.Write(t.Context(), docstore.Write{Key: key("a"), If: docstore.Absent{}}); err != nil || r.Applied {
			t.Fatalf("applied %v, error %v", r.Applied, err)
		}
	}
	before.Refused += 3
	if got := s.Stats(); got != before {
		t.Errorf("after refusals stats are %+v, want %+v: a refusal has nothing to commit", got, before)
	}
}

func TestWaitingWritesShareOneTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("text"),
		Set: docstore.Doc{"n": docstore.String("?")}}); err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	release := hold(t, path)

	const n = 100
	var wg sync.WaitGroup
	var mu sync.Mutex
	tokens := map[docstore.Value]bool{}
	for range n {
		wg.Go(func() { // the same key: each must see what the ones before it in the group changed
			r, err := s.Write(t.Context(), increment(key("shared")))
			if err != nil || !r.Applied {
				t.Errorf("applied %v, error %v", r.Applied, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tokens[r.Docs[0]["n"]] = true
		})
		wg.Go(func() { // rejected, because one key of the two is there
			r, err := s.Write(t.Context(), increment(key("never")), docstore.Write{Key: key("text"), If: docstore.Absent{}})
			if err != nil || r.Applied {
				t.Errorf("refusal: applied %v, error %v", r.Applied, err)
			}
		})
	}
	wg.Go(func() {
		if _, err := s.Write(t.Context(), increment(key("never")), increment(key("text"))); !errors.Is(err,
			docstore.ErrDamaged) {
			t.Errorf("error is %v, want ErrDamaged", err)
		}
	})
	until(t, "all calls wait", func() bool { return s.Queued() == 2*n+1 })
	release()
	wg.Wait()

	want := sqlitestore.Stats{Transactions: before.Transactions + 1, Applied: before.Applied + n,
		Refused: before.Refused + n}
	if got := s.Stats(); got != want {
		t.Errorf("stats are %+v, want %+v", got, want)
	}
	if len(tokens) != n {
		t.Errorf("%d calls were answered with %d numbers", n, len(tokens))
	}
	if got := count(t, s, key("shared")); got != n {
		t.Errorf("the counter is %d, want %d", got, n)
	}
	if got := count(t, s, key("never")); got != -1 {
		t.Errorf("a refused or damaged call left %d", got)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	release := hold(t, path)
	var wg sync.WaitGroup
	for i := range 600 {
		wg.Go(func() {
			if _, err := s.Write(t.Context(), increment(key(strconv.Itoa(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "all calls wait", func() bool { return s.Queued() == 600 })
	release()
	wg.Wait()
	if want := (sqlitestore.Stats{Transactions: 3, Applied: 600}); s.Stats() != want { // 256 + 256 + 88
		t.Errorf("stats are %+v, want %+v", s.Stats(), want)
	}
}

func TestCanceledWhileWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	release := hold(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Write(ctx, increment(key("canceled")))
		answer <- err
	}()
	until(t, "the call waits", func() bool { return s.Queued() == 1 })
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) { // while the lock is still held by the other
		t.Errorf("error is %v, want context.Canceled", err)
	}
	release()
	if _, err := s.Write(t.Context(), increment(key("next"))); err != nil {
		t.Fatal(err)
	}
	if got := count(t, s, key("canceled")); got != -1 {
		t.Errorf("a call that was given up was applied: %d", got)
	}
	if got := s.Stats().Applied; got != 1 {
		t.Errorf("%d calls were applied, want 1", got)
	}
}

func TestBusyForTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, &sqlitestore.Options{BusyTimeout: 50 * time.Millisecond})
	release := hold(t, path)
	_, err := s.Write(t.Context(), increment(key("a")))
	if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(),
		"another process kept the file locked") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
	if got := count(t, s, key("a")); got != -1 { // reading does not wait for the writer
		t.Errorf("the counter is %d", got)
	}
	release()
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Error(err)
	}
	if got := count(t, s, key("a")); got != 1 {
		t.Errorf("the counter is %d, want 1", got)
	}
}

func TestOpenWaitsForOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Another program that wants the file for itself alone keeps even readers out.
	c := dial(t, path)
	run(t, c, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE",
		"INSERT INTO docs (kind, tenant, id, doc) VALUES ('k', '', 'x', '{}')", "COMMIT")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if s, err := sqlitestore.Open(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("store %v, error %v, want the context's", s, err)
	}
	_, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{BusyTimeout: 20 * time.Millisecond})
	if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("error is %v", err)
	}
}

func TestCloseLetsCallsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	release := hold(t, path)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "all calls wait", func() bool { return s.Queued() == 20 })
	closed := make(chan error, 2)
	for range 2 { // both wait for the end
		go func() { closed <- s.Close() }()
	}
	until(t, "the store is closing", func() bool {
		_, err := s.Get(t.Context(), key("a"))
		return errors.Is(err, docstore.ErrClosed)
	})
	select {
	case err := <-closed:
		t.Fatalf("closed, error %v, with 20 calls under way", err)
	default:
	}
	release()
	wg.Wait()
	for range 2 {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
	until(t, "the store's goroutines end", func() bool { return runtime.NumGoroutine() <= before-1 })
	if got := count(t, open(t, path, nil), key("a")); got != 20 {
		t.Errorf("the counter is %d, want 20", got)
	}
}

func TestTimesAreInTheOrderOfCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	var mu sync.Mutex
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := open(t, path, &sqlitestore.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Millisecond)
		return at
	}})
	results := make([]docstore.Result, 40)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], err = s.Write(t.Context(), increment(key("a"))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, r := range results { // the n-th increment was evaluated n ms after the first instant
		n := r.Docs[0]["n"].(docstore.Int)
		if want := first.Add(time.Duration(n) * time.Millisecond); r.At != want {
			t.Errorf("increment %d is of %v, want %v", n, r.At, want)
		}
	}
}
