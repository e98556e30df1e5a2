package once_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// job is a gate of one job that comes round again, with a clock of its own.
type job struct {
	mu    sync.Mutex
	ahead time.Duration // of its clock, before that of the process

	due      time.Time // of the latest run
	finished bool
	owner    string
	token    int64
	end      time.Time // of its lock
	asked    []time.Time
}

func (j *job) now() time.Time { return time.Now().Add(j.ahead) }

func (j *job) Acquire(_ context.Context, r once.Acquire) (once.Grant, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	j.asked = append(j.asked, r.Due)
	switch {
	case r.GiveUp:
		return once.Grant{}, nil
	case now.Before(r.Due) || !now.Before(r.NextDue):
		return once.Grant{Reason: contracts.SkipNotDue, Now: now, Due: j.due}, nil
	case j.owner != "" && now.Before(j.end):
		return once.Grant{Reason: contracts.SkipLocked, RetryAfter: j.end.Sub(now), Due: j.due}, nil
	case j.finished && !j.due.Before(r.Due):
		return once.Grant{Reason: contracts.SkipAlreadyFinished, Status: "READY", Due: j.due}, nil
	}
	j.token++
	j.due, j.finished, j.owner, j.end = r.Due, false, r.Owner, now.Add(r.TTL)
	return once.Grant{Acquired: true, Lock: once.Lock{RunID: r.RunID, Owner: r.Owner, Token: j.token, ExpiresAt: j.end},
		Remaining: r.TTL, Runs: 1, Due: r.Due}, nil
}

func (j *job) Refresh(_ context.Context, _ once.Lock, ttl time.Duration) (time.Time, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end = j.now().Add(ttl)
	return j.end, nil
}

func (j *job) Release(context.Context, once.Lock, string) error { return j.leave(false) }

func (j *job) Finish(context.Context, once.Lock, once.Result) error { return j.leave(true) }

func (j *job) leave(finished bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owner, j.finished = "", finished
	return nil
}

// nights are due at midnight.
type nights struct{}

func (nights) Around(now time.Time) (due, next time.Time) {
	due = now.UTC().Truncate(24 * time.Hour)
	return due, due.Add(24 * time.Hour)
}

// TestScheduleByTheGatesClock: which run is due, the gate's clock says. A process whose clock is ahead by a little waits
// for the run that it was started for; one whose clock is wrong runs what is due by the gate.
func TestScheduleByTheGatesClock(t *testing.T) {
	night := func(n int) time.Time { return bubble.AddDate(0, 0, n) }
	for name, c := range map[string]struct {
		started, ahead time.Duration // by the process; of the gate's clock
		due            time.Time
		begins         time.Duration // by the process
	}{
		"the same clock":                     {24 * time.Hour, 0, night(1), 24 * time.Hour},
		"caught up in the morning":           {32 * time.Hour, 0, night(1), 32 * time.Hour},
		"a clock that is ahead":              {24 * time.Hour, -2 * time.Second, night(1), 24*time.Hour + 2*time.Second},
		"ahead by as much as is waited for":  {24 * time.Hour, -10 * time.Minute, night(1), 24*time.Hour + 10*time.Minute},
		"ahead by more":                      {24 * time.Hour, -10*time.Minute - time.Second, night(0), 24 * time.Hour},
		"ahead by a week":                    {24 * time.Hour, -7 * 24 * time.Hour, night(-6), 24 * time.Hour},
		"behind, but not in another night":   {24 * time.Hour, time.Hour, night(1), 24 * time.Hour},
		"behind, and the night is another":   {23 * time.Hour, 2 * time.Hour, night(1), 23 * time.Hour},
		"behind by a week":                   {24 * time.Hour, 7 * 24 * time.Hour, night(8), 24 * time.Hour},
		"a moment before midnight, and late": {24*time.Hour - time.Millisecond, time.Millisecond, night(1), 24*time.Hour - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(c.started)
				j := &job{ahead: c.ahead}
				var began time.Duration
				out := run(t, t.Context(), j, func(context.Context, once.Lock) (string, error) {
					began = time.Since(bubble)
					return "", nil
				}, &once.Options{Schedule: nights{}})
				if out.Status != once.Ready || !out.Due.Equal(c.due) || began != c.begins {
					t.Errorf("%+v, began at %v; want the run of %v at %v", out, began, c.due, c.begins)
				}
				again := run(t, t.Context(), j, say(""), &once.Options{Schedule: nights{}})
				if again.Status != once.AlreadyFinished || !again.Due.Equal(c.due) {
					t.Errorf("a second time: %+v", again)
				}
			})
		})
	}
}

// TestAnEarlierRunIsAtWork: the run that is due waits for it, and begins when it has ended; if that is not before the
// next is due, it had no run, and that is said. It asks seldom.
func TestAnEarlierRunIsAtWork(t *testing.T) {
	for name, c := range map[string]struct {
		work time.Duration // of the earlier run, from the beginning of its night
		want once.Status
	}{
		"it ends in time":       {30 * time.Hour, once.Ready},
		"it ends in the end":    {48*time.Hour - time.Minute, once.Ready},
		"it goes on for longer": {49 * time.Hour, once.Locked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &job{}
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = once.Run(t.Context(), j, "a1", func(context.Context, once.Lock) (string, error) {
						time.Sleep(c.work)
						return "", nil
					}, &once.Options{Schedule: nights{}, Owner: "first"})
				}()
				time.Sleep(24 * time.Hour)
				took := time.Duration(0)
				out := run(t, t.Context(), j, func(context.Context, once.Lock) (string, error) {
					took = time.Since(bubble)
					return "", nil
				}, &once.Options{Schedule: nights{}, Owner: "second"})
				if c.want == once.Locked {
					took = time.Since(bubble)
				}
				<-done
				if out.Status != c.want || !out.Due.Equal(bubble.AddDate(0, 0, 1)) {
					t.Errorf("%+v", out)
				}
				if c.want == once.Ready && took > c.work+30*time.Second || c.want == once.Locked &&
					(took > 48*time.Hour+30*time.Second || !out.AtWork.Equal(bubble)) {
					t.Errorf("after %v: %+v", took, out)
				}
				if n := len(j.asked); n > 24*60*5 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// never is a schedule that has no run at any time.
type never struct{}

func (never) Around(time.Time) (due, next time.Time) {
	return bubble.AddDate(-1, 0, 0), bubble.AddDate(-1, 0, 1)
}

// TestAScheduleWithoutARun: a schedule that does not name the run that is due is an error, after few requests.
func TestAScheduleWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &job{}
		_, err := once.Run(t.Context(), j, "a1", say(""), &once.Options{Schedule: never{}})
		if err == nil || !strings.Contains(err.Error(), "Options.Schedule") || len(j.asked) > 10 {
			t.Errorf("%v after %d requests", err, len(j.asked))
		}
	})
}
