package hold_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// TestSlowGrantsLoseNoLease: whatever the lease and the time from one renewal to the next are, and however long the
// response to the request took that granted it, also to one that was repeated: where a renewal takes no longer than
// what was left then, no lease is lost.
func TestSlowGrantsLoseNoLease(t *testing.T) {
	const seed, draws = 1, 2000
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for draw := range draws {
		ttl := 3*time.Second + upTo(time.Minute)
		every := ttl/4 + upTo(ttl/2)
		lasts := ttl - time.Duration(random.IntN(2))*upTo(ttl/2) // of a repeated request
		took := upTo(lasts - 200*time.Millisecond)               // the grant
		renewal := upTo(min(lasts-took, ttl-every, ttl/2) - 150*time.Millisecond)
		synctest.Test(t, func(t *testing.T) {
			begin := term.Now()
			time.Sleep(took)
			lease := term.New(t.Context(), term.Now, begin.End(lasts), func(error) error { return errLost })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var going sync.WaitGroup
			going.Go(func() { lease.Watch(ctx) })
			renewals := 0
			keep := hold.Keep{
				Term: lease, Clock: term.Now, Pauses: each(50 * time.Millisecond),
				Renew: func(context.Context) error { time.Sleep(renewal); return nil },
				Renewed: func(asked term.Moment) (end, due term.Moment) {
					renewals++
					return asked.End(ttl), asked.Due(every, ttl, ttl)
				},
				Lost: func(error) error { return nil }, Failed: func(error) {},
			}
			going.Go(func() { keep.Run(ctx, begin.Due(every, lasts, ttl)) })
			time.Sleep(3 * ttl)
			if err := lease.Check(); errors.Is(err, errLost) || renewals < 2 {
				t.Errorf("draw %d: %d renewals, then %v: ttl %v, renewed every %v, granted after %v with %v left, renewals take %v",
					draw, renewals, err, ttl, every, took, lasts, renewal)
			}
			cancel()
			going.Wait()
		})
	}
}
