package httpapi

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/metrics"
)

// factsOf is what endpoints tell the metrics of a request beyond its response. What commands grant and end, the
// observer of the store sees.
func factsOf(r *http.Request) *metrics.Facts { return &noteOf(r).facts }
