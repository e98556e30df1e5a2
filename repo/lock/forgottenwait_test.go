package lock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestALateCopyWaits: a copy that replaces no one waits for the lock as one without replace does: it is sent once, also
// while the holder renews, and when the lock is released. A push that comes meanwhile does not wait.
func TestALateCopyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		l := lock.New(s, nil)
		push := func(n int) lock.Acquire {
			c := asked(lock.Acquire{TTLSeconds: 300, Replace: true}, fmt.Sprint("push-", n), 0)
			c.NotAfter = time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
			return c
		}
		first := push(1)
		for n := range 6 {
			if o, err := l.GiveUp(t.Context(), lock.GiveUp{Acquire: push(n + 1)}); err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, error %v", o, err)
			}
			time.Sleep(time.Second)
		}
		o, err := l.Acquire(t.Context(), push(7))
		lease := must(t, o, err)
		s.take()
		first.WaitSeconds = 20
		late := acquiring(t.Context(), l, first)
		for n := range 3 {
			time.Sleep(time.Second)
			o, err := l.Renew(t.Context(), lock.Renew{ID: deploy, Owner: lease.Owner, Token: lease.Token,
				RequestID: fmt.Sprint("n", n), TTLSeconds: 300})
			must(t, o, err)
		}
		if _, granted, refused := s.take(); granted != 3 || refused != 1 {
			t.Errorf("%d writes for 3 renewals, and %d of the copy, want 1", granted, refused)
		}
		endLease(t, l, lease)
		r := <-late
		got := must(t, r.Outcome, r.err)
		if _, granted, refused := s.take(); got.Owner != "push-1" || granted != 2 || refused != 1 {
			t.Errorf("%+v after %d writes and %d that were refused, want a release and a grant of two", got, granted, refused)
		}
		o, err = l.Acquire(t.Context(), push(8))
		if got := must(t, o, err); got.Owner != "push-8" {
			t.Errorf("%+v", got)
		}
	})
}
