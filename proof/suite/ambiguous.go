package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Fate is what becomes of a write on its way to the service behind a store and back.
type Fate string

// The fates of a write.
const (
	LostRequest      Fate = "lost request"           // the service never sees it
	LostResponse     Fate = "lost response"          // applied, and the response is lost
	AppliedThenError Fate = "applied, then an error" // applied, and the service says that it is unavailable
	AppliedLate      Fate = "applied late"           // applied after the caller gave up waiting
)

// Faults arranges the fate of writes between a store and its service.
type Faults struct {
	// Next makes the next write of the store meet the fate, once, and leaves those that follow alone.
	Next func(t *testing.T, f Fate)

	// Met reports whether a write has met the fate. Nil if AppliedLate does not exist here.
	Met func() bool

	// Settle returns when what was applied late has been applied. Nil if AppliedLate does not exist here.
	Settle func(t *testing.T)
}

// Ambiguous holds the rule of the ambiguous write (LS-ACC-04) against every fate and every command: a caller that
// retries the same request until a response arrives gets the right one, and the command has had one effect: no false
// LOCK_HELD, no false LEASE_LOST, no second grant. It makes no difference whether the store's own library sends again
// underneath. A command may need two writes: each of them meets every fate. The oracle of the modes says what a command
// may return, and what is left.
func Ambiguous(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) { everyFate(t, newStore, s.play, "write 1", "write 2") })
	}
	everyFate(t, newStore, ambiguousSets, "acquire set", "renew set", "release set")
}

// everyFate runs a test for every fate of every command, each on a store of its own.
func everyFate(
	t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults),
	test func(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate), commands ...string,
) {
	for _, fate := range []Fate{LostRequest, LostResponse, AppliedThenError, AppliedLate} {
		for _, do := range commands {
			t.Run(fmt.Sprintf("%s/%s", do, fate), func(t *testing.T) {
				clock := NewClock()
				store, faults := newStore(t, clock.Now)
				if fate == AppliedLate && faults.Settle == nil {
					return
				}
				test(t, store, faults, clock, do, fate)
			})
		}
	}
}

// untilAnswered sends a command until a response arrives, the first time with a fate for its write, and returns when
// that has been met with.
func untilAnswered[A any](t *testing.T, faults Faults, fate Fate, send func(context.Context) (A, error)) (answer A,
	err error) {
	t.Helper()
	faults.Next(t, fate)
	for try := range 5 {
		ctx, cancel := tryContext(t.Context(), faults, fate, try)
		answer, err = send(ctx)
		cancel()
		if err == nil {
			break
		}
	}
	if fate == AppliedLate {
		faults.Settle(t)
	}
	return answer, err
}

// tryContext is the context of a try. The caller of a write that is applied late gives up when the write has reached
// the service: later it would wait for ever, sooner the fault would hit the next try.
func tryContext(parent context.Context, faults Faults, fate Fate, try int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	if fate == AppliedLate && try == 0 {
		go func() {
			defer cancel()
			for !faults.Met() && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return ctx, cancel
}

// Unreliable puts faults before a store that has none of its own, such as the one in memory.
func Unreliable(store docstore.Store) (docstore.Store, Faults) {
	u := &unreliable{Store: store}
	return u, Faults{
		Next: func(_ *testing.T, f Fate) { u.set(f) },
		Met:  func() bool { return len(u.held()) > 0 },
		Settle: func(t *testing.T) {
			t.Helper()
			for _, writes := range u.held() {
				if _, err := store.Write(t.Context(), writes...); err != nil {
					t.Error(err)
				}
			}
		},
	}
}

type unreliable struct {
	docstore.Store
	mu   sync.Mutex
	fate Fate
	late [][]docstore.Write
}

func (u *unreliable) set(f Fate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fate = f
}

func (u *unreliable) held() [][]docstore.Write {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.late
}

var errInjected = fmt.Errorf("%w: injected", docstore.ErrUnavailable)

func (u *unreliable) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	u.mu.Lock()
	fate := u.fate
	u.fate = ""
	if fate == AppliedLate {
		u.late = append(u.late, writes)
	}
	u.mu.Unlock()
	switch fate {
	case LostRequest:
		return docstore.Result{}, errInjected
	case LostResponse, AppliedThenError:
		_, err := u.Store.Write(ctx, writes...)
		return docstore.Result{}, errors.Join(errInjected, err)
	case AppliedLate:
		return docstore.Result{}, context.DeadlineExceeded
	default:
		return u.Store.Write(ctx, writes...)
	}
}
