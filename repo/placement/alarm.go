package placement

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// # Alarms
//
// An activation has one alarm at most: a time, in its document. What finds those that are due is an entry, a document
// whose ID begins with a time, so that the due ones are the first of a list. An alarm has an entry that is not later
// than it, and its document says of which time. So one that is set for later needs no other entry:
//
//	activation room/lobby: alarm 09:00, entry 09:00      entry "09:00:00/room/lobby"
//	          │ set for later, as often as its owner likes
//	activation room/lobby: alarm 09:30, entry 09:00
//	          │ a look at 09:00 moves the entry on
//	activation room/lobby: alarm 09:30, entry 09:30      entry "09:30:00/room/lobby"
//	          │ fired at 09:30, by whoever looks
//	activation room/lobby: next 09:30:10, entry 09:30:10  entry "09:30:10/room/lobby"
//	          │ its owner has carried it out
//	activation room/lobby: no alarm, entry 09:30:10       both are removed by a look at 09:30:10
//
// An alarm that is set for earlier than its entry gets one of its own, in the same step; a look removes the other when
// its time has come. An alarm stays, and is fired again after longer and longer pauses, until its owner clears it.
//
// Entries are documents of their cluster, which a step demands. Which clusters have any is said by a document of no
// tenant for each, written before the first entry of an incarnation that comes through a process.

const (
	alarmKind   = "placement_alarms"         // the entries
	alarmedKind = "placement_alarm_clusters" // which clusters have some

	entryID = "2006-01-02T15:04:05Z" // what IDs of entries begin with: whole seconds, earlier than the time
)

// alarmPauses are those between two firings of an alarm.
const (
	firstAlarmPause = 10 * time.Second
	maxAlarmPause   = 10 * time.Minute
)

// alarmPause is how long an alarm waits that has been fired so often before.
func alarmPause(tries int64) time.Duration {
	return min(firstAlarmPause<<min(max(tries, 0), 6), maxAlarmPause)
}

// Fields of the document of an activation that has, or had, an alarm.
const (
	fAlarmAt      = "alarm_at"
	fAlarmNext    = "alarm_next"    // when it is fired next
	fAlarmEntry   = "alarm_entry"   // of which time its entry is, also when it was cleared; not later than alarm_next
	fAlarmTries   = "alarm_tries"   // how often it was fired
	fAlarmVersion = "alarm_version" // how often one was set or cleared
)

// alarmless holds for activations without an alarm.
var alarmless = docstore.Not{Cond: docstore.Has{Field: fAlarmAt}}

// alarmEntry is the entry by which an alarm is found at a time.
func (s subject) alarmEntry(at time.Time) docstore.Key {
	return docstore.Key{Kind: alarmKind, Tenant: s.space(), ID: at.UTC().Format(entryID) + "/" + s.Kind + "/" + s.ID}
}

// alarmEntryWrite writes it, with the token of the activation, which says of which life of the identity it is.
func (s subject) alarmEntryWrite(at time.Time, token int64) docstore.Write {
	return docstore.Write{Key: s.alarmEntry(at), Set: map[string]docstore.Value{fToken: docstore.Int(token)}}
}

// AlarmChange is what an owner makes of the alarm of its activation.
type AlarmChange struct {
	Version int64     // AlarmVersion of what is replaced; 0 if there was none yet
	At      time.Time // whole milliseconds; one in the past is due at once; the zero time clears the alarm

	// Next is AlarmNext of the activation, as the owner knows it. An alarm for that time or later takes one write of one
	// document. Zero, if there is none or it is not known, and if it was wrong, costs what an entry costs.
	Next time.Time
}

func (c AlarmChange) validate() error {
	err := field.Range("alarm_version", c.Version, 0, docstore.MaxInt-1)
	if err == nil && !c.At.IsZero() && (c.At.Unix() < 0 || c.At.UTC().Year() > 9999 || c.At.Nanosecond()%1e6 != 0) {
		err = field.Errorf("alarm_at", "is %v: must be a time from 1970 to 9999, in whole milliseconds", c.At)
	}
	return err
}

// alarmStep is how an alarm is changed: in one write of the activation, or in a step with an entry. That does not
// return the document on every store, so it says which phase it is in.
type alarmStep struct {
	joint  bool
	locked time.Time // of a joint one: the lock phase lasts until then; zero: it is ACTIVE
}

func (p alarmStep) phase() Phase {
	if p.locked.IsZero() {
		return Active
	}
	return Locked
}

// phases are those in which the change applies.
func (p alarmStep) phases() []Phase {
	if p.joint {
		return []Phase{p.phase()}
	}
	return []Phase{Locked, Active}
}

// known is what the condition of a joint step says of the document.
func (p alarmStep) known(h Hold, c AlarmChange) docstore.Doc {
	d := h.known(p.phase())
	if !p.locked.IsZero() {
		d[fLockUntil] = docstore.FormatTime(p.locked)
	}
	if c.Version > 0 {
		d[fAlarmVersion] = docstore.Int(c.Version)
	}
	return d
}

// change adds the alarm to a write of its activation.
func (p alarmStep) change(w docstore.Write, c AlarmChange) docstore.Write {
	w.If = docstore.All{w.If, counted(fAlarmVersion, c.Version)}
	w.Set[fAlarmVersion] = docstore.Int(c.Version + 1)
	w.Unset = append(w.Unset, fAlarmTries)
	at := docstore.FormatTime(c.At)
	switch {
	case c.At.IsZero():
		w.Unset = append(w.Unset, fAlarmAt, fAlarmNext)
		return w
	case p.joint:
		w.Set[fAlarmEntry] = at
	default:
		w.If = docstore.All{w.If, docstore.LE{Field: fAlarmEntry, Value: at}}
	}
	w.Set[fAlarmAt], w.Set[fAlarmNext] = at, at
	return w
}

// refused says why an alarm was not changed, where all else holds. Its code is empty if it is to be tried in another
// step.
func (p alarmStep) refused(o Outcome, a Activation, c AlarmChange) Outcome {
	switch {
	case a.AlarmVersion != c.Version:
		o.Code, o.Detail = StateChanged, "the alarm has version "+strconv.FormatInt(a.AlarmVersion, 10)
	case !c.At.IsZero():
		o.Code = ""
	}
	return o
}

// counted holds while a field that counts has a value; it is missing until then.
func counted(name string, n int64) docstore.Cond {
	if n == 0 {
		return docstore.Not{Cond: docstore.Has{Field: name}}
	}
	return docstore.Eq{Field: name, Value: docstore.Int(n)}
}

// SetAlarm sets the alarm of an activation, in place of any that it has, or clears it, in the same step that makes sure
// of the owner. At its time, or soon after, the member that has the identity then is told; if none has it, one on which
// it is placed is given it. That is repeated, after pauses that grow from 10 s to 10 minutes, until the owner clears
// the alarm or sets another one. [WriteState] can do it together with a state.
type SetAlarm struct {
	Hold
	AlarmChange

	step alarmStep
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c SetAlarm) Validate() error { return first(c.Hold.validate(), c.AlarmChange.validate()) }

// Write applies while the alarm is of the version that was named.
func (c SetAlarm) Write() docstore.Write {
	return c.step.change(docstore.Write{
		Key: c.key(), If: c.held(c.step.phases()...), Set: map[string]docstore.Value{}, Add: map[string]int64{fRev: 1},
	}, c.AlarmChange)
}

// Known is what is known of the document beforehand.
func (c SetAlarm) Known() docstore.Doc { return c.step.known(c.Hold, c.AlarmChange) }

// Granted is the activation with its new alarm.
func (c SetAlarm) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery by what it has set.
func (c SetAlarm) Refusal(a Activation, w rule.When) Outcome {
	o := c.refused(a, w, false)
	switch {
	case o.Code != WrongPhase || a.Phase == Free:
		return o
	case a.AlarmVersion == c.Version+1 && a.AlarmAt.Equal(c.At):
		o.Code, o.Replayed, o.Detail = OK, true, ""
		return o
	default:
		return c.step.refused(o, a, c.AlarmChange)
	}
}

// SetAlarm sets or clears the alarm of an activation; see [SetAlarm]. One request to the store: a write of one document
// to clear it, or to set it for not earlier than Next, and otherwise a step of two. One more in the lock phase, and if
// Next was wrong; and two or three more for the first entry of an incarnation that comes through this Service, which
// says that the cluster has alarms. The codes of rejections are StaleToken, NotOwner, WrongPhase and StateChanged. A
// time further away than [Options.Retention] is a [field.Error].
func (s *Service) SetAlarm(ctx context.Context, c SetAlarm) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return s.changeAlarm(ctx, c.Hold, c.AlarmChange, func(p alarmStep, beside ...docstore.Write) (Outcome, error) {
		if c.step = p; !p.joint {
			return rule.Run(ctx, s.store, s.now, c)
		}
		o, _, err := rule.RunJoint(ctx, s.store, s.now, c, beside...)
		return o, err
	})
}

// changeAlarm sends the change of an alarm by steps until one decides: what is in its lock phase, or has no entry that
// is early enough, says so in the refusal.
func (s *Service) changeAlarm(ctx context.Context, h Hold, c AlarmChange,
	send func(alarmStep, ...docstore.Write) (Outcome, error)) (Outcome, error) {
	if c.At.Sub(s.storeTime()) > s.retention {
		return Outcome{}, field.Errorf("alarm_at", "is %v: %v away at most, for which this server keeps what no one uses",
			c.At.UTC().Format(time.RFC3339), s.retention)
	}
	p := alarmStep{joint: !c.At.IsZero() && (c.Next.IsZero() || c.At.Before(c.Next))}
	for range maxTries {
		var o Outcome
		var err error
		if p.joint {
			o, err = s.withEntry(ctx, h, c.At, func(entry docstore.Write) (Outcome, error) { return send(p, entry) })
		} else {
			o, err = send(p)
		}
		if err != nil {
			return Outcome{}, err
		}
		s.learn(o.At)
		if o.Code != "" {
			return o, nil
		}
		p.joint, p.locked = true, o.Activation.LockUntil // zero where it is ACTIVE by now
	}
	return Outcome{}, s.busy(h.subject())
}

// withEntry sends a step with the entry of an alarm, and has looks find the cluster.
func (s *Service) withEntry(ctx context.Context, h Hold, at time.Time,
	send func(entry docstore.Write) (Outcome, error)) (Outcome, error) {
	known := s.alarmed(h.Cluster, h.Owner)
	said := known
	if !known {
		// before the alarm, so that none is there which no one looks for; not for what is no member, who says so
		t, err := s.Topology(ctx, h.Cluster)
		if err != nil {
			return Outcome{}, err
		}
		if said = t.Live(h.Owner); said {
			if err := s.sayAlarmed(ctx, h.Cluster, h.Owner); err != nil {
				return Outcome{}, err
			}
		}
	}
	o, err := send(h.subject().alarmEntryWrite(at, h.Token))
	if err != nil || o.Code != OK || known {
		return o, err
	}
	if !said {
		if err := s.sayAlarmed(ctx, h.Cluster, h.Owner); err != nil {
			return Outcome{}, err
		}
	}
	s.knowAlarmed(h.Cluster, h.Owner)
	return o, nil
}

// alarmed reports whether it is known that the store says of the cluster that it has alarms, in the life in which this
// incarnation is a member: those of later lives have higher numbers.
func (s *Service) alarmed(c Cluster, i Incarnation) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return i.Number <= s.alarmedBy[c]
}

func (s *Service) knowAlarmed(c Cluster, i Incarnation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmedBy[c] = max(s.alarmedBy[c], i.Number)
}

func (c Cluster) alarmed() docstore.Key { return docstore.Key{Kind: alarmedKind, ID: c.space()} }

// sayAlarmed has looks for alarms find the cluster.
func (s *Service) sayAlarmed(ctx context.Context, c Cluster, i Incarnation) error {
	_, err := s.store.Write(ctx, docstore.Write{
		Key: c.alarmed(),
		If: docstore.Any{docstore.Not{Cond: docstore.Has{Field: fIncarnation}},
			docstore.LE{Field: fIncarnation, Value: docstore.Int(i.Number - 1)}},
		Set: map[string]docstore.Value{fIncarnation: docstore.Int(i.Number)},
	}) // refused is: it says so
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	return nil
}
