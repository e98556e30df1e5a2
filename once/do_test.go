package once_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

type invoice struct {
	Month string `json:"month"`
	Total int    `json:"total"`
	draft bool   // is not kept
}

// TestDo: the first call and every later one have the same result, and the work runs in the first.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ran := 0
		for range 3 {
			got, err := once.Do(t.Context(), f, "a1", func(_ context.Context, l once.Lock) (invoice, error) {
				ran++
				return invoice{"2026-11", int(l.Token), true}, nil
			}, nil)
			want(t, "error", err, nil)
			want(t, "result", got, invoice{Month: "2026-11", Total: 1})
		}
		want(t, "runs", ran, 1)
		want(t, "kept", f.result.Result, `{"month":"2026-11","total":1}`)
	})
}

// TestDoErrors: whenever the work is not done, or was lost, there is an error, and it says which case it is.
func TestDoErrors(t *testing.T) {
	broken := errors.New("the printer is on fire")
	fails := func(err error) func(context.Context, once.Lock) (invoice, error) {
		return func(context.Context, once.Lock) (invoice, error) { return invoice{Total: 1}, err }
	}
	later := func(ctx context.Context, _ once.Lock) (invoice, error) { return invoice{}, work(ctx, 10*time.Minute) }
	for name, c := range map[string]struct {
		gate    *fake
		id      string
		timeout time.Duration
		work    func(context.Context, once.Lock) (invoice, error)
		o       *once.Options
		status  once.Status
		is      error
		text    string
	}{
		"failed":           {work: fails(broken), status: once.Retry, is: broken},
		"failed for good":  {work: fails(once.Permanent(broken)), status: once.Failed, is: broken},
		"failed too often": {work: fails(broken), o: &once.Options{MaxFailures: 1}, status: once.Failed, is: broken},
		"failed before": {gate: &fake{status: "FAILED", result: once.Result{Failed: true, Reason: "no paper"}},
			status: once.AlreadyFailed, is: once.ErrFailed,
			text: `run "a1": already_failed: the run was FAILED before, and does not begin again unless it is retried: no paper`},
		"locked": {gate: &fake{owner: "other", end: bubble.Add(time.Hour)}, status: once.Locked, is: once.ErrLocked,
			text: `run "a1": locked: another worker has the run`},
		"lost": {gate: &fake{fault: func(_ context.Context, c call) (error, bool) {
			if c.name == "refresh" {
				return contracts.CodeLeaseLost, false
			}
			return nil, false
		}}, work: later, status: once.Lost, is: once.ErrLost},
		"any loss": {gate: &fake{fault: func(_ context.Context, c call) (error, bool) {
			if c.name == "finish" {
				return contracts.CodeNotOwner, false
			}
			return nil, false
		}}, work: fails(nil), status: once.Lost, is: contracts.ErrLost},
		"stopped": {work: later, timeout: time.Minute, status: once.Stopped, is: context.DeadlineExceeded},
		"unknown": {id: "a2", status: once.Unknown,
			text: `run "a2": unknown_analysis: there is no such run: its producer makes it, or once.Creating does`},
		"another's text": {gate: &fake{status: "READY", result: once.Result{Result: "s3://a1"}},
			status: once.AlreadyFinished},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, gate, id := t.Context(), c.gate, "a1"
				if gate == nil {
					gate = &fake{}
				}
				if c.id != "" {
					id = c.id
				}
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				if c.work == nil {
					c.work = func(context.Context, once.Lock) (invoice, error) { panic("the work must not run") }
				}
				got, err := once.Do(ctx, gate, id, c.work, c.o)
				want(t, "result", got, invoice{})
				e, ok := errors.AsType[*once.Error](err)
				if !ok {
					t.Fatalf("the error is %v", err)
				}
				want(t, "run", e.RunID, id)
				want(t, "status", e.Outcome.Status, c.status)
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("the error is %v, and not %v", err, c.is)
				}
				if c.text != "" {
					want(t, "text", err.Error(), c.text)
				}
			})
		})
	}
}

// TestDoWithoutResult: what finished without a result has the zero value.
func TestDoWithoutResult(t *testing.T) {
	never := func(context.Context, once.Lock) (*invoice, error) { panic("the work must not run") }
	got, err := once.Do(t.Context(), &fake{status: "READY"}, "a1", never, nil)
	want(t, "error", err, nil)
	want(t, "result", got, nil)
}

// TestDoResultThatCannotBeKept: the work is done and is not done again, and its first caller learns of it.
func TestDoResultThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ran := 0
		for range 2 {
			_, err := once.Do(t.Context(), f, "a1", func(context.Context, once.Lock) (float64, error) {
				ran++
				return math.NaN(), nil
			}, nil)
			if err == nil {
				t.Error("no error")
			}
		}
		want(t, "runs", ran, 1)
		want(t, "status", f.status, "FAILED")
	})
	synctest.Test(t, func(t *testing.T) { // what goes in, and does not come out
		f := &fake{}
		_, err := once.Do(t.Context(), f, "a1", func(context.Context, once.Lock) (error, error) {
			return errors.New("a result"), nil
		}, nil)
		want(t, "status", f.status, "FAILED")
		if err == nil {
			t.Error("no error")
		}
	})
}

// TestDoArguments: nothing runs, and the error says why.
func TestDoArguments(t *testing.T) {
	_, err := once.Do[int](t.Context(), &fake{}, "a1", nil, nil)
	want(t, "error", err.Error(), "run once: the work is nil")
	_, err = once.Do(t.Context(), nil, "a1", func(context.Context, once.Lock) (int, error) { return 1, nil }, nil)
	want(t, "error", err.Error(), "run once: the gate is nil")
}
