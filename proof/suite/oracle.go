package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The oracle says what a lock does, plain or with several holders, a line or a policy: from LS-SPEC-001, from its
// description in docs/internals/decisions/locks.md and from the contract. It remembers every lease whole, in lists, and
// shares no code with repo/lock.
//
// Where the description leaves a choice, a command has several permitted results: who gets which permit, if two are
// handed over in one write, for example. So the oracle is a set of locks, those that explain everything that was seen
// so far; an empty set is a mistake. A lock that has only ever had one holder and no line has no choice: there the
// oracle says exactly what every response shows, and what the lock shows.

// moment is a time in milliseconds, as stores keep times, since a second before [Epoch]; 0 is none.
type moment int64

func momentOf(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return moment(t.Sub(Epoch).Milliseconds() + 1000)
}

func timeOf(m moment) time.Time { return Epoch.Add(time.Duration(m-1000) * time.Millisecond) }

func (m moment) add(seconds int64) moment { return m + moment(seconds*1000) }

// The times of the line, as documented.
const (
	claimSeconds = 10   // a lease that was handed over ends after so long at most, unless its request is sent again
	claimLeast   = 500  // milliseconds that its request has at least; it has as long as it listens
	placeSeconds = 10   // a place in line outlasts the wait by so much
	moveAtMost   = 5000 // milliseconds by which a place may fail to move, so that few polls write
	againSeconds = 3    // a request that came again listens for so much longer than it says
	lineAtMost   = 100

	longest = 3_600_000 // milliseconds: more than anyone in these programs waits
)

// The number of requests that a lock knows again, as documented.
const (
	knownRequests = 4 // of each kind: acquires, acquires given up, renewals of the lease, force-releases
	knownReleases = 8 // of different tokens modulo 8
)

// The modes, as the contract writes them.
const (
	modeExclusive = "exclusive"
	modeShared    = "shared"
	modePermits   = "permits"
	modeRate      = "rate"
)

// modesCommand is what a caller sent. A delivery that comes late, or twice, is equal to it, but for how long it waits.
type modesCommand struct {
	do      string // acquire, give up, renew, release or force
	key     string
	owner   string
	request string
	label   string // metadata: the label "build", if any
	ttl     int64  // seconds

	mode          string
	limit, window int64
	wait, most    int64
	fair, replace bool
	delay         int64
	until         moment // its end, of an acquire that replaces; 0 is none. No program lasts so long

	token  int64
	ends   moment // that a renewal names; 0 is none
	lease  string // the ID that an acquire gives to its lease, or that a force-release names
	reason string
	with   string // the keys of all commands that are sent in one step, if it is one of several
}

// kind is what a lock keeps while it is busy.
func (c modesCommand) kind() modesKind {
	if c.mode == modeExclusive || c.mode == modeShared {
		return modesKind{family: "rw"}
	}
	return modesKind{c.mode, c.limit, c.window}
}

// is reports whether two commands are deliveries of one.
func (c modesCommand) is(d modesCommand) bool { return c.owner == d.owner && c.request == d.request }

// same reports whether two deliveries of an acquire ask for the same.
func (c modesCommand) same(d modesCommand) bool {
	return c.ttl == d.ttl && c.label == d.label && c.mode == d.mode && c.limit == d.limit && c.window == d.window &&
		c.replace == d.replace && c.delay == d.delay && c.with == d.with
}

// inLine reports whether the command waits in line in any form of the lock.
func (c modesCommand) inLine() bool { return c.fair || c.mode != modeExclusive }

type modesKind struct {
	family        string
	limit, window int64
}

// modesLease is a lease, from its grant on.
type modesLease struct {
	token             int64
	by                modesCommand
	permit            int64
	acquired, expires moment
	ttl               int64
	claimed           bool       // its caller knows of it; false for one that was handed over
	handed            bool       // it was handed over to a waiter
	place             modesPlace // the waiter's, if it was
	renewals          []modesCommand

	// how: released, expired, forced or replaced; empty while it lasts, and while it is not known to have ended
	ended   string
	endedBy modesCommand // empty if it expired, or its request was given up
	endedAt moment
	opened  modesCommand // the force-release that ended its lock delay
}

// lasts is LS-SPEC-001's ACTIVE: not ended, and now < expires_at.
func (l modesLease) lasts(at moment) bool { return l.ended == "" && at < l.expires }

// phase is LS-EXP-001: time alone makes a lease EXPIRED.
func (l modesLease) phase(at moment) string {
	switch {
	case l.lasts(at):
		return "ACTIVE"
	case l.ended == "released" || l.ended == "forced":
		return "RELEASED"
	default:
		return "EXPIRED"
	}
}

// opens is when its place in the lock is free, if no one does anything.
func (l modesLease) opens() moment {
	if l.ended == "forced" {
		return l.endedAt.add(l.by.delay)
	}
	return l.expires.add(l.by.delay)
}

// closes reports whether the lease has ended in a way that keeps its place in the lock closed for a while.
func (l modesLease) closes(at moment) bool {
	switch {
	case l.by.delay == 0 || !l.claimed || l.lasts(at): // no one works under a lease that was not claimed
		return false
	default:
		return (l.ended == "" || l.ended == "expired" || l.ended == "forced") && at < l.opens()
	}
}

// modesPlace is a place in line. It counts while its request listens: others pass over it afterwards, and it stays
// where it is. These programs have no server that holds responses: a request listens for as long as it waits.
type modesPlace struct {
	by                    modesCommand
	since, until, listens moment
}

// modesForm is the form of the document, which decides whether an exclusive request that is not fair gets a place in
// line.
type modesForm int

const (
	formPlain  modesForm = iota
	formShared           // it has several holders, or a line
	formEither           // what the description says does not tell
)

// modesLock is one lock as the oracle knows it. It is a value: nothing changes what another value refers to.
type modesLock struct {
	token    int64 // of the latest grant; 0 before the first
	form     modesForm
	mixed    bool   // the document once had another form than the plain one
	slow     moment // a write was at most so long on its way
	kind     modesKind
	holders  []modesLease // current leases, and those whose end was not written down or keeps their place closed; by token
	waiting  []modesPlace // the next one first
	rated    []modesLease // the grants of a rate, oldest first
	past     []modesLease // leases that have ended, oldest first
	acquires []modesCommand
	forces   []modesCommand
	givenUp  []modesCommand // acquires
	// the latest end of the acquires that were granted or given up, and are not known any more
	late     moment
	releases [knownReleases]modesLease // the last release of each token modulo their number
}

func (l modesLock) clone() modesLock {
	l.holders, l.waiting, l.rated = slices.Clone(l.holders), slices.Clone(l.waiting), slices.Clone(l.rated)
	l.past, l.acquires, l.forces = slices.Clone(l.past), slices.Clone(l.acquires), slices.Clone(l.forces)
	l.givenUp = slices.Clone(l.givenUp)
	return l
}

// describe is the lock for people.
func (l modesLock) describe() string {
	var b strings.Builder
	show := func(name string, leases []modesLease) {
		for _, h := range leases {
			fmt.Fprintf(
				&b, "\n     %s %d %s of %q by %q, permit %d, [%d, %d), claimed %v, handed over %v, delay %d, ended %s at %d",
				name, h.token, h.by.mode, h.by.request, h.by.owner, h.permit, h.acquired, h.expires, h.claimed, h.handed,
				h.by.delay, h.ended, h.endedAt)
		}
	}
	fmt.Fprintf(&b, "token %d, form %d, %+v", l.token, l.form, l.kind)
	show("ended", lastOf(l.past, 4))
	show("grant", l.rated)
	show("lease", l.holders)
	for _, p := range l.waiting {
		fmt.Fprintf(&b, "\n     waits: %s of %q by %q from %d until %d", p.by.mode, p.by.request, p.by.owner, p.since,
			p.until)
	}
	return b.String()
}

// id is the lock as a text, equal for equal locks. A grant is known by its token, and what waits by its request.
func (l modesLock) id() string {
	b := make([]byte, 0, 512)
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	text := func(s string) { b = append(append(b, s...), ' ') }
	flag := func(f bool) { b = strconv.AppendBool(b, f) }
	leases := func(all []modesLease) {
		for _, h := range all {
			number(h.token)
			text(h.by.owner)
			text(h.by.request)
			text(h.by.lease)
			number(int64(h.acquired))
			number(int64(h.expires))
			number(int64(h.endedAt))
			number(h.ttl)
			number(h.permit)
			text(h.ended)
			flag(h.claimed)
			number(int64(h.place.until))
			for _, r := range h.renewals {
				text(r.request)
			}
		}
		text(";")
	}
	commands := func(all []modesCommand) {
		for _, c := range all {
			text(c.owner)
			text(c.request)
		}
		text(";")
	}
	number(l.token)
	number(int64(l.late))
	number(int64(l.form))
	flag(l.mixed)
	text(l.kind.family)
	number(l.kind.limit)
	number(l.kind.window)
	leases(l.holders)
	leases(l.rated)
	leases(l.past)
	for _, p := range l.waiting {
		commands([]modesCommand{p.by})
		text(p.by.lease)
		number(int64(p.since))
		number(int64(p.until))
		number(int64(p.listens))
	}
	commands(l.acquires)
	commands(l.forces)
	commands(l.givenUp)
	for _, r := range l.releases {
		number(r.token)
		text(r.endedBy.request)
	}
	return string(b)
}

// inWindow counts the grants of a rate in (at-window, at].
func (l modesLock) inWindow(at moment) int64 {
	var n int64
	for _, g := range l.rated {
		if at < g.acquired.add(l.kind.window) {
			n++
		}
	}
	return n
}

// busy reports whether the lock keeps its mode.
func (l modesLock) busy(at moment) bool {
	return len(l.holders) > 0 || l.listening(len(l.waiting), at) > 0 || l.kind.family == modeRate && l.inWindow(at) > 0
}

// fits reports whether the lock has room for a command of its kind, apart from those who wait.
func (l modesLock) fits(c modesCommand, at moment) bool {
	switch c.mode {
	case modeRate:
		return l.inWindow(at) < c.limit
	case modePermits:
		return int64(len(l.holders)) < c.limit
	case modeShared:
		return !slices.ContainsFunc(l.holders, func(h modesLease) bool { return h.by.mode == modeExclusive })
	default:
		return len(l.holders) == 0
	}
}

// grant gives a lease to a command, with the next token (LS-ACQ-003, LS-INV-002, LS-ACC-03). Its kind is the lock's.
// claim is how long it waits for its request, if it is handed over.
func (l *modesLock) grant(c modesCommand, at moment, handed bool, claim moment) {
	l.token++
	g := modesLease{token: l.token, by: c, acquired: at, ttl: c.ttl, expires: at.add(c.ttl), claimed: !handed,
		handed: handed}
	l.acquires = l.know(l.acquires, c)
	switch {
	case c.mode == modeRate:
		g.expires = at.add(c.window)
		l.rated = append(l.rated, g)
		return
	case handed:
		g.expires = at + min(moment(1000*c.ttl), claim)
	}
	if c.mode == modePermits {
		taken := func(h modesLease) bool { return h.permit == g.permit }
		g.permit = 1
		for slices.ContainsFunc(l.holders, taken) {
			g.permit++
		}
	}
	l.holders = append(l.holders, g)
}

// know adds an acquire to those that are known. Of one that is forgotten by that its end is noted, if it may replace
// others.
func (l *modesLock) know(known []modesCommand, c modesCommand) []modesCommand {
	known = append(known, c)
	for _, old := range known[:max(0, len(known)-knownRequests)] {
		if old.replace {
			l.late = max(l.late, old.until)
		}
	}
	return lastOf(known, knownRequests)
}

// lastIndex is that of the latest: a request that was forgotten may be used again.
func lastIndex[T any](all []T, is func(T) bool) int {
	for i, a := range slices.Backward(all) {
		if is(a) {
			return i
		}
	}
	return -1
}

func lastOf[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// settled is the lock after what time alone did to it: leases and places that are over, and the hand-overs that follow.
// The request that finds it listens.
func (l modesLock) settled(c modesCommand, at, written moment) modesLock {
	return l.dropped(at).served(c, at, written)
}

// dropped is the lock without the leases and places that are over. What was handed over and not claimed is the line's
// again: its request has the place that it had, and does not listen.
func (l modesLock) dropped(at moment) modesLock {
	l = l.clone()
	l.holders = slices.DeleteFunc(l.holders, func(h modesLease) bool {
		over := !h.lasts(at) && !h.closes(at)
		if over {
			l.end(h, "expired", h.expires)
		}
		if p := h.place; over && !h.claimed && h.ended == "" {
			p.listens = min(p.listens, h.expires)
			i := slices.IndexFunc(l.waiting, func(q modesPlace) bool { return q.since > p.since })
			if i < 0 {
				i = len(l.waiting)
			}
			l.waiting = slices.Insert(l.waiting, i, p)
		}
		return over
	})
	l.waiting = slices.DeleteFunc(l.waiting, func(p modesPlace) bool { return p.until <= at })
	return l
}

// served is the lock after those in line who listen got what there is room for, in turn. One of them is the request
// that is being sent, if it is an acquire.
func (l modesLock) served(c modesCommand, at, written moment) modesLock {
	l = l.clone()
	for i := 0; i < len(l.waiting); {
		p := l.waiting[i]
		if p.listens <= at && (c.do != "acquire" || !p.by.is(c)) {
			i++
			continue
		}
		if !l.fits(p.by, at) {
			break
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.grant(p.by, written, true, min(max(p.listens-at, claimLeast), 1000*claimSeconds))
		if p.by.mode != modeRate {
			l.holders[len(l.holders)-1].place = p
		}
	}
	switch alone := len(l.waiting) == 0 && len(l.holders) == 1 && l.holders[0].by.mode == modeExclusive; {
	case !l.busy(at) && len(l.waiting) == 0:
		l.form = formPlain
	case alone && l.form == formShared:
		l.form = formEither
	}
	return l
}

// listening is how many of the first ones in line listen.
func (l modesLock) listening(first int, at moment) (n int) {
	for _, p := range l.waiting[:first] {
		if p.listens > at {
			n++
		}
	}
	return n
}

// end keeps a lease that has ended. A lease that was forced to end is known as such, whenever its place opens.
func (l *modesLock) end(h modesLease, how string, at moment) {
	if h.ended == "" {
		h.ended, h.endedAt = how, at
	}
	l.past = append(l.past, h)
}

// modesAnswer is what a command must return.
type modesAnswer struct {
	codes    string // one of them, separated by spaces
	replayed int    // 0, 1, or 2 for either
	lease    *modesLease
	position int64 // -1 is any

	// of LOCK_HELD and LOCK_DELAYED: how long until another try may succeed without anyone's doing
	retryFrom, retryTo moment
}

// decidedEarlier is the answer of a command that was decided before it was written: what it says of the time counts
// from when it was written.
func (a modesAnswer) decidedEarlier() modesAnswer {
	a.retryFrom, a.retryTo = 0, longest
	if a.position > 0 { // others may have stopped to listen
		a.position = -1
	}
	if a.codes == "LOCK_HELD" || a.codes == "LOCK_DELAYED" {
		a.codes = "LOCK_HELD LOCK_DELAYED"
	}
	return a
}

// modesResult is a permitted result of a command.
type modesResult struct {
	after  modesLock
	answer modesAnswer
}

const either = 2

// refusals is the result of a command that changes nothing: nothing is written down, not even what time did.
func refusals(l modesLock, a modesAnswer) []modesResult { return []modesResult{{l, a}} }

// turned are the results of a command that gets nothing, and writes down what time did: s is the lock after that. In
// plain form there is one lease, whose end needs no writing.
func (l modesLock) turned(s modesLock, a modesAnswer) []modesResult {
	switch {
	case l.form == formPlain || !l.changed(s):
		return refusals(l, a)
	case l.form == formShared:
		return []modesResult{{s, a}}
	default:
		return []modesResult{{l, a}, {s, a}}
	}
}

// changed reports whether leases or places have ended, or the lock was handed over.
func (l modesLock) changed(s modesLock) bool {
	return len(s.holders) != len(l.holders) || len(s.waiting) != len(l.waiting) || s.token != l.token
}

// step is what a command may do to the lock, and return. It is decided at one time and written at another: a command
// that needs a second write decides by the document that the first one found, and its write applies only if nothing was
// changed since. What it grants counts from when it is written; what lasts only for so long must last until then.
func (l modesLock) step(c modesCommand, at, written moment) []modesResult {
	switch c.do {
	case "acquire":
		return l.acquire(c, at, written)
	case "give up":
		return l.giveUp(c, at, written)
	case "renew":
		return l.renew(c, at, written)
	case "release":
		return l.release(c, at, written)
	default:
		return l.force(c, at, written)
	}
}

// acquire is LS-ACQ-001, LS-ACQ-002, LS-ACQ-004 and LS-INV-001.
func (l modesLock) acquire(c modesCommand, at, written moment) []modesResult {
	s := l.settled(c, at, written)
	reused := modesAnswer{codes: "REQUEST_ID_REUSED"}
	if slices.ContainsFunc(l.givenUp, c.is) {
		return refusals(l, reused)
	}
	if i := slices.IndexFunc(s.holders, func(h modesLease) bool { return h.by.is(c) && h.lasts(at) }); i >= 0 {
		if !s.holders[i].by.same(c) {
			return refusals(l, reused)
		}
		if s.holders[i].claimed {
			return refusals(l, modesAnswer{codes: "OK", replayed: 1, lease: &s.holders[i]})
		}
		if !s.holders[i].lasts(written) {
			return nil
		}
		s.holders[i].claimed, s.holders[i].expires = true, written.add(c.ttl)
		return []modesResult{{s, modesAnswer{codes: "OK", replayed: either, lease: &s.holders[i]}}}
	}
	if i := slices.IndexFunc(s.waiting, func(p modesPlace) bool { return p.by.is(c) }); i >= 0 {
		return l.waitOn(s, i, c, at, written)
	}
	earlier, known := l.known(s, c, at)
	if known {
		return earlier
	}
	if s.busy(at) && s.kind != c.kind() {
		return append(earlier, l.turned(s, modesAnswer{codes: "LOCK_MODE_DIFFERS"})...)
	}
	s.take(c.kind())
	if i := s.replaces(c, at); i >= 0 {
		r := s.clone()
		old := r.holders[i]
		old.endedBy = c
		r.holders = slices.Delete(r.holders, i, i+1)
		r.end(old, "replaced", at)
		return append(earlier, r.granted(c, written)...)
	}
	if s.listening(len(s.waiting), at) == 0 && s.fits(c, at) {
		return append(earlier, s.granted(c, written)...)
	}
	return append(earlier, l.turnAway(s, c, at)...)
}

// take gives a kind to a lock that is not busy. Who waited for another kind, and does not listen, has lost its place.
func (l *modesLock) take(k modesKind) {
	if l.kind != k {
		l.kind, l.rated, l.waiting = k, nil, nil
	}
}

// known are the results for a request that obtained a lease earlier. A rate remembers the requests of more than four
// grants, and may do so for longer than the window.
func (l modesLock) known(s modesLock, c modesCommand, at moment) (results []modesResult, known bool) {
	reused := refusals(l, modesAnswer{codes: "REQUEST_ID_REUSED"})
	i := lastIndex(s.acquires, c.is)
	j := lastIndex(s.rated, func(g modesLease) bool { return g.by.is(c) })
	switch {
	case i >= 0 && !s.acquires[i].same(c):
		return reused, true
	case j >= 0 && !s.rated[j].by.same(c):
		return reused, at < s.rated[j].expires
	case j >= 0:
		a := modesAnswer{codes: "OK", replayed: 1, lease: &s.rated[j]}
		if s.rated[j].handed {
			a.replayed = either
		}
		if results = refusals(l, a); s.rated[j].token > l.token { // it is granted now
			results = []modesResult{{s, a}}
		}
		if at >= s.rated[j].expires {
			results = append(results, reused...)
		}
		return results, i >= 0 || at < s.rated[j].expires
	case i >= 0:
		return reused, true
	case l.mixed && l.remembers(c): // for longer than it must
		return reused, false
	default:
		return nil, false
	}
}

// remembers reports whether the request was ever granted, or had a place in line that the document may still show.
func (l modesLock) remembers(c modesCommand) bool {
	of := func(h modesLease) bool { return h.by.is(c) }
	return slices.ContainsFunc(l.acquires, c.is) || slices.ContainsFunc(l.past, of) ||
		slices.ContainsFunc(l.holders, of) ||
		slices.ContainsFunc(l.waiting, func(p modesPlace) bool { return p.by.is(c) && !p.by.same(c) })
}

// granted are the results of a command that obtains a lease.
func (l modesLock) granted(c modesCommand, at moment) []modesResult {
	l = l.clone()
	l.grant(c, at, false, 0)
	switch {
	case c.mode != modeExclusive:
		l.form, l.mixed = formShared, true
	case l.form != formPlain:
		l.form = formEither
	}
	g := lastOf(append(slices.Clone(l.holders), l.rated...), 1)
	if c.mode != modeRate {
		g = lastOf(l.holders, 1)
	}
	lease := g[0]
	return []modesResult{{l, modesAnswer{codes: "OK", lease: &lease}}}
}

// replaces returns the holder whose place the command takes, or -1: also if the command may be a copy of one that is
// not known any more.
func (l modesLock) replaces(c modesCommand, at moment) int {
	if !c.replace || c.until != 0 && c.until <= l.late || len(l.holders) != 1 || l.listening(len(l.waiting), at) > 0 ||
		!l.holders[0].by.replace || !l.holders[0].lasts(at) {
		return -1
	}
	return 0
}

// waitOn are the results for a request that has a place in the line.
func (l modesLock) waitOn(s modesLock, i int, c modesCommand, at, written moment) []modesResult {
	if !s.waiting[i].by.same(c) {
		return refusals(l, modesAnswer{codes: "REQUEST_ID_REUSED"})
	}
	if c.wait == 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		a := s.held(at)
		s = s.settled(c, at, written) // others may be next
		return []modesResult{{s, a}}
	}
	a := s.held(at)
	a.position = int64(s.listening(i, at) + 1)
	moved := s.clone()
	p := &moved.waiting[i]
	listens := at.add(c.wait)
	p.until = max(p.until, at.add(c.wait+placeSeconds))
	p.listens = max(p.listens, min(listens.add(againSeconds), p.until))
	results := []modesResult{{moved, a}}
	if moved.waiting[i].until-s.waiting[i].until <= moveAtMost && s.waiting[i].listens > at &&
		listens-s.waiting[i].listens <= moveAtMost {
		results = append(results, l.turned(s, a)...)
	}
	return results
}

// turnAway are the results for a command for which the lock has no room, or which others are before.
func (l modesLock) turnAway(s modesLock, c modesCommand, at moment) []modesResult {
	a := s.held(at)
	if len(l.waiting) > 0 {
		a.retryFrom, a.retryTo = 1, longest
	}
	stays := modesResult{s, a}
	stays.after = s.joined(c, at)
	stays.answer.position = int64(s.listening(len(s.waiting), at) + 1)
	stays.answer.retryFrom, stays.answer.retryTo = 1, longest
	full := modesAnswer{codes: "LOCK_QUEUE_FULL", position: -1}
	most := c.most
	if most == 0 {
		most = lineAtMost
	}
	switch {
	case c.wait == 0:
		return l.turned(s, a)
	case !c.inLine() && s.form == formPlain:
		return l.turned(s, a)
	case int64(s.listening(len(s.waiting), at)) >= most:
		return l.turned(s, full)
	case !c.inLine() && s.form == formEither:
		return append(l.turned(s, a), stays)
	default:
		return []modesResult{stays}
	}
}

// joined is the lock after a command has taken the last place in line.
func (l modesLock) joined(c modesCommand, at moment) modesLock {
	l = l.clone()
	l.waiting = append(l.waiting, modesPlace{c, at, at.add(c.wait + placeSeconds), at.add(c.wait)})
	l.form, l.mixed = formShared, true
	return l
}

// held is the answer to a command that gets nothing: the lock is held, or closed for a while after a loss. Where it is
// both, either.
func (l modesLock) held(at moment) modesAnswer {
	var lasting, closed bool
	a := modesAnswer{retryFrom: 1, retryTo: 1}
	for _, h := range l.holders {
		lasting = lasting || h.lasts(at)
		closed = closed || h.closes(at)
		a.retryTo = max(a.retryTo, h.opens()-at)
	}
	if !l.mixed {
		a.retryFrom = a.retryTo
	}
	// the next one may hold it for long, or be gone
	if len(l.waiting) > 0 || slices.ContainsFunc(l.holders, func(h modesLease) bool { return !h.claimed }) {
		a.retryTo = longest
	}
	if l.kind.family == modeRate {
		a.retryTo = max(a.retryTo, moment(1000*l.kind.window))
		if n := l.inWindow(at); len(l.waiting) == 0 && n >= l.kind.limit {
			oldest := l.rated[int64(len(l.rated))-l.kind.limit]
			a.retryFrom = oldest.acquired.add(l.kind.window) - at
			a.retryTo = a.retryFrom
		}
	}
	switch {
	case closed && !lasting && len(l.waiting) == 0:
		a.codes = "LOCK_DELAYED"
	case closed:
		a.codes = "LOCK_DELAYED LOCK_HELD"
	default:
		a.codes = "LOCK_HELD"
	}
	return a
}

// gone are the codes for the token of a lease that is not current: exactly how it ended while that is remembered, and
// that it was lost when not. In plain form that is remembered of the latest lease (LS-INV-003, LS-INV-004).
func (l modesLock) gone(token int64, at moment) string {
	if !l.mixed {
		switch s := l.shown(at); {
		case s.token == 0 || s.token != token:
			return "LEASE_LOST"
		case s.phase == "RELEASED":
			return "LEASE_RELEASED"
		default:
			return "LEASE_EXPIRED"
		}
	}
	for _, h := range l.leases() {
		if h.token != token || h.lasts(at) {
			continue
		}
		switch h.ended {
		case "released", "forced":
			return "LEASE_RELEASED LEASE_LOST"
		case "replaced":
			return "LEASE_LOST"
		default:
			return "LEASE_EXPIRED LEASE_LOST"
		}
	}
	return "LEASE_LOST"
}

// rateGrant reports how a renewal or release is refused because the lock's grants are not held: empty if that plays no
// part.
func (l modesLock) rateGrant(token int64, at moment) string {
	if l.kind.family != modeRate {
		return ""
	}
	if slices.ContainsFunc(l.rated, func(g modesLease) bool { return g.token == token && at < g.expires }) {
		return "LOCK_MODE_DIFFERS"
	}
	return "LOCK_MODE_DIFFERS " + l.gone(token, at)
}

// giveUp is what giving an acquire up may do, and return: nothing is left of the request, but for a grant of a rate,
// and the lock remembers it.
func (l modesLock) giveUp(c modesCommand, at, written moment) []modesResult {
	reused := refusals(l, modesAnswer{codes: "REQUEST_ID_REUSED"})
	of := func(d modesCommand) bool { return d.is(c) }
	other := func(d modesCommand) bool { return d.is(c) && !d.same(c) }
	forgotten := false // it may be
	for _, all := range [][]modesLease{l.holders, l.rated, l.past} {
		for _, h := range all {
			forgotten = forgotten || other(h.by) && !h.lasts(at)
		}
	}
	for _, p := range l.waiting {
		forgotten = forgotten || other(p.by) && p.until <= at
	}
	switch i := lastIndex(l.givenUp, of); {
	case i >= 0 && !l.givenUp[i].same(c):
		return reused
	case i >= 0:
		return refusals(l, modesAnswer{codes: "OK", replayed: 1})
	case slices.ContainsFunc(l.acquires, other),
		slices.ContainsFunc(l.holders, func(h modesLease) bool { return other(h.by) && h.lasts(at) }),
		slices.ContainsFunc(l.rated, func(g modesLease) bool { return other(g.by) && at < g.expires }),
		slices.ContainsFunc(l.waiting, func(p modesPlace) bool { return other(p.by) && at < p.until }):
		return reused
	}
	var results []modesResult
	if forgotten && l.mixed {
		results = reused
	}
	// what time did is written down with what ends; it makes no difference in plain form
	for n, s := range []modesLock{l.settled(c, at, written), l.dropped(at), l.clone()} {
		if n > 0 && !l.mixed {
			break
		}
		for s.place(c) >= 0 {
			s.waiting = slices.Delete(s.waiting, s.place(c), s.place(c)+1)
		}
		i := slices.IndexFunc(s.holders, func(h modesLease) bool { return h.by.is(c) && h.lasts(at) })
		if n == 2 && l.form == formShared && (i >= 0 || l.place(c) >= 0) {
			continue
		}
		if i >= 0 {
			h := s.holders[i]
			if !h.lasts(written) {
				continue
			}
			s.holders = slices.Delete(s.holders, i, i+1)
			s.end(h, "released", at)
		}
		s.givenUp = s.know(s.givenUp, c)
		if n < 2 {
			s = s.served(c, at, written)
		}
		results = append(results, modesResult{s, modesAnswer{codes: "OK"}})
	}
	return results
}

// place is the index of the place in line of a request, -1 if it has none.
func (l modesLock) place(c modesCommand) int {
	return slices.IndexFunc(l.waiting, func(p modesPlace) bool { return p.by.is(c) })
}

// renew is LS-RNW-001, LS-RNW-002 and LS-RNW-003.
func (l modesLock) renew(c modesCommand, at, written moment) []modesResult {
	s := l.settled(c, at, written)
	if codes := l.rateGrant(c.token, at); codes != "" {
		return refusals(l, modesAnswer{codes: codes})
	}
	i := slices.IndexFunc(s.holders, func(h modesLease) bool { return h.token == c.token && h.lasts(at) })
	switch {
	case i < 0:
		return refusals(l, modesAnswer{codes: s.gone(c.token, at)})
	case s.holders[i].by.owner != c.owner:
		return refusals(l, modesAnswer{codes: "NOT_OWNER"})
	}
	if j := slices.IndexFunc(s.holders[i].renewals, c.is); j >= 0 {
		if !s.holders[i].renewals[j].same(c) {
			return refusals(l, modesAnswer{codes: "REQUEST_ID_REUSED"})
		}
		return refusals(l, modesAnswer{codes: "OK", replayed: 1, lease: &s.holders[i]})
	}
	if c.ends != 0 && c.ends != s.holders[i].expires {
		return refusals(l, modesAnswer{codes: "LEASE_CHANGED"})
	}
	h := &s.holders[i]
	if !h.lasts(written) {
		return nil
	}
	h.claimed, h.ttl, h.expires = true, c.ttl, written.add(c.ttl)
	h.renewals = lastOf(append(slices.Clone(h.renewals), c), knownRequests)
	return []modesResult{{s, modesAnswer{codes: "OK", lease: h}}}
}

// release is LS-REL-001, LS-REL-002 and LS-REL-003.
func (l modesLock) release(c modesCommand, at, written moment) []modesResult {
	s := l.settled(c, at, written)
	if r := l.releases[c.token%knownReleases]; r.token == c.token && r.endedBy.is(c) {
		return refusals(l, modesAnswer{codes: "OK", replayed: 1})
	}
	if codes := l.rateGrant(c.token, at); codes != "" {
		return refusals(l, modesAnswer{codes: codes})
	}
	i := slices.IndexFunc(s.holders, func(h modesLease) bool { return h.token == c.token && h.lasts(at) })
	switch {
	case i < 0:
		return refusals(l, modesAnswer{codes: s.gone(c.token, at)})
	case s.holders[i].by.owner != c.owner:
		return refusals(l, modesAnswer{codes: "NOT_OWNER"})
	}
	h := s.holders[i]
	if !h.lasts(written) {
		return nil
	}
	var results []modesResult
	// who is next may get the permit of a lease that is over, or that of this one
	for _, r := range []modesLock{s, l.dropped(at)} {
		i := slices.IndexFunc(r.holders, func(h modesLease) bool { return h.token == c.token })
		r.holders = slices.Delete(r.holders, i, i+1)
		h.endedBy = c
		r.end(h, "released", at)
		r.releases[c.token%knownReleases] = lastOf(r.past, 1)[0]
		results = append(results, modesResult{r.served(c, at, written),
			modesAnswer{codes: "OK", lease: &modesLease{token: c.token, by: h.by, permit: h.permit, acquired: h.acquired,
				expires: h.expires, ttl: h.ttl}}})
	}
	return results
}

func (l modesLock) force(c modesCommand, at, written moment) []modesResult {
	if i := slices.IndexFunc(l.forces, c.is); i >= 0 {
		if l.forces[i].reason != c.reason || l.forces[i].lease != c.lease {
			return refusals(l, modesAnswer{codes: "REQUEST_ID_REUSED"})
		}
		return refusals(l, modesAnswer{codes: "OK", replayed: 1})
	}
	r := l.dropped(at)
	r.forces = lastOf(append(r.forces, c), knownRequests)
	var held bool
	var ended []modesLease
	for i := range r.holders {
		h := &r.holders[i]
		held = held || h.lasts(at)
		if h.lasts(at) && (c.lease == "" || c.lease == h.by.lease) { // without a name it ends all that there are
			h.ended, h.endedBy, h.endedAt = "forced", c, written
			ended = append(ended, *h)
		}
	}
	switch {
	case !held && c.lease == "" && (r.inWindow(at) > 0 || slices.ContainsFunc(
		r.holders, func(h modesLease) bool { return h.closes(at) })):
		return []modesResult{{r.opened(c, written).served(c, at, written), modesAnswer{codes: "OK"}}}
	case !held && !l.mixed:
		return refusals(l, modesAnswer{codes: "LOCK_NOT_HELD"})
	case !held:
		return l.turned(l.settled(c, at, written), modesAnswer{codes: "LOCK_NOT_HELD LOCK_MODE_DIFFERS"})
	case len(ended) == 0:
		return l.turned(l.settled(c, at, written), modesAnswer{codes: "LEASE_LOST"})
	}
	r = r.dropped(at).served(c, at, written)
	var results []modesResult
	for i := range ended { // any of them may be shown
		results = append(results, modesResult{r, modesAnswer{codes: "OK", lease: &ended[i]}})
	}
	return results
}

// opened is the lock without what closes it although no one holds it: leases that were lost, with lock delays, and the
// grants of a rate.
func (l modesLock) opened(c modesCommand, at moment) modesLock {
	l = l.clone()
	for _, h := range l.holders {
		h.opened = c
		l.end(h, "expired", h.expires)
	}
	for _, g := range l.rated {
		l.end(g, "forced", at)
	}
	l.holders, l.rated = nil, nil
	return l
}

// modesSeen is what a caller saw of the outcome of a command.
type modesSeen struct {
	shown

	code     string
	replayed bool
	permit   int64
	mode     string
	position int64
	retry    moment
}

// shown is what a response says of a lease, or the lock to those who look at it.
type shown struct {
	token                       int64
	lease, owner, phase         string
	acquired, expires, released moment
	ttl                         int64
	label                       string
	forcedBy, reason            string
	forcedAt                    moment
	free                        moment // until then the lock delay keeps the lock closed
}

// shown is the latest lease of a lock that has only had the plain form.
func (l modesLock) shown(at moment) shown {
	all := l.leases()
	if len(all) == 0 {
		return shown{}
	}
	h := all[len(all)-1]
	s := shown{token: h.token, lease: h.by.lease, owner: h.by.owner, phase: h.phase(at), acquired: h.acquired,
		expires: h.expires, ttl: h.ttl, label: h.by.label}
	if s.phase == "RELEASED" {
		s.released = h.endedAt
	}
	if h.ended == "forced" {
		s.forcedBy, s.reason, s.forcedAt = h.endedBy.owner, h.endedBy.reason, h.endedAt
	}
	if len(l.holders) > 0 && h.closes(at) {
		s.free = h.opens()
	}
	return s
}

// shows is what an outcome with a code must show of a lock that has only had the plain form, and was l before.
func (x modesResult) shows(l modesLock, c modesCommand, code string, at moment) shown {
	s, named := l.shown(at), shown{token: c.token} // the token is 0 where the caller names none
	switch code {
	case "OK":
		return x.done(l, c, at)
	case "LOCK_HELD", "LOCK_DELAYED":
		s.token = 0
		return s
	case "LOCK_NOT_HELD":
		return s
	case "LEASE_RELEASED": // every caller gets the same
		named.released = s.released
	case "LEASE_EXPIRED", "LEASE_CHANGED":
		named.expires = s.expires
	}
	return named
}

// done is what an outcome shows if the code is OK.
func (x modesResult) done(before modesLock, c modesCommand, at moment) shown {
	after, released := x.after.shown(at), shown{phase: "RELEASED"}
	switch c.do {
	case "acquire", "renew":
		return after
	case "release":
		if c.token == after.token {
			return after
		}
		released.token, released.owner = c.token, c.owner
		return released
	case "give up":
		if before.shown(at).phase == after.phase { // it had nothing
			return shown{}
		}
		released.token = after.token
		return released
	}
	h := lastOf(x.after.leases(), 1)[0]
	newest := lastIndex(x.after.forces, c.is) == len(x.after.forces)-1
	switch {
	case x.answer.replayed == 0 && c.is(h.opened): // what closed it has ended
		after.phase, after.released, after.forcedBy, after.reason, after.forcedAt = "RELEASED", at, c.owner, c.reason, at
		return after
	case x.answer.replayed == 0, newest && h.ended == "forced" && (c.is(h.endedBy) || c.is(h.opened) &&
		h.endedBy.owner == c.owner && h.endedBy.reason == c.reason):
		return after
	default: // it ended an earlier lease, or its delay was ended since: what is there now is neither touched nor shown
		return released
	}
}

// leases are those of a lock without a rate, oldest first.
func (l modesLock) leases() []modesLease { return append(slices.Clone(l.past), l.holders...) }

// explains reports whether the answer is what was seen.
func (a modesAnswer) explains(c modesCommand, o modesSeen) bool {
	if !slices.Contains(strings.Fields(a.codes), o.code) || a.replayed != either && o.replayed != (a.replayed == 1) {
		return false
	}
	switch {
	case o.code == "LOCK_HELD" || o.code == "LOCK_DELAYED":
		return (a.position < 0 || a.position == o.position) && a.retryFrom <= o.retry && o.retry <= a.retryTo
	case o.code != "OK" || a.lease == nil:
		return true
	case c.do == "force": // shows no token
		return o.owner == a.lease.by.owner && o.lease == a.lease.by.lease
	default:
		return o.token == a.lease.token && (o.lease == a.lease.by.lease || o.mode == modeRate) &&
			o.owner == a.lease.by.owner && o.mode == a.lease.by.mode && o.permit == a.lease.permit &&
			o.acquired == a.lease.acquired && o.expires == a.lease.expires
	}
}

// spentAfter is how long a store may take to respond to a grant of a rate, in milliseconds.
const spentAfter = 1000

// late reports whether a grant may have been over before its response arrived, or spent if it is one of a rate.
func (a modesAnswer) late(o modesSeen, at, took moment) bool {
	return o.code == "LEASE_EXPIRED" && a.codes == "OK" && a.lease != nil &&
		(a.lease.expires-at <= took || a.lease.by.mode == modeRate && took > spentAfter)
}
