package suite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Step is one step of a program: time passes, then a command is sent, or the lock's document is removed.
type Step struct {
	Wait     time.Duration
	Do       string // acquire, give up (an acquire so far), renew, release or force; again sends an earlier one; remove
	Key      string
	Owner    string
	Request  string // empty: one that was never used
	TTL      int64  // seconds
	Metadata map[string]string
	Replace  bool
	Delay    int64 // seconds of lock delay
	// of renew and release: the token is this many grants before the latest; -1 is one that was never granted
	Back    int
	End     int  // of a renewal: 0 names no end, 1 the lease's, 2 one that it does not have
	Lease   int  // of a force-release: 0 names no lease, 1 the latest, 2 the one before it
	Ago     int  // of again and give up: which of the commands so far
	Shorten bool // of these: with another parameter

	// Lost is how many responses to this command get lost: each time the caller's library retries the same write, and only
	// the last response arrives.
	Lost int
}

// Program draws a sequence of steps over few keys, owners and requests, so that they get in each other's way, with
// times that fall on, just before and just after the end of leases. Any command is delivered again at any later moment;
// half of the programs are about that, for one kind of command.
var Program = rapid.OneOf(
	rapid.SliceOfN(step(
		"acquire", "acquire", "acquire", "renew", "renew", "release", "release", "force", "again", "again", "again", "remove",
	), 1, 60),
	rapid.SliceOfN(step(
		"acquire", "acquire", "acquire", "renew", "renew", "release", "release", "force", "again", "again", "again", "remove",
	), 1, 60),
	rapid.SliceOfN(step("acquire", "acquire", "force", "force", "again"), 10, 60),
	rapid.SliceOfN(step("acquire", "acquire", "acquire", "give up", "give up", "again", "again", "release", "remove"), 10,
		60),
	rapid.SliceOfN(step("acquire", "renew", "renew", "renew", "renew", "again", "again"), 10, 60),
	rapid.SliceOfN(step("acquire", "acquire", "acquire", "release", "release", "release", "again", "again", "renew"), 10,
		60),
)

// step draws a step that does one of these.
func step(does ...string) *rapid.Generator[Step] {
	return rapid.Custom(func(t *rapid.T) Step {
		return Step{
			Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 500, 999, 1000, 1001, 2000}).Draw(t,
				"wait")) * time.Millisecond,
			Do:  rapid.SampledFrom(does).Draw(t, "do"),
			Key: rapid.SampledFrom([]string{"k", "k", "k", "l/m"}).Draw(t, "key"),
			// Owners of commands differ rarely: a program in which no one owns anything tests little.
			Owner:    rapid.SampledFrom([]string{"ann", "ann", "ann", "bob"}).Draw(t, "owner"),
			Request:  rapid.SampledFrom([]string{"", "", "", "", "r1", "r2"}).Draw(t, "request"),
			TTL:      rapid.Int64Range(1, 2).Draw(t, "ttl"),
			Metadata: rapid.SampledFrom([]map[string]string{nil, nil, {"build": "1"}}).Draw(t, "metadata"),
			Replace:  rapid.SampledFrom([]bool{false, false, true}).Draw(t, "replace"),
			Delay:    rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "delay"),
			Back:     rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 8, -1}).Draw(t, "back"),
			End:      rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "end"),
			Lease:    rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "lease"),
			Ago:      rapid.SampledFrom([]int{0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30}).Draw(t, "ago"),
			Shorten:  rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(t, "shorten"),
			Lost:     rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "lost"),
		}
	})
}

// gone is how long a removed document is gone at least: longer than the clocks of a store's callers may differ.
const gone = 3 * time.Second

// Run carries out a program on a store whose clock is clock and returns the first difference from the oracle. Tenant
// keeps programs on one store apart.
func Run(ctx context.Context, store docstore.Store, clock *Clock, tenant string, program []Step) error {
	lossy := &lossyStore{through: through{store}}
	r := &lockRun{locks: lock.New(lossy, &lock.Options{Now: clock.Now}), lossy: lossy, tenant: tenant,
		oracles: map[string]*oracle{}}
	for i, s := range program {
		clock.Advance(s.Wait)
		if s.Do == "remove" {
			if err := remove(ctx, store, tenant, s.Key); err != nil {
				return fmt.Errorf("step %d %+v: %w", i, s, err)
			}
			r.of(s.Key).removed()
			clock.Advance(gone)
			if err := r.compare(ctx, s.Key, clock.Now()); err != nil {
				return fmt.Errorf("after step %d %+v: %w", i, s, err)
			}
			continue
		}
		c, ok := r.command(i, s)
		if !ok {
			continue
		}
		if err := r.send(ctx, c, s.Lost, clock.Now()); err != nil {
			return fmt.Errorf("step %d %+v: %+v at %s: %w", i, s, c, written(clock.Now()), err)
		}
		if err := r.compare(ctx, c.key, clock.Now()); err != nil {
			return fmt.Errorf("after step %d %+v: %w", i, s, err)
		}
	}
	return nil
}

// remove deletes a lock's document, as its retention does in the end.
func remove(ctx context.Context, store docstore.Store, tenant, key string) error {
	_, err := store.Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: lock.Kind, Tenant: tenant, ID: key}, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true,
	})
	return err
}

// lockRun is a program that is being carried out.
type lockRun struct {
	locks   *lock.Locks
	lossy   *lossyStore // under locks
	tenant  string
	oracles map[string]*oracle // by key
	sent    []command
}

func (r *lockRun) of(key string) *oracle {
	if r.oracles[key] == nil {
		r.oracles[key] = &oracle{}
	}
	return r.oracles[key]
}

// command is what a step sends; false if there is nothing to send again.
func (r *lockRun) command(number int, s Step) (command, bool) {
	if s.Do == "again" {
		if len(r.sent) == 0 {
			return command{}, false
		}
		c := r.sent[len(r.sent)-1-s.Ago%len(r.sent)]
		if s.Shorten {
			c.ttl, c.reason = 3-c.ttl, "another"
		}
		return c, true
	}
	if s.Do == "give up" {
		c, ok := ago(r.sent, s.Ago, func(c command) bool { return c.do == "acquire" })
		if !ok {
			return c, false
		}
		if c.do = "give up"; s.Shorten {
			c.ttl = 3 - c.ttl
		}
		r.sent = append(r.sent, c)
		return c, true
	}
	o := r.of(s.Key)
	c := command{do: s.Do, key: s.Key, owner: s.Owner, request: s.Request, ttl: s.TTL}
	if c.request == "" {
		c.request = fmt.Sprint("request ", number)
	}
	switch s.Do {
	case "acquire":
		c.metadata, c.lease, c.replace, c.delay = s.Metadata, fmt.Sprint("lease ", number), s.Replace, s.Delay
	case "renew", "release":
		c.token = o.token(s.Back)
		if l := o.latest(); s.Do == "renew" && l != nil && s.End > 0 {
			c.ends = l.expires.Add(time.Duration(s.End-1) * time.Second)
		}
	case "force":
		c.reason = "test"
		if n := len(o.leases); s.Lease > 0 && n >= s.Lease {
			c.lease = o.leases[n-s.Lease].by.lease
		}
	}
	r.sent = append(r.sent, c)
	return c, true
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

// token is that of a grant before the latest, or one that was never granted.
func (o *oracle) token(back int) int64 {
	n := len(o.tokens)
	switch {
	case n == 0:
		return 1
	case back < 0:
		return o.tokens[n-1] + 1
	default:
		return o.tokens[max(0, n-1-back)]
	}
}

// send carries out a command, of which the first responses get lost, and compares its outcome with what the oracle
// says.
func (r *lockRun) send(ctx context.Context, c command, lost int, now time.Time) error {
	o := r.of(c.key)
	before := slices.Max(append([]int64{0}, o.tokens...))
	lost = r.lose(lost, o.afterRefusal(c, now))
	want := o.answer(c, now)
	for range lost {
		want = o.answer(c, now)
	}
	got, err := send(ctx, r.locks, r.tenant, c)
	if err != nil {
		return err
	}
	if want.Token == start { // later than the store's time and than every token before, by less than a second
		if least := max(before, now.UnixMicro()); got.Token <= least || got.Token > least+1e6 {
			return fmt.Errorf("tokens start at %d, %d at least", got.Token, least+1)
		}
		o.started(got.Token)
		want.Token = got.Token
	}
	if got != want {
		return fmt.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	return nil
}

// lose makes responses to the next command get lost, and returns how many of the write that may be applied. If that is
// the second one, either the response to the first gets lost, which is a refusal, or one to the second.
func (r *lockRun) lose(lost int, afterRefusal bool) int {
	r.lossy.lose, r.lossy.skip = lost, 0
	if afterRefusal && lost > 0 {
		r.lossy.lose, r.lossy.skip = 1, lost-1
		return r.lossy.skip
	}
	return lost
}

// send carries out one command.
func send(ctx context.Context, locks *lock.Locks, tenant string, c command) (outcome, error) {
	var (
		id  = lock.ID{Tenant: tenant, Key: c.key}
		o   lock.Outcome
		err error
	)
	switch c.do {
	case "acquire":
		o, err = locks.Acquire(ctx, c.acquire(id))
	case "give up":
		o, err = locks.GiveUp(ctx, lock.GiveUp{Acquire: c.acquire(id)})
	case "renew":
		o, err = locks.Renew(ctx, lock.Renew{
			ID: id, Owner: c.owner, Token: c.token, RequestID: c.request, TTLSeconds: c.ttl, ExpiresAt: c.ends,
		})
	case "release":
		o, err = locks.Release(ctx, lock.Release{ID: id, Owner: c.owner, Token: c.token, RequestID: c.request})
	default:
		o, err = locks.ForceRelease(ctx, lock.ForceRelease{ID: id, By: c.owner, Reason: c.reason, RequestID: c.request,
			LeaseID: c.lease})
	}
	a := seen(o.Lease.Status)
	a.Code, a.Replayed, a.At, a.RetryAfter, a.Token = string(o.Code), o.Replayed, written(o.At), o.RetryAfter,
		o.Lease.Token
	if o.Lease.LeaseID == "" && o.Code != lock.OK { // only named: nothing is known of its labels
		a.Metadata = ""
	}
	return a, err
}

// acquire is the acquire that a command sends or gives up.
func (c command) acquire(id lock.ID) lock.Acquire {
	return lock.Acquire{ID: id, Owner: c.owner, RequestID: c.request, TTLSeconds: c.ttl, Metadata: c.metadata,
		LeaseID: c.lease, Replace: c.replace, LockDelaySeconds: c.delay}
}

// seen is what a caller sees of a lock.
func seen(s lock.Status) outcome {
	a := outcome{
		Lease: s.LeaseID, Owner: s.Owner, Phase: string(s.Phase), Acquired: written(s.AcquiredAt),
		Expires:  written(s.ExpiresAt),
		Released: written(s.ReleasedAt), TTL: s.TTLSeconds, Metadata: labels(s.Metadata),
		Free: written(s.FreeAt),
	}
	if s.Forced != (lock.Forced{}) {
		a.Forced = s.Forced.By + ": " + s.Forced.Reason + " at " + written(s.Forced.At)
	}
	return a
}

// written is the stored form of a time, empty for none.
func written(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func labels(m map[string]string) string { return fmt.Sprint(m) }

// compare looks at the lock from outside: LS-INV-001, LS-REL-002, LS-EXP-001.
func (r *lockRun) compare(ctx context.Context, key string, now time.Time) error {
	s, found, err := r.locks.Get(ctx, lock.ID{Tenant: r.tenant, Key: key})
	if err != nil {
		return err
	}
	l := r.of(key).latest()
	if found != (l != nil) {
		return fmt.Errorf("found is %v, %d leases were granted", found, len(r.of(key).leases))
	}
	if l == nil {
		return nil
	}
	want := l.shown("", now)
	want.At, want.Token = "", 0
	if got := seen(s); got != want {
		return fmt.Errorf("the lock shows\n%+v, want\n%+v", got, want)
	}
	past := r.of(key).history(now)
	if n := len(s.History); n > len(past) || n < min(len(past), 1) && !l.active(now) ||
		!slices.EqualFunc(s.History, past[:n], samePast) {
		return fmt.Errorf("the lock's history is\n%+v, want\n%+v", s.History, past)
	}
	return nil
}

// history is what the lock shows of its leases that have ended, the latest first.
func (o *oracle) history(now time.Time) (history []lock.Past) {
	for i, l := range slices.Backward(o.leases) {
		p := lock.Past{Owner: l.by.owner, Token: l.token, AcquiredAt: l.acquired, EndedAt: l.expires,
			Ended: lock.EndedExpired}
		switch {
		case l.release != nil:
			p.Ended, p.EndedAt = lock.EndedReleased, l.released
		case l.forced != nil:
			p.Ended, p.EndedAt, p.By = lock.EndedForced, l.released, l.forced.owner
		case i == len(o.leases)-1 && l.active(now):
			continue
		case i < len(o.leases)-1 && o.leases[i+1].acquired.Before(l.expires):
			p.Ended, p.EndedAt, p.By = lock.EndedReplaced, o.leases[i+1].acquired, o.leases[i+1].by.owner
		}
		history = append(history, p)
	}
	return history
}

// samePast compares leases that have ended, with times as they are stored.
func samePast(a, b lock.Past) bool {
	return a.Owner == b.Owner && a.Token == b.Token && a.Ended == b.Ended && a.By == b.By &&
		written(a.AcquiredAt) == written(b.AcquiredAt) && written(a.EndedAt) == written(b.EndedAt)
}

// lossyStore loses the next writes, as many as drop says, on their way, and then sends a write again as often as lose
// says, as an SDK does whose answers get lost, and returns the last answer. It first lets as many writes pass as skip
// says.
type lossyStore struct {
	through
	drop, lose, skip int
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
		if _, err := s.Store.Write(ctx, writes...); err != nil {
			return docstore.Result{}, err
		}
	}
	return s.Store.Write(ctx, writes...)
}
