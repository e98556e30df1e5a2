package once_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// say is a work that takes a minute and a half and returns a text.
func say(text string) once.Work {
	return func(ctx context.Context, _ once.Lock) (string, error) { return text, work(ctx, 90*time.Second) }
}

// work is well-behaved work: it takes a while, and stops with the cause when its context ends.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

//nolint:revive // t first
func run(t *testing.T, ctx context.Context, f once.Gate, w once.Work, o *once.Options) once.Outcome {
	t.Helper()
	out, err := once.Run(ctx, f, "a1", w, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func s(seconds ...float64) (d []time.Duration) {
	for _, n := range seconds {
		d = append(d, time.Duration(n*float64(time.Second)))
	}
	return d
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var got once.Lock
		out := run(t, t.Context(), f, func(ctx context.Context, l once.Lock) (string, error) {
			got = l
			return "s3://results/a1", work(ctx, 200*time.Second)
		}, &once.Options{Owner: "w1"})
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "s3://results/a1"})
		want(t, "lock", got, once.Lock{RunID: "a1", Owner: "w1", Token: 1, ExpiresAt: bubble.Add(5 * time.Minute)})
		want(t, "status", f.status, "READY")
		want(t, "result", f.result, once.Result{Result: "s3://results/a1"})
		want(t, "refreshes", f.times("refresh"), s(60, 120, 180))
		want(t, "finishes", f.times("finish"), s(200))
		want(t, "calls", f.names(), []string{"acquire", "refresh", "finish"})
	})
}

func TestSkips(t *testing.T) {
	never := func(context.Context, once.Lock) (string, error) { panic("the work must not run") }
	for name, c := range map[string]struct {
		gate *fake
		id   string
		want once.Outcome
	}{
		"READY":   {&fake{status: "READY"}, "a1", once.Outcome{Status: once.AlreadyFinished}},
		"FAILED":  {&fake{status: "FAILED"}, "a1", once.Outcome{Status: once.AlreadyFailed, Err: once.ErrFailed}},
		"unknown": {&fake{}, "a2", once.Outcome{Status: once.Unknown}},
		"locked": {
			&fake{owner: "w2", token: 7, end: bubble.Add(40 * time.Second)}, "a1",
			once.Outcome{Status: once.Locked, RetryAfter: 40 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, err := once.Run(t.Context(), c.gate, c.id, never, nil)
				want(t, "error", err, nil)
				want(t, "outcome", out, c.want)
				want(t, "calls", c.gate.names(), []string{"acquire"})
			})
		})
	}
}

// TestHeartbeat: BE-041-HEARTBEAT. Of the default five minutes, every 60 s.
func TestHeartbeat(t *testing.T) {
	for name, c := range map[string]struct {
		o    once.Options
		work time.Duration
		want []time.Duration
	}{
		"default":       {once.Options{}, 250 * time.Second, s(60, 120, 180, 240)},
		"of a short":    {once.Options{TTL: time.Second}, time.Second, s(.2, .4, .6, .8)},
		"chosen":        {once.Options{TTL: 10 * time.Second, Heartbeat: 9 * time.Second}, 20 * time.Second, s(9, 18)},
		"none in time":  {once.Options{}, 59 * time.Second, nil},
		"the day's end": {once.Options{TTL: once.MaxTTL, Heartbeat: 12 * time.Hour}, 25 * time.Hour, s(12*3600, 24*3600)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				var told []time.Time
				c.o.OnRefresh = func(_ context.Context, end time.Time) { told = append(told, end) }
				out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
					return "", work(ctx, c.work-time.Millisecond)
				}, &c.o)
				want(t, "status", out.Status, once.Ready)
				want(t, "refreshes", f.times("refresh"), c.want)
				ttl := c.o.TTL
				if ttl == 0 {
					ttl = 5 * time.Minute
				}
				for i, end := range told {
					want(t, "OnRefresh", end.Sub(bubble), c.want[i]+ttl)
				}
				want(t, "OnRefresh calls", len(told), len(c.want))
			})
		})
	}
}

func TestFailedAttempts(t *testing.T) {
	errWork := errors.New("model returned nonsense")
	for name, c := range map[string]struct {
		err      error
		before   int64 // failures
		most     int64
		status   once.Status
		stored   string
		failures int64
		reason   string
	}{
		"counted":         {errWork, 0, 3, once.Retry, "", 1, "model returned nonsense"},
		"last but one":    {errWork, 1, 3, once.Retry, "", 2, "model returned nonsense"},
		"last":            {errWork, 2, 3, once.Failed, "FAILED", 2, "model returned nonsense"},
		"one is the last": {errWork, 0, 1, once.Failed, "FAILED", 0, "model returned nonsense"},
		"never by count":  {errWork, 1000, 0, once.Retry, "", 1001, "model returned nonsense"},
		"permanent":       {once.Permanent(errWork), 0, 0, once.Failed, "FAILED", 0, "model returned nonsense"},
		"permanent wrapped": {fmt.Errorf("step 3: %w", once.Permanent(errWork)), 0, 5, once.Failed, "FAILED", 0,
			"step 3: model returned nonsense"},
		"uncounted":         {once.Uncounted(errWork), 0, 1, once.Retry, "", 0, ""},
		"uncounted wrapped": {fmt.Errorf("step 3: %w", once.Uncounted(errWork)), 2, 3, once.Retry, "", 2, ""},
		"no text":           {errors.New(""), 0, 0, once.Retry, "", 1, "the work failed with an empty *errors.errorString"},
		"not UTF-8":         {errors.New("a\xffb"), 0, 0, once.Retry, "", 1, "a�b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{failures: c.before}
				out := run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) { return "dropped", c.err },
					&once.Options{MaxFailures: c.most})
				want(t, "outcome", out, once.Outcome{Status: c.status, Token: 1, Err: c.err,
					GivenUp: c.status == once.Failed && c.most == c.before+1})
				want(t, "stored status", f.status, c.stored)
				want(t, "failures", f.failures, c.failures)
				want(t, "owner", f.owner, "")
				want(t, "reason", f.text("release")+f.text("finish"), c.reason)
			})
		})
	}
	if once.Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
}

func TestLongReasonIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) {
			return "", errors.New(strings.Repeat("é", 1000))
		}, nil)
		got := f.text("release")
		want(t, "bytes", len(got), 1023) // 1021 would split a letter
		want(t, "UTF-8", utf8.ValidString(got) && strings.HasSuffix(got, "é…"), true)
	})
}

func TestPanicIsAFailedAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		work   once.Work
		reason string
		is     error
	}{
		"text": {func(context.Context, once.Lock) (string, error) { panic("index out of range") },
			"the work panicked: index out of range", nil},
		"error": {func(context.Context, once.Lock) (string, error) { panic(errNetwork) },
			"the work panicked: connection reset by peer", errNetwork},
		"Goexit": {func(context.Context, once.Lock) (string, error) { runtime.Goexit(); return "", nil },
			"the work panicked: its goroutine was ended by runtime.Goexit", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				out := run(t, t.Context(), f, c.work, nil)
				want(t, "status", out.Status, once.Retry)
				want(t, "failures", f.failures, 1)
				want(t, "reason", f.text("release"), c.reason)
				p, ok := errors.AsType[*once.PanicError](out.Err)
				if !ok || !strings.Contains(string(p.Stack), "run_test.go") {
					t.Errorf("got %v, want a PanicError with the stack of the work", out.Err)
				}
				if c.is != nil && !errors.Is(out.Err, c.is) {
					t.Errorf("%v does not unwrap to %v", out.Err, c.is)
				}
			})
		})
	}
}

func TestResultsThatCannotBeStored(t *testing.T) {
	for name, c := range map[string]struct{ result, reason string }{
		"too large": {strings.Repeat("x", once.MaxResultBytes+1),
			"the result has 262145 bytes, 262144 at most: keep it elsewhere and return where it is"},
		"ten times too large": {strings.Repeat("x", 10*once.MaxResultBytes),
			"the result has 2621440 bytes, 262144 at most: keep it elsewhere and return where it is"},
		"not UTF-8": {"\xff\xfe", "the result is not valid UTF-8: keep it elsewhere and return where it is"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				out := run(t, t.Context(), f, say(c.result), nil)
				want(t, "status", out.Status, once.Failed)
				want(t, "status", f.status, "FAILED")
				want(t, "reason", f.result, once.Result{Failed: true, Reason: c.reason})
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		want(t, "the largest", run(t, t.Context(), f, say(strings.Repeat("x", once.MaxResultBytes)), nil).Status, once.Ready)
	})
}

// lost checks that a run came to nothing, and that nothing was written.
func lost(t *testing.T, f *fake, out once.Outcome, calls ...string) {
	t.Helper()
	want(t, "status", out.Status, once.Lost)
	want(t, "token", out.Token, 1)
	if !errors.Is(out.Err, once.ErrLost) {
		t.Errorf("%v is not ErrLost", out.Err)
	}
	want(t, "calls", f.names(), calls)
	want(t, "status", f.status, "")
}

func TestLossByRefresh(t *testing.T) {
	for name, failure := range map[string]error{"lost": once.ErrLost,
		"lost, by a code": contracts.Errorf(contracts.CodeLeaseLost, ""), "the document is gone": contracts.CodeNotFound} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: func(_ context.Context, c call) (error, bool) {
					if c.name == "refresh" && c.n == 1 {
						return failure, false
					}
					return nil, false
				}}
				var ended time.Duration
				out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
					<-ctx.Done()
					ended = time.Since(bubble)
					if !errors.Is(context.Cause(ctx), once.ErrLost) || !errors.Is(once.Check(ctx), once.ErrLost) ||
						!errors.Is(ctx.Err(), context.Canceled) {
						t.Errorf("cause %v, Check %v, Err %v", context.Cause(ctx), once.Check(ctx), ctx.Err())
					}
					return "too late", nil
				}, nil)
				want(t, "told at", ended, 120*time.Second)
				lost(t, f, out, "acquire", "refresh")
				if !errors.Is(out.Err, failure) || !once.IsLost(out.Err) {
					t.Errorf("%v hides what the gate said", out.Err)
				}
			})
		})
	}
}

// TestLossByTime: the gate cannot be reached any more. The work is told at the very end of the time that the last
// refresh which succeeded gave, reckoned from before it was sent.
func TestLossByTime(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(ctx context.Context, c call) (error, bool)
		ended time.Duration
	}{
		"refused connections": {func(_ context.Context, c call) (error, bool) {
			if c.name == "refresh" && c.n > 0 {
				return errNetwork, false
			}
			return nil, false
		}, 360*time.Second - time.Millisecond},
		"a hanging gate": {func(ctx context.Context, c call) (error, bool) {
			if c.name == "refresh" {
				<-ctx.Done()
				return ctx.Err(), false
			}
			return nil, false
		}, 300*time.Second - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: c.fault}
				var ended time.Duration
				out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
					<-ctx.Done()
					ended = time.Since(bubble)
					return "", context.Cause(ctx)
				}, nil)
				want(t, "told at", ended, c.ended)
				lost(t, f, out, "acquire", "refresh")
			})
		})
	}
}

// TestDoneAfterTheExpiry: the work succeeds, although its lock has expired by the clocks of this process because no
// refresh arrived. The gate decides what becomes of the result.
func TestDoneAfterTheExpiry(t *testing.T) {
	away := func(context.Context, call) (error, bool) { return errNetwork, false }
	for name, c := range map[string]struct {
		meanwhile func(*fake)
		fails     error
		status    once.Status
		stored    string
		calls     []string
	}{
		"no other began":  {nil, nil, once.Ready, "READY", []string{"acquire", "refresh", "finish"}},
		"another began":   {(*fake).takeOver, nil, once.Lost, "", []string{"acquire", "refresh", "finish"}},
		"it is away":      {func(f *fake) { f.fault = away }, nil, once.NotStored, "", []string{"acquire", "refresh", "finish"}},
		"the work failed": {nil, errNetwork, once.Lost, "", []string{"acquire", "refresh"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: func(_ context.Context, c call) (error, bool) {
					if c.name == "refresh" {
						return errNetwork, false
					}
					return nil, false
				}}
				out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
					<-ctx.Done()
					if c.meanwhile != nil {
						c.meanwhile(f)
					}
					return "paid", c.fails
				}, nil)
				want(t, "status", out.Status, c.status)
				want(t, "stored", f.status, c.stored)
				want(t, "calls", f.names(), c.calls)
				want(t, "goes on", out.Storing != nil, c.status == once.NotStored)
				if out.Storing != nil {
					out.Storing.Stop()
				}
				if lost := c.status == once.Lost; errors.Is(out.Err, once.ErrLost) != lost ||
					(out.Result == "paid") != (c.status == once.Ready || c.status == once.NotStored) {
					t.Errorf("%+v", out)
				}
			})
		})
	}
}

// TestFirstRefreshOfAReplay: an acquire that is sent again finds its own grant with less time left, and is refreshed
// when a Heartbeat of it is over, here at once; afterwards as any other.
func TestFirstRefreshOfAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{owner: "ann", request: "r1", token: 1, end: time.Now().Add(100 * time.Second)} // of the five minutes
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			return "", work(ctx, 150*time.Second)
		}, &once.Options{Owner: "ann", RequestID: "r1"})
		want(t, "status", out.Status, once.Ready)
		want(t, "refreshes", f.times("refresh"), s(0, 60, 120))
	})
}

// TestSlowGrant: what counts is when the request was sent, not when its response arrived.
func TestSlowGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: func(_ context.Context, c call) (error, bool) {
			if c.name != "acquire" {
				return errNetwork, false
			}
			time.Sleep(7 * time.Second)
			return nil, false
		}}
		var ended time.Duration
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			<-ctx.Done()
			ended = time.Since(bubble)
			return "", ctx.Err()
		}, nil)
		want(t, "told at", ended, 300*time.Second-time.Millisecond) // the gate's end is 307 s
		lost(t, f, out, "acquire", "refresh")
	})
}

// TestSlowRefresh: neither the next refresh nor the lock's expiry is computed from when the response arrived.
func TestSlowRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: func(_ context.Context, c call) (error, bool) {
			if c.name == "refresh" {
				time.Sleep(7 * time.Second)
			}
			if c.name == "refresh" && c.n == 2 {
				return once.ErrLost, false
			}
			return nil, false
		}}
		var told []time.Time
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			<-ctx.Done()
			return "", nil
		}, &once.Options{OnRefresh: func(_ context.Context, end time.Time) { told = append(told, end) }})
		want(t, "refreshes", f.times("refresh"), s(60, 120, 180))
		want(t, "OnRefresh calls", len(told), 2)
		want(t, "the end", told[1].Sub(bubble), 420*time.Second) // the gate's is 427 s
		lost(t, f, out, "acquire", "refresh")
	})
}

func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var running, most atomic.Int32
		var all sync.WaitGroup
		outcomes := make([]once.Outcome, 2)
		o := &once.Options{}
		for i := range outcomes {
			all.Go(func() {
				outcomes[i], _ = once.Run(t.Context(), f, "a1", func(ctx context.Context, _ once.Lock) (string, error) {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					return "", work(ctx, time.Minute)
				}, o)
			})
		}
		all.Wait()
		want(t, "at once", most.Load(), 1)
		if outcomes[0].Status == once.Locked {
			outcomes[0], outcomes[1] = outcomes[1], outcomes[0]
		}
		want(t, "one", outcomes[0], once.Outcome{Status: once.Ready, Token: 1})
		want(t, "the other", outcomes[1], once.Outcome{Status: once.Locked, RetryAfter: 5 * time.Minute})
	})
}
