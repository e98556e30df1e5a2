package docstoretest

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// checkReturn asks for some fields of the document after a write. A store that works them out beside the write, instead
// of reading them, has to know what became of each: set, copied, counted, removed, or left as it was.
func checkReturn(ctx context.Context, s docstore.Store) error {
	var f findings
	found := docstore.Doc{
		"left": docstore.String("left"), "table": docstore.Map{"x": "1"}, "gone": docstore.Int(1), "n": docstore.Int(41),
		"a1": docstore.String("old"), "time": docstore.Int(0),
	}
	all := []string{
		"left", "table", "gone", "never", "n", "first", "token", "a1", "a2", "a3", "text", "bytes", "labels", "time", "later",
		"number", "flag", "missing",
	}
	some := [][]string{nil, {}, all}
	for _, field := range all {
		some = append(some, []string{field})
	}
	for i, fields := range some {
		labels := docstore.Map{"y": ""}
		w := docstore.Write{
			Key: key(fmt.Sprint("changed ", i)), If: docstore.Eq{Field: "n", Value: docstore.Int(41)},
			Set: docstore.Doc{
				"a1": docstore.String("new"), "a2": docstore.Before("a1"), "a3": docstore.Before("missing"),
				"text": docstore.String("i:5"), "bytes": docstore.Bytes("\x00\xff"),
				"labels": labels, "time": docstore.Now, "later": docstore.Now.Add(time.Second), "number": docstore.Int(-7),
				"flag": docstore.Bool(true),
			},
			Add: map[string]int64{"n": 1, "first": 2, "token": 1}, StartAtNow: []string{"token"},
			Unset: []string{"gone", "never"}, Return: fields,
		}
		if err := put(ctx, s, w.Key, found); err != nil {
			return err
		}
		r, err := s.Write(ctx, w)
		f.returned(ctx, s, "changed", w, r, err)
		after, err := get(ctx, s, w.Key)
		if err != nil {
			return err
		}
		r, err = s.Write(ctx, w)
		f.refused("a refusal shows everything", r, err, after)

		w.Key, w.If = key(fmt.Sprint("created ", i)), docstore.Absent{}
		r, err = s.Write(ctx, w)
		f.returned(ctx, s, "created", w, r, err)
		if after, err = get(ctx, s, w.Key); err != nil {
			return err
		}
		if len(r.Docs) == 1 { // what is returned is the caller's
			if m, ok := r.Docs[0]["labels"].(docstore.Map); ok {
				m["y"] = "changed"
			}
		}
		if labels["y"] != "" {
			f.addf("return %q: the table that is returned is the one that was written", fields)
		}
		f.expect(ctx, s, w.Key, after)
	}

	// Each of several writes names its own.
	a, b := key("first of two"), key("second of two")
	writes := []docstore.Write{
		{Key: a, Set: docstore.Doc{"x": docstore.Int(1), "y": docstore.Int(2)}, Return: []string{"x"}},
		{Key: b, Set: docstore.Doc{"x": docstore.Int(3), "y": docstore.Int(4)}, Return: []string{"y"}},
	}
	r, err := s.Write(ctx, writes...)
	after := []docstore.Doc{writes[0].Set, writes[1].Set}
	if len(r.Docs) == len(writes) {
		for i, w := range writes {
			after[i] = shown(w, r.Docs[i], after[i])
		}
	}
	f.severalResult("several", r, err, after)
	return f.err()
}
