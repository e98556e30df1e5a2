package sqlitestore_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestParseDoc(t *testing.T) {
	opaque := func(raw string) docstore.Doc {
		return docstore.Doc{"a": docstore.Opaque{Raw: raw, Null: raw == "null"}}
	}
	for _, c := range []struct {
		text string
		want docstore.Doc
	}{
		{`{}`, docstore.Doc{}},
		{" {\t}\r\n", docstore.Doc{}},
		{`{"":"","b":"x"}`, docstore.Doc{"": docstore.String(""), "b": docstore.String("x")}},
		{`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000"}`, docstore.Doc{"a": docstore.String("\"\\/\b\f\n\r\té😀\x00")}},
		{`{"\u0061":1}`, docstore.Doc{"a": docstore.Int(1)}},
		{`{"a":9007199254740992,"b":-9007199254740992,"c":0}`, docstore.Doc{
			"a": docstore.Int(docstore.MaxInt), "b": docstore.Int(-docstore.MaxInt), "c": docstore.Int(0),
		}},
		{`{"a":true,"b":false}`, docstore.Doc{"a": docstore.Bool(true), "b": docstore.Bool(false)}},
		{`{"a":{}}`, docstore.Doc{"a": docstore.Map{}}},
		{`{"a":{"x":"1","y":"\n"}}`, docstore.Doc{"a": docstore.Map{"x": "1", "y": "\n"}}},
		{`{"a":["base64",""]}`, docstore.Doc{"a": docstore.Bytes("")}},
		{`{"a":["base64","AP8="],"b":["base64","YWJj"]}`, docstore.Doc{"a": docstore.Bytes("\x00\xff"),
			"b": docstore.Bytes("abc")}},
		{`{"a": ["base64", "AP8="]}`, opaque(`["base64", "AP8="]`)}, // not as it is written
		{`{"a":["base64","AP8"]}`, opaque(`["base64","AP8"]`)},
		{`{"a":["base64","AP9="]}`, opaque(`["base64","AP9="]`)}, // bits that no byte has
		{`{"a":["base64","AP\u0038="]}`, opaque(`["base64","AP\u0038="]`)},
		{`{"a":["base64","AP8=","x"]}`, opaque(`["base64","AP8=","x"]`)},
		{`{"a":["base64"]}`, opaque(`["base64"]`)},
		{`{"a":["base64",1]}`, opaque(`["base64",1]`)},
		{`{"a":["Base64","AP8="]}`, opaque(`["Base64","AP8="]`)},
		{`{"a":["base64","_-8="]}`, opaque(`["base64","_-8="]`)},
		{`{"a":{"base64":"AP8="}}`, docstore.Doc{"a": docstore.Map{"base64": "AP8="}}},
		{`{"a":null}`, opaque("null")},
		{`{"a":-0}`, opaque("-0")},
		{`{"a":1.0}`, opaque("1.0")},
		{`{"a":1e3}`, opaque("1e3")},
		{`{"a":-1.5E-7 }`, opaque("-1.5E-7")},
		{`{"a":9007199254740993}`, opaque("9007199254740993")},
		{`{"a":123456789012345678901234567890}`, opaque("123456789012345678901234567890")},
		{`{"a":[ ]}`, opaque("[ ]")},
		{`{"a": [1, "]", {"x": []}] }`, opaque(`[1, "]", {"x": []}]`)},
		{`{"a":{"x":1}}`, opaque(`{"x":1}`)},
		{`{"a":{"x":"1","x":"2"}}`, opaque(`{"x":"1","x":"2"}`)},
		{`{"a":{"x":{"y":"z"}}}`, opaque(`{"x":{"y":"z"}}`)},
		{`{"a":{"\ud800":"1"}}`, opaque(`{"\ud800":"1"}`)},
		{`{"a":"\ud800"}`, opaque(`"\ud800"`)},
		{`{"a":"\ud800\u0041"}`, opaque(`"\ud800\u0041"`)},
		{`{"a":"\udc00"}`, opaque(`"\udc00"`)},
		{"{\"a\":\"\xff\"}", opaque("\"\xff\"")},
	} {
		got, err := sqlitestore.ParseDoc(c.text)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %#v, error %v, want %#v", c.text, got, err, c.want)
			continue
		}
		if want, ok := c.want["a"].(docstore.Opaque); ok && got["a"] != docstore.Value(want) {
			t.Errorf("%s: kept as %#v, want %#v", c.text, got["a"], want)
		}
	}
	for _, text := range []string{
		``, ` `, `[]`, `"a"`, `1`, `null`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1`, `{,}`, `{"a":1}}`,
		`{"a":1} x`, `{a:1}`,
		`{"a" 1}`, `{"a":01}`, `{"a":+1}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`,
		`{"a":tru}`, `{"a":True}`,
		`{"a":"x}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u+123"}`, `{"a":"\`, `{"a":"\ud800\u12"}`, "{\"a\":\"\n\"}",
		"{\"a\":\"\\n\n\"}",
		`{"a":[1}`, `{"a":[1,]}`, `{"a":[`, `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `{"\ud800":1}`, `{"a":'x'}`, `{"a":NaN}`,
		`{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, strings.Repeat(`{"a":`, 100_000),
	} {
		if got, err := sqlitestore.ParseDoc(text); err == nil {
			t.Errorf("%.50q was read as %#v", text, got)
		}
	}
}

// FuzzParseDoc holds the reader to encoding/json, and to itself: what it read and wrote again must read the same, with
// foreign values byte for byte.
func FuzzParseDoc(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":"b","n":12,"t":true,"m":{"x":"y"},"l":[1,2.5,{"z":null}]}`, `{"a":"\ud83d\ude00\ud800"}`,
		"{\"a\":\"\xff\"}",
		` { "a" : -0 , "b" : { "x" : "1" , "x" : "2" } } `, `{"a":1,"a":2}`, `{"a":"\u0000\u001f\"\\\/"}`,
		`{"a":["base64","AP8="],"b":["base64", ""]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := sqlitestore.ParseDoc(text)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		if len(members) != len(doc) {
			t.Fatalf("%d fields, encoding/json finds %d", len(doc), len(members))
		}
		for field, raw := range members {
			var want any
			decoder := json.NewDecoder(bytes.NewReader(raw))
			decoder.UseNumber()
			if err := decoder.Decode(&want); err != nil {
				t.Fatal(err)
			}
			switch v := doc[field].(type) {
			case docstore.String:
				if want != any(string(v)) {
					t.Errorf("%s is %q, encoding/json reads %q", field, v, want)
				}
			case docstore.Int:
				if n, err := want.(json.Number).Int64(); err != nil || n != int64(v) {
					t.Errorf("%s is %d, encoding/json reads %v", field, v, want)
				}
			case docstore.Bool:
				if want != any(bool(v)) {
					t.Errorf("%s is %v, encoding/json reads %v", field, v, want)
				}
			case docstore.Map:
				for k, s := range v {
					if want.(map[string]any)[k] != any(s) {
						t.Errorf("%s.%s is %q, encoding/json reads %v", field, k, s, want)
					}
				}
			case docstore.Bytes:
				b, err := base64.StdEncoding.DecodeString(want.([]any)[1].(string))
				if err != nil || string(b) != string(v) {
					t.Errorf("%s is %q, encoding/json reads %v", field, v, want)
				}
			case docstore.Opaque:
				if v.Raw != any(string(raw)) {
					t.Errorf("%s is kept as %q, stored was %q", field, v.Raw, raw)
				}
			default:
				t.Errorf("%s is %#v", field, v)
			}
		}
		again := sqlitestore.AppendDoc(nil, doc)
		reread, err := sqlitestore.ParseDoc(string(again))
		if err != nil {
			t.Fatalf("written as %s: %v", again, err)
		}
		for field, v := range doc {
			if o, ok := v.(docstore.Opaque); ok && reread[field] != docstore.Value(o) {
				t.Errorf("%s was %#v, is %#v after writing", field, o, reread[field])
			}
		}
		if !reread.Equal(doc) {
			t.Errorf("%#v reads as %#v after writing", doc, reread)
		}
	})
}

// TestOrderOfMembers: members are in the order of the bytes of their names, also of those that begin alike and end
// where others go on.
func TestOrderOfMembers(t *testing.T) {
	names := []string{"", "\x00", "Z", "a", "a\x00", "ab", "abcdefg", "abcdefgh", "abcdefgh\x00", "abcdefgh1", "abcdefghi",
		"abcdefgi", "b", "é"}
	doc, members := docstore.Doc{}, make([]string, len(names))
	for i, name := range names {
		doc[name] = docstore.Int(i)
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		members[i] = fmt.Sprintf("%s:%d", quoted, i)
	}
	want := "{" + strings.Join(members, ",") + "}"
	for range 10 { // the order of a map is another each time
		if got := string(sqlitestore.AppendDoc(nil, doc)); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// FuzzAppendDoc writes any text and reads it back.
func FuzzAppendDoc(f *testing.F) {
	f.Add("field", "text", "key", "value", int64(1))
	f.Add("", "\x00\x1f\"\\/\u2028\u007f", "\n", "\U0010ffff", int64(-docstore.MaxInt))
	f.Fuzz(func(t *testing.T, field, text, k, v string, n int64) {
		for _, s := range []string{field, text, k, v} {
			if !utf8.ValidString(s) {
				t.Skip("the port refuses it")
			}
		}
		n = max(min(n, docstore.MaxInt), -docstore.MaxInt)
		want := docstore.Doc{
			"text" + field: docstore.String(text), "map" + field: docstore.Map{k: v}, "n": docstore.Int(n),
			"yes": docstore.Bool(n > 0), "bytes": docstore.Bytes(text),
		}
		b := sqlitestore.AppendDoc(nil, want)
		if !json.Valid(b) {
			t.Errorf("written as %s, which is no JSON", b)
		}
		if got, err := sqlitestore.ParseDoc(string(b)); err != nil || !got.Equal(want) {
			t.Errorf("%#v is %#v after writing, error %v", want, got, err)
		}
	})
}
