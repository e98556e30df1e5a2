package metrics

import (
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Damage counts what a process met of documents that cannot be read, in requests and beside them, since it was started.
// /readyz says it, also of a process without [Metrics]. Its zero value has met none; a nil *Damage counts nothing.
type Damage struct {
	mu   sync.Mutex
	last Met // its Count is of all
}

// Met is how many documents could not be read, and what met the last of them.
type Met struct {
	Count     int    // a document counts each time
	Operation string // as metrics name it
	At        time.Time
}

// Met counts documents that an operation could not read. Anyone may ask for the number, so that no document is named.
func (d *Damage) Met(operation string, n int) {
	if d == nil || n < 1 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = Met{d.last.Count + n, operation, time.Now()}
}

// Swept counts what a sweep passed by; err is its error, see [docstore.Failure].
func (d *Damage) Swept(what string, err error) {
	passed, _ := docstore.Failure(err)
	d.Met(sweepOf+what, passed.Count)
}

// Last is what there is to say of them; its Count is 0 if there were none.
func (d *Damage) Last() Met {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// What is swept, as operations and series have it.
const (
	OfAnalyses = "analyses"
	OfClusters = "clusters"
	OfAlarms   = "alarms"
	OfTallies  = "tallies"
	OfEnded    = "ended" // documents that are to be removed
)
