package awsdynamodb_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/dynoxide"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// inBubble gives a test an emulator without a network, inside a bubble whose time passes only by waiting.
func inBubble(t *testing.T, test func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		test(t, server, dial(server))
	})
}

// indexes are those with which the conformance suite runs: one on the field by which it finds documents, and none.
var indexes = map[string][]string{"indexed": {"until"}, "not indexed": nil}

// The suite's clock is its own, so that the store must trust it: takeover happens at expires_at itself.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, indexes := range indexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				return openWith(t, dialURL(dynamodbtest.Start(t, nil).URL),
					awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Indexes: indexes, CountUnits: indexes != nil})
			})
		})
	}
}

// TestHistoriesOfAFailingService: requests and responses are lost between the store and the service.
func TestHistoriesOfAFailingService(t *testing.T) {
	t.Parallel()
	kinds := map[docstoretest.Fate]dynamodbtest.Kind{
		docstoretest.LostRequest: dynamodbtest.DropBefore, docstoretest.LostResponse: dynamodbtest.DropAfter,
		docstoretest.AppliedThenError: dynamodbtest.FailAfter,
	}
	docstoretest.RunFaults(t, func(t *testing.T) (docstore.Store, docstoretest.Meet) {
		server := dynamodbtest.Start(t, nil)
		s := openWith(t, dialURL(server.URL), awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock})
		return s, func(f docstoretest.Fate, text string) {
			server.Inject(dynamodbtest.Fault{Kind: kinds[f], Times: 1, Match: func(r dynamodbtest.Request) bool {
				return (r.Op == "UpdateItem" || r.Op == "TransactWriteItems") && bytes.Contains(r.Body, []byte(text))
			}})
		}
	})
}

// TestConformanceOfAnotherClient runs the suite through a client that is not the SDK's own, whose responses are read by
// way of the SDK's types. It is for the night: every test with a [meddler] has a client that is not the SDK's own.
func TestConformanceOfAnotherClient(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	docstoretest.Run(t, func(t *testing.T) docstore.Store {
		client := meddler{Client: dialURL(dynamodbtest.Start(t, nil).URL)}
		return openTable(t, "leasehold", awsdynamodb.Options{Client: client, CreateTable: true,
			MaxSkew: awsdynamodb.TrustClock})
	})
}

// TestConformanceOnDynoxide runs the suite on another implementation of the service, whose authors read its manual for
// themselves.
func TestConformanceOnDynoxide(t *testing.T) {
	client := dialURL(dynoxide.Endpoint(t))
	for name, indexes := range indexes {
		t.Run(name, func(t *testing.T) {
			docstoretest.Run(t, func(t *testing.T) docstore.Store {
				o := awsdynamodb.Options{Client: client, CreateTable: true, MaxSkew: awsdynamodb.TrustClock, Indexes: indexes}
				return openTable(t, "leasehold-"+rand.Text(), o)
			})
		})
	}
}

// TestRequests: a command is one request, whatever becomes of it, with the clock watched as in production.
func TestRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		locks := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		ann := lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
		bob := lock.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 10}
		acquire := func(c lock.Acquire) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) { return locks.Acquire(t.Context(), c) }
		}
		renew := lock.Renew{ID: id, Owner: "bob", RequestID: "n1", TTLSeconds: 20}
		release := lock.Release{ID: id, Owner: "bob", RequestID: "e1"}
		for _, step := range []struct {
			name string
			wait time.Duration
			do   func() (lock.Outcome, error)
			want lock.Code
		}{
			{"acquire free", 0, acquire(ann), lock.OK},
			{"acquire held", 0, acquire(bob), lock.Held},
			{"acquire replayed", 0, acquire(ann), lock.OK},
			{"acquire expired", 13 * time.Second, func() (lock.Outcome, error) {
				o, err := locks.Acquire(t.Context(), bob)
				renew.Token, release.Token = o.Lease.Token, o.Lease.Token
				return o, err
			}, lock.OK},
			{"renew", 0, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) }, lock.OK},
			{"renew replayed", 0, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) }, lock.OK},
			{"release", 0, func() (lock.Outcome, error) { return locks.Release(t.Context(), release) }, lock.OK},
			{"release replayed", 0, func() (lock.Outcome, error) { return locks.Release(t.Context(), release) }, lock.OK},
			{"renew released", time.Hour, func() (lock.Outcome, error) { return locks.Renew(t.Context(), renew) },
				lock.LeaseReleased},
		} {
			time.Sleep(step.wait)
			server.ResetCounts()
			o, err := step.do()
			if err != nil || o.Code != step.want {
				t.Errorf("%s: %+v, %v", step.name, o, err)
			}
			renew.Token, release.Token = o.Lease.Token, o.Lease.Token
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

// TestMachineIDCosts: two requests for any number of leases that a page has room for, with the clock watched as in
// production. Only the first of a process reads two documents, and the first of all sets up the space.
func TestMachineIDCosts(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		time.Sleep(time.Until(suite.Epoch)) // machine IDs have timestamps from then on
		acquire := func(s *machineid.Service, throughput int64, want map[string]int) kazahana.Lease {
			t.Helper()
			server.ResetCounts()
			r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: throughput})
			if err != nil {
				t.Fatal(err)
			}
			if got := server.Requests(); !maps.Equal(got, want) {
				t.Errorf("throughput %d: took %v, want %v", throughput, got, want)
			}
			return r.Leases[0]
		}
		open := func() *machineid.Service {
			return machineid.NewDefault(openWith(t, client, awsdynamodb.Options{}), nil)
		}
		acquire(open(), 1, map[string]int{"TransactGetItems": 3, "TransactWriteItems": 1, "UpdateItem": 1})
		s := open()
		for i, throughput := range []int64{1, 1, 5 * 256, 100 * 256} {
			want := map[string]int{"GetItem": 1, "UpdateItem": 1}
			if i == 0 {
				acquire(s, throughput, map[string]int{"TransactGetItems": 1, "UpdateItem": 1})
				continue
			}
			l := acquire(s, throughput, want)
			server.ResetCounts()
			at := time.Now().UnixMilli()
			if err := s.Release(t.Context(), kazahana.ReleaseOptions{ID: l.ID, Timestamp: at,
				Signature: kazahana.Sign(l.Secret, l.ID, at)}); err != nil {
				t.Error(err)
			}
			if got := server.Requests(); !maps.Equal(got, want) {
				t.Errorf("release took %v, want %v", got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestListsLargeDocuments: a page of documents that are larger together than what the service reads at once.
func TestListsLargeDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
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

// TestReadsAreNotStale: a server that answers every read from the past, unless it is asked not to.
func TestReadsAreNotStale(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
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
			walked, err := store.Walk(t.Context(), docstore.WalkQuery{Kind: "k"})
			if err != nil || len(walked.Entries) != 1 || !walked.Entries[0].Doc.Equal(want) {
				t.Errorf("walk: %v, %v; want %v", walked.Entries, err, want)
			}
		}
	})
}
