package once

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// firstBeat is when the first refresh is due, from the request that granted the lock. An acquire that was repeated finds
// its own grant with less time left, and is refreshed sooner in proportion.
func (r *run) firstBeat(remaining time.Duration) time.Duration {
	if remaining >= r.TTL {
		return r.Heartbeat
	}
	return time.Duration(float64(r.Heartbeat) * float64(remaining) / float64(r.TTL))
}

// beat refreshes the lock until it is lost or ctx ends. Each refresh is due one Heartbeat after the last one that
// succeeded was sent. One that fails is tried again, at first soon and at last every ten seconds or half a Heartbeat.
func (r *run) beat(ctx context.Context, t *term.Term, due term.Moment) {
	soon := min(time.Second, r.Heartbeat/8)
	failed, waits := 0, backoff.Policy{First: soon, Max: min(10*time.Second, r.Heartbeat/2), Min: soon / 2}
	for r.clock.Sleep(ctx, due) == nil && t.Check() == nil {
		asked, left := r.clock(), t.Left()
		err := try(ctx, min(tryTime, max(left/3, 10*time.Millisecond)), func(ctx context.Context) error {
			_, err := r.gate.Refresh(ctx, r.lock, r.TTL)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !t.Extend(asked.End(r.TTL)) {
				return
			}
			due, failed = asked.Add(r.Heartbeat), 0
			_ = try(ctx, min(tryTime, (r.TTL-r.Heartbeat)/2), func(ctx context.Context) error {
				r.OnRefresh(ctx, asked.Add(r.TTL).Time())
				return nil
			})
		case IsLost(err):
			t.Lose(lostBy(err))
			return
		default:
			t.Failed(err)
			r.Warn(fmt.Errorf("refresh the lock of analysis %q, to be tried again: %w", r.id, err))
			due = r.clock().Add(max(waits.Delay(failed), min(contracts.RetryAfter(err), t.Left()/3)))
			failed++
		}
	}
}
