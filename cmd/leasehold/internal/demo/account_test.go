package demo

import (
	"reflect"
	"strconv"
	"testing"
)

// TestAccounts: what each of the two accounts does with a late write, with one that is sent again, and with one of a
// clock that is wrong.
func TestAccounts(t *testing.T) {
	type step struct {
		worker, turn  string
		token, clock  int64
		u, f          int64 // what the worker has read
		passed        bool
		without, with outcome
		off           int64
		balances      [2]int64
		shoulds       [2]int64
	}
	for name, steps := range map[string][]step{
		"in turn": {
			{"A", "1", 1, 100, 0, 0, true, applied, applied, 0, [2]int64{10, 10}, [2]int64{10, 10}},
			{"B", "2", 2, 101, 10, 10, true, applied, applied, 0, [2]int64{20, 20}, [2]int64{20, 20}},
			{"A", "3", 3, 101, 20, 20, true, applied, applied, 0, [2]int64{30, 30}, [2]int64{30, 30}},
		},
		"a late write": {
			{"B", "2", 2, 100, 0, 0, true, applied, applied, 0, [2]int64{10, 10}, [2]int64{10, 10}},
			{"C", "3", 3, 101, 10, 10, true, applied, applied, 0, [2]int64{20, 20}, [2]int64{20, 20}},
			{"A", "1", 1, 102, 0, 0, false, overwrote, stale, -20, [2]int64{10, 20}, [2]int64{30, 20}},
			{"B", "4", 4, 103, 10, 20, true, applied, applied, 0, [2]int64{20, 30}, [2]int64{40, 30}},
		},
		"a late write that meets no other": {
			{"A", "1", 1, 100, 0, 0, false, applied, stale, 0, [2]int64{10, 0}, [2]int64{10, 0}},
			{"B", "2", 2, 101, 10, 0, true, applied, applied, 0, [2]int64{20, 10}, [2]int64{20, 10}},
		},
		"an answer that was lost": {
			{"A", "1", 1, 100, 0, 0, true, applied, applied, 0, [2]int64{10, 10}, [2]int64{10, 10}},
			{"A", "1", 1, 101, 10, 10, true, twice, repeated, 10, [2]int64{20, 10}, [2]int64{10, 10}},
			{"A", "1", 1, 102, 20, 10, true, twice, repeated, 10, [2]int64{30, 10}, [2]int64{10, 10}},
			{"B", "2", 2, 103, 30, 10, true, applied, applied, 0, [2]int64{40, 20}, [2]int64{20, 20}},
		},
		"a clock that is ahead": {
			{"A", "1", 1, 900, 0, 0, true, applied, applied, 0, [2]int64{10, 10}, [2]int64{10, 10}},
			{"B", "2", 2, 101, 10, 10, true, ignored, applied, -10, [2]int64{10, 20}, [2]int64{20, 20}},
			{"B", "2", 2, 102, 10, 20, true, ignored, repeated, -10, [2]int64{10, 20}, [2]int64{20, 20}},
			{"A", "3", 3, 900, 10, 20, true, applied, applied, 0, [2]int64{20, 30}, [2]int64{30, 30}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, f := &unfenced{account: newAccount()}, &fenced{account: newAccount()}
			for i, s := range steps {
				w := write{Worker: s.worker, Turn: s.turn, Token: s.token, Clock: s.clock, Unfenced: s.u, Fenced: s.f}
				without, with := u.write(w), f.write(w, s.passed)
				if without.Outcome != s.without || with.Outcome != s.with || without.Off != s.off {
					t.Errorf("%d: %s, off by %d, and %s; want %s, off by %d, and %s", i, without.Outcome, without.Off, with.Outcome,
						s.without, s.off, s.with)
				}
				if b, should := [2]int64{u.Balance, f.Balance}, [2]int64{u.Should, f.Should}; b != s.balances ||
					should != s.shoulds {
					t.Errorf("%d: balances %v of %v, want %v of %v", i, b, should, s.balances, s.shoulds)
				}
				if f.Balance != f.Should {
					t.Errorf("%d: the account with the fence is wrong", i)
				}
			}
		})
	}
}

// TestKept: the page is told of the last writes only, and of the last one that was not as it should be.
func TestKept(t *testing.T) {
	a := &unfenced{account: newAccount()}
	a.write(write{Worker: "A", Turn: "first", Token: 1, Unfenced: 0})
	a.write(write{Worker: "B", Turn: "late", Token: 0, Unfenced: -10})
	for i := range 100 {
		a.write(write{Worker: "A", Turn: strconv.Itoa(i), Token: int64(2 + i), Unfenced: a.Balance})
	}
	if len(a.Rows) != keptRows || len(a.Points) != keptPoints || a.Rows[0].ID != 102 || a.Rows[0].Token != 101 ||
		a.Points[keptPoints-1] != [2]int64{a.Balance, a.Should} {
		t.Errorf("%+v", a.account)
	}
	if want := (row{ID: 2, Worker: "B", From: -10, To: 0, Outcome: overwrote, Off: -20}); !reflect.DeepEqual(*a.Worst,
		want) {
		t.Errorf("%+v, want %+v", *a.Worst, want)
	}
}
