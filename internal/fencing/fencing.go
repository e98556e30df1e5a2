// Package fencing says which numbers can be fencing tokens, and carries the token of a lease in a context. The fences
// of a store, those of package fence, and package locks share it.
package fencing

import (
	"context"
	"fmt"
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

type key struct{}

// With returns a context that carries a token.
func With(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, key{}, token)
}

// From returns the token that the context carries: the innermost one.
func From(ctx context.Context) (token int64, ok bool) {
	token, ok = ctx.Value(key{}).(int64)
	return token, ok
}
