package tests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

const awsProvider = "hashicorp/aws"

// shape is what of a table decides whether Leasehold can use it: keys and types, indexes, time to live.
func shape(t *testing.T) map[string]string {
	t.Helper()
	db := dynamodbtest.Start(t, nil)
	client := dynamodb.New(dynamodb.Options{
		Region: "local", BaseEndpoint: &db.URL, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		HTTPClient: http.DefaultClient,
	})
	// The program creates such a table by itself, for development.
	if _, err := awsdynamodb.Open(t.Context(), "made", &awsdynamodb.Options{Client: client, CreateTable: true,
		Indexes: []string{analysis.ExpiryField}}); err != nil {
		t.Fatal(err)
	}
	made, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("made")})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("made")})
	if err != nil {
		t.Fatal(err)
	}
	table := made.Table
	s := map[string]string{"time to live": aws.ToString(live.TimeToLiveDescription.AttributeName)}
	for _, k := range table.KeySchema {
		s["key "+string(k.KeyType)] = aws.ToString(k.AttributeName)
	}
	for _, a := range table.AttributeDefinitions {
		s["type of "+aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	for _, x := range table.GlobalSecondaryIndexes {
		name := "index " + aws.ToString(x.IndexName)
		s[name] = string(x.Projection.ProjectionType)
		for _, k := range x.KeySchema {
			s[name+" "+string(k.KeyType)] = aws.ToString(k.AttributeName)
		}
	}
	return s
}

// planned is the same of a table in a plan.
func planned(v map[string]any) map[string]string {
	s := map[string]string{"key HASH": fmt.Sprint(v["hash_key"]), "key RANGE": fmt.Sprint(v["range_key"])}
	for _, ttl := range blocks(v, "ttl") {
		if ttl["enabled"] == true {
			s["time to live"] = fmt.Sprint(ttl["attribute_name"])
		}
	}
	for _, a := range blocks(v, "attribute") {
		s[fmt.Sprint("type of ", a["name"])] = fmt.Sprint(a["type"])
	}
	for _, x := range blocks(v, "global_secondary_index") {
		name := fmt.Sprint("index ", x["name"])
		s[name], s[name+" HASH"], s[name+" RANGE"] = fmt.Sprint(x["projection_type"]), fmt.Sprint(x["hash_key"]),
			fmt.Sprint(x["range_key"])
	}
	return s
}

// blocks are the nested blocks of a name.
func blocks(v map[string]any, name string) (all []map[string]any) {
	list, _ := v[name].([]any)
	for _, b := range list {
		if m, ok := b.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// checkTable returns what is wrong with the table of a plan.
func checkTable(p *tfjson.Plan, want map[string]string) (problems []string) {
	tables := resources(p, "aws_dynamodb_table")
	if len(tables) != 1 {
		return []string{fmt.Sprintf("%d tables, want one", len(tables))}
	}
	for address, r := range tables {
		problems = tableProblems(address, r.AttributeValues, want)
	}
	return append(problems, broken(read("", p))...)
}

// tableProblems returns what is wrong with a table of a plan.
func tableProblems(address string, v map[string]any, want map[string]string) (problems []string) {
	badf := func(format string, args ...any) {
		problems = append(problems, address+": "+fmt.Sprintf(format, args...))
	}
	got := planned(v)
	for what, value := range want {
		if got[what] != value {
			badf("%s is %q, the code wants %q", what, got[what], value)
		}
	}
	for what, value := range got {
		if _, ok := want[what]; !ok {
			badf("%s is %q, of which the code knows nothing", what, value)
		}
	}
	if v["deletion_protection_enabled"] != true {
		badf("it has no deletion protection")
	}
	if v["billing_mode"] != "PAY_PER_REQUEST" {
		badf("billing_mode is %v", v["billing_mode"])
	}
	for _, block := range []string{"point_in_time_recovery", "server_side_encryption"} {
		if b := blocks(v, block); len(b) != 1 || b[0]["enabled"] != true {
			badf("%s is off", block)
		}
	}
	if v["stream_enabled"] == true || len(blocks(v, "replica")) > 0 {
		badf("it has a stream or replicas, which could grant a lease twice")
	}
	slices.Sort(problems)
	return problems
}

// TestTable: the table of the module is the one that the code wants, and cannot be lost by mistake.
func TestTable(t *testing.T) {
	t.Parallel()
	c := configured(t, mirror(t, awsProvider), "aws/table", accountless)
	p, refused := c.plan()
	if p == nil {
		t.Fatal(refused)
	}
	for _, problem := range checkTable(p, shape(t)) {
		t.Error(problem)
	}
	if out, err := c.run("plan", "-input=false", "-no-color", "-refresh=false", "-var", "name=ab"); err == nil ||
		!strings.Contains(out, "name must have 3 to 255") {
		t.Errorf("%v: %s", err, out)
	}
}
