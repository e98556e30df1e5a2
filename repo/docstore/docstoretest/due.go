package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// dueAt is the time about which the documents of these checks wait.
var dueAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// dueText is the stored form of a time some milliseconds from dueAt.
func dueText(ms int) docstore.String {
	return docstore.FormatTime(dueAt.Add(time.Duration(ms) * time.Millisecond))
}

// due asks for what waits until dueAt in the field "until" of the suite's own kind and tenant.
func due() docstore.DueQuery {
	return docstore.DueQuery{Kind: "suite", Tenant: "acme", Field: "until", UpTo: dueAt}
}

// walkDue follows the pages of a query to the end. A page of a store without an index holds few of the many documents
// that it looked at, so that only a walk that comes back to where it was is too long.
func walkDue(ctx context.Context, s docstore.Store, q docstore.DueQuery) ([]docstore.Entry, error) {
	var all []docstore.Entry
	seen := map[string]bool{}
	for {
		page, err := docstore.Due(ctx, s, q)
		switch {
		case err != nil:
			return nil, fmt.Errorf("due %+v: %w", q, err)
		case len(page.Entries) > q.Size():
			return nil, fmt.Errorf("due %+v: %d entries in a page of %d", q, len(page.Entries), q.Size())
		case seen[page.Next]:
			return nil, fmt.Errorf("due %+v: Next is %q again", q, page.Next)
		}
		if all = append(all, page.Entries...); page.Next == "" {
			return all, nil
		}
		seen[page.Next] = true
		q.After = page.Next
	}
}

// indexed reports whether the store finds what the query asks for by an index.
func indexed(ctx context.Context, s docstore.Store, q docstore.DueQuery) bool {
	d, ok := s.(docstore.DueLister)
	if ok {
		_, err := d.Due(ctx, q)
		ok = !errors.Is(err, docstore.ErrNoIndex)
	}
	return ok
}

// expectDue walks a query and compares: the right documents, each once and whole, and by an index in the order of the
// field.
func (f *findings) expectDue(ctx context.Context, s docstore.Store, q docstore.DueQuery, want map[string]docstore.Doc) {
	entries, err := walkDue(ctx, s, q)
	if err != nil {
		*f = append(*f, err)
		return
	}
	if got, want := slices.Sorted(slices.Values(ids(entries))), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		f.addf("due %+v: %q, want %q", q, got, want)
	}
	before := docstore.String("")
	ordered := indexed(ctx, s, q)
	for _, e := range entries {
		if e.Key.Kind != q.Kind || e.Key.Tenant != q.Tenant || !e.Doc.Equal(want[e.Key.ID]) {
			f.addf("due %+v: entry %q holds %#v", q, e.Key, e.Doc)
			continue
		}
		value, _ := e.Doc[q.Field].(docstore.String)
		if ordered && value < before {
			f.addf("due %+v: %q comes after %q", q, value, before)
		}
		before = value
	}
}

// checkDue finds what waits until a time and nothing else: the boundary belongs to what is due, and a document is found
// by text only. SQL orders numbers and null before text, and says that they are less.
func checkDue(ctx context.Context, s docstore.Store) error {
	var f findings
	all := map[string]docstore.Doc{}
	add := func(id string, d docstore.Doc) error {
		d["n"] = docstore.Int(len(all)) // whatever else there is comes along
		err := put(ctx, s, key(id), d)
		if errors.Is(err, docstore.ErrInvalid) && d["until"] != nil {
			return nil // the index does not take it: see docstore.DueLister
		}
		all[id] = d
		return err
	}
	for _, ms := range []int{-86_400_000, -1000, -2, -1, 0, 1, 2, 1000} {
		if err := add(fmt.Sprint("time ", ms), docstore.Doc{"until": dueText(ms)}); err != nil {
			return err
		}
	}
	for i, v := range []docstore.Value{
		nil, docstore.String(""), docstore.String("0"), docstore.String("soon"), docstore.String("3000"),
		docstore.String("2026"),
		docstore.String("2026-01-01T00:00:00.000"), docstore.String("2026-01-01T00:00:00.000Z "),
		docstore.String("2026-01-01T00:00:00Z"),
		docstore.String("\x01"), docstore.String("\"\\\n\u2028"), docstore.String("\U0010ffff"), docstore.String("\uffff"),
		docstore.String("2025-12-31T23:59:59.999Z\U0001f600"), docstore.String("1" + strings.Repeat("x", 1000)),
		docstore.String("1" + strings.Repeat("x", 100_000)),
		docstore.Int(0), docstore.Int(-1), docstore.Int(1767225600000), docstore.Bool(false), docstore.Bool(true),
		docstore.Map{},
		docstore.Map{"until": "0"}, docstore.Map{"0": "0"},
	} {
		d := docstore.Doc{}
		if v != nil {
			d["until"] = v
		}
		if err := add(fmt.Sprint("value ", i), d); err != nil {
			return err
		}
	}
	// The same in a field whose name differs in case only, and where there is no text to find.
	if err := add("other case", docstore.Doc{"Until": dueText(-1), "UNTIL": dueText(-1)}); err != nil {
		return err
	}
	waiting := func(field string, upTo docstore.String) map[string]docstore.Doc {
		want := map[string]docstore.Doc{}
		for id, d := range all {
			if v, ok := d[field].(docstore.String); ok && v <= upTo {
				want[id] = d
			}
		}
		return want
	}
	for _, limit := range []int{0, 1, 2, 3, 7, docstore.MaxLimit} {
		q := due()
		q.Limit = limit
		f.expectDue(ctx, s, q, waiting("until", dueText(0)))
	}
	for _, ms := range []int{-1, 1, 1000, 1001} {
		q := due()
		q.UpTo = dueAt.Add(time.Duration(ms) * time.Millisecond)
		f.expectDue(ctx, s, q, waiting("until", dueText(ms)))
	}
	q := due()
	q.UpTo = dueAt.Add(time.Millisecond - 1).In(time.FixedZone("east", 9*3600)) // cut to milliseconds, in UTC
	f.expectDue(ctx, s, q, waiting("until", dueText(0)))
	for _, field := range []string{"Until", "UNTIL", "none"} {
		q := due()
		q.Field = field
		f.expectDue(ctx, s, q, waiting(field, dueText(0)))
	}
	return f.err()
}

// checkDuePages cuts into pages what has equal values and IDs of every kind: an order by the value alone loses, or
// shows twice, what lies on both sides of a page's end.
func checkDuePages(ctx context.Context, s docstore.Store) error {
	var f findings
	want := map[string]docstore.Doc{}
	for i, id := range []string{
		"a", "A", "a/b", "a.b", "a b", "ab", "a%", "a_", ".", "..", "__x__", "/", "//", "\x01", "\u00e9", "e\u0301", "日本語",
		"\uffff", "\U00010000",
		"\U0010ffff", "'", `"`, "\\", "0", "9", "10", strings.Repeat("z", docstore.SafeIDBytes),
		strings.Repeat("/", docstore.SafeIDBytes),
		strings.Repeat("z", docstore.MaxIDBytes),
	} {
		want[id] = docstore.Doc{"until": dueText(-i % 3), "id": docstore.String(id)}
	}
	for id, d := range want {
		if err := put(ctx, s, key(id), d); err != nil {
			return err
		}
	}
	for _, limit := range []int{1, 2, 5, len(want) - 1, len(want), len(want) + 1} {
		q := due()
		q.Limit = limit
		f.expectDue(ctx, s, q, want)
	}
	// A page that is full by chance promises no other, if the store knows.
	if indexed(ctx, s, due()) {
		q := due()
		q.Limit = len(want)
		if page, err := docstore.Due(ctx, s, q); err != nil || len(page.Entries) != len(want) || page.Next != "" {
			f.addf("%d of %d, Next %q, %v", len(page.Entries), len(want), page.Next, err)
		}
	}

	// The default size, from more than that.
	more := map[string]docstore.Doc{}
	for i := range docstore.DefaultLimit + 1 {
		id := fmt.Sprintf("%03d", i)
		more[id] = docstore.Doc{"until": dueText(-5)}
		if err := put(ctx, s, docstore.Key{Kind: "long", ID: id}, more[id]); err != nil {
			return err
		}
	}
	q := docstore.DueQuery{Kind: "long", Field: "until", UpTo: dueAt}
	if page, err := docstore.Due(ctx, s, q); err != nil || len(page.Entries) != docstore.DefaultLimit || page.Next == "" {
		f.addf("default limit: %d entries, Next %q, error %v", len(page.Entries), page.Next, err)
	}
	f.expectDue(ctx, s, q, more)
	return f.err()
}

// checkDueWalk changes documents between two pages: those that the walk has passed, and those that it has not reached.
// What stays as it is must be seen once all the same. A cursor that names a document instead of a place in the order
// breaks when that document goes.
func checkDueWalk(ctx context.Context, s docstore.Store) error {
	var f findings
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for i, id := range ids {
		if err := put(ctx, s, key(id), docstore.Doc{"until": dueText(i - 100)}); err != nil {
			return err
		}
	}
	q := due()
	q.Limit = 3
	page, err := docstore.Due(ctx, s, q)
	if err != nil {
		return err
	}
	if len(page.Entries) != 3 || page.Entries[0].Key != key("a") || page.Entries[2].Key != key("c") || page.Next == "" {
		return fmt.Errorf("the first page is %v, Next %q", page.Entries, page.Next)
	}
	away := func(id string) docstore.Write { return docstore.Write{Key: key(id), Unset: []string{"until"}} }
	to := func(id string, ms int) docstore.Write {
		return docstore.Write{Key: key(id), Set: docstore.Doc{"until": dueText(ms)}}
	}
	for _, w := range []docstore.Write{away("c"), to("b", 1), away("d"), to("f", 50), to("new", -95)} {
		if r, err := s.Write(ctx, w); err != nil || !r.Applied {
			return fmt.Errorf("write %v: %+v, %w", w, r, err)
		}
	}
	q.After = page.Next
	rest, err := walkDue(ctx, s, q)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, e := range rest {
		seen[e.Key.ID]++
	}
	for id, n := range map[string]int{"a": 0, "c": 0, "d": 0, "f": 0, "e": 1, "g": 1, "h": 1} {
		if seen[id] != n {
			f.addf("after the first page %q was seen %d times, want %d", id, seen[id], n)
		}
	}
	return f.err()
}

// checkDueApart keeps kinds and tenants apart, and the same field of one from that of another.
func checkDueApart(ctx context.Context, s docstore.Store) error {
	var f findings
	places := []docstore.Key{
		{Kind: "suite", Tenant: "acme"}, {Kind: "suite", Tenant: ""}, {Kind: "suite", Tenant: "acm"},
		{Kind: "suite", Tenant: "acme/"},
		{Kind: "suite", Tenant: "acme/x"}, {Kind: "suit", Tenant: "acme"}, {Kind: "suite_acme", Tenant: ""},
		{Kind: "suite-acme", Tenant: ""},
	}
	own := func(i int) docstore.Doc { return docstore.Doc{"until": dueText(-i), "place": docstore.Int(i)} }
	for i, k := range places {
		k.ID = "x"
		if err := put(ctx, s, k, own(i)); err != nil {
			return err
		}
	}
	for i, k := range places {
		q := docstore.DueQuery{Kind: k.Kind, Tenant: k.Tenant, Field: "until", UpTo: dueAt}
		f.expectDue(ctx, s, q, map[string]docstore.Doc{"x": own(i)})
	}
	for _, k := range []docstore.Key{{Kind: "suite", Tenant: "unknown"}, {Kind: "nothing"}} {
		f.expectDue(ctx, s, docstore.DueQuery{Kind: k.Kind, Tenant: k.Tenant, Field: "until", UpTo: dueAt}, nil)
	}
	return f.err()
}

// checkDueInvalid sends queries that no store accepts, and for the pages of a store that has ended.
func checkDueInvalid(ctx context.Context, s docstore.Store) error {
	var f findings
	if err := put(ctx, s, key("x"), docstore.Doc{"until": dueText(-1)}); err != nil {
		return err
	}
	with := func(change func(*docstore.DueQuery)) docstore.DueQuery { q := due(); change(&q); return q }
	for name, q := range map[string]docstore.DueQuery{
		"no kind":          with(func(q *docstore.DueQuery) { q.Kind = "" }),
		"kind upper case":  with(func(q *docstore.DueQuery) { q.Kind = "Suite" }),
		"tenant not UTF-8": with(func(q *docstore.DueQuery) { q.Tenant = "\xff" }),
		"no field":         with(func(q *docstore.DueQuery) { q.Field = "" }),
		"a path":           with(func(q *docstore.DueQuery) { q.Field = "a.b" }),
		"a quote":          with(func(q *docstore.DueQuery) { q.Field = "a'b" }),
		"negative limit":   with(func(q *docstore.DueQuery) { q.Limit = -1 }),
		"limit too large":  with(func(q *docstore.DueQuery) { q.Limit = docstore.MaxLimit + 1 }),
		"year 10000":       with(func(q *docstore.DueQuery) { q.UpTo = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"before Christ":    with(func(q *docstore.DueQuery) { q.UpTo = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"after not UTF-8":  with(func(q *docstore.DueQuery) { q.After = "\xff" }),
	} {
		_, err := docstore.Due(ctx, s, q)
		f.invalid("due, "+name, err)
	}
	if indexed(ctx, s, due()) {
		for _, after := range []string{"x", ".", "eA", "eA.", "eA.eB", "eA.eA.eA", "!.!", "_w.eA", "eA._w",
			strings.Repeat("x", 10_000)} {
			_, err := docstore.Due(ctx, s, with(func(q *docstore.DueQuery) { q.After = after }))
			f.invalid("due after "+after, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := docstore.Due(canceled, s, due()); !errors.Is(err, context.Canceled) {
		f.addf("due with a context that was canceled: %v", err)
	}
	f.expectDue(ctx, s, due(), map[string]docstore.Doc{"x": {"until": dueText(-1)}})
	if err := s.Close(); err != nil {
		f.addf("Close: %w", err)
	}
	if _, err := docstore.Due(ctx, s, due()); !errors.Is(err, docstore.ErrClosed) {
		f.addf("due after Close: %v", err)
	}
	return f.err()
}
