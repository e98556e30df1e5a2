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
	everyFate(t, newStore, ambiguousAnalysis, "acquire", "acquire stale", "refresh", "release", "finish", "retry",
		"give up", "give up stale", "give up a copy")
}

func ambiguousAnalysis(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	g := &gateProgram{store: store, analyses: analysis.New(store, &analysis.Options{Now: clock.Now}),
		clock: clock, name: "a"}
	if err := g.create(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	o := &gateOracle{status: "PENDING"}
	step := GateStep{ID: "k", Owner: "ann", Request: "r1", TTL: 60, Do: do}
	if do != "acquire" {
		first := GateStep{ID: "k", Owner: "ann", Request: "r0", TTL: 60, Do: "acquire"}
		want := o.answer(first, 0, clock.Now())
		a, err := g.send(t.Context(), first, 0)
		if o.learn(a.Token); err != nil || o.token() == 0 {
			t.Fatalf("the lock to begin with: %+v, %v", a, err)
		}
		if want.Token = o.token(); a != want {
			t.Fatalf("the lock to begin with: %+v\nwant %+v", a, want)
		}
		clock.Advance(time.Second)
	}
	if do == "retry" {
		end := GateStep{ID: "k", Owner: "ann", Do: "finish", Failed: true, Reason: "no disk"}
		want := o.answer(end, o.token(), clock.Now())
		if a, err := g.send(t.Context(), end, o.token()); err != nil || a != want {
			t.Fatalf("the failure to begin with: %+v, %v\nwant %+v", a, err, want)
		}
		step.Reason = "the disk is larger"
		clock.Advance(time.Second)
	}
	if do == "acquire stale" {
		step.Do = "acquire"
		clock.Advance(time.Hour)
	}
	switch do {
	case "give up stale":
		clock.Advance(time.Hour)
		fallthrough
	case "give up": // the lock to begin with
		step.Do, step.Request = "give up", "r0"
	case "give up a copy": // of what has not arrived
		step.Do = "give up"
	}
	token := o.token()
	want := o.answer(step, token, clock.Now())

	got, err := untilAnswered(t, faults, fate, func(ctx context.Context) (GateAnswer,
		error) {
		return g.send(ctx, step, token)
	})
	if err == nil {
		err = g.learn(t.Context(), "k", o)
	}
	if want.Code == "OK" && step.Do != "give up" {
		want.Token = o.token()
	}
	if got.Replayed { // it does not say again what it ended
		want.Token = got.Token
	}
	want.Replayed = got.Replayed // whether the first sending or a later one did it is the store's affair
	if err != nil || got != want {
		t.Fatalf("after all tries:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
	again, err := g.send(t.Context(), step, token)
	if want = o.answer(step, token, clock.Now()); err != nil || again != want {
		t.Errorf("once more:\ngot  %+v, %v\nwant %+v", again, err, want)
	}
	if err := g.compare(t.Context(), "k", o); err != nil {
		t.Error(err)
	}
	clock.Advance(time.Hour)
	next := GateStep{ID: "k", Owner: "bob", Request: "b1", TTL: 60, Do: "acquire"}
	want = o.answer(next, 0, clock.Now())
	if got, err := g.send(t.Context(), next, 0); err != nil || got != want {
		t.Errorf("the next acquire:\ngot  %+v, %v\nwant %+v", got, err, want)
	}
}
