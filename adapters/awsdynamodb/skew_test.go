package awsdynamodb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestMargin: a lease ends at expires_at for its holder, and not before expires_at + MaxSkew for everyone else.
func TestMargin(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{MaxSkew: 2 * time.Second})
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

// caller is someone with a clock of its own. The tests with callers run in bubbles, so that a busy machine takes no
// time that a clock of theirs would not show.
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
		client := dial(server)
		c.store = openWith(t, client, awsdynamodb.Options{
			Now: func() time.Time { return truth.Now().Add(time.Duration(c.offset.Load())) },
		})
		c.locks = lock.New(c.store, &lock.Options{Now: truth.Now})
		all[i] = c
	}
	return all
}

// TestClocksApart: callers whose clocks are half a second off, in both directions, never hold a lock together by
// the true time (LS-INV-001), and their tokens rise. A holder counts its lease from before its request.
func TestClocksApart(t *testing.T) {
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

// TestClockOff: a clock that is further off than the bound is not used. Nothing is written, and once it is right
// again so is everything else.
func TestClockOff(t *testing.T) {
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

			wrong.offset.Store(0) // someone sets the clock
			o, err := wrong.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "wrong", RequestID: "r2", TTLSeconds: 60})
			if err != nil || o.Code != lock.Held || o.Lease.Owner != "right" {
				t.Errorf("after the clock was set: %+v, %v", o, err)
			}
			wrong.offset.Store(int64(off)) // and sets it wrong again, while the store is open
			refused()
		})
	}
}

// TestServiceDateWrong: a response with a wrong Date stops the caller until a response is right again, a second
// later, at the price of one request.
func TestServiceDateWrong(t *testing.T) {
	inBubble(t, func(t *testing.T, server *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
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
