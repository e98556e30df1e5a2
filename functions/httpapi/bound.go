package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// bound shares something that there is a limited amount of. What does not fit waits for a moment. Tenants take turns,
// and each one's requests come in the order of their arrival, so that a tenant with few requests does not stand behind
// one with many. When no more may wait, the newest request of the tenant that has most of them is rejected. A nil
// *bound has room for everything.
type bound struct {
	says  string // why there is no room
	share int64  // what one tenant can have at most
	queue int    // how many requests may wait
	wait  time.Duration

	mu      sync.Mutex
	left    int64
	held    map[string]int64 // by tenant
	waiting int
	turns   []*turn // the tenants that wait
}

// turn is what a tenant waits with.
type turn struct {
	tenant  string
	waiters []*waiter
}

// waiter is a request that waits.
type waiter struct {
	n    int64
	ends chan bool // whether it was admitted; it has room for the one value
}

// enter takes n for a tenant, or says when to try again: OVERLOADED. The caller gives n back to leave.
func (b *bound) enter(ctx context.Context, tenant string, n int64) error {
	if b == nil {
		return nil
	}
	w := b.arrive(tenant, n)
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	var admitted bool
	select {
	case admitted = <-w.ends:
	case <-ctx.Done():
		b.abandon(tenant, w)
		admitted = <-w.ends
	}
	if admitted {
		return nil
	}
	e := contracts.Errorf(contracts.CodeOverloaded, "%s; nothing was done", b.says)
	e.RetryAfter = overloadedFor
	return e
}

// leave releases what was taken.
func (b *bound) leave(tenant string, n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[tenant] -= n; b.held[tenant] == 0 {
		delete(b.held, tenant)
	}
	b.admit()
}

// with does something that takes 1.
func (b *bound) with(ctx context.Context, tenant string, do func() error) error {
	if err := b.enter(ctx, tenant, 1); err != nil {
		return err
	}
	defer b.leave(tenant, 1)
	return do()
}

// arrive admits a request: nil; or it queues it, or rejects one.
func (b *bound) arrive(tenant string, n int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.turns, func(t *turn) bool { return t.tenant == tenant })
	if i < 0 && b.fits(tenant, n) {
		b.take(tenant, n)
		return nil
	}
	w := &waiter{n, make(chan bool, 1)}
	if b.waiting >= b.queue && !b.shorten(tenant) {
		w.ends <- false
		return w
	}
	if i < 0 {
		i = len(b.turns)
		b.turns = append(b.turns, &turn{tenant: tenant})
	}
	b.turns[i].waiters = append(b.turns[i].waiters, w)
	b.waiting++
	return w
}

// shorten rejects the newest request of the tenant that has most of them waiting, unless the tenant that has another
// one would then have more.
func (b *bound) shorten(forTenant string) bool {
	var longest *turn
	own := 0
	for _, t := range b.turns {
		if longest == nil || len(t.waiters) > len(longest.waiters) {
			longest = t
		}
		if t.tenant == forTenant {
			own = len(t.waiters)
		}
	}
	if longest == nil || len(longest.waiters) <= own+1 {
		return false
	}
	last := len(longest.waiters) - 1
	longest.waiters[last].ends <- false
	longest.waiters = longest.waiters[:last]
	b.waiting--
	return true
}

// abandon ends the wait of a request, unless it has ended.
func (b *bound) abandon(tenant string, w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.turns, func(t *turn) bool { return t.tenant == tenant && slices.Contains(t.waiters, w) })
	if i < 0 {
		return
	}
	t := b.turns[i]
	t.waiters = slices.DeleteFunc(t.waiters, func(other *waiter) bool { return other == w })
	if len(t.waiters) == 0 {
		b.turns = slices.Delete(b.turns, i, i+1)
	}
	b.waiting--
	w.ends <- false
}

// admit admits what fits now: each time the first tenant that can have more, which is then the last.
func (b *bound) admit() {
	for {
		i := slices.IndexFunc(b.turns, func(t *turn) bool { return b.fits(t.tenant, t.waiters[0].n) })
		if i < 0 {
			return
		}
		t := b.turns[i]
		b.turns = slices.Delete(b.turns, i, i+1)
		b.take(t.tenant, t.waiters[0].n)
		t.waiters[0].ends <- true
		b.waiting--
		if t.waiters = t.waiters[1:]; len(t.waiters) > 0 {
			b.turns = append(b.turns, t)
		}
	}
}

func (b *bound) fits(tenant string, n int64) bool { return b.left >= n && b.held[tenant]+n <= b.share }

func (b *bound) take(tenant string, n int64) {
	b.left -= n
	b.held[tenant] += n
}
