package projectlock

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestListeners: all who subscribed are told every event in its order before the method returns, until they
// unsubscribe, which may be done again (PRJ-SUBSCRIBE).
func TestListeners(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var told []string
		first := w.Subscribe(func(e Event) { told = append(told, "first "+string(e.Type)) })
		second := w.Subscribe(func(e Event) { told = append(told, "second "+string(e.Type)) })
		l := w.acquire(nil)
		if want := []string{"first lock:acquired", "second lock:acquired"}; !slices.Equal(told, want) {
			t.Errorf("%q", told)
		}
		first()
		first()
		_ = w.Release(t.Context(), l)
		second()
		w.acquire(nil)
		if want := []string{"first lock:acquired", "second lock:acquired", "second lock:released"}; !slices.Equal(told,
			want) {
			t.Errorf("%q", told)
		}
	})
}

// TestListenerThatPanics: it disturbs neither the lock nor the others, and is told to Options.Warn (PRJ-SUBSCRIBE).
func TestListenerThatPanics(t *testing.T) {
	var warned []error
	p, err := New(t.TempDir(), &Options{Warn: func(err error) { warned = append(warned, err) }})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	p.Subscribe(func(Event) { panic("a mistake") })
	p.Subscribe(func(Event) { told++ })
	l, err := p.Acquire(t.Context(), nil)
	err = errors.Join(err, p.Release(t.Context(), l))
	if err != nil || told != 2 || len(warned) != 2 || !strings.Contains(warned[0].Error(), "a mistake") {
		t.Errorf("%v, told %d times, warned: %v", err, told, warned)
	}
}

// TestListenerThatUsesTheProject: a listener may unsubscribe others, subscribe, and call the project; what it causes is
// delivered after the event that it was told (PRJ-SUBSCRIBE).
func TestListenerThatUsesTheProject(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var lease Lease
		var stop func()
		w.Subscribe(func(e Event) {
			if e.Type == Renewed {
				stop()
				if err := w.Release(t.Context(), lease); err != nil {
					t.Error(err)
				}
			}
		})
		stop = w.Subscribe(func(e Event) {
			if e.Type == Renewed {
				t.Error("told after it had unsubscribed")
			}
		})
		var last []EventType
		w.Subscribe(func(e Event) { last = append(last, e.Type) })
		lease = w.acquire(nil)
		if _, err := w.Renew(t.Context(), lease); err != nil {
			t.Error(err)
		}
		if want := []EventType{Acquired, Renewed, Released}; !slices.Equal(last, want) {
			t.Errorf("%v, want %v", last, want)
		}
	})
}

// TestClockSetBack: the times of events never go back (PRJ-SUBSCRIBE).
func TestClockSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		w.clock.set(0, -time.Hour)
		_ = w.Release(t.Context(), l)
		w.clock.set(0, -time.Minute)
		l = w.acquire(nil)
		time.Sleep(2 * time.Minute)
		_ = w.Release(t.Context(), l)
		var at []time.Duration
		for _, e := range w.seen() {
			at = append(at, e.At.Sub(w.start))
		}
		if want := []time.Duration{0, 0, 0, time.Minute}; !slices.Equal(at, want) {
			t.Errorf("%v, want %v", at, want)
		}
	})
}

// TestEventsOfManyGoroutines: listeners are called for one event at a time, in the order of their times
// (PRJ-SUBSCRIBE).
func TestEventsOfManyGoroutines(t *testing.T) {
	p, err := New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	told := 0 // without a lock: -race would see two calls at once
	p.Subscribe(func(e Event) {
		told++
		if e.At.Before(last) {
			t.Errorf("%v after %v", e.At, last)
		}
		last = e.At
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				p.events.push(Event{Type: Renewed})
				p.events.flush()
			}
		})
	}
	all.Wait()
	if told != 400 {
		t.Errorf("told %d events", told)
	}
}

// TestPayloads: an event has exactly the fields of its type, with the browser's names and units (PRJ-EVENT-1,
// PRJ-EVENT-2, PRJ-EVENT-3, PRJ-EVENT-4, PRJ-EVENT-5, PRJ-EVENT-6, PRJ-ERROR).
func TestPayloads(t *testing.T) {
	at := time.UnixMilli(1767225600123)
	failed := &LockError{Code: CodeLockUnavailable, Cause: errDisk}
	all := Event{
		At: at, LeaseID: "id", Backend: Fallback, Scope: History, Attempt: 2, Delay: 1500 * time.Millisecond,
		Reason:       Contended,
		TTLExpiresAt: at.Add(TTL), Message: "why", Err: failed,
	}
	const base = `"at":1767225600123,"leaseId":"id","backend":"fallback","scope":"history"`
	for typ, want := range map[EventType]string{
		Acquired:       `{"type":"lock:acquired",` + base + `,"attempt":2}`,
		Renewed:        `{"type":"lock:renewed",` + base + `,"ttlExpiresAt":1767225630123}`,
		RetryScheduled: `{"type":"lock:retry",` + base + `,"attempt":2,"delayMs":1500,"reason":"contended"}`,
		CleanupWarning: `{"type":"lock:cleanup-warning",` + base + `,"message":"why"}`,
		Failed: `{"type":"lock:error",` + base +
			`,"error":{"code":"lock-unavailable","retryable":false,"message":"lock-unavailable: the disk is full"}}`,
		Released: `{"type":"lock:released",` + base + `}`,
	} {
		all.Type = typ
		if got, err := json.Marshal(all); err != nil || string(got) != want {
			t.Errorf("%s, %v\nwant %s", got, err, want)
		}
	}
	if (&LockError{Code: CodeLockTimeout}).Error() != "lock-timeout" || !errors.Is(failed, errDisk) ||
		errors.Is(failed, CodeLockTimeout) {
		t.Error(failed)
	}
	codes := []Code{CodeWebLockUnsupported, CodeLockTimeout, CodeLockUnavailable, CodeLockRenewalFailed,
		CodeLockReleaseFailed}
	want := []Code{"web-lock-unsupported", "lock-timeout", "lock-unavailable", "lock-renewal-failed",
		"lock-release-failed"}
	if !slices.Equal(codes, want) {
		t.Errorf("%q", codes)
	}
}
