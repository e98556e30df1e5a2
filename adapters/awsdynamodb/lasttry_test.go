package awsdynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestTheTimeOfTheLastTry: a write that was throttled has the time at which it was sent for the last time, alone and
// in a transaction.
func TestTheTimeOfTheLastTry(t *testing.T) {
	const widest = 1020 * time.Millisecond
	now := map[string]docstore.Value{"at": docstore.Now}
	for _, kind := range []dynamodbtest.Kind{dynamodbtest.Throttle, dynamodbtest.Conflict} {
		for n := 1; n <= 2; n++ {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				store := openWith(t, client, awsdynamodb.Options{})
				var writes []docstore.Write
				for i := range n {
					writes = append(writes, docstore.Write{Key: docstore.Key{Kind: "k", ID: strconv.Itoa(i)}, Set: now})
				}
				fault := server.Inject(dynamodbtest.Fault{Kind: kind})
				const long = 4 * time.Second
				time.AfterFunc(long, fault.Remove)
				begin := time.Now()
				r, err := store.Write(t.Context(), writes...)
				took := time.Since(begin)
				if err != nil || !r.Applied || r.At.Before(time.Now()) || r.At.After(time.Now().Add(widest)) {
					t.Errorf("%v, %d writes: of %v, now it is %v, %v", kind, n, r.At, time.Now(), err)
				}
				if r.Before != took || r.Before < long || r.Lost != 0 {
					t.Errorf("%v, %d writes: %v before the last try, want %v; lost %v", kind, n, r.Before, took, r.Lost)
				}
				s, err := store.Get(t.Context(), writes[0].Key)
				if err != nil || s.Docs[0]["at"] != docstore.Value(docstore.FormatTime(r.At)) {
					t.Errorf("%v, %d writes: stored %v, %v", kind, n, s.Docs, err)
				}
			})
		}
	}
}

// TestRatesWhileThrottled: a rate is exact for those who watch it also when its writes are throttled for longer than
// its window, which is when rates are needed (LS-INV-001).
func TestRatesWhileThrottled(t *testing.T) {
	for seed := range 20 {
		inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
			time.Sleep(time.Duration(seed) * 47 * time.Millisecond)
			const window = 3 * time.Second
			fault := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Throttle, Op: "UpdateItem"})
			time.AfterFunc(4*time.Second, fault.Remove)
			seen := make(chan time.Time, 64)
			for i := range 4 {
				locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
				go func() {
					for try := 0; time.Now().Before(time.Date(2000, 1, 1, 0, 0, 15, 0, time.UTC)); try++ {
						o, err := locks.AcquireWithin(context.WithoutCancel(t.Context()), lock.Acquire{
							ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: strconv.Itoa(i), RequestID: fmt.Sprint("r", try),
							Mode: lock.Rate, Limit: 1, WindowSeconds: 3,
						}, 0)
						if err == nil && o.Code == lock.OK && !o.Replayed {
							seen <- time.Now()
						}
						time.Sleep(70 * time.Millisecond)
					}
				}()
				time.Sleep(time.Second)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			close(seen)
			last, n := time.Time{}, 0
			for at := range seen {
				if apart := at.Sub(last); apart < window {
					t.Errorf("seed %d: two grants within %v", seed, apart)
				}
				last, n = at, n+1
			}
			if n < 3 {
				t.Errorf("seed %d: %d grants", seed, n)
			}
		})
	}
}

// slowOnce holds the next request that writes back, before or after it is served.
type slowOnce struct {
	http.RoundTripper
	before, after atomic.Int64 // nanoseconds
}

func (s *slowOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		return s.RoundTripper.RoundTrip(r)
	}
	time.Sleep(time.Duration(s.before.Swap(0)))
	w, err := s.RoundTripper.RoundTrip(r)
	time.Sleep(time.Duration(s.after.Swap(0)))
	return w, err
}

// TestAGrantOfARateThatComesLate: it is counted and spent, whether its request or its response was held back. The lease
// of another mode lasts.
func TestAGrantOfARateThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		before, after time.Duration
		want          lock.Code
	}{
		"in time":           {lock.GrantTime / 2, lock.GrantTime / 2, lock.OK},
		"request, too late": {lock.GrantTime + 1, 0, lock.LeaseExpired},
		"response":          {0, lock.GrantTime + 1, lock.LeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowOnce{RoundTripper: dynamodbtest.New(nil).RoundTripper()}
				locks := lock.New(openWith(t, dialThrough(slow), awsdynamodb.Options{}), nil)
				rate := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", Mode: lock.Rate,
					Limit: 1, WindowSeconds: 60}
				send := func(c lock.Acquire) lock.Outcome {
					t.Helper()
					o, err := locks.Acquire(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				slow.before.Store(int64(c.before))
				slow.after.Store(int64(c.after))
				if o := send(rate); o.Code != c.want || o.Code == lock.LeaseExpired && !strings.Contains(o.Detail, "is spent") {
					t.Errorf("%+v", o)
				}
				rate.RequestID = "r2"
				if o := send(rate); o.Code != lock.Held {
					t.Errorf("the next one: %+v", o)
				}
				slow.before.Store(int64(c.before))
				slow.after.Store(int64(c.after))
				if o := send(lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "other"}, Owner: "ann", RequestID: "r1",
					TTLSeconds: 10}); o.Code != lock.OK {
					t.Errorf("a lease: %+v", o)
				}
			})
		})
	}
}

// recorder notes the writes that a client sends: the token of a transaction, and the first value that is a time.
type recorder struct {
	awsdynamodb.Client
	tokens, times []string
	before        func() // each
}

func (r *recorder) TransactWriteItems(ctx context.Context, in *sdk.TransactWriteItemsInput,
	o ...func(*sdk.Options)) (*sdk.TransactWriteItemsOutput, error) {
	r.before()
	r.tokens = append(r.tokens, *in.ClientRequestToken)
	r.times = append(r.times, fmt.Sprint(in.TransactItems[0].Update.ExpressionAttributeValues[":v0"]))
	return r.Client.TransactWriteItems(ctx, in, o...)
}

func (r *recorder) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput,
	o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	r.before()
	r.times = append(r.times, fmt.Sprint(in.ExpressionAttributeValues[":v0"]))
	return r.Client.UpdateItem(ctx, in, o...)
}

// TestWhatMayHaveBeenExecutedIsSentAsItWas: with its time and its token; what was certainly not executed is a new
// request. One that was sent once without a response stays what it is, also when it is throttled afterwards.
func TestWhatMayHaveBeenExecutedIsSentAsItWas(t *testing.T) {
	once := docstore.All{docstore.Absent{}}
	for _, c := range []struct {
		faults []dynamodbtest.Kind
		fresh  []bool // tries that are new requests, after the first
	}{
		{[]dynamodbtest.Kind{dynamodbtest.Throttle, dynamodbtest.Conflict}, []bool{true, true}},
		{[]dynamodbtest.Kind{dynamodbtest.FailBefore}, []bool{false}},
		{[]dynamodbtest.Kind{dynamodbtest.Throttle, dynamodbtest.DropBefore, dynamodbtest.Throttle},
			[]bool{true, false, false}},
		{[]dynamodbtest.Kind{dynamodbtest.InProgress}, []bool{false}},
	} {
		for n := 1; n <= 2; n++ {
			if n == 1 && c.faults[0] == dynamodbtest.InProgress {
				continue
			}
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				sent := &recorder{Client: client}
				store := openWith(t, sent, awsdynamodb.Options{RetryTimeout: time.Minute})
				var writes []docstore.Write
				for i := range n {
					writes = append(writes, docstore.Write{Key: docstore.Key{Kind: "k", ID: strconv.Itoa(i)}, If: once,
						Set: map[string]docstore.Value{"at": docstore.Now}})
				}
				op := []string{"UpdateItem", "TransactWriteItems"}[n-1]
				sent.before = func() {
					time.Sleep(2 * time.Second) // more than the time is uncertain by
					if i := len(sent.times); i < len(c.faults) {
						server.Inject(dynamodbtest.Fault{Kind: c.faults[i], Op: op, Times: 1})
					}
				}
				r, err := store.Write(t.Context(), writes...)
				if err != nil || !r.Applied || len(sent.times) != len(c.faults)+1 {
					t.Fatalf("%v, %d writes: %+v, %v, sent %v", c.faults, n, r, err, sent.times)
				}
				for i, fresh := range c.fresh {
					if (sent.times[i+1] != sent.times[i]) != fresh || n == 2 && (sent.tokens[i+1] != sent.tokens[i]) != fresh {
						t.Errorf("%v, %d writes: try %d fresh is not %v: %v %v", c.faults, n, i+1, fresh, sent.times, sent.tokens)
					}
				}
			})
		}
	}
}

// TestTheEndOfAWriteIsJudgedAtEachTry: a write that was throttled beyond its end is refused as one that came too late.
// One that may have been executed is not sent again after it: its outcome is unknown.
func TestTheEndOfAWriteIsJudgedAtEachTry(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
			store := openWith(t, client, awsdynamodb.Options{})
			k := docstore.Key{Kind: "k", ID: "x"}
			if unknown {
				server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.DropBefore, Op: "UpdateItem", Times: 1})
			}
			fault := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Throttle, Op: "UpdateItem"})
			time.AfterFunc(3*time.Second, fault.Remove)
			r, err := store.Write(t.Context(), docstore.Write{Key: k, If: docstore.Absent{},
				Set: map[string]docstore.Value{"a": docstore.Int(1)}, Until: time.Now().Add(2 * time.Second)})
			switch {
			case unknown && !errors.Is(err, docstore.ErrUnavailable):
				t.Errorf("unknown: %+v, %v", r, err)
			case !unknown && (err != nil || r.Applied || len(r.Refused) != 1):
				t.Errorf("%+v, %v", r, err)
			}
			time.Sleep(5 * time.Second)
			if s, err := store.Get(t.Context(), k); err != nil || s.Docs[0] != nil {
				t.Errorf("unknown %v: the document is %v, %v", unknown, s.Docs, err)
			}
		})
	}
}

// frozen stops the machine of a caller while its next write is on the way: both of its clocks stand.
type frozen struct {
	http.RoundTripper
	stood atomic.Int64
	next  atomic.Int64
}

func (f *frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		d := f.next.Swap(0)
		time.Sleep(time.Duration(d))
		f.stood.Add(d)
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestAMachineThatWasFrozen: a machine is stopped between the reading of its clock and the request, and its clocks with
// it. The date of the response says so: a lease that is over by then is none, of one that is not so much is left.
func TestAMachineThatWasFrozen(t *testing.T) {
	const ttl = 20
	for _, stood := range []time.Duration{0, 900 * time.Millisecond, 10 * time.Second, 25 * time.Second, time.Hour} {
		for _, gate := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &frozen{RoundTripper: dynamodbtest.New(nil).RoundTripper()}
				own := func() time.Time { return time.Now().Add(-time.Duration(f.stood.Load())) }
				store := openWith(t, dialThrough(f), awsdynamodb.Options{Now: own})
				start := own()
				store.ReadClock(func() (time.Time, time.Duration) { return own(), own().Sub(start) })
				if _, err := store.Get(t.Context(), docstore.Key{Kind: "k", ID: "x"}); err != nil {
					t.Fatal(err)
				}
				var begin time.Time
				freeze := func() { f.next.Store(int64(stood)); begin = time.Now() }
				var ok, expired bool
				var left time.Duration // of the lease, as its holder is told
				if gate {
					gate := analysis.New(store, &analysis.Options{Now: own})
					if _, err := gate.Create(t.Context(), analysis.Create{ID: "a1"}); err != nil {
						t.Fatal(err)
					}
					freeze()
					o, err := gate.Acquire(t.Context(), analysis.Acquire{ID: "a1", Owner: "ann", RequestID: "r1", TTLSeconds: ttl})
					if err != nil {
						t.Fatal(err)
					}
					ok, expired, left = o.Code == analysis.OK, o.Code == analysis.Expired, o.Grant.ExpiresAt.Sub(o.At)
				} else {
					freeze()
					o, err := lock.New(store, &lock.Options{Now: own}).Acquire(t.Context(), lock.Acquire{
						ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", TTLSeconds: ttl})
					if err != nil {
						t.Fatal(err)
					}
					ok, expired, left = o.Code == lock.OK, o.Code == lock.LeaseExpired, o.Lease.ExpiresAt.Sub(o.At)
				}
				if over := time.Since(begin) >= ttl*time.Second; over != expired || over == ok {
					t.Errorf("gate %v, stood for %v: granted %v", gate, stood, ok)
				}
				most := ttl*time.Second - stood
				if stood < 2*time.Second { // a Date has whole seconds
					most = ttl * time.Second
				}
				if ok && left > most {
					t.Errorf("gate %v, stood for %v: %v left", gate, stood, left)
				}
			})
		}
	}
}
