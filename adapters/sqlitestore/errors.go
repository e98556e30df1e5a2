package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// code is SQLite's primary result code of an error, 0 if the error is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite3.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether another process holds a lock.
func isBusy(err error) bool {
	c := code(err)
	return c == codes.SQLITE_BUSY || c == codes.SQLITE_LOCKED
}

// explain turns an error of SQLite into one that names the file and says what to do. Errors of other origin keep their
// meaning.
func (s *Store) explain(doing string, err error) error {
	var reason string
	if errors.Is(err, errMoved) {
		return fmt.Errorf("%w: sqlite: %s %s: %w", docstore.ErrUnavailable, doing, s.path, err)
	}
	switch c := code(err); c {
	case 0:
		return err
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return fmt.Errorf("sqlite: %s %s: the file is corrupt or not a database: restore a backup, "+
			"or save what is left with the sqlite3 command .recover: %w", doing, s.path, err)
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return fmt.Errorf("%w: sqlite: %s %s: another process kept the file locked for longer than %v (Options.BusyTimeout): %s: %w",
			docstore.ErrBlocked, doing, s.path, s.busy, s.holder(), err)
	case codes.SQLITE_FULL:
		return fmt.Errorf(
			"%w: sqlite: %s %s: the disk is full: free some space (the log alone takes 1 to 2 MB), reading still works: %w",
			docstore.ErrFull, doing, s.path, err)
	case codes.SQLITE_READONLY:
		reason = "the file can only be read: check its mode and owner, and those of its folder"
	case codes.SQLITE_CANTOPEN:
		reason = "the file or its -wal or -shm companion cannot be opened: check the folder's mode and the open-files limit"
	case codes.SQLITE_IOERR:
		reason = "the disk failed"
	case codes.SQLITE_NOMEM:
		reason = "out of memory"
	case codes.SQLITE_PROTOCOL, codes.SQLITE_INTERRUPT:
		reason = "the lock could not be acquired"
	default:
		return fmt.Errorf("sqlite: %s %s: %w", doing, s.path, err)
	}
	return fmt.Errorf("%w: sqlite: %s %s: %s: %w", docstore.ErrUnavailable, doing, s.path, reason, err)
}

// unknownHolder is what is said of a process that has the lock where it cannot be named.
const unknownHolder = "look for one that has the file open, and is stopped or waits for a disk"

// pauses between attempts at a lock that another process holds. They are about as long as a commit: with longer ones
// this process would lose the lock again and again to a process that asks more often.
var pauses = backoff.Policy{First: 200 * time.Microsecond, Max: 2 * time.Millisecond}

// retry repeats do, which must be repeatable, for as long as another process holds a lock that it needs, up to the
// busy timeout and the context's end.
func (s *Store) retry(ctx context.Context, do func() error) error {
	return s.retryUntil(ctx, time.Now().Add(s.busy), do)
}

// retryUntil is retry up to a time. It does it once in any case.
func (s *Store) retryUntil(ctx context.Context, end time.Time, do func() error) error {
	err := do()
	for retry := 0; isBusy(err) && time.Now().Before(end); retry++ {
		if err := pauses.Sleep(ctx, retry); err != nil {
			return err
		}
		s.sent.Retries.Add(1)
		err = do()
	}
	return err
}
