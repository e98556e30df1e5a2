// Package sqlitestore keeps the documents of Leasehold in one SQLite file: the store of a single machine, with nothing
// to install and nothing to pay. SQLite is compiled to Go, so that no C compiler is needed.
//
// # Who decides
//
// SQLite's write lock decides. It lets one transaction write at a time, also among processes that share the file.
// Inside it the store reads the documents, evaluates the conditions in Go with [driver.Evaluate], and writes what
// follows.
//
// # Why writes are grouped
//
// A commit is expensive for one reason: the disk has to confirm it. One goroutine therefore owns the writing
// connection. It takes the lock, gathers the calls that are waiting by then, applies each as a step of its own inside
// one transaction, commits once and returns all results. No call waits on purpose: a lone call is committed at once,
// and while one commit is at the disk the next group collects.
//
//	Write ─┐
//	Write ─┼─▶ queue ─▶ BEGIN IMMEDIATE ─▶ evaluate each in turn ─▶ COMMIT (one sync) ─▶ results
//	Write ─┘
//
// A later call of a group sees what the earlier ones changed. A call that is rejected, or that meets a damaged
// document, changes nothing and does not disturb the others.
//
// # Whose clock
//
// The process's, read while the write lock is held: as long as that clock does not go back, times are in the order
// of commits. Processes that share a file share a machine and therefore a clock.
//
// # What can go wrong
//
// Another process may keep the write lock for longer than Options.BusyTimeout: that is [docstore.ErrBlocked], and names
// it on Linux. A call waits no longer than that for the lock. The log may grow while another process reads for long; it
// shrinks when that has ended, see [Store.Warnings]. The disk may be full or fail, the file
// or its log may be taken away: those are [docstore.ErrUnavailable], with the path and the reason in the text. Every
// read and write makes sure that the files are there before it is answered, a write once more after its commit. A file
// that is corrupt is an error of its own, because retrying does not help. A write is on the disk before it is
// acknowledged, so that neither kill -9 nor a power cut loses a fencing token.
//
// Put the file on a local disk. The write-ahead log needs memory that all processes share, which network file systems
// do not have; [Open] rejects a file system where it does not work.
package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// DefaultBusyTimeout is how long a call waits for other processes by default.
const DefaultBusyTimeout = 5 * time.Second

// readers is the number of connections that read beside the writer. A read takes microseconds of processor time, so
// that a few keep the machine busy.
const readers = 4

// Options are the settings of [Open]. The zero value works.
type Options struct {
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time

	// BusyTimeout is how long to wait for another process that holds the file's lock before a call ends with
	// [docstore.ErrUnavailable]; 0 means [DefaultBusyTimeout].
	BusyTimeout time.Duration
}

// Store is a [docstore.Store] in a SQLite file.
type Store struct {
	path   string
	now    func() time.Time
	busy   time.Duration
	opened os.FileInfo

	companions []watched
	older      atomic.Bool           // the file was found to be older than it was
	gone       atomic.Pointer[error] // why the companions are no longer those of the file

	writer *writer
	idle   chan *reader // the idle readers
	calls  driver.InFlight
	sent   driver.Sent

	signals docstore.Signals
	looker  looker

	mu      sync.Mutex
	indexes map[dueIndex]bool // that are known to be there; under mu
}

var (
	_ docstore.Store   = (*Store)(nil)
	_ docstore.Watcher = (*Store)(nil)
)

// Open opens the file at path, or creates it with its parent folders, readable by this user alone. Options may be nil.
// The context bounds the opening only.
//
// It rejects, with an error that says what to do: a path that cannot be written, a file that is no database, belongs to
// another application or was written by a newer version, and a file system on which commits would not be safe.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	s := &Store{now: time.Now, busy: DefaultBusyTimeout, idle: make(chan *reader, readers), indexes: map[dueIndex]bool{}}
	s.looker.end = make(chan struct{})
	if o != nil {
		if o.BusyTimeout < 0 {
			return nil, fmt.Errorf("sqlite: BusyTimeout is %v: use a positive time, or 0 for %v",
				o.BusyTimeout, DefaultBusyTimeout)
		}
		if o.BusyTimeout > 0 {
			s.busy = o.BusyTimeout
		}
		if o.Now != nil {
			s.now = o.Now
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var err error
	if s.path, s.opened, err = prepareFile(path); err != nil {
		return nil, err
	}
	if err := checkAbandoned(s.path, s.opened); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	go s.writer.loop()
	return s, nil
}

// connect opens the writing connection, makes the file ours, and opens the readers.
func (s *Store) connect(ctx context.Context) error {
	c, err := openConn(s.path)
	if err != nil {
		return s.explain("open", err)
	}
	s.writer = newWriter(s, c)
	if err := s.retry(ctx, func() error { return setUp(s.path, c) }); err != nil {
		return s.explain("open", err)
	}
	if err := s.writer.prepare(); err != nil {
		return s.explain("open", err)
	}
	for range readers {
		r, err := openReader(s.path)
		if err != nil {
			return s.explain("open", err)
		}
		s.idle <- r
	}
	return s.watch()
}

// disconnect closes every connection. The last one of all processes to close copies the log into the file.
func (s *Store) disconnect() error {
	var errs []error
	for len(s.idle) > 0 {
		errs = append(errs, (<-s.idle).conn.close())
	}
	if s.looker.reader != nil {
		errs = append(errs, s.looker.reader.conn.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.conn.close())
	}
	return errors.Join(errs...)
}

// Warnings are sentences for the log: about a file or a folder that other users of the machine can change, about a file
// that was found to be older than what this store has written, and about a log that has grown to 64 MiB.
func (s *Store) Warnings() []string {
	found := exposed(s.path)
	if s.older.Load() {
		found = append(found, fmt.Sprintf("%s: %v", s.path, errOlder))
	}
	return append(found, s.largeLog(s.LogBytes())...)
}

// Close implements [docstore.Store]. It lets calls in progress end, brings the log into the file and closes it.
func (s *Store) Close() error { return s.calls.Close(s.release) }

func (s *Store) release() error {
	s.writer.stop()
	s.looker.stop()
	var errs []error
	if err := s.stillThere(); s.gone.Load() != nil {
		// The connections stay open until the process ends. SQLite would delete the log that is there now when it closes the
		// last of them, and it is another process's.
		abandon(s.opened)
		return s.explain("close", err)
	}
	// Passive: it copies what no reader of another process still needs, and does not wait. What stays in the log is
	// safe there and is read when the file is opened next.
	if err := s.writer.conn.exec("PRAGMA wal_checkpoint(PASSIVE)"); err != nil && !isBusy(err) {
		errs = append(errs, s.explain("close", err))
	}
	if err := s.disconnect(); err != nil {
		errs = append(errs, s.explain("close", err))
	}
	return errors.Join(errs...)
}

// Usage implements [docstore.Meter].
func (s *Store) Usage() docstore.Usage {
	u := s.sent.Usage()
	u.Requests, u.Warnings = s.writer.transactions.Load(), len(s.Warnings())
	u.Log = docstore.Log{Known: true, Bytes: s.LogBytes()}
	return u
}

// Stats counts what the store did since it was opened.
type Stats struct {
	Transactions int64 // committed
	Applied      int64 // calls of Write whose conditions held, each with all of its writes
	Refused      int64 // calls of Write with a condition that did not hold
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	return Stats{
		Transactions: s.writer.transactions.Load(),
		Applied:      s.writer.applied.Load(),
		Refused:      s.writer.refused.Load(),
	}
}
