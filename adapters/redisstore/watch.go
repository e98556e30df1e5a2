package redisstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	trackEvery  = 3 * time.Second  // how often a connection that tracks is tried out
	trackWithin = 10 * time.Second // how long the server may say nothing on it
	trackRest   = 10 * time.Second // how long it stays open while no document is watched
)

// trackPauses are between two connections of one tracker.
var trackPauses = backoff.Policy{First: 100 * time.Millisecond, Max: 30 * time.Second, EqualJitter: true}

// Watch implements [docstore.Watcher] by what Redis calls tracking: a server remembers which keys a connection has
// read, and says once that one has changed. No write costs more while no document is watched. A connection of its own
// reads the length of each watched document, and again after each change; an entry follows the response, so that no
// change comes between. There is one connection for each shard that has watched documents. While there is none, or
// where the server does not know the command or does not let this user run it, only what this store writes is
// signalled.
func (s *Store) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	if err := k.Validate(); err != nil {
		return docstore.Watch{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Watch{}, err
	}
	defer s.calls.End()
	of := s.keys.of(k.Tenant)
	changed := s.signals.Watch(ctx, k)
	t := &of.tracker
	if t.watch(ctx, s, of, k) {
		select {
		case <-changed: // it comes when the server tracks the document
		default:
		}
	}
	return docstore.Watch{Changed: changed, Complete: t.live.Load}, nil
}

// tracker learns of the changes of documents of a shard.
type tracker struct {
	live atomic.Bool // the server says what changes

	mu      sync.Mutex
	running bool
	failed  bool                  // there is no connection, and there will be none for a while
	of      map[string]*tracked   // by the name of the key
	unread  map[string]*tracked   // those to read
	asked   []string              // the names of those whose lengths were asked for, in order; empty ones of pings
	kick    chan struct{}         // has an entry if there are some
	idle    time.Time             // since when nothing is watched
	signal  func(...docstore.Key) // tells those who watch
}

// tracked is a document that is watched.
type tracked struct {
	key   docstore.Key
	users int
}

// watch begins to watch a document until the context ends, and reports whether a signal follows when it has begun.
func (t *tracker) watch(ctx context.Context, s *Store, of *shard, k docstore.Key) bool {
	name := of.doc(k)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of, t.unread, t.kick = map[string]*tracked{}, map[string]*tracked{}, make(chan struct{}, 1)
		t.signal = s.signals.Changed
	}
	d := t.of[name]
	if d == nil {
		d = &tracked{key: k}
		t.of[name] = d
	}
	d.users++
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if d.users--; d.users == 0 {
			delete(t.of, name)
			delete(t.unread, name)
			t.idle = time.Now()
		}
	})
	t.read(name, d)
	if !t.running {
		t.running = true
		s.tracking.Go(func() { t.run(s, of) })
	}
	return !t.failed
}

// read lets a document be read. t.mu is held.
func (t *tracker) read(name string, d *tracked) {
	t.unread[name] = d
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// run tracks until the store is closed, or nothing was watched for a while.
func (t *tracker) run(s *Store, of *shard) {
	for failures := 0; ; failures++ {
		begun := t.track(s, of)
		if t.over(s.life) {
			return
		}
		if begun {
			failures = 0
		}
		_ = trackPauses.Sleep(s.life, failures)
	}
}

// over notes the end of a connection, and reports whether it was the last one. All who watch learn that they may have
// missed something.
func (t *tracker) over(life context.Context) bool {
	t.live.Store(false)
	t.mu.Lock()
	defer t.mu.Unlock()
	if life.Err() != nil || len(t.of) == 0 {
		t.running, t.failed = false, false
		return true
	}
	t.failed = true
	for name, d := range t.of {
		t.signal(d.key)
		t.unread[name] = d
	}
	return false
}

// track tracks on one connection, until it ends, and reports whether the server did.
func (t *tracker) track(s *Store, of *shard) (begun bool) {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	w, err := s.wire(ctx, of)
	if err != nil {
		return false // where there are calls, they say why
	}
	context.AfterFunc(ctx, func() { _ = w.Close() })
	t.mu.Lock()
	t.failed, t.asked = false, nil
	for name, d := range t.of {
		t.read(name, d)
	}
	t.mu.Unlock()
	t.live.Store(true)
	var asking sync.WaitGroup
	asking.Go(func() {
		defer cancel()
		t.ask(ctx, w)
	})
	t.listen(w)
	cancel()
	asking.Wait()
	return true
}

// ask reads what is to be read, and asks now and then whether the server is there.
func (t *tracker) ask(ctx context.Context, w *wire) {
	tick := time.NewTicker(trackEvery)
	defer tick.Stop()
	for {
		var commands []byte
		select {
		case <-ctx.Done():
			return
		case <-t.kick:
		case <-tick.C:
			commands = command("PING")
		}
		t.mu.Lock()
		if len(t.of) == 0 && time.Since(t.idle) >= trackRest {
			t.mu.Unlock()
			return
		}
		if len(commands) > 0 {
			t.asked = append(t.asked, "")
		}
		for name := range t.unread {
			t.asked = append(t.asked, name)
			commands = append(commands, command("STRLEN", name)...)
		}
		clear(t.unread)
		t.mu.Unlock()
		if w.say(commands) != nil {
			return
		}
	}
}

// listen learns of changes until the connection ends.
func (t *tracker) listen(w *wire) {
	for {
		texts, unasked, err := w.next(trackWithin)
		if err != nil && !sdk.HasErrorPrefix(err, "WRONGTYPE") {
			return
		}
		t.mu.Lock()
		switch {
		case unasked && len(texts) > 1 && texts[0] == "invalidate":
			for name, d := range t.of {
				if slices.Contains(texts[1:], name) || texts[1] == "" { // or all keys were removed
					t.read(name, d)
				}
			}
		case unasked:
		case len(t.asked) > 0:
			if d := t.of[t.asked[0]]; d != nil {
				t.signal(d.key)
			}
			t.asked = t.asked[1:]
		}
		t.mu.Unlock()
	}
}

// errNotTracked is why what other processes change is not signalled.
var errNotTracked = errors.New("the client has no connection for it")

// wire connects with the server that holds the documents of a shard, and lets it track what is read.
func (s *Store) wire(ctx context.Context, of *shard) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, trackWithin)
	defer cancel()
	member, ok := s.client.(*sdk.Client)
	if cluster, is := s.client.(*sdk.ClusterClient); is {
		var err error
		if member, err = cluster.MasterForKey(ctx, of.own); err != nil {
			return nil, err
		}
		ok = true
	}
	if !ok {
		return nil, errNotTracked
	}
	o := member.Options()
	user, password := o.Username, o.Password
	switch {
	case o.StreamingCredentialsProvider != nil:
		return nil, errNotTracked
	case o.CredentialsProviderContext != nil:
		var err error
		if user, password, err = o.CredentialsProviderContext(ctx); err != nil {
			return nil, err
		}
	case o.CredentialsProvider != nil:
		user, password = o.CredentialsProvider()
	}
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn, bufio.NewReader(conn)}
	hello := []string{"HELLO", "3"}
	if password != "" {
		hello = append(hello, "AUTH", cmp.Or(user, "default"), password)
	}
	begin := [][]string{hello}
	if o.DB != 0 {
		begin = append(begin, []string{"SELECT", strconv.Itoa(o.DB)})
	}
	begin = append(begin, []string{"CLIENT", "TRACKING", "ON"})
	for _, words := range begin {
		if err = w.say(command(words...)); err == nil {
			_, _, err = w.next(trackWithin)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return w, nil
}
