package docstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestValidateMessages looks at the texts: each names the part at fault. That bad input is refused at all is the
// conformance suite's business.
func TestValidateMessages(t *testing.T) {
	good := docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"}
	deep := docstore.Cond(docstore.Absent{})
	for range 17 {
		deep = docstore.Not{Cond: deep}
	}
	write := func(w docstore.Write) error {
		w.Key = good
		return docstore.ValidateWrites([]docstore.Write{{Key: docstore.Key{Kind: "locks", Tenant: good.Tenant, ID: "first"}},
			w})
	}
	set := func(v docstore.Value) error { return write(docstore.Write{Set: docstore.Doc{"field": v}}) }
	cond := func(c docstore.Cond) error { return write(docstore.Write{If: c}) }
	for want, err := range map[string]error{
		"no keys":                 docstore.ValidateKeys(nil),
		"id is empty":             docstore.ValidateKeys([]docstore.Key{good, {Kind: "locks"}}),
		"0 writes: from 1 to 100": docstore.ValidateWrites(nil),
		"write 1: locks/acme/deploy is written twice": docstore.ValidateWrites(
			[]docstore.Write{{Key: good}, {Key: good}}),
		`write 1: locks/acme/deploy: tenant "acme", and write 0 has tenant "": what changes`: docstore.ValidateWrites(
			[]docstore.Write{{Key: docstore.Key{Kind: "locks", ID: "deploy"}}, {Key: good}}),
		`write 1: docstore: invalid: kind "X"`: docstore.ValidateWrites(
			[]docstore.Write{{Key: good}, {Key: docstore.Key{Kind: "X", ID: "a"}}}),
		`set: field name "a-b": a letter, then`: write(
			docstore.Write{Set: docstore.Doc{"a-b": docstore.Int(1)}}),
		`add: field name "": from 1 to 64 bytes`: write(docstore.Write{
			Add: map[string]int64{"": 1}}),
		`unset: field name "9"`: write(docstore.Write{
			Unset: []string{"9"}}),
		"set field: no value":                set(nil),
		"set field: text is not valid UTF-8": set(docstore.String("\xff")),
		"set field: 9007199254740993 is beyond ±2^53": set(
			docstore.Int(docstore.MaxInt + 1)),
		"add n: -9007199254740993 is beyond ±2^53": write(
			docstore.Write{Add: map[string]int64{"n": -docstore.MaxInt - 1}}),
		"set field: 262145 bytes, 262144 at most": set(
			docstore.Bytes(make([]byte, docstore.MaxBytes+1))),
		"condition: field f: 262145 bytes, 262144 at most": cond(
			docstore.Eq{Field: "f", Value: docstore.Bytes(make([]byte, docstore.MaxBytes+1))}),
		"set field: a map's key is empty":            set(docstore.Map{"": "x"}),
		"set field: a map's text is not valid UTF-8": set(docstore.Map{"x": "\xff"}),
		"set field: time offset 1µs is not whole": set(
			docstore.Now.Add(time.Microsecond)),
		"set field: time offset 878424h0m0s is beyond": set(
			docstore.Now.Add(100*366*24*time.Hour + 24*time.Hour)),
		"set field: an opaque value can be read but": set(docstore.Opaque{}),
		"set field: *docstore.Int is not one of":     set(new(docstore.Int)),
		"field f is both set and added to": write(
			docstore.Write{Set: docstore.Doc{"f": docstore.Int(1)}, Add: map[string]int64{"f": 1}}),
		"field f is both unset and changed": write(
			docstore.Write{Add: map[string]int64{"f": 1}, Unset: []string{"f"}}),
		"field f is unset twice": write(docstore.Write{
			Unset: []string{"f", "g", "f"}}),
		`return: field name "a b"`: write(docstore.Write{
			Return: []string{"a b"}}),
		"field f is returned twice": write(docstore.Write{
			Return: []string{"f", "g", "f"}}),
		"condition: nested deeper than 16": cond(deep),
		"condition: a part is missing (nil)": cond(docstore.All{
			docstore.Any{nil}}),
		"condition: *docstore.Eq is not one of": cond(&docstore.Eq{
			Field: "f", Value: docstore.Int(1)}),
		"condition: field f: no value": cond(docstore.Eq{Field: "f"}),
		"condition: field f: only numbers, text and": cond(
			docstore.LE{Field: "f", Value: docstore.Bool(true)}),
		`condition: field name "f.g"`: cond(docstore.Has{
			Field: "f.g"}),
		"limit 1001: from 1 to 1000, or 0 for 100": docstore.Query{
			Kind: "locks", Limit: 1001}.Validate(),
		"prefix has 1025 bytes, 1024 at most": docstore.Query{
			Kind: "locks", Prefix: strings.Repeat("x", 1025)}.Validate(),
		"after has a NUL byte": docstore.Query{
			Kind: "locks", After: "\x00"}.Validate(),
		"tenant has 513 bytes": docstore.Query{
			Kind: "locks", Tenant: strings.Repeat("x", 513)}.Validate(),
	} {
		if !errors.Is(err, docstore.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want ErrInvalid with %q", err, want)
		}
	}
}

func TestValidateAccepts(t *testing.T) {
	deep := docstore.Cond(docstore.Absent{})
	for range 16 {
		deep = docstore.Not{Cond: deep}
	}
	for name, w := range map[string]docstore.Write{
		"no change": {},
		"deep":      {If: deep},
		"edges": {Set: docstore.Doc{"a": docstore.Int(docstore.MaxInt), "b": docstore.Int(-docstore.MaxInt)},
			Add: map[string]int64{"c": docstore.MaxInt}},
		"century": {Set: docstore.Doc{"a": docstore.Now.Add(100 * 366 * 24 * time.Hour)}},
		"empty values": {Set: docstore.Doc{"a": docstore.String(""), "b": docstore.Map(nil), "c": docstore.Bool(false),
			"d": docstore.Bytes([]byte(nil))}},
		"most bytes":    {Set: docstore.Doc{"a": docstore.Bytes(make([]byte, docstore.MaxBytes))}},
		"return":        {Set: docstore.Doc{"a": docstore.Int(1)}, Return: []string{"a", "b"}},
		"order of time": {If: docstore.LE{Field: "a", Value: docstore.Now}},
	} {
		w.Key = docstore.Key{Kind: "locks", ID: "x"}
		if err := docstore.ValidateWrites([]docstore.Write{w}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
