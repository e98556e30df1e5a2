package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// valueBytes is the size of a value as DynamoDB counts it: text and numbers by their content, a byte for true or false,
// and three bytes for a map with one for each entry.
func valueBytes(t *testing.T, v types.AttributeValue) int {
	t.Helper()
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberBOOL:
		return 1
	case *types.AttributeValueMemberB:
		return len(v.Value)
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

// itemBytes is the size of the largest item of the table, by which writes are billed.
func itemBytes(t *testing.T, client *sdk.Client) (largest int) {
	t.Helper()
	r, err := client.Scan(t.Context(), &sdk.ScanInput{TableName: aws.String("leasehold"), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range r.Items {
		size := 0
		for k, v := range item {
			size += len(k) + valueBytes(t, v)
		}
		largest = max(largest, size)
	}
	return largest
}

// TestItemOfALock: with ordinary names and 256 bytes of labels, the item of a lock that has been used for long stays
// within a KiB, so that each write of a lock is billed as one unit. Only a force-release, and the acquire after it, may
// take more: until then the reason is kept. docs/guides/stores.md has the figures.
func TestItemOfALock(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		server.ResetCounts()
		plain, forced := suite.UsedLock(t, locks, time.Sleep, func() int {
			if took := server.Requests()["UpdateItem"]; took == 1 && server.Consumed().Write != 1 {
				t.Errorf("a command was billed %v units", server.Consumed().Write)
			}
			size := itemBytes(t, client)
			server.ResetCounts()
			return size
		})
		if plain > 927 || forced > 995 {
			t.Errorf("%d bytes, %d after force-releases: correct docs/guides/stores.md, and keep below 1024", plain, forced)
		}
	})
}

// TestItemOfALockWithHistory: the leases that a lock remembers beside the latest one, and its policies, do not make it
// larger than a KiB, whatever its names and labels take, unless it would be without them. The second number is how many
// leases there is room for.
func TestItemOfALockWithHistory(t *testing.T) {
	for _, c := range []struct {
		names, labels, remembered int
		more                      lock.Acquire
	}{
		{12, 11, 2, lock.Acquire{}},
		{12, 81, 2, lock.Acquire{}},
		{12, 82, 1, lock.Acquire{}},
		{12, 227, 1, lock.Acquire{}},
		{12, 228, 0, lock.Acquire{}},
		{32, 21, 2, lock.Acquire{}},
		{32, 133, 1, lock.Acquire{Replace: true, LockDelaySeconds: 3600}},
		{32, 134, 0, lock.Acquire{Replace: true, LockDelaySeconds: 3600}},
		{64, 71, 1, lock.Acquire{}},
		{100, 11, 0, lock.Acquire{}},
	} {
		t.Run(fmt.Sprintf("names of %d, labels of %d", c.names, c.labels), func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
				server.ResetCounts()
				largest := 0
				plain, forced := suite.Used{Names: c.names, Labels: c.labels, Reason: 20, Acquire: c.more}.Lock(
					t, locks, func(d time.Duration) { time.Sleep(d) }, func() int {
						if took := server.Requests()["UpdateItem"]; took == 1 && server.Consumed().Write != 1 {
							t.Errorf("a command was billed %v units", server.Consumed().Write)
						}
						size := itemBytes(t, client)
						largest = max(largest, size)
						server.ResetCounts()
						return size
					})
				if documented := c.names == 12 && c.labels == 81; largest > 1024 || documented && (plain > 798 || forced > 878) {
					t.Errorf("%d bytes, %d after force-releases, %d at most: correct docs/guides/stores.md, and keep below 1024", plain,
						forced, largest)
				}
				p, err := locks.List(t.Context(), lock.List{Tenant: "tenant" + strings.Repeat("x", c.names-6)})
				if err != nil || len(p.Locks) != 1 {
					t.Fatal(p, err)
				}
				s, _, err := locks.Get(t.Context(), lock.ID{Tenant: p.Locks[0].Tenant, Key: p.Locks[0].Key})
				if err != nil || len(s.History) != c.remembered+1 { // the latest was ended, too
					t.Errorf("%d leases: %+v, %v", len(s.History), s.History, err)
				}
			})
		})
	}
}

// acceptAll is a queue.
type acceptAll struct{}

func (acceptAll) Enqueue(context.Context, analysis.ID, string) error { return nil }

// TestItemOfAnAnalysis: the same of an analysis, whose document is the user's. Every field of Leasehold's that can be
// there at once is, with reasons of 100 bytes, and each write of the gate and of the sweep is one unit.
// docs/guides/stores.md has the figures.
func TestItemOfAnAnalysis(t *testing.T) {
	for name, c := range map[string]struct{ retries, users, ours int }{
		"never retried": {0, 400, 528},
		"retried":       {5, 150, 870},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				analysisForLong(t, server, client, c.retries, c.users, c.ours)
			})
		})
	}
}

// analysisForLong lets an analysis with so many bytes of the user's become FAILED, be retried, run, fail and be taken
// over, so often that it remembers as much as it can, and wants at most so many bytes of Leasehold's.
func analysisForLong(t *testing.T, server *dynamodbtest.Server, client *sdk.Client, retries, users, ours int) {
	t.Helper()
	store := openWith(t, client, awsdynamodb.Options{Due: []string{analysis.ExpiryField}})
	analyses := analysis.New(store, nil)
	const id = analysis.ID("a3f1c9d2-7b64-4e0a-9c58-2f6d1e8b4a70")
	key := docstore.Key{Kind: analysis.Kind, ID: string(id)}
	put := func(source string) {
		w := docstore.Write{Key: key, Set: map[string]docstore.Value{"createdAt": docstore.Now,
			"source": docstore.String(source)}}
		if r, err := store.Write(t.Context(), w); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
	put("")
	put(strings.Repeat("s", users-itemBytes(t, client)))
	if got := itemBytes(t, client); got != users {
		t.Fatalf("%d bytes of the user's, want %d", got, users)
	}
	server.ResetCounts()
	requests, largest := 0, 0
	request := func() string { requests++; return fmt.Sprintf("%08d-0000-4000-8000-000000000000", requests) }
	did := func(what string, o analysis.Outcome, err error) analysis.Outcome {
		t.Helper()
		if err != nil || o.Code != analysis.OK {
			t.Fatalf("%s: %+v, %v", what, o, err)
		}
		// A takeover is two writes: the first one is refused.
		if got, writes := server.Consumed().Write, server.Requests()["UpdateItem"]; got != float64(writes) ||
			writes > 1 && (what != "acquire" || o.Grant.Runs < 2) {
			t.Errorf("%s was billed %v units for %d writes", what, got, writes)
		}
		largest = max(largest, itemBytes(t, client))
		server.ResetCounts()
		return o
	}
	owner, reason := "worker-"+strings.Repeat("0", 57), strings.Repeat("r", 100)
	acquire := func() int64 {
		o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: id, Owner: owner, TTLSeconds: 300, RequestID: request()})
		return did("acquire", o, err).Grant.Token
	}
	for range retries {
		o, err := analyses.Finish(t.Context(), analysis.Finish{ID: id, Owner: owner, Token: acquire(),
			Status: analysis.Failed, Reason: reason})
		did("finish", o, err)
		o, err = analyses.Retry(t.Context(), analysis.Retry{ID: id, By: "admin-" + strings.Repeat("0", 58), Reason: reason,
			RequestID: request()})
		did("retry", o, err)
	}
	for n := range 8 {
		token := acquire()
		time.Sleep(time.Minute)
		o, err := analyses.Refresh(t.Context(), analysis.Refresh{ID: id, Owner: owner, Token: token, TTLSeconds: 300})
		did("refresh", o, err)
		if n%3 != 2 {
			o, err = analyses.Release(t.Context(), analysis.Release{ID: id, Owner: owner, Token: token, Failed: reason})
			did("release", o, err)
			continue
		}
		time.Sleep(time.Hour) // the worker has vanished
		server.ResetCounts()
		swept, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: acceptAll{}})
		if err != nil || swept.Requeued != 1 || server.Consumed().Write != 1 {
			t.Errorf("the sweep: %+v, %v, %v units", swept, err, server.Consumed())
		}
		largest = max(largest, itemBytes(t, client))
		server.ResetCounts()
	}
	if largest-users != ours {
		t.Errorf("%d bytes of Leasehold's, want %d: correct docs/guides/stores.md", largest-users, ours)
	}
}

// TestTooLarge: each of two fields may be as large as the port allows, and the document is rejected for both together,
// with nothing written; so is a step of too many.
func TestTooLarge(t *testing.T) {
	s := open(t, inMemory())
	most := docstore.Bytes(make([]byte, docstore.MaxBytes))
	refused := func(name string, writes ...docstore.Write) {
		t.Helper()
		if _, err := s.Write(t.Context(), writes...); !errors.Is(err, docstore.ErrInvalid) ||
			!strings.Contains(err.Error(), "400 KB") {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range writes {
			if snap, err := s.Get(t.Context(), w.Key); err != nil || snap.Docs[0] != nil {
				t.Errorf("%s: %d fields are stored, %v", name, len(snap.Docs[0]), err)
			}
		}
	}
	key := func(id string) docstore.Key { return docstore.Key{Kind: "locks", ID: id} }
	large := docstore.Write{Key: key("a"), Set: docstore.Doc{"x": most, "y": most}}
	refused("a document", large)
	refused("a document among others", docstore.Write{Key: key("b"), Add: map[string]int64{"n": 1}}, large)
	many := make([]docstore.Write, 17)
	for i := range many {
		many[i] = docstore.Write{Key: key(strconv.Itoa(i)), Set: docstore.Doc{"x": most}}
	}
	refused("a step", many...)
}

// TestALockWithAsManyHoldersAsMay: the largest writes of the shared form stay within what the service takes in one
// expression, and what a holder and a place take of the item, by which writes are billed, is what docs/guides/stores.md
// says.
func TestALockWithAsManyHoldersAsMay(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		id := lock.ID{Tenant: "acme", Key: "deploy/prod"}
		held, all, holder, place := suite.SharedLock(t, locks, func() int { return itemBytes(t, client) })
		if held > 11233 || all > 19742 || holder > 112 || place > 86 {
			t.Errorf("%d bytes, %d with places, %d for a holder, %d for a place: correct docs/guides/stores.md", held,
				all, holder, place)
		}
		force := func(request string) {
			t.Helper()
			if o, err := locks.ForceRelease(t.Context(), lock.ForceRelease{ID: id, By: "root", Reason: "all of them",
				RequestID: request}); err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		force("f1") // a hundred leases; the writer is next
		force("f2") // and then the readers that wait, all of them
		st, _, err := locks.Get(t.Context(), id)
		if err != nil || len(st.Holders) != lock.MaxWaiting-1 || len(st.Waiting) != 0 {
			t.Fatalf("%d holders, %d wait: %v", len(st.Holders), len(st.Waiting), err)
		}
		time.Sleep(time.Hour)
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "worker-5000", RequestID: "last", TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		if size := itemBytes(t, client); size > 1024 {
			t.Errorf("%d bytes in plain form", size)
		}
	})
}
