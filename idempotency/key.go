package idempotency

import (
	"errors"
	"net/http"
	"strings"
)

// Header is the name of the request's header field.
const Header = "Idempotency-Key"

// ReplayedHeader is the header field of a response that was stored before: "true".
const ReplayedHeader = "Idempotency-Replayed"

// maxKey is how many characters a key has at most.
const maxKey = 255

// key reads the header field: a string of Structured Fields (RFC 8941), "8e03978e-40d5", as the IETF draft wants it, or
// the same without quotes, as many clients send it. Both name the same key. given is false without the field.
func key(h http.Header) (k string, given bool, err error) {
	lines := h.Values(Header)
	if len(lines) == 0 {
		return "", false, nil
	}
	if len(lines) > 1 {
		return "", true, errors.New("is given more than once: a request has one key")
	}
	text := strings.Trim(lines[0], " \t")
	if inner, ok := strings.CutPrefix(text, `"`); ok {
		k, err = quoted(inner)
	} else {
		k, err = plain(text)
	}
	switch {
	case err != nil:
		return "", true, err
	case k == "":
		return "", true, errors.New("is empty: make up a key, such as a UUID")
	case len(k) > maxKey:
		return "", true, errors.New("has more than 255 characters")
	}
	return k, true, nil
}

// quoted reads the rest of a string, after its first quote.
func quoted(text string) (string, error) {
	var k strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && i == len(text)-1:
			return k.String(), nil
		case c == '"':
			return "", errors.New("has more than one string: a key has no parameters, and is one item")
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", errors.New(`has a "\" that is followed by neither "\" nor a quote`)
			}
			k.WriteByte(text[i])
		case c < ' ' || c > '~':
			return "", errors.New("has a character that is not printable ASCII")
		default:
			k.WriteByte(c)
		}
	}
	return "", errors.New("has no closing quote")
}

// plain reads a key without quotes.
func plain(text string) (string, error) {
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) }) {
		return "", errors.New(
			"must be a string in quotes, or characters of printable ASCII without spaces, quotes, backslashes, commas and semicolons")
	}
	return text, nil
}
