package suite

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// AmbiguousAnalyses is [Ambiguous] for the commands of the gate: a caller that retries a command until a response
// arrives gets the right one, and the command has had one effect: no false "locked", no false "lost", no run that
// counts twice.
func AmbiguousAnalyses(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	everyFate(t, newStore, ambiguousAnalysis, "acquire", "acquire stale", "refresh", "release", "release failed",
		"finish", "finish failed", "retry", "give up", "give up stale", "give up a copy")
}

func ambiguousAnalysis(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	p := &gateProgram{store: store, analyses: analysis.New(store, &analysis.Options{Now: clock.Now}),
		clock: clock, name: "a"}
	if err := p.create(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	const ever = 1_000_000
	g := &ambiguousGate{clock: clock, keep: ever, oracle: &runOracle{gateOracle: &gateOracle{status: "PENDING"},
		exists: true, until: clock.Now().Add(ever * time.Second)}}
	g.send = func(ctx context.Context, s RunStep, token int64) (GateAnswer, error) {
		return p.send(ctx, s.GateStep, token)
	}
	g.learn = func(ctx context.Context) error { return p.learn(ctx, "k", g.oracle.gateOracle) }
	g.try(t, faults, do, fate, func(GateStep) {
		if err := p.compare(t.Context(), "k", g.oracle.gateOracle); err != nil {
			t.Error(err)
		}
	})
}

// ambiguousGate is one analysis, or one named run, on a store, and what the oracle knows of it.
type ambiguousGate struct {
	clock  *Clock
	keep   int64 // of each command
	about  string
	oracle *runOracle
	send   func(ctx context.Context, s RunStep, token int64) (GateAnswer, error)
	learn  func(context.Context) error // tells the oracle the first token
}

// try sends a command until it is answered, the first time with a fate for its write, and once more. Then it checks
// what there is, and whether another can begin when the lock is over.
func (g *ambiguousGate) try(t *testing.T, faults Faults, do string, fate Fate, check func(GateStep)) {
	t.Helper()
	step := GateStep{ID: "k", Owner: "ann", Request: "r1", TTL: 60, Do: do}
	switch do {
	case "acquire stale", "acquire anew":
		step.Do = "acquire"
	case "give up", "give up stale": // the lock to begin with
		step.Do, step.Request = "give up", "r0"
	case "give up a copy", "give up nothing": // of what has not arrived
		step.Do = "give up"
	case "release failed", "finish failed":
		step.Do, step.Failed, step.Reason = do[:len(do)-len(" failed")], true, "the bank does not answer"
	case "finish":
		step.Result = "charge ch_1"
	case "retry":
		step.Reason = "the disk is larger"
	}
	if do != "acquire" && do != "give up nothing" {
		g.expect(t, "the lock to begin with", GateStep{ID: "k", Owner: "ann", Request: "r0", TTL: 60, Do: "acquire"}, 0)
		g.clock.Advance(time.Second)
	}
	switch do {
	case "acquire stale", "give up stale":
		g.clock.Advance(time.Hour)
	case "acquire anew", "retry":
		g.expect(t, "the run to end", GateStep{ID: "k", Owner: "ann", Do: "finish", Failed: do == "retry",
			Reason: "no disk", Result: "charge ch_0"}, g.oracle.token())
		g.clock.Advance(time.Hour)
	}
	token := g.oracle.token()

	got, err := untilAnswered(t, faults, fate, func(ctx context.Context) (GateAnswer, error) {
		return g.send(ctx, g.step(step), token)
	})
	want := g.want(t, step, token)
	if got.Replayed { // a give-up does not say again what it ended
		want.Token = got.Token
	}
	want.Replayed = got.Replayed // whether the first sending or a later one did it is the store's affair
	if err != nil || want.Code != "OK" || got != want {
		t.Fatalf("after all tries:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
	g.expect(t, "once more", step, token)
	check(step)
	g.clock.Advance(time.Hour)
	g.expect(t, "the next acquire", GateStep{ID: "k", Owner: "bob", Request: "b1", TTL: 60, Do: "acquire"}, 0)
}

func (g *ambiguousGate) step(s GateStep) RunStep {
	return RunStep{GateStep: s, Keep: g.keep, About: g.about}
}

// want is what the oracle says of a command that has been carried out.
func (g *ambiguousGate) want(t *testing.T, s GateStep, token int64) GateAnswer {
	t.Helper()
	want := g.oracle.answer(g.step(s), token, g.clock.Now())
	if err := g.learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Do == "acquire" && want.Code == "OK" {
		want.Token = g.oracle.token()
	}
	return want
}

// expect sends a command and holds its outcome against the oracle.
func (g *ambiguousGate) expect(t *testing.T, what string, s GateStep, token int64) {
	t.Helper()
	got, err := g.send(t.Context(), g.step(s), token)
	if want := g.want(t, s, token); err != nil || got != want {
		t.Errorf("%s:\ngot  %+v, %v\nwant %+v", what, got, err, want)
	}
}
