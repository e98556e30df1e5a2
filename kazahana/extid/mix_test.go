package extid

import (
	"math"
	"testing"
)

// TestMixerIsFmix64 holds the permutation to values of MurmurHash3's finalizer that are known elsewhere.
func TestMixerIsFmix64(t *testing.T) {
	for _, c := range []struct{ in, out uint64 }{
		{0, 0},
		{1, 0xb456bcfc34c2cb2c},
		{2, 0x3abf2a20650683e7},
		{math.MaxUint64, 0x64b5720b4b825f21},
	} {
		if got := (mixer{}).forward(c.in ^ salt); got != c.out {
			t.Errorf("fmix64(%#x) = %#x, want %#x", c.in, got, c.out)
		}
		if got := (mixer{}).inverse(c.out); got != c.in^salt {
			t.Errorf("back from %#x: got %#x, want %#x", c.out, got, c.in^salt)
		}
	}
	if (mixer{}).forward(0) == 0 {
		t.Error("0 is mapped to itself")
	}
	if one := uint64(factor1); one*inverse1 != 1 {
		t.Errorf("%#x is not the inverse of %#x", uint64(inverse1), one)
	}
	if two := uint64(factor2); two*inverse2 != 1 {
		t.Errorf("%#x is not the inverse of %#x", uint64(inverse2), two)
	}
}

// TestMixerHidesOrder: over IDs that follow one another, flipping any bit of the ID flips any bit of the result about
// half the time. The bound is 4.5 standard deviations of chance, for the worst of 63 * 64 pairs.
func TestMixerHidesOrder(t *testing.T) {
	const ids, first = 20_000, 33_554_432_000 << 22
	var flips [63][64]int
	for i := range uint64(ids) {
		x := first + i
		y := (mixer{}).forward(x)
		for in := range flips {
			changed := y ^ (mixer{}).forward(x^1<<in)
			for out := range flips[in] {
				flips[in][out] += int(changed >> out & 1)
			}
		}
	}
	worst := 0.0
	for _, row := range flips {
		for _, n := range row {
			worst = max(worst, math.Abs(float64(n)/ids-0.5))
		}
	}
	if limit := 4.5 * 0.5 / math.Sqrt(ids); worst > limit {
		t.Errorf("a bit flips with a probability that is %.4f away from one half, want at most %.4f", worst, limit)
	}
}
