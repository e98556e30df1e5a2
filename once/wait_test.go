package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// TestEarlierResult: what has finished is not run again, and the outcome has its result, or why it failed.
func TestEarlierResult(t *testing.T) {
	f := &fake{}
	first := run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) { return "42", nil }, nil)
	want(t, "first", first, once.Outcome{Status: once.Ready, Token: 1, Result: "42"})
	never := func(context.Context, once.Lock) (string, error) { panic("the work must not run") }
	want(t, "second", run(t, t.Context(), f, never, nil), once.Outcome{Status: once.AlreadyFinished, Result: "42"})

	f = &fake{status: "FAILED", result: once.Result{Failed: true, Reason: "no memory"}}
	out := run(t, t.Context(), f, never, nil)
	if out.Status != once.AlreadyFailed || !errors.Is(out.Err, once.ErrFailed) ||
		!strings.HasSuffix(out.Err.Error(), ": no memory") || out.Result != "" {
		t.Errorf("%+v", out)
	}
}

// TestWaitForTheOther: Run returns the result of the worker that runs it now, asks the gate seldom, and does not run
// the work itself.
func TestWaitForTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		go func() { _, _ = once.Run(t.Context(), f, "a1", say("done"), &once.Options{Owner: "w1"}) }()
		time.Sleep(time.Second)
		never := func(context.Context, once.Lock) (string, error) { panic("the work must not run") }
		out := run(t, t.Context(), f, never, &once.Options{Owner: "w2", Wait: 5 * time.Minute})
		want(t, "outcome", out, once.Outcome{Status: once.AlreadyFinished, Result: "done"})
		if took := time.Since(bubble); took < 90*time.Second || took > 91*time.Second {
			t.Errorf("it waited until %v, and the other ended at 90s", took)
		}
		if asked := f.times("acquire"); len(asked) < 90 || len(asked) > 190 {
			t.Errorf("%d requests for the run in 89 seconds", len(asked))
		}
		synctest.Wait()
	})
}

// TestWaitTakesOver: a worker that dies is replaced by the one that waits, as soon as the lock has expired.
func TestWaitTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{owner: "w1", token: 1, runs: 1, end: bubble.Add(10 * time.Second)}
		out := run(t, t.Context(), f, say("mine"), &once.Options{Owner: "w2", Wait: time.Minute})
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 2, Result: "mine"})
		if asked := f.times("acquire"); asked[len(asked)-1] > 10*time.Second+time.Millisecond {
			t.Errorf("the lock expired at 10s, and was asked for at %v", asked)
		}
	})
}

// TestWaitIsBounded, and ends with the caller's context.
func TestWaitIsBounded(t *testing.T) {
	never := func(context.Context, once.Lock) (string, error) { panic("the work must not run") }
	synctest.Test(t, func(t *testing.T) {
		f := &fake{owner: "w1", token: 1, runs: 1, end: bubble.Add(time.Hour)}
		out := run(t, t.Context(), f, never, &once.Options{Wait: 3 * time.Second})
		want(t, "time", time.Since(bubble), 3*time.Second)
		want(t, "outcome", out, once.Outcome{Status: once.Locked, RetryAfter: time.Hour - 3*time.Second})

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		out = run(t, ctx, f, never, &once.Options{Wait: time.Minute})
		want(t, "time", time.Since(bubble), 5*time.Second)
		if out.Status != once.Stopped || !errors.Is(out.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", out)
		}
		want(t, "calls", f.names(), []string{"acquire", "give up"})
	})
}

// TestFingerprint: it goes with the request, and a gate that says that the ID was used for something else ends the
// call.
func TestFingerprint(t *testing.T) {
	f := &fake{}
	run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) { return "", nil },
		&once.Options{Fingerprint: "f1"})
	never := func(context.Context, once.Lock) (string, error) { panic("the work must not run") }
	if _, err := once.Run(t.Context(), f, "a1", never, &once.Options{RequestID: "r2", Fingerprint: "f2"}); !errors.Is(err,
		contracts.CodeRunDiffers) {
		t.Error(err)
	}
	want(t, "outcome", run(t, t.Context(), f, never, &once.Options{Fingerprint: "f1"}).Status, once.AlreadyFinished)
	for name, o := range map[string]once.Options{
		"Options.Fingerprint": {Fingerprint: strings.Repeat("f", 129)},
		"Options.Wait":        {Wait: -1},
	} {
		if _, err := once.Run(t.Context(), f, "a1", never, &o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
