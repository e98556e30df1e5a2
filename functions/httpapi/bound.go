package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// party is on whose behalf something is taken: a subject of a tenant; or the tenant, where callers have no subject; or
// a network, see [stranger].
type party struct{ tenant, subject string }

// bound shares something that there is a limited amount of. One tenant, and one of its subjects, can have less than the
// whole: see [shared]. What does not fit waits for a moment, if it may. Tenants take turns, and so do the subjects of
// each; each subject's requests come in the order of their arrival, so that one with few requests does not stand behind
// one with many. When no more may wait, the newest request of the tenant that has most of them is rejected, and of its
// subjects of the one that has most. A nil *bound has room for everything.
type bound struct {
	says  string // why there is no room
	of    shares // what one party can have at most
	queue int    // how many requests may wait
	wait  time.Duration

	mu      sync.Mutex
	all     int64 // that is taken
	held    map[party]int64
	waiting int
	turns   []*turn // the tenants that wait
}

// turn is what a tenant waits with.
type turn struct {
	tenant  string
	waiting int
	lines   []*line // of its subjects
}

// line is what a subject of a tenant waits with.
type line struct {
	subject string
	waiters []*waiter
}

// waiter is a request that waits.
type waiter struct {
	n    int64
	ends chan bool // whether it was admitted; it has room for the one value
}

// enter takes n for a party, or says when to try again: OVERLOADED. The caller gives n back to leave.
func (b *bound) enter(ctx context.Context, p party, n int64) error {
	if b == nil {
		return nil
	}
	w := b.arrive(p, n)
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	var admitted bool
	select {
	case admitted = <-w.ends:
	case <-ctx.Done():
		b.abandon(p, w)
		admitted = <-w.ends
	}
	if admitted {
		return nil
	}
	return b.full()
}

// full says that there is no room.
func (b *bound) full() error {
	e := contracts.Errorf(contracts.CodeOverloaded, "%s; nothing was done", b.says)
	e.RetryAfter = overloadedFor
	return e
}

// try is enter without a wait.
func (b *bound) try(p party, n int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(p, n) {
		return b.full()
	}
	b.take(p, n)
	return nil
}

// leave releases what was taken.
func (b *bound) leave(p party, n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(p, -n)
	b.admit()
}

// with does something that takes 1.
func (b *bound) with(ctx context.Context, p party, do func() error) error {
	if err := b.enter(ctx, p, 1); err != nil {
		return err
	}
	defer b.leave(p, 1)
	return do()
}

// count is how much is taken.
func (b *bound) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.all)
}

// arrive admits a request: nil; or it queues it, or rejects one.
func (b *bound) arrive(p party, n int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turnOf(p.tenant)
	l := t.lineOf(p.subject)
	if l == nil && b.fits(p, n) {
		b.take(p, n)
		return nil
	}
	w := &waiter{n, make(chan bool, 1)}
	if b.waiting >= b.queue && !b.shorten(t, l) {
		w.ends <- false
		return w
	}
	if t = b.turnOf(p.tenant); t == nil { // what was shortened may have been all of it
		t = &turn{tenant: p.tenant}
		b.turns = append(b.turns, t)
	}
	if l = t.lineOf(p.subject); l == nil {
		l = &line{subject: p.subject}
		t.lines = append(t.lines, l)
	}
	l.waiters = append(l.waiters, w)
	t.waiting++
	b.waiting++
	return w
}

// turnOf is what a tenant waits with, nil if it does not.
func (b *bound) turnOf(tenant string) *turn {
	for _, t := range b.turns {
		if t.tenant == tenant {
			return t
		}
	}
	return nil
}

// lineOf is what a subject of the tenant waits with, nil if it does not.
func (t *turn) lineOf(subject string) *line {
	if t == nil {
		return nil
	}
	for _, l := range t.lines {
		if l.subject == subject {
			return l
		}
	}
	return nil
}

// shorten rejects the newest request of the tenant that has most of them waiting, of its subject that has most, for one
// of another tenant, or for one of another subject of the same: unless that would then have more.
func (b *bound) shorten(forTenant *turn, forSubject *line) bool {
	longest, own := forTenant, 0
	if forTenant != nil {
		own = forTenant.waiting
	}
	for _, t := range b.turns {
		if longest == nil || t.waiting > longest.waiting {
			longest = t
		}
	}
	if longest == nil {
		return false
	}
	if longest.waiting <= own+1 { // its own tenant makes room
		if longest, own = forTenant, 0; longest == nil {
			return false
		}
		if forSubject != nil {
			own = len(forSubject.waiters)
		}
		if l := longest.longest(); len(l.waiters) <= own+1 {
			return false
		}
	}
	l := longest.longest()
	last := l.waiters[len(l.waiters)-1]
	last.ends <- false
	b.remove(longest, l, len(l.waiters)-1)
	return true
}

// longest is the line of the subject that has most requests waiting.
func (t *turn) longest() *line {
	most := t.lines[0]
	for _, l := range t.lines[1:] {
		if len(l.waiters) > len(most.waiters) {
			most = l
		}
	}
	return most
}

// remove takes a request out of a line, and what has none out of what it is in.
func (b *bound) remove(t *turn, l *line, i int) {
	l.waiters = slices.Delete(l.waiters, i, i+1)
	t.waiting--
	b.waiting--
	if len(l.waiters) == 0 {
		t.lines = slices.DeleteFunc(t.lines, func(other *line) bool { return other == l })
	}
	if t.waiting == 0 {
		b.turns = slices.DeleteFunc(b.turns, func(other *turn) bool { return other == t })
	}
}

// abandon ends the wait of a request, unless it has ended.
func (b *bound) abandon(p party, w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.turnOf(p.tenant)
	l := t.lineOf(p.subject)
	if l == nil {
		return
	}
	if i := slices.Index(l.waiters, w); i >= 0 {
		b.remove(t, l, i)
		w.ends <- false
	}
}

// admit admits what fits now: each time of the first tenant that can have more the first subject that can, which are
// then the last.
func (b *bound) admit() {
	for {
		t, l := b.next()
		if t == nil {
			return
		}
		w := l.waiters[0]
		b.take(party{t.tenant, l.subject}, w.n)
		w.ends <- true
		b.turns = append(slices.DeleteFunc(b.turns, func(other *turn) bool { return other == t }), t)
		t.lines = append(slices.DeleteFunc(t.lines, func(other *line) bool { return other == l }), l)
		b.remove(t, l, 0)
	}
}

// next is whose turn it is: nil if nothing fits.
func (b *bound) next() (*turn, *line) {
	for _, t := range b.turns {
		for _, l := range t.lines {
			if b.fits(party{t.tenant, l.subject}, l.waiters[0].n) {
				return t, l
			}
		}
	}
	return nil, nil
}

func (b *bound) fits(p party, n int64) bool {
	ofTenant, ofSubject := b.of.most(p)
	return b.all+n <= b.of.whole && b.held[party{tenant: p.tenant}]+n <= ofTenant &&
		(p.subject == "" || b.held[p]+n <= ofSubject)
}

func (b *bound) take(p party, n int64) {
	if b.held == nil {
		b.held = map[party]int64{}
	}
	b.all += n
	b.add(party{tenant: p.tenant}, n)
	if p.subject != "" {
		b.add(p, n)
	}
}

func (b *bound) add(p party, n int64) {
	if b.held[p] += n; b.held[p] == 0 {
		delete(b.held, p)
	}
}
