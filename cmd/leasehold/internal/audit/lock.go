package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// How a lease ended.
const (
	Released = "released"
	GivenUp  = "given up" // its request was
	Forced   = "forced"   // by an administrator
	Expired  = "expired"
	Replaced = "replaced" // by the next one, both acquired with replace; or the event of its end is missing
	TooLate  = "too late" // it was over before its holder learned of it, who did not work under it
	Unknown  = ""         // no event says
)

// Lease is what events say of one lease of a lock.
type Lease struct {
	Owner        string         `json:"owner"`
	FencingToken int64          `json:"fencing_token"`
	Lease        string         `json:"lease,omitempty"` // see contracts.AuditEvent
	Mode         string         `json:"mode,omitempty"`
	Permit       int64          `json:"permit,omitempty"`
	GrantedAt    contracts.Time `json:"granted_at,omitempty"` // empty if no event says
	InLine       bool           `json:"in_line,omitempty"`    // it was handed over
	TookOver     bool           `json:"took_over,omitempty"`  // the lease before had expired

	// ExpiresAt is when it would have ended, had it never been renewed.
	ExpiresAt contracts.Time `json:"expires_at,omitempty"`

	// EndedAt is when it ended. If it expired and an event of the next lease is all that tells, it is when that was
	// granted: the lease had ended by then.
	EndedAt contracts.Time `json:"ended_at,omitempty"`
	Ended   string         `json:"ended,omitempty"`
	EndedBy string         `json:"ended_by,omitempty"` // who ended it, if that was not its owner
	Reason  string         `json:"reason,omitempty"`   // in the words of who did

	NextOwner string `json:"next_owner,omitempty"` // whose lease could only begin when it had ended
	NextToken int64  `json:"next_token,omitempty"`

	Events []string `json:"events"` // the IDs of the events that say so

	from, expires, ended time.Time // zero if unknown
	exact                bool      // ended is when it ended; else it had ended by then
}

// Holder is a lease that was held at a time.
type Holder struct {
	Lease

	// Certain is false if it was held only if it was renewed until then: renewals are no events.
	Certain bool `json:"certain"`
}

// Answer says who had a lock at a time.
type Answer struct {
	TenantID string         `json:"tenant_id"`
	LockKey  string         `json:"lock_key"`
	At       contracts.Time `json:"at"`
	Holders  []Holder       `json:"holders"` // by token; several of a lock with other modes than exclusive
	Before   *Lease         `json:"before,omitempty"`
	After    *Lease         `json:"after,omitempty"` // the leases before and after, if no one had it for certain

	Events int            `json:"events"`          // about this lock
	First  contracts.Time `json:"first,omitempty"` // the earliest and the latest of all events that were read: what lies
	Last   contracts.Time `json:"last,omitempty"`  // outside is not known

	Broken      []Broken `json:"broken,omitempty"` // the first of what could not be read
	BrokenLines int      `json:"broken_lines,omitempty"`
}

// At says who had the lock at a time.
func (l *Log) At(at time.Time) Answer {
	a := Answer{TenantID: l.Tenant, LockKey: l.Key, At: stamp(at), Holders: []Holder{}, Events: len(l.Events),
		First: l.first, Last: l.last, Broken: l.Broken, BrokenLines: l.BrokenLines}
	certain, later := false, false
	for _, one := range l.leases() {
		later = later || one.from.After(at) // and all that follow
		switch held, sure := one.heldAt(at); {
		case held && !later:
			a.Holders = append(a.Holders, Holder{one, sure})
			certain = certain || sure
		case !later:
			a.Before = &one
		case a.After == nil:
			a.After = &one
		}
	}
	if certain {
		a.Before, a.After = nil, nil
	}
	return a
}

// heldAt reports whether the lease was held at a time that is not before it, and whether that is certain.
func (l *Lease) heldAt(at time.Time) (held, certain bool) {
	switch {
	case l.Ended == TooLate, !l.ended.IsZero() && !at.Before(l.ended):
		return false, false
	case l.from.IsZero():
		return !l.ended.IsZero(), false
	case l.exact, at.Before(l.expires):
		return true, true
	default:
		return l.Mode != string(contracts.LockModeRate), false
	}
}

// about reports whether an event is about a lease of a lock.
func about(e contracts.AuditEvent, tenant, key string) bool {
	return e.Kind == "lock" && e.Tenant == tenant && e.Key == key && e.FencingToken != 0 &&
		(e.Outcome == "ok" || e.Outcome == string(contracts.CodeLeaseExpired))
}

// leases are the leases of the lock that the events know, by token.
func (l *Log) leases() []Lease {
	of := map[int64]*Lease{}
	var all []contracts.AuditEvent // force-releases of all leases
	for _, e := range l.Events {
		one := of[e.FencingToken]
		if one == nil {
			one = &Lease{FencingToken: e.FencingToken}
			of[e.FencingToken] = one
		}
		one.learn(e)
		if e.AllLeases {
			all = append(all, e)
		}
	}
	leases := make([]Lease, 0, len(of))
	for _, one := range of {
		leases = append(leases, *one)
	}
	slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.FencingToken, b.FencingToken) })
	var after later
	for i := range slices.Backward(leases) {
		if next := after.firstExcludedBy(&leases[i]); next != nil {
			leases[i].endBy(next)
		}
		after.add(&leases[i])
	}
	for _, e := range all {
		for i := range leases {
			one, at := &leases[i], when(e.EndedAt)
			if one.FencingToken < e.FencingToken && (one.ended.IsZero() || !one.exact && at.Before(one.ended)) {
				one.end(Forced, e)
			}
		}
	}
	return leases
}

// learn adds what an event says.
func (l *Lease) learn(e contracts.AuditEvent) {
	l.Events = append(l.Events, e.ID)
	l.Owner, l.Lease, l.Mode = cmp.Or(e.Owner, l.Owner), cmp.Or(e.Lease, l.Lease), cmp.Or(e.Mode, l.Mode)
	l.Permit, l.TookOver = cmp.Or(e.Permit, l.Permit), l.TookOver || e.Takeover
	if from := when(e.GrantedAt); !from.IsZero() {
		l.from, l.GrantedAt = from, stamp(from)
	}
	switch e.Action {
	case "lock.acquire", "lock.acquire_set", "lock.hand_over":
		l.InLine = l.InLine || e.Action == "lock.hand_over"
		if e.Outcome != "ok" {
			l.Ended = TooLate
		}
		l.expiry(when(e.ExpiresAt))
	case "lock.release", "lock.release_set":
		l.end(Released, e)
	case "lock.give_up", "lock.give_up_set":
		l.end(GivenUp, e)
	case "lock.force_release":
		l.end(Forced, e)
	}
}

// expiry is a time until which the lease lasted unless it was ended.
func (l *Lease) expiry(at time.Time) {
	if at.After(l.expires) {
		l.expires, l.ExpiresAt = at, stamp(at)
	}
}

// end ends the lease by an event. A lease that had expired by then had ended before.
func (l *Lease) end(how string, e contracts.AuditEvent) {
	if l.exact {
		return // the first to say so did it
	}
	at, exact := when(e.EndedAt), true
	if at.IsZero() { // not remembered when it was replayed
		at, exact = when(e.At), false
	}
	if expired := when(e.ExpiresAt); e.FencingToken == l.FencingToken && !expired.IsZero() && !expired.After(at) {
		how, at, exact = Expired, expired, true
	}
	if !l.ended.IsZero() && !exact && l.ended.Before(at) {
		return
	}
	l.Ended, l.ended, l.exact, l.EndedAt = how, at, exact, stamp(at)
	if l.EndedBy = ""; how == Forced {
		if l.EndedBy = e.Subject; e.Chosen != nil {
			l.Reason = e.Chosen.Reason
			l.EndedBy = cmp.Or(l.EndedBy, e.Chosen.OwnerID)
		}
	}
	if !slices.Contains(l.Events, e.ID) {
		l.Events = append(l.Events, e.ID)
	}
}

// endBy ends the lease by the first later one that excludes it, and names that.
func (l *Lease) endBy(next *Lease) {
	l.NextOwner, l.NextToken = next.Owner, next.FencingToken
	if !l.ended.IsZero() && !l.ended.After(next.from) {
		return
	}
	l.ended, l.EndedAt = next.from, stamp(next.from)
	switch {
	case next.TookOver, !l.expires.IsZero() && !l.expires.After(next.from):
		l.Ended, l.exact = Expired, false
	case !l.expires.IsZero() && next.from.Before(l.expires):
		l.Ended, l.exact, l.EndedBy = Replaced, true, next.Owner
	}
	l.Events = append(l.Events, next.Events[0])
}

// later are the leases that follow one, as far as one of them can be the first that excludes it: a log may have a
// hundred thousand of them.
type later struct {
	next    *Lease           // the first
	other   *Lease           // the first of another mode than that
	permits map[int64]*Lease // the first of each permit
}

// add puts a lease before them. One that is not known to have begun ends no other.
func (l *later) add(one *Lease) {
	if one.from.IsZero() {
		return
	}
	if l.next != nil && l.next.Mode != one.Mode {
		l.other = l.next
	}
	l.next = one
	if one.Mode == string(contracts.LockModePermits) {
		if l.permits == nil {
			l.permits = map[int64]*Lease{}
		}
		l.permits[one.Permit] = one
	}
}

// firstExcludedBy is the first of them that cannot last at the same time as a lease; nil if there is none.
func (l *later) firstExcludedBy(one *Lease) *Lease {
	otherMode := l.next
	if otherMode != nil && otherMode.Mode == one.Mode {
		otherMode = l.other
	}
	switch one.Mode {
	case "", string(contracts.LockModeExclusive):
		return l.next
	case string(contracts.LockModeRate):
		return nil
	case string(contracts.LockModePermits):
		same := l.permits[one.Permit]
		if same == nil || otherMode != nil && otherMode.FencingToken < same.FencingToken {
			return otherMode
		}
		return same
	default:
		return otherMode
	}
}

// when reads a time of an event; zero if it has none.
func when(text contracts.Time) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// stamp is a time as events have it.
func stamp(t time.Time) contracts.Time { return t.UTC().Format(contracts.TimeFormat) }
