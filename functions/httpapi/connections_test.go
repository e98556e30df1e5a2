package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a connection that knows whether it was closed.
type counted struct {
	net.Conn

	name, from string
	closed     bool
}

func (c *counted) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1}
}

func (c *counted) Close() error {
	c.closed = true
	return nil
}

// TestConnectionsMakeRoom: beyond the bound the network that has most connections loses one: the one that was longest
// without a request. Another network's connections stay, whatever the first one does.
func TestConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newConnections(8, slog.New(slog.NewTextHandler(&log, nil)))
		var all []*counted
		open := func(name, from string) *counted {
			time.Sleep(time.Second)
			c := &counted{name: name, from: from}
			all = append(all, c)
			s.changed(c, http.StateNew)
			return c
		}
		left := func() string {
			var names []string
			for _, c := range all {
				if _, is := s.open[c]; is == c.closed {
					t.Errorf("%s: open %t, closed %t", c.name, is, c.closed)
				}
				if !c.closed {
					names = append(names, c.name)
				}
			}
			return strings.Join(names, " ")
		}
		expect := func(when, want string) {
			t.Helper()
			if got := left(); got != want {
				t.Errorf("%s: %q are open, not %q", when, got, want)
			}
		}

		right := open("right", "192.0.2.1")
		s.changed(right, http.StateActive)
		s.changed(right, http.StateIdle)
		var others []*counted
		for i := range 7 {
			others = append(others, open(fmt.Sprint("o", i), fmt.Sprint("198.51.100.", i)))
		}
		expect("at the bound", "right o0 o1 o2 o3 o4 o5 o6")
		s.changed(others[0], http.StateActive)
		others = append(others, open("o7", "198.51.100.7"))
		expect("one beyond", "right o0 o2 o3 o4 o5 o6 o7")
		for i := range 70 {
			others = append(others, open(fmt.Sprint("o", 8+i), "198.51.100.8"))
		}
		expect("ten times beyond", "right o0 o72 o73 o74 o75 o76 o77")

		for _, c := range others {
			if time.Sleep(time.Millisecond); !c.closed {
				s.changed(c, http.StateActive)
			}
		}
		open("o78", "198.51.100.8")
		expect("of a network of which each has a request", "right o0 o72 o73 o74 o75 o76 o77")
		open("left", "203.0.113.1")
		expect("of another network, then", "right o72 o73 o74 o75 o76 o77 left")
		s.changed(others[77], http.StateIdle)
		open("last", "203.0.113.2")
		expect("of another network, where one has no request", "right o72 o73 o74 o75 o76 left last")
		if n := strings.Count(log.String(), "closed to make room"); n != 2 { // 73 seconds
			t.Errorf("it was said %d times:\n%s", n, &log)
		}

		for _, c := range all {
			s.changed(c, http.StateClosed)
		}
		if len(s.open) != 0 || len(s.of) != 0 {
			t.Errorf("%d connections and %d networks are left when all are closed", len(s.open), len(s.of))
		}
	})
}
