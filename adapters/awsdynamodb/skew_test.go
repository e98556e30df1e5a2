package awsdynamodb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestMargin: a lease ends at the latest time that its caller's clock allows, and counts as passed when the earliest
// has passed it. What a rejection says of time is what decided it.
func TestMargin(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *dynamodbtest.Server, client *sdk.Client) {
		store := openWith(t, client, awsdynamodb.Options{})
		locks := lock.New(store, nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		ann := lock.Acquire{ID: id, Owner: "ann", RequestID: "r1", TTLSeconds: 10}
		bob := lock.Acquire{ID: id, Owner: "bob", RequestID: "r1", TTLSeconds: 10}
		const widest = 1020 * time.Millisecond // one Date leaves a second
		first, err := locks.Acquire(t.Context(), ann)
		if err != nil || first.Code != lock.OK || first.At.Before(time.Now()) || first.At.After(time.Now().Add(widest)) ||
			!first.Lease.ExpiresAt.Equal(first.At.Add(10*time.Second)) {
			t.Fatalf("%+v, %v", first, err)
		}
		until := func(d time.Duration) { time.Sleep(time.Until(first.Lease.ExpiresAt.Add(d))) }
		expectHeld := func(c lock.Acquire) {
			t.Helper()
			o, err := locks.Acquire(t.Context(), c)
			if err != nil || o.Code != lock.Held || o.Lease.Owner != "ann" || o.RetryAfter != o.Lease.ExpiresAt.Sub(o.At) ||
				o.RetryAfter <= 0 {
				t.Errorf("%s: %s held by %q, try again after %v, %v", c.Owner, o.Code, o.Lease.Owner, o.RetryAfter, err)
			}
			if early := time.Since(o.At); early < 0 || early > widest {
				t.Errorf("%s: the rejection is of %v before now", c.Owner, early)
			}
		}
		until(-5 * time.Second)
		expectHeld(bob)
		if o, err := locks.Acquire(t.Context(), ann); err != nil || o.Code != lock.OK || !o.Replayed {
			t.Errorf("repeated within the term: %+v, %v", o, err)
		}
		until(0)
		if o, err := locks.Acquire(t.Context(), ann); err != nil || o.Code != lock.RequestIDReused {
			t.Errorf("repeated at the end: %+v, %v; its own lease is over and is not handed out again", o, err)
		}
		expectHeld(bob)

		passed := docstore.Write{
			Key: docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "k"},
			If:  docstore.LE{Field: "expires_at", Value: docstore.Now},
		}
		for _, others := range [][]docstore.Write{nil, {{Key: docstore.Key{Kind: "k", Tenant: "acme", ID: "x"}}}} {
			r, err := store.Write(t.Context(), append(others, passed)...)
			if err != nil || r.Applied || r.Margin <= 0 || r.At.After(time.Now()) || r.At.Add(r.Margin).Before(time.Now()) {
				t.Errorf("with %d others, a rejection speaks of %v with margin %v, %v", len(others), r.At, r.Margin, err)
			}
			if !r.At.Before(first.Lease.ExpiresAt) {
				t.Errorf("with %d others, a rejection speaks of %v, when the lease of %v had passed", len(others), r.At,
					first.Lease.ExpiresAt)
			}
		}
		until(widest)
		renew := lock.Renew{ID: id, Owner: "ann", Token: first.Lease.Token, RequestID: "n1", TTLSeconds: 10}
		if o, err := locks.Renew(t.Context(), renew); err != nil || o.Code != lock.LeaseExpired {
			t.Errorf("renewal of what another can take over: %+v, %v", o, err)
		}
		if o, err := locks.Acquire(t.Context(), bob); err != nil || o.Code != lock.OK || o.Lease.Token <= first.Lease.Token {
			t.Errorf("takeover: %+v, %v", o, err)
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

// course is how the callers of [clocksApart] are.
type course struct {
	off    time.Duration   // their clocks are off by as much in both directions
	cold   bool            // each command is of a process of its own, which has seen one response
	bounds []time.Duration // MaxSkew of the callers, in turn
}

func (c course) String() string {
	return fmt.Sprintf("off by %v, cold %v, bounds %v", c.off, c.cold, c.bounds)
}

// TestClocksApart: callers whose clocks are off by as much as the bound allows, in both directions, never hold a lock
// together by the true time (LS-INV-001), and their tokens rise. A holder counts its lease from before its request.
// That holds for processes that have just begun, and for callers with different bounds.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	var courses []course
	for _, off := range []int{500, 600, 800, 990} {
		for _, cold := range []bool{false, true} {
			courses = append(courses, course{time.Duration(off) * time.Millisecond, cold, []time.Duration{time.Second}})
		}
	}
	courses = append(courses,
		course{4900 * time.Millisecond, true, []time.Duration{5 * time.Second, 10 * time.Second}},
		course{190 * time.Millisecond, false, []time.Duration{200 * time.Millisecond, 10 * time.Second}},
	)
	for _, c := range courses {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range suite.AtDepth(uint64(3), 10) {
				synctest.Test(t, func(t *testing.T) {
					if overlap := clocksApart(t, c, seed); overlap > 0 {
						t.Errorf("seed %d: the lock was held by two for up to %v", seed, overlap)
					}
				})
			}
		})
	}
}

// TestClocksApartTable prints how often two callers held a lock together, of a hundred seeds for each course.
func TestClocksApartTable(t *testing.T) {
	if os.Getenv("LEASEHOLD_TEST_TABLES") == "" {
		t.Skip("a measurement: set LEASEHOLD_TEST_TABLES=1")
	}
	for _, off := range []int{500, 600, 800, 990} {
		for _, cold := range []bool{false, true} {
			c := course{time.Duration(off) * time.Millisecond, cold, []time.Duration{time.Second}}
			failed, worst := 0, time.Duration(0)
			for seed := range uint64(100) {
				synctest.Test(t, func(t *testing.T) {
					overlap := clocksApart(t, c, seed)
					worst = max(worst, overlap)
					if overlap > 0 {
						failed++
					}
				})
			}
			t.Logf("%v: %d of 100 seeds, worst %v", c, failed, worst)
		}
	}
}

// slowly takes some milliseconds there and back.
type slowly struct {
	http.RoundTripper
	random *rand.Rand
}

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(s.random.IntN(30)) * time.Millisecond)
	w, err := s.RoundTripper.RoundTrip(r)
	time.Sleep(time.Duration(s.random.IntN(30)) * time.Millisecond)
	return w, err
}

// clocksApart lets callers take a lock from one another: each holds it, renews it or not, and dies; another one asks
// for it again and again. It returns the longest time for which two of them held it, as the first one counts.
func clocksApart(t *testing.T, c course, seed uint64) (overlap time.Duration) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	pause(time.Second)
	client := dialThrough(slowly{dynamodbtest.New(nil).RoundTripper(), random})
	offsets := []time.Duration{c.off, -c.off, 0}
	all := make([]*lock.Locks, len(offsets))
	caller := func(i int) *lock.Locks {
		if all[i] == nil || c.cold {
			all[i] = lock.New(openWith(t, client, awsdynamodb.Options{
				MaxSkew: c.bounds[i%len(c.bounds)], Now: func() time.Time { return time.Now().Add(offsets[i]) },
			}), nil)
		}
		return all[i]
	}
	const ttl = 2 * time.Second
	var (
		id     = lock.ID{Tenant: "acme", Key: "k"}
		holder = -1
		until  = time.Now() // as the holder counts
		token  int64
		step   int
	)
	request := func() string { step++; return fmt.Sprint("r", step) }
	for range 10 {
		next := random.IntN(len(all))
		for next == holder {
			next = random.IntN(len(all))
		}
		pause(time.Second)
		for {
			begin := time.Now()
			o, err := caller(next).Acquire(t.Context(), lock.Acquire{ID: id, Owner: strconv.Itoa(next), RequestID: request(),
				TTLSeconds: 2})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if o.Code == lock.OK {
				if o.Lease.Token <= token {
					t.Fatalf("seed %d: token %d after %d", seed, o.Lease.Token, token)
				}
				overlap = max(overlap, time.Until(until))
				holder, token, until = next, o.Lease.Token, begin.Add(ttl)
				break
			}
			pause(200 * time.Millisecond)
		}
		if random.IntN(2) == 0 {
			pause(time.Second)
			begin := time.Now()
			o, err := caller(holder).Renew(t.Context(), lock.Renew{ID: id, Owner: strconv.Itoa(holder), Token: token,
				RequestID: request(), TTLSeconds: 2})
			switch {
			case err != nil:
				t.Fatalf("seed %d: renewal: %v", seed, err)
			case o.Code == lock.OK:
				until = begin.Add(ttl)
			case o.Code != lock.LeaseExpired: // perhaps it has, by the latest time that a new process thinks possible
				t.Fatalf("seed %d: renewal: %+v", seed, o)
			}
		}
	}
	return overlap
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
			if o, err := right.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "right", RequestID: "r1",
				TTLSeconds: 60}); err != nil || o.Code != lock.OK {
				t.Fatal(o, err)
			}
			server.ResetCounts()
			refused := func() {
				t.Helper()
				k := docstore.Key{Kind: lock.Kind, Tenant: "acme", ID: "k"}
				_, acquire := wrong.locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "wrong", RequestID: "r1",
					TTLSeconds: 60})
				_, several := wrong.store.Write(t.Context(), docstore.Write{Key: k},
					docstore.Write{Key: docstore.Key{Kind: "k", Tenant: k.Tenant, ID: "x"}})
				_, get := wrong.store.Get(t.Context(), k)
				_, list := wrong.store.List(t.Context(), docstore.Query{Kind: lock.Kind, Tenant: "acme"})
				_, check := wrong.store.Check(t.Context(), k, docstore.Absent{})
				for name, err := range map[string]error{"acquire": acquire, "several": several, "get": get, "list": list,
					"check": check} {
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
			if s := wrong.store.Stats(); s.Skewed != 5 || (s.Skew.Offset+off).Abs() > 1020*time.Millisecond {
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
