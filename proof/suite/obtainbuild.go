package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// LeaveStep is one step of a program whose callers die in the end: time passes, then many of them send one command
// each.
type LeaveStep struct {
	Wait time.Duration
	// Do is acquire, or come, which is one that comes once and has no place in line; poll and leave, which send requests
	// in line again, leave without waiting; renew, release, force.
	Do    string
	Times int // how many callers
	Ask   lock.Acquire
	Label int // bytes of metadata
}

// LeaveProgram draws a program. Most keep to modes that go together, so that lines and leases grow.
var LeaveProgram = rapid.Custom(func(t *rapid.T) []LeaveStep {
	all := []lock.Mode{lock.Exclusive, lock.Shared, lock.Permits, lock.Rate}
	modes := rapid.SampledFrom([][]lock.Mode{
		{lock.Shared, lock.Shared, lock.Exclusive}, {lock.Shared, lock.Shared, lock.Exclusive}, {lock.Exclusive},
		{lock.Permits}, {lock.Rate}, all,
	}).Draw(t, "modes")
	limit := rapid.SampledFrom([]int64{1, 3, 21, 100, 100}).Draw(t, "limit")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) LeaveStep {
		s := LeaveStep{
			Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 1000, 5000, 12_000}).Draw(t, "wait")) * time.Millisecond,
			Do: rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "acquire", "poll", "leave", "renew", "release",
				"release", "force"}).Draw(t, "do"),
			Times: rapid.SampledFrom(append([]int{1, 1, 1, 2}, Everything.Dead...)).Draw(t, "times"),
			Label: rapid.SampledFrom([]int{0, 0, 0, 100, 1200, 16_000}).Draw(t, "label"),
		}
		c := &s.Ask
		c.Mode, c.WaitSeconds = rapid.SampledFrom(modes).Draw(t, "mode"),
			rapid.SampledFrom([]int64{0, 0, 1, 20}).Draw(t, "seconds")
		switch c.Mode {
		case lock.Permits, lock.Rate:
			if c.Limit = limit; rapid.IntRange(0, 9).Draw(t, "another limit") == 0 {
				c.Limit = 2
			}
		case lock.Shared:
		case lock.Exclusive:
			c.Fair, c.Replace = rapid.Bool().Draw(t, "fair"), rapid.IntRange(0, 2).Draw(t, "replace") == 0
		}
		if c.Mode == lock.Rate {
			c.WindowSeconds = rapid.SampledFrom([]int64{1, 30}).Draw(t, "window")
			return s
		}
		c.TTLSeconds = rapid.SampledFrom([]int64{1, 10, 30}).Draw(t, "ttl")
		c.LockDelaySeconds = rapid.SampledFrom([]int64{0, 0, 0, 7, 40}).Draw(t, "delay")
		return s
	}), 1, 8).Draw(t, "steps")
})

// leftover is a lock that a program has left behind.
type leftover struct {
	doc    docstore.Doc // nil: nothing was granted
	over   time.Time    // from then on no lease, lock delay, place or window lasts: the latest that it can be
	asked  []lock.Acquire
	leases []lock.Lease
}

// leaving is a program under way. Its callers send by two servers in turn, which wait for nothing.
type leaving struct {
	servers []*lock.Locks
	clock   *Clock
	id      lock.ID
	sent    int
	left    leftover
}

// leave carries out a program on one lock of a store whose clock is clock.
func leave(ctx context.Context, store docstore.Store, clock *Clock, id lock.ID, program []LeaveStep) (leftover, error) {
	o := &lock.Options{Now: clock.Now, Retention: lock.MinRetention}
	l := &leaving{servers: []*lock.Locks{lock.New(store, o), lock.New(store, o)}, clock: clock, id: id,
		left: leftover{over: clock.Now()}}
	for i, s := range program {
		clock.Advance(s.Wait)
		if err := l.step(ctx, s); err != nil {
			return leftover{}, fmt.Errorf("step %d %+v: %w", i, s, err)
		}
	}
	var err error
	l.left.doc, err = lockDoc(ctx, store, id)
	return l.left, err
}

func lockDoc(ctx context.Context, store docstore.Store, id lock.ID) (docstore.Doc, error) {
	r, err := store.Get(ctx, docstore.Key{Kind: lock.Kind, Tenant: id.Tenant, ID: id.Key})
	if err != nil {
		return nil, err
	}
	return r.Docs[0], nil
}

func (l *leaving) server() *lock.Locks {
	l.sent++
	return l.servers[l.sent%len(l.servers)]
}

// lasts notes that something may last for a time from now on.
func (l *leaving) lasts(d time.Duration) {
	if end := l.clock.Now().Add(d); end.After(l.left.over) {
		l.left.over = end
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func (l *leaving) step(ctx context.Context, s LeaveStep) error {
	for n := range s.Times {
		var err error
		switch s.Do {
		case "acquire", "come":
			c := s.Ask
			c.ID, c.Owner, c.RequestID = l.id, fmt.Sprint("caller ", len(l.left.asked)), fmt.Sprint("r", len(l.left.asked))
			c.Metadata = metadataOf(s.Label)
			l.left.asked = append(l.left.asked, c)
			err = l.acquire(ctx, c, s.Do == "come")
		case "poll", "leave":
			if n >= len(l.left.asked) {
				return nil
			}
			c := l.left.asked[len(l.left.asked)-1-n]
			if s.Do == "leave" {
				c.WaitSeconds = 0
			}
			err = l.acquire(ctx, c, true)
		case "renew", "release":
			if n >= len(l.left.leases) {
				return nil
			}
			err = l.end(ctx, s.Do, l.left.leases[len(l.left.leases)-1-n])
		default:
			_, err = l.server().ForceRelease(ctx, lock.ForceRelease{ID: l.id, By: "root", Reason: "it hangs",
				RequestID: fmt.Sprint("f", l.sent)})
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within is what sends acquires whose responses are not held.
type within interface {
	AcquireWithin(ctx context.Context, c lock.Acquire, most time.Duration) (lock.Outcome, error)
}

func comeOnce(ctx context.Context, l within, c lock.Acquire) (lock.Outcome, error) {
	return l.AcquireWithin(ctx, c, 0)
}

// lineUp sends an acquire, and again if it is a newcomer: then it has a place in line.
func lineUp(ctx context.Context, l within, c lock.Acquire) (lock.Outcome, error) {
	o, err := comeOnce(ctx, l, c)
	if err == nil && o.Newcomer {
		return comeOnce(ctx, l, c)
	}
	return o, err
}

// acquire sends an acquire, and again if it has no place in line yet, but for one that comes only once.
func (l *leaving) acquire(ctx context.Context, c lock.Acquire, once bool) error {
	send := lineUp
	if once {
		send = comeOnce
	}
	o, err := send(ctx, l.server(), c)
	switch {
	case err != nil:
		return err
	case o.Code == lock.OK && c.Mode == lock.Rate:
		l.lasts(max(seconds(c.WindowSeconds), lock.ClaimTime))
	case o.Code == lock.OK:
		l.lasts(seconds(c.TTLSeconds) + seconds(c.LockDelaySeconds))
		l.left.leases = append(l.left.leases, o.Lease)
	case o.Position > 0: // it can get the lock as long as it has its place
		l.lasts(seconds(c.WaitSeconds) + lock.PlaceTime)
		l.lasts(seconds(c.WaitSeconds) + lock.PlaceTime + max(lock.ClaimTime, seconds(c.WindowSeconds)))
	}
	return nil
}

func (l *leaving) end(ctx context.Context, do string, lease lock.Lease) error {
	if do == "release" {
		_, err := l.server().Release(ctx, lock.Release{ID: l.id, Owner: lease.Owner, Token: lease.Token, RequestID: "e1"})
		return err
	}
	_, err := l.server().Renew(ctx, lock.Renew{
		ID: l.id, Owner: lease.Owner, Token: lease.Token, RequestID: fmt.Sprint("n", l.sent), TTLSeconds: 20,
	})
	l.lasts(20*time.Second + 40*time.Second) // with the longest lock delay
	return err
}

// metadataOf is metadata of about so many bytes.
func metadataOf(bytes int) map[string]string {
	if bytes == 0 {
		return nil
	}
	m := map[string]string{}
	for n := 0; bytes > 0; n++ {
		k := fmt.Sprintf("%0*d", min(lock.MaxMetadataKeyBytes, 8), n)
		v := min(bytes, lock.MaxMetadataValueBytes)
		m[k] = strings.Repeat("x", v)
		bytes -= v
	}
	return m
}

// leftBehind are programs whose last moment is known exactly: from over after their end on, nothing is held. head is
// when a caller that waits in line from the end of the program on has the lock, by then.
type leftBehind struct {
	program    func(n int) []LeaveStep
	over, head time.Duration
}

func acquires(n int, c lock.Acquire) LeaveStep { return LeaveStep{Do: "acquire", Times: n, Ask: c} }

var leftBehinds = map[string]leftBehind{
	"readers that expired": {func(n int) []LeaveStep {
		return []LeaveStep{acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 15})}
	}, 15 * time.Second, 15 * time.Second},
	"readers with metadata": {func(n int) []LeaveStep {
		s := acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 15})
		s.Label = 1200
		return []LeaveStep{s}
	}, 15 * time.Second, 15 * time.Second},
	"permits that expired": {func(n int) []LeaveStep {
		return []LeaveStep{acquires(n, lock.Acquire{Mode: lock.Permits, Limit: int64(n), TTLSeconds: 15})}
	}, 15 * time.Second, 15 * time.Second},
	"permits that expired with a lock delay": {func(n int) []LeaveStep {
		return []LeaveStep{acquires(n, lock.Acquire{Mode: lock.Permits, Limit: lock.MaxPermits, TTLSeconds: 5,
			LockDelaySeconds: 10})}
	}, 15 * time.Second, 15 * time.Second},
	"readers ended by force with a lock delay": {func(n int) []LeaveStep {
		return []LeaveStep{
			acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 3600, LockDelaySeconds: 15}),
			{Wait: time.Second, Do: "force", Times: 1},
		}
	}, 15 * time.Second, 15 * time.Second},
	"readers that were handed the lock and did not claim it": {func(n int) []LeaveStep {
		return []LeaveStep{
			acquires(1, lock.Acquire{Fair: true, TTLSeconds: 60}),
			acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 1, WaitSeconds: 20}),
			{Do: "release", Times: 1},
		}
	}, time.Second, time.Second},
	"readers of whom some claimed the lock that they were handed": {func(n int) []LeaveStep {
		return []LeaveStep{
			acquires(1, lock.Acquire{TTLSeconds: 60}),
			acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 60, LockDelaySeconds: 2, WaitSeconds: 20}),
			{Do: "release", Times: 1}, {Do: "poll", Times: max(1, n/2)},
		}
	}, 62 * time.Second, 62 * time.Second},
	"permits that were handed over and not claimed": {func(n int) []LeaveStep {
		c := lock.Acquire{Mode: lock.Permits, Limit: int64(n), TTLSeconds: 60}
		in := c
		in.WaitSeconds = 20
		return []LeaveStep{acquires(n, c), acquires(n, in), {Do: "release", Times: n}}
	}, 5 * time.Second, lock.ClaimTime}, // it was to come again in a second, and its place listens for four more
	"places that ended before the lease": {func(n int) []LeaveStep {
		return []LeaveStep{
			acquires(1, lock.Acquire{Fair: true, TTLSeconds: 15}),
			acquires(n, lock.Acquire{Fair: true, TTLSeconds: 60, WaitSeconds: 1}),
		}
	}, 15 * time.Second, 15 * time.Second},
	"places that ended after the lease": {func(n int) []LeaveStep {
		return []LeaveStep{
			acquires(1, lock.Acquire{Fair: true, TTLSeconds: 10}),
			acquires(n, lock.Acquire{Fair: true, TTLSeconds: 60, WaitSeconds: 5}),
		}
	}, 10 * time.Second, 10 * time.Second}, // no one has listened for a second
	"requests that came once": {func(n int) []LeaveStep {
		c := lock.Acquire{Fair: true, TTLSeconds: 15}
		in := c
		in.WaitSeconds = 20
		return []LeaveStep{acquires(1, c), {Do: "come", Times: n, Ask: in}}
	}, 15 * time.Second, 15 * time.Second},
	"grants of a rate": {func(n int) []LeaveStep {
		return []LeaveStep{acquires(n, lock.Acquire{Mode: lock.Rate, Limit: int64(n), WindowSeconds: 15})}
	}, 15 * time.Second, 15 * time.Second},
	"leases that were replaced": {func(n int) []LeaveStep {
		return []LeaveStep{acquires(n, lock.Acquire{Replace: true, TTLSeconds: 15})}
	}, 15 * time.Second, 15 * time.Second},
}

// leftTable are the programs of the table with some numbers of dead callers, in an order.
func leftTable(counts []int) (names []string, rows map[string]leftRow) {
	rows = map[string]leftRow{}
	for kind, l := range leftBehinds {
		for _, n := range counts {
			name := fmt.Sprintf("%s, %d", kind, n)
			names, rows[name] = append(names, name), leftRow{l.program(n), l.over, l.head}
		}
	}
	slices.Sort(names)
	return names, rows
}

type leftRow struct {
	program    []LeaveStep
	over, head time.Duration
}
