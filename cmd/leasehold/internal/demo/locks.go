package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// rounds is how often each of the two workers wants the lock.
const rounds = 3

// contend lets two workers want one lock again and again. The check is a counter of those inside, which knows nothing
// of the server's responses.
func (d *play) contend(ctx context.Context) error {
	c, err := client.New(d.url, nil)
	if err != nil {
		return err
	}
	locks := c.LockAPI()
	var (
		holders gauge
		mu      sync.Mutex
		tokens  []int64
	)
	work := func(ctx context.Context, who string) error {
		for range rounds {
			l, err := d.take(ctx, locks, "report", who, 30)
			if err != nil {
				return err
			}
			holders.enter()
			mu.Lock()
			tokens = append(tokens, l.FencingToken)
			mu.Unlock()
			pause(ctx, 150*time.Millisecond) // the work
			holders.leave()
			if _, err := locks.Release(ctx, tenant, "report", contracts.ReleaseRequest{
				OwnerID: who, FencingToken: l.FencingToken}); err != nil {
				return err
			}
			d.sayf(who, "release → 200")
		}
		return nil
	}
	if err := together(ctx, work, "ann", "bob"); err != nil {
		return err
	}
	turns, most := holders.seen()
	d.check(most == 1, "never two holders at once", "at most %d inside, over %d turns", most, turns)
	d.check(rising(tokens) && len(tokens) == 2*rounds, "each grant has a larger token than all before it",
		"tokens %v", tokens)
	return d.pausedHolder(ctx, locks)
}

// pausedHolder lets a holder sleep beyond its lease: another worker gets the lock, and the sleeper is rejected wherever
// it comes with its old token.
func (d *play) pausedHolder(ctx context.Context, locks *client.LockAPI) error {
	const key = "orders"
	ann, err := d.take(ctx, locks, key, "ann", 1)
	if err != nil {
		return err
	}
	d.sayf("ann", "is paused for longer than the lease of 1 s, as a frozen function is")
	bob, err := d.take(ctx, locks, key, "bob", 30)
	if err != nil {
		return err
	}
	passed, err := d.fence(ctx, "bob", key, bob.FencingToken)
	if err != nil {
		return err
	}
	d.sayf("ann", "wakes up, and believes that it still holds the lock")
	late, err := d.fence(ctx, "ann", key, ann.FencingToken)
	if err != nil {
		return err
	}
	_, err = locks.Renew(ctx, tenant, key, contracts.RenewRequest{OwnerID: "ann", FencingToken: ann.FencingToken,
		TTLSeconds: 30})
	renewed := code(err)
	if renewed == "" && err != nil {
		return err
	}
	d.sayf("ann", "renew with token %d → %s", ann.FencingToken, orOK(renewed))
	d.check(passed == "" && late == contracts.CodeStaleToken && renewed == contracts.CodeLeaseLost,
		"the stale token of a holder that was paused is rejected",
		"bob's token %d passed, ann's token %d: %s at the fence, %s on renewal", bob.FencingToken, ann.FencingToken,
		orOK(late), orOK(renewed))
	return nil
}

// take acquires a lock, coming again when the server says so.
func (d *play) take(ctx context.Context, locks *client.LockAPI, key, who string, ttl int64) (client.Lease, error) {
	for {
		l, err := locks.Acquire(ctx, tenant, key, contracts.AcquireRequest{OwnerID: who, TTLSeconds: ttl})
		if err == nil {
			d.sayf(who, "acquire → 200, token %d", l.FencingToken)
			return l, nil
		}
		held, ok := errors.AsType[*contracts.Error](err)
		if !ok || held.Code != contracts.CodeLockHeld {
			return client.Lease{}, err
		}
		d.sayf(who, "acquire → 409 LOCK_HELD by %s", held.Owner)
		// The holder may release before its lease ends: look in now and then.
		pause(ctx, min(200*time.Millisecond, held.RetryAfter+time.Millisecond))
	}
}

// fence sends a token of a lock to the fence before the orders, as what lies behind it does. The code is empty if it
// passed.
func (d *play) fence(ctx context.Context, who, key string, token int64) (contracts.Code, error) {
	body := fmt.Sprintf(`{"fencing_token":%d,"subject":"lock/%s"}`, token, key)
	status, p, err := d.post(ctx, "/v1/tenants/"+tenant+"/fences/orders-db/check", body, nil)
	if err != nil {
		return "", err
	}
	d.sayf(who, "writes with token %d → %d %s", token, status, orOK(p.Code))
	if status == http.StatusOK {
		return "", nil
	}
	return p.Code, nil
}

// code is the code of a server's refusal; empty for anything else.
func code(err error) contracts.Code {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e.Code
	}
	return ""
}

func orOK(c contracts.Code) string {
	if c == "" {
		return "OK"
	}
	return string(c)
}

// together runs the work of all workers at once and returns what went wrong.
func together(ctx context.Context, work func(context.Context, string) error, names ...string) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, who := range names {
		all.Go(func() {
			if err := work(ctx, who); err != nil {
				errs[i] = fmt.Errorf("%s: %w", who, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func rising(tokens []int64) bool {
	for i, t := range tokens {
		if i > 0 && t <= tokens[i-1] {
			return false
		}
	}
	return true
}
