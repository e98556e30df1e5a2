package firestoretest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/status"
)

// Shared locks are the reads and queries of open pessimistic transactions; a read takes them at once. Exclusive locks
// need no entry: a commit is one step under the database's mutex, so that it only has to wait until no other
// transaction holds what it writes. Commits that wait are served in the order of their arrival.

// A request is a commit that wants its locks, and then to run.
type request struct {
	tx          *transaction // nil: a commit without one
	writes      []*write
	requestTime time.Time

	run   func() // with the mutex held, once granted
	timer *time.Timer
	err   error         // why it was not granted; set before done is closed
	done  chan struct{} // closed when it has run or was rejected
}

// start runs the request at once or puts it into the queue. It is called with the mutex held, [database.await]
// without.
func (db *database) start(r *request) {
	r.done = make(chan struct{})
	if !db.blocked(r) {
		r.run()
		close(r.done)
		db.wake()
		return
	}
	db.queue = append(db.queue, r)
	r.timer = time.AfterFunc(db.options.LockTimeout, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.expire() // what it waits for may be overdue
		if !db.refuse(r, errLockTimeout) {
			return
		}
		if r.tx != nil {
			db.end(r.tx)
		}
		db.wake()
	})
}

// await waits until a request has run or was rejected, or the client is gone. A commit whose client is gone is
// withdrawn, unless Options.LateCommits leaves it in the queue.
func (db *database) await(ctx context.Context, r *request) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	gone := status.FromContextError(ctx.Err()).Err()
	if db.options.LateCommits {
		return gone
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.refuse(r, gone) {
		db.wake()
	}
	return gone
}

func (db *database) waiting() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.queue)
}

// reject takes a request out of the queue and reports whether it was still there.
func (db *database) refuse(r *request, err error) bool {
	i := slices.Index(db.queue, r)
	if i < 0 {
		return false
	}
	db.queue = slices.Delete(db.queue, i, i+1)
	r.timer.Stop()
	r.err = err
	close(r.done)
	return true
}

// wake runs every waiting request that nothing blocks any more, in the order of their arrival. It is called whenever
// locks were freed or a waiter has left.
func (db *database) wake() {
	for again := true; again; {
		again = false
		for i, r := range db.queue {
			if db.blocked(r) {
				continue
			}
			db.queue = slices.Delete(db.queue, i, i+1)
			r.timer.Stop()
			r.run()
			close(r.done)
			again = true
			break // running it may have changed everything
		}
	}
}

// refuseAll rejects what a transaction that has ended still waits for.
func (db *database) refuseAll(tx *transaction) {
	for _, r := range slices.Clone(db.queue) {
		if r.tx == tx {
			db.refuse(r, errClosed)
		}
	}
}

// blocked decides whether another transaction holds something that a commit writes.
func (db *database) blocked(r *request) bool {
	for _, tx := range db.open {
		if tx == r.tx || !tx.locking() {
			continue
		}
		for _, w := range r.writes {
			if _, held := tx.reads[w.path]; held {
				return true
			}
		}
		for _, q := range tx.queries {
			if db.changesResult(r, q.query) {
				return true
			}
		}
	}
	return false
}

// changesResult decides whether a commit changes what a query finds, or would find.
func (db *database) changesResult(r *request, q *query) bool {
	if !slices.ContainsFunc(r.writes, func(w *write) bool { return q.covers(w.path) }) {
		return false
	}
	changes, _, err := db.stage(r.writes, r.requestTime, r.requestTime, false)
	if err != nil {
		return false // it will fail and change nothing
	}
	for path, after := range changes {
		before := db.current(path)
		if q.covers(path) && (before != nil && q.matches(before) || after != nil && q.matches(after)) {
			return true
		}
	}
	return false
}

// commit applies writes, in a transaction if token is not empty, after waiting for the locks.
func (db *database) commit(ctx context.Context, writes []*write, token []byte) (committed, error) {
	r, outcome, err := db.startCommit(writes, token)
	if err != nil {
		return committed{}, err
	}
	if err := db.await(ctx, r); err != nil {
		return committed{}, err
	}
	return outcome.done, outcome.err
}

type commitOutcome struct {
	done committed
	err  error
}

// startCommit begins a commit. The outcome may be read once the request is done.
func (db *database) startCommit(writes []*write, token []byte) (*request, *commitOutcome, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire()
	out := &commitOutcome{}
	r := &request{writes: writes, requestTime: db.clock.read()}
	if len(token) > 0 {
		tx, err := db.transaction(token)
		if err != nil {
			return nil, nil, err
		}
		r.tx = tx
	}
	r.run = func() {
		if r.tx != nil {
			defer db.end(r.tx)
			switch {
			case r.tx.readOnly && len(writes) > 0:
				out.err = errReadOnly
			case r.tx.mode == Optimistic && !r.tx.readOnly:
				out.err = db.validate(r.tx)
			}
		}
		if out.err == nil {
			out.done, out.err = db.apply(writes, r.requestTime)
		}
	}
	db.start(r)
	return r, out, nil
}
