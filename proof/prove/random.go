package prove

import (
	"math/rand/v2"
	"slices"
)

// fault is what goes wrong.
type fault uint8

const (
	none fault = iota
	lostRequest
	lostAnswer
	appliedThenError
	doubled
	late
	throttled
	conflict
	resent
	slowStore
	wallStep
	froze
	slept
	killed
	restarted
	storeStep // and those after it, by [stepSizes]
	storeSteps
	storeMinute
	storeHour
	storeDay
	cameBack
	serverClock
	faults
)

// FaultNames are what faults are called in reports.
var faultNames = [faults]string{
	lostRequest: "request lost", lostAnswer: "response lost", appliedThenError: "applied, then an error",
	doubled: "request delivered twice", late: "message late, up to three times the ttl",
	throttled: "write refused by the store", conflict: "another command between two writes of one",
	resent: "write sent again by the store's library", slowStore: "response of the store later than the ttl",
	wallStep: "wall clock of a client set", froze: "client frozen", slept: "client's machine asleep",
	killed: "client killed", restarted: "server restarted",
	storeStep: "clock of the store set, up to a second off", storeSteps: "the same, up to four seconds off",
	storeMinute: "the same, up to a minute off", storeHour: "the same, up to an hour off",
	storeDay:    "the same, up to a day off",
	cameBack:    "store back as it was before",
	serverClock: "clock of a server set, within its bound",
}

// counts are what a proof did.
type counts struct {
	operations int
	faults     [faults]int
	judged     [invariants]int
}

func (c *counts) add(o *counts) {
	c.operations += o.operations
	for i, n := range o.faults {
		c.faults[i] += n
	}
	for i, n := range o.judged {
		c.judged[i] += n
	}
}

// worlds is how many kinds of worlds there are: of seeds that follow each other, each has its turn. In the first one
// the store's clock is right, in the second the clocks of servers count, in the third the store's clock is set, and in
// the fourth the store comes back older.
const worlds = 4

// drawn are the scenes of random worlds, by the seed.
func drawn(seed uint64, draw *rand.Rand) *scene {
	s := &scene{keys: []kind{plain, plain, fair, permits, aRun, ids}, clients: 3 + draw.IntN(5), ttl: 2 + draw.Int64N(5)}
	switch seed % worlds {
	case 1:
		s.skew = 500
	case 2:
		s.stepped = storeStep + fault(seed/worlds%uint64(len(stepSizes)))
		s.steps = stepSizes[s.stepped-storeStep]
		s.settings = []int{0, 0, 1, 2}[draw.IntN(4)]
	case 3:
		s.older = true
	default:
	}
	if seed%4 < 2 { // where it can be said when a lease ends
		s.keys = append(s.keys, latest)
	}
	if seed%16 < 2 { // so often that more come than a lock remembers
		s.keys = []kind{latest, latest, plain}
	}
	return s
}

// stepSizes are how far from the true time the clock of a store is set, in milliseconds.
var stepSizes = [...]int64{1_000, 4_000, 60_000, 3_600_000, 24 * 3_600_000}

// Lengths of a random history: the operations with faults, and how many there are in all, at the least.
const (
	stormOps = 1600
	allOps   = 2000
)

// bound is how long after the last fault every client must have got what it asks for, in milliseconds: what is left of
// leases and of places in line of those who were killed, and a turn of everyone, twice.
func (s *scene) bound() int64 {
	return 2 * int64(s.clients) * (s.ttl + waitSeconds + 10) * 1000
}

// play carries out the history of a seed.
func (r *rig) play() {
	w := r.w
	for i := range w.clients {
		w.clients[i].wake = r.draw.Int64N(500)
		w.clients[i].stops = r.draw.IntN(2) == 0
	}
	if r.scene.steps > 0 && r.draw.IntN(2) == 0 {
		r.stepped()
	}
	began := r.count.operations
	fate := int64(300)
	calmSince := int64(0)
	for w.broken == nil {
		done := r.count.operations - began
		if !r.calm && done >= stormOps {
			r.calm, calmSince = true, w.now
			r.count.judged[allEnds] += len(w.clients)
			r.recover()
		}
		if r.calm {
			missing := slices.IndexFunc(w.clients, func(c client) bool { return c.served <= calmSince })
			if missing < 0 && done >= allOps {
				return
			}
			if missing >= 0 && w.now > calmSince+r.scene.bound() {
				c := &w.clients[missing]
				r.breakf(allEnds, c.name, "%s, which is %s, got nothing within %s of the last fault", owner(c.who),
					phaseNames[c.phase], clock(r.scene.bound()))
			}
		}
		next, at, who := r.next()
		if !r.calm && fate < at {
			w.now, fate = fate, fate+50+r.draw.Int64N(900)
			r.befall()
			continue
		}
		w.now = max(w.now, at)
		switch {
		case next >= 0:
			r.deliver(next)
		default:
			r.step(&w.clients[who])
		}
	}
}

// next is the event that comes next: a message, or, if that is -1, the step of a client.
func (r *rig) next() (message int, due int64, who int) {
	w := r.w
	message, who, due = -1, -1, 1<<62
	for i := range w.flight {
		m := &w.flight[i]
		at := m.due
		if c := &w.clients[m.who]; m.back {
			at = max(at, c.until)
		}
		if at < due || at == due && message >= 0 && m.seq < w.flight[message].seq {
			message, due = i, at
		}
	}
	for i := range w.clients {
		c := &w.clients[i]
		if at := max(c.wake, c.until); at < due {
			message, due, who = -1, at, i
		}
	}
	return message, due, who
}

// chance is true once in n times, while there are faults.
func (r *rig) chance(n int) bool { return !r.calm && r.draw.IntN(n) == 0 }

// put sends a message, by a network that is not perfect.
func (r *rig) put(m message) {
	w := r.w
	w.seq++
	m.seq = w.seq
	if r.draw == nil {
		m.due = 0
		w.flight = append(slices.Clip(w.flight), m)
		r.log.sent(w, &m, none)
		return
	}
	m.due = w.now + 1 + r.draw.Int64N(20)
	if m.back && m.answer.took > 0 {
		m.due += m.answer.took
	}
	met := none
	switch {
	case r.chance(25):
		met = lostRequest
		if m.back {
			met = lostAnswer
		}
	case r.chance(40):
		met = late
		m.due += r.draw.Int64N(3 * r.scene.ttl * 1000)
	case !m.back && r.chance(25):
		met = doubled
		again := m
		w.seq++
		again.seq = w.seq
		again.due += r.draw.Int64N(2 * r.scene.ttl * 1000)
		w.flight = append(w.flight, again)
	case r.chance(4):
		m.due += r.draw.Int64N(400)
	}
	if !m.back {
		switch {
		case r.chance(20):
			m.fault = []fault{throttled, appliedThenError}[r.draw.IntN(2)]
		case !r.scene.older && !r.scene.keys[m.key].lines() && r.scene.keys[m.key] != ids && r.chance(40):
			m.fault = resent
		case r.scene.keys[m.key] <= latest && r.chance(100):
			m.fault = slowStore
		}
	}
	r.count.faults[met]++
	r.log.sent(w, &m, met)
	if met != lostRequest && met != lostAnswer {
		w.flight = append(w.flight, m)
	}
}

// deliver lets a message arrive.
func (r *rig) deliver(i int) {
	w := r.w
	m := w.flight[i]
	w.flight = slices.Delete(w.flight, i, i+1)
	if m.back {
		r.thaw(&w.clients[m.who])
		r.log.arrived(w, &m)
		r.receive(&m)
		r.plan(&w.clients[m.who], false)
		return
	}
	if r.draw != nil && !r.inside && r.chance(12) {
		if j := slices.IndexFunc(w.flight, func(o message) bool { return !o.back && o.server != m.server }); j >= 0 {
			seq := w.flight[j].seq
			r.between = func() {
				if j := slices.IndexFunc(w.flight, func(o message) bool { return o.seq == seq }); j >= 0 {
					r.count.faults[conflict]++
					r.inside = true // that one meets no other: a server lets its commands on a lock take turns
					r.deliver(j)
					r.inside = false
				}
			}
		}
	}
	r.log.arrived(w, &m)
	a := r.serve(&m)
	r.log.decided(w, &m, a)
	back := message{request: m.request, back: true, answer: a}
	r.put(back)
}

// step is the next step of a client by itself.
func (r *rig) step(c *client) {
	r.thaw(c)
	w := r.w
	d := r.draw
	switch c.phase {
	case gone:
		*c = client{who: c.who, stops: c.stops, intention: c.intention, sent: c.sent, served: c.served, wall: c.wall,
			name: c.name}
	case idle:
		r.act(c, start, d.IntN(len(r.scene.keys)))
	case asking:
		if !r.calm && d.IntN(8) == 0 {
			r.act(c, leave, 0)
		} else {
			r.act(c, again, 0)
		}
	case ending, leaving:
		if c.tries > 8 && !r.calm {
			c.phase, c.open = idle, false // it has tried for long, and leaves the rest to time
		} else {
			r.act(c, again, 0)
		}
	case holding:
		switch n := d.IntN(100); {
		case !w.holds(c):
			c.phase, c.open = idle, false
			r.log.note(w, c, "its lease has expired by its clocks")
		case c.open && w.moment(c).Wall().Sub(c.asked.Wall()) < tryTime:
			r.act(c, work, 0)
		case c.renewing:
			r.act(c, again, 0)
		case n < 45 && c.works < 6:
			r.act(c, work, 0)
		case n < 75 && r.scene.keys[c.key] != ids && !r.calm:
			r.act(c, extend, 0)
		case n < 80 && r.scene.keys[c.key] == aRun:
			r.act(c, fail, 0)
		default:
			r.act(c, end, 0)
		}
	}
	r.plan(c, true)
}

// act takes a step of a client, and records it.
func (r *rig) act(c *client, a act, key int) {
	r.log.acted(r.w, c, a, key)
	r.do(c, a, key)
}

// plan sets when a client takes its next step.
func (r *rig) plan(c *client, own bool) {
	if r.draw == nil {
		return
	}
	d, w := r.draw, r.w
	switch {
	case c.phase == holding:
		c.wake = w.now + 20 + d.Int64N(max(1, r.scene.ttl*250))
	case c.phase == gone:
		c.wake = max(c.wake, w.now+1)
	case c.open:
		if own {
			c.wake = w.now + tryTime.Milliseconds()
		}
	case c.phase == idle:
		c.wake = w.now + 10 + d.Int64N(300)
	default: // a pause before the next try
		c.wake = w.now + 50 + d.Int64N(600)
	}
}

// thaw lets a client go on that was frozen.
func (r *rig) thaw(c *client) {
	if c.until == 0 {
		return
	}
	if c.stops {
		c.stood += max(0, r.w.now-c.froze)
	}
	c.until = 0
	r.log.note(r.w, c, "goes on")
}

// befall lets a fault happen that is not one of a message.
func (r *rig) befall() {
	w, d := r.w, r.draw
	c := &w.clients[d.IntN(len(w.clients))]
	met := none
	switch n := d.IntN(12); {
	case n < 2 && !c.stops:
		met = wallStep
		c.wall = d.Int64N(6000) - 3000
		r.log.note(w, c, "its wall clock is set")
	case n < 5 && c.until == 0 && c.phase != gone:
		if met = froze; c.stops {
			met = slept
		}
		c.froze, c.until = w.now, w.now+d.Int64N(2*r.scene.ttl*1000)
		r.log.note(w, c, "is frozen")
	case n < 7 && c.phase != gone && c.until == 0:
		met = killed
		r.act(c, die, 0)
		c.wake = w.now + d.Int64N(3000)
	case n == 7:
		met = restarted
		server := d.IntN(2)
		r.restart(server)
		w.flight = slices.DeleteFunc(w.flight, func(m message) bool { return m.server == server })
	case n < 10 && r.scene.skew > 0:
		met = serverClock
		w.servers[d.IntN(2)] = d.Int64N(2*r.scene.skew+1) - r.scene.skew
	case n < 10 && r.scene.steps > 0 && (r.scene.settings == 0 || w.set < r.scene.settings):
		r.stepped()
	case n < 10 && r.scene.older && r.comesBack():
		met = cameBack
	}
	if r.count.faults[met]++; met == restarted || met == cameBack || met == serverClock {
		r.log.world(w, faultNames[met])
	}
}

// recover ends the faults: what is frozen goes on, what was killed is started again.
func (r *rig) recover() {
	for i := range r.w.clients {
		c := &r.w.clients[i]
		r.thaw(c)
		c.wake = min(c.wake, r.w.now+100)
	}
}

var phaseNames = [...]string{"idle", "asking", "holding", "ending", "leaving", "killed"}
