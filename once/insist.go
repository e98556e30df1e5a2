package once

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

// Bounds of the time in which a gate may respond.
const (
	tryTime     = 15 * time.Second // for one request; less when the lock is shorter
	acquireTime = 30 * time.Second // for asking for a run
	graceTime   = 5 * time.Second  // for what there is to do after the caller's context has ended, or the gate's time
	endingTime  = 10 * time.Second // at least, for writing the end of a run
)

// waits are those before retries.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second}

// insist calls do until it succeeds, the context ends, or final reports that another try would return the same; the
// error is that of the last try. Before a retry it waits a random time of up to 200 ms, 400 ms and so on, 5 s at most,
// or for as long as the gate asks for.
func insist(ctx context.Context, each time.Duration, final func(error) bool, do func(context.Context) error) error {
	return hold.Insist{Each: each, Pauses: waits, Final: final}.Do(ctx, do)
}

// ended reports whether a request of a lock's holder need not be sent again.
func ended(err error) bool { return IsLost(err) || rejected(err) }

// graced returns a context that outlives ctx by graceTime, and ends after limit at the latest.
func graced(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(graceTime):
			cancel()
		}
	})
	return late, func() { stop(); cancel() }
}
