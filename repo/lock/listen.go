package lock

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// A place in line counts while its request listens: while its response is held, or until it is to come again
// (poll_after). Others pass over it otherwise, and it keeps its place: it has its turn again when it listens again. All
// of that is in the document, so that every server knows it:
//
//   - A place has the time until which its request listens. It is written with the place and when the place is
//     prolonged, which costs no write of its own.
//   - What is handed over to a request whose response is held is claimed at once by the process that holds it. If it is
//     not, that process may have died: its other places are passed over as well, until one of its requests says that it
//     listens. So all who wait at a server that was killed cost the time of one claim.
//   - A request that did not claim in time, and listens again, has twice as long the next time.

// Times of requests that listen.
const (
	// claimLeast is how long what is handed over waits at least to be claimed: the store says that the document has
	// changed, and the process that holds the response reads it and sends the request, which takes claimTook requests to
	// the store at the most, or claimFar. Where the store says nothing, the process learns of it when it reads the
	// document the next time, and has so much longer.
	claimLeast = 500 * time.Millisecond
	claimTook  = 10
	claimFar   = 2 * time.Second

	// tookStep is how exactly it is stored how long a request takes, rounded up: so that it is one byte of the document,
	// however long that is.
	tookStep = 4 * time.Millisecond

	// readAtLast is after what time a process reads the document at the latest that is not told of changes.
	readAtLast = readEvery * 5 / 4

	// pollMargin is how much later than it was told to a request may come again.
	pollMargin = time.Second

	// listenStep is by how much a request that comes again by itself must listen for longer than the document says before
	// that is written. Of one whose response is held it is placeStep: when the document says that it does not listen any
	// more, its process says that it does.
	listenStep = 500 * time.Millisecond
)

// listener is who learns what becomes of a place.
type listener struct {
	process int64         // the number of the process that holds the response; 0: none, the request comes again by itself
	told    bool          // by the store, when the document changes
	took    time.Duration // a request of the process to the store, in steps of tookStep
	missed  int64         // how often a lease that was handed over was not claimed in time
}

// listener is who listens for a place that is written now.
func (c Acquire) listener(w rule.When) listener {
	l := c.held.listener
	l.took = (max(0, min(w.Took, claimFar/claimTook)) + tookStep - 1).Truncate(tookStep)
	return l
}

// hold is how the response of a request is held.
type hold struct {
	listener

	most, left time.Duration // altogether, and from now on
	resent     bool          // by its process, while the response is held
	over       bool          // it is over: the request does not say any more that it listens
}

// newProcess draws the number of a process. Two with the same one are passed over together.
func newProcess() int64 { return 1 + rand.Int64N(1<<27-1) }

// holding is how this process holds a response, for most at most.
func (l *Locks) holding(most time.Duration) (h hold) {
	if most <= 0 {
		return hold{}
	}
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	return hold{listener: listener{process: l.process, told: l.waits.says}, most: most, left: most}
}

// listensAt reports whether a place counts at a time: others do not pass over it.
func (p place) listensAt(at time.Time) bool { return !p.deaf && p.listens.After(at) }

// reaches reports whether what is free is handed over to a place: its request listens, and for as long as its process
// needs to learn of that. A grant of a rate that no one claims is spent: it is handed over to those who come again by
// themselves, and by a process to its own. reads is [sharedForm.readsWithin], the same for all places.
func (v *sharedForm) reaches(p place, w rule.When, reads func() time.Duration) bool {
	left := p.listens.Sub(docstore.TruncateMilli(w.Latest()))
	switch {
	case !p.listensAt(w.At):
		return false
	case p.process == 0:
		return true
	case v.family == Rate:
		return p.process == v.writer && left >= v.claimTime(p, w)
	case p.told:
		return left >= claimTook*p.took
	default:
		return left >= claimTook*p.took+reads()
	}
}

// listensFor is for how long from now on a request listens, whose place has a position.
func (c Acquire) listensFor(position int64) time.Duration {
	asked := time.Duration(c.WaitSeconds) * time.Second
	switch most := c.held.most; {
	case c.unheld:
		return c.comesWithin(position) + pollMargin
	case c.held.process == 0:
		return asked
	case heldEnough(most, asked) && c.WaitSeconds == MaxWaitSeconds:
		return c.held.left + pollMargin // who waits for longer than one request can sends it again at once
	case heldEnough(most, asked):
		return c.held.left
	default:
		return c.held.left + max(c.comesWithin(position)-most, pollLeast) + pollMargin
	}
}

// listenAt notes with a place until when its request listens. One that came again listens for a while longer than it
// says, so that not each time is written; but not one that came for the first time, since it may never come again.
func (c Acquire) listenAt(p *place, position int64, w rule.When) {
	p.listens = earlier(docstore.TruncateMilli(w.Latest()).Add(c.listensFor(position)), p.until)
	if c.unheld {
		p.listens = earlier(p.listens.Add(placeStep), p.until)
	}
}

// stays notes with its place that a request waits on, and reports whether that is worth a write.
func (c Acquire) stays(p *place, position int64, w rule.When) bool {
	now := docstore.TruncateMilli(w.Latest())
	until := c.until(now)
	moves := until.Sub(p.until) >= placeStep && !c.held.resent
	again := *p
	if !c.held.resent {
		again.until = later(p.until, until)
	}
	if c.listenAt(&again, position, w); !c.unheld && !c.held.resent {
		again.listens = earlier(again.listens.Add(placeStep), again.until)
	}
	need, step := earlier(now.Add(c.listensFor(position)), again.until), placeStep
	switch {
	case c.unheld:
		step = listenStep
	case c.held.resent:
		step = MaxWaitSeconds * time.Second
	}
	if !moves && p.listensAt(now) && need.Sub(p.listens) < step {
		return false
	}
	p.until, p.listens, p.deaf = again.until, later(p.listens, again.listens), false
	p.end = later(p.end, c.replacesUntil())
	missed := p.missed
	p.listener = c.listener(w)
	p.missed = missed
	return true
}

// miss gives a lease that was not claimed in time back to the line: its request has its place again, and is passed over
// until it listens. So are the others of its process, unless that is the one which finds it out, or the response was no
// longer held when the time was over: then the process may be well.
func (v *sharedForm) miss(h holder) {
	p := place{
		owner: h.owner, leaseID: h.leaseID, request: h.request, mode: h.mode, ttl: h.ttl, delay: h.delay,
		metadata: h.metadata, replaceable: h.replaceable, since: h.since, until: h.until, listener: h.listener,
	}
	p.missed++
	silent := p.process != 0 && p.process != v.writer && !h.listens.Before(h.expires.Time)
	at := slices.IndexFunc(v.line, func(q place) bool { return q.since.After(p.since) })
	if at < 0 {
		at = len(v.line)
	}
	v.line = slices.Insert(v.line, at, p)
	for i := range v.line {
		v.line[i].deaf = v.line[i].deaf || silent && v.line[i].process == p.process
	}
}

// claimTime is how long what is handed over to a place waits to be claimed, [ClaimTime] at most. Who comes again by
// itself has until it does.
func (v *sharedForm) claimTime(p place, w rule.When) time.Duration {
	if p.process == 0 {
		return min(max(p.listens.Sub(docstore.TruncateMilli(w.Latest())), claimLeast), ClaimTime)
	}
	d := claimLeast + claimTook*p.took
	switch {
	case p.told:
	case v.family == Rate: // its process has read since then when the grant was made that leaves the window
		d += max(0, readAtLast-v.span())
	default:
		d += v.readsWithin(w)
	}
	for range min(p.missed, 8) {
		d *= 2
	}
	return min(d, ClaimTime)
}

// readsWithin is after what time a process reads the document that is not told of changes, see [watch.rhythm]: by the
// lease that was granted last, or, if the process may not have seen that yet, by one before it.
func (v *sharedForm) readsWithin(w rule.When) (longest time.Duration) {
	var granted []time.Time
	for _, p := range v.past {
		granted = append(granted, p.AcquiredAt)
	}
	for _, h := range v.holders {
		granted = append(granted, h.acquired)
	}
	now, since := docstore.TruncateMilli(w.Latest()), time.Duration(0) // since the one after it was granted
	// Those of this write no one has seen.
	granted = slices.DeleteFunc(granted, func(at time.Time) bool { return !at.Before(now) })
	slices.SortFunc(granted, func(a, b time.Time) int { return b.Compare(a) })
	granted = slices.CompactFunc(granted, time.Time.Equal) // together
	for i, at := range granted {
		age := now.Sub(at)
		rhythm := min(max((age-since)/10, time.Duration(1+i)*readNext), readEvery)
		longest = max(longest, rhythm*5/4-since)
		if since = age; since >= readAtLast {
			return longest.Truncate(time.Millisecond)
		}
	}
	return max(longest, readAtLast-since).Truncate(time.Millisecond) // of those before them nothing is known
}

// turns are those of the processes that hold the responses of requests in the line of a rate. All of them know when
// there is room, so that nothing has to be handed over, and what no one takes is not spent: the process of the first
// one takes it for its request. Where it does not for the time of a claim, it is the turn of the next process.
type turns struct {
	over   time.Time // of the last one that was passed over
	passed []int64   // the processes that had theirs
	next   time.Time // when that which has its turn now is passed over; zero if none has
}

// passes reports whether the process of a place in the line of a rate had its turn. v.turns.next says when it will have
// had, if that is known.
func (v *sharedForm) passes(p place, w rule.When) bool {
	switch t := &v.turns; {
	case v.roomSince.IsZero() || p.process == v.writer:
		return false
	case slices.Contains(t.passed, p.process):
		return true
	default:
		over := later(t.over, v.roomSince).Add(v.claimTime(p, w))
		if over.After(w.At) {
			t.next = over
			return false
		}
		t.over, t.passed = over, append(t.passed, p.process)
		return true
	}
}

// silence passes over all places of processes that had their turn, until one of their requests says that it listens:
// then that process has twice as long.
func (v *sharedForm) silence() {
	for i := range v.line {
		if p := &v.line[i]; slices.Contains(v.turns.passed, p.process) && !p.deaf {
			p.deaf = true
			p.missed++
		}
	}
}

// findRoom is since when the window of a rate has room, zero if it has none or if the document does not say it: when
// the grant left it without which it was full.
func (v *sharedForm) findRoom(w rule.When) time.Time {
	free := v.limit
	var left []time.Time
	note := func(at time.Time) {
		if v.inWindow(at, w) {
			free--
			return
		}
		left = append(left, at.Add(v.span()))
	}
	for _, g := range v.grants {
		note(g.at)
	}
	note(v.latest.acquired)
	if free <= 0 || len(left) == 0 {
		return time.Time{}
	}
	slices.SortFunc(left, func(a, b time.Time) int { return b.Compare(a) })
	return left[min(free, int64(len(left)))-1]
}

// listening is how many in line listen.
func (v *sharedForm) listening(at time.Time) (n int64) { return v.position(len(v.line), at) - 1 }

// position is which of those who listen in line the place at i is, from 1 on, if it does.
func (v *sharedForm) position(i int, at time.Time) int64 {
	n := int64(1)
	for _, p := range v.line[:i] {
		if p.listensAt(at) {
			n++
		}
	}
	return n
}

// again is the write by which a request says that it listens, where that is all that a decision comes to: like that of
// [Acquire.join] it does not say what the document was, so that a server far from the store is heard, too. Where the
// request has no place any more it says nothing. It is for requests whose responses are held: the process learns of
// what it finds, and sends them again.
func (c Acquire) again(s State, d decision, at rule.When) (w docstore.Write, ok bool) {
	v := s.shared
	if v == nil || c.held.process == 0 || d.position == 0 || d.after.cleared || len(d.after.granted) > 0 ||
		len(d.after.line) != len(v.line) {
		return w, false
	}
	i, _ := d.after.placeOf(c.request())
	free := joined[v.joined:]
	if i < 0 || len(free) == 0 {
		return w, false
	}
	p := d.after.line[i]
	p.again, p.owner, p.leaseID, p.metadata = true, "", "", nil
	cond := docstore.All{
		inSharedForm, counted(fLimit, v.limit), counted(fWindow, v.window),
		givenUps.Lacks(c.request()), comparesExpiry,
	}
	for _, f := range free {
		cond = append(cond, docstore.Not{Cond: docstore.Has{Field: f}})
	}
	return docstore.Write{Key: c.key(), If: cond, Set: map[string]docstore.Value{free[0]: encodeLine([]place{p})},
		Add: map[string]int64{fRevision: 1}, Until: docstore.TruncateMilli(at.At).Add(joinTime)}, true
}

// says notes that a request in line listens, as it said in a field of its own.
func (v *sharedForm) says(said place) {
	for i := range v.line {
		p := &v.line[i]
		if p.process == said.process && said.process != 0 {
			p.deaf = false
		}
		if rule.SameRequest(p.request, said.request) {
			p.until, p.listens, p.deaf = later(p.until, said.until), later(p.listens, said.listens), false
			said.missed = max(p.missed, said.missed)
			p.listener = said.listener
		}
	}
}

// makeRoom removes places that no one listens to, those that stopped first, while there are as many as may be, or they
// take too much.
func (v *sharedForm) makeRoom(at time.Time) {
	for len(v.line) >= MaxWaiting || v.bytes() >= mostBytes {
		oldest := -1
		for i, p := range v.line {
			if !p.listensAt(at) && (oldest < 0 || p.listens.Before(v.line[oldest].listens)) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		v.line, v.cleared = slices.Delete(v.line, oldest, oldest+1), true
	}
}

// letsBy is when the first in line is passed over, if that lets others have the lock: those behind it in the line of a
// rate, or readers behind a writer. Zero if it does not.
func (v *sharedForm) letsBy() time.Time {
	if v.family == Rate {
		if i := slices.IndexFunc(v.line, func(p place) bool { return !p.deaf && !p.listens.IsZero() }); i >= 0 {
			return v.line[i].listens
		}
		return time.Time{}
	}
	if v.family != Exclusive || len(v.line) == 0 || len(v.holders) == 0 || v.holders[0].mode != Shared {
		return time.Time{}
	}
	first := slices.IndexFunc(v.line, func(p place) bool { return p.mode != Shared && !p.deaf && !p.listens.IsZero() })
	if first < 0 || !slices.ContainsFunc(v.line[first:], func(p place) bool { return p.mode == Shared }) {
		return time.Time{}
	}
	return v.line[first].listens
}
