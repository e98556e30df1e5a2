package redisstore

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// lookEvery is how long the settings of the server are taken to be as they were found: they can be changed while it
// runs, and after a failover the server is another one.
const lookEvery = time.Minute

// lookWithin bounds a look.
const lookWithin = 10 * time.Second

// warned is what [Store.Warnings] says.
type warned struct {
	mu     sync.Mutex
	always []string // of the connection and the version
	found  []string // of the settings, when they were last looked at
	at     time.Time
}

// Warnings are sentences for the log about what [Open] found, or what was found when the settings were looked at again.
// See [Options].Warn.
func (s *Store) Warnings() []string {
	var lost []string
	if err := s.lost(); err != nil {
		lost = []string{s.sentence("%v", err)}
	}
	s.warned.mu.Lock()
	defer s.warned.mu.Unlock()
	return slices.Concat(s.warned.always, s.warned.found, lost)
}

// Usage implements [docstore.Meter]. A script that the server does not know, and those of a cluster that has moved, are
// one request more.
func (s *Store) Usage() docstore.Usage {
	u := s.sent.Usage()
	u.Warnings = len(s.Warnings())
	return u
}

// lookSometimes looks at the settings again, beside the call that is under way, if that was not done for some time.
func (s *Store) lookSometimes() {
	s.warned.mu.Lock()
	now := time.Now()
	due := now.Sub(s.warned.at) >= s.every
	if due {
		s.warned.at = now
	}
	s.warned.mu.Unlock()
	if !due || s.calls.Begin(s.life) != nil {
		return
	}
	go func() {
		defer s.calls.End()
		ctx, cancel := context.WithTimeout(s.life, lookWithin)
		defer cancel()
		s.look(ctx)
	}()
}

// look looks at the settings and says what is new. One that fails says nothing: the calls themselves do.
func (s *Store) look(ctx context.Context) {
	found, err := s.settings(ctx)
	if err != nil {
		return
	}
	s.warned.mu.Lock()
	before := s.warned.found
	s.warned.found = found
	s.warned.mu.Unlock()
	for _, w := range found {
		if s.warn != nil && !slices.Contains(before, w) {
			s.warn(w)
		}
	}
}

// inTheClear reports whether a connection leaves this machine without TLS.
func inTheClear(o *sdk.Options) bool {
	if o.TLSConfig != nil || o.Network == "unix" {
		return false
	}
	return slices.ContainsFunc(strings.Split(o.Addr, ","), func(addr string) bool {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		if ip := net.ParseIP(host); ip != nil {
			return !ip.IsLoopback()
		}
		return host != "localhost" && host != ""
	})
}
