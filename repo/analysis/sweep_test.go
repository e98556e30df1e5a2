package analysis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// queue notes what is put into it. Names that come again are the same message.
type queue struct {
	mu       sync.Mutex
	names    map[string]bool
	messages map[analysis.ID]int
	before   func(id analysis.ID) error // comes before the message is taken; an error refuses it
}

func (q *queue) Enqueue(ctx context.Context, id analysis.ID, name string) error {
	if q.before != nil {
		if err := q.before(id); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names == nil {
		q.names, q.messages = map[string]bool{}, map[analysis.ID]int{}
	}
	if !q.names[name] {
		q.names[name] = true
		q.messages[id]++
	}
	return nil
}

// take empties the queue.
func (q *queue) take() map[analysis.ID]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	got := q.messages
	q.messages = map[analysis.ID]int{}
	return got
}

// sweeps does a sweep and compares what it counts.
func (b *bench) sweeps(c analysis.Sweep, want analysis.Swept) {
	b.t.Helper()
	got, err := b.analyses.Sweep(b.t.Context(), c)
	if err != nil || got != want {
		b.t.Fatalf("sweep: %+v, %v\nwant %+v", got, err, want)
	}
}

// once is what a queue holds that took each analysis once.
func once(ids ...analysis.ID) map[analysis.ID]int {
	m := map[analysis.ID]int{}
	for _, id := range ids {
		m[id] = 1
	}
	return m
}

func (b *bench) queued(q *queue, want map[analysis.ID]int) {
	b.t.Helper()
	if got := q.take(); !maps.Equal(got, want) {
		b.t.Fatalf("queued %v, want %v", got, want)
	}
}

// stale makes analyses whose worker has died: their locks of a second are over.
func (b *bench) stale(ids ...analysis.ID) {
	b.t.Helper()
	for _, id := range ids {
		b.put(id, docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(0)})
		o, err := b.analyses.Acquire(b.t.Context(), analysis.Acquire{ID: id, Owner: "dead", RequestID: "r0", TTLSeconds: 1})
		if err != nil || o.Code != analysis.OK {
			b.t.Fatalf("acquire %s: %+v, %v", id, o, err)
		}
	}
	b.clock.Advance(time.Second)
}

// numbered are n IDs.
func numbered(n int) []analysis.ID {
	ids := make([]analysis.ID, n)
	for i := range ids {
		ids[i] = analysis.ID(fmt.Sprintf("n%03d", i))
	}
	return ids
}

// TestSweep is one story: what is stale is queued once, again only after RequeueEvery, and not while a worker runs it.
func TestSweep(t *testing.T) {
	b := begin(t)
	q := &queue{}
	sweep := analysis.Sweep{Queue: q}
	b.sweeps(sweep, analysis.Swept{}) // nothing has run

	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.clock.Advance(300*time.Second - time.Millisecond)
	b.sweeps(sweep, analysis.Swept{}) // a worker runs it
	b.clock.Advance(time.Millisecond)
	b.store.Forget()
	b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1})
	if got := b.store.Requests(); !slices.Equal(got, []string{"Get", "Due", "Write"}) {
		t.Errorf("the store saw %v", got)
	}
	b.queued(q, once(id))

	b.clock.Advance(analysis.DefaultRequeueEvery - time.Millisecond)
	b.store.Forget()
	b.sweeps(sweep, analysis.Swept{Stale: 1, Skipped: 1}) // it was queued; the worker has not come yet
	if got := b.store.Requests(); !slices.Equal(got, []string{"Get", "Due"}) {
		t.Errorf("the store saw %v", got)
	}
	b.queued(q, nil)
	b.clock.Advance(time.Millisecond)
	b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))

	o := b.gets(acquire("bob", "r2", 300), analysis.OK, false)
	if o.Grant.Runs != 2 || b.document(id)["lockRequeuedAt"] != nil || b.document(id)["lockRequeueId"] != nil {
		t.Errorf("the takeover is %+v of %v", o, b.document(id))
	}
	b.sweeps(sweep, analysis.Swept{})
	b.clock.Advance(300 * time.Second)
	b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1}) // the next worker died, too
	b.queued(q, once(id))
	b.gets(ready("bob", o.Grant.Token, ""), analysis.OK, false) // it had not
	b.sweeps(sweep, analysis.Swept{})
	b.queued(q, nil)
}

// TestSweepGivesUp: after so many takeovers an analysis is FAILED, with a reason, and its last worker is told.
func TestSweepGivesUp(t *testing.T) {
	for _, most := range []int64{1, 3, 0} {
		t.Run(fmt.Sprint("after ", most), func(t *testing.T) {
			b := begin(t)
			q := &queue{}
			sweep := analysis.Sweep{Queue: q, MaxTakeovers: most}
			if most == 0 {
				most = analysis.DefaultMaxTakeovers
			}
			for run := range most + 1 { // the first is no takeover
				o := b.gets(acquire("ann", fmt.Sprint("r", run), 1), analysis.OK, false)
				if o.Grant.Runs != run+1 {
					t.Fatalf("run %d is counted as %d", run, o.Grant.Runs)
				}
				b.clock.Advance(time.Second)
				if run < most {
					b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1})
					b.queued(q, once(id))
				}
			}
			b.sweeps(sweep, analysis.Swept{Stale: 1, Failed: 1})
			b.queued(q, nil)
			want := docstore.Doc{
				"status": docstore.String("FAILED"), "title": docstore.String("mine"), "lockToken": docstore.Int(most + 2),
				"failureReason": docstore.String(
					fmt.Sprintf("given up after %d takeovers: its workers died, or lost their locks, again and again", most)),
				"lockFinishedAt": docstore.FormatTime(b.clock.Now()),
			}
			if got := b.userView(); !got.Equal(want) {
				t.Errorf("the document is %v\nwant %v", got, want)
			}
			b.gets(ready("ann", most+1, "late"), analysis.Lost, false)
			b.gets(acquire("bob", "r9", 1), analysis.AlreadyFinished, false)
			b.sweeps(sweep, analysis.Swept{})
		})
	}
	t.Run("a run that ends by itself begins the count anew", func(t *testing.T) {
		b := begin(t)
		for run := range 4 {
			b.gets(acquire("ann", fmt.Sprint("r", run), 1), analysis.OK, false)
			b.clock.Advance(time.Second)
		}
		b.gets(release("ann", 4, "no disk"), analysis.OK, false)
		if o := b.gets(acquire("ann", "r5", 1), analysis.OK, false); o.Grant.Runs != 1 || o.Grant.Failures != 1 {
			t.Errorf("got %+v", o)
		}
		b.clock.Advance(time.Second)
		b.sweeps(analysis.Sweep{Queue: &queue{}, MaxTakeovers: 1}, analysis.Swept{Stale: 1, Requeued: 1})
	})
}

// TestSweepPages: pages of every size, with and without an index, see each stale analysis once, and Most ends it.
func TestSweepPages(t *testing.T) {
	ids := numbered(10)
	for _, indexed := range []bool{true, false} {
		for size := 1; size <= len(ids)+1; size++ {
			b := begin(t)
			if !indexed {
				b.analyses = analysis.New(struct{ docstore.Store }{b.store}, nil)
			}
			b.stale(ids...)
			b.put("running", docstore.Doc{"lockOwner": docstore.String("ann"),
				"lockExpiresAt": docstore.FormatTime(b.clock.Now().Add(time.Millisecond))})
			b.put("finished", docstore.Doc{"status": docstore.String("READY"), "lockOwner": docstore.String("ann"),
				"lockExpiresAt": docstore.FormatTime(at(0))})
			b.put("no owner", docstore.Doc{"lockExpiresAt": docstore.FormatTime(at(0))})
			b.put("null", docstore.Doc{"lockOwner": docstore.String("ann"), "lockExpiresAt": docstore.Bool(false)})
			q := &queue{}
			b.store.Forget()
			b.sweeps(analysis.Sweep{Queue: q, PageSize: size}, analysis.Swept{Stale: 10, Requeued: 10})
			b.queued(q, once(ids...))
			if pages := (12 + size - 1) / size; indexed { // ten, and two that are due for the index only
				want := map[string]int{"Get": 1, "Due": pages, "Write": 10}
				got := map[string]int{}
				for _, r := range b.store.Requests() {
					got[r]++
				}
				if !maps.Equal(got, want) {
					t.Errorf("pages of %d: the store saw %v, want %v", size, got, want)
				}
			}
		}
	}
	for most := 1; most <= 11; most++ {
		b := begin(t)
		b.stale(ids...)
		q := &queue{}
		n := min(most, len(ids))
		b.sweeps(analysis.Sweep{Queue: q, PageSize: 3, Most: most},
			analysis.Swept{Stale: n, Requeued: n, More: most < len(ids)})
		b.queued(q, once(ids[:n]...))
	}
}

// TestTwoSweepsAtOnce: each analysis is queued once and failed once, and all are counted.
func TestTwoSweepsAtOnce(t *testing.T) {
	b := begin(t)
	ids := numbered(60)
	b.stale(ids...)
	for run := range 2 {
		for _, id := range ids[:20] {
			if _, err := b.analyses.Acquire(t.Context(), analysis.Acquire{ID: id, Owner: "dead",
				RequestID: fmt.Sprint("r", run+1), TTLSeconds: 1}); err != nil {
				t.Fatal(err)
			}
		}
		b.clock.Advance(time.Second)
	}
	q := &queue{}
	const sweepers = 4
	all := make(chan analysis.Swept, sweepers)
	var sweepersDone sync.WaitGroup
	for range sweepers {
		sweepersDone.Go(func() {
			done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q, PageSize: 7, MaxTakeovers: 2})
			if err != nil {
				t.Error(err)
			}
			all <- done
		})
	}
	sweepersDone.Wait()
	close(all)
	var sum analysis.Swept
	for s := range all {
		if s.Stale != s.Requeued+s.Failed+s.Skipped || s.Errors != 0 || s.More {
			t.Errorf("counts do not add up: %+v", s)
		}
		sum.Requeued += s.Requeued
		sum.Failed += s.Failed
	}
	if sum.Requeued != 40 || sum.Failed != 20 {
		t.Errorf("all sweeps together: %+v, want 40 requeued and 20 failed", sum)
	}
	b.queued(q, once(ids[20:]...))
	for _, id := range ids[:20] {
		if d := b.document(id); d["status"] != docstore.Value(docstore.String("FAILED")) ||
			d["lockToken"] != docstore.Value(docstore.Int(4)) {
			t.Errorf("%s is %v", id, d)
		}
	}
}

// TestQueueFails: the mark is taken back, so that the next sweep queues the analysis again; the others are queued now.
func TestQueueFails(t *testing.T) {
	b := begin(t)
	ids := numbered(3)
	b.stale(ids...)
	full := errors.New("the queue is full")
	q := &queue{before: func(id analysis.ID) error {
		if id == ids[1] {
			return full
		}
		return nil
	}}
	before := b.document(ids[1])
	done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q})
	if want := (analysis.Swept{Stale: 3, Requeued: 2, Errors: 1}); done != want || !errors.Is(err, full) ||
		!strings.Contains(err.Error(), "analysis n001: queue it again") {
		t.Errorf("got %+v, %v; want %+v", done, err, want)
	}
	if got := b.document(ids[1]); !got.Equal(before) {
		t.Errorf("the document was %v and is %v", before, got)
	}
	b.queued(q, once(ids[0], ids[2]))
	q.before = nil
	b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 3, Requeued: 1, Skipped: 2})
	b.queued(q, once(ids[1]))

	t.Run("and so does the taking back", func(t *testing.T) {
		b := begin(t)
		b.stale(id)
		writes := 0
		b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
			if writes++; writes == 2 {
				return docstore.Result{}, docstore.ErrUnavailable
			}
			return apply()
		}
		q := &queue{before: func(analysis.ID) error { return full }}
		done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q})
		if want := (analysis.Swept{Stale: 1, Errors: 1}); done != want || !errors.Is(err, full) ||
			!errors.Is(err, docstore.ErrUnavailable) {
			t.Errorf("got %+v, %v", done, err)
		}
		q.before = nil
		b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 1, Skipped: 1})
		b.clock.Advance(analysis.DefaultRequeueEvery) // the mark wears off
		b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 1, Requeued: 1})
		b.queued(q, once(id))
	})
	t.Run("many in few words", func(t *testing.T) {
		b := begin(t)
		b.stale(numbered(50)...)
		q := &queue{before: func(analysis.ID) error { return full }}
		done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q})
		if want := (analysis.Swept{Stale: 50, Errors: 50}); done != want ||
			strings.Count(err.Error(), "queue it again") != 20 {
			t.Errorf("got %+v, %v", done, err)
		}
	})
}

// TestSweepDies between its mark and the queue: a later sweep makes it good.
func TestSweepDies(t *testing.T) {
	b := begin(t)
	b.stale(id)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not die")
			}
		}()
		_, _ = b.analyses.Sweep(t.Context(),
			analysis.Sweep{Queue: &queue{before: func(analysis.ID) error { panic("kill -9") }}})
	}()
	q := &queue{}
	every := analysis.Sweep{Queue: q, RequeueEvery: time.Minute}
	b.clock.Advance(time.Minute - time.Millisecond)
	b.sweeps(every, analysis.Swept{Stale: 1, Skipped: 1})
	b.clock.Advance(time.Millisecond)
	b.sweeps(every, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))
}

// TestMarkWhoseResponseIsLost: the store's library sends the mark again, and the sweep knows it for its own.
func TestMarkWhoseResponseIsLost(t *testing.T) {
	b := begin(t)
	b.stale(id)
	b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
		if _, err := apply(); err != nil {
			t.Error(err)
		}
		return apply()
	}
	q := &queue{}
	b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))
}

// TestWorkerComesFirst: what changes between the sweep's look and its write is left alone.
func TestWorkerComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		takeovers int64
		first     func(b *bench)
	}{
		"takes it over":               {0, func(b *bench) { b.gets(acquire("bob", "r2", 300), analysis.OK, false) }},
		"takes it over before FAILED": {1, func(b *bench) { b.gets(acquire("bob", "r2", 300), analysis.OK, false) }},
		"takes it over, and dies as well": {0, func(b *bench) {
			b.gets(acquire("bob", "r2", 1), analysis.OK, false)
			b.clock.Advance(time.Second)
		}},
		"finishes it":               {0, func(b *bench) { b.gets(ready("dead", 1, ""), analysis.OK, false) }},
		"finishes it before FAILED": {1, func(b *bench) { b.gets(ready("dead", 1, ""), analysis.OK, false) }},
		"releases it":               {0, func(b *bench) { b.gets(release("dead", 1, ""), analysis.OK, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.stale(id)
			if c.takeovers > 0 {
				b.put(id, docstore.Doc{"lockRuns": docstore.Int(c.takeovers + 1)})
			}
			var after docstore.Doc
			b.store.OnWrite = func(apply func() (docstore.Result, error)) (docstore.Result, error) {
				if b.store.OnWrite = nil; after == nil {
					c.first(b)
					after = b.document(id)
				}
				return apply()
			}
			q := &queue{}
			b.sweeps(analysis.Sweep{Queue: q, MaxTakeovers: max(c.takeovers, 0)}, analysis.Swept{Stale: 1, Skipped: 1})
			b.queued(q, nil)
			if got := b.document(id); !got.Equal(after) {
				t.Errorf("the document was %v and is %v", after, got)
			}
		})
	}
}

// TestSweepPassesDamage: documents that cannot be read, and names that no command takes, are reported and passed by.
func TestSweepPassesDamage(t *testing.T) {
	b := begin(t)
	ids := numbered(5)
	b.stale(ids...)
	b.put(ids[0], docstore.Doc{"status": docstore.Int(1)})
	b.put(ids[2], docstore.Doc{"lockToken": docstore.String("2")})
	b.put(ids[3], docstore.Doc{"lockRuns": docstore.Bool(true)})
	tooLong := analysis.ID(strings.Repeat("x", analysis.MaxIDBytes+1))
	b.put(tooLong, docstore.Doc{"lockOwner": docstore.String("x"), "lockExpiresAt": docstore.FormatTime(at(0))})
	q := &queue{}
	done, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q, PageSize: 2})
	if want := (analysis.Swept{Stale: 6, Requeued: 2, Errors: 4, Damaged: 4}); done != want {
		t.Errorf("got %+v, want %+v", done, want)
	}
	if passed, failed := docstore.Failure(err); failed != nil || passed.Count != 4 {
		t.Errorf("the error is %v", err)
	}
	for _, id := range []analysis.ID{ids[0], ids[2], ids[3], tooLong} {
		if !strings.Contains(err.Error(), "analysis "+string(id)) {
			t.Errorf("%s is not in %v", id, err)
		}
		if b.document(id)["lockRequeuedAt"] != nil {
			t.Errorf("%s was marked", id)
		}
	}
	b.queued(q, once(ids[1], ids[4]))
}

// elsewhere is a store with something else in the place of a document.
type elsewhere struct {
	docstore.Store

	key docstore.Key
}

func (s elsewhere) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if slices.Contains(keys, s.key) {
		return docstore.Snapshot{}, fmt.Errorf("%w: %s", docstore.ErrDamaged, s.key)
	}
	return s.Store.Get(ctx, keys...)
}

func (s elsewhere) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if slices.ContainsFunc(writes, func(w docstore.Write) bool { return w.Key == s.key }) {
		return docstore.Result{}, fmt.Errorf("%w: %s", docstore.ErrDamaged, s.key)
	}
	return s.Store.Write(ctx, writes...)
}

// TestSweepWithoutItsPlace: what is in the place of where the next sweep begins is no document. Analyses are queued all
// the same.
func TestSweepWithoutItsPlace(t *testing.T) {
	b := begin(t)
	ids := numbered(5)
	b.stale(ids...)
	q := &queue{}
	store := elsewhere{b.store, docstore.Key{Kind: "analysis_sweeps", ID: "next"}}
	for _, want := range []analysis.Swept{{Stale: 3, Requeued: 3, More: true}, {Stale: 5, Requeued: 2, Skipped: 3}} {
		done, err := analysis.New(store, nil).Sweep(t.Context(), analysis.Sweep{Queue: q, Most: 3, PageSize: 2})
		if passed, failed := docstore.Failure(err); done != want || failed != nil || passed.Count != 1 ||
			!strings.Contains(err.Error(), "analysis_sweeps") {
			t.Errorf("%+v, %v", done, err)
		}
	}
	b.queued(q, once(ids...))
}

// TestSweepOfLocksFromElsewhere: a lock without a token, taken by code that knows the requirement's fields only.
func TestSweepOfLocksFromElsewhere(t *testing.T) {
	b := begin(t)
	b.put(id, docstore.Doc{"lockOwner": docstore.String("worker.ts"), "lockExpiresAt": docstore.FormatTime(at(0))})
	q := &queue{}
	b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))
	if o := b.gets(acquire("ann", "r1", 300), analysis.OK, false); o.Grant.Token != 1 || o.Grant.Runs != 1 {
		t.Errorf("got %+v", o)
	}
}

// TestSweepOfForeignTimes: what another writer put into lockExpiresAt is queued again only if it has certainly passed.
// The sweep looks among the texts that sort before the present, as the gate writes it, and judges those by what they
// mean.
func TestSweepOfForeignTimes(t *testing.T) {
	const day = 24 * time.Hour
	requeued, skipped, failed, unclear, unseen := analysis.Swept{Stale: 1, Requeued: 1},
		analysis.Swept{Stale: 1, Skipped: 1},
		analysis.Swept{Stale: 1, Failed: 1}, analysis.Swept{Stale: 1, Errors: 1, Damaged: 1}, analysis.Swept{}
	for _, c := range []struct {
		expiry docstore.Value
		after  time.Duration // from 2026-01-01T00:00:00Z on
		want   analysis.Swept
	}{
		{docstore.String("2025-12-31T23:59:59+00:00"), 0, requeued},
		{docstore.String("2025-12-31T18:59:59-05:00"), 0, requeued},
		{docstore.String("2025-12-31T23:59:59,5Z"), 0, requeued},
		{docstore.String("20251231T235959Z"), 0, requeued},
		{docstore.String("2025-12-31T12:00"), 0, requeued}, // passed at every place
		// They sort before the present, and have not passed, or not at every place.
		{docstore.String("2025-12-31T19:30:00-05:00"), 0, skipped},
		{docstore.String("2025-12-31T19:30:00-05:00"), 30*time.Minute - time.Millisecond, skipped},
		{docstore.String("2025-12-31T19:30:00-05:00"), 30 * time.Minute, requeued},
		{docstore.String("2025-12-31T12:00:00.001"), 0, skipped},
		{docstore.String("2025-12-31"), 0, skipped},
		{docstore.String("2025-12-31"), 12 * time.Hour, requeued},
		{docstore.String(""), day, skipped}, // the next acquire takes it; no time, so no sweep judges it
		// They sort after the present, and have passed: later sweeps find them, or none does.
		{docstore.String("2026-01-01T08:59:59.999+09:00"), 0, unseen},
		{docstore.String("2026-01-01T08:59:59.999+09:00"), 9 * time.Hour, requeued},
		{docstore.String("2026-01-01T00:00Z"), 0, unseen},
		{docstore.String("2026-01-01T00:00Z"), time.Minute, requeued},
		{docstore.String("20260101T000000Z"), 364 * day, unseen},
		{docstore.String("20260101T000000Z"), 365 * day, requeued},
		{docstore.String("+010000-01-01T00:00:00.000Z"), 0, skipped},
		// What is no time is reported as soon as it sorts before the present, and never queued.
		{docstore.String("1999"), 0, unclear},
		{docstore.String("1767225600"), 0, unclear},
		{docstore.String("2026-02-30T00:00:00.000Z"), 0, unseen},
		{docstore.String("2026-02-30T00:00:00.000Z"), 365 * day, unclear},
		{docstore.String("soon"), 365 * day, unseen},
		{docstore.Int(1767225600000), 365 * day, unseen},
		{docstore.Bool(false), 365 * day, unseen},
		{docstore.Map{"seconds": "1767225600"}, 365 * day, unseen},
	} {
		t.Run(fmt.Sprintf("%v after %v", c.expiry, c.after), func(t *testing.T) {
			b := begin(t)
			b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": c.expiry})
			b.clock.Advance(c.after)
			before := b.document(id)
			q := &queue{}
			got, err := b.analyses.Sweep(t.Context(), analysis.Sweep{Queue: q})
			if got != c.want || (err != nil) != (c.want.Errors > 0) || err != nil && !strings.Contains(
				err.Error(), "LOCK_UNREADABLE: lockExpiresAt is ") {
				t.Fatalf("sweep: %+v, %v\nwant %+v", got, err, c.want)
			}
			if c.want.Requeued == 1 {
				b.queued(q, once(id))
				return
			}
			b.queued(q, nil)
			if after := b.document(id); !after.Equal(before) {
				t.Errorf("changed the document to %v", after)
			}
		})
	}
	for name, c := range map[string]struct {
		expiry docstore.String
		want   analysis.Swept
	}{
		"given up":     {"2025-12-31T23:59:59+00:00", failed},
		"not given up": {"2025-12-31T19:30:00-05:00", skipped},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			b.put(id, docstore.Doc{"lockOwner": docstore.String("other"), "lockExpiresAt": c.expiry,
				"lockRuns": docstore.Int(analysis.DefaultMaxTakeovers + 1)})
			b.sweeps(analysis.Sweep{Queue: &queue{}}, c.want)
		})
	}
}

func TestSweepGrace(t *testing.T) {
	b := begin(t)
	b.stale(id)
	q := &queue{}
	grace := analysis.Sweep{Queue: q, Grace: time.Minute}
	b.clock.Advance(time.Minute - time.Millisecond)
	b.sweeps(grace, analysis.Swept{})
	b.clock.Advance(time.Millisecond)
	b.sweeps(grace, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))
}

// TestSweepIsCanceled midway: what was done is counted, the mark of the one that was not queued is taken back, and the
// rest is left to the next sweep.
func TestSweepIsCanceled(t *testing.T) {
	b := begin(t)
	ids := numbered(9)
	b.stale(ids...)
	ctx, cancel := context.WithCancel(t.Context())
	q := &queue{before: func(id analysis.ID) error {
		if id == ids[4] {
			cancel()
		}
		return nil
	}}
	done, err := b.analyses.Sweep(ctx, analysis.Sweep{Queue: q, PageSize: 2})
	if want := (analysis.Swept{Stale: 5, Requeued: 4, More: true}); done != want || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v; want %+v", done, err, want)
	}
	b.queued(q, once(ids[:4]...))
	q.before = nil
	b.sweeps(analysis.Sweep{Queue: q, PageSize: 2}, analysis.Swept{Stale: 5, Requeued: 5})
	b.queued(q, once(ids[4:]...))

	before := b.store
	before.Forget()
	if done, err := b.analyses.Sweep(ctx, analysis.Sweep{Queue: q}); done != (analysis.Swept{}) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("canceled from the start: %+v, %v", done, err)
	}
}

// TestSweepOfAnOldIndex: an index that is behind shows locks that are no longer stale.
func TestSweepOfAnOldIndex(t *testing.T) {
	b := begin(t)
	b.stale(numbered(2)...)
	old, err := b.memory.Due(t.Context(), docstore.DueQuery{Kind: analysis.Kind, Field: analysis.ExpiryField,
		UpTo: b.clock.Now()})
	if err != nil || len(old.Entries) != 2 {
		t.Fatal(old, err)
	}
	o, err := b.analyses.Acquire(t.Context(), analysis.Acquire{ID: "n000", Owner: "bob", RequestID: "r1", TTLSeconds: 60})
	if err != nil || o.Code != analysis.OK {
		t.Fatal(o, err)
	}
	b.analyses = analysis.New(frozen{b.store, old}, nil)
	q := &queue{}
	b.sweeps(analysis.Sweep{Queue: q}, analysis.Swept{Stale: 2, Requeued: 1, Skipped: 1})
	b.queued(q, once("n001"))
}

// frozen is a store whose index shows the past.
type frozen struct {
	*suite.Watched
	past docstore.Page
}

func (f frozen) Due(context.Context, docstore.DueQuery) (docstore.Page, error) { return f.past, nil }

func TestSweepSettings(t *testing.T) {
	b := begin(t)
	b.store.Forget()
	q := &queue{}
	for want, c := range map[string]analysis.Sweep{
		"queue":        {},
		"maxTakeovers": {Queue: q, MaxTakeovers: -1},
		"requeueEvery": {Queue: q, RequeueEvery: time.Microsecond},
		"grace":        {Queue: q, Grace: -1},
		"pageSize":     {Queue: q, PageSize: docstore.MaxLimit + 1},
		"most":         {Queue: q, Most: -1},
	} {
		done, err := b.analyses.Sweep(t.Context(), c)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != want || done != (analysis.Swept{}) {
			t.Errorf("%+v: %+v, %v", c, done, err)
		}
	}
	for _, c := range []analysis.Sweep{
		{Queue: q, RequeueEvery: -time.Second}, {Queue: q, RequeueEvery: 367 * 24 * time.Hour},
		{Queue: q, Grace: 367 * 24 * time.Hour}, {Queue: q, PageSize: -1},
	} {
		if _, err := b.analyses.Sweep(t.Context(), c); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
	if got := b.store.Requests(); len(got) != 0 {
		t.Errorf("the store saw %v", got)
	}
}
