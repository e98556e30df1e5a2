package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// What becomes of a request in a random program.
const (
	fine       = iota
	notSent    // it never arrives
	noResponse // it is carried out, and the response lost
	late       // it is carried out, and the response comes after a while
	carriedOut // after the caller has given up
	hangs      // until the caller gives up
	away       // the store does not respond
	garbage    // another's lease
	fates
)

// job is what one goroutine of a program does.
type job struct {
	Client, Key     int
	Begin           int // in 100 ms, like all that follow
	Hold            int
	Wait            int // 0: until GiveUp
	GiveUp          int // when its context ends, after Begin; 0: never
	Handle, Ignores bool
	Shared, Fair    bool // in a story with modes
	MaxWaiting      int  // the same
}

// story is a random program.
type story struct {
	Jobs  []job
	Fates []int // of the requests, in the order of their arrival
	Delay []int // of those that are late
	Close int   // when the clients are closed
	Modes bool  // key-0 is for readers and a writer, key-1 has two permits
}

// options are those of a job.
func (s story) options(j job) *locks.LockOptions {
	o := &locks.LockOptions{}
	if j.Wait > 0 {
		o.Wait = new(time.Duration(j.Wait) * unit)
	}
	if !s.Modes {
		return o
	}
	if j.Key == 1 {
		o.Permits = 2
	} else {
		o.Shared, o.Fair = j.Shared, j.Fair
	}
	if o.Permits > 0 || o.Shared || o.Fair {
		o.MaxWaiting = j.MaxWaiting
	}
	return o
}

func stories(modes bool) *rapid.Generator[story] {
	return rapid.Custom(func(t *rapid.T) story {
		return story{
			Jobs: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) job {
				return job{
					Client: rapid.IntRange(0, 2).Draw(t, "client"), Key: rapid.IntRange(0, 1).Draw(t, "key"),
					Begin: rapid.IntRange(0, 300).Draw(t, "begin"),
					Hold:  rapid.IntRange(0, 150).Draw(t, "hold"), Wait: rapid.IntRange(0, 100).Draw(t, "wait"),
					GiveUp: rapid.IntRange(0, 200).Draw(t, "give up"),
					Handle: rapid.Bool().Draw(t, "handle"), Ignores: rapid.Bool().Draw(t, "ignores"),
					Shared: modes && rapid.Bool().Draw(t, "shared"), Fair: modes && rapid.Bool().Draw(t, "fair"),
					MaxWaiting: max(0, rapid.IntRange(-4, 4).Draw(t, "max waiting")),
				}
			}), 1, 12).Draw(t, "jobs"), Modes: modes,
			Fates: rapid.SliceOfN(rapid.IntRange(fine-fates, fates-1), 0, 80).Draw(t, "fates"),
			Delay: rapid.SliceOfN(rapid.IntRange(0, 80), 1, 10).Draw(t, "delay"),
			Close: rapid.IntRange(50, 600).Draw(t, "close"),
		}
	})
}

const unit = 100 * time.Millisecond

// fated is a provider with the fates of a story.
type fated struct {
	locks.Provider
	story

	mu      sync.Mutex
	n       int
	cleared bool // nothing goes wrong any more
}

// meet is what becomes of the next request.
func (f *fated) meet() (fate int, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.n
	f.n++
	if i >= len(f.Fates) || f.cleared {
		return fine, 0
	}
	return max(fine, f.Fates[i]), time.Duration(f.Delay[i%len(f.Delay)]) * unit
}

func met[T any](ctx context.Context, f *fated, do func(context.Context) (T, error), spoil func(*T)) (T, error) {
	var none T
	fate, delay := f.meet()
	switch fate {
	case notSent:
		return none, errNetwork
	case noResponse:
		_, _ = do(ctx)
		return none, errNetwork
	case late:
		got, err := do(ctx)
		time.Sleep(delay)
		return got, err
	case carriedOut:
		time.AfterFunc(delay, func() { _, _ = do(context.WithoutCancel(ctx)) })
		<-ctx.Done()
		return none, ctx.Err()
	case hangs:
		<-ctx.Done()
		return none, ctx.Err()
	case away:
		return none, contracts.Errorf(contracts.CodeUnavailable, "")
	case garbage:
		got, err := do(ctx)
		spoil(&got)
		return got, err
	default:
		return do(ctx)
	}
}

func (f *fated) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	return met(ctx, f, func(ctx context.Context) (contracts.Lease, error) { return f.Provider.Acquire(ctx, key, r) },
		func(l *contracts.Lease) { l.OwnerID = "another" })
}

func (f *fated) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	return met(ctx, f, func(ctx context.Context) (contracts.Lease, error) { return f.Provider.Renew(ctx, key, r) },
		func(l *contracts.Lease) { l.FencingToken++ })
}

func (f *fated) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	return met(ctx, f, func(ctx context.Context) (contracts.EndedLease, error) { return f.Provider.Release(ctx, key, r) },
		func(l *contracts.EndedLease) { l.LockKey = "another" })
}

// told collects the first thing that is wrong.
type told struct {
	mu  sync.Mutex
	err error
}

func (t *told) failf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// run runs a story and says what is wrong with it.
func (s story) run() error {
	const clients, ttl = 3, 5 * time.Second
	var t told
	rule := lock.New(docstore.NewMemory(nil), nil)
	f := &fated{Provider: direct.Locks(rule, "acme"), story: s}
	key := func(i int) string { return fmt.Sprint("key-", i) }

	var mu sync.Mutex
	events := make([][]locks.Event, clients)
	type holding struct {
		name    string // of the client
		shared  bool
		permits int
	}
	held := map[*locks.Lock]holding{}
	var all [clients]*locks.Client
	for i := range all {
		var err error
		if all[i], err = locks.New(f, &locks.Options{Owner: fmt.Sprint("client-", i), TTL: ttl, Observe: func(e locks.Event) {
			mu.Lock()
			defer mu.Unlock()
			events[i] = append(events[i], e)
		}}); err != nil {
			return err
		}
	}
	look := func() { // what a lock's context says is true
		mu.Lock()
		defer mu.Unlock()
		readers, others := map[string]int{}, map[string][]int{} // by key; permits
		for l, by := range held {
			if locks.Check(l.Context()) != nil {
				continue
			}
			switch {
			case by.shared:
				readers[l.Key()]++
			case slices.Contains(others[l.Key()], l.Permit()):
				t.failf("two hold %s, permit %d, at a time; one is %s", l.Key(), l.Permit(), by.name)
			default:
				others[l.Key()] = append(others[l.Key()], l.Permit())
			}
			if n := len(others[l.Key()]); n > max(1, by.permits) || n > 0 && readers[l.Key()] > 0 {
				t.failf("%d readers and %d others hold %s", readers[l.Key()], n, l.Key())
			}
			state, _, err := rule.Get(context.Background(), lock.ID{Tenant: "acme", Key: l.Key()})
			holds := state.Owner == by.name
			if len(state.Holders) > 0 {
				holds = slices.ContainsFunc(state.Holders, func(h lock.Holder) bool {
					return h.Owner == by.name && h.Permit == int64(l.Permit())
				})
			}
			if err != nil || state.Phase != lock.Active || !holds {
				t.failf("%s believes that it holds %s: %+v, %v", by.name, l.Key(), state, err)
			}
		}
	}
	hold := func(l *locks.Lock, j job) {
		o := s.options(j)
		mu.Lock()
		held[l] = holding{fmt.Sprint("client-", j.Client), o.Shared, o.Permits}
		mu.Unlock()
		look()
		if j.Ignores {
			time.Sleep(time.Duration(j.Hold) * unit)
		} else {
			select {
			case <-time.After(time.Duration(j.Hold) * unit):
			case <-l.Context().Done():
			}
		}
		look()
	}
	unlocked := func(l *locks.Lock) {
		mu.Lock()
		defer mu.Unlock()
		delete(held, l)
	}
	var work sync.WaitGroup
	for _, j := range s.Jobs {
		work.Go(func() {
			time.Sleep(time.Duration(j.Begin) * unit)
			ctx := context.Background()
			if j.GiveUp > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(j.GiveUp)*unit)
				defer cancel()
			}
			o := s.options(j)
			if !j.Handle {
				var ran, protected bool
				err := all[j.Client].Do(ctx, key(j.Key), o, func(_ context.Context, l *locks.Lock) error {
					defer unlocked(l)
					ran = true
					hold(l, j)
					protected = !errors.Is(locks.Check(l.Context()), locks.ErrLost)
					return nil
				})
				if ran && protected == errors.Is(err, locks.ErrLost) {
					t.failf("protected: %v, and the error is %v", protected, err)
				}
				return
			}
			l, err := all[j.Client].Lock(ctx, key(j.Key), o)
			if err != nil {
				return
			}
			hold(l, j)
			_ = l.Unlock(ctx)
			unlocked(l)
		})
	}
	stop := make(chan struct{})
	go func() {
		for range time.Tick(unit / 3) {
			select {
			case <-stop:
				return
			default:
				look()
			}
		}
	}()
	time.Sleep(time.Duration(s.Close) * unit)
	for _, c := range all {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_ = c.Close(ctx)
		})
	}
	work.Wait()
	close(stop)
	f.mu.Lock()
	f.cleared = true
	f.mu.Unlock()
	time.Sleep(time.Minute)
	for i := range 2 {
		if state, _, err := rule.Get(context.Background(), lock.ID{Tenant: "acme", Key: key(i)}); err != nil ||
			state.Phase == lock.Active || len(state.Waiting) > 0 {
			t.failf("%s is %s by %s at the end, with %d in line, %v", key(i), state.Phase, state.Owner, len(state.Waiting), err)
		}
	}
	if most := 1000; f.n > most {
		t.failf("%d requests", f.n)
	}
	mu.Lock() // as those who told them did
	defer mu.Unlock()
	for i, e := range events {
		if err := inOrder(e, !s.Modes); err != nil {
			t.failf("client %d: %w", i, err)
		}
	}
	return t.err
}

// inOrder says what is wrong with the events of a client. Of each token:
//
//	Acquired (Renewed | RenewalFailed)* [Lost] [ReleaseFailed* Released | ReleaseFailed]
//
// Where one client has a key once at a time, its tokens rise.
func inOrder(events []locks.Event, once bool) error {
	const (
		held = iota + 1
		lost
		failed
		over
	)
	state := map[int64]int{}
	highest := map[string]int64{}
	next := map[string]func(int) (int, bool){
		locks.Acquired:      func(s int) (int, bool) { return held, s == 0 },
		locks.Renewed:       func(s int) (int, bool) { return s, s == held },
		locks.RenewalFailed: func(s int) (int, bool) { return s, s == held },
		locks.Lost:          func(s int) (int, bool) { return lost, s == held },
		locks.Released:      func(s int) (int, bool) { return over, s == held || s == lost || s == failed },
		locks.ReleaseFailed: func(s int) (int, bool) { return failed, s == held || s == lost || s == failed },
		locks.Abandoned:     func(s int) (int, bool) { return over, s == 0 || s == over },
		locks.Waiting:       func(s int) (int, bool) { return s, true },
	}
	for i, e := range events {
		if i > 0 && e.At.Before(events[i-1].At) {
			return fmt.Errorf("event %d, %s, is earlier than the one before", i, e.What)
		}
		if e.Token == 0 {
			continue
		}
		id := e.Token*10 + int64(slices.Index([]string{"key-0", "key-1"}, e.Key)) // tokens of two keys may be equal
		to, ok := next[e.What](state[id])
		if !ok {
			return fmt.Errorf("event %d, %s of token %d: it was in state %d", i, e.What, e.Token, state[id])
		}
		state[id] = to
		if e.What == locks.Acquired {
			if once && e.Token <= highest[e.Key] {
				return fmt.Errorf("token %d after %d", e.Token, highest[e.Key])
			}
			highest[e.Key] = e.Token
		}
	}
	for id, s := range state {
		if s == held {
			return fmt.Errorf("what became of token %d is not told", id/10)
		}
	}
	return nil
}

// TestStories: whatever becomes of requests, a lock whose context lives is held, no two clients hold one at a time,
// nothing is held in the end, and the events say so in their order.
func TestStories(t *testing.T) { checkStories(t, false) }

// TestStoriesOfModes: the same for readers and writers, fair or not, and for permits: no two have one permit, and no
// writer is beside another.
func TestStoriesOfModes(t *testing.T) { checkStories(t, true) }

func checkStories(t *testing.T, modes bool) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		s := stories(modes).Draw(r, "story")
		var err error
		synctest.Test(t, func(*testing.T) { err = s.run() })
		if err != nil {
			r.Fatal(err)
		}
	})
}
