package awsdynamodb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// network is the way to a service whose servers disagree about the time by as much as the store allows for, and whose
// dates have whole seconds. One way may be long.
type network struct {
	http.RoundTripper
	random      *rand.Rand
	there, back time.Duration
}

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(n.there + time.Duration(n.random.IntN(30))*time.Millisecond)
	w, err := n.RoundTripper.RoundTrip(r)
	if err == nil {
		apart := time.Duration(n.random.IntN(21)-10) * time.Millisecond
		w.Header.Set("Date", time.Now().Add(apart).UTC().Format(http.TimeFormat))
	}
	time.Sleep(n.back + time.Duration(n.random.IntN(30))*time.Millisecond)
	return w, err
}

// obtained is what a caller has of a subject, or nothing.
type obtained struct {
	ok    bool
	token int64
}

// exclusive is a way to have something alone, by one caller's store.
type exclusive struct {
	take   func(ctx context.Context, owner, request string, ttl int64) (obtained, error)
	extend func(ctx context.Context, owner string, token int64, request string, ttl int64) (bool, error)
}

// exclusives are those whose suites on every store trust the clock: sets of locks, the gate of analyses and of runs.
var exclusives = map[string]func(docstore.Store) exclusive{
	"a set": func(s docstore.Store) exclusive {
		locks := lock.New(s, nil)
		return exclusive{
			func(ctx context.Context, owner, request string, ttl int64) (obtained, error) {
				o, err := locks.AcquireSet(ctx, lock.AcquireSet{Tenant: "acme", Keys: []string{"a", "b"}, Owner: owner,
					RequestID: request, TTLSeconds: ttl})
				if err != nil || o.Code != lock.OK {
					return obtained{}, err
				}
				return obtained{true, o.Leases[0].Token}, nil
			},
			func(ctx context.Context, owner string, token int64, request string, ttl int64) (bool, error) {
				s, _, err := locks.Get(ctx, lock.ID{Tenant: "acme", Key: "b"})
				if err != nil || s.Owner != owner {
					return false, err
				}
				// the tokens of both are the same here, because they are always acquired together and start at one time
				o, err := locks.RenewSet(ctx, lock.RenewSet{Tenant: "acme", Owner: owner, RequestID: request, TTLSeconds: ttl,
					Leases: []lock.SetLease{{Key: "a", Token: token}, {Key: "b", Token: token}}})
				return o.Code == lock.OK, err
			},
		}
	},
	"an analysis": func(s docstore.Store) exclusive {
		gate := analysis.New(s, &analysis.Options{MaxTakeovers: 1000})
		return exclusive{
			func(ctx context.Context, owner, request string, ttl int64) (obtained, error) {
				if _, err := gate.Create(ctx, analysis.Create{ID: "a1"}); err != nil {
					return obtained{}, err
				}
				o, err := gate.Acquire(ctx, analysis.Acquire{ID: "a1", Owner: owner, RequestID: request, TTLSeconds: ttl})
				return obtained{o.Code == analysis.OK, o.Grant.Token}, err
			},
			func(ctx context.Context, owner string, token int64, _ string, ttl int64) (bool, error) {
				o, err := gate.Refresh(ctx, analysis.Refresh{ID: "a1", Owner: owner, Token: token, TTLSeconds: ttl})
				return o.Code == analysis.OK, err
			},
		}
	},
	"a run": func(s docstore.Store) exclusive {
		all := runs.New(s, &runs.Options{Options: analysis.Options{MaxTakeovers: 1000}})
		id := runs.ID{Tenant: "acme", ID: "r1"}
		return exclusive{
			func(ctx context.Context, owner, request string, ttl int64) (obtained, error) {
				o, err := all.Begin(ctx, runs.Begin{ID: id, Owner: owner, RequestID: request, TTLSeconds: ttl,
					KeepSeconds: 60})
				return obtained{o.Code == analysis.OK, o.Grant.Token}, err
			},
			func(ctx context.Context, owner string, token int64, _ string, ttl int64) (bool, error) {
				o, err := all.Refresh(ctx, runs.Refresh{ID: id, Owner: owner, Token: token, TTLSeconds: ttl, KeepSeconds: 60})
				return o.Code == analysis.OK, err
			},
		}
	},
}

// TestLeasesWithClocksApart is TestClocksApart for sets, the gate and runs, over several networks (LS-INV-001).
// Holders renew at once, late, and in the last moment, for longer and for shorter than before.
func TestLeasesWithClocksApart(t *testing.T) {
	t.Parallel()
	courses := []course{
		{990 * time.Millisecond, false, []time.Duration{time.Second}},
		{990 * time.Millisecond, true, []time.Duration{time.Second}},
		{4900 * time.Millisecond, true, []time.Duration{5 * time.Second, 10 * time.Second}},
	}
	for way, n := range map[string]network{"near": {}, "900 ms there": {there: 900 * time.Millisecond},
		"900 ms back": {back: 900 * time.Millisecond}} {
		for what, by := range exclusives {
			for _, c := range courses {
				t.Run(fmt.Sprint(what, ", ", way, ", ", c), func(t *testing.T) {
					t.Parallel()
					grants, renewed := 0, 0
					for seed := range suite.AtDepth(uint64(1), 20) {
						synctest.Test(t, func(t *testing.T) {
							g, r := leasesApart(t, c, n, by, seed)
							grants, renewed = grants+g, renewed+r
						})
					}
					if grants < 10 || renewed < 3 {
						t.Errorf("%d grants and %d renewals only", grants, renewed)
					}
				})
			}
		}
	}
}

// leasesApart plays one program.
func leasesApart(
	t *testing.T, c course, n network, by func(docstore.Store) exclusive, seed uint64,
) (grants, renewed int) {
	t.Helper()
	n.random = rand.New(rand.NewPCG(seed, 1))
	n.RoundTripper = dynamodbtest.New(nil).RoundTripper()
	client := dialThrough(n)
	pause := func(most time.Duration) { time.Sleep(time.Duration(n.random.Int64N(int64(most)))) }
	pause(time.Second)
	offsets := []time.Duration{c.off, -c.off, 0}
	warm := make([]*exclusive, len(offsets))
	caller := func(i int) *exclusive {
		if warm[i] == nil || c.cold {
			e := by(openWith(t, client, awsdynamodb.Options{
				MaxSkew: c.bounds[i%len(c.bounds)], Now: func() time.Time { return time.Now().Add(offsets[i]) },
			}))
			warm[i] = &e
		}
		return warm[i]
	}
	holder, until, token, step := -1, time.Now(), int64(0), 0
	request := func() string { step++; return fmt.Sprint("r", step) }
	for range 12 {
		next := n.random.IntN(len(offsets))
		for next == holder {
			next = n.random.IntN(len(offsets))
		}
		for {
			begin := time.Now()
			got, err := caller(next).take(t.Context(), strconv.Itoa(next), request(), 5)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !got.ok {
				pause(200 * time.Millisecond)
				continue
			}
			if overlap := time.Until(until); overlap > 0 {
				t.Errorf("seed %d: held by two for up to %v", seed, overlap)
			}
			if got.token <= token {
				t.Fatalf("seed %d: token %d after %d", seed, got.token, token)
			}
			holder, token, until = next, got.token, begin.Add(5*time.Second)
			grants++
			break
		}
		for range n.random.IntN(4) {
			if n.random.IntN(3) == 0 { // in the last moment
				time.Sleep(time.Until(until) - time.Duration(n.random.IntN(500))*time.Millisecond)
			}
			begin, ttl := time.Now(), int64(2+n.random.IntN(4))
			ok, err := caller(holder).extend(t.Context(), strconv.Itoa(holder), token, request(), ttl)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !ok {
				break
			}
			until = begin.Add(time.Duration(ttl) * time.Second)
			renewed++
		}
	}
	return grants, renewed
}

// TestRenewalsUntilTheEnd: a process that knows the time by one response only renews and releases, in every mode, until
// the lease ends, in whatever part of a second that is (LS-RNW-001).
func TestRenewalsUntilTheEnd(t *testing.T) {
	for name, c := range map[string]lock.Acquire{
		"exclusive": {}, "permits": {Mode: lock.Permits, Limit: 2}, "shared": {Mode: lock.Shared},
	} {
		for part := range 8 {
			for _, releases := range []bool{false, true} {
				inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
					time.Sleep(time.Duration(part) * 125 * time.Millisecond)
					c := c
					c.ID, c.Owner, c.RequestID, c.TTLSeconds = apartID, "ann", "r1", 10
					begin := time.Now()
					first, err := lock.New(openWith(t, client, awsdynamodb.Options{}), nil).Acquire(t.Context(), c)
					if err != nil || first.Code != lock.OK {
						t.Fatalf("%+v, %v", first, err)
					}
					time.Sleep(time.Until(begin.Add(10*time.Second - time.Millisecond)))
					cold := lock.New(openWith(t, client, awsdynamodb.Options{}), nil)
					var o lock.Outcome
					if releases {
						o, err = cold.Release(t.Context(), lock.Release{ID: apartID, Owner: "ann", Token: first.Lease.Token,
							RequestID: "e1"})
					} else {
						o, err = cold.Renew(t.Context(), lock.Renew{ID: apartID, Owner: "ann", Token: first.Lease.Token,
							RequestID: "n1", TTLSeconds: 10})
					}
					if err != nil || o.Code != lock.OK {
						t.Errorf("%s, part %d of a second, release %v: %s, %v", name, part, releases, o.Code, err)
					}
				})
			}
		}
	}
}

// TestRenewalsAtOnce: a renewal and a refresh right after the grant are one request each, however cold the process.
func TestRenewalsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		for name, by := range exclusives {
			e := by(openWith(t, client, awsdynamodb.Options{}))
			got, err := e.take(t.Context(), "ann", name, 5)
			if err != nil || !got.ok {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			server.ResetCounts()
			if ok, err := e.extend(t.Context(), "ann", got.token, name, 5); err != nil || !ok {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			if n := server.Count("UpdateItem") + server.Count("TransactWriteItems"); n != 1 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}
