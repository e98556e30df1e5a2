package connstest

import (
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/conns"
)

// Calls puts a client of a store to the test whose connections, made by a network, go dead. call is a call of the store
// that may be sent again; it returns its error. It runs in a bubble of testing/synctest, and the times are exact but
// for the pauses before another try, which are shorter than a second.
//
// Calls that are under way succeed with the next try on a new connection, or the one after, if none could be made; none
// waits for longer than its tries. After a gap nothing is sent on connections from before it.
func Calls(t *testing.T, n *Network, call func() error) {
	t.Helper()
	const pause = time.Second // and what takes milliseconds
	take := func(what string, callers int, least, most time.Duration) {
		t.Helper()
		begin := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if err := call(); err != nil {
					t.Errorf("%s: after %v: %v", what, time.Since(begin), err)
				}
			})
		}
		all.Wait()
		took := time.Since(begin)
		time.Sleep(pause) // until connections are idle
		if took < least || took > most {
			t.Errorf("%s: it took %v, want from %v to %v", what, took, least, most)
		}
	}
	fine := func() { t.Helper(); take("nothing is wrong", 20, 0, pause) }
	fine()
	if n.Made() == 0 {
		t.Fatal("no connection was made")
	}

	n.Cut(false)
	take("those that there are", 20, conns.TryTimeout, conns.TryTimeout+pause)
	if n.Made() == 0 {
		t.Error("those that there are: no other connection was made")
	}

	fine()
	n.Cut(false) // more of them than there are callers: the next try must not take another dead one
	take("one caller, many connections", 1, conns.TryTimeout, conns.TryTimeout+pause)

	fine()
	n.Cut(true)
	time.AfterFunc(conns.TryTimeout+conns.TryTimeout/2, n.Heal)
	take("all for a while", 20, 2*conns.TryTimeout, 3*conns.TryTimeout)

	n.Cut(false)
	time.Sleep(conns.IdleTime)
	take("after a gap", 20, 0, pause)
}
