package client_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/conns/connstest"
)

// TestConnectionOfHTTP2ToAServerThatIsGone: all requests to a server are on one connection. When the server is gone
// without a word, they are on another one after the first try of 2 s, one for all; the one whose response is held for
// longer after six: three without a byte, and three for the answer to a ping.
func TestConnectionOfHTTP2ToAServerThatIsGone(t *testing.T) {
	common, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t.Fatalf("%T", http.DefaultTransport)
	}
	defer func() { http.DefaultTransport = common }()
	synctest.Test(t, func(t *testing.T) {
		n := connstest.New()
		over := &http.Protocols{}
		over.SetUnencryptedHTTP2(true)
		s := &http.Server{
			Protocols: over, ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"tenant_id":"acme","lock_key":"k","lease_id":"l1","owner_id":"ann","state":"ACTIVE",` +
					`"fencing_token":1767225600000000,"acquired_at":"2000-01-01T00:00:00.000Z",` +
					`"expires_at":"2000-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,"metadata":{},` +
					`"replayed":false}`))
			}),
		}
		go func() { _ = s.Serve(n) }()
		network := common.Clone()
		network.Proxy, network.Protocols, network.DialContext = nil, over, n.Dial
		http.DefaultTransport = network
		c, err := client.New("http://127.0.0.1:8080", nil)
		if err != nil {
			t.Fatal(err)
		}
		get := func() {
			if lock, err := c.LockAPI().Get(t.Context(), "acme", "k"); err != nil || lock.State != contracts.StateActive {
				t.Errorf("%+v, %v", lock, err)
			}
		}
		get()
		n.Cut(false)
		// Before the next try, at most; and what the way there and back takes, also for a connection.
		const pause, way = 200 * time.Millisecond, 10 * time.Millisecond
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.LockAPI().Acquire(t.Context(), "acme", "k", contracts.AcquireRequest{
				OwnerID: "ann", RequestID: "r1", TTLSeconds: 30, WaitSeconds: 20,
			}); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 6*time.Second+pause+way {
				t.Errorf("the response that is held: after %v", took)
			}
		})
		for range 2 { // those who come later find the same, and are not the reason for a third connection
			for range 15 {
				all.Go(func() {
					sent := time.Now()
					get()
					if took := time.Since(sent); took > 2*time.Second+pause+way {
						t.Errorf("after %v", took)
					}
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		if made := n.Made(); made != 1 {
			t.Errorf("%d connections after the one that is dead", made)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
