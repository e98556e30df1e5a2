// Package census keeps callers from creating documents without end: a rule asks it before it creates one.
package census

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// countEvery is how old the count of a tenant may be before it is counted again.
const countEvery = 5 * time.Minute

const (
	countTimeout = time.Minute // for one count
	maxCounts    = 8           // tenants that are counted at once
	countPage    = 100         // documents in one read: they may be large
	maxTallies   = 10_000      // tenants that are remembered before those that are idle are forgotten
)

// Census bounds the documents of a kind that a tenant has. It counts them now and then, and adds those that this
// process creates. Others may create documents in between: the bound holds for each process exactly, but for requests
// that are under way, and for all together only after the next count. A document that exists is never counted against
// its writer, so that what is held can be renewed and released, and taken again, at the bound.
//
// A nil *Census bounds nothing.
type Census struct {
	store docstore.Store
	kind  string
	most  int
	now   func() time.Time
	slots chan struct{} // for counts

	mu      sync.Mutex
	tenants map[string]*tally
}

// tally is what is known of one tenant.
type tally struct {
	count    int           // documents
	pending  int           // requests under way that may create one
	added    int           // created since the count began that is under way
	counted  time.Time     // when the last count began; zero if there was none
	counting chan struct{} // closed when the count that is under way has ended; nil if none is
	err      error         // of the last count
}

// New returns a census of the documents of a kind, most at most; nil, which bounds nothing, if most is not positive.
// now must be monotonic.
func New(store docstore.Store, kind string, most int, now func() time.Time) *Census {
	if most <= 0 {
		return nil
	}
	return &Census{store: store, kind: kind, most: most, now: now, slots: make(chan struct{}, maxCounts),
		tenants: make(map[string]*tally)}
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
// tells says that try can tell whether it created a document. Then one try is enough while the tenant is known to have
// room; otherwise a command that creates a document costs a try more.
func (c *Census) Within(ctx context.Context, tenant string, tells bool, try func(existing bool) (Effect, error)) error {
	if c == nil {
		_, err := try(false)
		return err
	}
	if !tells || !c.reserve(tenant, 1) {
		if e, err := try(true); e != Missing || err != nil {
			return err
		}
		if err := c.refresh(ctx, tenant); err != nil {
			return err
		}
		if !c.reserve(tenant, 1) {
			return nil
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
		if err := c.refresh(ctx, tenant); err != nil {
			return err
		}
		if most = missing; !c.reserve(tenant, most) {
			return nil
		}
	}
	created, _, err := try(false)
	if err != nil {
		created = most
	}
	c.settle(tenant, most, created)
	return err
}

// reserve counts documents that may be created, unless the tenant would be above its bound or was never counted.
func (c *Census) reserve(tenant string, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	if t == nil || t.counted.IsZero() {
		return false
	}
	if t.count+t.pending+n > c.most {
		return false
	}
	if c.stale(t) {
		c.begin(tenant, t) // the old count does until then
	}
	t.pending += n
	return true
}

// settle takes back what was reserved, and counts what was created of it.
func (c *Census) settle(tenant string, reserved, created int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	t.pending -= reserved
	t.count += created
	t.added += created
}

// refresh counts a tenant that was not counted lately, and waits for that.
func (c *Census) refresh(ctx context.Context, tenant string) error {
	c.mu.Lock()
	t := c.tenants[tenant]
	if t == nil {
		c.forget()
		t = &tally{}
		c.tenants[tenant] = t
	}
	if !c.stale(t) {
		c.mu.Unlock()
		return nil
	}
	c.begin(tenant, t)
	done := t.counting
	c.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("count the %s of %q: %w", c.kind, tenant, ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.err
}

func (c *Census) stale(t *tally) bool {
	return t.counted.IsZero() || c.now().Sub(t.counted) >= countEvery
}

// begin begins a count, unless one is under way. c.mu is held. The count does not end with the request that needs it:
// the next ones need it, too.
func (c *Census) begin(tenant string, t *tally) {
	if t.counting != nil {
		return
	}
	t.counting, t.added = make(chan struct{}), 0
	begin := c.now()
	go func() {
		c.slots <- struct{}{}
		n, err := c.walk(tenant)
		<-c.slots
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.err = err; err == nil {
			// What was created meanwhile may have been seen: then it counts twice, until the next count.
			t.count, t.counted = n+t.added, begin
		}
		close(t.counting)
		t.counting = nil
	}()
}

// walk counts documents, up to the bound.
func (c *Census) walk(tenant string) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	q := docstore.Query{Kind: c.kind, Tenant: tenant, Limit: countPage}
	for {
		p, err := c.store.List(ctx, q)
		if err != nil {
			return 0, fmt.Errorf("count the %s of %q: %w", c.kind, tenant, err)
		}
		n += len(p.Entries) + len(p.Damaged)
		if q.After = p.Next; p.Next == "" || n >= c.most {
			return n, nil
		}
	}
}

// forget drops tenants that have done nothing for a while, when there are many. c.mu is held.
func (c *Census) forget() {
	if len(c.tenants) < maxTallies {
		return
	}
	for tenant, t := range c.tenants {
		if t.pending == 0 && t.counting == nil && c.stale(t) {
			delete(c.tenants, tenant)
		}
	}
}

// Most is the bound.
func (c *Census) Most() int { return c.most }

// RetryAfter is when the tenant may be counted again.
func (c *Census) RetryAfter(tenant string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tenants[tenant]; t != nil {
		return max(time.Second, t.counted.Add(countEvery).Sub(c.now()))
	}
	return time.Second
}

// Removed says that this process removed a document of a tenant.
func (c *Census) Removed(tenant string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tenants[tenant]; t != nil && t.count > 0 {
		t.count--
	}
}
