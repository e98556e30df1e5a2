package rule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestPartsAreNotJoined: what one part ends with is not what the next begins with, in an identity and in parameters,
// however long they are: a length takes one byte or two.
func TestPartsAreNotJoined(t *testing.T) {
	long := strings.Repeat("a", 130)
	lists := [][]string{
		{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"a", "", "b"}, {"\x01b"}, {"a\x01b"}, {"\x02ab"},
		{long}, {long[1:], "a"}, {"a", long[1:]}, {long[2:], "aa"}, {long[:2], long[2:]}, {"\x01" + long[2:]},
	}
	identities, parameters := map[string][]string{}, map[string][]string{}
	for _, list := range lists {
		id, params := string(rule.Identify(list...).Entry()), string(rule.Identify("x").With(list...).Entry())
		if other, taken := identities[id]; taken {
			t.Errorf("the identity %q is taken for %q", list, other)
		}
		if other, taken := parameters[params]; taken {
			t.Errorf("the parameters %q are taken for %q", list, other)
		}
		identities[id], parameters[params] = list, list
	}
}

// TestRegister: the last four requests are known, whatever their parameters, and the fifth is forgotten. What differs
// in the parts of its identity, also in where one part ends, is another request.
func TestRegister(t *testing.T) {
	register := rule.Register{"a1", "a2", "a3", "a4"}
	names := []string{"r0", "r1", "r2", "r3", "r4"}
	var doc docstore.Doc
	for i, name := range names {
		r := rule.Identify("acquire", "ann", name).With("30")
		if !register.Lacks(r).Holds(doc, time.Time{}) {
			t.Errorf("%s is known before it is remembered", name)
		}
		w := docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}, Set: map[string]docstore.Value{}}
		register.Remember(w.Set, r)
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		var err error
		if doc, err = w.Apply(doc, time.Time{}); err != nil {
			t.Fatal(err)
		}
		var stored rule.Requests
		for j, f := range register {
			text, _ := doc[f].(docstore.String)
			stored[j] = string(text)
		}
		for j, earlier := range names[:i+1] {
			position, known := i-j, i-j < rule.Remembered
			if !known {
				position = -1
			}
			for params, same := range map[string]bool{"30": known, "31": false} {
				again := rule.Identify("acquire", "ann", earlier).With(params)
				if p, s := stored.Find(again); p != position || s != same ||
					register.Lacks(again).Holds(doc, time.Time{}) == known {
					t.Errorf("after %s, %s with %s: position %d, same %v, want %d, %v", name, earlier, params, p, s, position, same)
				}
			}
		}
		for _, other := range []rule.Request{
			rule.Identify("renew", "ann", name), rule.Identify("acquire", "bob", name),
			rule.Identify("acquire", "annr", name[1:]),
		} {
			if p, _ := stored.Find(other); p != -1 || !register.Lacks(other).Holds(doc, time.Time{}) {
				t.Errorf("after %s, another request is taken for it", name)
			}
		}
	}
	if n := len(rule.Identify("x").With("y").Entry()); n != 15 {
		t.Errorf("an entry has %d characters, want 15", n)
	}
}
