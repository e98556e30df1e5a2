package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// givenUpModes are the kinds of request that wait, each with what makes it wait.
var givenUpModes = map[string]struct{ held, waits lock.Acquire }{
	"plain": {lock.Acquire{TTLSeconds: 60}, lock.Acquire{TTLSeconds: 300}},
	"fair":  {lock.Acquire{TTLSeconds: 60}, lock.Acquire{TTLSeconds: 300, Fair: true}},
	"permits": {lock.Acquire{TTLSeconds: 60, Mode: lock.Permits, Limit: 1},
		lock.Acquire{TTLSeconds: 300, Mode: lock.Permits, Limit: 1}},
	"shared": {lock.Acquire{TTLSeconds: 60}, lock.Acquire{TTLSeconds: 300, Mode: lock.Shared}},
	"writer": {lock.Acquire{TTLSeconds: 60, Mode: lock.Shared}, lock.Acquire{TTLSeconds: 300, Fair: true}},
	"rate": {lock.Acquire{Mode: lock.Rate, Limit: 1, WindowSeconds: 10},
		lock.Acquire{Mode: lock.Rate, Limit: 1, WindowSeconds: 10}},
	"replace": {lock.Acquire{TTLSeconds: 60}, lock.Acquire{TTLSeconds: 300, Replace: true}},
}

// asked is a request of an owner.
func asked(c lock.Acquire, owner string, seconds int64) lock.Acquire {
	c.ID, c.Owner, c.RequestID, c.WaitSeconds = deploy, owner, "by-"+owner, seconds
	return c
}

// must is an acquire or release that succeeds.
func must(t *testing.T, o lock.Outcome, err error) lock.Lease {
	t.Helper()
	if err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, error %v", o, err)
	}
	return o.Lease
}

// TestAGiveUpEndsTheWaits: a delivery without a wait ends those of the same request that wait in the process, which no
// one listens to any more. They obtain nothing when the lock gets free, whatever its mode, and leave no place in line;
// those of other requests wait on.
func TestAGiveUpEndsTheWaits(t *testing.T) {
	for name, mode := range givenUpModes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCounted(time.Millisecond)
				l := lock.New(s, nil)
				o, err := l.Acquire(t.Context(), asked(mode.held, "ann", 0))
				lease := must(t, o, err)
				bob := asked(mode.waits, "bob", 20)
				both := []<-chan result{acquiring(t.Context(), l, bob), acquiring(t.Context(), l, bob)}
				time.Sleep(100 * time.Millisecond)
				carl := acquiring(t.Context(), l, asked(mode.waits, "carl", 20))
				time.Sleep(900 * time.Millisecond)
				begin := time.Now()
				bob.WaitSeconds, bob.Replace = 0, false // as clients send it
				if o, err := l.Acquire(t.Context(), bob); err != nil || o.Code != lock.Held &&
					(!mode.waits.Replace || o.Code != lock.RequestIDReused) {
					t.Errorf("the give-up: %+v, error %v", o, err)
				}
				for n, c := range both {
					r := <-c
					if r.err != nil || r.Code != lock.Held || time.Since(begin) > 5*time.Millisecond {
						t.Errorf("delivery %d, after %v: %+v", n, time.Since(begin), r)
					}
				}
				if lease.Mode != lock.Rate {
					endLease(t, l, lease)
				}
				r := <-carl
				got := must(t, r.Outcome, r.err)
				if got.Owner != "carl" || got.Token != lease.Token+1 {
					t.Errorf("%+v", got)
				}
				time.Sleep(20 * time.Second)
				if st, _, err := l.Get(t.Context(), deploy); err != nil || st.Owner != "carl" || len(st.Waiting) > 0 {
					t.Errorf("%+v, error %v", st, err)
				}
			})
		})
	}
}

// TestAGiveUpIsDecidedAfterwards: what a delivery obtains that is being sent when the give-up arrives is the outcome of
// the give-up, so that the client releases it; whether it is the first sending of the delivery, one at the end of a
// wait, or one without a wait. The store is quicker with the give-up.
func TestAGiveUpIsDecidedAfterwards(t *testing.T) {
	for name, mode := range givenUpModes {
		for course, waits := range map[string]int64{"the first sending": 20, "without a wait": 0,
			"at the end of the wait": 20} {
			t.Run(name+"/"+course, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &slowAt{Store: docstore.NewMemory(nil)}
					s.begin(time.Now())
					l := lock.New(s, nil)
					bob := asked(mode.waits, "bob", waits)
					var first <-chan result
					if course == "at the end of the wait" {
						s.begin(time.Now().Add(time.Hour))
						o, err := l.Acquire(t.Context(), asked(mode.held, "ann", 0))
						lease := must(t, o, err)
						first = acquiring(t.Context(), l, bob)
						time.Sleep(time.Second)
						if lease.Mode == lock.Rate {
							next := lease.AcquiredAt.Add(10 * time.Second)
							s.begin(next)
							time.Sleep(time.Until(next))
						} else {
							s.begin(time.Now().Add(time.Millisecond)) // after the release
							endLease(t, l, lease)
						}
					} else {
						first = acquiring(t.Context(), l, bob)
					}
					time.Sleep(50 * time.Millisecond) // it is being sent
					bob.WaitSeconds = 0
					o, err := l.Acquire(t.Context(), bob)
					got := must(t, o, err)
					r := <-first
					if lease := must(t, r.Outcome, r.err); lease.Token != got.Token || !o.Replayed || r.Replayed {
						t.Errorf("the give-up has %+v, and the delivery before it %+v", o, r)
					}
				})
			})
		}
	}
}

// slowAt is a store whose reads take no time and whose writes take a millisecond, but for those that begin at a certain
// time.
type slowAt struct {
	docstore.Store

	from atomic.Pointer[time.Time]
}

func (s *slowAt) begin(at time.Time) { s.from.Store(&at) }

func (s *slowAt) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if since := time.Since(*s.from.Load()); since >= 0 && since < 10*time.Millisecond {
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(time.Millisecond)
	return s.Store.Write(ctx, writes...)
}

// TestAGiveUpBeforeItsDelivery: a delivery that has no room to be sent yet when it is given up is not sent at all.
func TestAGiveUpBeforeItsDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		room := make(chan struct{})
		turned := 0
		s := newCounted(0)
		l := lock.New(s, &lock.Options{Working: func(ctx context.Context, _ string, do func(context.Context) error) error {
			mu.Lock()
			turned++
			full := turned == 1
			mu.Unlock()
			if full {
				<-room
			}
			return do(ctx)
		}})
		first := acquiring(t.Context(), l, waitFor("bob", 20))
		synctest.Wait()
		o, err := l.Acquire(t.Context(), waitFor("bob", 0))
		endLease(t, l, must(t, o, err))
		close(room)
		if r := <-first; r.err != nil || r.Code != lock.Held || r.Detail == "" {
			t.Errorf("%+v", r)
		}
		if _, granted, _ := s.take(); granted != 2 {
			t.Errorf("%d writes, want the grant and the release", granted)
		}
	})
}

// TestAGiveUpThatOvertakesItsDelivery: a delivery without a wait ends what came before it. One that comes later waits
// and obtains the lock, as a new request would: what is not to happen is said with give_up, which the lock remembers.
func TestAGiveUpThatOvertakesItsDelivery(t *testing.T) {
	for name, remembered := range map[string]bool{"without a wait": false, "give_up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lock.New(newCounted(time.Millisecond), nil)
				lease := held(t, l, 60)
				want, code := lock.Held, lock.OK
				give := l.Acquire
				if remembered {
					want, code = lock.OK, lock.RequestIDReused
					give = func(ctx context.Context, c lock.Acquire) (lock.Outcome, error) {
						return l.GiveUp(ctx, lock.GiveUp{Acquire: c})
					}
				}
				if o, err := give(t.Context(), waitFor("bob", 0)); err != nil || o.Code != want {
					t.Fatalf("%+v, error %v", o, err)
				}
				late := acquiring(t.Context(), l, waitFor("bob", 20))
				time.Sleep(time.Second)
				endLease(t, l, lease)
				if r := <-late; r.err != nil || r.Code != code {
					t.Errorf("the delivery that came later: %+v", r)
				}
			})
		})
	}
}

// TestAGiveUpThatIsCutOff: one whose time ends before the delivery ahead of it has its answer says so; the next one is
// decided.
func TestAGiveUpThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(10*time.Second), nil)
		first := acquiring(t.Context(), l, waitFor("bob", 20))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cut := acquiring(ctx, l, waitFor("bob", 0))
		synctest.Wait()
		next := acquiring(t.Context(), l, waitFor("bob", 0))
		if r := <-cut; !errors.Is(r.err, context.DeadlineExceeded) || r.took != time.Second {
			t.Errorf("%+v", r)
		}
		r := <-first
		lease := must(t, r.Outcome, r.err)
		if r = <-next; must(t, r.Outcome, r.err).Token != lease.Token || !r.Replayed || r.took != 20*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

// TestACancelledCopyReplacesNoOne: a job that may replace others and was cancelled while it waited does not replace the
// one after it.
func TestACancelledCopyReplacesNoOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(time.Millisecond), nil)
		lease := held(t, l, 3600) // it cannot be replaced
		mode := lock.Acquire{TTLSeconds: 300, Replace: true}
		old := acquiring(t.Context(), l, asked(mode, "old", 20))
		time.Sleep(time.Second)
		newer := acquiring(t.Context(), l, asked(mode, "newer", 20))
		time.Sleep(time.Second)
		// the second one only where the first says that the request was carried out: here for more
		for _, replace := range []bool{false, true} {
			c := asked(mode, "old", 0)
			c.Replace = replace
			if o, err := l.Acquire(t.Context(), c); err != nil || o.Code != lock.Held {
				t.Fatalf("%+v, error %v", o, err)
			}
		}
		if r := <-old; r.err != nil || r.Code != lock.Held || r.took > 2010*time.Millisecond {
			t.Errorf("%+v", r)
		}
		endLease(t, l, lease)
		r := <-newer
		got := must(t, r.Outcome, r.err)
		time.Sleep(time.Minute)
		if st, _, err := l.Get(t.Context(), deploy); err != nil || st.Owner != "newer" || st.LeaseID != got.LeaseID ||
			st.Phase != lock.Active {
			t.Errorf("%+v, error %v", st, err)
		}
	})
}

// TestALostPlaceIsNotTakenAgain: a wait whose place is gone, because another process was told that the request is given
// up or because the time of the place has passed, ends with a refusal: it neither joins the line again nor takes the
// lock, which may be free by then. Sent again by its caller, the request joins the line anew.
func TestALostPlaceIsNotTakenAgain(t *testing.T) {
	for _, name := range []string{"fair", "permits", "shared", "writer", "rate"} {
		mode := givenUpModes[name]
		for _, free := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, free: %v", name, free), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newCounted(time.Millisecond)
					here, there := lock.New(s, nil), lock.New(s, nil)
					o, err := there.Acquire(t.Context(), asked(mode.held, "ann", 0))
					lease := must(t, o, err)
					bob := asked(mode.waits, "bob", 20)
					first := acquiring(t.Context(), here, bob)
					time.Sleep(100 * time.Millisecond)
					bob.WaitSeconds = 0
					if o, err := there.Acquire(t.Context(), bob); err != nil || o.Code != lock.Held {
						t.Fatalf("the give-up: %+v, error %v", o, err)
					}
					if free && lease.Mode != lock.Rate {
						endLease(t, there, lease)
					}
					r := <-first
					if r.err != nil || r.Code != lock.Held || r.Position != 0 || r.took > 2*time.Second {
						t.Errorf("%+v", r)
					}
					st, _, err := here.Get(t.Context(), deploy)
					if err != nil || len(st.Waiting) > 0 || st.Owner == "bob" {
						t.Errorf("%+v, error %v", st, err)
					}
					bob.WaitSeconds = 20
					again := acquiring(t.Context(), here, bob)
					time.Sleep(100 * time.Millisecond)
					if !free && lease.Mode != lock.Rate {
						endLease(t, there, lease)
					}
					r = <-again
					if got := must(t, r.Outcome, r.err); got.Token != lease.Token+1 {
						t.Errorf("sent again: %+v", got)
					}
				})
			})
		}
	}
}

// TestARequestWithoutASeat: one that finds no room among those that wait is refused as one that does not wait, and a
// lock that is free is had. In line it keeps its place, so that it has its turn when it is sent again.
func TestARequestWithoutASeat(t *testing.T) {
	for name, mode := range givenUpModes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seats := 1
				l := lock.New(newCounted(0), &lock.Options{Seat: func(_ context.Context, tenant string) (func(), bool) {
					if tenant != deploy.Tenant || seats == 0 {
						return nil, false
					}
					seats--
					return func() { seats++ }, true
				}})
				o, err := l.Acquire(t.Context(), asked(mode.held, "ann", 20)) // it needs none
				lease := must(t, o, err)
				bob := acquiring(t.Context(), l, asked(mode.waits, "bob", 20))
				synctest.Wait()
				carl := asked(mode.waits, "carl", 20)
				r := <-acquiring(t.Context(), l, carl)
				want := int64(0)
				if mode.waits.Fair || mode.waits.Mode != lock.Exclusive {
					want = 2
				}
				if r.err != nil || r.Code != lock.Held || r.took != 0 || r.RetryAfter <= 0 || r.Position != want {
					t.Errorf("%+v", r)
				}
				if lease.Mode != lock.Rate {
					endLease(t, l, lease)
				}
				r = <-bob
				lease = must(t, r.Outcome, r.err)
				if seats != 1 {
					t.Errorf("%d seats are left of 1", seats)
				}
				if lease.Mode != lock.Rate {
					endLease(t, l, lease)
				}
				r = <-acquiring(t.Context(), l, carl)
				must(t, r.Outcome, r.err)
			})
		})
	}
}
