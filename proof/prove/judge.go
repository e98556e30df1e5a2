package prove

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/rule"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// invariant is a promise that a history must keep.
type invariant uint8

const (
	oneHolder    invariant = iota // by what the clients know
	oneLease                      // by what the store granted
	tokensRise                    //
	fenceHolds                    //
	onceOnly                      //
	idsDisjoint                   //
	sameAnswer                    //
	wrongAnswer                   //
	freeGranted                   //
	keptWhileDue                  //
	noneIsPassed                  //
	allEnds                       //
	invariants
)

// Promise is a promise of Leasehold, in words.
type Promise struct {
	Name  string `json:"name"`
	Words string `json:"words"`
}

// Promises are what histories are judged by. The first eight are about safety, the others about obtainability.
var Promises = [invariants]Promise{
	oneHolder:    {"one holder", "no more clients hold a lock or a run, each by its own clocks, than may"},
	oneLease:     {"one lease", "nothing is granted while a lease on it lasts that was granted before"},
	tokensRise:   {"tokens rise", "each grant has a higher fencing token than all before it"},
	fenceHolds:   {"fence", "a fence lets no token pass that is older than one that it let pass"},
	onceOnly:     {"once", "a run is finished once, and all callers get the same result"},
	idsDisjoint:  {"machine IDs", "no machine ID and millisecond belongs to two clients"},
	sameAnswer:   {"same answer", "a request that is sent again gets the lease that it got before, and no other"},
	wrongAnswer:  {"sound answer", "every answer is one that the request can have"},
	freeGranted:  {"free is granted", "what is free is granted to the request that asks for it"},
	keptWhileDue: {"kept while it lasts", "a lease that lasts can be renewed and ended by its holder"},
	noneIsPassed: {"none is passed over", "who waits in line is served before those who came later"},
	allEnds:      {"all ends", "once faults are over, every client gets what it asks for in time"},
}

// Violation is a promise that a history broke.
type Violation struct {
	Promise
	Thing string `json:"thing"` // the lock, the run or the space of machine IDs that it is about
	What  string `json:"what"`
	AtMs  int64  `json:"at_ms"` // of virtual time
}

// String is the promise and how it was broken.
func (v *Violation) String() string { return v.Name + ": " + v.What }

// thing is what is leased, as the judge knows it from what was granted and answered.
type thing struct {
	copies []settled // of the kind latest: what comes again is one
	name   string
	kind   kind
	leases []granted // those that may last
	top    int64     // the highest token that was granted
	passed int64     // the highest token that the fence let pass
	asked  []asked   // the requests for it
	result string    // of a run that has finished
	ended  bool      // it has finished
	grants int       // how many there were
	given  int       // how many requests were given up
	gone   bool      // its record may be gone
	lost   bool      // it was, and something was granted since
	kept   int64     // of a run: until when its record is kept at least, see rig.looks
	back   int64     // the token of the lease that had ended last, and was renewed when the store's clock was set back
	unsure int64     // of machine IDs: until then one may be held whose grant had no outcome
}

// granted is a lease that the store granted.
type granted struct {
	request string
	token   int64
	ends    int64 // by the store's time; of a machine ID its first timestamp that is free
	span    int64 // for how long it lasts from its grant, or its last renewal, on: one that was handed over is short
	least   int64 // the earliest end that counts, see rig.looks
	most    int64 // the latest end that counts, see rig.refusedAsFree
	over    bool  // it may have ended, see rig.looks
	own     int64 // of a machine ID: the last timestamp that its client made, or may make
	from    int64 // of a machine ID: the first timestamp
	id      int64 // the machine ID
	permit  int64
}

// known is a lease of a thing as [Together] judges it.
func (t *thing) known(g granted) Lease {
	l := Lease{Token: g.token, Holder: g.request, Permit: g.permit, Until: g.ends}
	if t.kind == permits {
		l.Mode, l.Limit = lock.Permits, int64(t.kind.limit())
	}
	return l
}

// asked is a request for a lease, as the store met it.
type asked struct {
	id      string
	token   int64 // that it obtained; 0: none
	since   int64 // when it came to the store first
	set     int   // how often the store's clock had been set then
	first   int64 // the latest since when it can have its place in line
	late    bool  // it was refused because of its end the last time
	placed  int64 // until then it has a place in line; 0: it has none
	listens int64 // until then it is to come again, and its place counts
	handed  bool  // what it obtained was handed over, and it was not told of it
	had     bool  // something was handed over to it
	over    bool  // what it obtained has ended, or it was given up
	gone    bool  // the record that knows it may be
	grants  int   // how many there were with it
	given   int   // how many requests were given up with it
}

// placeStep is how much sooner a place in line may end than the last delivery of its request says, in milliseconds: the
// lock is not written for less.
const placeStep = 3000

// askedKept is how many requests the judge remembers of a thing.
const askedKept = 64

// thing finds what has the name.
func (w *world) thing(q *request) *thing {
	for i := len(w.things) - 1; i >= 0; i-- {
		if w.things[i].name == q.name {
			return &w.things[i]
		}
	}
	w.things = append(w.things, thing{name: q.name, kind: w.scene.keys[q.key], kept: math.MaxInt64})
	return &w.things[len(w.things)-1]
}

// ask finds a request.
func (t *thing) ask(id string, now int64, set int) *asked {
	for i := range t.asked {
		if t.asked[i].id == id {
			return &t.asked[i]
		}
	}
	if len(t.asked) == askedKept {
		t.asked = slices.Delete(t.asked, 0, 1)
	}
	t.asked = append(t.asked, asked{id: id, since: now, first: now, set: set})
	return &t.asked[len(t.asked)-1]
}

// lease finds a lease by its token.
func (t *thing) lease(token int64) *granted {
	i := slices.IndexFunc(t.leases, func(g granted) bool { return g.token == token })
	if i < 0 {
		return nil
	}
	return &t.leases[i]
}

// drop forgets a lease that has ended.
func (t *thing) drop(token int64) {
	t.leases = slices.DeleteFunc(t.leases, func(g granted) bool { return g.token == token })
	for i := range t.asked {
		switch a := &t.asked[i]; {
		case a.token != token:
		case a.handed: // it has its place again
			a.token, a.handed = 0, false
		default:
			a.over = true
		}
	}
}

// leave forgets the lease of a request that is given up. One that had ended when the store's clock was ahead is closed
// again, to those who ask, if the clock is set back: no one holds it, and it ends in its time.
func (t *thing) leave(a *asked) {
	if g := t.lease(a.token); a.token != 0 && (g == nil || !g.over) {
		t.drop(a.token)
	}
}

// breakf notes the first promise that was broken.
func (r *rig) breakf(i invariant, thing, format string, args ...any) {
	if r.w.broken == nil && r.promised(i) {
		r.w.broken = &Violation{Promises[i], thing, fmt.Sprintf(format, args...), r.w.now}
	}
}

// judged counts a judgement.
func (r *rig) judged(i invariant) {
	if r.promised(i) {
		r.count.judged[i]++
	}
}

// promised reports whether something is promised by a store of the scene.
func (r *rig) promised(i invariant) bool { return !r.scene.older || i == tokensRise || i == allEnds }

// twice is the promise that is broken by a token that is granted to two requests.
func (r *rig) twice() invariant {
	if r.scene.older {
		return tokensRise
	}
	return oneLease
}

// ms is a time of the store in milliseconds of the world.
func ms(t time.Time) int64 { return t.Sub(epoch).Milliseconds() }

// storeNow is the time of the store.
func (r *rig) storeNow() int64 { return r.w.now + r.w.store }

// looks notes that a command looks at a thing. Where the store's clock is set, an end may count from any look: a lease
// may have ended once a look is later than another one by as long as it lasts, or than its grant; and then it stays so,
// also if the clock is set back. Before that it lasts, wherever the clock was. By the clocks of its holder it is over
// then, unless the store's clock was set forward meanwhile.
func (r *rig) looks(t *thing) {
	if r.scene.steps == 0 {
		return
	}
	now := r.storeNow()
	if t.kept = min(t.kept, now+keepRun); t.kind == aRun && t.kept <= now { // it may be gone, with all that it knows
		t.gone = true
		for i := range t.asked {
			t.asked[i].gone = true
		}
	}
	for i := range t.leases {
		g := &t.leases[i]
		g.least = min(g.least, now+g.span)
		g.over = g.over || g.least <= now
	}
}

// keepRun is for how long the record of a run is kept at least from its last change on, in milliseconds.
const keepRun = runs.DefaultKeepSeconds * 1000

// lastsUntil notes that a lease was granted or renewed, or that its end was told to its holder, who counts from there.
func (r *rig) lastsUntil(g *granted, until int64) {
	g.ends, g.least, g.most, g.over = until, until, until, false
	if r.scene.steps > 0 {
		now := r.storeNow()
		g.span = max(g.span, min(until-now, r.scene.ttl*1000))
		g.least = min(until, now+g.span)
	}
}

// mayLast reports whether a lease may last at the store's time now.
func (r *rig) mayLast(g *granted, now int64) bool {
	if r.scene.steps > 0 {
		return !g.over
	}
	return g.ends > now
}

// certainlyLasts reports whether a lease lasts at the store's time now, whatever the clocks of servers show.
func (r *rig) certainlyLasts(g *granted, now int64) bool { return r.mayLast(g, now+2*r.scene.skew) }

// forgot reports whether what is leased may have forgotten a request: it remembers the last [rule.Remembered] that were
// granted, and as many that were given up.
func (t *thing) forgot(a *asked) bool {
	if a.gone {
		return true
	}
	if a.token != 0 {
		return t.grants-a.grants >= rule.Remembered
	}
	return t.given-a.given >= rule.Remembered
}

// grant judges a lease that the store has granted at its time now.
func (r *rig) grant(t *thing, id string, token, permit, now, ends int64) {
	r.judged(oneLease)
	r.judged(tokensRise)
	given := granted{request: id, token: token, permit: permit}
	r.lastsUntil(&given, ends)
	var room [4]Lease
	beside := append(room[:0], t.known(given))
	for _, g := range t.leases {
		if r.mayLast(&g, now) {
			beside = append(beside, t.known(g))
		}
	}
	if err := Together(beside...); err != nil {
		r.breakf(oneLease, t.name, "the store granted token %d at %s, and other leases last: %v", token, clock(now), err)
	}
	if token <= t.top {
		r.breakf(tokensRise, t.name, "token %d was granted after token %d", token, t.top)
	}
	if t.ended && !t.gone {
		r.breakf(onceOnly, t.name, "the run was begun again under token %d, and it has finished", token)
	}
	t.lost = t.lost || t.gone
	t.ended, t.gone = false, false
	t.top = max(t.top, token)
	var over []int64
	for _, g := range t.leases {
		switch {
		case r.scene.steps == 0 && g.ends <= now-2*r.scene.skew, // certainly
			r.scene.steps > 0 && g.over && (token-g.token > 8 || Together(t.known(g), t.known(given)) != nil):
			over = append(over, g.token)
		}
	}
	for _, token := range over {
		t.drop(token)
	}
	t.leases = append(slices.Clip(t.leases), given)
	a := t.ask(id, now, r.w.set)
	if (a.over || r.scene.steps > 0 && a.token != 0) && t.forgot(a) {
		*a = asked{id: id, since: a.since, set: a.set, first: now} // its place in line it may have kept
	}
	r.judged(sameAnswer)
	if g := t.lease(a.token); a.handed && (g == nil || !r.certainlyLasts(g, now)) {
		a.token, a.handed = 0, false // it did not claim that in time
	}
	switch {
	case a.token != 0 && a.token != token:
		r.breakf(sameAnswer, t.name, "request %s got token %d, and before that token %d", id, token, a.token)
	case a.over:
		r.breakf(sameAnswer, t.name, "request %s was given up, or what it got has ended, and it got token %d", id, token)
	}
	if t.kind.lines() {
		r.judged(noneIsPassed)
		for _, o := range t.asked {
			waits := o.placed != 0 && o.placed > now && o.listens > now && o.token == 0 && !o.over
			if o.id != id && waits && o.first < a.since && o.set == r.w.set && a.set == r.w.set {
				r.breakf(noneIsPassed, t.name, "request %s got the lock, and request %s came before it and waits in line", id,
					o.id)
			}
		}
	}
	t.grants++
	a.token, a.placed, a.listens, a.grants, a.gone = token, 0, 0, t.grants, false
}

// refusedAgain judges the refusal of a request that may have had its lease before.
func (r *rig) refusedAgain(t *thing, a *asked, now int64, code, detail string) {
	r.judged(sameAnswer)
	if a.token == 0 || a.over {
		return
	}
	if g := t.lease(a.token); g != nil && r.certainlyLasts(g, now) {
		r.breakf(sameAnswer, t.name, "request %s got token %d, which lasts until %s; sent again it was refused: %s %s", a.id,
			a.token, clock(g.ends), code, detail)
	}
}

// endTolerance is how much further ahead than it can be an end may lie and still count, in milliseconds.
const endTolerance = 1000

// isFree reports whether something could be granted at the store's time now.
func (t *thing) isFree(now int64) bool {
	n := 0
	for _, g := range t.leases {
		if g.most > now {
			n++
		}
	}
	return n < t.kind.limit()
}

// acquired judges the outcome of an acquire of a lock.
func (r *rig) acquired(q *request, c lock.Acquire, o lock.Outcome) {
	t := r.w.thing(q)
	now := ms(o.At)
	r.looks(t)
	a := t.ask(q.id, now, r.w.set)
	if o.Code == lock.OK {
		r.lasts(t, q.id, now, ms(o.Lease.ExpiresAt))
	}
	switch o.Code {
	case lock.OK, lock.LeaseExpired:
		r.replaces(t, q, o)
		switch known := t.lease(o.Lease.Token); {
		case known != nil && known.request != q.id:
			r.breakf(r.twice(), t.name, "request %s was answered with token %d, which request %s got", q.id, o.Lease.Token,
				known.request)
		case known != nil || o.Code == lock.LeaseExpired && a.token != 0:
			if r.judged(sameAnswer); known != nil && o.Code == lock.OK { // it claims what was handed over: that ends otherwise
				r.lastsUntil(known, ms(o.Lease.ExpiresAt))
				t.ask(q.id, now, r.w.set).handed = false
			}
		case !o.Replayed || r.again:
			r.handOver(t, o.Lease.Token)
			r.grant(t, q.id, o.Lease.Token, r.permitOf(t, o.Lease), now, ms(o.Lease.ExpiresAt))
		default:
			r.breakf(sameAnswer, t.name, "request %s was answered with token %d, whose lease has ended or never was", q.id,
				o.Lease.Token)
		}
	case lock.Held:
		if a.late && a.placed == 0 { // it was refused because of its end before: only now it has come
			a.first = max(a.first, now)
		}
		a.late = false
		r.refusedAgain(t, a, now, string(o.Code), o.Detail)
		r.handOver(t, math.MaxInt64) // to those who had a place before it
		if a = t.ask(q.id, now, r.w.set); o.Position > 0 {
			if a.placed == 0 && now > a.first+lock.PlaceTime.Milliseconds() || a.placed != 0 && now >= a.placed {
				a.first, a.set = now, r.w.set // it may have come too late for its place, and have another one
			}
			a.placed = now + waitSeconds*1000 + lock.PlaceTime.Milliseconds() - placeStep
			a.listens = now + c.PollAfter(o, 0).Milliseconds()
		}
	case lock.TooLate, lock.TooFar:
		a.late = true
		r.judged(wrongAnswer)
		if late := ms(q.until); o.Code == lock.TooLate && late >= now {
			r.breakf(wrongAnswer, t.name, "request %s ended at %s, and at %s it was too late", q.id, clock(late), clock(now))
		}
	case lock.RequestIDReused:
		r.refusedAgain(t, a, now, string(o.Code), o.Detail)
		if r.judged(wrongAnswer); a.token == 0 && !a.over && !a.had {
			r.breakf(wrongAnswer, t.name, "request %s is refused as used before, and it never got anything", q.id)
		}
	case lock.ModeDiffers:
		if back := func(g granted) bool { return g.over || g.token == t.back }; t.kind == permits && r.scene.steps > 0 &&
			slices.ContainsFunc(t.leases, back) {
			break // what ended while the clock was ahead comes back in plain form
		}
		fallthrough
	default:
		r.breakf(wrongAnswer, t.name, "request %s was refused: %s %s", q.id, o.Code, o.Detail)
	}
	r.handOver(t, math.MaxInt64)
	if o.Code == lock.Held {
		r.refusedToReplace(t, q, o)
		r.refusedAsFree(t, q.id, now)
	}
}

// permitOf is the permit of a lease. A grant that came too late does not tell it: then it is the lowest that is left.
func (r *rig) permitOf(t *thing, l lock.Lease) int64 {
	if t.kind != permits || l.Permit > 0 {
		return l.Permit
	}
	for permit := int64(1); ; permit++ {
		has := func(g granted) bool { return g.permit == permit && r.mayLast(&g, r.storeNow()) }
		if !slices.ContainsFunc(t.leases, has) {
			return permit
		}
	}
}

// lasts judges that a lease which a request is answered with has not ended.
func (r *rig) lasts(t *thing, id string, now, ends int64) {
	if r.judged(wrongAnswer); ends <= now {
		r.breakf(wrongAnswer, t.name, "request %s was answered at %s with a lease that ended at %s", id, clock(now),
			clock(ends))
	}
}

// handOver judges the leases that a command granted to others, those with tokens below one.
func (r *rig) handOver(t *thing, below int64) {
	for len(r.handed) > 0 && r.handed[0].Lease.Token < below {
		h := r.handed[0]
		r.handed = r.handed[1:]
		r.grant(t, h.Lease.LeaseID, h.Lease.Token, h.Lease.Permit, ms(h.At), ms(h.Lease.ExpiresAt))
		a := t.ask(h.Lease.LeaseID, ms(h.At), r.w.set)
		a.handed, a.had = true, true
	}
}

// refusedAsFree judges a refusal because something is held, after what the command handed over is known.
func (r *rig) refusedAsFree(t *thing, id string, now int64) {
	r.judged(freeGranted)
	own := t.lease(t.ask(id, now, r.w.set).token) // it was handed over, and not claimed in time: that ends first
	if t.isFree(now-2*r.scene.skew) && (own == nil || own.most <= now-2*r.scene.skew) {
		r.breakf(freeGranted, t.name, "request %s was refused at %s although no lease lasts", id, clock(now))
	}
	if r.scene.steps == 0 {
		return
	}
	for i := range t.leases { // an end further ahead than it can be counts from here
		g := &t.leases[i]
		g.most = min(g.most, now+r.scene.ttl*1000+endTolerance)
	}
}

// renewed judges the outcome of a renewal.
func (r *rig) renewed(q *request, o lock.Outcome) {
	t := r.w.thing(q)
	defer r.handOver(t, math.MaxInt64)
	g, now := t.lease(q.token), ms(o.At)
	r.looks(t)
	switch {
	case o.Code == lock.OK && g == nil:
		r.breakf(oneLease, t.name, "token %d was renewed, and its lease has ended", q.token)
	case o.Code == lock.OK && !o.Replayed && g.most <= r.storeNow()-2*r.scene.skew:
		r.breakf(oneLease, t.name, "token %d was renewed at %s, and its lease had ended at %s", q.token, clock(now),
			clock(g.most))
	case o.Code == lock.OK:
		if r.judged(oneLease); g.over {
			t.back = g.token
		}
		r.lastsUntil(g, ms(o.Lease.ExpiresAt))
	case g != nil && o.Code == lock.LeaseExpired && r.slow > 0 && (r.scene.steps == 0 ||
		ms(o.Lease.ExpiresAt) == r.storeNow()+r.scene.ttl*1000): // it was renewed, and the response came after its end
		r.lastsUntil(g, ms(o.Lease.ExpiresAt))
	case g != nil && o.Code != lock.LeaseChanged && o.Code != lock.TooLate:
		if r.judged(keptWhileDue); r.certainlyLasts(g, now) && r.slow == 0 {
			r.breakf(keptWhileDue, t.name, "the lease of token %d lasts until %s, and its renewal was refused at %s: %s",
				q.token, clock(g.ends), clock(now), o.Code)
		}
	}
}

// released judges the outcome of a release of a lock.
func (r *rig) released(q *request, o lock.Outcome) {
	t := r.w.thing(q)
	defer r.handOver(t, math.MaxInt64)
	g, now := t.lease(q.token), ms(o.At)
	r.looks(t)
	switch {
	case o.Code == lock.OK:
		r.judged(keptWhileDue)
		t.drop(q.token)
	case g != nil:
		if r.judged(keptWhileDue); r.certainlyLasts(g, now) {
			r.breakf(keptWhileDue, t.name, "the lease of token %d lasts until %s, and its release was refused at %s: %s",
				q.token, clock(g.ends), clock(now), o.Code)
		}
	}
}

// gaveUp judges the outcome of giving a request for a lock up.
func (r *rig) gaveUp(q *request, o lock.Outcome) {
	t := r.w.thing(q)
	t.settle(q)
	defer r.handOver(t, math.MaxInt64)
	if o.Code != lock.OK && o.Code != lock.RequestIDReused {
		r.breakf(wrongAnswer, t.name, "request %s could not be given up: %s %s", q.id, o.Code, o.Detail)
		return
	}
	r.looks(t)
	a := t.ask(q.id, ms(o.At), r.w.set)
	t.leave(a)
	t.given++
	a.over, a.placed, a.given, a.gone = true, 0, t.given, false
}

// wrote judges the answer of a fence.
func (r *rig) wrote(q *request, passed bool) {
	t := r.w.thing(q)
	r.judged(fenceHolds)
	switch {
	case passed && q.token < t.passed:
		r.breakf(fenceHolds, t.name, "the fence let token %d pass after token %d", q.token, t.passed)
	case !passed && q.token >= t.passed:
		r.breakf(freeGranted, t.name, "the fence rejected token %d, and none above %d has passed", q.token, t.passed)
	case passed:
		t.passed = q.token
	}
}

// ran judges the outcome of a command on a run.
func (r *rig) ran(q *request, o analysis.Outcome) {
	t := r.w.thing(q)
	now := ms(o.At)
	r.looks(t)
	if o.Code == analysis.OK && !o.Replayed {
		t.kept = r.storeNow() + keepRun
	}
	g := t.lease(q.token)
	switch {
	case q.op == giveUp:
		if a := t.ask(q.id, now, r.w.set); o.Code == analysis.OK || o.Code == analysis.RequestIDReused {
			t.leave(a)
			t.given++
			a.over, a.given, a.gone = true, t.given, false
		}
	case q.op == acquire:
		r.began(t, q, o)
	case o.Code == analysis.OK && q.op == renew:
		if r.judged(oneLease); g == nil {
			r.breakf(oneLease, t.name, "token %d was refreshed, and its lease has ended", q.token)
			return
		}
		if g.most <= r.storeNow()-2*r.scene.skew {
			r.breakf(oneLease, t.name, "token %d was refreshed at %s, and its lease had ended at %s", q.token, clock(now),
				clock(g.most))
		}
		r.lastsUntil(g, ms(o.Grant.ExpiresAt))
	case o.Code == analysis.OK && q.op == finish:
		r.judged(onceOnly)
		result := strconv.FormatInt(q.token, 10)
		if t.ended && t.result != result {
			r.breakf(onceOnly, t.name, "the run was finished with the result %s, and again with %s", t.result, result)
		}
		if !t.ended && g == nil {
			r.breakf(oneLease, t.name, "the run was finished under token %d, whose lease has ended", q.token)
		}
		t.ended, t.result = true, result
		t.drop(q.token)
	case o.Code == analysis.OK: // a release
		t.drop(q.token)
	case g != nil:
		if r.judged(keptWhileDue); r.certainlyLasts(g, now) && r.slow == 0 {
			r.breakf(keptWhileDue, t.name, "the lease of token %d lasts until %s, and %s was refused at %s: %s", q.token,
				clock(g.ends), opNames[q.op], clock(now), o.Code)
		}
	}
}

// began judges the outcome of a request for a run.
func (r *rig) began(t *thing, q *request, o analysis.Outcome) {
	now := ms(o.At)
	a := t.ask(q.id, now, r.w.set)
	switch o.Code {
	case analysis.OK:
		r.lasts(t, q.id, now, ms(o.Grant.ExpiresAt))
		if g := t.lease(o.Grant.Token); g == nil {
			if o.Replayed && !r.again {
				r.breakf(sameAnswer, t.name, "request %s was answered with token %d, which has ended", q.id, o.Grant.Token)
				return
			}
			r.grant(t, q.id, o.Grant.Token, 0, now, ms(o.Grant.ExpiresAt))
		} else if g.request != q.id {
			r.breakf(r.twice(), t.name, "request %s was answered with token %d, which request %s got", q.id, o.Grant.Token,
				g.request)
		} else {
			r.lastsUntil(g, ms(o.Grant.ExpiresAt))
		}
		r.judged(sameAnswer)
	case analysis.Locked:
		r.refusedAgain(t, a, now, string(o.Code), o.Detail)
		r.refusedAsFree(t, q.id, now)
	case analysis.AlreadyFinished:
		lasts := func(g granted) bool { return r.mayLast(&g, now) }
		if o.Grant.Status == analysis.Failed && !t.ended && !slices.ContainsFunc(t.leases, lasts) {
			t.ended = true // too many who ran it were killed
		}
		if r.judged(onceOnly); !t.ended || o.Result != t.result {
			r.breakf(onceOnly, t.name, "request %s was told the result %q, and it is %q", q.id, o.Result, t.result)
		}
	case analysis.RequestIDReused:
		r.refusedAgain(t, a, now, string(o.Code), o.Detail)
		if r.judged(wrongAnswer); a.token == 0 && !a.over {
			r.breakf(wrongAnswer, t.name, "request %s is refused as used before, and it never got anything", q.id)
		}
	case analysis.TooLate, analysis.TooFar, analysis.Expired:
	default:
		r.breakf(wrongAnswer, t.name, "request %s was refused: %s %s", q.id, o.Code, o.Detail)
	}
}

// leased judges a grant of machine IDs.
func (r *rig) leased(q *request, got []kazahana.Lease, err error) {
	t := r.w.thing(q)
	now := at(r.w.now + r.w.store).UnixMilli()
	if r.judged(idsDisjoint); err != nil {
		if !errors.Is(err, kazahana.ErrExhausted) {
			t.unsure = now + r.scene.ttl*1000 + memory
		} else if now > t.unsure && r.scene.skew == 0 && r.scene.steps == 0 {
			r.judged(freeGranted)
			held := 0
			for _, g := range t.leases {
				if g.ends > now {
					held++
				}
			}
			if held < 1<<(idBits-1) {
				r.breakf(freeGranted, t.name, "%s was refused a machine ID, and %d are held", owner(q.who), held)
			}
		}
		return
	}
	for _, l := range got {
		for _, g := range t.leases {
			if g.id == l.ID && l.Created < min(g.ends, g.own+1) && g.from < l.Expired {
				r.breakf(idsDisjoint, t.name, "machine ID %d was leased from %d on, and another client may use it until %d",
					l.ID, l.Created, min(g.ends, g.own+1))
			}
		}
		t.leases = slices.DeleteFunc(t.leases, func(g granted) bool { return g.ends < l.Created-memory })
		t.leases = append(slices.Clip(t.leases), granted{request: l.Secret, id: l.ID, from: l.Created, ends: l.Expired,
			own: l.Expired - 1})
	}
}

// memory is for how long the judge remembers what ended, in milliseconds.
const memory = 120_000

// ownLease finds the lease of machine IDs of a client.
func (r *rig) ownLease(c *client) *granted {
	t := r.w.thing(&request{key: c.key, name: c.name})
	i := slices.IndexFunc(t.leases, func(g granted) bool { return g.request == c.lease.Secret })
	if i < 0 {
		return nil
	}
	return &t.leases[i]
}

// stamped judges an ID that a client makes of the millisecond.
func (r *rig) stamped(c *client, ms int64) {
	r.judged(idsDisjoint)
	t := r.w.thing(&request{key: c.key, name: c.name})
	for _, g := range t.leases {
		if g.id == c.lease.ID && g.request != c.lease.Secret && g.from <= ms && ms < min(g.ends, g.own+1) {
			r.breakf(idsDisjoint, t.name, "%s made an ID of machine ID %d and millisecond %d, which another client may make",
				owner(c.who), g.id, ms)
		}
	}
}

// ownEnds notes that a client makes no more IDs under its lease.
func (r *rig) ownEnds(c *client) {
	if g := r.ownLease(c); g != nil {
		g.own = min(g.own, c.stamp)
	}
}

// returned notes that a machine ID was released.
func (r *rig) returned(q *request, e machineid.Ended) {
	t := r.w.thing(q)
	for i := range t.leases {
		if g := &t.leases[i]; g.request == q.lease.Secret && !e.Free.IsZero() {
			g.ends = min(g.ends, max(e.Free.UnixMilli(), g.own+1))
		}
	}
}

// begins judges that a client holds its lease from now on, or for longer, or works under it. A store's clock that is
// set forward while a lease lasts ends it early: that is for the fence. So of those who hold only those count whose
// lease was not cut short so; the last one that was granted is beside all others.
func (r *rig) begins(c *client) {
	r.judged(oneHolder)
	last := c
	n := 0
	for i := range r.w.clients {
		o := &r.w.clients[i]
		if r.scene.keys[c.key] == latest {
			break // who was replaced learns of it with its next renewal
		}
		if o.who == c.who || o.name != c.name || !r.w.holds(o) {
			continue
		}
		other := o
		if o.token > last.token {
			other, last = last, o
		}
		if other.kept <= r.w.forward {
			continue
		}
		if n++; n >= r.scene.keys[c.key].limit() {
			r.breakf(oneHolder, c.name, "%s holds it under token %d, and so does %s under token %d", owner(c.who), c.token,
				owner(o.who), o.token)
		}
	}
}

// told judges the result of a run that a client got.
func (r *rig) told(c *client, result string) {
	t := r.w.thing(&request{key: c.key, name: c.name})
	if r.judged(onceOnly); !t.lost && (!t.ended || t.result != result) {
		r.breakf(onceOnly, t.name, "%s was told the result %q, and it is %q", owner(c.who), result, t.result)
	}
	if n := &r.w.run[c.key]; c.name == r.w.nameOf(c.key) && r.draw != nil { // an exploration has one run
		*n++
	}
}

// clock is a time of a world for people: seconds since it began.
func clock(ms int64) string { return fmt.Sprintf("%d.%03d s", ms/1000, ms%1000) }
