package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// counted is a store that counts what it is asked, takes a while for each request, and signals nothing.
type counted struct {
	docstore.Store
	took time.Duration

	mu                     sync.Mutex
	gets, granted, refused int
	fail                   error // of reads
}

func newCounted(took time.Duration) *counted {
	return &counted{Store: docstore.NewMemory(nil), took: took}
}

func (s *counted) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
	}
	r, err := s.Store.Get(ctx, keys...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	if s.fail != nil {
		return docstore.Snapshot{}, s.fail
	}
	return r, err
}

func (s *counted) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	time.Sleep(s.took)
	r, err := s.Store.Write(ctx, writes...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Applied {
		s.granted++
	} else {
		s.refused++
	}
	return r, err
}

// take returns the counts since the last call.
func (s *counted) take() (gets, granted, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.gets, s.granted, s.refused = 0, 0, 0 }()
	return s.gets, s.granted, s.refused
}

// reads sets the error of reads.
func (s *counted) reads(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// waitFor is an acquire that waits.
func waitFor(owner string, seconds int64) lock.Acquire {
	return lock.Acquire{ID: deploy, Owner: owner, RequestID: "by-" + owner, TTLSeconds: 60, WaitSeconds: seconds}
}

// result is what became of an acquire, and when.
type result struct {
	lock.Outcome
	err  error
	took time.Duration
}

// acquiring sends an acquire in a goroutine.
func acquiring(ctx context.Context, l *lock.Locks, c lock.Acquire) <-chan result {
	out := make(chan result, 1)
	begin := time.Now()
	go func() {
		o, err := l.Acquire(ctx, c)
		out <- result{o, err, time.Since(begin)}
	}()
	return out
}

// held takes the lock for a while.
func held(t *testing.T, l *lock.Locks, ttl int64) lock.Lease {
	t.Helper()
	o, err := l.Acquire(t.Context(), lock.Acquire{ID: deploy, Owner: "ann", RequestID: "first", TTLSeconds: ttl})
	if err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, error %v", o, err)
	}
	return o.Lease
}

func endLease(t *testing.T, l *lock.Locks, lease lock.Lease) {
	t.Helper()
	o, err := l.Release(t.Context(), lock.Release{ID: deploy, Owner: lease.Owner, Token: lease.Token, RequestID: "end"})
	if err != nil || o.Code != lock.OK {
		t.Fatalf("release: %+v, error %v", o, err)
	}
}

// TestWaitIsGrantedAtRelease: the one who waits in the process of the holder has the lock at once, without a read; one
// elsewhere within the time between two reads.
func TestWaitIsGrantedAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		here, there := lock.New(s, nil), lock.New(s, nil)
		lease := held(t, here, 60)
		near := acquiring(t.Context(), here, waitFor("bob", 20))
		time.Sleep(500 * time.Millisecond)
		s.take()
		endLease(t, here, lease)
		r := <-near
		if r.err != nil || r.Code != lock.OK || r.took != 500*time.Millisecond || r.Waited != r.took || r.Replayed {
			t.Errorf("in this process: %+v", r)
		}
		if gets, granted, refused := s.take(); gets != 0 || granted != 2 || refused != 0 {
			t.Errorf("%d reads, %d writes, %d refused: want a release and a grant", gets, granted, refused)
		}
		far := acquiring(t.Context(), there, waitFor("carl", 20))
		time.Sleep(3 * time.Second)
		endLease(t, here, r.Lease)
		if r := <-far; r.err != nil || r.Code != lock.OK || r.took > 4300*time.Millisecond {
			t.Errorf("in another process: %+v", r)
		}
	})
}

// TestWaitIsGrantedAtExpiry: when the holder is gone, the lock is taken when its lease ends: the one who waits knows
// when that is.
func TestWaitIsGrantedAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		held(t, l, 7)
		r := <-acquiring(t.Context(), l, waitFor("bob", 20))
		if r.err != nil || r.Code != lock.OK || r.took < 7*time.Second || r.took > 7*time.Second+lock.ReadLeast ||
			r.Waited != r.took {
			t.Errorf("%+v", r)
		}
		if gets, granted, refused := s.take(); gets > 36 || granted != 2 || refused != 1 {
			t.Errorf(
				"%d reads, %d writes, %d refused in 7 s: want at most a read in 0.2 s and one at the end, and no write while the lock is held",
				gets, granted, refused)
		}
	})
}

// TestWaitForALockDelay: a lock that stays closed after its lease was lost is taken when it opens; one that may be
// replaced at once is.
func TestWaitForALockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(s, nil)
		ann := lock.Acquire{ID: deploy, Owner: "ann", RequestID: "first", TTLSeconds: 3, LockDelaySeconds: 5, Replace: true}
		if o, err := l.Acquire(t.Context(), ann); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, error %v", o, err)
		}
		if r := <-acquiring(t.Context(), l, waitFor("dora", 4)); r.err != nil || r.Code != lock.Delayed ||
			r.RetryAfter != 4*time.Second {
			t.Errorf("at the end of a wait that is too short: %+v", r)
		}
		r := <-acquiring(t.Context(), l, waitFor("bob", 20))
		if r.err != nil || r.Code != lock.OK || r.took < 4*time.Second || r.took > 4*time.Second+lock.ReadLeast {
			t.Errorf("%+v", r)
		}
		if gets, granted, refused := s.take(); granted != 2 || refused > 4 {
			t.Errorf("%d reads, %d writes, %d refused", gets, granted, refused)
		}
		held := acquiring(t.Context(), l, waitFor("carl", 20)) // bob cannot be replaced
		time.Sleep(time.Second)
		endLease(t, l, r.Lease)
		if r := <-held; r.err != nil || r.Code != lock.OK || r.took != time.Second {
			t.Errorf("%+v", r)
		}
	})
}

// TestWaitersShareTheirReads: however many wait in a process, the document is read once in a hint interval, and none of
// them writes while the lock is held.
func TestWaitersShareTheirReads(t *testing.T) {
	const waiters = 50
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		l := lock.New(s, nil)
		held(t, l, 3600)
		var all []<-chan result
		for n := range waiters {
			all = append(all, acquiring(t.Context(), l, waitFor(fmt.Sprint("w", n), 20)))
		}
		time.Sleep(100 * time.Millisecond)
		if gets, granted, refused := s.take(); gets != 0 || granted != 1 || refused != waiters {
			t.Errorf("%d reads, %d writes, %d refused: want that each was refused once", gets, granted, refused)
		}
		for _, c := range all {
			if r := <-c; r.err != nil || r.Code != lock.Held || r.Lease.Owner != "ann" || r.Lease.Token != 0 ||
				r.took != 20*time.Second {
				t.Errorf("%+v", r)
			}
		}
		synctest.Wait() // a read that was under way when the waits ended
		if gets, granted, refused := s.take(); gets < 20 || gets > 50 || granted != 0 || refused != 0 {
			t.Errorf("%d reads, %d writes, %d refused in 20 s: want a read after a tenth of the time, and no write", gets,
				granted, refused)
		}
		time.Sleep(time.Minute)
		if gets, _, _ := s.take(); gets != 0 {
			t.Errorf("%d reads while no one waits", gets)
		}
	})
}

// TestWaitersTakeTurns: each release lets one of those who wait go, the first one first, with one write; the others do
// not try.
func TestWaitersTakeTurns(t *testing.T) {
	const waiters = 10
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		l := lock.New(s, nil)
		lease := held(t, l, 3600)
		var all []<-chan result
		for n := range waiters {
			all = append(all, acquiring(t.Context(), l, waitFor(fmt.Sprint("w", n), 20)))
			time.Sleep(10 * time.Millisecond)
		}
		s.take()
		for n, c := range all {
			endLease(t, l, lease)
			r := <-c
			if r.err != nil || r.Code != lock.OK {
				t.Fatalf("waiter %d: %+v", n, r)
			}
			lease = r.Lease
		}
		if gets, granted, refused := s.take(); gets != 0 || granted != 2*waiters || refused != 0 {
			t.Errorf("%d reads, %d writes, %d refused: want a release and a grant for each", gets, granted, refused)
		}
	})
}

// TestWaitersOfOtherProcesses: when the lock gets free, each process sends one request at most.
func TestWaitersOfOtherProcesses(t *testing.T) {
	const processes, waiters = 4, 10
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		first := lock.New(s, nil)
		lease := held(t, first, 3600)
		var all []<-chan result
		for p := range processes {
			l := lock.New(s, nil)
			for n := range waiters {
				all = append(all, acquiring(t.Context(), l, waitFor(fmt.Sprintf("p%d-w%d", p, n), 20)))
			}
		}
		time.Sleep(2 * time.Second)
		s.take()
		endLease(t, first, lease)
		time.Sleep(2 * time.Second)
		if gets, granted, refused := s.take(); gets > processes*13 || granted != 2 || refused > processes-1 {
			t.Errorf("%d reads, %d writes, %d refused: want one grant, and one request of each process at most", gets,
				granted, refused)
		}
		granted := 0
		for _, c := range all {
			if r := <-c; r.Code == lock.OK {
				granted++
			} else if r.err != nil || r.Code != lock.Held || !strings.HasPrefix(r.Lease.Owner, "p") {
				t.Errorf("%+v", r)
			}
		}
		if granted != 1 {
			t.Errorf("%d grants", granted)
		}
	})
}

// TestWaitEnds: with the context, with the process, and after the time; and one that ends lets the others go on.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := newCounted(0), make(chan struct{})
		l := lock.New(s, &lock.Options{Stop: stop})
		lease := held(t, l, 3600)
		ctx, cancel := context.WithCancel(t.Context())
		gone := acquiring(ctx, l, waitFor("gone", 20))
		synctest.Wait()
		next := acquiring(t.Context(), l, waitFor("next", 20))
		short := acquiring(t.Context(), l, waitFor("short", 2))
		once := acquiring(t.Context(), l, waitFor("once", 0))
		if r := <-once; r.err != nil || r.Code != lock.Held || r.took != 0 || r.Waited != 0 {
			t.Errorf("wait_seconds 0: %+v", r)
		}
		if o, err := l.AcquireWithin(t.Context(), waitFor("bounded", 20), 0); err != nil || o.Code != lock.Held {
			t.Errorf("within 0: %+v, error %v", o, err)
		}
		time.Sleep(time.Second)
		cancel()
		if r := <-gone; !errors.Is(r.err, context.Canceled) || r.took != time.Second {
			t.Errorf("whose caller has gone: %+v", r)
		}
		if r := <-short; r.err != nil || r.Code != lock.Held || r.took != 2*time.Second || r.RetryAfter != 3598*time.Second {
			t.Errorf("after the time: %+v", r)
		}
		endLease(t, l, lease)
		r := <-next
		if r.err != nil || r.Code != lock.OK || r.took != 2*time.Second {
			t.Errorf("the next one: %+v", r)
		}
		last := acquiring(t.Context(), l, waitFor("last", 20))
		time.Sleep(time.Second)
		close(stop)
		if r := <-last; r.err != nil || r.Code != lock.Held || r.Lease.Owner != "next" || r.took != time.Second ||
			r.RetryAfter != time.Millisecond {
			t.Errorf("when the process stops: %+v", r)
		}
	})
}

// TestWaitEndsWithTheRequest: a request waits no longer than until its end, and is told that it ended.
func TestWaitEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(0), nil)
		lease := held(t, l, 3600)
		c := waitFor("late", 20)
		c.NotAfter = docstore.TruncateMilli(time.Now().Add(2 * time.Second))
		r := <-acquiring(t.Context(), l, c)
		if r.err != nil || r.Code != lock.TooLate || r.took < 2*time.Second || r.took > 2*time.Second+10*time.Millisecond {
			t.Errorf("%+v", r)
		}
		c.NotAfter = time.Now().Add(time.Minute)
		again := acquiring(t.Context(), l, c)
		synctest.Wait()
		endLease(t, l, lease)
		if r := <-again; r.err != nil || r.Code != lock.OK {
			t.Errorf("with another end: %+v", r)
		}
	})
}

// TestWaitAcrossFailedReads: a store that does not respond to reads for a while delays a wait; a document that cannot
// be read ends it.
func TestWaitAcrossFailedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		here, there := lock.New(s, nil), lock.New(s, nil)
		lease := held(t, there, 3600)
		s.reads(docstore.ErrUnavailable)
		waits := acquiring(t.Context(), here, waitFor("bob", 20))
		time.Sleep(3 * time.Second)
		endLease(t, there, lease)
		time.Sleep(3 * time.Second)
		if gets, _, refused := s.take(); gets < 4 || gets > 8 || refused != 1 {
			t.Errorf("%d reads, %d refused in 6 s", gets, refused)
		}
		s.reads(nil)
		if r := <-waits; r.err != nil || r.Code != lock.OK || r.took > 7300*time.Millisecond {
			t.Errorf("%+v", r)
		}
		waits = acquiring(t.Context(), here, waitFor("carl", 20))
		synctest.Wait()
		if _, err := s.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: lock.Kind, Tenant: deploy.Tenant, ID: deploy.Key},
			Set: docstore.Doc{"state": docstore.String("LENT")},
		}); err != nil {
			t.Fatal(err)
		}
		if r := <-waits; !errors.Is(r.err, docstore.ErrDamaged) || r.took > 2*time.Second {
			t.Errorf("damaged: %+v", r)
		}
	})
}

// TestWaitFollowsRenewals: a lock whose holder renews it is not tried at the time at which it would have ended, neither
// in the holder's process nor in another.
func TestWaitFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		here, there := lock.New(s, nil), lock.New(s, nil)
		lease := held(t, here, 5)
		near, far := acquiring(t.Context(), here, waitFor("near", 20)), acquiring(t.Context(), there, waitFor("far", 20))
		synctest.Wait()
		s.take()
		for n := range 9 {
			time.Sleep(2 * time.Second)
			o, err := here.Renew(t.Context(), lock.Renew{ID: deploy, Owner: "ann", Token: lease.Token,
				RequestID: strconv.Itoa(n), TTLSeconds: 5})
			if err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, error %v", o, err)
			}
		}
		if r := <-near; r.Code != lock.Held || r.RetryAfter != 3*time.Second {
			t.Errorf("near: %+v", r)
		}
		if r := <-far; r.Code != lock.Held {
			t.Errorf("far: %+v", r)
		}
		if gets, granted, refused := s.take(); granted != 9 || refused != 0 || gets > 2*50 {
			t.Errorf("%d reads, %d writes, %d refused", gets, granted, refused)
		}
	})
}

// TestWaitWithSignals: a store that signals changes is read when it does, and hardly otherwise.
func TestWaitWithSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		signals := signalling{s}
		here, there := lock.New(signals, nil), lock.New(signals, nil)
		lease := held(t, there, 3600)
		waits := acquiring(t.Context(), here, waitFor("bob", 20))
		time.Sleep(15 * time.Second)
		if gets, _, refused := s.take(); gets > 5 || refused != 1 {
			t.Errorf("%d reads, %d refused in 15 s: want one when the watch begins, and one in about 5 s", gets, refused)
		}
		endLease(t, there, lease)
		r := <-waits
		if r.err != nil || r.Code != lock.OK || r.took > 15*time.Second+lock.ReadSignalled {
			t.Errorf("%+v", r)
		}
		if gets, granted, refused := s.take(); gets > 1 || granted != 2 || refused != 0 {
			t.Errorf("%d reads, %d writes, %d refused", gets, granted, refused)
		}
		// A document that changes all the time is not read all the time.
		waits = acquiring(t.Context(), here, waitFor("carl", 10))
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if _, err := s.Write(t.Context(), docstore.Write{
				Key: docstore.Key{Kind: lock.Kind, Tenant: deploy.Tenant, ID: deploy.Key}, Add: map[string]int64{"other": 1},
			}); err != nil {
				t.Fatal(err)
			}
		}
		<-waits
		if gets, _, _ := s.take(); gets < 38 || gets > 52 {
			t.Errorf("%d reads in 10 s, want four in a second and some at once", gets)
		}
	})
}

// signalling is a counted store that is a [docstore.Watcher].
type signalling struct{ *counted }

func (s signalling) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	return s.Store.(docstore.Watcher).Watch(ctx, k) //nolint:forcetypeassert // the memory store is one
}

// TestWaitTakesSteps: what a server does around each step sees the steps and not the pauses, and can refuse one.
func TestWaitTakesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(100 * time.Millisecond)
		var steps []string
		begin, busy := time.Now(), errors.New("busy")
		l := lock.New(s, &lock.Options{Working: func(ctx context.Context, tenant string,
			do func(context.Context) error) error {
			if len(steps) == 3 {
				return busy
			}
			at := time.Since(begin)
			err := do(ctx)
			steps = append(steps, fmt.Sprintf("%s from %v to %v", tenant, at, time.Since(begin)))
			return err
		}})
		lease := held(t, l, 3600)
		waits := acquiring(t.Context(), l, waitFor("bob", 20))
		time.Sleep(time.Second)
		endLease(t, l, lease)
		if r := <-waits; r.err != nil || r.Code != lock.OK || r.Waited != 1100*time.Millisecond ||
			r.took != 1200*time.Millisecond {
			t.Errorf("%+v", r)
		}
		if want := []string{"acme from 0s to 100ms", "acme from 100ms to 200ms",
			"acme from 1.2s to 1.3s"}; !slices.Equal(steps, want) {
			t.Errorf("%q, want %q", steps, want)
		}
		if r := <-acquiring(t.Context(), l, waitFor("carl", 20)); !errors.Is(r.err, busy) {
			t.Errorf("%+v", r)
		}
	})
}
