// Package flat reads and writes the JSON that most requests and responses are: one object whose members are text, whole numbers, true or
// false, without spaces and escapes. It takes a fifth of what encoding/json takes for such an object, and leaves everything else to the caller, who asks
// a JSON library then:
//
//	if !flat.Unmarshal(content, &lease) {
//		err = json.Unmarshal(content, &lease)
//	}
//
// What it reads and writes is what every JSON library reads and writes, so that no one can tell which of the two it was. A member that the struct does
// not name, one that is there twice, null, or a number that is not whole is left to the library, as are errors of every kind.
package flat

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Unmarshal reads an object into the struct that into points to, and reports whether it could. If not, the struct may have
// members of the object; a library that reads the same content into it sets them again.
func Unmarshal(content []byte, into any) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	v = v.Elem()
	fields := fieldsOf(v.Type())
	r := reader(strings.TrimSuffix(string(content), "\n")) // all texts that are read are parts of this one
	if fields == nil || !r.skip("{") {
		return false
	}
	if r.skip("}") {
		return r == ""
	}
	var seen uint64
	for next := 0; ; next++ {
		name, ok := r.text()
		if !ok || !r.skip(":") {
			return false
		}
		next = position(fields, name, next)
		if next < 0 || seen&(1<<next) != 0 || !r.value(v.Field(fields[next].index)) {
			return false
		}
		if seen |= 1 << next; !r.skip(",") {
			return r == "}"
		}
	}
}

// Append adds v, a struct, to b as [encoding/json.Marshal] writes it, and reports whether it could. If not, it returns b as it was.
func Append(b []byte, v any) ([]byte, bool) {
	s := reflect.ValueOf(v)
	if s.Kind() != reflect.Struct {
		return b, false
	}
	fields := fieldsOf(s.Type())
	if fields == nil {
		return b, false
	}
	begin := len(b)
	b = append(b, '{')
	for i := range fields {
		f := &fields[i]
		value := s.Field(f.index)
		if f.omitEmpty && empty(value) {
			continue
		}
		if len(b) > begin+1 {
			b = append(b, ',')
		}
		b = append(b, f.key...)
		switch value.Kind() {
		case reflect.String:
			var ok bool
			if b, ok = AppendText(b, value.String()); !ok {
				return b[:begin], false
			}
		case reflect.Int64:
			b = strconv.AppendInt(b, value.Int(), 10)
		case reflect.Bool:
			b = strconv.AppendBool(b, value.Bool())
		case reflect.Map:
			if value.IsNil() || value.Len() > 0 {
				return b[:begin], false
			}
			b = append(b, "{}"...)
		default:
			return b[:begin], false
		}
	}
	return append(b, '}'), true
}

// empty reports whether a member is left out with omitempty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.String, reflect.Int64, reflect.Bool, reflect.Pointer:
		return v.IsZero()
	default:
		return false
	}
}

// AppendText adds a text to b as JSON, and reports whether it could: whether the text is written as it is, but for the quotes. If not, it returns b as
// it was.
func AppendText(b []byte, text string) ([]byte, bool) {
	for i := range len(text) {
		if special[text[i]] {
			return b, false
		}
	}
	return append(append(append(b, '"'), text...), '"'), true
}

// special are the bytes that end a text, or that encoding/json escapes, or may escape.
var special = func() (in [256]bool) {
	for c := range in {
		in[c] = c < ' ' || c >= utf8.RuneSelf || strings.ContainsRune(`"\<>&`, rune(c))
	}
	return in
}()

// reader is what is left to read.
type reader string

// skip reads what must come next.
func (r *reader) skip(next string) bool {
	rest, ok := strings.CutPrefix(string(*r), next)
	*r = reader(rest)
	return ok
}

// text reads a text that is written as it is.
func (r *reader) text() (string, bool) {
	s := string(*r)
	if s == "" || s[0] != '"' {
		return "", false
	}
	for i := 1; i < len(s); i++ {
		if special[s[i]] {
			*r = reader(s[i+1:])
			return s[1:i], s[i] == '"'
		}
	}
	return "", false
}

// value reads a value into a field of a struct.
func (r *reader) value(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		text, ok := r.text()
		v.SetString(text)
		return ok
	case reflect.Int64:
		n, ok := r.number()
		v.SetInt(n)
		return ok
	case reflect.Bool:
		is := r.skip("true")
		v.SetBool(is)
		return is || r.skip("false")
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		return r.skip("{}")
	default:
		return false
	}
}

// number reads a whole number, as it is usually written.
func (r *reader) number() (int64, bool) {
	end := strings.IndexAny(string(*r), ",}")
	if end < 1 {
		return 0, false
	}
	digits := string(*r)[:end]
	*r = (*r)[end:]
	n, err := strconv.ParseInt(digits, 10, 64)
	first := strings.TrimPrefix(digits, "-")
	usual := digits == "0" || first != "" && first[0] >= '1' && first[0] <= '9'
	return n, usual && err == nil
}

// field is a field of a struct.
type field struct {
	name      string
	key       string // the name as it is written, with its colon
	index     int
	omitEmpty bool
}

// position is that of the field of a name, -1 if there is none. Members usually come in the order of the fields, so that it is looked for from one on.
func position(fields []field, name string, from int) int {
	for i := range fields {
		if i += from; i >= len(fields) {
			i -= len(fields)
		}
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

// types are the fields of structs that were seen: nil for those that are left to a JSON library.
var types sync.Map

func fieldsOf(t reflect.Type) []field {
	if known, ok := types.Load(t); ok {
		return known.([]field) //nolint:forcetypeassert // nothing else is stored
	}
	fields := examine(t)
	types.Store(t, fields)
	return fields
}

// examine returns the fields of a struct, nil if they are more than 64 or it is none of those whose JSON is what the tags of its fields say.
func examine(t reflect.Type) (fields []field) {
	if t.Kind() != reflect.Struct || t.NumField() > 64 || own(t) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		key, plain := AppendText(nil, name)
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || !plain || options != "" && options != "omitempty" || own(f.Type) {
			return nil
		}
		fields = append(fields, field{name: name, key: string(key) + ":", index: i, omitEmpty: options != ""})
	}
	return fields
}

// own reports whether a type has a JSON form of its own.
func own(t reflect.Type) bool {
	for _, method := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if reflect.PointerTo(t).Implements(method) {
			return true
		}
	}
	return false
}
