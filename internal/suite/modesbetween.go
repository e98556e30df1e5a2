package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// modesBetween carries out each command of the scenes that needs two writes with each of some other commands between
// the two. Whatever changes the document that the second write rests on, the two commands must be explained one after
// the other, and so must what they leave.
func modesBetween(ctx context.Context, store docstore.Store, clock *Clock) error {
	met := 0
	for _, scene := range slices.Sorted(maps.Keys(modesScenes)) {
		s := modesScenes[scene]
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
		"a permit":                byBob(sceneAcquire("", modePermits)),
		"a permit waited for":     byBob(sceneAcquire("", modePermits).waiting(5)),
		"a grant of a rate":       byBob(sceneAcquire("", modeRate)),
		"a force-release":         {do: "force", key: "k", owner: "root", request: "other", reason: "it hangs"},
	}
}()

// playBetween plays a scene with another command between the writes of its own; false if it has one write only.
func (s modesScene) playBetween(ctx context.Context, store docstore.Store, clock *Clock, tenant string,
	other modesCommand) (bool, error) {
	r := &sceneRun{tenant: tenant, store: store, clock: clock, locks: []modesLock{{}}}
	for _, c := range s.before {
		if err := r.send(ctx, c, false); err != nil {
			return false, err
		}
	}
	clock.Advance(s.wait)
	var (
		o   lock.Outcome
		err error
	)
	hooked := &timed{Store: store, which: 1, fate: func() { o, err = r.run(ctx, store, other) }}
	hooked.arm()
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
	for _, c := range append([]modesCommand{s.do, other}, s.after...) {
		if err := r.send(ctx, c, false); err != nil {
			return true, err
		}
		if err := r.look(ctx); err != nil {
			return true, err
		}
	}
	return true, nil
}
