package docstoretest

import (
	"context"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkBefore shifts text from field to field. All copies are of the document as it was before the write: a store that
// carries out one assignment after the other (SQL's rows do not, a loop over a map does) moves the new text two places
// at once.
func checkBefore(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("register")
	shift := func(text string) docstore.Doc {
		return docstore.Doc{"a1": docstore.String(text), "a2": docstore.Before("a1"), "a3": docstore.Before("a2")}
	}
	register := func(a1, a2, a3 string) docstore.Doc {
		return docstore.Doc{"a1": docstore.String(a1), "a2": docstore.String(a2), "a3": docstore.String(a3)}
	}
	other := docstore.Doc{"n": docstore.Int(1)}
	for _, step := range []struct {
		name string
		set  docstore.Doc
		want docstore.Doc
	}{
		{"no document", shift("one"), register("one", "", "")},
		{"second", shift("two"), register("two", "one", "")},
		{"third", shift("three"), register("three", "two", "one")},
		{"fourth", shift("日本 \"'\\\n:{}"), register("日本 \"'\\\n:{}", "three", "two")},
		{"empty text", shift(""), register("", "日本 \"'\\\n:{}", "three")},
		{"itself", docstore.Doc{"a2": docstore.Before("a2")}, register("", "日本 \"'\\\n:{}", "three")},
		{"two change places", docstore.Doc{"a2": docstore.Before("a3"), "a3": docstore.Before("a2")},
			register("", "three", "日本 \"'\\\n:{}")},
		{"one to many", docstore.Doc{"a1": docstore.Before("a2"), "a3": docstore.Before("a2")},
			register("three", "three", "three")},
		{"text that looks like another value", shift("i:5"), register("i:5", "three", "three")},
		{"and again", shift("t:0"), register("t:0", "i:5", "three")},
		{"long text", shift(strings.Repeat("x", 5000)), register(strings.Repeat("x", 5000), "t:0", "i:5")},
	} {
		r, err := s.Write(ctx, docstore.Write{Key: k, Set: step.set})
		f.applied(step.name, r, err, step.want)
		f.expect(ctx, s, k, step.want)
	}

	// A field that is missing is empty text afterwards, and the document's other fields are not touched.
	missing := key("missing field")
	if err := put(ctx, s, missing, other); err != nil {
		return err
	}
	want := docstore.Doc{"n": docstore.Int(1), "a2": docstore.String("")}
	r, err := s.Write(ctx, docstore.Write{Key: missing, Set: docstore.Doc{"a2": docstore.Before("a1")}})
	f.applied("missing field", r, err, want)
	f.expect(ctx, s, missing, want)

	// The source may be removed, counted up or set to another type by the same write.
	moved := key("moved")
	if err := put(ctx, s, moved, docstore.Doc{"from": docstore.String("text"), "b": docstore.String("b")}); err != nil {
		return err
	}
	r, err = s.Write(ctx, docstore.Write{
		Key: moved, Set: docstore.Doc{"to": docstore.Before("from"), "c": docstore.Before("b"), "b": docstore.Int(1)},
		Unset: []string{"from"},
	})
	want = docstore.Doc{"to": docstore.String("text"), "c": docstore.String("b"), "b": docstore.Int(1)}
	f.applied("source removed", r, err, want)
	f.expect(ctx, s, moved, want)

	// A time is text once it is stored.
	r, err = s.Write(ctx, docstore.Write{Key: key("time"), Set: docstore.Doc{"t": docstore.Now}})
	f.applied("time", r, err, docstore.Doc{"t": docstore.FormatTime(r.At)})
	stamp := docstore.FormatTime(r.At)
	r, err = s.Write(ctx, docstore.Write{Key: key("time"), Set: docstore.Doc{"t": docstore.Now.Add(1e9),
		"before": docstore.Before("t")}})
	f.applied("time of before", r, err, docstore.Doc{"t": docstore.FormatTime(r.At.Add(1e9)), "before": stamp})

	// Among several writes each copies from its own document.
	a, b := key("first"), key("second")
	for i, text := range []string{"x", "y"} {
		r, err = s.Write(ctx, docstore.Write{Key: a, Set: shift("a" + text)}, docstore.Write{Key: b, Set: shift("b" + text)})
		f.severalApplied(ctx, s, "several", r, err, a, b)
		old := []string{"", "x"}[i]
		for name, k := range map[string]docstore.Key{"a": a, "b": b} {
			before := ""
			if old != "" {
				before = name + old
			}
			f.expect(ctx, s, k, register(name+text, before, ""))
		}
	}

	// A refusal copies nothing.
	r, err = s.Write(ctx, docstore.Write{Key: a, If: docstore.Absent{}, Set: shift("new")})
	f.refused("refused", r, err, register("ay", "ax", ""))
	f.expect(ctx, s, a, register("ay", "ax", ""))
	return f.err()
}

// checkBeforeDamaged copies what is not text. A store that copied it as it is, or spelled it as text, would later
// compare a request's hash with it.
func checkBeforeDamaged(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, v := range map[string]docstore.Value{
		"number": docstore.Int(5), "zero": docstore.Int(0), "boolean": docstore.Bool(true), "bytes": docstore.Bytes("text"),
		"no bytes": docstore.Bytes(""), "map": docstore.Map{"x": "1"}, "empty map": docstore.Map{},
	} {
		k, bystander := key(name), key("beside "+name)
		found := docstore.Doc{"v": v, "other": docstore.String("stays")}
		if err := put(ctx, s, k, found); err != nil {
			return err
		}
		for what, w := range map[string]docstore.Write{
			"copy":           {Set: docstore.Doc{"to": docstore.Before("v"), "other": docstore.String("changed")}},
			"itself":         {Set: docstore.Doc{"v": docstore.Before("v")}},
			"copy and unset": {Set: docstore.Doc{"to": docstore.Before("v")}, Unset: []string{"v"}},
			"copy and set":   {Set: docstore.Doc{"to": docstore.Before("v"), "v": docstore.String("text now")}},
		} {
			w.Key = k
			r, err := s.Write(ctx, w)
			f.damaged(name+", "+what, r, err)
			if err != nil && (!strings.Contains(err.Error(), `"v"`) || !strings.Contains(err.Error(), k.String())) {
				f.addf("%s, %s: the error does not name the document and the field: %w", name, what, err)
			}
			f.expect(ctx, s, k, found)

			r, err = s.Write(ctx, docstore.Write{Key: bystander, Set: docstore.Doc{"a": docstore.Int(1)}}, w)
			f.damaged(name+", "+what+", among several", r, err)
			f.expect(ctx, s, k, found)
			f.expect(ctx, s, bystander, nil)

			w.If = docstore.Absent{}
			r, err = s.Write(ctx, w)
			f.refused(name+", "+what+", refused", r, err, found)
		}
	}
	return f.err()
}
