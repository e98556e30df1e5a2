package lock

import (
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Times of [spells].
const (
	// letLeast and letLonger are how long a process leaves a lock to others, where the store signals changes and where it
	// does not, beside letTook reads of the store: long enough for them to learn that it is free, and to ask.
	letLeast  = 20 * time.Millisecond
	letLonger = 400 * time.Millisecond
	letTook   = 10
	letLimit  = time.Second // whatever the store takes

	// A process that knows of no others leaves the lock to them after so many times that long, at first; each time that
	// none comes it is twice as long, up to the last.
	letFirst, letLast = 4, 64

	// A process that is farther from the store than another one needs longer to come. So every so many times that none
	// came after the last, and once if those that are known do not come, the lock is left to others so many times as long.
	letFar, letFarther = 4, 8

	// chanceTook is within how many reads of the store those who contend for a lock choose when to ask, by chance.
	chanceTook             = 2
	chanceLeast, chanceEnd = time.Millisecond, 50 * time.Millisecond

	// spellsKept is of how many locks a process remembers that. It is a hint: what is forgotten costs others a while.
	spellsKept = 1024
)

// spells is what a process remembers of a lock without a line that its own requests obtain in turns. Its own requests
// know of a release first, so that without it those of another process would never obtain the lock. So now and then
// the process leaves the lock to others after a release: every other time, by chance, while others are known to obtain
// it. That is known from the tokens: they are consecutive, and all but its own are those of others.
type spells struct {
	token  int64         // of the latest grant to a request of this process
	over   bool          // its end was seen
	left   bool          // the lock was left to others then
	missed bool          // it was, and others that are known did not come
	far    bool          // it is left to others for longer
	last   int           // how often none came after the last time
	until  time.Time     // until when it is
	others bool          // others obtained the lock since it was left to them last
	due    time.Time     // when it is left to others next, although none is known
	pause  time.Duration // from then to the next time

	at      time.Time // the store's time of that end
	arrived time.Time // when it was seen
}

// granted notes the token of a grant to a request of this process. x is its wait, nil if it does not wait.
func (s *waits) granted(id ID, token int64, x *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r, w := s.own[id], s.of[id]
	let := s.letting()
	switch {
	case r == nil && x == nil:
		forgetOne(s.alone, id)
		s.alone[id] = token
		return
	case r == nil:
		forgetOne(s.own, id)
		// Who had to wait for another process does not wait for the time after which others are looked for.
		r = &spells{others: x.waiting && s.alone[id] != token-1, pause: letFirst * let, due: now.Add(letFirst * let)}
		s.own[id] = r
		delete(s.alone, id)
	case token > r.token+1:
		r.others, r.missed, r.last, r.pause, r.due = true, false, 0, letFirst*let, now.Add(letFirst*let)
	case r.left && r.others && !r.missed:
		r.missed, r.far = true, true
	case r.left:
		r.others, r.missed, r.far = false, false, false
		if r.pause = min(2*r.pause, letLast*let); r.pause == letLast*let {
			r.far = r.last%letFar == 0
			r.last++
		}
		r.due = now.Add(r.pause)
	}
	r.token, r.over, r.left, r.until = token, false, false, time.Time{}
	if w != nil {
		w.spells = r
	}
}

// forgetOne makes room for what is remembered of a lock.
func forgetOne[T any](of map[ID]T, id ID) {
	if _, ok := of[id]; ok || len(of) < spellsKept {
		return
	}
	for other := range of {
		delete(of, other)
		return
	}
}

// see notes what the document says. let is how long the lock is left to others, if it is.
func (r *spells) see(o observation, let time.Duration) {
	switch {
	case r == nil:
	case o.state.Token > r.token || o.state.shared != nil:
		r.until = time.Time{} // another has it, or the next one in line will
	case o.state.Token == r.token && o.state.Phase == Released && !r.over:
		r.over, r.at, r.arrived = true, o.at, o.arrived
		if r.others && rand.N(2) == 0 || !o.arrived.Before(r.due) {
			if r.left = true; r.far {
				let = min(letFarther*let, letLimit)
			}
			r.until = o.arrived.Add(let)
		}
	}
}

// letting is how long a lock is left to others. waits.mu is held.
func (s *waits) letting() time.Duration {
	let := letLonger
	if s.says {
		let = letLeast
	}
	return min(let+letTook*s.took, letLimit)
}

// leaves returns the refusal of a request that is not sent yet, because its process leaves the lock to others.
func (s *waits) leaves(w *watch, x *waiter) (o Outcome, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !w.lets(x, now) {
		return Outcome{}, false
	}
	return Outcome{Code: Held, At: docstore.TruncateMilli(w.spells.at.Add(now.Sub(w.spells.arrived))),
		Lease: x.acquire.named(0), unsent: true}, true
}

// lets reports whether a request does not get its turn, because its process leaves the lock to others. waits.mu is
// held.
func (w *watch) lets(x *waiter, now time.Time) bool {
	return w.spells != nil && now.Before(w.spells.until) && !x.acquire.queues() && w.seen.state.shared == nil
}

// contended reports whether who asks first obtains the lock. waits.mu is held.
func (w *watch) contended() bool {
	if w.seen.state.shared != nil {
		return false
	}
	for _, x := range w.waiters {
		if x.waiting && !x.acquire.queues() {
			return true
		}
	}
	return false
}

// chance is how long a process waits before it asks for a lock that others ask for, too.
func (s *waits) chance() time.Duration {
	return rand.N(min(max(chanceTook*s.took, chanceLeast), chanceEnd))
}

// lasted is for how long no one was granted the lock, nor gave it up.
func (o observation) lasted() time.Duration {
	latest := later(o.state.AcquiredAt, o.state.ReleasedAt)
	if v := o.state.shared; v != nil {
		for _, h := range v.holders {
			latest = later(latest, h.acquired)
		}
		if v.latest != nil {
			latest = later(latest, v.latest.acquired)
		}
	}
	return o.at.Sub(latest)
}

// differs reports whether an observation says that someone came, went or was granted the lock since another one.
func (o observation) differs(other observation) bool {
	a, b := o.state.view(), other.state.view()
	return a.token != b.token || o.state.Phase != other.state.Phase || len(a.holders) != len(b.holders) ||
		len(a.line) != len(b.line)
}
