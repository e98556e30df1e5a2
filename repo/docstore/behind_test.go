package docstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestBehind: a counter that is below what counters go on from is behind, and nothing else is; the raise applies to the
// document that was found, and sets those that are behind alone.
func TestBehind(t *testing.T) {
	w := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: "k"}, Add: map[string]int64{"a": 1, "b": 1, "c": 1},
		StartAtNow: []string{"a", "b"}}
	for name, c := range map[string]struct {
		least int64
		found docstore.Doc
		want  bool
	}{
		"below":             {10, docstore.Doc{"a": docstore.Int(9)}, true},
		"not below":         {10, docstore.Doc{"a": docstore.Int(10)}, false},
		"one of them":       {10, docstore.Doc{"a": docstore.Int(11), "b": docstore.Int(3)}, true},
		"no counter yet":    {10, docstore.Doc{}, false},
		"no document":       {10, nil, false},
		"another field":     {10, docstore.Doc{"c": docstore.Int(1)}, false},
		"no number":         {10, docstore.Doc{"a": docstore.String("1")}, false},
		"nothing is known":  {0, docstore.Doc{"a": docstore.Int(-5)}, false},
		"below, and it was": {10, docstore.Doc{"a": docstore.Int(-5)}, true},
	} {
		behind := w.Behind(c.least, c.found)
		if (behind != nil) != c.want {
			t.Errorf("%s: %v", name, behind)
		}
		if behind == nil {
			continue
		}
		if err := error(behind); !errors.Is(err, docstore.ErrUnavailable) || !errors.Is(err, docstore.ErrNotWritten) {
			t.Errorf("%s: %v", name, err)
		}
		raise := behind.Raise(w)
		if !raise.Holds(c.found, time.Unix(0, 0)) {
			t.Errorf("%s: %+v does not apply to what was found", name, raise)
		}
		after, err := raise.Apply(c.found, time.Unix(0, 0))
		if err != nil || w.Behind(c.least, after) != nil {
			t.Errorf("%s: %v, %v", name, after, err)
		}
		if raise.Holds(after, time.Unix(0, 0)) {
			t.Errorf("%s: it applies twice", name)
		}
	}
}
