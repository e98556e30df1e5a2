package firestoretest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/status"
)

// Shared locks are the reads and queries of open pessimistic transactions; a read of documents takes them at once, a
// query behind the commits that wait and would change its result. Exclusive locks need no entry: a commit is one step
// under the database's mutex, so that it only has to wait until no other transaction holds what it writes. Commits that
// wait are served in the order of their arrival.

// A request is a commit, or a query of a pessimistic transaction, that wants its locks, and then to run.
type request struct {
	tx          *transaction // nil: a commit without one
	query       *query       // nil: a commit
	writes      []*write     // of a commit
	requestTime time.Time    // of a commit

	run   func() // with the mutex held, once granted
	timer *time.Timer
	err   error         // why it was not granted; set before done is closed
	done  chan struct{} // closed when it has run or was rejected
}

// start runs the request at once or puts it into the queue. It is called with the mutex held, [database.await]
// without.
func (db *database) start(r *request) {
	r.done = make(chan struct{})
	if db.blocked(r) && !db.breakDeadlocks(r) {
		return
	}
	if !db.blocked(r) {
		r.run()
		close(r.done)
		db.wake()
		return
	}
	db.queue = append(db.queue, r)
	if r.query != nil {
		return // it ends with the commits that it waits for
	}
	defer db.wake() // a query that would wait for itself now
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
			if o.query == nil && o.tx != nil && r.tx != nil && o.tx != r.tx && o.tx.age > victim.tx.age &&
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

// waitsFor reports whether a request has to wait for a transaction, itself or through the requests of those that it waits
// for. Requests in seen are left out; it may be nil.
func (db *database) waitsFor(r *request, tx *transaction, seen map[*request]bool) bool {
	if seen == nil {
		seen = make(map[*request]bool)
	}
	if seen[r] {
		return false
	}
	seen[r] = true
	if r.query != nil {
		return slices.ContainsFunc(db.ahead(r), func(w *request) bool { return db.waitsFor(w, tx, seen) })
	}
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

// ahead returns the commits of others that wait, came before a query and would change what it finds.
func (db *database) ahead(r *request) []*request {
	var out []*request
	for _, w := range db.queue {
		if w == r {
			break
		}
		if w.query == nil && w.tx != r.tx && db.changesResult(w, r.query) {
			out = append(out, w)
		}
	}
	return out
}

// await waits until a request has run or was rejected, or the client is gone. A request whose client is gone is
// withdrawn, unless it is a commit and Options.LateCommits leaves it in the queue.
func (db *database) await(ctx context.Context, r *request) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	gone := status.FromContextError(ctx.Err()).Err()
	if db.options.LateCommits && r.query == nil {
		return gone
	}
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
			if db.blocked(r) {
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

// blocked decides whether a request has to wait: a commit while another transaction holds something that it writes, a
// query while it would overtake a commit. A commit that waits for the query's own transaction does not count.
func (db *database) blocked(r *request) bool {
	if r.query != nil {
		return slices.ContainsFunc(db.ahead(r), func(w *request) bool { return !db.waitsFor(w, r.tx, nil) })
	}
	return len(db.holders(r)) > 0
}

// holders returns the other transactions that hold something that a commit writes.
func (db *database) holders(r *request) []*transaction {
	var out []*transaction
	for _, tx := range db.open {
		if tx != r.tx && tx.locking() && db.holds(tx, r) {
			out = append(out, tx)
		}
	}
	return out
}

func (db *database) holds(tx *transaction, r *request) bool {
	for _, w := range r.writes {
		if _, held := tx.reads[w.path]; held {
			return true
		}
	}
	return slices.ContainsFunc(tx.queries, func(q queryRead) bool { return db.changesResult(r, q.query) })
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
			case r.tx.mode == Optimistic && len(writes) > 0: // what only reads has seen one time, its snapshot's
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
