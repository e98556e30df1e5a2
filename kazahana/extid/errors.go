package extid

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed marks what cannot be a public ID of any key: it is also a [LengthError] or a [CharacterError].
var ErrMalformed = errors.New("malformed public ID")

// ErrImplausible marks a well-formed string of which no ID can have been made: it was made up, or belongs to another
// entity or secret. To callers it is an ID that does not exist. The error contains nothing of the decrypted number, so
// that it can be shown to everyone.
var ErrImplausible = errors.New("public ID belongs to no ID that can have been made: treat it as not found")

// LengthError is an [ErrMalformed] of the wrong length.
type LengthError struct {
	Length int // in bytes
}

// Error is the length and the right one.
func (e *LengthError) Error() string {
	if e.Length == 0 {
		return fmt.Sprintf("public ID is empty: must have exactly %d characters", Length)
	}
	return fmt.Sprintf("public ID has %d characters: must have exactly %d", e.Length, Length)
}

// Is makes the error an [ErrMalformed].
func (*LengthError) Is(target error) bool { return target == ErrMalformed }

// CharacterError is an [ErrMalformed] with a character that is not in base64url.
type CharacterError struct {
	Character rune // the first of them; U+FFFD for a byte that is not UTF-8
	Position  int  // from 1
}

// Error names the character, its position and the cure.
func (e *CharacterError) Error() string {
	fix := "only A to Z, a to z, 0 to 9, '-' and '_' are allowed"
	switch e.Character {
	case '\n', '\r', '\t', ' ':
		fix = "remove the white space"
	case '=':
		fix = "remove the padding"
	case '+', '/':
		fix = "write it in base64url, with '-' and '_' in place of '+' and '/'"
	}
	return fmt.Sprintf("public ID has %q at position %d: %s", e.Character, e.Position, fix)
}

// Is makes the error an [ErrMalformed].
func (*CharacterError) Is(target error) bool { return target == ErrMalformed }

// KeyNumberError is a well-formed public ID whose last character names a key that the converter does not have. Either
// it was made up or altered, or the converter lacks a key.
type KeyNumberError struct {
	Number int   // of the last character
	Known  []int // of the converter's keys, ascending
}

// Error names the key and the known ones.
func (e *KeyNumberError) Error() string {
	known := make([]string, len(e.Known))
	for i, n := range e.Known {
		known[i] = strconv.Itoa(n)
	}
	return fmt.Sprintf(
		"public ID names key %d in its last character, known are %s: check the character, or configure the key",
		e.Number, strings.Join(known, ", "))
}
