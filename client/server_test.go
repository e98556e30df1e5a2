package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// serve opens a server on an empty store, with every exchange held against the contract.
func serve(t *testing.T) (base string, c *suite.Clock) {
	t.Helper()
	c = suite.NewClock()
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: c.Now})
	s := httptest.NewServer(contracttest.Handler(t, httpapi.New(store, httpapi.Development{}, nil)))
	t.Cleanup(s.Close)
	return s.URL, c
}

func dial(t *testing.T, base string, transport http.RoundTripper) *client.LockAPI {
	t.Helper()
	c, err := client.New(base, &client.Options{HTTP: &http.Client{Transport: transport, Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return c.LockAPI()
}

// first is the first token of a lock that is acquired at [suite.Epoch].
var first = suite.Epoch.UnixMicro() + 1

// TestLifeOfALease goes over a real connection through the real handler.
func TestLifeOfALease(t *testing.T) {
	base, clock := serve(t)
	c, ctx := dial(t, base, nil), t.Context()
	failsWith := func(err error, code contracts.Code) {
		t.Helper()
		if !errors.Is(err, code) {
			t.Errorf("got %v, want %s", err, code)
		}
	}

	_, err := c.Get(ctx, "acme", "deploy")
	failsWith(err, contracts.CodeNotFound)

	got, err := c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30,
		Metadata: contracts.Metadata{"build": "7"}})
	want := contracts.Lease{
		TenantID: "acme", LockKey: "deploy", LeaseID: got.LeaseID, OwnerID: "ann", FencingToken: first,
		State:      contracts.StateActive,
		AcquiredAt: "2026-01-01T00:00:00.000Z", ExpiresAt: "2026-01-01T00:00:30.000Z", RemainingMs: 30_000, TTLSeconds: 30,
		Metadata: contracts.Metadata{"build": "7"},
	}
	if err != nil || got.LeaseID == "" || !reflect.DeepEqual(got.Lease, want) { // LS-ACQ-002, LS-ACQ-003
		t.Fatalf("acquire: %+v, %v\nwant %+v", got, err, want)
	}

	clock.Advance(10 * time.Second)
	_, err = c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "bob", TTLSeconds: 30}) // LS-ACQ-001
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeLockHeld || e.Owner != "ann" ||
		!e.ExpiresAt.Equal(time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)) || e.RetryAfter != 20*time.Second || !e.Retryable {
		t.Errorf("acquire what is held: %+v", err)
	}

	// LS-RNW-002
	got, err = c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{OwnerID: "ann", FencingToken: first, TTLSeconds: 60})
	want.ExpiresAt, want.RemainingMs, want.TTLSeconds = "2026-01-01T00:01:10.000Z", 60_000, 60
	if err != nil || !reflect.DeepEqual(got.Lease, want) {
		t.Errorf("renew: %+v, %v\nwant %+v", got, err, want)
	}
	// LS-RNW-001
	_, err = c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{OwnerID: "bob", FencingToken: first, TTLSeconds: 60})
	failsWith(err, contracts.CodeNotOwner)
	_, err = c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{OwnerID: "ann", FencingToken: first, TTLSeconds: 0})
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeInvalidArgument ||
		e.Field != "ttl_seconds" {
		t.Errorf("renew for no time: %+v", err)
	}

	seen, err := c.Get(ctx, "acme", "deploy")
	wantLock := contracts.Lock{
		TenantID: "acme", LockKey: "deploy", LeaseID: want.LeaseID, OwnerID: "ann", State: contracts.StateActive,
		AcquiredAt: want.AcquiredAt, ExpiresAt: want.ExpiresAt, TTLSeconds: 60, Metadata: contracts.Metadata{"build": "7"},
	}
	if err != nil || !reflect.DeepEqual(seen, wantLock) {
		t.Errorf("get: %+v, %v\nwant %+v", seen, err, wantLock)
	}

	// LS-REL-002
	ended, err := c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{OwnerID: "ann", FencingToken: first})
	wantEnded := contracts.EndedLease{
		TenantID: "acme", LockKey: "deploy", LeaseID: want.LeaseID, OwnerID: "ann", FencingToken: first,
		State:      contracts.StateReleased,
		AcquiredAt: want.AcquiredAt, ExpiresAt: want.ExpiresAt, ReleasedAt: "2026-01-01T00:00:10.000Z", TTLSeconds: 60,
		Metadata: contracts.Metadata{"build": "7"},
	}
	if err != nil || !reflect.DeepEqual(ended, wantEnded) {
		t.Errorf("release: %+v, %v\nwant %+v", ended, err, wantEnded)
	}
	// a new intention
	_, err = c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{OwnerID: "ann", FencingToken: first})
	failsWith(err, contracts.CodeLeaseReleased)

	held, err := c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "bob", TTLSeconds: 5})
	if err != nil || held.FencingToken != first+1 {
		t.Fatalf("acquire after release: %+v, %v", held, err)
	}
	_, err = c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{OwnerID: "root", Reason: "hangs",
		LeaseID: want.LeaseID})
	failsWith(err, contracts.CodeLeaseLost)
	forced, err := c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{OwnerID: "root", Reason: "hangs",
		LeaseID: held.LeaseID})
	if err != nil || forced.State != contracts.StateReleased || forced.OwnerID != "bob" || forced.ForceRelease == nil ||
		*forced.ForceRelease != (contracts.ForcedRelease{By: "root", Reason: "hangs", At: "2026-01-01T00:00:10.000Z"}) {
		t.Errorf("force-release: %+v, %v", forced, err)
	}
	_, err = c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{OwnerID: "root", Reason: "hangs"})
	failsWith(err, contracts.CodeLockNotHeld)
}

func TestListOverPages(t *testing.T) {
	base, _ := serve(t)
	c, ctx := dial(t, base, nil), t.Context()
	tokens := map[string]int64{}
	for _, key := range []string{"b/2", "a", "b/1", "b/ü", "b/%"} {
		l, err := c.Acquire(ctx, "acme", key, contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30})
		if err != nil {
			t.Fatal(err)
		}
		tokens[key] = l.FencingToken
	}
	if _, err := c.Release(ctx, "acme", "b/1", contracts.ReleaseRequest{OwnerID: "ann",
		FencingToken: tokens["b/1"]}); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		q    client.LockQuery
		want []string
	}{
		{"all", client.LockQuery{}, []string{"a", "b/%", "b/1", "b/2", "b/ü"}},
		{"prefix", client.LockQuery{Prefix: "b/"}, []string{"b/%", "b/1", "b/2", "b/ü"}},
		{"state", client.LockQuery{State: contracts.StateReleased}, []string{"b/1"}},
		{"prefix, state and pages of one", client.LockQuery{Prefix: "b/", State: contracts.StateActive, PageSize: 1},
			[]string{"b/%", "b/2", "b/ü"}},
		{"nothing", client.LockQuery{Prefix: "c"}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var keys []string
			for l, err := range c.All(ctx, "acme", tc.q) {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, l.LockKey)
			}
			if !reflect.DeepEqual(keys, tc.want) {
				t.Errorf("got %q, want %q", keys, tc.want)
			}
		})
	}
	if _, err := c.List(ctx, "acme", client.LockQuery{PageSize: 1001}); !errors.Is(err, contracts.CodeInvalidArgument) {
		t.Errorf("a page of 1001: %v", err)
	}
	for l, err := range c.All(ctx, "acme", client.LockQuery{PageSize: 1}) {
		if err != nil || l.LockKey != "a" {
			t.Errorf("the first: %+v, %v", l, err)
		}
		break
	}
	turns := 0
	for _, err := range c.All(ctx, "acme", client.LockQuery{PageSize: 1001}) {
		if turns++; !errors.Is(err, contracts.CodeInvalidArgument) {
			t.Errorf("all in pages of 1001: %v", err)
		}
	}
	if turns != 1 {
		t.Errorf("an error came %d times", turns)
	}
}

// TestNamesSurviveTheWay: whatever a lock is called, the server and the client speak of the same one, or the server
// says that there cannot be one of that name.
func TestNamesSurviveTheWay(t *testing.T) {
	base, _ := serve(t)
	c, ctx := dial(t, base, nil), t.Context()
	for _, key := range []string{"a/b", "ü", "%", "%2F", "a b", "a+b", "?x=1#y", "a//b", "../x", "...", "a;b", `"`,
		"locks", "acquire"} {
		t.Run(key, func(t *testing.T) {
			l, err := c.Acquire(ctx, key, key, contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30})
			if err != nil || l.TenantID != key || l.LockKey != key || l.FencingToken < first {
				t.Fatalf("acquire: %+v, %v", l, err)
			}
			if seen, err := c.Get(ctx, key, key); err != nil || seen.LeaseID != l.LeaseID {
				t.Errorf("get: %+v, %v", seen, err)
			}
		})
	}
	for _, key := range []string{".", "..", "/"} { // it is not even sent
		if _, err := c.Get(ctx, "acme", key); !errors.Is(err, contracts.CodeInvalidArgument) {
			t.Errorf("key %q: %v, want INVALID_ARGUMENT", key, err)
		}
	}
	for _, key := range []string{"", "a\nb"} {
		_, err := c.Get(ctx, "acme", key)
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeInvalidArgument ||
			e.Field != "lock_key" {
			t.Errorf("key %q: %v, want INVALID_ARGUMENT for lock_key", key, err)
		}
	}
}

// lossy loses the request or the response of the first exchange.
type lossy struct {
	answerOnly bool
	lost       bool
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.lost {
		return http.DefaultTransport.RoundTrip(r)
	}
	l.lost = true
	if l.answerOnly {
		w, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := w.Body.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("connection reset by peer")
}

// TestLossHasNoEffect: a caller does not notice that a request or a response was lost, except by replayed (LS-ACC-04).
func TestLossHasNoEffect(t *testing.T) {
	for _, way := range []struct {
		name       string
		answerOnly bool
	}{{"lost request", false}, {"lost response", true}} {
		t.Run(way.name, func(t *testing.T) {
			base, _ := serve(t)
			c := func() *client.LockAPI { return dial(t, base, &lossy{answerOnly: way.answerOnly}) }
			soon := suite.Epoch.Add(time.Minute).Format(contracts.TimeFormat) // the client's clock is another one
			l, err := c().Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30,
				NotAfter: soon})
			if err != nil || l.FencingToken != first || l.Replayed != way.answerOnly {
				t.Fatalf("acquire: %+v, %v", l, err)
			}
			l, err = c().Renew(t.Context(), "acme", "deploy", contracts.RenewRequest{OwnerID: "ann", FencingToken: first,
				TTLSeconds: 60})
			if err != nil || l.ExpiresAt != "2026-01-01T00:01:00.000Z" || l.Replayed != way.answerOnly {
				t.Errorf("renew: %+v, %v", l, err)
			}
			e, err := c().Release(t.Context(), "acme", "deploy", contracts.ReleaseRequest{OwnerID: "ann", FencingToken: first})
			if err != nil || e.State != contracts.StateReleased || e.Replayed != way.answerOnly {
				t.Errorf("release: %+v, %v", e, err)
			}
			l, err = dial(t, base, nil).Acquire(t.Context(), "acme", "deploy",
				contracts.AcquireRequest{OwnerID: "bob", TTLSeconds: 30})
			if err != nil || l.FencingToken != first+1 {
				t.Fatalf("acquire by the next: %+v, %v", l, err)
			}
			f, err := c().ForceRelease(t.Context(), "acme", "deploy", contracts.ForceReleaseRequest{
				OwnerID: "root", Reason: "hangs"})
			if err != nil || f.State != contracts.StateReleased {
				t.Errorf("force-release: %+v, %v", f, err)
			}
		})
	}
}

// TestRenewLease: a renewal names when the lease expires, and one whose response was lost is no obstacle.
func TestRenewLease(t *testing.T) {
	base, clock := serve(t)
	c, ctx := dial(t, base, nil), t.Context()
	lease, err := c.Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"2026-01-01T00:00:31.000Z", "2026-01-01T00:00:32.000Z"} {
		clock.Advance(time.Second)
		if lease, err = c.RenewLease(ctx, lease, 30); err != nil || lease.ExpiresAt != want || lease.Replayed {
			t.Fatalf("renewal %d: %+v, %v; want it to expire at %s", n, lease, err, want)
		}
	}
	r := contracts.RenewRequest{OwnerID: "ann", FencingToken: first, TTLSeconds: 60, ExpiresAt: lease.ExpiresAt}
	if _, err := c.Renew(ctx, "acme", "deploy", r); err != nil { // and the caller never learns of it
		t.Fatal(err)
	}
	_, err = c.Renew(ctx, "acme", "deploy", r)
	if e, ok := errors.AsType[*contracts.Error](err); !ok || e.Code != contracts.CodeLeaseChanged ||
		!e.ExpiresAt.Equal(suite.Epoch.Add(62*time.Second)) {
		t.Errorf("a renewal for an end that is not the lease's: %v", err)
	}
	if lease, err = c.RenewLease(ctx, lease, 30); err != nil || lease.ExpiresAt != "2026-01-01T00:00:32.000Z" {
		t.Errorf("a renewal after one whose response was lost: %+v, %v", lease, err)
	}
	clock.Advance(time.Minute)
	if _, err := c.RenewLease(ctx, lease, 30); !errors.Is(err, contracts.CodeLeaseExpired) {
		t.Errorf("a renewal of an expired lease: %v", err)
	}
}

// TestServerThatIsGone: no response in any try is an error of the network, not of Leasehold.
func TestServerThatIsGone(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := client.New(s.URL, &client.Options{Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = c.LockAPI().Get(ctx, "acme", "deploy")
	if _, ok := errors.AsType[*contracts.Error](err); err == nil || ok || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a connection that was refused", err)
	}
}
