package dynamodbtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// What set-up code asks for besides keys and indexes is kept and shown.
func TestTableSettings(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	in := locksTable()
	in.TableName, in.TableClass = aws.String("set-up"), types.TableClassStandardInfrequentAccess
	in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}, {Key: aws.String("cost"), Value: aws.String("")}}
	in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
	in.SSESpecification = &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms, KMSMasterKeyId: aws.String("alias/k")}
	if _, err := c.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	table := describe(t, c, "set-up")
	if table.TableClassSummary.TableClass != in.TableClass || !*table.StreamSpecification.StreamEnabled ||
		table.StreamSpecification.StreamViewType != "NEW_AND_OLD_IMAGES" || *table.LatestStreamLabel != "2026-01-02T03:04:05.000" ||
		*table.LatestStreamArn != *table.TableArn+"/stream/"+*table.LatestStreamLabel ||
		table.SSEDescription.Status != "ENABLED" || table.SSEDescription.SSEType != "KMS" || *table.SSEDescription.KMSMasterKeyArn != "alias/k" {
		t.Errorf("got %+v", table)
	}
	if got := tags(t, c, table.TableArn); got != "cost= team=a" {
		t.Errorf("tags %q", got)
	}
	plain := describe(t, c, "locks")
	if plain.TableClassSummary != nil || plain.StreamSpecification != nil || plain.LatestStreamArn != nil || plain.SSEDescription != nil {
		t.Errorf("a table without settings shows %+v", plain)
	}

	update := func(in *sdk.UpdateTableInput) error {
		in.TableName = aws.String("set-up")
		_, err := c.UpdateTable(t.Context(), in)
		return err
	}
	wantValidation(t, update(&sdk.UpdateTableInput{StreamSpecification: in.StreamSpecification}),
		"One or more parameter values were invalid: Table already has an enabled stream: TableName: set-up")
	if err := update(&sdk.UpdateTableInput{TableClass: "STANDARD", DeletionProtectionEnabled: aws.Bool(true),
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)},
		SSESpecification:    &types.SSESpecification{Enabled: aws.Bool(false)}}); err != nil {
		t.Fatal(err)
	}
	table = describe(t, c, "set-up")
	if table.TableClassSummary.TableClass != "STANDARD" || table.StreamSpecification != nil || table.SSEDescription != nil ||
		!*table.DeletionProtectionEnabled {
		t.Errorf("after the update: %+v", table)
	}
	wantValidation(t, update(&sdk.UpdateTableInput{StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)}}),
		"One or more parameter values were invalid: Table has no stream to disable: TableName: set-up")
	wantValidation(t, update(&sdk.UpdateTableInput{}), "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, "+
		"GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
}

func describe(t *testing.T, c *sdk.Client, name string) *types.TableDescription {
	t.Helper()
	out, err := c.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Table
}

func tags(t *testing.T, c *sdk.Client, arn *string) string {
	t.Helper()
	out, err := c.ListTagsOfResource(t.Context(), &sdk.ListTagsOfResourceInput{ResourceArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, tag := range out.Tags {
		list = append(list, *tag.Key+"="+*tag.Value)
	}
	return strings.Join(list, " ")
}

func TestTags(t *testing.T) {
	_, c := start(t, nil)
	arn := describe(t, c, "locks").TableArn
	add := func(pairs ...string) error {
		in := &sdk.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{}}
		for _, p := range pairs {
			key, value, _ := strings.Cut(p, "=")
			in.Tags = append(in.Tags, types.Tag{Key: &key, Value: &value})
		}
		_, err := c.TagResource(t.Context(), in)
		return err
	}
	if err := add("a=1", "b=2"); err != nil {
		t.Fatal(err)
	}
	if err := add("b=3"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UntagResource(t.Context(), &sdk.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a", "none"}}); err != nil {
		t.Fatal(err)
	}
	if got := tags(t, c, arn); got != "b=3" {
		t.Errorf("tags %q, want b=3", got)
	}
	wantValidation(t, add(), "Atleast one Tag needs to be provided as Input.")
	const bad = "One or more parameter values were invalid: "
	wantValidation(t, add("x=1", "x=2"), bad+"the tag x is given twice")
	wantValidation(t, add("=1"), bad+"a tag's key has from 1 to 128 characters, found 0")
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("k%d=v", i))
	}
	wantValidation(t, add(many...), bad+"a table has at most 50 tags, found 51")
	if err := add(many[:49]...); err != nil { // exactly 50
		t.Error(err)
	}
	_, err := c.ListTagsOfResource(t.Context(), &sdk.ListTagsOfResourceInput{ResourceArn: aws.String(*arn + "x")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("got %v", err)
	}
	_, err = c.ListTagsOfResource(t.Context(), &sdk.ListTagsOfResourceInput{ResourceArn: aws.String("locks")})
	wantValidation(t, err, "Invalid TableArn: Invalid ResourceArn provided as input locks")
}

// An index that is added later holds the items that were there before.
func TestUpdateTableIndexes(t *testing.T) {
	_, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("a"), "group": str("x")}, item{"id": str("b"), "group": str("x")}, item{"id": str("c")},
		item{"id": str("d"), "group": num("1")}) // of another type: not in the index
	update := func(definitions []types.AttributeDefinition, u ...types.GlobalSecondaryIndexUpdate) error {
		_, err := c.UpdateTable(t.Context(), &sdk.UpdateTableInput{TableName: aws.String("locks"), AttributeDefinitions: definitions,
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
	if table := describe(t, c, "locks"); len(table.AttributeDefinitions) != 2 || *table.GlobalSecondaryIndexes[0].ItemCount != 2 ||
		table.GlobalSecondaryIndexes[0].IndexStatus != "ACTIVE" {
		t.Errorf("got %+v", table)
	}
	const bad = "One or more parameter values were invalid: "
	wantValidation(t, update(nil, create("by-group", "group")), bad+"Duplicate index name: by-group")
	wantValidation(t, update(nil, create("by-other", "other")),
		bad+"Some index key attributes are not defined in AttributeDefinitions. Keys: [other], AttributeDefinitions: [id, group]")
	wantValidation(t, update(definitions("group", "N"), create("by-other", "group")), bad+"The type of the attribute group cannot change from S to N")
	wantValidation(t, update(nil, types.GlobalSecondaryIndexUpdate{}), bad+"One of Create, Update and Delete must be specified in each of GlobalSecondaryIndexUpdates")
	_, limit := errors.AsType[*types.LimitExceededException](update(definitions("h", "S", "i", "S"), create("by-h", "h"), create("by-i", "i")))
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

func TestUpdateTableBilling(t *testing.T) {
	_, c := start(t, nil)
	units := func(n int64) *types.ProvisionedThroughput {
		return &types.ProvisionedThroughput{ReadCapacityUnits: &n, WriteCapacityUnits: &n}
	}
	update := func(mode types.BillingMode, p *types.ProvisionedThroughput, indexes ...string) error {
		in := &sdk.UpdateTableInput{TableName: aws.String("events"), BillingMode: mode, ProvisionedThroughput: p}
		for _, name := range indexes {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, types.GlobalSecondaryIndexUpdate{
				Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: &name, ProvisionedThroughput: units(7)}})
		}
		_, err := c.UpdateTable(t.Context(), in)
		return err
	}
	const bad = "One or more parameter values were invalid: "
	wantValidation(t, update("", units(5)), bad+"Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	wantValidation(t, update("PROVISIONED", nil), bad+"ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	wantValidation(t, update("PROVISIONED", units(5)),
		bad+"ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED for index: by-state")
	if table := describe(t, c, "events"); table.BillingModeSummary == nil {
		t.Fatal("a rejected update changed the billing mode")
	}
	if err := update("PROVISIONED", units(5), "by-state", "by-state-note"); err != nil {
		t.Fatal(err)
	}
	table := describe(t, c, "events")
	if table.BillingModeSummary != nil || *table.ProvisionedThroughput.ReadCapacityUnits != 5 ||
		*table.GlobalSecondaryIndexes[0].ProvisionedThroughput.WriteCapacityUnits != 7 {
		t.Errorf("got %+v", table)
	}
	if err := update("", units(5)); !strings.Contains(fmt.Sprint(err), "The provisioned throughput for the table will not change.") {
		t.Errorf("got %v", err)
	}
	if err := update("", units(6)); err != nil {
		t.Error(err)
	}
	if err := update("PAY_PER_REQUEST", nil); err != nil {
		t.Fatal(err)
	}
	table = describe(t, c, "events")
	if table.BillingModeSummary.BillingMode != "PAY_PER_REQUEST" || *table.GlobalSecondaryIndexes[0].ProvisionedThroughput.ReadCapacityUnits != 0 {
		t.Errorf("got %+v", table)
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
		{"Query", `{"TableName":"a;","Limit":0,"ReturnConsumedCapacity":"X"}`, []string{name, "Value '0' at 'limit' " + atLeast1, capacity}},
		{"Scan", `{"TableName":"a;","Segment":-1,"TotalSegments":0}`, []string{name,
			"Value '-1' at 'segment' failed to satisfy constraint: Member must have value greater than or equal to 0",
			"Value '0' at 'totalSegments' " + atLeast1}},
		{"ListTables", `{"ExclusiveStartTableName":"a;","Limit":0}`, []string{
			strings.ReplaceAll(name, "tableName", "exclusiveStartTableName"), "Value '0' at 'limit' " + atLeast1}},
		{"ListTables", `{"Limit":101}`, []string{"Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100"}},
		{"BatchGetItem", `{"RequestItems":{"a;":{"Keys":[]}},"ReturnConsumedCapacity":"X"}`, []string{capacity, name,
			"Value '[]' at 'requestItems.a;.member.keys' failed to satisfy constraint: Member must have length greater than or equal to 1"}},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"abc"}},{"Update":{"TableName":"a;","Key":{}}}]}`, []string{
			"Value null at 'transactItems.1.member.put.item' failed to satisfy constraint: Member must not be null",
			strings.ReplaceAll(name, "tableName", "transactItems.2.member.update.tableName"),
			"Value null at 'transactItems.2.member.update.updateExpression' failed to satisfy constraint: Member must not be null"}},
		{"TransactGetItems", `{"TransactItems":[{},{"Get":{"TableName":"abc"}}]}`, []string{
			"Value null at 'transactItems.1.member.get' failed to satisfy constraint: Member must not be null",
			"Value null at 'transactItems.2.member.get.key' failed to satisfy constraint: Member must not be null"}},
		{"CreateTable", `{"TableName":"a;","BillingMode":"X","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"Q"}],"KeySchema":[],
			"ProvisionedThroughput":{"ReadCapacityUnits":0},"TableClass":"X"}`, []string{name,
			"Value '[]' at 'keySchema' failed to satisfy constraint: Member must have length greater than or equal to 1",
			"Value 'Q' at 'attributeDefinitions.1.member.attributeType' failed to satisfy constraint: Member must satisfy enum value set: [B, N, S]",
			"Value 'X' at 'billingMode' failed to satisfy constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]",
			"Value null at 'provisionedThroughput.writeCapacityUnits' failed to satisfy constraint: Member must not be null",
			"Value '0' at 'provisionedThroughput.readCapacityUnits' " + atLeast1,
			"Value 'X' at 'tableClass' failed to satisfy constraint: Member must satisfy enum value set: [STANDARD, STANDARD_INFREQUENT_ACCESS]"}},
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
	_, err := c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get, other, get}})
	wantValidation(t, err, "Transaction request cannot include multiple operations on one item")
	if _, err := c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get, other}}); err != nil {
		t.Error(err)
	}
}
