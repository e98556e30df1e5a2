package awsdynamodb_test

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Meter = (*awsdynamodb.Store)(nil)

// TestUsage: requests are counted as the service counts them, those that were sent again and those that were throttled, too; conflicts and
// conditions that do not hold are no throttling.
func TestUsage(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		before := store.Usage()
		server.ResetCounts()
		w := docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}, If: docstore.Absent{}, Set: map[string]docstore.Value{"n": docstore.Int(1)}}
		for _, fault := range []dynamodbtest.Fault{
			{Kind: dynamodbtest.Throttle, Op: "UpdateItem", Times: 2}, {Kind: dynamodbtest.Conflict, Op: "UpdateItem", Times: 1}, {},
		} {
			if fault.Op != "" {
				server.Inject(fault)
			}
			if _, err := store.Write(t.Context(), w); err != nil { // applied, and then refused
				t.Fatal(err)
			}
		}
		if _, err := store.Get(t.Context(), w.Key); err != nil {
			t.Fatal(err)
		}
		got := store.Usage()
		if n := int64(server.Count("UpdateItem") + server.Count("GetItem")); got.Requests-before.Requests != n || got.Retries-before.Retries != 3 || got.Throttled-before.Throttled != 2 {
			t.Errorf("%+v, before that %+v; the service counts %d", got, before, n)
		}
		if !got.Clock.Known || got.Clock.Offset.Abs() > time.Second || got.Clock.Uncertainty <= 0 {
			t.Errorf("the clock: %+v", got.Clock)
		}
	})
}
