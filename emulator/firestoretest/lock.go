package firestoretest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/status"
)

// Shared locks are the reads of open pessimistic transactions; a read takes them at once. Exclusive locks need no
// entry: a commit is one step under the database's mutex, so that it only has to wait until no other transaction holds
// what it writes. Commits that wait are served in the order of their arrival.

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
	if len(db.holders(r)) > 0 && !db.breakDeadlocks(r) {
		return
	}
	if len(db.holders(r)) == 0 {
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

// breakDeadlocks aborts, of the transactions that would wait for each other if this commit began to wait, the youngest,
// until there are none. It reports whether the commit is left.
func (db *database) breakDeadlocks(r *request) bool {
	for {
		victim := r
		for _, o := range db.queue {
			if o.tx != nil && r.tx != nil && o.tx != r.tx && o.tx.age > victim.tx.age &&
				db.waitsFor(r, o.tx, nil) && db.waitsFor(o, r.tx, nil) {
				victim = o
			}
		}
		if victim == r {
			deadlock := r.tx != nil && db.waitsFor(r, r.tx, nil)
			if deadlock {
				r.err = errContention
				close(r.done)
				db.end(r.tx)
				db.wake()
			}
			return !deadlock
		}
		db.refuse(victim, errContention)
		db.end(victim.tx)
		db.wake()
	}
}

// waitsFor reports whether a request has to wait for a transaction, itself or through the requests of those that it
// waits for. Requests in seen are left out; it may be nil.
func (db *database) waitsFor(r *request, tx *transaction, seen map[*request]bool) bool {
	if seen == nil {
		seen = make(map[*request]bool)
	}
	if seen[r] {
		return false
	}
	seen[r] = true
	for _, holder := range db.holders(r) {
		if holder == tx {
			return true
		}
		for _, next := range db.queue {
			if next.tx == holder && db.waitsFor(next, tx, seen) {
				return true
			}
		}
	}
	return false
}

// await waits until a request has run or was rejected, or the client is gone, whose request is withdrawn.
func (db *database) await(ctx context.Context, r *request) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	gone := status.FromContextError(ctx.Err()).Err()
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.refuse(r, gone) {
		db.wake()
	}
	return gone
}

func (r *request) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (db *database) waiting() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.queue)
}

// refuse takes a request out of the queue and reports whether it was still there.
func (db *database) refuse(r *request, err error) bool {
	i := slices.Index(db.queue, r)
	if i < 0 {
		return false
	}
	db.queue = slices.Delete(db.queue, i, i+1)
	r.stopTimer()
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
			if len(db.holders(r)) > 0 {
				continue
			}
			db.queue = slices.Delete(db.queue, i, i+1)
			r.stopTimer()
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

// holders returns the other transactions that hold something that a commit writes.
func (db *database) holders(r *request) []*transaction {
	var out []*transaction
	for _, tx := range db.open {
		if tx != r.tx && tx.mode == Pessimistic && slices.ContainsFunc(r.writes, tx.hasRead) {
			out = append(out, tx)
		}
	}
	return out
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
			if r.tx.mode == Optimistic && len(writes) > 0 { // what only reads has seen one time, its snapshot's
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
