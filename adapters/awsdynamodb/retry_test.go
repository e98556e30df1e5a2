package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestSendsOnlyOnce: a write that would be executed twice is not sent again after a response was lost, and one
// that rejects itself is.
func TestSendsOnlyOnce(t *testing.T) {
	k := docstore.Key{Kind: "k", ID: "x"}
	count := docstore.Write{Key: k, Add: map[string]int64{"n": 1}}
	once := docstore.Write{Key: k, If: docstore.Absent{}, Add: map[string]int64{"n": 1}}
	for _, c := range []struct {
		name     string
		write    docstore.Write
		fault    dynamodbtest.Kind
		times    int
		unknown  bool // the response is ErrUnavailable
		refused  bool // by what it wrote itself
		requests int
		n        docstore.Int // afterwards
	}{
		{"count, answer lost", count, dynamodbtest.DropAfter, 1, true, false, 1, 1},
		{"count, error after", count, dynamodbtest.FailAfter, 1, true, false, 1, 1},
		{"count, error before", count, dynamodbtest.FailBefore, 1, true, false, 1, 0},
		{"count, throttled", count, dynamodbtest.Throttle, 2, false, false, 3, 1},
		{"count, throttled by the API", count, dynamodbtest.ThrottleAPI, 1, false, false, 2, 1},
		{"count, conflict", count, dynamodbtest.Conflict, 5, false, false, 6, 1},
		{"once, answer lost", once, dynamodbtest.DropAfter, 1, false, true, 2, 1},
		{"once, error after", once, dynamodbtest.FailAfter, 1, false, true, 2, 1},
		{"once, error before", once, dynamodbtest.FailBefore, 2, false, false, 3, 1},
		{"once, errors without end", once, dynamodbtest.FailBefore, 0, true, false, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				store := openWith(t, client, awsdynamodb.Options{})
				server.ResetCounts()
				fault := server.Inject(dynamodbtest.Fault{Kind: c.fault, Op: "UpdateItem", Times: c.times})
				r, err := store.Write(t.Context(), c.write)
				if errors.Is(err, docstore.ErrUnavailable) != c.unknown || err != nil && !c.unknown ||
					err == nil && r.Applied == c.refused {
					t.Errorf("%+v, %v", r, err)
				}
				if got := server.Count("UpdateItem"); got != c.requests {
					t.Errorf("%d requests, want %d", got, c.requests)
				}
				fault.Remove()
				s, err := store.Get(t.Context(), k)
				if n, _ := s.Docs[0]["n"].(docstore.Int); err != nil || n != c.n {
					t.Errorf("n is %d, want %d, %v", n, c.n, err)
				}
			})
		})
	}
}

// refusing is a transport whose next connections cannot be made, or break.
type refusing struct {
	http.RoundTripper
	op    string // of the error: "dial" could not be made, "read" broke
	times int
	tries int
}

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".UpdateItem") {
		if r.tries++; r.tries <= r.times {
			return nil, &net.OpError{Op: r.op, Net: "tcp", Err: syscall.ECONNREFUSED}
		}
	}
	return r.RoundTripper.RoundTrip(req)
}

// TestConnectionsThatCannotBeMade: a write that was never sent is sent again, also one that would be executed twice;
// one whose connection broke is not.
func TestConnectionsThatCannotBeMade(t *testing.T) {
	k := docstore.Key{Kind: "k", ID: "x"}
	for _, c := range []struct {
		op           string
		times, tries int
		n            docstore.Value // afterwards
	}{
		{"dial", 2, 3, docstore.Int(1)}, {"dial", 9, 3, nil}, {"read", 1, 1, nil},
	} {
		t.Run(fmt.Sprint(c.op, " ", c.times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport := &refusing{RoundTripper: dynamodbtest.New(nil).RoundTripper(), op: c.op}
				store := openWith(t, dialThrough(transport), awsdynamodb.Options{})
				if _, err := store.Get(t.Context(), k); err != nil { // the clock is measured
					t.Fatal(err)
				}
				transport.times, transport.tries = c.times, 0
				_, err := store.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"n": 1}})
				if errors.Is(err, docstore.ErrUnavailable) != (c.n == nil) || transport.tries != c.tries {
					t.Errorf("%v after %d tries", err, transport.tries)
				}
				if s, err := store.Get(t.Context(), k); err != nil || s.Docs[0]["n"] != c.n {
					t.Errorf("the document is %v, %v", s.Docs, err)
				}
			})
		})
	}
}

// TestTransactionsOnce: several documents are written once, however often the transaction is sent.
func TestTransactionsOnce(t *testing.T) {
	for _, kind := range []dynamodbtest.Kind{dynamodbtest.DropAfter, dynamodbtest.FailAfter, dynamodbtest.DropBefore,
		dynamodbtest.Conflict, dynamodbtest.InProgress, dynamodbtest.Throttle} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				store := openWith(t, client, awsdynamodb.Options{})
				a, b := docstore.Key{Kind: "k", ID: "a"}, docstore.Key{Kind: "k", ID: "b"}
				server.ResetCounts()
				server.Inject(dynamodbtest.Fault{Kind: kind, Op: "TransactWriteItems", Times: 2})
				add := map[string]int64{"n": 1}
				r, err := store.Write(t.Context(), docstore.Write{Key: a, Add: add}, docstore.Write{Key: b, Add: add})
				if err != nil || !r.Applied {
					t.Errorf("%+v, %v", r, err)
				}
				if got := server.Count("TransactWriteItems"); got != 3 {
					t.Errorf("%d requests, want 3", got)
				}
				s, err := store.Get(t.Context(), a, b)
				if err != nil || s.Docs[0]["n"] != docstore.Int(1) || s.Docs[1]["n"] != docstore.Int(1) {
					t.Errorf("the documents are %v, %v", s.Docs, err)
				}
			})
		})
	}
}

// TestPatience: throttling is waited for, up to Options.RetryTimeout and the caller's deadline.
func TestPatience(t *testing.T) {
	k := docstore.Key{Kind: "k", ID: "x"}
	write := docstore.Write{Key: k, Add: map[string]int64{"n": 1}}
	other := docstore.Write{Key: docstore.Key{Kind: "k", ID: "y"}}
	unchanged := func(t *testing.T, store *awsdynamodb.Store) {
		t.Helper()
		if s, err := store.Get(t.Context(), k); err != nil || s.Docs[0] != nil {
			t.Errorf("the document is %v, %v", s.Docs, err)
		}
	}
	t.Run("for three seconds", func(t *testing.T) {
		inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
			store := openWith(t, client, awsdynamodb.Options{})
			fault := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Throttle})
			time.AfterFunc(3*time.Second, fault.Remove)
			begin := time.Now()
			r, err := store.Write(t.Context(), write)
			if took := time.Since(begin); err != nil || !r.Applied || took < 3*time.Second || took > 4*time.Second {
				t.Errorf("%+v, %v after %v", r, err, took)
			}
		})
	})
	t.Run("without end", func(t *testing.T) {
		inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
			store := openWith(t, client, awsdynamodb.Options{RetryTimeout: 2 * time.Second})
			for _, kind := range []dynamodbtest.Kind{dynamodbtest.Throttle, dynamodbtest.Conflict} {
				fault := server.Inject(dynamodbtest.Fault{Kind: kind})
				want := map[dynamodbtest.Kind]string{dynamodbtest.Throttle: "throttled",
					dynamodbtest.Conflict: "other transactions"}[kind]
				for _, writes := range [][]docstore.Write{{write}, {write, other}} {
					begin := time.Now()
					_, err := store.Write(t.Context(), writes...)
					if took := time.Since(begin); !errors.Is(err, docstore.ErrUnavailable) || took < 2*time.Second ||
						took > 4*time.Second {
						t.Errorf("%v, %d writes: %v after %v", kind, len(writes), err, took)
					}
					if !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(err), "2s") {
						t.Errorf("%v: %v, want %q in it", kind, err, want)
					}
				}
				fault.Remove()
			}
			unchanged(t, store)
		})
	})
	t.Run("longer than the caller's", func(t *testing.T) {
		inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
			store := openWith(t, client, awsdynamodb.Options{})
			fault := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Throttle})
			for _, writes := range [][]docstore.Write{{write}, {write, other}} {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				begin := time.Now()
				_, err := store.Write(ctx, writes...)
				cancel()
				if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 50*time.Millisecond {
					t.Errorf("%v after %v", err, took)
				}
				if errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "ended by the caller") {
					t.Errorf("%v: it was the caller who ended it", err)
				}
			}
			fault.Remove()
			unchanged(t, store)
		})
	})
}

// canceling is a client whose transactions are canceled for the next reasons, and counts them.
type canceling struct {
	awsdynamodb.Client
	reasons [][]string
	sent    int
}

func (c *canceling) TransactWriteItems(ctx context.Context, in *sdk.TransactWriteItemsInput,
	o ...func(*sdk.Options)) (*sdk.TransactWriteItemsOutput, error) {
	var options sdk.Options
	for _, f := range o {
		f(&options)
	}
	for ; ; c.sent++ { // as the SDK does
		if c.sent == len(c.reasons) {
			return c.Client.TransactWriteItems(ctx, in, o...)
		}
		err := &types.TransactionCanceledException{}
		for _, code := range c.reasons[c.sent] {
			reason := types.CancellationReason{Code: aws.String(code)}
			if code == "ConditionalCheckFailed" {
				reason.Item = map[string]types.AttributeValue{"n": &types.AttributeValueMemberN{Value: "7"}}
			}
			err.CancellationReasons = append(err.CancellationReasons, reason)
		}
		if !options.Retryer.IsErrorRetryable(err) {
			c.sent++
			return nil, err
		}
	}
}

// TestMixedReasons: a transaction of which one condition failed is refused, whatever kept the other documents busy; it
// is not sent again. One that only met other transactions is.
func TestMixedReasons(t *testing.T) {
	for _, c := range []struct {
		reasons [][]string
		applied bool
		refused []int
		sent    int
	}{
		{[][]string{{"TransactionConflict", "ConditionalCheckFailed"}}, false, []int{1}, 1},
		{[][]string{{"ConditionalCheckFailed", "TransactionConflict"}}, false, []int{0}, 1},
		{[][]string{{"ThrottlingError", "ConditionalCheckFailed"}}, false, []int{1}, 1},
		{[][]string{{"TransactionConflict", "None"}, {"None", "ThrottlingError"},
			{"TransactionConflict", "ProvisionedThroughputExceeded"}}, true, nil, 3},
	} {
		client := &canceling{Client: inMemory()}
		s := open(t, client)
		client.reasons = c.reasons
		never := docstore.Eq{Field: "n", Value: docstore.Int(8)}
		writes := []docstore.Write{{Key: docstore.Key{Kind: "k", ID: "a"}, If: never},
			{Key: docstore.Key{Kind: "k", ID: "b"}, If: never}}
		if c.applied {
			writes[0].If, writes[1].If = nil, nil
		}
		r, err := s.Write(t.Context(), writes...)
		if err != nil || r.Applied != c.applied || !slices.Equal(r.Refused, c.refused) || client.sent != c.sent {
			t.Errorf("%v: %+v, %v, %d requests", c.reasons, r, err, client.sent)
		}
		for _, i := range c.refused {
			if r.Docs[i]["n"] != docstore.Int(7) {
				t.Errorf("%v: found %v", c.reasons, r.Docs)
			}
		}
	}
}
