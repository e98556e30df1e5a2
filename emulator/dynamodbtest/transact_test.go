package dynamodbtest_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

func txPut(it item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: aws.String("locks"), Item: it}}
}

func txAdd(id string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: aws.String("locks"), Key: item{"id": str(id)},
		UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: item{":one": num("1")}}}
}

func txDelete(id string) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("locks"), Key: item{"id": str(id)}}}
}

func txCheck(id, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: aws.String("locks"),
		Key: item{"id": str(id)}, ConditionExpression: &condition,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}}
}

func transact(t *testing.T, c *sdk.Client, token string, items ...types.TransactWriteItem) (
	*sdk.TransactWriteItemsOutput, error) {
	t.Helper()
	in := &sdk.TransactWriteItemsInput{TransactItems: items, ReturnConsumedCapacity: "TOTAL"}
	if token != "" {
		in.ClientRequestToken = &token
	}
	return c.TransactWriteItems(t.Context(), in)
}

// wantCanceled expects a canceled transaction with the codes given.
func wantCanceled(t *testing.T, err error, codes ...string) []types.CancellationReason {
	t.Helper()
	failed, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		t.Fatalf("got %v, want TransactionCanceledException", err)
	}
	var got []string
	for _, r := range failed.CancellationReasons {
		got = append(got, aws.ToString(r.Code))
	}
	if !reflect.DeepEqual(got, codes) {
		t.Errorf("got %v, want %v", got, codes)
	}
	want := "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") +
		"]"
	if failed.ErrorMessage() != want {
		t.Errorf("got %s", failed.ErrorMessage())
	}
	return failed.CancellationReasons
}

func TestTransactWrite(t *testing.T) {
	_, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("old")}, item{"id": str("counter"), "n": num("1")},
		item{"id": str("guard"), "ok": num("1")})
	out, err := transact(t, c, "", txPut(item{"id": str("new")}), txAdd("counter"), txDelete("old"),
		txCheck("guard", "attribute_exists(ok)"))
	if err != nil {
		t.Fatal(err)
	}
	used := out.ConsumedCapacity
	if len(used) != 1 || *used[0].CapacityUnits != 8 || *used[0].WriteCapacityUnits != 8 ||
		used[0].ReadCapacityUnits != nil {
		t.Errorf("consumed %+v", used)
	}
	wantItem(t, get(t, c, item{"id": str("new")}), item{"id": str("new")})
	wantItem(t, get(t, c, item{"id": str("counter")}), item{"id": str("counter"), "n": num("2")})
	wantItem(t, get(t, c, item{"id": str("old")}), nil)
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	s, c := start(t, nil)
	guard := item{"id": str("guard"), "owner": str("x")}
	mustPut(t, c, "locks", guard, item{"id": str("text"), "n": str("x")})
	s.ResetCounts()
	_, err := transact(t, c, "", txAdd("counter"), txCheck("guard", "attribute_not_exists(id)"), txAdd("text"))
	reasons := wantCanceled(t, err, "None", "ConditionalCheckFailed", "ValidationError")
	wantItem(t, reasons[1].Item, guard)
	if got := aws.ToString(reasons[1].Message); got != "The conditional request failed" {
		t.Errorf("got %s", got)
	}
	if got := aws.ToString(reasons[2].Message); got != "An operand in the update expression has an incorrect data type" {
		t.Errorf("got %s", got)
	}
	if reasons[0].Message != nil || reasons[0].Item != nil {
		t.Errorf("got %+v", reasons[0])
	}
	wantItem(t, get(t, c, item{"id": str("counter")}), nil)
	if got, want := s.Consumed(), (dynamodbtest.Units{Read: 1, Write: 6}); got != want {
		t.Errorf("consumed %v, want %v", got, want)
	}
}

func TestTransactErrors(t *testing.T) {
	_, c := start(t, nil)
	_, err := transact(t, c, "", txAdd("a"), txDelete("a"))
	wantValidation(t, err, "Transaction request cannot include multiple operations on one item")
	_, err = transact(t, c, "", txAdd("a"), types.TransactWriteItem{})
	wantValidation(t, err, "TransactItems can only contain one of Check, Put, Update or Delete")
	both := txAdd("a")
	both.Delete = txDelete("a").Delete
	_, err = transact(t, c, "", both)
	wantValidation(t, err, "TransactItems can only contain one of Check, Put, Update or Delete")
	_, err = transact(t, c, "", txAdd("a"), txCheck("b", "status = n"))
	wantValidation(t, err, "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: status")
	_, err = transact(t, c, "", txAdd("a"), txPut(item{"key": str("b")}))
	wantCanceled(t, err, "None", "ValidationError")
	gone := txDelete("a")
	gone.Delete.TableName = aws.String("none")
	_, err = transact(t, c, "", txAdd("b"), gone)
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("got %v", err)
	}
	var many []types.TransactWriteItem
	for i := range 101 {
		many = append(many, txAdd(strconv.Itoa(i)))
	}
	_, err = transact(t, c, "", many...)
	wantValidation(t, err, "1 validation error detected: Value '[...]' at 'transactItems' failed to satisfy constraint: "+
		"Member must have length less than or equal to 100")
	if _, err = transact(t, c, "", many[:100]...); err != nil {
		t.Error(err)
	}
	var large []types.TransactWriteItem
	for i := range 11 {
		large = append(large, txPut(item{"id": str(fmt.Sprint("large", i)), "x": str(strings.Repeat("x", 390*1024))}))
	}
	_, err = transact(t, c, "", large...)
	wantValidation(t, err,
		"Collection size of items exceeded, which can also be caused by the aggregate size of the items "+
			"in the transaction exceeding the 4MB limit")
}

func TestClientRequestToken(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	_, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	n := func() string {
		t.Helper()
		it := get(t, c, item{"id": str("a")})
		if it == nil {
			return "none"
		}
		return it["n"].(*types.AttributeValueMemberN).Value
	}
	if _, err := transact(t, c, "token", txAdd("a"), txCheck("a2", "attribute_exists(id)")); err == nil {
		t.Fatal("the condition does not hold")
	}
	if _, err := transact(t, c, "token", txAdd("a")); err != nil { // what was canceled left no trace
		t.Fatal(err)
	}
	now = now.Add(10*time.Minute - time.Nanosecond)
	out, err := transact(t, c, "token", txAdd("a"))
	if err != nil {
		t.Fatal(err)
	}
	if got := n(); got != "1" {
		t.Errorf("a replay made it %s", got)
	}
	if used := out.ConsumedCapacity[0]; *used.ReadCapacityUnits != 2 || used.WriteCapacityUnits != nil {
		t.Errorf("a replay consumed %+v", used)
	}
	two := txAdd("a")
	two.Update.ExpressionAttributeValues = item{":one": num("2")}
	checked := txAdd("a")
	checked.Update.ConditionExpression = aws.String("attribute_exists(id)")
	for _, other := range []types.TransactWriteItem{txAdd("b"), two, checked} {
		_, err = transact(t, c, "token", other)
		if _, ok := errors.AsType[*types.IdempotentParameterMismatchException](err); !ok {
			t.Errorf("got %v", err)
		}
	}
	now = now.Add(time.Nanosecond)
	if _, err = transact(t, c, "token", txAdd("a")); err != nil {
		t.Fatal(err)
	}
	if got := n(); got != "2" {
		t.Errorf("after ten minutes: %s", got)
	}
	_, err = transact(t, c, strings.Repeat("x", 37), txAdd("a"))
	wantValidation(t, err, "1 validation error detected: Value '"+strings.Repeat("x", 37)+"' at 'clientRequestToken' "+
		"failed to satisfy constraint: Member must have length less than or equal to 36")
}

func TestTransactGet(t *testing.T) {
	_, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("a"), "x": num("1"), "y": num("2")})
	read := func(key item) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: aws.String("locks"), Key: key}}
	}
	out, err := c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{ReturnConsumedCapacity: "TOTAL",
		TransactItems: []types.TransactGetItem{read(item{"id": str("a")}), read(item{"id": str("none")})}})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, out.Responses[0].Item, item{"id": str("a"), "x": num("1"), "y": num("2")})
	wantItem(t, out.Responses[1].Item, nil)
	if used := out.ConsumedCapacity[0]; *used.CapacityUnits != 4 || *used.ReadCapacityUnits != 4 {
		t.Errorf("consumed %+v", used)
	}
	_, err = c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{read(item{"id": str("a")}), read(item{"id": num("1")})}})
	wantCanceled(t, err, "None", "ValidationError")
}
