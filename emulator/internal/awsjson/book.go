package awsjson

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Book is what a server keeps about its requests: how many there were, and the faults in force. F is the server's type
// of a fault.
type Book[F any] struct {
	mu     sync.Locker
	counts map[string]int // requests by operation
	rules  []*Rule[F]     // in the order of their injection
}

// NewBook returns an empty book that is guarded by the server's own mutex, so that a request is counted and meets its
// faults in one step with what the server does.
func NewBook[F any](mu sync.Locker) *Book[F] { return &Book[F]{mu: mu, counts: map[string]int{}} }

// Add counts a request for an operation. The server's mutex is held.
func (b *Book[F]) Add(op string) { b.counts[op]++ }

// Reset sets the counts to zero and leaves the faults in force. The server's mutex is held.
func (b *Book[F]) Reset() { clear(b.counts) }

// Count is the number of requests for an operation.
func (b *Book[F]) Count(op string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[op]
}

// Counts is the number of requests for every operation that was asked for.
func (b *Book[F]) Counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}

// Rule is a fault in force.
type Rule[F any] struct {
	book  *Book[F]
	fault F
	skip  int
	times int
	met   int // requests that agreed with the fault, let through or not
	hits  int
}

// Inject puts a fault in force: it lets the first requests that meet it through, as many as skip says, and then happens
// to as many as times says, or with 0 to all until it is removed.
func (b *Book[F]) Inject(fault F, skip, times int) *Rule[F] {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Rule[F]{book: b, fault: fault, skip: skip, times: times}
	b.rules = append(b.rules, r)
	return r
}

// Hit returns the faults that happen to a request, in the order of their injection, and counts them; meets says which
// ones the request agrees with. Those that are used up go out of force. The server's mutex is held.
func (b *Book[F]) Hit(meets func(*F) bool) []F {
	var out []F
	for _, r := range b.rules {
		if !meets(&r.fault) {
			continue
		}
		if r.met++; r.met <= r.skip {
			continue
		}
		r.hits++
		out = append(out, r.fault)
	}
	b.rules = slices.DeleteFunc(b.rules, (*Rule[F]).spent)
	return out
}

func (r *Rule[F]) spent() bool { return r.times > 0 && r.hits == r.times }

// Remove takes the fault out of force. Removing it twice is allowed.
func (r *Rule[F]) Remove() {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	r.book.rules = slices.DeleteFunc(r.book.rules, func(other *Rule[F]) bool { return other == r })
}

// Hits is the number of requests that the fault has happened to.
func (r *Rule[F]) Hits() int {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.hits
}

// Wait waits unless the request's client goes away first, and reports whether it is still there. It does not look when
// there is nothing to wait for.
func Wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
