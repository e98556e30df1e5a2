package once_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/once"
)

// clocks are a process's clocks that can be moved apart. They run with the bubble's.
type clocks struct {
	mu              sync.Mutex
	monotonic, wall time.Duration // ahead of the bubble's
}

// jump moves the clocks.
func (c *clocks) jump(monotonic, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monotonic, c.wall = c.monotonic+monotonic, c.wall+wall
}

func (c *clocks) read() (monotonic, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.monotonic).Round(0), time.Now().Add(c.wall).Round(0)
}

// TestThaw: the process does not run for longer than its lock lasts, and the first thing that runs then is the work. In
// the bubble no time passes between the thaw and the question, so that no timer can have done it.
func TestThaw(t *testing.T) {
	for name, c := range map[string]struct {
		monotonic, wall time.Duration // how far each clock went meanwhile
		lost            bool
	}{
		"SIGSTOP: both clocks ran on":                       {5 * time.Minute, 5 * time.Minute, true},
		"suspend: the monotonic clock stood still":          {0, 5 * time.Minute, true},
		"the wall clock was set back, the monotonic ran on": {5 * time.Minute, -time.Hour, true},
		"not long enough":                                   {4 * time.Minute, 4 * time.Minute, false},
		"the wall clock was set back":                       {0, -time.Hour, false},
		"to the last moment": {5*time.Minute - time.Millisecond - 1,
			5*time.Minute - time.Millisecond - 1, false},
		"to what a store may cut off": {5*time.Minute - time.Millisecond,
			5*time.Minute - time.Millisecond, true},
		"the wall clock was set forward, to be on the safe side": {0, time.Hour, true},
	} {
		for question, ask := range map[string]func(ctx, derived context.Context) error{
			"Err":           func(ctx, _ context.Context) error { return ctx.Err() },
			"Cause":         func(ctx, _ context.Context) error { return context.Cause(ctx) },
			"Check":         func(ctx, _ context.Context) error { return once.Check(ctx) },
			"Check derived": func(_, derived context.Context) error { return once.Check(derived) },
			"Done": func(ctx, _ context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				default:
					return nil
				}
			},
			"derived after Err": func(ctx, derived context.Context) error {
				_ = ctx.Err()
				return derived.Err()
			},
			"made after": func(ctx, _ context.Context) error {
				after, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return after.Err()
			},
		} {
			t.Run(name+"/"+question, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, both := &fake{}, &clocks{}
					o := &once.Options{}
					o.SetClock(both.read)
					out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
						derived, cancel := context.WithTimeout(ctx, time.Hour)
						defer cancel()
						want(t, "before", ask(ctx, derived), nil)
						both.jump(c.monotonic, c.wall)
						err := ask(ctx, derived)
						if (err != nil) != c.lost {
							t.Errorf("after the thaw: %v, want lost: %v", err, c.lost)
						}
						if saysWhy := question == "Cause" || strings.HasPrefix(question, "Check"); c.lost &&
							errors.Is(err, once.ErrLost) != saysWhy {
							t.Errorf("after the thaw: %v, is ErrLost: %v, want %v", err, !saysWhy, saysWhy)
						}
						if c.lost && !errors.Is(context.Cause(derived), once.ErrLost) {
							t.Errorf("cause %v, want ErrLost", context.Cause(derived))
						}
						both.jump(-c.monotonic, -c.wall)
						return "", context.Cause(ctx)
					}, o)
					want(t, "lost", out.Status == once.Lost, c.lost) // and it stays lost
				})
			})
		}
	}
}

// TestThawOfAWaitingWork: without a call of Err, a derived context still ends within a second.
func TestThawOfAWaitingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, both := &fake{}, &clocks{}
		o := &once.Options{}
		o.SetClock(both.read)
		out := run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			done := derived.Done()
			time.Sleep(10500 * time.Millisecond)
			both.jump(0, 5*time.Minute)
			<-done
			want(t, "told at", time.Since(bubble), 11*time.Second)
			return "", context.Cause(derived)
		}, o)
		lost(t, f, out, "acquire") // and no refresh, which would only have been rejected
	})
}

// TestHeartbeatAfterSleep: a machine that slept for less than the lock lasts refreshes soon after, not when its timer
// ends.
func TestHeartbeatAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, both := &fake{}, &clocks{}
		o := &once.Options{}
		o.SetClock(both.read)
		run(t, t.Context(), f, func(ctx context.Context, _ once.Lock) (string, error) {
			time.Sleep(500 * time.Millisecond)
			both.jump(0, 2*time.Minute)
			return "", work(ctx, 10*time.Second)
		}, o)
		want(t, "refreshes", f.times("refresh"), s(1))
	})
}

// TestContextOfTheWork keeps what the caller's has.
func TestContextOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Hour)
		defer cancel()
		contexts := make(chan context.Context, 1)
		run(t, ctx, &fake{}, func(ctx context.Context, _ once.Lock) (string, error) {
			contexts <- ctx
			want(t, "value", ctx.Value(key{}), any("trace"))
			end, ok := ctx.Deadline()
			want(t, "deadline", end.Sub(bubble), time.Hour)
			want(t, "has a deadline", ok, true)
			return "", nil
		}, nil)
		kept := <-contexts
		want(t, "after the run", kept.Err(), context.Canceled)
		want(t, "cause", context.Cause(kept), context.Canceled)
	})
	want(t, "Check of an unrelated context", once.Check(t.Context()), nil)
}
