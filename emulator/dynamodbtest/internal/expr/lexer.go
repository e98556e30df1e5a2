package expr

import (
	"fmt"
	"strings"
)

// kind is what a token is to the grammar.
type kind int

const (
	end     kind = iota // after the last token
	word                // an attribute name, a function name or a keyword
	name                // #placeholder
	value               // :placeholder
	number              // digits, only inside []
	symbol              // punctuation
	unknown             // a character that no rule has a use for
)

type token struct {
	kind  kind
	text  string
	start int // offset of the first byte in the source
	stop  int // offset after the last byte
}

// is reports whether the token is a keyword, which may be written in letters of either case, or a symbol.
func (t token) is(text string) bool {
	switch t.kind {
	case word:
		return strings.EqualFold(t.text, text)
	case symbol:
		return t.text == text
	default:
		return false
	}
}

// lex splits a source into tokens, the last of which is always the end. Characters that have no meaning become tokens
// too: the parser names them when it reaches them, after complaints about what stands before.
func lex(src string) []token {
	var tokens []token
	for i := 0; i < len(src); {
		c := src[i]
		start := i
		k := unknown
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case isLetter(c):
			k, i = word, skip(src, i+1, isPart)
		case isDigit(c):
			k, i = number, skip(src, i+1, isDigit)
		case (c == '#' || c == ':') && i+1 < len(src) && isPart(src[i+1]):
			k, i = name, skip(src, i+1, isPart)
			if c == ':' {
				k = value
			}
		case strings.HasPrefix(src[i:], "<=") || strings.HasPrefix(src[i:], ">=") || strings.HasPrefix(src[i:], "<>"):
			k, i = symbol, i+2
		case strings.IndexByte("()[].,=<>+-", c) >= 0:
			k, i = symbol, i+1
		default:
			i++
			for i < len(src) && src[i]&0xC0 == 0x80 { // the rest of a character of several bytes
				i++
			}
		}
		tokens = append(tokens, token{k, src[start:i], start, i})
	}
	last := 0
	if n := len(tokens); n > 0 {
		last = tokens[n-1].stop
	}
	return append(tokens, token{end, "<EOF>", last, last})
}

func skip(src string, i int, part func(byte) bool) int {
	for i < len(src) && part(src[i]) {
		i++
	}
	return i
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isPart(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' }

// syntaxError points at the token at index i and shows it between its neighbors as the source has them.
func syntaxError(src string, tokens []token, i int) error {
	start, stop := tokens[i].start, tokens[i].stop
	if i > 0 {
		start = tokens[i-1].start
	}
	if i+1 < len(tokens) {
		stop = tokens[i+1].stop
	}
	return fmt.Errorf("Syntax error; token: \"%s\", near: \"%s\"", tokens[i].text, src[start:stop])
}
