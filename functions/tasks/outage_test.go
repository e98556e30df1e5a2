package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// cut is a store that one worker does not reach for a while.
type cut struct {
	docstore.Store
	away atomic.Bool
}

func (c *cut) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if c.away.Load() {
		return docstore.Result{}, errors.New("no route to host")
	}
	return c.Store.Write(ctx, w...)
}

// hidden is a queue of one message, which workers do not see while it is hidden.
type hidden struct {
	mu      sync.Mutex
	until   time.Time
	deleted bool
}

func (q *hidden) receive(ttl time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || time.Now().Before(q.until) {
		return false
	}
	q.until = time.Now().Add(ttl)
	return true
}

func (q *hidden) hide(_ context.Context, d time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until = time.Now().Add(d)
	return nil
}

// TestOutageWhileStoring: a worker is cut off from the gate for 15 to 300 s, before its work, during it or when it is
// done; the other workers of the queue are not. It holds its message until the gate has what was done, and the work is
// done once.
func TestOutageWhileStoring(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		for _, away := range []time.Duration{15 * time.Second, 40 * time.Second, 90 * time.Second, 300 * time.Second} {
			for step, from := range map[string]time.Duration{"before": 0, "meanwhile": ttl / 3, "at the end": 2 * ttl / 3} {
				t.Run(fmt.Sprintf("%s, %v, ttl %v", step, away, ttl), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var paid int
						b := newBench(t, func(context.Context, once.Lock) (string, error) {
							time.Sleep(2 * ttl / 3)
							paid++
							return "paid", nil
						})
						b.put("a1", docstore.Doc{})
						b.TTL = ttl
						off := &cut{Store: b.store}
						first := &tasks.Worker{Gate: direct.Analyses(analysis.New(off, nil)), Work: b.Work, TTL: ttl, Log: b.Log}
						time.AfterFunc(from, func() { off.away.Store(true) })
						time.AfterFunc(from+away, func() { off.away.Store(false) })
						synctest.Wait()
						time.Sleep(time.Millisecond)
						var q hidden
						var all sync.WaitGroup
						for i, w := range []*tasks.Worker{first, &b.Worker} {
							all.Go(func() {
								time.Sleep(time.Duration(i) * time.Second) // the first one is the first
								for end := time.Now().Add(away + 3*ttl); time.Now().Before(end); time.Sleep(time.Second) {
									if !q.receive(ttl) {
										continue
									}
									r := w.Deliver(t.Context(), tasks.Message{ID: "m1", Body: []byte(`{"analysisId":"a1"}`), Extend: q.hide})
									q.mu.Lock()
									q.deleted = q.deleted || r.Done
									q.mu.Unlock()
								}
							})
						}
						all.Wait()
						if paid != 1 || b.doc()["status"] != docstore.String("READY") || !q.deleted {
							t.Errorf("%d payments; %v", paid, b.doc())
						}
					})
				})
			}
		}
	}
}

// TestSaysWhatIsNotStored: a worker that is stopped while the gate is away says what it could not store.
func TestSaysWhatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, succeeds)
		b.put("a1", docstore.Doc{})
		off := &cut{Store: b.store}
		b.Gate = direct.Analyses(analysis.New(off, nil))
		b.Work = func(context.Context, once.Lock) (string, error) { off.away.Store(true); return "paid", nil }
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		r := b.Deliver(ctx, tasks.Message{ID: "m1", Body: []byte(`{"analysisId":"a1"}`)})
		if r.Done || r.Outcome != once.NotStored || !errors.Is(r.Err, once.ErrNotStored) || !strings.Contains(b.log.String(), "the work is done and not stored") {
			t.Errorf("%+v; %s", r, b.log)
		}
	})
}
