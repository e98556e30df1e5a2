package httpapi

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// What endpoints tell the metrics of a request beyond its response. What commands grant and end, the observer of the store sees.

func factsOf(r *http.Request) *metrics.Facts { return &noteOf(r).facts }

// ranSet is told of each command on several locks.
func ranSet(r *http.Request, o lock.SetOutcome) { factsOf(r).Replayed = o.Replayed }

// ranOn is told of each command on the lock of an analysis or a run.
func ranOn(r *http.Request, o analysis.Outcome) { factsOf(r).Replayed = o.Replayed }

// moved is told of each command on a member of a cluster.
func moved(r *http.Request, o placement.MemberOutcome) {
	facts := factsOf(r)
	facts.Replayed = o.Replayed
	if o.Code == placement.OK && !o.Replayed {
		facts.Moved = o.Moved
	}
}
