package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// ModesHistory lets clients contend for one lock with several holders, a line or policies, lets the store fail, and
// asks whether what the clients saw can be explained by the oracle of the modes, one command at a time: linearizability
// (Herlihy and Wing, 1990). So it needs two things to be right: the rule, and that a command whose second write rests
// on a document that was found is still one step. The modes come from the seed, and the same seed makes the same
// choices. The error is what cannot be explained.
//
// Time is the clock's, also for how long the store takes: the speed of the machine plays no part.
func ModesHistory(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64) error {
	return familyHistory(ctx, store, clock, tenant, seed, modesFamilies[seed%uint64(len(modesFamilies))])
}

// LockHistory is [ModesHistory] for a lock that only ever has one holder and no line.
func LockHistory(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64) error {
	return familyHistory(ctx, store, clock, tenant, seed, plainFamily)
}

// familyHistory plays and judges a history. One with more explanations than can be tried, which is rare, is played
// again, with fewer callers at once in the end; that is counted in steps of the model and not in time.
func familyHistory(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64,
	f modesFamily) error {
	for try, callers := range []int{3, 3, 2, 1} {
		judged, err := modesHistory(ctx, store, clock, lock.ID{Tenant: tenant, Key: fmt.Sprint("k", try)}, seed, callers, f)
		if judged || err != nil {
			return err
		}
	}
	return fmt.Errorf("history of seed %d has too many explanations, even of one caller", seed)
}

// spentAfter is how long a store may take to respond to a grant of a rate, in milliseconds.
const spentAfter = 1000

// mostSteps is how many steps of the model the check of a history may take. Most take less than a thousand.
const mostSteps = 30_000

// modesHistory plays a history once. judged is false if it has too many explanations.
func modesHistory(ctx context.Context, store docstore.Store, clock *Clock, id lock.ID, seed uint64,
	callers int, f modesFamily) (judged bool, err error) {
	first, err := usedOnce(ctx, store, clock, id)
	if err != nil {
		return false, err
	}
	faulty := newFaultyStore(store, seed)
	// A command of two writes meets faults twice as often, and each makes the check of a history longer.
	faulty.often, faulty.others = 30, newBetween(callers)
	h, err := recorded(clock, seed, callers, 10, faulty.others, func(c *caller) func() error {
		m := &modesCaller{caller: c, store: faulty, id: id, family: f}
		return func() error { return m.command(ctx) }
	})
	if err != nil {
		return false, err
	}
	steps := 0
	switch {
	case porcupine.CheckOperations(modesModel(first, &steps), h.operations):
		return true, nil
	case steps > mostSteps:
		return false, nil
	default:
		return false, fmt.Errorf("history of seed %d with %d operations is not linearizable%s", seed, len(h.operations),
			h.describe())
	}
}

// usedOnce acquires the lock and releases it, so that its next token is known, and returns what the oracle knows of it.
func usedOnce(ctx context.Context, store docstore.Store, clock *Clock, id lock.ID) (modesLock, error) {
	l, token := modesLock{}, int64(0)
	for _, do := range []string{"acquire", "release"} {
		c := modesCommand{do: do, owner: "first", request: "first", lease: "first", mode: modeExclusive, ttl: 1, token: token}
		o, err := modesSend(ctx, store, clock, id, c)
		if err != nil || o.Code != lock.OK {
			return l, fmt.Errorf("the first %s: %+v: %w", do, o, err)
		}
		if token == 0 {
			token, l.token = o.Lease.Token, o.Lease.Token-1
		}
		l = l.step(c, momentOf(o.At), momentOf(o.At))[0].after
	}
	return l, nil
}

// modesCaller is a caller of one lock in a history.
type modesCaller struct {
	*caller

	store  docstore.Store
	id     lock.ID
	family modesFamily
	past   []modesCommand
}

func pickOne[T any](random *rand.Rand, of []T) T {
	var none T
	if len(of) == 0 {
		return none
	}
	return of[random.IntN(len(of))]
}

// command sends a random command until it has a response: a new one, or one that was sent before.
func (c *modesCaller) command(ctx context.Context) error {
	if n := len(c.past); n > 0 && c.random.IntN(3) == 0 { // a poll, or a late delivery
		m := c.past[n-1-c.random.IntN(min(n, 4))]
		if m.do == "acquire" {
			m.wait = pickOne(c.random, []int64{0, 1, 1, 5})
			if c.random.IntN(4) == 0 {
				m.do = "give up"
			}
		}
		return c.until(ctx, m)
	}
	m := modesCommand{owner: c.owner(), request: c.request()}
	token := c.anyToken()
	switch n := c.random.IntN(10); {
	case n < 5 || token == 0:
		f := c.family
		m.lease = fmt.Sprintf("%s of %d", m.request, c.number)
		m.do, m.mode, m.wait = "acquire", pickOne(c.random, f.modes), pickOne(c.random, []int64{0, 1, 5})
		if m.mode == modePermits || m.mode == modeRate {
			m.limit = f.limits[0]
		}
		if m.mode == modeRate {
			m.window = f.windows[0]
		} else {
			m.ttl, m.delay = pickOne(c.random, []int64{1, 1, f.ttl}), pickOne(c.random, f.delay)
		}
		if m.mode == modeExclusive {
			m.fair, m.replace = pickOne(c.random, f.fair), pickOne(c.random, f.replace)
		}
	case n < 6:
		m.do, m.token, m.ttl = "renew", token, 2
	default:
		m.do, m.token = "release", token
	}
	c.past = append(c.past, m)
	return c.until(ctx, m)
}

// until sends a command until it has a response, and records each attempt.
func (c *modesCaller) until(ctx context.Context, m modesCommand) error {
	for {
		if c.random.IntN(4) == 0 {
			c.clock.Advance(tick)
		}
		in := &input{command: m, from: c.clock.Now()}
		called := time.Since(c.begin)
		witness := &witness{}
		o, err := modesSend(context.WithValue(ctx, witnessKey{}, witness), c.store, c.clock, c.id, m)
		returned := time.Since(c.begin)
		in.to = c.clock.Now()
		if err != nil && !errors.Is(err, docstore.ErrUnavailable) {
			return err
		}
		var seen modesSeen
		if err == nil {
			seen = modesSaw(o)
			seen.at = momentOf(o.At)
		}
		switch {
		case witness.unknown:
		case len(witness.all) > 1:
			return fmt.Errorf("%+v: %d writes were applied", m, len(witness.all))
		case len(witness.all) == 1:
			seen.wrote, seen.at = wroteOnce, momentOf(witness.all[0])
		default:
			seen.wrote = wroteNothing
		}
		lost := err != nil || c.random.IntN(8) == 0   // the caller sends it again; the check knows of it
		if seen.known || seen.wrote != wroteNothing { // an attempt that did nothing, and was told nothing, explains nothing
			c.add(in, seen, called, returned)
		}
		if !lost {
			if o.Code == lock.OK && m.do == "acquire" {
				c.tokens = append(c.tokens, o.Lease.Token)
			}
			return nil
		}
	}
}

// modesSend sends a command once.
func modesSend(ctx context.Context, store docstore.Store, clock *Clock, id lock.ID, c modesCommand) (lock.Outcome,
	error) {
	switch c.do {
	case "acquire":
		a := modesAcquire(id, c)
		if err := a.Validate(); err != nil {
			return lock.Outcome{}, err
		}
		return rule.Run(ctx, store, clock.Now, a)
	case "give up":
		return rule.Run(ctx, store, clock.Now, lock.GiveUp{Acquire: modesAcquire(id, c)})
	case "renew":
		return rule.Run(ctx, store, clock.Now, lock.Renew{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request,
			TTLSeconds: c.ttl})
	case "release":
		return rule.Run(ctx, store, clock.Now, lock.Release{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request})
	default:
		return rule.Run(ctx, store, clock.Now, lock.ForceRelease{ID: id, By: c.owner, Reason: c.reason,
			RequestID: c.request})
	}
}

// modesModel is the oracle of the modes for the checker. It counts its steps; after [mostSteps] it explains nothing
// more, so that the check ends.
func modesModel(first modesLock, steps *int) porcupine.Model {
	m := numbered(first.bare(), modesLock.id, followModes)
	follow := m.Step
	m.Step = func(state, in, out any) []any {
		if *steps++; *steps > mostSteps {
			return nil
		}
		return follow(state, in, out)
	}
	return m.ToModel()
}

// followModes are the locks to which a command with an outcome may lead.
func followModes(from modesLock, i *input, o modesSeen) (next []modesLock) {
	if !o.known && o.wrote != wroteOnce {
		next = append(next, from)
	}
	begin, end := momentOf(i.from), momentOf(i.to)
	c := i.command.(modesCommand)
	for at := begin; at <= end; at += moment(tick.Milliseconds()) {
		if (o.known || o.wrote == wroteOnce) && at != o.at {
			continue
		}
		for decided := begin; decided <= at; decided += moment(tick.Milliseconds()) {
			found := []modesLock{from}
			if again, ok := from.revived(decided); ok {
				found = append(found, again)
			}
			for _, l := range found {
				before := l.bare().id()
				for _, x := range l.step(c, decided, at) {
					if decided < at {
						x.answer = x.answer.decidedEarlier()
					}
					if o.known && !x.answer.explains(c, o) && !x.answer.late(o, at, end-begin) {
						continue
					}
					after := x.after.bare()
					switch same := after.id() == before; {
					case o.wrote == wroteOnce && same, o.wrote == wroteNothing && !same:
					case same:
						next = append(next, from)
					default:
						next = append(next, after)
					}
				}
			}
		}
	}
	return next
}

// bare is the lock without what plays no part in outcomes, which would only multiply states.
func (l modesLock) bare() modesLock {
	l = l.clone()
	for i := range l.waiting {
		l.waiting[i].since = 0
	}
	l.past = lastOf(l.past, 2*knownReleases)
	for i, h := range l.past {
		if _, again := l.revived(h.acquired); again && i == len(l.past)-1 {
			continue
		}
		l.past[i] = modesLease{token: h.token, by: modesCommand{owner: h.by.owner, request: h.by.request}, ended: h.ended}
	}
	return l
}

// revived is the lock as it looks to a command that was decided before the latest lease expired, although another one
// has written down since then that it did: the clock of some stores is that of their callers, who may be slow to send
// what they have read. The plain form of the document still has the lease, as an exclusive one, until it expires; no
// one else can have the lock before.
func (l modesLock) revived(at moment) (modesLock, bool) {
	n := len(l.past)
	if l.form == formShared || len(l.holders)+len(l.waiting)+len(l.rated) > 0 || n == 0 {
		return l, false
	}
	h := l.past[n-1]
	if h.token != l.token || h.ended != "expired" || h.endedAt <= at {
		return l, false
	}
	l = l.clone()
	l.past = l.past[:n-1]
	h.ended, h.endedAt, h.claimed, h.permit = "", 0, true, 0
	h.by.mode, h.by.limit, h.by.delay = modeExclusive, 0, 0
	l.holders, l.kind = []modesLease{h}, modesKind{family: "rw"}
	return l, true
}

// late reports whether a grant may have been over before its response arrived, or spent if it is one of a rate.
func (a modesAnswer) late(o modesSeen, at, took moment) bool {
	return o.code == "LEASE_EXPIRED" && a.codes == "OK" && a.lease != nil &&
		(a.lease.expires-at <= took || a.lease.by.mode == modeRate && took > spentAfter)
}

// describe is the history for people, in the order in which commands were sent.
func (h *history) describe() string {
	slices.SortFunc(h.operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, o := range h.operations {
		in, out := o.Input.(*input), o.Output.(modesSeen)
		c := in.command.(modesCommand)
		fmt.Fprintf(&b, "\n%8d-%8d us, %5d-%5d ms: %s %s %s ttl %d wait %d fair %v replace %v delay %d token %d -> ",
			o.Call/1000, o.Return/1000,
			momentOf(in.from), momentOf(in.to), c.do, c.mode, c.request, c.ttl, c.wait, c.fair, c.replace, c.delay, c.token)
		if !out.known {
			b.WriteString("unknown")
			continue
		}
		fmt.Fprintf(&b, "%s at %d, replayed %v, token %d of %s, permit %d, [%d, %d), position %d, retry %d",
			out.code, out.at, out.replayed, out.token, out.lease, out.permit, out.acquired, out.expires, out.position, out.retry)
	}
	return b.String()
}
