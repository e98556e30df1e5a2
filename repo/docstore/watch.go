package docstore

import (
	"context"
	"sync"
)

// Watcher is for a store that can say that a document may have changed before a reader would find out. It is a hint
// that saves time and reads. Nothing may rest on it: who waits for a change also reads now and then.
type Watcher interface {
	// Watch watches a document, which need not exist, until the context ends or the store is closed. It returns without
	// waiting for the store, and the first entry says that it has begun: who reads the document then misses nothing. The
	// errors are [ErrInvalid], [ErrClosed] and the context's.
	Watch(ctx context.Context, k Key) (Watch, error)
}

// Watch is what a [Watcher] says of one document.
type Watch struct {
	// Changed has an entry when the watch has begun, and when the document may have changed since the last entry was
	// received. Several changes that follow each other closely can be one entry, and there can be an entry without a
	// change. It is never closed.
	Changed <-chan struct{}

	// Complete reports whether the changes of all processes are signalled, except while the store cannot be reached, after
	// which there is an entry. Otherwise only those that are made through this store are. It may be another with each
	// entry, and does not wait. Nil reports false.
	Complete func() bool
}

// Signals tells those who watch documents of changes: for stores that learn of each change themselves. The zero value
// is ready for use.
type Signals struct {
	mu sync.Mutex
	of map[Key]map[chan struct{}]bool
}

// Watch returns a channel for [Watch].Changed that gets an entry now and with each call of Changed for the key, until
// the context ends.
func (s *Signals) Watch(ctx context.Context, k Key) <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[Key]map[chan struct{}]bool{}
	}
	if s.of[k] == nil {
		s.of[k] = map[chan struct{}]bool{}
	}
	s.of[k][c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.of[k], c)
		if len(s.of[k]) == 0 {
			delete(s.of, k)
		}
	})
	return c
}

// Changed tells those who watch these documents. It does not wait for them.
func (s *Signals) Changed(keys ...Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) == 0 {
		return
	}
	for _, k := range keys {
		for c := range s.of[k] {
			select {
			case c <- struct{}{}:
			default: // it has an entry
			}
		}
	}
}
