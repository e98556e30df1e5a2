// Package census keeps callers from creating documents without end: a rule asks it before it creates one.
//
// # The tally
//
// A document for each tenant and kind has a number: how many documents the tenant has, and how many more processes have
// reserved ([Take]). A process reserves a few at a time, one at first and ten at the most, and uses them up as it
// creates documents. So documents are never counted in a request, however many there are.
//
// What is removed by the store itself, and what a process had reserved when it ended, is found by counting: [Correct]
// goes through the documents little by little, and sets the tally right. A tally that nothing corrects for a day
// refuses nothing any more.
package census

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	maxRoom    = 10              // places that are taken at once
	believed   = time.Second     // for how long a process does not ask again that was refused
	askTimeout = 5 * time.Second // for one question
	maxTallies = 10_000          // tenants that are remembered before those that are idle are forgotten
)

// Census bounds the documents of a kind that a tenant has, those that all processes create together. It errs by what
// processes had reserved when the tally was corrected. A document that exists is never counted against its
// writer, so that what is held can be renewed and released, and taken again, at the bound.
//
// A tenant whose documents were never counted may create as many as the bound says: what it had before is known from
// the first [Correct] on.
//
// A nil *Census bounds nothing.
type Census struct {
	store docstore.Store
	kind  string
	named bool // see NewNamed
	most  int
	now   func() time.Time

	mu      sync.Mutex
	tenants map[string]*tally
}

// tally is what this process has reserved for a tenant.
type tally struct {
	room    int           // documents that are reserved
	next    int           // how many to take next
	wanted  int           // places for which requests wait
	pending int           // requests under way
	used    time.Time     // the latest time
	full    time.Time     // when to ask again, for
	fullFor int           // so many places or more
	wait    time.Duration // from the latest refusal until the tally is corrected
	asking  chan struct{} // closed when the store has answered; nil if it was not asked
	err     error         // of the latest question
}

// New returns a census of the documents of a kind, most at most; nil, which bounds nothing, if most is not positive.
// now must be monotonic.
func New(store docstore.Store, kind string, most int, now func() time.Time) *Census {
	if most <= 0 {
		return nil
	}
	return &Census{store: store, kind: kind, most: most, now: now, tenants: make(map[string]*tally)}
}

// NewNamed is [New] for documents that belong to no tenant: the ID of each begins with the tenant's and a slash, and
// has no other slash behind it.
func NewNamed(store docstore.Store, kind string, most int, now func() time.Time) *Census {
	c := New(store, kind, most, now)
	if c != nil {
		c.named = true
	}
	return c
}

// Effect is what a command did.
type Effect int

// The effects of a command.
const (
	Other   Effect = iota // created no document
	Created               // created one
	Missing               // would have to create one, and must not
)

// Within runs a command on a document of a tenant. try runs it; with existing it must not create the document. If there
// is no room for another document, the outcome of that try stands.
//
// tells says that try can tell whether it created a document. Then one try is enough while some are reserved;
// otherwise a command that creates a document costs a try more, and now and then a write to the tally.
func (c *Census) Within(ctx context.Context, tenant string, tells bool, try func(existing bool) (Effect, error)) error {
	if c == nil {
		_, err := try(false)
		return err
	}
	if !tells || !c.reserve(tenant, 1) {
		if e, err := try(true); e != Missing || err != nil {
			return err
		}
		if ok, err := c.obtain(ctx, tenant, 1); !ok {
			return err
		}
	}
	e, err := try(false)
	created := 0
	if e == Created || err != nil { // after an error it may have been created
		created = 1
	}
	c.settle(tenant, 1, created)
	return err
}

// Several is [Census.Within] for a command on several documents of a tenant, most at most, which can tell how many it
// created. With existing it must not create any: missing is then how many it would have to create.
func (c *Census) Several(
	ctx context.Context, tenant string, most int, try func(existing bool) (created, missing int, err error),
) error {
	if c == nil {
		_, _, err := try(false)
		return err
	}
	if !c.reserve(tenant, most) {
		_, missing, err := try(true)
		if missing == 0 || err != nil {
			return err
		}
		most = missing
		if ok, err := c.obtain(ctx, tenant, most); !ok {
			return err
		}
	}
	created, _, err := try(false)
	if err != nil {
		created = most
	}
	c.settle(tenant, most, created)
	return err
}

// Created takes room for a document that was created without asking. If there is none (ok is false), or after an error,
// its creator is to remove it again. It suits documents that several create at the same time: only who was first takes
// room.
func (c *Census) Created(ctx context.Context, tenant string) (ok bool, err error) {
	if c == nil {
		return true, nil
	}
	if ok, err = c.obtain(ctx, tenant, 1); ok {
		c.settle(tenant, 1, 1)
	}
	return ok, err
}

// reserve takes some of what is reserved, if there is as much.
func (c *Census) reserve(tenant string, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	if t == nil || t.room < n {
		return false
	}
	t.room -= n
	t.pending++
	return true
}

// settle puts back what was reserved and not used.
func (c *Census) settle(tenant string, reserved, created int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	t.room += reserved - created
	t.pending--
	t.used = c.now()
}

// obtain reserves documents, and asks the tally for them where this process has none. Those who need some at the same
// time ask once.
func (c *Census) obtain(ctx context.Context, tenant string, n int) (ok bool, err error) {
	for {
		c.mu.Lock()
		now := c.now()
		t := c.tally(tenant, now)
		if t.room >= n {
			t.room -= n
			t.pending++
			c.mu.Unlock()
			return true, nil
		}
		if now.Before(t.full) && n >= t.fullFor {
			c.mu.Unlock()
			return false, nil
		}
		t.wanted += n
		if t.asking == nil {
			t.asking = make(chan struct{})
			// The question does not end with the request that asks it: others wait for it, too.
			go c.ask(context.WithoutCancel(ctx), t, Take{Kind: c.kind, Tenant: tenant, Named: c.named,
				Need: n - t.room, Want: max(t.next, t.wanted-t.room), Most: c.most})
		}
		asking := t.asking
		c.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			err = fmt.Errorf("the tally of the %s of %q: %w", c.kind, tenant, ctx.Err())
		}
		c.mu.Lock()
		t.wanted -= n
		if err == nil {
			err = t.err
		}
		c.mu.Unlock()
		if err != nil {
			return false, err
		}
	}
}

// ask takes places for a tenant, and notes what came of it.
func (c *Census) ask(ctx context.Context, t *tally, take Take) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o, err := rule.Run(ctx, c.store, c.now, take)
	c.mu.Lock()
	defer c.mu.Unlock()
	t.err = err
	if err == nil && o.Granted > 0 {
		t.room += o.Granted
		t.next = min(2*t.next, maxRoom, max(1, c.most/100))
	} else if err == nil {
		t.full, t.fullFor, t.wait = c.now().Add(believed), take.Need+t.room, o.Wait
	}
	close(t.asking)
	t.asking = nil
}

// tally returns what is known of a tenant. c.mu is held.
func (c *Census) tally(tenant string, now time.Time) *tally {
	t := c.tenants[tenant]
	if t == nil {
		c.forget(now)
		t = &tally{next: 1}
		c.tenants[tenant] = t
	}
	t.used = now
	return t
}

// forget drops tenants that have done nothing for a while, when there are many, with what is reserved for them.
// c.mu is held.
func (c *Census) forget(now time.Time) {
	if len(c.tenants) < maxTallies {
		return
	}
	for tenant, t := range c.tenants {
		if t.pending == 0 && t.wanted == 0 && t.asking == nil && now.Sub(t.used) >= roundEvery {
			delete(c.tenants, tenant)
		}
	}
}

// Most is the bound.
func (c *Census) Most() int { return c.most }

// RetryAfter is when the tally of the tenant is corrected, as of its latest refusal.
func (c *Census) RetryAfter(tenant string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tenants[tenant]; t != nil {
		return max(time.Second, t.wait)
	}
	return time.Second
}

// Removed says that a document of a tenant was removed: there is room for another one at once. It is one write. If it
// fails, the next correction makes room.
func (c *Census) Removed(ctx context.Context, tenant string) {
	if c == nil {
		return
	}
	_, err := c.store.Write(ctx, docstore.Write{
		Key: tallyKey(c.kind, tenant), If: docstore.All{docstore.Has{Field: fCount}, docstore.Not{Cond: docstore.LE{
			Field: fCount, Value: docstore.Int(0)}}},
		Add: map[string]int64{fCount: -1}, Return: []string{},
	})
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tenants[tenant]; t != nil {
		t.full = time.Time{}
	}
}
