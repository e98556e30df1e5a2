package sqlitestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestPruneByTheClock: a document goes at its end and not a millisecond before.
func TestPruneByTheClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	for i := range 3 {
		w := docstore.Write{Key: key(strconv.Itoa(i)), Keep: time.Hour + time.Duration(i)*time.Millisecond}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{0, 1, 1, 1, 0} {
		clock.set(noon.Add(time.Hour + time.Duration(i-1)*time.Millisecond))
		before := s.Stats().Transactions
		if n, err := s.Prune(t.Context(), 10); err != nil || n != want {
			t.Errorf("step %d: %d removed, %v, want %d", i, n, err, want)
		}
		if got := s.Stats().Transactions - before; got != int64(want) {
			t.Errorf("step %d: %d commits", i, got)
		}
		if p, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"}); err != nil ||
			len(p.Entries) != max(0, 3-max(0, i)) {
			t.Errorf("step %d: %d documents, %v", i, len(p.Entries), err)
		}
	}
}

// TestPruneWaitsItsTurn: it is a call of the queue, one that can be given up and that does not disturb a write of its
// group.
func TestPruneWaitsItsTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	for i := range 10 {
		if _, err := s.Write(t.Context(), docstore.Write{Key: key(strconv.Itoa(i)), Keep: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	clock.set(noon.Add(time.Minute))
	release := hold(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	type removed struct {
		n   int
		err error
	}
	prunes, write := make(chan removed, 2), make(chan error, 1)
	prune := func(ctx context.Context, limit int) {
		n, err := s.Prune(ctx, limit)
		prunes <- removed{n, err}
	}
	go prune(ctx, 10)
	until(t, "one call waits", func() bool { return s.Queued() == 1 })
	cancel()
	if got := <-prunes; got.n != 0 || !errors.Is(got.err, context.Canceled) {
		t.Errorf("given up: %+v", got)
	}
	go prune(t.Context(), 4)
	until(t, "the next waits", func() bool { return s.Queued() == 2 })
	go func() {
		_, err := s.Write(t.Context(), increment(key("0"))) // it was removed by then, or was not: both are sound
		write <- err
	}()
	until(t, "all wait", func() bool { return s.Queued() == 3 })
	release()
	if got := <-prunes; got.n != 4 || got.err != nil {
		t.Errorf("%+v", got)
	}
	if err := <-write; err != nil {
		t.Error(err)
	}
	if n, err := s.Prune(t.Context(), 100); err != nil || n != 6 {
		t.Errorf("%d of the other 6 were removed, %v", n, err)
	}
	if got := count(t, s, key("0")); got != 1 {
		t.Errorf("the document that was made again holds %d", got)
	}
}

// TestPruneByIndex: neither finding what is due nor removing it reads the other documents.
func TestPruneByIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	open(t, path, nil)
	rows, err := dial(t, path).QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sqlitestore.PruneSQL, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if strings.Contains(text, "SCAN") || strings.Contains(text, "TEMP B-TREE") || !strings.Contains(text, "docs_by_end") ||
		!strings.Contains(text, "PRIMARY KEY") {
		t.Errorf("the plan is\n%s", text)
	}
}

// TestWalkInvalidCursor: a cursor of another store, or one that was cut, is an error.
func TestWalkInvalidCursor(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	for _, after := range []string{"x", "locks/acme", "locks/a b/c", "//"} {
		if _, err := s.Walk(t.Context(), docstore.WalkQuery{Kind: "locks", After: after}); !errors.Is(err,
			docstore.ErrInvalid) {
			t.Errorf("after %q: %v", after, err)
		}
	}
}
