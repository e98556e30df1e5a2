package projectlock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errWork = errors.New("the work failed")

// TestWith: the lock is held while the work runs, and its last event is lock:released, whatever the work does
// (PRJ-WITH).
func TestWith(t *testing.T) {
	for name, c := range map[string]struct {
		work func() error
		err  error
	}{"succeeds": {func() error { return nil }, nil}, "fails": {func() error { return errWork }, errWork}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				err := w.With(t.Context(), &AcquireOptions{Scope: History}, func(ctx context.Context, l Lease) error {
					if w.content().ID != l.ID() || l.Scope() != History || Check(ctx) != nil {
						t.Errorf("%+v, %v", w.content(), Check(ctx))
					}
					return c.work()
				})
				if !errors.Is(err, c.err) || c.err == nil && err != nil || w.content() != nil {
					t.Errorf("%v, %+v", err, w.content())
				}
				if got := w.types(); !slices.Equal(got, []EventType{Acquired, Released}) {
					t.Errorf("events: %v", got)
				}
			})
		})
	}
	t.Run("panics", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, errWork) || w.content() != nil ||
					!slices.Equal(w.types(), []EventType{Acquired, Released}) {
					t.Errorf("%v, %v", err, w.types())
				}
			}()
			_ = w.With(t.Context(), nil, func(context.Context, Lease) error { panic(errWork) })
		})
	})
	t.Run("ends its goroutine", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = w.With(t.Context(), nil, func(context.Context, Lease) error { runtime.Goexit(); return nil })
			}()
			<-done
			if w.content() != nil {
				t.Errorf("%+v", w.content())
			}
		})
	})
	t.Run("releases", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			err := w.With(t.Context(), nil, func(ctx context.Context, l Lease) error {
				if err := w.Release(ctx, l); err != nil || ctx.Err() == nil {
					t.Error(err, ctx.Err())
				}
				time.Sleep(time.Hour)
				return nil
			})
			if got := w.types(); err != nil || !slices.Equal(got, []EventType{Acquired, Released}) {
				t.Errorf("%v, events: %v", err, got)
			}
		})
	})
	t.Run("is not begun", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.put(other(time.Now().Add(time.Hour)), time.Now())
			err := w.With(t.Context(), nil, func(context.Context, Lease) error {
				t.Error("it was")
				return nil
			})
			wantError(t, err, CodeLockUnavailable, false)
		})
	})
}

// TestWithRenews: a long work keeps its lock, which is renewed every 20 s (PRJ-WITH, PRJ-RNW-1).
func TestWithRenews(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		rival := newWorld(t, w.folder)
		err := w.With(t.Context(), nil, func(ctx context.Context, l Lease) error {
			go func() {
				_, err := rival.Acquire(ctx, &AcquireOptions{Retry: RetryPolicy{Multiplier: 1, MaxAttempts: 1 << 20}})
				if !errors.Is(err, CodeLockTimeout) {
					t.Errorf("the rival: %v", err)
				}
			}()
			time.Sleep(65200 * time.Millisecond) // between two attempts of the rival
			if left := l.Remaining(); left != 24800*time.Millisecond-time.Millisecond {
				t.Errorf("%v left", left)
			}
			return Check(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := w.seen()
		if len(got) != 5 {
			t.Fatalf("%+v", got)
		}
		for i, e := range got[1:4] {
			at := w.start.Add(time.Duration(i+1) * RenewAfter)
			if e.Type != Renewed || !e.At.Equal(at) || !e.TTLExpiresAt.Equal(at.Add(TTL)) {
				t.Errorf("%+v, want the renewal of %v", e, at)
			}
		}
	})
}

// TestWithAfterTheWorkRenewed: the next renewal is 20 s after the latest one, also if the work made that.
func TestWithAfterTheWorkRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_ = w.With(t.Context(), nil, func(ctx context.Context, l Lease) error {
			time.Sleep(15 * time.Second)
			if _, err := w.Renew(ctx, l); err != nil {
				t.Error(err)
			}
			time.Sleep(25 * time.Second)
			return nil
		})
		got := w.seen()
		if len(got) != 4 || !got[2].At.Equal(w.start.Add(35*time.Second)) {
			t.Errorf("%+v", got)
		}
	})
}

// TestWithLosesTheLock: when five renewals have failed the work's context ends, before the lease does, and With says so
// (PRJ-WITH, PRJ-RNW-3).
func TestWithLosesTheLock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		err := w.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			w.disk.fails(opWrite, errDisk)
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
			if got := time.Since(w.start); got != 27500*time.Millisecond || !errors.Is(context.Cause(ctx), ErrLost) ||
				!errors.Is(Check(derived), errDisk) {
				t.Errorf("after %v: %v", got, context.Cause(ctx))
			}
			return errWork
		})
		wantError(t, err, CodeLockRenewalFailed, true)
		if !errors.Is(err, ErrLost) || !errors.Is(err, errDisk) || !errors.Is(err, errWork) {
			t.Error(err)
		}
		want := []EventType{Acquired, RetryScheduled, RetryScheduled, RetryScheduled, RetryScheduled, Released}
		if !slices.Equal(w.types(), want) || w.content() != nil {
			t.Errorf("events: %v", w.types())
		}
	})
}

// TestWithWithoutTheRight: a file that may not be written any more ends the work, and is not retryable.
func TestWithWithoutTheRight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		err := w.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			w.disk.fails(opWrite, fs.ErrPermission)
			<-ctx.Done()
			return nil
		})
		wantError(t, err, CodeLockRenewalFailed, false)
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, Failed, Released}) {
			t.Errorf("events: %v", got)
		}
	})
}

// TestWithAfterAThaw: a process that was stopped for longer than its lease knows before its next step, and leaves alone
// what another one has written since (PRJ-WITH, PRJ-REL-1).
func TestWithAfterAThaw(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		next := newWorld(t, w.folder)
		var taken Lease
		err := w.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			w.clock.set(0, TTL)
			next.clock.set(0, TTL)
			taken = next.acquire(nil)
			if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrLost) {
				t.Errorf("%v", context.Cause(ctx))
			}
			return nil
		})
		wantError(t, err, CodeLockRenewalFailed, true)
		if w.content() == nil || w.content().ID != taken.ID() {
			t.Errorf("%+v", w.content())
		}
		if got := w.types(); !slices.Equal(got, []EventType{Acquired, CleanupWarning}) {
			t.Errorf("events: %v", got)
		}
	})
}

// TestWithHangs: a renewal that hangs ends neither the watch over the expiry nor the release, and comes too late to
// matter.
func TestWithHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		hangs := make(chan struct{})
		err := w.With(t.Context(), nil, func(ctx context.Context, _ Lease) error {
			w.disk.on(func(op string) error {
				if op == opOpen {
					<-hangs
				}
				return nil
			})
			<-ctx.Done()
			if got := time.Since(w.start); got >= TTL || got < 29*time.Second {
				t.Errorf("after %v", got)
			}
			w.disk.on(nil)
			return nil
		})
		wantError(t, err, CodeLockRenewalFailed, true)
		close(hangs)
		synctest.Wait()
		if w.content() != nil {
			t.Errorf("%+v", w.content())
		}
		for _, e := range w.seen()[1:] {
			if e.Type == RetryScheduled && e.Reason != Unavailable {
				t.Errorf("%+v", e)
			}
		}
		if got := w.types(); got[len(got)-1] != Released {
			t.Errorf("events: %v", got)
		}
	})
}

// TestWithIsCancelled: the caller's context is that of the work, and the lock is released after it ended (PRJ-WITH).
func TestWithIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		err := w.With(after(t, time.Second), nil, func(ctx context.Context, _ Lease) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) || w.content() != nil ||
			!slices.Equal(w.types(), []EventType{Acquired, Released}) {
			t.Errorf("%v, %v", err, w.types())
		}
	})
}

// TestWithCannotRelease: the last event is a warning, and the work's result counts (PRJ-WITH).
func TestWithCannotRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		err := w.With(t.Context(), nil, func(context.Context, Lease) error {
			w.disk.fails(opRemove, errDisk)
			return nil
		})
		if got := w.types(); err != nil || !slices.Equal(got, []EventType{Acquired, CleanupWarning}) {
			t.Errorf("%v, events: %v", err, got)
		}
	})
}

// TestRelativeFolder: the file stays the same one if the process changes its folder.
func TestRelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("project", 0o700); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New("project", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	l, err := p.Acquire(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(here, "project", ".lock")); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context(), l); err != nil {
		t.Error(err)
	}
}
