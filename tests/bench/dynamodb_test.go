package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
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

// protocol is a way of keeping locks in DynamoDB.
type protocol interface {
	// acquire tries once. It returns what release needs, empty if another owner has the lock.
	acquire(ctx context.Context, key, owner string) (held string, err error)
	release(ctx context.Context, key, owner, held string) error
}

// leasehold is ours.
type leasehold struct {
	locks    *lock.Locks
	requests atomic.Int64
}

func (l *leasehold) acquire(ctx context.Context, key, owner string) (string, error) {
	o, err := l.locks.Acquire(ctx, lock.Acquire{
		ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner, RequestID: strconv.FormatInt(l.requests.Add(1), 10),
		TTLSeconds: 60,
	})
	if err != nil || o.Code == lock.Held {
		return "", err
	}
	if o.Code != lock.OK {
		return "", fmt.Errorf("acquire: %s", o.Code)
	}
	return strconv.FormatInt(o.Lease.Token, 10), nil
}

func (l *leasehold) release(ctx context.Context, key, owner, held string) error {
	token, err := strconv.ParseInt(held, 10, 64)
	if err != nil {
		return err
	}
	o, err := l.locks.Release(ctx, lock.Release{ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner,
		Token: token, RequestID: "e"})
	if err == nil && o.Code != lock.OK {
		err = fmt.Errorf("release: %s", o.Code)
	}
	return err
}

// classic is the protocol of amazon-dynamodb-lock-client and its descendants, in small: read the lock, then write it on
// the condition that it is as it was read. A lease says how long it lasts, not until when; to take it over, a client
// must see the same record version for that long.
type classic struct {
	client   *sdk.Client
	lease    time.Duration
	poll     time.Duration // between two reads of a lock that is held
	versions atomic.Int64
}

type attributes = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func (c *classic) read(ctx context.Context, key string) (attributes, error) {
	out, err := c.client.GetItem(ctx, &sdk.GetItemInput{
		TableName: aws.String("classic"), Key: attributes{"key": text(key)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// put takes the lock on a condition; the version is empty if it did not hold.
func (c *classic) put(ctx context.Context, key, owner, condition string, values attributes) (string, error) {
	version := strconv.FormatInt(c.versions.Add(1), 10)
	_, err := c.client.PutItem(ctx, &sdk.PutItemInput{
		TableName: aws.String("classic"),
		Item: attributes{
			"key": text(key), "ownerName": text(owner), "recordVersionNumber": text(version),
			"leaseDuration": text(strconv.FormatInt(c.lease.Milliseconds(), 10)),
		},
		ConditionExpression: aws.String(condition), ExpressionAttributeNames: map[string]string{"#key": "key"},
		ExpressionAttributeValues: values,
	})
	if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); lost {
		return "", nil
	}
	return version, err
}

func (c *classic) acquire(ctx context.Context, key, owner string) (string, error) {
	item, err := c.read(ctx, key)
	if err != nil || item != nil && item["isReleased"] == nil {
		return "", err
	}
	return c.put(ctx, key, owner, "attribute_not_exists(#key) OR isReleased = :yes", attributes{":yes": text("1")})
}

// takeOver acquires a lock whose holder crashed.
func (c *classic) takeOver(ctx context.Context, key, owner string) (string, error) {
	item, err := c.read(ctx, key)
	if err != nil {
		return "", err
	}
	seen := item["recordVersionNumber"]
	for since := time.Now(); time.Since(since) < c.lease; {
		time.Sleep(c.poll)
		if item, err = c.read(ctx, key); err != nil {
			return "", err
		}
	}
	if item["recordVersionNumber"].(*types.AttributeValueMemberS).Value != seen.(*types.AttributeValueMemberS).Value {
		return "", errors.New("take over: the lock is alive")
	}
	return c.put(ctx, key, owner, "attribute_exists(#key) AND recordVersionNumber = :seen", attributes{":seen": seen})
}

func (c *classic) release(ctx context.Context, key, owner, held string) error {
	_, err := c.client.UpdateItem(ctx, &sdk.UpdateItemInput{
		TableName: aws.String("classic"), Key: attributes{"key": text(key)},
		UpdateExpression:          aws.String("SET isReleased = :yes"),
		ConditionExpression:       aws.String("attribute_exists(#key) AND recordVersionNumber = :mine AND ownerName = :me"),
		ExpressionAttributeNames:  map[string]string{"#key": "key"},
		ExpressionAttributeValues: attributes{":yes": text("1"), ":mine": text(held), ":me": text(owner)},
	})
	return err
}

// openBoth makes both protocols on one endpoint, which takes its time for each request. now is the clock of ours.
func openBoth(b *testing.B, now func() time.Time, latency time.Duration) (*dynamodbtest.Server, *leasehold, *classic) {
	b.Helper()
	server := dynamodbtest.Start(b, nil)
	client := sdk.New(sdk.Options{
		Region: "local", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("local",
			"local", ""),
	})
	o := &awsdynamodb.Options{Client: client, CreateTable: true, Now: now}
	if now != nil {
		o.MaxSkew = awsdynamodb.TrustClock
	}
	store, err := awsdynamodb.Open(b.Context(), "leasehold", o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	_, err = client.CreateTable(b.Context(), &sdk.CreateTableInput{
		TableName: aws.String("classic"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if latency > 0 {
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Delay, Delay: latency})
	}
	return server, &leasehold{locks: lock.New(store, nil)}, &classic{client: client, lease: 100 * time.Millisecond,
		poll: 25 * time.Millisecond}
}

// inTurns runs ours and theirs in turns, and reports for each the requests and the time of an operation, and how many
// times as long theirs takes.
func inTurns(b *testing.B, server *dynamodbtest.Server, ours, theirs func(i int) error) {
	b.Helper()
	var (
		took     [2]time.Duration
		requests [2]int
	)
	b.ResetTimer()
	for i := range b.N {
		for way, do := range []func(int) error{ours, theirs} {
			server.ResetCounts()
			begin := time.Now()
			if err := do(i); err != nil {
				b.Fatal(err)
			}
			took[way] += time.Since(begin)
			for _, n := range server.Requests() {
				requests[way] += n
			}
		}
	}
	n := float64(b.N)
	b.ReportMetric(float64(requests[0])/n, "requests")
	b.ReportMetric(float64(requests[1])/n, "classic-requests")
	b.ReportMetric(float64(took[0].Microseconds())/n, "µs")
	b.ReportMetric(float64(took[1].Microseconds())/n, "classic-µs")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "times")
}

// BenchmarkDynamoDB compares our protocol with the classic one, on the same endpoint through the same SDK: as fast as
// the endpoint responds, and with 3 ms for each request, which is about what the service takes.
func BenchmarkDynamoDB(b *testing.B) {
	for _, latency := range []time.Duration{0, 3 * time.Millisecond} {
		b.Run("latency="+latency.String(), func(b *testing.B) {
			b.Run("uncontended", func(b *testing.B) { benchUncontended(b, latency) })
			b.Run("held", func(b *testing.B) { benchHeld(b, latency) })
			b.Run("expired", func(b *testing.B) { benchExpired(b, latency) })
			b.Run("clients=8", func(b *testing.B) { benchContended(b, latency) })
		})
	}
}

// benchUncontended acquires and releases a lock that no one else wants.
func benchUncontended(b *testing.B, latency time.Duration) {
	b.Helper()
	server, ours, theirs := openBoth(b, nil, latency)
	cycle := func(p protocol) func(int) error {
		return func(int) error {
			held, err := p.acquire(b.Context(), "k", "ann")
			if err == nil && held == "" {
				err = errors.New("another owner has the lock")
			}
			if err == nil {
				err = p.release(b.Context(), "k", "ann", held)
			}
			return err
		}
	}
	inTurns(b, server, cycle(ours), cycle(theirs))
}

// benchHeld asks once for a lock that another owner holds.
func benchHeld(b *testing.B, latency time.Duration) {
	b.Helper()
	server, ours, theirs := openBoth(b, nil, latency)
	rejected := func(p protocol) func(int) error {
		if held, err := p.acquire(b.Context(), "k", "bob"); held == "" || err != nil {
			b.Fatal(held, err)
		}
		return func(int) error {
			held, err := p.acquire(b.Context(), "k", "ann")
			if err == nil && held != "" {
				err = errors.New("two holders")
			}
			return err
		}
	}
	inTurns(b, server, rejected(ours), rejected(theirs))
}

// benchExpired acquires a lock whose holder crashed and whose lease expired. The classic protocol must watch it for
// as long as a lease lasts (here 100 ms, shorter than in practice); ours asks once.
func benchExpired(b *testing.B, latency time.Duration) {
	b.Helper()
	var offset atomic.Int64
	server, ours, theirs := openBoth(b, func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }, latency)
	for _, p := range []protocol{ours, theirs} {
		if held, err := p.acquire(b.Context(), "k", "crashed"); held == "" || err != nil {
			b.Fatal(held, err)
		}
	}
	took := func(held string, err error) error {
		if err == nil && held == "" {
			err = errors.New("an expired lease is held")
		}
		return err
	}
	inTurns(b, server,
		func(i int) error {
			offset.Add(int64(time.Hour))
			return took(ours.acquire(b.Context(), "k", fmt.Sprint("owner ", i)))
		},
		func(i int) error { return took(theirs.takeOver(b.Context(), "k", fmt.Sprint("owner ", i))) })
}

// benchContended lets eight clients want one lock, each asking again a millisecond after a rejection. An operation is a
// cycle of each of the eight.
func benchContended(b *testing.B, latency time.Duration) {
	b.Helper()
	server, ours, theirs := openBoth(b, nil, latency)
	all := func(p protocol) func(int) error {
		return func(int) error {
			done := make(chan error)
			for c := range 8 {
				go func() { done <- insist(b.Context(), p, fmt.Sprint("client ", c)) }()
			}
			var errs []error
			for range 8 {
				errs = append(errs, <-done)
			}
			return errors.Join(errs...)
		}
	}
	inTurns(b, server, all(ours), all(theirs))
}

// insist acquires and releases a lock that others want as well.
func insist(ctx context.Context, p protocol, owner string) error {
	for {
		held, err := p.acquire(ctx, "k", owner)
		if err != nil {
			return err
		}
		if held != "" {
			return p.release(ctx, "k", owner, held)
		}
		time.Sleep(time.Millisecond)
	}
}
