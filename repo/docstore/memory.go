package docstore

import (
	"context"
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
	closed bool
}

// MemoryOptions are the settings of [NewMemory]. The zero value works.
type MemoryOptions struct {
	Now func() time.Time // the store's clock; nil means time.Now
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. Options may be nil.
func NewMemory(o *MemoryOptions) *Memory {
	m := &Memory{now: time.Now, docs: make(map[Key]Doc)}
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
		if after[i], err = w.Apply(m.docs[w.Key], r.At); err != nil {
			return Result{}, err
		}
	}
	for i, w := range writes {
		m.docs[w.Key] = after[i]
	}
	r.Applied = true
	if len(writes) == 1 {
		r.Docs[0] = after[0].Clone()
	}
	return r, nil
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
