package docstoretest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// sample is the document that most conditions are asked about.
var sample = docstore.Doc{
	"text":  docstore.String("hello"),
	"none":  docstore.String(""),
	"num":   docstore.Int(7),
	"zero":  docstore.Int(0),
	"yes":   docstore.Bool(true),
	"no":    docstore.Bool(false),
	"bytes": docstore.Bytes("\x00\xff"),
	"void":  docstore.Bytes(""),
	"map":   docstore.Map{"a": "1", "b": "2"},
	"empty": docstore.Map{},
	"digit": docstore.String("7"),
	"when":  docstore.String("2020-02-29T12:00:00.000Z"),
}

// condition is one row of the table: cond, asked about doc, gives want. Each row is also asked the other way round,
// inside a Not.
type condition struct {
	name string
	doc  docstore.Doc
	cond docstore.Cond
	want bool
}

func conditions() []condition {
	type (
		absent = docstore.Absent
		anyOf  = docstore.Any
		allOf  = docstore.All
		str    = docstore.String
		num    = docstore.Int
	)
	has := func(field string) docstore.Cond { return docstore.Has{Field: field} }
	eq := func(field string, v docstore.Value) docstore.Cond { return docstore.Eq{Field: field, Value: v} }
	le := func(field string, v docstore.Value) docstore.Cond { return docstore.LE{Field: field, Value: v} }
	not := func(c docstore.Cond) docstore.Cond { return docstore.Not{Cond: c} }
	// That a field begins with a text and has more, in the way in which rules say it.
	begins := func(field, with string) docstore.Cond {
		return allOf{not(le(field, str(with))), le(field, str(with+"~"))}
	}
	one := func(text string) docstore.Doc { return docstore.Doc{"f": str(text)} }
	none, empty := docstore.Doc(nil), docstore.Doc{}
	return []condition{
		{"absent, no document", none, absent{}, true},
		{"absent, empty document", empty, absent{}, false}, // a document of its key alone is easily taken for none
		{"absent, document", sample, absent{}, false},

		{"has, no document", none, has("text"), false},
		{"has, empty document", empty, has("text"), false},
		{"has, missing", sample, has("other"), false},
		{"has, text", sample, has("text"), true},
		{"has, empty text", sample, has("none"), true}, // "truthy" tests fail here and on the next four
		{"has, zero", sample, has("zero"), true},
		{"has, false", sample, has("no"), true},
		{"has, empty bytes", sample, has("void"), true},
		{"has, empty map", sample, has("empty"), true},
		{"has, other case", sample, has("Text"), false},

		{"eq, no document", none, eq("num", num(0)), false}, // nil read as 0
		{"eq, missing and zero", sample, eq("other", num(0)), false},
		{"eq, missing and empty", sample, eq("other", str("")), false},
		{"eq, missing and false", sample, eq("other", docstore.Bool(false)), false},
		{"eq, missing and empty map", sample, eq("other", docstore.Map{}), false},
		{"eq, text", sample, eq("text", str("hello")), true},
		{"eq, text less", sample, eq("text", str("hell")), false},
		{"eq, text greater", sample, eq("text", str("hello ")), false}, // CHAR columns pad with spaces
		{"eq, text other case", sample, eq("text", str("Hello")), false},
		{"eq, number", sample, eq("num", num(7)), true},
		{"eq, number less", sample, eq("num", num(6)), false},
		{"eq, number greater", sample, eq("num", num(8)), false},
		{"eq, number and its text", sample, eq("num", str("7")), false}, // SQL and Lua convert
		{"eq, text and its number", sample, eq("digit", num(7)), false},
		{"eq, true", sample, eq("yes", docstore.Bool(true)), true},
		{"eq, true and false", sample, eq("yes", docstore.Bool(false)), false},
		{"eq, true and one", sample, eq("yes", num(1)), false}, // SQLite and MySQL store 1
		{"eq, false and zero", sample, eq("no", num(0)), false},
		{"eq, zero and false", sample, eq("zero", docstore.Bool(false)), false},
		{"eq, bytes", sample, eq("bytes", docstore.Bytes("\x00\xff")), true},
		{"eq, bytes less", sample, eq("bytes", docstore.Bytes("\x00")), false}, // where a NUL ends a string
		{"eq, bytes greater", sample, eq("bytes", docstore.Bytes("\x00\xff\x00")), false},
		{"eq, other bytes", sample, eq("bytes", docstore.Bytes("\x00\xfe")), false}, // both are U+FFFD, read as text
		{"eq, empty bytes", sample, eq("void", docstore.Bytes("")), true},
		{"eq, empty bytes and text", sample, eq("void", str("")), false},
		{"eq, empty text and bytes", sample, eq("none", docstore.Bytes("")), false},
		{"eq, text and its bytes", sample, eq("text", docstore.Bytes("hello")), false},
		{"eq, missing and empty bytes", sample, eq("other", docstore.Bytes("")), false},
		{"eq, map", sample, eq("map", docstore.Map{"b": "2", "a": "1"}), true},
		{"eq, map with less", sample, eq("map", docstore.Map{"a": "1"}), false},
		{"eq, map with more", sample, eq("map", docstore.Map{"a": "1", "b": "2", "c": "3"}), false},
		{"eq, map with another value", sample, eq("map", docstore.Map{"a": "1", "b": "3"}), false},
		{"eq, map with another key", sample, eq("map", docstore.Map{"a": "1", "c": "2"}), false},
		{"eq, empty map", sample, eq("empty", docstore.Map{}), true}, // Lua cannot tell it from an empty list
		{"eq, map and text", sample, eq("map", str("")), false},
		{"eq, time", sample, eq("when", docstore.Now), false},

		{"le, no document", none, le("num", num(9)), false},
		{"le, missing", sample, le("other", num(9)), false},
		{"le, missing text", sample, le("other", str("x")), false},
		{"le, number less", sample, le("num", num(6)), false},
		{"le, number equal", sample, le("num", num(7)), true}, // the boundary at which a lease expires
		{"le, number greater", sample, le("num", num(8)), true},
		{"le, number of more digits", sample, le("num", num(10)), true}, // compared as text 10 < 7
		{"le, negative number", sample, le("num", num(-8)), false},
		{"le, number and text", sample, le("num", str("9")), false}, // stores that order all types put numbers first
		{"le, text and number", sample, le("digit", num(9)), false},
		{"le, true and number", sample, le("yes", num(9)), false},
		{"le, bytes and text", sample, le("void", str("~")), false},
		{"le, bytes and number", sample, le("bytes", num(9)), false},
		{"le, map and text", sample, le("map", str("~")), false},
		{"le, text less", sample, le("text", str("hell")), false},
		{"le, text equal", sample, le("text", str("hello")), true},
		{"le, text longer", sample, le("text", str("hello!")), true},
		{"le, text upper case", sample, le("text", str("Z")), false}, // a locale puts hello before Z
		{"le, empty text", sample, le("none", str("")), true},
		{"le, text and empty", sample, le("text", str("")), false},
		{"le, time past", sample, le("when", docstore.Now), true},
		{"le, time and its offset", sample, le("when", docstore.Now.Add(-time.Hour)), true},
		{"le, number and time", sample, le("num", docstore.Now), false},

		{"any, empty", sample, anyOf{}, false},
		{"any, empty, no document", none, anyOf{}, false},
		{"any, first", sample, anyOf{has("text"), absent{}}, true},
		{"any, last", sample, anyOf{absent{}, has("text")}, true},
		{"any, neither", sample, anyOf{absent{}, has("other")}, false},
		{"any, one", sample, anyOf{has("text")}, true},
		{"all, empty", sample, allOf{}, true},
		{"all, empty, no document", none, allOf{}, true},
		{"all, both", sample, allOf{has("text"), eq("num", num(7))}, true},
		{"all, first only", sample, allOf{has("text"), absent{}}, false},
		{"all, last only", sample, allOf{absent{}, has("text")}, false},
		{"all, one", sample, allOf{has("text")}, true},
		// Three-valued logic (SQL, and DynamoDB's <>) makes a comparison with a missing field unknown, and so its negation.
		{"not, missing", sample, not(eq("other", num(1))), true},
		{"not, missing order", sample, not(le("other", num(1))), true},
		{"not, wrong type", sample, not(le("text", num(1))), true},
		{"not, no document", none, not(eq("num", num(7))), true},
		{"not, not", sample, not(not(has("text"))), true},
		{"not, empty any", sample, not(anyOf{}), true},
		{"not, empty all", sample, not(allOf{}), false},
		{"not, any", sample, not(anyOf{absent{}, has("text")}), false},
		{"not, all", sample, not(allOf{has("text"), absent{}}), true},
		// Without parentheses "and" binds tighter than "or": the two differ here.
		{"nested, any in all", sample, allOf{anyOf{has("text"), has("num")}, has("other")}, false},
		{"nested, all in any", sample, anyOf{has("text"), allOf{has("num"), has("other")}}, true},
		{"nested, empty in any", sample, anyOf{anyOf{}, allOf{}}, true},
		{"nested, empty in all", sample, allOf{anyOf{}, allOf{}}, false},
		{"nested, a lease that is free", sample, anyOf{absent{}, not(has("owner")), le("when", docstore.Now)}, true},
		{"nested, a lease that is held", sample, allOf{has("text"), not(le("when", docstore.Now))}, false},
		{"begins, with more", sample, begins("text", "hel"), true},
		{"begins, with nothing more", sample, begins("text", "hello"), false},
		{"begins, with less", sample, begins("text", "hello!"), false},
		{"begins, another", sample, begins("text", "hem"), false},
		{"begins, with nothing", sample, begins("text", ""), true},
		{"begins, empty with nothing", sample, begins("none", ""), false},
		{"begins, number", sample, begins("num", ""), false},
		{"begins, bytes", sample, begins("bytes", ""), false},
		{"begins, missing", sample, begins("other", ""), false},
		{"begins, no document", none, begins("f", ""), false},
		{"begins, up to the end of the range", one("a~"), begins("f", "a"), true},
		{"begins, behind the end of the range", one("a~b"), begins("f", "a"), false},
		{"begins, above the range", one("a\x7f"), begins("f", "a"), false},
		{"begins, far above the range", one("a\u00e9"), begins("f", "a"), false},
		{"begins, in the range", one("a}\u00e9"), begins("f", "a"), true},
		{"a range of two fields", sample, allOf{not(le("text", str("a"))), le("digit", str("a~"))}, true},
		{"a range of two texts", sample, allOf{not(le("text", str("a"))), le("text", str("z~"))}, true},
		// Expression languages bind values by name: the same field and value twice must not clash.
		{"same field twice", sample, allOf{le("num", num(7)), not(le("num", num(6))), eq("num", num(7))}, true},
	}
}

// checkConditions asks the store, Cond.Holds and the table, which must agree.
func checkConditions(ctx context.Context, s docstore.Store) error {
	var f findings
	for i, c := range conditions() {
		for _, ask := range []condition{c, {"not: " + c.name, c.doc, docstore.Not{Cond: c.cond}, !c.want}} {
			k := key(fmt.Sprintf("%d-%v", i, ask.want))
			if ask.doc != nil {
				if err := put(ctx, s, k, ask.doc); err != nil {
					return err
				}
			}
			f.ask(ctx, s, k, ask)
		}
	}
	return f.err()
}

// ask sends a write on a condition and compares what became of it.
func (f *findings) ask(ctx context.Context, s docstore.Store, k docstore.Key, c condition) {
	after := docstore.Doc{"probe": docstore.Bool(true)}
	maps.Copy(after, c.doc)
	r, err := s.Write(ctx, docstore.Write{Key: k, If: c.cond, Set: docstore.Doc{"probe": docstore.Bool(true)}})
	if c.cond.Holds(c.doc, r.At) != c.want {
		f.addf("%s: the table says %v, Holds does not", c.name, c.want)
	}
	if c.want {
		f.applied(c.name, r, err, after)
		f.expect(ctx, s, k, after)
	} else {
		f.refused(c.name, r, err, c.doc)
		f.expect(ctx, s, k, c.doc)
	}
}

// checkNumberOrder compares numbers up to the bounds. Readers that go through float64 or float32 lose the neighbors of
// 2^53 or 2^24; comparisons as text lose the rest.
func checkNumberOrder(ctx context.Context, s docstore.Store) error {
	ascending := []int64{
		-docstore.MaxInt, -docstore.MaxInt + 1, -1 << 32, -1 << 31, -1<<24 - 1, -1 << 24, -10, -9, -1, 0, 1, 9, 10,
		1 << 24, 1<<24 + 1, 1 << 31, 1 << 32, docstore.MaxInt - 1, docstore.MaxInt,
	}
	values := make([]docstore.Value, len(ascending))
	for i, n := range ascending {
		values[i] = docstore.Int(n)
	}
	return checkOrder(ctx, s, values)
}

// checkTextOrder compares texts, which are ordered by their UTF-8 bytes. Locales put "a" before "B" and an accent
// beside its letter; UTF-16 puts U+10000 before U+FFFD; C strings end at a NUL.
func checkTextOrder(ctx context.Context, s docstore.Store) error {
	ascending := []string{
		"", "\x00", "\x01", " ", "%", "10", "9", "A", "B", "Z", "_", "a", "a\x00", "a\x00b", "a b", "aa", "b",
		"e\u0301", "f", "z", "\u007f", "\u0080", "\u00e9", "\u03c9", "\u2126", "\ud7ff", "\ue000", "\ufb00",
		"\ufffd", "\U00010000",
		"\U0001f600", "\U0010ffff",
	}
	values := make([]docstore.Value, len(ascending))
	for i, t := range ascending {
		values[i] = docstore.String(t)
	}
	return checkOrder(ctx, s, values)
}

// checkOrder compares each value with itself and its neighbors in a list that ascends strictly.
func checkOrder(ctx context.Context, s docstore.Store, ascending []docstore.Value) error {
	var f findings
	for i, v := range ascending {
		doc := docstore.Doc{"v": v}
		for j := max(i-1, 0); j <= min(i+1, len(ascending)-1); j++ {
			other := ascending[j]
			for _, c := range []condition{
				{fmt.Sprintf("%#v <= %#v", v, other), doc, docstore.LE{Field: "v", Value: other}, i <= j},
				{fmt.Sprintf("%#v == %#v", v, other), doc, docstore.Eq{Field: "v", Value: other}, i == j},
			} {
				k := key(fmt.Sprintf("%d-%d-%T", i, j, c.cond))
				if err := put(ctx, s, k, doc); err != nil {
					return err
				}
				f.ask(ctx, s, k, c)
			}
		}
	}
	return f.err()
}
