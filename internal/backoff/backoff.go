// Package backoff waits between the attempts of a request: exponentially longer, with full jitter (Brooker,
// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy bounds the waits: the one before the first retry by First, each later one by twice the bound before, all by
// Max. No wait is shorter than Min, which is for callers that must not retry at once.
type Policy struct {
	First, Max, Min time.Duration

	// EqualJitter makes half of each wait fixed: waits grow in the order of their bounds, and none is short.
	EqualJitter bool
}

// Delay returns how long to wait before a retry, drawn at random between Min and the bound, or between half the bound
// and the bound. Retries count from 0.
func (p Policy) Delay(retry int) time.Duration {
	bound := p.First
	for ; retry > 0 && bound < p.Max; retry-- {
		if bound > p.Max/2 {
			bound = p.Max
			break
		}
		bound *= 2
	}
	bound = min(bound, p.Max)
	if p.EqualJitter {
		return max(p.Min, bound/2+1+rand.N(max(1, bound-bound/2)))
	}
	return max(p.Min, 1+rand.N(max(1, bound)))
}

// Sleep waits before a retry, for the time of [Policy.Delay]. The error is the context's.
func (p Policy) Sleep(ctx context.Context, retry int) error { return Sleep(ctx, p.Delay(retry)) }

// Sleep waits for d or until the context ends, whose error it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
