package attr

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Bounds of a number: 38 significant digits, magnitudes from 1E-130 up to 9.99…E+125.
const (
	maxDigits   = 38
	maxExponent = 125
	minExponent = -130
)

// Number is a decimal with up to 38 significant digits. Its form is unique, so == compares by size: "1" and "1.0" are
// one Number.
type Number struct {
	neg    bool
	digits string // significant digits without zeros at either end; empty is zero
	exp    int    // the power of ten of the first digit; 0 for zero
}

var (
	errOverflow  = errors.New("Number overflow. Attempting to store a number with magnitude larger than supported range")
	errUnderflow = errors.New("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	errPrecision = errors.New("Attempting to store more than 38 significant digits in a Number")
)

// ParseNumber reads a decimal without an exponent. Its errors have the service's texts.
func ParseNumber(text string) (Number, error) {
	if text == "" {
		return Number{}, errors.New("The parameter cannot be converted to a numeric value")
	}
	malformed := fmt.Errorf("The parameter cannot be converted to a numeric value: %s", text)
	rest, neg := text, false
	if rest[0] == '-' || rest[0] == '+' {
		neg = rest[0] == '-'
		rest = rest[1:]
	}
	if strings.ContainsAny(rest, "eE") && strings.Trim(rest, "0123456789.eE+-") == "" {
		return Number{}, errors.New("emulator/dynamodbtest does not support numbers with an exponent")
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	if whole+fraction == "" || !allDigits(whole) || !allDigits(fraction) {
		return Number{}, malformed
	}
	return newNumber(neg, whole+fraction, len(whole)-1)
}

// newNumber normalises the decimal d.ddd × 10^exp and checks its bounds.
func newNumber(neg bool, digits string, exp int) (Number, error) {
	trimmed := strings.TrimLeft(digits, "0")
	exp -= len(digits) - len(trimmed)
	trimmed = strings.TrimRight(trimmed, "0")
	switch {
	case trimmed == "":
		return Number{}, nil
	case exp > maxExponent:
		return Number{}, errOverflow
	case exp < minExponent:
		return Number{}, errUnderflow
	case len(trimmed) > maxDigits:
		return Number{}, errPrecision
	}
	return Number{neg: neg, digits: trimmed, exp: exp}, nil
}

func allDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// String writes the number as the service does: plain digits, no exponent, no superfluous zeros.
func (n Number) String() string {
	if n.digits == "" {
		return "0"
	}
	var b strings.Builder
	if n.neg {
		b.WriteByte('-')
	}
	switch {
	case n.exp < 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -n.exp-1))
		b.WriteString(n.digits)
	case len(n.digits) <= n.exp+1:
		b.WriteString(n.digits)
		b.WriteString(strings.Repeat("0", n.exp+1-len(n.digits)))
	default:
		b.WriteString(n.digits[:n.exp+1])
		b.WriteByte('.')
		b.WriteString(n.digits[n.exp+1:])
	}
	return b.String()
}

// sign is -1, 0 or 1.
func (n Number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.neg:
		return -1
	default:
		return 1
	}
}

// Cmp compares by size: -1, 0 or 1.
func (n Number) Cmp(o Number) int {
	s := n.sign()
	if s != o.sign() {
		if s < o.sign() {
			return -1
		}
		return 1
	}
	switch {
	case n.exp < o.exp:
		return -s
	case n.exp > o.exp:
		return s
	default: // the first digits are aligned, and a missing digit sorts before any
		return s * compareText(n.digits, o.digits)
	}
}

// Add returns the sum, or an error with the service's text when it does not fit a number.
func (n Number) Add(o Number) (Number, error) {
	low := min(n.lowest(), o.lowest())
	sum := new(big.Int).Add(n.scaled(low), o.scaled(low))
	digits := new(big.Int).Abs(sum).String()
	return newNumber(sum.Sign() < 0, digits, low+len(digits)-1)
}

// lowest is the power of ten of the last significant digit.
func (n Number) lowest() int {
	if n.digits == "" {
		return 0
	}
	return n.exp - len(n.digits) + 1
}

// scaled is the number in units of 10^low, where low is not above its lowest power.
func (n Number) scaled(low int) *big.Int {
	if n.digits == "" {
		return new(big.Int)
	}
	v, _ := new(big.Int).SetString(n.digits+strings.Repeat("0", n.lowest()-low), 10) // digits are digits
	if n.neg {
		v.Neg(v)
	}
	return v
}

// Seconds returns the number as Unix seconds; false when it has a fraction or does not fit an int64.
func (n Number) Seconds() (int64, bool) {
	if n.lowest() < 0 || n.exp > 18 {
		return 0, false
	}
	v := n.scaled(0)
	return v.Int64(), v.IsInt64()
}

// size counts one byte for each pair of digits, pairs being aligned on the decimal point, one for the exponent and one
// for a negative sign.
func (n Number) size() int {
	if n.digits == "" {
		return 1
	}
	digits := len(n.digits)
	if n.exp&1 == 0 {
		digits++ // the first pair has only one digit
	}
	size := 1 + (digits+1)/2
	if n.neg {
		size++
	}
	return size
}
