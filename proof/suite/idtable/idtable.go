// Package idtable is the oracle of machine IDs: a table of who may stamp which timestamps of which numbers, by what was
// granted and what was released. It shares no code with repo/machineid.
//
// It remembers no IDs. No two that are made under leases are equal if three things hold, and each is judged when it
// happens: a lease begins after all timestamps that the lease before may stamp, for each of its numbers; each ID has a
// number and a timestamp of a lease of its maker; and the IDs of a maker rise. So a fault is found in whatever
// millisecond it happens, whether or not another maker has used that millisecond.
package idtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Table is the table of one space.
type Table struct {
	now func() time.Time // the clock of the store

	mu     sync.Mutex
	latest map[int64]*term // the latest lease of each unit
	seen   int64           // the latest time that the store was asked at: it need not show an earlier one again
	faults int
	told   []string // the first faults
}

// unitBits is how many bits the numbers of a unit have: no lease of the tests has fewer.
const unitBits = 6

// term is a lease, as the table knows it.
type term struct {
	kazahana.Lease
	last  int64 // the latest timestamp that was stamped
	until int64 // the first timestamp that its holder does not stamp, as it has promised
	ends  int64 // the same, as the store knows it
}

// New returns the table of a space.
func New(now func() time.Time) *Table {
	return &Table{now: now, latest: map[int64]*term{}}
}

// Holder is one who leases machine IDs from a provider: a [kazahana.LeaseProvider] in front of that one, which tells
// the table what is granted, whether or not the grant arrives, and what is released.
type Holder struct {
	table  *Table
	name   string
	to     kazahana.LeaseProvider
	judged map[string]machineid.ServiceConfig
	terms  []*term
	last   kazahana.ID
}

var _ kazahana.LeaseProvider = (*Holder)(nil)

// Holder returns a holder. If services are named, then it has the space for itself: all that is free must be granted.
func (t *Table) Holder(name string, to kazahana.LeaseProvider, services ...machineid.ServiceConfig) *Holder {
	h := &Holder{table: t, name: name, to: to, judged: map[string]machineid.ServiceConfig{}, last: -1}
	for _, s := range services {
		h.judged[s.ServiceID] = s
	}
	return h
}

// Faultf notes a fault.
func (t *Table) Faultf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faultf(format, args...)
}

func (t *Table) faultf(format string, args ...any) {
	const most = 8
	if t.faults++; len(t.told) < most {
		t.told = append(t.told, fmt.Sprintf(format, args...))
	}
}

// Err is what is wrong: the first faults, and how many there were.
func (t *Table) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == 0 {
		return nil
	}
	return fmt.Errorf("%d faults of machine IDs and IDs:\n%s", t.faults, strings.Join(t.told, "\n"))
}

// unitsOf are the units of a machine ID, from the first to before the last.
func unitsOf(id int64, l kazahana.Layout) (from, to int64) {
	return id << (l.BitSeq - unitBits), (id + 1) << (l.BitSeq - unitBits)
}

// free is how many machine IDs of a layout the store can lease at a time.
func (t *Table) free(l kazahana.Layout, now int64) (n int) {
	for id := range l.MaxMachineID() + 1 {
		unit, to := unitsOf(id, l)
		for unit < to && (t.latest[unit] == nil || t.latest[unit].ends <= now) {
			unit++
		}
		if unit == to {
			n++
		}
	}
	return n
}

// Acquire implements [kazahana.LeaseProvider].
func (h *Holder) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	r, err := h.to.Acquire(ctx, o)
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := h.judged[cmp.Or(o.ServiceID, machineid.DefaultServiceID)]; ok {
		h.judge(s, o, r.Leases, err)
	}
	if err != nil {
		return r, err
	}
	for _, l := range r.Leases {
		m := &term{Lease: l, last: math.MinInt64, until: l.Expired, ends: l.Expired}
		for unit, to := unitsOf(l.ID, l.Layout); unit < to; unit++ {
			if before := t.latest[unit]; before != nil && l.Created < before.until {
				t.faultf("%s got %s of %d bits, and %s of %d bits may be used until %d", h.name, l, l.BitSeq, before,
					before.BitSeq, before.until)
			}
			t.latest[unit] = m
		}
		h.terms = append(h.terms, m)
	}
	return r, nil
}

// judge judges what a request obtained: as many leases as it asks for if so many are free, one if fewer are, and if
// none is, when the next one will be.
func (h *Holder) judge(s machineid.ServiceConfig, o kazahana.AcquireOptions, got []kazahana.Lease, err error) {
	t := h.table
	now := t.time()
	share := func(at int64) int {
		want := int((max(1, o.ThroughputPerMs) + s.Throughput() - 1) / s.Throughput())
		if free := t.free(s.Layout, at); free < want {
			return min(1, free)
		}
		return want
	}
	least, most := share(now), share(t.seen)
	full, _ := errors.AsType[*kazahana.ExhaustedError](err)
	switch {
	case err != nil && full == nil:
		t.faultf("%s: %v", h.name, err)
	case len(got) < least || len(got) > most:
		t.faultf("%s got %d leases of the service %s, want %d to %d", h.name, len(got), s.ServiceID, least, most)
	case full != nil && now == t.seen:
		if next := now + full.RetryAfter.Milliseconds(); t.free(s.Layout, next) == 0 || t.free(s.Layout, next-1) > 0 {
			t.faultf("%s is told to wait %v, and that is not when a lease of the service %s is free", h.name,
				full.RetryAfter, s.ServiceID)
		}
	}
	for _, l := range got {
		if l.Created < now || l.Created > t.seen || l.Expired != l.Created+s.LeaseDuration || l.Layout != s.Layout {
			t.faultf("%s got %s at %d from the service %+v", h.name, l, now, s)
		}
	}
}

// time is the time by the store's clock. The store's own is from then to the latest that it was asked at.
func (t *Table) time() int64 {
	now := t.now().UnixMilli()
	t.seen = max(t.seen, now)
	return now
}

// Release implements [kazahana.LeaseProvider].
func (h *Holder) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	lasts := h.table.ended(o)
	err := h.to.Release(ctx, o)
	if lasts && err != nil && len(h.judged) > 0 {
		h.table.Faultf("%s cannot give machine ID %d back: %v", h.name, o.ID, err)
	}
	return err
}

// ended notes the promise of a holder that makes no IDs under a lease after the timestamp. It reports whether the store
// still has the lease. It is the store's turn after that, so that no lease that depends on the promise is noted before.
func (t *Table) ended(o kazahana.ReleaseOptions) (lasts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.time()
	for _, m := range t.latest {
		if m.ID != o.ID || kazahana.Sign(m.Secret, o.ID, o.Timestamp) != o.Signature {
			continue
		}
		if m.last > o.Timestamp {
			t.faultf("%s was released from %d on, and stamped %d", m, o.Timestamp, m.last)
		}
		m.until = max(m.Created, min(m.until, o.Timestamp+1))
		if lasts = t.seen < m.ends; lasts {
			m.ends = m.until
		}
		return lasts
	}
	return false
}

// Made judges the IDs that a holder made, in order, and returns how many were made without a lease.
func (h *Holder) Made(l kazahana.Layout, ids ...kazahana.ID) (fallback int) {
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if id <= h.last {
			t.faultf("%s made the ID %d after %d", h.name, id, h.last)
		}
		h.last = id
		ms, number := int64(id)>>l.BitNode()+l.CustomEpoch, int64(id)&(1<<l.BitNode()-1)
		if number>>(l.BitNode()-1) == 1 {
			fallback++
			continue
		}
		i := slices.IndexFunc(h.terms, func(m *term) bool {
			return m.ID == number>>m.BitSeq && m.Created <= ms && ms < m.until
		})
		if i < 0 {
			t.faultf("%s made the ID %d, of number %d at %d, and has no such lease of %v", h.name, id, number, ms, h.terms)
			continue
		}
		h.terms[i].last = max(h.terms[i].last, ms)
	}
	return fallback
}
