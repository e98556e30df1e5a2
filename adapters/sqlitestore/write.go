package sqlitestore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// maxBatch bounds the calls of one transaction, so that the first of them does not wait long for the last: at some
// 20 µs each it is about as long as a slow commit.
const maxBatch = 256

// call is one call of Write, or of Prune, on its way through the queue.
type call struct {
	ctx    context.Context //nolint:containedctx // of the caller, who may be gone before the writer takes the call
	writes []docstore.Write
	prune  int           // how many documents to remove at most; 0 for a Write
	done   chan struct{} // closed when result, pruned and err are final
	result docstore.Result
	pruned int
	err    error

	// mu is held by the writer from the moment it takes the call until it has evaluated it: after that it no longer
	// reads writes, and a caller whose context ended may change them.
	mu      sync.Mutex
	taken   bool
	givenUp bool

	begun time.Time // when it came into the queue
}

// Write implements [docstore.Store]. If the context ends while the call waits for its turn, nothing is written and the
// error is the context's own; if it ends while the call's group is being committed, the outcome is unknown.
func (s *Store) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if err := docstore.ValidateWrites(writes); err != nil {
		return docstore.Result{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Result{}, err
	}
	defer s.calls.End()
	c := &call{ctx: ctx, writes: writes, done: make(chan struct{})}
	s.writer.queue.add(c)
	if err := c.wait(ctx, s.path); err != nil {
		return docstore.Result{}, err
	}
	return c.result, nil
}

// wait waits until the call is done, and returns its error. If the context ends before the writer takes the call, it is
// given up; if it ends later, the outcome is unknown, and the call's results must not be read.
func (c *call) wait(ctx context.Context, path string) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.givenUp = !c.taken
	c.mu.Unlock()
	if c.givenUp {
		return ctx.Err()
	}
	select {
	case <-c.done:
		return c.err
	default:
		return fmt.Errorf("sqlite: write %s: the commit is under way, its outcome unknown: %w", path, ctx.Err())
	}
}

// queue holds the calls that wait for the writer.
type queue struct {
	mu    sync.Mutex
	calls []*call
	wake  chan struct{} // has an entry when there may be calls
}

func (q *queue) add(c *call) {
	q.mu.Lock()
	c.begun = time.Now()
	q.calls = append(q.calls, c)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.calls)
}

// oldest is when the first call came that waits.
func (q *queue) oldest() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) == 0 {
		return time.Now() // it is not asked then
	}
	return q.calls[0].begun
}

// since is how many of the calls that wait came up to a time: they are in the order of their arrival.
func (q *queue) since(at time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.calls) && !q.calls[n].begun.After(at) {
		n++
	}
	return n
}

// take removes up to most calls, the oldest first, and returns those that were not given up, each with its mu held.
func (q *queue) take(most int) []*call {
	q.mu.Lock()
	n := min(most, len(q.calls))
	batch := q.calls[:n:n]
	if q.calls = q.calls[n:]; len(q.calls) == 0 {
		q.calls = nil
	}
	q.mu.Unlock()
	taken := batch[:0]
	for _, c := range batch {
		c.mu.Lock()
		if c.givenUp || docstore.Gone(c.ctx) != nil {
			c.mu.Unlock()
			continue
		}
		c.taken = true
		taken = append(taken, c)
	}
	return taken
}

// writer owns the writing connection.
type writer struct {
	store *Store
	conn  *conn
	queue queue
	ended chan struct{}

	begin, commit, rollback, read, put, putEnd, remove, prune, facts, setFact *stmt

	text  []byte  // of the document being written
	memo  memo    // of what was read and written last
	ends  []int64 // of the documents of the call being evaluated, in order, as the file has them; 0 for none
	marks marks

	counters counters
	sinceCut int // transactions since it was tried to cut the log

	transactions, applied, refused atomic.Int64
}

func newWriter(s *Store, c *conn) *writer {
	w := &writer{store: s, conn: c, queue: queue{wake: make(chan struct{}, 1)}, ended: make(chan struct{})}
	w.counters.w = w
	return w
}

func (w *writer) prepare() (err error) {
	for sql, st := range w.statements() {
		if *st, err = w.conn.prepare(sql); err != nil {
			return err
		}
	}
	return nil
}

// statements are those of the writer, with where they are kept.
func (w *writer) statements() map[string]**stmt {
	return map[string]**stmt{
		"BEGIN IMMEDIATE": &w.begin,
		"COMMIT":          &w.commit,
		"ROLLBACK":        &w.rollback,
		readEndSQL:        &w.read,
		"INSERT INTO docs (kind, tenant, id, doc) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET doc = excluded.doc": &w.put,
		"INSERT INTO docs (kind, tenant, id, doc, keep_until) VALUES (?, ?, ?, ?, ?) " +
			"ON CONFLICT DO UPDATE SET doc = excluded.doc, keep_until = excluded.keep_until": &w.putEnd,
		"DELETE FROM docs WHERE kind = ? AND tenant = ? AND id = ?": &w.remove,
		pruneSQL:   &w.prune,
		factsSQL:   &w.facts,
		setFactSQL: &w.setFact,
	}
}

// loop serves the queue until stop.
func (w *writer) loop() {
	defer close(w.ended)
	for range w.queue.wake {
		for w.queue.size() > 0 {
			w.serve()
		}
	}
}

// stop ends the loop. No call may be under way or follow.
func (w *writer) stop() {
	close(w.queue.wake)
	<-w.ended
}

// serve takes the write lock, then all calls that wait by then: while another process keeps the lock, the group
// grows.
func (w *writer) serve() {
	waiting, busy := w.queue.size(), w.store.busy
	if err := w.lock(w.queue.oldest().Add(busy)); err != nil {
		if isBusy(err) { // each call has its own time
			waiting = max(1, w.queue.since(time.Now().Add(-busy)))
		}
		w.fail(w.queue.take(waiting), err)
		return
	}
	w.apply(w.queue.take(maxBatch))
	w.cutLog()
}

// lock begins a transaction, and waits for other processes until a time.
func (w *writer) lock(end time.Time) error {
	if err := w.store.retryUntil(context.Background(), end, func() error { return w.begin.exec() }); err != nil {
		return err
	}
	if err := w.store.stillThere(); err != nil {
		return errors.Join(err, w.abort())
	}
	w.marks.begin()
	return nil
}

// apply evaluates the calls inside the transaction that has begun, ends it, and completes them.
func (w *writer) apply(calls []*call) {
	did, err := w.evaluate(calls)
	if err != nil {
		w.separate(calls, err)
		return
	}
	for _, c := range calls {
		c.mu.Unlock()
	}
	if !did.change {
		// Nothing to keep: what was read needs no sync.
		err = w.abort()
	} else if err = w.commit.exec(); err == nil {
		w.transactions.Add(1)
		w.marks.committed()
		err = w.store.stillThere() // what was committed into a file that is gone is not stored
	} else {
		err = w.failedCommit(err)
	}
	if err == nil {
		w.applied.Add(did.applied)
		w.refused.Add(did.refused)
		w.store.signals.Changed(did.changed...)
	}
	for _, c := range calls {
		// Also a rejection counts only if the commit did: it may rest on what an earlier call of the group changed.
		if err != nil {
			c.result, c.pruned, c.err = docstore.Result{}, 0, w.store.explain("write", err)
		}
		close(c.done)
	}
}

// done is what a group of calls did.
type done struct {
	applied, refused int64 // calls of Write
	change           bool  // there is something to commit
	changed          []docstore.Key
}

// evaluate decides each call and writes what follows. An error means that SQLite failed and that the transaction is in
// no known state: SQLite undoes it by itself after some errors, and later statements would then stand alone.
func (w *writer) evaluate(calls []*call) (did done, err error) {
	for _, c := range calls {
		now := docstore.TruncateMilli(w.store.now())
		if c.prune > 0 {
			n, err := w.prune.change(now.UnixMilli(), int64(c.prune))
			if err != nil {
				return did, err
			}
			shrunk, err := w.conn.shrink()
			if err != nil {
				return did, err
			}
			c.pruned = int(n)
			did.change = did.change || n > 0 || shrunk
			continue
		}
		w.marks.started, w.ends, w.counters.now = false, w.ends[:0], now
		e, err := driver.EvaluateFrom(c.writes, now, &w.counters, w.get)
		if code(err) != 0 {
			return did, err
		}
		if err != nil {
			c.err = err
			did.change = did.change || w.marks.back // it stands in the file now
			continue
		}
		if c.result = e.Result(); !e.Applied {
			did.refused++
			continue
		}
		did.applied++
		did.change = true
		for i, after := range e.After {
			if err := w.replace(c.writes[i], after, w.ends[i], now); err != nil {
				return did, err
			}
			did.changed = append(did.changed, c.writes[i].Key)
			w.marks.grants(c.writes[i], after)
		}
		if err := w.reached(e.Reached); err != nil {
			return did, err
		}
	}
	return did, nil
}

// replace stores what a write made of its document, whose end is that in the file; 0 for none.
func (w *writer) replace(write docstore.Write, after docstore.Doc, end int64, now time.Time) error {
	k := write.Key
	if after == nil {
		return w.remove.exec(k.Kind, k.Tenant, k.ID)
	}
	w.text = appendDoc(w.text[:0], after)
	text := string(w.text)
	w.memo.keep(k, text, after)
	if next := endAfter(end, write.Keep, now); next != end {
		return w.putEnd.exec(k.Kind, k.Tenant, k.ID, text, next)
	}
	return w.put.exec(k.Kind, k.Tenant, k.ID, text)
}

// endAfter is the end of a document whose end was another, or 0 for none, after a write that says how long it is kept.
// An end that is moved by each write would change a page of the index with each: half of what a commit writes. So one
// that is moved goes a little farther than it must, and stays while it is not too near nor much too far. A document is
// never removed too early by that.
func endAfter(end int64, keep time.Duration, now time.Time) int64 {
	if keep == 0 {
		return end
	}
	next := now.Add(keep).UnixMilli()
	if end == 0 {
		return next
	}
	farther := (keep / endSteps).Milliseconds()
	if next <= end && end <= next+2*farther {
		return end
	}
	return next + farther
}

// endSteps is in how many steps the end of a document moves while it is kept: one that is kept for 30 days may stay 22
// hours longer.
const endSteps = 64

// separate undoes a transaction in which SQLite failed with cause, and gives each call a transaction of its own, so
// that one that meets a broken page or is too large for the disk does not affect the others.
func (w *writer) separate(calls []*call, cause error) {
	if err := w.abort(); err != nil {
		w.fail(calls, errors.Join(cause, err))
		return
	}
	if code(cause) == codes.SQLITE_FULL {
		w.makeRoom()
	}
	if len(calls) == 1 {
		w.fail(calls, cause)
		return
	}
	end := time.Now().Add(w.store.busy)
	for i := range calls {
		if err := w.lock(end); err != nil {
			w.fail(calls[i:i+1], err)
			continue
		}
		w.apply(calls[i : i+1])
	}
}

// failedCommit ends a transaction whose COMMIT failed with cause. Where the log could not grow, nothing of the
// transaction is in it; after other errors it may turn out to be.
func (w *writer) failedCommit(cause error) error {
	if err := w.abort(); err != nil {
		return errors.Join(cause, err)
	}
	if code(cause) == codes.SQLITE_FULL {
		w.makeRoom()
		return fmt.Errorf("%w: %w", docstore.ErrNotWritten, cause)
	}
	return cause
}

// makeRoom brings the log into the file after the disk was found full. The log then begins anew in the space that it
// has, and the next write fits, unless it is the file itself that must grow. That this fails is no news.
func (w *writer) makeRoom() {
	_ = w.conn.exec("PRAGMA wal_checkpoint(RESTART)")
}

// abort ends the transaction without a change. SQLite may have done so already.
func (w *writer) abort() error {
	if err := w.rollback.exec(); err != nil && code(err) != codes.SQLITE_ERROR {
		return err
	}
	return nil
}

// fail completes calls of which nothing was written.
func (w *writer) fail(calls []*call, err error) {
	err = w.store.explain("write", fmt.Errorf("%w: %w", docstore.ErrNotWritten, err))
	for _, c := range calls {
		c.result, c.err = docstore.Result{}, err
		c.mu.Unlock()
		close(c.done)
	}
}

// get reads one document inside the transaction, and notes its end.
func (w *writer) get(k docstore.Key) (doc docstore.Doc, err error) {
	var end int64
	err = w.read.each(func(row []sqldriver.Value) error {
		end, _ = row[1].(int64) // the column has no other type, or nothing
		text, isText := row[0].(string)
		var known bool
		if doc, known = w.memo.cached(k, text); known && isText {
			return nil
		}
		if doc, err = parseRow(k, row[0]); err == nil {
			w.memo.keep(k, text, doc)
		}
		return err
	}, k.Kind, k.Tenant, k.ID)
	w.ends = append(w.ends, end)
	return doc, err
}

const (
	readSQL    = "SELECT doc FROM docs WHERE kind = ? AND tenant = ? AND id = ?"
	readEndSQL = "SELECT doc, keep_until FROM docs WHERE kind = ? AND tenant = ? AND id = ?"
)

// readDoc returns the document of a key, nil if there is none.
func readDoc(read *stmt, k docstore.Key) (doc docstore.Doc, err error) {
	err = read.each(func(row []sqldriver.Value) error {
		doc, err = parseRow(k, row[0])
		return err
	}, k.Kind, k.Tenant, k.ID)
	return doc, err
}
