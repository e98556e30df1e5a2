package conns_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/conns"
)

// link is a connection of a set, and its other side.
type link struct {
	t            *testing.T
	client, peer net.Conn
}

func dial(t *testing.T, set *conns.Set) link {
	t.Helper()
	var peer net.Conn
	c, err := set.Track(func(context.Context, string, string) (client net.Conn, err error) {
		client, peer = net.Pipe()
		return client, nil
	})(t.Context(), "tcp", "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), peer.Close() })
	return link{t, c, peer}
}

// sends sends a byte, which the other side receives.
func (l link) sends() {
	l.t.Helper()
	go func() { _, _ = l.client.Write([]byte{1}) }()
	if _, err := l.peer.Read(make([]byte, 1)); err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
}

// gets lets a byte come.
func (l link) gets() {
	l.t.Helper()
	go func() { _, _ = l.peer.Write([]byte{1}) }()
	if _, err := l.client.Read(make([]byte, 1)); err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
}

// open reports whether the connection was left alone.
func (l link) open() bool {
	_ = l.client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := l.client.Read(make([]byte, 1))
	_ = l.client.SetReadDeadline(time.Time{})
	return !errors.Is(err, io.ErrClosedPipe)
}

// TestLeave: what has been silent for a try is closed, and nothing else.
func TestLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set conns.Set
		idle, silent, slow, answered, busy := dial(t, &set), dial(t, &set), dial(t, &set), dial(t, &set), dial(t, &set)
		silent.sends()
		answered.sends()
		busy.sends()
		time.Sleep(conns.TryTimeout - time.Second)
		answered.gets()
		busy.gets()
		busy.sends()
		slow.sends() // on a connection that was idle: the request has time left
		time.Sleep(time.Second)
		fresh := dial(t, &set)
		set.Leave()
		for name, c := range map[string]struct {
			link link
			want bool
		}{
			"idle": {idle, false}, "silent": {silent, false}, "answered": {answered, true},
			"answers others": {busy, true}, "waits for less": {slow, true}, "new": {fresh, true},
		} {
			if got := c.link.open(); got != c.want {
				t.Errorf("%s: open is %v", name, got)
			}
		}
		time.Sleep(conns.TryTimeout - time.Second)
		if set.Leave(); slow.open() {
			t.Error("the request that had time left has none any more")
		}
	})
}

// TestBegin: connections from before a gap are not used again.
func TestBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set conns.Set
		set.Begin()
		idle, listened := dial(t, &set), dial(t, &set)
		time.Sleep(conns.IdleTime - time.Second)
		if set.Begin(); !idle.open() {
			t.Fatal("closed without a gap")
		}
		time.Sleep(conns.IdleTime - time.Second)
		listened.gets()
		time.Sleep(time.Second)
		if set.Begin(); idle.open() || !listened.open() {
			t.Errorf("after a gap: open is %v, that on which something came %v", idle.open(), listened.open())
		}
	})
}

// TestGuard: a silent connection that requests share is closed while they wait on it, and not once they are answered.
func TestGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set conns.Set
		first := dial(t, &set)
		stop := set.Guard()
		first.sends()
		time.Sleep(conns.TryTimeout - time.Second)
		first.gets()
		first.sends()
		time.Sleep(conns.TryTimeout)
		if !first.open() {
			t.Error("closed although something came")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if first.open() {
			t.Error("it was silent, and is open")
		}
		second := dial(t, &set)
		stop()
		time.Sleep(3 * conns.TryTimeout)
		if !second.open() {
			t.Error("closed after the request was over")
		}
	})
}

// TestNone: a client that dials by itself has no set, and that is all.
func TestNone(t *testing.T) {
	t.Parallel()
	var set *conns.Set
	set.Begin()
	set.Leave()
	set.Guard()()
}

// TestSystem: clients may ask the system about a connection, where it is one of the system's.
func TestSystem(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var set conns.Set
	c, err := set.Track((&net.Dialer{}).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ask := func(c net.Conn) error {
		_, err := c.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // it is one
		return err
	}
	if err := ask(c); err != nil {
		t.Error(err)
	}
	if err := ask(dial(t, &set).client); err == nil {
		t.Error("a pipe is none of the system's")
	}
}

// TestLeft: a request on a connection that was left while it was idle was not sent, and the error says so; of one that
// had begun it does not.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set conns.Set
		idle, asked := dial(t, &set), dial(t, &set)
		time.Sleep(conns.TryTimeout)
		asked.sends()
		time.Sleep(conns.TryTimeout)
		set.Leave()
		if _, err := idle.client.Write([]byte{1}); !errors.Is(err, conns.ErrLeft) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("an idle one: %v", err)
		}
		if _, err := asked.client.Write([]byte{1}); errors.Is(err, conns.ErrLeft) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("one with a request: %v", err)
		}
		if err := idle.client.SetWriteDeadline(time.Time{}); !errors.Is(err, conns.ErrLeft) {
			t.Errorf("an idle one, before a request: %v", err)
		}
		if err := asked.client.SetReadDeadline(time.Time{}); errors.Is(err, conns.ErrLeft) {
			t.Errorf("one with a request, before its response: %v", err)
		}
		closed := dial(t, &set)
		_ = closed.client.Close()
		if _, err := closed.client.Write([]byte{1}); errors.Is(err, conns.ErrLeft) {
			t.Errorf("one that its client closed: %v", err)
		}
	})
}
