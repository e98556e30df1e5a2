package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ttl is how long leases last where they are not to expire.
const ttl = time.Minute

// contest is a peer that takes part: its clients are open.
type contest struct {
	peer
	on     *server
	locker locker
}

// scenario is something that callers do again and again.
type scenario struct {
	name    string
	title   string
	text    string
	callers []int
	// once does it once; before and after prepare and clean up, as the caller 0, which does nothing else.
	before func(ctx context.Context, l locker) (held, error)
	once   func(ctx context.Context, l locker, caller int) error
}

var scenarios = []scenario{
	{
		name: "cycle", title: "A lock that no other caller wants", callers: []int{1, 8, 64},
		text: "Each caller acquires a lock of its own and releases it: one cycle.",
		once: func(ctx context.Context, l locker, caller int) error {
			return cycle(ctx, func() (held, error) { return l.try(ctx, caller, fmt.Sprint("own-", caller)) })
		},
	},
	{
		name: "hot", title: "A lock that all callers want", callers: []int{8, 64},
		text: "All callers acquire one lock, and wait for it by the means that the peer has for that: etcd and Leasehold wait in the server or the " +
			"library, the others ask again after a millisecond.",
		once: func(ctx context.Context, l locker, caller int) error {
			return cycle(ctx, func() (held, error) { return l.wait(ctx, caller, "hot") })
		},
	},
	{
		name: "held", title: "A lock that another caller has", callers: []int{1, 8, 64},
		text:   "Each caller asks once and is refused.",
		before: func(ctx context.Context, l locker) (held, error) { return l.try(ctx, 0, "held") },
		once: func(ctx context.Context, l locker, caller int) error {
			_, err := l.try(ctx, caller, "held")
			switch {
			case err == nil:
				return errors.New("two holders")
			case !errors.Is(err, errHeld):
				return err
			}
			return nil
		},
	},
}

func cycle(ctx context.Context, acquire func() (held, error)) error {
	h, err := acquire()
	if err != nil {
		return err
	}
	return h.release(ctx)
}

// slice is what one peer did in one slice of time.
type slice struct {
	done           int64
	took           time.Duration
	client, server time.Duration // CPU
}

func (s slice) rate() float64 { return float64(s.done) / s.took.Seconds() }

// limit ends a slice: a time, or a number.
type limit struct {
	time time.Duration
	done int64
}

// run lets callers do something until the limit is reached. They are the callers 1 to n.
func run(ctx context.Context, on *server, l locker, sc scenario, callers int, until limit) (slice, error) {
	if sc.before != nil {
		before, err := sc.before(ctx, l)
		if err != nil {
			return slice{}, err
		}
		defer before.release(ctx)
	}
	var (
		s      slice
		left   atomic.Int64
		done   atomic.Int64
		wait   sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	left.Store(until.done)
	if until.done == 0 {
		left.Store(1 << 62)
	}
	began, client, server := time.Now(), own(), on.used()
	for caller := 1; caller <= callers; caller++ {
		wait.Go(func() {
			for left.Add(-1) >= 0 && (until.time == 0 || time.Since(began) < until.time) {
				if err := sc.once(ctx, l, caller); err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err) // the first
					mu.Unlock()
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	s.done, s.took, s.client, s.server = done.Load(), time.Since(began), own()-client, on.used()-server
	return s, failed
}

// own is the CPU time of this process.
func own() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counts are what a peer costs, for one of what a scenario does.
type counts struct{ requests, bytes float64 }

// count counts with connections of its own, through a proxy. It does it so many times.
func count(ctx context.Context, c contest, sc scenario, callers int, times int64) (counts, error) {
	p, err := newProxy(ctx, c.on.addr)
	if err != nil {
		return counts{}, err
	}
	defer p.close()
	l, err := c.open(ctx, p.listener.Addr().String(), callers+1, ttl)
	if err != nil {
		return counts{}, err
	}
	defer l.close()
	if sc.before != nil {
		before, err := sc.before(ctx, l)
		if err != nil {
			return counts{}, err
		}
		defer before.release(ctx)
		sc.before = nil
	}
	if _, err := run(ctx, nil, l, sc, callers, limit{done: 2 * int64(callers)}); err != nil { // connections, scripts
		return counts{}, err
	}
	requests := p.turns.Load
	if own, ok := l.(counter); ok {
		requests = own.requests
	}
	before, bytes := requests(), p.sent.Load()+p.got.Load()
	if _, err := run(ctx, nil, l, sc, callers, limit{done: times}); err != nil {
		return counts{}, err
	}
	n := float64(times)
	return counts{float64(requests()-before) / n, float64(p.sent.Load()+p.got.Load()-bytes) / n}, nil
}

const (
	crashTTL   = 2 * time.Second // what etcd can do
	afterwards = time.Second     // how long after its end a lease is looked at: etcd removes it within half a second
)

// expired measures how long it takes to get a lock whose holder has crashed and whose lease has ended. It is done for
// so many locks.
func expired(ctx context.Context, c contest, locks int) (took []time.Duration, err error) {
	l, err := c.open(ctx, c.on.addr, 2, crashTTL)
	if err != nil {
		return nil, err
	}
	defer l.close()
	key := func(i int) string { return fmt.Sprint("crashed-", i) }
	for i := range locks {
		if _, err := l.try(ctx, 0, key(i)); err != nil {
			return nil, err
		}
	}
	l.crash(0)
	time.Sleep(crashTTL + afterwards)
	for i := range locks {
		began := time.Now()
		h, err := l.wait(ctx, 1, key(i))
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		if err := h.release(ctx); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return took, nil
}
