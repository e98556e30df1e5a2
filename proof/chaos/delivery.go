package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
)

// fault is what happens to a worker, if it gets that far.
type fault string

const (
	lives        fault = "" // the most frequent one, and the only one after the time of faults
	beforeAsking fault = "killed before its acquire"
	whileAsking  fault = "killed during its acquire"
	afterAsking  fault = "killed after its acquire"
	inTheWork    fault = "killed in the work"
	afterTheWork fault = "killed between result and status"
	whileEnding  fault = "killed during its finish"
	afterEnding  fault = "killed before its acknowledgment"
	frozen       fault = "frozen"
	cutOff       fault = "cut off"
	mute         fault = "cut off at the end"
	outOfTime    fault = "out of time"
	fails        fault = "failed"
	panics       fault = "panicked"
)

// faults are drawn from a list that contains the more important ones more often.
var faults = []fault{
	beforeAsking, whileAsking, afterAsking, inTheWork, inTheWork, inTheWork, afterTheWork, afterTheWork,
	whileEnding, afterEnding,
	frozen, frozen, frozen, cutOff, mute, outOfTime, fails, panics, lives, lives, lives, lives, lives,
}

func faultNames() (names []string) {
	for _, f := range faults {
		if f != lives && !slices.Contains(names, string(f)) {
			names = append(names, string(f))
		}
	}
	return names
}

var (
	errGone    = fmt.Errorf("%w: the process has ended", contracts.CodePermissionDenied) // of calls whose caller is gone
	errNetwork = errors.New("the network lost it")
)

// delivery is a message at a worker, which is a process of its own.
type delivery struct {
	*chaos

	name  string
	about string
	fault fault
	bound time.Duration // of the delivery's time
	gate  once.Gate     // without the network before it
	step  int           // at which the fault happens, counted down

	mu      sync.Mutex
	random  *rand.Rand
	dead    bool
	thaw    time.Time // until then the process is stopped
	mended  time.Time // until then the network is down
	working int64     // token of the body that runs; 0 if none does
	granted bool
	met     bool // the fault has happened
}

func (c *chaos) newDelivery(name, about string) *delivery {
	d := &delivery{chaos: c, name: name, about: about, random: c.random(name), bound: 3 * time.Minute}
	d.gate = direct.Analyses(c.rules(&actor{}))
	if !c.calm() {
		d.fault = faults[d.random.IntN(len(faults))]
	}
	d.step = d.random.IntN(4)
	if d.fault == outOfTime {
		d.bound = time.Second + upTo(d.random, 15*time.Second)
	}
	c.tally.Add("deliveries", 1)
	return d
}

// owner is the same for all deliveries about an analysis, so that nothing but tokens and request IDs can tell them
// apart.
func owner(id string) string { return id + "#1" }

// deliver hands the message to the worker. again is when the queue comes back if the message is not done.
func (d *delivery) deliver() (done bool, again time.Duration) {
	ctx, cancel := context.WithTimeout(d.life, d.bound)
	defer cancel()
	w := tasks.Worker{Gate: d, Work: d.work, TTL: ttl, Heartbeat: heartbeat, MaxFailures: maxFailures,
		AckLocked: d.forgetful}
	a := w.Deliver(ctx, tasks.Message{ID: d.about, Try: "1", Body: []byte(`{"analysisId":"` + d.about + `"}`)})
	if d.gone() {
		// There is no response. The queue times out, unless it forgets: then the analysis is left to the sweep.
		if d.forgetful && d.granted {
			d.tally.Add("messages lost with their worker", 1)
			return true, 0
		}
		d.pause(20 * time.Second)
		return false, 0
	}
	if a.Outcome == once.Stopped {
		d.meet(outOfTime)
	}
	d.tally.Add("outcome "+string(a.Outcome), 1)
	return a.Done, a.RetryAfter
}

// meet reports whether this is the worker's fault, which then happens.
func (d *delivery) meet(f fault) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead || d.met || d.fault != f {
		return false
	}
	d.met = true
	d.tally.Add(string(f), 1)
	return true
}

// dies is meet for the faults that end a process: from here on it has no effect.
func (d *delivery) dies(f fault) bool {
	met := d.meet(f)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !met {
		return d.dead
	}
	d.dead = true
	if d.working != 0 {
		d.referee.Note(Event{Kind: Over, Subject: d.about, Token: d.working, At: time.Now()})
		d.tally.Add("bodies killed", 1)
		d.working = 0
	}
	return true
}

func (d *delivery) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// chance is true once in n times during the time of faults.
func (d *delivery) chance(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.calm() && d.random.IntN(n) == 0
}

// time is a time of less than most.
func (d *delivery) time(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return upTo(d.random, most)
}

// late makes a call arrive after its caller gave up.
func (d *delivery) late(call func(context.Context)) {
	d.tally.Add("requests that arrived late", 1)
	after := d.time(4 * ttl)
	d.running.Go(func() {
		d.pause(after)
		call(context.WithoutCancel(d.life)) // the ledger says whether it may have had an effect
	})
}

// send is the network between a worker and the gate.
func send[T any](ctx context.Context, d *delivery, late bool, call func(context.Context) (T, error)) (result T,
	err error) {
	// A stopped process sends when it continues, even if its deadline has passed.
	time.Sleep(d.still())
	d.latency()
	switch {
	case d.gone():
		return result, errGone
	case d.unreachable() || d.chance(20):
		d.tally.Add("requests lost", 1)
		if d.chance(2) {
			<-ctx.Done()
		}
		return result, errNetwork
	case late && d.chance(30):
		d.late(func(ctx context.Context) { _, _ = call(ctx) })
		<-ctx.Done()
		return result, errNetwork
	}
	got, err := call(context.WithoutCancel(ctx))
	d.latency()
	switch {
	case d.gone():
		return result, errGone
	case d.unreachable() || d.chance(20):
		d.tally.Add("responses lost", 1)
		return result, errNetwork
	}
	return got, err
}

func (d *delivery) latency() {
	most := time.Millisecond
	if d.chance(3) {
		most = 300 * time.Millisecond
	}
	d.pause(d.time(most))
}

// still is how long the process remains stopped.
func (d *delivery) still() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.thaw)
}

func (d *delivery) unreachable() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.mended)
}

// Acquire implements [once.Gate].
func (d *delivery) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	if d.dies(beforeAsking) {
		return once.Grant{}, errGone
	}
	g, err := send(ctx, d, true, func(ctx context.Context) (once.Grant, error) {
		g, err := d.gate.Acquire(ctx, r)
		if err == nil && g.Acquired && d.dies(whileAsking) {
			return once.Grant{}, errGone
		}
		return g, err
	})
	if err == nil && g.Acquired {
		d.granted = true
		if d.dies(afterAsking) {
			return once.Grant{}, errGone
		}
	}
	return g, err
}

// Refresh implements [once.Gate].
func (d *delivery) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	return send(ctx, d, true, func(ctx context.Context) (time.Time, error) { return d.gate.Refresh(ctx, l, ttl) })
}

// Release implements [once.Gate].
func (d *delivery) Release(ctx context.Context, l once.Lock, failed string) error {
	// A queue that forgets (see Run) must not be told that an analysis is locked by a lock that a late release removes.
	late := !d.forgetful
	return d.ending(ctx, late, func(ctx context.Context) error { return d.gate.Release(ctx, l, failed) })
}

// Finish implements [once.Gate].
func (d *delivery) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	return d.ending(ctx, true, func(ctx context.Context) error { return d.gate.Finish(ctx, l, r) })
}

// ending sends the last message of a run.
func (d *delivery) ending(ctx context.Context, late bool, call func(context.Context) error) error {
	switch {
	case d.gone():
		return errGone
	case d.dies(afterTheWork):
		if late && d.chance(2) {
			d.late(func(ctx context.Context) { _ = call(ctx) }) // it was on its way
		}
		return errGone
	}
	if d.meet(mute) || d.fault == mute && d.met {
		<-ctx.Done() // heartbeats would arrive, the end does not
		return errNetwork
	}
	_, err := send(ctx, d, late, func(ctx context.Context) (struct{}, error) {
		err := call(ctx)
		if err == nil && d.dies(whileEnding) {
			err = errGone
		}
		return struct{}{}, err
	})
	if err == nil && d.dies(afterEnding) {
		return errGone
	}
	return err
}

// work is the body: steps that take time, each of which writes to the resource behind the gate.
func (d *delivery) work(ctx context.Context, l once.Lock) (string, error) {
	d.mu.Lock()
	dead, steps := d.dead, 1+d.random.IntN(6)
	if !dead {
		d.working = l.Token
		d.referee.Note(Event{Kind: Begun, Subject: d.about, Token: l.Token, At: time.Now()})
	}
	d.mu.Unlock()
	defer d.stop()
	for range steps {
		sleep(ctx, d.time(6*time.Second))
		if err := d.move(ctx, l); err != nil {
			return "", err
		}
	}
	switch {
	case d.meet(fails):
		return "", errors.New("it failed")
	case d.meet(panics):
		panic("it panicked")
	case d.about == name(analyses-1):
		return "", once.Permanent(errors.New("it cannot succeed"))
	}
	return fmt.Sprint("result under ", l.Token), nil
}

// stop records that the body has ended.
func (d *delivery) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.working != 0 {
		d.referee.Note(Event{Kind: Over, Subject: d.about, Token: d.working, At: time.Now()})
		d.working = 0
	}
}

// move is one step of the body. A body asks before each step whether it still runs, except when its process was stopped
// between the question and the step.
func (d *delivery) move(ctx context.Context, l once.Lock) error {
	faulty := d.step == 0
	d.step--
	switch {
	case d.gone():
		return errGone
	case faulty && d.dies(inTheWork):
		m := lateMessages[0] // a refresh was on its way
		if !d.forgetful {
			m = lateMessages[d.time(time.Duration(len(lateMessages))*time.Microsecond)/time.Microsecond]
		}
		d.late(func(ctx context.Context) { _ = m.send(ctx, d.gate, l) })
		return errGone
	case faulty && d.meet(cutOff):
		d.mu.Lock()
		d.mended = time.Now().Add(ttl/2 + upTo(d.random, 3*ttl))
		d.mu.Unlock()
	}
	if err := once.Check(ctx); err != nil {
		return err
	}
	d.referee.Note(Event{Kind: Looked, Subject: l.RunID, Token: l.Token, At: time.Now()})
	looked := true
	if faulty && d.meet(frozen) {
		d.mu.Lock()
		d.thaw = time.Now().Add(ttl/2 + upTo(d.random, 3*ttl))
		d.mu.Unlock()
		time.Sleep(d.still())
		looked = false
	}
	if !d.referee.Step(Event{Subject: l.RunID, Token: l.Token, At: time.Now()}) {
		d.tally.Add("stale steps rejected", 1)
		if looked {
			d.failf("analysis %s: a step under token %d was rejected right after the run learned that it holds the lock",
				l.RunID, l.Token)
		}
	}
	return nil
}
