package machineid

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// inWords is an error of the JSON decoder in the words of a configuration, without the names of Go's types. size is the
// number of bytes of the text.
func inWords(err error, size int) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		name := cmp.Or(wrong.Field[strings.LastIndex(wrong.Field, ".")+1:], "the value") // without the embedded type
		return fmt.Errorf("%s must be %s, not %s", name, typeInWords(wrong.Type), wrong.Value)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset < int64(size) {
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) {
		return errors.New("not JSON: it ends too early")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%s is not a member: check its spelling, or remove it", name)
	}
	return err
}

// typeInWords is a Go type in the words of JSON.
func typeInWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
