package idempotency

import (
	"bytes"
	"time"
)

// flight is a request of this process that asks the gate, and then runs the handler; others with the same key and
// payload wait for it, and share what comes of it.
type flight struct {
	done     chan struct{} // closed when it is over
	body     []byte        // of all of them whose bytes are equal
	response *record       // what all of them get
	problem  *problem      // what all of them get instead; with neither, another one of them asks

	// what is known of it, under the middleware's mutex: a request with the key is being carried out, here or elsewhere
	underWay bool
	turn     chan struct{} // closed when underWay changes, and replaced
}

// join returns the flight of the call's key and payload. first says that the call is that flight.
func (c *call) join() (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.id + c.print.all()
	if f := c.flights[name]; f != nil {
		if bytes.Equal(c.body, f.body) { // forms may be equal and have been sent otherwise
			c.body = f.body // one for all that wait
			c.r.Body = reader(c.body)
		}
		return f, false
	}
	f = &flight{done: make(chan struct{}), turn: make(chan struct{}), body: c.body}
	c.flights[name] = f
	return f, true
}

// land lets those go that wait for a flight.
func (c *call) land(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, c.id+c.print.all())
	close(f.done)
}

// known notes whether a request is known to be under way.
func (m *Middleware) known(f *flight, underWay bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.underWay != underWay {
		f.underWay = underWay
		close(f.turn)
		f.turn = make(chan struct{})
	}
}

// state is what known noted last, and a channel that is closed when that changes.
func (m *Middleware) state(f *flight) (underWay bool, turn <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.underWay, f.turn
}

// serve asks the gate, or waits for another request of this process that does.
func (c *call) serve() {
	if c.kept() {
		return
	}
	for {
		f, first := c.join()
		if first {
			c.first(f, max(0, time.Until(c.until)))
			return
		}
		if c.shared(f) {
			return
		}
	}
}

// shared waits for a flight and responds as it was responded to. false means that the call has to ask itself.
func (c *call) shared(f *flight) bool {
	timer := time.NewTimer(time.Until(c.until))
	defer timer.Stop()
	for late := false; ; {
		underWay, turn := c.state(f)
		if late && underWay {
			running(time.Second).send(c.w)
			return true
		}
		select {
		case <-f.done:
			switch {
			case f.response != nil:
				f.response.replay(c.w)
			case f.problem != nil:
				f.problem.send(c.w)
			default:
				return false
			}
			return true
		case <-turn:
		case <-timer.C: // what is not known to be under way is known soon: see awayTime
			late = true
		case <-c.r.Context().Done(): // no one reads it, unless the request had a deadline
			if underWay {
				running(time.Second).send(c.w)
			} else {
				c.unavailable().send(c.w)
			}
			return true
		}
	}
}
