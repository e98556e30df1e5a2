package suite

import (
	"maps"
	"time"
)

// oracle says what LS-SPEC-001 demands of one lock. It keeps whole leases in a list, newest last, instead of one document.
type oracle struct {
	leases []*lease
	forced *Step // the latest force-release that took effect
}

// lease is one grant with all that happened to it.
type lease struct {
	owner, request string
	ttl            int64
	metadata       map[string]string
	acquired       time.Time
	expires        time.Time
	renewal        *Step // the latest
	release        *Step // the owner's
	forced         bool
}

// Answer is what a command must return.
type Answer struct {
	Code     string
	Token    int64 // of the caller's lease, if the code is OK
	Expires  time.Time
	Holder   string // if the code is LOCK_HELD
	Replayed bool
}

func (l *lease) ended() bool { return l.release != nil || l.forced }

// active is LS-SPEC-001's ACTIVE: now < expires_at, and not ended.
func (l *lease) active(now time.Time) bool { return !l.ended() && now.Before(l.expires) }

func (o *oracle) latest() *lease {
	if len(o.leases) == 0 {
		return nil
	}
	return o.leases[len(o.leases)-1]
}

// token is LS-ACQ-003: the first lease has token 1, each later one the next.
func (o *oracle) token() int64 { return int64(len(o.leases)) }

func (o *oracle) answer(s Step, token int64, now time.Time) Answer {
	switch s.Do {
	case "acquire":
		return o.acquire(s, now)
	case "renew":
		return o.renew(s, token, now)
	case "release":
		return o.release(s, token, now)
	default:
		return o.force(s, now)
	}
}

func (o *oracle) acquire(s Step, now time.Time) Answer {
	if l := o.latest(); l != nil && l.active(now) {
		same := l.owner == s.Owner && l.request == s.Request
		switch {
		case same && l.ttl == s.TTL && maps.Equal(l.metadata, s.Metadata): // LS-ACQ-004
			return Answer{Code: "OK", Token: o.token(), Expires: l.expires, Replayed: true}
		case same:
			return Answer{Code: "REQUEST_ID_REUSED"}
		default: // LS-ACQ-001, LS-INV-001
			return Answer{Code: "LOCK_HELD", Holder: l.owner, Expires: l.expires}
		}
	}
	l := &lease{owner: s.Owner, request: s.Request, ttl: s.TTL, metadata: s.Metadata, acquired: now}
	l.expires = now.Add(time.Duration(s.TTL) * time.Second)
	o.leases = append(o.leases, l) // LS-ACQ-002, LS-INV-002
	return Answer{Code: "OK", Token: o.token(), Expires: l.expires}
}

// refusal says why the lease with the token is not the owner's to change, or "" (LS-INV-003, LS-INV-004).
func (o *oracle) refusal(owner string, token int64, now time.Time) string {
	l := o.latest()
	switch {
	case l == nil || token != o.token():
		return "LEASE_LOST"
	case l.owner != owner:
		return "NOT_OWNER"
	case l.ended():
		return "LEASE_RELEASED"
	case !l.active(now):
		return "LEASE_EXPIRED"
	}
	return ""
}

func (o *oracle) renew(s Step, token int64, now time.Time) Answer {
	if code := o.refusal(s.Owner, token, now); code != "" {
		return Answer{Code: code}
	}
	l := o.latest()
	if l.renewal != nil && l.renewal.Request == s.Request { // LS-RNW-003
		if l.renewal.TTL != s.TTL {
			return Answer{Code: "REQUEST_ID_REUSED"}
		}
		return Answer{Code: "OK", Token: token, Expires: l.expires, Replayed: true}
	}
	l.renewal = &s
	l.expires = now.Add(time.Duration(s.TTL) * time.Second) // LS-RNW-002
	return Answer{Code: "OK", Token: token, Expires: l.expires}
}

func (o *oracle) release(s Step, token int64, now time.Time) Answer {
	code := o.refusal(s.Owner, token, now)
	if code == "" {
		l := o.latest()
		l.release = &s // LS-REL-002
		return Answer{Code: "OK", Token: token, Expires: l.expires}
	}
	if token >= 1 && token <= o.token() { // LS-REL-003, for the last 8 releases of different tokens modulo 8
		l := o.leases[token-1]
		if l.release != nil && l.owner == s.Owner && l.release.Request == s.Request && !o.forgotten(token) {
			a := Answer{Code: "OK", Token: token, Replayed: true}
			if token == o.token() {
				a.Expires = l.expires
			}
			return a
		}
	}
	return Answer{Code: code}
}

// forgotten reports whether a later release took the place of the token's.
func (o *oracle) forgotten(token int64) bool {
	for t := token + 8; t <= o.token(); t += 8 {
		if o.leases[t-1].release != nil {
			return true
		}
	}
	return false
}

func (o *oracle) force(s Step, now time.Time) Answer {
	if f := o.forced; f != nil && f.Request == s.Request {
		if f.Owner == s.Owner {
			return Answer{Code: "OK", Token: o.token(), Expires: o.latest().expires, Replayed: true}
		}
		return Answer{Code: "REQUEST_ID_REUSED"}
	}
	l := o.latest()
	if l == nil || !l.active(now) {
		return Answer{Code: "LOCK_NOT_HELD"}
	}
	l.forced = true
	o.forced = &s
	return Answer{Code: "OK", Token: o.token(), Expires: l.expires}
}
