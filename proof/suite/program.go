package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Step is one step of a program: time passes, then a command is sent, or the lock's document is removed.
type Step struct {
	Wait time.Duration
	// acquire, renew, release or force; poll and leave send a request in line again; again sends any command again;
	// give up gives up one of the acquires so far; remove
	Do      string
	Key     string
	Owner   string
	Request string // empty: one that was never used
	TTL     int64  // seconds
	Label   string

	Mode          string
	Limit, Window int64
	Seconds       int64 // how long it waits
	Most          int64
	Fair, Replace bool
	Delay         int64
	Until         int64 // of an acquire that replaces: its end, in seconds from now

	Back    int  // of renew and release: the token is this many grants before the latest; -1 is one that was never granted
	Other   bool // of renew and release: by the owner of the step, not that of the lease
	End     int  // of a renewal: 0 names no end, 1 the lease's, 2 one that it does not have
	Lease   int  // of a force-release: 0 names no lease, others one of the leases that last
	Ago     int  // of again: which of the commands so far; of poll and leave: which place in line
	Shorten bool // of again: with another parameter

	// Lost responses: the write of the command with the number Which (0 is the first) is sent again so often by the
	// caller's library.
	Lost, Which int

	// Pause is how long the second write of the command takes on its way.
	Pause time.Duration
}

// modesFamily says which steps go together.
type modesFamily struct {
	modes    []string
	fair     []bool
	replace  []bool
	delay    []int64
	limits   []int64
	windows  []int64
	ttl, big int64
}

var modesFamilies = []modesFamily{
	{modes: []string{modeShared, modeShared, modeExclusive}, fair: []bool{true}, ttl: 2, big: 15},
	{modes: []string{modeShared, modeExclusive}, fair: []bool{true, false}, delay: []int64{0, 0, 2}, ttl: 3, big: 15},
	{modes: []string{modeExclusive}, fair: []bool{true, false}, ttl: 2, big: 15},
	{modes: []string{modeExclusive}, fair: []bool{true, false, false}, replace: []bool{true, true, false},
		delay: []int64{0, 0, 2}, ttl: 2, big: 15},
	{modes: []string{modeExclusive}, fair: []bool{true, false, false, false}, replace: []bool{true}, ttl: 15, big: 15},
	{modes: []string{modePermits}, limits: []int64{2}, ttl: 2, big: 15},
	{modes: []string{modePermits}, limits: []int64{3, 3, 3, 2}, delay: []int64{0, 0, 2}, ttl: 3, big: 15},
	{modes: []string{modeRate}, limits: []int64{2}, windows: []int64{2}},
	{modes: []string{modeRate}, limits: []int64{2, 3}, windows: []int64{1, 1, 1, 2}},
	{
		modes: []string{modeShared, modeExclusive, modePermits, modeRate}, fair: []bool{true, false},
		replace: []bool{false, true},
		delay:   []int64{0, 0, 1}, limits: []int64{1, 2}, windows: []int64{1}, ttl: 1, big: 3,
	},
}

// plainPolicies is for locks that only ever have one holder and no line.
var plainPolicies = modesFamily{modes: []string{modeExclusive}, replace: []bool{false, false, true},
	delay: []int64{0, 0, 0, 1}, ttl: 2, big: 1}

// replacing is for deployments of which each takes the lock from the one before it.
var replacing = modesFamily{modes: []string{modeExclusive}, replace: []bool{true, true, true, false},
	delay: []int64{0, 0, 0, 1}, ttl: 15, big: 5}

// The programs are sequences of steps on few keys with few owners, so that they get in each other's way, with times
// that fall on, just before and just after the end of leases. Any command is delivered again at any later moment; many
// programs are about that, for one kind of command. Most keep to modes that go together, so that lines grow and move.
var (
	modesPrograms = programs(modesFamilies, [][]string{
		{"acquire", "acquire", "acquire", "acquire", "poll", "poll", "leave", "renew", "release", "release", "release",
			"force", "again", "again", "give up", "remove"},
		{"acquire", "acquire", "acquire", "give up", "give up", "again", "again", "poll", "release"},
		{"acquire", "acquire", "acquire", "give up", "give up", "give up", "again", "again"},
		{"acquire", "acquire", "acquire", "poll", "release", "release"},
		{"acquire", "acquire", "poll", "poll", "again", "release"},
		{"acquire", "renew", "renew", "renew", "again", "again", "release"},
		{"acquire", "acquire", "poll", "leave", "force", "force", "again", "release"},
	})
	plainPrograms = programs([]modesFamily{plainPolicies, plainPolicies, replacing}, [][]string{
		plainSteps, plainSteps,
		{"acquire", "acquire", "force", "force", "again"},
		{"acquire", "acquire", "acquire", "give up", "give up", "again", "again", "release", "remove"},
		{"acquire", "give up", "give up", "again"},
		{"acquire", "renew", "renew", "renew", "renew", "again", "again"},
		{"acquire", "acquire", "acquire", "release", "release", "release", "again", "again", "renew"},
	})
)

var plainSteps = []string{"acquire", "acquire", "acquire", "renew", "renew", "release", "release", "force", "again",
	"again", "again", "remove"}

func programs(families []modesFamily, kinds [][]string) *rapid.Generator[[]Step] {
	return rapid.Custom(func(t *rapid.T) []Step {
		s := step(rapid.SampledFrom(families).Draw(t, "family"), rapid.SampledFrom(kinds).Draw(t, "does"))
		return rapid.SliceOfN(s, rapid.SampledFrom([]int{1, 10, 20}).Draw(t, "least"), 50).Draw(t, "steps")
	})
}

// step draws a step that does one of these.
func step(f modesFamily, does []string) *rapid.Generator[Step] {
	return rapid.Custom(func(t *rapid.T) Step {
		s := Step{
			Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 500, 500, 999, 1000, 1001, 2000, 5000,
				10_000}).Draw(t, "wait")) * time.Millisecond,
			Do:      rapid.SampledFrom(does).Draw(t, "do"),
			Key:     rapid.SampledFrom([]string{"k", "k", "k", "k", "k", "l/m"}).Draw(t, "key"),
			Owner:   rapid.SampledFrom([]string{"ann", "ann", "bob"}).Draw(t, "owner"),
			Request: rapid.SampledFrom([]string{"", "", "", "", "", "", "r1", "r2"}).Draw(t, "request"),
			Label:   rapid.SampledFrom([]string{"", "", "1"}).Draw(t, "label"),
			Mode:    rapid.SampledFrom(f.modes).Draw(t, "mode"),
			Seconds: rapid.SampledFrom([]int64{0, 1, 1, 5, 5, 20}).Draw(t, "seconds"),
			Back:    rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3, 8, -1}).Draw(t, "back"),
			Other:   rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(t, "other"),
			End:     rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "end"),
			Lease:   rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(t, "lease"),
			Ago:     rapid.SampledFrom([]int{0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30}).Draw(t, "ago"),
			Shorten: rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(t, "shorten"),
			Lost:    rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "lost"),
			Which:   rapid.IntRange(0, 1).Draw(t, "which"),
			Pause:   time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 1000, 2000}).Draw(t, "pause")) * time.Millisecond,
		}
		pick := func(name string, of []int64) int64 {
			if len(of) == 0 {
				return 0
			}
			return rapid.SampledFrom(of).Draw(t, name)
		}
		if s.Mode == modePermits || s.Mode == modeRate {
			s.Limit = pick("limit", f.limits)
		}
		if s.Mode == modeRate {
			s.Window = pick("window", f.windows)
		} else {
			s.Delay = pick("delay", f.delay)
			s.TTL = pick("ttl", []int64{1, f.ttl, f.ttl, f.big})
		}
		if s.Mode == modeExclusive {
			s.Fair = len(f.fair) > 0 && rapid.SampledFrom(f.fair).Draw(t, "fair")
			s.Replace = len(f.replace) > 0 && rapid.SampledFrom(f.replace).Draw(t, "replace")
			s.Until = rapid.SampledFrom([]int64{1800, 1800, 1800, 2400, 3000, 0}).Draw(t, "until")
		}
		if s.Fair || s.Mode != modeExclusive {
			s.Most = pick("most", []int64{0, 0, 0, 1, 2})
		}
		return s
	})
}

// gone is how long a removed document is gone at least: longer than the clocks of a store's callers may differ.
const gone = 3 * time.Second

// runLocks carries out a program on a store whose clock is clock and returns the first difference from the oracle.
// Tenant keeps programs on one store apart.
func runLocks(ctx context.Context, store docstore.Store, clock *Clock, tenant string, program []Step) error {
	r := newModesRun(store, clock, tenant, nil)
	for i, s := range program {
		clock.Advance(s.Wait)
		if err := r.step(ctx, i, s); err != nil {
			return fmt.Errorf("step %d %+v at %d: %w", i, s, momentOf(clock.Now()), err)
		}
	}
	return nil
}

func newModesRun(store docstore.Store, clock *Clock, tenant string, newLeaseID func() string) *modesRun {
	d := &disturbed{lossyStore: lossyStore{through: through{store}}, clock: clock}
	return &modesRun{store: d, locks: lock.New(d, &lock.Options{Now: clock.Now, NewLeaseID: newLeaseID}), clock: clock,
		tenant: tenant, keys: map[string]*modesKey{}}
}

// remove deletes a lock's document, as its retention does in the end.
func remove(ctx context.Context, store docstore.Store, tenant, key string) error {
	_, err := store.Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: lock.Kind, Tenant: tenant, ID: key}, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true,
	})
	return err
}

// modesRun is a program that is being carried out.
type modesRun struct {
	store  *disturbed
	locks  *lock.Locks
	clock  *Clock
	tenant string
	keys   map[string]*modesKey
	sent   []modesCommand
}

// modesKey is one lock in a program: what explains all that was seen of it, and what its callers know.
type modesKey struct {
	locks []modesLock // never empty
	tally modesTally
}

func (r *modesRun) of(key string) *modesKey {
	if r.keys[key] == nil {
		r.keys[key] = &modesKey{locks: []modesLock{{}}}
	}
	return r.keys[key]
}

// step carries out a step on one lock. The lock of a document that was removed forgets everything, and gives no token
// twice (LS-INV-002).
func (r *modesRun) step(ctx context.Context, number int, s Step) error {
	if s.Do == "remove" {
		if err := remove(ctx, r.store.Store, r.tenant, s.Key); err != nil {
			return err
		}
		k := r.of(s.Key)
		k.locks = []modesLock{{}}
		k.tally.removed()
		r.clock.Advance(gone)
		return r.look(ctx, s.Key)
	}
	c, ok := r.command(number, s)
	if !ok {
		return nil
	}
	if err := r.send(ctx, number, s, c); err != nil {
		return fmt.Errorf("%+v: %w", c, err)
	}
	if err := r.look(ctx, c.key); err != nil {
		return fmt.Errorf("after %+v: %w", c, err)
	}
	return nil
}

// ago is one of those that have a property, counted from the last; false if there is none.
func ago[C any](of []C, n int, has func(C) bool) (C, bool) {
	var some []C
	for _, c := range of {
		if has(c) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		var none C
		return none, false
	}
	return some[len(some)-1-n%len(some)], true
}

// command is what a step sends; false if there is nothing to send.
func (r *modesRun) command(number int, s Step) (modesCommand, bool) {
	k, lease := r.of(s.Key), fmt.Sprint("lease ", number) // that an acquire brings, if it is granted
	switch s.Do {
	case "again":
		c, ok := ago(r.sent, s.Ago, func(modesCommand) bool { return true })
		if c.do == "acquire" {
			c.wait, c.lease = s.Seconds, lease
		}
		if s.Shorten {
			if c.reason = "another"; c.ttl != 0 {
				c.ttl++
			} else if c.do == "acquire" {
				c.label += "2"
			}
		}
		return c, ok
	case "give up":
		c, ok := ago(r.sent, s.Ago, func(c modesCommand) bool { return c.do == "acquire" })
		if !ok || s.Ago > 7 { // one that has not come yet
			c = r.acquires(number, s)
			r.sent = append(r.sent, c)
		}
		c.do = "give up"
		if s.Shorten {
			c.label += "2"
		}
		r.sent = append(r.sent, c)
		return c, true
	case "poll", "leave":
		var all []modesCommand
		for _, p := range k.locks[0].waiting {
			all = append(all, p.by)
		}
		for _, h := range append(slices.Clone(k.locks[0].holders), k.locks[0].rated...) {
			if h.handed {
				all = append(all, h.by)
			}
		}
		if len(all) == 0 {
			return modesCommand{}, false
		}
		c := all[s.Ago%len(all)]
		c.lease = lease
		if c.wait = s.Seconds; s.Do == "leave" {
			c.wait = 0
		}
		return c, true
	}
	c := modesCommand{do: s.Do, key: s.Key, owner: s.Owner, request: s.request(number)}
	switch s.Do {
	case "acquire":
		c = r.acquires(number, s)
	case "renew", "release":
		l := k.tally.pick(s.Back)
		if c.token = l.token; l.owner != "" && !s.Other {
			c.owner = l.owner
		}
		if s.Do == "renew" {
			if c.ttl = s.TTL; c.ttl == 0 {
				c.ttl = 1
			}
			if s.End > 0 && l.token != 0 && l.expires != 0 {
				c.ends = l.expires.add(int64(s.End - 1))
			}
		}
	case "force":
		c.reason = "test"
		if n := len(k.tally.leases); s.Lease > 0 && n >= s.Lease {
			c.lease = k.tally.leases[n-s.Lease].id
		}
	}
	r.sent = append(r.sent, c)
	return c, true
}

func (s Step) request(number int) string {
	if s.Request == "" {
		return fmt.Sprint("request ", number)
	}
	return s.Request
}

// acquires is the acquire of a step.
func (r *modesRun) acquires(number int, s Step) modesCommand {
	c := modesCommand{
		do: "acquire", key: s.Key, owner: s.Owner, request: s.request(number), lease: fmt.Sprint("lease ", number),
		label: s.Label, ttl: s.TTL, mode: s.Mode, limit: s.Limit, window: s.Window,
		wait: s.Seconds, most: s.Most, fair: s.Fair, replace: s.Replace, delay: s.Delay,
	}
	if s.Replace && s.Until > 0 {
		c.until = momentOf(r.clock.Now()).add(s.Until)
	}
	return c
}

// send carries out a command, and keeps the locks that explain its outcome.
func (r *modesRun) send(ctx context.Context, number int, s Step, c modesCommand) error {
	k := r.of(c.key)
	r.store.disturb(s)
	from := momentOf(r.clock.Now())
	o, err := r.run(ctx, number, c)
	if err != nil {
		return err
	}
	at, to := momentOf(o.At), momentOf(r.clock.Now())
	if at < from || at > to {
		return fmt.Errorf("decided at %d, sent from %d to %d", at, from, to)
	}
	seen := modesSaw(o)
	var (
		next  []modesLock
		other string
	)
	for _, l := range k.locks {
		if l.token == 0 && seen.code == "OK" && c.do == "acquire" {
			if l.token, err = k.tally.starts(seen.token, at); err != nil {
				return err
			}
		}
		found := []modesLock{l}
		if r.store.lost { // it had its effect before the delivery whose outcome this is
			found = nil
			for _, first := range l.step(c, at, at) {
				found = append(found, first.after)
			}
		}
		for _, l := range found {
			results := l.step(c, at, at)
			if from < at {
				results = append(results, l.step(c, from, at)...)
			}
			for _, x := range results {
				if from < at {
					x.answer, x.after.slow = x.answer.decidedEarlier(), max(x.after.slow, at-from)
				}
				if !x.answer.explains(c, seen) && !x.answer.late(seen, at, to-from) {
					continue
				}
				shows := x.shows(l, c, seen.code, at)
				if !x.after.mixed && from == at &&
					(seen.shown != shows || seen.retry != x.answer.retryTo || seen.position+seen.permit != 0) {
					other = fmt.Sprintf(", where it must show %+v and nothing else", shows)
					continue
				}
				next = append(next, x.after)
			}
		}
	}
	if len(next) == 0 {
		return fmt.Errorf("\ngot  %+v (%s)%s\nwant %s\nfrom %s", seen, o.Detail, other, modesWanted(k.locks, c, at),
			k.locks[0].describe())
	}
	k.locks = modesDistinct(next)
	return k.tally.saw(c, o, at)
}

// run sends a command once: with WaitSeconds it takes a place in line, and does not wait.
func (r *modesRun) run(ctx context.Context, number int, c modesCommand) (lock.Outcome, error) {
	id := lock.ID{Tenant: r.tenant, Key: c.key}
	if a := modesAcquire(id, c); c.do == "acquire" && (c.wait > 0 || number%2 == 1) {
		if err := a.Validate(); err != nil {
			return lock.Outcome{}, err
		}
		return rule.Run(ctx, r.store, r.clock.Now, a)
	}
	return c.send(ctx, r.locks, id)
}

// send sends a command, whose response is held while it waits.
func (c modesCommand) send(ctx context.Context, locks *lock.Locks, id lock.ID) (lock.Outcome, error) {
	switch c.do {
	case "acquire":
		return locks.Acquire(ctx, modesAcquire(id, c))
	case "give up":
		return locks.GiveUp(ctx, lock.GiveUp{Acquire: modesAcquire(id, c)})
	case "renew":
		n := lock.Renew{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request, TTLSeconds: c.ttl}
		if c.ends != 0 {
			n.ExpiresAt = timeOf(c.ends)
		}
		return locks.Renew(ctx, n)
	case "release":
		return locks.Release(ctx, lock.Release{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request})
	default:
		return locks.ForceRelease(ctx, lock.ForceRelease{ID: id, By: c.owner, Reason: c.reason, RequestID: c.request,
			LeaseID: c.lease})
	}
}

// modesAcquire is the acquire that a command means, without the lease's ID.
func modesAcquire(id lock.ID, c modesCommand) lock.Acquire {
	a := lock.Acquire{
		ID: id, Owner: c.owner, RequestID: c.request, TTLSeconds: c.ttl, Limit: c.limit, WindowSeconds: c.window,
		WaitSeconds: c.wait,
		Fair:        c.fair, MaxWaiting: c.most, Replace: c.replace, LockDelaySeconds: c.delay, LeaseID: c.lease,
	}
	if c.until != 0 {
		a.NotAfter = timeOf(c.until)
	}
	if c.mode != modeExclusive {
		a.Mode = lock.Mode(c.mode)
	}
	if c.label != "" {
		a.Metadata = map[string]string{"build": c.label}
	}
	return a
}

// modesSaw is what a caller sees of an outcome.
func modesSaw(o lock.Outcome) modesSeen {
	s := modesSeen{
		shown: shownOf(o.Lease.Status), code: string(o.Code), replayed: o.Replayed, permit: o.Lease.Permit,
		mode: modeName(o.Lease.Mode), position: o.Position, retry: moment(o.RetryAfter.Milliseconds()),
	}
	s.token = o.Lease.Token
	return s
}

// shownOf is what everyone sees of a lock.
func shownOf(s lock.Status) shown {
	label := s.Metadata["build"]
	if m := map[string]string{"build": label}; len(s.Metadata) > 0 && !maps.Equal(s.Metadata, m) {
		label = fmt.Sprint(s.Metadata)
	}
	return shown{
		lease: s.LeaseID, owner: s.Owner, phase: string(s.Phase), acquired: momentOf(s.AcquiredAt),
		expires: momentOf(s.ExpiresAt), released: momentOf(s.ReleasedAt), ttl: s.TTLSeconds, label: label,
		forcedBy: s.Forced.By, reason: s.Forced.Reason, forcedAt: momentOf(s.Forced.At), free: momentOf(s.FreeAt),
	}
}

func modeName(m lock.Mode) string {
	if m == lock.Exclusive {
		return modeExclusive
	}
	return string(m)
}

func modesDistinct(all []modesLock) []modesLock {
	var distinct []modesLock
	known := map[string]bool{}
	for _, l := range all {
		if text := l.id(); !known[text] {
			known[text] = true
			distinct = append(distinct, l)
		}
	}
	return distinct
}

// modesWanted is what a command may return, for people.
func modesWanted(locks []modesLock, c modesCommand, at moment) string {
	var b strings.Builder
	for _, l := range locks {
		for _, x := range l.step(c, at, at) {
			fmt.Fprintf(&b, "\n     %s, replayed %d, position %d, retry [%d, %d]", x.answer.codes, x.answer.replayed,
				x.answer.position, x.answer.retryFrom, x.answer.retryTo)
			if x.answer.lease != nil {
				fmt.Fprintf(&b, " with token %d, [%d, %d), permit %d", x.answer.lease.token, x.answer.lease.acquired,
					x.answer.lease.expires, x.answer.lease.permit)
			}
		}
	}
	return b.String()
}

// look compares what everyone may see of the lock with what explains all that was seen before: LS-INV-001, LS-REL-002,
// LS-EXP-001.
func (r *modesRun) look(ctx context.Context, key string) error {
	k := r.of(key)
	status, found, err := r.locks.Get(ctx, lock.ID{Tenant: r.tenant, Key: key})
	if err != nil {
		return err
	}
	at := momentOf(r.clock.Now())
	before := k.locks
	var why error
	k.locks = slices.DeleteFunc(slices.Clone(before), func(l modesLock) bool {
		err := l.looksLike(status, found, at)
		if err != nil {
			why = err
		}
		return err != nil
	})
	if len(k.locks) == 0 {
		return fmt.Errorf("the lock shows %+v: %w\nwant %s", status, why, before[0].describe())
	}
	return k.tally.holds(status, at)
}

// looksLike reports how the lock differs from what is shown of it.
func (l modesLock) looksLike(s lock.Status, found bool, at moment) error {
	if never := l.token == 0 && len(l.waiting) == 0; never == found {
		return fmt.Errorf("found is %v after token %d", found, l.token)
	}
	past := l.over(at)
	if !l.mixed {
		want := l.shown(at)
		want.token = 0
		if got := shownOf(s); got != want {
			return fmt.Errorf("it shows\n%+v, want\n%+v", got, want)
		}
		if len(s.History) == 0 && len(past) > 0 && s.Phase != lock.Active {
			return errors.New("it shows no history")
		}
	}
	if l.kind.family != modeRate {
		var want, got []string
		for _, h := range l.holders {
			if h.lasts(at) {
				want = append(want, fmt.Sprint(h.by.owner, h.by.mode, h.permit, h.acquired, h.expires))
			}
		}
		if len(s.Holders) > 0 {
			for _, h := range s.Holders {
				got = append(got, fmt.Sprint(h.Owner, modeName(h.Mode), h.Permit, momentOf(h.AcquiredAt), momentOf(h.ExpiresAt)))
			}
		} else if s.Phase == lock.Active {
			got = append(got, fmt.Sprint(s.Owner, modeExclusive, 0, momentOf(s.AcquiredAt), momentOf(s.ExpiresAt)))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("holders are %v, want %v", got, want)
		}
	}
	var want, got []string
	for _, p := range l.waiting {
		if at < p.listens {
			want = append(want, fmt.Sprint(p.by.owner, p.by.mode, p.since, p.until))
		}
	}
	for _, p := range s.Waiting {
		got = append(got, fmt.Sprint(p.Owner, modeName(p.Mode), momentOf(p.Since), momentOf(p.Until)))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the line is %v, want %v", got, want)
	}
	for i, p := range s.History {
		j := slices.IndexFunc(past, func(h modesLease) bool { return h.token == p.Token })
		if j < 0 && l.kind.family == modeRate || l.mixed && j >= len(l.past) {
			continue
		}
		if j < 0 || !l.mixed && j != len(past)-1-i {
			return fmt.Errorf("history has token %d, which did not end, or not then", p.Token)
		}
		h := past[j]
		if l.mixed && h.token == l.token && l.form == formPlain && h.ended == "forced" && p.Ended == lock.EndedReleased {
			continue // what is kept of the latest lease, once the lock is free, does not always say who ended it
		}
		by := h.endedBy.owner
		if h.ended == "released" {
			by = ""
		}
		if string(p.Ended) != h.ended || !h.was(momentOf(p.AcquiredAt), momentOf(p.EndedAt), l.slow) ||
			p.Owner != h.by.owner || !l.mixed && p.By != by {
			return fmt.Errorf("history has %+v, want %+v", p, h)
		}
	}
	return nil
}

// over are the leases that have ended, oldest first: those whose end was written down, then the others.
func (l modesLock) over(at moment) []modesLease {
	l = l.clone()
	for _, h := range l.holders {
		if !h.lasts(at) {
			l.end(h, "expired", h.expires)
		}
	}
	return l.past
}

// was reports whether a lease may be shown as one that lasted from one time to another. A write is decided up to a
// pause of a program before it is written, and history has the time of the decision for what ended by it, and began and
// ended by it.
func (l modesLease) was(from, to, pause moment) bool {
	if l.ended == "expired" {
		return from == l.acquired && to == l.endedAt
	}
	return from <= l.acquired && l.acquired-from <= pause && to <= l.endedAt && l.endedAt-to <= pause && from <= to
}

// lossyStore loses the next writes, as many as drop says, on their way, and then sends a write again as often as lose
// says, as an SDK does whose answers get lost, and returns the last answer. It first lets as many writes pass as skip
// says.
type lossyStore struct {
	through
	drop, lose, skip int
	lost             bool // the answer to a write that was applied
}

func (s *lossyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.drop > 0 {
		s.drop--
		return docstore.Result{}, errInjected
	}
	if s.skip > 0 {
		s.skip--
		return s.Store.Write(ctx, writes...)
	}
	for ; s.lose > 0; s.lose-- {
		r, err := s.Store.Write(ctx, writes...)
		if err != nil {
			return docstore.Result{}, err
		}
		s.lost = s.lost || r.Applied
	}
	return s.Store.Write(ctx, writes...)
}

// disturbed is a store between the rules and the one under test: it loses responses, and lets time pass.
type disturbed struct {
	lossyStore

	clock  *Clock
	pause  time.Duration
	writes int // of the command so far
}

// disturb says what happens to the writes of the next command.
func (d *disturbed) disturb(s Step) {
	d.lose, d.skip, d.lost, d.pause, d.writes = s.Lost, s.Which, false, s.Pause, 0
	if s.Lost > 0 {
		d.pause = 0
	}
}

func (d *disturbed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if d.writes == 1 {
		d.clock.Advance(d.pause)
	}
	d.writes++
	return d.lossyStore.Write(ctx, writes...)
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
