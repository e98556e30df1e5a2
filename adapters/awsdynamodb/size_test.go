package awsdynamodb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// valueBytes is the size of a value as DynamoDB counts it: text and numbers by their content, and three bytes for a map with one
// for each entry.
func valueBytes(t *testing.T, v types.AttributeValue) int {
	t.Helper()
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberM:
		n := 3
		for k, e := range v.Value {
			n += 1 + len(k) + valueBytes(t, e)
		}
		return n
	default:
		t.Fatalf("%T has no size here", v)
		return 0
	}
}

// TestItemOfALock: with ordinary names and 256 bytes of labels, the item of a lock that has been used for long stays within a KiB,
// so that each write of a lock is billed as one unit. Only a force-release, and the acquire after it, may take more: until then the
// reason is kept.
func TestItemOfALock(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		name := func(of string) string { return of + strings.Repeat("x", 64-len(of)) }
		requests := 0
		request := func() string { requests++; return fmt.Sprintf("%08d-0000-4000-8000-000000000000", requests) }
		id := lock.ID{Tenant: name("tenant"), Key: name("key")}
		metadata := map[string]string{"build": strings.Repeat("b", 123), "commit": strings.Repeat("c", 122)}
		largest := 0
		within := func(o lock.Outcome, err error) lock.Outcome {
			t.Helper()
			if err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, %v", o, err)
			}
			r, err := client.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("leasehold"), ConsistentRead: aws.Bool(true)})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range r.Items {
				size := 0
				for k, v := range item {
					size += len(k) + valueBytes(t, v)
				}
				if largest = max(largest, size); size > 1024 {
					t.Fatalf("an item of %d bytes after %d requests: %v", size, requests, item)
				}
			}
			return o
		}
		for n := range 20 {
			o := within(locks.Acquire(t.Context(), lock.Acquire{
				ID: id, Owner: name("owner"), RequestID: request(), TTLSeconds: 86_400, Metadata: metadata,
			}))
			for range 6 {
				time.Sleep(time.Second)
				o = within(locks.Renew(t.Context(), lock.Renew{
					ID: id, Owner: name("owner"), Token: o.Lease.Token, RequestID: request(), TTLSeconds: 86_400, ExpiresAt: o.Lease.ExpiresAt,
				}))
			}
			if n%3 == 0 {
				c := lock.ForceRelease{ID: id, By: name("root"), Reason: strings.Repeat("r", 512), RequestID: request()}
				if o, err := locks.ForceRelease(t.Context(), c); err != nil || o.Code != lock.OK {
					t.Fatalf("%+v, %v", o, err)
				}
				continue
			}
			within(locks.Release(t.Context(), lock.Release{ID: id, Owner: name("owner"), Token: o.Lease.Token, RequestID: request()}))
		}
		t.Logf("the largest item had %d bytes", largest)
	})
}
