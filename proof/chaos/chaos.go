package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The size of a chaos, and its times.
const (
	analyses = 20
	messages = 200

	ttl       = 10 * time.Second
	heartbeat = 2 * time.Second

	maxFailures = 4

	faultTime = 2 * time.Minute  // from then on there are no faults
	limit     = 10 * time.Minute // by then every analysis must have ended
)

// Run delivers 200 messages about 20 analyses at once, and again until they are acknowledged, to workers that die,
// freeze and are cut off at points that the seed chooses, through a network that loses requests and responses and
// delivers requests after their callers gave up; two sweeps run at the same time. The error is what must not happen:
// two bodies at once, a write under a stale token, an analysis that does not end.
//
// It belongs into a bubble of testing/synctest, whose time the store must show. The same seed makes the same choices;
// events of the same instant happen in any order.
func Run(ctx context.Context, store docstore.Store, seed uint64, tally *Tally) error {
	life, end := context.WithCancel(ctx)
	defer end()
	c := &chaos{seed: seed, store: store, tally: tally, referee: NewReferee(), begin: time.Now(),
		life: life, queued: map[string]bool{}}
	c.ledger = newLedger(c.referee, tally)
	// In every other simulation the queue forgets: a message whose analysis another worker runs is acknowledged, and the
	// queue loses messages whose worker dies. Then it is the sweep that brings an analysis back. Such a queue must not
	// deliver a message twice at once: the second delivery would take the message away from the first.
	c.forgetful = seed%2 == 1
	for i := range analyses {
		if err := c.order(ctx, name(i)); err != nil {
			return err
		}
	}
	for i := range messages {
		c.running.Go(func() { c.message(fmt.Sprint("m", i), name(i%analyses)) })
	}
	for i := range 2 {
		c.running.Go(func() { c.sweep(i) })
	}
	over := c.wait()
	end()
	c.running.Wait()
	errs := []error{over}
	if over == nil {
		errs = append(errs, c.replay(ctx))
	}
	errs = append(errs, c.referee.Err(), c.ledger.err())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(append(errs, c.wrong...)...); err != nil {
		return fmt.Errorf("chaos of seed %d:\n%w", seed, err)
	}
	return nil
}

func name(i int) string { return fmt.Sprint("a", i) }

// chaos is one [Run].
type chaos struct {
	seed      uint64
	store     docstore.Store
	forgetful bool
	begin     time.Time
	life      context.Context //nolint:containedctx // of everything that runs
	running   sync.WaitGroup
	referee   *Referee
	ledger    *ledger
	tally     *Tally

	mu     sync.Mutex
	wrong  []error
	queued map[string]bool // names of messages that a sweep has queued
	open   int             // messages that are not done
}

func (c *chaos) failf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Errorf(format, args...))
}

// calm reports whether the time of faults has passed.
func (c *chaos) calm() bool { return time.Since(c.begin) > faultTime }

// random is a source of choices for whatever has the name.
func (c *chaos) random(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return rand.New(rand.NewPCG(c.seed, h.Sum64()))
}

// pause waits; it is over early when everything ends.
func (c *chaos) pause(d time.Duration) { sleep(c.life, d) }

// sleep waits as long as ctx lives.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// upTo is a time of less than d, to the microsecond.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d/time.Microsecond))) * time.Microsecond
}

// rules are the commands of the gate on behalf of an actor.
func (c *chaos) rules(a *actor) *analysis.Analyses {
	return analysis.New(c.ledger.under(c.store, a), nil)
}

// order makes an analysis, as its owner does.
func (c *chaos) order(ctx context.Context, id string) error {
	_, err := c.ledger.under(c.store, &actor{}).Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: "analyses", ID: id}, If: docstore.Absent{},
		Set: docstore.Doc{"status": docstore.String("QUEUED")},
	})
	return err
}

// message delivers a message again and again until a worker reports that it is done. A delivery that takes longer than
// the queue's timeout is followed by the next one anyway, and sometimes two are made at once.
func (c *chaos) message(id, about string) {
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	}()
	r := c.random(id)
	done, acknowledge := context.WithCancel(c.life)
	defer acknowledge()
	c.pause(upTo(r, 3*time.Second))
	for try := 0; done.Err() == nil; try++ {
		again := make(chan time.Duration, 2)
		copies := 1
		if !c.forgetful && r.IntN(10) == 0 && !c.calm() {
			copies = 2
			c.tally.Add("messages delivered twice at once", 1)
		}
		for n := range copies {
			c.running.Go(func() {
				d := c.newDelivery(fmt.Sprintf("%s.%d.%d", id, try, n), about)
				ok, wait := d.deliver()
				if ok {
					acknowledge()
				}
				again <- wait
			})
		}
		timeout := time.After(15*time.Second + upTo(r, 15*time.Second))
		if c.forgetful {
			timeout = nil
		}
		select {
		case <-done.Done():
		case <-timeout:
		case wait := <-again:
			sleep(done, wait+upTo(r, 2*time.Second))
		}
	}
}

// sweep looks for what was left behind, now and then.
func (c *chaos) sweep(i int) {
	r := c.random(fmt.Sprint("sweep ", i))
	rules := c.rules(&actor{sweeps: true})
	for c.life.Err() == nil {
		c.pause(3*time.Second + upTo(r, 5*time.Second))
		s, err := rules.Sweep(c.life, analysis.Sweep{Queue: c, MaxTakeovers: 4, RequeueEvery: 20 * time.Second})
		if err != nil && c.life.Err() == nil {
			c.failf("sweep: %w", err)
		}
		c.tally.Add("queued again by the sweep", s.Requeued)
	}
}

// Enqueue implements [analysis.Queue]. It takes each name once.
func (c *chaos) Enqueue(_ context.Context, id analysis.ID, name string) error {
	c.mu.Lock()
	known := c.queued[name]
	c.queued[name] = true
	c.mu.Unlock()
	if !known {
		c.running.Go(func() { c.message(name, string(id)) })
	}
	return nil
}

// wait returns when every analysis has ended and every message is done. The error is that they did not.
func (c *chaos) wait() error {
	for time.Since(c.begin) < limit {
		c.pause(time.Second)
		c.mu.Lock()
		open := c.open
		c.mu.Unlock()
		if open == 0 && len(c.ledger.unfinished()) == 0 {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("after %v, analyses that have not ended: %v; messages that are not done: %d", limit,
		c.ledger.unfinished(), c.open)
}

// replay sends every message again that any holder could have sent. Each must be rejected, or change nothing.
func (c *chaos) replay(ctx context.Context) error {
	gate := direct.Analyses(c.rules(&actor{}))
	var wrong []error
	for i := range analyses {
		key := docstore.Key{Kind: "analyses", ID: name(i)}
		before, err := c.store.Get(ctx, key)
		if err != nil {
			return err
		}
		latest := number(before.Docs[0])
		held := c.ledger.tokens(key.ID, latest)
		for _, token := range held {
			l := once.Lock{RunID: key.ID, Owner: owner(key.ID), Token: token}
			wrong = append(wrong, Replay(ctx, gate, l, token == latest, status(before.Docs[0]), c.tally))
		}
		after, err := c.store.Get(ctx, key)
		if err != nil {
			return err
		}
		if !maps.Equal(before.Docs[0], after.Docs[0]) {
			wrong = append(wrong, fmt.Errorf("analysis %s was %v and is %v after the replays", key.ID, before.Docs[0],
				after.Docs[0]))
		}
	}
	return errors.Join(wrong...)
}

// Replay sends every message that the holder of a lock can send after the analysis has ended. Only the latest token may
// repeat how it ended; the gate recognizes the repetition and changes nothing.
func Replay(ctx context.Context, gate once.Gate, l once.Lock, latest bool, status string, tally *Tally) error {
	var wrong []error
	for _, m := range lateMessages {
		switch err := m.send(ctx, gate, l); {
		case err == nil && latest && (m.status == status || m.status == "any"):
			tally.Add("replays recognized", 1)
		case once.IsLost(err):
			tally.Add("replays rejected", 1)
		case err == nil:
			wrong = append(wrong, fmt.Errorf("analysis %s, which is %s: %s under token %d was accepted", l.RunID, status,
				m.name, l.Token))
		default:
			wrong = append(wrong, fmt.Errorf("analysis %s, which is %s: %s under token %d: %w", l.RunID, status,
				m.name, l.Token, err))
		}
	}
	return errors.Join(wrong...)
}

// lateMessage is what a holder can send after its lock expired.
type lateMessage struct {
	name   string
	status string // of the analyses to which a current holder may say it again
	send   func(context.Context, once.Gate, once.Lock) error
}

var lateMessages = []lateMessage{
	{"a refresh", "", func(ctx context.Context, g once.Gate, l once.Lock) error {
		_, err := g.Refresh(ctx, l, ttl)
		return err
	}},
	{"a release", "any", func(ctx context.Context, g once.Gate, l once.Lock) error { return g.Release(ctx, l, "") }},
	{"a failure", "any", func(ctx context.Context, g once.Gate, l once.Lock) error { return g.Release(ctx, l, "stale") }},
	{"READY", "READY", func(ctx context.Context, g once.Gate, l once.Lock) error {
		return g.Finish(ctx, l, once.Result{Result: "stale"})
	}},
	{"FAILED", "FAILED", func(ctx context.Context, g once.Gate, l once.Lock) error {
		return g.Finish(ctx, l, once.Result{Failed: true, Reason: "stale"})
	}},
}

// Opener gets a store ready outside a bubble, and returns what opens it in there, showing the bubble's time.
type Opener func(t *testing.T) func(t *testing.T) docstore.Store

// Proof runs a chaos for each of many seeds.
func Proof(t *testing.T, seeds int, open Opener) {
	var tally Tally
	for seed := range uint64(seeds) {
		inside := open(t)
		synctest.Test(t, func(t *testing.T) {
			if err := Run(t.Context(), inside(t), seed, &tally); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%d seeds\n%s", seeds, &tally)
	if seeds < enough {
		return
	}
	for _, what := range slices.Concat(faultNames(), []string{"writes under an old token rejected", "takeovers",
		"READY", "FAILED"}) {
		if tally.Of(what) == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

// enough is how many seeds it takes for everything to happen that can: more than a hundred times, mostly.
const enough = 50
