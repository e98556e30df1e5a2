package gcpfirestore_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// idOf draws IDs from the characters that escaping is about, and their neighbors.
var idOf = rapid.StringOfN(rapid.SampledFrom(
	[]rune("\u0001\u0002-./0~_ax%\u00e9\uff0d\uff0e\uff0f\uff10\uffff\U00010000\U0010ffff")), 1, 8, -1)

// accepted reports what Firestore's page on limits demands of an ID.
func accepted(id string) bool {
	return id != "" && id != "." && id != ".." && !strings.Contains(id, "/") && utf8.ValidString(id) &&
		(len(id) < 4 || !strings.HasPrefix(id, "__") || !strings.HasSuffix(id, "__"))
}

// TestEscapeKeepsOrder: escaped IDs are accepted, in the order of the IDs, and lead back to them.
func TestEscapeKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := idOf.Draw(t, "a"), idOf.Draw(t, "b")
		if rapid.Bool().Draw(t, "continued") {
			b = a + b
		}
		x, y := gcpfirestore.EscapeID(a), gcpfirestore.EscapeID(b)
		if !accepted(x) {
			t.Fatalf("%q is escaped as %q, which Firestore refuses", a, x)
		}
		if back, ok := gcpfirestore.UnescapeID(x); !ok || back != a {
			t.Fatalf("%q is escaped as %q, which leads back to %q, %v", a, x, back, ok)
		}
		if cmp.Compare(a, b) != cmp.Compare(x, y) {
			t.Fatalf("%q and %q compare as %d, escaped as %q and %q as %d", a, b, cmp.Compare(a, b), x, y, cmp.Compare(x, y))
		}
	})
}

// TestUnescapeIsStrict: an ID that Firestore may hold either belongs to one key, or to none.
func TestUnescapeIsStrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored := idOf.Filter(accepted).Draw(t, "stored")
		if id, ok := gcpfirestore.UnescapeID(stored); ok && gcpfirestore.EscapeID(id) != stored {
			t.Fatalf("%q is taken for %q, which is stored as %q", stored, id, gcpfirestore.EscapeID(id))
		}
	})
}

func TestEscape(t *testing.T) {
	for id, want := range map[string]string{
		"abc-123": "abc-123", "a.b": "a.b", "100%": "100%", "a%2Fb": "a%2Fb", "日本語": "日本語", "a.日本": "a.日本", "...": "...",
		"__": "__", "_x_": "_x_",
		"deploy/prod": "deploy.／prod", "/": ".／", "a./b": "a..／b", "a.／b": "a.．／b", "a.．b": "a.．．b", "a／b": "a／b",
		"a.\U0001f600": "a.．\U0001f600",
		".":            ".\u0001", "..": "..\u0001", ".\u0001": ".\u0001\u0001", "__x__": "__x__\u0001", "____": "____\u0001",
		"__/__":   "__.／__\u0001",
		"x\u0001": "x\u0001",
	} {
		if got := gcpfirestore.EscapeID(id); got != want {
			t.Errorf("%q is escaped as %q, want %q", id, got, want)
		}
	}
	for _, stored := range []string{"a.．b", ".．", ".", "__x__", "x.．"} {
		if id, ok := gcpfirestore.UnescapeID(stored); ok {
			t.Errorf("%q is taken for %q, want none", stored, id)
		}
	}
}

// TestSuccessor: nothing that begins with a prefix reaches its successor, and everything else that is above it does.
func TestSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, id := idOf.Draw(t, "prefix"), idOf.Draw(t, "id")
		if rapid.Bool().Draw(t, "continued") {
			id = prefix + id
		}
		next, ok := gcpfirestore.Successor(prefix)
		if strings.HasPrefix(id, prefix) != (id >= prefix && (!ok || id < next)) {
			t.Fatalf("%q has the prefix %q: %v; its successor is %q, %v", id, prefix, strings.HasPrefix(id, prefix), next, ok)
		}
	})
	for prefix, want := range map[string]string{"a": "b", "a\U0010ffff": "b", "\ud7ff": "\ue000", "a.": "a/"} {
		if got, ok := gcpfirestore.Successor(prefix); !ok || got != want {
			t.Errorf("the successor of %q is %q, %v, want %q", prefix, got, ok, want)
		}
	}
}

// TestLowerBound: a bound is never above the ID, and can be sent.
func TestLowerBound(t *testing.T) {
	for _, id := range []string{"a", "/", "__x__", strings.Repeat("/", docstore.MaxIDBytes),
		"__" + strings.Repeat("/", 373) + "____", "a" + strings.Repeat("/", 400)} {
		bound := gcpfirestore.LowerBound(id)
		if !accepted(bound) || len(bound) > 1500 || bound > gcpfirestore.EscapeID(id) {
			t.Errorf("the bound of an ID of %d bytes is %q", len(id), bound)
		}
	}
}

// TestLongIDs: what does not fit is rejected before anything is sent, and may still be asked for in a list.
func TestLongIDs(t *testing.T) {
	s := open(t, firestoretest.Start(t, nil), "")
	long := strings.Repeat("/", docstore.SafeIDBytes+1)
	for _, k := range []docstore.Key{{Kind: "locks", ID: long}, {Kind: "locks", Tenant: long, ID: "x"}} {
		_, getErr := s.Get(t.Context(), k)
		_, writeErr := s.Write(t.Context(), docstore.Write{Key: k})
		for _, err := range []error{getErr, writeErr} {
			if !errors.Is(err, docstore.ErrInvalid) || !strings.Contains(err.Error(), "1504 bytes with its slashes escaped") {
				t.Errorf("%s: error %v, want ErrInvalid", k.Kind, err)
			}
		}
	}
	fits := docstore.Key{Kind: "locks", Tenant: "acme", ID: strings.Repeat("/", docstore.SafeIDBytes)}
	later := docstore.Key{Kind: "locks", Tenant: "acme", ID: "a"}
	for _, k := range []docstore.Key{fits, later} {
		if _, err := s.Write(t.Context(), docstore.Write{Key: k}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		query docstore.Query
		want  []string
	}{
		{docstore.Query{Prefix: "/"}, []string{fits.ID}},
		{docstore.Query{After: long}, []string{"a"}},
		{docstore.Query{After: long[:300]}, []string{fits.ID, "a"}},
		{docstore.Query{Prefix: long}, nil},
	} {
		c.query.Kind, c.query.Tenant = "locks", "acme"
		page, err := s.List(t.Context(), c.query)
		var got []string
		for _, e := range page.Entries {
			got = append(got, e.Key.ID)
		}
		if err != nil || !slices.Equal(got, c.want) || page.At.IsZero() {
			t.Errorf("prefix of %d bytes after %d: %q, error %v", len(c.query.Prefix), len(c.query.After), got, err)
		}
	}
}
