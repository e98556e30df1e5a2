package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/ends"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/rates"
	"github.com/leasehold-dev/leasehold/repo/rule"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// claim is something that one can have at a time, for a while. What a clock that is set may do to it is stated here
// without the rules, by the true time that passes. It is held by one who dies, while the store's clock is set:
//
//   - No one obtains it before its holder's own clock says that it is over. A clock that is set forward while it is
//     held ends it early, which is for the fence: there that is not asked.
//   - One who asks each second obtains it, counted from when the clock was set last, within the time that it lasts, and
//     a second.
//   - Tokens rise.
//   - A caller whose own clock is right is refused because of its end once for each time that the clock is set.
type claim struct {
	lasts  time.Duration // from its beginning on
	within time.Duration // by when it is obtained, if that is later
	hold   func(ctx context.Context) (token int64, err error)
	obtain func(ctx context.Context, try int) (token int64, ok bool, err error)
	keep   func(ctx context.Context, beat int) error // a heartbeat of its holder; nil if there is none
}

// leaseSeconds is how long most of the claims last.
const leaseSeconds = 10

// silentClaim is how long a lease lasts at least that was handed over to a request which does not come again.
const silentClaim = 500 * time.Millisecond

// steppedStore is a store whose clock is set, and what is tried on it.
type steppedStore struct {
	docstore.Store

	clock  *Clock        // the store's
	passed time.Duration // of true time
	caller ends.Clock    // of one whose clock is right
}

func newSteppedStore(store docstore.Store, clock *Clock) *steppedStore {
	s := &steppedStore{Store: store, clock: clock}
	s.caller.Now = func() time.Time { return Epoch.Add(s.passed) }
	return s
}

// pass lets true time pass.
func (s *steppedStore) pass(d time.Duration) {
	s.passed += d
	s.clock.Advance(d)
}

// end is the end of a request of a caller whose clock is right.
func (s *steppedStore) end(ctx context.Context) rule.End {
	t, err := time.Parse(contracts.TimeFormat, s.caller.End(ctx, 15*time.Second))
	if err != nil {
		panic(err) // it is made by a program
	}
	return rule.End{NotAfter: t}
}

var errAgain = errors.New("a right caller's end is refused again")

// inTime sends a request with an end, and once more if the store refused that.
func inTime[O any](ctx context.Context, s *steppedStore, send func(rule.End) (O, error),
	refused func(O) time.Time) (o O, err error) {
	for range 2 {
		if o, err = send(s.end(ctx)); err != nil || refused(o).IsZero() {
			return o, err
		}
		s.caller.Correct(refused(o), 0)
	}
	return o, errAgain
}

// lockClaims are the claims of locks, all of one key. The holder is ann, and bob asks.
type lockClaims struct {
	*steppedStore

	locks *lock.Locks
	id    lock.ID
	known string // when the lease of ann expires, as far as ann knows
	token int64  // of that
}

func (k *lockClaims) acquire(ctx context.Context, c lock.Acquire) (lock.Outcome, error) {
	if c.ID = k.id; c.Mode != lock.Rate {
		c.TTLSeconds = leaseSeconds
	}
	return inTime(ctx, k.steppedStore, func(end rule.End) (lock.Outcome, error) {
		c.End = end
		return k.locks.AcquireWithin(ctx, c, 0)
	}, func(o lock.Outcome) time.Time {
		if o.Code == lock.TooLate || o.Code == lock.TooFar {
			return o.At
		}
		return time.Time{}
	})
}

var errNotHeld = errors.New("it could not be had to begin with")

// hold is how ann, and then others, get what they have.
func (k *lockClaims) hold(c lock.Acquire, after ...func(context.Context) error) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		c.Owner, c.RequestID = "ann", "first"
		o, err := k.acquire(ctx, c)
		if err == nil && o.Code != lock.OK {
			err = fmt.Errorf("%w: %+v", errNotHeld, o)
		}
		k.token, k.known = o.Lease.Token, o.Lease.ExpiresAt.Format(contracts.TimeFormat)
		for _, do := range after {
			if err == nil {
				err = do(ctx)
			}
		}
		return o.Lease.Token, err
	}
}

// beside is another one that has it, or waits for it in line, and dies.
func (k *lockClaims) beside(c lock.Acquire) func(context.Context) error {
	return func(ctx context.Context) error {
		c.Owner, c.RequestID = "eve", "second"
		for range 2 {
			if o, err := k.acquire(ctx, c); err != nil || o.Code == lock.OK || o.Position > 0 {
				return err
			}
		}
		return errNotHeld
	}
}

func (k *lockClaims) force(ctx context.Context) error {
	_, err := k.locks.ForceRelease(ctx, lock.ForceRelease{ID: k.id, By: "root", Reason: "it hangs", RequestID: "f"})
	return err
}

func (k *lockClaims) release(ctx context.Context) error {
	_, err := k.locks.Release(ctx, lock.Release{ID: k.id, Owner: "ann", Token: k.token, RequestID: "r"})
	return err
}

func (k *lockClaims) obtain(c lock.Acquire) func(context.Context, int) (int64, bool, error) {
	return func(ctx context.Context, try int) (int64, bool, error) {
		c.Owner, c.RequestID = "bob", fmt.Sprint("b", try)
		o, err := k.acquire(ctx, c)
		return o.Lease.Token, o.Code == lock.OK, err
	}
}

// obtainSet asks for the key and another one, as one request that is sent again.
func (k *lockClaims) obtainSet(ctx context.Context, _ int) (token int64, ok bool, err error) {
	o, err := k.locks.AcquireSet(ctx, lock.AcquireSet{Tenant: k.id.Tenant, Keys: []string{k.id.Key, k.id.Key + "/2"},
		Owner: "bob", RequestID: "set", TTLSeconds: leaseSeconds})
	if err == nil && o.Code == lock.OK {
		token = o.Leases[0].Token
	}
	return token, o.Code == lock.OK, err
}

// renew renews the lease of ann, naming when it expires, as the clients do: another time if it is told that.
func (k *lockClaims) renew(ctx context.Context, beat int) error {
	for range 2 {
		expires, err := time.Parse(contracts.TimeFormat, k.known)
		if err != nil {
			return err
		}
		o, err := k.locks.Renew(ctx, lock.Renew{ID: k.id, Owner: "ann", Token: k.token, RequestID: fmt.Sprint("n", beat),
			TTLSeconds: leaseSeconds, ExpiresAt: expires})
		switch {
		case err != nil:
			return err
		case o.Code == lock.OK && o.Lease.ExpiresAt.Sub(o.At) > leaseSeconds*time.Second:
			return fmt.Errorf("a renewal leaves more than the lease lasts: %+v", o)
		case o.Code == lock.OK:
			k.known = o.Lease.ExpiresAt.Format(contracts.TimeFormat)
			return nil
		}
		e := contracts.Errorf(contracts.Code(o.Code), "")
		e.ExpiresAt = o.Lease.ExpiresAt
		if k.known, err = lease.Changed(e, k.known, false); err != nil || k.known == "" {
			return fmt.Errorf("the holder lost its lease: %+v, %w", o, err)
		}
	}
	return errors.New("the holder is told again and again that its lease expires at another time")
}

func (k *lockClaims) all() map[string]claim {
	const ttl, delay = leaseSeconds * time.Second, 5
	late := func(c lock.Acquire) lock.Acquire { c.LockDelaySeconds = delay; return c }
	var (
		one     = lock.Acquire{}
		reader  = lock.Acquire{Mode: lock.Shared}
		permits = lock.Acquire{Mode: lock.Permits, Limit: 2}
		rate    = lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: leaseSeconds}
		fair    = lock.Acquire{Fair: true, WaitSeconds: 1}
		swaps   = lock.Acquire{Replace: true}
	)
	return map[string]claim{
		"a lock": {lasts: ttl, hold: k.hold(one), obtain: k.obtain(one), keep: k.renew},
		"a lock with a delay": {
			lasts: ttl + delay*time.Second, hold: k.hold(late(one)), obtain: k.obtain(one), keep: k.renew,
		},
		"a lock delay":            {lasts: delay * time.Second, hold: k.hold(late(one), k.force), obtain: k.obtain(one)},
		"a lock that is replaced": {hold: k.hold(late(swaps)), obtain: k.obtain(swaps)},
		"a lock for a reader":     {lasts: ttl, hold: k.hold(one), obtain: k.obtain(reader), keep: k.renew},
		"a lock for one in line": {
			lasts: ttl, hold: k.hold(one), obtain: k.obtain(lock.Acquire{Fair: true}), keep: k.renew,
		},
		"a lock for a set":  {lasts: ttl, hold: k.hold(one), obtain: k.obtainSet, keep: k.renew},
		"a reader":          {lasts: ttl, hold: k.hold(reader), obtain: k.obtain(one), keep: k.renew},
		"readers for a set": {lasts: ttl, hold: k.hold(reader, k.beside(reader)), obtain: k.obtainSet},
		"permits":           {lasts: ttl, hold: k.hold(permits, k.beside(permits)), obtain: k.obtain(permits)},
		"permits with delays": {
			lasts: ttl + delay*time.Second, hold: k.hold(late(permits), k.beside(late(permits))),
			obtain: k.obtain(permits),
		},
		"the delays of permits": {
			lasts: delay * time.Second, hold: k.hold(late(permits), k.beside(late(permits)), k.force),
			obtain: k.obtain(permits),
		},
		"a rate":                  {lasts: ttl, hold: k.hold(rate, k.beside(rate)), obtain: k.obtain(rate)},
		"a rate for another mode": {lasts: ttl, hold: k.hold(rate), obtain: k.obtain(one)},
		"a place in line": {
			lasts: ttl, within: ttl + lock.ClaimTime, hold: k.hold(one, k.beside(fair)), obtain: k.obtain(one),
		},
		"a lock that was handed over": {
			lasts: silentClaim, within: ttl, hold: k.hold(one, k.beside(fair), k.release), obtain: k.obtain(one),
		},
		"a turn of a set": {within: ttl + lock.ClaimTime + lock.PlaceTime + 2*lock.SetTurn, hold: k.hold(one, k.beside(fair),
			func(ctx context.Context) error {
				for try := range 3 {
					if _, _, err := k.obtainSet(ctx, try); err != nil {
						return err
					}
				}
				return nil
			}), obtain: k.obtain(one)},
	}
}

// claims are all of them, made for one key.
func (s *steppedStore) claims(key string) map[string]claim {
	const ttl = leaseSeconds * time.Second
	locks := &lockClaims{steppedStore: s, id: lock.ID{Tenant: "acme", Key: key},
		locks: lock.New(s.Store, &lock.Options{Now: s.clock.Now})}
	all := locks.all()

	gate := analysis.New(s.Store, &analysis.Options{Now: s.clock.Now})
	var held analysis.Grant
	work := func(ctx context.Context, owner, request string) (int64, bool, error) {
		o, err := inTime(ctx, s, func(end rule.End) (analysis.Outcome, error) {
			return gate.Acquire(ctx, analysis.Acquire{ID: analysis.ID(key), End: end, Owner: owner, RequestID: request,
				TTLSeconds: leaseSeconds, Create: true})
		}, gateRefused)
		held = o.Grant
		return o.Grant.Token, o.Code == analysis.OK, err
	}
	refresh := func(ctx context.Context, _ int) error {
		o, err := gate.Refresh(ctx, analysis.Refresh{ID: analysis.ID(key), Owner: "ann", Token: held.Token,
			TTLSeconds: leaseSeconds})
		if err == nil && (o.Code != analysis.OK || o.Grant.ExpiresAt.Sub(o.At) > ttl) {
			err = fmt.Errorf("the holder's heartbeat is %+v", o)
		}
		return err
	}
	obtains := func(do func(ctx context.Context, owner, request string) (int64, bool, error)) func(context.Context, int) (
		int64, bool, error) {
		return func(ctx context.Context, try int) (int64, bool, error) {
			kept := held
			token, ok, err := do(ctx, "bob", fmt.Sprint("b", try))
			if !ok {
				held = kept
			}
			return token, ok, err
		}
	}
	first := func(do func(ctx context.Context, owner, request string) (int64, bool, error)) func(context.Context) (int64,
		error) {
		return func(ctx context.Context) (int64, error) {
			token, ok, err := do(ctx, "ann", "first")
			if err == nil && !ok {
				err = errNotHeld
			}
			return token, err
		}
	}
	all["an analysis"] = claim{lasts: ttl, hold: first(work), obtain: obtains(work), keep: refresh}
	all["an analysis of another writer"] = claim{lasts: time.Minute, within: analysis.MaxTTLSeconds * time.Second,
		hold: func(ctx context.Context) (int64, error) {
			_, err := s.Write(ctx, docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: key},
				Set: map[string]docstore.Value{"lockOwner": docstore.String("ann"),
					analysis.ExpiryField: docstore.Now.Add(time.Minute)}})
			return 0, err
		}, obtain: obtains(work)}

	named := runs.New(s.Store, &runs.Options{Options: analysis.Options{Now: s.clock.Now}})
	run := runs.ID{Tenant: "acme", ID: key}
	begin := func(ctx context.Context, owner, request string) (int64, bool, error) {
		o, err := inTime(ctx, s, func(end rule.End) (analysis.Outcome, error) {
			return named.Begin(ctx, runs.Begin{ID: run, End: end, Owner: owner, RequestID: request, TTLSeconds: leaseSeconds,
				KeepSeconds: runs.MinKeepSeconds})
		}, gateRefused)
		held = o.Grant
		return o.Grant.Token, o.Code == analysis.OK, err
	}
	all["a run"] = claim{lasts: ttl, hold: first(begin), obtain: obtains(begin)}
	over := func(ctx context.Context) (int64, error) {
		token, err := first(begin)(ctx)
		if err == nil {
			_, err = named.Finish(ctx, runs.Finish{ID: run, Owner: "ann", Token: token, Status: analysis.Ready})
		}
		return token, err
	}
	all["a run that is over"] = claim{lasts: runs.MinKeepSeconds * time.Second, hold: over, obtain: obtains(begin)}
	maps.Copy(all, s.placementClaims(key))

	take := func(ctx context.Context) (int64, error) {
		o, err := rule.Run(ctx, s.Store, s.clock.Now, rates.Take{Key: docstore.Key{Kind: rates.Kind, Tenant: "acme", ID: key},
			Rate: 1, Want: 2})
		return o.Granted, err
	}
	all["a slice of a rate"] = claim{lasts: time.Second, within: 2 * time.Second,
		hold: func(ctx context.Context) (int64, error) {
			_, err := take(ctx)
			return 0, err
		},
		obtain: func(ctx context.Context, try int) (int64, bool, error) {
			n, err := take(ctx)
			return int64(try) + 1, n > 0, err
		}}
	return all
}

func gateRefused(o analysis.Outcome) time.Time {
	if o.Code == analysis.TooLate || o.Code == analysis.TooFar {
		return o.At
	}
	return time.Time{}
}

// placementClaims are the name of a member, and an identity that a member is to activate.
func (s *steppedStore) placementClaims(key string) map[string]claim {
	const ttl = leaseSeconds * time.Second
	service := placement.New(s.Store, &placement.Options{Now: s.clock.Now, Sleep: s.clock.Sleep})
	cluster, id := placement.Cluster{Tenant: "acme", Name: key}, roomOf("lobby")
	var ann placement.Incarnation
	join := func(ctx context.Context, request string) (int64, bool, error) {
		o, err := service.Join(ctx, placement.Join{Cluster: cluster, Member: "ann", RequestID: request, TTL: ttl,
			Offer: placement.Offer{Kinds: []string{id.Kind}}})
		if o.Code == placement.OK {
			ann = o.Incarnation
		}
		return o.Incarnation.Number, o.Code == placement.OK, err
	}
	beat := func(ctx context.Context, n int) error {
		o, err := service.Heartbeat(ctx, placement.Heartbeat{Cluster: cluster, Incarnation: ann, Seq: int64(n), TTL: ttl})
		if err == nil && o.Code != placement.OK {
			err = fmt.Errorf("the member's heartbeat is %+v", o)
		}
		return err
	}
	beats := 0
	claims := func(ctx context.Context, request string) (int64, bool, error) {
		beats++ // the owner lives
		if err := beat(ctx, beats); err != nil {
			return 0, false, err
		}
		o, err := service.Claim(ctx, placement.Claim{Cluster: cluster, Identity: id, RequestID: request, LockTTL: ttl})
		return o.Activation.Token, o.Code == placement.OK, err
	}
	return map[string]claim{
		"a member": {lasts: ttl, hold: func(ctx context.Context) (int64, error) {
			n, ok, err := join(ctx, "first")
			if err == nil && !ok {
				err = errNotHeld
			}
			return n, err
		}, obtain: func(ctx context.Context, try int) (int64, bool, error) {
			return join(ctx, fmt.Sprint("j", try))
		}, keep: beat},
		"an activation": {lasts: ttl, hold: func(ctx context.Context) (int64, error) {
			if _, _, err := join(ctx, "first"); err != nil {
				return 0, err
			}
			token, ok, err := claims(ctx, "c")
			if err == nil && !ok {
				err = errNotHeld
			}
			return token, err
		}, obtain: func(ctx context.Context, try int) (int64, bool, error) { return claims(ctx, fmt.Sprint("c", try)) }},
	}
}

// course is how the store's clock is set, in steps: before the claim is held, and after it, with true time between.
type course struct {
	before    time.Duration
	looked    bool // one looks between the hold and the first step
	after     []time.Duration
	every     time.Duration // between two steps
	shortened bool          // it is set forward while it is held: a lease may end early
}

// courses are those of a step of a size.
func courses(d time.Duration) map[string]course {
	return map[string]course{
		"right":                       {},
		"was ahead":                   {before: d, after: []time.Duration{-d}},
		"was ahead, and looked at":    {before: d, looked: true, after: []time.Duration{-d}},
		"was behind":                  {before: -d, after: []time.Duration{d}, shortened: true},
		"set back":                    {after: []time.Duration{-d}},
		"set back again and again":    {after: []time.Duration{-d, -d, -d}, every: 2 * time.Second},
		"set back late":               {after: []time.Duration{-d}, every: 9 * time.Second},
		"set forward":                 {after: []time.Duration{d}, shortened: true},
		"forward and back":            {after: []time.Duration{d, -d}},
		"forward and back, looked at": {after: []time.Duration{d, -d, d, -d}, every: 3 * time.Second, shortened: true},
		"back and forward, looked at": {after: []time.Duration{-d, d}, every: 3 * time.Second, shortened: true},
		"ahead, and then back and forth": {before: d, looked: true, after: []time.Duration{-d, d, -d}, every: time.Second,
			shortened: true},
	}
}

// ClockSteps proves on a store that nothing stays closed because its clock was wrong, and that nothing is opened too
// early because it is counted anew.
func ClockSteps(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Helper()
	clock := NewClock()
	opened := newStore(t, clock.Now)
	n := 0
	for _, d := range AtDepth([]time.Duration{time.Second, time.Minute, 24 * time.Hour},
		[]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}) {
		all := courses(d)
		for _, how := range slices.Sorted(maps.Keys(all)) {
			for _, what := range slices.Sorted(maps.Keys(newSteppedStore(opened, clock).claims(""))) {
				for _, lives := range []bool{false, true} {
					n++
					s := newSteppedStore(opened, clock)
					s.passed = clock.Now().Sub(Epoch) // it is right
					c := s.claims(fmt.Sprint("k", n))[what]
					c.within = max(c.within, c.lasts)
					var err error
					switch {
					case !lives:
						err = s.steps(t.Context(), c, all[how])
					case c.keep != nil && !all[how].shortened:
						err = s.keeps(t.Context(), c, all[how])
					}
					if err != nil {
						t.Errorf("%s, its holder lives: %v, the store's clock: %s by %v: %v", what, lives, how, d, err)
					}
					clock.Advance(s.passed - clock.Now().Sub(Epoch) + 100*time.Hour) // it is right, and all that was written is over
				}
			}
		}
	}
}

// ClockThatWasAhead proves it with a server of its own: callers who die take everything, each in its own way, while the
// store's clock is ahead; setRight lets the server go on with a clock that is right, and others who ask each second
// obtain everything, with larger tokens. How long that takes is not asked of a machine that others use: as long as a
// clock was ahead it would have been.
func ClockThatWasAhead(t *testing.T, store docstore.Store, setRight func()) {
	t.Helper()
	const most = time.Minute // what lasts longer is for ClockSteps
	clock := NewClockAt(time.Now())
	left, held := map[string]claim{}, map[string]int64{}
	for i, name := range slices.Sorted(maps.Keys(newSteppedStore(store, clock).claims(""))) {
		s := newSteppedStore(store, clock)
		s.caller.Now = time.Now
		c := s.claims(fmt.Sprint("k", i))[name]
		if max(c.lasts, c.within) > most {
			continue
		}
		token, err := c.hold(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		left[name], held[name] = c, token
	}
	setRight()
	for try := 0; len(left) > 0 && try < 300; try++ {
		time.Sleep(time.Second)
		for name, c := range left {
			token, ok, err := c.obtain(t.Context(), try)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if ok && token <= held[name] {
				t.Errorf("%s: the token %d comes after %d", name, token, held[name])
			}
			if ok || err != nil {
				delete(left, name)
			}
		}
	}
	for name := range left {
		t.Errorf("%s is closed still", name)
	}
}

// steps carries out a course. Who looks does so each second, also between the steps.
func (s *steppedStore) steps(ctx context.Context, c claim, how course) error {
	s.clock.Advance(how.before)
	held, err := c.hold(ctx)
	if err != nil {
		return err
	}
	began, try := s.passed, 0
	var obtained bool
	look := func() error {
		token, ok, err := c.obtain(ctx, try)
		try++
		switch {
		case err != nil || !ok:
			return err
		case token <= held:
			return fmt.Errorf("the token %d comes after %d", token, held)
		case s.passed-began < c.lasts && !how.shortened:
			return fmt.Errorf("it was obtained %v after it was taken for %v", s.passed-began, c.lasts)
		}
		obtained = true
		return nil
	}
	if how.looked {
		if err := look(); err != nil || obtained {
			return err
		}
	}
	for _, step := range how.after {
		for range how.every / time.Second {
			s.pass(time.Second)
			if err := look(); err != nil || obtained {
				return err
			}
		}
		s.clock.Advance(step)
	}
	every := max(time.Second, c.within/50)
	most := c.within + every
	for since := time.Duration(0); since <= most; since += every {
		if err := look(); err != nil || obtained {
			return err
		}
		s.pass(every)
	}
	return fmt.Errorf("it is closed still, %v after the clock was set", most)
}

// keeps carries out a course while the holder lives. It keeps what it has, and no one else gets it.
func (s *steppedStore) keeps(ctx context.Context, c claim, how course) error {
	s.clock.Advance(how.before)
	if _, err := c.hold(ctx); err != nil {
		return err
	}
	try := 0
	live := func(d time.Duration) error {
		for range d / time.Second {
			if try%3 == 0 {
				if err := c.keep(ctx, try/3+1); err != nil {
					return err
				}
			}
			if _, ok, err := c.obtain(ctx, try); err != nil || ok {
				return fmt.Errorf("another one asked while its holder lives: obtained %v, %w", ok, err)
			}
			try++
			s.pass(time.Second)
		}
		return nil
	}
	for _, step := range how.after {
		if err := live(how.every); err != nil {
			return err
		}
		s.clock.Advance(step)
	}
	return live(2 * c.within)
}
