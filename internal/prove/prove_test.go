package prove

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRandom: no history of many breaks a promise, every fault happens, and every promise is judged.
func TestRandom(t *testing.T) {
	t.Parallel()
	ops, err := strconv.Atoi(os.Getenv("PROVE_OPS"))
	if err != nil {
		ops = 40_000
	}
	report := Random(t.Context(), Options{Seed: 1, Operations: ops})
	t.Logf("%+v", report)
	if report.Broken != nil {
		events, _ := Replay(report.Seed)
		for _, e := range events[max(0, len(events)-140):] {
			t.Log(e)
		}
		t.Fatalf("seed %d: %v", report.Seed, report.Broken)
	}
	for _, f := range report.Faults {
		if f.Count == 0 {
			t.Errorf("%q never happened", f.What)
		}
	}
	for _, j := range report.Judged {
		if j.Count == 0 {
			t.Errorf("%q was never judged", j.Name)
		}
	}
}

// TestReplay: a seed is the same history each time.
func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		first, _ := Replay(seed)
		again, _ := Replay(seed)
		if len(first) == 0 || !slices.Equal(first, again) {
			t.Errorf("seed %d: %d events, and then %d others", seed, len(first), len(again))
		}
	}
}

// TestEvery: no order of the steps of a small world breaks a promise.
func TestEvery(t *testing.T) {
	t.Parallel()
	most := 20_000
	if n, err := strconv.Atoi(os.Getenv("PROVE_STATES")); err == nil {
		most = n
	}
	for _, e := range Every(t.Context(), most, nil) {
		t.Logf("%s: %d states, %d steps, whole %v", e.World, e.States, e.Steps, e.Whole)
		if e.Broken != nil {
			t.Errorf("%s: %v\n%s", e.World, e.Broken, strings.Join(e.Path, "\n"))
		}
	}
}
