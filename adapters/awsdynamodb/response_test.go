package awsdynamodb

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// asJSON is an item as the service writes it.
func asJSON(t testing.TB, item map[string]types.AttributeValue) string {
	t.Helper()
	var plain func(v types.AttributeValue) map[string]any
	plain = func(v types.AttributeValue) map[string]any {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			return map[string]any{"S": v.Value}
		case *types.AttributeValueMemberN:
			return map[string]any{"N": v.Value}
		case *types.AttributeValueMemberBOOL:
			return map[string]any{"BOOL": v.Value}
		case *types.AttributeValueMemberB:
			return map[string]any{"B": v.Value}
		case *types.AttributeValueMemberM:
			m := map[string]any{}
			for k, v := range v.Value {
				m[k] = plain(v)
			}
			return map[string]any{"M": m}
		default:
			return map[string]any{"NULL": true}
		}
	}
	m := map[string]any{}
	for k, v := range item {
		m[k] = plain(v)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadsAsTheSDKDoes: whatever a document of Leasehold holds, it is read as by way of the SDK's types.
func TestReadsAsTheSDKDoes(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `"`, `\`, "\\\"", "\u2028", "\x00", "</", "日本語", "😀", "e\u0301", `{"S":"x"}`, "a\nb\tc"}))
	value := rapid.Custom(func(t *rapid.T) types.AttributeValue {
		switch rapid.IntRange(0, 4).Draw(t, "type") {
		case 0:
			return number(rapid.Int64Range(-docstore.MaxInt, docstore.MaxInt).Draw(t, "n"))
		case 1:
			return &types.AttributeValueMemberBOOL{Value: rapid.Bool().Draw(t, "bool")}
		case 2:
			return &types.AttributeValueMemberB{Value: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}
		case 3:
			m := map[string]types.AttributeValue{}
			for k, v := range rapid.MapOfN(text, text, 0, 4).Draw(t, "map") {
				m[k] = &types.AttributeValueMemberS{Value: v}
			}
			return &types.AttributeValueMemberM{Value: m}
		default:
			return &types.AttributeValueMemberS{Value: text.Draw(t, "text")}
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		item := map[string]types.AttributeValue{
			attrPartition: &types.AttributeValueMemberS{Value: "k/t"}, attrSort: &types.AttributeValueMemberS{Value: "id"}, attrKeep: number(1), attrMark: marked,
		}
		maps.Copy(item, rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "Message", "Item", "S", "日"}), value, 0, 6).Draw(rt, "fields"))
		want, body := decode(item), asJSON(t, item)
		size := sizeOfItem(item)
		for what, read := range map[string]func() (docstore.Doc, int, bool){
			"after a write": func() (docstore.Doc, int, bool) {
				doc, units, ok := readUpdated(`{"Attributes":` + body + `}`)
				return doc, size, ok && units == 0
			},
			"after a write that says what it costs": func() (docstore.Doc, int, bool) {
				doc, units, ok := readUpdated(`{"Attributes":` + body + `,"ConsumedCapacity":{"CapacityUnits":2.5 ,"TableName":"t"}}`)
				return doc, size, ok && units == 2.5
			},
			"refusal": func() (docstore.Doc, int, bool) {
				return readRefusal(`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":` + body + `,"message":"The conditional request failed"}`)
			},
			"refusal, in another order": func() (docstore.Doc, int, bool) {
				return readRefusal(` { "Message" : "no" ,` + "\n" + `"Item":` + strings.ReplaceAll(body, `":{"`, `" : { "`) + ` , "__type":"x#ConditionalCheckFailedException"} `)
			},
		} {
			if doc, n, ok := read(); !ok || n != size || !doc.Equal(want) {
				rt.Fatalf("%s: %v, %d bytes, %#v, want %d bytes, %#v", what, ok, n, doc, size, want)
			}
		}
	})
}

// TestLeavesToTheSDK: what no document of Leasehold has, and what is no answer to a write, is not read here.
func TestLeavesToTheSDK(t *testing.T) {
	for name, body := range map[string]string{
		"null":             `{"Attributes":{"a":{"NULL":true}}}`,
		"list":             `{"Attributes":{"a":{"L":[]}}}`,
		"set":              `{"Attributes":{"a":{"SS":["x"]}}}`,
		"fraction":         `{"Attributes":{"a":{"N":"1.5"}}}`,
		"beyond 2^53":      `{"Attributes":{"a":{"N":"9007199254740993"}}}`,
		"map of numbers":   `{"Attributes":{"a":{"M":{"b":{"N":"1"}}}}}`,
		"no base64":        `{"Attributes":{"a":{"B":"%"}}}`,
		"two types":        `{"Attributes":{"a":{"S":"x","N":"1"}}}`,
		"no type":          `{"Attributes":{"a":{}}}`,
		"bad escape":       `{"Attributes":{"a":{"S":"\x"}}}`,
		"nothing":          ``,
		"no attributes":    `{}`,
		"another member":   `{"Attributes":{"a":{"S":"x"}},"ItemCollectionMetrics":{}}`,
		"other capacity":   `{"Attributes":{"a":{"S":"x"}},"ConsumedCapacity":{"Table":{}}}`,
		"no number":        `{"Attributes":{"a":{"S":"x"}},"ConsumedCapacity":{"CapacityUnits":"x"}}`,
		"more behind":      `{"Attributes":{"a":{"S":"x"}}} {}`,
		"another refusal":  `{"__type":"com.amazonaws.dynamodb.v20120810#ValidationException","message":"x"}`,
		"refusal, no type": `{"message":"The conditional request failed"}`,
	} {
		if doc, _, ok := readUpdated(body); ok {
			t.Errorf("%s: %v", name, doc)
		}
		if doc, _, ok := readRefusal(strings.Replace(body, "Attributes", "Item", 1)); ok {
			t.Errorf("%s, as a refusal: %v", name, doc)
		}
	}
	whole := `{"Attributes":{"a":{"S":"x\n"},"b":{"M":{"c":{"S":""}}},"d":{"BOOL":false},"e":{"N":"1"},"f":{"B":"AA=="}}}`
	for n := range len(whole) {
		if doc, _, ok := readUpdated(whole[:n]); ok {
			t.Errorf("%d bytes of %d: %v", n, len(whole), doc)
		}
	}
	if doc, _, ok := readUpdated(whole); !ok || len(doc) != 5 {
		t.Errorf("%v, %v", doc, ok)
	}
	if doc, _, ok := readRefusal(`{"__type":"x#ConditionalCheckFailedException","message":"x"}`); !ok || doc != nil {
		t.Errorf("no document: %v, %v", doc, ok)
	}
}

// TestShapes: writes that differ in keys and values only have one shape, and what is remembered is bounded.
func TestShapes(t *testing.T) {
	var s shapes
	m := instants{now: noon}
	write := func(i int) docstore.Write {
		return docstore.Write{
			If:  docstore.Any{docstore.Absent{}, docstore.Eq{Field: "owner", Value: docstore.String(fmt.Sprint("o", i))}},
			Set: docstore.Doc{"owner": docstore.String(fmt.Sprint("o", i%7)), "until": docstore.Now}, Add: map[string]int64{"n": 1}, Unset: []string{"y", "x"},
		}
	}
	first, _ := s.compile(write(0), beside{}, m)
	for i := range 100 {
		again, values := s.compile(write(i), beside{}, instants{now: m.now.Add(1e9)})
		if again != first {
			t.Fatalf("%+v and %+v", first, again)
		}
		if got := decode(values)[":v0"]; got != docstore.String(fmt.Sprint("o", i)) {
			t.Errorf("%d: the owner is %v", i, got)
		}
	}
	different := map[*shape]bool{first: true}
	writes := []docstore.Write{
		{If: docstore.Has{Field: "a"}, Unset: []string{"b"}},
		{If: docstore.Has{Field: "b"}, Unset: []string{"a"}},
		{If: docstore.Has{Field: "b"}},
		{If: docstore.Has{Field: "b"}, Unset: []string{"a", "c"}},
		{If: docstore.Has{Field: "b"}, Add: map[string]int64{"a": docstore.MaxInt}},
		{If: docstore.Not{Cond: docstore.Has{Field: "b"}}},
	}
	for _, w := range writes {
		shape, _ := s.compile(w, beside{}, m)
		different[shape] = true
	}
	if len(different) != 1+len(writes) {
		t.Errorf("%d shapes of %d writes", len(different), 1+len(writes))
	}
	for i := range 3 * maxShapes {
		s.compile(docstore.Write{Set: docstore.Doc{fmt.Sprint("f", i): docstore.Int(1)}}, beside{}, m)
		if len(s.known) > maxShapes {
			t.Fatalf("%d shapes are remembered", len(s.known))
		}
	}
}
