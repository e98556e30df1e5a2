package lock

import (
	"context"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// givenUpKeep is how long a lock without a record remembers a request that was given up: a copy that arrives later and
// names its end is too late by then.
const givenUpKeep = docstore.MaxAhead

// GiveUp gives an acquire up, because its caller wants it no more: afterwards the request has no lease, no place in
// line and no reservation, and obtains none, however late a copy of it arrives. The lock remembers it as used. A grant
// of a rate stays spent: what it allowed may have been done.
//
// It changes nothing of other requests, nor of one with the same request_id and other parameters
// ([RequestIDReused]).
type GiveUp struct {
	// Acquire is the request as it was sent, with the latest end that one of its copies has. How long it waits does not
	// matter, nor does its end, unless it has Replace: so long the lock knows that a copy may come, see [State].Forgotten.
	// Without an end that is 40 s.
	Acquire Acquire

	gone     bool // only its connection has ended: it may be sent again, and keeps a lease that it has claimed
	existing bool // creates no record
}

// GiveUpSet is [GiveUp] of an acquire of several locks, at all of them in one step.
type GiveUpSet struct {
	Acquire AcquireSet
}

var (
	_ command                              = GiveUp{}
	_ rule.Fallback[State]                 = GiveUp{}
	_ rule.FallbackOutcome[State, Outcome] = GiveUp{}
	_ rule.Retrier                         = GiveUp{}
)

// plainForm holds where there is a record in plain form.
var plainForm docstore.Cond = docstore.Any{docstore.Eq{Field: fState, Value: docstore.String(Active)},
	docstore.Eq{Field: fState, Value: docstore.String(Released)}}

// never is a write that never applies, of a command that only has second writes.
func (id ID) never() docstore.Write {
	return docstore.Write{Key: id.key(), If: docstore.All{docstore.Any{}, comparesExpiry}}
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c GiveUp) Validate() error { return c.Acquire.Validate() }

// Tries is how often the second write of the command is tried.
func (GiveUp) Tries() int { return maxTries }

// State reads the document.
func (c GiveUp) State(d docstore.Doc) (State, error) { return c.Acquire.State(d) }

// Write remembers the request where it has nothing: in plain form, and not known. The lease of another is not touched,
// and what the lock remembers of acquires is not either.
func (c GiveUp) Write() docstore.Write {
	if c.gone {
		return c.Acquire.never()
	}
	r := c.Acquire.request()
	w := docstore.Write{
		Key:    c.Acquire.key(),
		If:     docstore.All{plainForm, r.Unknown(acquires, givenUps), noneForgotten, comparesExpiry},
		Set:    map[string]docstore.Value{},
		Return: fieldsRead,
	}
	c.rememberGivenUp(w.Set)
	return w
}

// Fallback is the write where the request has something, or may have, and where there is no record of the lock: then it
// makes one without a lease.
func (c GiveUp) Fallback(s State, w rule.When) (docstore.Write, bool) {
	r := c.Acquire.request()
	if known, differs := s.givenUp(r); known || differs {
		return docstore.Write{}, false
	}
	if s.shared != nil {
		return c.leave(s, w)
	}
	if c.gone || c.existing && !s.recorded() {
		return docstore.Write{}, false
	}
	var wr docstore.Write
	switch {
	case s.Phase == None:
		wr = docstore.Write{Key: c.Acquire.key(), If: docstore.All{noRecord, givenUps.Lacks(r)},
			Set: map[string]docstore.Value{}, Keep: givenUpKeep}
	case c.lease(s, w) != nil:
		wr = Release{ID: c.Acquire.ID, Owner: s.Owner, Token: s.Token, retention: c.Acquire.retention}.Write()
		delete(wr.Set, released(s.Token)) // there was no release
	default: // its lease has ended
		wr = docstore.Write{Key: c.Acquire.key(), If: append(s.asFound(), givenUps.Lacks(r)),
			Set: map[string]docstore.Value{}}
	}
	wr.If = append(docstore.All{wr.If}, s.rememberedAsFound()...)
	c.rememberGivenUpOf(s, w, wr.Set)
	return wr, true
}

// lease is the lease that the command ends, nil if there is none.
func (c GiveUp) lease(s State, w rule.When) *holder {
	h, _ := s.view().byRequest(c.Acquire.request())
	if h == nil || !h.lasts(w.At) || c.gone && !h.grantedInQueue {
		return nil
	}
	return h
}

// leave is the write in shared form: it ends what the request has, and hands the lock over. Where it has nothing, the
// request is only remembered.
func (c GiveUp) leave(s State, w rule.When) (docstore.Write, bool) {
	v, r, left := s.toShared(), c.Acquire.request(), false
	if h, _ := v.byRequest(r); h != nil && h.grantedInQueue && !h.closes().After(w.At) {
		v.dropExpired(w) // it has its place again
	}
	if i, _ := v.placeOf(r); i >= 0 {
		v.line, left = slices.Delete(v.line, i, i+1), true
	}
	if h := c.lease(s, w); h != nil {
		v.removeHeld(*h, EndedReleased, w, "")
		left = true
	}
	if !c.gone && v.reserved.of(r) {
		v.reserved, left = nil, true
	}
	known := map[string]docstore.Value{}
	if !c.gone {
		c.rememberGivenUpOf(s, w, known)
	}
	if !left {
		known[fRevision] = docstore.Int(s.revision + 1)
		return docstore.Write{Key: c.Acquire.key(), If: s.asFound(), Set: known}, !c.gone
	}
	v.dropExpired(w)
	v.sets = known
	v.grantWaiting(w, "")
	return v.write(c.Acquire.ID, s, w, c.Acquire.retention), true
}

// givenUp reports whether the lock remembers that a request was given up, and whether it knows the request with other
// parameters.
func (s State) givenUp(r rule.Request) (known, differs bool) {
	other := func(known, same bool) { differs = differs || known && !same }
	i, same := s.GivenUp.Find(r)
	known = i >= 0
	other(known, same)
	i, same = s.Acquires.Find(r)
	other(i >= 0, same)
	v := s.view()
	h, same := v.byRequest(r)
	other(h != nil, same)
	h, same = v.rateGrant(r)
	other(h != nil, same)
	i, same = v.placeOf(r)
	other(i >= 0, same)
	i, same = v.newcomerOf(r)
	other(i >= 0, same)
	if v.reserved != nil {
		other(r.Is(v.reserved.request))
	}
	return known, differs
}

// recorded reports whether there is a record of the lock, be it of requests only that were given up.
func (s State) recorded() bool { return s.Phase != None || s.GivenUp[0] != "" }

// Granted says that the request is given up.
func (c GiveUp) Granted(_ State, w rule.When) Outcome {
	return Outcome{Code: OK, At: w.Latest(), Lease: c.Acquire.named(0)}
}

// GrantedFallback says that, with the token of the lease that was ended, and whether it made the record.
func (c GiveUp) GrantedFallback(found, after State, decided, w rule.When) Outcome {
	o := c.Granted(after, w)
	o.created = !found.recorded()
	if h := c.lease(found, decided); h != nil {
		o.Lease.Token, o.Lease.Phase = h.token, Released
	}
	return o
}

// Refusal recognises a request that was given up before, and one that is another.
func (c GiveUp) Refusal(s State, w rule.When) Outcome {
	known, differs := s.givenUp(c.Acquire.request())
	o := c.Granted(s, w)
	switch {
	case differs:
		return c.Acquire.reused(w, 0, usedOtherwise)
	case known || c.gone:
		o.Replayed = true
	case c.existing && !s.recorded():
		o.Code = Limit
	default: // nothing was changed
		return c.Acquire.busy(s, w, 0, changedMeanwhile)
	}
	return o
}

// GiveUp gives an acquire up, see the command [GiveUp]. Outcome.Lease has the token of the lease that it ended, 0 if it
// ended none. It ends the waits of its deliveries in this process at once, and
// is decided after those that are being sent, so that none of them obtains anything once it is answered. One request to
// the store where the request has nothing and the lock is in plain form, two otherwise.
//
// A tenant that has as many locks as it may have (Options.MaxPerTenant) cannot give up the acquire of one without a
// record ([Limit]): only such an acquire obtains nothing either.
func (l *Locks) GiveUp(ctx context.Context, c GiveUp) (o Outcome, err error) {
	if err := c.Validate(); err != nil {
		return o, err
	}
	c.Acquire.retention = l.retention
	l.waits.endWaits(c.Acquire.delivery())
	err = l.inTurn(ctx, c.Acquire, func(ctx context.Context) error {
		return l.census.Within(ctx, c.Acquire.Tenant, true, func(existing bool) (census.Effect, error) {
			c.existing = existing
			o, err = rule.Run(ctx, l.store, l.now, l.noted(ctx, c.Acquire.ID, c))
			return o.effect(), err
		})
	})
	if err == nil && o.Code == Limit {
		o = l.limited(c.Acquire.Tenant, o)
	}
	return o, err
}

// effect is what the command did to the number of records.
func (o Outcome) effect() census.Effect {
	switch {
	case o.created:
		return census.Created
	case o.Code == Limit:
		return census.Missing
	default:
		return census.Other
	}
}

// GiveUpSet gives an acquire of several locks up, at all of them or, if it is another request at one, at none. One
// request to the store where the request has nothing and all locks are in plain form; otherwise one more, or a few.
func (l *Locks) GiveUpSet(ctx context.Context, c GiveUpSet) (o SetOutcome, err error) {
	if err := c.Acquire.Validate(); err != nil {
		return o, err
	}
	each := c.Acquire.commands(nil, l.retention)
	cs := make([]GiveUp, len(each))
	for i, one := range each {
		cs[i] = GiveUp{Acquire: one}
		defer l.waits.changed(one.ID)
	}
	err = l.census.Several(ctx, c.Acquire.Tenant, len(cs), func(existing bool) (created, missing int, err error) {
		for i := range cs {
			cs[i].existing = existing
		}
		o, err = l.runSet(ctx, c, func(ctx context.Context, send rule.Send[State, Outcome]) (o SetOutcome, err error) {
			o, created, missing, err = giveUpSet(ctx, cs, send)
			return o, err
		})
		return created, missing, err
	})
	if err == nil && o.Code == Limit {
		o.Refusal = l.limited(c.Acquire.Tenant, o.Refusal)
	}
	return o, err
}

// giveUpSet carries out the commands. It says how many records it created, or that so many are missing.
func giveUpSet(ctx context.Context, cs []GiveUp, send rule.Send[State, Outcome]) (
	o SetOutcome, created, missing int, err error) {
	outcomes, when, err := decideEach(ctx, cs, send, func(o Outcome) bool { return o.Code == OK })
	if err != nil {
		return o, 0, 0, err
	}
	o = SetOutcome{Code: OK, Replayed: true, At: when.Latest()}
	refusals := map[int]Outcome{}
	for i := range cs {
		one, decided := outcomes[i]
		if !decided {
			continue
		}
		o.Replayed = o.Replayed && one.Replayed
		switch one.effect() {
		case census.Created:
			created++
		case census.Missing:
			missing++
		case census.Other:
		}
		if one.Code != OK {
			refusals[i] = one
		} else if one.Lease.Token != 0 {
			o.Leases = append(o.Leases, one.Lease)
		}
	}
	if len(refusals) > 0 {
		o = refusedSet(refusals, acquireOrder)
	}
	if o.Code != Limit {
		missing = 0
	}
	return o, created, missing, nil
}
