package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// Defaults of [Options].
const (
	DefaultAddr   = "127.0.0.1:6379"
	DefaultPrefix = "leasehold"
)

// Options are the settings of [Open]. The zero value works where a server listens on [DefaultAddr].
type Options struct {
	// Addr is the server's host:port, or a URL: redis://user:password@host:6379/0, rediss:// for TLS, unix:// for a
	// socket. Empty means [DefaultAddr]. Of a cluster it is any member or its configuration endpoint: [Open] finds
	// out that it is one.
	Addr string

	// SentinelMaster is the name by which Sentinels know the primary. Addr is then the host:port of the Sentinels, with
	// commas between them, and the store goes to whichever server they name: it follows a failover by itself. TLS is that
	// of the connections with them, too.
	SentinelMaster string

	// SentinelUsername and SentinelPassword are for the Sentinels; Username and Password for the servers.
	SentinelUsername, SentinelPassword string

	// Username and Password, TLS and DB stand before what a URL says. Without a Username the password is that of the
	// user "default". DB is the number of the database; a cluster has 0 alone.
	Username, Password string
	TLS                *tls.Config

	DB int

	// PasswordNow returns the password instead, each time that a connection is made: one that is replaced while the store
	// is open counts from the next connection on. It must return soon. nil means that Password does not change.
	PasswordNow func() string

	// Client talks to the server instead of one made of the options above. Its OnConnect must be that of [OnConnect]. It
	// stays open when the store is closed. The store brings its own rules for retrying; the client's do not apply.
	Client sdk.UniversalClient

	// Prefix begins the name of every key, in braces; empty means [DefaultPrefix]. Letters, digits and ._:- only, 64
	// at most. With one shard it decides which member of a cluster holds the documents, all of them.
	Prefix string

	// Shards is the number of parts that the documents are spread over by their tenant, 64 at most, for a cluster: each
	// part is in a slot of its own. 0 means 1. It is decided when the first documents are written and cannot be changed
	// afterwards: [Open] fails if it finds another number.
	Shards int

	// Repair opens documents also if they are marked as ones that lost writes, see [Store.TokensRaised]: for what raises
	// their tokens, and for no server.
	Repair bool

	// AllowEviction uses a server that may evict documents: one with maxmemory and a maxmemory-policy of allkeys-*. An
	// evicted lock is free before its time. Without it, Open rejects such a server, and calls fail with
	// [docstore.ErrUnavailable] on one that is found to have become one, a minute later at most.
	AllowEviction bool

	// Warn is called, by a goroutine of the store's own, with each sentence that [Store.Warnings] gains while the store
	// is used: the settings of the server are looked at again every minute. Nil is for callers that do not want to know.
	Warn func(warning string)

	// Now is for tests: the time of this clock is sent along and stands in for the server's. Nil, as it must be
	// wherever several processes share a store, means the server's own clock.
	Now func() time.Time

	insistEvery time.Duration // in tests, instead of insistEvery
	dial        conns.Dial    // in tests, instead of the system's
}

// Store is a [docstore.Store] in Redis.
type Store struct {
	client sdk.UniversalClient
	conns  *conns.Set // of a client that was made here
	owned  bool       // client is closed with the store
	addr   string     // for error texts
	keys   layout
	name   string // of this store among those that write, see wrote.lua
	clock  func() time.Time
	warned warned
	warn   func(string)
	every  time.Duration   // lookEvery, but in tests
	life   context.Context //nolint:containedctx // of what goes on beside the calls
	end    context.CancelFunc
	sent   driver.Sent
	laying sync.Mutex
	laid   bool // the layout was checked
	calls  driver.InFlight
	shapes shapes

	opening  atomic.Bool // Open has not ended
	evicts   bool        // a server that evicts is used
	eviction eviction
	repair   bool // its documents are used although they are marked
	stopped  stopped

	signals  docstore.Signals
	tracking sync.WaitGroup // the connections that track
}

var (
	_ docstore.Store  = (*Store)(nil)
	_ docstore.Pruner = (*Store)(nil)
	_ docstore.Walker = (*Store)(nil)

	_ docstore.Watcher = (*Store)(nil)
)

// Open connects with a server and checks its settings. Options may be nil. The context bounds the opening only.
//
// It rejects, with an error that says what to do: a server that cannot be reached or is older than version 7, a user or
// password that is not accepted, a user without permission for what the store needs. [Store.Warnings] says
// where acknowledged writes may get lost, and what could not be checked.
func Open(ctx context.Context, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	keys, err := newLayout(o.Prefix, o.Shards)
	if err != nil {
		return nil, err
	}
	s := &Store{client: o.Client, addr: "(the client's)", keys: keys, name: newName(), clock: o.Now, warn: o.Warn,
		every: lookEvery, repair: o.Repair, evicts: o.AllowEviction}
	s.warned.at, s.stopped.every = time.Now(), cmp.Or(o.insistEvery, insistEvery)
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.connect(o); err != nil {
		return nil, err
	}
	s.opening.Store(true)
	err = s.inspect(ctx)
	for _, of := range keys.shards {
		of.line.client, of.line.conns = s.client, s.conns // that of a cluster, if it is one
	}
	if err != nil {
		s.end()
		return nil, errors.Join(err, s.release())
	}
	s.opening.Store(false)
	for _, of := range keys.shards {
		if k := of.known.now.Load(); !s.repair && k != nil && strings.HasPrefix(k.generation, lostMark) {
			s.stop(ctx, raisedIn(k.generation), false) // it is in the Warnings
		}
	}
	return s, nil
}

// connect makes a client, or takes the one that was brought along. Nothing is sent.
func (s *Store) connect(o *Options) error {
	switch {
	case o.Client == nil:
	case o.Addr != "" || o.SentinelMaster != "" || o.Username != "" || o.Password != "" || o.PasswordNow != nil ||
		o.TLS != nil || o.DB != 0:
		return errors.New(
			"redis: Client has an address, a user and a database of its own: leave out Addr, Username, Password, TLS and DB")
	case !looks(o.Client):
		return errors.New("redis: Client must look whether the server is another each time when it connects: set its " +
			"OnConnect to what redisstore.OnConnect returns")
	default:
		return nil
	}
	s.conns = &conns.Set{}
	settings, err := o.settings(s.conns)
	if err != nil {
		return err
	}
	settings.OnConnect = s.meet
	if s.owned = true; o.SentinelMaster == "" {
		s.client, s.addr = sdk.NewClient(settings), settings.Addr
	} else {
		s.client, s.addr = o.followSentinels(settings), o.SentinelMaster+", as Sentinels on "+settings.Addr+" say"
	}
	if inTheClear(settings) {
		s.warned.always = append(s.warned.always,
			s.sentence("the connection has no TLS: on its way, the password and every lock can be read "+
				"and changed; use rediss:// or --redis-tls"))
	}
	return nil
}

// Addr is where the server is, without user and password.
func (s *Store) Addr() string { return s.addr }

// Close implements [docstore.Store].
func (s *Store) Close() error {
	s.end()
	return s.calls.Close(s.release)
}

func (s *Store) release() error {
	s.tracking.Wait()
	if !s.owned {
		return nil
	}
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("redis: close: %w", err)
	}
	return nil
}
