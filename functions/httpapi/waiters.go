package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Requests that wait take no slot while they do, and are bounded by themselves.
const (
	maxWaiters         = 1024 // of one process
	maxWaitersOfTenant = maxWaiters / 4
)

// waiters counts the requests that wait for one kind of thing.
type waiters struct {
	what string // for which they wait

	mu      sync.Mutex
	all     int
	tenants map[string]int
}

// enter counts a request that may wait, or says that there is no room: OVERLOADED. The caller calls leave afterwards.
func (s *waiters) enter(tenant string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxWaiters || s.tenants[tenant] >= maxWaitersOfTenant {
		e := contracts.Errorf(contracts.CodeOverloaded,
			"as many requests wait for %s as may, %d of a tenant; nothing was done", s.what, maxWaitersOfTenant)
		e.RetryAfter = overloadedFor
		return e
	}
	if s.tenants == nil {
		s.tenants = map[string]int{}
	}
	s.all++
	s.tenants[tenant]++
	return nil
}

// count is how many requests wait.
func (s *waiters) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *waiters) leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.tenants[tenant]--; s.tenants[tenant] == 0 {
		delete(s.tenants, tenant)
	}
}

// longest is how long a request may wait: as long as it asks for, but for the time that its response needs before the
// request is ended.
func (a *api) longest(ctx context.Context, asked time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(asked, time.Until(end)-a.timeout)
	}
	return asked
}
