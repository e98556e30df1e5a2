package dynamodbtest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// connect returns a client of the real SDK that tries each request once.
func connect(url string, more ...func(*sdk.Options)) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:           "eu-north-1",
		Credentials:      credentials.NewStaticCredentialsProvider("key", "secret", ""),
		BaseEndpoint:     aws.String(url),
		RetryMaxAttempts: 1,
	}, more...)
}

// start returns a server with the tables "locks" (hash key id) and "events" (keys id and seq, with indexes), and a
// client of it.
func start(t *testing.T, opts *dynamodbtest.Options) (*dynamodbtest.Server, *sdk.Client) {
	t.Helper()
	s := dynamodbtest.Start(t, opts)
	c := connect(s.URL)
	for _, in := range []*sdk.CreateTableInput{locksTable(), eventsTable()} {
		if _, err := c.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	s.ResetCounts()
	return s, c
}

func locksTable() *sdk.CreateTableInput {
	return &sdk.CreateTableInput{
		TableName:            aws.String("locks"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: definitions("id", "S"),
		KeySchema:            keySchema("id"),
	}
}

func eventsTable() *sdk.CreateTableInput {
	return &sdk.CreateTableInput{
		TableName:            aws.String("events"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: definitions("id", "S", "seq", "N", "state", "S"),
		KeySchema:            keySchema("id", "seq"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("by-state"), KeySchema: keySchema("state", "seq"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}},
			{IndexName: aws.String("whole-by-state"), KeySchema: keySchema("state"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}},
		},
	}
}

func definitions(namesAndTypes ...string) []types.AttributeDefinition {
	var out []types.AttributeDefinition
	for pair := range slices.Chunk(namesAndTypes, 2) {
		out = append(out, types.AttributeDefinition{
			AttributeName: aws.String(pair[0]), AttributeType: types.ScalarAttributeType(pair[1])})
	}
	return out
}

func keySchema(names ...string) []types.KeySchemaElement {
	var out []types.KeySchemaElement
	for i, name := range names {
		out = append(out, types.KeySchemaElement{
			AttributeName: aws.String(name), KeyType: []types.KeyType{"HASH", "RANGE"}[i]})
	}
	return out
}

// item is short for an item, a key or the values of an expression.
type item = map[string]types.AttributeValue

func str(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func num(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }

func mustPut(t *testing.T, c *sdk.Client, table string, items ...item) {
	t.Helper()
	for _, it := range items {
		if _, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: it}); err != nil {
			t.Fatal(err)
		}
	}
}

// get reads an item of the table "locks" consistently; nil when there is none.
func get(t *testing.T, c *sdk.Client, key item) item {
	t.Helper()
	out, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("locks"), Key: key,
		ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
