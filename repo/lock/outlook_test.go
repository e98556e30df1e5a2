package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestWhatAllWhoWaitShareIsMadeOnce: what a version of the document means to all of a process who wait is found by as
// many allocations for a thousand as for ten, with a line and without, of every mode; but for those of a larger map.
func TestWhatAllWhoWaitShareIsMadeOnce(t *testing.T) {
	for name, form := range map[string]Acquire{
		"no line":  {TTLSeconds: 60},
		"in line":  {Fair: true, TTLSeconds: 60},
		"readers":  {Mode: Shared, TTLSeconds: 60},
		"permits":  {Mode: Permits, Limit: 1, TTLSeconds: 60},
		"the rate": {Mode: Rate, Limit: 1, WindowSeconds: 60},
	} {
		t.Run(name, func(t *testing.T) {
			most := MaxWaiting
			if !form.queues() {
				most = 1000
			}
			few, many := allocationsOfAVersion(t, form, 10), allocationsOfAVersion(t, form, most)
			if many > few+8 {
				t.Errorf("%v allocations for ten who wait, %v for %d", few, many, most)
			}
		})
	}
}

// allocationsOfAVersion counts what it takes to find for n who wait whether they may obtain a lock that is held, by one
// version of its document.
func allocationsOfAVersion(t *testing.T, form Acquire, n int) float64 {
	t.Helper()
	store := docstore.NewMemory(nil)
	l := New(store, nil)
	form.ID, form.RequestID = subject, "r"
	holder := form
	holder.Owner = "holder"
	if holder.Mode == Shared {
		holder.Mode, holder.Fair = Exclusive, true
	}
	if o, err := l.Acquire(t.Context(), holder); err != nil || o.Code != OK {
		t.Fatal(o, err)
	}
	w := &watch{id: subject, kick: make(chan struct{}, 1)}
	for i := range n {
		c := form
		c.Owner, c.WaitSeconds, c.LeaseID = fmt.Sprint("waits ", i), MaxWaitSeconds, l.newLeaseID()
		c.held = l.holding(MaxWaitSeconds * time.Second)
		c.known = c.request()
		if c.queues() {
			if o, err := l.send(t.Context(), c, nil, l.now()); err != nil || o.Position != int64(i+1) {
				t.Fatal(o, err)
			}
		}
		w.waiters = append(w.waiters, &waiter{acquire: c, waiting: true, turn: make(chan error, 1)})
	}
	found, err := store.Get(t.Context(), subject.key())
	if err != nil {
		t.Fatal(err)
	}
	state, err := subject.State(found.Docs[0])
	if err != nil {
		t.Fatal(err)
	}
	w.seen = observation{state: state, at: found.At, arrived: time.Now()}
	return testing.AllocsPerRun(10, func() {
		w.version, w.outlook = w.version+1, nil
		w.giveTurn(time.Now())
		if w.turn != nil {
			t.Fatal("one of them has its turn")
		}
		w.nextRead()
	})
}

// TestOutlookOfAPlaceThatHasEnded: who lost its place, or was handed the lock, is sent again at once, whatever others
// do first.
func TestOutlookOfAPlaceThatHasEnded(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.waits(wait("eve", Exclusive), 2, 2)
	state, err := subject.State(s.document())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner string
		after time.Duration
		again bool
	}{
		{"bob", time.Second, false},
		{"bob", time.Minute, true}, // the lease and the place have ended
		{"eve", time.Minute, true},
		{"zoe", time.Second, true}, // not in line yet
	} {
		again, _ := wait(c.owner, Exclusive).ready(state, rule.When{At: s.now.Add(c.after)})
		if again != c.again {
			t.Errorf("%s after %v: again is %v, want %v", c.owner, c.after, again, c.again)
		}
	}
}

// TestOutlookOfAPlaceOfAnother: a place that the request would not be told to have is no reason to wait on. It has
// other parameters, or the request was given up meanwhile, or it has obtained the lock before.
func TestOutlookOfAPlaceOfAnother(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	bob := wait("bob", Exclusive)
	s.waits(bob, 1, 2)
	state, err := subject.State(s.document())
	if err != nil {
		t.Fatal(err)
	}
	at := rule.When{At: s.now.Add(time.Second)}
	if again, _ := bob.ready(state, at); again {
		t.Error("it does not wait on in its place")
	}
	other := bob
	other.TTLSeconds++
	if again, _ := other.ready(state, at); !again {
		t.Error("it waits on in a place of other parameters")
	}
	givenUp, obtained := state, state
	givenUp.GivenUp[0] = string(bob.request().Entry())
	if again, _ := bob.ready(givenUp, at); !again {
		t.Error("it waits on, though it was given up")
	}
	obtained.Acquires[0] = string(other.request().Entry())
	if again, _ := bob.ready(obtained, at); !again {
		t.Error("it waits on, though it has had the lock with other parameters")
	}
}
