package prove

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestJudgeOfAClockThatIsSet: where the store's clock is set, the judge says by itself until when a lease lasts, and
// from when on it must be over. Times are the store's, in seconds; a lease lasts for 5.
func TestJudgeOfAClockThatIsSet(t *testing.T) {
	t.Parallel()
	const (
		look    = iota // a command looks at the lock, and changes nothing
		refused        // another one is refused, because the lock is held
		renewed        // the holder renews
		granted        // another one gets the lock
	)
	type step struct {
		at   float64
		what int
	}
	for _, c := range []struct {
		name   string
		steps  []step
		broken string // the promise that the last step breaks; empty: none
	}{
		{"the clock is right", []step{{5, granted}}, ""},
		{"the clock is right, too early", []step{{4.999, granted}}, "one lease"},
		{"set back, at once", []step{{-100, granted}}, "one lease"},
		{"set back, a ttl after a look", []step{{-100, look}, {-95, granted}}, ""},
		{"set back, not yet a ttl after a look", []step{{-100, look}, {-95.001, granted}}, "one lease"},
		{"set back twice, a ttl after the later look", []step{{-100, look}, {-200, look}, {-195, granted}}, ""},
		{"set back twice, before that", []step{{-100, look}, {-200, look}, {-196, granted}}, "one lease"},
		{"a look does not make it longer", []step{{-100, look}, {-96, look}, {-95, granted}}, ""},
		{"set forward", []step{{100, granted}}, ""},
		{"set forward and back, seen ahead", []step{{100, look}, {1, granted}}, ""},
		{"set forward and back, not seen ahead", []step{{1, granted}}, "one lease"},
		{"a renewal lasts from there", []step{{-100, look}, {-98, renewed}, {-94, granted}}, "one lease"},
		{"a renewal ends", []step{{-100, look}, {-98, renewed}, {-93, granted}}, ""},
		{"renewed while it lasts", []step{{4.999, renewed}}, ""},
		{"renewed after its end", []step{{5, renewed}}, "one lease"},
		{"set forward and back, renewed", []step{{100, look}, {1, renewed}}, ""},
		{"held while it lasts", []step{{4.999, refused}}, ""},
		{"held after its end", []step{{5, refused}}, "free is granted"},
		{"set back, held for a ttl and a second", []step{{-100, refused}, {-94.001, refused}}, ""},
		{"set back, held for longer", []step{{-100, refused}, {-94, refused}}, "free is granted"},
		{"set back, who only looked counts nothing anew", []step{{-100, look}, {-94, refused}}, ""},
	} {
		r := newRig(&scene{keys: []kind{plain}, clients: 2, ttl: 5, steps: 1000_000}, new(counts))
		r.w = r.newWorld()
		q := &request{id: "c2-0", name: "a"}
		th := r.w.thing(q)
		r.grant(th, "c1-0", 1, 0, 0, 5000)
		for _, s := range c.steps {
			if r.w.broken != nil {
				t.Errorf("%s: %v, before the last step", c.name, r.w.broken)
			}
			now := int64(s.at * 1000)
			r.w.store = now
			o := lock.Outcome{Code: lock.Held, At: at(now)}
			switch s.what {
			case look:
				r.looks(th)
			case refused:
				r.acquired(q, lock.Acquire{}, o)
			case renewed:
				r.renewed(&request{id: "c1-0r1", name: "a", token: 1}, lock.Outcome{Code: lock.OK, At: o.At,
					Lease: lock.Lease{Token: 1, Status: lock.Status{ExpiresAt: at(now + 5000)}}})
			case granted:
				o.Code, o.Lease = lock.OK, lock.Lease{Token: 2, Status: lock.Status{ExpiresAt: at(now + 5000)}}
				r.acquired(q, lock.Acquire{}, o)
			}
		}
		broken := ""
		if r.w.broken != nil {
			broken = r.w.broken.Name
		}
		if broken != c.broken {
			t.Errorf("%s: %q is broken, want %q: %v", c.name, broken, c.broken, r.w.broken)
		}
	}
}

// TestJudgeOfHoldersWhenTheClockIsSet: two who hold a lock by their own clocks break the promise, unless the store's
// clock was set forward since the first one asked for its lease.
func TestJudgeOfHoldersWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	for forward, broken := range map[int64]bool{-1: true, 999: true, 1000: false, 2000: false} {
		r := newRig(&scene{keys: []kind{plain}, clients: 2, ttl: 5, steps: 1000_000}, new(counts))
		r.w = r.newWorld()
		r.w.now, r.w.forward = 4000, forward
		for i, kept := range []int64{1000, 3000} {
			c := &r.w.clients[i]
			c.phase, c.name, c.token, c.kept = holding, "a", int64(i+1), kept
			c.end = r.w.moment(c).Add(time.Second)
		}
		for i := range r.w.clients { // whichever of them goes on
			r.w.broken = nil
			if r.begins(&r.w.clients[i]); r.w.broken != nil != broken {
				t.Errorf("set forward at %d, client %d goes on: %v", forward, i+1, r.w.broken)
			}
		}
	}
}
