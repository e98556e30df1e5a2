package dynamodbtest_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// wantValidation expects a ValidationException with a text.
func wantValidation(t *testing.T, err error, text string) {
	t.Helper()
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != "ValidationException" || api.ErrorMessage() != text {
		t.Errorf("got  %v\nwant ValidationException: %s", err, text)
	}
}

func wantItem(t *testing.T, got, want item) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", show(got), show(want))
	}
}

func show(it item) string {
	var b strings.Builder
	for _, name := range sortedNames(it) {
		fmt.Fprintf(&b, "%s:%+v ", name, reflect.ValueOf(it[name]).Elem())
	}
	return b.String()
}

func TestItemRoundTrip(t *testing.T) {
	_, c := start(t, nil)
	it := item{
		"id":   str("all"),
		"s":    str(""),
		"n":    num("12345678901234567890123456789012345678"),
		"b":    &types.AttributeValueMemberB{Value: []byte{0, 1, 2}},
		"bool": &types.AttributeValueMemberBOOL{Value: false},
		"null": &types.AttributeValueMemberNULL{Value: true},
		"l":    &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1"), str("x")}},
		"m": &types.AttributeValueMemberM{
			Value: item{"deep": &types.AttributeValueMemberM{Value: item{"é": num("-0.5")}}}},
	}
	mustPut(t, c, "locks", it)
	wantItem(t, get(t, c, item{"id": str("all")}), it)
	if gone := get(t, c, item{"id": str("none")}); gone != nil {
		t.Errorf("got %v, want no item", gone)
	}
	mustPut(t, c, "locks", item{"id": str("n"), "n": num("1.0")})
	wantItem(t, get(t, c, item{"id": str("n")}), item{"id": str("n"), "n": num("1")})
}

func TestReturnValues(t *testing.T) {
	_, c := start(t, nil)
	before := item{"id": str("a"), "n": num("1"), "keep": str("k")}
	after := item{"id": str("a"), "n": num("2"), "keep": str("k"), "fresh": str("f")}
	for value, want := range map[types.ReturnValue]item{
		"":        nil,
		"NONE":    nil,
		"ALL_OLD": before,
		"ALL_NEW": after,
	} {
		mustPut(t, c, "locks", before)
		out, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
			UpdateExpression:          aws.String("SET n = n + :one, fresh = :f"),
			ExpressionAttributeValues: item{":one": num("1"), ":f": str("f")}, ReturnValues: value})
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		wantItem(t, out.Attributes, want)
	}
	put, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: before,
		ReturnValues: "ALL_OLD"})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, put.Attributes, after)
	del, err := c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ReturnValues: "ALL_OLD"})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, del.Attributes, before)
	_, err = c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ReturnValues: "ALL_NEW"})
	wantValidation(t, err, "ReturnValues can only be ALL_OLD or NONE")
	_, err = c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: before, ReturnValues: "SOME"})
	wantValidation(t, err, "1 validation error detected: Value 'SOME' at 'returnValues' failed to satisfy constraint: "+
		"Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]")
}

func TestUpdateCreates(t *testing.T) {
	_, c := start(t, nil)
	out, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		UpdateExpression: aws.String("ADD hits :one"), ExpressionAttributeValues: item{":one": num("1")},
		ReturnValues: "ALL_NEW"})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, out.Attributes, item{"id": str("a"), "hits": num("1")})
	if _, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"),
		Key: item{"id": str("bare")}}); err != nil {
		t.Fatal(err)
	}
	wantItem(t, get(t, c, item{"id": str("bare")}), item{"id": str("bare")})
}

func TestFailedCondition(t *testing.T) {
	_, c := start(t, nil)
	it := item{"id": str("a"), "owner": str("x")}
	mustPut(t, c, "locks", it)
	table, key, condition := aws.String("locks"), item{"id": str("a")}, aws.String("attribute_not_exists(id)")
	for _, show := range []types.ReturnValuesOnConditionCheckFailure{"", "NONE", "ALL_OLD"} {
		calls := map[string]func() error{
			"put": func() error {
				_, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: table, Item: item{"id": str("a"), "owner": str("y")},
					ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: show})
				return err
			},
			"update": func() error {
				_, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: table, Key: key,
					UpdateExpression: aws.String("REMOVE #o"), ExpressionAttributeNames: map[string]string{"#o": "owner"},
					ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: show})
				return err
			},
			"delete": func() error {
				_, err := c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: table, Key: key,
					ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: show})
				return err
			},
		}
		for name, call := range calls {
			err := call()
			failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			if !ok || failed.ErrorMessage() != "The conditional request failed" {
				t.Errorf("%s: got %v", name, err)
				continue
			}
			if show == "ALL_OLD" {
				wantItem(t, failed.Item, it)
			} else if failed.Item != nil {
				t.Errorf("%s: got the item without asking", name)
			}
		}
	}
	wantItem(t, get(t, c, key), it)
}

func TestItemErrors(t *testing.T) {
	_, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("a"), "s": str("x")})
	put := func(table string, it item) func() error {
		return func() error {
			_, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: it})
			return err
		}
	}
	read := func(key item) func() error {
		return func() error {
			_, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("events"), Key: key})
			return err
		}
	}
	update := func(source string, values item) func() error {
		return func() error {
			_, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
				UpdateExpression: &source, ExpressionAttributeValues: values})
			return err
		}
	}
	const emptyKey = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: id"
	for _, test := range []struct {
		name string
		call func() error
		want string
	}{
		{"key missing", put("locks", item{"x": num("1")}),
			"One or more parameter values were invalid: Missing the key id in the item"},
		{"key of another type", put("locks", item{"id": num("1")}),
			"One or more parameter values were invalid: Type mismatch for key id expected: S actual: N"},
		{"empty key", put("locks", item{"id": str("")}), emptyKey},
		{"hash key too long", put("locks", item{"id": str(strings.Repeat("x", 2049))}),
			"One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"item too large", put("locks", item{"id": str("a"), "x": str(strings.Repeat("x", 400*1024))}),
			"Item size has exceeded the maximum allowed size"},
		{"index key of another type", put("events", item{"id": str("a"), "seq": num("1"), "state": num("1")}),
			"One or more parameter values were invalid: Type mismatch for Index Key state Expected: S Actual: N IndexName: by-state"},
		{"empty index key", put("events", item{"id": str("a"), "seq": num("1"), "state": str("")}),
			"One or more parameter values are not valid. A value specified for a secondary index key is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: by-state, IndexKey: state"},
		{"bad number", put("locks", item{"id": str("a"), "n": num("one")}),
			"The parameter cannot be converted to a numeric value: one"},
		{"set", put("locks", item{"id": str("a"), "ss": &types.AttributeValueMemberSS{Value: []string{"a"}}}),
			"emulator/dynamodbtest does not support sets"},
		{"read with half a key", read(item{"id": str("a")}), "The provided key element does not match the schema"},
		{"read with a key too many", read(item{"id": str("a"), "seq": num("1"), "x": num("1")}),
			"The provided key element does not match the schema"},
		{"read with a key of another type", read(item{"id": str("a"), "seq": str("1")}),
			"The provided key element does not match the schema"},
		{"read with an empty key", read(item{"id": str(""), "seq": num("1")}), emptyKey},
		{"update of the key", update("SET id = :v", item{":v": str("b")}),
			"One or more parameter values were invalid: Cannot update attribute id. This attribute is part of the key"},
		{"update grows too large", update("SET x = :v", item{":v": str(strings.Repeat("x", 400*1024))}),
			"Item size to update has exceeded the maximum allowed size"},
		{"unused value", update("REMOVE x", item{":v": str("b"), ":w": num("1")}),
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {:v, :w}"},
		{"syntax", update("SET x", nil), `Invalid UpdateExpression: Syntax error; token: "<EOF>", near: "x"`},
		{"operand", update("SET s = s + :v", item{":v": num("1")}),
			"An operand in the update expression has an incorrect data type"},
		{"placeholder's name", update("SET x = :v", item{":v": num("1"), "w": num("1")}),
			`ExpressionAttributeValues contains invalid key: Syntax error; key: "w"`},
		{"placeholder's value", update("SET x = :v", item{":v": num("x")}),
			"ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value: x for key :v"},
	} {
		t.Run(test.name, func(t *testing.T) { wantValidation(t, test.call(), test.want) })
	}
}

func TestPlaceholdersWithoutExpressions(t *testing.T) {
	_, c := start(t, nil)
	_, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str("a")},
		ExpressionAttributeNames: map[string]string{"#a": "a"}})
	wantValidation(t, err, "ExpressionAttributeNames can only be specified when using expressions")
	_, err = c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str("a")},
		ExpressionAttributeValues: item{":a": num("1")}})
	wantValidation(t, err,
		"ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null")
	_, err = c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ExpressionAttributeValues: item{":a": num("1")}})
	wantValidation(t, err,
		"ExpressionAttributeValues can only be specified when using expressions: UpdateExpression and ConditionExpression are null")
	_, err = c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str("a")},
		ConditionExpression: aws.String("a = :x"), ExpressionAttributeValues: item{}})
	wantValidation(t, err, "ExpressionAttributeValues must not be empty")
}

func TestMissingTable(t *testing.T) {
	_, c := start(t, nil)
	_, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("none"), Key: item{"id": str("a")}})
	missing, ok := errors.AsType[*types.ResourceNotFoundException](err)
	if !ok || missing.ErrorMessage() != "Requested resource not found" {
		t.Errorf("got %v", err)
	}
	_, err = c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("x"), Key: item{"id": str("a")}})
	wantValidation(t, err, "TableName must be at least 3 characters long and at most 255 characters long")
	_, err = c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("a b c"), Key: item{"id": str("a")}})
	wantValidation(t, err, "1 validation error detected: Value 'a b c' at 'tableName' failed to satisfy constraint: "+
		"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
}

// TestNotSupported: what the service has and this server has not is rejected by name, and changes nothing.
func TestNotSupported(t *testing.T) {
	_, c := start(t, nil)
	_, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str("a")},
		Expected: map[string]types.ExpectedAttributeValue{"id": {Exists: aws.Bool(false)}}})
	wantValidation(t, err, "emulator/dynamodbtest does not support the member Expected of this request")
	_, err = c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str("a")},
		ReturnItemCollectionMetrics: "SIZE"})
	wantValidation(t, err, "emulator/dynamodbtest does not support ReturnItemCollectionMetrics SIZE")
	_, err = c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ReturnValues: "UPDATED_NEW"})
	wantValidation(t, err, "emulator/dynamodbtest does not support ReturnValues UPDATED_NEW")
	_, err = c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ReturnConsumedCapacity: "INDEXES"})
	wantValidation(t, err, "emulator/dynamodbtest does not support ReturnConsumedCapacity INDEXES")
	_, err = c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("locks"), Key: item{"id": str("a")},
		ProjectionExpression: aws.String("id")})
	wantValidation(t, err, "emulator/dynamodbtest does not support the member ProjectionExpression of this request")
	_, err = c.DescribeLimits(t.Context(), &sdk.DescribeLimitsInput{})
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != "UnknownOperationException" ||
		api.ErrorMessage() != "emulator/dynamodbtest does not support the operation DescribeLimits" {
		t.Errorf("got %v", err)
	}
	if get(t, c, item{"id": str("a")}) != nil {
		t.Error("a refused request was applied")
	}
}

func TestCapacity(t *testing.T) {
	s, c := start(t, nil)
	kilobytes := func(n int) types.AttributeValue { return str(strings.Repeat("x", n*1024-20)) }
	update := func(key item, source string, values item) float64 {
		t.Helper()
		out, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: key,
			UpdateExpression: &source, ExpressionAttributeValues: values, ReturnConsumedCapacity: "TOTAL"})
		if err != nil {
			t.Fatal(err)
		}
		return *out.ConsumedCapacity.CapacityUnits
	}
	read := func(key item, consistent bool) float64 {
		t.Helper()
		out, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("locks"), Key: key,
			ConsistentRead: &consistent, ReturnConsumedCapacity: "TOTAL"})
		if err != nil {
			t.Fatal(err)
		}
		return *out.ConsumedCapacity.CapacityUnits
	}
	key := item{"id": str("a")}
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"small write", update(key, "SET x = :v", item{":v": str("small")}), 1},
		{"growing write", update(key, "SET x = :v", item{":v": kilobytes(5)}), 5},
		{"consistent read of 5 KB", read(key, true), 2},
		{"eventual read of 5 KB", read(key, false), 1},
		{"shrinking write pays for the item before", update(key, "SET x = :v", item{":v": str("small")}), 5},
		{"consistent read", read(key, true), 1},
		{"eventual read", read(key, false), 0.5},
		{"consistent read of nothing", read(item{"id": str("none")}, true), 1},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
	if got, want := s.Consumed(), (dynamodbtest.Units{Read: 5.5, Write: 11}); got != want {
		t.Errorf("consumed %v, want %v", got, want)
	}

	s.ResetCounts()
	mustPut(t, c, "locks", item{"id": str("big"), "x": kilobytes(3)})
	_, err := c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("locks"), Key: item{"id": str("big")},
		ConditionExpression: aws.String("attribute_not_exists(id)")})
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok {
		t.Fatal(err)
	}
	if got, want := s.Consumed(), (dynamodbtest.Units{Write: 6}); got != want {
		t.Errorf("with a refused write consumed %v, want %v", got, want)
	}
}

func TestIndexCapacity(t *testing.T) {
	_, c := start(t, nil)
	check := func(name string, it item, want float64) {
		t.Helper()
		out, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("events"), Item: it,
			ReturnConsumedCapacity: "TOTAL"})
		if err != nil {
			t.Fatal(err)
		}
		if got := *out.ConsumedCapacity.CapacityUnits; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	it := item{"id": str("a"), "seq": num("1")}
	check("in no index", it, 1)
	it["state"] = str("open")
	check("into two indexes", it, 3)
	check("nothing changes", it, 1)
	it["other"] = str("held by one of them")
	check("what one of them holds", it, 2)
	it["state"] = str("done")
	check("another key is two writes", it, 5)
}

// TestConcurrentIncrements counts with conditional writes from many goroutines and loses nothing.
func TestConcurrentIncrements(t *testing.T) {
	const workers, rounds = 8, 25
	s, c := start(t, nil)
	key := item{"id": str("counter")}
	mustPut(t, c, "locks", item{"id": str("counter"), "n": num("0")})
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for range rounds {
				if err := increment(t, c, key); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	wantItem(t, get(t, c, key), item{"id": str("counter"), "n": num(strconv.Itoa(workers * rounds))})
	if n := s.Count("UpdateItem"); n < workers*rounds {
		t.Errorf("%d requests for %d increments", n, workers*rounds)
	}
}

// increment reads a counter and writes its successor on condition that no one else has, until that succeeds.
func increment(t *testing.T, c *sdk.Client, key item) error {
	for {
		out, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("locks"), Key: key,
			ConsistentRead: aws.Bool(true)})
		if err != nil {
			return err
		}
		_, err = c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("locks"), Key: key,
			UpdateExpression: aws.String("SET n = n + :one"), ConditionExpression: aws.String("n = :seen"),
			ExpressionAttributeValues: item{":one": num("1"), ":seen": out.Item["n"]}})
		if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); !lost {
			return err
		}
	}
}
