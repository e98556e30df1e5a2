package expr

import "testing"

// FuzzParse feeds the parsers anything. Whatever they accept has to print to a text that they read the same way.
func FuzzParse(f *testing.F) {
	for _, src := range []string{
		"a = :b", "NOT (a = :b OR #c <> :d) AND size(e.f[0]) BETWEEN :g AND :h", "a IN (:b, c) OR attribute_exists(d)",
		"a AND (b = :c AND (d = :e AND f = :g))", "(a) = (b)", "((a = :b))", "NOT NOT a < b",
		"SET a = b + :c, d[0] = if_not_exists(e, :f) REMOVE g ADD h :i DELETE j :k", "SET a = (b - :c)",
		"a, b.c[1], #d", "a-b", "#", ":", "é", "[[", "a[1", "\x00", "a..b", "\xff",
	} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		stable(t, src, parseCondition, text)
		stable(t, src, parseUpdate, updateText)
	})
}

func stable[T any](t *testing.T, src string, parse func(string) (T, error), render func(T) string) {
	t.Helper()
	tree, err := parse(src)
	if err != nil {
		return
	}
	printed := render(tree)
	if len(printed) > maxLength {
		return // blanks between tokens made it longer than an expression may be
	}
	again, err := parse(printed)
	if err != nil {
		t.Fatalf("%q prints %q: %v", src, printed, err)
	}
	if twice := render(again); twice != printed {
		t.Fatalf("%q prints %q and then %q", src, printed, twice)
	}
}
