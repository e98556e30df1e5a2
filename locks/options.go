package locks

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/owner"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Bounds of what can be asked for.
const (
	DefaultTTL   = 30 * time.Second
	MaxTTL       = 24 * time.Hour
	MaxPermits   = 100
	MaxWaiting   = 100
	MaxLockDelay = time.Hour
	MaxRate      = 1000
	MaxWindow    = 24 * time.Hour
)

// Forever is a LockOptions.Wait without a bound but that of the context.
const Forever = hold.Forever

// Times of requests.
const (
	waitTime   = 20 * time.Second // for which one request asks the provider to wait, at most
	shortPause = 100 * time.Millisecond
	lastLook   = 500 * time.Millisecond // before the end of a wait that a pause would outlast, the request is sent again

	defaultPoll = 2 * time.Second
	placedPause = 2 * time.Second // between two requests of one that waits in line, whose place is kept for some seconds
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Owner is who holds the locks, for people and for other programs; it gives no rights. Where the server authenticates,
	// it is the suffix of the token's subject: 1 to 64 letters, digits, ".", "_" and "-". Empty means the name of the host
	// and random characters.
	Owner string

	// TTL is how long a lease lasts unless it is renewed: whole seconds from 1 s to MaxTTL; 0 means DefaultTTL. It is
	// renewed every third of it. After a crash others wait for as long at most.
	TTL time.Duration

	// RetryFor bounds for how long an acquire is sent again while no definite response arrives, and how much longer than
	// its wait it lasts at most. 0 means 10 s and 5 s, for one that does not wait 3 s, but less than a second while the
	// server has never answered and no connection to it can be made, or what answers is another server: its address may
	// be wrong.
	RetryFor time.Duration

	// Observe is called for each event, in their order, one at a time, in a goroutine of its own. It must not call
	// [Client.Close], which waits for it. nil drops them.
	Observe func(Event)

	clock   term.Clock // nil means the process's clocks
	insists bool       // RetryFor holds for a server that has never answered too
}

// LockOptions are the settings of one lock. The zero value works.
type LockOptions struct {
	TTL time.Duration // as in Options, which it overrides unless it is 0

	// Shared lets up to 100 hold the lock at a time, but none beside one that did not ask for Shared: readers and a
	// writer. Who asks while another waits, waits behind it.
	Shared bool

	// Permits lets so many hold the lock at a time, 1 to MaxPermits; [Lock.Permit] says which of them one has. 0 means
	// that the lock has one holder. All who ask for the lock must say the same; otherwise the error is LOCK_MODE_DIFFERS.
	Permits int

	// Fair waits in line: first come, first served. Locks that are Shared or have Permits always have a line. One request
	// of a client at a time has a place, unless MaxWaiting is set; the place of a process that died is given up after some
	// seconds.
	Fair bool

	// MaxWaiting bounds how many wait in line, with this one: 1 to MaxWaiting. If there are as many already the error is
	// LOCK_QUEUE_FULL. 0 means that one waits, however many there are. It needs a line: Fair, Shared or Permits. Each
	// goroutine that asks then has a place of its own.
	MaxWaiting int

	// Replace takes the lock from its holder, if that one asked for Replace as well. The holder learns of it when it
	// renews: its context ends with [ErrLost] and LEASE_LOST. Until then both may run, and the fencing token protects. Not
	// with Shared or Permits.
	Replace bool

	// LockDelay is how long the lock stays closed if the lease expires or is ended by force, so that what its holder has
	// sent can arrive; whole seconds, up to MaxLockDelay. Who asks meanwhile waits, or the error is LOCK_DELAYED.
	// [Lock.Unlock] opens the lock at once.
	LockDelay time.Duration

	// Wait bounds how long [Client.Lock] and [Client.Do] wait for a lock that is held; 0 does not wait, as
	// [Client.TryLock]; nil is Forever: until their context ends. Then the error is LOCK_HELD, or why else it could not be
	// had. While no response says whether the lock is held, that lasts for 5 s longer at most, or for 3 s if it does not
	// wait: see Options.RetryFor.
	Wait *time.Duration

	// Poll bounds the time between two requests while a lock is held and the provider neither waits itself nor says when
	// to come again, 100 ms at least; 0 means 2 s. They are sent after a random time of half as much and more, or when the
	// holder's lease ends.
	Poll time.Duration

	// MaxHold bounds how long the lock is held from its grant; 0 means no bound. Then the lock's context ends with
	// [ErrMaxHold], and the lease is not renewed any more.
	MaxHold time.Duration

	// Margin is how long before the lease's end the lock's context ends, so that the work can stop while no one else has
	// the lock; less than half of TTL. 0 means a tenth of TTL.
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
	s.insists = s.RetryFor > 0
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
	s.Wait = cmp.Or(s.Wait, new(Forever))
	s.Poll = cmp.Or(s.Poll, defaultPoll)
	s.Margin = cmp.Or(s.Margin, s.TTL/10)
	s.Metadata = maps.Clone(s.Metadata)
	if err := errors.Join(owner.CheckText("the key", key, 256), checkTTL("LockOptions.TTL", s.TTL)); err != nil {
		return s, err
	}
	if err := s.checkWait("LockOptions"); err != nil {
		return s, err
	}
	switch {
	case s.MaxHold < 0:
		return s, fmt.Errorf("LockOptions.MaxHold is %v: must not be negative; 0 is no bound", s.MaxHold)
	case s.Margin < 0 || s.Margin >= s.TTL/2:
		return s, fmt.Errorf("LockOptions.Margin is %v: must be less than half of the ttl, which is %v", s.Margin, s.TTL)
	}
	return s, s.checkMode()
}

// beyond is how much longer than its wait an acquire lasts at most that does not wait without a bound.
func (s *LockOptions) beyond(o *Options) time.Duration {
	switch {
	case o.insists:
		return o.RetryFor
	case *s.Wait == 0:
		return hold.AtOnceTime
	default:
		return hold.CallTime
	}
}

// checkWait checks how the lock is waited for. of is the type of the options.
func (s *LockOptions) checkWait(of string) error {
	switch {
	case *s.Wait < 0:
		return fmt.Errorf("%s.Wait is %v: must not be negative; 0 does not wait, Forever waits until the context ends", of,
			*s.Wait)
	case s.Poll < shortPause:
		return fmt.Errorf("%s.Poll is %v: must be %v at least", of, s.Poll, shortPause)
	case s.MaxWaiting < 0 || s.MaxWaiting > MaxWaiting:
		return fmt.Errorf("%s.MaxWaiting is %d: must be 1 to %d, or 0 for no bound", of, s.MaxWaiting, MaxWaiting)
	}
	return nil
}

// checkMode checks how many may hold the lock, and who waits.
func (s *LockOptions) checkMode() error {
	switch {
	case s.Permits < 0 || s.Permits > MaxPermits:
		return fmt.Errorf("LockOptions.Permits is %d: must be 1 to %d, or 0 for a lock with one holder",
			s.Permits, MaxPermits)
	case s.Shared && s.Permits > 0:
		return errors.New(
			"LockOptions.Shared and Permits are both set: a lock is either for readers and a writer, or has permits")
	case s.Replace && (s.Shared || s.Permits > 0):
		return errors.New("LockOptions.Replace is set: a lock that is Shared or has Permits has no one holder to replace")
	case s.MaxWaiting > 0 && !s.Fair && !s.Shared && s.Permits == 0:
		return errors.New("LockOptions.MaxWaiting is set: it needs a line, so set Fair, Shared or Permits as well")
	case s.LockDelay < 0 || s.LockDelay > MaxLockDelay || s.LockDelay%time.Second != 0:
		return fmt.Errorf("LockOptions.LockDelay is %v: must be whole seconds up to %v", s.LockDelay, MaxLockDelay)
	}
	return nil
}

// request is the acquire that asks for the lock.
func (s *LockOptions) request(owner string) contracts.AcquireRequest {
	r := contracts.AcquireRequest{
		OwnerID: owner, RequestID: rand.Text(), TTLSeconds: int64(s.TTL / time.Second), Metadata: s.Metadata, Fair: s.Fair,
		MaxWaiting: int64(s.MaxWaiting), Replace: s.Replace, LockDelaySeconds: int64(s.LockDelay / time.Second),
	}
	switch {
	case s.Shared:
		r.Mode = contracts.LockModeShared
	case s.Permits > 0:
		r.Mode, r.Limit = contracts.LockModePermits, int64(s.Permits)
	}
	return r
}

func checkTTL(name string, ttl time.Duration) error {
	if ttl < time.Second || ttl > MaxTTL || ttl%time.Second != 0 {
		return fmt.Errorf("%s is %v: must be whole seconds from 1s to %v", name, ttl, MaxTTL)
	}
	return nil
}
