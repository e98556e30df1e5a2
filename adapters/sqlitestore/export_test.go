package sqlitestore

import (
	"context"
	"database/sql/driver"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var (
	ParseDoc  = parseDoc
	AppendDoc = appendDoc
	PathError = pathError
)

// Queued is the number of calls of Write that wait for the writer.
func (s *Store) Queued() int { return s.writer.queue.size() }

// LargeLog are the warnings of a log of so many bytes.
func (s *Store) LargeLog(n int64) []string { return s.largeLog(n) }

// Exec runs a statement on the writing connection. No write may be under way.
func (s *Store) Exec(sql string) error { return s.writer.conn.exec(sql) }

// DueQuery and DueIndex are the statements that find documents by a text field, and that make the index for it.
func DueQuery(kind, field string) string { return dueIndex{kind, field}.query() }

// DueIndex is the statement that makes the index.
func DueIndex(kind, field string) string { return dueIndex{kind, field}.create() }

// What tests look at: the statement that removes what is due, and how far the floor is set
// above a counter that passes it.
const (
	PruneSQL    = pruneSQL
	ShrinkPages = shrinkPages
	Headroom    = headroom
)

// Durability is what the writing connection says about the syncs of its commits.
func (s *Store) Durability() (map[string]int64, error) {
	found := map[string]int64{}
	for _, name := range []string{"synchronous", "fullfsync", "checkpoint_fullfsync"} {
		n, err := s.writer.conn.number("PRAGMA " + name)
		if err != nil {
			return nil, err
		}
		found[name] = n
	}
	return found, nil
}

// SyncedFolders notes the folders whose names are forced to the disk for the rest of a test.
func SyncedFolders(t *testing.T) *[]string {
	t.Helper()
	var synced []string
	before := syncOpenFolder
	t.Cleanup(func() { syncOpenFolder = before })
	syncOpenFolder = func(d *os.File) error {
		synced = append(synced, d.Name())
		return before(d)
	}
	return &synced
}

// WaitEnded is how a call ends whose context has ended, by whether the writer has taken it and whether it is done.
func WaitEnded(ctx context.Context, taken, finished bool) error {
	c := &call{ctx: context.Background(), done: make(chan struct{}), taken: taken}
	if finished {
		close(c.done)
	}
	return c.wait(ctx, "leasehold.db")
}

// Remembered is how many documents the writer remembers. No write may be under way.
func (s *Store) Remembered() int { return len(s.writer.memo.latest) + len(s.writer.memo.older) }

// Statements are all that a store prepares, but for those of [DueQuery].
func Statements() []string {
	return slices.Concat(slices.Collect(maps.Keys((&reader{}).statements())),
		slices.Collect(maps.Keys((&writer{}).statements())))
}

// WhileReading runs do while a read transaction is open that has read a document.
func (s *Store) WhileReading(ctx context.Context, k docstore.Key, do func()) error {
	return s.view(ctx, func(r *reader) error {
		_, err := readDoc(r.get, k)
		do()
		return err
	})
}

// Taken reports whether the writer takes a call whose caller has the context.
func Taken(ctx context.Context) bool {
	q := queue{wake: make(chan struct{}, 1)}
	q.add(&call{ctx: ctx, done: make(chan struct{})})
	return len(q.take(1)) == 1
}

// OnLook lets a test count and delay the looks at the file. No document may have been watched yet.
func (s *Store) OnLook(look func()) error {
	if err := s.looker.open(s); err != nil {
		return err
	}
	s.looker.version.raw = observed{s.looker.version.raw, look}
	return nil
}

// observed is a statement that says when it is run.
type observed struct {
	driver.Stmt
	run func()
}

func (o observed) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	o.run()
	return o.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) //nolint:forcetypeassert // it is the driver's
}
