package driver

import (
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Sent counts the requests of a store to its service, for [docstore.Meter]. The zero value is ready for use.
type Sent struct {
	Requests, Retries, Throttled atomic.Int64
}

// Usage is what was counted.
func (s *Sent) Usage() docstore.Usage {
	return docstore.Usage{Requests: s.Requests.Load(), Retries: s.Retries.Load(), Throttled: s.Throttled.Load()}
}
