package lock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// stage is a lock on a store in memory whose clock a test moves. It sends each command once: what a request in line has
// is looked at by sending it again.
type stage struct {
	*testing.T

	store  docstore.Store
	now    time.Time
	writes int    // requests to the store
	before func() // before each write, if it is set
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, now: epoch}
	s.store = docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return s.now }})
	return s
}

// counting counts the writes.
type counting struct {
	docstore.Store

	stage *stage
}

func (c counting) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	c.stage.writes++
	if c.stage.before != nil {
		c.stage.before()
	}
	return c.Store.Write(ctx, w...)
}

func (s *stage) pass(d time.Duration) { s.now = s.now.Add(d) }

// send carries out a command.
func (s *stage) send(c command) Outcome {
	s.Helper()
	if err := c.Validate(); err != nil {
		s.Fatalf("%#v: %v", c, err)
	}
	s.writes = 0
	o, err := rule.Run(s.Context(), counting{s.store, s}, func() time.Time { return s.now }, c)
	if err != nil {
		s.Fatalf("%#v: %v", c, err)
	}
	return o
}

// gets fails the test unless the command ends with the code after so many requests to the store.
func (s *stage) gets(c command, code Code, requests int) Outcome {
	s.Helper()
	o := s.send(c)
	if o.Code != code || s.writes != requests {
		s.Fatalf("%#v:\ngot  %+v after %d requests\nwant %s after %d", c, o, s.writes, code, requests)
	}
	return o
}

// leave is what becomes of a request of wait whose connection has ended.
func leave(owner string) GiveUp { return GiveUp{Acquire: wait(owner, Exclusive), gone: true} }

// granted fails the test unless the command obtains the nth token of the lock.
func (s *stage) granted(c Acquire, n int64, requests int) Outcome {
	s.Helper()
	o := s.gets(c, OK, requests)
	if want := epoch.UnixMicro() + n; o.Lease.Token != want || o.Replayed || o.Lease.Owner != c.Owner ||
		o.Lease.Phase != Active {
		s.Fatalf("%#v: got %+v, want token %d", c, o, want)
	}
	return o
}

// waits fails the test unless the command gets a place in line.
func (s *stage) waits(c Acquire, position int64, requests int) Outcome {
	s.Helper()
	o := s.gets(c, Held, requests)
	if o.Position != position {
		s.Fatalf("%#v: got place %d, want %d", c, o.Position, position)
	}
	return o
}

func (s *stage) status() Status {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	st, err := subject.State(r.Docs[0])
	if err != nil {
		s.Fatal(err)
	}
	status := subject.status(st, s.now)
	status.History = st.ended(s.now)
	return status
}

// plain fails the test unless the document is in plain form, or has gone back to it, without a field of the other.
func (s *stage) plain(want Phase) {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	d := r.Docs[0]
	if d[fState] != docstore.Value(docstore.String(want)) {
		s.Fatalf("state %v, want %s: %v", d[fState], want, d)
	}
	for f := range d {
		if f != fPast && f != fRevision && ours(f) && !slices.Contains(plainFields, f) && !ofHistory(f) {
			s.Fatalf("field %s was left: %v", f, d)
		}
	}
}

func try(owner string, mode Mode) Acquire {
	c := Acquire{ID: subject, Owner: owner, RequestID: "r-" + owner, LeaseID: "l-" + owner, TTLSeconds: 60, Mode: mode}
	switch mode {
	case Permits:
		c.Limit = 2
	case Rate:
		c.Limit, c.WindowSeconds, c.TTLSeconds = 2, 10, 0
	default:
	}
	return c
}

func wait(owner string, mode Mode) Acquire {
	c := try(owner, mode)
	c.WaitSeconds, c.Fair = 20, mode == Exclusive
	return c
}

// token is the nth of the lock.
func token(n int64) int64 { return epoch.UnixMicro() + n }

func give(owner string, n int64) Release {
	return Release{ID: subject, Owner: owner, Token: token(n), RequestID: "e-" + owner}
}

func extend(owner string, n int64, request string) Renew {
	return Renew{ID: subject, Owner: owner, Token: token(n), RequestID: request, TTLSeconds: 60}
}

func TestReadersAndAWriter(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1) // no document: one request
	s.pass(time.Second)
	s.granted(try("bob", Shared), 2, 2)
	s.gets(try("eve", Exclusive), Held, 1)
	s.waits(wait("eve", Exclusive), 1, 2)
	s.gets(try("kim", Shared), Held, 1) // no one passes the line
	s.waits(wait("kim", Shared), 2, 2)
	s.waits(wait("lee", Shared), 3, 2)

	if st := s.status(); len(st.Holders) != 2 || st.Holders[0].Owner != "ann" || !st.Holders[0].AcquiredAt.Equal(epoch) ||
		!st.Holders[1].AcquiredAt.Equal(epoch.Add(time.Second)) || len(st.Waiting) != 3 || st.Waiting[0].Owner != "eve" ||
		st.Phase != Active {
		t.Fatalf("got %+v", st)
	}
	if o := s.gets(give("ann", 1), OK, 2); o.Lease.Phase != Released || o.Lease.LeaseID != "l-ann" ||
		!o.Lease.ReleasedAt.Equal(s.now) {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(give("ann", 1), OK, 1); !o.Replayed || o.Lease.Owner != "ann" {
		t.Fatalf("got %+v", o)
	}
	s.gets(extend("ann", 1, "n1"), LeaseReleased, 1)
	if o := s.gets(extend("bob", 2, "n1"), OK, 2); o.Replayed || !o.Lease.ExpiresAt.Equal(s.now.Add(time.Minute)) ||
		!o.Lease.AcquiredAt.Equal(epoch.Add(time.Second)) {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(extend("bob", 2, "n1"), OK, 1); !o.Replayed {
		t.Fatalf("got %+v", o)
	}
	s.gets(extend("ann", 2, "n1"), NotOwner, 1)
	s.gets(give("bob", 2), OK, 2) // and hands over to eve
	if st := s.status(); len(st.Holders) != 1 || st.Holders[0].Owner != "eve" || len(st.Waiting) != 2 {
		t.Fatalf("got %+v", st)
	}
	s.pass(time.Second)
	if o := s.granted(wait("eve", Exclusive), 3, 2); !o.Lease.ExpiresAt.Equal(s.now.Add(time.Minute)) ||
		!o.Lease.AcquiredAt.Equal(s.now.Add(-time.Second)) {
		t.Fatalf("got %+v", o)
	}
	s.gets(give("eve", 3), OK, 2) // to both readers
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		t.Fatal(err)
	}
	for i, owner := range []string{"lee", "kim", "eve", "bob"} { // the newest first
		if want := try(owner, Shared).place(rule.When{}).request; owner != "eve" &&
			r.Docs[0][acquires[i]] != docstore.Value(docstore.String(want)) {
			t.Errorf("acquire %d is %v, want that of %s", i+1, r.Docs[0][acquires[i]], owner)
		}
	}
	s.granted(wait("kim", Shared), 4, 2)
	s.granted(wait("lee", Shared), 5, 2)
	s.gets(give("lee", 5), OK, 2)
	s.gets(give("kim", 4), OK, 2)
	s.plain(Released)
	if st := s.status(); st.Owner != "lee" || st.Phase != Released || len(st.History) != 4 ||
		st.History[0].Owner != "lee" || st.History[1].Owner != "kim" {
		t.Fatalf("got %+v", st)
	}
	s.granted(try("ann", Exclusive), 6, 1)
}

func TestPermits(t *testing.T) {
	s := newStage(t)
	if o := s.granted(try("ann", Permits), 1, 1); o.Lease.Permit != 1 || o.Lease.Limit != 2 || o.Lease.Mode != Permits {
		t.Fatalf("got %+v", o)
	}
	if o := s.granted(try("bob", Permits), 2, 2); o.Lease.Permit != 2 {
		t.Fatalf("got %+v", o)
	}
	o := s.gets(try("eve", Permits), Held, 1)
	if o.Lease.Owner != "ann" || o.Lease.Token != 0 || o.RetryAfter != time.Minute || o.Position != 0 {
		t.Fatalf("got %+v", o)
	}
	for name, c := range map[string]Acquire{
		"limit":     {Mode: Permits, Limit: 3, TTLSeconds: 1},
		"exclusive": {TTLSeconds: 1},
		"fair":      {TTLSeconds: 1, Fair: true, WaitSeconds: 1},
		"shared":    {Mode: Shared, TTLSeconds: 1},
		"rate":      {Mode: Rate, Limit: 2, WindowSeconds: 1},
	} {
		c.ID, c.Owner, c.RequestID, c.LeaseID = subject, "kim", name, "l"
		if o := s.gets(c, ModeDiffers, 1); o.Lease.Mode != Permits || o.Lease.Limit != 2 || o.Detail == "" {
			t.Fatalf("%s: got %+v", name, o)
		}
	}
	s.waits(wait("eve", Permits), 1, 2)
	if o := s.gets(extend("ann", 1, "n1"), OK, 2); o.Lease.Permit != 1 || o.Lease.Mode != Permits {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(extend("ann", 1, "n1"), OK, 1); o.Lease.Permit != 1 || !o.Replayed {
		t.Fatalf("got %+v", o)
	}
	s.gets(give("bob", 2), OK, 2)
	if o := s.granted(wait("eve", Permits), 3, 2); o.Lease.Permit != 2 {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(wait("eve", Permits), OK, 1); !o.Replayed || o.Lease.Permit != 2 {
		t.Fatalf("got %+v", o)
	}
	changed := wait("eve", Permits)
	changed.TTLSeconds++
	s.gets(changed, RequestIDReused, 1)
	s.pass(2 * time.Minute)
	s.gets(wait("eve", Permits), RequestIDReused, 1)
	s.gets(extend("eve", 3, "n1"), LeaseExpired, 1)
	s.granted(try("kim", Exclusive), 4, 2) // free, so that it takes another mode, and the plain form
	s.plain(Active)
	s.gets(Renew{ID: subject, Owner: "kim", Token: token(4), RequestID: "n1", TTLSeconds: 5}, OK, 2)
	if st := s.status(); len(st.History) != 3 || st.History[0].Ended != EndedExpired || st.Mode != Exclusive ||
		st.Holders != nil {
		t.Fatalf("got %+v", st)
	}
}

func TestRate(t *testing.T) {
	s := newStage(t)
	if o := s.granted(try("ann", Rate), 1, 1); !o.Lease.ExpiresAt.Equal(epoch.Add(10*time.Second)) ||
		!o.Lease.AcquiredAt.Equal(epoch) || o.Lease.LeaseID == "" {
		t.Fatalf("got %+v", o)
	}
	s.pass(4 * time.Second)
	if st := s.status(); !st.FreeAt.IsZero() {
		t.Fatalf("got %+v", st)
	}
	s.granted(try("bob", Rate), 2, 2)
	next := "the rate of 2 in 10s is used up; the next grant is possible at " +
		string(docstore.FormatTime(epoch.Add(10*time.Second)))
	if o := s.gets(try("eve", Rate), Held, 1); o.RetryAfter != 6*time.Second || o.Detail != next {
		t.Fatalf("got %+v", o)
	}
	if st := s.status(); !st.FreeAt.Equal(epoch.Add(10 * time.Second)) {
		t.Fatalf("got %+v", st)
	}
	if o := s.waits(wait("eve", Rate), 1, 2); o.Detail != next {
		t.Fatalf("got %+v", o)
	}
	if o := s.waits(wait("kim", Rate), 2, 2); o.Detail != next+"; in line before this request: 1" {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(try("lee", Rate), Held, 1); o.Detail != next+"; in line before this request: 2" {
		t.Fatalf("got %+v", o)
	}
	first := s.gets(try("ann", Rate), OK, 1)
	if !first.Replayed || first.Lease.Token != token(1) || !first.Lease.AcquiredAt.Equal(epoch) {
		t.Fatalf("got %+v", first)
	}
	s.gets(extend("bob", 2, "n1"), ModeDiffers, 1)
	s.gets(give("bob", 2), ModeDiffers, 1)
	s.gets(ForceRelease{ID: subject, By: "root", Reason: "x", RequestID: "f1", LeaseID: first.Lease.LeaseID}, NotHeld, 1)
	s.gets(try("lee", Exclusive), ModeDiffers, 1)
	s.pass(6*time.Second - time.Millisecond)
	s.waits(wait("eve", Rate), 1, 2) // moves the end of the place
	s.pass(time.Millisecond)
	if o := s.granted(wait("eve", Rate), 3, 2); !o.Lease.AcquiredAt.Equal(s.now) {
		t.Fatalf("got %+v", o)
	}
	s.waits(wait("kim", Rate), 1, 2)
	s.pass(4 * time.Second)
	s.waits(wait("lee", Rate), 1, 2) // whose write grants that of kim
	o := s.gets(wait("kim", Rate), OK, 1)
	if o.Lease.Token != token(4) || !o.Lease.AcquiredAt.Equal(s.now) {
		t.Fatalf("got %+v", o)
	}
	if st := s.status(); st.Phase != Active || st.Owner != "kim" || st.Mode != Rate || st.Limit != 2 ||
		st.WindowSeconds != 10 || len(st.Waiting) != 1 {
		t.Fatalf("got %+v", st)
	}
	s.pass(time.Minute)
	if st := s.status(); st.Phase != Expired {
		t.Fatalf("got %+v", st)
	}
	s.granted(try("zoe", Exclusive), 5, 2)
	s.plain(Active)
}

// TestWindow: a window is said without units that are zero at its end.
func TestWindow(t *testing.T) {
	for seconds, want := range map[int64]string{
		1: "1s", 90: "1m30s", 60: "1m", 600: "10m", 70: "1m10s", 3600: "1h", 72000: "20h", 3601: "1h0m1s", 86340: "23h59m",
	} {
		if got := Window(seconds); got != want {
			t.Errorf("%d: %s", seconds, got)
		}
	}
}

// TestAGrantOfAShortWindowIsFound: who waited in line learns of its grant, although it left the window before it came
// again.
func TestAGrantOfAShortWindowIsFound(t *testing.T) {
	s := newStage(t)
	rate := func(c Acquire) Acquire {
		c.Limit, c.WindowSeconds = 1, 1
		return c
	}
	s.granted(rate(try("ann", Rate)), 1, 1)
	s.waits(rate(wait("bob", Rate)), 1, 2)
	s.waits(rate(wait("eve", Rate)), 2, 2)
	s.pass(time.Second)
	s.waits(rate(wait("eve", Rate)), 1, 2)
	s.pass(2 * time.Second)
	s.granted(rate(wait("eve", Rate)), 3, 2)
	s.pass(3 * time.Second)
	if o := s.gets(rate(wait("bob", Rate)), OK, 1); o.Lease.Token != token(2) ||
		!o.Lease.AcquiredAt.Equal(epoch.Add(time.Second)) {
		t.Fatalf("got %+v", o)
	}
}

func TestAFairLineOfAPlainLock(t *testing.T) {
	s := newStage(t)
	ann := try("ann", Exclusive)
	ann.Fair, ann.Metadata = true, map[string]string{"build": "7"}
	s.granted(ann, 1, 1)
	s.plain(Active)
	s.gets(extend("ann", 1, "n1"), OK, 1)
	one := wait("bob", Exclusive)
	one.MaxWaiting = 1
	s.waits(one, 1, 2)
	full := wait("eve", Exclusive)
	full.MaxWaiting = 1
	if o := s.gets(full, QueueFull, 1); o.Lease.Owner != "ann" {
		t.Fatalf("got %+v", o)
	}
	s.waits(one, 1, 1) // has its place, which moves by nothing
	plain := wait("kim", Exclusive)
	plain.Fair = false // waits in line all the same
	s.waits(plain, 2, 2)
	if o := s.gets(extend("ann", 1, "n1"), OK, 1); !o.Replayed || o.Lease.Metadata["build"] != "7" ||
		!o.Lease.AcquiredAt.Equal(epoch) {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(ann, OK, 1); !o.Replayed || o.Lease.LeaseID != "l-ann" {
		t.Fatalf("got %+v", o)
	}
	s.gets(extend("ann", 1, "n2"), OK, 2)
	s.gets(extend("ann", 1, "n3"), OK, 2)
	for _, request := range []string{"n1", "n2", "n3"} { // late ones do nothing
		if o := s.gets(extend("ann", 1, request), OK, 1); !o.Replayed {
			t.Fatalf("got %+v", o)
		}
	}
	s.gets(give("ann", 1), OK, 2)
	s.granted(one, 2, 2)
	s.gets(give("bob", 2), OK, 2)
	s.granted(plain, 3, 2) // no one waits behind it
	s.plain(Active)
	s.gets(extend("kim", 3, "n1"), OK, 1)
	if o := s.gets(plain, OK, 1); !o.Replayed {
		t.Fatalf("got %+v", o)
	}
	s.gets(give("kim", 3), OK, 1)
	s.granted(try("zoe", Exclusive), 4, 1)
}

// TestAHandOverMustBeClaimed: a caller that has gone costs ClaimTime at most; one that comes again has its whole ttl. One
// that comes too late has its place again, before those who came after it, and the next grant.
func TestAHandOverMustBeClaimed(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.pass(time.Millisecond)
	s.waits(wait("eve", Exclusive), 2, 2)
	s.gets(give("ann", 1), OK, 2)
	s.pass(ClaimTime - time.Millisecond)
	s.waits(wait("eve", Exclusive), 1, 2) // moves its place
	s.pass(time.Millisecond)
	s.granted(wait("eve", Exclusive), 3, 2)
	s.waits(wait("kim", Exclusive), 1, 2) // bob is passed over
	s.pass(time.Second)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.gets(extend("bob", 2, "n1"), LeaseExpired, 1)
	s.gets(give("eve", 3), OK, 2)
	s.granted(wait("bob", Exclusive), 4, 2)
	s.pass(time.Minute - time.Millisecond)
	s.gets(extend("bob", 4, "n1"), OK, 2)
}

// TestPlacesAreKeptWhileTheirRequestsCome: and given up by time, or by the request itself.
func TestPlacesAreKeptWhileTheirRequestsCome(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.waits(wait("eve", Exclusive), 2, 2)
	s.waits(wait("kim", Exclusive), 3, 2)
	s.gets(extend("ann", 1, "n1"), OK, 2)
	s.pass(placeStep - time.Millisecond)
	s.waits(wait("eve", Exclusive), 2, 1)
	s.pass(time.Millisecond)
	s.waits(wait("eve", Exclusive), 2, 2)
	gone := wait("kim", Exclusive)
	gone.WaitSeconds = 0
	s.waits(gone, 0, 2)
	if st := s.status(); len(st.Waiting) != 2 {
		t.Fatalf("got %+v", st)
	}
	s.pass(20*time.Second + PlaceTime - placeStep)
	s.gets(extend("ann", 1, "n2"), OK, 2)
	if line := s.waiting(); !slices.Equal(line, []string{"eve"}) || len(s.status().Waiting) > 0 {
		t.Fatalf("in line %v, and %+v", line, s.status())
	}
	s.gets(leave("eve"), OK, 2)
	s.gets(leave("eve"), OK, 1)
	s.granted(try("lee", Shared), 2, 2)
}

func TestLeaveGivesBackWhatWasHandedOver(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.waits(wait("eve", Exclusive), 2, 2)
	s.gets(leave("ann"), OK, 1) // what is held is not given up
	s.gets(give("ann", 1), OK, 2)
	s.gets(leave("bob"), OK, 2)
	s.granted(wait("eve", Exclusive), 3, 2)
	s.gets(leave("eve"), OK, 1)
	s.plain(Active)
}

func TestLockDelayOfSeveral(t *testing.T) {
	delayed := func(c Acquire) Acquire {
		c.LockDelaySeconds = 15
		return c
	}
	t.Run("permits", func(t *testing.T) {
		s := newStage(t)
		s.granted(delayed(try("ann", Permits)), 1, 1)
		s.granted(try("bob", Permits), 2, 2)
		s.pass(time.Minute)
		o := s.granted(try("eve", Permits), 3, 2) // of bob's permit; that of ann is closed
		if o.Lease.Permit != 2 {
			t.Fatalf("got %+v", o)
		}
		s.gets(extend("ann", 1, "n1"), LeaseExpired, 1)
		s.gets(give("eve", 3), OK, 2)
		s.granted(try("kim", Permits), 4, 2)
		s.gets(try("lee", Permits), Held, 1)
		s.gets(give("kim", 4), OK, 2)
		if o := s.gets(try("lee", Exclusive), ModeDiffers, 1); o.Lease.Mode != Permits {
			t.Fatalf("got %+v", o)
		}
		if st := s.status(); !st.FreeAt.Equal(epoch.Add(75*time.Second)) || st.Holders != nil {
			t.Fatalf("got %+v", st)
		}
		s.pass(15 * time.Second)
		s.granted(try("zoe", Exclusive), 5, 2)
	})
	t.Run("a line", func(t *testing.T) {
		s := newStage(t)
		s.granted(delayed(try("ann", Exclusive)), 1, 1)
		s.pass(time.Minute)
		fair := try("bob", Exclusive)
		fair.Fair = true
		if o := s.gets(fair, Delayed, 1); o.RetryAfter != 15*time.Second || !o.Lease.FreeAt.Equal(s.now.Add(o.RetryAfter)) {
			t.Fatalf("got %+v", o)
		}
		if o := s.gets(wait("eve", Exclusive), Delayed, 2); o.Position != 1 {
			t.Fatalf("got %+v", o)
		}
		s.pass(15*time.Second - time.Millisecond)
		if o := s.gets(wait("eve", Exclusive), Delayed, 2); o.Position != 1 {
			t.Fatalf("got %+v", o)
		}
		s.pass(time.Millisecond)
		s.granted(wait("eve", Exclusive), 2, 2)
	})
	t.Run("by force", func(t *testing.T) {
		s := newStage(t)
		s.granted(delayed(try("ann", Shared)), 1, 1)
		s.granted(try("bob", Shared), 2, 2)
		s.waits(wait("eve", Exclusive), 1, 2)
		s.pass(time.Second)
		o := s.gets(ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f1"}, OK, 2)
		if o.Lease.Token != token(2) || o.Lease.Phase != Released || o.Lease.Forced.By != "root" {
			t.Fatalf("got %+v", o)
		}
		if o := s.gets(ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f1"}, OK, 1); !o.Replayed ||
			o.Lease.Forced.Reason != "hangs" {
			t.Fatalf("got %+v", o)
		}
		s.gets(ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f2", LeaseID: "l-bob"}, NotHeld, 1)
		for n, owner := range []string{"ann", "bob"} {
			if o := s.gets(extend(owner, int64(n)+1, "n1"), LeaseReleased, 1); o.Detail != "the lease was ended by root: hangs" {
				t.Fatalf("got %+v", o)
			}
		}
		if o := s.gets(wait("eve", Exclusive), Delayed, 1); o.RetryAfter != 15*time.Second {
			t.Fatalf("got %+v", o)
		}
		s.pass(15 * time.Second)
		s.granted(wait("eve", Exclusive), 3, 2)
		if st := s.status(); len(st.History) != 2 || st.History[0].By != "root" || st.History[0].Ended != EndedForced {
			t.Fatalf("got %+v", st)
		}
	})
	t.Run("after a force-release in plain form", func(t *testing.T) {
		s := newStage(t)
		s.granted(delayed(try("ann", Exclusive)), 1, 1)
		s.gets(ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f1"}, OK, 1)
		s.gets(wait("bob", Exclusive), Delayed, 2)
		s.gets(extend("ann", 1, "n1"), LeaseReleased, 1)
		s.pass(15 * time.Second)
		s.granted(wait("bob", Exclusive), 2, 2)
		s.gets(extend("ann", 1, "n1"), LeaseLost, 1)
	})
}

func TestForceReleaseOfOne(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	one := ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f1", LeaseID: "l-ann"}
	if o := s.gets(one, OK, 2); o.Lease.Owner != "ann" || o.Lease.Permit != 1 {
		t.Fatalf("got %+v", o)
	}
	one.RequestID = "f2"
	s.gets(one, LeaseLost, 1)
	s.gets(extend("bob", 2, "n1"), OK, 2)
	s.granted(try("eve", Permits), 3, 2)
	one.RequestID, one.LeaseID = "f3", ""
	s.gets(one, OK, 2)
	s.plain(Released)
	if st := s.status(); st.Owner != "eve" || st.Forced.Reason != "hangs" {
		t.Fatalf("got %+v", st)
	}
}

// TestForceReleaseOfEach: several administrators end the leases one after the other, the latest one not last. Each is
// remembered as ended by force, by whom, in either form; the reason is known of the latest force-release only, and no
// longer once the lock is in plain form with another lease as its latest.
func TestForceReleaseOfEach(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.granted(try("bob", Shared), 2, 2)
	end := func(by, lease string) {
		s.pass(time.Second)
		s.gets(ForceRelease{ID: subject, By: by, Reason: by + "'s reason", RequestID: "f-" + by, LeaseID: lease}, OK, 2)
	}
	tells := func(owner string, n int64, requests int, want string) {
		t.Helper()
		if o := s.gets(give(owner, n), LeaseReleased, requests); o.Detail != want {
			t.Errorf("got %q, want %q", o.Detail, want)
		}
	}
	end("root", "l-bob")
	tells("bob", 2, 1, "the lease was ended by root: root's reason")
	end("admin", "l-ann")
	s.plain(Released)
	tells("bob", 2, 1, "the lease was ended by root")

	bob := Past{Owner: "bob", Token: token(2), AcquiredAt: epoch, EndedAt: epoch.Add(time.Second), Ended: EndedForced,
		By: "root"}
	ann := Past{Owner: "ann", Token: token(1), AcquiredAt: epoch, EndedAt: epoch.Add(2 * time.Second),
		Ended: EndedForced, By: "admin"}
	shows := func() {
		t.Helper()
		for _, want := range []Past{ann, bob} {
			if got := s.status().History; !slices.Contains(got, want) {
				t.Errorf("got  %+v\nwant %+v in it", got, want)
			}
		}
	}
	shows()
	s.granted(try("cem", Shared), 3, 2)
	shows()
	tells("ann", 1, 1, "the lease was ended by admin")
	tells("bob", 2, 1, "the lease was ended by root")
}

// TestReasonOfAnEarlierForceRelease: while others hold the lock, the reason of the latest force-release is not told of
// an earlier one.
func TestReasonOfAnEarlierForceRelease(t *testing.T) {
	s := newStage(t)
	for i, owner := range []string{"ann", "bob", "cem"} {
		s.granted(try(owner, Shared), int64(i+1), min(i+1, 2))
	}
	for _, owner := range []string{"ann", "bob"} {
		s.pass(time.Second)
		s.gets(ForceRelease{ID: subject, By: "root", Reason: owner + " hangs", RequestID: "f-" + owner,
			LeaseID: "l-" + owner}, OK, 2)
	}
	for owner, want := range map[string]string{"ann": "the lease was ended by root",
		"bob": "the lease was ended by root: bob hangs"} {
		n := map[string]int64{"ann": 1, "bob": 2}[owner]
		if o := s.gets(give(owner, n), LeaseReleased, 1); o.Detail != want {
			t.Errorf("%s: got %q, want %q", owner, o.Detail, want)
		}
	}
}

func TestReplaceBesideALine(t *testing.T) {
	s := newStage(t)
	with := func(c Acquire) Acquire {
		c.Replace = true
		return c
	}
	s.granted(with(try("ann", Exclusive)), 1, 1)
	bob := wait("bob", Exclusive)
	s.waits(bob, 1, 2)
	s.gets(with(try("eve", Exclusive)), Held, 1) // no one passes the line
	s.gets(leave("bob"), OK, 2)
	s.plain(Active)
	s.granted(with(try("eve", Exclusive)), 2, 1)
	fair := with(try("kim", Exclusive))
	fair.Fair = true
	s.granted(fair, 3, 1)
	if o := s.gets(extend("eve", 2, "n1"), LeaseLost, 1); o.Lease.Token != token(2) {
		t.Fatalf("got %+v", o)
	}
}

// TestReplaceWhereBothAgree: in shared form, too, a holder that did not agree to be replaced is not.
func TestReplaceWhereBothAgree(t *testing.T) {
	for agrees, want := range map[bool]Code{false: Held, true: OK} {
		s := newStage(t)
		holder := try("ann", Exclusive)
		holder.Replace = agrees
		s.granted(holder, 1, 1)
		s.waits(wait("kim", Exclusive), 1, 2)
		s.pass(40 * time.Second) // the place in line is over
		next := try("bob", Exclusive)
		next.Replace = true
		if o := s.send(next); o.Code != want {
			t.Errorf("the holder agrees: %v, %+v", agrees, o)
		}
	}
}

// TestPlaceOfOtherParameters: a request that has a place in line is known by it, and one with the same request_id and
// another ttl is another request.
func TestPlaceOfOtherParameters(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	bob := wait("bob", Exclusive)
	s.waits(bob, 1, 2)
	bob.TTLSeconds++
	if o := s.send(bob); o.Code != RequestIDReused {
		t.Errorf("%+v", o)
	}
}

func TestMoreReadersThanMay(t *testing.T) {
	s := newStage(t)
	for n := range int64(MaxHolders) {
		c := try("ann", Shared)
		c.RequestID = suffix(n + 1)
		s.granted(c, n+1, int(min(n, 1))+1)
	}
	s.gets(try("bob", Shared), Held, 1)
	s.gets(give("ann", 50), OK, 2)
	s.granted(try("bob", Shared), MaxHolders+1, 2)
	s.gets(ForceRelease{ID: subject, By: "root", Reason: "all", RequestID: "f1"}, OK, 2)
	s.plain(Released)
}

// TestLargeLeasesAreBounded: what does not fit into a document is refused, and waits.
func TestLargeLeasesAreBounded(t *testing.T) {
	s := newStage(t)
	labels := map[string]string{}
	for i := range MaxMetadata {
		labels[suffix(int64(i))] = strings.Repeat("x", MaxMetadataValueBytes)
	}
	n := int64(0)
	for {
		c := try("ann", Shared)
		c.RequestID, c.Metadata = suffix(n), labels
		if o := s.send(c); o.Code != OK {
			if o.Code != Held || n < 5 || n > 10 || !strings.Contains(o.Detail, "metadata") {
				t.Fatalf("%d: %+v", n, o)
			}
			break
		}
		n++
	}
	c := wait("bob", Exclusive)
	c.Metadata = labels
	if o := s.gets(c, QueueFull, 1); !strings.Contains(o.Detail, "metadata") {
		t.Fatalf("got %+v", o)
	}
}

// TestALeaseThatExpiredStaysSo: also for a command whose time lies before that of the one which saw the expiry. Callers
// of a store without a clock have times of their own.
func TestALeaseThatExpiredStaysSo(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Permits), 1, 1)
	s.pass(time.Minute)
	s.granted(try("bob", Permits), 2, 2)
	s.pass(-time.Second)
	s.gets(give("ann", 1), LeaseExpired, 1)
	s.gets(extend("ann", 1, "n1"), LeaseExpired, 1)
}
