package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// TestDelay: each wait is above 0, at most its bound, and gets near both ends of its range.
func TestDelay(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		policy backoff.Policy
		bounds map[int]time.Duration // by retry
	}{
		{backoff.Policy{First: 200 * ms, Max: 5 * time.Second}, map[int]time.Duration{
			-1: 200 * ms, 0: 200 * ms, 1: 400 * ms, 2: 800 * ms, 4: 3200 * ms, 5: 5 * time.Second, 6: 5 * time.Second,
			math.MaxInt: 5 * time.Second,
		}},
		{backoff.Policy{First: time.Second, Max: 4 * time.Second},
			map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 3: 4 * time.Second}},
		{backoff.Policy{First: time.Minute, Max: time.Second}, map[int]time.Duration{0: time.Second, 9: time.Second}},
		{backoff.Policy{First: 1, Max: math.MaxInt64}, map[int]time.Duration{62: 1 << 62, 63: math.MaxInt64,
			500: math.MaxInt64}},
		{backoff.Policy{}, map[int]time.Duration{0: 1, 7: 1}},
	} {
		for retry, bound := range c.bounds {
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for range 1000 {
				d := c.policy.Delay(retry)
				least, most = min(least, d), max(most, d)
			}
			if least <= 0 || most > bound || bound > 1 && (least > bound/20 || most < bound-bound/20) {
				t.Errorf("%+v before retry %d: from %v to %v, want all of (0, %v]", c.policy, retry, least, most, bound)
			}
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := backoff.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("slept for %v, %v", time.Since(began), err)
		}
		p := backoff.Policy{First: time.Second, Max: time.Hour}
		began = time.Now()
		if err := p.Sleep(t.Context(), 3); err != nil || time.Since(began) == 0 || time.Since(began) > 8*time.Second {
			t.Errorf("slept for %v, %v", time.Since(began), err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := backoff.Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Second {
			t.Errorf("a context of 1s: slept for %v, %v", time.Since(began), err)
		}
		began = time.Now()
		if err := backoff.Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("a context that has ended: slept for %v, %v", time.Since(began), err)
		}
	})
}

// TestEqualJitter: each wait lies in the upper half of its bound, so that waits grow until they are bounded by Max.
func TestEqualJitter(t *testing.T) {
	p := backoff.Policy{First: time.Second, Max: 60 * time.Second, EqualJitter: true}
	for range 1000 {
		for retry, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			bound := time.Duration(seconds) * time.Second
			if d := p.Delay(retry); d <= bound/2 || d > bound {
				t.Fatalf("retry %d: %s, want %s to %s", retry, d, bound/2, bound)
			}
		}
	}
	for _, tiny := range []time.Duration{0, 1, 2, 3} {
		if d := (backoff.Policy{First: tiny, Max: tiny, EqualJitter: true}).Delay(0); d < 1 || d > max(1, tiny) {
			t.Errorf("a bound of %d: %d", tiny, d)
		}
	}
}
