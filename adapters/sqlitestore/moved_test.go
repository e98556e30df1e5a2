package sqlitestore_test

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// refusesAll expects that no call is answered, and that a write says that nothing was written.
func refusesAll(t *testing.T, s *sqlitestore.Store, want string) {
	t.Helper()
	_, write := s.Write(t.Context(), increment(key("a")))
	_, get := s.Get(t.Context(), key("a"))
	_, list := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"})
	_, walk := s.Walk(t.Context(), docstore.WalkQuery{Kind: "locks"})
	_, due := s.Due(t.Context(), waiting(1))
	_, prune := s.Prune(t.Context(), 1)
	for name, err := range map[string]error{"Write": write, "Get": get, "List": list, "Walk": walk,
		"Due": due, "Prune": prune} {
		if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", name, err, want)
		}
	}
	if !errors.Is(write, docstore.ErrNotWritten) || strings.Contains(write.Error(), "unknown") {
		t.Errorf("the write does not say that nothing was written: %v", write)
	}
}

// abandoned opens a store whose Close fails, because its log is gone.
func abandoned(t *testing.T, path string, o *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); !errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("Close: %v, want that the log is gone", err)
		}
	})
	return s
}

// TestLogTakenAway removes or replaces what SQLite keeps beside the file. SQLite itself goes on, with a log that no
// other process can find: every acknowledged write would be lost with the process.
func TestLogTakenAway(t *testing.T) {
	copied := func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600))
	}
	for name, c := range map[string]struct {
		change func(path string) error
		says   string
	}{
		"both removed": {func(p string) error {
			return errors.Join(os.Remove(p+"-wal"), os.Remove(p+"-shm"))
		}, "-wal was deleted"},
		"log removed":     {func(p string) error { return os.Remove(p + "-wal") }, "-wal was deleted"},
		"memory removed":  {func(p string) error { return os.Remove(p + "-shm") }, "-shm was deleted"},
		"log replaced":    {func(p string) error { return copied(p + "-wal") }, "-wal was deleted or replaced"},
		"memory replaced": {func(p string) error { return copied(p + "-shm") }, "-shm was deleted or replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "leasehold.db")
			s := abandoned(t, path, nil)
			if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
				t.Fatal(err)
			}
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			refusesAll(t, s, c.says)
			refusesAll(t, s, "leasehold store raise-tokens")
		})
	}
	t.Run("put back", func(t *testing.T) { // another process may have written meanwhile
		path := filepath.Join(t.TempDir(), "leasehold.db")
		s := abandoned(t, path, nil)
		if err := os.Rename(path+"-wal", path+"-moved"); err != nil {
			t.Fatal(err)
		}
		refusesAll(t, s, "-wal was deleted")
		if err := os.Rename(path+"-moved", path+"-wal"); err != nil {
			t.Fatal(err)
		}
		refusesAll(t, s, "-wal was deleted")
	})
	t.Run("by a write under way", func(t *testing.T) { // after the look that begins its transaction
		path := filepath.Join(t.TempDir(), "leasehold.db")
		var take func()
		s := abandoned(t, path, &sqlitestore.Options{Now: func() time.Time {
			if take != nil {
				take()
			}
			return time.Now()
		}})
		if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
			t.Fatal(err)
		}
		take = func() {
			take = nil
			if err := os.Remove(path + "-wal"); err != nil {
				t.Error(err)
			}
		}
		_, err := s.Write(t.Context(), increment(key("a")))
		if !errors.Is(err, docstore.ErrUnavailable) || errors.Is(err, docstore.ErrNotWritten) {
			t.Errorf("error is %v, want one that leaves the outcome open", err)
		}
		if got := s.Stats().Applied; got != 1 {
			t.Errorf("%d writes count as applied", got)
		}
	})
	t.Run("while reading", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "leasehold.db")
		var take func()
		s := abandoned(t, path, &sqlitestore.Options{Now: func() time.Time {
			if take != nil {
				take()
			}
			return time.Now()
		}})
		take = func() { take = nil; _ = os.Remove(path + "-shm") }
		if _, err := s.Get(t.Context(), key("a")); !errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestLogTakenAwayBesideAnother: a process that has lost its log leaves that of the next one alone, also when it is
// closed: SQLite would copy its own log over the file, and delete the other's.
func TestLogTakenAwayBesideAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil { // there is something to begin with
		t.Fatal(err)
	}
	for range 100 {
		if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(path+"-wal"), os.Remove(path+"-shm")); err != nil {
		t.Fatal(err)
	}
	c := child(t, "beside", path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "written\n" {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	refusesAll(t, s, "-wal was deleted or replaced")
	log, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("Close: %v", err)
	}
	if now, err := os.Stat(path + "-wal"); err != nil || !os.SameFile(log, now) {
		t.Errorf("the other's log: %v", err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	// This process cannot open it again: SQLite would give it the memory of the file that is gone, where it does not see
	// what other processes do.
	if s, err := sqlitestore.Open(t.Context(), path, nil); err == nil ||
		!strings.Contains(err.Error(), "restart this process") {
		t.Errorf("opened again: %v, %v", s, err)
	}
	found, err := child(t, "look", path).Output()
	if want := "1 2 ok\n"; err != nil || string(found) != want {
		t.Errorf("the file holds %q, %v, want %q", found, err, want)
	}
}

// TestFolderTakenAway moves everything at once. All is as before once it is back.
func TestFolderTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, filepath.Join(dir, "leasehold.db"), nil)
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+" moved"); err != nil {
		t.Fatal(err)
	}
	refusesAll(t, s, "moved, deleted or replaced")
	if err := os.Rename(dir+" moved", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil || count(t, s, key("a")) != 2 {
		t.Errorf("after the folder was put back: %v", err)
	}
}

// TestCommitsAreSynced: guarantee 6 rests on these settings of the writing connection. That they reach the disk shows
// after a power cut only.
func TestCommitsAreSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	for range 2 { // a new file, and one that is there
		s := open(t, path, nil)
		got, err := s.Durability()
		if want := map[string]int64{"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1}; err != nil ||
			!maps.Equal(got, want) {
			t.Errorf("%v, %v, want %v (synchronous 2 is FULL)", got, err, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewNamesAreSynced: the folder of each name that Open makes is forced to the disk, or a power cut would take away
// the file, and every token with it.
func TestNewNamesAreSynced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "leasehold.db")
	synced := sqlitestore.SyncedFolders(t)
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")}; !slices.Equal(*synced, want) {
		t.Errorf("synced %q, want %q", *synced, want)
	}
	*synced = nil
	if err := open(t, path, nil).Close(); err != nil || len(*synced) != 0 {
		t.Errorf("opened again: synced %q, %v", *synced, err)
	}
}

// TestCallsThatEnd: a call that the writer has not taken was certainly not carried out; of one that it has taken no one
// knows.
func TestCallsThatEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sqlitestore.WaitEnded(ended, false, false); err != context.Canceled { //nolint:errorlint // and nothing else
		t.Errorf("not taken: %v", err)
	}
	if err := sqlitestore.WaitEnded(ended, true, false); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "its outcome unknown") {
		t.Errorf("taken: %v", err)
	}
	if err := sqlitestore.WaitEnded(ended, true, true); err != nil && !strings.Contains(err.Error(), "unknown") {
		t.Errorf("taken and done: %v", err)
	}
}

// TestSmallDisk runs a process on a disk of 3 MB, which the log would fill by itself.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mount := "mount -t tmpfs -o size=3m tmpfs '" + dir + "' && "
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c",
		mount+"true").CombinedOutput(); err != nil {
		t.Skipf("no disk of 3 MB can be had here: %v: %s", err, out)
	}
	c := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", mount+"exec '"+self+"'")
	c.Env = append(os.Environ(), roleEnv+"=fill", pathEnv+"="+filepath.Join(dir, "leasehold.db"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || n == 0 {
		t.Errorf("the disk was never full: %q, %v", out, err)
	} else {
		t.Logf("the disk was full %d times", n)
	}
}
