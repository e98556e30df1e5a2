package expr

import (
	"strings"
	"testing"
)

// text writes a tree back in the grammar, with parentheses only where it would otherwise be read differently.
func text(n node) string {
	switch n := n.(type) {
	case *attribute:
		return n.text
	case *placeholder:
		return n.name
	case *call:
		return n.name + "(" + listText(n.args) + ")"
	case *sum:
		return text(n.left) + " + " + text(n.right)
	case *comparison:
		return text(n.left) + " " + n.op + " " + text(n.right)
	case *between:
		return text(n.operand) + " BETWEEN " + text(n.low) + " AND " + text(n.high)
	case *negation:
		return "NOT " + grouped(n.of, isLogical(n.of, "AND") || isLogical(n.of, "OR"))
	case *logical:
		and := n.op == "AND"
		// Both operators group to the left.
		return grouped(n.left, and && isLogical(n.left, "OR")) + " " + n.op + " " +
			grouped(n.right, isLogical(n.right, "OR") || and && isLogical(n.right, "AND"))
	default:
		panic("unreachable: there are no other nodes")
	}
}

func isLogical(n node, op string) bool {
	l, ok := n.(*logical)
	return ok && l.op == op
}

func grouped(n node, group bool) string {
	if group {
		return "(" + text(n) + ")"
	}
	return text(n)
}

func listText(nodes []node) string {
	parts := make([]string, len(nodes))
	for i, n := range nodes {
		parts[i] = text(n)
	}
	return strings.Join(parts, ", ")
}

func updateText(sections []section) string {
	var parts []string
	for _, s := range sections {
		var actions []string
		for _, a := range s.actions {
			written := a.target.text
			if a.operand != nil {
				written += map[string]string{"SET": " = ", "ADD": " "}[a.verb] + text(a.operand)
			}
			actions = append(actions, written)
		}
		parts = append(parts, s.verb+" "+strings.Join(actions, ", "))
	}
	return strings.Join(parts, " ")
}

// TestPrint shows that parentheses are written where the tree needs them and nowhere else.
func TestPrint(t *testing.T) {
	for src, want := range map[string]string{
		"a=:b and c=:d or e=:f":              "a = :b AND c = :d OR e = :f",
		"(a=:b or c=:d) and e=:f":            "(a = :b OR c = :d) AND e = :f",
		"(a=:b and c=:d) and e=:f":           "a = :b AND c = :d AND e = :f",
		"a=:b and (c=:d and e=:f)":           "a = :b AND (c = :d AND e = :f)",
		"not (a=:b)":                         "NOT a = :b",
		"not (a=:b and c=:d)":                "NOT (a = :b AND c = :d)",
		"(a) between (:b) and c":             "a BETWEEN :b AND c",
		"begins_with( a , (b) ) OR (c <= d)": "begins_with(a, b) OR c <= d",
	} {
		n, err := parseCondition(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		if got := text(n); got != want {
			t.Errorf("%s: got %s, want %s", src, got, want)
		}
	}
	sections, err := parseUpdate("set a=(b+:c),d=if_not_exists(e,:f) remove g add h :i")
	if err != nil {
		t.Fatal(err)
	}
	const want = "SET a = b + :c, d = if_not_exists(e, :f) REMOVE g ADD h :i"
	if got := updateText(sections); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
