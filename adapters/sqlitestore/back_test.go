package sqlitestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// grantLock acquires and releases a lock, and returns its token.
func grantLock(t *testing.T, s docstore.Store, key string, n int) int64 {
	t.Helper()
	locks, id, request := lock.New(s, nil), lock.ID{Tenant: "acme", Key: key}, fmt.Sprint("r", n)
	o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: request, TTLSeconds: 60})
	if err != nil || o.Code != lock.OK {
		t.Fatal(o.Code, err)
	}
	token := o.Lease.Token
	o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: token, RequestID: request})
	if err != nil || o.Code != lock.OK {
		t.Fatal(o.Code, err)
	}
	return token
}

// putBack writes what a file had over it. The memory that processes share is mapped, and must not become shorter.
func putBack(t *testing.T, name string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(text))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// copyOf reads the file, its log, and what processes share, and returns what puts them back.
func copyOf(t *testing.T, path string) (back func()) {
	t.Helper()
	copied := map[string][]byte{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		copied[path+suffix] = text
	}
	return func() {
		for name, text := range copied {
			putBack(t, name, text)
		}
	}
}

// warned reports whether the store says that its file is older.
func warned(s *sqlitestore.Store) bool {
	return strings.Contains(strings.Join(s.Warnings(), ""), "a copy was put back")
}

// TestOlderCopyInPlace (LS-INV-002): a copy of the file and its log is written over those that are open. The lock that
// was granted since, one that was made since, and one that another process granted: no token is granted again.
func TestOlderCopyInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s, other := open(t, path, nil), open(t, path, nil)
	last, n := map[string]int64{}, 0
	grant := func(s docstore.Store, key string, times int) {
		t.Helper()
		for range times {
			n++
			token := grantLock(t, s, key, n)
			if token <= last[key] {
				t.Fatalf("%s: token %d after %d", key, token, last[key])
			}
			last[key] = token
		}
	}
	grant(s, "k", 1)
	grant(s, "rare", 1)
	third := open(t, path, nil)
	grant(third, "theirs", 1)
	back := copyOf(t, path)
	grant(third, "theirs", 19)
	grant(s, "k", 19)
	if warned(s) {
		t.Error("nothing was put back")
	}
	back()
	grant(s, "k", 1)
	if !warned(s) || warned(other) {
		t.Errorf("warned: %v, and the other process %v", warned(s), warned(other))
	}
	grant(open(t, path, nil), "theirs", 1)
	grant(other, "k", 30)
	grant(s, "k", 30)
	grant(other, "rare", 2)
	if warned(other) {
		t.Error("the other process found nothing itself")
	}

	grant(other, "others", 3)
	back = copyOf(t, path)
	grant(other, "others", 19)
	grant(s, "new", 1) // it raises the floor
	back()
	grant(s, "newer", 1) // the floor is below what it was
	grant(open(t, path, nil), "others", 1)
	grant(other, "new", 2)
	grant(s, "new", 2)
}

// TestFailedCommitIsNoOlderCopy: what a transaction would have made a counter is not what the file must have.
func TestFailedCommitIsNoOlderCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	first := grantToken(t, s, key("a"))
	failingCommits(t, s)
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("a"), Add: map[string]int64{"token": 7},
		StartAtNow: []string{"token"}}, docstore.Write{Key: key("poison"), Set: docstore.Doc{"a": docstore.Int(1)}}); err == nil {
		t.Fatal("it was written")
	}
	if got := grantToken(t, s, key("a")); got != first+1 || warned(s) {
		t.Errorf("token %d after %d; warned %v", got, first, warned(s))
	}
}

// TestCounterThatIsSetIsNoOlderCopy: a write may set a counter to less, or remove it.
func TestCounterThatIsSetIsNoOlderCopy(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	write := func(w ...docstore.Write) {
		t.Helper()
		if _, err := s.Write(t.Context(), w...); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		grantToken(t, s, key("a"))
		write(docstore.Write{Key: key("a"), Set: docstore.Doc{"token": docstore.Int(5)}})
		if got := grantToken(t, s, key("a")); got != 6 {
			t.Errorf("token %d after 5", got)
		}
		remove(t, s, key("a"))
		write(docstore.Write{Key: key("a"), Set: docstore.Doc{"token": docstore.Int(1)}})
		if got := grantToken(t, s, key("a")); got != 2 {
			t.Errorf("token %d after 1", got)
		}
		remove(t, s, key("a"))
	}
	if warned(s) {
		t.Error("it warned")
	}
}
