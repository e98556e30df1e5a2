package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

var setsProof = proof[SetStep]{program: SetProgram, run: RunSets, history: SetHistory}

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
	single := step(does...)
	return rapid.Custom(func(t *rapid.T) SetStep {
		s := SetStep{
			Step:  single.Draw(t, "step"),
			Keys:  rapid.SampledFrom([]int{1, 3, 3, 5, 6, 7, 7}).Draw(t, "keys"),
			Fewer: rapid.SampledFrom([]bool{false, false, false, false, true}).Draw(t, "fewer"),
		}
		s.Key = rapid.SampledFrom(setKeys).Draw(t, "key")
		return s
	})
}

// setCommand is what a caller sent about several locks, by key.
type setCommand struct {
	do   string // acquire, give up (an acquire), renew or release
	each []command
}

// setOutcome is what it must get.
type setOutcome struct {
	Code       string
	Replayed   bool
	At         string
	Key        string // the one because of which it was refused
	RetryAfter time.Duration
	Leases     []outcome
}

// String is the whole of it, to be compared.
func (o setOutcome) String() string {
	return fmt.Sprintf("%s replayed:%v at:%s key:%q after:%v leases:%+v", o.Code, o.Replayed, o.At, o.Key,
		o.RetryAfter, o.Leases)
}

// RunSets carries out a program on a store whose clock is clock and returns the first difference from the oracle.
func RunSets(ctx context.Context, store docstore.Store, clock *Clock, tenant string, program []SetStep) error {
	lossy := &lossyStore{through: through{store}}
	leases := 0
	options := &lock.Options{Now: clock.Now, NewLeaseID: func() string {
		leases++
		return fmt.Sprint("of a set ", leases)
	}}
	r := &setRun{lockRun: lockRun{locks: lock.New(lossy, options), lossy: lossy, tenant: tenant,
		oracles: map[string]*oracle{}}}
	for i, s := range program {
		clock.Advance(s.Wait)
		now := clock.Now()
		var err error
		switch c, ok := r.setCommand(i, s); {
		case ok:
			err = r.sendSet(ctx, c, s.Lost, now)
		case s.Do == "remove":
			if err = remove(ctx, store, tenant, s.Key); err == nil {
				r.of(s.Key).removed()
				clock.Advance(gone)
			}
		case s.Do != "again" && !strings.HasSuffix(s.Do, " set"):
			if c, ok := r.command(i, s.Step); ok {
				err = r.send(ctx, c, s.Lost, now)
			}
		}
		for i, k := range setKeys {
			if err == nil && (k == s.Key || s.Keys&(1<<i) != 0) {
				err = r.compare(ctx, k, clock.Now())
			}
		}
		if err != nil {
			return fmt.Errorf("step %d %+v at %s: %w", i, s, written(now), err)
		}
	}
	return nil
}

// setRun is a program that is being carried out.
type setRun struct {
	lockRun
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
			c = c.givenUp()
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
		one := command{do: do, key: k, owner: s.Owner, request: s.Request, ttl: s.TTL}
		if one.request == "" {
			one.request = fmt.Sprint("request ", number)
		}
		o := r.of(k)
		switch do {
		case "acquire":
			one.metadata = s.Metadata
		default:
			one.token = o.token(s.Back)
			if l := o.latest(); do == "renew" && l != nil && s.End > 0 && len(c.each) == 0 {
				one.ends = l.expires.Add(time.Duration(s.End-1) * time.Second)
			}
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

// givenUp is the command that gives an acquire up.
func (c setCommand) givenUp() setCommand {
	c.do = "give up"
	for i := range c.each {
		c.each[i].do = c.do
	}
	return c
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

// sendSet carries out a command on several locks and compares its outcome with what the oracles say.
func (r *setRun) sendSet(ctx context.Context, c setCommand, lost int, now time.Time) error {
	least, second := map[string]int64{}, false
	for _, one := range c.each {
		least[one.key] = max(slices.Max(append([]int64{0}, r.of(one.key).tokens...)), now.UnixMicro())
		second = second || r.of(one.key).afterRefusal(one, now)
	}
	if c.do == "give up" && r.knowsSome(c) {
		lost = 0 // several writes: one that decides what is known, then those that apply
	}
	lost = r.lose(lost, second) // the write that may be applied is one to all of them
	want, whole := r.answerSet(c, now)
	for ; lost > 0 && whole; lost-- { // what is not done in one step is not done by what gets lost
		want, _ = r.answerSet(c, now)
	}
	got, err := sendSet(ctx, r.locks, r.tenant, c)
	if err != nil {
		return err
	}
	if got.Code == want.Code && len(got.Leases) == len(want.Leases) {
		for i, one := range c.each {
			if want.Code == "OK" && c.do == "acquire" {
				l := r.of(one.key).latest()
				l.by.lease = cmp.Or(l.by.lease, got.Leases[i].Lease) // the first time that it is shown
				want.Leases[i].Lease = l.by.lease
			}
			if i < len(want.Leases) && want.Leases[i].Token == start {
				if n := got.Leases[i].Token; n <= least[one.key] || n > least[one.key]+1e6 {
					return fmt.Errorf("tokens start at %d, %d at least", n, least[one.key]+1)
				}
				r.of(one.key).started(got.Leases[i].Token)
				want.Leases[i].Token = got.Leases[i].Token
			}
		}
	}
	if (got.Key == "") != (got.Code == "OK") {
		return fmt.Errorf("%s names the lock %q", got.Code, got.Key)
	}
	if got.Code == "REQUEST_ID_REUSED" || got.Code == "LEASE_CHANGED" {
		got.Key, want.Key = "", "" // what is wrong is wrong with all
	}
	if got.String() != want.String() {
		return fmt.Errorf("%s %+v:\ngot  %v\nwant %v", c.do, c.each, got, want)
	}
	return nil
}

// knowsSome reports whether some of the locks know that a request was given up.
func (r *setRun) knowsSome(c setCommand) bool {
	return slices.ContainsFunc(c.each, func(one command) bool {
		before, _ := remembered(r.of(one.key).givenUp, one)
		return before != nil
	})
}

// answerSet says what a command on several locks must return, and remembers its effect. whole: it has one on all of
// them.
func (r *setRun) answerSet(c setCommand, now time.Time) (want setOutcome, whole bool) {
	answers := make([]outcome, len(c.each))
	after := make([]*oracle, len(c.each))
	fresh, repeated, refused := 0, 0, 0
	for i, one := range c.each {
		after[i] = r.of(one.key).clone()
		answers[i] = after[i].answer(one, now)
		switch {
		case answers[i].Code != "OK":
			refused++
		case answers[i].Replayed:
			repeated++
		default:
			fresh++
		}
	}
	// What has one effect has it on all locks; but what is held of several leases is released or given up.
	whole = fresh == len(c.each)
	parts := c.do == "release" || c.do == "give up" && refused == 0
	if whole || parts {
		for i, one := range c.each {
			r.oracles[one.key] = after[i]
		}
	}
	want = setOutcome{Code: "OK", Replayed: fresh == 0, At: written(now)}
	for i, one := range c.each {
		if answers[i].Code == "OK" && (c.do != "give up" || answers[i].Token != 0) {
			want.Leases = append(want.Leases, named(c.do, one, answers[i]))
		}
	}
	if refused == 0 && (fresh == 0 || repeated == 0 || parts) {
		return want, whole
	}
	if c.do != "release" {
		want.Leases = nil
	}
	want.Replayed = false
	if c.do == "acquire" && repeated > 0 { // one of the leases that this request obtained has ended
		want.Code = "REQUEST_ID_REUSED"
		return want, whole
	}
	if refused == 0 {
		want.Code = "LEASE_CHANGED"
		return want, whole
	}
	worst := -1
	for i, a := range answers {
		if a.Code == "OK" {
			continue
		}
		if worst < 0 || cmp.Or(cmp.Compare(severity(a), severity(answers[worst])),
			cmp.Compare(answers[worst].RetryAfter, a.RetryAfter)) < 0 {
			worst = i
		}
	}
	want.Code, want.Key, want.RetryAfter = answers[worst].Code, c.each[worst].key, answers[worst].RetryAfter
	return want, whole
}

// severity orders refusals: the first is the one that is shown. A lock that is closed for its lock delay is like one
// that is held.
func severity(a outcome) int {
	if a.Code == "LOCK_DELAYED" {
		a.Code = "LOCK_HELD"
	}
	return slices.Index([]string{
		"LEASE_LOST", "LEASE_RELEASED", "LEASE_EXPIRED", "NOT_OWNER", "REQUEST_ID_REUSED", "LEASE_CHANGED", "LOCK_HELD",
	}, a.Code)
}

// named is as much of a lease as is shown of it after a command on several.
func named(do string, c command, a outcome) outcome {
	switch do {
	case "acquire":
		a.Code, a.At, a.Replayed = "", "", false
		return a
	case "renew":
		return outcome{Token: a.Token, Owner: a.Owner, Phase: a.Phase, Expires: a.Expires}
	case "give up":
		return outcome{Token: a.Token, Phase: a.Phase}
	default:
		return outcome{Token: c.token, Owner: c.owner, Phase: "RELEASED"}
	}
}

// clone is a copy with which may be done what the original is not to know of.
func (o *oracle) clone() *oracle {
	n := &oracle{forces: slices.Clone(o.forces), tokens: slices.Clone(o.tokens), givenUp: slices.Clone(o.givenUp)}
	for _, l := range o.leases {
		c := *l
		c.renewals = slices.Clone(l.renewals)
		n.leases = append(n.leases, &c)
	}
	return n
}

// sendSet carries out one command on several locks.
func sendSet(ctx context.Context, locks *lock.Locks, tenant string, c setCommand) (setOutcome, error) {
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
	acquire := lock.AcquireSet{Tenant: tenant, Keys: keys, Owner: first.owner, RequestID: first.request,
		TTLSeconds: first.ttl, Metadata: first.metadata}
	switch c.do {
	case "acquire":
		o, err = locks.AcquireSet(ctx, acquire)
	case "give up":
		o, err = locks.GiveUpSet(ctx, lock.GiveUpSet{Acquire: acquire})
	case "renew":
		o, err = locks.RenewSet(ctx, lock.RenewSet{
			Tenant: tenant, Leases: leases, Owner: first.owner, RequestID: first.request, TTLSeconds: first.ttl,
			ExpiresAt: first.ends,
		})
	default:
		o, err = locks.ReleaseSet(ctx, lock.ReleaseSet{Tenant: tenant, Leases: leases, Owner: first.owner,
			RequestID: first.request})
	}
	got := setOutcome{Code: string(o.Code), Replayed: o.Replayed, At: written(o.At), Key: o.Refusal.Lease.Key,
		RetryAfter: o.Refusal.RetryAfter}
	for _, l := range o.Leases {
		one := seen(l.Status)
		one.Token = l.Token
		if c.do != "acquire" {
			one = outcome{Token: l.Token, Owner: l.Owner, Phase: one.Phase, Expires: one.Expires}
		}
		got.Leases = append(got.Leases, one)
	}
	return got, err
}

// SetHistory lets concurrent callers take overlapping sets of locks, on a store that loses requests and responses and
// delivers twice. No two callers hold a lock at once, its tokens rise, and every caller is served: none of them waits
// with a lock that another needs.
func SetHistory(ctx context.Context, store docstore.Store, clock *Clock, tenant string, seed uint64) error {
	const (
		callers = 4
		rounds  = 5
		tries   = 3000
	)
	held := &heldKeys{by: map[string]string{}, tokens: map[string]int64{}}
	flaky := &flakyStore{through: through{store}, random: rand.New(rand.NewPCG(seed, 2))}
	failed := make([]error, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(10+n)))
			locks := lock.New(flaky, &lock.Options{Now: clock.Now})
			who := fmt.Sprint("caller ", n)
			for round := range rounds {
				keys := slices.Clone(setKeys)
				random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				keys = keys[:1+random.IntN(len(keys))]
				if err := oneSet(ctx, locks, tenant, who, fmt.Sprint("round ", round), keys, held, tries); err != nil {
					failed[n] = fmt.Errorf("%s, round %d, %q: %w", who, round, keys, err)
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// oneSet acquires, renews and releases locks.
func oneSet(ctx context.Context, locks *lock.Locks, tenant, who, round string, keys []string, held *heldKeys,
	tries int) error {
	send := func(do func() (lock.SetOutcome, error)) (lock.SetOutcome, error) {
		for try := 0; ; try++ {
			o, err := do()
			if err != nil && try < tries {
				continue
			}
			if err != nil || o.Code != lock.Held {
				return o, err
			}
			if try >= tries {
				return o, fmt.Errorf("still held by %s after %d tries", o.Refusal.Lease.Owner, tries)
			}
			time.Sleep(time.Duration(1+try%7) * 100 * time.Microsecond)
		}
	}
	got, err := send(func() (lock.SetOutcome, error) {
		return locks.AcquireSet(ctx, lock.AcquireSet{Tenant: tenant, Keys: keys, Owner: who, RequestID: round,
			TTLSeconds: 3600})
	})
	if err != nil || got.Code != lock.OK || len(got.Leases) != len(keys) {
		return fmt.Errorf("acquire: %+v, %w", got, err)
	}
	var leases []lock.SetLease
	for _, l := range got.Leases {
		leases = append(leases, lock.SetLease{Key: l.Key, Token: l.Token})
		if err := held.enter(l.Key, who, l.Token); err != nil {
			return err
		}
	}
	renewed, err := send(func() (lock.SetOutcome, error) {
		return locks.RenewSet(ctx, lock.RenewSet{Tenant: tenant, Leases: leases, Owner: who, RequestID: round,
			TTLSeconds: 1800})
	})
	if err != nil || renewed.Code != lock.OK {
		return fmt.Errorf("renew: %+v, %w", renewed, err)
	}
	for _, k := range keys {
		held.leave(k)
	}
	released, err := send(func() (lock.SetOutcome, error) {
		return locks.ReleaseSet(ctx, lock.ReleaseSet{Tenant: tenant, Leases: leases, Owner: who, RequestID: round})
	})
	if err != nil || released.Code != lock.OK || len(released.Leases) != len(keys) {
		if err == nil && released.Code == lock.LeaseLost && held.forgotten(leases) {
			return nil
		}
		return fmt.Errorf("release: %+v, %w", released, err)
	}
	return nil
}

// heldKeys are the locks as their holders know them.
type heldKeys struct {
	mu     sync.Mutex
	by     map[string]string
	tokens map[string]int64
}

func (h *heldKeys) enter(key, who string, token int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.by[key]; other != "" {
		return fmt.Errorf("it has %q while %s holds it", key, other)
	}
	if token <= h.tokens[key] {
		return fmt.Errorf("it has %q with the token %d after %d", key, token, h.tokens[key])
	}
	h.by[key], h.tokens[key] = who, token
	return nil
}

// forgotten reports whether a lock may have forgotten that one of the leases was released: so many were granted since.
// That happens to a caller whose response was lost, and which was slow to send the release again.
func (h *heldKeys) forgotten(leases []lock.SetLease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(leases, func(l lock.SetLease) bool { return h.tokens[l.Key] >= l.Token+knownReleases })
}

func (h *heldKeys) leave(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, key)
}

// flakyStore loses requests and responses, and delivers some twice.
type flakyStore struct {
	through
	mu     sync.Mutex
	random *rand.Rand
}

func (s *flakyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.mu.Lock()
	fate := s.random.IntN(10)
	s.mu.Unlock()
	switch fate {
	case 0:
		return docstore.Result{}, errInjected
	case 1:
		_, err := s.Store.Write(ctx, writes...)
		return docstore.Result{}, errors.Join(errInjected, err)
	case 2:
		if _, err := s.Store.Write(ctx, writes...); err != nil {
			return docstore.Result{}, err
		}
	}
	return s.Store.Write(ctx, writes...)
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
			c.each = append(c.each, command{key: k, owner: owner, request: request, ttl: 60, token: tokens[k]})
		}
		return c
	}
	tokens := map[string]int64{}
	if do != "acquire" {
		a, err := sendSet(t.Context(), locks, "acme", set("acquire", "ann", "r0", nil))
		if err != nil || a.Code != "OK" {
			t.Fatalf("the leases to begin with: %+v, %v", a, err)
		}
		for i, l := range a.Leases {
			tokens[setKeys[i]] = l.Token
		}
		clock.Advance(time.Second)
	}
	answer, err := untilAnswered(t, faults, fate, func(ctx context.Context) (setOutcome, error) {
		return sendSet(ctx, locks, "acme", set(do, "ann", "r1", tokens))
	})
	if err != nil || answer.Code != "OK" || len(answer.Leases) != len(setKeys) {
		t.Fatalf("after all tries: %+v, %v", answer, err)
	}
	again, err := sendSet(t.Context(), locks, "acme", set(do, "ann", "r1", tokens))
	if answer.Replayed = true; err != nil || again.String() != answer.String() {
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
		for i, l := range answer.Leases {
			tokens[setKeys[i]] = l.Token
		}
	}
	clock.Advance(time.Hour)
	next, err := sendSet(t.Context(), locks, "acme", set("acquire", "bob", "b1", nil))
	if err != nil || next.Code != "OK" {
		t.Fatalf("the next leases: %+v, %v", next, err)
	}
	for i, l := range next.Leases {
		if k := setKeys[i]; l.Token != tokens[k]+1 {
			t.Errorf("the next token of %q is %d, want %d", k, l.Token, tokens[k]+1)
		}
	}
}
