package suite

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Step is one step of a program: time passes, then a command is sent.
type Step struct {
	Wait     time.Duration
	Do       string // acquire, renew, release or force
	Key      string
	Owner    string
	Request  string
	TTL      int64 // seconds
	Metadata map[string]string
	Back     int64 // the token is this many grants before the latest; -1 is one that was never granted

	// Lost is how many responses to this command get lost: each time the caller's library retries the same write, and only the
	// last response arrives.
	Lost int
}

// Program draws a sequence of steps over few keys, owners and requests, so that they get in each other's way, with times
// that fall on, just before and just after the end of leases.
var Program = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
	return Step{
		Wait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 500, 999, 1000, 1001, 2000}).Draw(t, "wait")) * time.Millisecond,
		Do:   rapid.SampledFrom([]string{"acquire", "acquire", "renew", "release", "force"}).Draw(t, "do"),
		Key:  rapid.SampledFrom([]string{"k", "k", "l/m"}).Draw(t, "key"),
		// Owners of commands differ rarely: a program in which no one owns anything tests little.
		Owner:    rapid.SampledFrom([]string{"ann", "ann", "ann", "bob"}).Draw(t, "owner"),
		Request:  rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "request"),
		TTL:      rapid.Int64Range(1, 2).Draw(t, "ttl"),
		Metadata: rapid.SampledFrom([]map[string]string{nil, nil, {"build": "1"}}).Draw(t, "metadata"),
		Back:     rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2, 8, -1}).Draw(t, "back"),
		Lost:     rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "lost"),
	}
}), 1, 60)

// Run carries out a program on a store whose clock is clock and returns the first difference from the oracle. Tenant
// keeps programs on one store apart.
func Run(ctx context.Context, store docstore.Store, clock *Clock, tenant string, program []Step) error {
	lossy := &lossyStore{through: through{store}}
	locks := lock.New(lossy, &lock.Options{Now: clock.Now})
	oracles := map[string]*oracle{}
	for i, s := range program {
		clock.Advance(s.Wait)
		o := oracles[s.Key]
		if o == nil {
			o = &oracle{}
			oracles[s.Key] = o
		}
		token := max(1, o.token()-s.Back)

		want := o.answer(s, token, clock.Now())
		for range s.Lost {
			want = o.answer(s, token, clock.Now())
		}
		lossy.lose = s.Lost
		got, err := send(ctx, locks, tenant, s, token)
		if err != nil {
			return fmt.Errorf("step %d %+v: %w", i, s, err)
		}
		if got != want {
			return fmt.Errorf("step %d %+v, token %d, at %v:\ngot  %+v\nwant %+v", i, s, token, clock.Now(), got, want)
		}
		if err := compare(ctx, locks, tenant, s.Key, o, clock.Now()); err != nil {
			return fmt.Errorf("after step %d %+v: %w", i, s, err)
		}
	}
	return nil
}

// send carries out one command.
func send(ctx context.Context, locks *lock.Locks, tenant string, s Step, token int64) (Answer, error) {
	var (
		id  = lock.ID{Tenant: tenant, Key: s.Key}
		o   lock.Outcome
		err error
	)
	switch s.Do {
	case "acquire":
		o, err = locks.Acquire(ctx, lock.Acquire{ID: id, Owner: s.Owner, RequestID: s.Request, TTLSeconds: s.TTL, Metadata: s.Metadata})
	case "renew":
		o, err = locks.Renew(ctx, lock.Renew{ID: id, Owner: s.Owner, Token: token, RequestID: s.Request, TTLSeconds: s.TTL})
	case "release":
		o, err = locks.Release(ctx, lock.Release{ID: id, Owner: s.Owner, Token: token, RequestID: s.Request})
	default:
		o, err = locks.ForceRelease(ctx, lock.ForceRelease{ID: id, By: s.Owner, Reason: "test", RequestID: s.Request})
	}
	a := Answer{Code: string(o.Code), Replayed: o.Replayed}
	switch o.Code {
	case lock.OK:
		a.Token, a.Expires = o.Lease.Token, o.Lease.ExpiresAt
	case lock.Held:
		a.Holder, a.Expires = o.Lease.Owner, o.Lease.ExpiresAt
	default:
	}
	return a, err
}

// compare looks at the lock from outside: LS-INV-001, LS-REL-002, LS-EXP-001.
func compare(ctx context.Context, locks *lock.Locks, tenant, key string, o *oracle, now time.Time) error {
	s, found, err := locks.Get(ctx, lock.ID{Tenant: tenant, Key: key})
	if err != nil {
		return err
	}
	l := o.latest()
	if found != (l != nil) {
		return fmt.Errorf("found is %v, %d leases were granted", found, len(o.leases))
	}
	if l == nil {
		return nil
	}
	want := lock.Expired
	if l.ended() {
		want = lock.Released
	} else if l.active(now) {
		want = lock.Active
	}
	if s.Phase != want || s.Owner != l.owner || !s.ExpiresAt.Equal(l.expires) || !s.AcquiredAt.Equal(l.acquired) {
		return fmt.Errorf("the lock shows %+v, want %s of %s until %v", s, want, l.owner, l.expires)
	}
	return nil
}

// lossyStore loses the next writes, as many as drop says, on their way, and then sends a write again as often as lose says,
// as an SDK does whose answers get lost, and returns the last answer.
type lossyStore struct {
	through
	drop, lose int
}

func (s *lossyStore) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.drop > 0 {
		s.drop--
		return docstore.Result{}, errInjected
	}
	for ; s.lose > 0; s.lose-- {
		if _, err := s.Store.Write(ctx, writes...); err != nil {
			return docstore.Result{}, err
		}
	}
	return s.Store.Write(ctx, writes...)
}
