package dynamodbtest_test

import (
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// TestWire looks at answers without the SDK: types with their prefixes, members, headers.
func TestWire(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, c := start(t, &dynamodbtest.Options{Now: func() time.Time { return now }})
	mustPut(t, c, "locks", item{"id": str("a"), "n": num("1.50")})
	for _, test := range []struct {
		name, op, body string
		change         func(*http.Request)
		status         int
		want           string
	}{
		{name: "success", op: "GetItem", body: `{"TableName":"locks","Key":{"id":{"S":"a"}}}`, status: 200,
			want: `{"Item":{"id":{"S":"a"},"n":{"N":"1.5"}}}`},
		{name: "null counts as left out", op: "GetItem",
			body:   `{"TableName":"locks","Key":{"id":{"S":"none"}},"ReturnConsumedCapacity":null}`,
			status: 200, want: `{}`},
		{name: "failed condition", op: "PutItem", status: 400,
			body: `{"TableName":"locks","Item":{"id":{"S":"a"}},"ConditionExpression":"attribute_not_exists(id)",
				"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
			want: `{"Item":{"id":{"S":"a"},"n":{"N":"1.5"}},"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
				"message":"The conditional request failed"}`},
		{name: "canceled transaction", op: "TransactWriteItems", status: 400,
			body: `{"TransactItems":[{"Delete":{"TableName":"locks","Key":{"id":{"S":"b"}}}},
				{"ConditionCheck":{"TableName":"locks","Key":{"id":{"S":"a"}},"ConditionExpression":"attribute_not_exists(id)",
				"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]}`,
			want: `{"CancellationReasons":[{"Code":"None"},{"Code":"ConditionalCheckFailed","Message":"The conditional request failed",
				"Item":{"id":{"S":"a"},"n":{"N":"1.5"}}}],
				"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed]",
				"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException"}`},
		{name: "invalid", op: "GetItem", body: `{"TableName":"locks","Key":{}}`, status: 400,
			want: `{"__type":"com.amazon.coral.validate#ValidationException","message":"The provided key element does not match the schema"}`},
		{name: "member missing", op: "GetItem", body: `{"TableName":"locks"}`, status: 400,
			want: `{"__type":"com.amazon.coral.validate#ValidationException","message":"1 validation error detected: Value null at 'key' failed to satisfy constraint: Member must not be null"}`},
		{name: "member in other letters", op: "GetItem", body: `{"tableName":"locks"}`, status: 400,
			want: `{"__type":"com.amazon.coral.validate#ValidationException","message":"emulator/dynamodbtest does not support the member tableName of this request"}`},
		{name: "nested member", op: "CreateTable", status: 400,
			body: `{"TableName":"other","KeySchema":[{"AttributeName":"id","KeyType":"HASH","Order":"ASC"}]}`,
			want: `{"__type":"com.amazon.coral.validate#ValidationException","message":"emulator/dynamodbtest does not support the member KeySchema.0.Order of this request"}`},
		{name: "wrong shape", op: "GetItem", body: `{"TableName":7}`, status: 400,
			want: `{"Message":"TableName has to be a string, found a number","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "wrong shape of a value", op: "GetItem", body: `{"TableName":"locks","Key":{"id":{"S":7}}}`, status: 400,
			want: `{"Message":"Unexpected token received from parser: expected a string","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "fraction", op: "Scan", body: `{"Limit":1.5}`, status: 400,
			want: `{"Message":"Limit: 1.5 is not a whole number","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "no JSON", op: "GetItem", body: `{`, status: 400,
			want: `{"Message":"the body is not JSON: unexpected EOF","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "two JSON values", op: "GetItem", body: `{}{}`, status: 400,
			want: `{"Message":"the body has more than one JSON value","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "no UTF-8", op: "GetItem", body: "{\"TableName\":\"\xff\"}", status: 400,
			want: `{"Message":"the body is not UTF-8","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "operation that is not supported", op: "ExecuteStatement", body: `{}`, status: 400,
			want: `{"__type":"com.amazon.coral.service#UnknownOperationException","message":"emulator/dynamodbtest does not support the operation ExecuteStatement"}`},
		{name: "another API", op: "ListTables", body: `{}`, status: 400,
			change: func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810.ListStreams") },
			want:   `{"__type":"com.amazon.coral.service#UnknownOperationException","message":"expected a header X-Amz-Target: DynamoDB_20120810. and an operation, found \"DynamoDBStreams_20120810.ListStreams\""}`},
		{name: "not signed", op: "ListTables", body: `{}`, status: 400,
			change: func(r *http.Request) { r.Header.Del("Authorization") },
			want:   `{"__type":"com.amazon.coral.service#MissingAuthenticationTokenException","message":"Request is missing Authentication Token"}`},
		{name: "another media type", op: "ListTables", body: `{}`, status: 400,
			change: func(r *http.Request) { r.Header.Set("Content-Type", "application/cbor") },
			want:   `{"Message":"expected Content-Type application/x-amz-json-1.0, found \"application/cbor\"","__type":"com.amazon.coral.service#SerializationException"}`},
		{name: "another path", op: "ListTables", body: `{}`, status: 400,
			change: func(r *http.Request) { r.URL.Path = "/tables" },
			want:   `{"__type":"com.amazon.coral.service#UnknownOperationException","message":"expected POST /, found POST /tables"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+test.op)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 not verified")
			if test.change != nil {
				test.change(r)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != test.status || !sameJSON(t, body, []byte(test.want)) {
				t.Errorf("got  %d %s\nwant %d %s", res.StatusCode, body, test.status, test.want)
			}
			h := res.Header
			if got, want := h.Get("X-Amz-Crc32"), strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10); got != want {
				t.Errorf("checksum %s, want %s", got, want)
			}
			if len(h.Get("X-Amzn-Requestid")) != 52 || h.Get("Date") != "Fri, 02 Jan 2026 03:04:05 GMT" ||
				h.Get("Content-Type") != "application/x-amz-json-1.0" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return compact(x) == compact(y)
}

func TestSizeOfABody(t *testing.T) {
	s := dynamodbtest.Start(t, nil)
	res, err := http.Post(s.URL, "application/x-amz-json-1.0", strings.NewReader(strings.Repeat(" ", 16<<20+1)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body beyond 16 MB is answered %s", res.Status)
	}
}
