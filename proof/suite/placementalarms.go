package suite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/placement"
)

// alarmOracle is the alarm of an activation.
type alarmOracle struct {
	at, next time.Time // zero for none
	entry    time.Time // of the entry by which it is found, also when it was cleared; zero for none
	tries    int64
	version  int64
}

// set makes it the alarm of a command. It has an entry that is not later: the one that there is, if the caller knows
// that its alarm is set for later than the one before, and if that entry has not moved on.
func (o *placementOracle) set(a *activationOracle, c placementCommand) {
	entry := a.alarm.entry
	kept := !c.next.IsZero() && !c.at.Before(c.next) && !entry.IsZero() && !c.at.Before(entry)
	if !c.at.IsZero() && !kept {
		entry = c.at
		o.entries[entryOf(c.at, c.id)] = true
	}
	a.alarm = alarmOracle{at: c.at, next: c.at, entry: entry, version: c.alarmVersion + 1}
}

// alarmEntry is what a look finds: in which second an alarm of an identity may be due.
type alarmEntry struct {
	second int64
	id     string
}

func entryOf(at time.Time, id string) alarmEntry { return alarmEntry{at.Unix(), id} }

// setAlarm is the answer to a command that sets an alarm, or clears it.
func (o *placementOracle) setAlarm(a *activationOracle, c placementCommand, held string) placementAnswer {
	switch {
	case held != "OK":
		return placementAnswer{Code: held}
	case a.alarm.version == c.alarmVersion:
		o.set(a, c)
	case a.alarm.version == c.alarmVersion+1 && a.alarm.at.Equal(c.at):
		return placementAnswer{Code: "OK", Replayed: true, Token: c.token, Phase: a.phase}
	default:
		return placementAnswer{Code: "STATE_CHANGED"}
	}
	return placementAnswer{Code: "OK", Token: c.token, Phase: a.phase}
}

// fire is a look for alarms. It returns the identities that are given to a member.
func (o *placementOracle) fire(now time.Time) (given []string) {
	var due []alarmEntry
	for e := range o.entries {
		if e.second <= now.Unix() {
			due = append(due, e)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if o.evict(now); !o.ready() {
		return nil
	}
	slices.SortFunc(due, func(a, b alarmEntry) int {
		return cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.id, b.id))
	})
	seen := map[string]bool{}
	for _, e := range due {
		a := o.activation(e.id)
		if seen[e.id] {
			continue
		}
		seen[e.id] = true
		switch {
		case a.alarm.entry.IsZero() || entryOf(a.alarm.entry, e.id) != e:
			delete(o.entries, e)
			continue
		case a.alarm.next.IsZero():
			delete(o.entries, e)
			a.alarm.entry = time.Time{}
			continue
		case a.alarm.next.After(now):
			if moved := entryOf(a.alarm.next, e.id); moved != e {
				delete(o.entries, e)
				o.entries[moved], a.alarm.entry = true, a.alarm.next
			}
			continue
		}
		pauses := []int{10, 20, 40, 80, 160, 320, 600}
		pause := pauses[min(int(a.alarm.tries), len(pauses)-1)]
		a.alarm.next, a.alarm.tries = now.Add(time.Duration(pause)*time.Second), a.alarm.tries+1
		delete(o.entries, e)
		o.entries[entryOf(a.alarm.next, e.id)], a.alarm.entry = true, a.alarm.next
		alive, placed := o.alive(a), o.place(e.id)
		switch {
		case alive != nil && a.phase == "ACTIVE":
			o.event(a.owner, e.id, "ACTIVE")
		case alive != nil && now.Before(a.until), placed == nil:
		default:
			a.token = anew
			a.owner, a.phase, a.until, a.failed, a.reason, a.changed = placed.Incarnation, "LOCKED",
				now.Add(placement.DefaultLockTTL), false, "", now
			a.claims.add(fmt.Sprint("alarm ", now), "")
			o.event(a.owner, e.id, "LOCKED")
			given = append(given, e.id)
		}
	}
	return given
}

// fire carries out a look for alarms, and learns the tokens of what it gave to members.
func (r *placementRun) fire(ctx context.Context, s PlacementStep) error {
	now := r.clock.Now()
	given := r.oracle.fire(now)
	r.lossy.lose = s.Lost
	done, err := r.via[s.Via].FireAlarms(ctx)
	r.lossy.lose = 0
	if err != nil || done.Errors > 0 || done.More {
		return fmt.Errorf("a look for alarms: %+v: %w", done, err)
	}
	all, err := placement.New(r.lossy.Store, nil).Snapshot(ctx, r.cluster, placement.Query{})
	if err != nil {
		return err
	}
	for _, a := range all.Activations {
		if !slices.Contains(given, a.ID) {
			continue
		}
		what := "activation " + a.ID
		if a.Token <= r.last[what] || a.Token <= now.Add(-time.Second).UnixMicro() {
			return fmt.Errorf("%s has token %d after %d at %s", what, a.Token, r.last[what], written(now))
		}
		r.last[what], r.oracle.activation(a.ID).token = a.Token, a.Token
		r.note(what, a.Token)
	}
	return nil
}

// compareAlarms asks that an alarm which is set has an entry that is not later, as the oracle has them.
func (r *placementRun) compareAlarms(a placement.Activation) error {
	w := r.oracle.activation(a.ID).alarm
	if !a.AlarmAt.Equal(w.at) || !a.AlarmNext.Equal(w.next) || a.AlarmTries != w.tries || a.AlarmVersion != w.version {
		return fmt.Errorf("the store has the alarm %v, version %d, %d tries, want %+v", a.AlarmAt, a.AlarmVersion,
			a.AlarmTries, w)
	}
	if !w.next.IsZero() && (w.entry.After(w.next) || !r.oracle.entries[entryOf(w.entry, a.ID)]) {
		return fmt.Errorf("nothing finds the alarm of %s: %v", a.ID, slices.Collect(maps.Keys(r.oracle.entries)))
	}
	return nil
}
