package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// mark is a field of every hash that is not of the document: a hash cannot be without fields. The port's names begin
// with a letter, so that they cannot meet.
const mark = "_doc"

// encode writes a value in its one spelling, so that equal values are equal bytes. A time, and what a field had before,
// are left to the script.
func encode(v docstore.Value) string {
	switch v := v.(type) {
	case docstore.String:
		return "s:" + string(v)
	case docstore.Int:
		return "i:" + strconv.FormatInt(int64(v), 10)
	case docstore.Bool:
		if v {
			return "b:1"
		}
		return "b:0"
	case docstore.Bytes:
		return "x:" + string(v)
	case docstore.Map:
		return "m:" + object(v)
	case docstore.Before:
		return "c:" + string(v)
	case docstore.Instant:
		return "t:" + strconv.FormatInt(v.Offset().Milliseconds(), 10)
	default:
		panic(fmt.Sprintf("redis: %T has passed the port's validation", v))
	}
}

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

// decode reads a stored value. What encode would have written in another way was written by another caller.
func decode(stored string) docstore.Value {
	if len(stored) < 2 || stored[1] != ':' {
		return docstore.Opaque{Raw: stored}
	}
	switch text := stored[2:]; stored[0] {
	case 's':
		if utf8.ValidString(text) {
			return docstore.String(text)
		}
	case 'i':
		n, err := strconv.ParseInt(text, 10, 64)
		var spelled [20]byte
		if err == nil && n <= docstore.MaxInt && n >= -docstore.MaxInt && string(strconv.AppendInt(spelled[:0], n, 10)) == text {
			return docstore.Int(n)
		}
	case 'b':
		if text == "0" || text == "1" {
			return docstore.Bool(text == "1")
		}
	case 'x':
		if len(text) <= docstore.MaxBytes {
			return docstore.Bytes(text)
		}
	case 'm':
		if text == "{}" {
			return docstore.Map{}
		}
		var m map[string]string
		if json.Unmarshal([]byte(text), &m) == nil && object(m) == text {
			return docstore.Map(m)
		}
	}
	return docstore.Opaque{Raw: stored}
}

// decodeDoc reads a document as the scripts return it, a list of fields and values; an empty list is no document.
func decodeDoc(reply any) (docstore.Doc, error) {
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, fmt.Errorf("a document is %T, and no list of fields and values", reply)
	}
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no document is a valid result
	}
	doc := make(docstore.Doc, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name, isName := list[i].(string)
		stored, isValue := list[i+1].(string)
		if !isName || !isValue {
			return nil, fmt.Errorf("a field of a document is %T, its value %T", list[i], list[i+1])
		}
		if name != mark {
			doc[name] = decode(stored)
		}
	}
	return doc, nil
}

// decodeTime reads a time as the scripts return it, in milliseconds since 1970.
func decodeTime(reply any) (time.Time, error) {
	ms, ok := whole(reply)
	if !ok {
		return time.Time{}, fmt.Errorf("the time is %v", reply)
	}
	return time.UnixMilli(ms).UTC(), nil
}
