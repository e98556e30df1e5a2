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
	"l": {"L": [{"N": "1"}, {"S": "two"}, {"L": [{"S": "deep"}]}]},
	"m": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "end"}}}, "lst": {"L": [{"M": {"k": {"N": "9"}}}]}}},
	"a.b": {"S": "dotted"}
}`

var names = map[string]string{"#s": "s", "#status": "status", "#dot": "a.b"}

const valuesText = `{
	":n": {"N": "5"}, ":five": {"N": "5.0"}, ":one": {"N": "1"}, ":ten": {"N": "10"}, ":s": {"S": "hello"}, ":he": {"S": "he"},
	":w": {"S": "world"}, ":t": {"BOOL": true}, ":null": {"NULL": true}, ":b": {"B": "AAE="}, ":x": {"S": "x"},
	":l": {"L": [{"S": "new"}]},
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
		"n = :five":  true,
		"n = :one":   false,
		"n <> :one":  true,
		"n < :ten":   true,
		"n <= :n":    true,
		"n > :n":     false,
		"n >= :n":    true,
		"neg < :one": true,
		":ten > n":   true,
		"s < :w":     true,
		"b > :b":     true,
		"t = :t":     true,
		"z = :null":  true,
		"#dot = :s":  false,
		"(n) = (:n)": true,
		// types that differ
		"n = :s":     false,
		"n <> :s":    true,
		"n < :s":     false,
		"n >= :s":    false,
		"NOT n < :s": true,
		// what is not there
		"gone = :n":     false,
		"gone <> :n":    true,
		"gone < :n":     false,
		"NOT gone < :n": true,
		"gone = absent": false,
		// ranges and lists
		"n BETWEEN :one AND :ten":            true,
		"n between :one and :n":              true,
		"s BETWEEN :he AND :w":               true,
		"n BETWEEN :he AND :w":               false,
		"gone BETWEEN :one AND :ten":         false,
		"n BETWEEN :one AND :ten AND s = :s": true,
		"NOT n BETWEEN :one AND :ten":        false,
		"attribute_exists(n)":                true,
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
		{"n BETWEEN :one OR :n", `Syntax error; token: "OR", near: ":one OR :n"`},
		{"_a = :n", `Syntax error; token: "_", near: "_a"`},
		{"é = :n", `Syntax error; token: "é", near: "é ="`},
		{"((n = :n))", "The expression has redundant parentheses;"},
		{"((n)) = :n", "The expression has redundant parentheses;"},
		{"n = ((:n))", "The expression has redundant parentheses;"},
		{"exists(n)", "Invalid function name; function: exists"},
		{"attribute_exists(:n)", "Operator or function requires a document path; operator or function: attribute_exists"},
		{"status = :n", "Attribute name is a reserved keyword; reserved keyword: status"},
		{"Lock = :n", "Attribute name is a reserved keyword; reserved keyword: Lock"},
		{"#gone = :n", "An expression attribute name used in the document path is not defined; attribute name: #gone"},
		{"n = :gone", "An expression attribute value used in expression is not defined; attribute value: :gone"},
		{
			"attribute_exists(n, s)", "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{
			"begins_with(s)", "Incorrect number of operands for operator or function; operator or function: begins_with, number of operands: 1"},
		{
			"n = n", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]"},
		{
			"begins_with(s, :n)", "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{
			"attribute_type(s, :n)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{
			"attribute_type(s, n)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
		{"attribute_type(s, :X)", "Invalid attribute type name found; type: X, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"n < :t", "Incorrect operand type for operator or function; operator: <, operand type: BOOL"},
		{
			"n BETWEEN :ten AND :one", "The BETWEEN operator requires bounds of one type, the upper one not below the lower one"},
		{"n BETWEEN :one AND :s", "The BETWEEN operator requires bounds of one type, the upper one not below the lower one"},
		{
			"n BETWEEN :l AND :l", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: L"},
		{
			"n BETWEEN :one AND :t", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: BOOL"},
		{
			"n BETWEEN s AND :null", "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: NULL"},
		{strings.Repeat("a", 4097), "Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{"n=:n" + strings.Repeat(" OR n=:n", 150), "The expression contains too many operators; operator count: 301"},
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
		{"SET n = (n + :one)", "n", `{"N":"6"}`},
		{"SET fresh = if_not_exists(fresh, :one) + :one", "fresh", `{"N":"2"}`},
		{"SET n = if_not_exists(n, :one) + :one", "n", `{"N":"6"}`},
		{"SET fresh = if_not_exists(gone, if_not_exists(n, :one))", "fresh", `{"N":"5"}`},
		{"SET #status = :s", "status", `{"S":"hello"}`},
		{"SET #dot = :n", "a.b", `{"N":"5"}`},
		{"SET n = neg, neg = n", "n", `{"N":"-3"}`}, // both sides are read before either is written
		{"SET n = neg, neg = n", "neg", `{"N":"5"}`},
		{"REMOVE n", "n", ""},
		{"REMOVE gone", "gone", ""},
		{"ADD n :one", "n", `{"N":"6"}`},
		{"ADD fresh :one", "fresh", `{"N":"1"}`},
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
		{
			"SET n = if_not_exists(n)", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		{
			"SET n = if_not_exists(:n, :n)", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"SET n = n + :s", "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"ADD n :s", "Incorrect operand type for operator or function; operator: ADD, operand type: STRING"},
		{
			"SET n = :n REMOVE n", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]"},
		{"SET n = gone", noAttribute},
		{"SET n = gone + :one", noAttribute},
		{"SET n = s + :one", badOperand},
		{"ADD s :one", badOperand},
		{"ADD big :one", "Attempting to store more than 38 significant digits in a Number"},
	} {
		t.Run(c.src, func(t *testing.T) {
			item := decode(t, itemText)
			item["big"], _ = attr.ParseNumber("1" + strings.Repeat("0", 60))
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

func TestKeyConditions(t *testing.T) {
	for _, c := range []struct{ src, op string }{
		{"id = :s AND n > :one", ">"},
		{"(id = :s) and (n <= :one)", "<="},
		{"id = :s AND begins_with(n, :he)", "begins_with"},
	} {
		got, err := env(t).KeyConditions(c.src)
		if err != nil || len(got) != 2 || got[0].Name != "id" || got[0].Op != "=" || got[1].Name != "n" || got[1].Op != c.op {
			t.Errorf("%s: got %+v, %v", c.src, got, err)
		}
	}
	for src, want := range map[string]string{
		"":                     "Invalid KeyConditionExpression: The expression can not be empty;",
		"id = :s OR n = :n":    "Invalid operator used in KeyConditionExpression: OR",
		"NOT id = :s":          "Invalid operator used in KeyConditionExpression: NOT",
		"id <> :s":             "Invalid operator used in KeyConditionExpression: <>",
		"attribute_exists(id)": "Invalid operator used in KeyConditionExpression: attribute_exists",
		"id = :s AND id = :w":  "KeyConditionExpressions must only contain one condition per key",
	} {
		if _, err := env(t).KeyConditions(src); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", src, err, want)
		}
	}
}

// TestLacking: what the service has and this package has not is rejected by name, in every kind of expression.
func TestLacking(t *testing.T) {
	condition := func(src string) error { _, err := env(t).Condition(src); return err }
	update := func(src string) error { _, err := env(t).Update(src); return err }
	key := func(src string) error { _, err := env(t).KeyConditions(src); return err }
	for src, test := range map[string]struct {
		parse func(string) error
		what  string
	}{
		"m.x = :n":                            {condition, "paths into an attribute"},
		"attribute_exists(l[0])":              {condition, "paths into an attribute"},
		"size(s) = :n":                        {condition, "the function size"},
		"n = :n AND contains(s, :he)":         {condition, "the function contains"},
		"n IN (:one, :n)":                     {condition, "IN"},
		"SET m.#s = :n":                       {update, "paths into an attribute"},
		"REMOVE l[0]":                         {update, "paths into an attribute"},
		"SET l = list_append(l, :l)":          {update, "the function list_append"},
		"SET n = n - :one":                    {update, "differences in an UpdateExpression"},
		"SET n = :n DELETE s :s":              {update, "DELETE in an UpdateExpression"},
		"id = :s AND n BETWEEN :one AND :ten": {key, "BETWEEN in a KeyConditionExpression"},
		"id = :s AND :one < n": {
			key, "a condition of a KeyConditionExpression that is not a key attribute and then a :value"},
		"id = n": {
			key, "a condition of a KeyConditionExpression that is not a key attribute and then a :value"},
		"id = :s AND begins_with(:s, n)": {
			key, "a condition of a KeyConditionExpression that is not a key attribute and then a :value"},
	} {
		if err := test.parse(src); err == nil || !strings.HasSuffix(err.Error(), "emulator/dynamodbtest does not support "+
			test.what) {
			t.Errorf("%s: got %v, want %s", src, err, test.what)
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
	if _, err := e.Condition("attribute_exists(#a)"); err != nil {
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
