package lock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// stage is a lock on a store in memory whose clock a test moves. It sends each command once: what a request in line has is looked at by
// sending it again.
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

// granted fails the test unless the command obtains the nth token of the lock.
func (s *stage) granted(c Acquire, n int64, requests int) Outcome {
	s.Helper()
	o := s.gets(c, OK, requests)
	if want := epoch.UnixMicro() + n; o.Lease.Token != want || o.Replayed || o.Lease.Owner != c.Owner || o.Lease.Phase != Active {
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
	return subject.status(st, s.now)
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
		if f != fPast && ours(f) && !slices.Contains(plainFields, f) {
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
		!st.Holders[1].AcquiredAt.Equal(epoch.Add(time.Second)) || len(st.Waiting) != 3 || st.Waiting[0].Owner != "eve" || st.Phase != Active {
		t.Fatalf("got %+v", st)
	}
	if o := s.gets(give("ann", 1), OK, 2); o.Lease.Phase != Released || o.Lease.LeaseID != "l-ann" || !o.Lease.ReleasedAt.Equal(s.now) {
		t.Fatalf("got %+v", o)
	}
	if o := s.gets(give("ann", 1), OK, 1); !o.Replayed || o.Lease.Owner != "ann" {
		t.Fatalf("got %+v", o)
	}
	s.gets(extend("ann", 1, "n1"), LeaseReleased, 1)
	if o := s.gets(extend("bob", 2, "n1"), OK, 2); o.Replayed || !o.Lease.ExpiresAt.Equal(s.now.Add(time.Minute)) || !o.Lease.AcquiredAt.Equal(epoch.Add(time.Second)) {
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
	if o := s.granted(wait("eve", Exclusive), 3, 2); !o.Lease.ExpiresAt.Equal(s.now.Add(time.Minute)) || !o.Lease.AcquiredAt.Equal(s.now.Add(-time.Second)) {
		t.Fatalf("got %+v", o)
	}
	s.gets(give("eve", 3), OK, 2) // to both readers
	s.granted(wait("kim", Shared), 4, 2)
	s.granted(wait("lee", Shared), 5, 2)
	s.gets(give("lee", 5), OK, 2)
	s.gets(give("kim", 4), OK, 2)
	s.plain(Released)
	if st := s.status(); st.Owner != "lee" || st.Phase != Released || len(st.History) != 0 && st.History[0].Owner != "kim" {
		t.Fatalf("got %+v", st)
	}
	s.granted(try("ann", Exclusive), 6, 1)
}
