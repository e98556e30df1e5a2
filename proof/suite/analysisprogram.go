package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// GateStep is one step of a program of the analysis gate: time passes, then a command is sent, a sweep is made, or
// another writer changes the document.
type GateStep struct {
	Wait time.Duration
	// acquire, give up (an acquire), refresh, release, finish, retry, sweep, or status, unlock, garbage, delete: by
	// another writer
	Do      string
	ID      string
	Owner   string
	Request string
	TTL     int64  // seconds
	Failed  bool   // of release and finish
	Status  string // that another writer writes
	Back    int64  // the token is this many grants before the latest; -1 is one that was never granted
	Again   bool   // the token is the latest of the documents that were deleted, if there is one

	Result       string        // of finish
	Reason       string        // of retry; of release and finish, if Failed
	MaxFailures  int64         // of acquire
	MaxTakeovers int64         // of acquire; 0 is programTakeovers
	Once         bool          // of acquire: it is taken over never
	Of           string        // of acquire: for which run of a job, found when the step is made
	Ends         bool          // of acquire: it has an end
	End          time.Duration // that is so far away
	Named        int           // of retry: 1 names when the analysis ended the last time, 2 the time before
	FinishedAt   time.Time     // of retry: that time, found when the step is made

	LostRequests int // requests of this command that get lost on the way: it is sent again
	// responses that get lost: the store's library retries the same write, and only the last response arrives
	LostResponses int
}

// AnalysisProgram draws a sequence of steps over few analyses, owners and requests. One in four is about failures and
// retries of one analysis: chance alone would seldom retry one twice.
var AnalysisProgram = func() *rapid.Generator[[]GateStep] {
	anything := rapid.SliceOfN(genStep, 1, 60)
	failing := rapid.SliceOfN(rapid.Map(genStep, GateStep.failing), 8, 60)
	return rapid.OneOf(anything, anything, anything, failing)
}()

// failing is a step that is about the end of one analysis, and its retry, more often than not.
func (s GateStep) failing() GateStep {
	s.ID, s.Owner = "k", "ann"
	switch s.Do {
	case "refresh", "unlock", "garbage", "delete":
		s.Do = "retry"
	case "status", "release":
		s.Do, s.Status = "status", "FAILED"
	case "finish":
		s.Failed = true
	}
	return s
}

var genStep = rapid.Custom(func(t *rapid.T) GateStep {
	return GateStep{
		Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 500, 999, 1000, 1001, 2000}).Draw(t,
			"wait")) * time.Millisecond,
		Do: rapid.SampledFrom([]string{
			"acquire", "acquire", "acquire", "acquire", "acquire", "give up", "give up", "refresh", "refresh",
			"release", "release", "finish",
			"finish", "retry", "retry", "sweep", "sweep",
			"status", "unlock", "garbage", "delete",
		}).Draw(t, "do"),
		Again:  rapid.IntRange(0, 4).Draw(t, "token of a deleted document") == 0,
		Result: rapid.SampledFrom([]string{"", "gs://b/1", "gs://b/2"}).Draw(t, "result"),
		Reason: rapid.SampledFrom([]string{"no disk", "no disk", "no memory"}).Draw(t, "reason"),
		Named:  rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "named"),
		Ends:   rapid.IntRange(0, 2).Draw(t, "ends") == 0,
		End: rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Hour, -time.Millisecond, -time.Hour,
			time.Hour + time.Millisecond, 10 * time.Hour}).Draw(t, "end"),
		MaxFailures:   rapid.SampledFrom([]int64{0, 0, 2}).Draw(t, "most failures"),
		ID:            rapid.SampledFrom([]string{"k", "k", "k", "l m", "none"}).Draw(t, "id"),
		Owner:         rapid.SampledFrom([]string{"ann", "ann", "ann", "bob"}).Draw(t, "owner"),
		Request:       rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "request"),
		TTL:           rapid.Int64Range(1, 2).Draw(t, "ttl"),
		Failed:        rapid.Bool().Draw(t, "failed"),
		Status:        rapid.SampledFrom([]string{"PENDING", "PENDING", "RUNNING", "READY", "FAILED"}).Draw(t, "status"),
		Back:          rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2, -1}).Draw(t, "back"),
		LostRequests:  rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "lost requests"),
		LostResponses: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "lost answers"),
	}
})

func (s GateStep) reason() string {
	if !s.Failed {
		return ""
	}
	return s.Reason
}

// The settings of the sweeps in programs.
const (
	programTakeovers = 2
	programEvery     = 2 * time.Second
)

// RunAnalyses carries out a program on a store whose clock is clock and returns the first difference from the oracle.
// The name keeps programs on one store apart.
func RunAnalyses(ctx context.Context, store docstore.Store, clock *Clock, name string, program []GateStep) error {
	g := &gateProgram{
		store: store, lossy: &lossyStore{through: through{store}}, clock: clock, name: name,
		oracles: map[string]*gateOracle{},
	}
	g.analyses = analysis.New(g.lossy, &analysis.Options{Now: clock.Now, MaxTakeovers: programTakeovers})
	for _, id := range []string{"k", "l m"} {
		g.oracles[id] = &gateOracle{status: "PENDING"}
		if err := g.create(ctx, id); err != nil {
			return err
		}
	}
	err := g.run(ctx, program)
	// Whatever became of the program: its locks must not be due in the next one.
	for id := range g.oracles {
		if e := g.otherWriter(ctx, id, docstore.Write{Unset: []string{"lockExpiresAt"}}); err == nil {
			err = e
		}
	}
	return err
}

// gateProgram is a program under way.
type gateProgram struct {
	store    docstore.Store
	lossy    *lossyStore
	analyses *analysis.Analyses
	clock    *Clock
	name     string
	oracles  map[string]*gateOracle
}

func (g *gateProgram) id(id string) analysis.ID { return analysis.ID(g.name + " " + id) }

func (g *gateProgram) run(ctx context.Context, program []GateStep) error {
	for i, s := range program {
		g.clock.Advance(s.Wait)
		err := g.step(ctx, s)
		if err == nil {
			for id, o := range g.oracles {
				if err = g.compare(ctx, id, o); err != nil {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("step %d %+v at %v: %w", i, s, g.clock.Now(), err)
		}
	}
	return nil
}

func (g *gateProgram) step(ctx context.Context, s GateStep) error {
	o, now := g.oracles[s.ID], g.clock.Now()
	if o == nil && s.Do != "sweep" {
		return g.none(ctx, s)
	}
	switch s.Do {
	case "sweep":
		return g.sweep(ctx)
	case "status":
		o.status = s.Status
		return g.otherWriter(ctx, s.ID, docstore.Write{Set: docstore.Doc{"status": docstore.String(s.Status)}})
	case "unlock":
		if r := o.current(); r != nil {
			r.over = true
		}
		o.awaits = false
		return g.otherWriter(ctx, s.ID, docstore.Write{Unset: []string{"lockOwner", "lockExpiresAt"}})
	case "delete":
		g.oracles[s.ID] = o.deleted()
		if err := g.otherWriter(ctx, s.ID, docstore.Write{If: docstore.Not{Cond: docstore.Absent{}},
			Delete: true}); err != nil {
			return err
		}
		g.clock.Advance(2 * time.Millisecond)
		return g.create(ctx, s.ID)
	case "garbage":
		r := o.current()
		if r == nil {
			return nil
		}
		r.garbage = true
		return g.otherWriter(ctx, s.ID, docstore.Write{Set: docstore.Doc{"lockExpiresAt": docstore.String("3000")}})
	}
	if s.FinishedAt = o.before; s.Named == 0 {
		s.FinishedAt = time.Time{}
	} else if s.Named == 1 {
		s.FinishedAt = o.ended
	}
	token := max(1, o.token()-s.Back)
	if s.Again && o.past > 0 {
		token = o.past
	}
	if s.Do == "acquire" && (o.current() != nil || s.MaxFailures > 0 && o.failures >= s.MaxFailures) {
		s.LostResponses = 0 // a takeover's first write is always refused, and the second is not the one that the test loses
	}
	if place, same := o.remembered(s); s.Do == "give up" && place == 0 && same && o.current() != nil {
		s.LostResponses = 0 // it takes two writes as well
	}
	want := o.answer(s, token, now)
	for range s.LostResponses {
		want = o.answer(s, token, now)
	}
	g.lossy.drop, g.lossy.lose = s.LostRequests, s.LostResponses
	got, err := g.send(ctx, s, token)
	for range s.LostRequests {
		if err == nil {
			return fmt.Errorf("a command whose request was lost has the answer %+v", got)
		}
		got, err = g.send(ctx, s, token)
	}
	if err != nil {
		return err
	}
	if s.Do == "acquire" || s.Do == "retry" {
		if err := g.learn(ctx, s.ID, o); err != nil {
			return err
		}
		if want.Code == "OK" {
			want.Token = o.token()
		}
	}
	if got != want {
		return fmt.Errorf("token %d:\ngot  %+v\nwant %+v", token, got, want)
	}
	return nil
}

// learn tells the oracle the first token of a document. A document is deleted for longer than a millisecond before it
// is made again: see docstore.Write.StartAtNow.
func (g *gateProgram) learn(ctx context.Context, id string, o *gateOracle) error {
	found, err := g.store.Get(ctx, docstore.Key{Kind: analysis.Kind, ID: string(g.id(id))})
	if err != nil {
		return err
	}
	token, _ := found.Docs[0]["lockToken"].(docstore.Int)
	o.learn(int64(token))
	return nil
}

// none sends a command about an analysis that does not exist.
func (g *gateProgram) none(ctx context.Context, s GateStep) error {
	if !slices.Contains([]string{"acquire", "give up", "refresh", "release", "finish", "retry"}, s.Do) {
		return nil
	}
	got, err := g.send(ctx, s, 1)
	want := GateAnswer{Answer: Answer{Code: "NOT_FOUND"}}
	if s.Do == "give up" { // there is nothing of it
		want.Code, want.Replayed = "OK", true
	}
	if err != nil || got != want {
		return fmt.Errorf("got  %+v, %w\nwant %+v", got, err, want)
	}
	found, err := g.store.Get(ctx, docstore.Key{Kind: analysis.Kind, ID: string(g.id(s.ID))})
	if err == nil && found.Docs[0] != nil {
		err = fmt.Errorf("a command made the document %v", found.Docs[0])
	}
	return err
}

// create makes an analysis, with fields of the user's own.
func (g *gateProgram) create(ctx context.Context, id string) error {
	return g.otherWriter(ctx, id, docstore.Write{
		Set: docstore.Doc{"status": docstore.String("PENDING"), "title": docstore.String(id), "tags": docstore.Map{"a": "b"}},
	})
}

// otherWriter changes a document without the gate.
func (g *gateProgram) otherWriter(ctx context.Context, id string, w docstore.Write) error {
	w.Key = docstore.Key{Kind: analysis.Kind, ID: string(g.id(id))}
	r, err := g.store.Write(ctx, w)
	if err == nil && !r.Applied {
		err = fmt.Errorf("another writer's write was refused: %v", r)
	}
	return err
}

// send carries out one command.
func (g *gateProgram) send(ctx context.Context, s GateStep, token int64) (GateAnswer, error) {
	var (
		id  = g.id(s.ID)
		o   analysis.Outcome
		err error
	)
	switch s.Do {
	case "acquire":
		o, err = g.analyses.Acquire(ctx, g.acquire(id, s))
	case "give up":
		o, err = g.analyses.GiveUp(ctx, analysis.GiveUp{Acquire: g.acquire(id, s)})
	case "refresh":
		o, err = g.analyses.Refresh(ctx, analysis.Refresh{ID: id, Owner: s.Owner, Token: token, TTLSeconds: s.TTL})
	case "release":
		o, err = g.analyses.Release(ctx, analysis.Release{ID: id, Owner: s.Owner, Token: token, Failed: s.reason()})
	case "retry":
		o, err = g.analyses.Retry(ctx, analysis.Retry{ID: id, By: s.Owner, RequestID: s.Request, Reason: s.Reason,
			FinishedAt: s.FinishedAt})
	default:
		c := analysis.Finish{ID: id, Owner: s.Owner, Token: token, Status: analysis.Ready, Result: s.Result}
		if s.Failed {
			c.Status, c.Result, c.Reason = analysis.Failed, "", s.reason()
		}
		o, err = g.analyses.Finish(ctx, c)
	}
	return gateAnswer(o), err
}

// acquire is the request for a run of a step.
func (g *gateProgram) acquire(id analysis.ID, s GateStep) analysis.Acquire {
	c := analysis.Acquire{ID: id, Owner: s.Owner, RequestID: s.Request, TTLSeconds: s.TTL, MaxFailures: s.MaxFailures,
		MaxTakeovers: s.MaxTakeovers}
	if s.Ends {
		c.NotAfter = docstore.TruncateMilli(g.clock.Now()).Add(s.End)
	}
	return c
}

// gateAnswer is what the caller of a command of the gate, or of a named run, sees of its outcome.
func gateAnswer(o analysis.Outcome) GateAnswer {
	return GateAnswer{
		Answer: Answer{Code: string(o.Code), Token: o.Grant.Token, Expires: o.Grant.ExpiresAt, Holder: o.Grant.Owner,
			Replayed: o.Replayed},
		Status:     string(o.Grant.Status),
		Runs:       o.Grant.Runs,
		Failures:   o.Grant.Failures,
		RetryAfter: o.RetryAfter,
		RetriedBy:  o.Retried.By, RetryReason: o.Retried.Reason, RetriedAt: o.Retried.At,
	}
}

// sweep lets a sweep go over all analyses, of which only those of this program can be due.
func (g *gateProgram) sweep(ctx context.Context) error {
	var want analysis.Swept
	queued := map[analysis.ID]bool{}
	for id, o := range g.oracles {
		switch o.sweep(g.clock.Now(), programTakeovers, programEvery) {
		case "requeued":
			want.Requeued++
			queued[g.id(id)] = true
		case "failed":
			want.Failed++
		case "skipped":
			want.Skipped++
		}
	}
	want.Stale = want.Requeued + want.Failed + want.Skipped
	put := messages{}
	got, err := g.analyses.Sweep(ctx, analysis.Sweep{Queue: put, MaxTakeovers: programTakeovers,
		RequeueEvery: programEvery, PageSize: 1})
	if err != nil || got != want || !maps.Equal(put, queued) {
		return fmt.Errorf("got  %+v, queued %v, %w\nwant %+v, queued %v", got, put, err, want, queued)
	}
	return nil
}

// messages are what was put into a queue.
type messages map[analysis.ID]bool

func (m messages) Enqueue(_ context.Context, id analysis.ID, _ string) error {
	if m[id] {
		return fmt.Errorf("%s is queued twice", id)
	}
	m[id] = true
	return nil
}

// compare looks at the document from outside.
func (g *gateProgram) compare(ctx context.Context, id string, o *gateOracle) error {
	r, err := g.store.Get(ctx, docstore.Key{Kind: analysis.Kind, ID: string(g.id(id))})
	if err != nil {
		return err
	}
	d := r.Docs[0]
	want := docstore.Doc{"status": docstore.String(o.status), "title": docstore.String(id), "tags": docstore.Map{"a": "b"}}
	if run := o.current(); run != nil {
		want["lockOwner"], want["lockExpiresAt"] = docstore.String(run.owner), docstore.FormatTime(run.until)
		if run.garbage {
			want["lockExpiresAt"] = docstore.String("3000")
		}
	}
	if r := o.retries[0]; r.by != "" {
		want["lockRetriedAt"], want["lockRetriedBy"], want["lockRetryReason"] = docstore.FormatTime(r.at),
			docstore.String(r.by), docstore.String(r.reason)
		if o.awaits {
			want["lockExpiresAt"] = docstore.FormatTime(r.at)
		}
	}
	if !o.ended.IsZero() {
		want["lockFinishedAt"] = docstore.FormatTime(o.ended)
	}
	if o.token() > 0 {
		want["lockToken"] = docstore.Int(o.token())
	}
	if o.streak > 0 {
		want["lockRuns"] = docstore.Int(o.streak)
	}
	if o.failures > 0 {
		want["lockFailures"] = docstore.Int(o.failures)
	}
	if o.failed > 0 {
		want["lockFailedToken"] = docstore.Int(o.failed)
	}
	if o.result != "" {
		want["result"] = docstore.String(o.result)
	}
	if !o.queued.IsZero() {
		want["lockRequeuedAt"] = docstore.FormatTime(o.queued)
	}
	// The oracle has no opinion on these.
	for _, f := range []string{"lockHeartbeatAt", "lockRequest1", "lockRequest2", "lockRequest3", "lockRequest4",
		"lockRequeueId", "failureReason",
		"lockRetry1", "lockRetry2", "lockRetry3", "lockRetry4"} {
		delete(d, f)
	}
	if !d.Equal(want) {
		return fmt.Errorf("%s is\n%v\nwant\n%v", id, d, want)
	}
	return nil
}
