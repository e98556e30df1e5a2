package once_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/once"
)

// TestFingerprints holds the code against contracts/vectors/fingerprints.json, which the other clients are held against
// as well. That the canonical texts there are right, TestCanonical asks.
func TestFingerprints(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "contracts", "vectors", "fingerprints.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Fingerprints []struct{ JSON, Canonical, Fingerprint string }
		Refused      []string
	}
	if err := json.Unmarshal(content, &vectors); err != nil || len(vectors.Fingerprints) < 20 || len(vectors.Refused) < 3 {
		t.Fatalf("%d and %d: %v", len(vectors.Fingerprints), len(vectors.Refused), err)
	}
	for _, v := range vectors.Fingerprints {
		if got, err := once.Fingerprint(json.RawMessage(v.JSON)); err != nil || got != v.Fingerprint {
			t.Errorf("%s: %s, %v", v.JSON, got, err)
		}
		if got, err := once.Canonical(json.RawMessage(v.JSON)); err != nil || string(got) != v.Canonical {
			t.Errorf("%s: %s, %v", v.JSON, got, err)
		}
	}
	for _, v := range vectors.Refused {
		if got, err := once.Fingerprint(json.RawMessage(v)); err == nil {
			t.Errorf("%s: %s", v, got)
		}
	}
}

// TestCanonical: the examples of RFC 8785, sections 3.2.2 and 3.2.3, the numbers of its appendix B, and what Go has
// beside.
func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{json.RawMessage(`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`), `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{json.RawMessage(`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
			`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`),
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
				`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		{[]float64{0, math.Copysign(0, -1), 5e-324, -5e-324, math.MaxFloat64, -math.MaxFloat64, 1 << 53, -1 << 53},
			`[0,0,5e-324,-5e-324,1.7976931348623157e+308,-1.7976931348623157e+308,9007199254740992,-9007199254740992]`},
		{[]float64{1e23, 9.999999999999997e22, 1e21, 333333333.3333332, 1e-6, 9e-7, 1.5e-10, 0.1, 100},
			`[1e+23,9.999999999999997e+22,1e+21,333333333.3333332,0.000001,9e-7,1.5e-10,0.1,100]`},
		{int64(1 << 60), `1152921504606847000`},
		{"<a & b>\u2028\x7f", "\"<a & b>\u2028\x7f\""},
		{"\ufffd", "\"\ufffd\""},
		{struct {
			B []byte `json:"b"`
			A *int
			c int
		}{B: []byte("x")}, `{"A":null,"b":"eA=="}`},
	} {
		if got, err := once.Canonical(c.value); err != nil || string(got) != c.want {
			t.Errorf("%#v is %s, %v", c.value, got, err)
		}
	}
}

// TestNoFingerprint: what two readers of JSON may read differently is refused, or two inputs would be one.
func TestNoFingerprint(t *testing.T) {
	for _, value := range []any{
		int64(1<<53 + 1), uint64(math.MaxUint64), []int64{math.MaxInt64}, json.Number("1e400"), "a\xff", map[string]int{"\xff": 1}, math.NaN(),
		json.RawMessage(`"\ud800"`), json.RawMessage(`"\udc00\ud800"`), json.RawMessage(`"\ud800\u0041"`), func() {}, json.RawMessage(`{`),
	} {
		if got, err := once.Fingerprint(value); err == nil {
			t.Errorf("%#v has %s", value, got)
		}
	}
}

// TestFingerprintsDiffer: equal values have equal fingerprints, and no others do.
func TestFingerprintsDiffer(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "b", "ab", `"`, `\`, "\n", ":", ",", "é", "😀", "1", "null", "[]"})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			most := 5
			if depth == 0 {
				most = 3
			}
			switch rapid.IntRange(0, most).Draw(t, "kind") {
			case 0:
				return text.Draw(t, "text")
			case 1:
				return float64(rapid.IntRange(-2, 20).Draw(t, "number"))
			case 2:
				return rapid.Bool().Draw(t, "bool")
			case 3:
				return nil
			case 4:
				return append([]any{}, rapid.SliceOfN(value(depth-1), 0, 2).Draw(t, "list")...)
			default:
				return rapid.MapOfN(text, value(depth-1), 0, 2).Draw(t, "members")
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := value(2).Draw(t, "a"), value(2).Draw(t, "b")
		one, _ := json.Marshal(a)
		other, _ := json.Marshal(b)
		first, err := once.Fingerprint(a)
		if err != nil || len(first) != 43 {
			t.Fatal(first, err)
		}
		second, _ := once.Fingerprint(b)
		if (first == second) != (string(one) == string(other)) {
			t.Fatalf("%s and %s: %s and %s", one, other, first, second)
		}
		if again, _ := once.Fingerprint(json.RawMessage(one)); again != first {
			t.Fatalf("%s: %s and %s", one, first, again)
		}
	})
}

// TestKey: ordinary parts are in the name as they are.
func TestKey(t *testing.T) {
	for want, parts := range map[string][]string{
		"":                        {},
		"invoice:c17:2026-11-29":  {"invoice", "c17", "2026-11-29"},
		"a b:ü.1_2+3@x":           {"a b", "ü.1_2+3@x"},
		"a~3Ab:c":                 {"a:b", "c"},
		"a:b~3Ac":                 {"a", "b:c"},
		"https~3A~2F~2Fx~2F~7Eme": {"https://x/~me"},
		"a:":                      {"a", ""},
		"~7E3A":                   {"~3A"},
	} {
		if got := once.Key(parts...); got != want {
			t.Errorf("%q: %s, want %s", parts, got, want)
		}
	}
}

// TestKeysDiffer: different parts make different names, which can be names of runs: all of one to three parts, of up to
// two pieces each that could be taken for another.
func TestKeysDiffer(t *testing.T) {
	pieces := []string{"a", ":", "/", "~", "3A", "~3A", "7E"}
	parts := []string{""}
	for _, x := range pieces {
		parts = append(parts, x)
		for _, y := range pieces {
			if !slices.Contains(parts, x+y) {
				parts = append(parts, x+y)
			}
		}
	}
	seen := map[string][]string{}
	try := func(parts ...string) {
		key := once.Key(parts...)
		if before, ok := seen[key]; ok && !slices.Equal(before, parts) || strings.Contains(key, "/") {
			t.Fatalf("%q and %q are %s", before, parts, key)
		}
		seen[key] = slices.Clone(parts)
	}
	for _, a := range parts {
		try(a)
		for _, b := range parts {
			try(a, b)
			for _, c := range parts {
				try(a, b, c)
			}
		}
	}
}
