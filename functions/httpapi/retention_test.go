package httpapi_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestRetention: the store may remove a lock when its lease has ended for the retention, and not before.
func TestRetention(t *testing.T) {
	d := open(t, httpapi.Development{})
	d.handler = contracttest.Handler(t, httpapi.New(d.store, httpapi.Development{},
		&httpapi.Options{Retention: 5 * time.Hour}))
	d.post(deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":3600}`)
	for _, want := range []int{0, 1} {
		d.clock.Advance(6*time.Hour - time.Duration(1-want)*time.Second)
		if n, err := d.store.(docstore.Pruner).Prune(t.Context(), 10); err != nil || n != want {
			t.Errorf("%d locks can be removed, %v; want %d", n, err, want)
		}
	}
	d.get(deploy).refuses(t, 404, "NOT_FOUND", "")
}
