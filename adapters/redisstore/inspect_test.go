package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Look looks at the server's settings now.
func (s *Store) Look(ctx context.Context) { s.look(ctx) }

// RemoveDue removes documents that were found to be due, by their members in the set of ends.
func (s *Store) RemoveDue(ctx context.Context, members ...string) (int, error) {
	removed, _, err := s.remove(ctx, s.keys.shards[0], members)
	return removed, err
}

// Tidy takes documents of an index that were found to have another text than they were put there with.
func (s *Store) Tidy(ctx context.Context, q docstore.DueQuery, texts map[docstore.Key]string) error {
	stale := make([]member, 0, len(texts))
	for k, text := range texts {
		stale = append(stale, member{k, text, entry(q.Field, text, k.ID)})
	}
	return s.tidy(ctx, q, stale)
}

// LookAlways makes every call look at the settings again.
func (s *Store) LookAlways() { s.every = 0 }

// TestInTheClear: what leaves the machine without TLS is known by the address alone.
func TestInTheClear(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:6379": false, "127.9.9.9:1": false, "[::1]:6379": false, "localhost:6379": false,
		"redis://localhost": false, "unix:///run/redis.sock": false,
		"rediss://redis.example:6379": false, "redis.example:6379": true, "redis://:x@redis.example": true,
		"10.0.0.7:6379": true, "[fd00::1]:6379": true,
	} {
		o := Options{Addr: addr}
		settings, err := o.settings(&conns.Set{})
		if err != nil {
			t.Fatal(err)
		}
		if got := inTheClear(settings); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	o := Options{Addr: "redis.example:6379", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	if settings, err := o.settings(&conns.Set{}); err != nil || inTheClear(settings) {
		t.Errorf("with TLS: %v", err)
	}
}

// TestCheckVersion is about servers that are hard to come by.
func TestCheckVersion(t *testing.T) {
	for version, want := range map[string]struct{ err, warning string }{
		"7.0.0": {}, "7.2.4": {}, "8.4.0": {}, "10.0": {}, "7": {},
		"6.2.14": {err: "is of version 6.2.14: 7 or later is needed"},
		"2.8":    {err: "7 or later"},
		"":       {warning: "its version could not be checked"},
		"latest": {warning: "its version could not be checked"},
	} {
		s := &Store{addr: "there", keys: layout{root: "{x}"}}
		err := s.checkVersion(version)
		if (err != nil) != (want.err != "") || !strings.Contains(fmt.Sprint(err), want.err) && want.err != "" {
			t.Errorf("%q: %v, want %q", version, err, want.err)
		}
		if got := strings.Join(s.Warnings(), ""); (got != "") != (want.warning != "") ||
			!strings.Contains(got, want.warning) {
			t.Errorf("%q: warning %q, want %q", version, got, want.warning)
		}
	}
}
