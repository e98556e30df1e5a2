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
// no second record. The rule is that of the gate, and so is the oracle; only the first acquire makes the document.
func AmbiguousRuns(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	everyFate(t, newStore, ambiguousRun, "acquire", "acquire stale", "acquire anew", "refresh", "release",
		"release failed", "finish", "finish failed", "give up", "give up stale", "give up a copy", "give up nothing")
}

var modelledRun = runs.ID{Tenant: "acme", ID: "order-7"}

func ambiguousRun(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	all := runs.New(store, &runs.Options{Options: analysis.Options{Now: clock.Now}})
	g := &ambiguousGate{clock: clock, keep: 3600, about: "f1", oracle: &runOracle{gateOracle: &gateOracle{made: true}}}
	g.send = func(ctx context.Context, s RunStep, token int64) (GateAnswer, error) {
		return sendToRun(ctx, all, modelledRun, clock, s, token)
	}
	g.learn = func(ctx context.Context) error {
		state, _, err := all.Get(ctx, modelledRun)
		g.oracle.learn(state.Token)
		return err
	}
	g.try(t, faults, do, fate, func(step GateStep) {
		if do == "acquire" && g.oracle.token() <= Epoch.UnixMicro() {
			t.Errorf("token %d", g.oracle.token())
		}
		p, err := store.List(t.Context(), docstore.Query{Kind: runs.Kind, Tenant: modelledRun.Tenant})
		if err != nil || len(p.Entries) != 1 {
			t.Errorf("%d records, %v", len(p.Entries), err)
		}
		state, _, err := all.Get(t.Context(), modelledRun)
		if err != nil || string(state.Status) != g.oracle.status || state.Result != step.Result {
			t.Errorf("the run is %+v, %v; want %s", state, err, g.oracle.status)
		}
		if step.Do == "give up" {
			g.expect(t, "a late copy", GateStep{Owner: step.Owner, Request: step.Request, TTL: step.TTL, Do: "acquire"}, 0)
		}
		if do == "give up nothing" {
			if state.Exists {
				t.Errorf("a run was made: %+v", state)
			}
		} else if o, err := all.Begin(t.Context(), runs.Begin{
			ID: modelledRun, Owner: "bob", RequestID: "b0", TTLSeconds: 60, Fingerprint: "f2", KeepSeconds: 3600,
		}); err != nil || o.Code != analysis.Differs {
			t.Errorf("something else: %+v, %v", o, err)
		}
	})
}
