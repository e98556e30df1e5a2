package analysis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestTakeoverOfWhatHasFinished: a stale lock is not taken over if its document says READY by the time of the write.
func TestTakeoverOfWhatHasFinished(t *testing.T) {
	b := begin(t)
	b.gets(acquire("w1", "r1", 300), analysis.OK, false)
	b.clock.Advance(300 * time.Second)
	writes := 0
	b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if writes++; writes == 2 { // the first was refused, and the lock that it found is stale
			b.put(id, docstore.Doc{"status": docstore.String("READY")})
		}
		return apply()
	}
	b.gets(acquire("w2", "r2", 300), analysis.AlreadyFinished, false)
	if d := b.document(id); writes < 2 || d["status"] != docstore.String("READY") ||
		d["lockOwner"] != docstore.String("w1") {
		t.Errorf("after %d writes: %v", writes, d)
	}
}

// TestQueueFailsAfterAnotherSweep: a sweep whose queue fails late takes back its own mark, and not that of a sweep that
// came since.
func TestQueueFailsAfterAnotherSweep(t *testing.T) {
	b := begin(t)
	stale := numbered(1)
	b.stale(stale...)
	full := errors.New("the queue is full")
	q := &queue{before: func(analysis.ID) error {
		b.clock.Advance(analysis.DefaultRequeueEvery)
		b.sweeps(analysis.Sweep{Queue: &queue{}}, analysis.Swept{Stale: 1, Requeued: 1})
		return full
	}}
	if done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q}); done.Errors != 1 || !errors.Is(err, full) {
		t.Errorf("%+v, %v", done, err)
	}
	b.sweeps(analysis.Sweep{Queue: &queue{}}, analysis.Swept{Stale: 1, Skipped: 1})
}
