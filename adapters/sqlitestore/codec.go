package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A document is kept as a JSON object whose members are in the order of their names. Text, whole numbers up to ±2^53,
// booleans and flat objects of text are the port's values. Whatever else somebody put there is [docstore.Opaque], keeps
// its spelling in Opaque.Raw (a string) and is written back byte for byte.
//
// Every write reads a document and writes one. encoding/json would spend several times as long on reflection, turn
// whole numbers into floats, and lose the spelling of what it does not understand.

// parseRow reads the column that holds a document.
func parseRow(k docstore.Key, column driver.Value) (docstore.Doc, error) {
	text, ok := column.(string)
	if !ok {
		return nil, fmt.Errorf("%w: %s: the stored document is not text", docstore.ErrDamaged, k)
	}
	doc, err := parseDoc(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: the stored document is no JSON object: %w", docstore.ErrDamaged, k, err)
	}
	return doc, nil
}

// appendDoc writes a document as JSON.
func appendDoc(b []byte, d docstore.Doc) []byte {
	var few [24]string
	names := few[:0]
	for f := range d {
		names = append(names, f)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, f := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, f), ':')
		switch v := d[f].(type) {
		case docstore.String:
			b = appendText(b, string(v))
		case docstore.Int:
			b = strconv.AppendInt(b, int64(v), 10)
		case docstore.Bool:
			b = strconv.AppendBool(b, bool(v))
		case docstore.Map:
			b = appendMap(b, v)
		case docstore.Opaque:
			b = append(b, v.Raw.(string)...) // only parseDoc makes them, the port refuses to write others
		}
	}
	return append(b, '}')
}

func appendMap(b []byte, m docstore.Map) []byte {
	names := make([]string, 0, len(m))
	for f := range m {
		names = append(names, f)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, f := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, f), ':')
		b = appendText(b, m[f])
	}
	return append(b, '}')
}

// appendText writes valid UTF-8 as a JSON string. Only what JSON demands is escaped.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// parseDoc reads a document. Text without escapes is not copied.
func parseDoc(text string) (docstore.Doc, error) {
	p := parser{text: text}
	doc := make(docstore.Doc, 16)
	err := p.object(0, func(name string, nameOK bool) error {
		if !nameOK {
			return p.errorf("a field's name is not valid text")
		}
		if _, twice := doc[name]; twice {
			return p.errorf("field %q occurs twice", name)
		}
		v, err := p.value()
		doc[name] = v
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(text) {
		return nil, p.errorf("something follows the object")
	}
	return doc, nil
}

// parser reads JSON (RFC 8259) from a text.
type parser struct {
	text string
	at   int
}

// maxNesting bounds the depth of foreign values, so that reading them does not exhaust the stack.
const maxNesting = 1000

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", p.at, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// next skips space and returns the byte that follows, 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) expect(c byte) error {
	if p.next() != c {
		return p.errorf("%q is missing", c)
	}
	p.at++
	return nil
}

// value reads any value. What the port cannot express becomes an Opaque.
func (p *parser) value() (docstore.Value, error) {
	c := p.next()
	from := p.at
	switch c {
	case '"':
		s, ok, err := p.string()
		if err != nil {
			return nil, err
		}
		if ok {
			return docstore.String(s), nil
		}
	case '{':
		m := docstore.Map{}
		flat := true
		err := p.object(0, func(name string, nameOK bool) error {
			_, twice := m[name]
			if !nameOK || twice || p.next() != '"' {
				flat = false
				return p.skip(1)
			}
			s, ok, err := p.string()
			flat = flat && ok
			m[name] = s
			return err
		})
		if err != nil {
			return nil, err
		}
		if flat {
			return m, nil
		}
	default:
		if err := p.skip(0); err != nil {
			return nil, err
		}
		switch raw := p.text[from:p.at]; raw {
		case "true", "false":
			return docstore.Bool(raw == "true"), nil
		case "-0": // a whole number, but not spelled as we would
		default:
			n, err := strconv.ParseInt(raw, 10, 64)
			if err == nil && n <= docstore.MaxInt && n >= -docstore.MaxInt {
				return docstore.Int(n), nil
			}
		}
	}
	return docstore.Opaque{Raw: p.text[from:p.at]}, nil
}

// skip passes over any value.
func (p *parser) skip(depth int) error {
	if depth > maxNesting {
		return p.errorf("nested deeper than %d", maxNesting)
	}
	switch c := p.next(); {
	case c == '"':
		_, _, err := p.string()
		return err
	case c == '{':
		return p.object(depth, func(string, bool) error { return p.skip(depth + 1) })
	case c == '[':
		return p.list(']', func() error { return p.skip(depth + 1) })
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(p.text[p.at:], word) {
				p.at += len(word)
				return nil
			}
		}
		return p.errorf("a value is missing")
	}
}

// object reads an object and calls member after each name. ok tells whether the name is valid text.
func (p *parser) object(depth int, member func(name string, ok bool) error) error {
	if depth > maxNesting {
		return p.errorf("nested deeper than %d", maxNesting)
	}
	if p.next() != '{' {
		return p.errorf("'{' is missing")
	}
	return p.list('}', func() error {
		if p.next() != '"' {
			return p.errorf("a name is missing")
		}
		name, ok, err := p.string()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		return member(name, ok)
	})
}

// list reads elements separated by commas, from the opening bracket to the closing one.
func (p *parser) list(closing byte, element func() error) error {
	p.at++
	if p.next() == closing {
		p.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch p.next() {
		case ',':
			p.at++
		case closing:
			p.at++
			return nil
		default:
			return p.errorf("',' or %q is missing", closing)
		}
	}
}

// number passes over a number.
func (p *parser) number() error {
	if p.text[p.at] == '-' {
		p.at++
	}
	if p.at < len(p.text) && p.text[p.at] == '0' {
		p.at++
	} else if !p.digits() {
		return p.errorf("a digit is missing")
	}
	if p.at < len(p.text) && p.text[p.at] == '.' {
		if p.at++; !p.digits() {
			return p.errorf("a digit is missing")
		}
	}
	if p.at < len(p.text) && (p.text[p.at] == 'e' || p.text[p.at] == 'E') {
		p.at++
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		if !p.digits() {
			return p.errorf("a digit is missing")
		}
	}
	return nil
}

func (p *parser) digits() bool {
	from := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at > from
}

// string reads a string. ok is false if it is JSON but no valid text: half of a surrogate pair, or bytes that are not
// UTF-8.
func (p *parser) string() (s string, ok bool, err error) {
	p.at++
	from := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			s = p.text[from:p.at]
			p.at++
			return s, utf8.ValidString(s), nil
		case c == '\\':
			return p.escaped(from)
		case c < ' ':
			return "", false, p.errorf("a control character in a string")
		}
		p.at++
	}
	return "", false, p.errorf("a string does not end")
}

// escaped reads the rest of a string that began at from and has its first escape here.
func (p *parser) escaped(from int) (s string, ok bool, err error) {
	b := append(make([]byte, 0, 2*(p.at-from)+16), p.text[from:p.at]...)
	ok = true
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(b), ok && utf8.Valid(b), nil
		case c < ' ':
			return "", false, p.errorf("a control character in a string")
		case c != '\\':
			b = append(b, c)
			continue
		case p.at == len(p.text):
			return "", false, p.errorf("a string does not end")
		}
		c = p.text[p.at]
		p.at++
		switch c {
		case '"', '\\', '/':
			b = append(b, c)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, whole, err := p.unicode()
			if err != nil {
				return "", false, err
			}
			ok = ok && whole
			b = utf8.AppendRune(b, r)
		default:
			return "", false, p.errorf("an unknown escape in a string")
		}
	}
	return "", false, p.errorf("a string does not end")
}

// unicode reads the digits after \u, and the second half if they are the first half of a surrogate pair. whole is false
// for half a pair.
func (p *parser) unicode() (r rune, whole bool, err error) {
	if r, err = p.hex4(); err != nil || r < 0xd800 || r > 0xdfff {
		return r, true, err
	}
	if r > 0xdbff || !strings.HasPrefix(p.text[p.at:], `\u`) {
		return utf8.RuneError, false, nil
	}
	back := p.at
	p.at += 2
	low, err := p.hex4()
	if err != nil {
		return 0, false, err
	}
	if low < 0xdc00 || low > 0xdfff {
		p.at = back
		return utf8.RuneError, false, nil
	}
	return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, true, nil
}

func (p *parser) hex4() (rune, error) {
	if len(p.text)-p.at < 4 {
		return 0, p.errorf("four hexadecimal digits are missing")
	}
	n, err := strconv.ParseUint(p.text[p.at:p.at+4], 16, 32)
	if err != nil {
		return 0, p.errorf("four hexadecimal digits are missing")
	}
	p.at += 4
	return rune(n), nil //nolint:gosec // four hexadecimal digits
}
