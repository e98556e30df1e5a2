package httpapi

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// DefaultMaxWaiting is how many responses one process holds at once, for locks and for events each. Requests that wait
// take no slot, and are bounded by themselves.
const DefaultMaxWaiting = 1024

// DefaultMaxWait is how long a response is held at most: as long as a request can ask for.
const DefaultMaxWait = lock.MaxWaitSeconds * time.Second

// longest is how long the response of a request may be held: as long as it asks for and as the server holds one, but
// for the time that it needs before the platform ends the request.
func (a *api) longest(ctx context.Context, asked time.Duration) time.Duration {
	most := min(asked, a.maxWait)
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)-a.timeout)
	}
	return most
}
