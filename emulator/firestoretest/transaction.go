package firestoretest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Mode says how read-write transactions are kept apart.
type Mode int

const (
	// Pessimistic transactions lock what they read until they end; who wants to write it waits. It is the default of
	// the service's Standard edition and the only mode of the official emulator.
	Pessimistic Mode = iota

	// Optimistic transactions read a snapshot and lock nothing; their Commit is ABORTED if anything that they read has
	// changed since. It is the default of the service's Enterprise edition.
	Optimistic
)

// How long a transaction lives, in all and without a request.
const (
	transactionTTL  = 270 * time.Second
	transactionIdle = 60 * time.Second
)

var (
	errGarbage     = status.Error(codes.InvalidArgument, "Invalid transaction.")
	errClosed      = status.Error(codes.InvalidArgument, "Transaction is invalid or closed.")
	errExpired     = status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid.")
	errLockTimeout = status.Error(codes.Aborted, "Transaction lock timeout.")
	errContention  = status.Error(codes.Aborted, "Too much contention on these documents. Please try again.")
)

// A transaction is open until it is committed, rolled back, timed out while it waits for a lock, or expired.
type transaction struct {
	id uint64
	// the ID of its first attempt: of transactions that wait for each other, the one of the greatest gives way
	age     uint64
	mode    Mode
	at      time.Time // what an optimistic one reads; zero before its first read
	started time.Time
	used    time.Time
	reads   map[string]struct{} // documents read, found or not: locked (pessimistic) or to be validated (optimistic)
}

func (tx *transaction) token() []byte { return binary.BigEndian.AppendUint64(nil, tx.id) }

// hasRead reports whether the transaction has read what a write changes.
func (tx *transaction) hasRead(w *write) bool {
	_, read := tx.reads[w.path]
	return read
}

// begin opens a transaction.
func (db *database) begin(o *pb.TransactionOptions) (*transaction, error) {
	now := db.clock.read()
	tx := &transaction{mode: db.options.Mode, started: now, used: now, reads: make(map[string]struct{})}
	switch m := o.GetMode().(type) {
	case *pb.TransactionOptions_ReadOnly_:
		return nil, unimplemented("options.read_only")
	case *pb.TransactionOptions_ReadWrite_:
		if c := m.ReadWrite.GetConcurrencyMode(); c != pb.TransactionOptions_CONCURRENCY_MODE_UNSPECIFIED {
			return nil, unimplemented("options.read_write.concurrency_mode")
		}
		if id := m.ReadWrite.GetRetryTransaction(); len(id) > 0 {
			if _, err := db.transaction(id); errors.Is(err, errGarbage) {
				return nil, err
			}
			tried := binary.BigEndian.Uint64(id)
			tx.age = cmp.Or(db.ages[tried], tried)
			delete(db.ages, tried)
		}
	}
	tx.id = db.nextTransaction.Add(1)
	if tx.age == 0 {
		tx.age = tx.id
	} else {
		db.ages[tx.id] = tx.age
	}
	db.open[tx.id] = tx
	return tx, nil
}

// transaction finds an open transaction.
func (db *database) transaction(token []byte) (*transaction, error) {
	if len(token) != 8 {
		return nil, errGarbage
	}
	id := binary.BigEndian.Uint64(token)
	switch tx := db.open[id]; {
	case tx != nil:
		tx.used = db.clock.read()
		return tx, nil
	case id == 0 || id > db.nextTransaction.Load():
		return nil, errGarbage
	case db.expired[id]:
		return nil, errExpired
	default:
		return nil, errClosed
	}
}

// end closes a transaction, which frees its locks, and rejects what it still waits for.
func (db *database) end(tx *transaction) {
	delete(db.open, tx.id)
	db.refuseAll(tx)
}

// expire ends the transactions that took too long or were left alone. Every request calls it first.
func (db *database) expire() {
	now := db.clock.read()
	for _, tx := range db.open {
		if now.Sub(tx.started) >= transactionTTL || now.Sub(tx.used) >= transactionIdle {
			db.expired[tx.id] = true
			db.end(tx)
		}
	}
	db.wake()
}

// rollback ends a transaction. One that is no longer open is no error.
func (db *database) rollback(token []byte) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	tx, err := db.transaction(token)
	switch {
	case errors.Is(err, errGarbage):
		return err
	case err == nil:
		db.end(tx)
		db.wake()
	}
	return nil
}

// validate decides whether what an optimistic transaction read is still so.
func (db *database) validate(tx *transaction) error {
	for path := range tx.reads {
		if db.changed(path).After(tx.at) {
			return errContention
		}
	}
	return nil
}

func sameTime(a, b *timestamppb.Timestamp) bool {
	return a.GetSeconds() == b.GetSeconds() && a.GetNanos() == b.GetNanos()
}

// readTime checks a time at which a request wants to read.
func (db *database) readTime(t *timestamppb.Timestamp) (time.Time, error) {
	if err := t.CheckValid(); err != nil {
		return time.Time{}, invalid("read_time is not valid: %v", err)
	}
	if t.GetNanos()%1000 != 0 {
		return time.Time{}, invalid("read_time must be in whole microseconds")
	}
	at, now := t.AsTime(), db.clock.read()
	switch {
	case at.After(now):
		return time.Time{}, invalid("read_time %v is in the future: it is %v", at, now)
	case at.Before(now.Add(-history)):
		return time.Time{}, errTooOld
	}
	return at, nil
}
