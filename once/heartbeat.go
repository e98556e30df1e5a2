package once

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// heartbeat refreshes the lock. Each refresh is due one Heartbeat after the last one that succeeded was sent. One that
// fails is tried again, at first soon and at last every ten seconds or half a Heartbeat.
func (r *run) heartbeat(t *term.Term) *hold.Keep {
	soon := min(time.Second, r.Heartbeat/8)
	return &hold.Keep{
		Term: t, Clock: r.clock, Pauses: backoff.Policy{First: soon, Max: min(10*time.Second, r.Heartbeat/2), Min: soon / 2},
		Each: func(left time.Duration) time.Duration { return hold.Third(left, tryTime) },
		Renew: func(ctx context.Context) error {
			_, err := r.gate.Refresh(ctx, r.lock, r.TTL)
			return err
		},
		Renewed: func(asked term.Moment) (end, due term.Moment) {
			return asked.End(r.TTL), asked.Due(r.Heartbeat, r.TTL, r.TTL)
		},
		Extended: func(ctx context.Context, asked term.Moment) {
			ctx, cancel := context.WithTimeout(ctx, min(tryTime, (r.TTL-r.Heartbeat)/2))
			defer cancel()
			r.OnRefresh(ctx, asked.Add(r.TTL).Time())
		},
		Lost: func(err error) error {
			if !IsLost(err) {
				return nil
			}
			return lostBy(err)
		},
		Failed: func(err error) {
			r.Warn(fmt.Errorf("refresh the lock of run %q, to be tried again: %w", r.id, err))
		},
	}
}
