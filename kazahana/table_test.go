package kazahana_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

var errOutage = errors.New("the provider is away")

// table is a provider in memory. Its entries are units of 256 numbers, so that leases of several layouts can share it,
// and it keeps the rule that the intervals of a unit never overlap.
type table struct {
	now    func() time.Time // the provider's clock
	ttl    time.Duration
	layout kazahana.Layout // of the next leases

	mu       sync.Mutex
	units    []unit
	away     bool          // every call fails
	latency  time.Duration // of each call
	acquires []kazahana.AcquireOptions
	releases []kazahana.ReleaseOptions
	alter    func(*kazahana.Lease) // what a faulty provider makes of a lease
}

// unit is an entry: its last lease, and when the next one may begin.
type unit struct {
	secret    string
	expired   int64
	notBefore int64
}

func newTable(units int, ttl time.Duration, now func() time.Time) *table {
	return &table{now: now, ttl: ttl, layout: kazahana.DefaultLayout(), units: make([]unit, units)}
}

func (t *table) Acquire(ctx context.Context, o kazahana.AcquireOptions) (r kazahana.AcquireResponse, err error) {
	if err := t.travel(ctx); err != nil {
		return r, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acquires = append(t.acquires, o)
	if t.away {
		return r, errOutage
	}
	now := t.now().UnixMilli()
	width := int(t.layout.Throughput() / 256)
	count := int((max(o.ThroughputPerMs, 1) + t.layout.Throughput() - 1) / t.layout.Throughput())
	taken := map[int]bool{}
	soonest := int64(1 << 62)
	for range count {
		best, from := -1, int64(0)
		for i := 0; i+width <= len(t.units); i += width {
			created, free := now, !taken[i]
			for _, u := range t.units[i : i+width] {
				if u.expired > now {
					free, soonest = false, min(soonest, u.expired)
				}
				if u.secret == "" {
					created = max(created, u.notBefore)
				}
			}
			if free && (best < 0 || created < from) {
				best, from = i, created
			}
		}
		if best < 0 {
			return r, &kazahana.ExhaustedError{RetryAfter: time.Duration(max(0, soonest-now)) * time.Millisecond}
		}
		taken[best] = true
		r.Leases = append(r.Leases, kazahana.Lease{
			ID: int64(best / width), Created: from, Expired: from + t.ttl.Milliseconds(), Layout: t.layout,
			Secret: "secret of " + strconv.Itoa(len(t.acquires)) + "/" + strconv.Itoa(best),
		})
	}
	for i, l := range r.Leases {
		for n := range width {
			t.units[int(l.ID)*width+n] = unit{l.Secret, l.Expired, l.Expired}
		}
		if t.alter != nil {
			t.alter(&r.Leases[i])
		}
	}
	return r, nil
}

// travel is the way to the provider and back.
func (t *table) travel(ctx context.Context) error {
	if t.latency == 0 {
		return nil
	}
	select {
	case <-time.After(t.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *table) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	if err := t.travel(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releases = append(t.releases, o)
	if t.away {
		return errOutage
	}
	if d := o.Timestamp - t.now().UnixMilli(); d < -30_000 || d > 30_000 {
		return errors.New("the signature is too old, or of the future")
	}
	for i := range t.units {
		u := &t.units[i]
		if u.secret != "" && kazahana.Sign(u.secret, o.ID, o.Timestamp) == o.Signature {
			*u = unit{notBefore: o.Timestamp + 1}
		}
	}
	return nil
}

// set changes the table while generators use it.
func (t *table) set(change func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t)
}

func (t *table) acquired() []kazahana.AcquireOptions {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.acquires)
}

func (t *table) released() []kazahana.ReleaseOptions {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.releases)
}

// origin is the time at which bubbles begin for generators.
var origin = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// clock is a wall clock that can be set, over the time of a bubble.
type clock struct {
	start time.Time
	mu    sync.Mutex
	off   time.Duration // of the wall clock
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) Monotonic() time.Duration { return time.Since(c.start) }

func (c *clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return origin.Add(time.Since(c.start) + c.off)
}

// step sets the wall clock forward or backward.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}
