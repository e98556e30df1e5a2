package once

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Fingerprint is what [Do] compares of its input, for callers of [Run]: 43 characters, the SHA-256 of the input's
// canonical JSON (RFC 8785) in base64url. Equal values have equal fingerprints, whatever the order of their members,
// and clients in other languages make the same ones (contracts/vectors/fingerprints.json).
//
// An error says what JSON does not have, or what two readers of JSON may read differently: a whole number that is no
// 64-bit float, such as most above 2^53, and a string that is not valid UTF-8. Give such a number as a string (the tag
// `json:",string"`), and such bytes as []byte.
func Fingerprint(input any) (string, error) {
	text, err := canonical(input)
	if err != nil {
		return "", fmt.Errorf("the input has no fingerprint: %w", err)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// canonical is a value in canonical JSON.
func canonical(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if err := checkEscapes(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var read any
	if err := d.Decode(&read); err != nil {
		return nil, err
	}
	return appendCanonical(nil, read)
}

// checkEscapes refuses JSON with an escape that stands for no character. Marshal writes \ufffd for a byte that is not
// UTF-8, and U+FFFD itself as it is.
func checkEscapes(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		r := unit(text[i+1:])
		i += 4
		if utf16.IsSurrogate(r) && bytes.HasPrefix(text[i+1:], []byte(`\u`)) {
			r = utf16.DecodeRune(r, unit(text[i+3:]))
			i += 6
		}
		if r == utf8.RuneError || utf16.IsSurrogate(r) {
			return errors.New("a string in it is not valid Unicode")
		}
	}
	return nil
}

// unit is the value of four hexadecimal digits.
func unit(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16) // of valid JSON
	return rune(n)
}

func appendCanonical(b []byte, value any) (_ []byte, err error) {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v), nil
	case json.Number:
		return appendNumber(b, string(v))
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.SortedFunc(maps.Keys(v), byUnits) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(append(appendString(b, name), ':'), v[name]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	default:
		return append(b, "null"...), nil
	}
}

// byUnits orders names by their UTF-16, as RFC 8785 does: U+1F600 comes before U+FB33.
func byUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// appendString writes a string with the escapes that there must be.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		const escaped, letters = "\"\\\b\t\n\f\r", `"\btnfr`
		switch i := strings.IndexRune(escaped, r); {
		case i >= 0:
			b = append(b, '\\', letters[i])
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// appendNumber writes a number as ECMAScript does. A whole number has to be a float exactly, or two of them would have
// one fingerprint.
func appendNumber(b []byte, number string) ([]byte, error) {
	f, err := strconv.ParseFloat(number, 64)
	whole := !strings.ContainsAny(number, ".eE")
	if err != nil || whole && number != strconv.FormatFloat(f, 'f', 0, 64) {
		return nil, fmt.Errorf("the number %.40s is more than a 64-bit float, as which JSON is read, has room for: give it as "+
			"a string", number)
	}
	if size := max(f, -f); f != 0 && (size < 1e-6 || size >= 1e21) {
		text := strconv.AppendFloat(nil, f, 'e', -1, 64)
		return append(b, bytes.Replace(text, []byte("e-0"), []byte("e-"), 1)...), nil
	}
	return strconv.AppendFloat(b, f+0, 'f', -1, 64), nil // no -0
}
