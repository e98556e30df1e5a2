package dynamodbtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// retrying makes a client try three times without waiting in between.
func retrying(o *sdk.Options) {
	o.RetryMaxAttempts = 3
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.Backoff = 3, retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

func create(ctx context.Context, c *sdk.Client, id string) error {
	_, err := c.PutItem(ctx, &sdk.PutItemInput{TableName: aws.String("locks"), Item: item{"id": str(id), "by": str("me")},
		ConditionExpression:                 aws.String("attribute_not_exists(id)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld})
	return err
}

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	if err != nil {
		return "no answer"
	}
	return ""
}

// TestFaults injects each kind once into a conditional put and tells what the client and the table saw.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		kind    dynamodbtest.Kind
		once    string // error code of one attempt
		applied bool   // by it
		again   string // error code when the SDK retries by itself
		calls   int    // that it makes then
	}{
		{dynamodbtest.FailBefore, "InternalServerError", false, "", 2},
		{dynamodbtest.FailAfter, "InternalServerError", true, "ConditionalCheckFailedException", 2},
		{dynamodbtest.DropBefore, "no answer", false, "", 2},
		{dynamodbtest.DropAfter, "no answer", true, "ConditionalCheckFailedException", 2},
		{dynamodbtest.Throttle, "ProvisionedThroughputExceededException", false, "", 2},
		{dynamodbtest.ThrottleAPI, "ThrottlingException", false, "", 2},
		{dynamodbtest.Conflict, "TransactionConflictException", false, "TransactionConflictException", 1},
	} {
		t.Run(test.kind.String(), func(t *testing.T) {
			s, c := start(t, nil)
			in := s.Inject(dynamodbtest.Fault{Kind: test.kind, Op: "PutItem", Times: 1})
			if got := code(create(t.Context(), c, "a")); got != test.once {
				t.Errorf("got %q, want %q", got, test.once)
			}
			if got := get(t, c, item{"id": str("a")}) != nil; got != test.applied {
				t.Errorf("applied: %v", got)
			}
			if in.Hits() != 1 {
				t.Errorf("%d hits", in.Hits())
			}

			s.ResetCounts()
			again := s.Inject(dynamodbtest.Fault{Kind: test.kind, Op: "PutItem", Times: 1})
			err := create(t.Context(), connect(s.URL, retrying), "b")
			if got := code(err); got != test.again {
				t.Errorf("with retries got %q, want %q", got, test.again)
			}
			if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
				wantItem(t, failed.Item, item{"id": str("b"), "by": str("me")}) // its own first attempt
			}
			if got := s.Count("PutItem"); got != test.calls || again.Hits() != 1 {
				t.Errorf("%d calls and %d hits, want %d calls and 1 hit", got, again.Hits(), test.calls)
			}
		})
	}
}

func TestFaultsSelect(t *testing.T) {
	s, c := start(t, nil)
	try := func(id string) string { t.Helper(); return code(create(t.Context(), c, id)) }

	key := s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Key: map[string]string{"id": "a"}})
	if try("a") != "InternalServerError" || try("b") != "" || key.Hits() != 1 {
		t.Error("the key does not select")
	}
	key.Remove()
	key.Remove()
	if try("a") != "" {
		t.Error("a removed fault is in force")
	}

	table := s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Table: "events"})
	if try("c") != "" || table.Hits() != 0 {
		t.Error("the table does not select")
	}
	table.Remove()

	third := s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Op: "PutItem", Skip: 2, Times: 1})
	if got := []string{try("d"), try("e"), try("f"), try("g")}; got[0]+got[1]+got[3] != "" || got[2] == "" {
		t.Errorf("Skip and Times hit %q", got)
	}
	if third.Hits() != 1 {
		t.Errorf("%d hits", third.Hits())
	}

	var asked []dynamodbtest.Request
	match := s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.FailBefore, Match: func(r dynamodbtest.Request) bool {
		asked = append(asked, r)
		return strings.Contains(string(r.Body), `"i"`)
	}})
	if try("h") != "" || try("i") == "" || len(asked) != 2 {
		t.Error("Match does not select")
	}
	want := dynamodbtest.Item{Table: "locks", Key: map[string]string{"id": "h"}}
	if r := asked[0]; r.Op != "PutItem" || len(r.Items) != 1 || r.Items[0].Table != want.Table ||
		!maps.Equal(r.Items[0].Key, want.Key) {
		t.Errorf("Match was asked about %+v", r)
	}
	match.Remove()
}

func TestImpossibleFaults(t *testing.T) {
	s := dynamodbtest.New(nil)
	for want, f := range map[string]dynamodbtest.Fault{
		"dynamodb: Inject: Kind(0) is not a kind of fault":     {},
		`dynamodb: Inject: there is no operation "PutItems"`:   {Kind: dynamodbtest.FailAfter, Op: "PutItems"},
		"dynamodb: Inject: StaleRead cannot happen to PutItem": {Kind: dynamodbtest.StaleRead, Op: "PutItem"},
		"dynamodb: Inject: Delay needs a positive Delay":       {Kind: dynamodbtest.Delay},
		"dynamodb: Inject: Skip 0 and Times -1":                {Kind: dynamodbtest.FailAfter, Times: -1},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
					t.Errorf("got panic %q, want %q", got, want)
				}
			}()
			s.Inject(f)
		}()
	}
}

func TestTransactionFaults(t *testing.T) {
	s, c := start(t, nil)
	s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Conflict, Key: map[string]string{"id": "b"}, Times: 2})
	_, err := transact(t, c, "", txAdd("a"), txAdd("b"))
	reasons := wantCanceled(t, err, "None", "TransactionConflict")
	if got := aws.ToString(reasons[1].Message); got != "Transaction is ongoing for the item" {
		t.Errorf("got %s", got)
	}
	_, err = c.TransactGetItems(t.Context(), &sdk.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: aws.String("locks"), Key: item{"id": str("b")}}}}})
	wantCanceled(t, err, "TransactionConflict")
	if get(t, c, item{"id": str("a")}) != nil {
		t.Error("a transaction in conflict was applied")
	}

	s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.InProgress, Times: 1})
	_, err = transact(t, c, "", txAdd("a"))
	if _, ok := errors.AsType[*types.TransactionInProgressException](err); !ok {
		t.Errorf("got %v", err)
	}

	// The SDK repeats a transaction under the token that it made itself, which is why a lost response does no harm.
	s.ResetCounts()
	s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropAfter, Op: "TransactWriteItems", Times: 1})
	if _, err := transact(t, connect(s.URL, retrying), "", txAdd("a")); err != nil {
		t.Fatal(err)
	}
	wantItem(t, get(t, c, item{"id": str("a")}), item{"id": str("a"), "n": num("1")})
	if n := s.Count("TransactWriteItems"); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestStaleReads(t *testing.T) {
	s, c := start(t, nil)
	key := item{"id": str("a"), "seq": num("1")}
	old := item{"id": str("a"), "seq": num("1"), "n": num("1")}
	mustPut(t, c, "events", old)
	mustPut(t, c, "events", item{"id": str("a"), "seq": num("1"), "n": num("2")})
	mustPut(t, c, "events", item{"id": str("a"), "seq": num("2")})
	check := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: aws.String("events"), Key: key,
		ConditionExpression: aws.String("attribute_exists(id)")}}
	if _, err := transact(t, c, "", check); err != nil { // which changes nothing, and so makes nothing less stale
		t.Fatal(err)
	}
	in := s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.StaleRead})

	read := func(consistent bool) item {
		t.Helper()
		out, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("events"), Key: key,
			ConsistentRead: &consistent})
		if err != nil {
			t.Fatal(err)
		}
		return out.Item
	}
	wantItem(t, read(false), old)
	wantItem(t, read(true), item{"id": str("a"), "seq": num("1"), "n": num("2")})

	query := func(consistent bool) int {
		t.Helper()
		out, err := c.Query(t.Context(), &sdk.QueryInput{TableName: aws.String("events"), ConsistentRead: &consistent,
			KeyConditionExpression: aws.String("id = :a"), ExpressionAttributeValues: item{":a": str("a")}})
		if err != nil {
			t.Fatal(err)
		}
		return int(out.Count)
	}
	if query(false) != 1 || query(true) != 2 || query(false) != 1 {
		t.Error("a stale query does not miss the latest write, or keeps missing it")
	}
	out, err := c.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("events")})
	if err != nil || out.Count != 1 {
		t.Errorf("got %v, %v", out, err)
	}
	if got := in.Hits(); got != 6 {
		t.Errorf("%d hits, want 6", got)
	}
	in.Remove()
	wantItem(t, read(false), item{"id": str("a"), "seq": num("1"), "n": num("2")})
}

func TestSkewedDate(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	s, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	date := func() time.Time {
		t.Helper()
		var header string
		_, err := c.ListTables(t.Context(), &sdk.ListTablesInput{}, sdk.WithAPIOptions(func(stack *middleware.Stack) error {
			return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("date",
				func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
					out middleware.DeserializeOutput, m middleware.Metadata, err error) {
					out, m, err = next.HandleDeserialize(ctx, in)
					if res, ok := out.RawResponse.(*smithyhttp.Response); ok {
						header = res.Header.Get("Date")
					}
					return out, m, err
				}), middleware.Before)
		}))
		if err != nil {
			t.Fatal(err)
		}
		at, err := http.ParseTime(header)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if got := date(); !got.Equal(now) {
		t.Errorf("got %v", got)
	}
	s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.SkewDate, Skew: -time.Hour, Times: 1})
	if got := date(); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("got %v", got)
	}
	if got := date(); !got.Equal(now) {
		t.Errorf("got %v", got)
	}
}

// TestDelays runs on the clock of a bubble, over the transport that needs no network.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dynamodbtest.New(nil)
		c := connect("http://dynamodb.local", func(o *sdk.Options) {
			o.HTTPClient = &http.Client{Transport: s.RoundTripper()}
		})
		if _, err := c.CreateTable(t.Context(), locksTable()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Delay, Delay: time.Minute, Times: 1})
		if err := create(t.Context(), c, "slow"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		for kind, applied := range map[dynamodbtest.Kind]bool{dynamodbtest.Delay: false, dynamodbtest.DelayResponse: true} {
			s.Inject(dynamodbtest.Fault{Kind: kind, Op: "PutItem", Delay: time.Minute, Times: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := create(ctx, c, kind.String()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: got %v", kind, err)
			}
			cancel()
			if got := get(t, c, item{"id": str(kind.String())}) != nil; got != applied {
				t.Errorf("%v: applied is %v", kind, got)
			}
		}
		s.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropAfter, Op: "PutItem", Times: 1})
		if err := create(t.Context(), c, "dropped"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCounts(t *testing.T) {
	s, c := start(t, nil)
	mustPut(t, c, "locks", item{"id": str("a")}, item{"id": str("b")})
	get(t, c, item{"id": str("a")})
	if err := create(t.Context(), c, "a"); err == nil {
		t.Fatal("created twice")
	}
	if got, want := fmt.Sprint(s.Requests()), "map[GetItem:1 PutItem:3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.ResetCounts()
	if got := s.Requests(); len(got) != 0 || s.Count("PutItem") != 0 || s.Consumed() != (dynamodbtest.Units{}) {
		t.Errorf("after the reset: %v, %v", got, s.Consumed())
	}
}
