// Package field checks what callers send. Its errors name the field as the HTTP contract spells it, so that rules and
// endpoints report the same.
package field

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error says which field is invalid and what to send instead. Nothing was changed.
type Error struct {
	Name    string // as the contract spells it: "ttl_seconds"
	Problem string // what is wrong and what would be right: "must be from 1 to 86400"
}

// Error is the sentence "ttl_seconds must be from 1 to 86400".
func (e *Error) Error() string { return e.Name + " " + e.Problem }

// Errorf returns an [Error] for the field.
func Errorf(name, format string, args ...any) *Error {
	return &Error{Name: name, Problem: fmt.Sprintf(format, args...)}
}

// Text checks a required piece of text: not empty, at most most bytes, valid UTF-8, without control characters.
func Text(name, s string, most int) error {
	if s == "" {
		return Errorf(name, "is required: 1 to %d bytes of text", most)
	}
	return OptionalText(name, s, most)
}

// OptionalText is [Text] for a field that may be empty.
func OptionalText(name, s string, most int) error {
	if len(s) > most {
		return Errorf(name, "has %d bytes, %d at most", len(s), most)
	}
	if !utf8.ValidString(s) {
		return Errorf(name, "is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return Errorf(name, "has the control character %U at byte %d: remove it", r, i)
	}
	return nil
}

// Range checks a required whole number: from least to most, both allowed.
func Range(name string, n, least, most int64) error {
	if n < least || n > most {
		return Errorf(name, "must be a whole number from %d to %d", least, most)
	}
	return nil
}
