package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// dynamoClient is the real SDK, with its own rules for trying again switched on, as a program has it.
func dynamoClient(url string, transport http.RoundTripper) *sdk.Client {
	o := sdk.Options{
		Region: "local", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	}
	if transport != nil {
		o.HTTPClient = &http.Client{Transport: transport}
	}
	return sdk.New(o)
}

// openDynamo opens a store in a table, which it creates.
func openDynamo(t testing.TB, client *sdk.Client, table string, o awsdynamodb.Options) *awsdynamodb.Store {
	t.Helper()
	o.Client, o.CreateTable = client, true
	s, err := awsdynamodb.Open(t.Context(), table, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// inBubble gives a test an emulator without a network, inside a bubble whose time passes only by waiting.
func inBubble(t *testing.T, test func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		test(t, server, dynamoClient("http://dynamodb.local", server.RoundTripper()))
	})
}

// overNetwork is an emulator of its own for each store of a suite, behind a socket.
func overNetwork(t *testing.T) (*dynamodbtest.Server, *sdk.Client) {
	t.Helper()
	server := dynamodbtest.Start(t, nil)
	return server, dynamoClient(server.URL, nil)
}

// The clocks of the suites are their own, so that the stores must trust them: takeover happens at expires_at itself.

func TestDynamoDBConformance(t *testing.T) {
	for name, indexes := range dynamoIndexes {
		t.Run(name, func(t *testing.T) {
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				_, client := overNetwork(t)
				return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Indexes: indexes})
			})
		})
	}
}

// dynamoIndexes are the indexes with which the conformance suite runs: one on the field by which it finds documents, and
// none.
var dynamoIndexes = map[string][]string{"indexed": {"until"}, "not indexed": nil}

// TestLocksOnDynamoDB: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnDynamoDB(t *testing.T) {
	suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
	})
}

// TestAmbiguousWritesOnDynamoDB: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003, with an SDK that sends again by itself.
func TestAmbiguousWritesOnDynamoDB(t *testing.T) {
	suite.Ambiguous(t, unreliableDynamo)
}

// TestAmbiguousAnalysesOnDynamoDB: the same for the commands of the gate.
func TestAmbiguousAnalysesOnDynamoDB(t *testing.T) { suite.AmbiguousAnalyses(t, unreliableDynamo) }

func TestAmbiguousMachineIDsOnDynamoDB(t *testing.T) { suite.AmbiguousMachineIDs(t, unreliableDynamo) }

// unreliableDynamo opens a store on an emulator that loses requests and answers.
func unreliableDynamo(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
	t.Helper()
	kinds := map[suite.Fate]dynamodbtest.Kind{
		suite.LostRequest: dynamodbtest.DropBefore, suite.LostAnswer: dynamodbtest.DropAfter,
		suite.AppliedThenError: dynamodbtest.FailAfter, suite.AppliedLate: dynamodbtest.DelayAnswer,
	}
	server, client := overNetwork(t)
	var injected *dynamodbtest.Injection
	faults := suite.Faults{
		Next: func(_ *testing.T, f suite.Fate) {
			fault := dynamodbtest.Fault{Kind: kinds[f], Op: "UpdateItem", Times: 1}
			if f == suite.AppliedLate {
				fault.Delay = time.Minute // the caller gives up long before
			}
			injected = server.Inject(fault)
		},
		Settle: func(t *testing.T) {
			t.Helper()
			if injected.Hits() != 1 {
				t.Errorf("the fault happened %d times", injected.Hits())
			}
		},
	}
	return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now}), faults
}

func TestMachineIDsOnDynamoDB(t *testing.T) {
	suite.MachineIDs(t, func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
	})
}

// TestMachineIDCostsOnDynamoDB: two requests for any number of leases that a page has room for, with the clock watched as in
// production. Only the first of a process reads two documents, and only the first ever writes two.
func TestMachineIDCostsOnDynamoDB(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		time.Sleep(time.Until(suite.Epoch)) // machine IDs have timestamps from then on
		s := machineid.NewDefault(openDynamo(t, client, "leasehold", awsdynamodb.Options{}), nil)
		for i, throughput := range []int64{1, 1, 5 * 256, 100 * 256} {
			server.ResetCounts()
			r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: throughput})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"GetItem": 1, "UpdateItem": 1}
			if i == 0 {
				want = map[string]int{"TransactGetItems": 1, "TransactWriteItems": 1}
			}
			if got := server.Requests(); !maps.Equal(got, want) {
				t.Errorf("throughput %d: took %v, want %v", throughput, got, want)
			}
			server.ResetCounts()
			if l := r.Leases[0]; i > 0 {
				at := time.Now().UnixMilli()
				if err := s.Release(t.Context(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: at, Signature: kazahana.Sign(l.Secret, l.ID, at)}); err != nil {
					t.Error(err)
				}
				if got := server.Requests(); !maps.Equal(got, want) {
					t.Errorf("release took %v, want %v", got, want)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestAnalysesOnDynamoDB: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4, with an index for the sweep and without.
func TestAnalysesOnDynamoDB(t *testing.T) {
	for name, indexes := range analysisIndexes {
		t.Run(name, func(t *testing.T) {
			suite.Analyses(t, func(t *testing.T, now func() time.Time) docstore.Store {
				_, client := overNetwork(t)
				return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: indexes})
			})
		})
	}
}

// analysisIndexes are the indexes with which the gate's suite runs.
var analysisIndexes = map[string][]string{"indexed": {analysis.ExpiryField}, "not indexed": nil}

// TestDynamoDBElsewhere runs the suites on another implementation of the service, whose authors read its manual for
// themselves.
func TestDynamoDBElsewhere(t *testing.T) {
	endpoint := os.Getenv("DYNAMODB_ENDPOINT")
	if endpoint == "" {
		t.Skip("DYNAMODB_ENDPOINT is not set; for example: npm install @dynoxide/linux-x64@1.2.1, " +
			"node_modules/@dynoxide/linux-x64/dynoxide --host 127.0.0.1 --port 8000 &, " +
			"DYNAMODB_ENDPOINT=http://127.0.0.1:8000 go test ./tests -run DynamoDBElsewhere")
	}
	client := dynamoClient(endpoint, nil)
	var tables atomic.Int64
	table := func() string { return fmt.Sprintf("leasehold-%d-%d", time.Now().UnixNano(), tables.Add(1)) }
	for name, indexes := range dynamoIndexes {
		t.Run("conformance, "+name, func(t *testing.T) {
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				return openDynamo(t, client, table(), awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Indexes: indexes})
			})
		})
	}
	t.Run("machine IDs", func(t *testing.T) {
		suite.MachineIDs(t, func(t *testing.T, now func() time.Time) docstore.Store {
			return openDynamo(t, client, table(), awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
		})
	})
	t.Run("locks", func(t *testing.T) {
		suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store {
			return openDynamo(t, client, table(), awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
		})
	})
	t.Run("analyses", func(t *testing.T) {
		suite.Analyses(t, func(t *testing.T, now func() time.Time) docstore.Store {
			return openDynamo(t, client, table(), awsdynamodb.Options{
				MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: analysisIndexes["indexed"],
			})
		})
	})
}

// TestDynamoDBRequests: a command is one request, whatever becomes of it, with the clock watched as in production.
func TestDynamoDBRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openDynamo(t, client, "leasehold", awsdynamodb.Options{}), nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		ann := lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
		bob := lock.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 10}
		acquire := func(c lock.Acquire) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) { return locks.Acquire(t.Context(), c) }
		}
		renew := lock.Renew{ID: id, Owner: "bob", Token: 2, RequestID: "n1", TTLSeconds: 20}
		release := lock.Release{ID: id, Owner: "bob", Token: 2, RequestID: "e1"}
		for _, step := range []struct {
			name string
			wait time.Duration
			do   func() (lock.Outcome, error)
			want lock.Code
		}{
			{"acquire free", 0, acquire(ann), lock.OK},
			{"acquire held", 0, acquire(bob), lock.Held},
			{"acquire replayed", 0, acquire(ann), lock.OK},
			{"acquire expired", 11 * time.Second, acquire(bob), lock.OK},
			{"renew", 0, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) }, lock.OK},
			{"renew replayed", 0, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) }, lock.OK},
			{"release", 0, func() (lock.Outcome, error) { return locks.Release(t.Context(), release) }, lock.OK},
			{"release replayed", 0, func() (lock.Outcome, error) { return locks.Release(t.Context(), release) }, lock.OK},
			{"renew released", time.Hour, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) }, lock.LeaseReleased},
		} {
			time.Sleep(step.wait)
			server.ResetCounts()
			if o, err := step.do(); err != nil || o.Code != step.want {
				t.Errorf("%s: %+v, %v", step.name, o, err)
			}
			if got := server.Requests(); !maps.Equal(got, map[string]int{"UpdateItem": 1}) {
				t.Errorf("%s: took %v, want one UpdateItem", step.name, got)
			}
		}
		server.ResetCounts()
		if _, _, err := locks.Get(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := locks.List(t.Context(), lock.List{Tenant: "acme"}); err != nil {
			t.Error(err)
		}
		if got := server.Requests(); !maps.Equal(got, map[string]int{"GetItem": 1, "Query": 1}) {
			t.Errorf("get and list took %v", got)
		}
	})
}

// TestDynamoDBMargin: a lease ends at expires_at for its holder, and not before expires_at + MaxSkew for everybody else.
func TestDynamoDBMargin(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: 2 * time.Second})
		locks := lock.New(store, nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		ann := lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
		bob := lock.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 10}
		first, err := locks.Acquire(t.Context(), ann)
		if err != nil || first.Code != lock.OK || !first.At.Equal(time.Now()) {
			t.Fatalf("%+v, %v", first, err)
		}
		until := func(d time.Duration) { time.Sleep(time.Until(first.Lease.ExpiresAt.Add(d))) }
		expectHeld := func(c lock.Acquire, retryAfter time.Duration) {
			t.Helper()
			o, err := locks.Acquire(t.Context(), c)
			if err != nil || o.Code != lock.Held || o.Lease.Owner != "ann" || o.RetryAfter != retryAfter {
				t.Errorf("%s: %s held by %q, try again after %v, %v; want %s, %v", c.Owner, o.Code, o.Lease.Owner, o.RetryAfter, err, lock.Held, retryAfter)
			}
		}
		until(-time.Millisecond)
		expectHeld(bob, 2001*time.Millisecond)
		if o, err := locks.Acquire(t.Context(), ann); err != nil || o.Code != lock.OK || !o.Replayed {
			t.Errorf("repeated within the term: %+v, %v", o, err)
		}
		until(0)
		renew := lock.Renew{ID: id, Owner: "ann", Token: 1, RequestID: "n1", TTLSeconds: 10}
		if o, err := locks.Renew(t.Context(), renew); err != nil || o.Code != lock.LeaseExpired {
			t.Errorf("renewal at the end: %+v, %v", o, err)
		}
		expectHeld(ann, 2*time.Second) // its own lease is over: it is not handed out again
		until(2*time.Second - time.Millisecond)
		expectHeld(bob, time.Millisecond)
		until(2 * time.Second)
		if o, err := locks.Acquire(t.Context(), bob); err != nil || o.Code != lock.OK || o.Lease.Token != 2 || !o.At.Equal(time.Now()) {
			t.Errorf("takeover: %+v, %v", o, err)
		}

		r, err := store.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "k"}, If: docstore.LE{Field: "expires_at", Value: docstore.Now},
		})
		if err != nil || r.Applied || r.Margin != 2*time.Second || !r.At.Equal(time.Now().Add(-2*time.Second)) {
			t.Errorf("a refusal speaks of %v with margin %v, %v", r.At, r.Margin, err)
		}
	})
}

// caller is somebody with a clock of its own. The tests with callers run in bubbles, so that a busy machine takes no time
// that a clock of theirs would not show.
type caller struct {
	name   string
	locks  *lock.Locks
	store  *awsdynamodb.Store
	offset atomic.Int64 // of its clock, nanoseconds
}

func callers(t *testing.T, server *dynamodbtest.Server, truth *suite.Clock, offsets ...time.Duration) []*caller {
	t.Helper()
	all := make([]*caller, len(offsets))
	for i, offset := range offsets {
		c := &caller{name: fmt.Sprint("caller ", i)}
		c.offset.Store(int64(offset))
		client := dynamoClient("http://dynamodb.local", server.RoundTripper())
		c.store = openDynamo(t, client, "leasehold", awsdynamodb.Options{
			Now: func() time.Time { return truth.Now().Add(time.Duration(c.offset.Load())) },
		})
		c.locks = lock.New(c.store, &lock.Options{Now: truth.Now})
		all[i] = c
	}
	return all
}

// TestDynamoDBClocksApart: callers whose clocks are half a second off, in both directions, never hold a lock together by
// the true time (LS-INV-001), and their tokens rise. A holder counts its lease from before its request.
func TestDynamoDBClocksApart(t *testing.T) {
	synctest.Test(t, clocksApart)
}

func clocksApart(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		truth := suite.NewClock()
		truth.Advance(time.Duration(random.IntN(1000)) * time.Millisecond)
		server := dynamodbtest.New(&dynamodbtest.Options{Now: truth.Now})
		half := 500 * time.Millisecond
		all := callers(t, server, truth, half, -half, 0, half/2)
		id := lock.ID{Tenant: "acme", Key: "k"}
		var (
			holder *caller
			until  time.Time // by the true time, as the holder counts
			token  int64
			grants int
		)
		for step := range 400 {
			truth.Advance(time.Duration(random.IntN(300)) * time.Millisecond)
			c, now, request := all[random.IntN(len(all))], truth.Now(), fmt.Sprint("r", step)
			if c == holder && now.Before(until) {
				if random.IntN(3) > 0 {
					continue
				}
				o, err := c.locks.Renew(t.Context(), lock.Renew{ID: id, Owner: c.name, Token: token, RequestID: request, TTLSeconds: 2})
				if err != nil {
					t.Fatal(err)
				}
				if o.Code == lock.OK {
					until = now.Add(2 * time.Second)
				}
				continue
			}
			o, err := c.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: c.name, RequestID: request, TTLSeconds: 2})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, c.name, err)
			}
			if o.Code != lock.OK {
				continue
			}
			if holder != nil && now.Before(until) {
				t.Fatalf("seed %d: %s got the lock %v before the lease of %s was over", seed, c.name, until.Sub(now), holder.name)
			}
			if o.Lease.Token != token+1 {
				t.Fatalf("seed %d: token %d after %d", seed, o.Lease.Token, token)
			}
			holder, until, token = c, now.Add(2*time.Second), o.Lease.Token
			grants++
		}
		if grants < 5 {
			t.Errorf("seed %d: only %d grants", seed, grants)
		}
	}
}

// TestDynamoDBClockOff: a clock that is further off than the bound is not used. Nothing is written, and once it is right
// again so is everything else.
func TestDynamoDBClockOff(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			t.Log("off by", off)
			truth := suite.NewClock()
			server := dynamodbtest.New(&dynamodbtest.Options{Now: truth.Now})
			all := callers(t, server, truth, 0, off)
			right, wrong := all[0], all[1]
			if w := strings.Join(wrong.store.Warnings(), ""); !strings.Contains(w, "CLOCK_SKEW") {
				t.Errorf("opening warns of %q", w)
			}
			id := lock.ID{Tenant: "acme", Key: "k"}
			if o, err := right.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "right", RequestID: "r1", TTLSeconds: 60}); err != nil || o.Code != lock.OK {
				t.Fatal(o, err)
			}
			server.ResetCounts()
			refused := func() {
				t.Helper()
				k := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "k"}
				_, acquire := wrong.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "wrong", RequestID: "r1", TTLSeconds: 60})
				_, several := wrong.store.Write(t.Context(), docstore.Write{Key: k}, docstore.Write{Key: docstore.Key{Kind: "k", ID: "x"}})
				_, get := wrong.store.Get(t.Context(), k)
				_, list := wrong.store.List(t.Context(), docstore.Query{Kind: lock.Kind, Tenant: "acme"})
				_, check := wrong.store.Check(t.Context(), k, docstore.Absent{})
				for name, err := range map[string]error{"acquire": acquire, "several": several, "get": get, "list": list, "check": check} {
					if !errors.Is(err, docstore.ErrClockSkew) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			refused()
			requests := server.Requests()
			delete(requests, "GetItem") // the clock may have been measured again
			if len(requests) != 0 {
				t.Errorf("a caller that is off sent %v", requests)
			}
			if s := wrong.store.Stats(); s.Skewed != 5 || (s.Skew.Offset+off).Abs() > time.Second {
				t.Errorf("the statistics say %+v", s)
			}

			wrong.offset.Store(0) // somebody sets the clock
			o, err := wrong.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "wrong", RequestID: "r2", TTLSeconds: 60})
			if err != nil || o.Code != lock.Held || o.Lease.Owner != "right" {
				t.Errorf("after the clock was set: %+v, %v", o, err)
			}
			wrong.offset.Store(int64(off)) // and sets it wrong again, while the store is open
			refused()
		})
	}
}

// TestDynamoDBServiceDateWrong: an answer with a wrong Date stops the caller until an answer is right again, a second
// later, at the price of one request.
func TestDynamoDBServiceDateWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
		k := docstore.Key{Kind: "k", ID: "x"}
		write := func() error {
			_, err := store.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"n": 1}})
			return err
		}
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.SkewDate, Skew: -time.Hour, Times: 1})
		if err := write(); err != nil {
			t.Fatal(err)
		}
		server.ResetCounts()
		for range 3 {
			if err := write(); !errors.Is(err, docstore.ErrClockSkew) {
				t.Errorf("after a wrong Date: %v", err)
			}
		}
		if got := server.Requests(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}
		time.Sleep(time.Second)
		if err := write(); err != nil {
			t.Errorf("a second later: %v", err)
		}
		if got := server.Requests(); !maps.Equal(got, map[string]int{"GetItem": 1, "UpdateItem": 1}) {
			t.Errorf("to recover took %v", got)
		}
		if s, err := store.Get(t.Context(), k); err != nil || s.Docs[0]["n"] != docstore.Int(2) {
			t.Errorf("the document is %v, %v", s.Docs, err)
		}
	})
}

// TestDynamoDBSendsOnlyOnce: a write that would be carried out twice is not sent again after an answer was lost, and one
// that refuses itself is.
func TestDynamoDBSendsOnlyOnce(t *testing.T) {
	k := docstore.Key{Kind: "k", ID: "x"}
	count := docstore.Write{Key: k, Add: map[string]int64{"n": 1}}
	once := docstore.Write{Key: k, If: docstore.Absent{}, Add: map[string]int64{"n": 1}}
	for _, c := range []struct {
		name     string
		write    docstore.Write
		fault    dynamodbtest.Kind
		times    int
		unknown  bool // the answer is ErrUnavailable
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
				store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
				server.ResetCounts()
				fault := server.Inject(dynamodbtest.Fault{Kind: c.fault, Op: "UpdateItem", Times: c.times})
				r, err := store.Write(t.Context(), c.write)
				if errors.Is(err, docstore.ErrUnavailable) != c.unknown || err != nil && !c.unknown || err == nil && r.Applied == c.refused {
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

// TestDynamoDBTransactionsOnce: several documents are written once, however often the transaction is sent.
func TestDynamoDBTransactionsOnce(t *testing.T) {
	for _, kind := range []dynamodbtest.Kind{dynamodbtest.DropAfter, dynamodbtest.FailAfter, dynamodbtest.DropBefore, dynamodbtest.Conflict, dynamodbtest.InProgress, dynamodbtest.Throttle} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
				store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
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

// TestDynamoDBPatience: throttling is waited for, up to Options.Patience and the caller's deadline.
func TestDynamoDBPatience(t *testing.T) {
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
			store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
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
			store := openDynamo(t, client, "leasehold", awsdynamodb.Options{Patience: 2 * time.Second})
			for _, kind := range []dynamodbtest.Kind{dynamodbtest.Throttle, dynamodbtest.Conflict} {
				fault := server.Inject(dynamodbtest.Fault{Kind: kind})
				want := map[dynamodbtest.Kind]string{dynamodbtest.Throttle: "throttled", dynamodbtest.Conflict: "other transactions"}[kind]
				for _, writes := range [][]docstore.Write{{write}, {write, other}} {
					begin := time.Now()
					_, err := store.Write(t.Context(), writes...)
					if took := time.Since(begin); !errors.Is(err, docstore.ErrUnavailable) || took < 2*time.Second || took > 4*time.Second {
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
			store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
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

// TestDynamoDBExpiryTakesNoTokens: what the service removes when its time to live is over is never a lock or a fence.
func TestDynamoDBExpiryTakesNoTokens(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{Ephemeral: map[string]time.Duration{"events": time.Hour}})
		event := docstore.Key{Kind: "events", Tenant: "acme", ID: "e"}
		if r, err := store.Write(t.Context(), docstore.Write{Key: event, Set: docstore.Doc{"a": docstore.Int(1)}}); err != nil ||
			!r.Docs[0].Equal(docstore.Doc{"a": docstore.Int(1)}) {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := store.Write(t.Context(), docstore.Write{Key: event, Add: map[string]int64{"a": 1}}); !errors.Is(err, docstore.ErrInvalid) {
			t.Errorf("a counter that may be removed: %v", err)
		}
		locks, guard := lock.New(store, nil), lock.NewGuard(store)
		id := lock.ID{Tenant: "acme", Key: "k"}
		acquire := lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 1}
		if o, err := locks.Acquire(t.Context(), acquire); err != nil || o.Lease.Token != 1 {
			t.Fatal(o, err)
		}
		if o, err := guard.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "k", Token: 7}); err != nil || !o.Passed {
			t.Fatal(o, err)
		}
		time.Sleep(time.Hour - time.Second)
		if n := server.ExpireNow(); n != 0 {
			t.Errorf("%d items were removed before their time", n)
		}
		time.Sleep(400 * 24 * time.Hour)
		if n := server.ExpireNow(); n != 1 {
			t.Errorf("%d items were removed, want the event alone", n)
		}
		if s, err := store.Get(t.Context(), event); err != nil || s.Docs[0] != nil {
			t.Errorf("the event is %v, %v", s.Docs, err)
		}
		if o, err := locks.Acquire(t.Context(), acquire); err != nil || o.Lease.Token != 2 {
			t.Errorf("the next token: %+v, %v", o, err)
		}
		if o, err := guard.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "k", Token: 6}); err != nil || o.Passed || o.Highest != 7 {
			t.Errorf("the guard forgot: %+v, %v", o, err)
		}
	})
}

// TestDynamoDBListsLargeDocuments: a page of documents that are larger together than what the service reads at once.
func TestDynamoDBListsLargeDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
		large := docstore.String(strings.Repeat("x", 300<<10))
		for i := range 9 {
			k := docstore.Key{Kind: "k", Tenant: "t", ID: fmt.Sprint("large ", i)}
			if _, err := store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"a": large}}); err != nil {
				t.Fatal(err)
			}
		}
		server.ResetCounts()
		page, err := store.List(t.Context(), docstore.Query{Kind: "k", Tenant: "t", Limit: 8})
		if err != nil || len(page.Entries) != 8 || page.Next != "large 7" {
			t.Errorf("%d entries, next %q, %v", len(page.Entries), page.Next, err)
		}
		if got := server.Count("Query"); got < 2 {
			t.Errorf("%d queries: the documents were not large enough for this test", got)
		}
	})
}

// TestDynamoDBReadsAreNotStale: a server that answers every read from the past, unless it is asked not to.
func TestDynamoDBReadsAreNotStale(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openDynamo(t, client, "leasehold", awsdynamodb.Options{})
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.StaleRead})
		k, other := docstore.Key{Kind: "k", ID: "x"}, docstore.Key{Kind: "k", ID: "y"}
		for i := range 3 {
			want := docstore.Doc{"i": docstore.Int(i)}
			if _, err := store.Write(t.Context(), docstore.Write{Key: k, Set: want}); err != nil {
				t.Fatal(err)
			}
			one, err := store.Get(t.Context(), k)
			if err != nil || !one.Docs[0].Equal(want) {
				t.Errorf("get: %v, %v; want %v", one.Docs, err, want)
			}
			two, err := store.Get(t.Context(), other, k)
			if err != nil || !two.Docs[1].Equal(want) {
				t.Errorf("get of two: %v, %v; want %v", two.Docs, err, want)
			}
			page, err := store.List(t.Context(), docstore.Query{Kind: "k"})
			if err != nil || len(page.Entries) != 1 || !page.Entries[0].Doc.Equal(want) {
				t.Errorf("list: %v, %v; want %v", page.Entries, err, want)
			}
		}
	})
}
