package dynamodbtest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// withEvents fills "events": a from -2 to 10, b with 1.
func withEvents(t *testing.T) *sdk.Client {
	t.Helper()
	_, c := start(t, nil)
	for _, at := range []string{"10", "2", "-2", "1.5", "3"} {
		mustPut(t, c, "events", item{"id": str("a"), "seq": num(at), "state": str("open"), "note": str("n" + at),
			"x": num(at)})
	}
	mustPut(t, c, "events", item{"id": str("b"), "seq": num("1"), "state": str("done"), "x": num("1")})
	return c
}

// seqs lists the sort keys of a response in order.
func seqs(items []map[string]types.AttributeValue) string {
	var out []string
	for _, it := range items {
		out = append(out, it["seq"].(*types.AttributeValueMemberN).Value)
	}
	return strings.Join(out, " ")
}

func TestQuery(t *testing.T) {
	c := withEvents(t)
	all := item{":a": str("a"), ":x": num("2"), ":y": num("3")}
	for _, test := range []struct {
		name, key, want string
		more            func(*sdk.QueryInput)
	}{
		{name: "hash key alone, in order of numbers", key: "id = :a", want: "-2 1.5 2 3 10"},
		{name: "equal", key: "id = :a AND seq = :x", want: "2"},
		{name: "less", key: "id = :a AND seq < :x", want: "-2 1.5"},
		{name: "less or equal", key: "id = :a AND seq <= :x", want: "-2 1.5 2"},
		{name: "greater", key: "seq > :x AND id = :a", want: "3 10"},
		{name: "greater or equal", key: "(id = :a) AND (seq >= :x)", want: "2 3 10"},
		{name: "backward", key: "id = :a AND seq >= :x", want: "10 3 2",
			more: func(in *sdk.QueryInput) { in.ScanIndexForward = aws.Bool(false) }},
		{name: "filter", key: "id = :a", want: "10 3",
			more: func(in *sdk.QueryInput) {
				in.ScanIndexForward, in.FilterExpression = aws.Bool(false), aws.String("x >= :y")
			}},
		{name: "nothing", key: "id = :a AND seq > :big", want: "",
			more: func(in *sdk.QueryInput) { in.ExpressionAttributeValues[":big"] = num("100") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &sdk.QueryInput{TableName: aws.String("events"), KeyConditionExpression: &test.key,
				ExpressionAttributeValues: item{}, ConsistentRead: aws.Bool(true)}
			if test.more != nil {
				test.more(in)
			}
			for name, v := range all {
				if strings.Contains(test.key+aws.ToString(in.FilterExpression), name) {
					in.ExpressionAttributeValues[name] = v
				}
			}
			out, err := c.Query(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if got := seqs(out.Items); got != test.want || int(out.Count) != len(out.Items) {
				t.Errorf("got %d: %s, want %s", out.Count, got, test.want)
			}
		})
	}
}

func TestQueryStrings(t *testing.T) {
	_, c := start(t, nil)
	in := locksTable()
	in.TableName, in.AttributeDefinitions, in.KeySchema = aws.String("paths"), definitions("id", "S", "sk", "S"),
		keySchema("id", "sk")
	if _, err := c.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, sk := range []string{"b#2", "a#1", "b#1", "b", "c", "é"} {
		mustPut(t, c, "paths", item{"id": str("x"), "sk": str(sk)})
	}
	out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("paths"),
		KeyConditionExpression:    aws.String("id = :x AND begins_with(sk, :p)"),
		ExpressionAttributeValues: item{":x": str("x"), ":p": str("b#")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range out.Items {
		got = append(got, it["sk"].(*types.AttributeValueMemberS).Value)
	}
	if want := []string{"b#1", "b#2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestQueryPages(t *testing.T) {
	c := withEvents(t)
	for _, forward := range []bool{true, false} {
		var pages []string
		var from item
		for {
			out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("events"), Limit: aws.Int32(2),
				KeyConditionExpression: aws.String("id = :a"), ExpressionAttributeValues: item{":a": str("a")},
				ScanIndexForward: &forward, ExclusiveStartKey: from})
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, seqs(out.Items))
			if from = out.LastEvaluatedKey; from == nil {
				break
			}
			if got := sortedNames(from); !slices.Equal(got, []string{"id", "seq"}) {
				t.Fatalf("the page ends at %v", got)
			}
		}
		want := []string{"-2 1.5", "2 3", "10"}
		if !forward {
			want = []string{"10 3", "2 1.5", "-2"}
		}
		if !slices.Equal(pages, want) {
			t.Errorf("got %q, want %q", pages, want)
		}
	}
}

func TestQueryLimitCountsBeforeTheFilter(t *testing.T) {
	c := withEvents(t)
	out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("events"), Limit: aws.Int32(3),
		KeyConditionExpression: aws.String("id = :a"), FilterExpression: aws.String("x > :two"),
		ExpressionAttributeValues: item{":a": str("a"), ":two": num("2")}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Count != 0 || out.ScannedCount != 3 || seqs([]map[string]types.AttributeValue{out.LastEvaluatedKey}) != "2" {
		t.Errorf("got %d of %d up to %v", out.Count, out.ScannedCount, out.LastEvaluatedKey)
	}
}

func TestQueryIndexes(t *testing.T) {
	c := withEvents(t)
	query := func(index, key string, values item, more func(*sdk.QueryInput)) (*sdk.QueryOutput, error) {
		in := &sdk.QueryInput{TableName: aws.String("events"), IndexName: &index, KeyConditionExpression: &key,
			ExpressionAttributeValues: values, ExpressionAttributeNames: map[string]string{"#s": "state"}}
		if !strings.Contains(key, "#s") {
			in.ExpressionAttributeNames = nil
		}
		if more != nil {
			more(in)
		}
		return c.Query(t.Context(), in)
	}
	out, err := query("by-state", "#s = :s AND seq < :max", item{":s": str("open"), ":max": num("3")}, nil)
	if err != nil || seqs(out.Items) != "-2 1.5 2" {
		t.Fatalf("got %v, %v", out, err)
	}
	if got := sortedNames(out.Items[0]); !slices.Equal(got, []string{"id", "seq", "state"}) {
		t.Errorf("KEYS_ONLY holds %v", got)
	}
	out, err = query("whole-by-state", "#s = :s", item{":s": str("open")},
		func(in *sdk.QueryInput) { in.Limit = aws.Int32(2) })
	if err != nil || !slices.Equal(sortedNames(out.Items[0]), []string{"id", "note", "seq", "state", "x"}) ||
		!slices.Equal(sortedNames(out.LastEvaluatedKey), []string{"id", "seq", "state"}) {
		t.Errorf("got %v, %v", out, err)
	}
	from := out.LastEvaluatedKey
	out, err = query("whole-by-state", "#s = :s", item{":s": str("open")},
		func(in *sdk.QueryInput) { in.ExclusiveStartKey = from })
	if err != nil || seqs(out.Items) != "2 3 10" {
		t.Errorf("got %v, %v", out, err)
	}

	_, err = query("by-state", "#s = :s", item{":s": str("open")},
		func(in *sdk.QueryInput) { in.ConsistentRead = aws.Bool(true) })
	wantValidation(t, err, "Consistent reads are not supported on global secondary indexes")
	_, err = query("by-none", "#s = :s", item{":s": str("open")}, nil)
	wantValidation(t, err, "The table does not have the specified index: by-none")
}

// TestIndexFollows shows that an item leaves an index with its key and comes back with it.
func TestIndexFollows(t *testing.T) {
	_, c := start(t, nil)
	count := func(state string) int {
		t.Helper()
		out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("events"), IndexName: aws.String("by-state"),
			KeyConditionExpression: aws.String("#s = :s"), ExpressionAttributeNames: map[string]string{"#s": "state"},
			ExpressionAttributeValues: item{":s": str(state)}})
		if err != nil {
			t.Fatal(err)
		}
		return int(out.Count)
	}
	update := func(source string, values item) {
		t.Helper()
		_, err := c.UpdateItem(t.Context(), &sdk.UpdateItemInput{TableName: aws.String("events"),
			Key: item{"id": str("a"), "seq": num("1")}, UpdateExpression: &source, ExpressionAttributeValues: values,
			ExpressionAttributeNames: map[string]string{"#s": "state"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	update("SET #s = :s", item{":s": str("open")})
	if count("open") != 1 {
		t.Error("not in the index")
	}
	update("SET #s = :s", item{":s": str("done")})
	if count("open") != 0 || count("done") != 1 {
		t.Error("not moved in the index")
	}
	update("REMOVE #s", nil)
	if count("done") != 0 {
		t.Error("still in the index")
	}
}

func TestQueryErrors(t *testing.T) {
	c := withEvents(t)
	for _, test := range []struct {
		name string
		in   sdk.QueryInput
		want string
	}{
		{"no condition", sdk.QueryInput{},
			"Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."},
		{"no hash key", sdk.QueryInput{KeyConditionExpression: aws.String("seq = :n")},
			"Query condition missed key schema element: id"},
		{"range of hash keys", sdk.QueryInput{KeyConditionExpression: aws.String("id > :a")},
			"Query key condition not supported"},
		{"another attribute", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a AND x = :n")},
			"Query condition missed key schema element: seq"},
		{"wrong type", sdk.QueryInput{KeyConditionExpression: aws.String("id = :n")},
			"One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{"begins with a number", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a AND begins_with(seq, :n)")},
			"Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"or", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a OR seq = :n")},
			"Invalid operator used in KeyConditionExpression: OR"},
		{"filter on the key", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a"),
			FilterExpression: aws.String("seq > :n")},
			"Filter Expression can only contain non-primary key attributes: Primary key attribute: seq"},
		{"start elsewhere", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a"),
			ExclusiveStartKey: item{"id": str("b"), "seq": num("1")}},
			"The provided starting key is outside query boundaries based on provided conditions"},
		{"start outside the range", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a AND seq > :n"),
			ExclusiveStartKey: item{"id": str("a"), "seq": num("1")}},
			"The provided starting key does not match the range key predicate"},
		{"start with half a key", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a"),
			ExclusiveStartKey: item{"id": str("b")}},
			"The provided starting key is invalid"},
		{"limit", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a"), Limit: aws.Int32(0)},
			"1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"only the count", sdk.QueryInput{KeyConditionExpression: aws.String("id = :a"), Select: "COUNT"},
			"emulator/dynamodbtest does not support the member Select of this request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.TableName = aws.String("events")
			text := aws.ToString(test.in.KeyConditionExpression) + aws.ToString(test.in.FilterExpression)
			for name, v := range (item{":a": str("a"), ":n": num("2")}) {
				if strings.Contains(text, name) {
					if test.in.ExpressionAttributeValues == nil {
						test.in.ExpressionAttributeValues = item{}
					}
					test.in.ExpressionAttributeValues[name] = v
				}
			}
			_, err := c.Query(t.Context(), &test.in)
			wantValidation(t, err, test.want)
		})
	}
}

func TestScan(t *testing.T) {
	_, c := start(t, nil)
	const n = 40
	for i := range n {
		mustPut(t, c, "locks", item{"id": str(fmt.Sprint("k", i)), "n": num(strconv.Itoa(i))})
	}
	collect := func(in sdk.ScanInput) []string {
		t.Helper()
		var ids []string
		in.TableName = aws.String("locks")
		p := sdk.NewScanPaginator(c, &in)
		for p.HasMorePages() {
			out, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range out.Items {
				ids = append(ids, it["id"].(*types.AttributeValueMemberS).Value)
			}
		}
		return ids
	}
	all := collect(sdk.ScanInput{})
	if paged := collect(sdk.ScanInput{Limit: aws.Int32(7)}); !slices.Equal(paged, all) {
		t.Errorf("pages give %v, the whole %v", paged, all)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != n {
		t.Errorf("%d items of %d", len(all), n)
	}
	few := collect(sdk.ScanInput{FilterExpression: aws.String("n < :five"),
		ExpressionAttributeValues: item{":five": num("5")},
		Limit:                     aws.Int32(10)})
	if len(few) != 5 {
		t.Errorf("the filter leaves %v", few)
	}
}

func TestScanIndex(t *testing.T) {
	c := withEvents(t)
	out, err := c.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("events"), IndexName: aws.String("by-state"),
		ReturnConsumedCapacity: "TOTAL"})
	if err != nil || out.Count != 6 || *out.ConsumedCapacity.CapacityUnits != 0.5 {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestPageOfOneMegabyte(t *testing.T) {
	s, _ := start(t, nil)
	// The SDK now and then closes a connection while it reads a large response, and sends the request again.
	c := connect(s.URL, func(o *sdk.Options) { o.RetryMaxAttempts = 3 })
	big := strings.Repeat("x", 390*1024)
	for i := range 4 {
		mustPut(t, c, "events", item{"id": str("a"), "seq": num(strconv.Itoa(i)), "x": str(big)})
	}
	in := &sdk.QueryInput{TableName: aws.String("events"), KeyConditionExpression: aws.String("id = :a"),
		ExpressionAttributeValues: item{":a": str("a")}, ReturnConsumedCapacity: "TOTAL"}
	out, err := c.Query(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if out.Count != 3 || out.LastEvaluatedKey == nil || *out.ConsumedCapacity.CapacityUnits != 146.5 {
		t.Fatalf("got %d up to %v, %v", out.Count, out.LastEvaluatedKey, err)
	}
	in.ExclusiveStartKey = out.LastEvaluatedKey
	if out, err = c.Query(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if out.Count != 1 || out.LastEvaluatedKey != nil {
		t.Errorf("got %d up to %v, %v", out.Count, out.LastEvaluatedKey, err)
	}
}
