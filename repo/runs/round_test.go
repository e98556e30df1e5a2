package runs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

func (b *bench) midnight(days int) time.Time {
	return time.Date(2026, 1, 1+days, 0, 0, 0, 0, time.UTC)
}

// night makes a begin that of the run of a job, which is due on a day of January.
func (b *bench) night(days int) func(*runs.Begin) {
	return func(c *runs.Begin) {
		c.Round = analysis.Round{Due: b.midnight(days), Next: b.midnight(days + 1)}
		c.KeepSeconds, c.Fingerprint = 0, ""
	}
}

func every(seconds int64) func(*runs.Begin) {
	return func(c *runs.Begin) {
		c.Round = analysis.Round{EverySeconds: seconds}
		c.KeepSeconds, c.Fingerprint = 0, ""
	}
}

// took checks what a command cost.
func (b *bench) took(t *testing.T, what string, o runs.Outcome, code analysis.Code, requests int) {
	t.Helper()
	if o.Code != code || b.requests != requests {
		t.Errorf("%s: %s %q with %d requests; want %s with %d", what, o.Code, o.Detail, b.requests, code, requests)
	}
	b.requests = 0
}

// TestRequestsOfAJob: a run that is due takes two requests, of which the first one reads the store's time; one that may
// come again after a while takes one, and two when it does.
func TestRequestsOfAJob(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1", b.night(0))
	b.took(t, "the first night", first, analysis.OK, 2)
	if want := b.at.Add(10*time.Second + 48*time.Hour); b.kept != want.Sub(b.at) {
		t.Errorf("it is kept for %v", b.kept)
	}
	b.took(t, "sent again", b.begin(t, "ann", "r1", b.night(0)), analysis.OK, 1)
	b.took(t, "another machine", b.begin(t, "bob", "r1", b.night(0)), analysis.Locked, 1)
	b.finish(t, first.Grant.Token, "done")
	b.requests = 0
	b.took(t, "once a night", b.begin(t, "bob", "r2", b.night(0)), analysis.AlreadyFinished, 1)
	b.took(t, "tomorrow's", b.begin(t, "bob", "r3", b.night(1)), analysis.NotDue, 1)
	b.at = b.midnight(1)
	b.took(t, "yesterday's", b.begin(t, "bob", "r4", b.night(0)), analysis.NotDue, 1)
	second := b.begin(t, "bob", "r5", b.night(1))
	b.took(t, "the next night", second, analysis.OK, 2)
	if second.Grant.Token != first.Grant.Token+1 || !second.Due.Equal(b.midnight(1)) {
		t.Errorf("%+v", second)
	}
	b.at = b.at.Add(10 * time.Second)
	b.took(t, "a takeover", b.begin(t, "ann", "r6", b.night(1)), analysis.OK, 2)

	b = open()
	first = b.begin(t, "ann", "r1", every(3600))
	b.took(t, "the first one", first, analysis.OK, 1)
	b.finish(t, first.Grant.Token, "done")
	b.requests = 0
	b.took(t, "too early", b.begin(t, "ann", "r2", every(3600)), analysis.AlreadyFinished, 1)
	b.at = b.at.Add(time.Hour)
	b.took(t, "an hour after its beginning", b.begin(t, "ann", "r3", every(3600)), analysis.OK, 2)
}

// TestEachNightBeginsAnew: its failures, takeovers, result and what it is about are its own, and its predecessor's work
// that comes late is refused.
func TestEachNightBeginsAnew(t *testing.T) {
	b := open()
	first := b.begin(t, "ann", "r1", b.night(0), about("f1"), func(c *runs.Begin) { c.MaxFailures = 1 })
	if _, err := b.runs.Release(t.Context(), runs.Release{ID: order, Owner: "ann", Token: first.Grant.Token,
		Failed: "no disk"}); err != nil {
		t.Fatal(err)
	}
	o := b.begin(t, "ann", "r2", b.night(0), about("f1"), func(c *runs.Begin) { c.MaxFailures = 1 })
	if o.Code != analysis.AlreadyFinished || o.Grant.Status != analysis.Failed {
		t.Fatalf("%+v", o)
	}
	b.at = b.midnight(1)
	o = b.begin(t, "ann", "r3", b.night(1), about("f2"), func(c *runs.Begin) { c.MaxFailures = 1 })
	s, _, err := b.runs.Get(t.Context(), order)
	if err != nil || o.Code != analysis.OK || o.Grant.Failures != 0 || o.Grant.Runs != 1 || s.Fingerprint != "f2" ||
		s.Reason != "" || s.Status != "" {
		t.Errorf("%+v, %+v, %v", o, s, err)
	}
	if late := b.finish(t, first.Grant.Token, "late"); late.Code != analysis.Lost {
		t.Errorf("%+v", late)
	}
}

// TestADueTimeAheadOfTheClock: one that a wrong clock has let begin counts as none when the clock is right again, and
// so does a beginning.
func TestADueTimeAheadOfTheClock(t *testing.T) {
	b := open()
	b.at = b.midnight(100)
	b.finish(t, b.begin(t, "ann", "r1", b.night(100)).Grant.Token, "too early")
	b.at = b.midnight(1)
	b.took(t, "the night by the right clock", b.begin(t, "ann", "r2", b.night(1)), analysis.OK, 5)

	b = open()
	b.at = b.midnight(100)
	b.finish(t, b.begin(t, "ann", "r1", every(60)).Grant.Token, "too early")
	b.at = b.midnight(1)
	b.took(t, "by the right clock", b.begin(t, "ann", "r2", every(60)), analysis.OK, 4)
}

// TestKeepOfAJob: the record of a job is kept until its next run, at the bound and beyond.
func TestKeepOfAJob(t *testing.T) {
	for _, c := range []struct {
		keep, every int64
		ok          bool
	}{{3600, 3600, true}, {3599, 3600, false}, {0, 3600, true}, {runs.MaxKeepSeconds, runs.MaxKeepSeconds, true},
		{runs.MaxKeepSeconds + 1, 60, false}, {0, runs.MaxKeepSeconds, true}, {0, runs.MaxKeepSeconds + 1, false},
		{0, 10 * runs.MaxKeepSeconds, false}} {
		b := open()
		_, err := b.runs.Begin(t.Context(), runs.Begin{ID: order, Owner: "ann", RequestID: "r1", TTLSeconds: 10,
			KeepSeconds: c.keep, Round: analysis.Round{EverySeconds: c.every}})
		if (err == nil) != c.ok || err != nil && !isField(err) {
			t.Errorf("kept for %d s, every %d s: %v", c.keep, c.every, err)
		}
	}
}

// TestTakenInBetween: where another worker has had the run and left it between the two requests of a begin, that is
// said as what it is: nothing was changed, and the same request gets it the next time.
func TestTakenInBetween(t *testing.T) {
	b := open()
	b.between = func() {
		o := b.begin(t, "bob", "r9", b.night(0))
		if _, err := b.runs.Release(t.Context(), runs.Release{ID: order, Owner: "bob", Token: o.Grant.Token}); err != nil {
			t.Error(err)
		}
	}
	c := runs.Begin{ID: order, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
	b.night(0)(&c)
	if o, err := b.runs.Begin(t.Context(), c); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := b.runs.Begin(t.Context(), c); err != nil || o.Code != analysis.OK {
		t.Errorf("%+v, %v", o, err)
	}
}
