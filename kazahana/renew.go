package kazahana

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

const (
	acquireTimeout = 30 * time.Second // of one attempt; less when a lease is about to end, so that another one fits
	leastTimeout   = time.Second
	releaseTimeout = 10 * time.Second // of a lease that was rejected
	releasers      = 8                // at once, in Close

	// Leases are replaced when between 85 and 95 % of their time have passed, at a random time for each grant:
	// processes that started together do not renew together for ever, and leases that were granted together take one
	// request.
	renewFrom, renewTo = 0.85, 0.95

	// The background goroutine reads the clocks at least that often: a process that was suspended replaces its leases
	// even if no one asks for IDs.
	patrol = 10 * time.Second
)

// wake makes the background goroutine check what is needed.
func (g *Generator) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

// renew is the background goroutine: the only one that acquires.
func (g *Generator) renew(ctx context.Context) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.signal()
		close(g.done)
	}()
	for ctx.Err() == nil {
		need, wait := g.plan()
		if need > 0 && wait <= 0 {
			g.acquire(ctx, need)
			continue
		}
		timer := time.NewTimer(min(wait, patrol))
		select {
		case <-timer.C:
		case <-g.woken:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// plan says how much throughput is to be acquired after which time. Leases that must be replaced by now are not
// counted: those near their expiry or past it, and suspect ones.
func (g *Generator) plan() (need int64, wait time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	g.anchor(false)
	need = g.set.MaxThroughputPerMs
	now, due := g.millis(), uint64(math.MaxUint64)
	for _, h := range g.held {
		if h.suspect || now >= h.renewAt {
			continue
		}
		need -= h.Throughput()
		due = min(due, h.renewAt)
	}
	if need <= 0 {
		return 0, time.Duration(min(due-now, uint64(patrol/time.Millisecond))) * time.Millisecond
	}
	return need, time.Duration(g.tryAt - g.monotonic())
}

// acquire makes one attempt.
func (g *Generator) acquire(ctx context.Context, need int64) {
	g.mu.Lock()
	g.trying, g.since = true, g.monotonic()
	timeout := g.timeout()
	g.stats.AcquireAttempts++
	g.anchor(true)
	began := g.nanos() / int64(time.Millisecond)
	g.unlock()

	attempt, cancel := context.WithTimeout(ctx, timeout)
	r, err := g.provider.Acquire(attempt, AcquireOptions{ServiceID: g.set.ServiceID, Meta: g.set.Meta,
		ThroughputPerMs: need})
	cancel()

	rejected := g.conclude(r.Leases, err, began, ctx.Err() != nil)
	if len(rejected) > 0 {
		releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = g.release(releasing, rejected) // best effort, reported as events
	}
}

// timeout is the time of an attempt: half of what is left of the leases, so that it has ended, and another one had its
// turn, when they do. The caller holds mu.
func (g *Generator) timeout() time.Duration {
	now, until := g.millis(), uint64(0)
	for _, h := range g.held {
		until = max(until, h.until)
	}
	if until <= now {
		return acquireTimeout
	}
	const long = uint64(2 * acquireTimeout / time.Millisecond)
	return max(leastTimeout, time.Duration(min(until-now, long))*time.Millisecond/2)
}

// conclude records the outcome of an attempt, and returns the leases to be released.
func (g *Generator) conclude(leases []Lease, err error, began int64, stopped bool) (rejected []*held) {
	g.mu.Lock()
	defer g.unlock()
	defer g.signal()
	g.trying, g.since = false, -1
	if err == nil {
		rejected, err = g.accept(leases, began)
	}
	steady := g.monotonic()
	if err == nil {
		g.recovered()
		g.failures, g.failure = 0, nil
		g.tryAt = steady + int64(g.pause(leases))
	} else if !stopped {
		g.failures++
		g.failure = err
		g.stats.AcquireFailures++
		g.failing(err)
		g.tryAt = steady + int64(g.retryDelay(err))
		g.note(Event{Kind: EventAcquireFailed, Err: err})
	}
	return rejected
}

// outage is a time in which the provider grants no leases.
type outage struct {
	since     int64          // on the monotonic clock
	fallbacks int64          // IDs before
	told      map[fault]bool // what the log says
}

// fault is a kind of failure to acquire.
type fault int

const (
	unreachable fault = iota
	misconfiguration
	rejection
)

// failing writes one line for each kind of failure of an outage. The caller holds mu.
func (g *Generator) failing(err error) {
	if g.failures == 1 {
		g.outage = outage{since: g.monotonic(), fallbacks: g.fallbacks.Load(), told: map[fault]bool{}}
	}
	kind := unreachable
	misconfigured := errors.Is(err, ErrConfiguration)
	switch {
	case misconfigured:
		kind = misconfiguration
	case errors.Is(err, errRejected):
		kind = rejection
	}
	if g.outage.told[kind] {
		return
	}
	g.outage.told[kind] = true
	until := uint64(0)
	for _, h := range g.held {
		until = max(until, h.until)
	}
	attrs := []slog.Attr{slog.Any("err", err)}
	if until > g.millis() {
		attrs = append(attrs, slog.Time("leased_until", time.UnixMilli(int64(until)+g.layout.CustomEpoch).UTC()))
	}
	then := "fallback IDs"
	if g.set.DisableFallback || !g.leased && misconfigured {
		then = "no IDs"
	}
	g.line(slog.LevelWarn, "kazahana: the lease provider grants no leases", append(attrs, slog.String("then", then))...)
}

// recovered writes a line at the end of an outage. The caller holds mu.
func (g *Generator) recovered() {
	if g.failures == 0 {
		return
	}
	g.line(slog.LevelWarn, "kazahana: the lease provider grants leases again",
		slog.Int64("after_ms", time.Duration(g.monotonic()-g.outage.since).Milliseconds()), slog.Int("failures", g.failures),
		slog.Int64("fallback_ids", g.fallbacks.Load()-g.outage.fallbacks))
}

// signal wakes the callers that wait for the end of an attempt. The caller holds mu.
func (g *Generator) signal() {
	close(g.tried)
	g.tried = make(chan struct{})
}

// retryDelay is how long to wait after a failure.
func (g *Generator) retryDelay(err error) time.Duration {
	if full, ok := errors.AsType[*ExhaustedError](err); ok && full.RetryAfter > 0 {
		// No machine ID becomes free before, unless one is released; the largest interval allows for that.
		return min(full.RetryAfter+rand.N(g.set.AcquireRetryInterval), g.set.AcquireRetryMaxInterval)
	}
	delay := backoff.Policy{First: g.set.AcquireRetryInterval, Max: g.set.AcquireRetryMaxInterval,
		EqualJitter: true}.Delay(g.failures - 1)
	asking, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err)
	if !ok {
		return delay
	}
	return max(delay, min(asking.RetryAfter(), g.set.AcquireRetryMaxInterval))
}

// pause is how long to wait after a success: leases that have nearly expired when they arrive must not cause a busy
// loop.
func (g *Generator) pause(leases []Lease) time.Duration {
	pause := g.set.AcquireRetryInterval
	for _, l := range leases {
		const long = int64(time.Hour / time.Millisecond)
		pause = min(pause, time.Duration(min(l.Expired-l.Created, long))*time.Millisecond/10)
	}
	return max(pause, time.Millisecond)
}

// errRejected marks leases that were granted and cannot be used.
var errRejected = errors.New("rejected")

// accept holds the usable leases and puts them into effect. It returns those to be released, and an error if any was
// rejected. The caller holds mu.
func (g *Generator) accept(leases []Lease, began int64) (rejected []*held, err error) {
	if len(leases) == 0 {
		return nil, errors.New("the provider granted no lease")
	}
	g.anchor(true)
	var fresh []*held
	var faults []error
	reject := func(l Lease, err error) {
		err = fmt.Errorf("lease of machine ID %d %w: %w", l.ID, errRejected, err)
		faults = append(faults, err)
		rejected = append(rejected, &held{Lease: l})
		g.stats.LeasesRejected++
		if errors.Is(err, ErrEpochMismatch) {
			g.stats.EpochMismatches++
		}
		g.note(Event{Kind: EventLeaseRejected, Err: err})
	}
	for _, l := range leases {
		if h, err := g.check(l, began, len(fresh) == 0); err != nil {
			reject(l, err)
		} else {
			fresh = append(fresh, h)
		}
	}
	clashing := clashes(g.held, fresh)
	fresh = slices.DeleteFunc(fresh, func(h *held) bool {
		clash := clashing[h]
		if clash {
			reject(h.Lease, errors.New("it could make the same IDs as another lease that is held"))
		}
		return clash
	})
	share := renewFrom + (renewTo-renewFrom)*rand.Float64()
	for _, h := range fresh {
		h.renewAt = h.from + uint64(float64(h.until-h.from)*share)
	}
	switch {
	case g.closed: // Close releases them
		g.held = append(g.held, fresh...)
	case len(fresh) > 0:
		now, old := g.millis(), g.segment.Load()
		replaced := func(h *held) bool { return now >= h.until || h.suspect }
		if gone := slices.DeleteFunc(slices.Clone(g.held), func(h *held) bool { return !replaced(h) }); len(gone) > 0 {
			g.cached = gone
		}
		g.held = append(slices.DeleteFunc(g.held, replaced), fresh...)
		g.leased = true
		g.note(Event{Kind: EventAcquired, Leases: len(fresh)})
		g.install(func(from uint64) *segment {
			s := g.build(from, g.latestStart(now))
			if s == nil && old.fallback {
				s = g.buildFallback(from)
			}
			return s
		})
	}
	return slices.DeleteFunc(rejected, g.holds), errors.Join(faults...)
}

// holds reports whether a lease is held: a response that arrives twice brings it again. It is rejected then, but must
// not be released. The caller holds mu.
func (g *Generator) holds(l *held) bool {
	return slices.ContainsFunc(g.held, func(h *held) bool { return h.ID == l.ID && h.Secret == l.Secret })
}

// check says whether a lease can be used. began is when it was asked for, in milliseconds since the epoch; first says
// that no other came with it before. The first lease of all decides the layout. The caller holds mu.
func (g *Generator) check(l Lease, began int64, first bool) (*held, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	now := g.nanos() / int64(time.Millisecond)
	sole := len(g.held) == 0 && !g.leased && first
	switch {
	case sole && !g.settled, // no ID is out
		// Only fallback IDs are out, which leased ones never equal, and with an earlier epoch those that follow are larger.
		sole && l.CustomEpoch < g.layout.CustomEpoch && l.BitTs == g.layout.BitTs && l.BitReserve == g.layout.BitReserve:
		shift := g.layout.CustomEpoch - l.CustomEpoch
		began, now = began+shift, now+shift
	case l.CustomEpoch != g.layout.CustomEpoch:
		return nil, fmt.Errorf("%w: customEpoch is %d, that of the IDs before is %d", ErrEpochMismatch, l.CustomEpoch,
			g.layout.CustomEpoch)
	case l.BitTs != g.layout.BitTs || l.BitReserve != g.layout.BitReserve:
		return nil, fmt.Errorf("bitReserve %d and bitTs %d: those of the IDs before are %d and %d",
			l.BitReserve, l.BitTs, g.layout.BitReserve, g.layout.BitTs)
	}
	switch from, until := l.Created-l.CustomEpoch, l.Expired-l.CustomEpoch; {
	case l.ID < 0 || l.ID > l.MaxMachineID():
		return nil, fmt.Errorf("id: must be from 0 to %d", l.MaxMachineID())
	case l.Created >= l.Expired:
		return nil, fmt.Errorf("created %d and expired %d: the interval is empty", l.Created, l.Expired)
	case from < 0 || from>>l.BitTs != 0:
		return nil, fmt.Errorf("created %d: %w", l.Created, ErrTimeRange)
	case from > now+g.set.skew:
		return nil, fmt.Errorf("it begins in %d ms: the local clock is behind the provider's by more than MaxSkew, %d ms",
			from-now, g.set.skew)
	case from < began-g.set.skew:
		return nil, fmt.Errorf(
			"it began %d ms before it was asked for: the local clock is ahead of the provider's by more than MaxSkew, %d ms",
			began-from, g.set.skew)
	case until <= now:
		return nil, fmt.Errorf("it ended %d ms ago", now-until)
	}
	h := holdable(l)
	if l.Layout != g.layout {
		moved := l.CustomEpoch != g.layout.CustomEpoch
		if moved && g.settled {
			err := fmt.Errorf("%w: customEpoch is %d, that of the fallback IDs before is %d: set Options.DefaultEpoch",
				ErrEpochMismatch, l.CustomEpoch, g.layout.CustomEpoch)
			g.stats.EpochMismatches++
			g.note(Event{Kind: EventEpochChanged, Err: err})
			g.line(slog.LevelWarn, "kazahana: IDs go on with the epoch of the first lease", slog.Any("err", err))
		}
		g.layout = l.Layout
		if !g.settled {
			g.segment.Store(g.open()) // nothing can be taken from the one before, and the state is still empty
		}
		if moved {
			g.rebase()
		}
	}
	return h, nil
}

// release releases leases, a few at a time.
func (g *Generator) release(ctx context.Context, leases []*held) error {
	// No ID has a later timestamp by now.
	s := g.segment.Load()
	latest := max(g.millis(), (g.state.Load()&^lock)>>s.shift)
	var (
		mu     sync.Mutex
		faults []error
		all    sync.WaitGroup
		seats  = make(chan struct{}, releasers)
	)
	for _, h := range leases {
		l := h.Lease
		// Where the clock is behind the lease, "before it began" is what holds: the next lease must not begin earlier.
		at := max(int64(latest)+g.layout.CustomEpoch, l.Created-1) //nolint:gosec // 41 bits or so
		if l.Expired <= at {
			continue // it has expired
		}
		seats <- struct{}{}
		all.Go(func() {
			defer func() { <-seats }()
			err := ctx.Err()
			if err == nil {
				err = g.provider.Release(ctx, ReleaseOptions{
					ServiceID: g.set.ServiceID, ID: l.ID, Signature: Sign(l.Secret, l.ID, at), Timestamp: at,
				})
			}
			if err == nil {
				g.tell(Event{Kind: EventReleased, Leases: 1})
				return
			}
			err = fmt.Errorf("release machine ID %d: %w", l.ID, err)
			g.tell(Event{Kind: EventReleaseFailed, Leases: 1, Err: err})
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	all.Wait()
	return errors.Join(faults...)
}
