package sqlitestore

import (
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The floor is the highest number that a counter with a start has reached, or a little more, see
// [docstore.Write.StartFrom]. The file holds it, because the machine's clock may be set back while no process runs, and
// because the processes that share a file raise it together. The file also holds what counters go on from since it was
// found to have come back older, see [docstore.BehindError].
const (
	floorFact  = "floor"
	leastFact  = "least"
	factsSQL   = "SELECT f.value, l.value FROM facts f LEFT JOIN facts l ON l.name = 'least' WHERE f.name = 'floor'"
	setFactSQL = "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value"
)

// headroom is how far the floor is set above a counter that passes it: the next thousand grants of a lock write nothing
// beside the document. A counter that starts sets it without: many that start at once would otherwise run ahead of the
// clock.
const headroom = 1000

// marks are what the writer knows of counters.
type marks struct {
	passed  int64 // what the file holds as the floor, at least
	pending int64 // what the transaction will have it hold, at least
	started bool  // the call being evaluated has started a counter

	read         bool // the transaction has read the facts:
	floor, least int64
	back         bool // it found that the file is older than it was

	granted numbers // what counters were when this process changed them last
	next    []grant // what the transaction adds to that
}

// grant is the highest counter of a document after a write, and which fields are its counters.
type grant struct {
	key    docstore.Key
	fields []string
	number int64 // 0 if it has none any more
}

func (m *marks) begin() { m.pending, m.read, m.back, m.next = m.passed, false, false, m.next[:0] }

// committed takes note of what the transaction has made.
func (m *marks) committed() {
	m.passed = m.pending
	for _, g := range m.next {
		m.granted.keep(g)
	}
}

// grants notes the counters of a document after a write, also one that sets or removes them.
func (m *marks) grants(w docstore.Write, after docstore.Doc) {
	fields := w.StartAtNow
	if len(fields) == 0 {
		if fields = m.of(w.Key).fields; len(fields) == 0 {
			return
		}
	}
	m.next = append(m.next, grant{w.Key, fields, docstore.Write{StartAtNow: fields}.Reached(after)})
}

// of is what is known of the counters of a document, with what the transaction makes of them.
func (m *marks) of(k docstore.Key) grant {
	for _, g := range slices.Backward(m.next) {
		if g.key == k {
			return g
		}
	}
	return m.granted.of(k)
}

// numbers remembers the highest counter of the documents that were written last, in two halves as a [memo] does.
type numbers struct{ latest, older map[docstore.Key]grant }

func (n *numbers) keep(g grant) {
	if n.latest == nil || len(n.latest) >= numbered {
		n.latest, n.older = make(map[docstore.Key]grant), n.latest
	}
	n.latest[g.key] = g
}

func (n *numbers) of(k docstore.Key) grant {
	if g, ok := n.latest[k]; ok {
		return g
	}
	return n.older[k]
}

// numbered bounds the documents in a half of [numbers].
const numbered = 4096

// errOlder is the warning of a process that has found that its file went back.
var errOlder = errors.New("the file is older than what this process has written: a copy was put back while it was open. " +
	"Tokens go on above all that were granted; what else was written since the copy is lost, and locks that were granted since " +
	"may be granted again")

// counters implements [driver.Counters] inside the transaction, at its time.
type counters struct {
	w   *writer
	now time.Time
}

// Floor implements [driver.Counters]. Other processes raise it, too, so that it is read in each transaction.
func (c *counters) Floor() (int64, error) {
	c.w.marks.started = true
	err := c.w.readFacts()
	return max(c.w.marks.floor, c.w.marks.pending), err
}

// Least implements [driver.Counters]. A file whose floor is below what this process has made it, or a counter below
// what this process has made that, is an older copy: then no counter goes on from what it is there.
func (c *counters) Least(write docstore.Write, found docstore.Doc) (int64, error) {
	w, m := c.w, &c.w.marks
	if err := w.readFacts(); err != nil {
		return 0, err
	}
	granted := m.of(write.Key).number
	number := write.Reached(found)
	if m.back || m.floor >= m.passed && (number == 0 || number >= granted || number < m.least) {
		return m.least, nil
	}
	m.back, m.least = true, max(m.least, m.pending, granted, c.now.UnixMicro())
	w.store.older.Store(true)
	m.pending = max(m.pending, m.least)
	return m.least, errors.Join(w.setFact.exec(leastFact, m.least), w.setFact.exec(floorFact, m.pending))
}

// readFacts reads the facts once in each transaction.
func (w *writer) readFacts() error {
	m := &w.marks
	if m.read {
		return nil
	}
	m.read, m.floor, m.least = true, 0, 0 // none has the latter alone
	return w.facts.each(func(row []sqldriver.Value) error {
		m.floor, _ = row[0].(int64) // the column has no other type, or nothing
		m.least, _ = row[1].(int64)
		return io.EOF
	})
}

// reached raises the floor to a number that a counter has reached, if it passes it.
func (w *writer) reached(number int64) error {
	if number <= w.marks.pending {
		return nil
	}
	if !w.marks.started {
		number += headroom
	}
	w.marks.pending = number
	return w.setFact.exec(floorFact, number)
}
