package term_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

var (
	errExpired = errors.New("expired")
	errTaken   = errors.New("taken")
	errNetwork = errors.New("no network")
)

func expired(trouble error) error { return errors.Join(errExpired, trouble) }

// clock is that of a process, which a test moves.
type clock struct {
	mu              sync.Mutex
	monotonic, wall time.Duration // ahead of the bubble's
}

func (c *clock) set(monotonic, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monotonic, c.wall = monotonic, wall
}

func (c *clock) read() term.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return term.On(time.Now().Add(c.monotonic).Round(0), time.Now().Add(c.wall).Round(0))
}

// inBubble runs a test in a bubble of synctest, in which sleeping takes exactly as long as it says and no time at all.
func inBubble(t *testing.T, test func(*testing.T, *clock, *term.Term)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		l := term.New(t.Context(), c.read, c.read().End(10*time.Second), expired)
		defer l.Cancel(nil)
		test(t, c, l)
	})
}

// TestTheClockThatWentFurtherCounts: the lease ends when either clock has reached its end, and not before.
func TestTheClockThatWentFurtherCounts(t *testing.T) {
	const all = 10*time.Second - time.Millisecond
	for name, c := range map[string]struct {
		monotonic, wall time.Duration
		lost            bool
	}{
		"neither":                        {all - 1, all - 1, false},
		"both":                           {all, all, true},
		"the monotonic one":              {all, -time.Hour, true},
		"the wall clock":                 {0, all, true},
		"the wall clock was set back":    {0, -time.Hour, false},
		"the wall clock was set forward": {0, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
				both.set(c.monotonic, c.wall)
				if err := term.Check(l.Context()); errors.Is(err, errExpired) != c.lost {
					t.Errorf("%v, want lost: %v", err, c.lost)
				}
				both.set(0, 0)
				if err := l.Context().Err(); (err != nil) != c.lost {
					t.Errorf("later: %v, want lost: %v", err, c.lost)
				}
			})
		})
	}
}

// TestCause: the first cause stays, and an expiry says why the lease was not extended.
func TestCause(t *testing.T) {
	inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
		l.Failed(errNetwork)
		both.set(0, time.Hour)
		if err := context.Cause(l.Context()); !errors.Is(err, errExpired) || !errors.Is(err, errNetwork) {
			t.Errorf("the cause is %v", err)
		}
		l.Lose(errTaken)
		if err := l.Check(); errors.Is(err, errTaken) {
			t.Errorf("a later cause: %v", err)
		}
		if l.Extend(both.read().End(time.Minute)) || l.Check() == nil {
			t.Error("what was lost was extended")
		}
	})
}

// TestExtend: the end moves, and the trouble before is over.
func TestExtend(t *testing.T) {
	inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
		l.Failed(errNetwork)
		time.Sleep(9 * time.Second)
		if !l.Extend(both.read().End(10 * time.Second)) {
			t.Error("too late")
		}
		time.Sleep(9 * time.Second)
		if err := l.Check(); err != nil || l.Left() != time.Second-time.Millisecond {
			t.Errorf("%v, %v are left", err, l.Left())
		}
		time.Sleep(time.Second)
		if err := l.Check(); !errors.Is(err, errExpired) || errors.Is(err, errNetwork) {
			t.Errorf("the cause is %v", err)
		}
	})
}

// TestTheLastMoment: a renewal or an end of the work in the last nanosecond is in time, and one at the end is too late,
// although no timer has fired and no one has looked at the clocks before.
func TestTheLastMoment(t *testing.T) {
	const all = 10*time.Second - time.Millisecond
	clocks := map[string]func(both *clock, passed time.Duration){
		"both":              func(both *clock, passed time.Duration) { both.set(passed, passed) },
		"the monotonic one": func(both *clock, passed time.Duration) { both.set(passed, 0) },
		"the wall clock":    func(both *clock, passed time.Duration) { both.set(0, passed) },
	}
	for name, set := range clocks {
		for _, passed := range []time.Duration{all - 1, all, all + time.Hour} {
			lost := passed >= all
			t.Run(fmt.Sprintf("extended, %s at %v", name, passed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
					l.Failed(errNetwork)
					end := both.read().End(20 * time.Second) // of a renewal that was asked for before
					set(both, passed)
					if ok := l.Extend(end); ok == lost {
						t.Errorf("extended: %v", ok)
					}
					err := context.Cause(l.Context())
					if errors.Is(err, errExpired) != lost || errors.Is(err, errNetwork) != lost {
						t.Errorf("the cause is %v", err)
					}
				})
			})
			t.Run(fmt.Sprintf("settled, %s at %v", name, passed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
					set(both, passed)
					if err := l.Settle(); errors.Is(err, errExpired) != lost {
						t.Errorf("%v, want lost: %v", err, lost)
					}
					both.set(0, 0)
					if err := l.Check(); errors.Is(err, errExpired) != lost {
						t.Errorf("later: %v, want lost: %v", err, lost)
					}
				})
			})
		}
	}
}

// TestSettle: what is over in time is not lost later.
func TestSettle(t *testing.T) {
	inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
		if err := l.Settle(); err != nil {
			t.Error(err)
		}
		both.set(0, time.Hour)
		l.Lose(errTaken)
		if err := l.Check(); err != nil {
			t.Errorf("after it was settled: %v", err)
		}
	})
}

// TestWatch: a context that was derived ends within a second after the machine slept.
func TestWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, both *clock, l *term.Term) {
		derived, cancel := context.WithCancel(l.Context())
		defer cancel()
		begin := time.Now()
		go l.Watch(t.Context())
		time.Sleep(2500 * time.Millisecond)
		both.set(0, time.Hour)
		<-derived.Done()
		if late := time.Since(begin); late != 3*time.Second {
			t.Errorf("it ended after %v", late)
		}
	})
}

// TestLeaseInALease: what is done under both ends with the outer one, whichever is asked, and by no timer.
func TestLeaseInALease(t *testing.T) {
	inBubble(t, func(t *testing.T, both *clock, outer *term.Term) {
		between, cancel := context.WithCancel(outer.Context())
		defer cancel()
		inner := term.New(between, both.read, both.read().End(time.Hour), expired)
		defer inner.Cancel(nil)
		ctx, stop := context.WithTimeout(inner.Context(), 2*time.Hour)
		defer stop()
		if err := term.Check(ctx); err != nil {
			t.Error(err)
		}
		both.set(time.Minute, 0)
		if err := inner.Context().Err(); err == nil {
			t.Error("the context of the inner lease lives")
		}
		if err := term.Check(ctx); !errors.Is(err, errExpired) || !errors.Is(context.Cause(ctx), errExpired) {
			t.Errorf("%v, cause %v", err, context.Cause(ctx))
		}
		if err := inner.Check(); err != nil {
			t.Errorf("the inner lease itself: %v", err)
		}
	})
}

// TestCheckWithoutALease is the cause of the context.
func TestCheckWithoutALease(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := term.Check(ctx); err != nil {
		t.Error(err)
	}
	cancel(errTaken)
	if err := term.Check(ctx); !errors.Is(err, errTaken) {
		t.Errorf("%v", err)
	}
}

// TestWatchOfASettledTerm: it ends, and does not look for ever at an end that has come.
func TestWatchOfASettledTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, c *clock, l *term.Term) {
		if err := l.Settle(); err != nil {
			t.Fatal(err)
		}
		c.set(time.Minute, time.Minute)
		l.Watch(t.Context())
		if err := l.Check(); err != nil {
			t.Error(err)
		}
	})
}
