package analysis

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Analyses carries out the commands of the gate on a store. It keeps nothing between calls: any number of them, in any
// number of processes, may work on the same store.
//
// An error from a command means that the store could not say how it ended (see [docstore.Store.Write]), that the document
// is damaged (nothing was changed), or that the command was malformed (a field.Error). After the first kind, send the
// command again as it is.
type Analyses struct {
	store docstore.Store
	now   func() time.Time
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to answer; it needs to be steady, not right. nil stands for time.Now.
	Now func() time.Time
}

// New returns the gate's commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Analyses {
	a := &Analyses{store: store, now: time.Now}
	if o != nil && o.Now != nil {
		a.now = o.Now
	}
	return a
}

// command is what all commands have in common.
type command interface {
	Decide(State, time.Time) (State, Outcome)
	Write() docstore.Write
}

// Acquire asks for the run; see [Acquire.Decide]. One request to the store, whatever the outcome; two if the document's
// lockExpiresAt is text that only looks like a time.
func (a *Analyses) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return a.timely(func() (Outcome, error) { return a.do(ctx, c, c.ID) })
}

// Refresh asks for more time; see [Refresh.Decide]. One request to the store, whatever the outcome.
func (a *Analyses) Refresh(ctx context.Context, c Refresh) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return a.timely(func() (Outcome, error) { return a.do(ctx, c, c.ID) })
}

// Release gives the lock back; see [Release.Decide]. One request to the store, whatever the outcome.
func (a *Analyses) Release(ctx context.Context, c Release) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return a.do(ctx, c, c.ID)
}

// Finish ends the analysis; see [Finish.Decide]. One request to the store, whatever the outcome.
func (a *Analyses) Finish(ctx context.Context, c Finish) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return a.do(ctx, c, c.ID)
}

// Get returns the analysis as it stands and the store's time; State.Exists is false if there is none. One strongly
// consistent read.
func (a *Analyses) Get(ctx context.Context, id ID) (State, time.Time, error) {
	if err := id.Validate(); err != nil {
		return State{}, time.Time{}, err
	}
	r, err := a.store.Get(ctx, id.key())
	if err != nil {
		return State{}, time.Time{}, fmt.Errorf("analysis %s: %w", id, err)
	}
	s, err := stateOf(id.key(), r.Docs[0])
	return s, r.At, err
}

// do sends the command's write. If the store applied it, the document now says what was granted; if it refused, the
// document found is explained by Decide, which looks for the command's own earlier delivery first.
func (a *Analyses) do(ctx context.Context, c command, id ID) (Outcome, error) {
	r, s, err := a.write(ctx, c.Write(), id)
	if err != nil {
		return Outcome{}, err
	}
	o := answer(c, s, r)
	if r.Applied || !o.grants() {
		return o, nil
	}
	// The rule grants what the condition refused. That is so for text that sorts behind the store's time and is none.
	acquire, ok := c.(Acquire)
	if !ok || s.Expiry == "" {
		return Outcome{}, fmt.Errorf("%w: %s: the store refused what the rule grants", docstore.ErrDamaged, id.key())
	}
	if r, s, err = a.write(ctx, acquire.WriteOver(s.Expiry), id); err != nil {
		return Outcome{}, err
	}
	if o = answer(c, s, r); !r.Applied && o.grants() {
		return Outcome{}, fmt.Errorf("%w: %s changed while it was looked at; try again", docstore.ErrUnavailable, id.key())
	}
	return o, nil
}

// grants reports whether the outcome is a grant that has to be written first.
func (o Outcome) grants() bool { return o.Code == OK && !o.Replayed }

// write sends one write and reads the document that it left or found.
func (a *Analyses) write(ctx context.Context, w docstore.Write, id ID) (docstore.Result, State, error) {
	r, err := a.store.Write(ctx, w)
	if err != nil {
		return docstore.Result{}, State{}, fmt.Errorf("analysis %s: %w", id, err)
	}
	s, err := stateOf(id.key(), r.Docs[0])
	return r, s, err
}

// answer is the outcome of a command whose write left or found the state s.
func answer(c command, s State, r docstore.Result) Outcome {
	if r.Applied {
		return Outcome{Code: OK, At: r.At, Grant: s.grant()}
	}
	_, o := c.Decide(s, r.At)
	if !o.Replayed {
		return o
	}
	now := r.At.Add(r.Margin)
	if acquire, ok := c.(Acquire); ok && !s.Locked(now) {
		// The repeated acquire's lock is over, and yet too shortly to be followed by another: it is not handed out again.
		acquire.RequestID = ""
		_, o = acquire.Decide(s, r.At)
		return o
	}
	o.At = now // what is left of the lock counts from here
	return o
}

// timely is for the commands that hand out time. A lock that had ended by the time the store answered is no grant: whoever
// got it would begin its work unprotected. The time is measured from before the request, so that it errs on the early
// side for the holder.
func (a *Analyses) timely(do func() (Outcome, error)) (Outcome, error) {
	begin := a.now()
	o, err := do()
	if err != nil || o.Code != OK {
		return o, err
	}
	if took := a.now().Sub(begin); o.Grant.ExpiresAt.Sub(o.At) <= took {
		return Outcome{Code: Expired, At: o.At, Detail: fmt.Sprintf(
			"the store took %v to answer, longer than the lock lasts; ask for a longer ttlSec", took.Round(time.Millisecond))}, nil
	}
	return o, nil
}

// time is the store's time: that of a read of a document that need not exist.
func (a *Analyses) time(ctx context.Context) (time.Time, error) {
	r, err := a.store.Get(ctx, docstore.Key{Kind: "health", ID: "ready"})
	return r.At, err
}
