package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

// Alarmer is a [Host] whose identities can have alarms, see [Member.SetAlarm].
type Alarmer interface {
	Host

	// Alarm is called at the time that was set, or soon after, on the member that has the identity then; if none has it,
	// one is given it. The alarm is cleared when Alarm returns nil, unless it has set another one. After an error, or a
	// panic, and when the process died, it is called again, after pauses that grow from 10 s to 10 minutes: more than once
	// is possible, never before the time. It has the turn of the identity ([Held.Turn]), so it waits for other work that
	// takes turns, and must not ask for one itself. ctx ends with the activation, and after [Options.AlarmWithin].
	Alarm(ctx context.Context, a Activation) error
}

// ErrNoAlarm is the error of [Member.SetAlarm] where the host is no [Alarmer].
var ErrNoAlarm = errors.New("the host has no method Alarm")

// alarmWithin is the time that a host has for an alarm.
const alarmWithin = time.Minute

// errAlarmSlow is the cause with which the context of an alarm ends that takes too long.
var errAlarmSlow = errors.New("Alarm did not return in time")

// alarmState is what a member knows of the alarm of an activation, with its lock. It alone sets it, under its token.
type alarmState struct {
	version int64
	next    contracts.RequestTime // when it is fired next, as far as the member knows; empty for none
	fired   bool                  // it is due
	called  bool                  // [Alarmer.Alarm] is under way, or waits for its turn
}

// SetAlarm sets the alarm of an activation that the member has, in place of the one that it has; the zero time clears
// it. The host is called at that time, which is read in whole milliseconds, or soon after: see [Alarmer]. That survives
// the activation, and the member. A time in the past is due at once. One that is further away than the provider keeps
// what no one uses (30 days, unless it is set up otherwise) is refused, with INVALID_ARGUMENT.
//
// The error is an [ErrLost] if the activation is lost. While the provider cannot be reached, it is tried again until
// ctx ends; then it is unknown which of the two alarms is set.
func (m *Member) SetAlarm(ctx context.Context, id Identity, at time.Time) error {
	if _, ok := m.host.(Alarmer); !ok {
		return ErrNoAlarm
	}
	return m.alter(ctx, id, func(ctx context.Context, a *activation) error { return m.setAlarm(ctx, a, at) })
}

// WriteStateAndAlarm is [Member.WriteState] and [Member.SetAlarm] in one request: both are stored, or neither. So an
// identity that says in its state what it waits for is called for that, whatever dies.
func (m *Member) WriteStateAndAlarm(ctx context.Context, id Identity, state []byte, at time.Time) error {
	if _, ok := m.host.(Alarmer); !ok {
		return ErrNoAlarm
	}
	return m.alter(ctx, id, func(ctx context.Context, a *activation) error { return m.store(ctx, a, state, &at) })
}

// alarmChange is what makes the alarm of an activation one for a time, over the one that the member knows.
func (m *Member) alarmChange(a *activation, at time.Time) *contracts.AlarmChange {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := contracts.AlarmChange{AlarmVersion: a.alarm.version, AlarmNextAt: a.alarm.next}
	if !at.IsZero() {
		c.AlarmAt = at.Truncate(time.Millisecond).UTC().Format(contracts.TimeFormat)
	}
	return &c
}

// alarmIs takes a change of the alarm that was made, with the member's lock.
func (a *activation) alarmIs(c contracts.AlarmChange) {
	a.Alarm, _ = time.Parse(contracts.TimeFormat, c.AlarmAt) // none is the zero time
	a.alarm.version, a.alarm.next, a.alarm.fired = c.AlarmVersion+1, c.AlarmAt, false
}

// setAlarm sends an alarm to the provider. Where that has another version than the member knows, a response was lost.
func (m *Member) setAlarm(ctx context.Context, a *activation, at time.Time) error {
	h, c := m.hold(a), m.alarmChange(a, at)
	send := func() error {
		return m.insist(ctx, func(ctx context.Context) error {
			_, err := m.provider.SetAlarm(ctx, a.Kind, a.ID, contracts.ActivationAlarmRequest{
				Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken,
				AlarmVersion: c.AlarmVersion, AlarmAt: c.AlarmAt, AlarmNextAt: c.AlarmNextAt,
			})
			return err
		})
	}
	err := send()
	if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeStateChanged && e.Activation != nil {
		c.AlarmVersion, c.AlarmNextAt = e.Activation.AlarmVersion, e.Activation.AlarmNextAt
		err = send()
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a.alarmIs(*c)
	return nil
}

// knowAlarm takes what the provider says of an alarm, with the member's lock.
func (a *activation) knowAlarm(got contracts.Activation) {
	a.Alarm, _ = time.Parse(contracts.TimeFormat, got.AlarmAt) // none is the zero time
	a.alarm.version, a.alarm.next, a.alarm.fired = got.AlarmVersion, got.AlarmNextAt, got.AlarmTries > 0
}

// rings is what a member does when it is told that an alarm is due: it asks whether that is so still.
func (m *Member) rings(a *activation, room chan struct{}) {
	select {
	case <-a.began:
	case <-a.life.Context().Done():
		return
	}
	select {
	case a.changing <- struct{}{}:
	case <-a.ctx.Done():
		return
	}
	select {
	case room <- struct{}{}:
	case <-a.ctx.Done():
		<-a.changing
		return
	}
	got, locked, err := m.record(a)
	<-room
	m.mu.Lock()
	if err == nil && !locked && got.FencingToken == a.Token {
		a.knowAlarm(got)
	}
	m.mu.Unlock()
	<-a.changing
	m.ring(a)
}

// ring calls the host for an alarm that is due, if that is not under way.
func (m *Member) ring(a *activation) {
	m.mu.Lock()
	begins := a.alarm.fired && !a.alarm.called && !a.ending && a.err == nil
	if begins {
		a.alarm.called = true
		a.holds++
	}
	held := &Held{Activation: a.Activation, m: m, a: a}
	m.mu.Unlock()
	if !begins {
		return
	}
	defer func() {
		m.mu.Lock()
		a.alarm.called = false
		m.mu.Unlock()
		held.Release()
	}()
	end, err := held.turn(a.ctx, a.closing, 0)
	if err != nil {
		return // it is ended, and the alarm is the next owner's
	}
	m.mu.Lock()
	known, state := a.Activation, a.alarm
	m.mu.Unlock()
	if !state.fired { // another one was set meanwhile
		end()
		return
	}
	begun := time.Now()
	ok, err := m.callAlarm(a, known)
	end()
	e := Event{What: Alarmed, Incarnation: a.life.number, Identity: a.Identity, Token: known.Token,
		Took: time.Since(begun), Lag: max(0, begun.Sub(known.Alarm)), Err: err}
	switch {
	case !ok:
		return
	case err != nil:
		e.What = AlarmFailed
		m.reportAlarm(a, state.version, err)
	default:
		e.Err = m.clearAlarm(a, state.version)
	}
	m.emit(e)
}

// callAlarm calls the host, whose time is bounded. ok is false for a call that was abandoned. A panic is an error.
func (m *Member) callAlarm(a *activation, known Activation) (ok bool, err error) {
	host, is := m.host.(Alarmer)
	if !is {
		return true, ErrNoAlarm
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, m.o.AlarmWithin, fmt.Errorf("%w: %v", errAlarmSlow, m.o.AlarmWithin))
	defer cancel()
	return m.await(a, "Alarm", called(func() error { return host.Alarm(ctx, known) }), ctx.Done())
}

// reportAlarm tells the events of the cluster of a call for an alarm that failed.
func (m *Member) reportAlarm(a *activation, version int64, cause error) {
	ctx, cancel := context.WithTimeout(a.life.Context(), hold.CallTime)
	defer cancel()
	h := m.hold(a)
	e := Event{Incarnation: a.life.number, Identity: a.Identity, Token: h.FencingToken}
	m.carryOut(ctx, e, "alarm that failed", func(ctx context.Context) error {
		_, err := m.provider.SetAlarm(ctx, a.Kind, a.ID, contracts.ActivationAlarmRequest{
			Member: h.Member, Incarnation: h.Incarnation, FencingToken: h.FencingToken, AlarmVersion: version,
			Failed: reason(cause.Error()),
		})
		return err
	})
}

// clearAlarm clears an alarm that was carried out, unless another one has been set.
func (m *Member) clearAlarm(a *activation, version int64) error {
	return m.alterOf(a.life.Context(), a, func(ctx context.Context, a *activation) error {
		m.mu.Lock()
		same := a.alarm.version == version
		m.mu.Unlock()
		if !same {
			return nil
		}
		return m.setAlarm(ctx, a, time.Time{})
	})
}
