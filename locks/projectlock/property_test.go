package projectlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestEventsUnderFaults: three processes of one folder, on a disk that fails, hangs and is slow, one of which may be
// stopped for minutes, do what a random program says. Whatever happens, the events of each lease follow the grammar
// below, no two leases that their holders believe in overlap, no listener is told of an earlier time, and no other file
// is touched (PRJ-SUBSCRIBE, PRJ-WITH, PRJ-FILE, PRJ-ACQ-1, PRJ-RNW-3, PRJ-REL-2).
func TestEventsUnderFaults(t *testing.T) {
	folder := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		project := filepath.Join(folder, strconv.Itoa(run))
		if err := errors.Join(os.Mkdir(project, 0o700), os.WriteFile(filepath.Join(project, "other"), nil,
			0o600)); err != nil {
			t.Fatal(err)
		}
		before := tree(t, project)
		program := drawProgram(rt)
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Second)
			problems = program.run(t, project)
		})
		after := tree(t, project)
		if delete(after, filepath.Join(project, fileName)); !maps.Equal(after, before) {
			problems = append(problems, fmt.Sprintf("files: %v, want %v", after, before))
		}
		if len(problems) > 0 {
			rt.Fatalf("%s\n%+v", problems, program)
		}
	})
}

// program is what happens in one run.
type program struct {
	Seed   uint64
	Faults map[string]int // in a hundred, by operation
	Hangs  int            // in a thousand
	Steps  [3][]step      // of each process
}

type step struct {
	What  string
	Wait  time.Duration // before it
	Long  time.Duration // of the work of With
	Retry RetryPolicy
}

func drawProgram(rt *rapid.T) program {
	p := program{Seed: rapid.Uint64().Draw(rt, "seed"), Faults: map[string]int{},
		Hangs: rapid.SampledFrom([]int{0, 0, 5, 50}).Draw(rt, "hangs")}
	for _, op := range []string{opStat, opOpen, opRead, opWrite, opRemove} {
		p.Faults[op] = rapid.SampledFrom([]int{0, 0, 10, 50, 95}).Draw(rt, op)
	}
	for i := range p.Steps {
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			p.Steps[i] = append(p.Steps[i], step{
				What: rapid.SampledFrom([]string{"with", "with", "acquire", "renew", "release", "stop", "forget"}).Draw(rt,
					"what"),
				Wait:  time.Duration(rapid.IntRange(0, 12_000).Draw(rt, "wait")) * time.Millisecond,
				Long:  time.Duration(rapid.SampledFrom([]int{0, 5, 19, 21, 45, 100}).Draw(rt, "long")) * time.Second,
				Retry: RetryPolicy{MaxAttempts: rapid.IntRange(1, 6).Draw(rt, "attempts")},
			})
		}
	}
	return p
}

// actor is one process of a program.
type actor struct {
	*world

	random *rand.Rand
	mu     sync.Mutex
}

func (a *actor) n(most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.IntN(most)
}

// believers are the leases in which their holders believe.
type believers struct {
	mu       sync.Mutex
	leases   map[*actor]Lease
	problems []string
}

func (b *believers) reportf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// look is called when an actor has a lease: no other may believe in one, that has not been stopped since.
func (b *believers) look(a *actor, l Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, held := range b.leases {
		if left := held.Remaining(); other != a && left > 0 && l.Remaining() > 0 {
			b.problems = append(b.problems, fmt.Sprintf("%s and %s are both held, the one for %v", l.ID(), held.ID(), left))
		}
	}
	b.leases[a] = l
}

func (b *believers) forget(a *actor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.leases, a)
}

func (p program) run(t *testing.T, project string) []string {
	b := &believers{leases: map[*actor]Lease{}}
	var all sync.WaitGroup
	var actors []*actor
	over := make(chan struct{})
	for i := range p.Steps {
		a := &actor{world: newWorld(t, project), random: rand.New(rand.NewPCG(p.Seed, uint64(i)))}
		actors = append(actors, a)
		a.disk.on(func(op string) error {
			if a.n(1000) < p.Hangs {
				<-over
			}
			if a.n(100) >= p.Faults[op] {
				return nil
			}
			if a.n(20) == 0 {
				return fs.ErrPermission
			}
			return errDisk
		})
		all.Go(func() {
			for _, s := range p.Steps[i] {
				time.Sleep(s.Wait)
				a.do(t, b, s)
			}
		})
	}
	all.Wait()
	for _, a := range actors {
		a.disk.on(nil)
	}
	close(over)
	synctest.Wait()
	for i, a := range actors {
		for _, problem := range grammar(a.seen()) {
			b.reportf("process %d: %s", i, problem)
		}
	}
	// Whatever is left behind has expired after the ttl: the lock can be had.
	time.Sleep(TTL)
	last := newWorld(t, project)
	if err := os.Chtimes(filepath.Join(project, fileName), time.Now().Add(-TTL), time.Now().Add(-TTL)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		t.Error(err) // the filesystem has another clock than the bubble
	}
	if l, err := last.Acquire(t.Context(), nil); err != nil || last.Release(t.Context(), l) != nil {
		b.reportf("the lock cannot be had: %v", err)
	}
	return b.problems
}

func (a *actor) do(t *testing.T, b *believers, s step) {
	b.mu.Lock()
	l := b.leases[a]
	b.mu.Unlock()
	switch s.What {
	case "with":
		if l.ID() != "" {
			return
		}
		id, n := "", 0
		err := a.With(t.Context(), &AcquireOptions{Retry: s.Retry}, func(ctx context.Context, l Lease) error {
			id, n = l.ID(), n+1
			b.look(a, l)
			select {
			case <-ctx.Done():
			case <-time.After(s.Long):
			}
			if lost := ctx.Err() != nil; lost != (Check(ctx) != nil) || lost && l.Remaining() > 0 {
				b.reportf("the context of %s says %v, Check %v, and it has %v left", id, ctx.Err(), Check(ctx), l.Remaining())
			}
			return nil
		})
		b.forget(a)
		if n == 0 {
			if e, ok := errors.AsType[*LockError](err); !ok || e.Code != CodeLockUnavailable || e.Retryable {
				b.reportf("With: %v", err)
			}
			return
		}
		var last EventType
		for _, e := range a.seen() {
			if e.LeaseID == id && e.Type != Failed {
				last = e.Type
			}
		}
		if last != Released && last != CleanupWarning {
			b.reportf("the last event of %s is %s", id, last)
		}
		if e, ok := errors.AsType[*LockError](err); err != nil && (!ok || e.Code != CodeLockRenewalFailed ||
			!errors.Is(err, ErrLost)) {
			b.reportf("With: %v", err)
		}
	case "acquire":
		if l.ID() != "" {
			return
		}
		if l, err := a.Acquire(t.Context(), &AcquireOptions{Retry: s.Retry}); err == nil {
			b.look(a, l)
		}
	case "renew":
		if l.ID() != "" {
			if l, err := a.Renew(t.Context(), l); err == nil {
				b.look(a, l)
			}
		}
	case "release":
		if l.ID() != "" {
			_ = a.Release(t.Context(), l)
			b.forget(a)
		}
	case "stop": // for longer than a lease: everything in it is lost
		time.Sleep(2 * TTL)
		if l.Remaining() > 0 {
			b.reportf("%s is held after it was stopped", l.ID())
		}
	case "forget": // it crashes, and begins again
		b.forget(a)
	}
}

// grammar says what is wrong with the events of a process. For each lease:
//
//	retry^(0..n-1) ( error | acquired ( renewed | retry | error )* ( released | cleanup-warning )* )
//
// and an acquire that was given up may warn of what it left behind.
func grammar(events []Event) (problems []string) {
	type state struct {
		acquired, over, failed bool
		attempt                int
	}
	leases := map[string]*state{}
	var last time.Time
	for i, e := range events {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("event %d, %s of %s: ", i, e.Type, e.LeaseID)+fmt.Sprintf(format, args...))
		}
		s := leases[e.LeaseID]
		if s == nil {
			s = &state{}
			leases[e.LeaseID] = s
		}
		if e.At.Before(last) || e.LeaseID == "" || e.Backend != Fallback || e.Scope != Autosave {
			bad("%+v after %v", e, last)
		}
		last = e.At
		if s.over && e.Type != CleanupWarning {
			bad("the lease was over")
		}
		switch e.Type {
		case Acquired:
			if s.acquired || s.failed || e.Attempt != s.attempt+1 {
				bad("attempt %d after %d, acquired: %v, failed: %v", e.Attempt, s.attempt, s.acquired, s.failed)
			}
			s.acquired, s.attempt = true, 0
		case Renewed:
			if !s.acquired || !e.TTLExpiresAt.After(e.At.Add(TTL-TryTimeout)) {
				bad("acquired: %v, until %v", s.acquired, e.TTLExpiresAt)
			}
			s.attempt = 0
		case RetryScheduled:
			if s.acquired && e.Attempt == 1 {
				s.attempt = 0 // another renewal
			}
			want := min(500*time.Millisecond<<s.attempt, 4*time.Second)
			if e.Attempt != s.attempt+1 || e.Delay != want || s.acquired && e.Attempt > 4 {
				bad("attempt %d after %d, %v", e.Attempt, s.attempt, e.Delay)
			}
			if e.Reason != Contended && e.Reason != Unavailable && e.Reason != TransientError ||
				s.acquired && e.Reason == Contended {
				bad("reason %q", e.Reason)
			}
			s.attempt = e.Attempt
		case Failed:
			want := CodeLockUnavailable
			if s.acquired {
				want = CodeLockRenewalFailed
			}
			if e.Err == nil || e.Err.Code != want || e.Err.Retryable || !s.acquired && s.failed {
				bad("%v", e.Err)
			}
			s.failed = true
		case Released:
			if !s.acquired {
				bad("it was not acquired")
			}
			s.over = true
		case CleanupWarning:
			if e.Message == "" {
				bad("no message")
			}
			s.over = s.acquired
		}
	}
	return problems
}

// FuzzContent: whatever is in the file, it is judged; what this package writes is read again, and held until its time.
func FuzzContent(f *testing.F) {
	for _, content := range []string{"", "{}", other(time.Unix(1, 0)), other(time.Unix(1<<40, 0)), `{"ttlExpiresAt":1e3}`,
		`{"ttlExpiresAt":9223372036854775807}`} {
		f.Add([]byte(content), int64(0))
	}
	path := filepath.Join(f.TempDir(), fileName)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		f.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		f.Fatal(err)
	}
	l := &fileLock{path: path, left: func(string) bool { return false }}
	f.Fuzz(func(t *testing.T, content []byte, now int64) {
		r, ok := decode(content)
		err := l.holder(content, info, time.UnixMilli(now))
		if ok && (err == nil) != (now >= r.TTLExpiresAt) ||
			!ok && (err == nil) != (now >= info.ModTime().Add(TTL).UnixMilli()) {
			t.Fatalf("%q at %d: %v", content, now, err)
		}
		if r.ID = newID(); ok && r.Backend == Fallback && r.Scope == Autosave {
			if again, ok := decode(r.encode()); !ok || again != r {
				t.Fatalf("%+v became %+v", r, again)
			}
		}
	})
}
