package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// The kinds of things that leases are of, as events have them.
const (
	Lock      = "lock"
	Run       = "run"
	Analysis  = "analysis"
	MachineID = "machine_ids"
	Identity  = "activation"
)

// Thing is what leases are of.
type Thing struct {
	Kind      string
	Tenant    string // analyses and machine IDs have none
	Key       string // as events have it: of a machine ID the service
	Cluster   string // of an identity
	MachineID *int64
}

// in reports whether an event is about a lease of the thing.
func (t Thing) in(e *contracts.AuditEvent) bool {
	if e.Kind != t.Kind || e.Key != t.Key || e.Tenant != t.Tenant || e.Cluster != t.Cluster {
		return false
	}
	switch {
	case t.Kind == MachineID:
		return e.Outcome == "ok" && !e.Replayed && t.MachineID != nil && slices.Contains(e.MachineIDs, *t.MachineID)
	case e.FencingToken == 0:
		return false
	default: // a run that a queue delivered has an event whatever came of it
		return e.Outcome == "ok" || e.Outcome == string(contracts.CodeLeaseExpired) || e.Action == deliver
	}
}

// deliver is the action of a run that a queue asked for, from its begin to its end.
const deliver = "task.deliver"

// How a lease ended.
const (
	Released   = "released"
	Finished   = "finished" // a run: with a result, or for good without one
	Failed     = "failed"   // a run, which may begin again; an activation
	GivenUp    = "given up" // its request was
	Forced     = "forced"   // by an administrator
	Expired    = "expired"
	HandedOver = "handed over" // an identity, by its member to the next one
	TakenOver  = "taken over"  // an identity, whose member had gone by then
	Replaced   = "replaced"    // by the next one, both acquired with replace
	TooLate    = "too late"    // it was over before its holder learned of it, who did not work under it
	Unknown    = ""            // no event says
)

// Lease is what events say of one lease.
type Lease struct {
	contracts.RecordedLease

	order                int64     // its place among the leases of the thing
	nth                  int       // of those that are known
	from, expires, ended time.Time // zero if unknown
	exact                bool      // ended is when it ended; else it had ended by then
	given                bool      // by the owner before
	replaced             bool      // it ended the lease before
}

// Answer says who had something at a time.
type Answer struct {
	contracts.LeaseHistory

	Chain  Chain    `json:"chain"`            // which of the events are whole
	Broken []Broken `json:"broken,omitempty"` // the first of what could not be read
}

// answer is what is known of the thing without its leases.
func (l *Log) answer() Answer {
	t, chain := l.About, l.chain.judge().chain
	if chain.LeftOff = max(0, len(chain.Stretches)-mostStretches); chain.LeftOff > 0 {
		chain.Stretches = chain.Stretches[:mostStretches]
	}
	return Answer{contracts.LeaseHistory{
		Kind: t.Kind, TenantID: t.Tenant, Key: t.Key, Cluster: t.Cluster, MachineID: t.MachineID,
		Holders: []contracts.RecordedLease{}, Events: int64(len(l.evidence())), First: l.first, Last: l.last,
		BrokenLines: int64(l.BrokenLines),
	}, chain, l.Broken}
}

// evidence are the events about the thing without those that are not as they were written, and, where events are in
// streams, without those that are in none.
func (l *Log) evidence() []contracts.AuditEvent {
	if len(l.places) != len(l.Events) || len(l.chain.of) == 0 {
		return l.Events
	}
	var events []contracts.AuditEvent
	no := l.chain.judge().false
	for i, place := range l.places {
		if place.stream != 0 && !no[place] {
			events = append(events, l.Events[i])
		}
	}
	return events
}

// All says who had it, from the first event to the last.
func (l *Log) All() Answer {
	a, leases := l.answer(), l.leases()
	a.Leases = make([]contracts.RecordedLease, len(leases))
	for i := range leases {
		a.Leases[i] = leases[i].RecordedLease
	}
	return a
}

// At says who had it at a time.
func (l *Log) At(at time.Time) Answer {
	a, chain := l.answer(), l.chain.judge()
	a.At = stamp(at)
	certain, later := false, false
	var free time.Time // since when it may be that no one had it
	for _, one := range l.leases() {
		later = later || one.from.After(at) // and all that follow
		held, sure := one.heldAt(at, l.About.Kind)
		sure = sure && (one.exact || !chain.doubt(one.from, at))
		switch {
		case held && !later:
			one.Certain = &sure
			a.Holders = append(a.Holders, one.RecordedLease)
			certain = certain || sure
		case !later:
			a.Before = &one.RecordedLease
			if free = one.ended; free.After(at) || free.IsZero() {
				free = one.from
			}
		case a.After == nil:
			a.After = &one.RecordedLease
		}
	}
	if certain {
		a.Before, a.After = nil, nil
	}
	a.Unknown = len(a.Holders) == 0 && chain.doubt(free, at)
	return a
}

// heldAt reports whether the lease was held at a time that is not before it, and whether that is certain.
func (l *Lease) heldAt(at time.Time, kind string) (held, certain bool) {
	switch {
	case l.Ended == TooLate, !l.ended.IsZero() && !at.Before(l.ended):
		return false, false
	case l.from.IsZero():
		return !l.ended.IsZero(), false
	case l.exact, at.Before(l.expires):
		return true, true
	default: // no lease of a rate or of a machine ID is renewed
		return l.Mode != string(contracts.LockModeRate) && kind != MachineID, false
	}
}

// order is the place of an event among the leases of a thing: that of the lease that it names, by its fencing token, or
// by its first timestamp where there are no tokens. What ends all leases is behind those.
func (t Thing) order(e *contracts.AuditEvent) (place int64, ofLease bool) {
	if t.Kind != MachineID {
		return e.FencingToken, true
	}
	if from := when(e.GrantedAt); !from.IsZero() {
		return from.UnixNano(), true
	}
	return ending(e).UnixNano(), false
}

// ending is when an event ended leases: its own time if it does not say.
func ending(e *contracts.AuditEvent) time.Time {
	if at := when(e.EndedAt); !at.IsZero() {
		return at
	}
	return when(e.At)
}

// leases are the leases of the thing that the events know, in their order.
func (l *Log) leases() []Lease {
	of := map[int64]*Lease{}
	var all []endOfAll
	events := l.evidence()
	for i := range events {
		e := &events[i]
		place, ofLease := l.About.order(e)
		if ofLease {
			one := of[place]
			if one == nil {
				one = &Lease{RecordedLease: contracts.RecordedLease{FencingToken: e.FencingToken}, order: place}
				of[place] = one
			}
			one.learn(*e)
		}
		if e.AllLeases || !ofLease {
			all = append(all, endOfAll{place, ending(e), e})
		}
	}
	leases := make([]Lease, 0, len(of))
	for _, one := range of {
		leases = append(leases, *one)
	}
	slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.order, b.order) })
	slices.SortStableFunc(all, func(a, b endOfAll) int { return cmp.Compare(b.place, a.place) })
	var after later
	var first *endOfAll // of those behind the lease
	for i := range slices.Backward(leases) {
		one := &leases[i]
		one.nth = i
		if next := after.firstExcludedBy(one); next != nil {
			// No lease lies between two if their tokens follow each other, or all tokens between are those of leases.
			follows := next.order-one.order == int64(next.nth-i)
			one.endBy(next, l.About.Kind, follows, !l.chain.judge().doubt(one.from, next.from))
		}
		after.add(one)
		for ; len(all) > 0 && all[0].place > one.order; all = all[1:] {
			if first == nil || all[0].at.Before(first.at) {
				first = &all[0]
			}
		}
		if first != nil && (one.ended.IsZero() || !one.exact && first.at.Before(one.ended)) {
			one.end(Forced, *first.event)
		}
		if l.About.Kind == MachineID {
			one.endAtExpiry(when(l.last))
		}
	}
	return leases
}

// endOfAll is the end of all leases before a place.
type endOfAll struct {
	place int64
	at    time.Time
	event *contracts.AuditEvent
}

// cite names an event, which is the latest if it was named before.
func (l *Lease) cite(id string) {
	if n := len(l.Events); n == 0 || l.Events[n-1] != id {
		l.Events = append(l.Events, id)
	}
}

// endAtExpiry ends a lease that is never renewed, if that was before a time.
func (l *Lease) endAtExpiry(known time.Time) {
	if !l.expires.IsZero() && (l.ended.IsZero() || l.expires.Before(l.ended)) && !l.expires.After(known) {
		l.Ended, l.ended, l.exact, l.EndedAt = Expired, l.expires, true, l.ExpiresAt
	}
}

// learn adds what an event says.
func (l *Lease) learn(e contracts.AuditEvent) {
	l.cite(e.ID)
	l.Owner, l.Lease, l.Mode = cmp.Or(e.Owner, l.Owner), cmp.Or(e.Lease, l.Lease), cmp.Or(e.Mode, l.Mode)
	l.Permit, l.TookOver = cmp.Or(e.Permit, l.Permit), l.TookOver || e.Takeover
	l.Incarnation = cmp.Or(e.Incarnation, l.Incarnation)
	l.Runs, l.Failures, l.Result = cmp.Or(e.Runs, l.Runs), max(e.Failures, l.Failures), cmp.Or(e.Result, l.Result)
	l.TakenFrom, l.replaced = cmp.Or(l.TakenFrom, e.TakenFrom), l.replaced || e.Replaced
	if from := when(e.GrantedAt); !from.IsZero() {
		l.from, l.GrantedAt = from, stamp(from)
	}
	switch e.Action {
	case "run.begin", "analysis.lock", "machine_ids.lease":
		l.asked(e)
		l.expiry(when(e.ExpiresAt))
	case "placement.claim", "placement.takeover":
		l.asked(e)
		l.Epoch = cmp.Or(e.Epoch, l.Epoch)
	case "placement.transfer":
		l.Epoch, l.given = cmp.Or(e.Epoch, l.Epoch), true
	case "run.finish", "analysis.finish":
		l.end(Finished, e)
	case "run.give_up", "analysis.give_up":
		l.end(GivenUp, e)
	case "placement.fail":
		l.end(Failed, e)
	case "machine_ids.release", "placement.deactivate":
		l.end(Released, e)
	case "run.release", "analysis.release":
		if e.Result == Failed {
			l.end(Failed, e)
		} else {
			l.end(Released, e)
		}
	case deliver:
		l.asked(e)
		if how := delivered[e.Result]; how != Unknown {
			l.end(how, e)
		}
	case "lock.acquire", "lock.acquire_set", "lock.hand_over":
		if e.Action != "lock.hand_over" {
			l.asked(e)
		}
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

// delivered is how a run ended, by what became of its delivery.
var delivered = map[string]string{
	"ready": Finished, "failed": Finished, "attempt_failed": Failed, "stopped": Released,
}

// asked says where the request for the lease came from.
func (l *Lease) asked(e contracts.AuditEvent) {
	if l.Remote == "" || !e.Replayed {
		l.Remote, l.TokenID = e.Remote, e.TokenID
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
	l.cite(e.ID)
}

// endBy ends the lease by the first later one that excludes it, and names that. How it ended is said if the event of
// the next one says so, and that one came next for certain; or if the lease had expired by then, and no event is
// missing. Otherwise it is unknown: the event of its end may be missing, and that of a lease in between.
func (l *Lease) endBy(next *Lease, kind string, follows, whole bool) {
	l.NextOwner, l.NextToken = next.Owner, next.FencingToken
	if !l.ended.IsZero() && !l.ended.After(next.from) {
		return
	}
	l.ended, l.EndedAt = next.from, stamp(next.from)
	switch {
	case kind == Identity && !whole && next.TakenFrom != l.Owner:
		l.Ended, l.exact = Unknown, false
	case kind == Identity && next.given:
		l.Ended, l.exact = HandedOver, true
	case kind == Identity:
		l.Ended, l.exact = TakenOver, false
	case follows && next.TookOver, whole && !l.expires.IsZero() && !l.expires.After(next.from):
		l.Ended, l.exact = Expired, false
	case follows && next.replaced:
		l.Ended, l.exact, l.EndedBy = Replaced, true, next.Owner
	case kind != Lock: // the event of its end is missing
		l.Ended, l.exact = Unknown, false
	}
	l.cite(next.Events[0])
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
