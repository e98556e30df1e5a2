package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
)

// TestServerThatEvicts is refused unless the options allow it.
func TestServerThatEvicts(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random"} {
		server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		o := redisstore.Options{Addr: server.URL()}
		_, err := redisstore.Open(t.Context(), &o)
		says(t, err, []string{"evicts documents", "noeviction", "LEASEHOLD_REDIS_ALLOW_EVICTION"})
		o.Repair = true // it only raises tokens
		open(t, nil, &o)
		o.Repair, o.AllowEviction = false, true
		s := open(t, nil, &o)
		token(t, s, key("a"))
		if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, policy) || !strings.Contains(w, "0 keys were evicted") {
			t.Errorf("%q", w)
		}
	}
}

// TestServerThatBeginsToEvict: nothing is granted on a server whose settings are changed so, until they are set back.
func TestServerThatBeginsToEvict(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	s, admin := open(t, server, nil), client(t, server)
	set := func(policy string) {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		s.Look(t.Context())
	}
	token(t, s, key("a"))
	set("volatile-lru") // no key of Leasehold has an expiry
	token(t, s, key("a"))
	set("allkeys-lru")
	refusesAll(t, s, "evicts documents")
	set("noeviction")
	token(t, s, key("a"))
}

// TestKeysThatAreEvicted: readiness fails while the server evicts keys, and is well again when it has stopped.
func TestKeysThatAreEvicted(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	s, admin := open(t, server, &redisstore.Options{AllowEviction: true}), client(t, server)
	fill := func() {
		t.Helper()
		for i := range 3000 {
			if err := admin.Set(t.Context(), fmt.Sprint("other", i), strings.Repeat("x", 1000), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		s.Look(t.Context())
	}
	for range 2 {
		if err := s.Impaired(); err != nil {
			t.Error(err)
		}
		fill()
		says(t, s.Impaired(), []string{"has evicted keys", "noeviction"})
		if w := strings.Join(s.Warnings(), "\n"); strings.Contains(w, "(0 keys") || !strings.Contains(w, "keys were evicted") {
			t.Errorf("%q", w)
		}
		s.Look(t.Context())
	}
	ended, cancel := context.WithCancel(t.Context())
	fill()
	cancel()
	s.Look(ended) // it fails, and says nothing
	if s.Impaired() == nil {
		t.Error("a look that failed found that nothing is evicted any more")
	}
}
