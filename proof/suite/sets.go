package suite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// LockSets proves that several locks can be taken at once on a store, see [Locks].
func LockSets(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Helper()
	setsProof.of(t, newStore)
}

var setsProof = proof[SetStep]{program: SetProgram, run: RunSets}

// SetStep is one step of a program: a command on several locks, or a [Step] on one of them.
type SetStep struct {
	Step
	Keys  int  // of a command on several locks: which, as bits
	Fewer bool // of again and give up set: without the last of the keys
}

var setKeys = []string{"a", "b", "c/d"}

// SetProgram draws a sequence of steps over three keys, by themselves and together.
var SetProgram = rapid.OneOf(
	rapid.SliceOfN(setStep("acquire set", "acquire set", "renew set", "release set", "again", "acquire", "renew",
		"release", "force", "remove"), 1, 60),
	rapid.SliceOfN(setStep("acquire set", "acquire set", "release set", "again", "again"), 10, 60),
	rapid.SliceOfN(setStep("acquire set", "acquire set", "acquire", "give up set", "give up set", "give up", "again",
		"release set", "remove"), 10, 60),
	rapid.SliceOfN(setStep("acquire set", "renew set", "renew set", "renew set", "again", "again", "renew"), 10, 60),
	rapid.SliceOfN(setStep("acquire set", "acquire set", "release set", "release set", "release", "force", "again"), 10,
		60),
)

func setStep(does ...string) *rapid.Generator[SetStep] {
	single := step(plainPolicies, does)
	return rapid.Custom(func(t *rapid.T) SetStep {
		s := SetStep{
			Step:  single.Draw(t, "step"),
			Keys:  rapid.SampledFrom([]int{1, 3, 3, 5, 6, 7, 7}).Draw(t, "keys"),
			Fewer: rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(t, "fewer"),
		}
		s.Key, s.Pause = rapid.SampledFrom(setKeys).Draw(t, "key"), 0
		return s
	})
}

// setCommand is what a caller sent about several locks, by key.
type setCommand struct {
	do   string // acquire, give up (an acquire), renew or release
	each []modesCommand
}

// setOutcome is what it must get.
type setOutcome struct {
	code     string
	replayed bool
	at       moment
	key      string // the one because of which it was refused
	retry    moment
	leases   []shown
}

// same reports whether two outcomes are equal.
func (o setOutcome) same(p setOutcome) bool { return fmt.Sprintf("%+v", o) == fmt.Sprintf("%+v", p) }

// RunSets carries out a program on a store whose clock is clock and returns the first difference from the oracle.
func RunSets(ctx context.Context, store docstore.Store, clock *Clock, tenant string, program []SetStep) error {
	leases := 0
	r := &setRun{modesRun: newModesRun(store, clock, tenant, func() string {
		leases++
		return fmt.Sprint("of a set ", leases)
	})}
	for i, s := range program {
		clock.Advance(s.Wait)
		var err error
		if c, ok := r.setCommand(i, s); ok {
			err = r.sendSet(ctx, c, s.Step)
		} else if s.Do != "again" && !strings.HasSuffix(s.Do, " set") {
			err = r.step(ctx, i, s.Step)
		}
		for i, k := range setKeys {
			if err == nil && s.Keys&(1<<i) != 0 {
				err = r.look(ctx, k)
			}
		}
		if err != nil {
			return fmt.Errorf("step %d %+v at %d: %w", i, s, momentOf(clock.Now()), err)
		}
	}
	return nil
}

// setRun is a program that is being carried out.
type setRun struct {
	*modesRun

	sets []setCommand
}

// setCommand is what a step sends about several locks, false if it is about one.
func (r *setRun) setCommand(number int, s SetStep) (setCommand, bool) {
	if s.Do == "again" || s.Do == "give up set" {
		c, ok := ago(r.sets, s.Ago, func(c setCommand) bool { return s.Do == "again" || c.do == "acquire" })
		if !ok {
			return c, false
		}
		c.each = slices.Clone(c.each)
		if s.Fewer && len(c.each) > 1 {
			c.each = c.each[:len(c.each)-1]
			c.name()
		}
		for i := range c.each {
			if s.Shorten {
				c.each[i].ttl = 3 - c.each[i].ttl
			}
		}
		if s.Do == "give up set" {
			c.do = "give up"
			for i := range c.each {
				c.each[i].do = c.do
			}
			r.sets = append(r.sets, c)
		}
		return c, true
	}
	do, is := strings.CutSuffix(s.Do, " set")
	if !is {
		return setCommand{}, false
	}
	c := setCommand{do: do}
	for i, k := range setKeys {
		if s.Keys&(1<<i) == 0 {
			continue
		}
		one := modesCommand{do: do, key: k, owner: s.Owner, request: s.Request, ttl: s.TTL, mode: modeExclusive}
		if one.request == "" {
			one.request = fmt.Sprint("request ", number)
		}
		switch l := r.of(k).tally.pick(s.Back); {
		case do == "acquire":
			one.label = s.Label
		case do == "renew" && s.End > 0 && len(c.each) == 0 && l.expires != 0:
			one.token, one.ends = l.token, l.expires.add(int64(s.End-1))
		default:
			one.token = l.token
		}
		if len(c.each) > 0 {
			one.ends = c.each[0].ends
		}
		c.each = append(c.each, one)
	}
	c.name()
	r.sets = append(r.sets, c)
	return c, true
}

// name tells each command which others it is sent with. Releases need not be told apart by that.
func (c *setCommand) name() {
	var keys []string
	for _, one := range c.each {
		keys = append(keys, one.key)
	}
	for i := range c.each {
		if c.do != "release" {
			c.each[i].with = strings.Join(keys, " and ")
		}
	}
}

// sendSet carries out a command on several locks, and compares its outcome with what the oracle says of each of them.
func (r *setRun) sendSet(ctx context.Context, c setCommand, s Step) error {
	at := momentOf(r.clock.Now())
	if _, whole := r.answerSet(c, at, false); !whole { // it has several writes, or none that applies
		s.Lost = 0
	}
	r.store.disturb(s)
	got, o, err := sendSet(ctx, r.locks, r.tenant, c)
	if err != nil {
		return err
	}
	c.each = slices.Clone(c.each)
	for i := range c.each {
		if one := &c.each[i]; c.do == "acquire" && got.code == "OK" && len(got.leases) == len(c.each) {
			one.lease = got.leases[i].lease
			if l := &r.of(one.key).locks[0]; l.token == 0 {
				if l.token, err = r.of(one.key).tally.starts(got.leases[i].token, at); err != nil {
					return err
				}
			}
		}
	}
	if r.store.lost { // it had its effect before the delivery whose outcome this is
		r.answerSet(c, at, true)
	}
	want, _ := r.answerSet(c, at, true)
	if (got.key == "") != (got.code == "OK") {
		return fmt.Errorf("%s names the lock %q", got.code, got.key)
	}
	if got.code == "REQUEST_ID_REUSED" || got.code == "LEASE_CHANGED" {
		got.key, want.key = "", "" // what is wrong is wrong with all
	}
	if !got.same(want) {
		return fmt.Errorf("%s %+v:\ngot  %+v\nwant %+v", c.do, c.each, got, want)
	}
	for _, one := range c.each {
		i := slices.IndexFunc(o.Leases, func(l lock.Lease) bool { return l.Key == one.key })
		did := lock.Outcome{Code: lock.OK}
		switch {
		case i >= 0:
			did.Lease = o.Leases[i]
		case got.code != "OK" || c.do != "give up":
			continue
		}
		if err := r.of(one.key).tally.saw(one, did, at); err != nil {
			return err
		}
	}
	return nil
}

// answerSet says what a command on several locks must return, and remembers its effect if it is sent. whole: it has one
// on all of them.
func (r *setRun) answerSet(c setCommand, at moment, sent bool) (want setOutcome, whole bool) {
	results := make([]modesResult, len(c.each))
	shows := make([]shown, len(c.each))
	fresh, repeated, refused := 0, 0, 0
	for i, one := range c.each {
		l := r.of(one.key).locks[0]
		x := l.step(one, at, at)[0] // the locks have only the plain form
		results[i], shows[i] = x, named(one, x.shows(l, one, x.answer.codes, at))
		switch {
		case x.answer.codes != "OK":
			refused++
		case x.answer.replayed == 1:
			repeated++
		default:
			fresh++
		}
	}
	// What has one effect has it on all locks; but what is held of several leases is released or given up.
	whole = fresh == len(c.each)
	parts := c.do == "release" || c.do == "give up" && refused == 0
	want = setOutcome{code: "OK", replayed: fresh == 0, at: at}
	for i, one := range c.each {
		if sent && (whole || parts) {
			r.of(one.key).locks = []modesLock{results[i].after}
		}
		if results[i].answer.codes == "OK" && (c.do != "give up" || shows[i].token != 0) {
			want.leases = append(want.leases, shows[i])
		}
	}
	if refused == 0 && (fresh == 0 || repeated == 0 || parts) {
		return want, whole
	}
	if c.do != "release" {
		want.leases = nil
	}
	want.replayed = false
	if c.do == "acquire" && repeated > 0 { // one of the leases that this request obtained has ended
		want.code = "REQUEST_ID_REUSED"
		return want, whole
	}
	if refused == 0 {
		want.code = "LEASE_CHANGED"
		return want, whole
	}
	for i, x := range results {
		code, retry := x.answer.codes, x.answer.retryTo
		if code != "OK" && (want.code == "OK" ||
			cmp.Or(cmp.Compare(severity(code), severity(want.code)), cmp.Compare(want.retry, retry)) < 0) {
			want.code, want.key, want.retry = code, c.each[i].key, retry
		}
	}
	return want, whole
}

// severity orders refusals: the first is the one that is shown. A lock that is closed for its lock delay is like one
// that is held.
func severity(code string) int {
	if code == "LOCK_DELAYED" {
		code = "LOCK_HELD"
	}
	return slices.Index([]string{
		"LEASE_LOST", "LEASE_RELEASED", "LEASE_EXPIRED", "NOT_OWNER", "REQUEST_ID_REUSED", "LEASE_CHANGED", "LOCK_HELD",
	}, code)
}

// named is as much of a lease as is shown of it after a command on several.
func named(c modesCommand, s shown) shown {
	switch c.do {
	case "acquire":
		return s
	case "renew":
		return shown{token: s.token, owner: s.owner, phase: s.phase, expires: s.expires}
	case "give up":
		return shown{token: s.token, phase: s.phase}
	default:
		return shown{token: c.token, owner: c.owner, phase: "RELEASED"}
	}
}

// sendSet carries out one command on several locks.
func sendSet(ctx context.Context, locks *lock.Locks, tenant string, c setCommand) (setOutcome, lock.SetOutcome, error) {
	var (
		o      lock.SetOutcome
		err    error
		first  = c.each[0]
		keys   []string
		leases []lock.SetLease
	)
	for _, one := range slices.Backward(c.each) { // their order has no meaning
		keys = append(keys, one.key)
		leases = append(leases, lock.SetLease{Key: one.key, Token: one.token})
	}
	a := modesAcquire(lock.ID{}, first)
	acquire := lock.AcquireSet{Tenant: tenant, Keys: keys, Owner: a.Owner, RequestID: a.RequestID,
		TTLSeconds: a.TTLSeconds, Metadata: a.Metadata}
	switch c.do {
	case "acquire":
		o, err = locks.AcquireSet(ctx, acquire)
	case "give up":
		o, err = locks.GiveUpSet(ctx, lock.GiveUpSet{Acquire: acquire})
	case "renew":
		n := lock.RenewSet{Tenant: tenant, Leases: leases, Owner: a.Owner, RequestID: a.RequestID, TTLSeconds: a.TTLSeconds}
		if first.ends != 0 {
			n.ExpiresAt = timeOf(first.ends)
		}
		o, err = locks.RenewSet(ctx, n)
	default:
		o, err = locks.ReleaseSet(ctx, lock.ReleaseSet{Tenant: tenant, Leases: leases, Owner: a.Owner,
			RequestID: a.RequestID})
	}
	got := setOutcome{code: string(o.Code), replayed: o.Replayed, at: momentOf(o.At), key: o.Refusal.Lease.Key,
		retry: moment(o.Refusal.RetryAfter.Milliseconds())}
	for _, l := range o.Leases {
		one := shownOf(l.Status)
		if one.token = l.Token; c.do != "acquire" {
			one = shown{token: l.Token, owner: l.Owner, phase: one.phase, expires: one.expires}
		}
		got.leases = append(got.leases, one)
	}
	return got, o, err
}

// ambiguousSets is [Ambiguous] for commands on several locks: one that was lost on its way has its effect once, on all
// of them.
func ambiguousSets(t *testing.T, store docstore.Store, faults Faults, clock *Clock, do string, fate Fate) {
	t.Helper()
	locks := lock.New(store, &lock.Options{Now: clock.Now})
	do = strings.TrimSuffix(do, " set")
	set := func(do, owner, request string, tokens map[string]int64) setCommand {
		c := setCommand{do: do}
		for _, k := range setKeys {
			c.each = append(c.each, modesCommand{key: k, owner: owner, request: request, ttl: 60, token: tokens[k]})
		}
		return c
	}
	tokens := map[string]int64{}
	if do != "acquire" {
		a, _, err := sendSet(t.Context(), locks, "acme", set("acquire", "ann", "r0", nil))
		if err != nil || a.code != "OK" {
			t.Fatalf("the leases to begin with: %+v, %v", a, err)
		}
		for i, l := range a.leases {
			tokens[setKeys[i]] = l.token
		}
		clock.Advance(time.Second)
	}
	answer, err := untilAnswered(t, faults, fate, func(ctx context.Context) (setOutcome, error) {
		o, _, err := sendSet(ctx, locks, "acme", set(do, "ann", "r1", tokens))
		return o, err
	})
	if err != nil || answer.code != "OK" || len(answer.leases) != len(setKeys) {
		t.Fatalf("after all tries: %+v, %v", answer, err)
	}
	again, _, err := sendSet(t.Context(), locks, "acme", set(do, "ann", "r1", tokens))
	if answer.replayed = true; err != nil || !again.same(answer) {
		t.Errorf("once more: %+v, %v; want %+v", again, err, answer)
	}
	want := map[string]lock.Phase{"acquire": lock.Active, "renew": lock.Active, "release": lock.Released}[do]
	for _, k := range setKeys {
		s, _, err := locks.Get(t.Context(), lock.ID{Tenant: "acme", Key: k})
		if err != nil || s.Phase != want || s.Owner != "ann" {
			t.Errorf("the lock %q is %+v, %v; want %s", k, s, err, want)
		}
	}
	if do == "acquire" {
		for i, l := range answer.leases {
			tokens[setKeys[i]] = l.token
		}
	}
	clock.Advance(time.Hour)
	next, _, err := sendSet(t.Context(), locks, "acme", set("acquire", "bob", "b1", nil))
	if err != nil || next.code != "OK" {
		t.Fatalf("the next leases: %+v, %v", next, err)
	}
	for i, l := range next.leases {
		if k := setKeys[i]; l.token != tokens[k]+1 {
			t.Errorf("the next token of %q is %d, want %d", k, l.token, tokens[k]+1)
		}
	}
}
