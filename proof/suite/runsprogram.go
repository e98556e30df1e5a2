package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// Runs proves that named runs work on a store which removes no record: random programs, in which much time passes,
// compared with the oracle of the gate, and with what is said here of how long a run is kept. newStore is as for
// [Locks].
func Runs(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	runsProof.of(t, newStore)
}

var runsProof = proof[RunStep]{program: runProgram, run: runRuns}

// RunStep is a step of a program of named runs.
type RunStep struct {
	GateStep

	Keep  int64 // of each command, in seconds; 0 leaves it out
	About string
}

var runProgram = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) RunStep {
	s := RunStep{GateStep: genStep.Draw(t, "step"),
		Keep:  rapid.SampledFrom([]int64{0, 0, 60, 60, 61, 3600}).Draw(t, "keep"),
		About: rapid.SampledFrom([]string{"", "f1", "f1", "f1", "f2"}).Draw(t, "about")}
	s.Wait = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 2 * time.Second, time.Minute - time.Millisecond,
		time.Minute, time.Minute + time.Millisecond, 10 * time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "wait")
	s.Do = rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "finish", "finish", "give up", "refresh",
		"release"}).Draw(t, "command")
	s.ID, s.Named, s.Again = rapid.SampledFrom([]string{"k", "k", "k", "l"}).Draw(t, "run"), 0, false
	return s
}), 1, 40)

// runOracle is the oracle of the gate for a run that is kept for a while.
type runOracle struct {
	*gateOracle

	exists bool
	about  string
	keep   int64     // how long it is kept after the end of its lock
	until  time.Time // that end, and as much later
}

// answer is what a command gets.
func (o *runOracle) answer(s RunStep, token int64, now time.Time) GateAnswer {
	if o.exists && !o.until.After(now) { // nothing is left of it but its requests, and its token, which goes on
		if r := o.current(); r != nil {
			r.over = true
		}
		*o = runOracle{gateOracle: &gateOracle{begun: o.begun, run: o.run, memory: o.memory}}
	}
	switch {
	case !o.exists && s.Do != "acquire" && s.Do != "give up":
		return o.refuse("NOT_FOUND")
	case s.Do == "acquire" && s.About != "" && o.about != "" && s.About != o.about:
		return o.refuse("RUN_DIFFERS")
	}
	finished := o.finished()
	a := o.gateOracle.answer(s.GateStep, token, now)
	if done := a.Code == "OK" && !a.Replayed || o.finished() != finished; !done || s.Do == "give up" {
		return a
	}
	switch {
	case s.Keep > 0:
		o.keep = s.Keep
	case !o.exists:
		o.keep = 24 * 60 * 60
	}
	o.exists, o.until = true, now.Add(time.Duration(o.keep)*time.Second)
	if o.current() != nil {
		o.until = o.until.Add(time.Duration(s.TTL) * time.Second)
		if o.about == "" && s.Do == "acquire" {
			o.about = s.About
		}
	}
	return a
}

// runRuns carries out a program on a store whose clock is clock and returns the first difference from the oracle.
func runRuns(ctx context.Context, store docstore.Store, clock *Clock, name string, program []RunStep) error {
	all := runs.New(store, &runs.Options{Options: analysis.Options{Now: clock.Now, MaxTakeovers: programTakeovers}})
	oracles := map[string]*runOracle{"k": {gateOracle: &gateOracle{}}, "l": {gateOracle: &gateOracle{}}}
	for i, s := range program {
		clock.Advance(s.Wait)
		o, id := oracles[s.ID], runs.ID{Tenant: "acme", ID: name + " " + s.ID}
		token := max(1, o.token()-s.Back)
		want := o.answer(s, token, clock.Now())
		got, err := sendToRun(ctx, all, id, clock, s, token)
		if err != nil {
			return fmt.Errorf("step %d %+v: %w", i, s, err)
		}
		if s.Do == "acquire" && got.Code == "OK" {
			if o.learn(got.Token); want.Code == "OK" {
				want.Token = o.token()
			}
		}
		if got != want {
			return fmt.Errorf("step %d %+v at %v, token %d:\ngot  %+v\nwant %+v", i, s, clock.Now(), token, got, want)
		}
		for run, o := range oracles {
			if err := o.compare(ctx, all, runs.ID{Tenant: "acme", ID: name + " " + run}, clock.Now()); err != nil {
				return fmt.Errorf("step %d %+v at %v: %w", i, s, clock.Now(), err)
			}
		}
	}
	return nil
}

// compare looks at the run as its readers do.
func (o *runOracle) compare(ctx context.Context, all *runs.Runs, id runs.ID, now time.Time) error {
	s, _, err := all.Get(ctx, id)
	if err != nil {
		return err
	}
	p, err := all.List(ctx, runs.List{Tenant: id.Tenant, Prefix: id.ID})
	if err != nil {
		return err
	}
	if !o.exists || !o.until.After(now) {
		if s.Exists || s.Status != "" || s.Result != "" || len(p.Runs) != 0 {
			return fmt.Errorf("%s is kept no longer, and shown as %+v, listed as %+v", id.ID, s, p.Runs)
		}
		return nil
	}
	owner := ""
	if r := o.current(); r != nil {
		owner = r.owner
	}
	if !s.Exists || string(s.Status) != o.status || s.Owner != owner || s.Failures != o.failures || s.Runs != o.streak ||
		s.Result != o.result || s.Fingerprint != o.about || len(p.Runs) != 1 {
		return fmt.Errorf("%s is shown as %+v, listed as %+v; want %+v, %+v", id.ID, s, p.Runs, *o, *o.gateOracle)
	}
	return nil
}

// sendToRun carries out a command on a run.
func sendToRun(ctx context.Context, all *runs.Runs, id runs.ID, clock *Clock, s RunStep, token int64) (GateAnswer,
	error) {
	var (
		o   runs.Outcome
		err error
	)
	switch s.Do {
	case "acquire", "give up":
		c := runs.Begin{ID: id, Owner: s.Owner, RequestID: s.Request, TTLSeconds: s.TTL, MaxFailures: s.MaxFailures,
			Fingerprint: s.About, KeepSeconds: s.Keep}
		if s.Ends {
			c.NotAfter = docstore.TruncateMilli(clock.Now()).Add(s.End)
		}
		if s.Do == "give up" {
			o, err = all.GiveUp(ctx, c)
		} else {
			o, err = all.Begin(ctx, c)
		}
	case "refresh":
		o, err = all.Refresh(ctx, runs.Refresh{ID: id, Owner: s.Owner, Token: token, TTLSeconds: s.TTL, KeepSeconds: s.Keep})
	case "release":
		o, err = all.Release(ctx, runs.Release{ID: id, Owner: s.Owner, Token: token, Failed: s.reason(),
			KeepSeconds: s.Keep})
	default:
		c := runs.Finish{ID: id, Owner: s.Owner, Token: token, Status: analysis.Ready, Result: s.Result, KeepSeconds: s.Keep}
		if s.Failed {
			c.Status, c.Result, c.Reason = analysis.Failed, "", s.reason()
		}
		o, err = all.Finish(ctx, c)
	}
	return gateAnswer(o), err
}
