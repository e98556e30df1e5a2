package docstoretest

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// counter is a write that adds n to the field "token", which starts at the store's time.
func counter(k docstore.Key, n int64) docstore.Write {
	return docstore.Write{Key: k, Add: map[string]int64{"token": n}, StartAtNow: []string{"token"}}
}

// started reports a counter that did not start at the time at, in microseconds, plus n. A store may know a higher
// number, see [docstore.Write.StartFrom], but in a fresh store not one that is a second ahead. It returns the number.
func (f *findings) started(name string, d docstore.Doc, field string, at time.Time, n int64) int64 {
	v, ok := d[field].(docstore.Int)
	if low := at.UnixMicro() + n; !ok || int64(v) < low || int64(v) >= low+1e6 {
		f.addf("%s: %s is %#v, want the time %v in microseconds plus %d, %d", name, field, d[field], at, n, low)
	}
	return int64(v)
}

// checkStartAtNow starts counters where the field is missing, and only there.
func checkStartAtNow(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, c := range map[string]struct {
		found docstore.Doc
		n     int64
	}{
		"no document":                       {nil, 1},
		"no document, by 0":                 {nil, 0},
		"no document, by less than 0":       {nil, -7},
		"an existing document without it":   {docstore.Doc{"a": docstore.String("x"), "n": docstore.Int(3)}, 1},
		"a document without fields":         {docstore.Doc{}, 5},
		"the same name in another spelling": {docstore.Doc{"Token": docstore.Int(3), "tokens": docstore.Int(4)}, 1},
	} {
		k := key(name)
		if c.found != nil {
			if err := put(ctx, s, k, c.found); err != nil {
				return err
			}
		}
		r, err := s.Write(ctx, counter(k, c.n))
		if err != nil || !r.Applied || len(r.Docs) != 1 {
			f.addf("%s: %+v, %w", name, r, err)
			continue
		}
		want := c.found.Clone()
		if want == nil {
			want = docstore.Doc{}
		}
		token := f.started(name, r.Docs[0], "token", r.At, c.n)
		want["token"] = docstore.Int(token)
		f.applied(name, r, err, want)
		f.expect(ctx, s, k, want)

		// From then on it counts.
		want["token"] = docstore.Int(token + 2)
		r, err = s.Write(ctx, counter(k, 2))
		f.applied(name+", again", r, err, want)
		f.expect(ctx, s, k, want)
	}

	for name, n := range map[string]docstore.Int{"small": 41, "zero": 0, "less than 0": -1} {
		k := key("there: " + name)
		if err := put(ctx, s, k, docstore.Doc{"token": n}); err != nil {
			return err
		}
		r, err := s.Write(ctx, counter(k, 1))
		f.applied("there: "+name, r, err, docstore.Doc{"token": n + 1})
	}

	// Two counters of one write: one starts now, one at 0, and one is there.
	k := key("three counters")
	if err := put(ctx, s, k, docstore.Doc{"there": docstore.Int(1)}); err != nil {
		return err
	}
	r, err := s.Write(ctx, docstore.Write{
		Key: k, Set: docstore.Doc{"t": docstore.Now}, Add: map[string]int64{"token": 1, "zero": 1, "there": 1},
		StartAtNow: []string{"there", "token"},
	})
	if err != nil || len(r.Docs) != 1 {
		f.addf("three counters: %+v, %w", r, err)
	} else {
		f.applied("three counters", r, err, docstore.Doc{
			"t": docstore.FormatTime(r.At), "token": docstore.Int(f.started("three counters", r.Docs[0], "token", r.At, 1)),
			"zero": docstore.Int(1), "there": docstore.Int(2),
		})
	}

	// Several documents start in one step, at one time.
	a, b := key("first"), key("second")
	r, err = s.Write(ctx, counter(a, 1), docstore.Write{Key: k, If: docstore.Has{Field: "there"}}, counter(b, 2))
	f.severalApplied(ctx, s, "several", r, err, a, k, b)
	for k, n := range map[docstore.Key]int64{a: 1, b: 2} {
		d, err := get(ctx, s, k)
		if err != nil {
			return err
		}
		f.started("several", d, "token", r.At, n)
	}

	// A refusal starts nothing.
	w := counter(key("refused"), 1)
	w.If = docstore.Has{Field: "token"}
	r, err = s.Write(ctx, w)
	f.refused("refused", r, err, nil)
	f.expect(ctx, s, w.Key, nil)
	return f.err()
}

// checkStartDamaged: what is there and is no number is damage, however a counter starts. A start beyond the bound is,
// too.
func checkStartDamaged(ctx context.Context, s docstore.Store) error {
	var f findings
	for name, v := range map[string]docstore.Value{
		"text": docstore.String("5"), "empty text": docstore.String(""), "boolean": docstore.Bool(false),
		"map":          docstore.Map{},
		"at the bound": docstore.Int(docstore.MaxInt),
	} {
		k := key(name)
		found := docstore.Doc{"token": v}
		if err := put(ctx, s, k, found); err != nil {
			return err
		}
		r, err := s.Write(ctx, counter(k, 1))
		f.damaged(name, r, err)
		f.expect(ctx, s, k, found)
	}
	k := key("start beyond the bound")
	r, err := s.Write(ctx, counter(k, docstore.MaxInt))
	f.damaged("start beyond the bound", r, err)
	f.expect(ctx, s, k, nil)
	return f.err()
}

// checkStartAgain removes counters, and documents with them, and expects that no number is ever seen again.
func checkStartAgain(ctx context.Context, s docstore.Store) error {
	var f findings
	var last int64
	k := key("again")
	count := func(name string) bool {
		r, err := s.Write(ctx, counter(k, 1))
		if err != nil || !r.Applied || len(r.Docs) != 1 {
			f.addf("%s: %+v, %w", name, r, err)
			return false
		}
		n, _ := r.Docs[0]["token"].(docstore.Int)
		if int64(n) <= last {
			f.addf("%s: %d after %d", name, n, last)
		}
		last = int64(n)
		return true
	}
	for range 3 {
		for range 3 {
			if !count("count") {
				return f.err()
			}
		}
		if err := f.passes(ctx, s); err != nil {
			return err
		}
		if r, err := s.Write(ctx, docstore.Write{Key: k, Unset: []string{"token"}}); err != nil || !r.Applied {
			f.addf("unset: %+v, %w", r, err)
		}
		if !count("after the field was removed") {
			return f.err()
		}
		if err := f.passes(ctx, s); err != nil {
			return err
		}
		r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Has{Field: "token"}, Delete: true})
		f.applied("delete", r, err, nil)
		if !count("after the document was removed") {
			return f.err()
		}
	}
	return f.err()
}

// passes waits until the store's time has advanced by two milliseconds.
func (f *findings) passes(ctx context.Context, s docstore.Store) error {
	const d = 2 * time.Millisecond
	var from time.Time
	for {
		snap, err := s.Get(ctx, key("clock"))
		if err != nil {
			return err
		}
		if from.IsZero() {
			from = snap.At
		}
		if snap.At.Sub(from) >= d {
			return nil
		}
		// Not to prove anything: a store behind a network need not be asked all the time.
		time.Sleep(100 * time.Microsecond)
	}
}
