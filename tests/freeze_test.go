//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func init() { children["freeze"] = freeze } //nolint:gochecknoinits // before TestMain, on systems that can

// frozen is what a child says about its run.
type frozen struct {
	Err     string // of the context, the first time that it was asked after the thaw
	Lost    bool   // its cause is ErrLost
	Derived bool   // Check knew it through a derived context, at the same time
	Finish  bool   // a finish sent anyway was rejected as ErrLost; false if none was sent
	Before  bool   // a step passed the guard of the guarded resource, before the process was stopped
	After   bool   // a step taken in spite of all passed it after the thaw
	Status  once.Status
	Token   int64
}

// freeze runs an analysis whose work stops its own process for longer than the lock lasts.
func freeze() int {
	c, err := client.New(os.Getenv("LEASEHOLD_SERVER"), nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	gate := c.Analyses()
	var f frozen
	out, err := gate.Run(context.Background(), "a1", func(ctx context.Context, l once.Lock) (string, error) {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		f.Before = guarded(l.Token)
		fmt.Println("running")
		if err := standStill(); err != nil {
			return "", err
		}
		f.Derived = errors.Is(once.Check(derived), once.ErrLost)
		if err := ctx.Err(); err != nil {
			f.Err = err.Error()
		}
		f.Lost = errors.Is(context.Cause(ctx), once.ErrLost)
		f.After = guarded(l.Token)
		if os.Getenv("LEASEHOLD_STALE") == "" {
			return "done", nil
		}
		f.Finish = once.IsLost(gate.Finish(context.WithoutCancel(ctx), l, once.Result{Result: "stale"}))
		return "stale", nil
	}, &once.Options{TTL: holdTTL, Owner: "child"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	f.Status, f.Token = out.Status, out.Token
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		return 1
	}
	return 0
}

// TestFrozenProcess: SIGSTOP for longer than the lock lasts, which is what a frozen Lambda looks like from inside. The
// first thing that the thawed work is told is that its lock is lost, whether another has taken over or not. If one has,
// nothing that it writes in spite of that is accepted, by the gate or by the guarded resource. If none has, what it has
// done all the same is not done again.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want frozen
	}{
		"taken over": {[]string{"LEASEHOLD_STALE=1"}, frozen{
			Err: "context canceled", Lost: true, Derived: true, Finish: true, Before: true, After: false, Status: once.Lost,
			Token: 1,
		}},
		"left alone": {nil, frozen{
			Err: "context canceled", Lost: true, Derived: true, Finish: false, Before: true, After: true, Status: once.Ready,
			Token: 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFrozen(t, c.env, c.want)
		})
	}
}

func testFrozen(t *testing.T, env []string, want frozen) {
	t.Helper()
	store := docstore.NewMemory(nil)
	makeAnalyses(t, store, "a1")
	h := startHolder(t, store, "freeze", env...)
	waitUntilStopped(t, h.cmd.Process.Pid)
	c, err := client.New(h.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := c.Analyses()
	takeOver := func() {
		for {
			out, err := gate.Run(unhurried(t), "a1", func(_ context.Context, l once.Lock) (string, error) {
				if !h.step(l.Token) {
					return "", once.Permanent(errors.New("the guard rejected the step of the takeover"))
				}
				return "takeover", nil
			}, nil)
			switch {
			case err != nil:
				t.Fatal(err)
			case out.Status == once.Ready && out.Token == 2:
				return
			case out.Status != once.Locked:
				t.Fatalf("takeover: %+v", out)
			}
			time.Sleep(out.RetryAfter)
		}
	}
	if want.Finish {
		takeOver()
	} else {
		for a, err := gate.Get(unhurried(t), "a1"); a.Locked; a, err = gate.Get(unhurried(t), "a1") {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	var got frozen
	h.goesOn(t, &got)
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	result := "takeover"
	if !want.Finish {
		result = "done"
	}
	if a, err := gate.Get(unhurried(t), "a1"); err != nil || a.Result != result || a.Status != "READY" {
		t.Errorf("the analysis: %+v, %v", a, err)
	}
}
