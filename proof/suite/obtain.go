package suite

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// ObtainableLocks proves on a store that what is free can be had: from what programs leave behind, at a time at which
// nothing is held any more, one that asks once gets the lock, a set gets its keys, the head of a line is served, and a
// force-release leaves the lock free. The programs run on the memory store, which all stores behave like, and what they
// leave is then copied: a hundred commands once, and not for each question.
func ObtainableLocks(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store, e Extent) {
	t.Helper()
	clock := NewClock()
	store := newStore(t, clock.Now)
	r := &obtaining{store: store, clock: clock, tenant: "acme", servers: []*lock.Locks{
		lock.New(store, &lock.Options{Now: clock.Now}), lock.New(store, &lock.Options{Now: clock.Now}),
	}}
	for err := range r.all(t.Context(), e) {
		t.Error(err)
	}
}

// Extent is how much [ObtainableLocks] asks. The smallest one is for stores whose requests cost much.
type Extent struct {
	Dead     []int // how many callers die, in each row of the table
	Programs int   // random ones
	Every    int   // so many rows of the table share one; 0 and 1: all are asked about
	Asks     int   // ways to ask, in turn, in each row or program; 0: all
}

// Everything are the numbers of a deep run.
var Everything = Extent{Dead: []int{1, 19, 20, 21, 40, 60, 100}, Programs: 200, Asks: 3}

// obtaining are the questions about what was left behind, asked on one store by two servers in turn.
type obtaining struct {
	store   docstore.Store
	clock   *Clock
	servers []*lock.Locks
	tenant  string

	locks, sent int
	asks        int // how many ways to ask about each; 0: all
}

// all asks about all of the table and about random programs. Each error is what is wrong with one of them.
func (r *obtaining) all(ctx context.Context, e Extent) iter.Seq[error] {
	r.asks = e.Asks
	return func(yield func(error) bool) {
		names, rows := leftTable(e.Dead)
		for n, name := range names {
			if n%max(1, e.Every) != 0 {
				continue
			}
			row := rows[name]
			left, err := r.build(ctx, row.program)
			if err == nil {
				left.over = r.clock.Now().Add(row.over)
				err = r.table(ctx, left, r.clock.Now().Add(row.head))
			}
			if err != nil && !yield(fmt.Errorf("%s: %w", name, err)) {
				return
			}
		}
		for _, n := range e.Dead {
			if err := r.forced(ctx, n); err != nil && !yield(fmt.Errorf("%d who died beside living ones: %w", n, err)) {
				return
			}
			if err := r.opened(ctx, n); err != nil && !yield(fmt.Errorf("%d who left the lock closed: %w", n, err)) {
				return
			}
		}
		for seed := range e.Programs {
			program := LeaveProgram.Example(seed)
			left, err := r.build(ctx, program)
			if err == nil {
				err = r.about(ctx, left, left.over.Add(lock.ClaimTime))
			}
			if err != nil && !yield(fmt.Errorf("program %d %+v: %w", seed, program, err)) {
				return
			}
		}
	}
}

// build carries out a program on the memory store.
func (r *obtaining) build(ctx context.Context, program []LeaveStep) (leftover, error) {
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: r.clock.Now})
	return leave(ctx, memory, r.clock, lock.ID{Tenant: r.tenant, Key: "left"}, program)
}

// plant makes another lock of what was left.
func (r *obtaining) plant(ctx context.Context, left leftover) (lock.ID, error) {
	r.locks++
	id := lock.ID{Tenant: r.tenant, Key: fmt.Sprint("k", r.locks)}
	if left.doc == nil {
		return id, nil
	}
	w, err := r.store.Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: lock.Kind, Tenant: id.Tenant, ID: id.Key}, If: docstore.Absent{}, Set: left.doc.Clone(),
		Keep: lock.MinRetention,
	})
	// No one else makes it: what is there already was written by a try whose response was lost.
	if err == nil && !w.Applied && !w.Docs[0].Equal(left.doc) {
		err = fmt.Errorf("%v cannot be made: %v is there", id, w.Docs[0])
	}
	return id, err
}

func (r *obtaining) server() *lock.Locks {
	r.sent++
	return r.servers[r.sent%len(r.servers)]
}

// table is about for what is over at a known moment: a millisecond before, it is not.
func (r *obtaining) table(ctx context.Context, left leftover, head time.Time) error {
	early, err := r.plant(ctx, left)
	if err != nil {
		return err
	}
	wait := left.over.Sub(r.clock.Now()) - time.Millisecond
	line, err := r.enter(ctx, left)
	if err != nil {
		return err
	}
	if err := line.until(ctx, r.clock.Now().Add(wait)); err != nil {
		return err
	}
	s, _, err := r.server().Get(ctx, early)
	if err == nil && !taken(s, r.clock.Now()) {
		err = fmt.Errorf("the lock is free a millisecond before it can be: %+v", s)
	}
	if err != nil {
		return err
	}
	return r.ask(ctx, left, line, head)
}

// about asks everything about what was left. head is when a caller that waits from now on has the lock.
func (r *obtaining) about(ctx context.Context, left leftover, head time.Time) error {
	line, err := r.enter(ctx, left)
	if err != nil {
		return err
	}
	return r.ask(ctx, left, line, head)
}

// ask waits until nothing is held any more, and asks.
func (r *obtaining) ask(ctx context.Context, left leftover, line *inLine, head time.Time) error {
	if err := line.until(ctx, left.over); err != nil {
		return err
	}
	for _, a := range inTurn(obtainAsks, r.locks, r.asks) {
		if err := r.once(ctx, left, a, r.nothing); err != nil {
			return err
		}
	}
	for _, b := range inTurn(r.befores(left), r.locks, r.asks/3+min(r.asks, 1)) {
		if err := r.once(ctx, left, obtainAsks[r.locks%len(obtainAsks)], b); err != nil {
			return err
		}
	}
	if err := r.set(ctx, left); err != nil {
		return err
	}
	if err := r.force(ctx, left); err != nil {
		return err
	}
	return line.served(ctx, head)
}

// inTurn are some of a list, from another one on each time; most 0 is all of them.
func inTurn[E any](all []E, turn, most int) []E {
	if most == 0 {
		return all
	}
	first := turn % len(all)
	return append(slices.Clone(all[first:]), all[:first]...)[:min(most, len(all))]
}

// obtainAsk is one way to ask for a lock.
type obtainAsk struct {
	name string
	c    lock.Acquire
}

var obtainAsks = []obtainAsk{
	{"exclusive", lock.Acquire{TTLSeconds: 30}},
	{"shared", lock.Acquire{Mode: lock.Shared, TTLSeconds: 30}},
	{"the only permit", lock.Acquire{Mode: lock.Permits, Limit: 1, TTLSeconds: 30}},
	{"fair", lock.Acquire{Fair: true, TTLSeconds: 30}},
	{"a rate", lock.Acquire{Mode: lock.Rate, Limit: 1, WindowSeconds: 1}},
	{"to replace", lock.Acquire{Replace: true, TTLSeconds: 30}},
	{"one of a hundred permits", lock.Acquire{Mode: lock.Permits, Limit: lock.MaxPermits, TTLSeconds: 30}},
	{"in line", lock.Acquire{Fair: true, TTLSeconds: 30, WaitSeconds: 20}},
	{"a rate of a day", lock.Acquire{Mode: lock.Rate, Limit: lock.MaxRate, WindowSeconds: lock.MaxWindowSeconds}},
	{"with a lock delay", lock.Acquire{TTLSeconds: 30, LockDelaySeconds: lock.MaxLockDelaySeconds}},
	{"with all metadata", lock.Acquire{TTLSeconds: 30,
		Metadata: metadataOf(lock.MaxMetadata * lock.MaxMetadataValueBytes)}},
}

// before is a command that comes first. Whatever it is told, the one who asks next gets the lock.
type before func(ctx context.Context, id lock.ID) (took bool, err error)

func (r *obtaining) nothing(context.Context, lock.ID) (bool, error) { return false, nil }

// befores are commands of those who were there before.
func (r *obtaining) befores(left leftover) []before {
	all := []before{
		func(ctx context.Context, id lock.ID) (bool, error) {
			_, err := r.server().ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "it hangs", RequestID: "late"})
			return false, err
		},
	}
	again := func(c lock.Acquire, seconds int64) before {
		return func(ctx context.Context, id lock.ID) (bool, error) {
			c.ID, c.WaitSeconds = id, seconds
			o, err := r.server().AcquireWithin(ctx, c, 0)
			return o.Code == lock.OK, err
		}
	}
	if n := len(left.asked); n > 0 {
		all = append(all, again(left.asked[n-1], 20), again(left.asked[0], 0))
	}
	if n := len(left.leases); n > 0 {
		l := left.leases[n-1]
		all = append(all, func(ctx context.Context, id lock.ID) (bool, error) {
			_, err := r.server().Renew(ctx, lock.Renew{ID: id, Owner: l.Owner, Token: l.Token, RequestID: "late",
				TTLSeconds: 60})
			return false, err
		}, func(ctx context.Context, id lock.ID) (bool, error) {
			_, err := r.server().Release(ctx, lock.Release{ID: id, Owner: l.Owner, Token: l.Token, RequestID: "late"})
			return false, err
		})
	}
	return all
}

// once makes another lock of what was left, and asks for it once: that is one grant, and the lock shows before that it
// is free.
func (r *obtaining) once(ctx context.Context, left leftover, a obtainAsk, first before) error {
	id, err := r.plant(ctx, left)
	if err != nil {
		return err
	}
	took, err := first(ctx, id)
	if err != nil {
		return err
	}
	if took { // that was a request of before, which is a grant as well
		return nil
	}
	return r.free(ctx, id, a)
}

// taken reports whether a lock shows what keeps others out.
func taken(s lock.Status, now time.Time) bool {
	return s.Phase == lock.Active || len(s.Holders) > 0 || len(s.Waiting) > 0 || s.FreeAt.After(now)
}

// free asks once for a lock that is free.
func (r *obtaining) free(ctx context.Context, id lock.ID, a obtainAsk) error {
	s, _, err := r.server().Get(ctx, id)
	if err != nil {
		return err
	}
	if taken(s, r.clock.Now()) {
		return fmt.Errorf("a lock that no one holds shows %+v at %v", s, r.clock.Now())
	}
	before, err := lockDoc(ctx, r.store, id)
	if err != nil {
		return err
	}
	c := a.c
	c.ID, c.Owner, c.RequestID, c.LeaseID = id, "one who asks once", "once", "asked once"
	// The same where the time is known within a margin: it is the earliest by which the lock is free.
	_, o, err := rule.Step(c, before, rule.When{At: r.clock.Now(), Margin: time.Second})
	if err != nil {
		return err
	}
	if o.Code != lock.OK {
		return fmt.Errorf("%s: one that asks once, by an uncertain time, gets %s (%s)", a.name, o.Code, o.Detail)
	}
	o, err = r.server().AcquireWithin(ctx, c, 0)
	if err != nil {
		return err
	}
	// It may be a replay: of a try of the store's client whose response was lost.
	if o.Code != lock.OK || o.Lease.Owner != c.Owner {
		refusals := 1
		for ; refusals < 60; refusals++ { // for the message
			c.RequestID = fmt.Sprint("once more ", refusals)
			if again, err := r.server().AcquireWithin(ctx, c, 0); err != nil || again.Code == lock.OK {
				break
			}
		}
		return fmt.Errorf("%s: one that asks once for a lock that no one holds gets %s (%s), %d times", a.name, o.Code,
			o.Detail, refusals)
	}
	return r.granted(ctx, id, before, o.Lease)
}

// granted makes sure that a lease is the one grant since the document was read.
func (r *obtaining) granted(ctx context.Context, id lock.ID, before docstore.Doc, l lock.Lease) error {
	after, err := lockDoc(ctx, r.store, id)
	if err != nil {
		return err
	}
	if token, had := before["token"].(docstore.Int); after["token"] != docstore.Value(docstore.Int(l.Token)) ||
		had && l.Token != int64(token)+1 {
		return fmt.Errorf("the token was %v, the lease has %d, and the token is %v: want one grant", before["token"],
			l.Token, after["token"])
	}
	return nil
}

// set takes several such locks at once, and one that never was.
func (r *obtaining) set(ctx context.Context, left leftover) error {
	const keys = 3
	c := lock.AcquireSet{Tenant: r.tenant, Owner: "one who asks once", RequestID: "set", TTLSeconds: 30}
	for range keys {
		id, err := r.plant(ctx, left)
		if err != nil {
			return err
		}
		c.Keys = append(c.Keys, id.Key)
	}
	r.locks++
	c.Keys = append(c.Keys, fmt.Sprint("k", r.locks))
	o, err := r.server().AcquireSet(ctx, c)
	if err != nil {
		return err
	}
	if o.Code != lock.OK || len(o.Leases) != len(c.Keys) {
		return fmt.Errorf("a set of keys that no one holds gets %s (%+v)", o.Code, o.Refusal)
	}
	for _, l := range o.Leases {
		before := left.doc
		if l.Key == c.Keys[keys] {
			before = nil
		}
		if err := r.granted(ctx, lock.ID{Tenant: r.tenant, Key: l.Key}, before, l); err != nil {
			return fmt.Errorf("set: %w", err)
		}
	}
	return nil
}

// force ends by force what is held no more: the lock is free.
func (r *obtaining) force(ctx context.Context, left leftover) error {
	id, err := r.plant(ctx, left)
	if err != nil {
		return err
	}
	o, err := r.server().ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "it hangs",
		RequestID: "by force"})
	if err != nil {
		return err
	}
	if o.Code != lock.OK && o.Code != lock.NotHeld {
		return fmt.Errorf("a force-release of a lock that no one holds gets %s (%s)", o.Code, o.Detail)
	}
	if err := r.free(ctx, id, obtainAsks[0]); err != nil {
		return fmt.Errorf("after a force-release that got %s: %w", o.Code, err)
	}
	return nil
}

// forced ends by force what some hold beside n who died: that leaves the lock free.
func (r *obtaining) forced(ctx context.Context, n int) error {
	living := min(3, lock.MaxHolders-n)
	left, err := r.build(ctx, []LeaveStep{
		acquires(n, lock.Acquire{Mode: lock.Shared, TTLSeconds: 5}),
		acquires(max(living, 1), lock.Acquire{Mode: lock.Shared, TTLSeconds: 3600}),
	})
	if err != nil {
		return err
	}
	r.clock.Advance(5 * time.Second)
	id, err := r.plant(ctx, left)
	if err != nil {
		return err
	}
	if living > 0 {
		if s, _, err := r.server().Get(ctx, id); err != nil || len(s.Holders) != living {
			return fmt.Errorf("%d holders, want %d; %w", len(s.Holders), living, err)
		}
	}
	o, err := r.server().ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "it hangs",
		RequestID: "by force"})
	if err != nil {
		return err
	}
	if want := map[bool]lock.Code{true: lock.OK, false: lock.NotHeld}[living > 0]; o.Code != want {
		return fmt.Errorf("a force-release gets %s (%s), want %s", o.Code, o.Detail, want)
	}
	return r.free(ctx, id, obtainAsks[0])
}

// opened ends by force what closes a lock that no one holds: the lock delays of n who died, or the grants of a rate.
func (r *obtaining) opened(ctx context.Context, n int) error {
	for _, c := range []lock.Acquire{
		{Mode: lock.Shared, TTLSeconds: 5, LockDelaySeconds: lock.MaxLockDelaySeconds},
		{Mode: lock.Rate, Limit: int64(n), WindowSeconds: lock.MaxWindowSeconds},
	} {
		left, err := r.build(ctx, []LeaveStep{acquires(n, c)})
		if err != nil {
			return err
		}
		r.clock.Advance(5 * time.Second)
		id, err := r.plant(ctx, left)
		if err != nil {
			return err
		}
		o, err := r.server().ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "it is closed",
			RequestID: "by force"})
		if err != nil {
			return err
		}
		if o.Code != lock.OK {
			return fmt.Errorf("a force-release gets %s (%s)", o.Code, o.Detail)
		}
		if err := r.free(ctx, id, obtainAsks[n%len(obtainAsks)]); err != nil {
			return err
		}
	}
	return nil
}

// inLine is a caller that waits in line, and sends its request again before its place ends, by another server each
// time.
type inLine struct {
	r    *obtaining
	c    lock.Acquire
	done bool
}

// enter lets a caller wait in line of what was left.
func (r *obtaining) enter(ctx context.Context, left leftover) (*inLine, error) {
	id, err := r.plant(ctx, left)
	if err != nil {
		return nil, err
	}
	l := &inLine{r: r, c: lock.Acquire{ID: id, Owner: "one who waits", RequestID: "w", Fair: true, TTLSeconds: 3600,
		WaitSeconds: lock.MaxWaitSeconds}}
	return l, l.send(ctx)
}

func (l *inLine) send(ctx context.Context) error {
	if l.done {
		return nil
	}
	o, err := l.r.server().AcquireWithin(ctx, l.c, 0)
	switch {
	case err != nil:
		return err
	case o.Code == lock.OK:
		l.done = true
	case o.Code == lock.RequestIDReused, o.Code == lock.LeaseExpired:
		return fmt.Errorf("one who waits in line gets %s (%s)", o.Code, o.Detail)
	}
	return nil
}

// until waits until a time.
func (l *inLine) until(ctx context.Context, at time.Time) error {
	const again = 9 * time.Second // a lease that was handed over is claimed in time
	for left := at.Sub(l.r.clock.Now()); left > 0; left -= again {
		l.r.clock.Advance(min(left, again))
		if err := l.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the caller must have the lock.
func (l *inLine) served(ctx context.Context, by time.Time) error {
	if err := l.until(ctx, by); err != nil {
		return err
	}
	if err := l.send(ctx); err != nil || l.done {
		return err
	}
	begun := l.r.clock.Now()
	for n := 0; n < 100 && !l.done; n++ {
		if err := l.until(ctx, l.r.clock.Now().Add(time.Second)); err != nil {
			return err
		}
	}
	return fmt.Errorf("the head of a line, before which no one lives, is served %v after it could be",
		l.r.clock.Now().Sub(begun))
}
