package attr_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

func decode(t *testing.T, text string) (attr.Value, error) {
	t.Helper()
	var raw any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	return attr.Decode(raw)
}

func TestDecodeAndEncode(t *testing.T) {
	for in, want := range map[string]string{
		`{"S":""}`:                        `{"S":""}`,
		`{"N":"1.50"}`:                    `{"N":"1.5"}`,
		`{"B":"AAE="}`:                    `{"B":"AAE="}`,
		`{"BOOL":false}`:                  `{"BOOL":false}`,
		`{"NULL":true}`:                   `{"NULL":true}`,
		`{"L":[]}`:                        `{"L":[]}`,
		`{"M":{}}`:                        `{"M":{}}`,
		`{"M":{"a":{"L":[{"N":"1"}]}}}`:   `{"M":{"a":{"L":[{"N":"1"}]}}}`,
		`{"L":[{"S":"x"},{"NULL":true}]}`: `{"L":[{"S":"x"},{"NULL":true}]}`,
	} {
		v, err := decode(t, in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		out, err := json.Marshal(attr.JSON(v))
		if err != nil || string(out) != want {
			t.Errorf("%s: got %s, %v", in, out, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	deep := strings.Repeat(`{"L":[`, 40) + `{"S":"x"}` + strings.Repeat(`]}`, 40)
	for _, c := range []struct {
		in, err string
		shape   bool
	}{
		{`{}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{
			`{"S":"a","N":"1"}`, "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes", false},
		{
			`{"NULL":false}`, "One or more parameter values were invalid: Null attribute value types must have the value of true", false},
		{`{"L":[{"SS":["a"]}]}`, "emulator/dynamodbtest does not support sets", false},
		{`{"N":"x"}`, "The parameter cannot be converted to a numeric value: x", false},
		{`{"M":{"a":{"N":"x"}}}`, "The parameter cannot be converted to a numeric value: x", false},
		{
			deep, "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit", false},
		{`"a"`, `Unexpected value type in payload: an attribute value is an object such as {"S":"text"}`, true},
		{`{"X":"a"}`, `Unexpected field type: "X" is not a type of attribute values`, true},
		{`{"S":1}`, "Unexpected token received from parser: expected a string", true},
		{`{"N":1}`, "Unexpected token received from parser: expected a string", true},
		{`{"BOOL":"true"}`, "Unexpected token received from parser: BOOL is true or false", true},
		{`{"NULL":"true"}`, "Unexpected token received from parser: NULL is true", true},
		{`{"L":{}}`, "Unexpected field type: L is an array", true},
		{`{"M":[]}`, "Unexpected field type: M is an object", true},
		{`{"B":"A"}`, "'A' can not be converted to a Blob: illegal base64 data at input byte 0", true},
	} {
		v, err := decode(t, c.in)
		if err == nil || err.Error() != c.err {
			t.Errorf("%s: got %v, %v; want %q", c.in, v, err, c.err)
			continue
		}
		if _, shape := errors.AsType[*attr.ShapeError](err); shape != c.shape {
			t.Errorf("%s: shape error %v, want %v", c.in, shape, c.shape)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"N":"1"}`, `{"N":"1.0"}`, true},
		{`{"N":"1"}`, `{"S":"1"}`, false},
		{`{"S":"a"}`, `{"B":"YQ=="}`, false},
		{`{"L":[{"S":"a"},{"S":"b"}]}`, `{"L":[{"S":"b"},{"S":"a"}]}`, false},
		{`{"M":{"a":{"N":"1"}}}`, `{"M":{"a":{"N":"1.0"}}}`, true},
		{`{"M":{"a":{"N":"1"}}}`, `{"M":{"b":{"N":"1"}}}`, false},
		{`{"NULL":true}`, `{"NULL":true}`, true},
	} {
		a, errA := decode(t, c.a)
		b, errB := decode(t, c.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if attr.Equal(a, b) != c.want || attr.Equal(b, a) != c.want {
			t.Errorf("%s and %s: got %v", c.a, c.b, !c.want)
		}
	}
	if attr.Equal(nil, nil) {
		t.Error("what is not there equals nothing")
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]int{
		`{"S":"é"}`:                   1 + 2,
		`{"B":"AAE="}`:                1 + 2,
		`{"BOOL":true}`:               1 + 1,
		`{"NULL":true}`:               1 + 1,
		`{"N":"0"}`:                   1 + 1,
		`{"N":"12"}`:                  1 + 2,
		`{"N":"123"}`:                 1 + 3,
		`{"N":"-1"}`:                  1 + 3,
		`{"N":"1000"}`:                1 + 2,
		`{"L":[{"S":"ab"},{"S":""}]}`: 1 + 3 + 2 + 2,
		`{"M":{"k":{"S":"ab"}}}`:      1 + 3 + 1 + 1 + 2,
	} {
		v, err := decode(t, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := attr.Size(attr.Map{"a": v}); got != want {
			t.Errorf("%s: got %d bytes, want %d", in, got, want)
		}
	}
}
