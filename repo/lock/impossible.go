package lock

import (
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Ends that a wrong clock has written, see [rule.When.Impossible]: whoever is refused because of one counts it anew, in
// a second write that is sent in that case only. In shared form every command does, with what it writes.

// countedAnew tells who is refused so.
const countedAnew = "an end lay further ahead than it can, because the store's clock was wrong when it was written: " +
	"it counts from now"

// longest is how long a lease of ttlSeconds lasts.
func longest(ttlSeconds int64) time.Duration {
	if ttlSeconds < 1 || ttlSeconds > MaxTTLSeconds { // another program has written it
		ttlSeconds = MaxTTLSeconds
	}
	return time.Duration(ttlSeconds) * time.Second
}

// lastEnd is, in plain form, the time that keeps the lock closed, the field that has it, and how far ahead it can be at
// most. field is empty if there is none.
func (s State) lastEnd() (field string, end time.Time, most time.Duration) {
	switch {
	case s.shared != nil:
	case s.Phase == Active:
		return fExpiresAt, s.ExpiresAt, longest(s.TTLSeconds)
	case s.Phase == Released && s.LockDelaySeconds > 0:
		return fReleasedAt, s.ReleasedAt, 0
	}
	return "", time.Time{}, 0
}

// impossible reports whether an end in the state is to be counted anew.
func (s State) impossible(w rule.When) bool {
	if s.shared != nil {
		v := s.toShared()
		v.countAnew(w)
		return v.anew
	}
	field, end, most := s.lastEnd()
	_, is := w.Impossible(end, most)
	return field != "" && is
}

// countAnew is, in plain form, the write that counts an impossible end from now. It applies only to the lease that was
// found, as it was found.
func (id ID) countAnew(s State, w rule.When, retention time.Duration) (wr docstore.Write, ok bool) {
	field, end, most := s.lastEnd()
	if _, is := w.Impossible(end, most); field == "" || !is {
		return wr, false
	}
	return docstore.Write{
		Key: id.key(),
		If: append(s.asFound(), docstore.Eq{Field: field, Value: docstore.FormatTime(end)},
			rule.ImpossibleEnd(field, most), comparesExpiry),
		Set:    map[string]docstore.Value{field: docstore.Now.Add(most)},
		Keep:   most + keep(s.LockDelaySeconds, retention),
		Return: fieldsRead,
	}, true
}

// countAnew counts every impossible end from now: of leases, lock delays, places in line, turns, and of the windows of
// a rate, whose grants count as made now.
func (v *sharedForm) countAnew(w rule.When) {
	found := func(at *time.Time, most time.Duration) bool {
		counts, is := w.Impossible(*at, most)
		*at, v.anew = counts, v.anew || is
		return is
	}
	for i := range v.holders {
		h, most := &v.holders[i], time.Duration(0)
		if !h.ended {
			most = h.span()
		}
		if !found(&h.expires.Time, most) {
			continue
		}
		if h.expires = storeTimePlus(w, most); h.derived {
			h.acquired = h.expires.Add(-most)
		}
	}
	const place = MaxWaitSeconds*time.Second + PlaceTime
	for i := range v.line {
		found(&v.line[i].since, 0)
		found(&v.line[i].until, place)
		found(&v.line[i].listens, place)
	}
	for i := range v.newcomers {
		found(&v.newcomers[i].since, 0)
	}
	if r := v.reserved; r != nil {
		found(&r.since, SetTurn+setRest)
		found(&r.until, place)
		found(&r.turn, SetTurn)
	}
	for i := range v.grants {
		found(&v.grants[i].at, 0)
	}
	if v.latest != nil && found(&v.latest.acquired, 0) {
		v.latest.expires = storeTimePlus(w, v.span())
	}
	v.cleared = v.cleared || v.anew
}

// possible is a grant of whose lease no more is left than it lasts, whatever its end says: what a wrong clock has
// written must not keep its holder at work for longer than the lock is closed to others. What is left counts from
// Outcome.At.
func (o Outcome) possible() Outcome {
	if o.Lease.TTLSeconds > 0 {
		o.At = later(o.At, o.Lease.ExpiresAt.Add(-longest(o.Lease.TTLSeconds)))
	}
	return o
}

// lookAgain counts the impossible ends of one lock of a set anew. Its outcome is the refusal of the acquire.
type lookAgain struct{ Acquire }

var _ command = lookAgain{}

// Write never applies: only the document found tells.
func (c lookAgain) Write() docstore.Write { return c.never() }

// Fallback is the write.
func (c lookAgain) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if s.shared == nil {
		return c.countAnew(s, w, c.retention)
	}
	v := s.toShared()
	if v.dropExpired(w); !v.anew {
		return docstore.Write{}, false
	}
	v.grantWaiting(w, "")
	return v.write(c.ID, s, w, c.retention), true
}

// GrantedFallback is the refusal in the state that the write leaves.
func (c lookAgain) GrantedFallback(_, after State, _, w rule.When) Outcome {
	o := c.Refusal(after, w)
	o.CountedAnew = true
	return o
}

// lookAgain counts the impossible ends of locks anew that refused a set, and replaces their refusals. It costs nothing
// where there are none. anew is at how many.
func (l *Locks) lookAgain(ctx context.Context, cs []Acquire, refused []rule.Refused[State], w rule.When,
	refusals map[int]Outcome) (anew int, err error) {
	for _, r := range refused {
		if !refusals[r.Index].waits() || !r.State.impossible(w) {
			continue
		}
		o, err := l.run(ctx, cs[r.Index].ID, lookAgain{cs[r.Index]})
		if err != nil {
			return anew, err
		}
		if o.CountedAnew {
			anew++
		}
		if o.waits() {
			refusals[r.Index] = o
		}
	}
	return anew, nil
}
