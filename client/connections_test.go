package client_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestConnectionsAreUsedAgain: requests that are sent at the same time leave their connections for those that follow.
func TestConnectionsAreUsedAgain(t *testing.T) {
	const callers, rounds = 32, 5
	var opened atomic.Int64
	var all sync.WaitGroup // of a round: no response is sent before all requests are there
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/v1/tenants/acme/locks/")
		all.Done()
		all.Wait()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"tenant_id":"acme","lock_key":"` + key +
			`","lease_id":"l1","owner_id":"ann","state":"ACTIVE"}`))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := client.New(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range rounds {
		all.Add(callers)
		var done sync.WaitGroup
		for range callers {
			done.Go(func() {
				if l, err := c.LockAPI().Get(t.Context(), "acme", "k"); err != nil || l.State != contracts.StateActive {
					t.Errorf("%+v, %v", l, err)
				}
			})
		}
		done.Wait()
	}
	// A connection is free a moment after its response was read: the next request may open another one meanwhile.
	if n := opened.Load(); n >= 2*callers {
		t.Errorf("%d connections for %d requests, %d at a time", n, callers*rounds, callers)
	}
}
