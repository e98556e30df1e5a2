package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	// lookLeast and lookMost are how often the file is looked at for changes by other processes, while documents are
	// watched: after a tenth of the time for which there was none. A look takes some 10 µs.
	lookLeast, lookMost = time.Millisecond, 10 * time.Millisecond

	// lookEach is the least pause after a look, for each document that it read: more than ten times of what that takes.
	// How long the look took does not count. A busy machine may have held it up, and a store that pauses for longer
	// because of that learns of releases later than others on the file.
	lookEach = 100 * time.Microsecond

	lookRest  = 10 * time.Second // how long it goes on while no document is watched
	lookAgain = time.Second      // after an error
)

// Watch implements [docstore.Watcher]. What this store writes is signalled at once. While documents are watched, a
// connection of its own asks SQLite every few milliseconds whether any process has written to the file, and then
// whether one of the documents has changed.
func (s *Store) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	if err := k.Validate(); err != nil {
		return docstore.Watch{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return docstore.Watch{}, err
	}
	defer s.calls.End()
	changed := s.signals.Watch(ctx, k)
	s.looker.watch(ctx, s, k)
	if s.looker.live.Load() {
		select {
		case <-changed: // it comes when the document has been read
		default:
		}
	}
	return docstore.Watch{Changed: changed, Complete: s.looker.live.Load}, nil
}

// looker looks at the file for changes.
type looker struct {
	live    atomic.Bool // it finds the changes of all processes
	running sync.WaitGroup

	mu   sync.Mutex
	on   bool
	of   map[docstore.Key]*looked
	kick chan struct{} // has an entry if a document has been added
	end  chan struct{} // is closed with the store

	// Only the one goroutine that looks uses these.
	reader  *reader // nil until it looked
	version *stmt
	seed    maphash.Seed
}

// looked is a document that is watched.
type looked struct {
	users int
	known bool   // it was read
	sum   uint64 // of the document, 0 if there is none
}

// watch begins to watch a document until the context ends.
func (l *looker) watch(ctx context.Context, s *Store, k docstore.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of, l.kick, l.seed = map[docstore.Key]*looked{}, make(chan struct{}, 1), maphash.MakeSeed()
	}
	d := l.of[k]
	if d == nil {
		d = &looked{}
		l.of[k] = d
	}
	d.users++
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if d.users--; d.users == 0 {
			delete(l.of, k)
		}
	})
	if !l.on {
		l.on = true
		l.running.Go(func() { l.run(s) })
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// run looks until the store is closed, or nothing was watched for a while.
func (l *looker) run(s *Store) {
	for l.look(s) != nil {
		l.live.Store(false)
		l.mu.Lock()
		for k, d := range l.of {
			d.known = false
			s.signals.Changed(k) // something may have been missed
		}
		l.mu.Unlock()
		select {
		case <-time.After(lookAgain):
		case <-l.end:
		}
	}
}

// look looks until it fails. Without an error it does not begin again, but with another watch.
func (l *looker) look(s *Store) error {
	if err := l.open(s); err != nil {
		return err
	}
	seen, changed, used := int64(0), time.Now(), time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		added := false
		select {
		case <-l.end:
			return nil
		case <-l.kick:
			added = true
		case <-next.C:
		}
		begin := time.Now()
		now, err := l.number()
		if err != nil {
			return err
		}
		read := 0
		if now != seen || added {
			if read, err = l.compare(s); err != nil {
				return err
			}
			seen, changed = now, begin
		}
		if l.watching() {
			used = begin
		}
		if begin.Sub(used) >= lookRest && l.rest() {
			return nil
		}
		l.live.Store(true)
		next.Reset(max(min(max(begin.Sub(changed)/10, lookLeast), lookMost), time.Duration(read)*lookEach))
	}
}

// open opens the connection, which is closed with the store.
func (l *looker) open(s *Store) error {
	if err := s.stillThere(); err != nil || l.reader != nil {
		return err
	}
	r, err := openReader(s.path)
	if err != nil {
		return err
	}
	if l.version, err = r.conn.prepare("PRAGMA data_version"); err != nil {
		return errors.Join(err, r.conn.close())
	}
	l.reader = r
	return nil
}

// number is another one after each time that another connection has written to the file.
func (l *looker) number() (n int64, err error) {
	err = l.version.each(func(row []driver.Value) error {
		n, _ = row[0].(int64)
		return io.EOF
	})
	return n, err
}

// compare signals those of the watched documents that have changed. It reads them all, and returns their number.
func (l *looker) compare(s *Store) (read int, err error) {
	l.mu.Lock()
	keys := slices.Collect(maps.Keys(l.of))
	l.mu.Unlock()
	for _, k := range keys {
		var sum uint64
		if err := l.reader.get.each(func(row []driver.Value) error {
			switch stored := row[0].(type) {
			case []byte:
				sum = maphash.Bytes(l.seed, stored)
			case string:
				sum = maphash.String(l.seed, stored)
			}
			return io.EOF
		}, k.Kind, k.Tenant, k.ID); err != nil {
			return 0, err
		}
		l.mu.Lock()
		if d := l.of[k]; d != nil {
			if !d.known || d.sum != sum {
				s.signals.Changed(k)
			}
			d.known, d.sum = true, sum
		}
		l.mu.Unlock()
	}
	return len(keys), nil
}

// watching reports whether a document is watched.
func (l *looker) watching() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of) > 0
}

// rest ends the looking if no document is watched, and reports whether it did.
func (l *looker) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) > 0 {
		return false
	}
	l.on = false
	l.live.Store(false)
	return true
}

// stop ends the looking, when the store is closed.
func (l *looker) stop() {
	close(l.end)
	l.running.Wait()
}
