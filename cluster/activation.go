package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// activation is an activation of a member, from when it learned of it until nothing of it is left. At most one of an
// identity is there at a time.
type activation struct {
	life *incarnation

	ctx    context.Context //nolint:containedctx // it lasts as long as the activation
	cancel context.CancelCauseFunc
	began  chan struct{} // closed when it is served, or is not to be
	over   chan struct{} // closed when it is not in the member's table any more
	err    error         // why it is not served; set before began is closed

	changing chan struct{} // has room for one who changes the state or the alarm, or reads the alarm
	unsure   bool          // with changing: a state may have been stored that the member does not know of

	placedBy *calm // by which the rebalancing has asked where it is placed; it alone uses these
	away     bool  // it is placed on another member

	closing chan struct{} // closed when it is to end
	turns   turns         // of what is done one at a time

	// With the member's lock:
	Activation
	alarm  alarmState
	ending bool
	holds  int           // what uses it
	used   time.Time     // when it was used last, on the monotonic clock
	need   *Need         // of the latest caller that had one
	freed  chan struct{} // closed when holds becomes 0; nil if that interests no one
}

// NotHereError is the error of [Member.Serve] and [Member.Hold] for an identity that is not here, or not any more.
type NotHereError struct {
	Where Location // its member's name is empty if it is not known
	Err   error    // what the provider said
}

func (e *NotHereError) Error() string {
	if e.Where.Member == "" {
		return fmt.Sprintf("the identity is not on this member: %v", e.Err)
	}
	return fmt.Sprintf("the identity is on %s: %v", e.Where.Member, e.Err)
}

// Unwrap returns Err.
func (e *NotHereError) Unwrap() error { return e.Err }

// open makes an activation, which begin is to begin, or returns the one that there is. It is nil if the incarnation
// takes no more.
func (m *Member) open(l *incarnation, id Identity, token int64, begin func(*activation)) *activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.acts[id]; ok || l.closed {
		return a
	}
	a := &activation{
		life: l, began: make(chan struct{}), over: make(chan struct{}), changing: make(chan struct{}, 1),
		closing: make(chan struct{}), Activation: Activation{Identity: id, Token: token},
	}
	ctx, cancel := context.WithCancelCause(l.Context())
	a.ctx, a.cancel = l.Guard(ctx), cancel
	m.acts[id] = a
	l.work.Go(func() { begin(a) })
	return a
}

// spawn begins work of an incarnation, and reports whether it did: not if that ends everything that it has already.
func (m *Member) spawn(l *incarnation, work func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.closed {
		l.work.Go(work)
	}
	return !l.closed
}

// stopAccepting makes an incarnation take nothing more, and returns what it has.
func (m *Member) stopAccepting(l *incarnation) []*activation {
	m.mu.Lock()
	l.closed = true
	m.mu.Unlock()
	return m.all()
}

// forget removes an activation.
func (m *Member) forget(a *activation, cause error) {
	a.cancel(cause)
	m.mu.Lock()
	delete(m.acts, a.Identity)
	m.mu.Unlock()
	close(a.over)
}

func (m *Member) all() []*activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*activation, 0, len(m.acts))
	for _, a := range m.acts {
		all = append(all, a)
	}
	return all
}

// seen is an activation as it is known now.
func (m *Member) seen(a *activation) Activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.Activation
}

// Activations are what the member serves, in every state.
func (m *Member) Activations() []Activation {
	var all []Activation
	for _, a := range m.all() {
		select {
		case <-a.began:
			if a.err == nil && a.ctx.Err() == nil {
				all = append(all, m.seen(a))
			}
		default:
		}
	}
	return all
}

// Serve makes sure that the member serves an identity, which it activates if it is placed here. It is what a member
// does for a caller that has come to it; need is what the caller located it with. The error is a [NotHereError] if the
// identity is not here, or not any more, so that the caller asks its locator again: it is on another member, or this
// one drains, is stopped, or has lost its lease ([ErrDraining], [ErrNotRunning], [ErrNotReady]). Otherwise it is why
// the activation failed.
func (m *Member) Serve(ctx context.Context, id Identity, need *Need) (Activation, error) {
	_, known, err := m.serve(ctx, id, need, false)
	return known, err
}

// claim asks for an activation that a caller wants here. locked reports whether the lock phase is still to be ended.
func (m *Member) claim(a *activation, need *Need) (got contracts.Activation, locked bool, err error) {
	request := contracts.ActivationClaimRequest{RequestID: rand.Text(), Member: m.name, Incarnation: a.life.number}
	request.Labels, request.Prefer = need.labels()
	asking, cancel := context.WithTimeout(a.ctx, hold.CallTime)
	defer cancel()
	var o contracts.ActivationOutcome
	_, err = m.component.insist(asking, Event{Incarnation: a.life.number, Identity: a.Identity}, "claim",
		hold.Insist{Final: answered}, func(ctx context.Context) (err error) {
			o, err = m.provider.Claim(ctx, a.Kind, a.ID, request)
			return err
		})
	if err == nil {
		if o.Activation.StateVersion > 0 { // a Locker need not know the states
			return m.record(a)
		}
		return o.Activation, o.Activation.Phase == contracts.PhaseLocked, nil
	}
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok {
		return got, false, err
	}
	m.emit(Event{What: ClaimRefused, Incarnation: a.life.number, Identity: a.Identity, Err: err})
	mine := e.Activation != nil && e.Activation.Member == a.life.name && e.Activation.Incarnation == a.life.number
	switch e.Code {
	case contracts.CodeActivationExists, contracts.CodeActivationLocked:
		if mine { // another claim made it this member's, or one whose response was lost
			return m.record(a)
		}
		where := Location{Identity: a.Identity, Epoch: e.Epoch}
		if e.Activation != nil {
			where = located(*e.Activation, e.Epoch)
		}
		return got, false, &NotHereError{where, err}
	case contracts.CodeMemberIneligible:
		return got, false, &NotHereError{Location{Identity: a.Identity, Epoch: e.Epoch}, err}
	default:
		return got, false, err
	}
}

func notOurs() error { return fmt.Errorf("%w: the activation is not this member's any more", ErrLost) }

// record reads an activation that should be this member's.
func (m *Member) record(a *activation) (got contracts.Activation, locked bool, err error) {
	err = m.insist(a.ctx, func(ctx context.Context) error {
		got, err = m.provider.Activation(ctx, a.Kind, a.ID)
		return err
	})
	if err == nil && (got.Member != a.life.name || got.Incarnation != a.life.number || got.Phase == contracts.PhaseFree) {
		err = notOurs()
	}
	return got, got.Phase == contracts.PhaseLocked, err
}

// begin obtains an activation and serves it.
func (m *Member) begin(a *activation, obtain func(*activation) (contracts.Activation, bool, error)) {
	learned := time.Now()
	got, locked, err := obtain(a)
	if err != nil {
		err = because(a, err)
		a.err = err
		m.forget(a, err)
		close(a.began)
		return
	}
	m.mu.Lock()
	a.Token, a.State, a.StateVersion = got.FencingToken, got.State, got.StateVersion
	a.knowAlarm(got)
	known := a.Activation
	m.mu.Unlock()
	err = m.activate(a, known)
	lost := a.life.Check() != nil
	if err == nil && locked && !lost {
		if err = m.insist(a.ctx, func(ctx context.Context) error {
			_, err := m.provider.Activated(ctx, a.Kind, a.ID, m.hold(a))
			return err
		}); err != nil {
			if lost = lease.Final(err); lost {
				err = fmt.Errorf("%w: %w", ErrLost, err)
			}
			m.deactivate(a, err)
		}
	}
	if err == nil {
		m.mu.Lock()
		a.used = m.o.clock().Time()
		m.mu.Unlock()
		close(a.began) // if the context has ended meanwhile, what ended it finishes the activation
		e := Event{What: Activated, Incarnation: a.life.number, Identity: a.Identity, Token: known.Token,
			Took: time.Since(learned)}
		if claimed, err := time.Parse(contracts.TimeFormat, got.ClaimedAt); err == nil && locked {
			e.Lag = max(0, learned.Sub(claimed))
		}
		m.emit(e)
		if got.AlarmTries > 0 {
			m.spawn(a.life, func() { m.ring(a) })
		}
		return
	}
	err = because(a, err)
	m.emit(Event{What: ActivationFailed, Incarnation: a.life.number, Identity: a.Identity, Token: known.Token, Err: err})
	if !lost {
		m.fail(a, locked, err)
	}
	a.err = err
	m.forget(a, err)
	close(a.began)
}

// because is an error with why the activation was ended meanwhile, if it was.
func because(a *activation, err error) error {
	if cause := context.Cause(a.ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// fail says that an activation failed. Its context may have ended, because the member stops: the incarnation still
// lives.
func (m *Member) fail(a *activation, locked bool, cause error) {
	h := m.hold(a)
	e := Event{Incarnation: a.life.number, Identity: a.Identity, Token: h.FencingToken}
	m.carryOut(a.life.Context(), e, "activation that failed", func(ctx context.Context) error {
		if locked {
			_, err := m.provider.Failed(ctx, a.Kind, a.ID, contracts.ActivationFailedRequest{
				Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken, Reason: reason(cause.Error()),
			})
			return err
		}
		return m.free(ctx, a, "activation failed: "+cause.Error())
	})
}

func (m *Member) free(ctx context.Context, a *activation, why string) error {
	h := m.hold(a)
	_, err := m.provider.Deactivate(ctx, a.Kind, a.ID, contracts.ActivationEndRequest{
		Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken, Reason: reason(why),
	})
	return err
}

// hold is what the member names an activation by.
func (m *Member) hold(a *activation) contracts.ActivationHoldRequest {
	return contracts.ActivationHoldRequest{Member: m.name, Incarnation: a.life.number, FencingToken: m.seen(a).Token}
}

// errSlow ends an activation that takes too long.
var errSlow = errors.New("Activate did not return in time")

// activate calls the host, whose time is bounded. A panic is an error.
func (m *Member) activate(a *activation, known Activation) error {
	if err := m.failures.paused(a.Identity); err != nil {
		return err // of an activation before this one, which another's claim has begun
	}
	slow := fmt.Errorf("%w: %v", errSlow, m.o.ActivateWithin)
	end := time.AfterFunc(m.o.ActivateWithin, func() { a.cancel(slow) })
	defer end.Stop()
	returned := called(func() error { return m.host.Activate(a.ctx, known) })
	ok, err := m.await(a, "Activate", returned, a.ctx.Done())
	switch {
	case !ok: // what it may begin later has ended already
		go func() {
			if <-returned == nil {
				m.emitPanic(a, <-called(func() error { m.host.Deactivate(a.ctx, known, err); return nil }))
			}
		}()
	case err == nil && !end.Stop():
		m.deactivate(a, slow)
		err = slow
	}
	switch cause := context.Cause(a.ctx); {
	case err == nil:
		m.failures.succeeded(a.Identity)
		return nil
	case cause == nil || errors.Is(cause, errSlow):
		return m.failures.failed(a.Identity, err)
	default: // it was ended, and may be well
		return err
	}
}

// deactivate calls the host, whose time is bounded. A panic is an event.
func (m *Member) deactivate(a *activation, reason error) {
	a.cancel(reason)
	m.mu.Lock()
	ctx := m.ctx
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.o.DeactivateWithin*9/10)
	defer cancel()
	known := m.seen(a)
	returned := called(func() error { m.host.Deactivate(ctx, known, reason); return nil })
	begun := make(chan struct{})
	close(begun)
	if ok, err := m.await(a, "Deactivate", returned, begun); ok {
		m.emitPanic(a, err)
	}
}

// emitPanic tells the observer of a panic of Deactivate, if there was one.
func (m *Member) emitPanic(a *activation, err error) {
	if err != nil {
		m.emit(Event{What: RequestFailed, Incarnation: a.life.number, Identity: a.Identity, Err: err})
	}
}

// called begins a call of the host, and returns what its result comes from. A panic is an error.
func called(call func() error) <-chan error {
	returned := make(chan error, 1) // has room: no one may wait any more
	go func() {
		defer func() {
			if p := recover(); p != nil {
				returned <- fmt.Errorf("panic: %v", p)
			}
		}()
		returned <- call()
	}()
	return returned
}

// await waits for a call of the host, for [Options.DeactivateWithin] from when something is closed. ok is false for one
// that has not returned by then: it is an event, and the identity goes on without it.
func (m *Member) await(a *activation, what string, returned <-chan error, from <-chan struct{}) (ok bool, err error) {
	select {
	case err = <-returned:
		return true, err
	case <-from:
	}
	end := time.NewTimer(m.o.DeactivateWithin)
	defer end.Stop()
	select {
	case err = <-returned:
		return true, err
	case <-end.C:
	}
	err = fmt.Errorf("%s did not return within %v after its end", what, m.o.DeactivateWithin)
	if cause := context.Cause(a.ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	m.emit(Event{What: Abandoned, Incarnation: a.life.number, Identity: a.Identity, Token: m.seen(a).Token, Err: err})
	return false, err
}

// finish ends an activation, once, and waits until it is over. One that is not lost is handed over if the member stops
// or is drained, and freed otherwise. With a room it takes its turn there.
func (m *Member) finish(ctx context.Context, a *activation, why error, r *hands) {
	m.mu.Lock()
	first := !a.ending
	a.ending = true
	m.mu.Unlock()
	if !first {
		<-a.over
		return
	}
	m.conclude(ctx, a, why, r)
}

// conclude is finish for an activation that is marked as ending.
func (m *Member) conclude(ctx context.Context, a *activation, why error, r *hands) {
	select {
	case <-a.began:
	default:
		a.cancel(why) // it need not be begun any more
		<-a.began
	}
	if a.err != nil {
		<-a.over
		return
	}
	m.letGo(a)
	defer r.enter()()
	m.deactivate(a, why)
	e := Event{What: ActivationEnded, Incarnation: a.life.number, Identity: a.Identity, Token: m.seen(a).Token}
	switch err := a.life.Check(); {
	case errors.Is(why, ErrLost):
		e.What, e.Err = ActivationLost, why
	case err != nil:
		e.What, e.Err = ActivationLost, err
	default:
		e.Peer, e.Err = m.release(ctx, a, why)
	}
	m.forget(a, why)
	m.emit(e)
}

// release gives an activation away, and returns to which member, if it was handed over.
func (m *Member) release(ctx context.Context, a *activation, why error) (to string, err error) {
	if errors.Is(why, errStopped) || errors.Is(why, errDrained) || errors.Is(why, errMoved) {
		h, id := m.hold(a), rand.Text()
		err := m.insist(ctx, func(ctx context.Context) error {
			o, err := m.provider.Transfer(ctx, a.Kind, a.ID, contracts.ActivationTransferRequest{
				Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken, RequestID: id,
			})
			to = o.Activation.Member
			return err
		}, contracts.CodeNoEligibleMember, contracts.CodeTopologyUndetermined)
		if err == nil || errors.Is(err, contracts.CodeStaleToken) {
			return to, nil // a token of the next owner, if the response to the transfer was lost
		}
		m.mu.Lock()
		if a.life.stays != nil { // what it needs is here alone, for instance
			a.life.stays[a.Identity] = struct{}{}
		}
		m.mu.Unlock()
	}
	return "", m.insist(ctx, func(ctx context.Context) error { return m.free(ctx, a, why.Error()) })
}

// Deactivate ends an activation that the member has, for a reason: the identity is free, and keeps its state. It is no
// error if the member does not have it.
func (m *Member) Deactivate(ctx context.Context, id Identity, why string) error {
	if err := m.ready(); err != nil {
		return err
	}
	m.mu.Lock()
	a := m.acts[id]
	m.mu.Unlock()
	if a == nil {
		return nil
	}
	// What was begun is ended also when the caller does not wait for it: no request may come late that frees a later
	// activation.
	reason := errors.New(why) //nolint:err113 // the text is the caller's
	m.spawn(a.life, func() { m.finish(a.life.Context(), a, reason, nil) })
	select {
	case <-a.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WriteState stores the state of an activation that the member has, in place of the one that it knows. The provider
// makes sure that the token is the current one. If it is not, the activation is lost, and the error an [ErrLost]. While
// the provider cannot be reached, it is tried again until ctx ends; then it is unknown which of the two states is
// stored.
func (m *Member) WriteState(ctx context.Context, id Identity, state []byte) error {
	return m.alter(ctx, id, func(ctx context.Context, a *activation) error { return m.store(ctx, a, state, nil) })
}

// alter changes what the provider keeps of an identity that the member has.
func (m *Member) alter(ctx context.Context, id Identity, change func(context.Context, *activation) error) error {
	m.mu.Lock()
	a := m.acts[id]
	m.mu.Unlock()
	if a == nil || a.life.Check() != nil {
		return fmt.Errorf("%w: %s/%s is not active here", ErrLost, id.Kind, id.ID)
	}
	return m.alterOf(ctx, a, change)
}

// alterOf is alter for an activation. Its changes are made one at a time, and their context ends with the
// incarnation. If the provider says that it is not the member's, it is lost.
func (m *Member) alterOf(ctx context.Context, a *activation, change func(context.Context, *activation) error) error {
	select {
	case a.changing <- struct{}{}:
		defer func() { <-a.changing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.life.Context(), func() { cancel(context.Cause(a.life.Context())) })()
	err := change(ctx, a)
	for _, c := range []contracts.Code{contracts.CodeStaleToken, contracts.CodeNotOwner, contracts.CodeWrongPhase} {
		if errors.Is(err, c) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
			m.lose(a, err)
		}
	}
	return err
}

// store stores a state, with an alarm if that is not nil, over one of which it is unknown whether it was stored, too.
func (m *Member) store(ctx context.Context, a *activation, state []byte, alarm *time.Time) error {
	h := m.hold(a)
	r := contracts.ActivationStateRequest{
		Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken, RequestID: rand.Text(),
		StateVersion: m.seen(a).StateVersion, State: state,
	}
	if alarm != nil {
		r.Alarm = m.alarmChange(a, *alarm)
	}
	unsure := false
	send := func() error {
		return m.insist(ctx, func(ctx context.Context) error {
			_, err := m.provider.WriteState(ctx, a.Kind, a.ID, r)
			unsure = unsure || err != nil && !lease.Final(err)
			return err
		})
	}
	err := send()
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeStateChanged && e.Activation != nil &&
		(a.unsure || e.Activation.StateVersion == r.StateVersion) {
		r.RequestID, r.StateVersion, unsure = rand.Text(), e.Activation.StateVersion, false
		if r.Alarm != nil {
			r.Alarm.AlarmVersion, r.Alarm.AlarmNextAt = e.Activation.AlarmVersion, e.Activation.AlarmNextAt
		}
		err = send()
	}
	if err != nil {
		a.unsure = a.unsure || unsure
		return err
	}
	a.unsure = false
	m.mu.Lock()
	defer m.mu.Unlock()
	a.State, a.StateVersion = state, r.StateVersion+1
	if r.Alarm != nil {
		a.alarmIs(*r.Alarm)
	}
	return nil
}

// lose ends an activation that another member has.
func (m *Member) lose(a *activation, cause error) {
	a.cancel(cause)
	m.spawn(a.life, func() { m.finish(a.life.Context(), a, cause, nil) })
}
