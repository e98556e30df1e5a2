package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// walkPage returns a page of all tenants.
func walkPage(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (docstore.Page, error) {
	w, ok := s.(docstore.Walker)
	if !ok {
		return docstore.Page{}, fmt.Errorf("%T is no docstore.Walker, which every adapter is", s)
	}
	return w.Walk(ctx, q)
}

// walkAll follows the pages to the end.
func walkAll(ctx context.Context, s docstore.Store, q docstore.WalkQuery) (all []docstore.Entry, err error) {
	seen := map[string]bool{}
	for {
		page, err := walkPage(ctx, s, q)
		switch {
		case err != nil:
			return nil, fmt.Errorf("walk %+v: %w", q, err)
		case len(page.Entries) > q.Size():
			return nil, fmt.Errorf("walk %+v: %d entries in a page of %d", q, len(page.Entries), q.Size())
		case page.At.IsZero():
			return nil, fmt.Errorf("walk %+v: a page without its time", q)
		case seen[page.Next]:
			return nil, fmt.Errorf("walk %+v: Next is %q again", q, page.Next)
		}
		if all = append(all, page.Entries...); page.Next == "" {
			return all, nil
		}
		seen[page.Next] = true
		q.After = page.Next
	}
}

// checkWalk finds the documents of one kind, whatever their tenant, each once.
func checkWalk(ctx context.Context, s docstore.Store) error {
	var f findings
	want := map[docstore.Key]docstore.Doc{}
	n := 0
	for _, tenant := range []string{
		"", "acme", "acm", "acme/", "acme/x", "Acme", "a.b", "a%2Fb", "日本", "\U0001f600", "__x__", ".", "..", " ", "-", "[",
		"(", "+", "\x01", strings.Repeat("t", 100),
	} {
		for _, id := range []string{"x", "a/b", "日本 %:{}", "[x", "\U0010ffff", strings.Repeat("z", 100)} {
			n++
			k := docstore.Key{Kind: "walked", Tenant: tenant, ID: id}
			want[k] = docstore.Doc{"n": docstore.Int(n)}
			if err := put(ctx, s, k, want[k]); err != nil {
				return err
			}
		}
	}
	for _, k := range []docstore.Key{
		{Kind: "walke", Tenant: "d", ID: "x"}, {Kind: "walked_", ID: "x"}, {Kind: "walked-acme", Tenant: "acme", ID: "x"},
		{Kind: "other", Tenant: "acme", ID: "walked"},
		{Kind: "a", Tenant: "walked", ID: "x"}, {Kind: "z", Tenant: "walked", ID: "x"},
	} {
		if err := put(ctx, s, k, docstore.Doc{"other": docstore.Bool(true)}); err != nil {
			return err
		}
	}
	gone := docstore.Key{Kind: "walked", Tenant: "gone", ID: "x"}
	if err := put(ctx, s, gone, docstore.Doc{}); err != nil {
		return err
	}
	if r, err := s.Write(ctx, docstore.Write{Key: gone, If: docstore.Not{Cond: docstore.Absent{}},
		Delete: true}); err != nil || !r.Applied {
		return fmt.Errorf("delete: %+v, %w", r, err)
	}
	for _, limit := range []int{0, 1, 3, 7, len(want) - 1, len(want), len(want) + 1, docstore.MaxLimit} {
		entries, err := walkAll(ctx, s, docstore.WalkQuery{Kind: "walked", Limit: limit})
		if err != nil {
			return err
		}
		seen := map[docstore.Key]bool{}
		for _, e := range entries {
			switch {
			case seen[e.Key]:
				f.addf("limit %d: %s was seen twice", limit, e.Key)
			case want[e.Key] == nil:
				f.addf("limit %d: %s was seen, which is not of the kind, or not there", limit, e.Key)
			case !e.Doc.Equal(want[e.Key]):
				f.addf("limit %d: %s is %#v, want %#v", limit, e.Key, e.Doc, want[e.Key])
			}
			seen[e.Key] = true
		}
		if len(seen) != len(want) {
			f.addf("limit %d: %d documents, want %d", limit, len(seen), len(want))
		}
	}
	if entries, err := walkAll(ctx, s, docstore.WalkQuery{Kind: "nothing"}); err != nil || len(entries) != 0 {
		f.addf("a kind without documents: %d, %v", len(entries), err)
	}
	return f.err()
}

// checkWalkChanges deletes and creates documents between two pages: those that stay are seen once.
func checkWalkChanges(ctx context.Context, s docstore.Store) error {
	var f findings
	stay := map[docstore.Key]int{}
	at := func(tenant, id int) docstore.Key {
		return docstore.Key{Kind: "walked", Tenant: fmt.Sprint("tenant ", tenant), ID: strconv.Itoa(id)}
	}
	for tenant := range 8 {
		for id := range 4 {
			if err := put(ctx, s, at(tenant, id), docstore.Doc{"n": docstore.Int(1)}); err != nil {
				return err
			}
			if id%2 == 1 {
				stay[at(tenant, id)] = 0
			}
		}
	}
	q := docstore.WalkQuery{Kind: "walked", Limit: 5}
	for page, i := (docstore.Page{Next: "first"}), 0; page.Next != ""; i++ {
		var err error
		if page, err = walkPage(ctx, s, q); err != nil {
			return err
		}
		for _, e := range page.Entries {
			if _, ok := stay[e.Key]; ok {
				stay[e.Key]++
			}
		}
		q.After = page.Next
		if i < 8 {
			writes := []docstore.Write{
				{Key: at(i, 0), If: docstore.Has{Field: "n"}, Delete: true},
				{Key: at(7-i, 2), If: docstore.Has{Field: "n"}, Delete: true},
			}
			if i%2 == 1 { // not each time, or else those that come make up for those that go
				for _, k := range []docstore.Key{at(i, 5), at(9-i, 0)} {
					writes = append(writes, docstore.Write{Key: k, Set: docstore.Doc{"new": docstore.Bool(true)}})
				}
			}
			for _, w := range writes {
				if _, err := s.Write(ctx, w); err != nil { // some are gone already
					return err
				}
			}
		}
		if i > 1000 {
			return errors.New("the walk does not end")
		}
	}
	for k, n := range stay {
		if n != 1 {
			f.addf("%s was seen %d times", k, n)
		}
	}
	return f.err()
}

// checkWalkInvalid sends queries that no store accepts, and for the pages of a store that has ended.
func checkWalkInvalid(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, q := range map[string]docstore.WalkQuery{
		"no kind": {}, "kind upper case": {Kind: "Suite"}, "negative limit": {Kind: "suite", Limit: -1},
		"limit too large": {Kind: "suite", Limit: docstore.MaxLimit + 1},
	} {
		_, err := walkPage(ctx, s, q)
		f.invalid("walk, "+name, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := walkPage(canceled, s, docstore.WalkQuery{Kind: "suite"}); !errors.Is(err, context.Canceled) {
		f.addf("walk with a context that was canceled: %v", err)
	}
	if err := s.Close(); err != nil {
		f.addf("Close: %w", err)
	}
	if _, err := walkPage(ctx, s, docstore.WalkQuery{Kind: "suite"}); !errors.Is(err, docstore.ErrClosed) {
		f.addf("walk after Close: %v", err)
	}
	return f.err()
}
