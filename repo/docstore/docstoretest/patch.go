package docstoretest

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkPatch changes fields one by one and expects the others to stay. Leasehold keeps its fields inside documents of
// others, so that a store that replaces the document (the plain Put of most SDKs) destroys what is not its own.
func checkPatch(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("patched")
	want := docstore.Doc{}
	for _, step := range []struct {
		name  string
		write docstore.Write
	}{
		{"create", docstore.Write{Set: docstore.Doc{"a": docstore.String("1"), "b": docstore.Int(2),
			"m": docstore.Map{"x": "1", "y": "2"}}}},
		{"set one field", docstore.Write{Set: docstore.Doc{"a": docstore.String("one")}}},
		{"set a new field", docstore.Write{Set: docstore.Doc{"c": docstore.Bool(true)}}},
		{"set to another type", docstore.Write{Set: docstore.Doc{"a": docstore.Int(1)}}},
		{"set to the same value", docstore.Write{Set: docstore.Doc{"a": docstore.Int(1)}}},
		{"set to the empty text", docstore.Write{Set: docstore.Doc{"c": docstore.String("")}}},
		// A map is a value: it is replaced as a whole. Firestore merges maps field by field unless told not to.
		{"set a map", docstore.Write{Set: docstore.Doc{"m": docstore.Map{"x": "3"}}}},
		{"set text to bytes", docstore.Write{Set: docstore.Doc{"c": docstore.Bytes("")}}},
		{"set bytes", docstore.Write{Set: docstore.Doc{"c": docstore.Bytes("\x00")}}},
		{"set bytes to text", docstore.Write{Set: docstore.Doc{"c": docstore.String("\x00")}}},
		{"set an empty map", docstore.Write{Set: docstore.Doc{"m": docstore.Map{}}}},
		{"unset", docstore.Write{Unset: []string{"c"}}},
		{"unset what is missing", docstore.Write{Unset: []string{"c", "never"}}},
		{"add", docstore.Write{Add: map[string]int64{"b": 3}}},
		{"all three", docstore.Write{
			Set: docstore.Doc{"c": docstore.String("new")}, Add: map[string]int64{"b": -1, "d": 1}, Unset: []string{"a"},
		}},
		// Reserved words of expression languages are ordinary field names.
		{"reserved words", docstore.Write{Set: docstore.Doc{
			"status": docstore.Int(1), "name": docstore.Int(2), "order": docstore.Int(3), "size": docstore.Int(4),
			"type": docstore.Int(5),
		}, Add: map[string]int64{"count": 1}, Unset: []string{"values"}}},
		{"no change at all", docstore.Write{}},
	} {
		w := step.write
		w.Key = k
		for _, field := range w.Unset {
			delete(want, field)
		}
		maps.Copy(want, w.Set)
		for field, n := range w.Add {
			old, _ := want[field].(docstore.Int)
			want[field] = old + docstore.Int(n)
		}
		r, err := s.Write(ctx, w)
		f.applied(step.name, r, err, want)
		f.expect(ctx, s, k, want)
	}
	return f.err()
}

// checkEmptyDocument tells a document without fields from none. Stores that keep a row per field, or hashes that vanish
// with their last field (Redis), cannot.
func checkEmptyDocument(ctx context.Context, s docstore.Store) error {
	var f findings
	created := key("created empty")
	r, err := s.Write(ctx, docstore.Write{Key: created, If: docstore.Absent{}})
	f.applied("create without fields", r, err, docstore.Doc{})
	f.expect(ctx, s, created, docstore.Doc{})
	r, err = s.Write(ctx, docstore.Write{Key: created, If: docstore.Absent{}})
	f.refused("create again", r, err, docstore.Doc{})

	emptied := key("emptied")
	if err := put(ctx, s, emptied, docstore.Doc{"a": docstore.Int(1)}); err != nil {
		return err
	}
	r, err = s.Write(ctx, docstore.Write{Key: emptied, Unset: []string{"a"}})
	f.applied("remove the last field", r, err, docstore.Doc{})
	f.expect(ctx, s, emptied, docstore.Doc{})

	unset := key("unset on none")
	r, err = s.Write(ctx, docstore.Write{Key: unset, Unset: []string{"a"}})
	f.applied("unset without a document", r, err, docstore.Doc{})
	f.expect(ctx, s, unset, docstore.Doc{})

	page, err := s.List(ctx, docstore.Query{Kind: "suite", Tenant: "acme"})
	if err != nil || len(page.Entries) != 3 {
		f.addf("List shows %d of 3 empty documents, error %v", len(page.Entries), err)
	}
	return f.err()
}

// checkAdd counts from 0 when the field or the document is missing, and up to the bounds.
func checkAdd(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, c := range map[string]struct {
		found docstore.Doc
		add   int64
		want  int64
	}{
		"no document":       {nil, 5, 5},
		"no document, by 0": {nil, 0, 0},
		"missing field":     {docstore.Doc{}, -3, -3},
		"to the upper end":  {docstore.Doc{"n": docstore.Int(docstore.MaxInt - 1)}, 1, docstore.MaxInt},
		"to the lower end":  {docstore.Doc{"n": docstore.Int(-docstore.MaxInt + 1)}, -1, -docstore.MaxInt},
		"from end to end":   {docstore.Doc{"n": docstore.Int(-docstore.MaxInt)}, docstore.MaxInt, 0},
		"by 0 at the end":   {docstore.Doc{"n": docstore.Int(docstore.MaxInt)}, 0, docstore.MaxInt},
		"exact where float64 is not far": {
			docstore.Doc{"n": docstore.Int(docstore.MaxInt - 3)}, 2, docstore.MaxInt - 1,
		},
	} {
		k := key(name)
		if c.found != nil {
			if err := put(ctx, s, k, c.found); err != nil {
				return err
			}
		}
		r, err := s.Write(ctx, docstore.Write{Key: k, Add: map[string]int64{"n": c.add}})
		want := docstore.Doc{"n": docstore.Int(c.want)}
		f.applied(name, r, err, want)
		f.expect(ctx, s, k, want)
	}
	return f.err()
}

// checkAddDamaged adds where it cannot be done. A fencing counter that wraps, saturates, turns into a float or begins
// anew because another writer stored text there would issue a token twice: the write must fail, and change nothing.
func checkAddDamaged(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, c := range map[string]struct {
		n   docstore.Value
		add int64
	}{
		"text":            {docstore.String("5"), 1},
		"empty text":      {docstore.String(""), 1},
		"boolean":         {docstore.Bool(true), 1},
		"bytes":           {docstore.Bytes("5"), 1},
		"map":             {docstore.Map{}, 1},
		"beyond the top":  {docstore.Int(docstore.MaxInt), 1},
		"below the floor": {docstore.Int(-docstore.MaxInt), -1},
		"far beyond":      {docstore.Int(docstore.MaxInt), docstore.MaxInt},
	} {
		k, bystander := key(name), key("beside "+name)
		found := docstore.Doc{"n": c.n, "other": docstore.String("stays")}
		if err := put(ctx, s, k, found); err != nil {
			return err
		}
		w := docstore.Write{Key: k, Set: docstore.Doc{"other": docstore.String("changed")}, Add: map[string]int64{"n": c.add}}
		r, err := s.Write(ctx, w)
		f.damaged(name, r, err)
		if err != nil && !strings.Contains(err.Error(), `"n"`) {
			f.addf("%s: the error does not name the field: %w", name, err)
		}
		f.expect(ctx, s, k, found)

		r, err = s.Write(ctx, docstore.Write{Key: bystander, Set: docstore.Doc{"a": docstore.Int(1)}}, w)
		f.damaged(name+", among several", r, err)
		f.expect(ctx, s, k, found)
		f.expect(ctx, s, bystander, nil)

		// A condition that does not hold comes first: it is an outcome, and the document's damage does not matter.
		w.If = docstore.Absent{}
		r, err = s.Write(ctx, w)
		f.refused(name+", refused", r, err, found)
	}
	return f.err()
}

func (f *findings) damaged(name string, r docstore.Result, err error) {
	if !errors.Is(err, docstore.ErrDamaged) {
		f.addf("%s: error is %v, want ErrDamaged", name, err)
	}
	if r.Applied {
		f.addf("%s: Applied, and yet an error", name)
	}
}

// checkRefusal looks at what a refused write leaves and returns. Rules explain a refusal from the document found and
// recognize a lost response by it, so that a store that returns nothing (or what it would have written) breaks them.
func checkRefusal(ctx context.Context, s docstore.Store) error {
	var f findings
	missing := key("missing")
	change := docstore.Write{
		Key: missing, If: docstore.Has{Field: "x"},
		Set: docstore.Doc{"a": docstore.Int(9)}, Add: map[string]int64{"n": 1}, Unset: []string{"b"},
	}
	r, err := s.Write(ctx, change)
	f.refused("no document", r, err, nil)
	f.expect(ctx, s, missing, nil)
	if r.Docs != nil && r.Docs[0] != nil {
		f.addf("no document: the document found is %#v, want nil", r.Docs[0])
	}

	k := key("found")
	found := docstore.Doc{
		"a": docstore.Int(1), "b": docstore.String("two"), "c": docstore.Bool(false), "m": docstore.Map{"x": "y"},
		"n": docstore.Int(3),
	}
	if err := put(ctx, s, k, found); err != nil {
		return err
	}
	change.Key = k
	for range 2 {
		r, err = s.Write(ctx, change)
		f.refused("document", r, err, found)
		f.expect(ctx, s, k, found)
	}
	if r.At.IsZero() {
		f.addf("a refusal without its time")
	}
	return f.err()
}

// checkValues writes every type at its edges and expects the same back, from Write, Get and List.
func checkValues(ctx context.Context, s docstore.Store) error {
	var f findings
	long := strings.Repeat("0123456789abcdef", 1024)
	want := docstore.Doc{
		"emptyText": docstore.String(""),
		"quotes":    docstore.String(`"\'` + "`/{}[]:,$.@#%"),
		"control":   docstore.String("\x00\x01\b\t\n\v\f\r\x1b\x7f\u0085\u2028\u2029"),
		"unicode":   docstore.String("日本語 \u00e9 e\u0301 \ufeff \ufffd \U0001f600 \U0010ffff"),
		"html":      docstore.String("<a href='x'>&amp;</a>"), // encoding/json rewrites these unless told not to
		"long":      docstore.String(long),
		"number":    docstore.String("9007199254740993"),
		"word":      docstore.String("null"),
		"max":       docstore.Int(docstore.MaxInt),
		"min":       docstore.Int(-docstore.MaxInt),
		"zero":      docstore.Int(0),
		"yes":       docstore.Bool(true),
		"no":        docstore.Bool(false),
		"noBytes":   docstore.Bytes(""),
		"bytes":     docstore.Bytes("\x00\x01\xfe\xff"),
		"emptyMap":  docstore.Map{},
		"map":       docstore.Map{"a.b": "1", "a/b": "", "日本": "\x00", "$x": `"`, "__x__": "é", " ": "x"},
		"F_9":       docstore.Int(1),
		"Case":      docstore.Int(1),
		"case":      docstore.Int(2),
	}
	want[strings.Repeat("f", 64)] = docstore.Int(64)
	k := key("values")
	r, err := s.Write(ctx, docstore.Write{Key: k, Set: want})
	f.applied("Write", r, err, want)
	f.expect(ctx, s, k, want)
	page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
	if err != nil || len(page.Entries) != 1 || !page.Entries[0].Doc.Equal(want) {
		f.addf("List: %#v, error %v", page.Entries, err)
	}
	for field, v := range want {
		r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Not{Cond: docstore.Eq{Field: field, Value: v}}})
		f.refused("unequal to itself: "+field, r, err, want)
	}
	return f.err()
}
