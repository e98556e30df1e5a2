package lock

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Times of the turn of an [AcquireSet].
const (
	// SetTurn is how long a lock is kept for a request for several locks when its turn has come.
	SetTurn = 10 * time.Second

	// setRest is how long a request for several locks waits after a turn in which it did not obtain them, before it has
	// the next one.
	setRest = 3 * SetTurn

	// setPoll is after what time a request for several locks is to be sent again in its turn.
	setPoll = 250 * time.Millisecond
)

// reservation is what a request for several locks has at one of them: see [Locks.reserve].
type reservation struct {
	request string // the entry of the acquire
	owner   string
	since   time.Time // the places in line that were taken before go first
	until   time.Time // then it lapses, unless the request is sent again
	turn    time.Time // the lock is kept for the request until then; zero while its turn has not come
}

func (r *reservation) encode() docstore.Bytes {
	p := newPacker()
	p.text(r.request)
	p.text(r.owner)
	p.time(r.since)
	p.time(r.until)
	p.time(r.turn)
	return p.bytes()
}

func decodeReservation(b []byte) (r *reservation, ok bool) {
	u := newUnpacker(b)
	r = &reservation{request: u.text(), owner: u.text(), since: u.time(), until: u.time(), turn: u.time()}
	return r, u.done()
}

// kept is until when the lock is kept for the request: in its turn, and not beyond the reservation. Zero while its turn
// has not come.
func (r *reservation) kept() time.Time {
	if r == nil {
		return time.Time{}
	}
	return earlier(r.turn, r.until)
}

// keeps reports whether the lock is kept for the request at a time.
func (r *reservation) keeps(at time.Time) bool { return r.kept().After(at) }

// of reports whether the reservation is that of a request.
func (r *reservation) of(request rule.Request) bool {
	if r == nil {
		return false
	}
	is, _ := request.Is(r.request)
	return is
}

// missed reports whether the request has had its turn.
func (r *reservation) missed(at time.Time) bool { return !r.turn.IsZero() && !r.turn.After(at) }

// next is when the turn of another reservation may come: after a turn there is a rest.
func (r *reservation) next() time.Time {
	if r.turn.IsZero() {
		return r.since
	}
	return r.turn.Add(setRest)
}

// over reports whether the reservation means nothing any more.
func (r *reservation) over(at time.Time) bool { return !r.until.After(at) && !r.next().After(at) }

// comes reports whether it is the turn of the request, as far as this lock is concerned.
func (v *sharedForm) comes(entry string, at time.Time) bool {
	r := v.reserved
	return r != nil && r.request == entry && !r.missed(at) && !r.since.After(at) &&
		!slices.ContainsFunc(v.line, func(p place) bool { return p.listensAt(at) && !p.since.After(r.since) })
}

// reserve is the command by which a request for several locks reserves one of them, and keeps that. The lock has one
// reservation at a time: of another request it is refused until that has lapsed or had its turn.
type reserve struct {
	rule.End
	acquire Acquire // of this lock
	turn    bool    // its turn has come
}

var _ command = reserve{}

// Validate is for a command that is made from one that was validated.
func (reserve) Validate() error { return nil }

// Tries is how often the second write of the command is tried.
func (reserve) Tries() int { return maxTries }

// State reads the document.
func (c reserve) State(d docstore.Doc) (State, error) { return c.acquire.State(d) }

// Write never applies: a reservation is in shared form.
func (c reserve) Write() docstore.Write { return c.acquire.never() }

// until is how long a reservation is kept that is sent at now: not beyond the end of the request.
func (c reserve) until(now time.Time) time.Time { return c.acquire.until(now) }

// decide is the rule of reservations. It returns nil if there is nothing to write.
func (c reserve) decide(s State, w rule.When) *sharedForm {
	v, request := s.toShared(), c.acquire.request()
	if givenUp, _ := s.GivenUp.Find(request); givenUp >= 0 || s.Phase == None || v.family != Exclusive {
		return nil
	}
	v.dropExpired(w)
	now, entry := docstore.TruncateMilli(w.Latest()), string(request.Entry())
	r := v.reserved
	switch {
	case r == nil || r.missed(w.At) || r.request != entry && !r.until.After(w.At):
		next := &reservation{request: entry, owner: c.acquire.Owner, since: now, until: c.until(now)}
		if r != nil {
			next.since = later(now, r.next())
		}
		v.reserved = next
	case r.request != entry:
		return nil
	case c.turn && r.turn.IsZero():
		r.turn = now.Add(SetTurn)
		r.until = later(r.until, c.until(now))
	case c.until(now).Sub(r.until) >= placeStep:
		r.until = c.until(now)
	default:
		return nil
	}
	v.grantWaiting(w, "")
	return v
}

// Fallback is the write.
func (c reserve) Fallback(s State, w rule.When) (docstore.Write, bool) {
	v := c.decide(s, w)
	if v == nil {
		return docstore.Write{}, false
	}
	return c.acquire.unlessGivenUp(v.write(c.acquire.ID, s, w, c.acquire.retention), s), true
}

// Granted says whether the request has a reservation.
func (c reserve) Granted(s State, w rule.When) Outcome {
	o := Outcome{Code: Held, At: w.At, Lease: c.acquire.named(0)}
	if s.Phase == None || s.toShared().reserved.of(c.acquire.request()) {
		o.Code = OK
	}
	return o
}

// Refusal says the same.
func (c reserve) Refusal(s State, w rule.When) Outcome { return c.Granted(s, w) }

// queues reports whether a line keeps a request for several locks from one of them, or its own turn has come there.
func (s State) queues(entry string) bool {
	v := s.shared
	return v != nil && (len(v.line) > 0 || v.reserved != nil && v.reserved.request == entry)
}

// reserve gives a request for several locks its turn beside lines that are never empty. The request, sent again and
// again, goes through three states:
//
//  1. It reserves its locks, one after the other in the order of their keys, and stops at the first that another
//     request has reserved: so those whose keys overlap do not wait for each other in a circle. A reservation keeps no
//     one from the lock.
//  2. When those who were in line before have had their turn at every lock, it is the request's: its locks are kept for
//     it for [SetTurn].
//  3. When the last of their holders has gone, it obtains them all in one step.
//
// If one of the locks is held for longer than the turn, the others go on, and the next turn comes after a rest that is
// three times as long. A lock without a record is not reserved: no one competes for it.
//
// It is for a request that was refused with o, and returns o, with how soon to ask again. What becomes of the writes
// matters for the next time only.
func (l *Locks) reserve(ctx context.Context, cs []Acquire, o SetOutcome) SetOutcome {
	keys := make([]docstore.Key, len(cs))
	for i, c := range cs {
		keys[i] = c.key()
	}
	snap, err := l.store.Get(ctx, keys...)
	if err != nil {
		return o
	}
	entry := string(cs[0].request().Entry())
	w := rule.When{At: snap.At}
	turn := true
	states := make([]State, len(cs))
	for i, d := range snap.Docs {
		if states[i], err = cs[i].State(d); err != nil {
			return o
		}
		turn = turn && (states[i].Phase == None || states[i].toShared().comes(entry, w.At))
	}
	for i, c := range cs {
		r := reserve{End: c.End, acquire: c, turn: turn}
		got := r.Refusal(states[i], w)
		if r.decide(states[i], w) != nil {
			if got, err = l.run(ctx, c.ID, r); err != nil {
				return o
			}
		}
		if got.Code != OK {
			return o
		}
	}
	if turn {
		o.Refusal.RetryAfter = min(o.Refusal.RetryAfter, setPoll)
	}
	return o
}
