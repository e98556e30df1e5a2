//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package awsdynamodb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// tape is a connection that records responses, and then plays the last of them again and again, so that only the client
// works.
type tape struct {
	server   http.RoundTripper // nil while it plays
	recorded []*http.Response
	bodies   [][]byte
	next     int
	second   int64 // of the Date of the responses
}

// RoundTrip implements [http.RoundTripper].
func (t *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.server == nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		i := t.next % len(t.recorded)
		t.next++
		res := *t.recorded[i]
		if now := time.Now(); now.Unix() != t.second { // the store watches its clock by the Date of responses
			t.second = now.Unix()
			for _, r := range t.recorded {
				r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
			}
		}
		res.Body = io.NopCloser(bytes.NewReader(t.bodies[i]))
		return &res, nil
	}
	res, err := t.server.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	t.recorded, t.bodies = append(t.recorded, res), append(t.bodies, body)
	return res, err
}

// play makes the tape repeat what an operation got.
func (t *tape) play(tb testing.TB, operation func() error) (played func() error) {
	tb.Helper()
	t.recorded, t.bodies = nil, nil
	if err := operation(); err != nil {
		tb.Fatal(err)
	}
	t.server = nil
	return operation
}

// onTape is a client of an emulator through a tape, in a region of the service.
func onTape() (*tape, *sdk.Client) {
	t := &tape{server: dynamodbtest.New(nil).RoundTripper()}
	return t, sdk.New(sdk.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://dynamodb.test"), HTTPClient: &http.Client{Transport: t},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
}

// ours are operations of Leasehold. Each fails unless the outcome is what it must be.
func ours(tb testing.TB) (t *tape, locks *lock.Locks) {
	tb.Helper()
	t, client := onTape()
	s, err := awsdynamodb.Open(context.Background(), "leasehold", &awsdynamodb.Options{Client: client, CreateTable: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t, lock.New(s, nil)
}

func cycle(tb testing.TB) func() error {
	tb.Helper()
	t, locks := ours(tb)
	id := lock.ID{Tenant: "acme", Key: "deploy/prod"}
	run := func() error {
		o, err := locks.Acquire(context.Background(), lock.Acquire{ID: id, Owner: "ann",
			RequestID: "018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4e", TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			return errors.Join(errors.New(string(o.Code)), err)
		}
		o, err = locks.Release(context.Background(), lock.Release{ID: id, Owner: "ann",
			RequestID: "018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4f", Token: o.Lease.Token})
		if err != nil || o.Code != lock.OK {
			return errors.Join(errors.New(string(o.Code)), err)
		}
		return nil
	}
	return t.play(tb, run)
}

func held(tb testing.TB) func() error {
	tb.Helper()
	t, locks := ours(tb)
	ask := func(owner string, want lock.Code) error {
		o, err := locks.Acquire(context.Background(), lock.Acquire{
			ID: lock.ID{Tenant: "acme", Key: "deploy/prod"}, Owner: owner, RequestID: "018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4e",
			TTLSeconds: 60,
		})
		if err == nil && o.Code != want {
			err = errors.New(string(o.Code))
		}
		return err
	}
	if err := ask("ann", lock.OK); err != nil {
		tb.Fatal(err)
	}
	return t.play(tb, func() error { return ask("bob", lock.Held) })
}

// classicCycle is what the classic protocol of locks in DynamoDB sends: a read, a write on the condition that the lock
// is as it was read, and a write that ends it. Nothing of a library around it is counted.
func classicCycle(tb testing.TB) func() error {
	tb.Helper()
	t, client := onTape()
	classicTable(tb, client)
	ctx, name := context.Background(), aws.String("classic")
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	key := map[string]types.AttributeValue{"key": text("deploy/prod")}
	return t.play(tb, func() error {
		if _, err := client.GetItem(ctx, &sdk.GetItemInput{TableName: name, Key: key,
			ConsistentRead: aws.Bool(true)}); err != nil {
			return err
		}
		_, err := client.PutItem(ctx, &sdk.PutItemInput{
			TableName: name, ConditionExpression: aws.String("attribute_not_exists(#key) OR isReleased = :yes"),
			Item: map[string]types.AttributeValue{
				"key": text("deploy/prod"), "ownerName": text("ann"),
				"recordVersionNumber": text("018f9c4e7e2c7c1a9d571f0a6b2c3d4e"), "leaseDuration": text("60000"),
			},
			ExpressionAttributeNames:  map[string]string{"#key": "key"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":yes": text("1")},
		})
		if err != nil {
			return err
		}
		_, err = client.UpdateItem(ctx, &sdk.UpdateItemInput{
			TableName: name, Key: key, UpdateExpression: aws.String("SET isReleased = :yes"),
			ConditionExpression:      aws.String("attribute_exists(#key) AND recordVersionNumber = :mine AND ownerName = :me"),
			ExpressionAttributeNames: map[string]string{"#key": "key"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":yes": text("1"), ":mine": text("018f9c4e7e2c7c1a9d571f0a6b2c3d4e"), ":me": text("ann"),
			},
		})
		return err
	})
}

// classicHeld is what the classic protocol sends for a lock that another owner holds: a read.
func classicHeld(tb testing.TB) func() error {
	tb.Helper()
	t, client := onTape()
	classicTable(tb, client)
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	if _, err := client.PutItem(context.Background(), &sdk.PutItemInput{TableName: aws.String("classic"),
		Item: map[string]types.AttributeValue{
			"key": text("deploy/prod"), "ownerName": text("ann"),
			"recordVersionNumber": text("018f9c4e7e2c7c1a9d571f0a6b2c3d4e"),
			"leaseDuration":       text("60000"),
		}}); err != nil {
		tb.Fatal(err)
	}
	return t.play(tb, func() error {
		out, err := client.GetItem(context.Background(), &sdk.GetItemInput{
			TableName: aws.String("classic"), Key: map[string]types.AttributeValue{"key": text("deploy/prod")},
			ConsistentRead: aws.Bool(true),
		})
		if err == nil && len(out.Item) != 4 {
			err = errors.New("no lock")
		}
		return err
	})
}

func classicTable(tb testing.TB, client *sdk.Client) {
	tb.Helper()
	_, err := client.CreateTable(context.Background(), &sdk.CreateTableInput{
		TableName: aws.String("classic"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// TestAllocations: on the client a cycle allocates hardly more than the requests of the classic protocol do, which remember
// nothing of requests, and a refusal less than twice what a read does: the SDK makes an error in five layers of it. The SDK's own share is in both.
func TestAllocations(t *testing.T) {
	count := func(operation func() error) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := operation(); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, c := range []struct {
		name          string
		ours, classic func() error
		most          float64 // times the classic protocol's
	}{
		{"a cycle", cycle(t), classicCycle(t), 1.02},
		{"held", held(t), classicHeld(t), 1.85},
	} {
		got, classic := count(c.ours), count(c.classic)
		t.Logf("%s: %.0f allocations, the classic protocol's %.0f", c.name, got, classic)
		if got > c.most*classic {
			t.Errorf("%s: %.0f allocations, more than %.2f times %.0f", c.name, got, c.most, classic)
		}
	}
}

// BenchmarkClient is the client's share of a cycle and of a refusal, and that of the classic protocol, without a server
// and a network.
func BenchmarkClient(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(testing.TB) func() error
	}{{"cycle", cycle}, {"classic-cycle", classicCycle}, {"held", held}, {"classic-held", classicHeld}} {
		b.Run(c.name, func(b *testing.B) {
			operation := c.make(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := operation(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
