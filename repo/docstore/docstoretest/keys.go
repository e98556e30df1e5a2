package docstoretest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// strangeKeys are different documents, all of them, and yet some store takes one for another.
func strangeKeys() []docstore.Key {
	var keys []docstore.Key
	add := func(kind, tenant, id string) { keys = append(keys, docstore.Key{Kind: kind, Tenant: tenant, ID: id}) }

	// Joining without escaping: awslabs/amazon-dynamodb-lock-client#114 joined the two keys of a table, so that one lock
	// was taken for another.
	for _, sep := range []string{"/", ":", "#", "|", ".", "-", "_", ",", "\x1f", "%2F", "//", "\\"} {
		add("k", "a", "b"+sep+"c")
		add("k", "a"+sep+"b", "c")
		add("k", "", "a"+sep+"b"+sep+"c")
		add("k", "a", sep)
		add("k", sep, "a")
		add("k", "a", sep+sep+"x")
	}
	add("k", "a", "b")
	add("k-a", "", "b")
	add("k_a", "", "b")
	add("ka", "", "b")
	add("k", "", "b") // no tenant is not the tenant of some default name
	add("k", "default", "b")
	add("k", "_", "b/")
	add("k", "null", "b")
	add("k", "nil", "b")

	for _, id := range []string{
		// Escaping twice, or not undoing it.
		"%", "%25", "%2f", "%2e", "+", " ", "a+b", "a b", "a%20b", "&amp;", "&",
		// Paths: Firestore refuses "." and ".." and reserves __x__; URL libraries resolve dots.
		"..", "...", "a/..", "a/../b", "a/./b", "./a", "/a", "a/", "a//b", "__x__", "__", "__id7__",
		// Case, and file systems that ignore it. The dotless i and the long s fold to ASCII letters in some alphabets.
		"case", "Case", "CASE", "ı", "i", "I", "İ", "ſ", "s", "ß", "ss", "K", "K",
		// Composed and decomposed accents look the same and are different bytes; Firestore and macOS file names normalize in
		// places.
		"\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "ﬁ", "fi", "１", "1", "01", "1.0", "1e0",
		// Quoting.
		"'", "''", `"`, "`", "\\'", "'; DROP TABLE docs; --", "$(x)", "{a}", "[a]", "<a>", "*", "?", "a*", "a?",
		// Control characters and space at the ends; trimming.
		"\x01", "\t", "\n", "\r\n", "a\n", "a ", " a", "a\u00a0", "\u200b", "\ufeff", "\u2028", "\x7f",
		// Beyond the basic plane, and words that tools take for something else.
		"\U0001f600", "\U0010ffff", "\ufffd", "null", "true", "NaN", "undefined", "None", "日本語",
		strings.Repeat("x", docstore.MaxIDBytes), strings.Repeat("x", docstore.MaxIDBytes-1),
		strings.Repeat("/", docstore.SafeIDBytes),
		strings.Repeat("\U0001f600", docstore.MaxIDBytes/4),
	} {
		add("k", "t", id)
	}
	add("k", strings.Repeat("t", docstore.MaxTenantBytes), "x")
	add("k", strings.Repeat("日", docstore.MaxTenantBytes/3), strings.Repeat("y", docstore.MaxIDBytes))
	add(strings.Repeat("k", docstore.MaxKindBytes), "t", "x")
	add("k-_9", "t", "x")

	slices.SortFunc(keys, func(a, b docstore.Key) int {
		return strings.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b))
	})
	return slices.Compact(keys)
}

// checkKeys creates a document under every strange key, each on the condition that there is none, and finds them all
// again as themselves.
func checkKeys(ctx context.Context, s docstore.Store) error {
	var f findings
	keys := strangeKeys()
	for i, k := range keys {
		r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Set: docstore.Doc{"i": docstore.Int(i)}})
		if err == nil && !r.Applied {
			if n, ok := r.Docs[0]["i"].(docstore.Int); ok && int(n) < len(keys) {
				f.addf("%q is taken for %q", k, keys[n])
				continue
			}
		}
		f.applied(fmt.Sprintf("create %q", k), r, err, docstore.Doc{"i": docstore.Int(i)})
	}
	for i, k := range keys {
		f.expect(ctx, s, k, docstore.Doc{"i": docstore.Int(i)})
	}
	listed := map[docstore.Key]docstore.Doc{}
	for _, k := range keys {
		entries, err := walk(ctx, s, docstore.Query{Kind: k.Kind, Tenant: k.Tenant, Limit: docstore.MaxLimit})
		if err != nil {
			return err
		}
		for _, e := range entries {
			listed[e.Key] = e.Doc
		}
	}
	for i, k := range keys {
		if !listed[k].Equal(docstore.Doc{"i": docstore.Int(i)}) {
			f.addf("List shows %#v under %q, want i = %d", listed[k], k, i)
		}
	}
	if len(listed) != len(keys) {
		f.addf("List shows %d keys of %d", len(listed), len(keys))
	}
	return f.err()
}
