package awsdynamodb_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// strong shows a table as one with multi-Region strong consistency.
func strong(t *types.TableDescription) { t.MultiRegionConsistency = types.MultiRegionConsistencyStrong }

// TestConflictsOfRegions: every write is rejected at first, because another Region is changing the item. That has
// changed nothing, so that it is sent again, whatever the write is, and has its effect once: locks and analyses work as
// they do in one Region.
func TestConflictsOfRegions(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, meddler{Client: client, describe: strong}, awsdynamodb.Options{})
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.NoTransactions})
		step := func(what string, do func() error) {
			t.Helper()
			server.ResetCounts()
			fault := server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.ReplicatedConflict, Times: 2})
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := server.Requests(); fault.Hits() != 2 || !maps.Equal(got, map[string]int{"UpdateItem": 3}) {
				t.Errorf("%s: %d conflicts, took %v", what, fault.Hits(), got)
			}
		}
		k := docstore.Key{Kind: "k", ID: "x"}
		step("an Add, which is not repeated after a lost response", func() error {
			r, err := store.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"n": 1}})
			if err == nil && (!r.Applied || r.Docs[0]["n"] != docstore.Int(1)) {
				err = fmt.Errorf("%+v", r)
			}
			return err
		})

		locks, id := lock.New(store, nil), lock.ID{Tenant: "acme", Key: "deploy"}
		is := func(code, want lock.Code, err error) error {
			if err == nil && code != want {
				err = fmt.Errorf("%s, want %s", code, want)
			}
			return err
		}
		var token int64
		step("acquire", func() error {
			o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 60})
			token = o.Lease.Token
			return is(o.Code, lock.OK, err)
		})
		step("acquire, held", func() error {
			o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 60})
			return is(o.Code, lock.Held, err)
		})
		step("renew", func() error {
			o, err := locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", RequestID: "n1", Token: token, TTLSeconds: 60})
			return is(o.Code, lock.OK, err)
		})
		step("release", func() error {
			o, err := locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", RequestID: "e1", Token: token})
			return is(o.Code, lock.OK, err)
		})
		analyses := analysis.New(store, nil)
		write(t, store, docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: "a1"},
			Set: docstore.Doc{"source": docstore.String("x")}})
		var run int64
		step("begin an analysis", func() error {
			o, err := analyses.Acquire(t.Context(), analysis.Acquire{ID: "a1", Owner: "ann", RequestID: "r1", TTLSeconds: 60})
			run = o.Grant.Token
			return is(lock.Code(o.Code), lock.Code(analysis.OK), err)
		})
		step("finish it", func() error {
			o, err := analyses.Finish(t.Context(), analysis.Finish{ID: "a1", Owner: "ann", Token: run, Status: analysis.Ready})
			return is(lock.Code(o.Code), lock.Code(analysis.OK), err)
		})

		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.ReplicatedConflict})
		begin := time.Now()
		_, err := store.Write(t.Context(), docstore.Write{Key: k, Add: map[string]int64{"n": 1}})
		if !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), "another region") ||
			time.Since(begin) < awsdynamodb.DefaultRetryTimeout {
			t.Errorf("conflicts without end: %v after %v", err, time.Since(begin))
		}
	})
}

// TestNoTransactions: what needs several documents in one step is refused by an error that says so, and nothing is
// changed. A lazy store finds out with the first that the service rejects.
func TestNoTransactions(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		openWith(t, client, awsdynamodb.Options{}) // creates the table
		server.Inject(dynamodbtest.Fault{Kind: dynamodbtest.NoTransactions})
		a, b := docstore.Key{Kind: "k", ID: "a"}, docstore.Key{Kind: "k", ID: "b"}
		for name, c := range map[string]struct {
			lazy     bool
			describe func(*types.TableDescription)
			first    map[string]int
			want     error
		}{
			"opened": {false, strong, map[string]int{}, docstore.ErrUnsupported},
			"lazy": {true, strong, map[string]int{"GetItem": 1, "TransactWriteItems": 1, "DescribeTable": 1},
				docstore.ErrUnsupported},
			"another rejection": {true, nil, map[string]int{"GetItem": 1, "TransactWriteItems": 1, "DescribeTable": 1}, nil},
		} {
			s, err := awsdynamodb.Open(t.Context(), "leasehold",
				&awsdynamodb.Options{Client: meddler{Client: client, describe: c.describe}, Lazy: c.lazy})
			if err != nil {
				t.Fatal(err)
			}
			server.ResetCounts()
			_, err = s.Write(t.Context(), docstore.Write{Key: a, Set: docstore.Doc{"x": docstore.Int(1)}},
				docstore.Write{Key: b, Set: docstore.Doc{"x": docstore.Int(1)}})
			if err == nil || errors.Is(err, docstore.ErrUnsupported) != (c.want != nil) || c.want != nil &&
				!strings.Contains(err.Error(), "multi-Region strong consistency, which has no transactions") {
				t.Errorf("%s: write: %v", name, err)
			}
			if got := server.Requests(); !maps.Equal(got, c.first) {
				t.Errorf("%s: took %v, want %v", name, got, c.first)
			}
			server.ResetCounts()
			if _, err := s.Get(t.Context(), a, b); err == nil || errors.Is(err, docstore.ErrUnsupported) != (c.want != nil) {
				t.Errorf("%s: get: %v", name, err)
			}
			if got := server.Requests(); c.want != nil && len(got) != 0 {
				t.Errorf("%s: get of several took %v", name, got)
			}
			o, err := lock.New(s, nil).AcquireSet(t.Context(), lock.AcquireSet{
				Tenant: "acme", Keys: []string{"a", "b"}, Owner: "ann", RequestID: "r1", TTLSeconds: 60,
			})
			if err == nil || errors.Is(err, docstore.ErrUnsupported) != (c.want != nil) {
				t.Errorf("%s: several locks: %+v, %v", name, o, err)
			}
			if snap, err := s.Get(t.Context(), a); err != nil || snap.Docs[0] != nil {
				t.Errorf("%s: stored %v, %v", name, snap.Docs, err)
			}
		}
	})
}
