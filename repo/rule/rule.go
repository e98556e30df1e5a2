// Package rule is the form in which Leasehold states its rules: who may do what to a lease, and when.
//
// A rule is a command type ([Command]). It says everything once:
//
//	Write    the rule itself, as data: the condition under which the command is granted, and what it changes
//	State    how a document is read
//	Granted  the outcome after the write was applied
//	Refusal  the outcome after the condition failed: the reason, or the command's own earlier delivery
//
// The condition alone decides. Refusal never grants anything that the condition did not: it explains the document that the
// store found, and recognises a request that was applied before and whose response was lost.
//
// [Run] carries a command out on a store, in one conditional write. [Step] does the same in Go on a document, for
// properties and models: both read the same Write.
//
//	command ──Write──▶ store ──┬─ applied ──▶ document after ──State──▶ Granted ─┐
//	                           └─ refused ──▶ document found ──State──▶ Refusal ─┴─▶ outcome
//
// # Time
//
// Conditions compare with the store's time ([docstore.Now]). [When] is what a rule knows of time once the store has decided:
// the time of the decision, the margin of stores without a clock of their own, and how long the store took. Both appear in the
// rules that hand out time: a lease that ends within the margin is not handed out again, and a lease that is over by the time
// the response arrives is not a grant.
//
// # Late duplicates
//
// A document remembers the last requests of each kind in a [Register], as hashes. A condition asks that a request is not among
// them, and Refusal recognises it: see [Request].
package rule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Command is one command on one document, with the rule that grants it. S is what the document says, O is the outcome.
type Command[S, O any] interface {
	// Write is the rule: it applies exactly when the command is granted, except for what [Second] adds.
	Write() docstore.Write

	// State reads a document; nil means that there is none. The error is [docstore.ErrDamaged] and names the field.
	State(docstore.Doc) (S, error)

	// Granted is the outcome of an applied write. The state is the one after it.
	Granted(S, When) O

	// Refusal is the outcome of a write whose condition did not hold for the state.
	Refusal(S, When) O
}

// Second is for a command that is also granted in states which one condition cannot describe.
type Second[S any] interface {
	// Second returns the write for a state that Write did not apply to; ok is false where there is nothing to grant. Its
	// condition must compare what the decision rests on with what the state says; where it does not hold for the document
	// found, nothing is granted.
	Second(S, When) (w docstore.Write, ok bool)
}

// Retrier is a [Second] that may be tried again where another command changed the document in between.
type Retrier interface {
	// Tries is how many second writes may be sent; 1 for a command without this method.
	Tries() int
}

// Queued is a [Second] whose second writes take turns with those of other commands on the document: at the same time they would refuse each
// other.
type Queued interface {
	// Turn returns when it is the command's turn, or when that took too long or the context has ended: turns only save requests. The
	// caller calls done after its last write.
	Turn(ctx context.Context) (done func())
}

// Seconded is a [Second] whose outcome rests on the state found as well as on the one after its write.
type Seconded[S, O any] interface {
	// GrantedSecond is the outcome of an applied second write, which Second returned for the state found at the time decided.
	GrantedSecond(found, after S, decided, w When) O
}

// When is what is known of the time of a decision.
type When struct {
	At     time.Time     // the instant by which the store decided
	Margin time.Duration // how far the store's time may lie beyond At, see [docstore.Result].Margin
	Took   time.Duration // from before the request to after the response, by a monotonic clock of the caller
}

// Latest is the latest that the store's time can have been: what is left of a lease counts from here.
func (w When) Latest() time.Time { return w.At.Add(w.Margin) }

// Ended reports whether a lease had ended at the decision, by the latest that the store's time can have been.
func (w When) Ended(end time.Time) bool { return !w.Latest().Before(end) }

// Late reports whether a lease had ended when the response arrived. The time is measured from before the request, so that
// it errs on the early side for the holder.
func (w When) Late(end time.Time) bool { return end.Sub(w.Latest()) <= w.Took }

// Run carries out a command on a store: one request, two for a command with a [Second] write that is needed, and one for each
// further try of a [Retrier]. now measures how long the store took; it must be monotonic and need not show the right time.
//
// An error means that the outcome is unknown, or that nothing was changed (see [docstore.Store]): [docstore.ErrDamaged] for a
// document that cannot be read, and for a store that refuses a write whose condition holds.
func Run[S, O any](ctx context.Context, store docstore.Store, now func() time.Time, c Command[S, O]) (O, error) {
	o, observed := store.(Observer)
	if !observed {
		return run(ctx, store, now, c)
	}
	ctx, end := o.Observe(ctx, unwrap(c))
	outcome, err := run(ctx, store, now, c)
	end(outcome, err)
	return outcome, err
}

func run[S, O any](ctx context.Context, store docstore.Store, now func() time.Time, c Command[S, O]) (O, error) {
	var none O
	begin, tries := now(), 1
	if r, ok := c.(Retrier); ok {
		tries = r.Tries()
	}
	granted := c.Granted
	for w, try := c.Write(), 0; ; try++ {
		r, err := store.Write(ctx, w)
		if err != nil {
			return none, fmt.Errorf("%s: %w", w.Key, err)
		}
		when := When{At: r.At, Margin: r.Margin, Took: now().Sub(begin)}
		found := r.Docs[0]
		s, err := c.State(found)
		if err != nil {
			return none, err
		}
		if r.Applied {
			return granted(s, when), nil
		}
		if when.holds(w.If, found) {
			return none, fmt.Errorf("%w: %s: the store refused what the rule grants", docstore.ErrDamaged, w.Key)
		}
		next, again, first := docstore.Write{}, c.Granted, false
		if try > 0 { // another command came in between: the first write may be right again
			next = c.Write()
			first = when.holds(next.If, found)
		}
		if !first {
			second, ok := secondWrite(c, s, when)
			if !ok || !when.holds(second.If, found) {
				return c.Refusal(s, when), nil
			}
			next, again = second, grantedSecond(c, s, when)
		}
		if q, ok := c.(Queued); ok && try == 0 {
			defer q.Turn(ctx)()
		}
		if try >= tries {
			return none, fmt.Errorf("%w: %s changed between two writes; try again", docstore.ErrUnavailable, w.Key)
		}
		if err := pause(ctx, try); err != nil {
			return none, fmt.Errorf("%s: %w", w.Key, err)
		}
		w, granted = next, again
	}
}

// The pause before a try: none before the first two, then up to shortPause, doubled for each, and longPause at most.
const (
	shortPause = 10 * time.Millisecond
	longPause  = 160 * time.Millisecond
)

// pause lets others go first.
func pause(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	most := longPause
	if try < 6 {
		most = min(shortPause<<(try-2), longPause)
	}
	t := time.NewTimer(rand.N(most) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// grantedSecond is the outcome of the second write of a command that found a state, and decided at that time.
func grantedSecond[S, O any](c Command[S, O], found S, decided When) func(S, When) O {
	second, ok := c.(Seconded[S, O])
	if !ok {
		return c.Granted
	}
	return func(after S, w When) O { return second.GrantedSecond(found, after, decided, w) }
}

// holds reports whether a condition certainly held at the decision: that a time has passed by the earliest that the store's time can have
// been, and that it has not by the latest.
func (w When) holds(c docstore.Cond, found docstore.Doc) bool {
	return c == nil || w.holdsAt(c, found, w.At, w.Latest())
}

// holdsAt evaluates a condition; under a Not the two times change places.
func (w When) holdsAt(c docstore.Cond, found docstore.Doc, passed, coming time.Time) bool {
	one := func(c docstore.Cond) bool { return w.holdsAt(c, found, passed, coming) }
	switch c := c.(type) {
	case docstore.Any:
		return slices.ContainsFunc(c, one)
	case docstore.All:
		return !slices.ContainsFunc(c, func(c docstore.Cond) bool { return !one(c) })
	case docstore.Not:
		return !w.holdsAt(c.Cond, found, coming, passed)
	default:
		return c.Holds(found, passed)
	}
}

// Beside is a command that is carried out in one step with writes on other documents: conditions that must hold there, and what is
// written with it. Not every store returns the documents after such a step, so the command says what it knows of its own before.
type Beside[S, O any] interface {
	Command[S, O]

	// Known is what the condition of Write says of the document that it holds for, nil if that there is none. Granted gets the state
	// that the write makes of it.
	Known() docstore.Doc
}

// RunBeside is [Run] for a command in one step with other writes. granted or refused, the outcome is the command's, and free is
// true. free is false if the command's own condition held and that of another write did not: nothing was changed, and the
// outcome is what Refusal says of the document found.
//
// It is one request; one more to explain a rejection, from a store that returned another document.
func RunBeside[S, O any](
	ctx context.Context, store docstore.Store, now func() time.Time, c Beside[S, O], beside ...docstore.Write,
) (outcome O, free bool, err error) {
	o, observed := store.(Observer)
	if !observed {
		return runBeside(ctx, store, now, c, beside...)
	}
	ctx, end := o.Observe(ctx, unwrap(c))
	outcome, free, err = runBeside(ctx, store, now, c, beside...)
	end(outcome, err)
	return outcome, free, err
}

func runBeside[S, O any](
	ctx context.Context, store docstore.Store, now func() time.Time, c Beside[S, O], beside ...docstore.Write,
) (outcome O, free bool, err error) {
	var none O
	begin, w := now(), c.Write()
	r, err := store.Write(ctx, append([]docstore.Write{w}, beside...)...)
	if err != nil {
		return none, false, fmt.Errorf("%s: %w", w.Key, err)
	}
	when := When{At: r.At, Margin: r.Margin, Took: now().Sub(begin)}
	if r.Applied {
		after, err := w.Apply(c.Known(), r.At)
		if err != nil {
			return none, false, err
		}
		s, err := c.State(after)
		if err != nil {
			return none, false, err
		}
		return c.Granted(s, when), true, nil
	}
	found := r.Docs[0]
	if !slices.Contains(r.Refused, 0) {
		snap, err := store.Get(ctx, w.Key)
		if err != nil {
			return none, false, fmt.Errorf("%s: %w", w.Key, err)
		}
		found, when = snap.Docs[0], When{At: snap.At, Took: now().Sub(begin)}
	}
	s, err := c.State(found)
	if err != nil {
		return none, false, err
	}
	return c.Refusal(s, when), !w.Holds(found, when.At), nil
}

// Step is [Run] in Go: it returns the document that the command leaves (the one found, if the command is not granted), and
// the outcome. It does not change found.
func Step[S, O any](c Command[S, O], found docstore.Doc, when When) (docstore.Doc, O, error) {
	var none O
	w, granted := c.Write(), c.Granted
	if !w.Holds(found, when.At) {
		s, err := c.State(found)
		if err != nil {
			return found, none, err
		}
		second, ok := secondWrite(c, s, when)
		if !ok || !second.Holds(found, when.At) {
			return found, c.Refusal(s, when), nil
		}
		w, granted = second, grantedSecond(c, s, when)
	}
	after, err := w.Apply(found, when.At)
	if err != nil {
		return found, none, err
	}
	s, err := c.State(w.Returned(after))
	if err != nil {
		return found, none, err
	}
	return after, granted(s, when), nil
}

func secondWrite[S, O any](c Command[S, O], s S, when When) (docstore.Write, bool) {
	if c, ok := c.(Second[S]); ok {
		return c.Second(s, when)
	}
	return docstore.Write{}, false
}
