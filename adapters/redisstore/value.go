package redisstore

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// What texts begin with that are no text: a byte that UTF-8 does not have, and a letter.
const (
	ofBytes = "\xffx"
	ofMap   = "\xffm"
)

// half is added to the milliseconds of a time, so that it is no whole number.
const half = 0.5

// appendValue appends a value in its one spelling, so that equal values are equal to Lua. A time that the store knows,
// and what a field had before, are worked out by the script.
func appendValue(b []byte, v docstore.Value) []byte {
	switch v := v.(type) {
	case docstore.String:
		if len(v) == timeLength && v[timeLength-1] == 'Z' {
			if t, err := docstore.ParseTime(v); err == nil {
				return appendFloat(b, float64(t.UnixMilli())+half)
			}
		}
		return appendText(b, "", string(v))
	case docstore.Int:
		return appendInt(b, int64(v))
	case docstore.Bool:
		return appendBool(b, bool(v))
	case docstore.Bytes:
		return appendText(b, ofBytes, string(v))
	case docstore.Map:
		return appendText(b, ofMap, object(v))
	default:
		panic(fmt.Sprintf("redis: %T has passed the port's validation", v))
	}
}

// timeLength is that of [docstore.FormatTime].
const timeLength = 24

// object is a map as JSON, its keys in order and nothing escaped that need not be.
func object(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic(err) // texts can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// value reads the next value; nil if there is none in this place. What appendValue would have written in another way
// was written by another caller.
func (u *unpacker) value() (docstore.Value, error) {
	from := u.rest
	p := u.next()
	if !u.skip(p) {
		return nil, errPacked
	}
	if p.kind == isNil {
		return nil, nil //nolint:nilnil // see above
	}
	if v := p.value(); v != nil {
		return v, nil
	}
	return docstore.Opaque{Raw: from[:len(from)-len(u.rest)]}, nil
}

// value is the port's value, nil if it is none of them.
func (p part) value() docstore.Value {
	switch p.kind {
	case isBool:
		return docstore.Bool(p.n == 1)
	case isInt:
		if p.n >= -docstore.MaxInt && p.n <= docstore.MaxInt {
			return docstore.Int(p.n)
		}
	case isFloat:
		if ms := p.f - half; ms == math.Trunc(ms) && ms >= firstTime && ms <= lastTime {
			return docstore.FormatTime(time.UnixMilli(int64(ms)))
		}
	case isText:
		return textValue(p.text)
	case isNothing, isNil, isList, isTable:
	}
	return nil
}

// The first and the last time that a write can set, in milliseconds, and some more.
var (
	firstTime = float64(time.Date(-200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	lastTime  = float64(time.Date(10200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
)

func textValue(text string) docstore.Value {
	if bytes, ok := strings.CutPrefix(text, ofBytes); ok {
		if len(bytes) <= docstore.MaxBytes {
			return docstore.Bytes(bytes)
		}
		return nil
	}
	if written, ok := strings.CutPrefix(text, ofMap); ok {
		if written == "{}" {
			return docstore.Map{}
		}
		var m map[string]string
		if json.Unmarshal([]byte(written), &m) == nil && object(m) == written {
			return docstore.Map(m)
		}
		return nil
	}
	if utf8.ValidString(text) {
		return docstore.String(text)
	}
	return nil
}

// doc reads the next document, nil if there is none in this place: its fields, and when it ends, a number, or false.
func (u *unpacker) doc() (docstore.Doc, error) {
	fields := u.next()
	switch {
	case fields.kind == isNil:
		return nil, nil //nolint:nilnil // no document is a valid result
	case fields.kind != isTable && (fields.kind != isList || fields.n > 0): // Lua writes an empty table as a list
		return nil, damaged("it has no fields", fields)
	}
	doc := make(docstore.Doc, min(fields.n, int64(len(u.rest))))
	for range fields.n {
		name := u.next()
		v, err := u.value()
		if name.kind != isText || err != nil || v == nil {
			return nil, damaged("a field is none", name)
		}
		doc[name.text] = v
	}
	if ends := u.next(); ends.kind != isInt && ends.kind != isBool {
		return nil, damaged("it has no end", ends)
	}
	return doc, nil
}

// damaged is the error of what is stored in the place of a document, and is none.
func damaged(what string, p part) error {
	return fmt.Errorf("%w: a key of a document holds something else: %s (%d)", docstore.ErrDamaged, what, p.kind)
}

// list reads a list of texts.
func (u *unpacker) list() ([]string, error) {
	p := u.next()
	if p.kind != isList {
		return nil, fmt.Errorf("the members are %d", p.kind)
	}
	texts := make([]string, 0, min(p.n, int64(len(u.rest))))
	for range p.n {
		member := u.next()
		if member.kind != isText {
			return nil, fmt.Errorf("a member is %d", member.kind)
		}
		texts = append(texts, member.text)
	}
	return texts, nil
}

// number reads a whole number.
func (u *unpacker) number() (int64, error) {
	p := u.next()
	if p.kind != isInt {
		return 0, fmt.Errorf("a number is %d", p.kind)
	}
	return p.n, nil
}
