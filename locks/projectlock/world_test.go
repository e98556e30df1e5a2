package projectlock

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// clock is that of a process, which a test moves.
type clock struct {
	mu              sync.Mutex
	monotonic, wall time.Duration // ahead of time.Now
}

func (c *clock) set(monotonic, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monotonic, c.wall = monotonic, wall
}

func (c *clock) read() term.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return term.On(time.Now().Add(c.monotonic).Round(0), time.Now().Add(c.wall).Round(0))
}

// Operations of a faulty disk.
const (
	opStat   = "stat"
	opOpen   = "open"
	opRead   = "read"
	opWrite  = "write"
	opRemove = "remove"
)

// faulty is a disk that fails as a test says.
type faulty struct {
	realDisk

	mu   sync.Mutex
	hook func(op string) error // called before each operation, whose error it is; nil lets it happen. It may block.
}

func (d *faulty) on(hook func(op string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

// fails has one operation fail.
func (d *faulty) fails(op string, err error) {
	d.on(func(o string) error {
		if o == op {
			return err
		}
		return nil
	})
}

func (d *faulty) ask(op string) error {
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

func (d *faulty) stat(path string) (fs.FileInfo, error) {
	if err := d.ask(opStat); err != nil {
		return nil, err
	}
	return d.realDisk.stat(path)
}

func (d *faulty) read(path string) ([]byte, error) {
	if err := d.ask(opRead); err != nil {
		return nil, err
	}
	return d.realDisk.read(path)
}

func (d *faulty) open(path string, create bool) (file, error) {
	if err := d.ask(opOpen); err != nil {
		return nil, err
	}
	f, err := d.realDisk.open(path, create)
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d}, nil
}

type faultyFile struct {
	file
	disk *faulty
}

func (f faultyFile) write(content []byte) error {
	if err := f.disk.ask(opWrite); err != nil {
		return err
	}
	return f.file.write(content)
}

func (f faultyFile) remove(path string) error {
	if err := f.disk.ask(opRemove); err != nil {
		return err
	}
	return f.file.remove(path)
}

var errDisk = errors.New("the disk is full")

// world is a project in a bubble, with what happened to it.
type world struct {
	*Project

	t      *testing.T
	folder string
	clock  *clock
	disk   *faulty
	start  time.Time

	mu     sync.Mutex
	events []Event
}

// newWorld is a process beside others on the same folder.
func newWorld(t *testing.T, folder string) *world {
	t.Helper()
	w := &world{t: t, folder: folder, clock: &clock{}, disk: &faulty{}, start: time.Now()}
	var err error
	w.Project, err = New(folder, &Options{clock: w.clock.read, disk: w.disk})
	if err != nil {
		t.Fatal(err)
	}
	w.Subscribe(w.note)
	return w
}

func (w *world) note(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// seen are the events so far.
func (w *world) seen() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// types are those of the events so far.
func (w *world) types() []EventType {
	var types []EventType
	for _, e := range w.seen() {
		types = append(types, e.Type)
	}
	return types
}

func (w *world) acquire(o *AcquireOptions) Lease {
	w.t.Helper()
	l, err := w.Acquire(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// content is the lease in the file, nil if there is no file.
func (w *world) content() *record {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.folder, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &r
}

// put writes the file of another process.
func (w *world) put(content string, modified time.Time) {
	w.t.Helper()
	path := filepath.Join(w.folder, fileName)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		w.t.Fatal(err)
	}
}

// other is the content of another process' file.
func other(expires time.Time) string {
	return string(record{newID(), Fallback, Autosave, expires.Add(-TTL).UnixMilli(), expires.UnixMilli()}.encode())
}

// inBubble runs a test in a bubble of synctest, in which waiting takes exactly as long as it says and no time at all.
func inBubble(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, folder)) })
}

// wantError fails the test unless the error is a LockError with the code.
func wantError(t *testing.T, err error, code Code, retryable bool) *LockError {
	t.Helper()
	e, ok := errors.AsType[*LockError](err)
	if !ok || e.Code != code || e.Retryable != retryable || !errors.Is(err, code) {
		t.Fatalf("%v, want %s, retryable %v", err, code, retryable)
	}
	return e
}

// after is a context that ends by itself.
func after(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
