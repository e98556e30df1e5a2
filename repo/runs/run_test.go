package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// bench is a store in memory whose clock the test moves, and which counts its requests.
type bench struct {
	docstore.Store
	runs     *runs.Runs
	at       time.Time
	requests int
	kept     time.Duration // of the last write
	between  func()        // carried out after the next write
}

func (b *bench) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	b.requests++
	b.kept = writes[0].Keep
	r, err := b.Store.Write(ctx, writes...)
	if do := b.between; do != nil {
		b.between = nil
		do()
	}
	return r, err
}

func open() *bench {
	b := &bench{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	now := func() time.Time { return b.at }
	b.Store = docstore.NewMemory(&docstore.MemoryOptions{Now: now})
	b.runs = runs.New(b, &runs.Options{Options: analysis.Options{Now: now, MaxTakeovers: 2}})
	return b
}

var order = runs.ID{Tenant: "shop", ID: "order-7"}

func (b *bench) begin(t *testing.T, owner, request string, change ...func(*runs.Begin)) runs.Outcome {
	t.Helper()
	c := runs.Begin{ID: order, Owner: owner, RequestID: request, TTLSeconds: 10, Fingerprint: "f1", KeepSeconds: 3600}
	for _, f := range change {
		f(&c)
	}
	o, err := b.runs.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (b *bench) finish(t *testing.T, token int64, result string) runs.Outcome {
	t.Helper()
	o, err := b.runs.Finish(t.Context(), runs.Finish{
		ID: order, Owner: "ann", Token: token, Status: analysis.Ready, Result: result, KeepSeconds: 3600,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func about(f string) func(*runs.Begin) { return func(c *runs.Begin) { c.Fingerprint = f } }

// TestLifeOfARun: made by the first, whose result all others get, in one request each; a run of something else is
// refused, in each state.
func TestLifeOfARun(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1")
	if first.Code != analysis.OK || first.Grant.Token != b.at.UnixMicro()+1 ||
		!first.Grant.ExpiresAt.Equal(b.at.Add(10*time.Second)) {
		t.Fatalf("%+v", first)
	}
	if b.kept != time.Hour+10*time.Second {
		t.Errorf("kept for %v", b.kept)
	}
	if again := b.begin(t, "ann", "r1"); !again.Replayed || again.Grant != first.Grant {
		t.Errorf("a retry: %+v", again)
	}
	if other := b.begin(t, "bob", "r2"); other.Code != analysis.Locked || other.RetryAfter != 10*time.Second ||
		other.Grant.Owner != "ann" {
		t.Errorf("another: %+v", other)
	}
	if differs := b.begin(t, "bob", "r2", about("f2")); differs.Code != analysis.Differs ||
		!strings.Contains(differs.Detail, "run_id") {
		t.Errorf("something else, while it runs: %+v", differs)
	}
	if b.requests != 4 {
		t.Errorf("%d requests for 4 commands", b.requests)
	}
	b.at = b.at.Add(5 * time.Second)
	o, err := b.runs.Refresh(t.Context(), runs.Refresh{ID: order, Owner: "ann", Token: first.Grant.Token,
		TTLSeconds: 20, KeepSeconds: 60})
	if err != nil || o.Code != analysis.OK || !o.Grant.ExpiresAt.Equal(b.at.Add(20*time.Second)) ||
		b.kept != 80*time.Second {
		t.Errorf("refresh: %+v, %v, kept for %v", o, err, b.kept)
	}
	if done := b.finish(t, first.Grant.Token, "charge ch_1"); done.Code != analysis.OK || b.kept != time.Hour {
		t.Errorf("finish: %+v, kept for %v", done, b.kept)
	}
	b.requests = 0
	for _, request := range []string{"r2", "r3"} {
		if o := b.begin(t, "bob", request); o.Code != analysis.AlreadyFinished || o.Result != "charge ch_1" ||
			o.Grant.Status != analysis.Ready {
			t.Errorf("after the finish: %+v", o)
		}
	}
	if o := b.begin(t, "bob", "r4", about("f2")); o.Code != analysis.Differs || o.Result != "" {
		t.Errorf("something else, after the finish: %+v", o)
	}
	if o := b.begin(t, "bob", "r4", about("")); o.Code != analysis.AlreadyFinished {
		t.Errorf("without a fingerprint: %+v", o)
	}
	if b.requests != 4 {
		t.Errorf("%d requests for 4 commands", b.requests)
	}
	s, at, err := b.runs.Get(t.Context(), order)
	if err != nil || !s.Exists || s.Result != "charge ch_1" || s.Owner != "" || !at.Equal(b.at) {
		t.Errorf("get: %+v, %v, %v", s, at, err)
	}
}

// TestRunIsTakenOver when its holder died, in two requests; what the old holder still sends is refused, and a run whose
// holders die again and again ends as FAILED.
func TestRunIsTakenOver(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1")
	b.at = b.at.Add(10 * time.Second)
	if o := b.begin(t, "bob", "r2", about("f2")); o.Code != analysis.Differs {
		t.Errorf("something else takes it over: %+v", o)
	}
	b.requests = 0
	second := b.begin(t, "bob", "r2")
	if second.Code != analysis.OK || second.Grant.Token != first.Grant.Token+1 || second.Grant.Runs != 2 ||
		b.requests != 2 {
		t.Fatalf("%+v, %d requests", second, b.requests)
	}
	if o := b.finish(t, first.Grant.Token, "late"); o.Code != analysis.Lost ||
		!strings.Contains(o.Detail, "another worker took the run over") {
		t.Errorf("the old holder finishes: %+v", o)
	}
	if o, err := b.runs.Refresh(t.Context(), runs.Refresh{ID: order, Owner: "ann", Token: first.Grant.Token, TTLSeconds: 9,
		KeepSeconds: 60}); err != nil || o.Code != analysis.Lost {
		t.Errorf("the old holder refreshes: %+v, %v", o, err)
	}
	b.at = b.at.Add(10 * time.Second)
	if o := b.begin(t, "cy", "r3"); o.Code != analysis.OK || o.Grant.Runs != 3 {
		t.Errorf("the second takeover: %+v", o)
	}
	b.at = b.at.Add(10 * time.Second)
	o := b.begin(t, "dee", "r4")
	if o.Code != analysis.AlreadyFinished || o.Grant.Status != analysis.Failed ||
		!strings.Contains(o.Reason, "2 takeovers") || strings.Contains(o.Reason, "analysis") {
		t.Errorf("beyond the bound: %+v", o)
	}
	if again := b.begin(t, "dee", "r5"); again.Code != analysis.AlreadyFinished || again.Reason != o.Reason {
		t.Errorf("later: %+v", again)
	}
}

// TestReleasedRun is free at once, for the same thing only.
func TestReleasedRun(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1")
	o, err := b.runs.Release(t.Context(), runs.Release{ID: order, Owner: "ann", Token: first.Grant.Token,
		Failed: "503", KeepSeconds: 60})
	if err != nil || o.Code != analysis.OK || o.Grant.Failures != 1 || b.kept != time.Minute {
		t.Fatalf("%+v, %v", o, err)
	}
	if o := b.begin(t, "bob", "r2", about("f2")); o.Code != analysis.Differs {
		t.Errorf("something else: %+v", o)
	}
	if o := b.begin(t, "bob", "r2"); o.Code != analysis.OK || o.Grant.Token != first.Grant.Token+1 ||
		o.Grant.Failures != 1 {
		t.Errorf("the next: %+v", o)
	}
	if o := b.begin(t, "ann", "r1"); o.Code != analysis.RequestIDReused {
		t.Errorf("a late duplicate of the first: %+v", o)
	}
}

// TestRecordIsRemoved after its time, never while the lock lasts; tokens rise all the same, and a late command of an
// earlier holder finds nothing to change.
func TestRecordIsRemoved(t *testing.T) {
	b := open()
	prune := func() int {
		t.Helper()
		n, err := b.Store.(docstore.Pruner).Prune(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := b.begin(t, "ann", "r1", func(c *runs.Begin) { c.TTLSeconds, c.KeepSeconds = 86_400, 60 })
	b.at = b.at.Add(24 * time.Hour)
	if n := prune(); n != 0 {
		t.Errorf("removed %d while the lock lasted", n)
	}
	b.at = b.at.Add(time.Minute)
	if n := prune(); n != 1 {
		t.Errorf("removed %d after its time", n)
	}
	if o := b.finish(t, first.Grant.Token, "late"); o.Code != analysis.NotFound {
		t.Errorf("a late finish: %+v", o)
	}
	second := b.begin(t, "bob", "r2", about("f2"))
	if second.Code != analysis.OK || second.Grant.Token <= first.Grant.Token {
		t.Errorf("a new run: %+v", second)
	}
	if o := b.finish(t, first.Grant.Token, "late"); o.Code != analysis.Lost {
		t.Errorf("a late finish into the new run: %+v", o)
	}
}

// TestTimeOfARecord: a record whose time has passed counts as none although nothing removes it, at that time, a
// millisecond later and ten times later: it is not read, not listed, and its run begins anew, in two requests, with a
// higher token and nothing of the one before. Of two that begin it at once one gets it.
func TestTimeOfARecord(t *testing.T) {
	for _, past := range []time.Duration{0, time.Millisecond, 9 * time.Hour} {
		b := open()
		first := b.begin(t, "ann", "r1")
		b.at = b.at.Add(time.Second)
		b.finish(t, first.Grant.Token, "charge ch_1")
		b.at = b.at.Add(time.Hour - time.Millisecond)
		if o := b.begin(t, "bob", "r2"); o.Code != analysis.AlreadyFinished || o.Result != "charge ch_1" {
			t.Errorf("%v, before: %+v", past, o)
		}
		b.at = b.at.Add(time.Millisecond + past)
		s, _, err := b.runs.Get(t.Context(), order)
		p, errList := b.runs.List(t.Context(), runs.List{Tenant: "shop"})
		if err != nil || errList != nil || s.Exists || s.Result != "" || len(p.Runs) != 0 {
			t.Errorf("%v: read as %+v, listed as %+v; %v, %v", past, s, p, err, errList)
		}
		b.requests = 0
		if o := b.finish(t, first.Grant.Token, "charge ch_1"); o.Code != analysis.NotFound || b.requests != 1 {
			t.Errorf("%v, a late finish: %+v, %d requests", past, o, b.requests)
		}
		if o := b.begin(t, "ann", "r1"); o.Code != analysis.RequestIDReused {
			t.Errorf("%v, a late begin: %+v", past, o)
		}
		b.requests = 0
		b.between = func() { b.begin(t, "cy", "r3", about("f2")) }
		if o := b.begin(t, "bob", "r2", about("f3")); o.Code != analysis.Differs {
			t.Errorf("%v, the second of two at once: %+v", past, o)
		}
		if b.requests != 4 {
			t.Errorf("%v: %d requests of both", past, b.requests)
		}
		second := b.begin(t, "cy", "r3", about("f2"))
		if second.Code != analysis.OK || second.Grant.Token != first.Grant.Token+1 || second.Grant.Runs != 1 {
			t.Errorf("%v, the first of two at once: %+v", past, second)
		}
		if o := b.finish(t, first.Grant.Token, "late"); o.Code != analysis.Lost {
			t.Errorf("%v, a late finish into the new run: %+v", past, o)
		}
		if s, _, err := b.runs.Get(t.Context(), order); err != nil || !s.Exists || s.Status != "" || s.Owner != "cy" ||
			s.Fingerprint != "f2" {
			t.Errorf("%v, the new run: %+v, %v", past, s, err)
		}
	}
}

// TestRunThatLasts is kept while it is refreshed, however short its time is.
func TestRunThatLasts(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1", func(c *runs.Begin) { c.KeepSeconds = 60 })
	for range 20 {
		if o, err := b.runs.Refresh(t.Context(), runs.Refresh{ID: order, Owner: "ann", Token: first.Grant.Token,
			TTLSeconds: 50, KeepSeconds: 60}); err != nil || o.Code != analysis.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		b.at = b.at.Add(50*time.Second - time.Millisecond)
		if o := b.begin(t, "bob", "r2"); o.Code != analysis.Locked {
			t.Fatalf("at %v: %+v", b.at, o)
		}
	}
	if s, _, err := b.runs.Get(t.Context(), order); err != nil || !s.Exists {
		t.Errorf("%+v, %v", s, err)
	}
	if o := b.finish(t, first.Grant.Token, "done"); o.Code != analysis.OK {
		t.Errorf("%+v", o)
	}
}

// TestKeepIsSaidOnce: a command that does not say how long a run is kept leaves what was said, in one request if that
// is a day, as where nothing was said, and in two otherwise; a command that says it changes it.
func TestKeepIsSaidOnce(t *testing.T) {
	const day = runs.DefaultKeepSeconds
	for _, c := range []struct{ begin, later, kept, requests int64 }{
		{0, 0, day, 1}, {day, 0, day, 1}, {3600, 0, 3600, 2}, {60, 0, 60, 2}, {30 * day, 0, 30 * day, 2},
		{0, 60, 60, 1}, {3600, 60, 60, 1}, {3600, day, day, 1},
	} {
		for what, do := range map[string]func(b *bench, token int64) (runs.Outcome, error){
			"refresh": func(b *bench, token int64) (runs.Outcome, error) {
				return b.runs.Refresh(t.Context(), runs.Refresh{ID: order, Owner: "ann", Token: token, TTLSeconds: 10,
					KeepSeconds: c.later})
			},
			"a shorter refresh": func(b *bench, token int64) (runs.Outcome, error) {
				o, err := b.runs.Refresh(t.Context(), runs.Refresh{ID: order, Owner: "ann", Token: token, TTLSeconds: 2,
					KeepSeconds: c.later})
				b.requests = int(c.requests) // it is two in any case
				return o, err
			},
			"release": func(b *bench, token int64) (runs.Outcome, error) {
				return b.runs.Release(t.Context(), runs.Release{ID: order, Owner: "ann", Token: token, KeepSeconds: c.later})
			},
			"finish": func(b *bench, token int64) (runs.Outcome, error) {
				return b.runs.Finish(t.Context(), runs.Finish{ID: order, Owner: "ann", Token: token, Status: analysis.Failed,
					Reason: "no money", KeepSeconds: c.later})
			},
			"takeover": func(b *bench, _ int64) (runs.Outcome, error) {
				b.at = b.at.Add(10 * time.Second)
				o, err := b.runs.Begin(t.Context(), runs.Begin{ID: order, Owner: "bob", RequestID: "r2", TTLSeconds: 10,
					KeepSeconds: c.later})
				b.requests = int(c.requests) // it is two in any case
				return o, err
			},
		} {
			b := open()
			first := b.begin(t, "ann", "r1", func(begin *runs.Begin) { begin.KeepSeconds = c.begin })
			b.at = b.at.Add(time.Second)
			b.requests = 0
			o, err := do(b, first.Grant.Token)
			if err != nil || o.Code != analysis.OK || b.requests != int(c.requests) {
				t.Errorf("%s of %+v: %+v, %v, %d requests", what, c, o, err, b.requests)
			}
			kept := time.Duration(c.kept) * time.Second
			if !o.Grant.ExpiresAt.IsZero() {
				kept += o.Grant.ExpiresAt.Sub(b.at)
			}
			if b.kept != kept {
				t.Errorf("%s of %+v: the store keeps it for %v, want %v", what, c, b.kept, kept)
			}
			b.at = b.at.Add(kept - time.Millisecond)
			if s, _, err := b.runs.Get(t.Context(), order); err != nil || !s.Exists {
				t.Errorf("%s of %+v, before its time: %+v, %v", what, c, s, err)
			}
			b.at = b.at.Add(time.Millisecond)
			if s, _, err := b.runs.Get(t.Context(), order); err != nil || s.Exists {
				t.Errorf("%s of %+v, at its time: %+v, %v", what, c, s, err)
			}
			b.begin(t, "dee", "r9", func(begin *runs.Begin) { begin.KeepSeconds = 0 })
			if b.kept != (day+10)*time.Second {
				t.Errorf("%s of %+v: the next run is kept for %v", what, c, b.kept)
			}
		}
	}
}

// TestRunsAreNotAnalyses: a run is no document of kind analyses, and has no field that the sweep's index is on.
func TestRunsAreNotAnalyses(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1")
	p, err := b.List(t.Context(), docstore.Query{Kind: analysis.Kind})
	if err != nil || len(p.Entries) != 0 {
		t.Errorf("analyses: %v, %v", p, err)
	}
	p, err = b.List(t.Context(), docstore.Query{Kind: runs.Kind, Tenant: "shop"})
	if err != nil || len(p.Entries) != 1 {
		t.Fatalf("runs: %v, %v", p, err)
	}
	d := p.Entries[0].Doc
	if d[analysis.ExpiryField] != nil || d["expiresAt"] != docstore.Value(docstore.FormatTime(b.at.Add(10*time.Second))) {
		t.Errorf("the document: %v", d)
	}
	b.finish(t, first.Grant.Token, "")
	p, _ = b.List(t.Context(), docstore.Query{Kind: runs.Kind, Tenant: "shop"})
	if d := p.Entries[0].Doc; d["expiresAt"] != nil || d["lockOwner"] != nil {
		t.Errorf("the finished document: %v", d)
	}
	b.begin(t, "ann", "r1", func(c *runs.Begin) { c.Tenant = "other" }) // another run
	if p, _ = b.List(t.Context(), docstore.Query{Kind: runs.Kind, Tenant: "other"}); len(p.Entries) != 1 {
		t.Errorf("the other tenant: %v", p)
	}
}

// TestBadRuns: a malformed command names its field, and sends nothing. An error of the store names the run's document.
func TestBadRuns(t *testing.T) {
	b := open()
	for name, change := range map[string]func(*runs.Begin){
		"tenant_id":    func(c *runs.Begin) { c.Tenant = "" },
		"run_id":       func(c *runs.Begin) { c.ID.ID = "a/b" },
		"keep_seconds": func(c *runs.Begin) { c.KeepSeconds = 59 },
		"ttl_seconds":  func(c *runs.Begin) { c.TTLSeconds = 86_401 },
		"fingerprint":  func(c *runs.Begin) { c.Fingerprint = strings.Repeat("f", 129) },
		"owner_id":     func(c *runs.Begin) { c.Owner = "" },
		"request_id":   func(c *runs.Begin) { c.RequestID = "" },
		"max_failures": func(c *runs.Begin) { c.MaxFailures = -1 },
	} {
		c := runs.Begin{ID: order, Owner: "ann", RequestID: "r1", TTLSeconds: 10, KeepSeconds: 3600}
		change(&c)
		_, err := b.runs.Begin(t.Context(), c)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []runs.ID{{"shop", "."}, {"shop", strings.Repeat("r", 257)}, {".", "r"}, {"/", "r"},
		{strings.Repeat("t", 129), "r"}} {
		if _, _, err := b.runs.Get(t.Context(), c); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
	if b.requests != 0 {
		t.Errorf("%d requests", b.requests)
	}
	if _, err := b.Store.Write(t.Context(), docstore.Write{
		Key: docstore.Key{Kind: runs.Kind, Tenant: "shop", ID: "order-7"},
		Set: map[string]docstore.Value{"lockToken": docstore.String("x")},
	}); err != nil {
		t.Fatal(err)
	}
	_, err := b.runs.Begin(t.Context(), runs.Begin{ID: order, Owner: "ann", RequestID: "r1", TTLSeconds: 10,
		KeepSeconds: 3600})
	if !errors.Is(err, docstore.ErrDamaged) || !strings.Contains(err.Error(), "runs/shop/order-7") ||
		strings.Contains(err.Error(), "analyses") {
		t.Error(err)
	}
}

// TestGivenUpRun: a begin that is given up before it comes leaves a record that no one sees, that the next begin takes
// no notice of, and that is removed after an hour. In the record of a run nothing changes but the memory of requests.
func TestGivenUpRun(t *testing.T) {
	b := open()
	giveUp := func(owner, request string, change ...func(*runs.Begin)) runs.Outcome {
		t.Helper()
		c := runs.Begin{ID: order, Owner: owner, RequestID: request, TTLSeconds: 10, Fingerprint: "f1", KeepSeconds: 3600}
		for _, f := range change {
			f(&c)
		}
		b.requests = 0
		o, err := b.runs.GiveUp(t.Context(), c)
		if err != nil || o.Code != analysis.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		return o
	}
	unseen := func() {
		t.Helper()
		s, _, err := b.runs.Get(t.Context(), order)
		if err != nil || s.Exists {
			t.Errorf("get: %+v, %v", s, err)
		}
		p, err := b.runs.List(t.Context(), runs.List{Tenant: "shop"})
		if err != nil || len(p.Runs) != 0 {
			t.Errorf("list: %+v, %v", p, err)
		}
	}
	giveUp("ann", "r1")
	if b.requests != 1 || b.kept != time.Hour {
		t.Errorf("%d requests, kept for %v", b.requests, b.kept)
	}
	unseen()
	if o := b.begin(t, "ann", "r1"); o.Code != analysis.RequestIDReused {
		t.Errorf("a late begin: %+v", o)
	}
	if o := b.finish(t, 1, "late"); o.Code != analysis.NotFound {
		t.Errorf("a finish: %+v", o)
	}
	unseen()
	b.at = b.at.Add(time.Hour - time.Millisecond)
	prune := func() int {
		t.Helper()
		n, err := b.Store.(docstore.Pruner).Prune(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := prune(); n != 0 {
		t.Errorf("removed %d before the hour had passed", n)
	}
	b.at = b.at.Add(time.Millisecond)
	if n := prune(); n != 1 {
		t.Errorf("removed %d after an hour", n)
	}

	giveUp("ann", "r1")
	first := b.begin(t, "bob", "r2", about("f2"))
	if first.Code != analysis.OK || first.Grant.Runs != 1 || first.Grant.Token != b.at.UnixMicro()+1 ||
		b.kept != time.Hour+10*time.Second {
		t.Errorf("the next begin: %+v, kept for %v", first, b.kept)
	}
	if o := giveUp("cy", "r3"); b.requests != 2 || b.kept != 0 || o.Grant.Token != 0 {
		t.Errorf("beside a run: %+v, %d requests, kept for %v", o, b.requests, b.kept)
	}
	if o := b.begin(t, "bob", "r2", about("f2")); o.Code != analysis.OK || !o.Replayed {
		t.Errorf("the holder: %+v", o)
	}
	if o := giveUp("bob", "r2", about("f2")); b.requests != 2 || b.kept != 0 || o.Grant.Token != first.Grant.Token {
		t.Errorf("the holder gives up: %+v, %d requests, kept for %v", o, b.requests, b.kept)
	}
	if o := b.begin(t, "cy", "r3", about("f2")); o.Code != analysis.RequestIDReused {
		t.Errorf("a late begin: %+v", o)
	}
	if o := b.begin(t, "cy", "r4", about("f2")); o.Code != analysis.OK || o.Grant.Runs != 1 {
		t.Errorf("the next: %+v", o)
	}
	end := func(at time.Duration) func(*runs.Begin) {
		return func(c *runs.Begin) { c.NotAfter, c.ID.ID = b.at.Add(at), "other" }
	}
	for at, code := range map[time.Duration]analysis.Code{
		-10 * time.Hour: analysis.TooLate, -time.Millisecond: analysis.TooLate, time.Hour + time.Millisecond: analysis.TooFar,
	} {
		if o := b.begin(t, "ann", "r1", end(at)); o.Code != code {
			t.Errorf("%v to the end: %+v", at, o)
		}
	}
	if o := b.begin(t, "ann", "r1", end(0)); o.Code != analysis.OK {
		t.Errorf("at the end: %+v", o)
	}
}
