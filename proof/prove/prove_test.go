package prove

import (
	"maps"
	"os"
	"slices"
	"strconv"
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

// TestRandomHasEveryWorld: also the shortest proof meets what goes wrong in some worlds only, wherever it begins.
func TestRandomHasEveryWorld(t *testing.T) {
	t.Parallel()
	for seed := range uint64(worlds) {
		report := Random(t.Context(), Options{Seed: seed, Operations: 1, Workers: 1})
		met := map[string]bool{}
		for _, f := range report.Faults {
			met[f.What] = f.Count > 0
		}
		set := met[faultNames[storeStep]] || met[faultNames[storeSteps]]
		if report.Histories != worlds || report.Broken != nil || !set || !met[faultNames[cameBack]] ||
			!met[faultNames[serverClock]] {
			t.Errorf("from seed %d on: %+v", seed, report)
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
	most := 60_000
	if n, err := strconv.Atoi(os.Getenv("PROVE_STATES")); err == nil {
		most = n
	}
	for _, e := range Every(t.Context(), most, nil) {
		t.Log(e.Text())
		if e.Broken != nil {
			t.Errorf("%s: %v", e.World, e.Broken)
		}
	}
}

// TestEveryLeavesNothingOut: orders that are left out lead to no answer that is not had without them, nor to one in
// fewer steps.
func TestEveryLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for _, s := range []small{
		{name: "two locks", keys: []kind{plain, plain}, clients: 3, ticks: 1, sends: 2, sets: 1},
		{name: "a lock", keys: []kind{plain}, clients: 2, ticks: 1, sends: 3},
		{name: "a copy", keys: []kind{plain}, clients: 1, ticks: 2, sends: 3, copies: 1},
		{name: "a line", keys: []kind{fair}, clients: 2, ticks: 2, sends: 2, copies: 1},
		{name: "a run", keys: []kind{aRun}, clients: 2, ticks: 1, sends: 3},
	} {
		s.heard = map[string]int{}
		const most = 100_000
		fewer := s.explore(t.Context(), most, nil)
		all := s
		all.all, all.heard = true, map[string]int{}
		more := all.explore(t.Context(), most, nil)
		t.Logf("%s: %d ways in place of %d, %d answers", s.name, fewer.Moves, more.Moves, len(s.heard))
		if !fewer.Whole || !more.Whole || fewer.Moves >= more.Moves || !maps.Equal(s.heard, all.heard) {
			t.Errorf("%s: %+v, and with all orders %+v\n%v\n%v", s.name, fewer, more, s.heard, all.heard)
		}
	}
}
