package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// cycler acquires and releases a lock again and again.
func cycler(t *testing.T, s docstore.Store) (cycle func()) {
	t.Helper()
	locks := lock.New(s, nil)
	id := lock.ID{Tenant: "acme", Key: "deploy-prod"}
	requests := [...]string{"r1", "r2", "r3", "r4", "r5", "r6", "r7"} // more than a lock remembers
	i := 0
	return func() {
		i++
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: requests[i%len(requests)],
			TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", RequestID: "e1", Token: o.Lease.Token})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
}

// TestPagesOfACycle: an acquire and a release write one page each, that of the lock's document. Where a document ends
// is in an index, in a page of its own, which is not written while the end stays.
func TestPagesOfACycle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	cycle := cycler(t, s)
	for range 3 { // the document is created, its end is moved ahead, the floor of the tokens is raised
		cycle()
	}
	c := dial(t, path)
	run(t, c, "PRAGMA wal_checkpoint(RESTART)") // the log begins anew
	const cycles = 50
	transactions := s.Stats().Transactions
	for range cycles {
		cycle()
	}
	var busy, pages, moved int // the pages that the log has
	if err := c.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved); err != nil ||
		busy != 0 {
		t.Fatal(busy, err)
	}
	if got := s.Stats().Transactions - transactions; got != 2*cycles {
		t.Errorf("%d transactions for %d cycles, want two each", got, cycles)
	}
	if pages != 2*cycles {
		t.Errorf("%d pages for %d cycles, want two each", pages, cycles)
	}
}

// TestMemoIsNotBelieved: a document that another program changed is read as it is, also one that was read or written
// before.
func TestMemoIsNotBelieved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	k := key("deploy")
	c := dial(t, path)
	for i := range int64(4) {
		if _, err := s.Write(t.Context(), increment(k)); err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, k); got != 2*i+1 {
			t.Fatalf("round %d: it holds %d", i, got)
		}
		run(t, c, fmt.Sprintf(`UPDATE docs SET doc = '{"n":%d}' WHERE id = 'deploy'`, 2*i+2))
	}
	r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Eq{Field: "n", Value: docstore.Int(7)}})
	if err != nil || r.Applied || r.Docs[0]["n"] != docstore.Int(8) {
		t.Errorf("%+v, %v", r, err)
	}
	r.Docs[0]["n"] = docstore.Int(7) // the caller's own
	if r, err := s.Write(t.Context(), docstore.Write{
		Key: k, If: docstore.Eq{Field: "n", Value: docstore.Int(7)}}); err != nil || r.Applied {
		t.Errorf("a caller changed what the store knows: %+v, %v", r, err)
	}
	run(t, c, `DELETE FROM docs`)
	if r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Absent{}}); err != nil || !r.Applied {
		t.Errorf("removed by another program: %+v, %v", r, err)
	}
}

// TestMemoIsBounded: more documents than the memo holds, and one that is too long for it, are written and read all the
// same.
func TestMemoIsBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	const docs = 1500
	keys := make([]docstore.Key, docs)
	for i := range keys {
		keys[i] = key(fmt.Sprint("n", i))
	}
	for range 2 {
		for from := 0; from < docs; from += docstore.MaxWrites {
			var writes []docstore.Write
			for _, k := range keys[from : from+docstore.MaxWrites] {
				writes = append(writes, increment(k))
			}
			if _, err := s.Write(t.Context(), writes...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, k := range keys {
		if got := count(t, s, k); got != 2 {
			t.Errorf("%s holds %d", k, got)
		}
	}
	if n := s.Remembered(); n == 0 || n > 1024 {
		t.Errorf("%d documents are remembered", n)
	}
}

// TestEndsAreNeverTooEarly: an end that is moved by each write stays for a while, but never before what the last write
// said, and never much beyond it.
func TestEndsAreNeverTooEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	c := dial(t, path)
	k := key("deploy")
	changes, last := 0, int64(0)
	for i, step := range []struct {
		after, keep time.Duration
	}{
		{0, time.Hour}, {time.Second, time.Hour}, {time.Second, time.Hour}, {time.Second, time.Hour + time.Minute},
		{time.Second, time.Hour},
		{time.Minute, time.Hour}, {time.Minute, 2 * time.Hour}, {time.Second, time.Minute}, {time.Second, 0},
		{time.Second, 64 * time.Millisecond}, {time.Second, time.Millisecond},
	} {
		clock.set(clock.now().Add(step.after))
		if _, err := s.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"n": docstore.Int(int64(i))},
			Keep: step.keep}); err != nil {
			t.Fatal(err)
		}
		var end int64
		if err := c.QueryRowContext(t.Context(), "SELECT keep_until FROM docs").Scan(&end); err != nil {
			t.Fatal(err)
		}
		if end != last {
			changes++
		}
		if step.keep == 0 && end != last {
			t.Errorf("step %d: moved although nothing was said", i)
		}
		late := time.UnixMilli(end).Sub(clock.now().Add(step.keep))
		if step.keep != 0 && (late < 0 || late > step.keep/32) {
			t.Errorf("step %d: kept for %v, and %v longer", i, step.keep, late)
		}
		last = end
	}
	if changes != 9 { // all but the third, and the one that said nothing
		t.Errorf("the end was moved %d times", changes)
	}
}
