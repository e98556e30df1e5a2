package httpapi

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// What endpoints tell the metrics of a request beyond its response. What single commands grant and end, the observer of the store sees.

func factsOf(r *http.Request) *metrics.Facts { return &noteOf(r).facts }

// tookSet is told of each acquire and renewal of several locks, which are one step for the store and no single commands.
func (a *api) tookSet(c call, o lock.SetOutcome) {
	if a.metrics == nil || o.Code != lock.OK {
		return
	}
	for _, l := range o.Leases {
		a.metrics.Granted(c.Context(), metrics.LockLease(l), l.AcquiredAt, o.At, l.ExpiresAt)
	}
}

// endedSet is told of each release of several locks.
func (a *api) endedSet(o lock.SetOutcome) {
	for _, l := range o.Leases {
		a.metrics.Ended(metrics.LockLease(l))
	}
}
