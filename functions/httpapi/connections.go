package httpapi

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// MaxConnections is how many connections a server keeps open at once at most, unless more requests may wait.
const MaxConnections = 8192

// saidEvery is how often the log says at most that connections were closed to make room.
const saidEvery = time.Minute

// connections bounds how many connections are open at once. One that comes beyond that takes the place of another, of
// the network that has most of them: of the connection that had no request for the longest time, or, where each has one
// and another network asks, of the one whose request has taken the longest. So a network that opens one connection
// after the other, with requests or without, closes its own.
type connections struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]*connection
	of     map[string]int // by network
	closed int            // to make room, since the log said so
	said   time.Time
}

// connection is one that is open.
type connection struct {
	network string
	since   time.Time // when its state began
	works   bool      // it has a request
}

func newConnections(most int, log *slog.Logger) *connections {
	return &connections{most: most, log: log, open: map[net.Conn]*connection{}, of: map[string]int{}}
}

// changed is the [http.Server.ConnState] of the server.
func (s *connections) changed(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew {
		its := &connection{network: networkOf(c.RemoteAddr().String()), since: time.Now()}
		s.open[c] = its
		s.of[its.network]++
		if len(s.open) > s.most {
			s.close(s.next(its.network))
		}
		return
	}
	its := s.open[c]
	if its == nil { // it was closed to make room
		return
	}
	switch state {
	case http.StateActive, http.StateIdle:
		its.since, its.works = time.Now(), state == http.StateActive
	default: // closed, or no longer the server's
		s.forget(c, its)
	}
}

func (s *connections) forget(c net.Conn, its *connection) {
	delete(s.open, c)
	if s.of[its.network]--; s.of[its.network] == 0 {
		delete(s.of, its.network)
	}
}

// next is the connection that is closed to make room for one of a network.
func (s *connections) next(asks string) (next net.Conn) {
	fullest := asks
	for network, n := range s.of {
		if n > s.of[fullest] {
			fullest = network
		}
	}
	for c, its := range s.open {
		if its.network != fullest || its.works && fullest == asks { // the one that asks has no request yet
			continue
		}
		if n := s.open[next]; n == nil || !its.works && n.works || its.works == n.works && its.since.Before(n.since) {
			next = c
		}
	}
	return next
}

func (s *connections) close(c net.Conn) {
	s.forget(c, s.open[c])
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn() // does not wait for its client
	}
	_ = c.Close()
	if s.closed++; time.Since(s.said) >= saidEvery {
		s.log.Warn("connections were closed to make room for others", "closed", s.closed, "open_at_most", s.most)
		s.closed, s.said = 0, time.Now()
	}
}
