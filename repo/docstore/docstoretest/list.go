package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// walk follows the pages of a query to the end.
func walk(ctx context.Context, s docstore.Store, q docstore.Query) ([]docstore.Entry, error) {
	var all []docstore.Entry
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list %+v: %w", q, err)
		}
		if len(page.Entries) > q.Size() {
			return nil, fmt.Errorf("list %+v: %d entries in a page of %d", q, len(page.Entries), q.Size())
		}
		all = append(all, page.Entries...)
		if page.Next == "" {
			return all, nil
		}
		if page.Next <= q.After {
			return nil, fmt.Errorf("list %+v: Next is %q, which does not go on", q, page.Next)
		}
		q.After = page.Next
	}
}

// ids are the IDs of entries.
func ids(entries []docstore.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Key.ID
	}
	return list
}

// fill creates a document for every ID; its field id repeats it.
func fill(ctx context.Context, s docstore.Store, kind, tenant string, list []string) error {
	for _, id := range list {
		k := docstore.Key{Kind: kind, Tenant: tenant, ID: id}
		if err := put(ctx, s, k, docstore.Doc{"id": docstore.String(id)}); err != nil {
			return err
		}
	}
	return nil
}

// expectList walks a query and compares.
func (f *findings) expectList(ctx context.Context, s docstore.Store, q docstore.Query, want []string) {
	entries, err := walk(ctx, s, q)
	if err != nil {
		*f = append(*f, err)
		return
	}
	if got := ids(entries); !slices.Equal(got, want) {
		f.addf("list %+v: %q, want %q", q, got, want)
	}
	for _, e := range entries {
		if e.Key.Kind != q.Kind || e.Key.Tenant != q.Tenant || !e.Doc.Equal(docstore.Doc{"id": docstore.String(e.Key.ID)}) {
			f.addf("list %+v: entry %q holds %#v", q, e.Key, e.Doc)
		}
	}
}

// checkListOrder orders by the bytes of the ID. UTF-16 (Java, JavaScript) puts U+10000 before U+FFFD, locales mix upper
// and lower case, "natural" order puts 9 before 10, and an escaped ID sorts by its escapes ("a/b" before "a b").
func checkListOrder(ctx context.Context, s docstore.Store) error {
	var f findings
	want := []string{
		"\x01", " ", "!", "%", "%41", "*", "-", ".", "/", "0", "10", "9", "A", "AB", "Z", "[", "_", "a", "a b",
		"a!", "a%b", "a-b",
		"a.b", "a/", "a/b", "aa", "b", "z", "~", "\u0080", "\u00e9", "\u2028", "\ud7ff", "\ue000", "\ufffd",
		"\uffff", "\U00010000",
		"\U0001f600", "\U0010ffff", "\U0010ffffa",
	}
	if !slices.IsSorted(want) {
		return errors.New("the suite's own list is not in order")
	}
	mixed := slices.Clone(want)
	slices.Reverse(mixed)
	if err := fill(ctx, s, "suite", "acme", mixed); err != nil {
		return err
	}
	q := docstore.Query{Kind: "suite", Tenant: "acme"}
	f.expectList(ctx, s, q, want)
	q.Limit = 1 // each page begins where the order of the one before ended
	f.expectList(ctx, s, q, want)
	return f.err()
}

// checkListPrefix selects by prefix, which is bytes and not a pattern.
func checkListPrefix(ctx context.Context, s docstore.Store) error {
	var f findings
	all := []string{
		"a", "ab", "a%b", "a%", "a_b", "a_", "a*b", "a*", "a?b", "a[b]", "a[", "a\\b", "a\\", "a.b", "a'b", "A", "AB", "aB",
		"\u00e9", "\u00e9a", "e\u0301", "e", "日本", "日本語", "日",
		// The end of a prefix's range is often made by adding one to its last byte or rune: there is none after these.
		"\u007f", "\u007fx", "\u0080", "\ud7ff", "\ud7ffx", "\ue000", "\uffff", "\uffffx", "\U0010ffff", "\U0010ffffx",
		"\U0010ffff\U0010ffff", "\U0010ffff\U0010ffffx", "x\U0010ffff", "x\U0010ffffx", "y",
		strings.Repeat("z", docstore.MaxIDBytes), strings.Repeat("z", docstore.MaxIDBytes-1),
	}
	slices.Sort(all)
	if err := fill(ctx, s, "suite", "acme", all); err != nil {
		return err
	}
	prefixes := append([]string{"", "none", "a%b%", "__", "zz", "\U0010fffe", "x"}, all...)
	for _, prefix := range prefixes {
		var want []string
		for _, id := range all {
			if strings.HasPrefix(id, prefix) {
				want = append(want, id)
			}
		}
		q := docstore.Query{Kind: "suite", Tenant: "acme", Prefix: prefix}
		f.expectList(ctx, s, q, want)
		if len(want) > 1 {
			q.Limit = 1
			f.expectList(ctx, s, q, want)
		}
	}
	return f.err()
}

// checkListPages cuts a list into pages of every size. The last page says so itself: a page that is full by chance (the
// number of documents is a multiple of the limit) and promises an empty next one is the usual mistake.
func checkListPages(ctx context.Context, s docstore.Store) error {
	var f findings
	var all []string
	for i := range 12 {
		all = append(all, fmt.Sprintf("p%02d", i))
	}
	if err := fill(ctx, s, "suite", "acme", append([]string{"a", "z"}, all...)); err != nil {
		return err
	}
	for limit := 1; limit <= len(all)+1; limit++ {
		q := docstore.Query{Kind: "suite", Tenant: "acme", Prefix: "p", Limit: limit}
		for from := 0; from < len(all); from += limit {
			to := min(from+limit, len(all))
			page, err := s.List(ctx, q)
			if err != nil {
				return err
			}
			if got := ids(page.Entries); !slices.Equal(got, all[from:to]) {
				f.addf("limit %d, after %q: %q, want %q", limit, q.After, got, all[from:to])
			}
			next := ""
			if to < len(all) {
				next = all[to-1]
			}
			if page.Next != next {
				f.addf("limit %d, after %q: Next is %q, want %q", limit, q.After, page.Next, next)
			}
			q.After = all[to-1]
		}
	}
	for after, want := range map[string][]string{
		"p":                          all, // before all of them
		"a":                          all, // before the prefix
		"p05":                        all[6:],
		"p05x":                       all[6:], // not an ID itself: it may have been of a document that is gone
		"p11":                        nil,
		"p99":                        nil,
		"z":                          nil, // beyond the prefix
		"\U0010ffff":                 nil,
		"o" + strings.Repeat("~", 9): all,
	} {
		f.expectList(ctx, s, docstore.Query{Kind: "suite", Tenant: "acme", Prefix: "p", After: after}, want)
		f.expectList(ctx, s, docstore.Query{Kind: "suite", Tenant: "acme", Prefix: "p", After: after, Limit: 4}, want)
	}

	// The default size, from a list that is longer.
	var long []string
	for i := range docstore.DefaultLimit + 1 {
		long = append(long, fmt.Sprintf("%03d", i))
	}
	if err := fill(ctx, s, "long", "acme", long); err != nil {
		return err
	}
	page, err := s.List(ctx, docstore.Query{Kind: "long", Tenant: "acme"})
	if err != nil || len(page.Entries) != docstore.DefaultLimit || page.Next != long[docstore.DefaultLimit-1] {
		f.addf("default limit: %d entries, Next %q, error %v", len(page.Entries), page.Next, err)
	}
	f.expectList(ctx, s, docstore.Query{Kind: "long", Tenant: "acme"}, long)
	f.expectList(ctx, s, docstore.Query{Kind: "long", Tenant: "acme", Limit: docstore.MaxLimit}, long)
	return f.err()
}

// checkListApart keeps kinds and tenants apart, above all those whose names begin alike: a leak here shows one tenant
// the locks of another.
func checkListApart(ctx context.Context, s docstore.Store) error {
	var f findings
	type place struct{ kind, tenant string }
	places := []place{
		{"locks", "acme"}, {"locks", "acm"}, {"locks", "acme2"}, {"locks", "Acme"}, {"locks", "acme/"}, {"locks", "acme/x"},
		{"locks", "acme%2Fx"}, {"locks", ""}, {"locks", "%"}, {"locks", "_"}, {"locks", "\U0010ffff"},
		{"locks", "acm\u0065\u0301"},
		{"locks", "acm\u00e9"}, {"lock", "acme"}, {"locks2", "acme"}, {"locks-acme", ""}, {"locks_acme", ""},
	}
	for i, p := range places {
		if err := fill(ctx, s, p.kind, p.tenant, []string{"shared", fmt.Sprintf("own%02d", i), "x/shared"}); err != nil {
			return err
		}
	}
	for i, p := range places {
		own := fmt.Sprintf("own%02d", i)
		f.expectList(ctx, s, docstore.Query{Kind: p.kind, Tenant: p.tenant}, []string{own, "shared", "x/shared"})
		f.expectList(ctx, s, docstore.Query{Kind: p.kind, Tenant: p.tenant, Prefix: "x/"}, []string{"x/shared"})
		f.expectList(ctx, s, docstore.Query{Kind: p.kind, Tenant: p.tenant, Limit: 1}, []string{own, "shared", "x/shared"})
	}
	f.expectList(ctx, s, docstore.Query{Kind: "locks", Tenant: "unknown"}, nil)
	f.expectList(ctx, s, docstore.Query{Kind: "nothing", Tenant: "acme"}, nil)
	return f.err()
}
