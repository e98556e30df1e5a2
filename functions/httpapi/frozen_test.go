package httpapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// apart are clocks that a test moves apart, as those of an instance that was frozen, or whose time was set.
type apart struct{ monotonic, wall time.Time }

func (c *apart) read() term.Moment { return term.On(c.monotonic, c.wall) }

// either runs a test on two clocks of which one goes on, and then the other.
func either(t *testing.T, test func(t *testing.T, clock *apart, pass func(time.Duration))) {
	t.Helper()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, monotonic := range map[string]bool{"the monotonic clock stands": false, "the wall clock stands": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &apart{begin, begin}
			test(t, c, func(d time.Duration) {
				if monotonic {
					c.monotonic = c.monotonic.Add(d)
				} else {
					c.wall = c.wall.Add(d)
				}
			})
		})
	}
}

// TestQuotaOfFrozen: a lease of a machine ID is counted until it has ended by either clock.
func TestQuotaOfFrozen(t *testing.T) {
	t.Parallel()
	either(t, func(t *testing.T, clock *apart, pass func(time.Duration)) {
		q := newIDQuota(1, nil)
		q.clock = clock.read
		granted, err := q.reserve("s", 1)
		if err != nil {
			t.Fatal(err)
		}
		granted([]kazahana.Lease{{ID: 7, Created: 0, Expired: 600_000}})
		pass(9 * time.Minute)
		_, err = q.reserve("s", 1)
		if e, ok := errors.AsType[*contracts.Error](err); !ok || e.RetryAfter != time.Minute {
			t.Errorf("before the end: %v, not a refusal for a minute", err)
		}
		pass(time.Minute)
		if _, err := q.reserve("s", 1); err != nil {
			t.Error("after the end:", err)
		}
	})
}

// TestReadyOfFrozen: a result of /readyz is given for two seconds by either clock, and no longer.
func TestReadyOfFrozen(t *testing.T) {
	t.Parallel()
	either(t, func(t *testing.T, clock *apart, pass func(time.Duration)) {
		store := &writes{Store: docstore.NewMemory(nil)}
		r := newReadiness(store, nil, nil)
		r.clock = clock.read
		for _, c := range []struct {
			after  time.Duration
			writes int
		}{{0, 1}, {readyFor - 1, 1}, {1, 2}, {time.Hour, 3}} {
			pass(c.after)
			if _, err := r.check(t.Context()); err != nil || store.n != c.writes {
				t.Errorf("%s later: %v, %d writes, want %d", c.after, err, store.n, c.writes)
			}
		}
	})
}

// writes counts the writes of a store that one request at a time uses.
type writes struct {
	docstore.Store

	n int
}

func (s *writes) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.n++
	return s.Store.Write(ctx, w...)
}
