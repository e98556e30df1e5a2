package awsdynamodb_test

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestWaitWithinTheMargin: while it is not sure whether the lease has ended, those who wait do not write again and
// again. A read knows the latest that the time can be, and a write is refused by the earliest.
func TestWaitWithinTheMargin(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		const waiters = 20
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		held, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: "r", TTLSeconds: 8})
		if err != nil || held.Code != lock.OK {
			t.Fatalf("%+v, %v", held, err)
		}
		granted, refused := make(chan time.Time, waiters), make(chan lock.Outcome, waiters)
		for n := range waiters {
			go func() {
				o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: fmt.Sprint("w", n), RequestID: "r", TTLSeconds: 60,
					WaitSeconds: 15})
				if err == nil && o.Code == lock.OK {
					granted <- time.Now()
				} else {
					refused <- o
				}
			}()
		}
		time.Sleep(2 * time.Second)
		server.ResetCounts()
		at := <-granted
		const widest = 1020 * time.Millisecond // one Date leaves a second
		if late := at.Sub(held.Lease.ExpiresAt); late < 0 || late > 2*widest {
			t.Errorf("granted %v after the lease ended", late)
		}
		for range waiters - 1 {
			if o := <-refused; o.Code != lock.Held {
				t.Errorf("%+v", o)
			}
		}
		if writes, reads := server.Count("UpdateItem"), server.Count("GetItem"); writes > 4 || reads > 50 {
			t.Errorf("%d writes and %d reads by %d who waited for 13 s", writes, reads, waiters)
		} else {
			t.Logf("%d writes and %d reads by %d who waited for 13 s", writes, reads, waiters)
		}
	})
}
