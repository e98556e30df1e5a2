package dynamodbtest

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decodeRequest fills the request type of an operation from a body. Members are matched by their exact names, and one
// that the type does not have is rejected by name: whatever this server would have to ignore is an error. A member that
// is null counts as left out, as it does for the service.
func decodeRequest(body []byte, into any) *apiError {
	if !utf8.Valid(body) {
		return badShape("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var raw any
	if err := d.Decode(&raw); err != nil {
		return badShape("the body is not JSON: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return badShape("the body has more than one JSON value")
	}
	return fill(reflect.ValueOf(into).Elem(), raw, "")
}

// fill sets a field of a request from JSON. where names it for errors.
func fill(dst reflect.Value, raw any, where string) *apiError {
	if raw == nil {
		return nil
	}
	switch dst.Kind() {
	case reflect.Interface: // an attribute value: decoded later, where its context is known
		dst.Set(reflect.ValueOf(raw))
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		return fill(dst.Elem(), raw, where)
	case reflect.Struct:
		return fillStruct(dst, raw, where)
	case reflect.Map:
		return fillMap(dst, raw, where)
	case reflect.Slice:
		return fillSlice(dst, raw, where)
	case reflect.String:
		text, ok := raw.(string)
		if !ok {
			return wrongShape(where, "a string", raw)
		}
		dst.SetString(text)
	case reflect.Bool:
		b, ok := raw.(bool)
		if !ok {
			return wrongShape(where, "true or false", raw)
		}
		dst.SetBool(b)
	case reflect.Int64:
		digits, ok := raw.(json.Number)
		if !ok {
			return wrongShape(where, "a number", raw)
		}
		n, err := strconv.ParseInt(digits.String(), 10, 64)
		if err != nil {
			return badShape("%s: %s is not a whole number", where, digits)
		}
		dst.SetInt(n)
	default:
		panic("unreachable: no request has a member of kind " + dst.Kind().String())
	}
	return nil
}

func fillStruct(dst reflect.Value, raw any, where string) *apiError {
	members, ok := raw.(map[string]any)
	if !ok {
		return wrongShape(where, "an object", raw)
	}
	for name, v := range members {
		field, ok := dst.Type().FieldByName(name)
		if !ok || field.Anonymous || !field.IsExported() {
			return unsupported("the member %s of this request", join(where, name))
		}
		if err := fill(dst.FieldByIndex(field.Index), v, join(where, name)); err != nil {
			return err
		}
	}
	return nil
}

func fillMap(dst reflect.Value, raw any, where string) *apiError {
	members, ok := raw.(map[string]any)
	if !ok {
		return wrongShape(where, "an object", raw)
	}
	dst.Set(reflect.MakeMapWithSize(dst.Type(), len(members)))
	for name, v := range members {
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := fill(e, v, join(where, name)); err != nil {
			return err
		}
		dst.SetMapIndex(reflect.ValueOf(name), e)
	}
	return nil
}

func fillSlice(dst reflect.Value, raw any, where string) *apiError {
	list, ok := raw.([]any)
	if !ok {
		return wrongShape(where, "an array", raw)
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(list), len(list)))
	for i, v := range list {
		if err := fill(dst.Index(i), v, join(where, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

func wrongShape(where, want string, got any) *apiError {
	if where == "" {
		where = "the body"
	}
	kind := map[reflect.Kind]string{reflect.Map: "an object", reflect.Slice: "an array", reflect.Bool: "a boolean"}
	name, ok := kind[reflect.TypeOf(got).Kind()]
	if !ok {
		name = "a string"
		if _, ok := got.(json.Number); ok {
			name = "a number"
		}
	}
	return badShape("%s has to be %s, found %s", where, want, name)
}

func join(where, name string) string { return strings.TrimPrefix(where+"."+name, ".") }
