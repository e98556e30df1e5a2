package rates

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// period is for how long a slice should last, and how long a process that got less than it wanted waits before it
	// asks again. Where the write takes long it is longer, see slow.
	period = time.Second

	// slow is how many times longer than the write a period is at least, so that a document that takes few writes (about
	// one a second for long on Firestore) is not asked for more.
	slow = 10

	// life is how long a slice of a few requests may last.
	life = 10 * time.Second

	// askTimeout bounds one take. After it the store counts as away, or as slow, if that is how it was before and others
	// get what they ask it for.
	askTimeout = 2 * time.Second

	// slowly is what a store takes for a write of a document for which others wait.
	slowly = period / 4

	// maxShares is how many callers are remembered before those that are idle are forgotten.
	maxShares = 10_000
)

// Rates hold callers to a rate, all processes together that use the same store. A nil *Rates admits everything. Its
// methods may be called from several goroutines at once.
type Rates struct {
	store     docstore.Store
	perSecond float64
	now       func() time.Time
	away      func(ctx context.Context, err error) error

	mu     sync.Mutex
	at     time.Time // the latest store's time that is known, and when it was
	atOurs time.Time
	shares map[docstore.Key]*share
}

// share is what this process has of a caller's rate.
type share struct {
	left  int64       // requests of the slice in hand
	end   term.Moment // when it ends
	debt  int64       // requests that were carried out beyond it, and are to be paid for
	again term.Moment // when to ask again, if the slice in hand does not last until then

	asked  time.Time     // the latest time
	period time.Duration // see the constant
	seen   int64         // requests since then
	wait   int64         // requests that wait for the store now
	tat    time.Time     // as of then
	asking chan struct{} // closed when the store has answered; nil if it was not asked

	// alone says that the store was away: until again, requests are held to the rate in this process alone, or failed is
	// their error. slowly says that the store took long for the latest take, or too long for it.
	alone  bool
	slowly bool
	failed error
	local  *rate.Limiter
}

// New returns the rates of callers on a store, in requests a second; nil, which bounds nothing, if perSecond is not
// positive. now must be monotonic. away is told that the store could not be asked, and why. For the next second or
// longer callers are held to the rate in this process alone if it returns nil, and what it returns is the error of
// their requests otherwise.
func New(store docstore.Store, perSecond float64, now func() time.Time,
	away func(ctx context.Context, err error) error) *Rates {
	if perSecond <= 0 {
		return nil
	}
	return &Rates{store: store, perSecond: perSecond, now: now, away: away, shares: map[docstore.Key]*share{}}
}

// PerSecond is the rate.
func (r *Rates) PerSecond() float64 { return r.perSecond }

// Take takes one request of a caller, who has that ID among those of the tenant. wait says when there may be one, if
// there is none; it is 0 otherwise. No request to the store while a slice is in hand or none is to be had. It waits for
// at most 5 s: a request for which nothing is left of a slow store's takes is refused. The error is that of a store
// that is away, or of the context.
func (r *Rates) Take(ctx context.Context, tenant, id string) (wait time.Duration, err error) {
	if r == nil {
		return 0, nil
	}
	k := docstore.Key{Kind: Kind, Tenant: tenant, ID: id}
	begin := r.now()
	for seen := int64(1); ; seen = 0 {
		r.mu.Lock()
		now := r.now()
		s := r.share(k, now)
		s.seen += seen
		if s.has(now) {
			s.left--
			r.mu.Unlock()
			return 0, nil
		}
		if wait = term.Of(now).Until(s.again); wait > 0 {
			if s.alone {
				wait, err = s.takeAlone(now)
			}
			r.mu.Unlock()
			return wait, err
		}
		if now.Sub(begin) >= askTimeout { // others had what the takes brought
			defer r.mu.Unlock()
			return s.period, nil
		}
		if s.asking == nil {
			s.asking = make(chan struct{})
			go r.ask(context.WithoutCancel(ctx), s, s.seen, r.next(k, s, now))
		}
		asking := s.asking
		s.wait++
		r.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			err = ctx.Err()
		}
		r.mu.Lock()
		s.wait--
		r.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}

// Charge takes n requests more of a caller, which were carried out already: what is not in hand is taken before the
// next ones. It takes no more than may come at once.
func (r *Rates) Charge(tenant, id string, n int) {
	if r == nil || n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	s, owed := r.share(docstore.Key{Kind: Kind, Tenant: tenant, ID: id}, now), min(int64(n), Burst(r.perSecond))
	if s.alone {
		s.local.ReserveN(now, int(owed))
		return
	}
	if s.has(now) {
		paid := min(owed, s.left)
		s.left, owed = s.left-paid, owed-paid
	}
	s.debt = min(s.debt+owed, Burst(r.perSecond))
}

// has reports whether there is a request in hand.
func (s *share) has(now time.Time) bool { return s.left > 0 && term.Of(now).Until(s.end) > 0 }

// takeAlone takes a request while the store is away.
func (s *share) takeAlone(now time.Time) (wait time.Duration, err error) {
	if s.failed != nil {
		return 0, s.failed
	}
	v := s.local.ReserveN(now, 1)
	if wait = v.DelayFrom(now); wait > 0 {
		v.CancelAt(now)
	}
	return wait, nil
}

// next is the take that a caller needs: for about a period, as many as came lately, and no more than half of what may
// come at once. r.mu is held.
func (r *Rates) next(k docstore.Key, s *share, now time.Time) Take {
	elapsed := max(now.Sub(s.asked), s.period/4) // a burst is not how it goes on
	want := int64(math.Ceil(float64(s.seen) * s.period.Seconds() / elapsed.Seconds()))
	want = max(want, s.wait, 1) + s.debt
	c := Take{Key: k, Rate: r.perSecond, tries: new(int), Want: min(want, max(1, Burst(r.perSecond)/2)), TAT: s.tat}
	if !r.at.IsZero() {
		c.At = r.at.Add(max(0, now.Sub(r.atOurs)))
	}
	return c
}

// ask sends a take, for which so many requests were seen, and notes what came of it.
func (r *Rates) ask(ctx context.Context, s *share, seen int64, c Take) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	begin := r.now()
	var o Outcome
	var failed error
	err := c.Key.Validate()
	if err == nil { // otherwise this process holds it to the rate, whatever becomes of the request
		if o, err = rule.Run(ctx, r.store, r.now, c); err != nil {
			failed = r.away(ctx, err)
		}
	}
	var there, others bool
	late := err != nil && ctx.Err() != nil
	if late {
		there, others = r.look(ctx, c, r.now().Sub(begin))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	since := max(begin.Sub(s.asked), period)
	s.asked, s.seen, s.left = begin, s.seen-seen, 0
	took := o.Took
	if late {
		took = now.Sub(begin)
	}
	s.period = max(period, min(slow*took, 2*s.period)) // one slow write is not how it goes on
	switch {
	case others && s.slowly:
		// The store takes in more writes of the document than it can carry out: processes that went on by themselves would
		// have the whole rate each. Who asks seldom gets a part of it.
		s.alone, s.again = false, term.Of(now).Add(s.period-rand.N(s.period/2))
	case err != nil:
		s.alone, s.failed = true, failed
		s.again = term.Of(now).Add(period)
	default:
		s.alone = false
		r.at, r.atOurs = o.At, now
		s.granted(o, c, begin, time.Duration(float64(since)*r.perSecond))
	}
	s.slowly = took > slowly && (err == nil || there)
	close(s.asking)
	s.asking = nil
}

// look reads the document after a take that was not carried out in time. there reports whether the store responds, and
// others whether more was granted lately than the take itself may have got: that other processes are.
func (r *Rates) look(ctx context.Context, c Take, took time.Duration) (there, others bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), period)
	defer cancel()
	snap, err := r.store.Get(ctx, c.Key)
	if err != nil {
		return false, false
	}
	found, err := c.State(snap.Docs[0])
	return err == nil, found.TAT.After(snap.At.Add(c.cost(c.Want) - took))
}

// granted notes the outcome of a take that was asked for at begin. filled is the time since the take before, times the
// rate: as many requests were granted to all processes.
func (s *share) granted(o Outcome, c Take, begin time.Time, filled time.Duration) {
	s.tat, s.again = o.TAT, term.Moment{}
	if o.Granted < c.Want {
		if o.Granted > 0 { // what a process that gets most of the rate does not ask for in time is lost
			s.period = max(period, min(s.period, filled/time.Duration(o.Granted)))
		}
		// not at the same moment as the others who were refused with it
		s.again = term.Of(begin).Add(max(s.period-rand.N(s.period/4), o.Wait))
	}
	paid := min(s.debt, o.Granted)
	s.debt, s.left = s.debt-paid, o.Granted-paid
	lasts := 2 * s.period
	if o.Granted <= least {
		lasts = max(lasts, life)
	}
	s.end = term.Of(begin).Add(lasts)
}

// share returns what this process has of a caller's rate. r.mu is held.
func (r *Rates) share(k docstore.Key, now time.Time) *share {
	s := r.shares[k]
	if s == nil {
		r.forget(now)
		s = &share{asked: now.Add(-period), period: period,
			local: rate.NewLimiter(rate.Limit(r.perSecond), int(Burst(r.perSecond)))}
		r.shares[k] = s
	}
	return s
}

// forget drops callers that have nothing and owe nothing, when there are many.
func (r *Rates) forget(now time.Time) {
	if len(r.shares) < maxShares {
		return
	}
	for k, s := range r.shares {
		if s.asking == nil && s.debt == 0 && !s.has(now) && term.Of(now).Until(s.again) <= 0 &&
			s.local.TokensAt(now) >= float64(s.local.Burst()) {
			delete(r.shares, k)
		}
	}
}
