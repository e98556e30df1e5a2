package suite

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// UsedLock uses a lock for so long that it remembers as many requests of each kind as it can: with a tenant, a key and
// owners of 64 bytes, UUIDs as request IDs and 256 bytes of labels. It returns the largest size that its document had:
// without a force-release, and after some, once their reasons are gone. pass lets time pass for the store.
func UsedLock(t *testing.T, locks *lock.Locks, pass func(time.Duration), size func() int) (plain, forced int) {
	t.Helper()
	return Used{Names: 64, Labels: 256, Reason: 512}.Lock(t, locks, pass, size)
}

// Used says how long what a used lock stores is, in bytes.
type Used struct {
	Names   int // of the tenant, the key, the owners and the administrator: 6 at least
	Labels  int // 11 at least
	Reason  int
	Acquire lock.Acquire // what else acquires say
}

// Lock is [UsedLock] of a lock like this.
func (u Used) Lock(t *testing.T, locks *lock.Locks, pass func(time.Duration), size func() int) (plain, forced int) {
	t.Helper()
	name := func(of string) string { return of + strings.Repeat("x", u.Names-len(of)) }
	requests := 0
	request := func() string { requests++; return fmt.Sprintf("%08d-0000-4000-8000-000000000000", requests) }
	id := lock.ID{Tenant: name("tenant"), Key: name("key")}
	text := u.Labels - len("build") - len("commit")
	metadata := map[string]string{"build": strings.Repeat("b", text-text/2), "commit": strings.Repeat("c", text/2)}
	done := func(o lock.Outcome, err error) lock.Outcome {
		t.Helper()
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		return o
	}
	for n := range 20 {
		largest := &plain
		if n > 9 {
			largest = &forced
		}
		c := u.Acquire
		c.ID, c.Owner, c.RequestID, c.TTLSeconds, c.Metadata = id, name("owner"), request(), 86_400, metadata
		o := done(locks.Acquire(t.Context(), c))
		*largest = max(*largest, size())
		for range 6 {
			pass(time.Second)
			o = done(locks.Renew(t.Context(), lock.Renew{
				ID: id, Owner: name("owner"), Token: o.Lease.Token, RequestID: request(), TTLSeconds: 86_400,
				ExpiresAt: o.Lease.ExpiresAt,
			}))
			*largest = max(*largest, size())
		}
		if n > 8 && n%2 == 1 {
			done(locks.ForceRelease(t.Context(), lock.ForceRelease{ID: id, By: name("root"),
				Reason: strings.Repeat("r", u.Reason), RequestID: request()}))
			if delay := u.Acquire.LockDelaySeconds; delay > 0 {
				pass(time.Duration(delay)*time.Second + 10*time.Second) // after an hour, clocks may be unsure by some seconds
			}
			continue
		}
		done(locks.Release(t.Context(), lock.Release{ID: id, Owner: name("owner"), Token: o.Lease.Token,
			RequestID: request()}))
		*largest = max(*largest, size())
	}
	return plain, forced
}

// SharedLock measures what holders and places in line take of a lock's document: it lets as many readers share a lock
// as may, with owners of 11 bytes and a label of 9, and then as many wait in line. It returns the size with all
// holders, with all holders and places, and how many bytes each of them adds.
func SharedLock(t *testing.T, locks *lock.Locks, size func() int) (held, all, holder, place int) {
	t.Helper()
	requests := 0
	acquire := func(mode lock.Mode, wait int64, want lock.Code) {
		t.Helper()
		requests++
		o, err := lineUp(t.Context(), locks, lock.Acquire{
			ID: lock.ID{Tenant: "acme", Key: "deploy/prod"}, Owner: fmt.Sprintf("worker-%04d", requests),
			RequestID: strconv.Itoa(requests), TTLSeconds: 60,
			Mode: mode, Fair: true, WaitSeconds: wait, Metadata: map[string]string{"build": "1234"},
		})
		if err != nil || o.Code != want {
			t.Fatalf("%d: %+v, %v", requests, o, err)
		}
	}
	half := 0
	for n := range lock.MaxHolders {
		if acquire(lock.Shared, 0, lock.OK); n+1 == lock.MaxHolders/2 {
			half = size()
		}
	}
	held = size()
	acquire(lock.Exclusive, 20, lock.Held)
	one := size()
	for range lock.MaxWaiting - 1 {
		acquire(lock.Shared, 20, lock.Held)
	}
	all = size()
	const most, others = lock.MaxHolders / 2, lock.MaxWaiting - 1
	return held, all, (held - half + most - 1) / most, (all - one + others - 1) / others
}
