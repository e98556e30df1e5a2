package prove

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Lease is a lease of one lock or run, as those know it who judge a history.
type Lease struct {
	Token         int64
	Holder        string // for people
	Mode          lock.Mode
	Limit, Window int64 // of permits and of a rate
	Permit        int64
	From, Until   int64 // by one clock, in milliseconds: until it expired, was ended or was known to be over
	Replace       bool  // it lasts until another one with Replace is granted
	Last          bool  // nothing may be granted after it: its run has finished
}

// terms are what all leases of a lock have in common that last at the same time.
type terms struct {
	mode          lock.Mode
	limit, window int64
}

func (l *Lease) terms() terms {
	if l.Mode == lock.Shared { // readers and writers go by turns
		return terms{}
	}
	return terms{l.Mode, l.Limit, l.Window}
}

// Together is why leases of one thing must not last at the same time; nil if they may. A grant of a rate lasts as long
// as its window.
func Together(leases ...Lease) error {
	for i := range leases {
		a := &leases[i]
		if a.Limit > 0 && int64(i) >= a.Limit {
			return fmt.Errorf("%d of %d", len(leases), a.Limit)
		}
		if a.Mode == lock.Permits && (a.Permit < 1 || a.Permit > a.Limit) {
			return fmt.Errorf("permit %d of %d", a.Permit, a.Limit)
		}
		for j := range i {
			switch b := &leases[j]; {
			case a.terms() != b.terms():
				return fmt.Errorf("tokens %d and %d are of two modes", b.Token, a.Token)
			case a.Mode == lock.Exclusive || b.Mode == lock.Exclusive:
				return fmt.Errorf("tokens %d and %d, one of which excludes others", b.Token, a.Token)
			case a.Mode == lock.Permits && a.Permit == b.Permit:
				return fmt.Errorf("tokens %d and %d have permit %d", b.Token, a.Token, a.Permit)
			}
		}
	}
	return nil
}

// OneLease judges all leases of one thing by [Promises]: none is granted while others last that it must not be beside,
// not even one that ended at once. Those with a lower token were granted before, as [TokensRise] judges. More than at a
// grant cannot last at once. nil means that the promise was kept.
func OneLease(leases []Lease) *Violation {
	for i := range leases {
		l := &leases[i]
		var beside []Lease
		for j := range leases {
			b := &leases[j]
			if i == j || b.Token < l.Token && b.From <= l.From && l.From < b.Until && (!b.Replace || !l.Replace) {
				beside = append(beside, *b)
			}
		}
		if err := Together(beside...); err != nil {
			return &Violation{Promise: Promises[oneLease], What: fmt.Sprintf("%v: %+v", err, beside), AtMs: l.From}
		}
	}
	return nil
}

// TokensRise judges all leases of one thing by [Promises]: each has a token of its own, a later one has a higher one,
// and nothing is granted once a run has finished. nil means that the promise was kept.
func TokensRise(leases []Lease) *Violation {
	byToken := slices.SortedFunc(slices.Values(leases), func(a, b Lease) int { return cmp.Compare(a.Token, b.Token) })
	for i := 1; i < len(byToken); i++ {
		before, l := byToken[i-1], byToken[i]
		broken := tokensRise
		if before.Last {
			broken = onceOnly
		}
		if before.Last || before.Token == l.Token || before.From > l.From {
			return &Violation{Promise: Promises[broken], What: fmt.Sprintf("%+v, then %+v", before, l), AtMs: l.From}
		}
	}
	return nil
}
