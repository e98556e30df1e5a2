package locks

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/internal/owner"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Bounds of a lease.
const (
	DefaultTTL = 30 * time.Second
	MaxTTL     = 24 * time.Hour
)

// Times of requests.
const (
	tryTime    = 15 * time.Second // of one request; less when the lease is shorter
	graceTime  = 5 * time.Second  // for a release when the caller's context has ended
	closeTime  = 2 * time.Second  // for the releases of [Client.Close] when its context has ended
	shortPause = 100 * time.Millisecond
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Owner is who holds the locks, for people and for other programs; it gives no rights. Where the server authenticates, it is
	// the suffix of the token's subject: 1 to 64 letters, digits, ".", "_" and "-". Empty means the name of the host and random characters.
	Owner string

	// TTL is how long a lease lasts unless it is renewed: whole seconds from 1 s to MaxTTL; 0 means DefaultTTL. It is renewed every third of it.
	// After a crash others wait for as long at most.
	TTL time.Duration

	// RetryFor bounds for how long an acquire is sent again while no definite response arrives; 0 means 10 s.
	RetryFor time.Duration

	// Observe is called for each event, in their order, one at a time, in a goroutine of its own. It must not call [Client.Close], which waits
	// for it. nil drops them.
	Observe func(Event)

	clock term.Clock // nil means the process's clocks
}

// LockOptions are the settings of one lock. The zero value works.
type LockOptions struct {
	TTL time.Duration // as in Options, which it overrides unless it is 0

	// Wait bounds how long [Client.Lock] and [Client.Do] wait for a lock that is held; 0 means until their context ends. Then the error is
	// LOCK_HELD. The first request may take longer than that.
	Wait time.Duration

	// NoWait makes [Client.Lock] and [Client.Do] return LOCK_HELD at once, as [Client.TryLock] does.
	NoWait bool

	// Poll bounds the time between two requests while a lock is held, 100 ms at least; 0 means 2 s. They are sent after a random time
	// of half as much and more, or when the holder's lease ends.
	Poll time.Duration

	// MaxHold bounds how long the lock is held from its grant; 0 means no bound. Then the lock's context ends with [ErrMaxHold], and the
	// lease is not renewed any more.
	MaxHold time.Duration

	// Margin is how long before the lease's end the lock's context ends, so that the work can stop while no one else has the lock; less
	// than half of TTL. 0 means a tenth of TTL.
	Margin time.Duration

	// Metadata are labels for people who look at the lock: 32 at most, with keys of 1 to 64 bytes and values of up to 512.
	Metadata map[string]string
}

// settings are Options with their defaults.
func (o *Options) settings() (Options, error) {
	s := Options{}
	if o != nil {
		s = *o
	}
	s.TTL = cmp.Or(s.TTL, DefaultTTL)
	s.RetryFor = cmp.Or(s.RetryFor, 10*time.Second)
	if s.Owner == "" {
		s.Owner = owner.Process(strings.ToLower(rand.Text()[:12]))
	}
	if s.clock == nil {
		s.clock = term.Now
	}
	if s.RetryFor < 0 {
		return s, fmt.Errorf("Options.RetryFor is %v: must not be negative", s.RetryFor)
	}
	return s, errors.Join(owner.CheckText("Options.Owner", s.Owner, 256), checkTTL("Options.TTL", s.TTL))
}

// settings are LockOptions with their defaults.
func (c *Client) settings(key string, o *LockOptions) (LockOptions, error) {
	s := LockOptions{}
	if o != nil {
		s = *o
	}
	s.TTL = cmp.Or(s.TTL, c.o.TTL)
	s.Poll = cmp.Or(s.Poll, 2*time.Second)
	s.Margin = cmp.Or(s.Margin, s.TTL/10)
	s.Metadata = maps.Clone(s.Metadata)
	if err := errors.Join(owner.CheckText("the key", key, 256), checkTTL("LockOptions.TTL", s.TTL)); err != nil {
		return s, err
	}
	switch {
	case s.Wait < 0:
		return s, fmt.Errorf("LockOptions.Wait is %v: must not be negative; 0 waits until the context ends, NoWait does not wait", s.Wait)
	case s.MaxHold < 0:
		return s, fmt.Errorf("LockOptions.MaxHold is %v: must not be negative; 0 is no bound", s.MaxHold)
	case s.Poll < shortPause:
		return s, fmt.Errorf("LockOptions.Poll is %v: must be %v at least", s.Poll, shortPause)
	case s.Margin < 0 || s.Margin >= s.TTL/2:
		return s, fmt.Errorf("LockOptions.Margin is %v: must be less than half of the ttl, which is %v", s.Margin, s.TTL)
	}
	return s, nil
}

func checkTTL(name string, ttl time.Duration) error {
	if ttl < time.Second || ttl > MaxTTL || ttl%time.Second != 0 {
		return fmt.Errorf("%s is %v: must be whole seconds from 1s to %v", name, ttl, MaxTTL)
	}
	return nil
}
