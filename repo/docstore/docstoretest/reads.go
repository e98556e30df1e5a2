package docstoretest

import (
	"context"
	"fmt"
	"maps"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkGetSeveral reads several keys in one trip. Batch reads of many SDKs drop duplicates (or refuse them), leave out
// what is missing and return the rest in any order.
func checkGetSeveral(ctx context.Context, s docstore.Store) error {
	var f findings
	a, b, none := key("a"), docstore.Key{Kind: "other", Tenant: "", ID: "b"}, key("none")
	docA, docB := docstore.Doc{"who": docstore.String("a")}, docstore.Doc{"who": docstore.String("b")}
	if err := put(ctx, s, a, docA); err != nil {
		return err
	}
	if err := put(ctx, s, b, docB); err != nil {
		return err
	}
	for _, c := range []struct {
		keys []docstore.Key
		want []docstore.Doc
	}{
		{[]docstore.Key{a}, []docstore.Doc{docA}},
		{[]docstore.Key{none}, []docstore.Doc{nil}},
		{[]docstore.Key{a, b}, []docstore.Doc{docA, docB}},
		{[]docstore.Key{b, a}, []docstore.Doc{docB, docA}},
		{[]docstore.Key{b, none, a, none}, []docstore.Doc{docB, nil, docA, nil}},
		{[]docstore.Key{a, a, b, a}, []docstore.Doc{docA, docA, docB, docA}},
	} {
		snap, err := s.Get(ctx, c.keys...)
		if err != nil || len(snap.Docs) != len(c.want) {
			f.addf("get %v: %d documents, error %v", c.keys, len(snap.Docs), err)
			continue
		}
		for i, want := range c.want {
			if !snap.Docs[i].Equal(want) {
				f.addf("get %v: entry %d is %#v, want %#v", c.keys, i, snap.Docs[i], want)
			}
		}
	}

	// An acknowledged write is seen by the next read, however often one tries.
	for i := range 20 {
		if err := put(ctx, s, a, docstore.Doc{"i": docstore.Int(i)}); err != nil {
			return err
		}
		docA["i"] = docstore.Int(i)
		f.expect(ctx, s, a, docA)
	}

	many := make([]docstore.Key, 0, docstore.MaxWrites)
	for i := range cap(many) {
		many = append(many, key(fmt.Sprintf("many %d", i)))
	}
	many[cap(many)-1] = a
	snap, err := s.Get(ctx, many...)
	if err != nil || len(snap.Docs) != len(many) || !snap.Docs[len(many)-1].Equal(docA) {
		f.addf("get %d keys: %d documents, error %v", len(many), len(snap.Docs), err)
	}
	return f.err()
}

// checkOwnership changes what the store handed out and what it was given. Neither may reach the stored document: a
// store in the same process easily shares a map.
func checkOwnership(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("owned")
	want := docstore.Doc{"a": docstore.Int(1), "m": docstore.Map{"x": "1"}}
	given := want.Clone()
	spoil := func(d docstore.Doc) {
		if m, ok := d["m"].(docstore.Map); ok {
			m["x"] = "spoiled"
		}
		d["a"] = docstore.String("spoiled")
		d["more"] = docstore.Bool(true)
	}
	r, err := s.Write(ctx, docstore.Write{Key: k, Set: given})
	if err != nil {
		return err
	}
	spoil(given)
	f.expect(ctx, s, k, want)
	spoil(r.Docs[0])
	f.expect(ctx, s, k, want)

	if r, err = s.Write(ctx, docstore.Write{Key: k},
		docstore.Write{Key: docstore.Key{Kind: "other", Tenant: k.Tenant, ID: "beside"}}); err != nil {
		return err
	}
	if r.Docs[0] != nil {
		spoil(r.Docs[0])
	}
	f.expect(ctx, s, k, want)

	if r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}}); err != nil {
		return err
	}
	spoil(r.Docs[0])
	f.expect(ctx, s, k, want)

	snap, err := s.Get(ctx, k, k)
	if err != nil {
		return err
	}
	spoil(snap.Docs[0])
	if !snap.Docs[1].Equal(want) {
		f.addf("the two entries of one key share a document")
	}
	f.expect(ctx, s, k, want)

	page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
	if err != nil || len(page.Entries) != 1 {
		return fmt.Errorf("list: %d entries, error %w", len(page.Entries), err)
	}
	spoil(page.Entries[0].Doc)
	f.expect(ctx, s, k, want)

	// The store does not change what it was given either.
	w := docstore.Write{Key: k, Set: docstore.Doc{"t": docstore.Now}, Add: map[string]int64{"a": 1}, Unset: []string{"m"}}
	set, add := maps.Clone(w.Set), maps.Clone(w.Add)
	if _, err := s.Write(ctx, w); err != nil {
		return err
	}
	if !maps.Equal(w.Set, set) || !maps.Equal(w.Add, add) || len(w.Unset) != 1 || w.Unset[0] != "m" {
		f.addf("the write was changed by the store: %#v", w)
	}
	return f.err()
}
