package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// looks lets a server look for alarms every two seconds, as `leasehold serve` does, until end is called.
func (w *world) looks() (end func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	server := placement.New(w.store, &placement.Options{Now: w.now})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
			if _, err := server.FireAlarms(ctx); err != nil && ctx.Err() == nil {
				w.t.Error(err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// calls are the calls of a host for alarms.
type calls struct {
	mu  sync.Mutex
	all []call
}

type call struct {
	id     string
	at     time.Time
	member string
}

func (c *calls) add(a cluster.Activation, member string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call{a.ID, time.Now(), member})
	return len(c.all)
}

func (c *calls) got() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// TestAlarm: the host is called at the time of an alarm, or soon after, never before, once if all goes well. It has the
// turn of the identity, can store a state, and what it sets meanwhile stays.
func TestAlarm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		var ann joined
		ann = w.start("ann", func(_ *cluster.Options, h *host) {
			h.alarm = func(ctx context.Context, a cluster.Activation) error {
				n := c.add(a, "ann")
				if err := ann.WriteState(ctx, a.Identity, fmt.Append(nil, "rang ", n)); err != nil {
					return err
				}
				if n == 1 {
					return ann.SetAlarm(ctx, a.Identity, time.Now().Add(time.Minute))
				}
				return nil
			}
		})
		if _, err := ann.Serve(t.Context(), room("lobby"), nil); err != nil {
			t.Fatal(err)
		}
		set := time.Now()
		for _, in := range []time.Duration{time.Hour, 30 * time.Second} {
			if err := ann.SetAlarm(t.Context(), room("lobby"), set.Add(in)); err != nil {
				t.Fatal(err)
			}
		}
		held, err := ann.Hold(t.Context(), room("lobby"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !held.Alarm.Equal(set.Add(30 * time.Second)) {
			t.Errorf("it is told of the alarm %v", held.Alarm)
		}
		end, err := held.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(35 * time.Second)
		if got := c.got(); len(got) != 0 {
			t.Errorf("called while another has the turn: %v", got)
		}
		end()
		time.Sleep(time.Second)
		if got := c.got(); len(got) != 1 {
			t.Fatalf("called %v", got)
		}
		held.Release()
		if a := w.record(room("lobby")); a.AlarmAt == "" || a.AlarmTries != 0 || string(a.State) != "rang 1" {
			t.Errorf("%+v", a)
		}
		again := time.Now().Add(time.Minute)
		time.Sleep(2 * time.Hour)
		got := c.got()
		if len(got) != 2 || got[1].at.Before(again.Add(-time.Second)) || got[1].at.After(again.Add(5*time.Second)) {
			t.Errorf("called %v", got)
		}
		if a := w.record(room("lobby")); a.AlarmAt != "" || string(a.State) != "rang 2" {
			t.Errorf("%+v", a)
		}
		if e := ann.has(cluster.Alarmed); len(e) != 2 || e[1].Lag > 5*time.Second || e[1].Err != nil {
			t.Errorf("%+v", e)
		}
		if err := ann.SetAlarm(t.Context(), room("lobby"), time.Now().Add(31*24*time.Hour)); !errors.Is(err,
			contracts.CodeInvalidArgument) {
			t.Errorf("an alarm in 31 days: %v", err)
		}
		w.stop(ann)
		if err := ann.SetAlarm(t.Context(), room("lobby"), time.Now()); !errors.Is(err, cluster.ErrLost) {
			t.Errorf("of a member that was stopped: %v", err)
		}
	})
}

// TestAlarmThatFails: the host is called again after longer and longer pauses, after an error and after a panic; then
// no more. Each failure is an event of the cluster (PLC-LIFE-4).
func TestAlarmThatFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		ann := w.start("ann", func(_ *cluster.Options, h *host) {
			h.alarm = func(_ context.Context, a cluster.Activation) error {
				switch c.add(a, "ann") {
				case 1:
					return errors.New("no")
				case 2:
					panic("no")
				default:
					return nil
				}
			}
		})
		if _, err := ann.Serve(t.Context(), room("lobby"), nil); err != nil {
			t.Fatal(err)
		}
		if err := ann.SetAlarm(t.Context(), room("lobby"), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		got := c.got()
		if len(got) != 3 {
			t.Fatalf("called %v", got)
		}
		for i, want := range []time.Duration{10 * time.Second, 20 * time.Second} {
			if pause := got[i+1].at.Sub(got[i].at); pause < want-time.Second || pause > want+5*time.Second {
				t.Errorf("called again after %v", pause)
			}
		}
		if failed := ann.has(cluster.AlarmFailed); len(failed) != 2 {
			t.Errorf("%+v", failed)
		}
		page, err := w.provider().Events(t.Context(), cluster.EventQuery{PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range page.Events {
			if e.To == "ALARM_FAILED" {
				told = append(told, e.Reason)
			}
		}
		if !slices.Equal(told, []string{"no", "panic: no"}) {
			t.Errorf("%q", told)
		}
		w.stop(ann)
	})
}

// TestAlarmThatHangs: a call that does not return keeps no one from the identity for longer than its bound, and the
// alarm is fired again.
func TestAlarmThatHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		release := make(chan struct{})
		ann := w.start("ann", func(o *cluster.Options, h *host) {
			o.AlarmWithin = 20 * time.Second
			h.alarm = func(ctx context.Context, a cluster.Activation) error {
				if c.add(a, "ann") == 1 {
					<-release
				}
				return ctx.Err()
			}
		})
		held, err := ann.Hold(t.Context(), room("lobby"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := ann.SetAlarm(t.Context(), room("lobby"), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		asked := time.Now()
		end, err := held.Turn(t.Context())
		if took := time.Since(asked); err != nil || took < 20*time.Second || took > 31*time.Second {
			t.Fatalf("the turn came after %v: %v", took, err)
		}
		end()
		held.Release()
		if e := ann.has(cluster.Abandoned); len(e) != 1 {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		if got := c.got(); len(got) != 2 {
			t.Errorf("called %v", got)
		}
		if a := w.record(room("lobby")); a.AlarmAt != "" {
			t.Errorf("%+v", a)
		}
		close(release)
		w.stop(ann)
	})
}

// TestAlarmsOfWhatIsFree: an identity that no one has is activated for its alarm, on the member on which it is placed,
// within 5 s; so it is after its member died, and after all did, when there is one again.
func TestAlarmsOfWhatIsFree(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		start := func(name string) joined {
			return w.start(name, func(_ *cluster.Options, h *host) {
				h.alarm = func(_ context.Context, a cluster.Activation) error {
					c.add(a, name)
					return nil
				}
			})
		}
		ann := start("ann")
		set := func(in time.Duration) time.Time {
			t.Helper()
			if _, err := ann.Serve(t.Context(), room("lobby"), nil); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(in)
			if err := ann.SetAlarm(t.Context(), room("lobby"), at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		at := set(time.Minute)
		if err := ann.Member.Deactivate(t.Context(), room("lobby"), "not needed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got := c.got(); len(got) != 1 || got[0].at.Before(at) || got[0].at.After(at.Add(5*time.Second)) {
			t.Fatalf("called %v, for %v", got, at)
		}
		ann.p.alter(func(page contracts.EventPage) contracts.EventPage { // no more comes to it
			page.Events = nil
			return page
		})
		set(time.Second)
		dead := func(string) (error, bool) { return errors.New("the process is dead"), false }
		ann.p.set(dead)
		time.Sleep(30 * time.Second)
		if got := c.got(); len(got) != 1 {
			t.Errorf("called %v", got)
		}
		bob := start("bob")
		time.Sleep(time.Minute)
		if got := c.got(); len(got) != 2 || got[1].member != "bob" {
			t.Errorf("called %v", got)
		}
		if a := w.record(room("lobby")); a.AlarmAt != "" || a.Member != "bob" {
			t.Errorf("%+v", a)
		}
		ann.p.set(nil)
		w.stop(ann, bob)
	})
}

// TestAlarmWhoseResponseIsLost: whatever became of a request, the next one replaces it.
func TestAlarmWhoseResponseIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		ann := w.start("ann", func(_ *cluster.Options, h *host) {
			h.alarm = func(_ context.Context, a cluster.Activation) error {
				c.add(a, "ann")
				return nil
			}
		})
		if _, err := ann.Serve(t.Context(), room("lobby"), nil); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			ann.p.set(func(request string) (error, bool) {
				if request == "alarm" {
					return errors.New("lost"), i%2 == 0
				}
				return nil, false
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := ann.SetAlarm(ctx, room("lobby"), time.Now().Add(time.Duration(i+1)*time.Hour)); err == nil {
				t.Error("the response was not lost")
			}
			cancel()
		}
		ann.p.set(nil)
		at := time.Now().Add(time.Minute)
		if err := ann.SetAlarm(t.Context(), room("lobby"), at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Hour)
		if got := c.got(); len(got) != 1 || got[0].at.Before(at) || got[0].at.After(at.Add(5*time.Second)) {
			t.Errorf("called %v, for %v", got, at)
		}
		w.stop(ann)
	})
}

// TestStateWithAlarm: a state and an alarm are one request, also when a response is lost, over whatever became of those
// before; and what the member knows of the alarm makes the next one cheap.
func TestStateWithAlarm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.looks()()
		var c calls
		ann := w.start("ann", func(_ *cluster.Options, h *host) {
			h.alarm = func(_ context.Context, a cluster.Activation) error {
				c.add(a, string(a.State))
				return nil
			}
		})
		if _, err := ann.Serve(t.Context(), room("lobby"), nil); err != nil {
			t.Fatal(err)
		}
		var (
			mu       sync.Mutex
			requests = map[string]int{}
			lose     atomic.Bool
		)
		sent := func(request string) int {
			mu.Lock()
			defer mu.Unlock()
			return requests[request]
		}
		ann.p.set(func(request string) (error, bool) {
			mu.Lock()
			defer mu.Unlock()
			if requests[request]++; lose.Load() && (request == "write" || request == "alarm") {
				return errors.New("lost"), requests[request]%2 == 0
			}
			return nil, false
		})
		write := func(within time.Duration, state string, in time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return ann.WriteStateAndAlarm(ctx, room("lobby"), []byte(state), time.Now().Add(in))
		}
		if err := write(time.Minute, "one", time.Hour); err != nil || sent("write") != 1 || sent("alarm") != 0 {
			t.Fatalf("%d writes, %d alarms, %v", sent("write"), sent("alarm"), err)
		}
		if a := w.record(room("lobby")); string(a.State) != "one" || a.AlarmVersion != 1 || a.AlarmAt == "" {
			t.Errorf("%+v", a)
		}
		for i := range 4 {
			lose.Store(true)
			if i%2 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if err := ann.SetAlarm(ctx, room("lobby"), time.Now().Add(time.Duration(i+2)*time.Hour)); err == nil {
					t.Error("the response was not lost")
				}
				cancel()
			}
			if err := write(time.Second, "lost", time.Hour); err == nil {
				t.Error("the response was not lost")
			}
			lose.Store(false)
			if err := write(time.Minute, fmt.Sprint("after ", i), time.Minute); err != nil {
				t.Fatal(err)
			}
			if a := w.record(room("lobby")); string(a.State) != fmt.Sprint("after ", i) || a.AlarmNextAt != a.AlarmAt {
				t.Errorf("%+v", a)
			}
		}
		at := time.Now().Add(time.Minute)
		time.Sleep(2 * time.Hour)
		got := c.got()
		if len(got) != 1 || got[0].member != "after 3" || got[0].at.Before(at) || got[0].at.After(at.Add(5*time.Second)) {
			t.Errorf("called %v, for %v", got, at)
		}
		if err := ann.WriteStateAndAlarm(t.Context(), room("lobby"), nil, time.Time{}); err != nil {
			t.Error(err)
		}
		if a := w.record(room("lobby")); len(a.State) != 0 || a.AlarmAt != "" {
			t.Errorf("%+v", a)
		}
		w.stop(ann)
		if err := write(time.Second, "late", 0); !errors.Is(err, cluster.ErrLost) {
			t.Error(err)
		}
	})
}

// TestLagOfAlarms: of a thousand alarms of two members, half of which are of identities that no one has, all are called
// within 5 s of their time, none before it, each once.
func TestLagOfAlarms(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const all = 1000
		defer w.looks()()
		defer w.looks()() // two servers
		var c calls
		var members []joined
		for _, name := range []string{"ann", "bob"} {
			members = append(members, w.start(name, func(_ *cluster.Options, h *host) {
				h.alarm = func(_ context.Context, a cluster.Activation) error {
					c.add(a, name)
					return nil
				}
			}))
		}
		l, _ := w.locator(nil)
		r := rand.New(rand.NewPCG(1, 2))
		due := map[string]time.Time{}
		for i := range all {
			id := room(strconv.Itoa(i))
			where, err := l.Activate(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := members[0]
			if where.Member != "ann" {
				m = members[1]
			}
			if _, err := m.Serve(t.Context(), id, nil); err != nil {
				t.Fatal(err)
			}
			due[id.ID] = time.Now().Add(2*time.Hour + time.Duration(r.IntN(600_000))*time.Millisecond).Truncate(time.Millisecond)
			if err := m.SetAlarm(t.Context(), id, due[id.ID]); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if err := m.Member.Deactivate(t.Context(), id, "not needed"); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(4 * time.Hour)
		var lags []time.Duration
		for _, called := range c.got() {
			lags = append(lags, called.at.Sub(due[called.id]))
		}
		slices.Sort(lags)
		if len(lags) != all || lags[0] < 0 || lags[all-1] > 5*time.Second {
			t.Fatalf("%d calls, %v to %v after their time", len(lags), lags[0], lags[len(lags)-1])
		}
		t.Logf("half within %v, 99 of 100 within %v, all within %v", lags[all/2], lags[all*99/100], lags[all-1])
		l.Stop()
		w.stop(members...)
	})
}

// TestAlarmOptions: what cannot have alarms says so.
func TestAlarmOptions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		alarming := &host{w: w, alarm: func(context.Context, cluster.Activation) error { return nil }}
		for name, o := range map[string]cluster.Options{
			"serve only": {ServeOnly: true}, "negative": {AlarmWithin: -1}, "long": {AlarmWithin: time.Hour},
		} {
			if _, err := cluster.NewMember(w.provider(), "ann", ringing{alarming}, &o); err == nil {
				t.Error(name)
			}
		}
		ann := w.start("ann", nil)
		if err := ann.SetAlarm(t.Context(), room("lobby"), time.Now()); !errors.Is(err, cluster.ErrNoAlarm) {
			t.Error(err)
		}
		if err := ann.WriteStateAndAlarm(t.Context(), room("lobby"), nil, time.Now()); !errors.Is(err, cluster.ErrNoAlarm) {
			t.Error(err)
		}
		w.stop(ann)
	})
}
