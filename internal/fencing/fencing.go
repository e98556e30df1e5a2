// Package fencing says which numbers can be fencing tokens, and carries the token of a lease in a context. The fences
// of a store, those of package fence, and package locks share it.
package fencing

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// MaxToken is the largest token: a double, which JSON parsers use for numbers, has every whole number up to it.
const MaxToken = 1 << 53

// MaxAhead is how far a token may lie in the future. Tokens start at the store's time in microseconds and are increased
// far less often than that: one that lies further ahead was given by no lock, and would make a fence reject all that
// are.
const MaxAhead = time.Hour

// Given reports what is wrong with a number that no lock can have given by now. The text follows the name of the field.
func Given(token int64, now time.Time) error {
	if token < 1 || token > MaxToken {
		return fmt.Errorf("must be a whole number from 1 to %d", int64(MaxToken))
	}
	if most := now.Add(MaxAhead).UnixMicro(); token > most {
		return fmt.Errorf("is a number that no lock has given: %d at most by now", most)
	}
	return nil
}

// MaxSubjectBytes bounds the subject of a lease: a key of a lock with its permit.
const MaxSubjectBytes = 320

// Lease is a fencing token and what it is a token of. Tokens of one subject have an order; those of two have none.
type Lease struct {
	Subject string // such as "lock/orders" or "run/invoice-7"
	Token   int64
}

// OfLock is the lease of a lock, or of one of its permits.
func OfLock(key string, permit int, token int64) Lease {
	if permit > 0 {
		key += "#" + strconv.Itoa(permit)
	}
	return Lease{"lock/" + key, token}
}

// OfRun is the lease of a run.
func OfRun(id string, token int64) Lease { return Lease{"run/" + id, token} }

// OtherSubject says why a lease is not compared with one of another lock or run, under which was written before.
func OtherSubject(l Lease, before string) string {
	return fmt.Sprintf("a token of %q cannot be compared with those of %q, under which was written before: tokens of two locks "+
		"or runs have no order. Let all writers have one lock, or give each effect a unique row", l.Subject, before)
}

type key struct{}

// With returns a context that carries a lease.
func With(ctx context.Context, l Lease) context.Context { return context.WithValue(ctx, key{}, l) }

// From returns the lease that the context carries: the innermost one.
func From(ctx context.Context) (l Lease, ok bool) {
	l, ok = ctx.Value(key{}).(Lease)
	return l, ok
}
