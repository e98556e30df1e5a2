package suite

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// AmbiguousRuns is [Ambiguous] for the commands of named runs: a caller that retries a command until a response arrives
// gets the right one, and the command has had one effect: no false "locked", no false "lost", no run that counts twice,
// no second record. The rule is that of the gate, and so is the oracle; only the first begin makes the document.
func AmbiguousRuns(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	everyFate(t, newStore, ambiguousRun, "begin", "begin stale", "begin anew", "refresh", "release", "release failed",
		"finish", "finish failed", "give up", "give up stale", "give up a copy", "give up nothing")
}

// namedRun is one run on a store, and what the oracle knows of it.
type namedRun struct {
	store  docstore.Store
	runs   *runs.Runs
	oracle *runOracle
}

var modelledRun = runs.ID{Tenant: "acme", ID: "order-7"}

// step is a command on the run, which is kept for an hour.
func (n *namedRun) step(s GateStep) RunStep { return RunStep{GateStep: s, Keep: 3600, About: "f1"} }

// send carries out a command; "acquire" begins the run.
func (n *namedRun) send(ctx context.Context, s GateStep, token int64) (GateAnswer, error) {
	return sendToRun(ctx, n.runs, modelledRun, nil, n.step(s), token)
}

// want is what the oracle says of a command. It learns the first token from the store.
func (n *namedRun) want(t *testing.T, s GateStep, token int64, now time.Time) GateAnswer {
	t.Helper()
	want := n.oracle.answer(n.step(s), token, now)
	state, _, err := n.runs.Get(t.Context(), modelledRun)
	if err != nil {
		t.Fatal(err)
	}
	n.oracle.learn(state.Token)
	if s.Do == "acquire" && want.Code == "OK" {
		want.Token = n.oracle.token()
	}
	return want
}

func ambiguousRun(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	n := &namedRun{store: store, oracle: &runOracle{gateOracle: &gateOracle{}},
		runs: runs.New(store, &runs.Options{Options: analysis.Options{Now: clock.Now}})}
	step := GateStep{Owner: "ann", Request: "r1", TTL: 60, Do: do}
	switch do {
	case "begin", "begin stale", "begin anew":
		step.Do = "acquire"
	case "give up", "give up stale": // the lock to begin with
		step.Do, step.Request = "give up", "r0"
	case "give up a copy", "give up nothing": // of what has not arrived
		step.Do = "give up"
	case "release failed", "finish failed":
		step.Do, step.Failed, step.Reason = do[:len(do)-len(" failed")], true, "the bank does not answer"
	case "finish":
		step.Result = "charge ch_1"
	}
	none := do == "begin" || do == "give up nothing"
	if !none {
		first := GateStep{Owner: "ann", Request: "r0", TTL: 60, Do: "acquire"}
		a, err := n.send(t.Context(), first, 0)
		if want := n.want(t, first, 0, clock.Now()); err != nil || a != want {
			t.Fatalf("the run to begin with: %+v, %v\nwant %+v", a, err, want)
		}
		clock.Advance(time.Second)
	}
	switch do {
	case "begin stale", "give up stale":
		clock.Advance(time.Hour)
	case "begin anew":
		n.expect(t, "the run to end", GateStep{Owner: "ann", Do: "finish", Result: "charge ch_0"}, n.oracle.token(),
			clock.Now())
		clock.Advance(time.Hour)
	}
	token := n.oracle.token()

	got, err := untilAnswered(t, faults, fate, func(ctx context.Context) (GateAnswer,
		error) {
		return n.send(ctx, step, token)
	})
	want := n.want(t, step, token, clock.Now())
	if got.Replayed { // a give-up does not say again what it ended
		want.Token = got.Token
	}
	want.Replayed = got.Replayed // whether the first sending or a later one did it is the store's affair
	if err != nil || want.Code != "OK" || got != want {
		t.Fatalf("after all tries:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
	n.expect(t, "once more", step, token, clock.Now())
	if do == "begin" && token == 0 && n.oracle.token() <= Epoch.UnixMicro() {
		t.Errorf("token %d", n.oracle.token())
	}
	p, err := store.List(t.Context(), docstore.Query{Kind: runs.Kind, Tenant: modelledRun.Tenant})
	if err != nil || len(p.Entries) != 1 {
		t.Errorf("%d records, %v", len(p.Entries), err)
	}
	state, _, err := n.runs.Get(t.Context(), modelledRun)
	if err != nil || string(state.Status) != n.oracle.status || state.Result != step.Result {
		t.Errorf("the run is %+v, %v; want %s", state, err, n.oracle.status)
	}
	if step.Do == "give up" {
		n.expect(t, "a late copy", GateStep{Owner: step.Owner, Request: step.Request, TTL: step.TTL, Do: "acquire"}, 0,
			clock.Now())
	}
	if do == "give up nothing" {
		if state.Exists {
			t.Errorf("a run was made: %+v", state)
		}
	} else if o, err := n.runs.Begin(t.Context(), runs.Begin{
		ID: modelledRun, Owner: "bob", RequestID: "b0", TTLSeconds: 60, Fingerprint: "f2", KeepSeconds: 3600,
	}); err != nil || o.Code != analysis.Differs {
		t.Errorf("something else: %+v, %v", o, err)
	}
	clock.Advance(time.Hour)
	n.expect(t, "the next begin", GateStep{Owner: "bob", Request: "b1", TTL: 60, Do: "acquire"}, 0, clock.Now())
}

// expect sends a command and holds its outcome against the oracle.
func (n *namedRun) expect(t *testing.T, what string, s GateStep, token int64, now time.Time) {
	t.Helper()
	got, err := n.send(t.Context(), s, token)
	if want := n.want(t, s, token, now); err != nil || got != want {
		t.Errorf("%s:\ngot  %+v, %v\nwant %+v", what, got, err, want)
	}
}
