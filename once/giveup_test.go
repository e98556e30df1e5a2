package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// TestGivenUp: whatever became of a request for a run when its caller left, or the gate did not respond, nothing stays
// locked by it, and a copy that comes later obtains nothing. A gate that does not know how to give up grants the run
// again, and it is released.
func TestGivenUp(t *testing.T) {
	hangs := func(ctx context.Context, _ call) (error, bool) { <-ctx.Done(); return ctx.Err(), false }
	applied := func(ctx context.Context, c call) (error, bool) { <-ctx.Done(); return ctx.Err(), c.name == "acquire" }
	for name, c := range map[string]struct {
		acquire func(context.Context, call) (error, bool)
		others  func(context.Context, call) (error, bool)
		ignores bool
		left    bool // the caller leaves after a second
		calls   []string
		most    time.Duration
		warned  int
	}{
		"lost on the way": {hangs, nil, false, true, []string{"acquire", "give up"}, time.Second, 0},
		"carried out":     {applied, nil, false, true, []string{"acquire", "give up"}, time.Second, 0},
		"carried out, and the gate is away for a while": {applied, failing("give up", 2, errNetwork, false), false, true,
			[]string{"acquire", "give up"}, 2 * time.Second, 0},
		"carried out, and the response is lost twice": {applied, failing("give up", 1, errNetwork, true), false, true,
			[]string{"acquire", "give up"}, 2 * time.Second, 0},
		"between two tries": {failing("acquire", always, errNetwork, true), nil, false, true, []string{"acquire", "give up"},
			time.Second, 0},
		"carried out, and the caller stays": {failing("acquire", always, errNetwork, true), nil, false, false,
			[]string{"acquire", "give up"}, 6 * time.Second, 0},
		"rejected meanwhile": {applied, failing("give up", 0, contracts.CodePermissionDenied, true), false, true,
			[]string{"acquire", "give up"}, time.Second, 1},
		"used for something else": {applied, failing("give up", 0, contracts.CodeRequestIDReused, true), false, true,
			[]string{"acquire", "give up"}, time.Second, 0},
		"at a gate that does not know it": {func(ctx context.Context, c call) (error, bool) {
			if c.n > 0 {
				return nil, false
			}
			return applied(ctx, c)
		}, nil, true, true, []string{"acquire", "release"}, time.Second, 0},
		"at a gate that does not know it, whose responses are lost": {func(ctx context.Context, c call) (error, bool) {
			if c.n > 1 {
				return nil, false
			}
			return applied(ctx, c)
		}, failing("release", 0, errNetwork, true), true, true, []string{"acquire", "release", "acquire", "release"},
			2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{ignores: c.ignores}
				f.fault = func(ctx context.Context, at call) (error, bool) {
					switch {
					case at.name == "acquire" && c.acquire != nil:
						return c.acquire(ctx, at)
					case at.name != "acquire" && c.others != nil:
						return c.others(ctx, at)
					}
					return nil, false
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.left {
					time.AfterFunc(time.Second, func() { cancel(errShutdown) })
				}
				warned := 0
				out, err := once.Run(ctx, f, "a1", func(context.Context, once.Lock) (string, error) {
					t.Error("the work ran")
					return "", nil
				}, &once.Options{Warn: func(error) { warned++ }})
				if c.left && (out.Status != once.Stopped || !errors.Is(out.Err, errShutdown) || err != nil) ||
					!c.left && !errors.Is(err, errNetwork) {
					t.Errorf("%+v, %v", out, err)
				}
				if took := time.Since(bubble); took > c.most {
					t.Errorf("took %v, want %v", took, c.most)
				}
				time.Sleep(time.Minute) // what goes on in the background has an end
				synctest.Wait()
				want(t, "calls", f.names(), c.calls)
				want(t, "warnings", warned, c.warned)
				want(t, "owner", f.owner, "")
				if c.ignores {
					return
				}
				want(t, "runs", f.runs, 0)
				f.fault = nil
				g, err := f.Acquire(t.Context(), once.Acquire{
					RunID: "a1", Owner: f.calls[0].text, RequestID: f.calls[0].req, TTL: time.Minute,
				})
				if g.Acquired || !errors.Is(err, contracts.CodeRequestIDReused) {
					t.Errorf("a copy gets %+v, %v", g, err)
				}
			})
		})
	}
}

// TestSettled: with Options.SettleTime a run is over when it has sent what it has to, or after that time: nothing is
// sent once it has returned. It does not matter whether the run was asked for, was stopped or has ended.
func TestSettled(t *testing.T) {
	stops := func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	ends := func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "done", nil }
	for name, c := range map[string]struct {
		call string // that waits for the gate
		work once.Work
	}{
		"given up": {"give up", ends}, "released": {"release", stops}, "finished": {"finish", ends},
	} {
		for gate, away := range map[string]time.Duration{"for 5 s": 5 * time.Second, "for ever": time.Hour} {
			t.Run(name+", the gate is away "+gate, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fake{}
					f.fault = func(ctx context.Context, at call) (error, bool) {
						if at.name != c.call && (at.name != "acquire" || c.call != "give up") {
							return nil, false
						}
						select {
						case <-time.After(away - at.at): // a call in hand is carried out late
							return nil, false
						case <-ctx.Done():
							return ctx.Err(), false
						}
					}
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Second, cancel)
					_, err := once.Run(ctx, f, "a1", c.work, &once.Options{SettleTime: 10 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					sent, took := len(f.calls), time.Since(bubble)
					settled := 5 * time.Second
					if away > time.Minute {
						settled = 11 * time.Second
					}
					want(t, "took", took.Truncate(time.Second), settled)
					time.Sleep(time.Hour)
					want(t, "calls after it returned", len(f.calls)-sent, 0)
					if away < time.Minute {
						want(t, "owner", f.owner, "")
					}
				})
			})
		}
	}
}
