package lock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// silent is a store that signals nothing and cannot be read.
type silent struct{ docstore.Store }

func (silent) Get(context.Context, ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, docstore.ErrUnavailable
}

// TestTurns: a request has its turn once for each observation of the document, whatever the rule then says; one that
// leaves, or takes long, does not hold up the next one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(silent{}, nil).waits
		id := ID{Tenant: "acme", Key: "k"}
		enter := func(owner string) (*watch, *waiter) {
			w, x := s.enter(Acquire{ID: id, Owner: owner, RequestID: owner, TTLSeconds: 1, WaitSeconds: 20})
			s.begin(w, x)
			return w, x
		}
		turn := func(x *waiter) bool {
			synctest.Wait()
			select {
			case <-x.turn:
				return true
			default:
				return false
			}
		}
		free := func() {
			s.note(id, observation{state: State{Phase: Released, Token: 7}, at: time.Now(), begun: time.Now()})
		}
		w, a := enter("a")
		if turn(a) {
			t.Error("a turn before anything is known")
		}
		free()
		if !turn(a) {
			t.Error("no turn, although the lock is free")
		}
		s.done(w, a)
		if turn(a) {
			t.Error("a second turn for one observation: the request was refused, and nothing was learned")
		}
		time.Sleep(10 * time.Millisecond)
		free()
		_, b := enter("b")
		if !turn(a) || turn(b) {
			t.Error("the next observation is the first one's turn, and no other's")
		}
		s.leave(w, a) // its time was over, and its turn was not used
		if !turn(b) {
			t.Error("no turn after the one before has left")
		}
		_, c := enter("c")
		time.Sleep(turnTime - time.Millisecond)
		if turn(c) {
			t.Error("a turn while another request is under way")
		}
		time.Sleep(2 * time.Millisecond)
		if !turn(c) {
			t.Error("no turn, although the one before takes long")
		}
		s.done(w, c)
		held := func(at time.Time) observation {
			return observation{state: State{Phase: Active, Token: 8, ExpiresAt: at.Add(time.Hour)}, at: at, begun: at}
		}
		begun := time.Now()
		time.Sleep(10 * time.Millisecond)
		s.note(id, held(time.Now()))
		s.note(id, observation{state: State{Phase: Released, Token: 7}, at: begun, begun: begun}) // overtaken by the grant
		if turn(c) {
			t.Error("a turn by what was known before")
		}
		s.leave(w, b)
		s.leave(w, c)
	})
}

// TestObservations: what requests that overtake each other found out does not undo what is known, but what was read
// later counts whatever the store's clock does.
func TestObservations(t *testing.T) {
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	held, free := State{Phase: Active, Token: 7}, State{Phase: Released, Token: 7}
	line := func(revision int64) State {
		return State{Phase: shared, Token: 7, revision: revision, shared: &sharedForm{}}
	}
	again := State{Phase: Active, Token: 7, revision: 6} // a line has come and gone
	known := observation{state: free, at: at(10), begun: at(10), arrived: at(12)}
	for name, c := range map[string]struct {
		o, known observation
		want     bool
	}{
		// the clock was set back
		"begun after the other arrived": {observation{state: held, at: at(5), begun: at(12)}, known, true},
		"overtaken":                     {observation{state: held, at: at(9), begun: at(8)}, known, false},
		"later":                         {observation{state: held, at: at(11), begun: at(8)}, known, true},
		"the same time, an older grant": {observation{state: State{Phase: Released, Token: 6}, at: at(10),
			begun: at(8)}, known, false},
		"the same time, a later grant": {observation{state: State{Phase: Active, Token: 8}, at: at(10), begun: at(8)},
			known, true},
		"the same time, held, after released": {observation{state: held, at: at(10), begun: at(8)}, known, false},
		"the same time, released, after held": {observation{state: free, at: at(10), begun: at(8)},
			observation{state: held, at: at(10), arrived: at(12)}, true},
		"the same time, an earlier revision": {observation{state: line(3), at: at(10), begun: at(8)},
			observation{state: line(4), at: at(10), arrived: at(12)}, false},
		"the same time, a later revision": {observation{state: line(5), at: at(10), begun: at(8)},
			observation{state: line(4), at: at(10), arrived: at(12)}, true},
		"the same time, before a line": {observation{state: held, at: at(10), begun: at(8)},
			observation{state: line(5), at: at(10), arrived: at(12)}, false},
		"the same time, with the line": {observation{state: line(5), at: at(10), begun: at(8)},
			observation{state: held, at: at(10), arrived: at(12)}, true},
		"the same time, after the line": {observation{state: again, at: at(10), begun: at(8)},
			observation{state: line(5), at: at(10), arrived: at(12)}, true},
		"the same time, with the line, late": {observation{state: line(5), at: at(10), begun: at(8)},
			observation{state: again, at: at(10), arrived: at(12)}, false},
	} {
		if got := c.o.follows(c.known); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
