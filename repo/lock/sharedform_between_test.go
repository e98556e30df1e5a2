package lock

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestAnotherCommandInBetween: the second write rests on the document found; where that has changed, it is decided
// anew.
func TestAnotherCommandInBetween(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Permits), 1, 1)
	meanwhile := func(c command) func() {
		n := 0
		return func() {
			if n++; n == 2 {
				s.before = nil
				s.send(c)
				s.writes = 2
			}
		}
	}
	s.before = meanwhile(try("bob", Permits))
	s.gets(try("eve", Permits), Held, 2) // bob has the last permit
	s.before = meanwhile(give("bob", 2))
	if o := s.gets(extend("ann", 1, "n1"), OK, 3); o.Lease.Token != token(1) {
		t.Fatalf("got %+v", o)
	}
	s.before = meanwhile(give("ann", 1))
	s.granted(try("kim", Permits), 3, 3) // of a lock that is free again
}

// TestDocumentsThatCannotBeRead: no byte that is missing or wrong makes a panic, or a free lock.
func TestDocumentsThatCannotBeRead(t *testing.T) {
	s := newStage(t)
	ann := try("ann", Permits)
	ann.Metadata = map[string]string{"build": "7"}
	s.granted(ann, 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.waits(wait("eve", Permits), 1, 2)
	s.waits(wait("kim", Permits), 2, 2)
	s.gets(give("bob", 2), OK, 2)
	r, err := s.store.Get(t.Context(), subject.key())
	if err != nil {
		t.Fatal(err)
	}
	found := r.Docs[0]
	damaged := func(f string, v docstore.Value) {
		t.Helper()
		d := found.Clone()
		d[f] = v
		if v == nil {
			delete(d, f)
		}
		st, err := subject.State(d)
		if err != nil && !errors.Is(err, docstore.ErrDamaged) {
			t.Fatal(err)
		}
		if err == nil && v == nil && f != fLine && f != fPast && f != fLimit && f[0] != 'a' && f[0] != 'e' && f[0] != 'h' &&
			f != fRevision && f != fToken && f != fState && f != fWaiting {
			t.Errorf("without %s: %+v", f, st)
		}
	}
	for f, v := range found {
		damaged(f, nil)
		damaged(f, docstore.Bool(true))
		b, ok := v.(docstore.Bytes)
		if !ok {
			continue
		}
		for i := range b {
			d := found.Clone()
			d[f] = b[:i]
			if _, err := subject.State(d); i > 0 && !errors.Is(err, docstore.ErrDamaged) {
				t.Errorf("%s cut to %d bytes: %v", f, i, err)
			}
			for _, x := range []byte{1, 0x80, 0xff} {
				changed := []byte(b)
				changed[i] ^= x
				damaged(f, docstore.Bytes(changed))
			}
		}
		d := found.Clone()
		d[f] = b + "x"
		if _, err := subject.State(d); !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%s with a byte more: %v", f, err)
		}
	}
}

// TestSeveralOnAnUncertainClock: a lease is over when it is by the earliest that the time can be: until then it can be
// renewed and released, and nothing is granted.
func TestSeveralOnAnUncertainClock(t *testing.T) {
	s := newStage(t)
	s.store = Uncertain{Store: s.store, Margin: time.Second}
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.waits(wait("eve", Permits), 1, 2)
	s.pass(time.Minute + time.Second - time.Millisecond)
	s.gets(try("kim", Permits), Held, 2) // it clears the line
	s.gets(extend("bob", 2, "n1"), OK, 2)
	s.pass(time.Millisecond)
	s.gets(extend("ann", 1, "n1"), LeaseExpired, 1)
	s.gets(give("ann", 1), LeaseExpired, 1)
	s.granted(try("kim", Permits), 3, 2)

	r := newStage(t)
	r.store = Uncertain{Store: r.store, Margin: time.Second}
	r.granted(try("ann", Rate), 1, 1)
	r.granted(try("bob", Rate), 2, 2)
	r.pass(11*time.Second - time.Millisecond)
	r.gets(try("eve", Rate), Held, 1)
	r.pass(time.Millisecond)
	r.granted(try("eve", Rate), 3, 2)
}

// TestTimePassesBetweenTheWrites: what the first response says of the time is not enough. The store is asked again
// whether a lease that is renewed or released still lasts, and whether one that is dropped has ended.
func TestTimePassesBetweenTheWrites(t *testing.T) {
	s := newStage(t)
	shift := func(d time.Duration) {
		n := 0
		s.before = func() {
			if n++; n == 2 {
				s.pass(d)
			}
		}
	}
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.pass(time.Minute - time.Millisecond)
	shift(time.Millisecond)
	s.gets(extend("ann", 1, "n1"), LeaseExpired, 2)
	s.pass(-time.Millisecond)
	shift(time.Millisecond)
	s.gets(give("ann", 1), LeaseExpired, 2)
	shift(-time.Millisecond)
	s.gets(try("eve", Permits), Held, 2)
	s.pass(time.Millisecond)
	s.before = nil
	s.granted(try("eve", Permits), 3, 2)

	r := newStage(t)
	r.granted(try("ann", Rate), 1, 1)
	r.granted(try("bob", Rate), 2, 2)
	r.pass(10 * time.Second)
	n := 0
	r.before = func() {
		if n++; n == 2 {
			r.pass(-time.Millisecond)
		}
	}
	r.gets(try("eve", Rate), Held, 2)
}

// TestAHandOverThatIsNotClaimedHasNoLockDelay: no one worked under it.
func TestAHandOverThatIsNotClaimedHasNoLockDelay(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	bob := wait("bob", Exclusive)
	bob.LockDelaySeconds = 60
	s.waits(bob, 1, 2)
	s.gets(give("ann", 1), OK, 2)
	s.pass(ClaimTime)
	s.granted(try("eve", Shared), 3, 2)
}
