package attr

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxNesting is how deep lists and maps may be nested inside an attribute.
const maxNesting = 32

// ShapeError marks a value whose JSON has the wrong shape: the service rejects it with SerializationException. Every
// other error of [Decode] is the text of a ValidationException.
type ShapeError struct{ msg string }

func (e *ShapeError) Error() string { return e.msg }

func shapeError(format string, args ...any) error { return &ShapeError{fmt.Sprintf(format, args...)} }

// Decode turns the JSON form of a value, as encoding/json decodes it into any, into a Value.
func Decode(raw any) (Value, error) { return decode(raw, 0) }

// DecodeMap decodes the members of an item or of a key, in the order of their names.
func DecodeMap(raw map[string]any) (Map, error) { return decodeMap(raw, 0) }

func decodeMap(raw map[string]any, depth int) (Map, error) {
	m := make(Map, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		v, err := decode(raw[name], depth)
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	return m, nil
}

func decode(raw any, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, errors.New("Nesting Levels have exceeded supported limits: " +
			"Attributes in the item have nested levels beyond supported limit")
	}
	shape, ok := raw.(map[string]any)
	if !ok {
		return nil, shapeError("Unexpected value type in payload: an attribute value is an object such as {\"S\":\"text\"}")
	}
	switch len(shape) {
	case 0:
		return nil, errors.New("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	case 1:
	default:
		return nil, errors.New("Supplied AttributeValue has more than one datatypes set, " +
			"must contain exactly one of the supported datatypes")
	}
	for t, v := range shape {
		return decodeTyped(Type(t), v, depth)
	}
	panic("unreachable: the shape has one member")
}

func decodeTyped(t Type, raw any, depth int) (Value, error) {
	switch t {
	case S:
		text, err := asText(raw)
		return String(text), err
	case N:
		text, err := asText(raw)
		if err != nil {
			return nil, err
		}
		return asNumber(text)
	case B:
		return asBinary(raw)
	case BOOL:
		b, ok := raw.(bool)
		if !ok {
			return nil, shapeError("Unexpected token received from parser: BOOL is true or false")
		}
		return Bool(b), nil
	case NULL:
		b, ok := raw.(bool)
		if !ok {
			return nil, shapeError("Unexpected token received from parser: NULL is true")
		}
		if !b {
			return nil, errors.New("One or more parameter values were invalid: " +
				"Null attribute value types must have the value of true")
		}
		return Null{}, nil
	case M:
		m, ok := raw.(map[string]any)
		if !ok {
			return nil, shapeError("Unexpected field type: M is an object")
		}
		return asValue(decodeMap(m, depth+1))
	case L:
		list, ok := raw.([]any)
		if !ok {
			return nil, shapeError("Unexpected field type: L is an array")
		}
		return asValue(decodeList(list, depth))
	case "SS", "NS", "BS":
		return nil, errors.New("emulator/dynamodbtest does not support sets")
	default:
		return nil, shapeError("Unexpected field type: %q is not a type of attribute values", string(t))
	}
}

// asValue keeps a nil of a concrete type from becoming a Value that is not nil.
func asValue[T Value](v T, err error) (Value, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func decodeList(raw []any, depth int) (List, error) {
	out := make(List, len(raw))
	for i, e := range raw {
		v, err := decode(e, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func asText(raw any) (string, error) {
	text, ok := raw.(string)
	if !ok {
		return "", shapeError("Unexpected token received from parser: expected a string")
	}
	return text, nil
}

func asNumber(text string) (Value, error) { return asValue(ParseNumber(text)) }

func asBinary(raw any) (Value, error) { return asValue(decodeBinary(raw)) }

func decodeBinary(raw any) (Binary, error) {
	text, err := asText(raw)
	if err != nil {
		return "", err
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", shapeError("'%s' can not be converted to a Blob: %v", text, err)
	}
	return Binary(bytes), nil
}

// JSON returns the form of a value that encoding/json writes as the service does.
func JSON(v Value) map[string]any {
	var inner any
	switch v := v.(type) {
	case String:
		inner = string(v)
	case Number:
		inner = v.String()
	case Binary:
		inner = []byte(v)
	case Bool:
		inner = bool(v)
	case Null:
		inner = true
	case Map:
		inner = JSONMap(v)
	case List:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = JSON(e)
		}
		inner = out
	}
	return map[string]any{string(v.Type()): inner}
}

// JSONMap returns the form of an item that encoding/json writes as the service does.
func JSONMap(m Map) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		out[name] = JSON(v)
	}
	return out
}
