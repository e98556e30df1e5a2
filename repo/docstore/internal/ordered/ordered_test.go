package ordered_test

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore/internal/ordered"
)

// TestSet: a set is what a sorted slice is, whatever is added and removed.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := ordered.New(cmp.Compare[int])
		var model []int
		add := func(v int) {
			set.Add(v)
			if at, found := slices.BinarySearch(model, v); !found {
				model = slices.Insert(model, at, v)
			}
		}
		// Enough for several chunks, in an order of its own.
		for range rapid.IntRange(0, 4).Draw(t, "chunks") {
			first, step := rapid.IntRange(0, 3000).Draw(t, "first"), rapid.SampledFrom([]int{-1, 1, 3}).Draw(t, "step")
			for i := range 700 {
				add(first + i*step)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) { add(rapid.IntRange(-50, 4000).Draw(t, "v")) },
			"remove": func(t *rapid.T) {
				from, n := rapid.IntRange(-50, 4000).Draw(t, "v"), rapid.IntRange(1, 600).Draw(t, "n")
				for v := from; v < from+n; v++ {
					set.Remove(v)
				}
				model = slices.DeleteFunc(model, func(v int) bool { return v >= from && v < from+n })
			},
			"": func(t *rapid.T) {
				from, n := rapid.IntRange(-100, 4100).Draw(t, "from"), 0
				at, _ := slices.BinarySearch(model, from)
				for v := range set.From(from) {
					if at+n >= len(model) || model[at+n] != v {
						t.Fatalf("from %d: %d follows %d values, model %v", from, v, n, model)
					}
					if n++; n == 700 {
						return
					}
				}
				if at+n != len(model) {
					t.Fatalf("from %d: %d values, want %d", from, n, len(model)-at)
				}
			},
		})
	})
}

// TestComparisons: however many values there are, a page costs the way to its first one.
func TestComparisons(t *testing.T) {
	compared := 0
	set := ordered.New(func(a, b int) int {
		compared++
		return cmp.Compare(a, b)
	})
	for n := range 200_000 {
		compared = 0
		v := rand.Int()
		set.Add(v)
		if most := 2*bits.Len(uint(n)) + 4; compared > most {
			t.Fatalf("value %d was added after %d comparisons, want %d at most", n, compared, most)
		}
		if n%1000 > 0 {
			continue
		}
		compared = 0
		read := 0
		for range set.From(rand.Int()) {
			if read++; read == 100 {
				break
			}
		}
		if most := 2*bits.Len(uint(n)) + 4; compared > most {
			t.Fatalf("of %d values, a page took %d comparisons, want %d at most", n, compared, most)
		}
	}
}
