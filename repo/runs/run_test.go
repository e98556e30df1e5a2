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
}

func (b *bench) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	b.requests++
	b.kept = writes[0].Keep
	return b.Store.Write(ctx, writes...)
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
