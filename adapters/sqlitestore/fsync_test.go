package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// syncs counts the calls of xSync by the name of the file. It is how SQLite asks for a sync, and the only way: behind
// it the VFS of the operating system calls fsync or fdatasync.
var syncs struct {
	mu      sync.Mutex
	files   map[uintptr]countedFile // those that are open
	methods map[uintptr]uintptr     // of the operating system's VFS, and the same with another xSync
	count   map[string]int
}

// countedFile is a file of SQLite's.
type countedFile struct {
	name string
	sync uintptr // the function behind xSync
}

var (
	system   uintptr // the VFS of the operating system
	counting uintptr // the same, with another xSync of its files
)

// at is what an address in SQLite's memory leads to.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// address is that of a Go function, as SQLite stores it.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// function is one that SQLite stores, as Go calls it.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{address})) }

// countSyncs makes the counting VFS the default one for connections that are opened during the test. Each counts for
// its own files.
func countSyncs(t *testing.T) {
	t.Helper()
	tls := libc.NewTLS()
	if counting == 0 {
		syncs.files, syncs.methods, syncs.count = map[uintptr]countedFile{}, map[uintptr]uintptr{}, map[string]int{}
		system = sqlite3.Xsqlite3_vfs_find(tls, 0)
		counting = sqlite3.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
		name, err := libc.CString("counting")
		if err != nil || counting == 0 {
			t.Fatal(err)
		}
		vfs := at[sqlite3.Tsqlite3_vfs](counting)
		*vfs = *at[sqlite3.Tsqlite3_vfs](system)
		vfs.FzName, vfs.FpNext, vfs.FxOpen = name, 0, address(countingOpen)
	}
	if rc := sqlite3.Xsqlite3_vfs_register(tls, counting, 1); rc != sqlite3.SQLITE_OK {
		t.Fatal(rc)
	}
	t.Cleanup(func() {
		sqlite3.Xsqlite3_vfs_register(tls, system, 1)
		sqlite3.Xsqlite3_vfs_unregister(tls, counting)
		tls.Close()
	})
}

func countingOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](
		at[sqlite3.Tsqlite3_vfs](system).FxOpen)
	rc := open(tls, system, name, file, flags, out)
	f := at[sqlite3.Tsqlite3_file](file)
	if rc != sqlite3.SQLITE_OK || f.FpMethods == 0 || name == 0 {
		return rc
	}
	syncs.mu.Lock()
	defer syncs.mu.Unlock()
	original := at[sqlite3.Tsqlite3_io_methods](f.FpMethods)
	methods := syncs.methods[f.FpMethods]
	if methods == 0 { // files have different ones: the log is not locked, the database is
		methods = sqlite3.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(*original)))
		m := at[sqlite3.Tsqlite3_io_methods](methods)
		*m = *original
		m.FxSync = address(countingSync)
		syncs.methods[f.FpMethods] = methods
	}
	syncs.files[file] = countedFile{libc.GoString(name), original.FxSync}
	f.FpMethods = methods
	return rc
}

func countingSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	syncs.mu.Lock()
	f := syncs.files[file]
	syncs.count[f.name]++
	syncs.mu.Unlock()
	return function[func(*libc.TLS, uintptr, int32) int32](f.sync)(tls, file, flags)
}

// logSyncs is how often the log of a database was synced since the last call.
func logSyncs(path string) int {
	syncs.mu.Lock()
	defer syncs.mu.Unlock()
	n := syncs.count[path+"-wal"]
	syncs.count[path+"-wal"] = 0
	return n
}

// TestEachCommitIsSynced: before a write is acknowledged the log is synced, once for all calls that share a commit;
// what changes nothing is not.
func TestEachCommitIsSynced(t *testing.T) {
	countSyncs(t)
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if logSyncs(path) == 0 {
		t.Error("the schema was not synced")
	}
	for i := range 20 {
		if r, err := s.Write(t.Context(), increment(key("a")), increment(key(fmt.Sprint("b", i)))); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
		if got := logSyncs(path); got != 1 {
			t.Errorf("write %d: %d syncs", i, got)
		}
	}
	for _, step := range []func() error{
		func() error { _, err := s.Get(t.Context(), key("a")); return err },
		func() error { _, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"}); return err },
		func() error {
			_, err := s.Write(t.Context(), docstore.Write{Key: key("a"), If: docstore.Absent{},
				Set: docstore.Doc{"n": docstore.Int(1)}})
			return err
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if got := logSyncs(path); got != 0 {
		t.Errorf("reads and a refusal: %d syncs", got)
	}
	release := hold(t, path)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if r, err := s.Write(t.Context(), increment(key("a"))); err != nil || !r.Applied {
				t.Error(r, err)
			}
		})
	}
	until(t, "the calls wait", func() bool { return s.Queued() > 40 })
	before := s.Stats().Transactions
	release()
	all.Wait()
	if got, commits := logSyncs(path), s.Stats().Transactions-before; int64(got) != commits || got > 10 {
		t.Errorf("%d syncs for %d commits of 50 calls", got, commits)
	}
}
