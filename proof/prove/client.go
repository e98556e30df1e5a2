package prove

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/ends"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// phase is what a client is about.
type phase uint8

const (
	idle    phase = iota
	asking        // for a lease
	holding       // one, as far as it knows
	ending        // it: it has stopped what it did under the lease
	leaving       // it wants the lease no more, and gives the request up until there is an answer
	gone          // killed
)

// act is a step that a client can take by itself.
type act uint8

const (
	start  act = iota // asks for a lease
	again             // sends the request again that had no answer, or was refused
	leave             // gives up a request that had no answer, or its place in line
	work              // writes to what the lease protects, or stamps an ID
	extend            // renews the lease
	end               // ends it: releases the lock, finishes the run
	fail              // ends a run without a result
	die               // is killed
)

var actNames = [...]string{"asks", "asks again", "gives up", "works", "renews", "ends its lease",
	"fails", "is killed"}

// client is a process with one lease at a time.
type client struct {
	who   int
	phase phase
	key   int
	name  string

	wall  int64 // how far its wall clock is ahead of the true time, milliseconds
	stood int64 // for how long its monotonic clock stood still
	froze int64 // since when it is frozen, if it is: it does nothing
	until int64 // until then; 0: it is not frozen
	stops bool  // its monotonic clock stands still while it is frozen

	intention int  // how many there were
	renewal   int  // of this lease
	sent      int  // how many requests there were
	call      int  // the number of the try that is under way, or was last
	open      bool // a try is under way
	known     bool // a request of it arrived
	tries     int  // of this request
	works     int  // under this lease
	placed    bool // it may have a place in line
	unsure    bool // a try without an answer may be carried out
	renewing  bool // the renewal is not answered yet
	failing   bool // its run ends without a result

	asked   term.Moment // before the try
	end     term.Moment // of the lease
	token   int64
	expires string
	lease   kazahana.Lease
	stamp   int64 // the last timestamp under the lease

	learned time.Time // the store's time that a refusal told
	then    time.Time // by the client's own wall clock
	took    time.Duration

	trySent int64 // when the try that is under way was sent, or the last one
	kept    int64 // of the lease: when the request was sent by which it lasts as long as it does

	served int64 // when it got what it asked for, the last time
	wake   int64 // when it takes its next step; not in an exploration
}

// moment is what a client's clocks show.
func (w *world) moment(c *client) term.Moment {
	mono := w.now - c.stood
	if c.until > 0 && c.stops {
		mono = c.froze - c.stood
	}
	return term.On(at(mono), at(w.now+c.wall))
}

var errExpired = errors.New("the lease has expired by the client's clocks")

// holds reports whether a client holds its lease as far as it knows: its library lets it work.
func (w *world) holds(c *client) bool {
	if c.phase != holding {
		return false
	}
	t := term.New(context.Background(), func() term.Moment { return w.moment(c) }, c.end,
		func(error) error { return errExpired })
	return t.Check() == nil
}

// requestID names what a client wants now.
func (c *client) requestID(o op) string {
	id := owner(c.who) + "-" + strconv.Itoa(c.intention)
	switch o {
	case renew:
		return id + "r" + strconv.Itoa(c.renewal)
	case release, finish:
		return id + "x"
	default:
		return id
	}
}

// tryTime is how long a client waits for an answer.
const tryTime = time.Second

// lineTime is for how long a request for a place in line is good.
const lineTime = 12 * time.Second

// waitSeconds is for how long a client says that it waits in line.
const waitSeconds = 2

// send sends a request of a client once.
func (r *rig) send(c *client, o op) {
	w := r.w
	c.sent++
	if o != write { // of whose answer nothing depends
		c.call, c.open, c.asked, c.trySent = c.sent, true, w.moment(c), w.now
		c.tries++
	}
	m := message{request: request{op: o, key: c.key, name: c.name, who: c.who, call: c.sent, id: c.requestID(o),
		token: c.token, lease: c.lease, at: c.stamp, server: (c.who + c.sent*r.spread()) % 2}}
	switch o {
	case acquire, giveUp:
		m.until, m.wait = w.endOf(c), waitSeconds
	case renew:
		m.expires = c.expires
	default:
	}
	r.put(m)
}

// spread is 1 where a client turns to another server with each try; in an exploration it stays with one.
func (r *rig) spread() int {
	if r.scene.fresh {
		return 0
	}
	return 1
}

// endOf is the end of a request that a client sends now, see package ends.
func (w *world) endOf(c *client) time.Time {
	try := tryTime
	if k := w.scene.keys[c.key]; k.lines() || k == latest {
		try = lineTime
	}
	own := w.moment(c).Wall()
	now := own
	clock := ends.Clock{Now: func() time.Time { return now }}
	if !c.learned.IsZero() {
		now = c.then
		clock.Correct(c.learned, c.took)
		now = own
	}
	end, err := time.Parse(contracts.TimeFormat, clock.End(context.Background(), try))
	if err != nil {
		panic(err) // the format is a constant
	}
	return end
}

// do takes a step of a client. It is one of those that [rig.acts] names.
func (r *rig) do(c *client, a act, key int) {
	switch a {
	case start:
		c.phase, c.key, c.name = asking, key, r.w.nameOf(key)
		c.intention++
		c.tries, c.unsure, c.placed = 0, false, false
		r.send(c, acquire)
	case again:
		switch c.phase {
		case asking:
			c.unsure = c.unsure || c.open
			r.send(c, acquire)
		case leaving:
			r.send(c, giveUp)
		case holding:
			c.unsure = true
			r.send(c, renew)
		default:
			r.send(c, r.ending(c))
		}
	case leave:
		if c.phase, c.tries = leaving, 0; !c.open && !c.unsure && !c.placed || r.scene.keys[c.key] == ids {
			c.phase, c.open = idle, false
			return
		}
		r.send(c, giveUp)
	case work:
		c.works++
		if r.scene.keys[c.key] == ids {
			r.stampID(c)
			return
		}
		r.begins(c)
		r.send(c, write)
	case extend:
		c.renewal++
		c.renewing, c.unsure, c.tries = true, false, 0
		r.send(c, renew)
	case end, fail:
		c.phase, c.tries, c.failing = ending, 0, a == fail
		if r.scene.keys[c.key] == ids {
			c.stamp = max(c.stamp, r.w.moment(c).Wall().UnixMilli())
			r.ownEnds(c)
		}
		r.send(c, r.ending(c))
	case die:
		c.phase, c.open = gone, false
	}
}

// ending is the request that ends the lease of a client.
func (r *rig) ending(c *client) op {
	if r.scene.keys[c.key] == aRun && !c.failing {
		return finish
	}
	return release
}

// nameOf is what a key is called now.
func (w *world) nameOf(key int) string {
	name := "abcdefgh"[key : key+1]
	if w.scene.keys[key] == aRun {
		name += strconv.Itoa(w.run[key])
	}
	return name
}

// stampID makes an ID of the present millisecond, if that is in the lease.
func (r *rig) stampID(c *client) {
	ms := r.w.moment(c).Wall().UnixMilli()
	if ms < c.lease.Created || ms >= c.lease.Expired || ms <= c.stamp {
		return
	}
	c.stamp = ms
	r.stamped(c, ms)
}

// receive is the arrival of an answer at a client. An answer to a try that was given up tells it nothing.
func (r *rig) receive(m *message) {
	c := &r.w.clients[m.who]
	if m.call != c.call || !c.open || c.phase == gone {
		return
	}
	c.open = false
	took := max(0, r.w.moment(c).Wall().Sub(c.asked.Wall()))
	if e, ok := errors.AsType[*contracts.Error](m.answer.err); ok && !e.StoreTime.IsZero() && c.phase == asking {
		c.learned, c.then, c.took = e.StoreTime, r.w.moment(c).Wall(), took
	}
	switch c.phase {
	case asking:
		r.receiveGrant(c, m)
	case holding:
		r.receiveRenewal(c, m)
	case ending:
		if m.answer.err == nil || over(m.answer.err) || lease.Final(m.answer.err) || r.scene.keys[c.key] == ids &&
			!errors.Is(m.answer.err, contracts.CodeUnavailable) {
			c.phase = idle
		}
	case leaving:
		if m.answer.err == nil || lease.Final(m.answer.err) {
			c.phase = idle
		}
	default:
	}
}

// over reports whether an error says that a lease is the caller's no more, of a lock or of a run.
func over(err error) bool { return lease.Over(err) || once.IsLost(err) }

// receiveGrant is the answer to a request for a lease.
func (r *rig) receiveGrant(c *client, m *message) {
	a, k := m.answer, r.scene.keys[c.key]
	switch {
	case k == ids:
		if a.err == nil {
			c.phase, c.lease, c.stamp, c.served = holding, a.ids[0], 0, r.w.now
			c.end = c.asked.Add(time.Duration(c.lease.Expired-c.lease.Created) * time.Millisecond)
			c.renewal, c.works, c.renewing = 0, 0, false
			c.token = 0
		} else {
			c.phase = idle // the next try is another intention
		}
		return
	case k == aRun && a.err == nil && a.run.Code == analysis.AlreadyFinished:
		r.told(c, a.run.Result)
		c.phase, c.served = idle, r.w.now
		return
	case k == aRun && a.err == nil && a.run.Code == analysis.Locked:
		return
	case a.err == nil:
		token, expires, left := a.lease.FencingToken, a.lease.ExpiresAt, time.Duration(a.lease.RemainingMs)*time.Millisecond
		if k == aRun {
			token, left = a.run.Grant.Token, a.run.Grant.ExpiresAt.Sub(a.run.At)
		} else if err := (lease.Asked{Tenant: tenant, Key: c.name, Owner: owner(c.who)}).Acquired(
			m.asks(k, r.scene.ttl), a.lease); err != nil {
			r.breakf(wrongAnswer, c.name, "%s was granted what it did not ask for: %v", owner(c.who), err)
		}
		c.end = c.asked.End(min(left, time.Duration(r.scene.ttl)*time.Second))
		c.token, c.expires, c.renewal, c.works, c.renewing, c.unsure = token, expires, 0, 0, false, false
		if r.w.moment(c).Until(c.end) <= 0 { // no work can be begun under it
			c.phase, c.tries, c.failing = ending, 0, true
			r.send(c, release)
			return
		}
		c.phase, c.served, c.kept = holding, r.w.now, c.trySent
		r.begins(c)
		return
	}
	c.unsure = lease.Unsettled(a.err) || c.unsure && (!lease.Settles(a.err) || !lease.Final(a.err))
	e, _ := errors.AsType[*contracts.Error](a.err)
	if lease.Settles(a.err) {
		c.placed = k.lines() && errors.Is(a.err, contracts.CodeLockHeld)
	}
	switch {
	case errors.Is(a.err, contracts.CodeRequestIDReused), errors.Is(a.err, contracts.CodeLeaseExpired):
		c.intention++ // what it obtained has ended
		c.tries, c.unsure, c.placed = 0, false, false
	case e != nil && !e.StoreTime.IsZero(), errors.Is(a.err, contracts.CodeLockHeld):
	case r.scene.steps > 0 && errors.Is(a.err, contracts.CodeLockModeDiffers): // see rig.acquired
	case lease.Final(a.err):
		r.breakf(wrongAnswer, c.name, "%s was refused for good: %v", owner(c.who), a.err)
	}
}

// receiveRenewal is the answer to a renewal.
func (r *rig) receiveRenewal(c *client, m *message) {
	if !c.renewing {
		return
	}
	a := m.answer
	if a.err != nil {
		c.unsure = c.unsure || lease.Unsettled(a.err)
		at, elsewhere := lease.Changed(a.err, c.expires, c.unsure)
		switch {
		case elsewhere != nil, over(a.err):
			c.phase = idle
		case at != "":
			c.expires = at
		}
		return
	}
	c.renewing, c.unsure = false, false
	if !r.w.holds(c) {
		return // it came too late, and extends nothing
	}
	left := time.Duration(a.lease.RemainingMs) * time.Millisecond
	if r.scene.keys[c.key] == aRun {
		left = time.Duration(r.scene.ttl) * time.Second
	} else {
		c.expires = a.lease.ExpiresAt
	}
	c.end = c.asked.End(min(left, time.Duration(r.scene.ttl)*time.Second))
	c.kept = c.trySent
	r.begins(c)
}
