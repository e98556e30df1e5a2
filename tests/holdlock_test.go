//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

func init() { children["holdlock"] = holdLock } //nolint:gochecknoinits // before TestMain, on systems that can

// thawed is what a child says about its work under a lock.
type thawed struct {
	Before  bool   // a step passed the guard of the guarded resource, before the process was stopped
	Derived bool   // Check knew of the loss through a derived context, the first thing after the thaw
	Err     string // of the context
	Lost    bool   // its cause is ErrLost
	After   bool   // a step taken in spite of all passed the guard
	Do      bool   // Do says that the lock was lost
	Events  string // from the acquire of the lock
}

// holdTTL is long enough to work under a lease on a machine that is busy, and short enough to wait for its end.
const holdTTL = 5 * time.Second

// locksOf is a client of a server's locks, with leases that last so long; 0 is the usual time.
func locksOf(url, owner string, ttl time.Duration, observe func(locks.Event)) (*locks.Client, error) {
	c, err := client.New(url, nil)
	if err != nil {
		return nil, err
	}
	return locks.New(c.LockAPI().For("acme"), &locks.Options{Owner: owner, TTL: ttl, Observe: observe})
}

// holdLock works under a lock, and stops its own process for longer than the lease lasts, or waits to be killed.
func holdLock() int {
	var said thawed
	c, err := locksOf(os.Getenv("LEASEHOLD_SERVER"), "child", holdTTL, func(e locks.Event) {
		if e.What == locks.Acquired {
			said.Events = "" // a busy machine may be too late for a lease before
		}
		if e.What != locks.Renewed {
			said.Events += e.What + " "
		}
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = c.Do(context.Background(), "orders", nil, func(ctx context.Context, l *locks.Lock) error {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		said.Before = guarded(l.Token())
		fmt.Println("running")
		if os.Getenv("LEASEHOLD_STAY") != "" {
			select {}
		}
		if err := standStill(); err != nil {
			return err
		}
		said.Derived = errors.Is(locks.Check(derived), locks.ErrLost)
		if err := ctx.Err(); err != nil {
			said.Err = err.Error()
		}
		said.Lost = errors.Is(context.Cause(ctx), locks.ErrLost)
		said.After = guarded(l.Token())
		return nil
	})
	said.Do = errors.Is(err, locks.ErrLost)
	_ = c.Close(context.Background()) // the observer has been called for the last time
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		return 1
	}
	return 0
}

// guarded takes a step at the resource that a child's lease protects, and reports whether it passed.
func guarded(token int64) bool {
	r, err := http.Post(os.Getenv("LEASEHOLD_GUARD")+"?token="+strconv.FormatInt(token, 10), "", nil)
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// standStill stops this process, and returns when it goes on.
func standStill() error {
	stop := time.Now()
	err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for err == nil && time.Since(stop) < time.Second { //nolint:revive // it stops now, or very soon
	}
	return err
}

// holder is a child that works under a lease of a server, and the resource that the lease protects.
type holder struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	url    string
	step   func(token int64) bool
}

func startHolder(t *testing.T, store docstore.Store, child string, env ...string) *holder {
	t.Helper()
	server := httptest.NewServer(httpapi.New(store, httpapi.Development{}, nil))
	t.Cleanup(server.Close)
	guard := lock.NewGuard(store, nil)
	h := &holder{url: server.URL, step: func(token int64) bool {
		o, err := guard.Check(context.Background(), lock.Fence{Tenant: "acme", Resource: "orders", Lease: fencing.OfLock("db", 0, token)})
		return err == nil && o.Passed
	}}
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, err := strconv.ParseInt(r.FormValue("token"), 10, 64); err != nil || !h.step(token) {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(behind.Close)
	h.cmd = childCommand(t.Context(), child, append(env, "LEASEHOLD_SERVER="+server.URL,
		"LEASEHOLD_GUARD="+behind.URL)...)
	h.cmd.Stderr = &h.stderr
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() })
	h.lines = bufio.NewScanner(stdout)
	if !h.lines.Scan() || h.lines.Text() != "running" {
		t.Fatalf("the child said %q\n%s", h.lines.Text(), h.stderr.Bytes())
	}
	return h
}

// waitUntilStopped waits until the system says that a process is stopped.
func waitUntilStopped(t *testing.T, pid int) {
	t.Helper()
	awaited(t, "the process is stopped", func() bool {
		state := processState(t, pid)
		if state == "" {
			t.Fatal("the process has ended")
		}
		return state == "T" || state == "t"
	})
}

// goesOn lets the child go on, and reads what it says before it ends.
func (h *holder) goesOn(t *testing.T, said any) {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.lines.Scan()
	if err := json.Unmarshal(h.lines.Bytes(), said); err != nil {
		t.Fatalf("the child said %q\n%s", h.lines.Text(), h.stderr.Bytes())
	}
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("the child: %v\n%s", err, h.stderr.Bytes())
	}
}

// takeOver waits for the lock, and takes a step under a lease that a busy machine does not lose.
func (h *holder) takeOver(t *testing.T) {
	t.Helper()
	c, err := locksOf(h.url, "next", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), "orders", nil, func(_ context.Context, l *locks.Lock) error {
		if !h.step(l.Token()) {
			t.Error("the guard rejected the next holder")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestFrozenHolder: SIGSTOP for longer than the lease. The first thing that the thawed work is told is that its lock is
// lost; if another has the lock, nothing that it writes in spite of that is accepted by a resource that compares
// tokens. LS-FENCE-001
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	h := startHolder(t, docstore.NewMemory(nil), "holdlock")
	waitUntilStopped(t, h.cmd.Process.Pid)
	h.takeOver(t)
	var got thawed
	h.goesOn(t, &got)
	if want := (thawed{Before: true, Derived: true, Err: "context canceled", Lost: true, Do: true,
		Events: "Acquired Lost "}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestKilledHolder: the lock of a process that was killed is another's when its lease has ended.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	h := startHolder(t, docstore.NewMemory(nil), "holdlock", "LEASEHOLD_STAY=1")
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	h.takeOver(t)
}

// TestStoppedServer: a server that does not respond any more costs its clients the lock, before the lease ends there.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory") // a disk may keep a write waiting for longer than the lease lasts
	c, err := locksOf(p.url, "ann", holdTTL, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Lock(t.Context(), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-l.Context().Done()
	if cause := context.Cause(l.Context()); !errors.Is(cause, locks.ErrLost) {
		t.Errorf("the cause is %v", cause)
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	next, err := locksOf(p.url, "bob", holdTTL, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := next.Lock(t.Context(), "orders", nil)
	if err != nil || second.Token() <= l.Token() {
		t.Errorf("the next holder: %v", err)
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, locks.ErrLost) {
		t.Errorf("unlock: %v", err)
	}
}
