package docstoretest

import (
	"context"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkDelete removes documents on conditions. Deleting by hand knows no condition on most stores, and reports success
// where there was nothing.
func checkDelete(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("deleted")
	found := docstore.Doc{"a": docstore.Int(1), "b": docstore.String("two"), "until": dueText(-1)}
	there := docstore.Not{Cond: docstore.Absent{}}
	remove := func(k docstore.Key, c docstore.Cond) docstore.Write {
		return docstore.Write{Key: k, If: c, Delete: true}
	}
	if err := put(ctx, s, k, found); err != nil {
		return err
	}
	for name, c := range map[string]docstore.Cond{
		"another value": docstore.Eq{Field: "a", Value: docstore.Int(2)}, "no such field": docstore.Has{Field: "c"},
		"never":   docstore.Any{},
		"not yet": docstore.All{docstore.LE{Field: "until", Value: docstore.Now}, docstore.Has{Field: "c"}},
	} {
		r, err := s.Write(ctx, remove(k, c))
		f.refused(name, r, err, found)
		f.expect(ctx, s, k, found)
	}
	r, err := s.Write(ctx, remove(k, docstore.All{docstore.Eq{Field: "a", Value: docstore.Int(1)},
		docstore.LE{Field: "until", Value: docstore.Now}}))
	f.applied("delete", r, err, nil)
	if r.At.IsZero() {
		f.addf("delete: a result without its time")
	}
	f.expect(ctx, s, k, nil)
	f.lists(ctx, s, 0)
	f.expectDue(ctx, s, due(), nil)

	for name, c := range map[string]docstore.Cond{"deleted already": there, "never was": docstore.Has{Field: "a"}} {
		r, err := s.Write(ctx, remove(key(name), c))
		f.refused(name, r, err, nil)
		f.expect(ctx, s, key(name), nil)
	}
	r, err = s.Write(ctx, remove(k, docstore.Has{Field: "a"}))
	f.refused("deleted twice", r, err, nil)

	// It is as if it had never been: nothing of what was there comes back, and it can be created.
	fresh := docstore.Doc{"c": docstore.Int(3)}
	r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Set: fresh})
	f.applied("create again", r, err, fresh)
	f.expect(ctx, s, k, fresh)
	f.lists(ctx, s, 1)

	empty := key("without fields")
	if err := put(ctx, s, empty, docstore.Doc{}); err != nil {
		return err
	}
	r, err = s.Write(ctx, remove(empty, there))
	f.applied("without fields", r, err, nil)
	f.expect(ctx, s, empty, nil)

	// Only the one that was named: not the same ID of another tenant or kind, and no neighbor.
	beside := map[docstore.Key]docstore.Doc{
		{Kind: "suite", Tenant: "other", ID: "x"}: fresh, {Kind: "suite", ID: "x"}: fresh,
		{Kind: "other", Tenant: "acme", ID: "x"}: fresh,
		key("x/"):                                fresh, key("X"): fresh, key("x "): fresh, key("xx"): fresh,
	}
	for k := range beside {
		if err := put(ctx, s, k, fresh); err != nil {
			return err
		}
	}
	if err := put(ctx, s, key("x"), fresh); err != nil {
		return err
	}
	r, err = s.Write(ctx, remove(key("x"), there))
	f.applied("among neighbors", r, err, nil)
	f.expect(ctx, s, key("x"), nil)
	f.expectAll(ctx, s, beside)
	return f.err()
}

// lists reports another number of documents in a list of the suite's own kind and tenant.
func (f *findings) lists(ctx context.Context, s docstore.Store, want int) {
	page, err := s.List(ctx, docstore.Query{Kind: "suite", Tenant: "acme"})
	if err != nil || len(page.Entries) != want {
		f.addf("list: %q, %v, want %d", ids(page.Entries), err, want)
	}
}

// checkDeleteSeveral deletes some documents and changes others in one step, or none.
func checkDeleteSeveral(ctx context.Context, s docstore.Store) error {
	var f findings
	a, b, c := key("a"), key("b"), docstore.Key{Kind: "other", Tenant: "acme", ID: "c"}
	one, two := docstore.Doc{"n": docstore.Int(1)}, docstore.Doc{"n": docstore.Int(2)}
	there := docstore.Has{Field: "n"}
	remove := func(k docstore.Key, c docstore.Cond) docstore.Write {
		return docstore.Write{Key: k, If: c, Delete: true}
	}
	add := func(k docstore.Key, c docstore.Cond) docstore.Write {
		return docstore.Write{Key: k, If: c, Add: map[string]int64{"n": 1}}
	}
	for _, k := range []docstore.Key{a, b, c} {
		if err := put(ctx, s, k, one); err != nil {
			return err
		}
	}
	all := map[docstore.Key]docstore.Doc{a: one, b: one, c: one}
	none := key("none")
	for _, refusal := range []struct {
		name    string
		writes  []docstore.Write
		refused map[int]docstore.Doc
	}{
		{"a delete is refused", []docstore.Write{add(a, nil), remove(b, docstore.Has{Field: "x"}), add(c, nil)},
			map[int]docstore.Doc{1: one}},
		{"another is refused", []docstore.Write{remove(a, there), add(b, docstore.Absent{})}, map[int]docstore.Doc{1: one}},
		{"one does not exist", []docstore.Write{remove(a, there), remove(none, there), remove(b, there)},
			map[int]docstore.Doc{1: nil}},
	} {
		r, err := s.Write(ctx, refusal.writes...)
		f.severalRefused(refusal.name, r, err, len(refusal.writes), refusal.refused)
		f.expectAll(ctx, s, all)
	}
	r, err := s.Write(ctx, remove(a, there), docstore.Write{Key: b, Add: map[string]int64{"n": docstore.MaxInt}})
	f.damaged("another is damaged", r, err)
	f.expectAll(ctx, s, all)

	r, err = s.Write(ctx, remove(a, there), add(b, there), remove(c, there))
	f.severalApplied(ctx, s, "two deleted, one changed", r, err, a, b, c)
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: nil, b: two, c: nil})
	f.lists(ctx, s, 1)

	// A move: one document goes, another comes.
	r, err = s.Write(ctx, remove(b, docstore.Eq{Field: "n", Value: docstore.Int(2)}),
		docstore.Write{Key: a, If: docstore.Absent{}, Set: two})
	f.severalApplied(ctx, s, "moved", r, err, b, a)
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: two, b: nil})

	// As many as a step can have.
	writes := make([]docstore.Write, docstore.MaxWrites)
	gone := map[docstore.Key]docstore.Doc{}
	for i := range writes {
		k := docstore.Key{Kind: "many", Tenant: "acme", ID: string(rune('a' + i))}
		writes[i] = docstore.Write{Key: k, Set: one}
		gone[k] = nil
	}
	r, err = s.Write(ctx, writes...)
	f.severalApplied(ctx, s, "create many", r, err, keysOfWrites(writes)...)
	for i := range writes {
		writes[i] = remove(writes[i].Key, there)
	}
	r, err = s.Write(ctx, writes...)
	f.severalApplied(ctx, s, "delete many", r, err, keysOfWrites(writes)...)
	f.expectAll(ctx, s, gone)
	return f.err()
}
