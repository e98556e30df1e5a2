package dynamodbtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func describe(t *testing.T, c *sdk.Client, name string) *types.TableDescription {
	t.Helper()
	out, err := c.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Table
}

// An index that is added later holds the items that were there before.
func TestUpdateTableIndexes(t *testing.T) {
	_, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("a"), "group": str("x")}, item{"id": str("b"), "group": str("x")},
		item{"id": str("c")},
		item{"id": str("d"), "group": num("1")}) // of another type: not in the index
	update := func(definitions []types.AttributeDefinition, u ...types.GlobalSecondaryIndexUpdate) error {
		_, err := c.UpdateTable(t.Context(), &sdk.UpdateTableInput{TableName: aws.String("locks"),
			AttributeDefinitions:        definitions,
			GlobalSecondaryIndexUpdates: u})
		return err
	}
	create := func(name, key string) types.GlobalSecondaryIndexUpdate {
		return types.GlobalSecondaryIndexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{IndexName: &name,
			KeySchema: keySchema(key), Projection: &types.Projection{ProjectionType: "ALL"}}}
	}
	remove := func(name string) types.GlobalSecondaryIndexUpdate {
		return types.GlobalSecondaryIndexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}
	}
	if err := update(definitions("id", "S", "group", "S"), create("by-group", "group")); err != nil {
		t.Fatal(err)
	}
	found := func() []string {
		t.Helper()
		out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("locks"), IndexName: aws.String("by-group"),
			KeyConditionExpression:   aws.String("#g = :x"),
			ExpressionAttributeNames: map[string]string{"#g": "group"}, ExpressionAttributeValues: item{":x": str("x")}})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range out.Items {
			ids = append(ids, i["id"].(*types.AttributeValueMemberS).Value)
		}
		return ids
	}
	if got := found(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("found %q", got)
	}
	mustPut(t, c, "locks", item{"id": str("d"), "group": str("x")}, item{"id": str("a")})
	if got := found(); !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("after writes found %q", got)
	}
	if table := describe(t, c, "locks"); len(table.AttributeDefinitions) != 2 ||
		*table.GlobalSecondaryIndexes[0].ItemCount != 2 ||
		table.GlobalSecondaryIndexes[0].IndexStatus != "ACTIVE" {
		t.Errorf("got %+v", table)
	}
	const bad = "One or more parameter values were invalid: "
	wantValidation(t, update(nil, create("by-group", "group")), bad+"Duplicate index name: by-group")
	wantValidation(t, update(nil, create("by-other", "other")),
		bad+
			"Some index key attributes are not defined in AttributeDefinitions. Keys: [other], AttributeDefinitions: [id, group]")
	wantValidation(t, update(definitions("group", "N"), create("by-other", "group")),
		bad+"The type of the attribute group cannot change from S to N")
	wantValidation(t, update(nil),
		"emulator/dynamodbtest does not support UpdateTable without GlobalSecondaryIndexUpdates")
	wantValidation(t, update(nil, types.GlobalSecondaryIndexUpdate{}),
		bad+"One of Create, Update and Delete must be specified in each of GlobalSecondaryIndexUpdates")
	_, limit := errors.AsType[*types.LimitExceededException](
		update(definitions("h", "S", "i", "S"), create("by-h", "h"), create("by-i", "i")))
	_, missing := errors.AsType[*types.ResourceNotFoundException](update(nil, remove("none")))
	if !limit || !missing {
		t.Errorf("two at once: limit exceeded is %t; one that is not there: not found is %t", limit, missing)
	}
	if err := update(nil, remove("by-group")); err != nil {
		t.Fatal(err)
	}
	if table := describe(t, c, "locks"); len(table.AttributeDefinitions) != 1 || len(table.GlobalSecondaryIndexes) != 0 {
		t.Errorf("after the deletion: %+v", table) // and what failed left nothing behind
	}
}

// Everything that is wrong with single members is reported at once, as the service does.
func TestConstraintsAreReportedTogether(t *testing.T) {
	s, _ := start(t, nil)
	const (
		name     = "Value 'a;' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
		capacity = "Value 'X' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
		noKey    = "Value null at 'key' failed to satisfy constraint: Member must not be null"
		atLeast1 = "failed to satisfy constraint: Member must have value greater than or equal to 1"
	)
	for _, test := range []struct {
		op, body string
		want     []string
	}{
		{"GetItem", `{}`, []string{noKey, "Value null at 'tableName' failed to satisfy constraint: Member must not be null"}},
		{"GetItem", `{"TableName":"a;","ReturnConsumedCapacity":"X"}`, []string{noKey, name, capacity}},
		{"PutItem", `{"TableName":"a;","ReturnConsumedCapacity":"X","ReturnValues":"ALL_NEW"}`,
			[]string{"Value null at 'item' failed to satisfy constraint: Member must not be null", name, capacity}},
		{"DeleteItem", `{"TableName":"abc","ReturnConsumedCapacity":"X"}`, []string{noKey, capacity}},
		{"UpdateItem", `{"TableName":"a;","ReturnConsumedCapacity":"X"}`, []string{noKey, name, capacity}},
		{"Query", `{"TableName":"a;","Limit":0,"ReturnConsumedCapacity":"X"}`,
			[]string{name, "Value '0' at 'limit' " + atLeast1, capacity}},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"abc"}},{"Update":{"TableName":"a;","Key":{}}}]}`,
			[]string{
				"Value null at 'transactItems.1.member.put.item' failed to satisfy constraint: Member must not be null",
				strings.ReplaceAll(name, "tableName", "transactItems.2.member.update.tableName"),
				"Value null at 'transactItems.2.member.update.updateExpression' failed to satisfy constraint: Member must not be null"}},
		{"TransactGetItems", `{"TransactItems":[{},{"Get":{"TableName":"abc"}}]}`, []string{
			"Value null at 'transactItems.1.member.get' failed to satisfy constraint: Member must not be null",
			"Value null at 'transactItems.2.member.get.key' failed to satisfy constraint: Member must not be null"}},
		{"CreateTable", `{"TableName":"a;","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"Q"}],"KeySchema":[]}`,
			[]string{name,
				"Value '[]' at 'keySchema' failed to satisfy constraint: Member must have length greater than or equal to 1",
				"Value 'Q' at 'attributeDefinitions.1.member.attributeType' failed to satisfy constraint: Member must satisfy enum value set: [B, N, S]"}},
		{"UpdateTimeToLive", `{"TableName":"a;","TimeToLiveSpecification":{}}`, []string{name,
			"Value null at 'timeToLiveSpecification.attributeName' failed to satisfy constraint: Member must not be null",
			"Value null at 'timeToLiveSpecification.enabled' failed to satisfy constraint: Member must not be null"}},
	} {
		response, err := endpoint{s.URL, http.DefaultClient}.send(step{test.op, decodeJSON(t, test.body)})
		if err != nil {
			t.Fatal(err)
		}
		plural := map[bool]string{true: "s"}[len(test.want) > 1]
		want := fmt.Sprintf("%d validation error%s detected: %s", len(test.want), plural, strings.Join(test.want, "; "))
		if response["message"] != want {
			t.Errorf("%s %s\ngot  %v\nwant %s", test.op, test.body, response["message"], want)
		}
	}
}

func decodeJSON(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTransactGetItemsOneKeyTwice(t *testing.T) {
	_, c := start(t, nil)
	get := types.TransactGetItem{Get: &types.Get{TableName: aws.String("locks"), Key: item{"id": str("a")}}}
	other := types.TransactGetItem{Get: &types.Get{TableName: aws.String("locks"), Key: item{"id": str("b")}}}
	_, err := c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{get, other, get}})
	wantValidation(t, err, "Transaction request cannot include multiple operations on one item")
	if _, err := c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{get, other}}); err != nil {
		t.Error(err)
	}
}
