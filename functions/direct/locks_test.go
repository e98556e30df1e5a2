package direct_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestLocksAsOverHTTP: what a program is told of locks is the same over HTTP and on a store, results and rejections
// alike.
func TestLocksAsOverHTTP(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(&docstore.MemoryOptions{Now: now}), httpapi.Development{},
		&httpapi.Options{Now: now}))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: now})
	both := []locks.Provider{c.LockAPI().For("acme"), direct.Locks(lock.New(store, &lock.Options{Now: now}), "acme")}

	ctx, token := t.Context(), at.UnixMicro()+1
	acquire := func(owner, request string, ttl int64) func(locks.Provider) (any, error) {
		return func(p locks.Provider) (any, error) {
			l, err := p.Acquire(ctx, "deploy", contracts.AcquireRequest{
				OwnerID: owner, RequestID: request, TTLSeconds: ttl, Metadata: contracts.Metadata{"build": "7"},
			})
			l.LeaseID = "" // which is random
			return l, err
		}
	}
	renew := func(owner, request, expires string, token int64) func(locks.Provider) (any, error) {
		return func(p locks.Provider) (any, error) {
			l, err := p.Renew(ctx, "deploy", contracts.RenewRequest{
				OwnerID: owner, RequestID: request, FencingToken: token, TTLSeconds: 60, ExpiresAt: expires,
			})
			l.LeaseID = ""
			return l, err
		}
	}
	release := func(owner, request string, token int64) func(locks.Provider) (any, error) {
		return func(p locks.Provider) (any, error) {
			l, err := p.Release(ctx, "deploy", contracts.ReleaseRequest{OwnerID: owner, RequestID: request, FencingToken: token})
			l.LeaseID = ""
			return l, err
		}
	}
	get := func(p locks.Provider) (any, error) {
		l, err := p.Get(ctx, "deploy")
		l.LeaseID = ""
		return l, err
	}
	for _, step := range []struct {
		name string
		do   func(locks.Provider) (any, error)
		code contracts.Code // of the rejection
	}{
		{"get without a record", get, contracts.CodeNotFound},
		{"acquire", acquire("ann", "a1", 30), ""},
		{"acquire again", acquire("ann", "a1", 30), ""},
		{"acquire again with another ttl", acquire("ann", "a1", 31), contracts.CodeRequestIDReused},
		{"acquire what is held", acquire("bob", "a2", 30), contracts.CodeLockHeld},
		{"acquire without an owner", acquire("", "a3", 30), contracts.CodeInvalidArgument},
		{"acquire for no time", acquire("bob", "a4", 0), contracts.CodeInvalidArgument},
		{"get", get, ""},
		{"renew", renew("ann", "r1", "2026-01-01T00:00:30.000Z", token), ""},
		{"renew again", renew("ann", "r1", "2026-01-01T00:00:30.000Z", token), ""},
		{"renew from another expiry", renew("ann", "r2", "2026-01-01T00:00:30.000Z", token), contracts.CodeLeaseChanged},
		{"renew from no time", renew("ann", "r3", "soon", token), contracts.CodeInvalidArgument},
		{"renew as another", renew("bob", "r4", "", token), contracts.CodeNotOwner},
		{"renew with another token", renew("ann", "r5", "", token+1), contracts.CodeLeaseLost},
		{"release with another token", release("ann", "e1", token+1), contracts.CodeLeaseLost},
		{"release", release("ann", "e2", token), ""},
		{"release again", release("ann", "e2", token), ""},
		{"release once more", release("ann", "e3", token), contracts.CodeLeaseReleased},
		{"renew what was released", renew("ann", "r6", "", token), contracts.CodeLeaseReleased},
		{"get what was released", get, ""},
		{"acquire after the release", acquire("bob", "a5", 30), ""},
	} {
		var said [2]string
		for i, p := range both {
			got, err := step.do(p)
			if (step.code == "") != (err == nil) || err != nil && !errors.Is(err, step.code) {
				t.Errorf("%s: %v, want %q", step.name, err, step.code)
			}
			if e, ok := errors.AsType[*contracts.Error](err); ok {
				e.RequestID = "" // of the exchange
				got = e.Problem()
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			said[i] = string(text)
		}
		if said[0] != said[1] && step.code != contracts.CodeInvalidArgument { // which on a store is the field's error itself
			t.Errorf("%s:\nover HTTP %s\non a store %s", step.name, said[0], said[1])
		}
	}
}
