package expr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/expr"
)

// itemText is the item that the tests evaluate expressions on.
const itemText = `{
	"id": {"S": "k"}, "n": {"N": "5"}, "neg": {"N": "-3"}, "s": {"S": "hello"}, "e": {"S": ""}, "u": {"S": "é"},
	"b": {"B": "AAEC"}, "t": {"BOOL": true}, "z": {"NULL": true},
	"ss": {"SS": ["x", "y"]}, "ns": {"NS": ["1", "2"]}, "bs": {"BS": ["AA=="]},
	"l": {"L": [{"N": "1"}, {"S": "two"}, {"L": [{"S": "deep"}]}]},
	"m": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "end"}}}, "lst": {"L": [{"M": {"k": {"N": "9"}}}]}}},
	"a.b": {"S": "dotted"}
}`

var names = map[string]string{"#s": "s", "#status": "status", "#dot": "a.b", "#m": "m", "#y": "y", "#z": "z"}

const valuesText = `{
	":n": {"N": "5"}, ":five": {"N": "5.0"}, ":one": {"N": "1"}, ":ten": {"N": "10"}, ":s": {"S": "hello"}, ":he": {"S": "he"},
	":w": {"S": "world"}, ":t": {"BOOL": true}, ":null": {"NULL": true}, ":b": {"B": "AAE="}, ":x": {"S": "x"},
	":ss": {"SS": ["y", "q"]}, ":ss2": {"SS": ["y", "x"]}, ":ns": {"NS": ["2"]}, ":l": {"L": [{"S": "new"}]}, ":m": {"M": {}},
	":S": {"S": "S"}, ":L": {"S": "L"}, ":nul": {"S": "NULL"}, ":X": {"S": "X"}
}`

func decode(t testing.TB, text string) attr.Map {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	m, err := attr.DecodeMap(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func env(t testing.TB) *expr.Env { return expr.NewEnv(names, decode(t, valuesText)) }

func TestCondition(t *testing.T) {
	item := decode(t, itemText)
	for src, want := range map[string]bool{
		// comparators
		"n = :five":        true,
		"n = :one":         false,
		"n <> :one":        true,
		"n < :ten":         true,
		"n <= :n":          true,
		"n > :n":           false,
		"n >= :n":          true,
		"neg < :one":       true,
		":ten > n":         true,
		"s < :w":           true,
		"b > :b":           true,
		"t = :t":           true,
		"z = :null":        true,
		"ss = :ss2":        true,
		"ss = :ss":         false,
		"#dot = :s":        false,
		"m.x = l[0]":       true,
		"m.y.z <> s":       true,
		"#m.#y.#z = s":     false,
		"m.lst[0].k > n":   true,
		"(n) = (:n)":       true,
		"size(s) = n":      true,
		"size(u) = :one":   true,
		"size(l) < :n":     true,
		"size(m) > :one":   true,
		"size(ss) < :five": true,
		"size(b) < :n":     true,
		"size(n) = :n":     false,
		"size(gone) = :n":  false,
		// types that differ
		"n = :s":     false,
		"n <> :s":    true,
		"n < :s":     false,
		"n >= :s":    false,
		"NOT n < :s": true,
		// what is not there
		"gone = :n":          false,
		"gone <> :n":         true,
		"gone < :n":          false,
		"NOT gone < :n":      true,
		"m.gone.deeper = :n": false,
		"l[9] = :n":          false,
		"s.x = :n":           false,
		"s[0] = :n":          false,
		"gone = absent":      false,
		// ranges and lists
		"n BETWEEN :one AND :ten":            true,
		"n between :one and :n":              true,
		"s BETWEEN :he AND :w":               true,
		"n BETWEEN :he AND :w":               false,
		"gone BETWEEN :one AND :ten":         false,
		":n BETWEEN m.x AND :ten":            true,
		"n IN (:one, :n)":                    true,
		"n in (:one)":                        false,
		"n IN (m.x, :s)":                     false,
		"gone IN (:one)":                     false,
		"size(s) IN (:five, :one)":           true,
		"n BETWEEN :one AND :ten AND s = :s": true,
		"NOT n BETWEEN :one AND :ten":        false,
		"attribute_exists(n)":                true,
		"attribute_exists(m.y.z)":            true,
		"attribute_exists(l[2][0])":          true,
		"attribute_exists(l[3])":             false,
		"attribute_not_exists(gone)":         true,
		"attribute_not_exists(z)":            false,
		"attribute_type(s, :S)":              true,
		"attribute_type(l, :L)":              true,
		"attribute_type(z, :nul)":            true,
		"attribute_type(n, :S)":              false,
		"attribute_type(gone, :S)":           false,
		"begins_with(s, :he)":                true,
		"begins_with(b, :b)":                 true,
		"begins_with(s, :b)":                 false,
		"begins_with(n, :he)":                false,
		"begins_with(gone, :he)":             false,
		"contains(s, :he)":                   true,
		"contains(ss, :x)":                   true,
		"contains(ns, :one)":                 true,
		"contains(ns, :n)":                   false,
		"contains(l, :one)":                  true,
		"contains(b, :b)":                    true,
		"contains(n, :one)":                  false,
		"contains(gone, :one)":               false,
		"contains(:s, e)":                    true,
		// logic
		"n = :n AND s = :s":                           true,
		"n = :n AND s = :w":                           false,
		"n = :one OR s = :s":                          true,
		"n = :n OR n = :one AND s = :w":               true,
		"(n = :n OR n = :one) AND s = :w":             false,
		"NOT n = :n OR s = :s":                        true,
		"NOT (n = :n OR s = :s)":                      false,
		"not not n = :n":                              true,
		"NOT n = :one AND NOT attribute_exists(gone)": true,
	} {
		t.Run(src, func(t *testing.T) {
			c, err := env(t).Condition(src)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Holds(item); got != want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestConditionOnNoItem(t *testing.T) {
	for src, want := range map[string]bool{
		"attribute_not_exists(id)": true,
		"attribute_exists(id)":     false,
		"n = :n":                   false,
		"n <> :n":                  true,
		"NOT n = :n":               true,
	} {
		c, err := env(t).Condition(src)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Holds(nil); got != want {
			t.Errorf("%s: got %v", src, got)
		}
	}
}

func TestConditionErrors(t *testing.T) {
	for _, c := range []struct{ src, err string }{
		{"", "The expression can not be empty;"},
		{" ", `Syntax error; token: "<EOF>", near: ""`},
		{"n", `Syntax error; token: "<EOF>", near: "n"`},
		{"n =", `Syntax error; token: "<EOF>", near: "="`},
		{"a-b", `Syntax error; token: "-", near: "a-b"`},
		{"n == :n", `Syntax error; token: "=", near: "== :n"`},
		{"n = :n AND", `Syntax error; token: "<EOF>", near: "AND"`},
		{"n = :n s = :s", `Syntax error; token: "s", near: ":n s ="`},
		{"n = :n & s = :s", `Syntax error; token: "&", near: ":n & s"`},
		{"(n = :n", `Syntax error; token: "<EOF>", near: ":n"`},
		{"n = :n)", `Syntax error; token: ")", near: ":n)"`},
		{"n AND s = :s", `Syntax error; token: "AND", near: "n AND s"`},
		{"n = (s = :s)", `Syntax error; token: "(", near: "= (s"`},
		{"n = #", `Syntax error; token: "#", near: "= #"`},
		{"n = :", `Syntax error; token: ":", near: "= :"`},
		{"n = 5", `Syntax error; token: "5", near: "= 5"`},
		{"n = 'five'", `Syntax error; token: "'", near: "= 'five"`},
		{"n IN ()", `Syntax error; token: ")", near: "()"`},
		{"n IN :n", `Syntax error; token: ":n", near: "IN :n"`},
		{"n BETWEEN :one OR :n", `Syntax error; token: "OR", near: ":one OR :n"`},
		{"l[x] = :n", `Syntax error; token: "x", near: "[x]"`},
		{"l[99999999999999999999] = :n", `Syntax error; token: "99999999999999999999", near: "[99999999999999999999]"`},
		{"m. = :n", `Syntax error; token: "=", near: ". = :n"`},
		{"_a = :n", `Syntax error; token: "_", near: "_a"`},
		{"é = :n", `Syntax error; token: "é", near: "é ="`},
		{"((n = :n))", "The expression has redundant parentheses;"},
		{"((n)) = :n", "The expression has redundant parentheses;"},
		{"n = ((:n))", "The expression has redundant parentheses;"},
		{"exists(n)", "Invalid function name; function: exists"},
		{"SIZE(n) = :n", "Invalid function name; function: SIZE"},
		{"size(n)", "The function is not allowed to be used this way in an expression; function: size"},
		{"contains(s, :he) = :t", "The function is not allowed to be used this way in an expression; function: contains"},
		{"attribute_exists(size(s))", "Operator or function requires a document path; operator or function: attribute_exists"},
		{"attribute_exists(:n)", "Operator or function requires a document path; operator or function: attribute_exists"},
		{"status = :n", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"m.name = :n", "Attribute name is a reserved keyword; reserved keyword: name"},
		{"Lock = :n", "Attribute name is a reserved keyword; reserved keyword: Lock"},
		{"#gone = :n", "An expression attribute name used in the document path is not defined; attribute name: #gone"},
		{"n = :gone", "An expression attribute value used in expression is not defined; attribute value: :gone"},
		{"attribute_exists(n, s)", "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{"begins_with(s)", "Incorrect number of operands for operator or function; operator or function: begins_with, number of operands: 1"},
		{"n = n", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]"},
		{"contains(l[0], l[0])", "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [l, [0]]"},
		{"begins_with(s, :n)", "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"attribute_type(s, :n)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{"attribute_type(s, n)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
		{"attribute_type(s, :X)", "Invalid attribute type name found; type: X, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"size(:n) = :n", "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"n < :t", "Incorrect operand type for operator or function; operator: <, operand type: BOOL"},
		{"n BETWEEN :ten AND :one", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; " +
			"lower bound operand: AttributeValue: {N:10}, upper bound operand: AttributeValue: {N:1}"},
		{"n BETWEEN :one AND :s", "The BETWEEN operator requires same data type for lower and upper bounds; " +
			"lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:hello}"},
		{"n BETWEEN :l AND :l", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: L"},
		{"n BETWEEN :one AND :t", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: BOOL"},
		{"n BETWEEN s AND :null", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: NULL"},
		{strings.Repeat("a", 4097), "Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{"n=:n" + strings.Repeat(" OR n=:n", 150), "The expression contains too many operators; operator count: 301"},
		{"n IN (" + strings.Repeat(":n,", 100) + ":n)", "Invalid number of operands for IN; maximum: 100, number of operands: 101"},
	} {
		t.Run(c.src, func(t *testing.T) {
			_, err := env(t).Condition(c.src)
			if err == nil || err.Error() != c.err {
				t.Errorf("got  %v\nwant %s", err, c.err)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	for _, c := range []struct{ src, name, want string }{
		{"SET n = :one", "n", `{"N":"1"}`},
		{"set n = n + :one", "n", `{"N":"6"}`},
		{"SET n = n - :ten", "n", `{"N":"-5"}`},
		{"SET n = (n + :one)", "n", `{"N":"6"}`},
		{"SET fresh = if_not_exists(fresh, :one) + :one", "fresh", `{"N":"2"}`},
		{"SET n = if_not_exists(n, :one) + :one", "n", `{"N":"6"}`},
		{"SET fresh = if_not_exists(gone, if_not_exists(n, :one))", "fresh", `{"N":"5"}`},
		{"SET l = list_append(l, :l)", "l", `{"L":[{"N":"1"},{"S":"two"},{"L":[{"S":"deep"}]},{"S":"new"}]}`},
		{"SET l = list_append(:l, l)", "l", `{"L":[{"S":"new"},{"N":"1"},{"S":"two"},{"L":[{"S":"deep"}]}]}`},
		{"SET fresh = list_append(if_not_exists(gone, :l), :l)", "fresh", `{"L":[{"S":"new"},{"S":"new"}]}`},
		{"SET l[1] = :n", "l", `{"L":[{"N":"1"},{"N":"5"},{"L":[{"S":"deep"}]}]}`},
		{"SET l[9] = :n, l[7] = :s", "l", `{"L":[{"N":"1"},{"S":"two"},{"L":[{"S":"deep"}]},{"S":"hello"},{"N":"5"}]}`},
		{"SET l[2][0] = :n", "l", `{"L":[{"N":"1"},{"S":"two"},{"L":[{"N":"5"}]}]}`},
		{"SET m.x = :n", "m", `{"M":{"lst":{"L":[{"M":{"k":{"N":"9"}}}]},"x":{"N":"5"},"y":{"M":{"z":{"S":"end"}}}}}`},
		{"SET m.lst[0].k = m.x", "m", `{"M":{"lst":{"L":[{"M":{"k":{"N":"1"}}}]},"x":{"N":"1"},"y":{"M":{"z":{"S":"end"}}}}}`},
		{"SET #status = :s", "status", `{"S":"hello"}`},
		{"SET #dot = :n", "a.b", `{"N":"5"}`},
		{"SET n = neg, neg = n", "n", `{"N":"-3"}`}, // both sides are read before either is written
		{"SET n = neg, neg = n", "neg", `{"N":"5"}`},
		{"REMOVE n", "n", ""},
		{"REMOVE gone", "gone", ""},
		{"REMOVE l[0], l[2]", "l", `{"L":[{"S":"two"}]}`}, // elements count as they were
		{"REMOVE l[8]", "l", `{"L":[{"N":"1"},{"S":"two"},{"L":[{"S":"deep"}]}]}`},
		{"REMOVE l[0] SET l[1] = :n", "l", `{"L":[{"N":"5"},{"L":[{"S":"deep"}]}]}`},
		{"REMOVE m.y, m.lst", "m", `{"M":{"x":{"N":"1"}}}`},
		{"REMOVE m.gone", "m", `{"M":{"lst":{"L":[{"M":{"k":{"N":"9"}}}]},"x":{"N":"1"},"y":{"M":{"z":{"S":"end"}}}}}`},
		{"ADD n :one", "n", `{"N":"6"}`},
		{"ADD fresh :one", "fresh", `{"N":"1"}`},
		{"ADD ss :ss", "ss", `{"SS":["x","y","q"]}`},
		{"ADD fresh :ss", "fresh", `{"SS":["y","q"]}`},
		{"ADD m.x :one", "m", `{"M":{"lst":{"L":[{"M":{"k":{"N":"9"}}}]},"x":{"N":"2"},"y":{"M":{"z":{"S":"end"}}}}}`},
		{"DELETE ss :ss", "ss", `{"SS":["x"]}`},
		{"DELETE ss :ss2", "ss", ""},
		{"DELETE ns :ns", "ns", `{"NS":["1"]}`},
		{"DELETE gone :ss", "gone", ""},
		{"SET n = :one REMOVE s ADD neg :one DELETE ss :ss", "neg", `{"N":"-2"}`},
	} {
		t.Run(c.src+" "+c.name, func(t *testing.T) {
			before := decode(t, itemText)
			u, err := env(t).Update(c.src)
			if err != nil {
				t.Fatal(err)
			}
			after, err := u.Apply(before)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if v := after[c.name]; v != nil {
				text, err := json.Marshal(attr.JSON(v))
				if err != nil {
					t.Fatal(err)
				}
				got = string(text)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !attr.Equal(before, decode(t, itemText)) {
				t.Error("the item before was changed")
			}
		})
	}
}

func TestUpdateErrors(t *testing.T) {
	const (
		noAttribute = "The provided expression refers to an attribute that does not exist in the item"
		badPath     = "The document path provided in the update expression is invalid for update"
		badOperand  = "An operand in the update expression has an incorrect data type"
	)
	for _, c := range []struct{ src, err string }{
		{"", "The expression can not be empty;"},
		{"INVALID SYNTAX HERE", `Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		{"SET", `Syntax error; token: "<EOF>", near: "SET"`},
		{"SET n", `Syntax error; token: "<EOF>", near: "n"`},
		{"SET n = ", `Syntax error; token: "<EOF>", near: "="`},
		{"SET n = :n,", `Syntax error; token: "<EOF>", near: ","`},
		{"SET n = n + :one + :one", `Syntax error; token: "+", near: ":one + :one"`},
		{"ADD hits : incr", `Syntax error; token: ":", near: "hits : incr"`},
		{"ADD n s", `Syntax error; token: "s", near: "n s"`},
		{"SET n = :n SET s = :s", `The "SET" section can only be used once in an update expression;`},
		{"SET n = ((:n))", "The expression has redundant parentheses;"},
		{"SET n = foo(:n)", "Invalid function name; function: foo"},
		{"SET n = attribute_exists(s)", "Invalid function name; function: attribute_exists"},
		{"SET status = :n", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"SET n = #gone", "An expression attribute name used in the document path is not defined; attribute name: #gone"},
		{"SET n = :gone", "An expression attribute value used in expression is not defined; attribute value: :gone"},
		{"SET n = if_not_exists(n)", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		{"SET n = if_not_exists(:n, :n)", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"SET n = n + :s", "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"SET l = list_append(l, :s)", "Incorrect operand type for operator or function; operator or function: list_append, operand type: S"},
		{"ADD n :s", "Incorrect operand type for operator or function; operator: ADD, operand type: STRING"},
		{"DELETE n :n", "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER"},
		{"SET n = :n REMOVE n", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]"},
		{"SET m.x = :n, m = :m", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m, x], path two: [m]"},
		{"SET m.x = :n, m[0] = :n", "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [m, x], path two: [m, [0]]"},
		{"SET n = gone", noAttribute},
		{"SET n = gone + :one", noAttribute},
		{"SET n = list_append(gone, :l)", noAttribute},
		{"SET n = s + :one", badOperand},
		{"SET n = list_append(s, :l)", badOperand},
		{"ADD s :one", badOperand},
		{"ADD n :ss", badOperand},
		{"DELETE ns :ss", badOperand},
		{"SET gone.x = :n", badPath},
		{"SET s.x = :n", badPath},
		{"SET l.x = :n", badPath},
		{"SET m[0] = :n", badPath},
		{"SET l[9].x = :n", badPath},
		{"REMOVE gone.x", badPath},
		{"DELETE gone.x :ss", badPath},
		{"ADD big :one", "Attempting to store more than 38 significant digits in a Number"},
	} {
		t.Run(c.src, func(t *testing.T) {
			item := decode(t, itemText)
			item["big"], _ = attr.ParseNumber("1e60")
			u, err := env(t).Update(c.src)
			if err == nil {
				_, err = u.Apply(item)
			}
			if err == nil || err.Error() != c.err {
				t.Errorf("got  %v\nwant %s", err, c.err)
			}
		})
	}
}

func TestProjection(t *testing.T) {
	for src, want := range map[string]string{
		"n":                       `{"n":{"N":"5"}}`,
		"gone":                    `{}`,
		"m.y.z, n":                `{"m":{"M":{"y":{"M":{"z":{"S":"end"}}}}},"n":{"N":"5"}}`,
		"l[2], l[0]":              `{"l":{"L":[{"N":"1"},{"L":[{"S":"deep"}]}]}}`,
		"m.lst[0].k, m.x, m.gone": `{"m":{"M":{"lst":{"L":[{"M":{"k":{"N":"9"}}}]},"x":{"N":"1"}}}}`,
		"#dot":                    `{"a.b":{"S":"dotted"}}`,
	} {
		p, err := env(t).Projection(src)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		got, err := json.Marshal(attr.JSONMap(p.Of(decode(t, itemText))))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", src, got, err, want)
		}
	}
	for src, want := range map[string]string{
		"":         "The expression can not be empty;",
		"n,":       `Syntax error; token: "<EOF>", near: ","`,
		"n s":      `Syntax error; token: "s", near: "n s"`,
		"name":     "Attribute name is a reserved keyword; reserved keyword: name",
		"n, n":     "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]",
		"m, m.y":   "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m], path two: [m, y]",
		"m[0],m.y": "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [m, [0]], path two: [m, y]",
		":n":       `Syntax error; token: ":n", near: ":n"`,
	} {
		if _, err := env(t).Projection(src); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", src, err, want)
		}
	}
}

func TestKeyConditions(t *testing.T) {
	for _, c := range []struct{ src, op string }{
		{"id = :s AND n > :one", ">"},
		{"id = :s AND :one < n", ">"},
		{":s = id AND :one >= n", "<="},
		{"(id = :s) and (n BETWEEN :one AND :ten)", "BETWEEN"},
		{"id = :s AND begins_with(n, :he)", "begins_with"},
	} {
		got, err := env(t).KeyConditions(c.src)
		if err != nil || len(got) != 2 || got[0].Name != "id" || got[0].Op != "=" || got[1].Name != "n" || got[1].Op != c.op {
			t.Errorf("%s: got %+v, %v", c.src, got, err)
		}
	}
	for src, want := range map[string]string{
		"":                         "Invalid KeyConditionExpression: The expression can not be empty;",
		"id = :s OR n = :n":        "Invalid operator used in KeyConditionExpression: OR",
		"NOT id = :s":              "Invalid operator used in KeyConditionExpression: NOT",
		"id <> :s":                 "Invalid operator used in KeyConditionExpression: <>",
		"id IN (:s)":               "Invalid operator used in KeyConditionExpression: IN",
		"contains(id, :s)":         "Invalid operator used in KeyConditionExpression: contains",
		"attribute_exists(id)":     "Invalid operator used in KeyConditionExpression: attribute_exists",
		"size(id) = :n":            "KeyConditionExpressions cannot contain nested operations",
		"m.x = :n":                 "KeyConditionExpressions cannot have conditions on nested attributes",
		"id = :s AND id = :w":      "KeyConditionExpressions must only contain one condition per key",
		"id = n":                   "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
		":s = :w":                  "Invalid condition in KeyConditionExpression: No key attribute specified",
		":n BETWEEN :one AND :ten": "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute as its first operand",
		"begins_with(:s, id)":      "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute as its first operand",
	} {
		if _, err := env(t).KeyConditions(src); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", src, err, want)
		}
	}
}

func TestUnused(t *testing.T) {
	values := decode(t, `{":a":{"N":"1"},":b":{"N":"2"},":c":{"N":"3"}}`)
	e := expr.NewEnv(map[string]string{"#a": "a"}, values)
	if _, err := e.Condition("n = :b"); err != nil {
		t.Fatal(err)
	}
	if err := e.Unused(); err == nil ||
		err.Error() != "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}" {
		t.Error(err)
	}
	if _, err := e.Projection("#a"); err != nil {
		t.Fatal(err)
	}
	if err := e.Unused(); err == nil ||
		err.Error() != "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a, :c}" {
		t.Error(err)
	}
	if _, err := e.Update("SET x = :a, y = :c"); err != nil {
		t.Fatal(err)
	}
	if err := e.Unused(); err != nil {
		t.Error(err)
	}
}
