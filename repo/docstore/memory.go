package docstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a store in a map: the reference implementation, and the fastest store for tests. Its documents are gone when the
// process ends. It shares no code with package driver, so that comparing an adapter with it compares two implementations.
type Memory struct {
	now    func() time.Time
	mu     sync.RWMutex
	docs   map[Key]Doc
	keep   map[Key]time.Time // until when, of the documents that need not be kept for ever
	floor  int64             // highest number of a counter so far, see Write.StartFrom
	closed bool

	signals Signals
}

// MemoryOptions are the settings of [NewMemory]. The zero value works.
type MemoryOptions struct {
	Now func() time.Time // the store's clock; nil means time.Now
}

var (
	_ Store  = (*Memory)(nil)
	_ Pruner = (*Memory)(nil)
	_ Walker = (*Memory)(nil)

	_ Watcher = (*Memory)(nil)
)

// NewMemory returns an empty store. Options may be nil.
func NewMemory(o *MemoryOptions) *Memory {
	m := &Memory{now: time.Now, docs: make(map[Key]Doc), keep: make(map[Key]time.Time)}
	if o != nil && o.Now != nil {
		m.now = o.Now
	}
	return m
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, keys ...Key) (Snapshot, error) {
	if err := ValidateKeys(keys); err != nil {
		return Snapshot{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(ctx); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{At: TruncateMilli(m.now()), Docs: make([]Doc, len(keys))}
	for i, k := range keys {
		s.Docs[i] = m.docs[k].Clone()
	}
	return s, nil
}

// Write implements [Store].
func (m *Memory) Write(ctx context.Context, writes ...Write) (Result, error) {
	if err := ValidateWrites(writes); err != nil {
		return Result{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return Result{}, err
	}
	r := Result{At: TruncateMilli(m.now()), Docs: make([]Doc, len(writes))}
	for i, w := range writes {
		if found := m.docs[w.Key]; !w.Holds(found, r.At) {
			r.Refused = append(r.Refused, i)
			r.Docs[i] = found.Clone()
		}
	}
	if len(r.Refused) > 0 {
		return r, nil
	}
	after := make([]Doc, len(writes))
	for i, w := range writes {
		var err error
		found := m.docs[w.Key]
		if after[i], err = w.StartFrom(m.floor, found, r.At).Apply(found, r.At); err != nil {
			return Result{}, err
		}
	}
	for i, w := range writes {
		m.put(w, after[i], r.At)
		r.Docs[i] = after[i].Clone()
		m.signals.Changed(w.Key)
	}
	r.Applied = true
	return r, nil
}

// Watch implements [Watcher].
func (m *Memory) Watch(ctx context.Context, k Key) (Watch, error) {
	if err := k.Validate(); err != nil {
		return Watch{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(ctx); err != nil {
		return Watch{}, err
	}
	return Watch{Changed: m.signals.Watch(ctx, k), Complete: true}, nil
}

// put stores what a write made of its document. m.mu is held.
func (m *Memory) put(w Write, after Doc, at time.Time) {
	if after == nil {
		delete(m.docs, w.Key)
		delete(m.keep, w.Key)
		return
	}
	m.docs[w.Key] = after
	m.floor = max(m.floor, w.Reached(after))
	if w.Keep > 0 {
		m.keep[w.Key] = at.Add(w.Keep)
	}
}

// Prune implements [Pruner].
func (m *Memory) Prune(ctx context.Context, limit int) (removed int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: limit %d: 1 or more", ErrInvalid, limit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return 0, err
	}
	now := TruncateMilli(m.now())
	for k, until := range m.keep {
		if removed < limit && !now.Before(until) {
			delete(m.docs, k)
			delete(m.keep, k)
			removed++
		}
	}
	return removed, nil
}

// Walk implements [Walker]. The order is that of the keys' texts.
func (m *Memory) Walk(ctx context.Context, q WalkQuery) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(ctx); err != nil {
		return Page{}, err
	}
	p := Page{At: TruncateMilli(m.now())}
	for k, d := range m.docs {
		if k.Kind == q.Kind && k.String() > q.After {
			p.Entries = append(p.Entries, Entry{k, d.Clone()})
		}
	}
	slices.SortFunc(p.Entries, func(a, b Entry) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	if n := q.Size(); len(p.Entries) > n {
		p.Entries = p.Entries[:n:n]
		p.Next = p.Entries[n-1].Key.String()
	}
	return p, nil
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, q Query) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(ctx); err != nil {
		return Page{}, err
	}
	p := Page{At: TruncateMilli(m.now())}
	for k, d := range m.docs {
		if k.Kind == q.Kind && k.Tenant == q.Tenant && strings.HasPrefix(k.ID, q.Prefix) && k.ID > q.After {
			p.Entries = append(p.Entries, Entry{k, d.Clone()})
		}
	}
	slices.SortFunc(p.Entries, func(a, b Entry) int { return strings.Compare(a.Key.ID, b.Key.ID) })
	if n := q.Size(); len(p.Entries) > n {
		p.Entries = p.Entries[:n:n]
		p.Next = p.Entries[n-1].Key.ID
	}
	return p, nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Memory) open(ctx context.Context) error {
	if m.closed {
		return ErrClosed
	}
	return ctx.Err()
}
