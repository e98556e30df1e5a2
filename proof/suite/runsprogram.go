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

	Round string // of an acquire: the due time, of one each minute, that is now, before or next; or each half minute
}

// round is which run of a job the step asks for.
func (s RunStep) round(now time.Time) analysis.Round {
	due := now.Truncate(time.Minute)
	switch s.Round {
	case "":
		return analysis.Round{}
	case "every":
		return analysis.Round{EverySeconds: 30}
	case "before":
		due = due.Add(-time.Minute)
	case "next":
		due = due.Add(time.Minute)
	}
	return analysis.Round{Due: due, Next: due.Add(time.Minute)}
}

var runProgram = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) RunStep {
	s := RunStep{GateStep: genStep.Draw(t, "step"),
		Keep:  rapid.SampledFrom([]int64{0, 0, 60, 60, 61, 3600}).Draw(t, "keep"),
		About: rapid.SampledFrom([]string{"", "f1", "f1", "f1", "f2"}).Draw(t, "about")}
	s.Round = rapid.SampledFrom([]string{"", "", "now", "now", "now", "before", "next", "every"}).Draw(t, "round")
	s.Once = rapid.IntRange(0, 3).Draw(t, "at most once") == 0
	s.Wait = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 2 * time.Second, time.Minute - time.Millisecond,
		time.Minute, time.Minute + time.Millisecond, 10 * time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "wait")
	s.Do = rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "acquire", "finish", "finish", "give up",
		"refresh", "release", "retry", "again", "remove"}).Draw(t, "command")
	s.ID, s.Again = rapid.SampledFrom([]string{"k", "k", "k", "l"}).Draw(t, "run"), false
	return s
}), 1, 40)

// runOracle is the oracle of the gate for a run that is kept for a while.
type runOracle struct {
	*gateOracle

	exists bool
	about  string
	keep   int64     // how long it is kept after the end of its lock
	until  time.Time // that end, and as much later
	due    time.Time // of which time the latest run of a job is
	begun  time.Time // when it began
}

// answer is what a command gets.
func (o *runOracle) answer(s RunStep, token int64, now time.Time) GateAnswer {
	if o.exists && !o.until.After(now) { // nothing is left of it but its requests, and its token, which goes on
		if r := o.current(); r != nil {
			r.over = true
		}
		o.fresh()
		o.exists, o.keep = false, 0
	}
	round := s.round(now)
	if s.Of = fmt.Sprint(round); round == (analysis.Round{}) {
		s.Of = ""
	}
	place, _ := o.remembered(s.GateStep)
	if s.Do == "remove" {
		return o.remove(s, now)
	}
	switch {
	case !o.exists && s.Do != "acquire" && s.Do != "give up":
		return o.refuse("NOT_FOUND")
	case s.Do == "acquire" && place < 0 && !round.Due.IsZero() && (now.Before(round.Due) || !now.Before(round.Next)):
		a := o.refuse("NOT_DUE")
		a.RetryAfter = max(0, round.Due.Sub(now))
		return a
	case s.Do == "acquire" && place < 0 && o.renews(round, now) && (!s.Ends || s.End >= 0 && s.End <= time.Hour):
		if r := o.current(); r != nil {
			r.over = true
		}
		o.fresh()
	case s.Do == "acquire" && place < 0 && o.renews(round, now): // an end is judged as that of a run that is free
		return (&gateOracle{}).answer(s.GateStep, token, now)
	case s.Do == "acquire" && round.Due.After(o.due): // what it is about is compared with its own run
	case s.Do == "acquire" && s.About != "" && o.about != "" && s.About != o.about:
		return o.refuse("RUN_DIFFERS")
	}
	finished, began := o.finished(), o.begun
	a := o.gateOracle.answer(s.GateStep, token, now)
	if finished && s.Do == "acquire" && a.Code == "ALREADY_FINISHED" && round.EverySeconds > 0 {
		if began.IsZero() {
			began = o.ended
		}
		a.RetryAfter = max(0, began.Add(30*time.Second).Sub(now))
	}
	if done := a.Code == "OK" && !a.Replayed || o.finished() != finished; !done || s.Do == "give up" {
		return a
	}
	if s.Do == "acquire" && a.Code == "OK" && round != (analysis.Round{}) {
		if o.begun = now; o.due.Before(round.Due) {
			o.due = round.Due
		}
	}
	switch {
	case s.Keep > 0 && s.Do != "retry" && s.Do != "again":
		o.keep = s.Keep
	case s.Do == "acquire" && round != (analysis.Round{}):
		o.keep = 24 * 60 * 60
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

// fresh is what is left of a record whose runs count no more.
func (o *runOracle) fresh() {
	g := o.gateOracle
	o.gateOracle = &gateOracle{begun: g.begun, run: g.run, memory: g.memory, retries: g.retries, made: true}
	o.about, o.due, o.begun = "", time.Time{}, time.Time{}
}

// renews reports whether a run of a job begins anew.
func (o *runOracle) renews(round analysis.Round, now time.Time) bool {
	if r := o.current(); r != nil && r.until.After(now) {
		return false
	}
	if !round.Due.IsZero() {
		return o.due.Before(round.Due)
	}
	begun := o.begun
	if begun.IsZero() {
		begun = o.ended
	}
	return round.EverySeconds > 0 && o.finished() && !begun.Add(30*time.Second).After(now)
}

// remove forgets the record, but for its token and its requests.
func (o *runOracle) remove(s RunStep, now time.Time) GateAnswer {
	for _, m := range o.memory {
		if m.owner == "remove by "+s.Owner && m.request == s.Request {
			if m.of != s.Reason {
				return o.refuse("REQUEST_ID_REUSED")
			}
			return GateAnswer{Answer: Answer{Code: "OK", Replayed: true}}
		}
	}
	if !o.exists {
		return o.refuse("NOT_FOUND")
	}
	if r := o.current(); r != nil {
		if r.until.After(now) {
			return GateAnswer{Answer: Answer{Code: "RUN_IN_PROGRESS", Holder: r.owner, Expires: r.until},
				RetryAfter: r.until.Sub(now)}
		}
		r.over = true
	}
	copy(o.memory[1:], o.memory[:])
	o.memory[0] = asked{owner: "remove by " + s.Owner, request: s.Request, of: s.Reason}
	o.fresh()
	o.exists, o.keep, o.until = false, 0, time.Time{}
	return GateAnswer{Answer: Answer{Code: "OK"}}
}

// runRuns carries out a program on a store whose clock is clock and returns the first difference from the oracle.
func runRuns(ctx context.Context, store docstore.Store, clock *Clock, name string, program []RunStep) error {
	all := runs.New(store, &runs.Options{Options: analysis.Options{Now: clock.Now, MaxTakeovers: programTakeovers}})
	oracles := map[string]*runOracle{"k": {gateOracle: &gateOracle{made: true}}, "l": {gateOracle: &gateOracle{made: true}}}
	for i, s := range program {
		clock.Advance(s.Wait)
		o, id := oracles[s.ID], runs.ID{Tenant: "acme", ID: name + " " + s.ID}
		token := max(1, o.token()-s.Back)
		if s.FinishedAt = o.before; s.Named == 0 {
			s.FinishedAt = time.Time{}
		} else if s.Named == 1 {
			s.FinishedAt = o.ended
		}
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
		s.Result != o.result || s.Fingerprint != o.about || !s.Due.Equal(o.due) || len(p.Runs) != 1 {
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
	case "retry", "again":
		from := map[string]analysis.Status{"retry": analysis.Failed, "again": analysis.Ready}
		o, err = all.Retry(ctx, runs.Retry{ID: id, By: s.Owner, Reason: s.Reason, RequestID: s.Request, From: from[s.Do],
			FinishedAt: s.FinishedAt})
	case "remove":
		o, err = all.Remove(ctx, runs.Remove{ID: id, By: s.Owner, Reason: s.Reason, RequestID: s.Request})
	case "acquire", "give up":
		c := runs.Begin{ID: id, Owner: s.Owner, RequestID: s.Request, TTLSeconds: s.TTL, MaxFailures: s.MaxFailures,
			Fingerprint: s.About, KeepSeconds: s.Keep, Round: s.round(clock.Now())}
		if s.Once {
			c.MaxTakeovers = new(int64)
		}
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
