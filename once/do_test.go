package once_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
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
			got, err := once.Do(t.Context(), f, "a1", "2026-11", func(_ context.Context, l once.Lock) (invoice, error) {
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
				got, err := once.Do(ctx, gate, id, nil, c.work, c.o)
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
	got, err := once.Do(t.Context(), &fake{status: "READY"}, "a1", nil, never, nil)
	want(t, "error", err, nil)
	want(t, "result", got, nil)
}

// What a result may be that cannot be kept.
type (
	panics struct{}
	goes   struct{}
	fails  struct{ err error }
	oneWay struct{ Number int }
	noWay  struct{ Number int }
	ring   struct{ Next *ring }
)

func (panics) MarshalJSON() ([]byte, error)  { panic("no ink") }
func (goes) MarshalJSON() ([]byte, error)    { runtime.Goexit(); return nil, nil }
func (f fails) MarshalJSON() ([]byte, error) { return nil, f.err }
func (*oneWay) UnmarshalJSON([]byte) error   { return errors.New("no way back") }
func (*noWay) UnmarshalJSON([]byte) error    { panic("no way back") }

// TestDoResultThatCannotBeKept: the work is done and is not done again, and its first caller learns why. It is the same
// when the caller has left meanwhile, or the lock has expired by the clocks of this process.
func TestDoResultThatCannotBeKept(t *testing.T) {
	circle := &ring{}
	circle.Next = circle
	deep := make([]any, 0)
	for range 10_001 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		result any
		text   string
	}{
		"NaN":                       {math.NaN(), "unsupported value: NaN"},
		"infinity":                  {[]float64{math.Inf(1)}, "unsupported value: +Inf"},
		"a circle":                  {circle, "encountered a cycle"},
		"a channel":                 {make(chan int), "unsupported type: chan int"},
		"too deep":                  {deep, "exceeded max depth"},
		"a method that panics":      {panics{}, "a method of the result panicked: no ink"},
		"a method that ends it all": {goes{}, "runtime.Goexit"},
		"a method that fails":       {fails{errors.New("no paper")}, "no paper"},
		"one that does not count":   {fails{once.Uncounted(errors.New("no paper"))}, "no paper"},
		"no way back":               {oneWay{1}, "no way back"},
		"a panic on the way back":   {noWay{1}, "a method of the result panicked: no way back"},
		"an error":                  {errors.New("a result"), "cannot unmarshal"},
		"too large":                 {strings.Repeat("x", once.MaxResultBytes-1), "the result has 262145 bytes, 262144 at most"},
	} {
		for end, way := range map[string]func(*fake, context.CancelFunc){
			"":              func(*fake, context.CancelFunc) {},
			" at the end":   func(_ *fake, cancel context.CancelFunc) { cancel() },
			" and too late": func(*fake, context.CancelFunc) { time.Sleep(6 * time.Minute) },
		} {
			t.Run(name+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fake{fault: failing("refresh", always, errNetwork, false)}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ran := 0
					call := func(ctx context.Context) error {
						return do(ctx, f, c.result, func() { ran++; way(f, cancel) })
					}
					e, ok := errors.AsType[*once.Error](call(ctx))
					if !ok || e.Outcome.Status != once.Failed || !strings.Contains(e.Error(), c.text) {
						t.Errorf("the first call: %v", e)
					}
					if err := call(t.Context()); !errors.Is(err, once.ErrFailed) || !strings.Contains(err.Error(), c.text) {
						t.Errorf("the second call: %v", err)
					}
					want(t, "runs", ran, 1)
					want(t, "status", f.status, "FAILED")
				})
			})
		}
	}
}

// do returns a result of its own type.
func do(ctx context.Context, f *fake, result any, during func()) (err error) {
	switch r := result.(type) {
	case oneWay:
		_, err = once.Do(ctx, f, "a1", nil, func(context.Context, once.Lock) (oneWay, error) { during(); return r, nil }, nil)
	case noWay:
		_, err = once.Do(ctx, f, "a1", nil, func(context.Context, once.Lock) (noWay, error) { during(); return r, nil }, nil)
	case error:
		_, err = once.Do(ctx, f, "a1", nil, func(context.Context, once.Lock) (error, error) { during(); return r, nil }, nil)
	default:
		_, err = once.Do(ctx, f, "a1", nil, func(context.Context, once.Lock) (any, error) { during(); return r, nil }, nil)
	}
	return err
}

// TestDoOfDo: a run within the work, whose result cannot be kept, is a failed attempt of the work that returns its
// error: the work itself is not done.
func TestDoOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		_, err := once.Do(t.Context(), f, "a1", nil, func(ctx context.Context, _ once.Lock) (int, error) {
			_, err := once.Do(ctx, &fake{}, "a1", nil, func(context.Context, once.Lock) (panics, error) { return panics{}, nil }, nil)
			return 0, fmt.Errorf("within: %w", err)
		}, nil)
		e, ok := errors.AsType[*once.Error](err)
		if !ok || e.Outcome.Status != once.Retry {
			t.Error(err)
		}
	})
}

// TestDoFirstCaller: every caller has what comes out of the JSON, the first as well.
func TestDoFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		for range 2 {
			got, err := once.Do(t.Context(), f, "a1", nil, func(context.Context, once.Lock) (map[string]any, error) {
				return map[string]any{"number": 1, "bytes": []byte("ab"), "none": []int(nil)}, nil
			}, nil)
			want(t, "error", err, nil)
			want(t, "result", got, map[string]any{"number": 1.0, "bytes": "YWI=", "none": nil})
		}
	})
}

// TestDoInput: another input under the same name gets no result, and the error says what to do.
func TestDoInput(t *testing.T) {
	type input struct {
		Amount   int `json:"amount"`
		Currency string
	}
	pay := func(input any, o *once.Options) func(f *fake) (int, error) {
		return func(f *fake) (int, error) {
			return once.Do(t.Context(), f, "a1", input, func(context.Context, once.Lock) (int, error) { return 7, nil }, o)
		}
	}
	f := &fake{}
	for _, same := range []any{input{12, "JPY"}, &input{12, "JPY"}, map[string]any{"Currency": "JPY", "amount": 12.0}, nil} {
		got, err := pay(same, nil)(f)
		want(t, "error", err, nil)
		want(t, "result", got, 7)
	}
	for _, other := range []any{input{13, "JPY"}, "", []int{}, false, (*input)(nil)} {
		got, err := pay(other, nil)(f)
		if got != 0 || !errors.Is(err, contracts.CodeRunDiffers) || !strings.Contains(err.Error(), "once.Key") {
			t.Errorf("%v: %d, %v", other, got, err)
		}
	}
	f = &fake{}
	for text, call := range map[string]func(*fake) (int, error){
		"run once: the input has no fingerprint: json: unsupported type: chan int": pay(make(chan int), nil),
		"run once: the input has no fingerprint: the number 9007199254740993 is more than a 64-bit float, as which JSON is read, has room for: give it as a string": pay(
			map[string]int{"id": 1<<53 + 1}, nil),
		"run once: Options.Fingerprint is of once.Run: once.Do compares its input, which may be that text": pay(nil,
			&once.Options{Fingerprint: "f1"}),
	} {
		_, err := call(f)
		if err == nil || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	want(t, "calls", len(f.calls), 0)
}

// TestDoArguments: nothing runs, and the error says why.
func TestDoArguments(t *testing.T) {
	_, err := once.Do[int](t.Context(), &fake{}, "a1", nil, nil, nil)
	want(t, "error", err.Error(), "run once: the work is nil")
	_, err = once.Do(t.Context(), nil, "a1", nil, func(context.Context, once.Lock) (int, error) { return 1, nil }, nil)
	want(t, "error", err.Error(), "run once: the gate is nil")
}
