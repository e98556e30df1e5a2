package metrics

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Lease names a lease that this process granted, renewed or ended.
type Lease struct {
	Kind   string // KindLock, KindAnalysis, KindRun
	Tenant string // empty if it has none
	ID     string // of the lock, the analysis or the run
	Token  int64
}

// LockLease names the lease of a lock.
func LockLease(l lock.Lease) Lease { return Lease{KindLock, l.Tenant, l.Key, l.Token} }

// held is the leases that last, as far as this process knows: those that it granted or renewed. It asks the store for
// nothing.
type held struct {
	most int

	mu     sync.Mutex
	leases map[Lease]term
}

// term is the time of a lease, by the clock of the store. seen is when the process learnt of it, by its own clock.
type term struct {
	acquired, expires, seen time.Time
	length                  time.Duration // of the lease when it was granted or renewed last
}

func newHeld(most int) *held {
	return &held{most: cmp.Or(max(0, most), DefaultMaxLeases), leases: map[Lease]term{}}
}

// Granted remembers a lease that was granted or renewed at a time of the store. acquired may be zero if it is not
// known: for a renewal that of the grant is kept, if there is one.
func (m *Metrics) Granted(ctx context.Context, l Lease, acquired, at, expires time.Time) {
	if m == nil {
		return
	}
	now := term{acquired: acquired, expires: expires, seen: m.now(), length: expires.Sub(at)}
	before, known, full := m.held.put(l, now)
	switch {
	case known && before.length > 0 && !before.expires.Equal(expires):
		left := max(0, before.expires.Sub(at).Seconds()/before.length.Seconds())
		m.margin.Record(ctx, left, m.kind(l.Kind).record...)
	case full:
		m.untracked.Add(ctx, 1, m.kind(l.Kind).add...)
	}
}

// Ended forgets a lease that was released or ended by force.
func (m *Metrics) Ended(l Lease) {
	if m == nil {
		return
	}
	m.held.mu.Lock()
	defer m.held.mu.Unlock()
	delete(m.held.leases, l)
}

func (h *held) put(l Lease, t term) (before term, known, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known = h.leases[l]
	if known {
		if t.acquired.IsZero() {
			t.acquired = before.acquired
		}
		h.leases[l] = t
		return before, true, false
	}
	if t.acquired.IsZero() {
		t.acquired = t.expires.Add(-t.length)
	}
	if len(h.leases) >= h.most {
		h.forget(t.seen)
	}
	if len(h.leases) >= h.most {
		return term{}, false, true
	}
	h.leases[l] = t
	return term{}, false, false
}

// forget drops leases that have expired. h.mu is held.
func (h *held) forget(now time.Time) {
	for l, t := range h.leases {
		if !now.Before(t.seen.Add(t.length)) {
			delete(h.leases, l)
		}
	}
}

// heldKind is what is held of one kind.
type heldKind struct {
	count  int
	oldest time.Duration
}

func (h *held) count(now time.Time) map[string]heldKind {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	kinds := map[string]heldKind{KindLock: {}, KindAnalysis: {}, KindRun: {}}
	for l, t := range h.leases {
		k := kinds[l.Kind]
		// What the store's clock said when the process learnt of it, and the process's clock since.
		age := t.expires.Add(-t.length).Sub(t.acquired) + now.Sub(t.seen)
		kinds[l.Kind] = heldKind{k.count + 1, max(k.oldest, age)}
	}
	return kinds
}

func (m *Metrics) observeHeld(b *builder) {
	count, oldest := b.gauge(nameHeld), b.gauge(nameOldest)
	b.observe(func(o metric.Observer) {
		for kind, k := range m.held.count(m.now()) {
			s := set(attrKind, kind)
			o.ObserveFloat64(count, float64(k.count), s)
			o.ObserveFloat64(oldest, k.oldest.Seconds(), s)
		}
	}, count, oldest)
}
