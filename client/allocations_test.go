//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestAllocationsOfAClient: what a request allocates in the client beside the transport, with the request of net/http,
// the body both ways, and the check that the response is about what was asked.
func TestAllocationsOfAClient(t *testing.T) {
	const most = 46 // 10 of them are those of encoding/json, 4 are for the end
	body := strings.NewReader("")
	const lease = `{"tenant_id":"acme","lock_key":"deploy-prod","lease_id":"l1","owner_id":"ann","fencing_token":1767225600000000,"state":"ACTIVE",` +
		`"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:01:00.000Z","remaining_ms":60000,"ttl_seconds":60,"metadata":{},"replayed":false}`
	response := &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body),
		ContentLength: int64(len(lease)),
	}
	c, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{
		Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			body.Reset(lease)
			return response, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(200, func() {
		_, err := c.LockAPI().Acquire(t.Context(), "acme", "deploy-prod",
			contracts.AcquireRequest{RequestID: "r1", OwnerID: "ann", TTLSeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, %d at most", got, most)
	}
}
