package redisstore

import (
	"errors"
	"strconv"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var _ docstore.Impaired = (*Store)(nil)

// eviction is what the looks at the servers' settings found out about documents that are evicted.
type eviction struct {
	mu        sync.Mutex
	now, next looked
	rising    bool // keys were evicted between the two latest looks
}

// looked is what one look found: how many keys had been evicted, by the server's run ID, of servers that may evict
// documents.
type looked map[string]int64

// look begins a look.
func (e *eviction) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next = looked{}
}

// found is a server that may evict documents.
func (e *eviction) found(server, evicted string) {
	n, _ := strconv.ParseInt(evicted, 10, 64) // one that does not say it has 0
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next[server] = n
}

// looked ends a look. One that failed says nothing.
func (e *eviction) looked(well bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !well {
		return
	}
	e.rising = false
	for server, n := range e.next {
		before, known := e.now[server]
		e.rising = e.rising || known && n > before
	}
	e.now = e.next
}

var (
	errEvicts = errors.New(
		"the server evicts documents when its memory is short (maxmemory, and maxmemory-policy is one of allkeys-*): a lock that is " +
			"evicted is free before its time; set maxmemory-policy noeviction, or allow it (LEASEHOLD_REDIS_ALLOW_EVICTION)")
	errEvicted = errors.New(
		"the server has evicted keys since the look before, and locks may be free before their time: give it more memory, or set " +
			"maxmemory-policy noeviction and run `leasehold store raise-tokens`")
)

// evicting is the error of calls on a server that may evict documents, unless that is allowed.
func (s *Store) evicting() error {
	s.eviction.mu.Lock()
	defer s.eviction.mu.Unlock()
	if len(s.eviction.now) > 0 && !s.evicts && !s.repair {
		return errEvicts
	}
	return nil
}

// Impaired implements [docstore.Impaired]: the server may evict documents, which is allowed, and has evicted keys
// between the two latest looks.
func (s *Store) Impaired() error {
	s.eviction.mu.Lock()
	defer s.eviction.mu.Unlock()
	if s.eviction.rising {
		return errEvicted
	}
	return nil
}
