package sqlitestore_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// keepLock takes the file's write lock, says so, and keeps it until its input ends.
func keepLock(*sqlitestore.Store, string) error {
	db, err := sql.Open("sqlite", os.Getenv(pathEnv))
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	if _, err := c.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestStoppedHolderIsNamed: a process that is stopped while it has the file's lock is named in the error of the other's
// writes, which say what to do; reading works. When it goes on, so do writes.
func TestStoppedHolderIsNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped there")
	}
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, &sqlitestore.Options{BusyTimeout: 50 * time.Millisecond})
	c := child(t, "keep", path)
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
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatal(line, err)
	}
	_, err = s.Write(t.Context(), increment(key("a")))
	blocked := func(more ...string) {
		t.Helper()
		if runtime.GOOS != "linux" {
			more = []string{"look for one that has the file open"}
		}
		for _, part := range append(more, path) {
			if !errors.Is(err, docstore.ErrBlocked) || !errors.Is(err, docstore.ErrNotWritten) || !strings.Contains(err.Error(), part) {
				t.Errorf("the error is %v, without %q", err, part)
			}
		}
	}
	pid := strconv.Itoa(c.Process.Pid)
	blocked("process "+pid+" (", "if it keeps it")
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; { // it stops when it is scheduled
		if _, err = s.Write(t.Context(), increment(key("a"))); err == nil || strings.Contains(err.Error(), "stopped") ||
			runtime.GOOS != "linux" || time.Now().After(end) {
			break
		}
	}
	blocked("process "+pid+" (", "is stopped", "kill -CONT "+pid)
	if got := count(t, s, key("a")); got != -1 {
		t.Errorf("the counter is %d", got)
	}
	if err := errors.Join(c.Process.Signal(syscall.SIGCONT), in.Close()); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
		t.Error(err)
	}
}

// TestEachCallHasItsTime: while another process keeps the lock, each call is refused when it has waited for the busy
// timeout, also one that came while others waited.
func TestEachCallHasItsTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leasehold.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := other.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run(t, c, "BEGIN IMMEDIATE")
		var waiting sync.WaitGroup
		for n := range 12 {
			waiting.Go(func() {
				time.Sleep(time.Duration(n) * time.Second)
				begun := time.Now()
				_, err := s.Write(t.Context(), increment(key("a")))
				took := time.Since(begun)
				if !errors.Is(err, docstore.ErrBlocked) || took < sqlitestore.DefaultBusyTimeout ||
					took > sqlitestore.DefaultBusyTimeout+100*time.Millisecond {
					t.Errorf("call %d: %v after %v", n, err, took)
				}
			})
		}
		waiting.Wait()
		run(t, c, "ROLLBACK")
		if _, err := s.Write(t.Context(), increment(key("a"))); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.Close(), other.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
}
