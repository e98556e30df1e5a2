package suite

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// AmbiguousModes is [Ambiguous] for locks with several holders, a line and policies. A command there may need two
// writes: each of them meets every fate. The oracle says what the command may return, and what is left.
func AmbiguousModes(t *testing.T, newStore func(t *testing.T, now func() time.Time) (docstore.Store, Faults)) {
	for name, s := range modesScenes {
		for _, which := range []int{0, 1} {
			for _, fate := range []Fate{LostRequest, LostResponse, AppliedThenError, AppliedLate} {
				t.Run(fmt.Sprintf("%s/write %d/%s", name, which+1, fate), func(t *testing.T) {
					clock := NewClock()
					store, faults := newStore(t, clock.Now)
					if fate == AppliedLate && faults.Settle == nil {
						return
					}
					between := &timed{Store: store, which: which, fate: func() { faults.Next(t, fate) }}
					if arranged := faults.Met; arranged != nil {
						faults.Met = func() bool { return between.met.Load() && arranged() }
					}
					s.play(t, between, faults, clock, fate)
				})
			}
		}
	}
}

// modesScene is a command that meets a fate, the commands before it, and one after it that shows what it left.
type modesScene struct {
	before []modesCommand
	wait   time.Duration
	do     modesCommand
	after  []modesCommand
}

// Commands of the scenes. Tokens are counted from that of the first grant, which is 0.
func sceneAcquire(request, mode string) modesCommand {
	c := modesCommand{do: "acquire", key: "k", owner: "ann", request: request, lease: "lease of " + request,
		mode: mode, ttl: 60}
	switch mode {
	case modePermits:
		c.limit = 2
	case modeRate:
		c.limit, c.window, c.ttl = 1, 60, 0
	}
	return c
}

func sceneRelease(token int64) modesCommand {
	return modesCommand{do: "release", key: "k", owner: "ann", request: fmt.Sprint("release ", token), token: token}
}

func (c modesCommand) waiting(seconds int64) modesCommand { c.wait = seconds; return c }

func (c modesCommand) fairly() modesCommand { c.fair = true; return c }

func (c modesCommand) replacing() modesCommand { c.replace = true; return c }

func (c modesCommand) closing(seconds int64) modesCommand { c.delay = seconds; return c }

var modesScenes = func() map[string]modesScene {
	reader, second, writer := sceneAcquire("r1", modeShared), sceneAcquire("r2", modeShared),
		sceneAcquire("w1", modeExclusive)
	permit, another, third := sceneAcquire("p1", modePermits), sceneAcquire("p2", modePermits),
		sceneAcquire("p3", modePermits)
	next := sceneAcquire("next", modeExclusive)
	force := modesCommand{do: "force", key: "k", owner: "ann", request: "f1", reason: "it hangs"}
	renew := modesCommand{do: "renew", key: "k", owner: "ann", request: "n1", token: 1, ttl: 30}
	return map[string]modesScene{
		"the first reader":  {do: reader, after: []modesCommand{next}},
		"the second reader": {before: []modesCommand{reader}, do: second, after: []modesCommand{next}},
		"a permit":          {before: []modesCommand{permit}, do: another, after: []modesCommand{third}},
		"an expired permit": {before: []modesCommand{permit, another}, wait: 60 * time.Second, do: third,
			after: []modesCommand{sceneAcquire("p4", modePermits)}},
		"a grant of a rate": {before: []modesCommand{writer, sceneRelease(0)}, do: sceneAcquire("g1", modeRate),
			after: []modesCommand{sceneAcquire("g2", modeRate)}},
		"the first in line": {before: []modesCommand{writer}, do: next.fairly().waiting(5),
			after: []modesCommand{second.waiting(5)}},
		"another in line": {before: []modesCommand{writer, reader.waiting(5)}, do: next.fairly().waiting(5),
			after: []modesCommand{second.waiting(5)}},
		"a place that moves": {before: []modesCommand{writer, reader.waiting(5)}, wait: 9 * time.Second,
			do: reader.waiting(20), after: []modesCommand{second.waiting(5)}},
		"a place given up": {before: []modesCommand{writer, reader.waiting(5), second.waiting(5)}, do: reader,
			after: []modesCommand{second.waiting(5)}},
		"a hand-over": {before: []modesCommand{writer, reader.waiting(5), second.waiting(5)}, do: sceneRelease(0),
			after: []modesCommand{second, reader}},
		"a claim": {before: []modesCommand{writer, reader.waiting(5), sceneRelease(0)}, wait: time.Second,
			do: reader.waiting(5), after: []modesCommand{next}},
		"a renewal": {before: []modesCommand{permit, another}, wait: time.Second, do: renew,
			after: []modesCommand{third}},
		"a release": {before: []modesCommand{permit, another}, do: sceneRelease(1), after: []modesCommand{third}},
		"the last release": {before: []modesCommand{permit, another, sceneRelease(1)}, do: sceneRelease(0),
			after: []modesCommand{next}},
		"a replacement": {before: []modesCommand{writer.replacing()}, do: next.replacing(),
			after: []modesCommand{sceneAcquire("w3", modeExclusive)}},
		"a forced end":         {before: []modesCommand{writer, reader.waiting(5)}, do: force, after: []modesCommand{reader}},
		"a forced end, closed": {before: []modesCommand{writer.closing(30)}, do: force, after: []modesCommand{next}},
		"after a lock delay": {before: []modesCommand{writer.closing(30)}, wait: 90 * time.Second, do: next,
			after: []modesCommand{sceneAcquire("w3", modeExclusive)}},
	}
}()

func (s modesScene) play(t *testing.T, store *timed, faults Faults, clock *Clock, fate Fate) {
	t.Helper()
	r := &sceneRun{tenant: "acme", store: store, clock: clock, locks: []modesLock{{}}}
	for _, c := range s.before {
		if err := r.send(t.Context(), c, false); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(s.wait)
	store.arm()
	var err error
	for try := range 5 {
		ctx, cancel := tryContext(t.Context(), faults, fate, try)
		err = r.send(ctx, s.do, true)
		cancel()
		if err == nil || r.failed {
			break
		}
	}
	if err != nil {
		t.Fatalf("after all tries: %v", err)
	}
	store.armed = false
	if fate == AppliedLate && store.met.Load() {
		faults.Settle(t)
	}
	for _, c := range append([]modesCommand{s.do}, s.after...) {
		if err := r.send(t.Context(), c, true); err != nil {
			t.Error(err)
		}
		if err := r.look(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// sceneRun is a scene that is being played.
type sceneRun struct {
	tenant string
	store  docstore.Store
	clock  *Clock
	locks  []modesLock
	first  int64 // token
	failed bool  // with an outcome that the oracle does not permit
}

// send sends a command once. again permits that an earlier delivery was carried out, of which the oracle was not told.
func (r *sceneRun) send(ctx context.Context, c modesCommand, again bool) error {
	o, err := r.run(ctx, r.store, c)
	if err != nil {
		return err
	}
	next := r.explained(r.locks, c, o, again)
	if len(next) == 0 {
		r.failed = true
		return r.unexplained(c, o)
	}
	r.locks = next
	return nil
}

// run carries a command out on a store.
func (r *sceneRun) run(ctx context.Context, store docstore.Store, c modesCommand) (lock.Outcome, error) {
	id := lock.ID{Tenant: r.tenant, Key: c.key}
	if c.do == "renew" || c.do == "release" {
		c.token += r.first
	}
	var (
		o   lock.Outcome
		err error
	)
	switch c.do {
	case "acquire":
		o, err = rule.Run(ctx, store, r.clock.Now, modesAcquire(id, c))
	case "renew":
		o, err = rule.Run(ctx, store, r.clock.Now, lock.Renew{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request,
			TTLSeconds: c.ttl})
	case "release":
		o, err = rule.Run(ctx, store, r.clock.Now, lock.Release{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request})
	default:
		o, err = rule.Run(ctx, store, r.clock.Now, lock.ForceRelease{ID: id, By: c.owner, Reason: c.reason,
			RequestID: c.request})
	}
	if r.first == 0 && o.Code == lock.OK {
		r.first = o.Lease.Token
	}
	return o, err
}

// explained are the locks to which a command with an outcome may have led; none is a mistake.
func (r *sceneRun) explained(locks []modesLock, c modesCommand, o lock.Outcome, again bool) (next []modesLock) {
	if c.do == "renew" || c.do == "release" {
		c.token += r.first
	}
	at, seen := momentOf(r.clock.Now()), modesSaw(o)
	for _, l := range locks {
		if l.token == 0 && seen.code == "OK" {
			l.token = seen.token - 1
		}
		results := l.step(c, at, at)
		if again {
			for _, x := range l.step(c, at, at) {
				for _, y := range x.after.step(c, at, at) {
					if y.answer.replayed == 1 {
						results = append(results, y)
					}
				}
			}
		}
		for _, x := range results {
			if x.answer.explains(c, seen) {
				next = append(next, x.after)
			}
		}
	}
	return modesDistinct(next)
}

func (r *sceneRun) unexplained(c modesCommand, o lock.Outcome) error {
	at := momentOf(r.clock.Now())
	return fmt.Errorf("%+v:\ngot  %+v (%s)\nwant %s\nfrom %s", c, modesSaw(o), o.Detail, modesWanted(r.locks, c, at),
		r.locks[0].describe())
}

// look compares the lock with what the oracle says of it.
func (r *sceneRun) look(ctx context.Context) error {
	status, found, err := lock.New(r.store, nil).Get(ctx, lock.ID{Tenant: r.tenant, Key: "k"})
	if err != nil {
		return err
	}
	var why error
	for _, l := range r.locks {
		if why = l.looksLike(status, found, momentOf(r.clock.Now())); why == nil {
			return nil
		}
	}
	return fmt.Errorf("the lock shows %+v: %w", status, why)
}

// timed is a store that arranges a fate just before a write of a command.
type timed struct {
	docstore.Store

	which int // 0 is the first after arm
	fate  func()

	armed  bool
	met    atomic.Bool
	writes int
}

func (s *timed) arm() { s.armed = true }

func (s *timed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.armed {
		if s.writes == s.which && !s.met.Load() {
			s.fate()
			s.met.Store(true)
		}
		s.writes++
	}
	return s.Store.Write(ctx, writes...)
}
