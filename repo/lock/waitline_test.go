package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// fairly is an acquire that waits in line.
func fairly(owner string, seconds int64) lock.Acquire {
	c := waitFor(owner, seconds)
	c.Fair = true
	return c
}

// TestWaitInLine: requests of several processes are granted in the order of their arrival, each at the release before
// it in its own process, within the time of a read elsewhere; and each writes to get its place, and to claim its lease.
func TestWaitInLine(t *testing.T) {
	const waiters = 8
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		processes := []*lock.Locks{lock.New(s, nil), lock.New(s, nil), lock.New(s, nil)}
		lease := held(t, processes[0], 3600)
		var all []<-chan result
		for n := range waiters {
			all = append(all, acquiring(t.Context(), processes[n%3], fairly(fmt.Sprint("w", n), 20)))
			time.Sleep(10 * time.Millisecond)
		}
		if gets, granted, refused := s.take(); gets != 0 || granted != 1+waiters || refused != waiters {
			t.Errorf("%d reads, %d writes, %d refused: want one place in line for each, by a second write", gets,
				granted, refused)
		}
		time.Sleep(5 * time.Second)
		if gets, granted, refused := s.take(); gets > 100 || granted+refused != 0 {
			t.Errorf("%d reads, %d writes, %d refused in 5 s: want a read after a tenth of the time, and no write", gets,
				granted, refused)
		}
		for n, c := range all {
			begin := time.Now()
			endLease(t, processes[n%3], lease)
			r := <-c
			if r.err != nil || r.Code != lock.OK || r.Lease.Owner != fmt.Sprint("w", n) || r.Lease.Token != lease.Token+1 ||
				r.Replayed {
				t.Fatalf("%d: %+v", n, r)
			}
			if took := time.Since(begin); took > 10*time.Millisecond {
				t.Errorf("%d was released in the same process, and had the lock after %v", n, took)
			}
			if left := r.Lease.ExpiresAt.Sub(r.At); left != time.Minute {
				t.Errorf("%d: the lease lasts for %v", n, left)
			}
			lease = r.Lease
		}
		if _, granted, refused := s.take(); granted != 2*waiters || refused > 2*waiters {
			t.Errorf("%d writes, %d refused: want a release and a claim for each, which are second writes", granted, refused)
		}
		far := acquiring(t.Context(), processes[1], fairly("far", 20))
		time.Sleep(3 * time.Second)
		endLease(t, processes[0], lease)
		if r := <-far; r.err != nil || r.Code != lock.OK || r.took > 4300*time.Millisecond {
			t.Errorf("elsewhere: %+v", r)
		}
	})
}

// TestWaitBehindOneWhoDied: a lease that is handed over to a request whose process has died is the next one's within two
// seconds; and one whose caller has gone leaves the line at once.
func TestWaitBehindOneWhoDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		here, there := lock.New(s, nil), lock.New(s, nil)
		lease := held(t, here, 3600)
		dead, err := there.LineUp(t.Context(), fairly("dead", 20)) // its process dies now
		if err != nil || dead.Code != lock.Held || dead.Position != 1 {
			t.Fatalf("%+v, error %v", dead, err)
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := acquiring(ctx, there, fairly("gone", 20))
		synctest.Wait()
		next := acquiring(t.Context(), there, fairly("next", 20))
		synctest.Wait()
		last := acquiring(t.Context(), there, fairly("last", 1))
		if r := <-last; r.err != nil || r.Code != lock.Held || r.Position != 4 || r.took != time.Second {
			t.Errorf("%+v", r)
		}
		leave()
		if r := <-gone; !errors.Is(r.err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		status, _, err := here.Get(t.Context(), deploy)
		var line []string // who listens
		for _, w := range status.Waiting {
			line = append(line, w.Owner)
		}
		if want := []string{"dead", "next"}; err != nil || !slices.Equal(line, want) {
			t.Errorf("%q, want %q, error %v", line, want, err)
		}
		endLease(t, here, lease)
		r := <-next
		if after := r.took - time.Second; r.err != nil || r.Code != lock.OK || after < 500*time.Millisecond ||
			after > 2*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

// TestWaitForAReader: readers share the lock, and a writer is not passed by those that come later.
func TestWaitForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		reader := func(name string) lock.Acquire {
			c := waitFor(name, 20)
			c.Mode = lock.Shared
			return c
		}
		first := <-acquiring(t.Context(), l, reader("r1"))
		if first.err != nil || first.Code != lock.OK {
			t.Fatalf("%+v", first)
		}
		writer := acquiring(t.Context(), l, fairly("w", 20))
		synctest.Wait()
		second, third := acquiring(t.Context(), l, reader("r2")), acquiring(t.Context(), l, reader("r3"))
		time.Sleep(3 * time.Second)
		for name, c := range map[string]<-chan result{"writer": writer, "r2": second, "r3": third} {
			select {
			case r := <-c:
				t.Errorf("%s: %+v", name, r)
			default:
			}
		}
		endLease(t, l, first.Lease)
		w := <-writer
		if w.err != nil || w.Code != lock.OK || w.took != 3*time.Second {
			t.Fatalf("%+v", w)
		}
		time.Sleep(3 * time.Second)
		endLease(t, l, w.Lease)
		for _, c := range []<-chan result{second, third} {
			if r := <-c; r.err != nil || r.Code != lock.OK || r.took != 6*time.Second {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestWaitForARate: those who wait for a rate are granted as fast as it allows, in order, by reads that come when a
// grant leaves the window.
func TestWaitForARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		var all []<-chan result
		for n := range 6 {
			c := waitFor(fmt.Sprint("w", n), 20)
			c.TTLSeconds, c.Mode, c.Limit, c.WindowSeconds = 0, lock.Rate, 2, 5
			all = append(all, acquiring(t.Context(), l, c))
			synctest.Wait()
		}
		var tokens []int64
		for n, c := range all {
			r := <-c
			at := time.Duration(n/2) * 5 * time.Second
			if r.err != nil || r.Code != lock.OK || r.took < at || r.took > at+2*lock.ReadLeast {
				t.Errorf("%d, that is due after %v: %+v", n, at, r)
			}
			tokens = append(tokens, r.Lease.Token)
		}
		if !slices.IsSorted(tokens) {
			t.Errorf("tokens %v", tokens)
		}
		if gets, granted, refused := s.take(); gets > 16 || granted > 6+4+2 || refused > 16 {
			t.Errorf("%d reads, %d writes, %d refused in 10 s", gets, granted, refused)
		}
	})
}

// TestManyWaitInLine: a line as long as it may be, of one process, is served to the end.
func TestManyWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		l := lock.New(s, nil)
		lease := held(t, l, 3600)
		var all []<-chan result
		for n := range lock.MaxWaiting {
			all = append(all, acquiring(t.Context(), l, fairly(fmt.Sprint("w", n), 20)))
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if r := <-acquiring(t.Context(), l, fairly("more", 20)); r.err != nil || r.Code != lock.QueueFull ||
			r.took > 10*time.Millisecond {
			t.Errorf("one more: %+v", r)
		}
		s.take()
		for n, c := range all {
			endLease(t, l, lease)
			r := <-c
			if r.err != nil || r.Code != lock.OK || r.Lease.Owner != fmt.Sprint("w", n) {
				t.Fatalf("%d: %+v", n, r)
			}
			lease = r.Lease
		}
		if _, granted, refused := s.take(); granted != 2*lock.MaxWaiting || refused > 2*lock.MaxWaiting+1 {
			t.Errorf("%d writes, %d refused", granted, refused)
		}
	})
}

// TestAnEarlierDeliveryIsCutOff: a caller whose connection was cut sends its request again, and the server learns of
// the cut only then. The request keeps its place. In the bubble sleeping takes no time.
func TestAnEarlierDeliveryIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(time.Millisecond), nil)
		lease := held(t, l, 3600)
		ctx, cut := context.WithCancel(t.Context())
		defer cut()
		first := acquiring(ctx, l, fairly("bob", 20))
		time.Sleep(time.Second) // bob is in line
		next := acquiring(t.Context(), l, fairly("eve", 20))
		time.Sleep(time.Second) // and eve behind bob
		again := acquiring(t.Context(), l, fairly("bob", 20))
		time.Sleep(time.Second) // the second delivery waits beside the first
		cut()
		if r := <-first; r.err == nil {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Second) // time enough to give the place up, if it did
		endLease(t, l, lease)
		r := <-again
		if r.err != nil || r.Code != lock.OK || r.Lease.Token != lease.Token+1 {
			t.Fatalf("%+v", r)
		}
		endLease(t, l, r.Lease)
		if r = <-next; r.err != nil || r.Code != lock.OK {
			t.Fatalf("%+v", r)
		}

		// If all of its connections are cut, it gives the place up.
		ctx, cut = context.WithCancel(t.Context())
		defer cut()
		bob := fairly("bob", 20)
		bob.RequestID = "another"
		both := []<-chan result{acquiring(ctx, l, bob), acquiring(ctx, l, bob)}
		time.Sleep(time.Second) // both wait
		cut()
		for _, c := range both {
			<-c
		}
		if st, _, err := l.Get(t.Context(), deploy); err != nil || st.Owner != "eve" || len(st.Waiting) != 0 {
			t.Errorf("%+v, error %v", st, err)
		}
	})
}

// TestManyGetInLineAtOnce: requests of one process that come together do not refuse each other's writes until they give
// up.
func TestManyGetInLineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(5 * time.Millisecond)
		l := lock.New(s, nil)
		lease := held(t, l, 3600)
		s.take()
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var all []<-chan result
		for n := range lock.MaxWaiting {
			all = append(all, acquiring(ctx, l, fairly(fmt.Sprint("w", n), 20)))
		}
		time.Sleep(5 * time.Second) // all have their places: with turns it takes 100 writes of 5 ms
		if _, granted, refused := s.take(); granted != lock.MaxWaiting || refused > 2*lock.MaxWaiting {
			t.Errorf("%d writes, %d refused: want one for each place, and no more than two others for each request",
				granted, refused)
		}
		if st, _, err := l.Get(t.Context(), deploy); err != nil || len(st.Waiting) != lock.MaxWaiting {
			t.Errorf("%d wait, error %v", len(st.Waiting), err)
		}
		endLease(t, l, lease)
		hangUp()
		for _, c := range all {
			<-c
		}
	})
}

// TestAWriteThatHangsDelaysOthersForAMoment: the second writes of one process on one lock take turns, but none waits
// for long behind one that the store does not answer.
func TestAWriteThatHangsDelaysOthersForAMoment(t *testing.T) {
	for range 20 { // chance decides between the end of its wait and its next turn, which come together
		synctest.Test(t, hangs)
	}
}

func hangs(t *testing.T) {
	s := &stuck{Store: docstore.NewMemory(nil), answers: make(chan struct{})}
	l := lock.New(s, nil)
	held(t, l, 3600)
	s.left = 2 // until the second write of the next request
	one := acquiring(t.Context(), l, fairly("one", 1))
	synctest.Wait()
	if r := <-acquiring(t.Context(), l, fairly("two", 1)); r.err != nil || r.Code != lock.Held || r.Position != 1 ||
		r.took > 3*time.Second {
		t.Errorf("%+v", r)
	}
	close(s.answers)
	if r := <-one; r.err != nil || r.Code != lock.Held {
		t.Errorf("%+v", r)
	}
	if r := <-acquiring(t.Context(), l, fairly("three", 0)); r.err != nil || r.Code != lock.Held || r.took != 0 {
		t.Errorf("%+v", r)
	}
}

// stuck is a store that answers one write only when it is told to.
type stuck struct {
	docstore.Store

	answers chan struct{}
	left    int // writes up to that one
}

func (s *stuck) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.left--; s.left == 0 {
		<-s.answers
	}
	return s.Store.Write(ctx, writes...)
}

// TestWaitForASet: who waits for one lock of several that are released together has it at once.
func TestWaitForASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		o, err := l.AcquireSet(t.Context(), lock.AcquireSet{Tenant: deploy.Tenant, Keys: []string{deploy.Key, "other"},
			Owner: "ann", RequestID: "r", TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, error %v", o, err)
		}
		begin := time.Now()
		waits := acquiring(t.Context(), l, waitFor("bob", 20))
		reads := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.gets
		}
		for n := reads() + 2; reads() < n; { // the next read is half a second away, at least
			time.Sleep(time.Millisecond)
		}
		time.Sleep(lock.ReadSignalled)
		released := time.Since(begin)
		var leases []lock.SetLease
		for _, one := range o.Leases {
			leases = append(leases, lock.SetLease{Key: one.Key, Token: one.Token})
		}
		if o, err := l.ReleaseSet(t.Context(), lock.ReleaseSet{Tenant: deploy.Tenant, Leases: leases, Owner: "ann",
			RequestID: "e"}); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, error %v", o, err)
		}
		if r := <-waits; r.err != nil || r.Code != lock.OK || r.took != released {
			t.Errorf("released after %v: %+v", released, r)
		}
	})
}

// TestWaitOverTheDead: who waits behind a hundred readers that die has the lock when they have expired, for a write
// that takes it. What has ended without making room is cleared by one of those who wait, once.
func TestWaitOverTheDead(t *testing.T) {
	dying := func(t *testing.T, l *lock.Locks, n int) {
		t.Helper()
		for i := range n {
			c := waitFor(fmt.Sprint("dead ", i), 0)
			c.Mode, c.TTLSeconds = lock.Shared, 5
			if o, err := l.Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, error %v", o, err)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		dying(t, l, 100)
		for name, c := range map[string]lock.Acquire{"fair": fairly("bob", 20), "not fair": waitFor("eve", 20)} {
			s.take()
			// The document may have been read just before the readers expired.
			if r := <-acquiring(t.Context(), l, c); r.err != nil || r.Code != lock.OK || r.took > 5*time.Second+lock.ReadLeast {
				t.Fatalf("%s: %+v", name, r)
			} else {
				endLease(t, l, r.Lease)
			}
			if _, granted, refused := s.take(); granted > 4 || refused > 4 {
				t.Errorf("%s: %d writes, %d refused", name, granted, refused)
			}
			dying(t, l, 100)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		here, there := lock.New(s, nil), lock.New(s, nil)
		dying(t, here, 60)
		c := waitFor("alive", 0)
		c.Mode = lock.Shared
		if o, err := here.Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, error %v", o, err)
		}
		all := []<-chan result{acquiring(t.Context(), here, fairly("bob", 20)),
			acquiring(t.Context(), there, fairly("eve", 20))}
		time.Sleep(time.Second)
		s.take()
		time.Sleep(10 * time.Second)
		if _, granted, refused := s.take(); granted != 1 || refused != 1 {
			t.Errorf("%d writes, %d refused: want one that clears, by a second write", granted, refused)
		}
		for _, c := range all {
			if r := <-c; r.err != nil || r.Code != lock.Held || r.Position == 0 {
				t.Errorf("%+v", r)
			}
		}
		if _, granted, refused := s.take(); granted+refused != 0 {
			t.Errorf("%d writes, %d refused, although nothing changes", granted, refused)
		}
	})
}
