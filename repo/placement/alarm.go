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
// whose ID begins with a time, so that the due ones are the first of a list:
//
//	activation room/lobby: alarm_at 09:00, alarm_next 09:00     entry "09:00:00/room/lobby"
//	          │ fired at 09:00, by whoever looks
//	activation room/lobby: alarm_at 09:00, alarm_next 09:00:10  entry "09:00:10/room/lobby"
//	          │ its owner has carried it out
//	activation room/lobby: no alarm                             entry "09:00:10/room/lobby", removed by a look
//
// Both are written in one step, so that an alarm that waits always has the entry of its alarm_next. An entry of another
// time is of an alarm that was replaced or cleared: who sets one need not know the one before. A look removes it when
// its time has come. An alarm stays, and is fired again after longer and longer pauses, until its owner clears it.
//
// Entries are documents of their cluster, which a step demands. Which clusters have any is said by a document of no
// tenant for each, written before the first alarm of an incarnation that comes through a process.

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
	fAlarmNext    = "alarm_next"    // when it is fired next: that of its entry
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

// SetAlarm sets the alarm of an activation, in place of any that it has, or clears it, in the same step that makes sure
// of the owner. At its time, or soon after, the member that has the identity then is told; if none has it, one on which
// it is placed is given it. That is repeated, after pauses that grow from 10 s to 10 minutes, until the owner clears
// the alarm or sets another one.
type SetAlarm struct {
	Hold

	Version int64     // AlarmVersion of what is replaced; 0 if there was none yet
	At      time.Time // whole milliseconds; one in the past is due at once; the zero time clears the alarm

	locked time.Time // the lock phase lasts until then, and it is in that; otherwise it is ACTIVE
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c SetAlarm) Validate() error {
	err := first(c.validate(), field.Range("alarm_version", c.Version, 0, docstore.MaxInt-1))
	if err == nil && !c.At.IsZero() && (c.At.Unix() < 0 || c.At.UTC().Year() > 9999 || c.At.Nanosecond()%1e6 != 0) {
		err = field.Errorf("alarm_at", "is %v: must be a time from 1970 to 9999, in whole milliseconds", c.At)
	}
	return err
}

func (c SetAlarm) phase() Phase {
	if c.locked.IsZero() {
		return Active
	}
	return Locked
}

// Write applies while the alarm is of the version that was named.
func (c SetAlarm) Write() docstore.Write {
	version := docstore.Cond(docstore.Eq{Field: fAlarmVersion, Value: docstore.Int(c.Version)})
	if c.Version == 0 {
		version = docstore.Not{Cond: docstore.Has{Field: fAlarmVersion}}
	}
	w := docstore.Write{
		Key:   c.key(),
		If:    append(c.held(c.phase()), version),
		Set:   map[string]docstore.Value{fAlarmVersion: docstore.Int(c.Version + 1)},
		Add:   map[string]int64{fRev: 1},
		Unset: []string{fAlarmTries},
	}
	if c.At.IsZero() {
		w.Unset = append(w.Unset, fAlarmAt, fAlarmNext)
	} else {
		w.Set[fAlarmAt], w.Set[fAlarmNext] = docstore.FormatTime(c.At), docstore.FormatTime(c.At)
	}
	return w
}

// Known is what is known of the document beforehand.
func (c SetAlarm) Known() docstore.Doc {
	d := c.known(c.phase())
	if !c.locked.IsZero() {
		d[fLockUntil] = docstore.FormatTime(c.locked)
	}
	return d
}

// Granted is the activation with its new alarm.
func (c SetAlarm) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery by what it has set.
func (c SetAlarm) Refusal(a Activation, w rule.When) Outcome {
	o := c.refused(a, w, false)
	switch {
	case o.Code != WrongPhase || a.Phase == Free:
	case a.AlarmVersion == c.Version+1 && a.AlarmAt.Equal(c.At):
		o.Code, o.Replayed, o.Detail = OK, true, ""
	case a.AlarmVersion != c.Version:
		o.Code, o.Detail = StateChanged, "the alarm has version "+strconv.FormatInt(a.AlarmVersion, 10)
	}
	return o
}

// SetAlarm sets or clears the alarm of an activation; see [SetAlarm]. One request to the store: a step of two writes to
// set, of one to clear. One more in the lock phase; and two or three more for the first alarm of an incarnation that
// comes through this Service, which says that the cluster has alarms. The codes of rejections are StaleToken, NotOwner,
// WrongPhase and StateChanged. A time further away than [Options.Retention] is a [field.Error].
func (s *Service) SetAlarm(ctx context.Context, c SetAlarm) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	if c.At.Sub(s.storeTime()) > s.retention {
		return Outcome{}, field.Errorf("alarm_at", "is %v: %v away at most, for which this server keeps what no one uses",
			c.At.UTC().Format(time.RFC3339), s.retention)
	}
	if c.At.IsZero() {
		return s.changeAlarm(ctx, c)
	}
	known := s.alarmed(c.Cluster, c.Owner)
	said := known
	if !known {
		// before the alarm, so that none is there which no one looks for; not for what is no member, who says so
		t, err := s.Topology(ctx, c.Cluster)
		if err != nil {
			return Outcome{}, err
		}
		if said = t.Live(c.Owner); said {
			if err := s.sayAlarmed(ctx, c.Cluster, c.Owner); err != nil {
				return Outcome{}, err
			}
		}
	}
	o, err := s.changeAlarm(ctx, c, c.subject().alarmEntryWrite(c.At, c.Token))
	if err != nil || o.Code != OK || known {
		return o, err
	}
	if !said {
		if err := s.sayAlarmed(ctx, c.Cluster, c.Owner); err != nil {
			return Outcome{}, err
		}
	}
	s.knowAlarmed(c.Cluster, c.Owner)
	return o, nil
}

// changeAlarm writes what an alarm is, with its entry. What is in its lock phase says so in the refusal.
func (s *Service) changeAlarm(ctx context.Context, c SetAlarm, beside ...docstore.Write) (Outcome, error) {
	for range maxTries {
		o, _, err := rule.RunJoint(ctx, s.store, s.now, c, beside...)
		if err != nil {
			return Outcome{}, err
		}
		s.learn(o.At)
		a := o.Activation
		if o.Code != WrongPhase || a.Phase == Free || a.Phase == c.phase() {
			return o, nil
		}
		c.locked = a.LockUntil // zero where it is ACTIVE by now
	}
	return Outcome{}, s.busy(c.subject())
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
