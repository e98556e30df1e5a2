package placement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// alarm sets an alarm in so much time, in place of one of a version; a negative time clears it.
func (w *world) alarm(h placement.Hold, version int64, in time.Duration) placement.Outcome {
	w.Helper()
	c := placement.SetAlarm{Hold: h, AlarmChange: placement.AlarmChange{Version: version, At: w.clock.Now().Add(in)}}
	if in < 0 {
		c.At = time.Time{}
	}
	return must[placement.Outcome](w)(w.SetAlarm(w.Context(), c))
}

// fire is a look by a process that knows nothing.
func (w *world) fire() placement.Alarms {
	w.Helper()
	return must[placement.Alarms](w)(w.another().FireAlarms(w.Context()))
}

// fired are the events of alarms, of the latest first: the identity and what became of it.
func (w *world) fired() (all []string) {
	w.Helper()
	for _, e := range w.events() {
		if e.Reason == placement.AlarmDue {
			all = append(all, fmt.Sprintf("%s %s %s to %s", e.Identity.ID, e.Member.Member, e.From, e.To))
		}
	}
	return all
}

func (w *world) wantFired(want ...string) {
	w.Helper()
	if got := w.fired(); !slices.Equal(got, want) {
		w.Errorf("fired %q, want %q", got, want)
	}
}

// counts are what a look did.
func counts(a placement.Alarms) [3]int { return [3]int{a.Fired, a.Waiting, a.Removed} }

func (w *world) wantLook(fired, waiting, removed int) {
	w.Helper()
	if got := w.fire(); counts(got) != [3]int{fired, waiting, removed} || got.Errors != 0 || got.More {
		w.Errorf("a look did %+v, want %d fired, %d waiting, %d removed", got, fired, waiting, removed)
	}
}

// TestAlarmOfAnOwner: the owner is told at the time, not before, and again after longer and longer pauses until it
// clears the alarm. One that was replaced or cleared is never told.
func TestAlarmOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	o := w.alarm(h, 0, time.Minute)
	if a := o.Activation; o.Code != placement.OK || a.AlarmVersion != 1 || !a.AlarmAt.Equal(w.clock.Now().Add(time.Minute)) {
		t.Fatalf("%+v", o)
	}
	w.want(w.alarm(h, 1, 30*time.Second+500*time.Millisecond).Code, placement.OK) // in place of the first
	w.clock.Advance(30*time.Second + 499*time.Millisecond)
	w.wantLook(0, 0, 0)
	w.clock.Advance(time.Millisecond)
	if got := w.fire(); got.Fired != 1 || len(got.Late) != 1 || got.Late[0] != 0 {
		t.Fatalf("%+v", got)
	}
	w.wantFired("lobby ann ACTIVE to ACTIVE")
	if a := w.lookup(room("lobby")).Activation; a.AlarmTries != 1 || a.AlarmVersion != 2 || a.Token != h.Token {
		t.Errorf("%+v", a)
	}
	w.clock.Advance(10*time.Second - time.Millisecond)
	w.wantLook(0, 0, 0)
	w.clock.Advance(20*time.Second + time.Millisecond) // also the time of the first
	if got := w.fire(); counts(got) != [3]int{1, 0, 0} || len(got.Late) != 0 {
		t.Errorf("%+v", got)
	}
	w.wantLook(0, 0, 1) // what is left of the first
	for i, seconds := range []int{20, 40, 80, 160, 320, 600, 600} {
		w.clock.Advance(time.Duration(seconds)*time.Second - time.Millisecond)
		w.wantLook(0, 0, 0)
		w.clock.Advance(time.Millisecond)
		w.wantLook(1, 0, 0)
		if got := w.lookup(room("lobby")).Activation.AlarmTries; got != int64(i)+3 {
			t.Errorf("%d tries after %d pauses", got, i+2)
		}
	}
	w.want(w.alarm(h, 2, -1).Code, placement.OK)
	if a := w.lookup(room("lobby")).Activation; !a.AlarmAt.IsZero() || a.AlarmTries != 0 || a.AlarmVersion != 3 {
		t.Errorf("%+v", a)
	}
	w.clock.Advance(10 * time.Minute)
	w.wantLook(0, 0, 1) // its entry
	if n := w.kinds("placement_alarms"); len(n) != 0 {
		t.Errorf("left: %v", n)
	}
}

// TestAlarmOfNoOwner: an identity that no one has is given to the member on which it is placed, by its needs; so is
// what a dead member had.
func TestAlarmOfNoOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.Labels = map[string]string{"zone": "a"} })
	w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	o := w.claim(room("lobby"), func(c *placement.Claim) { c.Labels = map[string]string{"zone": "a"} })
	h := w.hold(o)
	w.want(w.alarm(h, 0, time.Second).Code, placement.OK) // in its lock phase
	w.want(must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: h})).Code, placement.OK)
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: h})).Code, placement.OK)
	w.clock.Advance(time.Second)
	w.wantLook(1, 0, 0)
	w.wantFired("lobby ann FREE to LOCKED")
	a := w.lookup(room("lobby")).Activation
	if a.Phase != placement.Locked || a.Token <= h.Token || a.AlarmTries != 1 || a.Need.Labels["zone"] != "a" {
		t.Fatalf("%+v", a)
	}
	// Its owner is at work on it.
	w.clock.Advance(8 * time.Second)
	w.wantLook(0, 0, 0)
	w.clock.Advance(time.Second) // the owner is dead, and no other has the label
	w.clock.Advance(time.Second)
	w.wantLook(0, 1, 0)
	w.join("cleo", func(j *placement.Join) { j.TTL, j.Labels = time.Hour, map[string]string{"zone": "a"} })
	w.clock.Advance(20 * time.Second)
	w.wantLook(1, 0, 0)
	if got := w.lookup(room("lobby")).Activation; got.Owner.Member != "cleo" || got.Token <= a.Token {
		t.Errorf("%+v", got)
	}
	lost := 0
	for _, e := range w.events() {
		if e.Reason == "taken over from ann" {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d events say that ann lost it", lost)
	}
	w.clock.Advance(40 * time.Second) // cleo has not activated it so far
	w.wantLook(0, 1, 0)
	// A claim of before is not taken for the one of the alarm.
	again := w.claim(room("lobby"), func(c *placement.Claim) {
		c.Labels, c.RequestID = map[string]string{"zone": "a"}, "request 3"
	})
	w.want(again.Code, placement.RequestIDReused)
}

// TestAlarmOfAHungOwner: when the lock phase of a claim has ended, an alarm is fired by another claim.
func TestAlarmOfAHungOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.hold(w.claim(room("lobby"), func(c *placement.Claim) { c.LockTTL = 30 * time.Second }))
	w.want(w.alarm(h, 0, 0).Code, placement.OK)
	w.wantLook(0, 1, 0)
	w.clock.Advance(30 * time.Second)
	w.wantLook(1, 0, 0)
	w.wantFired("lobby ann LOCKED to LOCKED")
	if a := w.lookup(room("lobby")).Activation; a.Token <= h.Token {
		t.Errorf("%+v", a)
	}
}

// TestAlarmsWithoutMembers: while all members are gone alarms are left alone, and are fired when one joins.
func TestAlarmsWithoutMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann")
	for i := range 3 {
		w.want(w.alarm(w.active(room(strconv.Itoa(i))), 0, time.Second).Code, placement.OK)
	}
	w.clock.Advance(time.Hour)
	w.wantLook(0, 0, 0)
	must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	w.clock.Advance(placement.DefaultRetention) // they outlive what has no state
	must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	w.wantLook(0, 0, 0)
	w.join("bob")
	if got := w.fire(); got.Fired != 3 || got.Late[0] < time.Hour {
		t.Errorf("%+v", got)
	}
	for i := range 3 {
		if a := w.lookup(room(strconv.Itoa(i))).Activation; a.Owner.Member != "bob" || a.AlarmTries != 1 {
			t.Errorf("%+v", a)
		}
	}
}

// TestAlarmDuplicates: a command that is delivered again changes nothing; one of before, and one of no owner, is
// refused.
func TestAlarmDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	set := func(version int64, at time.Time, hold placement.Hold) placement.Outcome {
		t.Helper()
		return must[placement.Outcome](w)(w.SetAlarm(t.Context(), placement.SetAlarm{Hold: hold,
			AlarmChange: placement.AlarmChange{Version: version, At: at}}))
	}
	one, two := w.clock.Now().Add(time.Minute), w.clock.Now().Add(time.Hour)
	for i, c := range []struct {
		version  int64
		at       time.Time
		want     placement.Code
		replayed bool
	}{
		{0, one, placement.OK, false}, {0, one, placement.OK, true}, {0, two, placement.StateChanged, false},
		{1, two, placement.OK, false}, {0, one, placement.StateChanged, false}, {1, two, placement.OK, true},
		{2, time.Time{}, placement.OK, false}, {2, time.Time{}, placement.OK, true},
		{1, two, placement.StateChanged, false}, {4, one, placement.StateChanged, false}, {3, one, placement.OK, false},
	} {
		o := set(c.version, c.at, h)
		if o.Code != c.want || o.Replayed != c.replayed || c.want == placement.OK && !o.Activation.AlarmAt.Equal(c.at) {
			t.Errorf("%d: %+v, want %+v", i, o, c)
		}
	}
	stranger, late := h, h
	stranger.Owner.Number++
	late.Token--
	w.want(set(4, one, stranger).Code, placement.NotOwner)
	w.want(set(4, one, late).Code, placement.StaleToken)
	w.want(set(4, time.Time{}, late).Code, placement.StaleToken)
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: h})).Code, placement.OK)
	w.want(set(4, one, h).Code, placement.WrongPhase)
	w.want(set(4, time.Time{}, h).Code, placement.WrongPhase)
	if a := w.lookup(room("lobby")).Activation; !a.AlarmAt.Equal(one) || a.AlarmVersion != 4 {
		t.Errorf("%+v", a)
	}
}

// TestAlarmInput: one in the past is due at once; one further away than the retention is refused, and so is what is no
// time.
func TestAlarmInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	now := w.clock.Now()
	for name, c := range map[string]placement.AlarmChange{
		"too far":            {At: now.Add(placement.DefaultRetention + time.Millisecond)},
		"before 1970":        {At: time.Unix(-1, 0)},
		"year 10000":         {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"microseconds":       {At: now.Add(time.Microsecond)},
		"a negative version": {At: now, Version: -1},
	} {
		_, err := w.SetAlarm(t.Context(), placement.SetAlarm{Hold: h, AlarmChange: c})
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != "alarm_at" && e.Name != "alarm_version" {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.want(w.alarm(h, 0, placement.DefaultRetention).Code, placement.OK)
	w.want(must[placement.Outcome](w)(w.SetAlarm(t.Context(),
		placement.SetAlarm{Hold: h, AlarmChange: placement.AlarmChange{Version: 1, At: time.Unix(0, 0)}})).Code, placement.OK)
	w.wantLook(1, 0, 0)
}

// TestAlarmRoundTrips: to set or to clear an alarm is one request, as a state is; the first one of an incarnation
// through a process says before that the cluster has alarms. A look without alarms that are due is a list, and one for
// each cluster that has some.
func TestAlarmRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	look := func(want int) {
		t.Helper()
		w.store.lists = 0
		w.store.took()
		w.fire()
		if got := w.store.took(); got != [2]int{} || w.store.lists != want {
			t.Errorf("%v and %d lists, want %d", got, w.store.lists, want)
		}
	}
	look(1)
	h := w.active(room("lobby"))
	w.store.took()
	for i, want := range [][2]int{{1, 2}, {0, 1}, {0, 1}, {0, 1}} {
		w.want(w.alarm(h, int64(i), []time.Duration{time.Hour, time.Minute, -1, time.Hour}[i]).Code, placement.OK)
		if got := w.store.took(); got != want {
			t.Errorf("alarm %d took %v, want %v", i, got, want)
		}
	}
	look(2)
	other := w.hold(w.claim(room("garden")))
	w.store.took()
	w.want(w.alarm(other, 0, time.Hour).Code, placement.OK)
	if got := w.store.took(); got != [2]int{0, 2} {
		t.Errorf("in the lock phase: %v", got)
	}
}

// TestAlarmForLater: an alarm that is set for later, again and again, has one entry, and each time takes one write of
// one document, if the owner says what it knows. A look moves the entry on, and the alarm is fired at its time.
func TestAlarmForLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	a := w.alarm(h, 0, time.Minute).Activation
	set := func(in time.Duration) {
		t.Helper()
		c := placement.AlarmChange{Version: a.AlarmVersion, At: w.clock.Now().Add(in), Next: a.AlarmNext}
		o := must[placement.Outcome](w)(w.SetAlarm(t.Context(), placement.SetAlarm{Hold: h, AlarmChange: c}))
		if o.Code != placement.OK || !o.Activation.AlarmAt.Equal(c.At) || !o.Activation.AlarmNext.Equal(c.At) {
			t.Fatalf("%+v", o)
		}
		a = o.Activation
	}
	entries := func(want int) {
		t.Helper()
		if got := len(w.kinds("placement_alarms")); got != want {
			t.Errorf("%d entries, want %d", got, want)
		}
	}
	w.store.took()
	for range 50 {
		w.clock.Advance(time.Second)
		set(time.Minute)
	}
	if got := w.store.took(); got != [2]int{0, 50} {
		t.Errorf("set for later 50 times: %v", got)
	}
	entries(1)
	w.clock.Advance(10 * time.Second) // the time of the first
	w.wantLook(0, 0, 1)
	entries(1)
	w.wantLook(0, 0, 0)
	set(30 * time.Second) // earlier than the entry
	entries(2)
	w.want(w.alarm(h, a.AlarmVersion, -1).Code, placement.OK)
	w.store.took()
	a = w.lookup(room("lobby")).Activation
	a.AlarmNext = w.clock.Now() // as if it knew of one
	w.store.took()
	set(40 * time.Second)
	if got := w.store.took(); got != [2]int{0, 1} { // by the entry of the one that was cleared
		t.Errorf("set again: %v", got)
	}
	entries(2)
	w.clock.Advance(39 * time.Second)
	w.wantLook(0, 0, 1)
	w.clock.Advance(time.Second)
	w.wantLook(1, 0, 0)
	w.wantFired("lobby ann ACTIVE to ACTIVE")

	// What was fired is found by when it is fired next: a wrong word of that costs a request.
	a = w.lookup(room("lobby")).Activation
	if !a.AlarmNext.Equal(w.clock.Now().Add(10 * time.Second)) {
		t.Errorf("%+v", a)
	}
	for i, c := range []struct {
		next, in time.Duration
		want     [2]int
	}{{-time.Minute, time.Second, [2]int{0, 2}}, {time.Second, 10 * time.Minute, [2]int{0, 1}}} {
		a.AlarmNext = w.clock.Now().Add(c.next)
		w.store.took()
		set(c.in)
		if got := w.store.took(); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
	for range 10 {
		w.clock.Advance(time.Minute)
		w.fire()
	}
	w.clock.Advance(time.Second)
	w.fire()
	w.wantFired("lobby ann ACTIVE to ACTIVE", "lobby ann ACTIVE to ACTIVE")

	// The entry of one that was cleared goes at its time, and is not counted on any more.
	w.want(w.alarm(h, a.AlarmVersion, -1).Code, placement.OK)
	w.clock.Advance(time.Minute)
	w.fire()
	entries(0)
	a = w.lookup(room("lobby")).Activation
	a.AlarmNext = w.clock.Now()
	set(time.Second)
	w.clock.Advance(time.Second)
	w.wantLook(1, 0, 0)
}

// TestStateWithAlarm: a state and an alarm are stored together or not at all, in as many requests as the alarm alone.
func TestStateWithAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.hold(w.claim(room("lobby"))) // in its lock phase
	w.want(w.alarm(w.active(room("other")), 0, 24*time.Hour).Code, placement.OK)
	one, two := w.clock.Now().Add(time.Minute), w.clock.Now().Add(time.Hour)
	w.store.took()
	for i, c := range []struct {
		request  string
		version  int64
		data     string
		alarm    placement.AlarmChange
		want     placement.Code
		replayed bool
		took     [2]int
	}{
		{"a", 0, "a", placement.AlarmChange{At: one}, placement.OK, false, [2]int{0, 2}},
		{"a", 0, "a", placement.AlarmChange{At: one}, placement.OK, true, [2]int{0, 1}},
		{"a", 0, "a", placement.AlarmChange{At: two}, placement.RequestIDReused, false, [2]int{0, 1}},
		{"b", 0, "b", placement.AlarmChange{Version: 1, At: two}, placement.StateChanged, false, [2]int{0, 1}},
		{"b", 1, "b", placement.AlarmChange{Version: 2, At: two}, placement.StateChanged, false, [2]int{0, 1}},
		{"b", 1, "b", placement.AlarmChange{Version: 1, At: two, Next: one}, placement.OK, false, [2]int{0, 1}},
		{"b", 1, "b", placement.AlarmChange{Version: 1, At: two, Next: one}, placement.OK, true, [2]int{0, 1}},
		{"c", 2, "c", placement.AlarmChange{Version: 1}, placement.StateChanged, false, [2]int{0, 1}},
		{"c", 2, "c", placement.AlarmChange{Version: 2}, placement.OK, false, [2]int{0, 1}},
		{"d", 3, "d", placement.AlarmChange{Version: 3, At: one}, placement.OK, false, [2]int{0, 2}},
	} {
		before := w.lookup(room("lobby")).Activation
		w.store.took()
		o := must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: c.request,
			Version: c.version, Data: []byte(c.data), Alarm: &c.alarm}))
		if got := w.store.took(); got != c.took && c.want == placement.OK {
			t.Errorf("%d took %v, want %v", i, got, c.took)
		}
		if o.Code != c.want || o.Replayed != c.replayed {
			t.Fatalf("%d: %+v, want %+v", i, o, c)
		}
		a := w.lookup(room("lobby")).Activation
		if c.want != placement.OK {
			if string(a.State) != string(before.State) || a.AlarmVersion != before.AlarmVersion || a.StateVersion != before.StateVersion {
				t.Errorf("%d: a refused one changed something: %+v", i, a)
			}
			continue
		}
		if string(a.State) != c.data || a.StateVersion != c.version+1 || !a.AlarmAt.Equal(c.alarm.At) ||
			a.AlarmVersion != c.alarm.Version+1 || o.Activation.StateVersion != a.StateVersion ||
			o.Activation.AlarmVersion != a.AlarmVersion {
			t.Errorf("%d: %+v is recorded as %+v", i, o, a)
		}
	}
	stranger := h
	stranger.Token--
	o := must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: stranger, RequestID: "x", Version: 4,
		Alarm: &placement.AlarmChange{Version: 4, At: one}}))
	w.want(o.Code, placement.StaleToken)
	if _, err := w.WriteState(t.Context(), placement.WriteState{Hold: h, RequestID: "x", Version: 4,
		Alarm: &placement.AlarmChange{Version: 4, At: w.clock.Now().Add(placement.DefaultRetention + time.Second)}}); err == nil {
		t.Error("an alarm in more than 30 days is no error")
	}
	// Whichever write a process was killed at, before or after it, there are both or neither.
	for _, after := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			id := room(fmt.Sprint("killed ", n, after))
			d := &dying{w.store, n, after}
			s := placement.New(d, &placement.Options{Now: w.clock.Now})
			_, _ = s.WriteState(t.Context(), placement.WriteState{Hold: w.active(id), RequestID: "k", Data: []byte("k"),
				Alarm: &placement.AlarmChange{At: w.clock.Now().Add(time.Second)}})
			a := w.lookup(id).Activation
			if (a.StateVersion == 1) != (a.AlarmVersion == 1) {
				t.Errorf("killed at write %d, after it %v: %+v", n, after, a)
			}
			w.clock.Advance(time.Second)
			w.fire()
			if got := w.lookup(id).Activation; got.AlarmTries != got.AlarmVersion {
				t.Errorf("killed at write %d, after it %v: it was not fired: %+v", n, after, got)
			}
		}
	}
}

// interjected is a store before whose next write of several documents something is done.
type interjected struct {
	docstore.Store
	do func()
}

func (m *interjected) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if do := m.do; do != nil && len(writes) > 1 {
		m.do = nil
		do()
	}
	return m.Store.Write(ctx, writes...)
}

// TestAlarmChangedWhileOneLooks: what the owner does between the read of a look and its write counts: an alarm that it
// replaces or clears is not fired, and one that it sets again is found.
func TestAlarmChangedWhileOneLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	h := w.active(room("lobby"))
	version := int64(0)
	set := func(in time.Duration) {
		t.Helper()
		w.want(w.alarm(h, version, in).Code, placement.OK)
		version++
	}
	look := func(do func()) {
		t.Helper()
		s := placement.New(&interjected{w.store, do}, &placement.Options{Now: w.clock.Now})
		if got := must[placement.Alarms](w)(s.FireAlarms(t.Context())); got.Fired+got.Removed != 0 || got.Errors != 0 {
			t.Errorf("%+v", counts(got))
		}
	}
	tries := func(want int64) {
		t.Helper()
		if a := w.lookup(room("lobby")).Activation; a.AlarmTries != want || a.AlarmVersion != version {
			t.Errorf("%d tries of version %d, want %d of %d", a.AlarmTries, a.AlarmVersion, want, version)
		}
	}
	set(0)
	look(func() { set(time.Hour) })
	tries(0)
	w.wantLook(0, 0, 1)
	set(0)
	look(func() { set(-1) })
	tries(0)
	look(func() { set(0) }) // of the same second as that whose entry is to be removed
	tries(0)
	w.wantLook(1, 0, 0)
	tries(1)

	// It is set for earlier while its entry moves on to a later time.
	other := w.active(room("other"))
	w.want(w.alarm(other, 0, 0).Code, placement.OK)
	later := func(version int64, in time.Duration) {
		t.Helper()
		w.want(must[placement.Outcome](w)(w.SetAlarm(t.Context(), placement.SetAlarm{Hold: other,
			AlarmChange: placement.AlarmChange{Version: version, At: w.clock.Now().Add(in), Next: w.clock.Now()}})).Code,
			placement.OK)
	}
	later(1, time.Minute)
	look(func() { later(2, 2*time.Second) })
	w.clock.Advance(2 * time.Second)
	w.fire() // it moves on
	w.wantFired("lobby ann ACTIVE to ACTIVE", "other ann ACTIVE to ACTIVE")
}

// TestAlarmsOfAClusterThatWasRemoved: with a cluster go its alarms. One of a later life is found, also where a process
// has known the earlier one.
func TestAlarmsOfAClusterThatWasRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann")
	w.want(w.alarm(w.active(room("lobby")), 0, time.Second).Code, placement.OK)
	w.clock.Advance(time.Minute)
	must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	epoch := must[*placement.Topology](w)(w.Topology(t.Context(), w.cluster)).Epoch
	if o, err := w.RemoveCluster(t.Context(), placement.RemoveCluster{Cluster: w.cluster, Epoch: epoch,
		Reason: "over"}); err != nil || o.Code != placement.OK {
		t.Fatal(o, err)
	}
	if got := len(w.kinds("placement_alarms")) + len(must[docstore.Page](w)(w.store.List(t.Context(),
		docstore.Query{Kind: "placement_alarm_clusters"})).Entries); got != 0 {
		t.Errorf("%d documents are left", got)
	}
	w.join("ann")
	w.wantLook(0, 0, 0)
	w.want(w.alarm(w.active(room("lobby")), 0, time.Second).Code, placement.OK)
	w.clock.Advance(time.Second)
	w.wantLook(1, 0, 0)
}

// TestAlarmsThatAStoreForgot: what finds alarms is made again by a sweep, an hour after they were due.
func TestAlarmsThatAStoreForgot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	w.want(w.alarm(w.active(room("lobby")), 0, time.Second).Code, placement.OK)
	for _, kind := range []string{"placement_alarms", "placement_alarm_clusters"} {
		tenant := ""
		if kind == "placement_alarms" {
			tenant = "acme/prod"
		}
		for _, e := range must[docstore.Page](w)(w.store.List(t.Context(), docstore.Query{Kind: kind, Tenant: tenant})).Entries {
			must[docstore.Result](w)(w.store.Write(t.Context(), docstore.Write{Key: e.Key, Delete: true,
				If: docstore.Not{Cond: docstore.Absent{}}}))
		}
	}
	w.clock.Advance(time.Hour)
	w.wantLook(0, 0, 0)
	w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
	w.clock.Advance(time.Second)
	must[placement.Swept](w)(w.Sweep(t.Context(), 0)) // evicts ann, and frees what she had
	w.join("cleo", func(j *placement.Join) { j.TTL = time.Hour })
	must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	w.wantLook(1, 0, 0)
}

// TestDamagedAlarms: what cannot be read keeps no other alarm from being fired.
func TestDamagedAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	for _, id := range []string{"a", "b", "c"} {
		w.want(w.alarm(w.active(room(id)), 0, 0).Code, placement.OK)
	}
	w.damage(placement.ActivationKind, "room/a", "alarm_next", docstore.Int(7))
	w.damage("placement_alarms", "2000-01-01T00:00:00Z/nothing", "token", docstore.Int(7))
	got, err := w.another().FireAlarms(t.Context())
	if got.Fired != 2 || got.Errors != 2 || got.Damaged != 2 || err == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestManyAlarmsAtOnce: ten thousand that are due at one time, with two servers that look for them at once: each is
// fired once before its pause is over, none is left out, and the work of a look is bounded.
func TestManyAlarmsAtOnce(t *testing.T) {
	t.Parallel()
	const all = 10_000
	w := newWorld(t)
	for _, name := range []string{"ann", "bob", "cleo"} {
		w.join(name, func(j *placement.Join) { j.TTL = time.Hour })
	}
	at := w.clock.Now().Add(time.Minute)
	for i := range all {
		h := w.active(room(strconv.Itoa(i)))
		o := must[placement.Outcome](w)(w.SetAlarm(t.Context(), placement.SetAlarm{Hold: h, AlarmChange: placement.AlarmChange{At: at}}))
		if o.Code != placement.OK {
			t.Fatalf("%+v", o)
		}
		if i%2 == 0 {
			must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: h}))
		}
	}
	w.clock.Advance(time.Minute)
	var fired atomic.Int64
	var servers sync.WaitGroup
	for range 2 {
		s := w.another()
		servers.Go(func() {
			for {
				got, err := s.FireAlarms(t.Context())
				if err != nil || got.Errors > 0 {
					t.Errorf("%d errors, %v", got.Errors, err)
					return
				}
				if got.Fired > 1000 {
					t.Errorf("%d fired in one look", got.Fired)
				}
				if fired.Add(int64(got.Fired)); !got.More {
					return
				}
			}
		})
	}
	servers.Wait()
	rest := w.fire() // of what both had in hand at the end
	if n := int(fired.Load()) + rest.Fired; n != all {
		t.Errorf("%d fired, want %d", n, all)
	}
	w.wantLook(0, 0, 0)
	for i := range all {
		a := w.lookup(room(strconv.Itoa(i))).Activation
		if a.AlarmTries != 1 || a.Phase == placement.Free {
			t.Fatalf("%+v", a)
		}
	}
}

// dying is a store of a process that is killed at one of its writes: before it is carried out, or after, when no
// response comes any more.
type dying struct {
	docstore.Store
	left  int
	after bool
}

func (d *dying) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if d.left--; d.left > 0 {
		return d.Store.Write(ctx, writes...)
	}
	if d.left == 0 && d.after {
		_, _ = d.Store.Write(ctx, writes...)
	}
	return docstore.Result{}, docstore.ErrUnavailable
}

// TestKilledAroundAnAlarm: whichever write a process was killed at, before or after it, an alarm that was set is fired
// by another one, and one of which no one was told that it is set is fired or is not there.
func TestKilledAroundAnAlarm(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			w := newWorld(t)
			w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
			free, held := w.active(room("free")), w.active(room("held"))
			d := &dying{w.store, n, after}
			s := placement.New(d, &placement.Options{Now: w.clock.Now})
			var said []string
			for _, h := range []placement.Hold{free, held} {
				o, err := s.SetAlarm(t.Context(), placement.SetAlarm{Hold: h,
					AlarmChange: placement.AlarmChange{At: w.clock.Now().Add(time.Second)}})
				if err == nil && o.Code == placement.OK {
					said = append(said, h.ID)
				}
			}
			must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: free}))
			w.clock.Advance(time.Second)
			_, _ = s.FireAlarms(t.Context())
			w.fire()
			for _, id := range []string{"free", "held"} {
				a := w.lookup(room(id)).Activation
				if set := slices.Contains(said, id); set && a.AlarmTries != 1 || !a.AlarmAt.IsZero() && a.AlarmTries != 1 {
					t.Errorf("killed at write %d, after it %v: %s, of which was said that it is set %v: %+v", n, after, id, set, a)
				}
			}
		}
	}
}
