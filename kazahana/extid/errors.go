package extid

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed marks what cannot be a public ID of any key: it is also a [LengthError] or a [CharacterError].
var ErrMalformed = errors.New("malformed public ID")

// ErrImplausible is the answer to a well-formed string that stands for no ID that can have been made: it was made up, or
// belongs to another entity or secret. To callers it is an ID that does not exist. The error holds nothing of what came out
// of the decryption, so that it can be shown to anybody.
var ErrImplausible = errors.New("public ID stands for no ID that was made; treat it as not found")

// LengthError is an [ErrMalformed] of the wrong length.
type LengthError struct {
	Length int // in bytes
}

// Error says what there is and what there must be.
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

// Error says which character is where, and what to do about those that are there for a reason.
func (e *CharacterError) Error() string {
	fix := "only A to Z, a to z, 0 to 9, '-' and '_' can be in it"
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
// it was made up or altered, or the converter lacks a key of its system.
type KeyNumberError struct {
	Number int   // what the last character says
	Known  []int // what the converter has, in rising order
}

// Error names the key and those that there are.
func (e *KeyNumberError) Error() string {
	known := make([]string, len(e.Known))
	for i, n := range e.Known {
		known[i] = strconv.Itoa(n)
	}
	return fmt.Sprintf("public ID is of key %d by its last character, known here: %s; check the character, or configure the key",
		e.Number, strings.Join(known, ", "))
}
