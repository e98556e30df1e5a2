package docstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkSeveralWrites changes several documents in one step, or none.
func checkSeveralWrites(ctx context.Context, s docstore.Store) error {
	var f findings
	a, b, c := key("a"), key("b"), docstore.Key{Kind: "other", Tenant: "acme", ID: "a"} // one step may span kinds
	one, two := docstore.Doc{"n": docstore.Int(1)}, docstore.Doc{"n": docstore.Int(2)}
	write := func(k docstore.Key, cond docstore.Cond) docstore.Write {
		return docstore.Write{Key: k, If: cond, Add: map[string]int64{"n": 1}}
	}

	r, err := s.Write(ctx, write(a, docstore.Absent{}), write(b, nil), write(c, docstore.Absent{}))
	f.severalApplied(ctx, s, "create three", r, err, a, b, c)
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: one, b: one, c: one})

	for _, refusal := range []struct {
		name    string
		writes  []docstore.Write
		refused map[int]docstore.Doc
	}{
		{"first", []docstore.Write{write(a, docstore.Absent{}), write(b, nil), write(c, nil)}, map[int]docstore.Doc{0: one}},
		{"middle", []docstore.Write{write(a, nil), write(b, docstore.Absent{}), write(c, nil)}, map[int]docstore.Doc{1: one}},
		{"last", []docstore.Write{write(a, nil), write(b, nil), write(c, docstore.Absent{})}, map[int]docstore.Doc{2: one}},
		{"two", []docstore.Write{write(a, docstore.Absent{}), write(b, nil), write(c, docstore.Any{})},
			map[int]docstore.Doc{0: one, 2: one}},
		{"one that does not exist", []docstore.Write{write(a, nil), write(key("none"), docstore.Has{Field: "n"})},
			map[int]docstore.Doc{1: nil}},
		// Conditions are about the documents before the step: that a is about to become 2 does not count.
		{"about the time before", []docstore.Write{write(b, nil), write(a, docstore.Eq{Field: "n", Value: docstore.Int(2)})},
			map[int]docstore.Doc{1: one}},
	} {
		r, err := s.Write(ctx, refusal.writes...)
		f.severalRefused(refusal.name, r, err, len(refusal.writes), refusal.refused)
		f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: one, b: one, c: one, key("none"): nil})
	}

	// A write that only checks is a write all the same: it must not be dropped because it changes nothing.
	r, err = s.Write(ctx, docstore.Write{Key: a, If: docstore.Eq{Field: "n", Value: docstore.Int(1)}}, write(b, nil))
	f.severalApplied(ctx, s, "check one, change the other", r, err, a, b)
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: one, b: two})
	r, err = s.Write(ctx, docstore.Write{Key: a, If: docstore.Eq{Field: "n", Value: docstore.Int(2)}}, write(b, nil))
	f.severalRefused("check fails", r, err, 2, map[int]docstore.Doc{0: one})
	f.expectAll(ctx, s, map[docstore.Key]docstore.Doc{a: one, b: two})
	return f.err()
}

// severalApplied looks at the result of several writes that applied, before others follow. keys are theirs, in order.
func (f *findings) severalApplied(ctx context.Context, s docstore.Store, name string, r docstore.Result, err error,
	keys ...docstore.Key) {
	snap, getErr := s.Get(ctx, keys...)
	if getErr != nil {
		f.addf("%s: get: %w", name, getErr)
		return
	}
	f.severalResult(name, r, err, snap.Docs)
}

// severalResult accepts that a store returns the documents after several writes, or none of them.
func (f *findings) severalResult(name string, r docstore.Result, err error, after []docstore.Doc) {
	if err != nil || !r.Applied || len(r.Refused) != 0 || len(r.Docs) != len(after) {
		f.addf("%s: applied %v, refused %v, %d entries in Docs for %d writes, error %v", name, r.Applied, r.Refused,
			len(r.Docs), len(after), err)
		return
	}
	if !slices.ContainsFunc(r.Docs, func(d docstore.Doc) bool { return d != nil }) {
		return
	}
	for i, d := range r.Docs {
		if !d.Equal(after[i]) {
			f.addf("%s: Docs[%d] is %#v, want the document as it now is, %#v, or nil for all writes", name, i, d, after[i])
		}
	}
}

// keysOfWrites are the keys of writes, in order.
func keysOfWrites(writes []docstore.Write) []docstore.Key {
	keys := make([]docstore.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Key
	}
	return keys
}

// severalRefused accepts any choice of the writes that deserve a refusal: a store may stop at the first.
func (f *findings) severalRefused(name string, r docstore.Result, err error, n int, refused map[int]docstore.Doc) {
	if err != nil || r.Applied || len(r.Refused) == 0 || len(r.Docs) != n {
		f.addf("%s: applied %v, refused %v, %d entries in Docs for %d writes, error %v", name, r.Applied, r.Refused,
			len(r.Docs), n, err)
		return
	}
	for i, d := range r.Docs {
		found, deserved := refused[i]
		switch named := slices.Contains(r.Refused, i); {
		case named && !deserved:
			f.addf("%s: write %d is named as refused, its condition holds", name, i)
		case named && !d.Equal(found):
			f.addf("%s: Docs[%d] is %#v, want the document found, %#v", name, i, d, found)
		case !named && d != nil:
			f.addf("%s: Docs[%d] is %#v, and yet write %d is not named as refused", name, i, d, i)
		}
	}
}

// expectAll compares several documents in one read.
func (f *findings) expectAll(ctx context.Context, s docstore.Store, want map[docstore.Key]docstore.Doc) {
	keys := make([]docstore.Key, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	snap, err := s.Get(ctx, keys...)
	if err != nil || len(snap.Docs) != len(keys) {
		f.addf("get of %d keys: %d documents, error %v", len(keys), len(snap.Docs), err)
		return
	}
	for i, k := range keys {
		if !snap.Docs[i].Equal(want[k]) {
			f.addf("%s: stored %#v, want %#v", k, snap.Docs[i], want[k])
		}
	}
}

// checkManyWrites goes to the bound and beyond. The bound is a store's own somewhere (100 in DynamoDB, where it was 25
// for years), and callers split their work by it.
func checkManyWrites(ctx context.Context, s docstore.Store) error {
	var f findings
	writes := make([]docstore.Write, docstore.MaxWrites+1)
	want := map[docstore.Key]docstore.Doc{}
	for i := range writes {
		k := key(fmt.Sprintf("%03d", i))
		writes[i] = docstore.Write{Key: k, If: docstore.Absent{}, Set: docstore.Doc{"i": docstore.Int(i)}}
		want[k] = nil
	}
	if _, err := s.Write(ctx, writes...); !errors.Is(err, docstore.ErrInvalid) {
		f.addf("%d writes: error is %v, want ErrInvalid", len(writes), err)
	}
	f.expectAll(ctx, s, want)

	most := writes[:docstore.MaxWrites]
	r, err := s.Write(ctx, most...)
	f.severalApplied(ctx, s, "the most writes", r, err, keysOfWrites(most)...)
	for i, w := range most {
		want[w.Key] = docstore.Doc{"i": docstore.Int(i)}
	}
	f.expectAll(ctx, s, want)

	// All but the last could be applied now.
	again := slices.Clone(writes[1:])
	slices.Reverse(again)
	for i := range again[1:] {
		again[i].If = nil
	}
	again[len(again)-1].If = docstore.Absent{}
	r, err = s.Write(ctx, again...)
	f.severalRefused("the last of the most refused", r, err, len(again),
		map[int]docstore.Doc{len(again) - 1: {"i": docstore.Int(1)}})
	f.expectAll(ctx, s, want)
	return f.err()
}
