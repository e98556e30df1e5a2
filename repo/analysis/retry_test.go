package analysis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestRetry is one story: a FAILED analysis is retried, counts from 0 again, is queued by the sweep, and runs under a
// higher token.
func TestRetry(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.gets(release("ann", 1, "no disk"), analysis.OK, false)
	b.gets(acquire("ann", "r2", 300), analysis.OK, false)
	b.gets(failed("ann", 2, "no disk"), analysis.OK, false)
	b.clock.Advance(time.Hour)

	b.store.Forget()
	o := b.gets(retry("root", "t1", "the disk is larger"), analysis.OK, false)
	if got := b.store.Requests(); !slices.Equal(got, []string{"Write"}) {
		t.Errorf("the store saw %v", got)
	}
	now := docstore.FormatTime(b.clock.Now())
	by := analysis.Retried{At: string(now), By: "root", Reason: "the disk is larger"}
	if o.Retried != by || o.Grant.Status != analysis.Pending || o.Grant.Failures != 0 || o.Grant.Token != 3 ||
		o.Grant.Owner != "" {
		t.Errorf("got %+v", o)
	}
	want := docstore.Doc{
		"status": docstore.String("PENDING"), "title": docstore.String("mine"), "lockToken": docstore.Int(3),
		"failureReason": docstore.String("no disk"),
		"lockExpiresAt": now, "lockRetriedAt": now, "lockRetriedBy": docstore.String("root"),
		"lockRetryReason": docstore.String("the disk is larger"),
	}
	got := b.userView()
	delete(got, "lockRetry1")
	for _, empty := range []string{"lockRetry2", "lockRetry3", "lockRetry4"} {
		if got[empty] != docstore.Value(docstore.String("")) {
			t.Errorf("%s is %v", empty, got[empty])
		}
		delete(got, empty)
	}
	if !got.Equal(want) {
		t.Errorf("the document is %v\nwant %v", got, want)
	}
	if s, at, err := b.analyses.Get(t.Context(), id); err != nil || s.Locked(at) || s.Retried != by {
		t.Errorf("Get: %+v, %v", s, err)
	}

	// It is due until a worker has begun it: a message that is lost is made good.
	q := &queue{}
	sweep := analysis.Sweep{Queue: q}
	b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1})
	b.sweeps(sweep, analysis.Swept{Stale: 1, Skipped: 1})
	b.queued(q, once(id))
	b.clock.Advance(analysis.DefaultRequeueEvery)
	b.sweeps(sweep, analysis.Swept{Stale: 1, Requeued: 1})
	b.queued(q, once(id))

	// What the failed run sends late is refused.
	b.gets(failed("ann", 2, "no disk"), analysis.Lost, false)
	b.gets(ready("ann", 2, "late"), analysis.Lost, false)

	b.store.Forget()
	try := acquire("bob", "r3", 300)
	try.MaxFailures = 1
	if o := b.gets(try, analysis.OK, false); o.Grant.Token != 4 || o.Grant.Runs != 1 || o.Grant.Failures != 0 {
		t.Errorf("the run is %+v", o)
	}
	if got := b.store.Requests(); !slices.Equal(got, []string{"Write"}) {
		t.Errorf("a retried analysis is no takeover: the store saw %v", got)
	}
	b.sweeps(sweep, analysis.Swept{})
	b.gets(release("bob", 4, ""), analysis.OK, false)
	b.sweeps(sweep, analysis.Swept{})
}

// TestRetryIsRemembered: a request that arrives again has no second effect, also after the analysis failed again.
func TestRetryIsRemembered(t *testing.T) {
	b := begin(t)
	runs := 0
	fail := func(after int) {
		t.Helper()
		for i := range after {
			runs++
			token := b.gets(acquire("ann", fmt.Sprint("r", runs), 300), analysis.OK, false).Grant.Token
			if i < after-1 {
				b.gets(release("ann", token, "no disk"), analysis.OK, false)
			} else {
				b.gets(failed("ann", token, "no disk"), analysis.OK, false)
			}
		}
	}
	fail(1)
	b.gets(retry("root", "t1", "again"), analysis.OK, false)
	for range 2 { // waiting, and FAILED again after more runs than acquires are remembered
		before := b.document(id)
		if o := b.gets(retry("root", "t1", "again"), analysis.OK, true); o.Retried.By != "root" {
			t.Errorf("got %+v", o)
		}
		b.gets(retry("root", "t1", "for another reason"), analysis.RequestIDReused, false)
		if after := b.document(id); !after.Equal(before) {
			t.Errorf("the document was %v and is %v", before, after)
		}
		if before["status"] != docstore.Value(docstore.String("FAILED")) {
			fail(7)
		}
	}
	b.gets(retry("eve", "t1", "again"), analysis.OK, false) // another administrator's request of that name
	for i := range analysis.RememberedRequests - 2 {
		fail(1)
		b.gets(retry("root", fmt.Sprint("later", i), "again"), analysis.OK, false)
	}
	fail(1)
	if o := b.gets(retry("root", "t1", "again"), analysis.OK, true); o.Grant.Status != analysis.Failed ||
		o.Retried.At == "" {
		t.Errorf("the fourth of the last retries: %+v", o)
	}
}

// TestRetryOfOneFailure: a retry that names when the analysis failed is for that failure alone, however late it
// arrives.
func TestRetryOfOneFailure(t *testing.T) {
	b := begin(t)
	named := func(request string, at time.Time) analysis.Retry {
		c := retry("root", request, "again")
		c.FinishedAt = at
		return c
	}
	fail := func(request string) time.Time {
		t.Helper()
		b.clock.Advance(time.Second)
		token := b.gets(acquire("ann", request, 300), analysis.OK, false).Grant.Token
		b.gets(failed("ann", token, "no disk"), analysis.OK, false)
		return b.clock.Now()
	}
	first := fail("r1")
	b.gets(named("t1", first), analysis.OK, false)
	b.gets(named("t1", first), analysis.OK, true)
	second := fail("r2")
	b.gets(named("t1", first), analysis.OK, true)
	before := b.document(id)
	o := b.gets(named("t2", first), analysis.Changed, false)
	if o.Grant != (analysis.Grant{Status: analysis.Failed}) || !b.document(id).Equal(before) {
		t.Errorf("got %+v", o)
	}
	b.gets(named("t2", second), analysis.OK, false)
	for i := range analysis.RememberedRequests {
		b.gets(named(fmt.Sprint("later", i), fail(fmt.Sprint("r", i+3))), analysis.OK, false)
	}
	fail("r9")
	b.gets(named("t1", first), analysis.Changed, false) // no longer remembered, and of another failure
	b.gets(retry("root", "t1", "again"), analysis.OK, false)
}

// TestNothingToRetry: what is not FAILED is refused by a code, and nothing is changed.
func TestNothingToRetry(t *testing.T) {
	b := begin(t)
	refused := func(detail string, status analysis.Status) {
		t.Helper()
		before := b.document(id)
		o := b.gets(retry("root", "t1", "again"), analysis.NotFailed, false)
		if o.Detail != detail || o.Grant != (analysis.Grant{Status: status}) || o.Retried != (analysis.Retried{}) {
			t.Errorf("got %+v", o)
		}
		if after := b.document(id); !after.Equal(before) {
			t.Errorf("the document was %v and is %v", before, after)
		}
	}
	refused("the analysis is not FAILED: it waits to run", "PENDING")
	b.gets(acquire("ann", "r1", 1), analysis.OK, false)
	const running = "the analysis is not FAILED: a worker runs it, or did until its lock expired"
	refused(running, "PENDING")
	b.clock.Advance(time.Second)
	refused(running, "PENDING")
	b.gets(ready("ann", 1, ""), analysis.OK, false)
	refused("the analysis is READY: it has succeeded, and does not run again", "READY")
	missing := retry("root", "t1", "again")
	missing.ID = "none"
	b.gets(missing, analysis.NotFound, false)
	if d := b.document("none"); d != nil {
		t.Errorf("a retry made the document %v", d)
	}
}

// TestRetryTakesTheLock: FAILED was written by another writer, and a worker that does not know it yet is fenced off.
func TestRetryTakesTheLock(t *testing.T) {
	b := begin(t)
	b.gets(acquire("ann", "r1", 300), analysis.OK, false)
	b.put(id, docstore.Doc{"status": docstore.String("FAILED")})
	b.gets(retry("root", "t1", "the wrong one was stopped"), analysis.OK, false)
	for _, c := range []any{refresh("ann", 1, 300), release("ann", 1, ""), ready("ann", 1, "")} {
		b.gets(c, analysis.Lost, false)
	}
	b.gets(acquire("bob", "r2", 300), analysis.OK, false)
}
