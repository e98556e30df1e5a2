package attr_test

import (
	"cmp"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

func TestParseNumber(t *testing.T) {
	for _, c := range []struct{ in, out, err string }{
		{in: "1", out: "1"},
		{in: "1.0", out: "1"},
		{in: "+1", out: "1"},
		{in: "-1.50", out: "-1.5"},
		{in: "-0", out: "0"},
		{in: "0.000", out: "0"},
		{in: "007", out: "7"},
		{in: ".5", out: "0.5"},
		{in: "5.", out: "5"},
		{in: "1E-3", err: "emulator/dynamodbtest does not support numbers with an exponent"},
		{in: strings.Repeat("9", 38), out: strings.Repeat("9", 38)},
		{in: strings.Repeat("9", 38) + "000", out: strings.Repeat("9", 38) + "000"},
		{in: "1" + strings.Repeat("0", 125), out: "1" + strings.Repeat("0", 125)},
		{in: "." + strings.Repeat("0", 129) + "1", out: "0." + strings.Repeat("0", 129) + "1"},
		{in: "", err: "The parameter cannot be converted to a numeric value"},
		{in: "one", err: "The parameter cannot be converted to a numeric value: one"},
		{in: ".", err: "The parameter cannot be converted to a numeric value: ."},
		{in: "-", err: "The parameter cannot be converted to a numeric value: -"},
		{in: "1.2.3", err: "The parameter cannot be converted to a numeric value: 1.2.3"},
		{in: "0x1", err: "The parameter cannot be converted to a numeric value: 0x1"},
		{in: " 1", err: "The parameter cannot be converted to a numeric value:  1"},
		{in: "NaN", err: "The parameter cannot be converted to a numeric value: NaN"},
		{in: "Infinity", err: "The parameter cannot be converted to a numeric value: Infinity"},
		{in: strings.Repeat("9", 39), err: "Attempting to store more than 38 significant digits in a Number"},
		{in: "1" + strings.Repeat("0", 126),
			err: "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{in: "." + strings.Repeat("0", 130) + "1",
			err: "Number underflow. Attempting to store a number with magnitude smaller than supported range"},
	} {
		t.Run(c.in, func(t *testing.T) {
			n, err := attr.ParseNumber(c.in)
			switch {
			case c.err != "" && (err == nil || err.Error() != c.err):
				t.Errorf("got %v, %v; want the error %q", n, err, c.err)
			case c.err == "" && (err != nil || n.String() != c.out):
				t.Errorf("got %v, %v; want %s", n, err, c.out)
			}
		})
	}
}

// numbers draws from all shapes, and from a few numbers that are close to each other.
func numbers() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`-?[0-9]{1,12}(\.[0-9]{1,12})?`),
		rapid.StringMatching(`-?[12](\.[12])?`),
	)
}

func parse(t *rapid.T, text string) attr.Number {
	n, err := attr.ParseNumber(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func exact(t *rapid.T, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%s is no rational", text)
	}
	return r
}

// TestNumbersAreRationals holds order, sums and normal form against exact arithmetic.
func TestNumbersAreRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := numbers().Draw(t, "a"), numbers().Draw(t, "b")
		x, y, p, q := parse(t, a), parse(t, b), exact(t, a), exact(t, b)
		if got, want := x.Cmp(y), p.Cmp(q); got != want {
			t.Errorf("%s compared with %s: got %d, want %d", a, b, got, want)
		}
		if (x == y) != (p.Cmp(q) == 0) {
			t.Errorf("%s == %s is %v", a, b, x == y)
		}
		if got := exact(t, x.String()); got.Cmp(p) != 0 {
			t.Errorf("%s is written %s", a, x)
		}
		if again := parse(t, x.String()); again != x {
			t.Errorf("%s parses to another number than %s", x, a)
		}
		if text := x.String(); strings.ContainsAny(text, "eE+") || text != "0" && strings.HasPrefix(text, "00") ||
			strings.Contains(text, ".") && strings.HasSuffix(text, "0") || text == "-0" {
			t.Errorf("%s is not in normal form", text)
		}
		if sum, err := x.Add(y); err == nil && exact(t, sum.String()).Cmp(new(big.Rat).Add(p, q)) != 0 {
			t.Errorf("%s + %s = %s", a, b, sum)
		}
	})
}

func TestCmp(t *testing.T) {
	zeros, tiny := strings.Repeat("0", 125), "."+strings.Repeat("0", 129)+"1"
	ascending := []string{"-9" + zeros, "-10", "-2", "-1.3", "-1.25", "-1.2", "-1", "-0.5", "-" + tiny, "0",
		tiny, "0.09", "0.5", "1", "1.2", "1.25", "1.3", "2", "10", "9" + zeros}
	for i, a := range ascending {
		for j, b := range ascending {
			x, errX := attr.ParseNumber(a)
			y, errY := attr.ParseNumber(b)
			if errX != nil || errY != nil {
				t.Fatal(errX, errY)
			}
			if got, want := x.Cmp(y), cmp.Compare(i, j); got != want {
				t.Errorf("%s compared with %s: got %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestSumsOutOfRange(t *testing.T) {
	big, err := attr.ParseNumber("9" + strings.Repeat("0", 125))
	if err != nil {
		t.Fatal(err)
	}
	one, err := attr.ParseNumber("1")
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := big.Add(big); err == nil {
		t.Errorf("9e125 + 9e125 = %v, want an overflow", sum)
	}
	if sum, err := big.Add(one); err == nil {
		t.Errorf("9e125 + 1 = %v, want too many digits", sum)
	}
}

func TestSeconds(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1700000000": 1700000000, "-5": -5, "1000": 1000} {
		n, err := attr.ParseNumber(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := n.Seconds(); !ok || got != want {
			t.Errorf("%s: got %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"0.5", "1" + strings.Repeat("0", 30), "9999999999999999999"} {
		n, err := attr.ParseNumber(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := n.Seconds(); ok {
			t.Errorf("%s: got %d, want none", in, got)
		}
	}
}
