package sqlitestore

import (
	sqldriver "database/sql/driver"
	"io"
)

// The floor is the highest number that a counter with a start has reached, or a little more, see
// [docstore.Write.StartFrom]. The file holds it, because the machine's clock may be set back while no process runs, and
// because the processes that share a file raise it together.
const (
	floorSQL    = "SELECT value FROM facts WHERE name = 'floor'"
	setFloorSQL = "INSERT INTO facts VALUES ('floor', ?) ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value"
)

// headroom is how far the floor is set above a counter that passes it: the next thousand grants of a lock write nothing
// beside the document. A counter that starts sets it without: many that start at once would otherwise run ahead of the
// clock.
const headroom = 1000

// marks are what the writer knows of the floor.
type marks struct {
	passed  int64 // what the file holds, at least
	pending int64 // what the transaction will have it hold, at least
	started bool  // the call being evaluated has started a counter
}

func (m *marks) begin() { m.pending = m.passed }

func (m *marks) committed() { m.passed = m.pending }

// start returns the floor for a counter that starts. Other processes raise it, too, so that it is read each time.
func (w *writer) start() (floor int64, err error) {
	w.marks.started = true
	err = w.floor.each(func(row []sqldriver.Value) error {
		floor, _ = row[0].(int64) // the column has no other type
		return io.EOF
	})
	return floor, err
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
	return w.setFloor.exec(number)
}
