package once_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// failing plants a fault: the calls of a name up to the last fail, after they took effect if applied.
func failing(name string, last int, err error, applied bool) func(context.Context, call) (error, bool) {
	return func(_ context.Context, c call) (error, bool) {
		if c.name == name && c.n <= last {
			return err, applied
		}
		return nil, false
	}
}

const always = 1 << 30

// TestLostResponseOfAcquire: the gate granted, and the response was lost. The same request ID gets the same lock, not
// "locked".
func TestLostResponseOfAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: failing("acquire", 1, errNetwork, true)}
		out := run(t, t.Context(), f, say("done"), nil)
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "done"})
		want(t, "acquires", len(f.times("acquire")), 3)
		for _, c := range f.calls[:3] {
			want(t, "request ID", c.req, f.calls[0].req)
		}
	})
}

// TestEachRunHasItsOwnRequestID: otherwise the second would be handed the lock of the first.
func TestEachRunHasItsOwnRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := &fake{}, &once.Options{}
		for range 2 {
			run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) { return "", errNetwork }, o)
		}
		var ids []string
		for _, c := range f.calls {
			if c.name == "acquire" {
				ids = append(ids, c.req)
			}
		}
		want(t, "different", len(slices.Compact(ids)), 2)
		want(t, "token", f.token, 2)
	})
}

// TestGateThatDoesNotRespond is an error, because nothing ran: after 5 s, and a second more in which the request
// is given up, or at once if asking again is no use.
func TestGateThatDoesNotRespond(t *testing.T) {
	rejected := contracts.Errorf(contracts.CodePermissionDenied, "no worker")
	for name, c := range map[string]struct {
		fault func(context.Context, call) (error, bool)
		is    error
		least time.Duration
		most  time.Duration
	}{
		"no connection": {failing("acquire", always, errNetwork, false), errNetwork, 5 * time.Second, 5 * time.Second},
		"nothing at all": {func(context.Context, call) (error, bool) { return errNetwork, false }, errNetwork,
			6 * time.Second, 6 * time.Second},
		"hangs": {func(ctx context.Context, _ call) (error, bool) {
			<-ctx.Done()
			return ctx.Err(), false
		}, context.DeadlineExceeded, 5 * time.Second, 6 * time.Second},
		"rejects":     {failing("acquire", always, rejected, false), contracts.CodePermissionDenied, 0, 0},
		"has no runs": {failing("acquire", always, contracts.CodeNotConfigured, false), contracts.CodeNotConfigured, 0, 0},
		"is damaged": {failing("acquire", always, contracts.CodeDocumentDamaged, false), contracts.CodeDocumentDamaged, 0,
			0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: c.fault}
				out, err := once.Run(t.Context(), f, "a1", say(""), nil)
				if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), `ask for run "a1": `) {
					t.Errorf("got %v, want %v", err, c.is)
				}
				want(t, "outcome", out, once.Outcome{})
				if took := time.Since(bubble); took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v", took, c.least, c.most)
				}
				time.Sleep(time.Minute) // giving up goes on
			})
		})
	}
}

// TestGrantThatCameTooLate is no grant: the request is sent again, and the gate gives a new lock.
func TestGrantThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		slow := &late{fake: f}
		out, err := once.Run(t.Context(), slow, "a1", func(_ context.Context, l once.Lock) (string, error) {
			want(t, "token", l.Token, 2)
			return "", nil
		}, &once.Options{TTL: time.Second})
		want(t, "error", err, nil)
		want(t, "status", out.Status, once.Ready)
	})
}

// late is a gate whose first grant travels for as long as it lasts.
type late struct {
	*fake

	first bool
}

func (l *late) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	g, err := l.fake.Acquire(ctx, r)
	if !l.first {
		l.first = true
		time.Sleep(time.Second)
	}
	return g, err
}

// TestRefreshIsTriedAgain: two refreshes fail, the next one a few seconds later succeeds, and the work does not notice.
func TestRefreshIsTriedAgain(t *testing.T) {
	for name, applied := range map[string]bool{"requests lost": false, "responses lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: failing("refresh", 1, errNetwork, applied)}
				var warned []error
				out := run(t, t.Context(), f, say("done"), &once.Options{Warn: func(err error) { warned = append(warned, err) }})
				want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "done"})
				at := f.times("refresh")
				if len(at) != 3 || at[0] != time.Minute || at[2] > 63*time.Second {
					t.Errorf("refreshes at %v, want 1m0s and two more within 3 s", at)
				}
				if len(warned) != 2 || !errors.Is(warned[0], errNetwork) {
					t.Errorf("warnings: %v", warned)
				}
			})
		})
	}
}

// TestOutageOfTheGate shorter than the lock: tried every ten seconds at the latest, and the run survives.
func TestOutageOfTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.fault = func(ctx context.Context, c call) (error, bool) {
			if c.name == "refresh" && time.Since(bubble) < 270*time.Second {
				<-ctx.Done() // the worst: no response
				return ctx.Err(), false
			}
			return nil, false
		}
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string,
			error) {
			return "", work(ctx, 10*time.Minute)
		}, nil)
		want(t, "status", out.Status, once.Ready)
		at := f.times("refresh")
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap > time.Minute || at[i] < 270*time.Second && gap > 25*time.Second {
				t.Errorf("refreshes at %v: %v between two", at, gap)
			}
		}
	})
}

// TestCallbackThatHangs: a queue that does not respond must not cost the lock.
func TestCallbackThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string,
			error) {
			return "", work(ctx, 9*time.Second)
		},
			&once.Options{TTL: 4 * time.Second, Heartbeat: 2 * time.Second,
				OnRefresh: func(ctx context.Context, _ time.Time) { <-ctx.Done() }})
		want(t, "status", out.Status, once.Ready)
		want(t, "refreshes", f.times("refresh"), s(2, 4, 6, 8))
	})
}

// TestFinishWithLostResponse: sent again, and known again.
func TestFinishWithLostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: failing("finish", 2, errNetwork, true)}
		want(t, "outcome", run(t, t.Context(), f, say("done"), nil),
			once.Outcome{Status: once.Ready, Token: 1, Result: "done"})
		want(t, "finishes", len(f.times("finish")), 4)
	})
}

// TestFinishIsRejected: another worker took over between the last check and the finish.
func TestFinishIsRejected(t *testing.T) {
	for name, failed := range map[string]error{"READY": nil, "FAILED": once.Permanent(errors.New("no such model"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				out := run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) {
					f.takeOver()
					return "zombie", failed
				}, nil)
				lost(t, f, out, "acquire", "finish")
				want(t, "owner", f.owner, "another")
				if failed != nil && !errors.Is(out.Err, failed) {
					t.Errorf("%v does not say why the work failed", out.Err)
				}
			})
		})
	}
}

// TestFinishGoesOn: Run waits for the end to be stored until the lock has expired, and for ten seconds at least. Then it
// is sent in the background, however long the gate is away, until that has it or another worker took over.
func TestFinishGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		work, returns time.Duration
		back          time.Duration
		meanwhile     func(*fake)
		becomes       once.Status
		warnings      int
	}{
		"long before the end": {10 * time.Second, 301*time.Second - time.Millisecond, 310 * time.Second, func(*fake) {}, once.Ready, 1},
		"shortly before":      {299 * time.Second, 310 * time.Second, time.Hour, func(*fake) {}, once.Ready, 1},
		"for six hours":       {299 * time.Second, 310 * time.Second, 6 * time.Hour, func(*fake) {}, once.Ready, 1},
		"and another began":   {299 * time.Second, 310 * time.Second, time.Hour, (*fake).takeOver, once.Lost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: func(_ context.Context, at call) (error, bool) {
					if at.name == "finish" && at.at < c.back {
						return errNetwork, false
					}
					return nil, false
				}}
				warnings := 0
				out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
					return "paid", work(ctx, c.work)
				}, &once.Options{Heartbeat: 299500 * time.Millisecond, Warn: func(error) { warnings++ }})
				want(t, "status", out.Status, once.NotStored)
				want(t, "what the work returned", out.Result, "paid")
				if !errors.Is(out.Err, once.ErrNotStored) || !strings.HasPrefix(out.Err.Error(), `store the end of run "a1": `) {
					t.Errorf("got %v", out.Err)
				}
				want(t, "returned after", time.Since(bubble), c.returns)
				c.meanwhile(f)
				<-out.Storing.Done()
				if took := time.Since(bubble); took < c.back || took > c.back+5*time.Second {
					t.Errorf("sent after %v; the gate was back after %v", took, c.back)
				}
				want(t, "becomes", out.Storing.Outcome().Status, c.becomes)
				want(t, "result", f.result.Result, map[once.Status]string{once.Ready: "paid"}[c.becomes])
				want(t, "warnings", warnings, c.warnings)
			})
		})
	}
}

// TestFinishThatIsAskedToWait: a gate that asks for an hour is asked again within five seconds once the lock has expired:
// another worker may begin as soon as it is back.
func TestFinishThatIsAskedToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := contracts.Errorf(contracts.CodeUnavailable, "not now")
		wait.RetryAfter = time.Hour
		f := &fake{fault: failing("finish", 100, wait, false)}
		out := run(t, t.Context(), f, say("paid"), &once.Options{TTL: 10 * time.Second})
		returned := time.Since(bubble)
		<-out.Storing.Done()
		at := f.times("finish")
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap > 5*time.Second+time.Millisecond && at[i-1] > returned {
				t.Errorf("%v after %v", gap, at[i-1])
			}
		}
	})
}

// TestFinishIsStopped: a process that ends sends nothing any more, and is told that the end is not stored.
func TestFinishIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: failing("finish", always, errNetwork, false)}
		out := run(t, t.Context(), f, say("paid"), &once.Options{TTL: 10 * time.Second})
		time.Sleep(time.Hour)
		out.Storing.Stop()
		sent := len(f.calls)
		if got := out.Storing.Outcome(); got.Status != once.NotStored || got.Result != "paid" || !errors.Is(got.Err, once.ErrNotStored) ||
			!errors.Is(got.Err, errNetwork) {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour)
		want(t, "calls after it", len(f.calls)-sent, 0)
	})
}

var errBank = errors.New("the bank says no")

// TestWhatFailedForGoodIsNotStored: the end of a work that failed for good is stored as insistently as a result, and the
// outcome says as plainly that it is not, also of the last attempt that a deadline ended.
func TestWhatFailedForGoodIsNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		work once.Work
		is   error
	}{
		"permanent": {func(context.Context, once.Lock) (string, error) { return "", once.Permanent(errBank) }, errBank},
		"over time": {func(ctx context.Context, _ once.Lock) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: failing("finish", always, errNetwork, false)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				out := run(t, ctx, f, c.work, &once.Options{MaxFailures: 1})
				want(t, "status", out.Status, once.NotStored)
				if !errors.Is(out.Err, once.ErrNotStored) || !errors.Is(out.Err, c.is) || out.GivenUp {
					t.Errorf("%+v", out)
				}
				out.Storing.Stop()
				want(t, "status", out.Storing.Outcome().Status, once.NotStored)
			})
		})
	}
}

// TestHoldsWhileStoring: with Options.SettleTime the caller waits as long as its context lasts, and is called once a
// heartbeat meanwhile; without one it is told the same.
func TestHoldsWhileStoring(t *testing.T) {
	for _, settle := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{fault: func(_ context.Context, at call) (error, bool) {
				if at.name == "finish" && at.at < 400*time.Second {
					return errNetwork, false
				}
				return nil, false
			}}
			var told []time.Duration
			out := run(t, t.Context(), f, say("paid"), &once.Options{TTL: 5 * time.Minute, SettleTime: settle,
				OnStoring: func(context.Context) { told = append(told, time.Since(bubble)) }})
			if settle > 0 {
				want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "paid"})
			} else if out.Storing != nil {
				out = out.Storing.Outcome()
			}
			want(t, "status", out.Status, once.Ready)
			want(t, "told", told, s(91, 151, 211, 271, 331, 391))
			time.Sleep(time.Hour)
			want(t, "told after it", len(told), 6)
		})
	}
}

// TestLateFinish: the lock expires while the response is awaited, no worker took over, and the gate accepts the finish.
func TestLateFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: func(ctx context.Context, c call) (error, bool) {
			if c.name == "finish" && c.n == 0 {
				return work(ctx, 5*time.Second), false
			}
			return nil, false
		}}
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			return "late", work(ctx, 900*time.Millisecond)
		},
			&once.Options{TTL: time.Second, Heartbeat: 950 * time.Millisecond})
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "late"})
		want(t, "result", f.result.Result, "late")
	})
}

// TestFinishThatTheGateRejects for good counts as a failed attempt, so that it is not retried forever.
func TestFinishThatTheGateRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: failing("finish", always, contracts.CodeInvalidArgument, false)}
		out := run(t, t.Context(), f, say("done"), nil)
		want(t, "outcome", out, once.Outcome{Status: once.NotStored, Token: 1, Result: "done", Err: out.Err})
		if !errors.Is(out.Err, once.ErrNotStored) || !errors.Is(out.Err, contracts.CodeInvalidArgument) {
			t.Errorf("got %v", out.Err)
		}
		want(t, "failures", f.failures, 1)
		want(t, "calls", f.names(), []string{"acquire", "refresh", "finish", "release"})
	})
}

var errShutdown = errors.New("the instance is shut down")

// TestStopped: the caller's context ends. The work is told why, and the lock is released without counting a failure.
func TestStopped(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cause error) error // what the work returns
		also string
	}{
		"with the cause": {func(cause error) error { return cause }, "the instance is shut down"},
		"with Canceled":  {func(error) error { return context.Canceled }, "the instance is shut down"},
		"with another error": {func(error) error { return errNetwork },
			"the instance is shut down; then: connection reset by peer"},
		"with Permanent": {once.Permanent, "the instance is shut down"},
		"with a panic": {func(error) error { panic("nil model") },
			"the instance is shut down; then: the work panicked: nil model"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(errShutdown) })
				out := run(t, ctx, f, func(ctx context.Context, _ once.Lock) (string, error) {
					<-ctx.Done()
					want(t, "cause", context.Cause(ctx), errShutdown)
					want(t, "Check", once.Check(ctx), errShutdown)
					return "", c.end(context.Cause(ctx))
				}, &once.Options{MaxFailures: 1})
				want(t, "status", out.Status, once.Stopped)
				want(t, "error", out.Err.Error(), c.also)
				if !errors.Is(out.Err, errShutdown) {
					t.Errorf("%v is not the caller's cause", out.Err)
				}
				want(t, "releases", f.times("release"), s(10))
				want(t, "failures", f.failures, 0)
				want(t, "owner", f.owner, "")
			})
		})
	}
}

// TestTimeOver: a run that is longer than its context lasts counts as one that failed, or it would come again for ever.
func TestTimeOver(t *testing.T) {
	for name, c := range map[string]struct {
		work     error // what it makes of the end
		failures int64 // before
		status   once.Status
		reason   string
	}{
		"gives up": {context.DeadlineExceeded, 0, once.Stopped,
			"the run exceeded its time: context deadline exceeded"},
		"fails meanwhile": {errNetwork, 0, once.Stopped,
			"the run exceeded its time: context deadline exceeded; then: connection reset by peer"},
		"for the last time": {context.DeadlineExceeded, 1, once.Failed,
			"the run exceeded its time: context deadline exceeded"},
		"for good": {once.Permanent(errNetwork), 0, once.Failed,
			"the run exceeded its time: context deadline exceeded; then: connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{failures: c.failures}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				out := run(t, ctx, f, func(ctx context.Context, _ once.Lock) (string, error) {
					<-ctx.Done()
					return "", c.work
				}, &once.Options{MaxFailures: 2})
				want(t, "status", out.Status, c.status)
				want(t, "error", out.Err.Error(), c.reason)
				want(t, "owner", f.owner, "")
				if c.status == once.Failed {
					want(t, "reason", f.result.Reason, c.reason)
				} else {
					want(t, "failures", f.failures, c.failures+1)
				}
			})
		})
	}
}

// TestStoppedTooLate: the work succeeded all the same, and its result is stored.
func TestStoppedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out := run(t, ctx, f, func(context.Context, once.Lock) (string, error) {
			time.Sleep(11 * time.Second)
			return "all the same", nil
		}, nil)
		want(t, "outcome", out, once.Outcome{Status: once.Ready, Token: 1, Result: "all the same"})
		want(t, "result", f.result.Result, "all the same")
	})
}

// TestWorkThatDoesNotStop: Run waits, and the lock is kept as long as the work runs.
func TestWorkThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out := run(t, ctx, f, func(context.Context, once.Lock) (string, error) {
			time.Sleep(130 * time.Second)
			return "", errNetwork
		}, nil)
		want(t, "status", out.Status, once.Stopped)
		want(t, "refreshes", f.times("refresh"), s(60, 120))
		want(t, "releases", f.times("release"), s(130))
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fault: failing("refresh", always, once.ErrLost, false)}
		out := run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) {
			time.Sleep(400 * time.Second)
			return "", nil
		}, nil)
		want(t, "returned at", time.Since(bubble), 400*time.Second)
		lost(t, f, out, "acquire", "refresh")
		want(t, "refreshes", f.times("refresh"), s(60)) // and none after the loss
	})
}

// TestStoppedWhileAsking: before the request nothing is sent; during it the request is given up, for which Run waits
// for a second at most.
func TestStoppedWhileAsking(t *testing.T) {
	answersAfter := func(d time.Duration) func(context.Context, call) (error, bool) {
		return func(ctx context.Context, c call) (error, bool) {
			if c.name == "acquire" || d == time.Hour {
				return work(ctx, d), false
			}
			return nil, false
		}
	}
	for name, c := range map[string]struct {
		fault func(context.Context, call) (error, bool)
		at    time.Duration // of the end of the context
		calls []string
		took  time.Duration
	}{
		"before": {answersAfter(0), 0, nil, 0},
		"during": {answersAfter(3 * time.Second), time.Second, []string{"acquire", "give up"}, time.Second},
		"and granted all the same": {func(_ context.Context, c call) (error, bool) {
			if c.name == "acquire" {
				time.Sleep(3 * time.Second) // whatever the context says
			}
			return nil, false
		}, time.Second, []string{"acquire", "release"}, 3 * time.Second},
		"a hanging gate": {answersAfter(time.Hour), time.Second, []string{"acquire", "give up"}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: c.fault}
				ctx, cancel := context.WithCancelCause(t.Context())
				if c.at == 0 {
					cancel(errShutdown)
				} else {
					time.AfterFunc(c.at, func() { cancel(errShutdown) })
				}
				ran := false
				out := run(t, ctx, f, func(context.Context, once.Lock) (string, error) {
					ran = true
					return "", nil
				}, nil)
				want(t, "the work ran", ran, false)
				want(t, "status", out.Status, once.Stopped)
				if !errors.Is(out.Err, errShutdown) {
					t.Errorf("got %v", out.Err)
				}
				want(t, "calls", f.names(), c.calls)
				want(t, "took", time.Since(bubble), c.took)
				want(t, "owner", f.owner, "")
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestFailedReleaseIsAWarning: BE-041-CONFLICT-2. The status stays, and the lock expires.
func TestFailedReleaseIsAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		took time.Duration // at most
	}{
		"no connection": {errNetwork, 5 * time.Second},
		"taken over":    {once.ErrLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{fault: failing("release", always, c.err, false)}
				var warned []error
				errWork := errors.New("no such file")
				out := run(t, t.Context(), f, func(context.Context, once.Lock) (string, error) { return "", errWork },
					&once.Options{Warn: func(err error) { warned = append(warned, err) }})
				want(t, "outcome", out, once.Outcome{Status: once.Retry, Token: 1, Err: errWork})
				if took := time.Since(bubble); took > c.took {
					t.Errorf("took %v, want %v at most", took, c.took)
				}
				time.Sleep(time.Minute) // releasing goes on
				synctest.Wait()
				if len(warned) != 1 || !errors.Is(warned[0], c.err) {
					t.Errorf("warnings: %v", warned)
				}
				want(t, "without Warn", run(t, t.Context(), &fake{fault: f.fault},
					func(context.Context, once.Lock) (string, error) {
						return "", errWork
					}, nil).Status, once.Retry)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestArguments: invalid arguments are rejected before anything is sent, and the message says what is valid.
func TestArguments(t *testing.T) {
	ok := say("")
	for name, c := range map[string]struct {
		id   string
		work once.Work
		o    once.Options
		want string
	}{
		"no ID": {"", ok, once.Options{}, "the run ID has 0 bytes: must have 1 to 256"},
		"a long ID": {strings.Repeat("a", 257), ok, once.Options{},
			"the run ID has 257 bytes: must have 1 to 256"},
		"a path": {"a/b", ok, once.Options{},
			`the run ID cannot be "a/b": it is the name of one document, without "/"`},
		"a folder": {"..", ok, once.Options{},
			`the run ID cannot be "..": it is the name of one document, without "/"`},
		"not UTF-8": {"a\xff", ok, once.Options{},
			`the run ID "a\xff": must be UTF-8 without control characters`},
		"no work": {"a1", nil, once.Options{}, "the work is nil"},
		"half a second": {"a1", ok, once.Options{TTL: 500 * time.Millisecond},
			"Options.TTL is 500ms: must be whole seconds from 1s to 24h0m0s"},
		"a fraction": {"a1", ok, once.Options{TTL: 1500 * time.Millisecond},
			"Options.TTL is 1.5s: must be whole seconds from 1s to 24h0m0s"},
		"negative": {"a1", ok, once.Options{TTL: -time.Second},
			"Options.TTL is -1s: must be whole seconds from 1s to 24h0m0s"},
		"more than a day": {"a1", ok, once.Options{TTL: 25 * time.Hour},
			"Options.TTL is 25h0m0s: must be whole seconds from 1s to 24h0m0s"},
		"heartbeat of the TTL": {"a1", ok, once.Options{TTL: time.Minute, Heartbeat: time.Minute},
			"Options.Heartbeat is 1m0s and Options.TTL 1m0s: the lock would expire before each refresh; a fifth of TTL leaves time for refreshes that fail"},
		"negative heartbeat": {"a1", ok, once.Options{Heartbeat: -1}, "Options.Heartbeat is -1ns: must be 10ms at least"},
		"negative failures": {"a1", ok, once.Options{MaxFailures: -1},
			"Options.MaxFailures is -1: must not be negative; 0 never fails by count"},
		"owner": {"a1", ok, once.Options{Owner: "a\nb"},
			`Options.Owner "a\nb": must be UTF-8 without control characters`},
		"request ID": {"a1", ok, once.Options{RequestID: strings.Repeat("a", 129)},
			"Options.RequestID has 129 bytes: must have 1 to 128"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			out, err := once.Run(t.Context(), f, c.id, c.work, &c.o)
			if err == nil || err.Error() != "run once: "+c.want {
				t.Errorf("got  %v\nwant run once: %s", err, c.want)
			}
			want(t, "outcome", out, once.Outcome{})
			want(t, "calls", f.names(), nil)
		})
	}
	if _, err := once.Run(t.Context(), nil, "a1", ok, nil); err == nil ||
		err.Error() != "run once: the gate is nil" {
		t.Errorf("without a gate: %v", err)
	}
}

// TestDefaultOwner is something that every gate takes: also one that knows the caller by a verified name.
func TestDefaultOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		run(t, t.Context(), f, say(""), nil)
		owner := f.text("acquire")
		if owner == "" || len(owner) > 64 ||
			strings.Trim(owner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			t.Errorf("owner %q", owner)
		}
	})
}
