package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Location is where an identity is, or would be.
type Location struct {
	Identity

	Member      string
	Incarnation int64
	Address     string // where the member is reached, as it said last
	Token       int64  // of the activation; 0 if there is none: a claim, or Member.Serve, makes one there
	Epoch       int64  // by which it was found

	need string // that it would be there for; empty for an activation
}

func located(a contracts.Activation, epoch int64) Location {
	return Location{
		Identity: Identity{a.Kind, a.ID}, Member: a.Member, Incarnation: a.Incarnation, Address: a.Address,
		Token: a.FencingToken, Epoch: epoch,
	}
}

// LocatorOptions are the settings of [NewLocator]. The zero value works.
type LocatorOptions struct {
	// Refresh is how often the locator asks for the epoch; 0 means 2 s. Between, it learns of a new one from what it is
	// told.
	Refresh time.Duration

	// MaxStale is how old the epoch may be that it goes by while the provider cannot be reached; 0 means 30 s.
	MaxStale time.Duration

	// Cached is how many identities it remembers, and as many that would be elsewhere for those who need certain labels; 0
	// means 100000. When there are more, those are forgotten that were not asked for since half as many others
	// were.
	Cached int

	// Observe is called for each event, in their order, one at a time. nil drops them. Nothing waits for it for longer
	// than a second; a thousand events wait for one that takes longer, and those beyond them are dropped: see
	// [Event.Dropped].
	Observe func(Event)
}

// Locator finds identities. It remembers where they are, so that most calls cost no request. Its methods may be called
// from several goroutines at once.
type Locator struct {
	*component

	provider Provider
	o        LocatorOptions
	failures failures
	view     atomic.Pointer[view]
	read     atomic.Pointer[term.Moment] // before the latest reading of the epoch

	mu      sync.RWMutex
	places  recent[Identity] // of activations, and where one would be for anyone
	wanted  recent[want]     // where one would be for those who need certain labels
	flights map[want]*flight
	claims  map[Identity]*claiming
	stop    context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // from Start to Stop
	work    sync.WaitGroup
}

// view is an epoch, as far as a locator needs it.
type view struct {
	epoch   int64
	began   contracts.Time                     // tells two epochs of one number apart
	members map[string]contracts.ClusterMember // nil if nothing can be placed
}

// want is an identity, and what it needs.
type want struct {
	Identity

	need string // its key
}

// flight is a request that several callers wait for, each for as long as it has time.
type flight struct {
	began   time.Time
	waiters int // with the locator's lock; without any, what it finds is remembered, and nothing is sent again
	done    chan struct{}
	where   Location
	err     error
}

// NewLocator returns a locator. Options may be nil.
func NewLocator(p Provider, o *LocatorOptions) *Locator {
	l := &Locator{provider: p, flights: map[want]*flight{}, claims: map[Identity]*claiming{}}
	if o != nil {
		l.o = *o
	}
	l.o.Refresh = cmp.Or(l.o.Refresh, 2*time.Second)
	l.o.MaxStale = cmp.Or(l.o.MaxStale, 30*time.Second)
	l.o.Cached = cmp.Or(l.o.Cached, 100_000)
	l.places, l.wanted = newRecent[Identity](l.o.Cached), newRecent[want](l.o.Cached)
	l.component = newComponent(AsClient, "", l.o.Observe)
	return l
}

// Start reads the epoch, and follows it until [Locator.Stop]. While the cluster has no active member, the locator is
// NotReady. While the provider cannot be reached, Start tries again until ctx ends.
func (l *Locator) Start(ctx context.Context) error {
	if !l.change(Starting, 0, nil, Stopped) {
		return &StateError{l.Status()}
	}
	if told, err := l.insist(ctx, Event{}, "members", hold.Insist{}, l.refresh); err != nil {
		if !told {
			l.failed(Event{}, "members", err)
		}
		l.change(Stopped, 0, err, Starting)
		return err
	}
	l.mu.Lock()
	if State(l.fast.Load()) != Starting { // it was stopped meanwhile
		l.mu.Unlock()
		return &StateError{l.Status()}
	}
	l.ctx, l.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	l.work.Go(func() { l.keep(l.ctx) })
	l.mu.Unlock()
	l.settle()
	return nil
}

// Stop ends the locator, and the requests that it has sent.
func (l *Locator) Stop() {
	if !l.change(Stopped, 0, nil, Starting, Ready, NotReady) {
		return
	}
	l.mu.Lock()
	if l.stop != nil {
		l.stop(errStopped)
	}
	l.places.clear()
	l.wanted.clear()
	l.mu.Unlock()
	l.work.Wait()
}

// keep reads the epoch again and again.
func (l *Locator) keep(ctx context.Context) {
	var tries hold.Tries
	for pause := l.o.Refresh; sleep(ctx, pause); {
		err := tries.Do(ctx, l.o.MaxStale, l.refresh)
		if err == nil {
			tries = 0
		}
		if pause = l.o.Refresh; err != nil && ctx.Err() == nil {
			l.failed(Event{}, "members", err)
			left := l.o.MaxStale - l.age()
			if left <= 0 { // it serves no one meanwhile, and looks often
				left = l.o.MaxStale
			}
			pause = hold.Pause(pause, err, left)
		}
		l.settle()
	}
}

// age is how old the epoch may be.
func (l *Locator) age() time.Duration { return -term.Now().Until(*l.read.Load()) }

// settle finds out whether the locator is ready.
func (l *Locator) settle() {
	v, age := l.view.Load(), l.age()
	switch {
	case age > l.o.MaxStale:
		l.change(NotReady, 0, fmt.Errorf("the epoch was read %v ago, and not since", age.Round(time.Second)), Ready,
			Starting) //nolint:err113 // for people
	case v.members == nil:
		l.change(NotReady, 0, contracts.CodeTopologyUndetermined, Ready, Starting)
	default:
		l.change(Ready, 0, nil, NotReady, Starting)
	}
}

// refresh reads the epoch. A store that lost its latest writes goes back to an earlier epoch, or begins another one
// under the number of one that it lost: what was found by that counts no longer.
func (l *Locator) refresh(ctx context.Context) error {
	before, asked := l.view.Load(), term.Now()
	t, err := l.provider.Members(ctx)
	if err != nil {
		return err
	}
	v := &view{epoch: t.Epoch, began: t.ChangedAt}
	switch {
	case before != nil && before.epoch == v.epoch && before.began == v.began:
		v = before // an epoch never changes
	case t.Status == contracts.ClusterReady:
		v.members = make(map[string]contracts.ClusterMember, len(t.Members))
		for _, m := range t.Members {
			v.members[m.Member] = m
		}
	}
	for {
		known := l.view.Load()
		if known != before && known.epoch > v.epoch {
			return nil // a later one was read meanwhile
		}
		if l.view.CompareAndSwap(known, v) {
			l.read.Store(&asked)
			if known != nil && (known.epoch > v.epoch || known.epoch == v.epoch && known.began != v.began) {
				l.mu.Lock()
				l.places.clear()
				l.wanted.clear()
				l.mu.Unlock()
			}
			return nil
		}
	}
}

// Cached is where an identity is, or would be for those who have the need, as far as the locator knows, without a
// request. What was found by an earlier epoch counts as long as its member lives in the current one; where an identity
// would be, in its epoch alone.
func (l *Locator) Cached(id Identity, need *Need) (Location, bool) {
	if State(l.fast.Load()) != Ready {
		return Location{}, false
	}
	v, key := l.view.Load(), need.key()
	where, ok := found(l, &l.places, id)
	if ok && (key == "" || where.Token != 0) && v.has(&where) {
		return where, true
	}
	if key != "" {
		where, ok = found(l, &l.wanted, want{id, key})
		if ok && v.has(&where) {
			return where, true
		}
	}
	return Location{}, false
}

// found is a location that is remembered, and is so for longer now.
func found[K comparable](l *Locator, in *recent[K], key K) (Location, bool) {
	l.mu.RLock()
	where, ok, old := in.get(key)
	l.mu.RUnlock()
	if old {
		l.mu.Lock()
		if where, ok, old = in.get(key); old {
			in.put(key, where)
		}
		l.mu.Unlock()
	}
	return where, ok
}

// has reports whether a location is one by this epoch, too, and brings its address up to date.
func (v *view) has(where *Location) bool {
	if where.Epoch == v.epoch {
		return true
	}
	m := v.members[where.Member]
	where.Address = m.Address
	return where.Token != 0 && m.Incarnation == where.Incarnation
}

// Locate says where an identity is, or would be. It asks only if it does not know; of several callers that ask for one
// identity at a time, one sends the request.
func (l *Locator) Locate(ctx context.Context, id Identity, need *Need) (Location, error) {
	if where, ok := l.Cached(id, need); ok {
		return where, nil
	}
	return l.join(ctx, want{id, need.key()}, need)
}

// join waits for a flight.
func (l *Locator) join(ctx context.Context, w want, need *Need) (Location, error) {
	l.mu.Lock()
	if err := l.ready(); err != nil {
		l.mu.Unlock()
		return Location{}, err
	}
	f := l.flights[w]
	if f == nil || time.Since(f.began) >= hold.TryTime(0) {
		f = l.begin(w, need)
	}
	f.waiters++
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.where, f.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.waiters--
	return Location{}, context.Cause(ctx)
}

// begin sends the request of a flight. One that has had no response in the time of its first try takes no one more:
// those who come then need not wait for as long as its longer tries take. The caller holds mu.
func (l *Locator) begin(w want, need *Need) *flight {
	ctx, cancel := context.WithTimeout(l.ctx, askTime)
	f := &flight{began: time.Now(), done: make(chan struct{})}
	l.flights[w] = f
	l.work.Go(func() {
		defer close(f.done)
		defer cancel()
		f.where, f.err = l.ask(ctx, w, need, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return f.waiters == 0
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.flights[w] == f {
			delete(l.flights, w)
		}
		if f.err == nil {
			l.remember(f.where)
		}
	})
	return f
}

// remember keeps a location, unless a later one is known.
func (l *Locator) remember(where Location) {
	if where.need != "" {
		l.wanted.put(want{where.Identity, where.need}, where)
		return
	}
	if known, ok, _ := l.places.get(where.Identity); ok && known.Token > where.Token && known.Epoch >= where.Epoch {
		return
	}
	l.places.put(where.Identity, where)
}

// askTime bounds what several callers wait for.
const askTime = 30 * time.Second

// ask looks an identity up. alone reports that no one waits for it any more.
func (l *Locator) ask(ctx context.Context, w want, need *Need, alone func() bool) (Location, error) {
	id, q := w.Identity, Query{}
	q.Labels, q.Prefer = need.labels()
	for try := 0; ; try++ {
		q.Epoch = l.view.Load().epoch
		var p contracts.Placement
		final := func(err error) bool { return answered(err) || alone() }
		_, err := l.insist(ctx, Event{Identity: id}, "lookup", hold.Insist{Final: final},
			func(ctx context.Context) (err error) {
				p, err = l.provider.Lookup(ctx, id.Kind, id.ID, q)
				return err
			})
		switch {
		case errors.Is(err, contracts.CodeStaleEpoch) && try < 5:
			if err := l.refresh(ctx); err != nil {
				return Location{}, err
			}
			l.settle()
			if err := l.ready(); err != nil {
				return Location{}, err
			}
		case err != nil:
			return Location{}, err
		case p.Owner != nil:
			where := Location{Identity: id, Member: p.Owner.Member, Incarnation: p.Owner.Incarnation,
				Address: p.Owner.Address, Epoch: p.Epoch}
			if p.Activation != nil {
				where.Token = p.Activation.FencingToken
			}
			if where.Token == 0 { // to be asked for again
				where.need = w.need
			}
			return where, nil
		case p.Placed != nil:
			return Location{
				Identity: id, Member: p.Placed.Member, Incarnation: p.Placed.Incarnation, Address: p.Placed.Address,
				Epoch: p.Epoch, need: w.need,
			}, nil
		default:
			return Location{}, contracts.Errorf(contracts.CodeNoEligibleMember, "no member may host %s/%s", id.Kind, id.ID)
		}
	}
}

// Forget forgets where an identity was said to be, because the member there says that it does not host it. What was
// found since stays.
func (l *Locator) Forget(where Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok, _ := l.places.get(where.Identity); ok && known.same(where) {
		l.places.remove(where.Identity)
	}
	w := want{where.Identity, where.need}
	if known, ok, _ := l.wanted.get(w); ok && known.same(where) {
		l.wanted.remove(w)
	}
}

// same reports whether two locations are one; its address may have changed since it was found.
func (w Location) same(other Location) bool {
	other.Address = w.Address
	return w == other
}

// claimTry bounds a try to claim, for which others wait who want the same identity.
const claimTry = 3 * time.Second

// claiming is a caller that claims an identity. Others that want it wait for what becomes of that.
type claiming struct {
	done chan struct{}
	err  error // of the latest try; with the locator's lock
}

// Activate makes sure that an identity is active, and says where. It claims it for the member on which it is placed,
// unless it is active already, and waits until that has activated it. Of several callers at a time one claims. If the
// member could not activate it, the error is ACTIVATION_FAILED, with the reason, in a [FailedError]: it is not claimed
// again before the pause is over that that says. While no member may host it, it waits for one, until ctx ends.
func (l *Locator) Activate(ctx context.Context, id Identity, need *Need) (Location, error) {
	for {
		if where, ok := l.Cached(id, need); ok && where.Token != 0 {
			return where, nil
		}
		if err := l.failures.paused(id); err != nil {
			return Location{}, err
		}
		l.mu.Lock()
		other := l.claims[id]
		if other == nil {
			mine := &claiming{done: make(chan struct{})}
			l.claims[id] = mine
			l.mu.Unlock()
			defer func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.claims, id)
				close(mine.done)
			}()
			return l.claim(ctx, id, need, mine)
		}
		l.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			return Location{}, errors.Join(context.Cause(ctx), other.err)
		}
	}
}

// claim is Activate for the caller that claims.
func (l *Locator) claim(ctx context.Context, id Identity, need *Need, mine *claiming) (Location, error) {
	request := contracts.ActivationClaimRequest{RequestID: rand.Text()}
	request.Labels, request.Prefer = need.labels()
	var told contracts.Code // of the latest event: a refusal that stays the same is one
	var tries hold.Tries
	for try := 0; ; try++ {
		if err := l.ready(); err != nil {
			return Location{}, err
		}
		var o contracts.ActivationOutcome
		err := tries.Do(ctx, claimTry, func(ctx context.Context) (err error) {
			o, err = l.provider.Claim(ctx, id.Kind, id.ID, request)
			return err
		})
		own := waits.Delay(min(try, 2))
		pause := hold.Pause(own, err, hold.Left(ctx))
		e, _ := errors.AsType[*contracts.Error](err)
		l.mu.Lock()
		mine.err = err
		l.mu.Unlock()
		if e != nil && e.Code != told && e.Code != contracts.CodeActivationExists {
			told = e.Code
			l.emit(Event{What: ClaimRefused, Identity: id, Err: err})
		}
		switch {
		case err == nil && o.Activation.Phase != contracts.PhaseLocked:
			return l.found(o.Activation, o.Epoch), nil
		case err == nil: // the member is to activate it
		case errors.Is(err, contracts.CodeActivationExists) && e != nil && e.Activation != nil:
			return l.found(*e.Activation, e.Epoch), nil
		case errors.Is(err, contracts.CodeActivationLocked):
			// another claim is on its way, and ends when its lock does, or sooner
			if pause = own; e != nil && e.RetryAfter > 0 {
				pause = max(waits.Min, min(own, e.RetryAfter))
			}
		case errors.Is(err, contracts.CodeActivationFailed):
			if e != nil && e.Activation != nil && e.Activation.Reason != "" {
				err = fmt.Errorf("%w: %s", err, e.Activation.Reason)
			}
			return Location{}, l.failures.failed(id, err)
		case errors.Is(err, contracts.CodeRequestIDReused), errors.Is(err, contracts.CodeLeaseExpired):
			// what it obtained has ended meanwhile
			request.RequestID = rand.Text()
		case ctx.Err() == nil && lease.Final(err):
			return Location{}, err
		}
		if !sleep(ctx, pause) {
			return Location{}, errors.Join(context.Cause(ctx), err)
		}
	}
}

// found remembers an activation.
func (l *Locator) found(a contracts.Activation, epoch int64) Location {
	where := located(a, cmp.Or(epoch, a.Epoch))
	l.failures.succeeded(where.Identity)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(where)
	return where
}
