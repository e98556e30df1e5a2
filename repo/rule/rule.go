// Package rule is the form in which Leasehold states its rules: who may do what to a lease, and when.
//
// A rule is a command type ([Command]). It says everything once:
//
//	Write    the rule itself, as data: the condition under which the command is granted, and what it changes
//	State    how a document is read
//	Granted  the outcome after the write was applied
//	Refusal  the outcome after the condition failed: the reason, or the command's own earlier delivery
//
// The condition alone decides. Refusal never grants anything that the condition did not: it explains the document that
// the store found, and recognises a request that was applied before and whose response was lost.
//
// [Run] carries a command out on a store, in one conditional write. [Step] does the same in Go on a document, for
// properties and models: both read the same Write.
//
//	command ──Write──▶ store ──┬─ applied ──▶ document after ──State──▶ Granted ─┐
//	                           └─ refused ──▶ document found ──State──▶ Refusal ─┴─▶ outcome
//
// # Time
//
// Conditions compare with the store's time ([docstore.Now]). [When] is what a rule knows of time once the store has
// decided: the time of the decision, the margin of stores without a clock of their own, and how long the store took.
// Both appear in the rules that hand out time: a lease that ends within the margin is not handed out again, and a lease
// that is over by the time the response arrives is not a grant.
//
// # The end of a request
//
// A request may arrive later than it was sent, when its caller does not want it any more. A command that embeds an
// [End] names the store's time after which it has no effect: [Run] and [Step] put that into each of its writes, and its
// Refusal says so, see [End.Refuses].
//
// # Late duplicates
//
// A document remembers the last requests of each kind in a [Register], as hashes. A condition asks that a request is
// not among them, and Refusal recognises it: see [Request].
package rule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Command is one command on one document, with the rule that grants it. S is what the document says, O is the outcome.
type Command[S, O any] interface {
	// Write is the rule: it applies exactly when the command is granted, except for what [Fallback] adds.
	Write() docstore.Write

	// State reads a document; nil means that there is none. The error is [docstore.ErrDamaged] and names the field.
	State(docstore.Doc) (S, error)

	// Granted is the outcome of an applied write. The state is the one after it.
	Granted(S, When) O

	// Refusal is the outcome of a write whose condition did not hold for the state.
	Refusal(S, When) O
}

// Fallback is for a command that is also granted in states which one condition cannot describe.
type Fallback[S any] interface {
	// Fallback returns the write for a state that Write did not apply to; ok is false where there is nothing to grant. Its
	// condition must compare what the decision rests on with what the state says; where it does not hold for the document
	// found, nothing is granted.
	Fallback(S, When) (w docstore.Write, ok bool)
}

// Retrier is a [Fallback] that may be tried again where another command changed the document in between.
type Retrier interface {
	// Tries is how many second writes may be sent; 1 for a command without this method.
	Tries() int
}

// Queued is a [Fallback] whose second writes take turns with those of other commands on the document: at the same time
// they would refuse each other.
type Queued interface {
	// Turn returns when it is the command's turn, or when that took too long or the context has ended: turns only save
	// requests. The caller calls done after its last write.
	Turn(ctx context.Context) (done func())
}

// FallbackOutcome is a [Fallback] whose outcome rests on the state found as well as on the one after its write.
type FallbackOutcome[S, O any] interface {
	// GrantedFallback is the outcome of an applied second write, which Fallback returned for the state found at the time
	// decided.
	GrantedFallback(found, after S, decided, w When) O
}

// Raiser is a command on documents in which more goes by a counter than its number, see [docstore.BehindError].
type Raiser interface {
	// Raise sets the counter of the document found to least. It applies only to that document.
	Raise(found docstore.Doc, least int64) docstore.Write
}

// When is what is known of the time of a decision.
type When struct {
	At     time.Time     // the instant by which the store decided
	Margin time.Duration // how far the store's time may lie beyond At, see [docstore.Result].Margin
	Took   time.Duration // how long ago At was when the response arrived, at the most; see [docstore.Result]
	Lost   time.Duration // of that: time in which the caller's clock stood, so that it does not know of it
}

// Latest is the latest that the store's time can have been: what is left of a lease counts from here.
func (w When) Latest() time.Time { return w.At.Add(w.Margin) }

// Ended reports whether a lease had ended at the decision, by the latest that the store's time can have been.
func (w When) Ended(end time.Time) bool { return !w.Latest().Before(end) }

// Late reports whether a lease had ended when the response arrived. The time is measured from before the request that
// was applied, so that it errs on the early side for the holder.
func (w When) Late(end time.Time) bool { return end.Sub(w.Latest()) <= w.Took }

// Run carries out a command on a store: one request, two for a command with a [Fallback] write that is needed, and one
// for each further try of a [Retrier]; two more for a document that is behind, see [docstore.BehindError]. now measures
// how long the store took for the last of them; it must be monotonic and need not show the right time.
//
// An error means that the outcome is unknown, or that nothing was changed (see [docstore.Store]): [docstore.ErrDamaged]
// for a document that cannot be read, and for a store that refuses a write whose condition holds.
func Run[S, O any](ctx context.Context, store docstore.Store, now func() time.Time, c Command[S, O]) (O, error) {
	return observe(ctx, store, c, func(ctx context.Context) (O, error) {
		var none O
		done, err := send(ctx, store, now, []Command[S, O]{c}, nil, nil)
		if err != nil {
			return none, err
		}
		if !done.Applied {
			return c.Refusal(done.Refused[0].State, done.When), nil
		}
		s, err := c.State(done.Docs[0])
		if err != nil {
			return none, err
		}
		return done.Granted(0, s), nil
	})
}

// observe carries out a command, and tells the store's [Observer] of it, if it has one: every runner does it by this.
func observe[R any](ctx context.Context, store docstore.Store, command any, do func(context.Context) (R, error)) (R,
	error) {
	o, observed := store.(Observer)
	if !observed {
		return do(ctx)
	}
	ctx, end := o.Observe(ctx, unwrap(command))
	outcome, err := do(ctx)
	end(outcome, err)
	return outcome, err
}

// Sent is what became of commands that were sent in one step.
type Sent[S, O any] struct {
	Applied bool
	When    When
	Docs    []docstore.Doc // if the step was applied, the documents after it, nil if the store does not return them

	// Refused are the commands for which there is nothing to grant, if the step was not applied. A store need not name
	// all.
	Refused []Refused[S]

	commands  []Command[S, O]
	fallbacks []fallback[S] // by command; nil if no second write was sent
	beside    bool          // a write beside the commands was refused
}

// Refused is a command that was refused: its position, and the state that was found.
type Refused[S any] struct {
	Index int
	State S
}

// fallback is what a second write rests on.
type fallback[S any] struct {
	sent    bool
	found   S
	decided When
}

// Granted is the outcome of a command of a step that was applied. after is the state that the step left.
func (d *Sent[S, O]) Granted(i int, after S) O {
	c := d.commands[i]
	if found, decided, ok := d.Second(i); ok {
		return grantedFallback(c, found, decided)(after, d.When)
	}
	return c.Granted(after, d.When)
}

// Second returns the state and the time that the second write of a command of an applied step was decided on; ok is
// false if its first write granted it.
func (d *Sent[S, O]) Second(i int) (found S, decided When, ok bool) {
	if d.fallbacks == nil || !d.fallbacks[i].sent {
		return found, decided, false
	}
	return d.fallbacks[i].found, d.fallbacks[i].decided, true
}

// send is the runner: it carries out commands on different documents in one step, all or none, with writes beside them.
// If some are refused, there are no writes beside, and each of those has a [Fallback] write for what was found, the
// step is sent again with these. grants, if it is not nil, says whether such a write grants the command, so that the
// others may go on.
func send[S, O any](
	ctx context.Context, store docstore.Store, now func() time.Time, cs []Command[S, O], beside []docstore.Write,
	grants func(O) bool,
) (Sent[S, O], error) {
	done := Sent[S, O]{commands: cs}
	tries := 1
	writes := make([]docstore.Write, len(cs), len(cs)+len(beside))
	for i, c := range cs {
		writes[i] = until(c, c.Write())
		if r, ok := c.(Retrier); ok {
			tries = max(tries, r.Tries())
		}
	}
	writes = append(writes, beside...)
	first, raised, turned := writes, 0, false
	sending := ctx
	for try := 0; ; try++ {
		begin := now()
		r, err := store.Write(sending, writes...)
		if behind, ok := errors.AsType[*docstore.BehindError](err); ok && raised < raises+len(writes) {
			if err := raise(ctx, store, cs, writes, behind); err != nil {
				return done, fmt.Errorf("%s: %w", named(writes), err)
			}
			raised++
			writes, done, try, sending = first, Sent[S, O]{commands: cs}, -1, ctx // it is decided anew
			continue
		}
		if err != nil {
			return done, fmt.Errorf("%s: %w", named(writes), err)
		}
		done.Applied, done.Docs = r.Applied, r.Docs
		done.When = When{At: r.At, Margin: r.Margin, Took: now().Sub(begin) - r.Before + r.Lost, Lost: r.Lost}
		if r.Applied {
			return done, nil
		}
		next := slices.Clone(writes)
		for _, i := range r.Refused {
			if i >= len(cs) {
				done.beside = true
				continue
			}
			s, err := cs[i].State(r.Docs[i])
			if err != nil {
				return done, err
			}
			if done.When.holds(writes[i], r.Docs[i]) {
				return done, fmt.Errorf("%w: %s: the store refused what the rule grants", docstore.ErrDamaged, writes[i].Key)
			}
			if len(beside) > 0 || !done.again(i, try, s, r.Docs[i], next, grants) {
				done.Refused = append(done.Refused, Refused[S]{i, s})
			}
		}
		if len(done.Refused) > 0 || done.beside {
			return done, nil
		}
		if q, ok := cs[0].(Queued); ok && try == 0 && len(cs) == 1 && !turned {
			turned = true
			defer q.Turn(ctx)()
		}
		if try >= tries {
			return done, fmt.Errorf("%w: %s changed between two writes; try again", docstore.ErrUnavailable, named(writes))
		}
		if err := pause(ctx, try); err != nil {
			return done, fmt.Errorf("%s: %w", named(writes), err)
		}
		if sending = ctx; slices.ContainsFunc(done.fallbacks, func(f fallback[S]) bool { return f.sent }) {
			sending = context.WithValue(ctx, fallbackKey{}, true) //nolint:fatcontext // around the caller's, not itself
		}
		writes = next
	}
}

// raises is how often a document may be behind again, which another command changed in between, beside once for each.
const raises = 10

// raise raises the counter of a document that is behind. Another command may do so first.
func raise[S, O any](ctx context.Context, store docstore.Store, cs []Command[S, O], writes []docstore.Write,
	behind *docstore.BehindError) error {
	i := slices.IndexFunc(writes, func(w docstore.Write) bool { return w.Key == behind.Key })
	if i < 0 {
		return behind
	}
	w := behind.Raise(writes[i])
	if i < len(cs) {
		if r, ok := unwrap(cs[i]).(Raiser); ok {
			w = r.Raise(behind.Found, behind.Least)
		}
	}
	_, err := store.Write(ctx, w)
	return err
}

// again finds the write by which a command that was refused may be granted by the next step, if there is one: its first
// write, where another command came in between, or its second.
func (d *Sent[S, O]) again(i, try int, s S, found docstore.Doc, next []docstore.Write, grants func(O) bool) bool {
	c := d.commands[i]
	if try > 0 {
		if w := until(c, c.Write()); d.When.holds(w, found) {
			next[i] = w
			if d.fallbacks != nil {
				d.fallbacks[i].sent = false
			}
			return true
		}
	}
	w, ok := fallbackWrite(c, s, d.When)
	if !ok || !d.When.holds(w, found) {
		return false
	}
	if grants != nil {
		after, err := w.Apply(found, d.When.At)
		if err != nil {
			return false
		}
		made, err := c.State(after)
		if err != nil || !grants(grantedFallback(c, s, d.When)(made, When{At: d.When.At, Margin: d.When.Margin})) {
			return false
		}
	}
	if d.fallbacks == nil {
		d.fallbacks = make([]fallback[S], len(d.commands))
	}
	next[i], d.fallbacks[i] = w, fallback[S]{true, s, d.When}
	return true
}

// named is the key of the first of the writes, and how many there are.
func named(writes []docstore.Write) string {
	if len(writes) == 1 {
		return writes[0].Key.String()
	}
	return fmt.Sprintf("%s and others, %d in one step", writes[0].Key, len(writes))
}

type fallbackKey struct{}

// IsFallback reports whether a request to a store, which has the context, has a write that was decided on the document
// found: not if it is a first write, sent once or again. It is for an [Observer].
func IsFallback(ctx context.Context) bool { return ctx.Value(fallbackKey{}) != nil }

// Send carries out commands of a set in one step, see [RunSet].
type Send[S, O any] func(context.Context, []Command[S, O]) (Sent[S, O], error)

// RunSet carries out commands on different documents together, each step all or none: do sends them, once or several
// times, and makes the outcome of what became of them. A step is a request as that of [Run], and more where a command
// has a [Fallback] write that is needed. Such a write is sent only if it grants its command, and all others that were
// refused are granted likewise. An [Observer] is told of the set, and of the outcome.
func RunSet[S, O, R any](
	ctx context.Context, store docstore.Store, now func() time.Time, set any, grants func(O) bool,
	do func(context.Context, Send[S, O]) (R, error),
) (R, error) {
	return observe(ctx, store, set, func(ctx context.Context) (R, error) {
		return do(ctx, func(ctx context.Context, cs []Command[S, O]) (Sent[S, O], error) {
			return send(ctx, store, now, cs, nil, grants)
		})
	})
}

// The pause before a try: none before the first two, then up to shortPause, doubled for each, and longPause at most.
const (
	shortPause = 10 * time.Millisecond
	longPause  = 160 * time.Millisecond
)

// round is how many pauses grow before they begin anew: who waited long for its turn would wait longest for ever.
const round = 12

// pause lets others go first.
func pause(ctx context.Context, try int) error {
	try %= round
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

// grantedFallback is the outcome of the second write of a command that found a state, and decided at that time.
func grantedFallback[S, O any](c Command[S, O], found S, decided When) func(S, When) O {
	second, ok := c.(FallbackOutcome[S, O])
	if !ok {
		return c.Granted
	}
	return func(after S, w When) O { return second.GrantedFallback(found, after, decided, w) }
}

// holds reports whether a write certainly was to be applied at the decision: that a time has passed by the earliest
// that the store's time can have been, and that it has not by the latest.
func (w When) holds(write docstore.Write, found docstore.Doc) bool {
	return write.InTime(w.Latest()) && (write.If == nil || w.holdsAt(write.If, found, false))
}

// holdsAt evaluates a condition, which may be inside a Not, see [docstore.Instant.Early].
func (w When) holdsAt(c docstore.Cond, found docstore.Doc, negated bool) bool {
	one := func(c docstore.Cond) bool { return w.holdsAt(c, found, negated) }
	switch c := c.(type) {
	case docstore.Any:
		return slices.ContainsFunc(c, one)
	case docstore.All:
		return !slices.ContainsFunc(c, func(c docstore.Cond) bool { return !one(c) })
	case docstore.Not:
		return !w.holdsAt(c.Cond, found, !negated)
	case docstore.LE:
		if i, _ := c.Value.(docstore.Instant); !i.Early(negated) {
			return c.Holds(found, w.Latest())
		}
	}
	return c.Holds(found, w.At)
}

// Joint is a command that is carried out in one step with writes on other documents: conditions that must hold there,
// and what is written with it. Not every store returns the documents after such a step, so the command says what it
// knows of its own before.
type Joint[S, O any] interface {
	Command[S, O]

	// Known is what the condition of Write says of the document that it holds for, nil if that there is none. Granted gets
	// the state that the write makes of it.
	Known() docstore.Doc
}

// RunJoint is [Run] for a command in one step with other writes. Granted or refused, the outcome is the command's, and
// free is true. free is false if the command's own condition held and that of another write did not: nothing was
// changed, and the outcome is what Refusal says of the document found.
//
// It is one request; one more to explain a rejection, from a store that returned another document.
func RunJoint[S, O any](
	ctx context.Context, store docstore.Store, now func() time.Time, c Joint[S, O], beside ...docstore.Write,
) (outcome O, free bool, err error) {
	outcome, err = observe(ctx, store, c, func(ctx context.Context) (o O, err error) {
		begin := now()
		done, err := send(ctx, store, now, []Command[S, O]{c}, beside, nil)
		switch {
		case err != nil:
			return o, err
		case len(done.Refused) > 0:
			free = true
			return c.Refusal(done.Refused[0].State, done.When), nil
		}
		w := until(c, c.Write())
		found, at := c.Known(), done.When.At
		if done.Applied {
			free = true
			if found, err = w.Apply(found, at); err != nil {
				return o, err
			}
		} else {
			snap, err := store.Get(ctx, w.Key)
			if err != nil {
				return o, fmt.Errorf("%s: %w", w.Key, err)
			}
			found, done.When = snap.Docs[0], When{At: snap.At, Took: now().Sub(begin)}
		}
		s, err := c.State(found)
		if err != nil {
			return o, err
		}
		if done.Applied {
			return c.Granted(s, done.When), nil
		}
		free = !w.Holds(found, done.When.At)
		return c.Refusal(s, done.When), nil
	})
	return outcome, free, err
}

// Step is [Run] in Go: it returns the document that the command leaves (the one found, if the command is not granted),
// and the outcome. It does not change found.
func Step[S, O any](c Command[S, O], found docstore.Doc, when When) (docstore.Doc, O, error) {
	var none O
	w, granted := until(c, c.Write()), c.Granted
	if !when.holds(w, found) {
		s, err := c.State(found)
		if err != nil {
			return found, none, err
		}
		second, ok := fallbackWrite(c, s, when)
		if !ok || !when.holds(second, found) {
			return found, c.Refusal(s, when), nil
		}
		w, granted = second, grantedFallback(c, s, when)
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

func fallbackWrite[S, O any](c Command[S, O], s S, when When) (docstore.Write, bool) {
	if second, ok := c.(Fallback[S]); ok {
		w, ok := second.Fallback(s, when)
		return until(c, w), ok
	}
	return docstore.Write{}, false
}
