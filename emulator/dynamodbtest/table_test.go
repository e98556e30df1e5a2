package dynamodbtest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

func TestTableLifecycle(t *testing.T) {
	now := time.Unix(1_700_000_000, 500_000_000)
	_, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	if err := sdk.NewTableExistsWaiter(c).Wait(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("events")},
		time.Minute); err != nil {
		t.Fatal(err)
	}
	mustPut(t, c, "events", item{"id": str("a"), "seq": num("1"), "state": str("open")})
	out, err := c.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("events")})
	if err != nil {
		t.Fatal(err)
	}
	table := out.Table
	switch {
	case table.TableStatus != "ACTIVE", *table.ItemCount != 1, *table.TableSizeBytes != 17,
		!table.CreationDateTime.Equal(now), table.BillingModeSummary.BillingMode != "PAY_PER_REQUEST",
		len(table.AttributeDefinitions) != 3, len(table.KeySchema) != 2, *table.KeySchema[1].AttributeName != "seq",
		len(table.GlobalSecondaryIndexes) != 2:
		t.Errorf("got %+v", table)
	}
	if x := table.GlobalSecondaryIndexes[1]; *x.IndexName != "whole-by-state" || x.IndexStatus != "ACTIVE" ||
		*x.ItemCount != 1 ||
		x.Projection.ProjectionType != "ALL" {
		t.Errorf("got %+v", x)
	}
	_, err = c.CreateTable(t.Context(), eventsTable())
	if _, ok := errors.AsType[*types.ResourceInUseException](err); !ok {
		t.Errorf("got %v", err)
	}
	_, err = c.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: aws.String("gone")})
	missing, ok := errors.AsType[*types.ResourceNotFoundException](err)
	if !ok || missing.ErrorMessage() != "Requested resource not found: Table: gone not found" {
		t.Errorf("got %v", err)
	}
}

func TestListTables(t *testing.T) {
	_, c := start(t, nil)
	out, err := c.ListTables(t.Context(), &sdk.ListTablesInput{})
	if err != nil || !slices.Equal(out.TableNames, []string{"events", "locks"}) {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestCreateTableKinds(t *testing.T) {
	_, c := start(t, nil)
	for kind, key := range map[string][2]types.AttributeValue{
		"S": {str("a"), str("b")},
		"N": {num("1"), num("1.50")},
		"B": {&types.AttributeValueMemberB{Value: []byte("a")}, &types.AttributeValueMemberB{Value: []byte{0xff, 0}}},
	} {
		_, err := c.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: aws.String("kind-" + kind),
			AttributeDefinitions: definitions("h", kind, "r", kind), KeySchema: keySchema("h", "r"),
			BillingMode: types.BillingModePayPerRequest})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, c, "kind-"+kind, item{"h": key[0], "r": key[1]}, item{"h": key[0], "r": key[0]})
		out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("kind-" + kind),
			KeyConditionExpression: aws.String("h = :h AND r > :h"), ExpressionAttributeValues: item{":h": key[0]}})
		if err != nil || out.Count != 1 {
			t.Errorf("%s: got %v, %v", kind, out, err)
		}
	}
}

func TestCreateTableErrors(t *testing.T) {
	_, c := start(t, nil)
	gsi := func(in *sdk.CreateTableInput) *types.GlobalSecondaryIndex { return &in.GlobalSecondaryIndexes[0] }
	const bad = "One or more parameter values were invalid: "
	for _, test := range []struct {
		name   string
		change func(in *sdk.CreateTableInput)
		want   string
	}{
		{"short name", func(in *sdk.CreateTableInput) { in.TableName = aws.String("ab") },
			"TableName must be at least 3 characters long and at most 255 characters long"},
		{"key not defined", func(in *sdk.CreateTableInput) { in.KeySchema = keySchema("id", "none") },
			bad +
				"Some index key attributes are not defined in AttributeDefinitions. Keys: [id, none], AttributeDefinitions: [id, seq, state]"},
		{"definition not used", func(in *sdk.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, definitions("extra", "S")...)
		}, bad + "Some AttributeDefinitions are not used. AttributeDefinitions: [id, seq, state, extra], unused: extra"},
		{"sort key first", func(in *sdk.CreateTableInput) { in.KeySchema[0].KeyType = "RANGE" },
			"Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		{"two hash keys", func(in *sdk.CreateTableInput) { in.KeySchema[1].KeyType = "HASH" },
			"Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"},
		{"one key twice", func(in *sdk.CreateTableInput) { in.KeySchema = keySchema("id", "id") },
			"Both the Hash Key and the Range Key element in the KeySchema have the same name"},
		{"index name twice", func(in *sdk.CreateTableInput) { gsi(in).IndexName = aws.String("whole-by-state") },
			bad + "Duplicate index name: whole-by-state"},
		{"throughput", func(in *sdk.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned },
			"emulator/dynamodbtest does not support a BillingMode other than PAY_PER_REQUEST"},
		{"some attributes", func(in *sdk.CreateTableInput) {
			gsi(in).Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude}
		}, "emulator/dynamodbtest does not support a ProjectionType other than ALL and KEYS_ONLY"},
		{"local index", func(in *sdk.CreateTableInput) { in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{} },
			"emulator/dynamodbtest does not support the member LocalSecondaryIndexes of this request"},
		{"a stream", func(in *sdk.CreateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true)}
		}, "emulator/dynamodbtest does not support the member StreamSpecification of this request"},
		{"tags", func(in *sdk.CreateTableInput) { in.Tags = []types.Tag{} },
			"emulator/dynamodbtest does not support the member Tags of this request"},
		{"a policy", func(in *sdk.CreateTableInput) { in.ResourcePolicy = aws.String("{}") },
			"emulator/dynamodbtest does not support the member ResourcePolicy of this request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := eventsTable()
			in.TableName = aws.String("broken")
			test.change(in)
			_, err := c.CreateTable(t.Context(), in)
			wantValidation(t, err, test.want)
		})
	}
}

func TestTimeToLive(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	status := func() types.TimeToLiveDescription {
		t.Helper()
		out, err := c.DescribeTimeToLive(t.Context(), &sdk.DescribeTimeToLiveInput{TableName: aws.String("locks")})
		if err != nil {
			t.Fatal(err)
		}
		return *out.TimeToLiveDescription
	}
	set := func(name string, enabled bool) error {
		_, err := c.UpdateTimeToLive(t.Context(), &sdk.UpdateTimeToLiveInput{TableName: aws.String("locks"),
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &name, Enabled: &enabled}})
		return err
	}
	if got := status(); got.TimeToLiveStatus != "DISABLED" || got.AttributeName != nil {
		t.Errorf("got %+v", got)
	}
	wantValidation(t, set("until", false), "TimeToLive is already disabled")
	for id, until := range map[string]types.AttributeValue{
		"past":         num("1699999999"),
		"now":          num("1700000000"),
		"future":       num("1700000001"),
		"text":         str("1600000000"),
		"milliseconds": num("1600000000000"),
		"ancient":      num("1500000000"), // more than five years ago: taken for a mistake
	} {
		mustPut(t, c, "locks", item{"id": str(id), "until": until})
	}
	mustPut(t, c, "locks", item{"id": str("none")})
	if n := s.ExpireNow(); n != 0 {
		t.Errorf("%d items expired without a time to live", n)
	}
	if err := set("until", true); err != nil {
		t.Fatal(err)
	}
	if got := status(); got.TimeToLiveStatus != "ENABLED" || *got.AttributeName != "until" {
		t.Errorf("got %+v", got)
	}
	wantValidation(t, set("until", true), "TimeToLive is already enabled")
	wantValidation(t, set("other", false),
		"TimeToLive is active on a different AttributeName: current AttributeName is until")
	if get(t, c, item{"id": str("past")}) == nil {
		t.Error("an expired item is gone before ExpireNow")
	}
	if n := s.ExpireNow(); n != 1 {
		t.Errorf("%d items expired, want 1", n)
	}
	if get(t, c, item{"id": str("past")}) != nil {
		t.Error("an expired item is still there")
	}
	now = now.Add(2 * time.Second)
	if n := s.ExpireNow(); n != 2 {
		t.Errorf("%d items expired, want 2", n)
	}
	out, err := c.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("locks")})
	if err != nil || out.Count != 4 {
		t.Errorf("got %v, %v", out, err)
	}
	if err := set("until", false); err != nil {
		t.Fatal(err)
	}
}
