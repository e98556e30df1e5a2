package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// scene is a command whose writes meet something, the commands before it, and those after it, which show what it left.
type scene struct {
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

func sceneRenewal(token int64) modesCommand {
	return modesCommand{do: "renew", key: "k", owner: "ann", request: "n1", token: token, ttl: 30}
}

func (c modesCommand) waiting(seconds int64) modesCommand { c.wait = seconds; return c }

func (c modesCommand) fairly() modesCommand { c.fair = true; return c }

func (c modesCommand) replacing() modesCommand { c.replace = true; return c }

// scenePush is an acquire that replaces, and ends half an hour after the scene has begun, each a second later.
func scenePush(n int) modesCommand {
	c := sceneAcquire(fmt.Sprint("push ", n), modeExclusive).replacing()
	c.until = moment(1_800_000 + 1000*n)
	return c
}

// scenePushes are some of them, which are granted, or given up.
func scenePushes(do string, from, to int) (all []modesCommand) {
	for n := from; n <= to; n++ {
		c := scenePush(n)
		c.do = do
		all = append(all, c)
	}
	return all
}

func (c modesCommand) closing(seconds int64) modesCommand { c.delay = seconds; return c }

var scenes = func() map[string]scene {
	reader, second, writer := sceneAcquire("r1", modeShared), sceneAcquire("r2", modeShared),
		sceneAcquire("w1", modeExclusive)
	permit, another, third := sceneAcquire("p1", modePermits), sceneAcquire("p2", modePermits),
		sceneAcquire("p3", modePermits)
	next := sceneAcquire("next", modeExclusive)
	force := modesCommand{do: "force", key: "k", owner: "ann", request: "f1", reason: "it hangs"}
	return map[string]scene{
		"a lock": {do: writer, after: []modesCommand{sceneRelease(0), next}},
		"an expired lock": {before: []modesCommand{writer}, wait: time.Hour, do: next,
			after: []modesCommand{sceneRelease(1), reader}},
		"a renewal of a lock": {before: []modesCommand{writer}, wait: time.Second, do: sceneRenewal(0),
			after: []modesCommand{sceneRelease(0), next}},
		"a release of a lock":    {before: []modesCommand{writer}, do: sceneRelease(0), after: []modesCommand{next}},
		"a forced end of a lock": {before: []modesCommand{writer}, do: force, after: []modesCommand{next}},

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
		"a renewal": {before: []modesCommand{permit, another}, wait: time.Second, do: sceneRenewal(1),
			after: []modesCommand{third}},
		"a release": {before: []modesCommand{permit, another}, do: sceneRelease(1), after: []modesCommand{third}},
		"the last release": {before: []modesCommand{permit, another, sceneRelease(1)}, do: sceneRelease(0),
			after: []modesCommand{next}},
		"a replacement": {before: []modesCommand{writer.replacing()}, do: next.replacing(),
			after: []modesCommand{sceneAcquire("w3", modeExclusive)}},
		"a forced end":         {before: []modesCommand{writer, reader.waiting(5)}, do: force, after: []modesCommand{reader}},
		"a forced end, closed": {before: []modesCommand{writer.closing(30)}, do: force, after: []modesCommand{next}},
		"a late copy": {before: append(scenePushes("give up", 1, 6), scenePush(7)), do: scenePush(1),
			after: []modesCommand{scenePush(2), scenePush(8), scenePush(1)}},
		"a late copy of one that was replaced": {before: scenePushes("acquire", 1, 6), do: scenePush(1).fairly().waiting(5),
			after: []modesCommand{scenePush(2), scenePush(7), scenePush(1)}},
		"a push after many": {before: scenePushes("acquire", 1, 6), do: scenePush(7),
			after: []modesCommand{scenePush(1), scenePush(3), scenePush(8)}},
		"one more that is given up": {before: append(scenePushes("give up", 1, 5), scenePush(7)),
			do: scenePushes("give up", 6, 6)[0], after: []modesCommand{scenePush(1), scenePush(2), scenePush(8)}},
		"one more that is given up, and had the lock": {before: append(scenePushes("give up", 1, 5), scenePush(6)),
			do: scenePushes("give up", 6, 6)[0], after: []modesCommand{scenePush(7), scenePush(1), scenePush(8)}},
		"after a lock delay": {before: []modesCommand{writer.closing(30)}, wait: 90 * time.Second, do: next,
			after: []modesCommand{sceneAcquire("w3", modeExclusive)}},
	}
}()

// begin plays a scene up to its command.
func (s scene) begin(ctx context.Context, store docstore.Store, clock *Clock, tenant string) (*sceneRun, error) {
	r := &sceneRun{tenant: tenant, store: store, clock: clock, locks: []modesLock{{}}, begun: momentOf(clock.Now())}
	for _, c := range s.before {
		if err := r.send(ctx, c, false); err != nil {
			return nil, err
		}
	}
	clock.Advance(s.wait)
	return r, nil
}

// play plays a scene in which a write of the command meets a fate, and the command is sent until it is answered.
func (s scene) play(t *testing.T, inner docstore.Store, faults Faults, clock *Clock, which string, fate Fate) {
	t.Helper()
	store := &timed{Store: inner, which: map[string]int{"write 2": 1}[which], fate: func() { faults.Next(t, fate) }}
	if arranged := faults.Met; arranged != nil {
		faults.Met = func() bool { return store.met.Load() && arranged() }
	}
	r, err := s.begin(t.Context(), store, clock, "acme")
	if err != nil {
		t.Fatal(err)
	}
	store.armed = true
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
	if err := r.goOn(t.Context(), true, append([]modesCommand{s.do}, s.after...)); err != nil {
		t.Error(err)
	}
}

// sceneRun is a scene that is being played.
type sceneRun struct {
	tenant string
	store  docstore.Store
	clock  *Clock
	locks  []modesLock
	first  int64 // token
	begun  moment
	failed bool // with an outcome that the oracle does not permit
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

// goOn sends commands, and looks at the lock after each.
func (r *sceneRun) goOn(ctx context.Context, again bool, commands []modesCommand) error {
	for _, c := range commands {
		if err := r.send(ctx, c, again); err != nil {
			return err
		}
		if err := r.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run carries a command out on a store.
func (r *sceneRun) run(ctx context.Context, store docstore.Store, c modesCommand) (lock.Outcome, error) {
	o, err := modesSend(ctx, store, r.clock, lock.ID{Tenant: r.tenant, Key: c.key}, r.named(c))
	if r.first == 0 && err == nil && o.Code == lock.OK && c.do == "acquire" {
		r.first = o.Lease.Token
	}
	return o, err
}

// named is a command with the token that the lock has given, and the end that it has in the scene.
func (r *sceneRun) named(c modesCommand) modesCommand {
	if c.do == "renew" || c.do == "release" {
		c.token += r.first
	}
	if c.until != 0 {
		c.until += r.begun
	}
	return c
}

// explained are the locks to which a command with an outcome may have led; none is a mistake.
func (r *sceneRun) explained(locks []modesLock, c modesCommand, o lock.Outcome, again bool) (next []modesLock) {
	c = r.named(c)
	at, seen := momentOf(r.clock.Now()), modesSaw(o)
	for _, l := range locks {
		if l.token == 0 && seen.code == "OK" && c.do == "acquire" {
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

	which int // 0 is the first
	fate  func()

	armed  bool
	met    atomic.Bool
	writes int
}

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

// modesBetween carries out each command of the scenes that needs two writes with each of some other commands between
// the two. Whatever changes the document that the second write rests on, the two commands must be explained one after
// the other, and so must what they leave.
func modesBetween(ctx context.Context, store docstore.Store, clock *Clock) error {
	met := 0
	for _, scene := range slices.Sorted(maps.Keys(scenes)) {
		s := scenes[scene]
		others := maps.Clone(modesOthers)
		others["the same once more"] = s.do
		for _, other := range slices.Sorted(maps.Keys(others)) {
			between, err := s.playBetween(ctx, store, clock, scene+", "+other, others[other])
			if err != nil {
				return fmt.Errorf("%s, and between its writes %s: %w", scene, other, err)
			}
			if between {
				met++
			}
		}
	}
	if met < 100 {
		return fmt.Errorf("only %d commands had two writes", met)
	}
	return nil
}

// modesOthers are commands of another caller.
var modesOthers = func() map[string]modesCommand {
	byBob := func(c modesCommand) modesCommand {
		c.owner, c.request, c.lease = "bob", "other", "lease of another"
		return c
	}
	return map[string]modesCommand{
		"a renewal of the first":  {do: "renew", key: "k", owner: "ann", request: "other", ttl: 200},
		"a renewal of the second": {do: "renew", key: "k", owner: "ann", request: "other", token: 1, ttl: 200},
		"a release of the first":  sceneRelease(0),
		"a release of the second": sceneRelease(1),
		"a reader":                byBob(sceneAcquire("", modeShared)),
		"a reader that waits":     byBob(sceneAcquire("", modeShared).waiting(5)),
		"a writer":                byBob(sceneAcquire("", modeExclusive)),
		"a writer that waits":     byBob(sceneAcquire("", modeExclusive).fairly().waiting(5)),
		"one that replaces":       byBob(sceneAcquire("", modeExclusive).replacing()),
		"a push":                  byBob(scenePush(9)),
		"a push that is given up": scenePushes("give up", 9, 9)[0],
		"a permit":                byBob(sceneAcquire("", modePermits)),
		"a permit waited for":     byBob(sceneAcquire("", modePermits).waiting(5)),
		"a grant of a rate":       byBob(sceneAcquire("", modeRate)),
		"a force-release":         {do: "force", key: "k", owner: "root", request: "other", reason: "it hangs"},
	}
}()

// playBetween plays a scene with another command between the writes of its own; false if it has one write only.
func (s scene) playBetween(ctx context.Context, store docstore.Store, clock *Clock, tenant string,
	other modesCommand) (bool, error) {
	r, err := s.begin(ctx, store, clock, tenant)
	if err != nil {
		return false, err
	}
	var o lock.Outcome
	hooked := &timed{Store: store, armed: true, which: 1, fate: func() { o, err = r.run(ctx, store, other) }}
	mine, failed := r.run(ctx, hooked, s.do)
	if failed != nil || err != nil {
		return false, fmt.Errorf("%w, %w", failed, err)
	}
	if !hooked.met.Load() {
		return false, nil
	}
	first := r.explained(r.explained(r.locks, other, o, false), s.do, mine, false)
	second := r.explained(r.explained(r.locks, s.do, mine, false), other, o, false)
	next := modesDistinct(append(first, second...))
	if len(next) == 0 {
		return true, fmt.Errorf("%w\nand %w", r.unexplained(other, o), r.unexplained(s.do, mine))
	}
	r.locks = next
	if err := r.look(ctx); err != nil {
		return true, err
	}
	return true, r.goOn(ctx, false, append([]modesCommand{s.do, other}, s.after...))
}
