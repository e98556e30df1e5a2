package sqlitestore_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The environment that turns the test binary into a second process: its role and the file.
const (
	roleEnv = "LEASEHOLD_SQLITE_TEST_ROLE"
	pathEnv = "LEASEHOLD_SQLITE_TEST_PATH"
)

func TestMain(m *testing.M) {
	roles := map[string]func(s *sqlitestore.Store, name string) error{"race": race, "count": countForever,
		"beside": writeBeside, "fill": fill, "look": look, "once": writeOnce, "keep": keepLock}
	role, name, _ := strings.Cut(os.Getenv(roleEnv), ":")
	if role == "" {
		os.Exit(m.Run())
	}
	s, err := sqlitestore.Open(context.Background(), os.Getenv(pathEnv), nil)
	if err == nil {
		err = errors.Join(roles[role](s, name), s.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child prepares a second process.
func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), roleEnv+"="+role, pathEnv+"="+path)
	c.Stderr = os.Stderr
	return c
}

const (
	raceKeys    = 150
	raceThreads = 4
	raceCounts  = 100
)

// race takes keys that the other process wants too, and counts on a counter that both share. It prints the keys that it
// won.
func race(s *sqlitestore.Store, name string) error {
	ctx := context.Background()
	errs := make([]error, raceThreads)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range raceThreads {
		wg.Go(func() {
			errs[i] = func() error {
				for n := range raceKeys {
					r, err := s.Write(ctx, docstore.Write{
						Key: key(fmt.Sprintf("raced %d", n)), If: docstore.Absent{}, Set: docstore.Doc{"owner": docstore.String(name)},
					})
					if err != nil {
						return err
					}
					if r.Applied {
						mu.Lock()
						fmt.Println(n)
						mu.Unlock()
					}
					if n >= raceCounts {
						continue
					}
					if _, err := s.Write(ctx, increment(key("counter"))); err != nil {
						return err
					}
				}
				return nil
			}()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestTwoProcesses opens a new file in two processes at once. Each key must have exactly one winner, and it must be the
// owner that is stored; no increment may be lost.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "leasehold.db")
	names := []string{"left", "right"}
	output := make([]strings.Builder, len(names))
	var children []*exec.Cmd
	for i, name := range names {
		c := child(t, "race:"+name, path)
		c.Stdout = &output[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, c)
	}
	for i, c := range children {
		if err := c.Wait(); err != nil {
			t.Fatalf("process %s: %v", names[i], err)
		}
	}
	winner := map[string]string{}
	for i, name := range names {
		won := strings.Fields(output[i].String())
		t.Logf("%s won %d of %d keys", name, len(won), raceKeys)
		for _, n := range won {
			if winner[n] != "" {
				t.Errorf("key %s was won by %s and %s", n, winner[n], name)
			}
			winner[n] = name
		}
	}
	s := open(t, path, nil)
	for n := range raceKeys {
		snap, err := s.Get(t.Context(), key(fmt.Sprintf("raced %d", n)))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := snap.Docs[0]["owner"], docstore.String(winner[strconv.Itoa(n)]); got != want {
			t.Errorf("key %d is owned by %v, and was won by %q", n, got, want)
		}
	}
	if got, want := count(t, s, key("counter")), int64(len(names)*raceThreads*raceCounts); got != want {
		t.Errorf("the counter is %d, want %d", got, want)
	}
}

// countForever counts, from several goroutines, and prints every number that was acknowledged.
func countForever(s *sqlitestore.Store, _ string) error {
	lines := make(chan docstore.Value)
	for range 8 {
		go func() {
			for {
				r, err := s.Write(context.Background(), increment(key("counter")))
				if err != nil {
					panic(err)
				}
				lines <- r.Docs[0]["n"]
			}
		}()
	}
	for n := range lines {
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
	return nil
}

// TestKilled kills a writing process without notice, several times. Every number that it acknowledged must be in the
// file, and must never be issued again.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	acknowledged := int64(0)
	for round := range 3 {
		c := child(t, "count", path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		seen := map[int64]bool{}
		before := acknowledged
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				break // cut short by the kill
			}
			if n <= before || seen[n] {
				t.Fatalf("round %d: %d was issued again", round, n)
			}
			seen[n] = true
			acknowledged = max(acknowledged, n)
			if len(seen) == 300 {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.Wait(); err == nil {
			t.Fatal("the process ended by itself")
		}
		s := open(t, path, nil)
		stored := count(t, s, key("counter"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if stored < acknowledged {
			t.Fatalf("round %d: %d was acknowledged, the file holds %d", round, acknowledged, stored)
		}
		acknowledged = stored
	}
}

// TestManyOpenANewFile: a process that opens the file while it is being set up finds it either empty or done. A look at
// it in several steps once saw the tables of a file that did not seem to be ours yet.
func TestManyOpenANewFile(t *testing.T) {
	for i := range 30 {
		path := filepath.Join(t.TempDir(), strconv.Itoa(i), "leasehold.db")
		var opening sync.WaitGroup
		for range 8 {
			opening.Go(func() {
				s, err := sqlitestore.Open(context.Background(), path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
	}
}

// writeBeside writes once, says so, waits until its input ends, and writes again.
func writeBeside(s *sqlitestore.Store, _ string) error {
	for want := int64(1); want <= 2; want++ {
		r, err := s.Write(context.Background(), increment(key("beside")))
		if err != nil {
			return err
		}
		if got := r.Docs[0]["n"]; got != docstore.Value(docstore.Int(want)) {
			return fmt.Errorf("the counter is %v, want %d", got, want)
		}
		if want == 1 {
			fmt.Println("written")
			if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
				return err
			}
		}
	}
	return nil
}

// look prints two counters, and whether the file is sound.
func look(s *sqlitestore.Store, _ string) error {
	snap, err := s.Get(context.Background(), key("a"), key("beside"))
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", os.Getenv(pathEnv))
	if err != nil {
		return err
	}
	var result string
	err = db.QueryRowContext(context.Background(), "PRAGMA integrity_check").Scan(&result)
	fmt.Println(snap.Docs[0]["n"], snap.Docs[1]["n"], result)
	return errors.Join(err, db.Close())
}

// fill writes small documents over and over, on a small disk that then is full. Every write is stored, or refused with
// nothing written; and after one that was refused the next is stored, because no document grows.
func fill(s *sqlitestore.Store, _ string) error {
	const documents = 40
	var stored [documents]int64
	write := func(s *sqlitestore.Store, n int) error {
		w := increment(key(strconv.Itoa(n)))
		w.Set = docstore.Doc{"text": docstore.String(strings.Repeat("x", 300))}
		_, err := s.Write(context.Background(), w)
		if err == nil {
			stored[n]++
		}
		return err
	}
	for i := range 60 * documents { // the log is never larger than the disk
		if err := write(s, i%documents); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	path := os.Getenv(pathEnv)
	if err := s.Close(); err != nil {
		return err
	}
	s, err := sqlitestore.Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	for n := range documents { // the log has some size
		if err := write(s, n); err != nil {
			return fmt.Errorf("write after opening again: %w", err)
		}
	}
	if err := os.WriteFile(path+".other", make([]byte, 10<<20), 0o600); err == nil {
		return errors.New("the disk is not full")
	}
	refused := 0
	for i := range 20 * documents {
		err := write(s, i%documents)
		if err != nil {
			if !errors.Is(err, docstore.ErrFull) || !errors.Is(err, docstore.ErrNotWritten) {
				return fmt.Errorf("write %d on a full disk: %w", i, err)
			}
			refused++
			err = write(s, i%documents)
		}
		if err != nil {
			return fmt.Errorf("write %d on a full disk, again: %w", i, err)
		}
	}
	for n, want := range stored {
		snap, err := s.Get(context.Background(), key(strconv.Itoa(n)))
		if err != nil {
			return err
		}
		if got := snap.Docs[0]["n"]; got != docstore.Value(docstore.Int(want)) {
			return fmt.Errorf("document %d counts %v, want %d", n, got, want)
		}
	}
	fmt.Println(refused)
	return s.Close()
}
