package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// long is for documents that are not due while a check runs, short for those that are.
const long, short = 24 * time.Hour, time.Millisecond

// checkKeep writes documents with an end. The end is beside the document: no result, read or list shows it, and it
// changes nothing about what a write does.
func checkKeep(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("kept")
	one := docstore.Doc{"a": docstore.Int(1)}
	for _, step := range []struct {
		name  string
		write docstore.Write
		want  docstore.Doc
	}{
		{"create", docstore.Write{If: docstore.Absent{}, Set: one, Keep: long}, one},
		{"nothing but the end", docstore.Write{Keep: 2 * long}, one},
		{"earlier", docstore.Write{Keep: long / 2}, one},
		{"patch", docstore.Write{Set: docstore.Doc{"b": docstore.String("x")}, Keep: long},
			docstore.Doc{"a": docstore.Int(1), "b": docstore.String("x")}},
		{"remove every field", docstore.Write{Unset: []string{"a", "b"}, Keep: long}, docstore.Doc{}},
		{"without an end", docstore.Write{Set: one}, one},
		{"a century", docstore.Write{Keep: 100 * 365 * 24 * time.Hour}, one},
		{"whole milliseconds", docstore.Write{Keep: long + 7*time.Millisecond}, one},
	} {
		step.write.Key = k
		r, err := s.Write(ctx, step.write)
		f.applied(step.name, r, err, step.want)
		f.expect(ctx, s, k, step.want)
	}
	r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Keep: short})
	f.refused("refused", r, err, one)

	empty := key("nothing else")
	r, err = s.Write(ctx, docstore.Write{Key: empty, If: docstore.Absent{}, Keep: long})
	f.applied("an empty document", r, err, docstore.Doc{})
	f.expect(ctx, s, empty, docstore.Doc{})
	r, err = s.Write(ctx, docstore.Write{Key: key("a"), Set: one, Keep: long},
		docstore.Write{Key: key("b"), Set: one, Keep: long})
	f.severalApplied(ctx, s, "several", r, err, key("a"), key("b"))
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{key("a"): one, key("b"): one, k: one, empty: {}})

	page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
	if err != nil || len(page.Entries) != 4 {
		return fmt.Errorf("list: %d entries, want 4; %w", len(page.Entries), err)
	}
	for _, e := range page.Entries {
		want := one
		if e.Key == empty {
			want = docstore.Doc{}
		}
		if !e.Doc.Equal(want) {
			f.addf("list: %s is %#v, want %#v", e.Key, e.Doc, want)
		}
	}
	return f.err()
}

// prune calls Prune of a store that has it.
func prune(ctx context.Context, s docstore.Store, limit int) (removed int, err error) {
	return s.(docstore.Pruner).Prune(ctx, limit)
}

// checkPrune removes what is due, and nothing that is not. On a store whose service removes documents by itself there
// is nothing to see.
func checkPrune(ctx context.Context, s docstore.Store) error {
	if _, ok := s.(docstore.Pruner); !ok {
		return nil
	}
	var f findings
	doc := docstore.Doc{"a": docstore.Int(1), "until": dueText(-1)}
	due, kept := map[docstore.Key]docstore.Doc{}, map[docstore.Key]docstore.Doc{}
	write := func(of map[docstore.Key]docstore.Doc, writes ...docstore.Write) {
		for _, w := range writes {
			r, err := s.Write(ctx, w)
			if err != nil || !r.Applied {
				f.addf("write %s: %+v, %w", w.Key, r, err)
			}
			if of[w.Key] = doc; w.Delete {
				delete(of, w.Key)
			}
		}
	}
	with := func(k docstore.Key, keep time.Duration) docstore.Write {
		return docstore.Write{Key: k, Set: doc, Keep: keep}
	}
	later := func(k docstore.Key, keep time.Duration) docstore.Write {
		return docstore.Write{Key: k, Set: docstore.Doc{"a": docstore.Int(1)}, Keep: keep}
	}
	gone := func(k docstore.Key) docstore.Write {
		return docstore.Write{Key: k, If: docstore.Has{Field: "a"}, Delete: true}
	}
	for _, k := range []docstore.Key{
		key("due"), {Kind: "suite", ID: "no tenant"}, {Kind: "suite", Tenant: "other/tenant", ID: "due"},
		{Kind: "other", Tenant: "acme", ID: "日本 %:{}"},
	} {
		write(due, with(k, short))
	}
	write(due, with(key("short, then nothing said"), short), later(key("short, then nothing said"), 0))
	write(due, with(key("long, then short"), long), later(key("long, then short"), short))
	write(due, with(key("first nothing said"), 0), later(key("first nothing said"), short))
	write(due, with(key("created again, short"), long), gone(key("created again, short")),
		with(key("created again, short"), short))

	write(kept, with(key("never said"), 0))
	write(kept, with(key("long"), long))
	write(kept, with(key("long, then nothing said"), long), later(key("long, then nothing said"), 0))
	write(kept, with(key("short, then long"), short), later(key("short, then long"), long))
	write(kept, with(key("created again, nothing said"), short), gone(key("created again, nothing said")),
		with(key("created again, nothing said"), 0))
	write(kept, with(key("created again, long"), short), gone(key("created again, long")),
		with(key("created again, long"), long))
	write(kept, with(key("refused"), 0))
	if r, err := s.Write(ctx, docstore.Write{Key: key("refused"), If: docstore.Absent{}, Keep: short}); err != nil ||
		r.Applied {
		f.addf("refused: %+v, %w", r, err)
	}
	r, err := s.Write(ctx, with(key("of a group, due"), short), with(key("of a group, kept"), long),
		with(key("of a group, never said"), 0))
	f.severalApplied(ctx, s, "several", r, err, key("of a group, due"), key("of a group, kept"),
		key("of a group, never said"))
	due[key("of a group, due")], kept[key("of a group, kept")], kept[key("of a group, never said")] = doc, doc, doc
	r, err = s.Write(ctx, later(key("of a group, kept"), short), docstore.Write{Key: key("long"), If: docstore.Absent{}})
	f.severalRefused("several, refused", r, err, 2, map[int]docstore.Doc{1: doc})
	write(due, with(key("deleted"), short))
	write(due, gone(key("deleted")))
	f.expectAll(ctx, s, due)
	f.expectAll(ctx, s, kept)

	if err := f.passes(ctx, s); err != nil {
		return err
	}
	for left := len(due); ; {
		n, err := prune(ctx, s, 4)
		if want := min(4, left); err != nil || n != want {
			f.addf("prune of 4 with %d due: %d, %v", left, n, err)
			break
		}
		left -= n
		there := 0
		for k := range due {
			if d, err := get(ctx, s, k); err != nil {
				return err
			} else if d != nil {
				there++
			}
		}
		if there != left {
			f.addf("%d of those that were due are there, want %d", there, left)
		}
		if n == 0 {
			break
		}
	}
	if n, err := prune(ctx, s, 1000); n != 0 || err != nil {
		f.addf("prune with nothing due: %d, %v", n, err)
	}
	f.expectAll(ctx, s, kept)
	for k := range due {
		f.expect(ctx, s, k, nil)
	}
	page, err := s.List(ctx, docstore.Query{Kind: "suite", Tenant: "acme"})
	if err != nil || len(page.Entries) != len(kept) {
		f.addf("list: %q, %v, want %d", ids(page.Entries), err, len(kept))
	}
	f.expectDue(ctx, s, docstore.DueQuery{Kind: "suite", Tenant: "other/tenant", Field: "until", UpTo: dueAt}, nil)

	// What was removed can be created again, and is kept then.
	write(kept, docstore.Write{Key: key("due"), If: docstore.Absent{}, Set: doc})
	if n, err := prune(ctx, s, 1); n != 0 || err != nil {
		f.addf("prune after a document was created again: %d, %v", n, err)
	}
	f.expectAll(ctx, s, kept)
	return f.err()
}

// checkPruneMany removes more than any store would in one step by itself.
func checkPruneMany(ctx context.Context, s docstore.Store) error {
	if _, ok := s.(docstore.Pruner); !ok {
		return nil
	}
	var f findings
	const batches = 12
	for b := range batches {
		writes := make([]docstore.Write, docstore.MaxWrites)
		for i := range writes {
			writes[i] = docstore.Write{Key: key(fmt.Sprint(b, " ", i)), Keep: short}
		}
		r, err := s.Write(ctx, writes...)
		f.severalApplied(ctx, s, "write", r, err, keysOfWrites(writes)...)
	}
	if err := put(ctx, s, key("kept"), docstore.Doc{}); err != nil {
		return err
	}
	if err := f.passes(ctx, s); err != nil {
		return err
	}
	for _, c := range []struct {
		limit, want int
	}{{1, 1}, {1150, 1150}, {1000, batches*docstore.MaxWrites - 1151}, {1, 0}} {
		if n, err := prune(ctx, s, c.limit); n != c.want || err != nil {
			f.addf("prune of %d: %d, %v, want %d", c.limit, n, err, c.want)
		}
	}
	page, err := s.List(ctx, docstore.Query{Kind: "suite", Tenant: "acme"})
	if err != nil || len(page.Entries) != 1 || page.Next != "" {
		f.addf("%d documents are left, want 1; %v", len(page.Entries), err)
	}
	return f.err()
}

// checkPruneLife calls Prune as it cannot be called: without a limit, with a context that has ended, after Close.
func checkPruneLife(ctx context.Context, s docstore.Store) error {
	if _, ok := s.(docstore.Pruner); !ok {
		return nil
	}
	var f findings
	for _, limit := range []int{0, -1} {
		_, err := prune(ctx, s, limit)
		f.invalid(fmt.Sprint("prune of ", limit), err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := prune(canceled, s, 1); !errors.Is(err, context.Canceled) {
		f.addf("prune with a context that was canceled: %v", err)
	}
	if err := s.Close(); err != nil {
		f.addf("Close: %w", err)
	}
	if _, err := prune(ctx, s, 1); !errors.Is(err, docstore.ErrClosed) {
		f.addf("prune after Close: %v", err)
	}
	return f.err()
}
