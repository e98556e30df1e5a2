package metrics_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunnersAreCounted: each takeover, joint write and fallback counts exactly once, by whatever command it comes.
func TestRunnersAreCounted(t *testing.T) {
	const (
		takeovers = "leasehold.takeovers"
		joint     = "leasehold.store.writes.joint"
		fallback  = "leasehold.store.writes.fallback"
	)
	for _, c := range []struct {
		name               string
		before             []string // bodies of acquires of the locks k1 and k2, as "key body"
		wait               time.Duration
		path, body         string
		takes, joint, more float64
	}{
		{
			name: "a set of free locks", path: "lock-sets/acquire", body: `"lock_keys":["k1","k2"],"ttl_seconds":30`, joint: 1,
		},
		{
			name: "a set takes one of its locks over", before: []string{`k1 "ttl_seconds":5`}, wait: 10 * time.Second,
			path: "lock-sets/acquire", body: `"lock_keys":["k1","k2"],"ttl_seconds":30`, takes: 1, joint: 1,
		},
		{
			name: "a set takes all of its locks over", before: []string{`k1 "ttl_seconds":5`, `k2 "ttl_seconds":5`},
			wait: 10 * time.Second,
			path: "lock-sets/acquire", body: `"lock_keys":["k1","k2"],"ttl_seconds":30`, takes: 2, joint: 1,
		},
		{
			name: "a set takes over from a reader", before: []string{`k1 "ttl_seconds":5,"mode":"shared"`},
			wait: 10 * time.Second,
			path: "lock-sets/acquire", body: `"lock_keys":["k1","k2"],"ttl_seconds":30`, takes: 1, joint: 2, more: 1,
		},
		{
			name: "a set that is refused", before: []string{`k1 "ttl_seconds":30`}, wait: 10 * time.Second,
			path: "lock-sets/acquire", body: `"lock_keys":["k1","k2"],"ttl_seconds":30`, joint: 1,
		},
		{
			name: "an acquire takes over", before: []string{`k1 "ttl_seconds":5`}, wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30`, takes: 1,
		},
		{
			name: "an acquire takes over from a reader", before: []string{`k1 "ttl_seconds":5,"mode":"shared"`},
			wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30`, takes: 1, more: 1,
		},
		{
			name: "an acquire takes over after a lock delay", before: []string{`k1 "ttl_seconds":5,"lock_delay_seconds":5`},
			wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30`, takes: 1, more: 1,
		},
		{
			name: "a reader beside another", before: []string{`k1 "ttl_seconds":30,"mode":"shared"`}, wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30,"mode":"shared"`, more: 1,
		},
		{
			name:   "a reader beside one that lasts and one that does not",
			before: []string{`k1 "ttl_seconds":30,"mode":"shared"`, `k1 "ttl_seconds":5,"mode":"shared"`},
			wait:   10 * time.Second,
			path:   "locks/k1/acquire", body: `"ttl_seconds":30,"mode":"shared"`, more: 1,
		},
		{
			name: "a permit that another had, beside one that lasts",
			before: []string{`k1 "ttl_seconds":30,"mode":"permits","limit":2`,
				`k1 "ttl_seconds":5,"mode":"permits","limit":2`}, wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30,"mode":"permits","limit":2`, takes: 1, more: 1,
		},
		{
			name: "one gets in line", before: []string{`k1 "ttl_seconds":30`}, wait: 10 * time.Second,
			path: "locks/k1/acquire", body: `"ttl_seconds":30,"fair":true,"wait_seconds":1`, more: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, nil)
				for i, b := range c.before {
					key, body := b[:2], b[3:]
					s.do("POST", "/tenants/acme/locks/"+key+"/acquire", fmt.Sprintf(`{"request_id":"b%d","owner_id":"ann",%s}`, i,
						body))
				}
				time.Sleep(c.wait)
				all := s.collect()
				before := func(name string) float64 { return value(all, name) }
				took, steps, more := before(takeovers), before(joint), before(fallback)
				send := func() { s.do("POST", "/tenants/acme/"+c.path, `{"request_id":"r","owner_id":"bob",`+c.body+`}`) }
				send()
				all = s.collect()
				if got := before(takeovers) - took; got != c.takes {
					t.Errorf("%v takeovers, want %v", got, c.takes)
				}
				if got := before(joint) - steps; got != c.joint {
					t.Errorf("%v joint writes, want %v", got, c.joint)
				}
				if got := before(fallback) - more; got != c.more {
					t.Errorf("%v fallbacks, want %v", got, c.more)
				}
				send() // it has what it obtained, or is refused again: nothing is taken over
				all = s.collect()
				if got := before(takeovers) - took; got != c.takes {
					t.Errorf("sent again, %v takeovers, want %v", got, c.takes)
				}
			})
		})
	}
}
