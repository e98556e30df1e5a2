package projectlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestAcquireAndRelease: the events of a lock that is free are lock:acquired and lock:released; the file holds the
// lease in between (PRJ-TEST-1, on the file; PRJ-EVENT-1, PRJ-EVENT-6, PRJ-LEASE).
func TestAcquireAndRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		time.Sleep(1234567 * time.Microsecond)
		l := w.acquire(nil)
		now := time.Now().Truncate(time.Millisecond).UTC()
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(l.ID()) {
			t.Errorf("the ID is %s", l.ID())
		}
		if l.Backend() != Fallback || l.Reach() != ReachFile || l.Scope() != Autosave || !l.AcquiredAt().Equal(now) ||
			!l.TTLExpiresAt().Equal(now.Add(TTL)) {
			t.Errorf("%+v %v %v", l, l.AcquiredAt(), l.TTLExpiresAt())
		}
		if want := (record{l.ID(), Fallback, Autosave, now.UnixMilli(), now.UnixMilli() + 30_000}); *w.content() != want {
			t.Errorf("the file has %+v, want %+v", *w.content(), want)
		}
		text, err := json.Marshal(l)
		if want := fmt.Sprintf(
			`{"id":%q,"backend":"fallback","scope":"autosave","acquiredAt":%d,"ttlExpiresAt":%d,"reach":"file"}`,
			l.ID(), now.UnixMilli(), now.UnixMilli()+30_000); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
		if _, err := l.Token(); !errors.Is(err, ErrNoToken) {
			t.Errorf("a token: %v", err)
		}
		for range 2 { // the second one has nothing to do
			if err := w.Release(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		if w.content() != nil || l.Remaining() != 0 {
			t.Errorf("after the release: %v, %v", w.content(), l.Remaining())
		}
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, Released}) {
			t.Errorf("events: %v", got)
		}
		for _, e := range w.seen() {
			if e.LeaseID != l.ID() || e.Backend != Fallback || e.Scope != Autosave || !e.At.Equal(now) {
				t.Errorf("%+v", e)
			}
		}
		if e := w.seen()[0]; e.Attempt != 1 {
			t.Errorf("%+v", e)
		}
		if _, err := w.Renew(t.Context(), l); !errors.Is(err, ErrLost) {
			t.Errorf("renewed after the release: %v", err)
		}
	})
}

// TestContention: while another lease is in its term there are five attempts, exactly 500, 1000, 2000 and 4000 ms
// apart, and then lock-unavailable, which is not retryable, and lock:error (PRJ-TEST-2, PRJ-ACQ-1, PRJ-EVENT-3,
// PRJ-EVENT-4, PRJ-ERROR).
func TestContention(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		until := time.Now().Add(TTL)
		w.put(other(until), time.Now())
		before := *w.content()
		_, err := w.Acquire(t.Context(), nil)
		e := wantError(t, err, CodeLockUnavailable, false)
		held, ok := errors.AsType[*contracts.Error](err)
		if !ok || held.Code != contracts.CodeLockHeld || !held.ExpiresAt.Equal(until) || held.Owner != "lease "+before.ID {
			t.Errorf("the cause is %v", e.Cause)
		}
		if *w.content() != before {
			t.Errorf("the file of the other process: %+v", w.content())
		}
		at, delay := w.start, 500*time.Millisecond
		got := w.seen()
		if len(got) != 5 {
			t.Fatalf("%d events: %+v", len(got), got)
		}
		for i, e := range got[:4] {
			if e.Type != RetryScheduled || e.Attempt != i+1 || e.Delay != delay || e.Reason != Contended || !e.At.Equal(at) ||
				e.LeaseID != got[0].LeaseID || e.LeaseID == "" {
				t.Errorf("event %d: %+v, want %v after %v", i, e, delay, at.Sub(w.start))
			}
			at, delay = at.Add(delay), 2*delay
		}
		if last := got[4]; last.Type != Failed || last.Err != e || !last.At.Equal(w.start.Add(7500*time.Millisecond)) ||
			last.LeaseID != got[0].LeaseID {
			t.Errorf("%+v", last)
		}
	})
}

// TestRetryPolicies: what a policy leaves out has its default, and what cannot work is refused (PRJ-API).
func TestRetryPolicies(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		policy RetryPolicy
		delays []time.Duration
	}{
		"attempts": {RetryPolicy{MaxAttempts: 7}, []time.Duration{500 * ms, 1000 * ms, 2000 * ms, 4000 * ms,
			4000 * ms, 4000 * ms}},
		"once":       {RetryPolicy{MaxAttempts: 1}, nil},
		"initial":    {RetryPolicy{InitialDelay: 100 * ms}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms}},
		"multiplier": {RetryPolicy{Multiplier: 1}, []time.Duration{500 * ms, 500 * ms, 500 * ms, 500 * ms}},
		"most":       {RetryPolicy{MaxDelay: 600 * ms}, []time.Duration{500 * ms, 600 * ms, 600 * ms, 600 * ms}},
		"huge":       {RetryPolicy{Multiplier: 1e300}, []time.Duration{500 * ms, 4000 * ms, 4000 * ms, 4000 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.put(other(time.Now().Add(time.Hour)), time.Now())
				_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: c.policy})
				wantError(t, err, CodeLockUnavailable, false)
				var got []time.Duration
				for _, e := range w.seen() {
					if e.Type == RetryScheduled {
						got = append(got, e.Delay)
					}
				}
				if !slices.Equal(got, c.delays) {
					t.Errorf("%v, want %v", got, c.delays)
				}
			})
		})
	}
	p, err := New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, o := range map[string]AcquireOptions{
		"Scope":              {Scope: "other"},
		"Retry.InitialDelay": {Retry: RetryPolicy{InitialDelay: -1}},
		"Retry.MaxDelay":     {Retry: RetryPolicy{MaxDelay: -1}},
		"Retry.Multiplier":   {Retry: RetryPolicy{Multiplier: 0.5}},
		"Retry.MaxAttempts":  {Retry: RetryPolicy{MaxAttempts: -1}},
	} {
		if _, err := p.Acquire(t.Context(), &o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := (RetryPolicy{Multiplier: math.NaN()}).withDefaults(); err == nil {
		t.Error("NaN is a multiplier")
	}
}

// TestOrphans: a file whose time has passed is taken over, by the time that its writer named; a damaged one when it has
// not been changed for the ttl (PRJ-ACQ-3).
func TestOrphans(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // a bubble's first
	for name, c := range map[string]struct {
		content  string
		modified time.Time
		free     bool
	}{
		"expired now":                    {other(now), now, true},
		"expires in 1 ms":                {other(now.Add(time.Millisecond)), now.Add(-time.Hour), false},
		"a time of its own":              {`{"ttlExpiresAt":946684799999}`, now, true},
		"a long time of its own":         {`{"ttlExpiresAt":946684900000,"more":1}`, now.Add(-time.Hour), false},
		"empty, old":                     {"", now.Add(-TTL), true},
		"empty, young":                   {"", now.Add(-TTL + time.Millisecond), false},
		"half a record, old":             {other(now.Add(time.Hour))[:70], now.Add(-TTL), true},
		"half a record, young":           {other(now.Add(-time.Hour))[:70], now, false},
		"not a record, old":              {"4711\n", now.Add(-TTL), true},
		"not a record, young":            {"4711\n", now, false},
		"no time, old":                   {`{"id":"x"}`, now.Add(-TTL), true},
		"too long, young":                {other(now.Add(-time.Hour)) + strings.Repeat(" ", maxContent), now, false},
		"longer than a record, and over": {other(now.Add(-time.Hour)) + strings.Repeat(" ", 500), now, true},
		"of the future, by its file":     {"", now.Add(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.put(c.content, c.modified)
				l, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
				if c.free != (err == nil) {
					t.Fatalf("%v, want free: %v", err, c.free)
				}
				if err != nil {
					wantError(t, err, CodeLockUnavailable, false)
					return
				}
				if info, err := os.Stat(filepath.Join(w.folder, fileName)); err != nil || info.Size() != recordBytes ||
					w.content().ID != l.ID() {
					t.Errorf("after the takeover: %v, %v, %+v", info, err, w.content())
				}
			})
		})
	}
}

// TestOrphanAfterItsTTL: the lock of a process that ended is taken over when the ttl that it named has passed, not
// before (PRJ-ACQ-3).
func TestOrphanAfterItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.acquire(nil)
		next := newWorld(t, w.folder)
		l, err := next.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{Multiplier: 1, MaxAttempts: 1000}})
		if err != nil || time.Since(w.start) != TTL {
			t.Fatalf("after %v: %v", time.Since(w.start), err)
		}
		if w.content().ID != l.ID() {
			t.Errorf("%+v", w.content())
		}
	})
}

// TestScopesShareTheFile: a lease of one scope keeps the other one out (PRJ-NAME).
func TestScopesShareTheFile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.acquire(&AcquireOptions{Scope: History})
		if w.content().Scope != History || w.seen()[0].Scope != History {
			t.Errorf("%+v, %+v", w.content(), w.seen())
		}
		_, err := w.Acquire(t.Context(), &AcquireOptions{Scope: Autosave})
		wantError(t, err, CodeLockUnavailable, false)
	})
}

// TestRenewal: a renewal after 20 s moves the expiry to 30 s from then, in a lease of its own (PRJ-TEST-3, PRJ-RNW-1,
// PRJ-EVENT-2, PRJ-LEASE).
func TestRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.acquire(nil)
		time.Sleep(RenewAfter)
		second, err := w.Renew(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		at, ends := w.start.Add(RenewAfter), w.start.Add(RenewAfter+TTL)
		if second.ID() != first.ID() || !second.AcquiredAt().Equal(w.start) || !second.TTLExpiresAt().Equal(ends) ||
			!first.TTLExpiresAt().Equal(w.start.Add(TTL)) {
			t.Errorf("%v, %v", first.TTLExpiresAt(), second.TTLExpiresAt())
		}
		if got := *w.content(); got.TTLExpiresAt != ends.UnixMilli() || got.AcquiredAt != w.start.UnixMilli() {
			t.Errorf("%+v", got)
		}
		if e := w.seen()[1]; e.Type != Renewed || !e.TTLExpiresAt.Equal(ends) || !e.At.Equal(at) || e.LeaseID != first.ID() {
			t.Errorf("%+v", e)
		}
		time.Sleep(TTL - time.Millisecond) // it has expired by now, a millisecond early
		_, err = w.Renew(t.Context(), second)
		wantError(t, err, CodeLockRenewalFailed, true)
		if !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

// TestRenewalAfterTheExpiry: a lease that has expired on either clock of its holder is never renewed, although its file
// is still there (PRJ-RNW-1).
func TestRenewalAfterTheExpiry(t *testing.T) {
	for name, c := range map[string]struct{ monotonic, wall time.Duration }{
		"the machine slept": {0, TTL}, "the time was set back": {TTL, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l := w.acquire(nil)
				before := *w.content()
				w.clock.set(c.monotonic, c.wall)
				_, err := w.Renew(t.Context(), l)
				wantError(t, err, CodeLockRenewalFailed, true)
				if !errors.Is(err, ErrLost) || *w.content() != before || l.Remaining() != 0 {
					t.Errorf("%v, %+v", err, w.content())
				}
				if got := w.types(); !slices.Equal(got, []EventType{Acquired}) {
					t.Errorf("events: %v", got)
				}
			})
		})
	}
}

// TestLostToAnother: a lease whose file was taken over, or removed, is neither renewed nor released, and what is there
// stays (PRJ-RNW-1, PRJ-REL-1).
func TestLostToAnother(t *testing.T) {
	for name, content := range map[string]string{"another's": other(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)),
		"damaged": "{", "removed": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l := w.acquire(nil)
				path := filepath.Join(w.folder, fileName)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if content != "" {
					w.put(content, time.Now())
				}
				_, err := w.Renew(t.Context(), l)
				wantError(t, err, CodeLockRenewalFailed, true)
				if !errors.Is(err, ErrLost) {
					t.Error(err)
				}
				err = w.Release(t.Context(), l)
				wantError(t, err, CodeLockReleaseFailed, true)
				if !errors.Is(err, ErrLost) {
					t.Error(err)
				}
				if got, _ := os.ReadFile(path); string(got) != content {
					t.Errorf("the file has %q, want %q", got, content)
				}
				if got := w.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning}) {
					t.Errorf("events: %v", got)
				}
			})
		})
	}
}

// TestFailedRenewals: a write that fails is tried again after 500, 1000, 2000 and 4000 ms, and the fifth failure is
// lock-renewal-failed; then the caller acquires again (PRJ-RNW-2, PRJ-RNW-3, PRJ-EVENT-3).
func TestFailedRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		time.Sleep(RenewAfter)
		w.disk.fails(opWrite, errDisk)
		_, err := w.Renew(t.Context(), l)
		wantError(t, err, CodeLockRenewalFailed, true)
		if !errors.Is(err, errDisk) || errors.Is(err, ErrLost) || time.Since(w.start) != 27500*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(w.start), err)
		}
		at, delay := w.start.Add(RenewAfter), 500*time.Millisecond
		got := w.seen()[1:]
		if len(got) != 4 {
			t.Fatalf("%+v", got)
		}
		for i, e := range got {
			if e.Type != RetryScheduled || e.Attempt != i+1 || e.Delay != delay || e.Reason != TransientError ||
				!e.At.Equal(at) || e.LeaseID != l.ID() {
				t.Errorf("event %d: %+v, want %v at %v", i, e, delay, at)
			}
			at, delay = at.Add(delay), 2*delay
		}
		w.disk.on(nil)
		if err := w.Release(t.Context(), l); err != nil {
			t.Error(err)
		}
		w.acquire(nil)
	})
}

// TestAcquireAfterFailedRenewals: a holder whose renewals failed acquires again at once; the lease that it had is over
// by then, also if its file could not be removed. One that was renewed after all is not (PRJ-RNW-3).
func TestAcquireAfterFailedRenewals(t *testing.T) {
	for _, c := range []string{"", "the file cannot be removed", "renewed after all"} {
		inBubble(t, func(t *testing.T, w *world) {
			l := w.acquire(nil)
			w.disk.fails(opWrite, errDisk)
			_, err := w.Renew(t.Context(), l)
			wantError(t, err, CodeLockRenewalFailed, true)
			w.disk.on(nil)
			switch c {
			case "the file cannot be removed":
				w.disk.fails(opRemove, errDisk)
			case "renewed after all":
				if _, err := w.Renew(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
				wantError(t, err, CodeLockUnavailable, false)
				return
			}
			next, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
			if err != nil {
				t.Fatalf("%s: %v", c, err)
			}
			w.disk.on(nil)
			if _, err := w.Renew(t.Context(), l); !errors.Is(err, ErrLost) || l.Remaining() > 0 {
				t.Errorf("%s: the lease before goes on: %v, %v", c, err, l.Remaining())
			}
			if _, err := w.Renew(t.Context(), next); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		})
	}
}

// TestRenewalThatSucceedsAtLast: failures before it do not matter (PRJ-RNW-2).
func TestRenewalThatSucceedsAtLast(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		time.Sleep(RenewAfter)
		w.disk.fails(opWrite, errDisk)
		time.AfterFunc(7400*time.Millisecond, func() { w.disk.on(nil) })
		got, err := w.Renew(t.Context(), l)
		if err != nil || !got.TTLExpiresAt().Equal(w.start.Add(27500*time.Millisecond+TTL)) {
			t.Fatalf("%v, %v", got.TTLExpiresAt(), err)
		}
		want := []EventType{Acquired, RetryScheduled, RetryScheduled, RetryScheduled, RetryScheduled, Renewed}
		if !slices.Equal(w.types(), want) {
			t.Errorf("events: %v", w.types())
		}
	})
}

// TestRenewalWithoutTheRight: a file that may not be written is not tried again; the error is not retryable, and an
// event (PRJ-RNW-2, PRJ-EVENT-4).
func TestRenewalWithoutTheRight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		time.Sleep(RenewAfter)
		w.disk.fails(opOpen, fs.ErrPermission)
		_, err := w.Renew(t.Context(), l)
		e := wantError(t, err, CodeLockRenewalFailed, false)
		if got := w.seen(); len(got) != 2 || got[1].Type != Failed || got[1].Err != e || time.Since(w.start) != RenewAfter {
			t.Errorf("%+v", got)
		}
	})
}

// TestLateRenewals: attempts that would come after the expiry are not made (PRJ-RNW-3).
func TestLateRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		time.Sleep(29 * time.Second)
		w.disk.fails(opWrite, errDisk)
		_, err := w.Renew(t.Context(), l)
		wantError(t, err, CodeLockRenewalFailed, true)
		if got := time.Since(w.start); got != 29500*time.Millisecond {
			t.Errorf("after %v: %v", got, err)
		}
	})
}

// TestCancelledRenewal: a context that ends is the cause, and the lease lasts as long as before.
func TestCancelledRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		w.disk.fails(opWrite, errDisk)
		_, err := w.Renew(after(t, time.Second), l)
		wantError(t, err, CodeLockRenewalFailed, true)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) ||
			l.Remaining() != 29*time.Second-time.Millisecond {
			t.Errorf("%v, %v", err, l.Remaining())
		}
	})
}

// tree is a folder with all that is in it.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		if !e.IsDir() {
			content, err = os.ReadFile(path)
			files[path] = fmt.Sprintf("%v %v %q", info.Mode(), info.ModTime().UnixNano(), content)
		} else {
			files[path] = info.Mode().String() // its time changes with its entries
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestCleanupWarning: a file that cannot be removed is lock:cleanup-warning and lock-release-failed; it is tried again
// before the next acquire, and nothing but the file is ever touched, whatever else the project and its neighbours have
// (PRJ-TEST-4, PRJ-REL-1, PRJ-FILE, PRJ-EVENT-5).
func TestCleanupWarning(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		root := w.folder
		w.folder = filepath.Join(root, "project")
		for _, name := range []string{
			"project/a.json", "project/.lock.bak", "project/.lockfile", "project/sub/.lock",
			"workflow-cookbook/collector/out.jsonl",
			"workflow-cookbook/.lock", "workflow-cookbook/analyzer/report.md", ".lock",
		} {
			path := filepath.Join(root, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(name), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, root)
		var err error
		if w.Project, err = New(w.folder, &Options{clock: w.clock.read, disk: w.disk}); err != nil {
			t.Fatal(err)
		}
		w.Subscribe(w.note)

		l := w.acquire(nil)
		w.disk.fails(opRemove, errDisk)
		err = w.Release(t.Context(), l)
		wantError(t, err, CodeLockReleaseFailed, true)
		if !errors.Is(err, errDisk) {
			t.Error(err)
		}
		got := w.seen()
		if len(got) != 2 || got[1].Type != CleanupWarning || got[1].LeaseID != l.ID() ||
			!strings.Contains(got[1].Message, "1 of 3") || !strings.Contains(got[1].Message, errDisk.Error()) {
			t.Fatalf("%+v", got)
		}
		w.disk.on(nil)
		next := w.acquire(nil) // removes what was left behind, and has the lock at once
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning, Acquired}) {
			t.Errorf("events: %v", got)
		}
		during := tree(t, root)
		if delete(during, filepath.Join(w.folder, fileName)); !maps.Equal(during, before) {
			t.Errorf("%v\nwant\n%v", during, before)
		}
		if err := w.Release(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, root); !maps.Equal(got, before) {
			t.Errorf("%v\nwant\n%v", got, before)
		}
	})
}

// TestThreeFailedCleanups: after three failures the lock goes on, with the file that could not be removed (PRJ-REL-2).
func TestThreeFailedCleanups(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		w.disk.fails(opRemove, errDisk)
		if err := w.Release(t.Context(), l); !errors.Is(err, CodeLockReleaseFailed) {
			t.Fatal(err)
		}
		// another process was quicker: nothing of ours is left to clean up
		w.put(other(time.Now().Add(time.Hour)), time.Now())
		_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
		wantError(t, err, CodeLockUnavailable, false)
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning, Failed}) {
			t.Errorf("events: %v", got)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		w.disk.fails(opRemove, errDisk)
		var warnings []string
		w.Subscribe(func(e Event) {
			if e.Type == CleanupWarning {
				warnings = append(warnings, e.Message)
			}
		})
		_ = w.Release(t.Context(), l)
		w.disk.on(func(op string) error { // neither removing nor taking over
			if op == opRemove || op == opWrite {
				return errDisk
			}
			return nil
		})
		for range 3 {
			_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
			wantError(t, err, CodeLockUnavailable, false)
			if !errors.Is(err, errDisk) {
				t.Errorf("its own file keeps it out: %v", err)
			}
		}
		if len(warnings) != 3 || !strings.Contains(warnings[2], "3 of 3") {
			t.Errorf("%d warnings: %q", len(warnings), warnings)
		}
		w.disk.fails(opRemove, errDisk)
		if next := w.acquire(nil); w.content().ID != next.ID() { // its own file that is left behind is free for it
			t.Errorf("%+v", w.content())
		}
	})
}

// TestReleaseAgain: a release that failed may be called again.
func TestReleaseAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.acquire(nil)
		w.disk.fails(opRemove, errDisk)
		_ = w.Release(t.Context(), l)
		w.disk.on(nil)
		if err := w.Release(t.Context(), l); err != nil || w.content() != nil {
			t.Errorf("%v, %+v", err, w.content())
		}
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning, Released}) {
			t.Errorf("events: %v", got)
		}
	})
}

// TestTryThatHangs: each try takes 10 s at most; what it does later is undone (PRJ-ACQ-2).
func TestTryThatHangs(t *testing.T) {
	for _, op := range []string{opStat, opOpen, opWrite} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				hangs := make(chan struct{})
				w.disk.on(func(o string) error {
					if o == op {
						<-hangs
					}
					return nil
				})
				_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 2}})
				wantError(t, err, CodeLockUnavailable, false)
				if op == opWrite { // its file is there, and empty
					if !errors.Is(err, contracts.CodeLockHeld) || time.Since(w.start) != TryTimeout+500*time.Millisecond {
						t.Errorf("after %v: %v", time.Since(w.start), err)
					}
				} else {
					cause := wantError(t, errors.Unwrap(err), CodeLockTimeout, true)
					if !errors.Is(cause, context.DeadlineExceeded) || time.Since(w.start) != 2*TryTimeout+500*time.Millisecond {
						t.Errorf("after %v: %v", time.Since(w.start), err)
					}
				}
				if got := w.seen()[0]; got.Reason != Unavailable || !got.At.Equal(w.start.Add(TryTimeout)) {
					t.Errorf("%+v", got)
				}
				w.disk.on(nil)
				close(hangs)
				synctest.Wait()
				if w.content() != nil {
					t.Errorf("left behind: %+v", w.content())
				}
			})
		})
	}
}

// TestLeftoverOfTheSameAcquire: a try that was given up leaves its file behind, and the next try of the same acquire
// takes it over. Then the file is that of a lease again, which no later acquire removes or takes.
func TestLeftoverOfTheSameAcquire(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hangs := make(chan struct{})
		time.AfterFunc(TryTimeout+250*time.Millisecond, func() { close(hangs) })
		w.disk.on(func(op string) error {
			switch op {
			case opWrite:
				<-hangs
			case opRemove:
				return errDisk
			}
			return nil
		})
		first := w.acquire(nil)
		if got := time.Since(w.start); got != TryTimeout+500*time.Millisecond {
			t.Fatalf("acquired after %v", got)
		}
		w.disk.on(nil)
		_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
		if wantError(t, err, CodeLockUnavailable, false); !errors.Is(err, contracts.CodeLockHeld) {
			t.Error(err)
		}
		if got := w.content(); got == nil || got.ID != first.ID() {
			t.Errorf("the file has %+v", got)
		}
		if err := w.Release(t.Context(), first); err != nil || w.content() != nil {
			t.Errorf("%v, the file has %+v", err, w.content())
		}
	})
}

// TestCancelledAcquire: the caller's context ends an acquire at once, with nothing held (PRJ-ACQ-2).
func TestCancelledAcquire(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(other(time.Now().Add(time.Hour)), time.Now())
		_, err := w.Acquire(after(t, 1200*time.Millisecond), nil)
		wantError(t, err, CodeLockTimeout, true)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(w.start) != 1200*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(w.start), err)
		}
		if got := w.types(); !slices.Equal(got, []EventType{RetryScheduled, RetryScheduled}) {
			t.Errorf("events: %v", got)
		}
		if err := os.Remove(filepath.Join(w.folder, fileName)); err != nil {
			t.Fatal(err)
		}
		stopped, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the program ends")
		cancel(why)
		if _, err := w.Acquire(stopped, nil); !errors.Is(err, why) || w.content() != nil {
			t.Errorf("%v, %+v", err, w.content())
		}
	})
}

// TestNoFolderAndNoRight: a missing folder is tried again, a missing right or a file that is no file is not (PRJ-ACQ-1,
// PRJ-ERROR).
func TestNoFolderAndNoRight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Project, _ = New(filepath.Join(w.folder, "missing"), &Options{clock: w.clock.read})
		w.Subscribe(w.note)
		_, err := w.Acquire(t.Context(), nil)
		wantError(t, err, CodeLockUnavailable, false)
		if got := w.seen(); len(got) != 5 || got[0].Reason != Unavailable || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v %+v", err, got)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		w.disk.fails(opOpen, fs.ErrPermission)
		_, err := w.Acquire(t.Context(), nil)
		wantError(t, err, CodeLockUnavailable, false)
		if got := w.types(); !slices.Equal(got, []EventType{Failed}) {
			t.Errorf("events: %v", got)
		}
	})
	for _, create := range []func(path string) error{
		func(path string) error { return os.Mkdir(path, 0o700) },
		func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "elsewhere"), path) },
	} {
		inBubble(t, func(t *testing.T, w *world) {
			if err := create(filepath.Join(w.folder, fileName)); err != nil {
				t.Skip(err)
			}
			_, err := w.Acquire(t.Context(), nil)
			wantError(t, err, CodeLockUnavailable, false)
			if got := w.types(); !slices.Equal(got, []EventType{Failed}) || !errors.Is(err, errBroken) {
				t.Errorf("%v, events: %v", err, got)
			}
		})
	}
}

// TestTransientErrors: an error that may pass is tried again (PRJ-EVENT-3).
func TestTransientErrors(t *testing.T) {
	for _, op := range []string{opStat, opOpen, opWrite} {
		inBubble(t, func(t *testing.T, w *world) {
			n := 0
			w.disk.on(func(o string) error {
				if o == op {
					if n++; n <= 2 {
						return errDisk
					}
				}
				return nil
			})
			w.acquire(nil)
			got := w.seen()
			if len(got) != 3 || got[0].Reason != TransientError || got[2].Attempt != 3 || got[2].LeaseID != got[0].LeaseID {
				t.Errorf("%s: %+v", op, got)
			}
		})
	}
}

// TestLostGrant: a lease that expired before it was returned, because the process was stopped, is none.
func TestLostGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := true
		w.disk.on(func(op string) error {
			if op == opWrite && first {
				first = false
				w.clock.set(0, time.Minute) // after the time that is written
			}
			return nil
		})
		l := w.acquire(nil)
		if got := w.types(); !slices.Equal(got, []EventType{RetryScheduled, Acquired}) || l.Remaining() <= 0 {
			t.Errorf("events: %v, %v", got, l.Remaining())
		}
	})
}

// TestWrongLeases: leases of others, and none, are refused.
func TestWrongLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := newWorld(t, t.TempDir()).acquire(nil)
		for _, l := range []Lease{l, {}} {
			if _, err := w.Renew(t.Context(), l); err == nil {
				t.Error("renewed")
			}
			if err := w.Release(t.Context(), l); err == nil {
				t.Error("released")
			}
		}
		none := Lease{}
		if none.ID() != "" || none.Backend() != "" || none.Reach() != "" || none.Scope() != "" || none.Remaining() != 0 ||
			!none.AcquiredAt().IsZero() {
			t.Error("the zero lease is something")
		}
		if _, err := none.Token(); !errors.Is(err, ErrNoToken) {
			t.Error(err)
		}
	})
	for name, o := range map[string]*Options{
		"Options.Name": {Name: "a\nb"}, "Options.Owner": {Owner: "a b"}, "folder": nil,
	} {
		folder := t.TempDir()
		if name == "folder" {
			folder = ""
		}
		if _, err := New(folder, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConcurrentUse: renewals and releases of one lease, and acquires, from many goroutines; -race looks on.
func TestConcurrentUse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 5 {
			l := w.acquire(nil)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { _, _ = w.Renew(t.Context(), l) })
				all.Go(func() {
					time.Sleep(time.Millisecond)
					_ = w.Release(t.Context(), l)
				})
			}
			all.Wait()
			if w.content() != nil {
				t.Errorf("%+v", w.content())
			}
			released := 0
			for _, e := range w.seen() {
				if e.LeaseID == l.ID() && e.Type == Released {
					released++
				}
			}
			if released != 1 {
				t.Errorf("%d events of the release", released)
			}
		}
	})
}

// TestBetweenTheSteps: whatever other processes do between two steps of an acquire, a renewal or a release, what they
// have written stays (PRJ-ACQ-3, PRJ-RNW-1, PRJ-REL-1).
func TestBetweenTheSteps(t *testing.T) {
	future := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, op := range []string{opRead, opOpen, opStat} {
		for name, content := range map[string]string{"empty": "", "held": other(future), "gone": "-"} {
			for _, what := range []string{"acquire", "take over", "renew", "release"} {
				t.Run(op+" "+name+" "+what, func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						var l Lease
						switch what {
						case "take over":
							w.put(other(time.Now().Add(-time.Hour)), time.Now())
						case "renew", "release":
							l = w.acquire(nil)
						}
						path, n, at := filepath.Join(w.folder, fileName), 0, 1
						if op == opStat && l.ID() == "" {
							at = 2 // after it was opened, as the first one of a renewal
						}
						w.disk.on(func(o string) error {
							if o == op {
								n++
							}
							if o != op || n != at {
								return nil
							}
							if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
								t.Error(err)
							}
							if content != "-" {
								w.put(content, time.Now())
							}
							return nil
						})
						switch what {
						case "renew":
							_, err := w.Renew(t.Context(), l)
							if n >= at && !errors.Is(err, ErrLost) {
								t.Error(err)
							}
						case "release":
							err := w.Release(t.Context(), l)
							if n >= at && !errors.Is(err, ErrLost) {
								t.Error(err)
							}
						default:
							_, err := w.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
							if n >= at && content != "-" {
								wantError(t, err, CodeLockUnavailable, false)
							}
						}
						if got, err := os.ReadFile(path); n >= at && content != "-" && (err != nil || string(got) != content) {
							t.Errorf("the file has %q, %v", got, err)
						}
					})
				})
			}
		}
	}
}
