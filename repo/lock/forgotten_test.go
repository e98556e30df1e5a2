package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// push is a deployment that takes the lock from the one before it, and is of no use any more ten minutes after it was
// asked for.
func (s *stage) push(n int) Acquire {
	return try(fmt.Sprint("push-", n), Exclusive).put(withReplace).put(func(c *Acquire) {
		c.NotAfter, c.TTLSeconds = s.now.Add(10*time.Minute), 3600
	})
}

// overflows are the ways in which a request is forgotten before its end. Each lets the first push be forgotten by more
// pushes, and returns it.
var overflows = map[string]func(s *stage) Acquire{
	"given up": func(s *stage) Acquire {
		first := s.push(1)
		for n := range 6 {
			c := s.push(n + 1)
			s.send(giveUp(c))
			s.pass(time.Second)
		}
		return first
	},
	"given up what it had": func(s *stage) Acquire {
		first := s.push(1)
		for n := range 6 {
			c := s.push(n + 1)
			s.send(c)
			s.send(giveUp(c))
			s.pass(time.Second)
		}
		return first
	},
	"replaced": func(s *stage) Acquire {
		first := s.push(1)
		for n := range 6 {
			s.send(s.push(n + 1))
			s.pass(time.Second)
		}
		return first
	},
	"released": func(s *stage) Acquire {
		first := s.push(1)
		for n := range 6 {
			o := s.send(s.push(n + 1))
			s.send(Release{ID: subject, Owner: o.Lease.Owner, Token: o.Lease.Token, RequestID: "e"})
			s.pass(time.Second)
		}
		return first
	},
	"followed by others that replace no one": func(s *stage) Acquire {
		first := s.push(1)
		s.send(first)
		for n := range 6 {
			s.pass(3601 * time.Second / 6)
			o := s.send(try(fmt.Sprint("other-", n), Exclusive))
			s.send(Release{ID: subject, Owner: o.Lease.Owner, Token: o.Lease.Token, RequestID: "e"})
		}
		return first
	},
}

// TestALateCopyReplacesNoOne: push-1 is given up, five later pushes come and go, and so do five more. A copy of push-1
// whose end is still ahead takes what is free, and does not end push-11; neither do the others that are forgotten. What
// does not arrive late replaces as ever.
func TestALateCopyReplacesNoOne(t *testing.T) {
	s := newStage(t)
	first := s.push(1)
	s.send(giveUp(first))
	var forgotten []Acquire
	for n := 2; n <= 6; n++ {
		s.pass(time.Second)
		c := s.push(n)
		forgotten = append(forgotten, c)
		s.send(giveUp(c))
	}
	for n := 7; n <= 11; n++ {
		s.pass(time.Second)
		c := s.push(n)
		forgotten = append(forgotten, c)
		if o := s.send(c); o.Code != OK {
			t.Fatalf("push-%d: %+v", n, o)
		}
	}
	for _, c := range append([]Acquire{first}, forgotten[:len(forgotten)-1]...) {
		for range 2 {
			if o := s.send(c); o.Code == OK {
				t.Fatalf("a late copy of %s has replaced push-11: %+v", c.Owner, o)
			}
		}
	}
	if st := s.status(); st.Owner != "push-11" || st.Phase != Active {
		t.Fatalf("the lock has %+v", st)
	}
	if o := s.send(s.push(11)); o.Code != OK || !o.Replayed {
		t.Fatalf("push-11 again: %+v", o)
	}
	s.pass(time.Second)
	if o := s.send(s.push(12)); o.Code != OK || o.Replayed {
		t.Fatalf("push-12: %+v", o)
	}
}

var _ = docstore.MaxAhead
