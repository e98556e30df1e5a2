package dynamodbtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/dynoxide"
)

// step is one request of a program: programs are data, so that a failing one can be read and run again.
type step struct {
	Op   string
	Body map[string]any
}

func (s step) String() string {
	body, err := json.Marshal(s.Body)
	if err != nil {
		return err.Error()
	}
	return s.Op + " " + string(body)
}

// endpoint speaks the protocol without the SDK, so that nothing of a response is lost.
type endpoint struct {
	url    string
	client *http.Client
}

func (e endpoint) send(s step) (map[string]any, error) {
	body, err := json.Marshal(s.Body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+s.Op)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=key/20260101/eu-north-1/dynamodb/aws4_request, "+
		"SignedHeaders=host, Signature=none")
	res, err := e.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	response, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(response, &out); err != nil {
		return nil, fmt.Errorf("%w in %s", err, response)
	}
	out["status"] = float64(res.StatusCode)
	return out, nil
}

// TestDifferential runs random programs against this server and against another one, and expects the same answers.
func TestDifferential(t *testing.T) {
	other := endpoint{dynoxide.Endpoint(t), &http.Client{Timeout: 10 * time.Second}}
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		own := endpoint{"http://dynamodb.local/", &http.Client{Transport: dynamodbtest.New(nil).RoundTripper()}}
		run++
		table := fmt.Sprintf("t-%d-%d", os.Getpid(), run)
		create := step{"CreateTable", differentialTable(table)}
		for _, e := range []endpoint{own, other} {
			if out, err := e.send(create); err != nil || out["status"] != 200.0 {
				t.Fatalf("%v: %v, %v", create, out, err)
			}
		}
		defer func() {
			if _, err := other.send(step{"DeleteTable", map[string]any{"TableName": table}}); err != nil {
				t.Errorf("cleaning up: %v", err)
			}
		}()
		for _, s := range rapid.SliceOfN(programSteps(table), 1, 12).Draw(t, "program") {
			got, err := own.send(s)
			if err != nil {
				t.Fatal(err)
			}
			want, err := other.send(s)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(knownDifferences, func(d difference) bool { return d.covers(s, got, want) }) {
				return // from here on the two may hold different items
			}
			normalise(got)
			normalise(want)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%v\n own:   %v\n other: %v", s, compact(got), compact(want))
			}
		}
	})
}

func compact(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// difference is a request that the other server is known to response otherwise than the service's documentation says.
type difference struct {
	reason string
	covers func(s step, own, other map[string]any) bool
}

var knownDifferences = []difference{
	{"expressions are checked as a whole before an item is looked at, in transactions, too: operands of a wrong type, " +
		"overlapping paths and their like are a ValidationException whatever the items hold",
		func(_ step, own, _ map[string]any) bool {
			return strings.HasPrefix(fmt.Sprint(own["message"]), "Invalid ")
		}},
	{"a key condition has to have the type of the key",
		func(s step, own, _ map[string]any) bool {
			return s.Op == "Query" && strings.Contains(fmt.Sprint(own["message"]), "does not match schema type")
		}},
	{"UpdateItem with ALL_OLD answers no attributes when there was no item",
		func(s step, own, _ map[string]any) bool {
			return s.Op == "UpdateItem" && s.Body["ReturnValues"] == "ALL_OLD" && own["Attributes"] == nil
		}},
}

// normalise puts what has no order in order, the items of a scan, and forgets the texts of complaints: of
// several that a request deserves, either server may choose another. Exact texts are for the other tests.
func normalise(response map[string]any) {
	if response["__type"] == "com.amazon.coral.validate#ValidationException" {
		delete(response, "message")
	}
	causes, _ := response["CancellationReasons"].([]any)
	for _, c := range causes {
		if c, ok := c.(map[string]any); ok && c["Code"] == "ValidationError" {
			delete(c, "Message")
		}
	}
	order(response)
}

func order(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			order(e)
			if list, ok := e.([]any); ok && name == "Items" {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(compact(a), compact(b)) })
			}
		}
	case []any:
		for _, e := range v {
			order(e)
		}
	}
}

func differentialTable(name string) map[string]any {
	return map[string]any{
		"TableName":   name,
		"BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []map[string]string{
			{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"},
			{"AttributeName": "g", "AttributeType": "S"},
		},
		"KeySchema": differentialKey("id"),
		"GlobalSecondaryIndexes": []map[string]any{{
			"IndexName":  "by-g",
			"KeySchema":  differentialKey("g"),
			"Projection": map[string]any{"ProjectionType": "KEYS_ONLY"},
		}},
	}
}

func differentialKey(hash string) []map[string]string {
	return []map[string]string{{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}}
}

// Generators of parts of requests. They favor what makes sense, and leave room for what does not.

func attrValues(depth int) *rapid.Generator[map[string]any] {
	one := func(t string, values ...any) *rapid.Generator[map[string]any] {
		return rapid.Map(rapid.SampledFrom(values), func(v any) map[string]any { return map[string]any{t: v} })
	}
	gens := []*rapid.Generator[map[string]any]{
		one("S", "a", "ab", "", "b", "é"),
		one("N", "0", "1", "1.0", "-1", "10", "0.5", "99999999999999999999999999999999999999"),
		one("N", "1", "2", "3"),
		one("B", "", "AA==", "AAE="),
		one("BOOL", true, false),
		one("NULL", true),
	}
	if depth > 0 {
		gens = append(gens,
			rapid.Map(rapid.SliceOfN(attrValues(depth-1), 0, 3), func(l []map[string]any) map[string]any {
				return map[string]any{"L": l}
			}),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"x", "y"}), attrValues(depth-1), 0, 2),
				func(m map[string]map[string]any) map[string]any { return map[string]any{"M": m} }))
	}
	return rapid.OneOf(gens...)
}

func keys() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{
			"id": map[string]any{"S": rapid.SampledFrom([]string{"p", "q"}).Draw(t, "id")},
			"sk": map[string]any{"N": rapid.SampledFrom([]string{"1", "2", "10", "-1", "1.0"}).Draw(t, "sk")},
		}
	})
}

func items() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		it := keys().Draw(t, "key")
		for _, name := range []string{"a", "b", "c", "m", "l"} {
			if rapid.Bool().Draw(t, "has "+name) {
				it[name] = attrValues(2).Draw(t, name)
			}
		}
		if rapid.Bool().Draw(t, "indexed") {
			it["g"] = map[string]any{"S": rapid.SampledFrom([]string{"u", "v"}).Draw(t, "g")}
		}
		return it
	})
}

var (
	genPath = rapid.SampledFrom([]string{"a", "b", "c", "#a", "m", "l"})
	genVal  = rapid.SampledFrom([]string{":u", ":v", ":w"})
)

func operands() *rapid.Generator[string] {
	return rapid.OneOf(genPath, genVal, genVal)
}

func conditions(depth int) *rapid.Generator[string] {
	leaf := rapid.Custom(func(t *rapid.T) string {
		p, x, y := genPath.Draw(t, "path"), operands().Draw(t, "x"), operands().Draw(t, "y")
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return "attribute_exists(" + p + ")"
		case 1:
			return "attribute_not_exists(" + p + ")"
		case 2:
			return "attribute_type(" + p + ", :t)"
		case 3:
			return "begins_with(" + p + ", " + x + ")"
		case 4:
			return p + " BETWEEN " + x + " AND " + y
		default:
			return x + " " + rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "op") + " " + y
		}
	})
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) string {
		x, y := conditions(depth-1).Draw(t, "x"), conditions(depth-1).Draw(t, "y")
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			return x + " AND " + y
		case 1:
			return x + " or " + y
		case 2:
			return "NOT (" + x + " AND " + y + ")"
		default:
			return "(" + x + " OR " + y + ") AND NOT " + x
		}
	}))
}

func updates() *rapid.Generator[string] {
	operand := func(t *rapid.T, label string) string {
		p, v := genPath.Draw(t, label+" path"), genVal.Draw(t, label+" value")
		switch rapid.IntRange(0, 3).Draw(t, label) {
		case 0:
			return p
		case 1:
			return "if_not_exists(" + p + ", " + v + ")"
		case 2:
			return p + " + " + v
		default:
			return v
		}
	}
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		if rapid.IntRange(0, 3).Draw(t, "set") > 0 {
			s := "SET " + genPath.Draw(t, "p") + " = " + operand(t, "o")
			if rapid.Bool().Draw(t, "two") {
				s += ", " + genPath.Draw(t, "p2") + " = " + operand(t, "o2")
			}
			parts = append(parts, s)
		}
		for _, verb := range []string{"REMOVE", "ADD"} {
			if rapid.IntRange(0, 3).Draw(t, verb) > 0 {
				continue
			}
			s := verb + " " + genPath.Draw(t, "p")
			if verb != "REMOVE" {
				s += " " + genVal.Draw(t, "v")
			}
			parts = append(parts, s)
		}
		if parts == nil {
			parts = []string{"REMOVE a"}
		}
		return strings.Join(parts, " ")
	})
}

// withPlaceholders adds the placeholders that the expressions of a request mention.
func withPlaceholders(t *rapid.T, body map[string]any) map[string]any {
	var expressions []string
	for name, v := range body {
		if strings.HasSuffix(name, "Expression") {
			expressions = append(expressions, v.(string))
		}
	}
	source := strings.Join(expressions, " ")
	names, values := map[string]any{}, map[string]any{}
	if strings.Contains(source, "#a") {
		names["#a"] = "a"
	}
	for _, v := range []string{":u", ":v", ":w"} {
		if strings.Contains(source, v) {
			values[v] = attrValues(1).Draw(t, v)
		}
	}
	if strings.Contains(source, ":t") {
		values[":t"] = map[string]any{"S": rapid.SampledFrom([]string{"S", "N", "M", "L", "SS", "BOOL"}).Draw(t, ":t")}
	}
	if strings.Contains(source, ":k") {
		values[":k"] = map[string]any{"S": rapid.SampledFrom([]string{"p", "q", "u", "v"}).Draw(t, ":k")}
	}
	if strings.Contains(source, ":lo") {
		values[":lo"] = map[string]any{"N": rapid.SampledFrom([]string{"-1", "1", "2", "10"}).Draw(t, ":lo")}
	}
	if len(names) > 0 {
		body["ExpressionAttributeNames"] = names
	}
	if len(values) > 0 {
		body["ExpressionAttributeValues"] = values
	}
	return body
}

func programSteps(table string) *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		body := map[string]any{"TableName": table}
		maybe := func(name string, values ...any) {
			if rapid.Bool().Draw(t, "with "+name) {
				body[name] = rapid.SampledFrom(values).Draw(t, name)
			}
		}
		condition := func() {
			if rapid.Bool().Draw(t, "conditional") {
				body["ConditionExpression"] = conditions(2).Draw(t, "condition")
				maybe("ReturnValuesOnConditionCheckFailure", "ALL_OLD", "NONE")
			}
			maybe("ReturnConsumedCapacity", "TOTAL", "NONE")
		}
		switch rapid.IntRange(0, 9).Draw(t, "op") {
		case 0, 1:
			body["Item"] = items().Draw(t, "item")
			maybe("ReturnValues", "ALL_OLD", "NONE", "ALL_NEW")
			condition()
			return step{"PutItem", withPlaceholders(t, body)}
		case 2, 3, 4:
			body["Key"] = keys().Draw(t, "key")
			body["UpdateExpression"] = updates().Draw(t, "update")
			maybe("ReturnValues", "ALL_OLD", "NONE", "ALL_NEW")
			condition()
			return step{"UpdateItem", withPlaceholders(t, body)}
		case 5:
			body["Key"] = keys().Draw(t, "key")
			maybe("ReturnValues", "ALL_OLD", "NONE")
			condition()
			return step{"DeleteItem", withPlaceholders(t, body)}
		case 6:
			body["Key"] = keys().Draw(t, "key")
			maybe("ConsistentRead", true, false)
			maybe("ReturnConsumedCapacity", "TOTAL")
			return step{"GetItem", withPlaceholders(t, body)}
		case 7:
			body["KeyConditionExpression"] = rapid.SampledFrom([]string{"id = :k", "id = :k AND sk > :lo",
				"id = :k AND begins_with(sk, :k)",
				"sk = :lo", "id > :k", "id = :k AND a = :lo"}).Draw(t, "key condition")
			if rapid.Bool().Draw(t, "index") {
				body["IndexName"] = "by-g"
				body["KeyConditionExpression"] = strings.ReplaceAll(body["KeyConditionExpression"].(string), "id", "g")
			}
			if rapid.Bool().Draw(t, "filtered") {
				body["FilterExpression"] = conditions(1).Draw(t, "filter")
			}
			maybe("Limit", 1, 2)
			maybe("ScanIndexForward", true, false)
			maybe("ConsistentRead", true, false)
			maybe("ReturnConsumedCapacity", "TOTAL")
			return step{"Query", withPlaceholders(t, body)}
		case 8:
			if rapid.Bool().Draw(t, "filtered") {
				body["FilterExpression"] = conditions(1).Draw(t, "filter")
			}
			maybe("ConsistentRead", true, false)
			maybe("ReturnConsumedCapacity", "TOTAL")
			return step{"Scan", withPlaceholders(t, body)}
		default:
			return step{"TransactWriteItems", transaction(t, table)}
		}
	})
}

func transaction(t *rapid.T, table string) map[string]any {
	var list []any
	for range rapid.IntRange(1, 3).Draw(t, "writes") {
		part := map[string]any{"TableName": table}
		verb := rapid.SampledFrom([]string{"Put", "Update", "Delete", "ConditionCheck"}).Draw(t, "verb")
		if verb == "Put" {
			part["Item"] = items().Draw(t, "item")
		} else {
			part["Key"] = keys().Draw(t, "key")
		}
		if verb == "Update" {
			part["UpdateExpression"] = updates().Draw(t, "update")
		}
		if verb == "ConditionCheck" || rapid.Bool().Draw(t, "conditional") {
			part["ConditionExpression"] = conditions(1).Draw(t, "condition")
			if rapid.Bool().Draw(t, "show") {
				part["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
			}
		}
		list = append(list, map[string]any{verb: withPlaceholders(t, part)})
	}
	body := map[string]any{"TransactItems": list}
	if rapid.Bool().Draw(t, "capacity") {
		body["ReturnConsumedCapacity"] = "TOTAL"
	}
	return body
}
