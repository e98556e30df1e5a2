package once

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

// Bounds of the time in which a gate may respond.
const (
	tryTime    = 15 * time.Second // for one request at most; less when the lock is shorter, and of the first ones
	endingTime = 10 * time.Second // at least, that Run waits for the end of a run to be written
	giveUpTime = 30 * time.Second // for giving up a request for a run
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

// errBackground says that something goes on in the background.
var errBackground = errors.New("it goes on in the background")

// settle does something for so long at most, and waits for it until patience is over, or ctx has been for
// [hold.GraceTime]. Then it goes on in the background, the error is errBackground, and its own goes to late. With
// Options.SettleTime nothing goes on in the background.
func (r *run) settle(ctx context.Context, limit, patience time.Duration, late func(error),
	do func(context.Context) error) error {
	if r.SettleTime > 0 {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(r.SettleTime, cancel) })()
		return do(late)
	}
	var (
		mu   sync.Mutex
		left bool // no one waits for it
	)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		err := do(ctx)
		mu.Lock()
		defer mu.Unlock()
		if left {
			late(err)
			return
		}
		ended <- err
	}()
	over := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hold.GraceTime, func() { close(over) }) })()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-over:
	case <-timer.C:
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case err := <-ended:
		return err
	default:
		left = true
		return errBackground
	}
}
