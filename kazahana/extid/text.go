package extid

import "unicode/utf8"

// Length is how many characters a public ID has, each one byte.
const Length = 11

// KeyNumbers is how many keys there can be: their numbers are 0 to KeyNumbers-1.
const KeyNumbers = 4

// alphabet is that of base64url, RFC 4648 section 5: a character means its index.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// outside marks bytes in values that are not in the alphabet.
const outside = 0xff

// values is the inverse of alphabet.
var values = func() (v [256]byte) {
	for i := range v {
		v[i] = outside
	}
	for i := range len(alphabet) {
		v[alphabet[i]] = byte(i)
	}
	return v
}()

// appendText appends 64 bits, the highest first, and a key number in the 2 bits that base64url would leave zero.
func appendText(dst []byte, bits uint64, number int) []byte {
	for shift := 58; shift >= 4; shift -= 6 {
		dst = append(dst, alphabet[bits>>shift&63])
	}
	return append(
		dst, alphabet[bits<<2&63|uint64(number)&(KeyNumbers-1)]) //nolint:gosec // G115: New takes numbers from 0 to 3
}

// parseText is the inverse of appendText. Every string of the right length and alphabet has one meaning, and no other
// string has one: the standard library's decoder would ignore line ends and, unless told, what the last 2 bits say.
func parseText(s string) (bits uint64, number int, err error) {
	if len(s) != Length {
		return 0, 0, misspelled(s)
	}
	for i := range Length - 1 {
		v := values[s[i]]
		if v == outside {
			return 0, 0, misspelled(s)
		}
		bits = bits<<6 | uint64(v)
	}
	last := values[s[Length-1]]
	if last == outside {
		return 0, 0, misspelled(s)
	}
	return bits<<4 | uint64(last>>2), int(last & (KeyNumbers - 1)), nil
}

// misspelled says what is wrong with a string that parseText does not accept. A character that cannot be in any public
// ID says more than the length that comes with it (a line end, padding), so it is looked for first, as far as an
// external ID with one character too many would go: the string may be megabytes.
func misspelled(s string) error {
	for i, r := range s {
		if i > Length {
			break
		}
		if r >= utf8.RuneSelf || values[r] == outside {
			return &CharacterError{Character: r, Position: i + 1}
		}
	}
	return &LengthError{Length: len(s)}
}
