package suite

import (
	"maps"
	"slices"
	"time"
)

// oracle says what LS-SPEC-001 demands of one lock. It keeps whole leases in a list, newest last, and every command
// that ever took effect, instead of one document with what must be known again.
type oracle struct {
	leases  []*lease // since the document was last removed
	forces  []command
	givenUp []command // acquires
	tokens  []int64   // of all leases ever, also of those before
}

// lease is one grant with all that happened to it.
type lease struct {
	token    int64 // unknown until the store has said where tokens start
	by       command
	acquired time.Time
	expires  time.Time
	ttl      int64
	renewals []command // oldest first
	release  *command  // the owner's, or what gave its request up
	released time.Time
	forced   *command // the administrator's
	opened   *command // the one that ended its lock delay
}

// command is what a caller sent: a delivery that comes late, or twice, is equal to it.
type command struct {
	do       string // acquire, give up (an acquire), renew, release or force
	key      string
	owner    string
	request  string
	ttl      int64 // seconds
	metadata map[string]string
	token    int64
	ends     time.Time // the end of the lease that a renewal names, if any
	lease    string    // the ID that an acquire gives to its lease, or that a force-release names, if any
	reason   string
	replace  bool   // of an acquire
	delay    int64  // of an acquire: seconds
	with     string // the keys of all commands that are sent in one step, if it is one of several
}

// outcome is what a command on a lock must return. Times are in their stored form, empty for none.
type outcome struct {
	Code       string
	Replayed   bool
	At         string
	RetryAfter time.Duration

	// Of the caller's lease if the code is OK, of the holder's if it is LOCK_HELD, and what is known of the lease that the
	// caller named otherwise.
	Token                       int64 // start if the lock's tokens start with this one
	Lease, Owner, Phase         string
	Acquired, Expires, Released string
	TTL                         int64
	Metadata                    string
	Forced                      string // by whom and why the lease was ended
	Free                        string // until when the lock delay keeps the lock closed
}

// Answer is what a command of the gate must return, as far as locks have the same.
type Answer struct {
	Code     string
	Token    int64 // of the caller's lease, if the code is OK
	Expires  time.Time
	Holder   string // if the code is LOCK_HELD
	Replayed bool
}

// start is the token of a first grant: the store's time says what it is.
const start = -1

// The number of requests that a lock knows again, as documented.
const (
	knownRequests = 4 // of each kind: acquires, renewals of the lease, force-releases
	knownReleases = 8 // of different tokens modulo 8
)

func (l *lease) ended() bool { return l.release != nil || l.forced != nil }

// active is LS-SPEC-001's ACTIVE: now < expires_at, and not ended.
func (l *lease) active(now time.Time) bool { return !l.ended() && now.Before(l.expires) }

// free is when the lock is free if no one does anything. A lease that its owner released has no lock delay.
func (l *lease) free() time.Time {
	delay := time.Duration(l.by.delay) * time.Second
	if l.opened != nil {
		delay = 0
	}
	switch {
	case l.release != nil:
		return l.released
	case l.forced != nil:
		return l.released.Add(delay)
	default:
		return l.expires.Add(delay)
	}
}

// closed reports whether the lock delay of a lease that was lost lasts.
func (l *lease) closed(now time.Time) bool { return !l.active(now) && now.Before(l.free()) }

func (l *lease) phase(now time.Time) string {
	switch {
	case l.ended():
		return "RELEASED"
	case l.active(now):
		return "ACTIVE"
	default:
		return "EXPIRED" // LS-EXP-001
	}
}

// shown is the whole lease.
func (l *lease) shown(code string, now time.Time) outcome {
	a := outcome{
		Code: code, At: written(now), Token: l.token, Lease: l.by.lease, Owner: l.by.owner, Phase: l.phase(now),
		Acquired: written(l.acquired),
		Expires:  written(l.expires), TTL: l.ttl, Metadata: labels(l.by.metadata),
	}
	if l.ended() {
		a.Released = written(l.released)
	}
	if l.forced != nil {
		a.Forced = l.forced.owner + ": " + l.forced.reason + " at " + a.Released
	}
	if l.closed(now) {
		a.Free = written(l.free())
	}
	return a
}

func (o *oracle) latest() *lease {
	if len(o.leases) == 0 {
		return nil
	}
	return o.leases[len(o.leases)-1]
}

// removed is what a removed document leaves: tokens are never given twice (LS-INV-002), the rest is forgotten.
func (o *oracle) removed() { o.leases, o.forces, o.givenUp = nil, nil, nil }

// started says which token the latest lease got.
func (o *oracle) started(token int64) {
	o.latest().token = token
	o.tokens[len(o.tokens)-1] = token
}

// remembered reports whether a command is among the last of its kind, as the caller's own: same is the one found,
// newest that it is the very last.
func remembered(all []command, c command) (same *command, newest bool) {
	for i := len(all) - 1; i >= max(0, len(all)-knownRequests); i-- {
		if all[i].owner == c.owner && all[i].request == c.request {
			return &all[i], i == len(all)-1
		}
	}
	return nil, false
}

func (o *oracle) answer(c command, now time.Time) outcome {
	switch c.do {
	case "acquire":
		return o.acquire(c, now)
	case "give up":
		return o.giveUp(c, now)
	case "renew":
		return o.renew(c, now)
	case "release":
		return o.release(c, now)
	default:
		return o.force(c, now)
	}
}

// acquired is the acquire among the last that is the caller's own, and whether it is the very last.
func (o *oracle) acquired(c command) (same *command, newest bool) {
	var acquires []command
	for _, l := range o.leases {
		acquires = append(acquires, l.by)
	}
	return remembered(acquires, c)
}

// differs reports whether an acquire has other parameters than another one.
func (c command) differs(other command) bool {
	return c.ttl != other.ttl || c.with != other.with || !maps.Equal(c.metadata, other.metadata) ||
		c.replace != other.replace || c.delay != other.delay
}

// giveUp ends the lease of a request, and keeps the request from obtaining one.
func (o *oracle) giveUp(c command, now time.Time) outcome {
	before, _ := remembered(o.givenUp, c)
	obtained, _ := o.acquired(c)
	a := outcome{Code: "OK", At: written(now), Metadata: labels(nil)}
	switch {
	case before != nil && before.differs(c), obtained != nil && obtained.differs(c):
		return outcome{Code: "REQUEST_ID_REUSED", At: written(now)}
	case before != nil:
		a.Replayed = true
		return a
	}
	o.givenUp = append(o.givenUp, c)
	if l := o.latest(); l != nil && l.active(now) && l.by.owner == c.owner && l.by.request == c.request {
		l.release, l.released = &command{do: "give up"}, now // which is no release, if one comes
		a.Token, a.Phase = l.token, "RELEASED"
	}
	return a
}

func (o *oracle) acquire(c command, now time.Time) outcome {
	reused := outcome{Code: "REQUEST_ID_REUSED", At: written(now)}
	if givenUp, _ := remembered(o.givenUp, c); givenUp != nil {
		return reused
	}
	l := o.latest()
	same, newest := o.acquired(c)
	switch {
	case same != nil && same.differs(c):
		return reused
	case same != nil && (!newest || !l.active(now)): // LS-ACC-04: nothing is acquired twice
		return reused
	case same != nil: // LS-ACQ-004
		a := l.shown("OK", now)
		a.Replayed = true
		return a
	case l != nil && l.active(now) && l.by.replace && c.replace: // both agreed
	case l != nil && l.active(now): // LS-ACQ-001, LS-INV-001
		a := l.shown("LOCK_HELD", now)
		a.Token, a.RetryAfter = 0, l.free().Sub(now)
		return a
	case l != nil && l.closed(now):
		a := l.shown("LOCK_DELAYED", now)
		a.Token, a.RetryAfter = 0, l.free().Sub(now)
		return a
	}
	token := int64(start)
	if l != nil {
		token = l.token + 1 // LS-ACQ-003
	}
	l = &lease{token: token, by: c, acquired: now, ttl: c.ttl, expires: now.Add(time.Duration(c.ttl) * time.Second)}
	o.leases = append(o.leases, l) // LS-ACQ-002, LS-INV-002
	o.tokens = append(o.tokens, token)
	return l.shown("OK", now)
}

// afterRefusal reports whether a command on a lock takes a second write, because the first one knows no lock delays and
// moves no expiry back: an acquire where the latest lease has a delay, a force-release that ends it, and a renewal with
// a smaller ttl that names no expiry. So does giving up what the lock knows, or where there is no record.
func (o *oracle) afterRefusal(c command, now time.Time) bool {
	l := o.latest()
	if c.do == "give up" {
		before, _ := remembered(o.givenUp, c)
		obtained, _ := o.acquired(c)
		return before == nil && (l == nil || obtained != nil && !obtained.differs(c))
	}
	if l == nil {
		return false
	}
	delay := l.by.delay != 0 && l.opened == nil
	switch c.do {
	case "renew":
		return c.ends.IsZero() && l.expires.After(now.Add(time.Duration(c.ttl)*time.Second))
	case "force":
		return delay && l.closed(now) && c.lease == ""
	default:
		return delay && c.do == "acquire" && l.release == nil
	}
}

// refusal says why the lease with the token is not the owner's to change; ok if it is (LS-INV-003, LS-INV-004).
func (o *oracle) refusal(c command, now time.Time) (a outcome, ok bool) {
	l := o.latest()
	a = outcome{At: written(now), Token: c.token}
	switch {
	case l == nil || c.token != l.token:
		a.Code = "LEASE_LOST"
	case l.ended(): // every caller gets the same
		a.Code, a.Released = "LEASE_RELEASED", written(l.released)
	case !l.active(now):
		a.Code, a.Expires = "LEASE_EXPIRED", written(l.expires)
	case l.by.owner != c.owner:
		a.Code = "NOT_OWNER"
	default:
		return a, true
	}
	return a, false
}

func (o *oracle) renew(c command, now time.Time) outcome {
	a, ok := o.refusal(c, now)
	if !ok {
		return a
	}
	l := o.latest()
	same, _ := remembered(l.renewals, c)
	switch {
	case same != nil && (same.ttl != c.ttl || same.with != c.with):
		a.Code = "REQUEST_ID_REUSED"
		return a
	case same != nil: // LS-RNW-003
		a := l.shown("OK", now)
		a.Replayed = true
		return a
	case !c.ends.IsZero() && !c.ends.Equal(l.expires):
		a.Code, a.Expires = "LEASE_CHANGED", written(l.expires)
		return a
	}
	l.renewals = append(l.renewals, c)
	l.ttl, l.expires = c.ttl, now.Add(time.Duration(c.ttl)*time.Second) // LS-RNW-002
	return l.shown("OK", now)
}

func (o *oracle) release(c command, now time.Time) outcome {
	a, ok := o.refusal(c, now)
	if ok {
		l := o.latest()
		l.release, l.released = &c, now // LS-REL-002
		return l.shown("OK", now)
	}
	i := slices.IndexFunc(o.leases, func(l *lease) bool { return l.token == c.token })
	if i < 0 {
		return a
	}
	l := o.leases[i]
	for _, later := range o.leases[i+1:] {
		if later.release != nil && later.release.do == "release" && later.token%knownReleases == c.token%knownReleases {
			return a // forgotten
		}
	}
	if l.release == nil || l.release.owner != c.owner || l.release.request != c.request {
		return a
	}
	if l == o.latest() { // LS-REL-003
		a := l.shown("OK", now)
		a.Replayed = true
		return a
	}
	return outcome{Code: "OK", Replayed: true, At: written(now), Token: c.token, Owner: c.owner, Phase: "RELEASED",
		Metadata: labels(nil)}
}

func (o *oracle) force(c command, now time.Time) outcome {
	l := o.latest()
	same, newest := remembered(o.forces, c)
	is := func(one *command) bool { return one != nil && one.owner == c.owner && one.request == c.request }
	switch {
	case same != nil && (same.reason != c.reason || same.lease != c.lease):
		return outcome{Code: "REQUEST_ID_REUSED", At: written(now)}
	case same != nil && newest && (is(l.forced) ||
		is(l.opened) && l.forced != nil && l.forced.owner == c.owner && l.forced.reason == c.reason):
		a := l.shown("OK", now)
		a.Replayed = true
		return a
	case same != nil:
		// it ended an earlier lease, or its delay was ended since: what is there now is neither touched nor shown
		return outcome{Code: "OK", Replayed: true, At: written(now), Phase: "RELEASED", Metadata: labels(nil)}
	case l == nil:
		return outcome{Code: "LOCK_NOT_HELD", At: written(now)}
	case l.closed(now) && c.lease == "": // no one holds it: what closes it ends
		l.opened = &c
		o.forces = append(o.forces, c)
		a := l.shown("OK", now)
		a.Phase, a.Released, a.Forced = "RELEASED", written(now), c.owner+": "+c.reason+" at "+written(now)
		return a
	case !l.active(now):
		return l.shown("LOCK_NOT_HELD", now)
	case c.lease != "" && c.lease != l.by.lease:
		return outcome{Code: "LEASE_LOST", At: written(now)}
	}
	l.forced, l.released = &c, now
	o.forces = append(o.forces, c)
	return l.shown("OK", now)
}
