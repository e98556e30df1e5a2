package docstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore/internal/ordered"
)

// Memory is a store in a map: the reference implementation, and the fastest store for tests. Its documents are gone
// when the process ends. It shares no code with package driver, so that comparing an adapter with it compares two
// implementations.
//
// No call looks at more documents than it returns or changes, but for the first [Memory.Due] on a field, and
// [Memory.Prune], so that neither many documents nor those who list them keep others from theirs.
type Memory struct {
	now    func() time.Time
	mu     sync.RWMutex
	docs   map[Key]*record
	order  *ordered.Set[Key]              // its keys: by kind, tenant and ID
	ends   *ordered.Set[end]              // of the documents that need not be kept for ever, the first to look at in front
	fields map[string]*ordered.Set[place] // by the name of a field: the documents that have text in it, in its order
	floor  int64                          // highest number of a counter so far, see Write.StartFrom
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
	m := &Memory{
		now: time.Now, docs: make(map[Key]*record), fields: make(map[string]*ordered.Set[place]),
		order: ordered.New(compareKeys), ends: ordered.New(end.compare),
	}
	if o != nil && o.Now != nil {
		m.now = o.Now
	}
	return m
}

// Fork returns a store with the same documents, whose clock is now. What is changed in one of the two does not change
// the other: it is for those who try several futures of one store.
func (m *Memory) Fork(now func() time.Time) *Memory {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f := NewMemory(&MemoryOptions{Now: now})
	f.floor, f.closed = m.floor, m.closed
	for k, r := range m.docs {
		copied := *r
		f.docs[k] = &copied
		f.order.Add(k)
		if !r.end.IsZero() {
			f.ends.Add(end{r.end, k})
		}
	}
	return f
}

// record is a document of the store.
type record struct {
	doc  Doc       // never changed, only replaced; nil if there is none
	keep time.Time // until when it is kept; the zero time is for ever
	end  time.Time // the time of its end in Memory.ends, never after keep; zero if it has none
}

// docOf returns the document of a key, nil if there is none. m.mu is held.
func (m *Memory) docOf(k Key) Doc {
	if r := m.docs[k]; r != nil {
		return r.doc
	}
	return nil
}

// end is when to look whether a document is still kept: until then it is. Each write moves until when a document is
// kept, and leaves its end where it is.
type end struct {
	at  time.Time
	key Key
}

func (e end) compare(f end) int { return cmp.Or(e.at.Compare(f.at), compareKeys(e.key, f.key)) }

// compareKeys orders keys by kind and tenant, so that what is listed together lies together.
func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, keys ...Key) (Snapshot, error) {
	if err := ValidateKeys(keys); err != nil {
		return Snapshot{}, err
	}
	m.mu.RLock()
	if err := m.open(ctx); err != nil {
		m.mu.RUnlock()
		return Snapshot{}, err
	}
	s := Snapshot{At: TruncateMilli(m.now()), Docs: make([]Doc, len(keys))}
	for i, k := range keys {
		s.Docs[i] = m.docOf(k)
	}
	m.mu.RUnlock()
	own(s.Docs)
	return s, nil
}

// Write implements [Store].
func (m *Memory) Write(ctx context.Context, writes ...Write) (Result, error) {
	if err := ValidateWrites(writes); err != nil {
		return Result{}, err
	}
	r, err := m.write(ctx, writes)
	if !r.Applied {
		own(r.Docs)
		return r, err
	}
	for i, w := range writes {
		r.Docs[i] = w.Returned(r.Docs[i])
	}
	return r, err
}

// write is [Memory.Write]; the documents of its result are the store's.
func (m *Memory) write(ctx context.Context, writes []Write) (Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return Result{}, err
	}
	r := Result{At: TruncateMilli(m.now()), Docs: make([]Doc, len(writes))}
	var one [1]*record // as many as most calls write
	records := one[:0]
	for i, w := range writes {
		found := m.docs[w.Key]
		if found == nil {
			found = &record{}
		}
		records = append(records, found)
		if !w.Holds(found.doc, r.At) {
			r.Refused = append(r.Refused, i)
			r.Docs[i] = found.doc
		}
	}
	if len(r.Refused) > 0 {
		return r, nil
	}
	for i, w := range writes {
		var err error
		found := records[i].doc
		if r.Docs[i], err = w.StartFrom(m.floor, found, r.At).Apply(found, r.At); err != nil {
			return Result{}, err
		}
	}
	for i, w := range writes {
		m.put(w, records[i], r.Docs[i], r.At)
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
	return Watch{Changed: m.signals.Watch(ctx, k), Complete: always}, nil
}

// always is [Watch].Complete of a store that learns of each change itself.
func always() bool { return true }

// put stores what a write made of the document of a record. m.mu is held.
func (m *Memory) put(w Write, r *record, after Doc, at time.Time) {
	for field, places := range m.fields {
		if p, ok := placeOf(w.Key, r.doc, field); ok {
			places.Remove(p)
		}
		if p, ok := placeOf(w.Key, after, field); ok {
			places.Add(p)
		}
	}
	switch {
	case after == nil:
		m.forget(w.Key, r)
		m.order.Remove(w.Key)
		delete(m.docs, w.Key)
		return
	case r.doc == nil:
		m.order.Add(w.Key)
		m.docs[w.Key] = r
	}
	r.doc = after
	m.floor = max(m.floor, w.Reached(after))
	if w.Keep > 0 {
		if r.keep = at.Add(w.Keep); r.end.IsZero() || r.keep.Before(r.end) {
			m.moveEnd(w.Key, r)
		}
	}
}

// moveEnd moves the end of a document to when it is kept no longer. m.mu is held.
func (m *Memory) moveEnd(k Key, r *record) {
	m.forget(k, r)
	r.end = r.keep
	m.ends.Add(end{r.end, k})
}

// forget removes the end of a document. m.mu is held.
func (m *Memory) forget(k Key, r *record) {
	if !r.end.IsZero() {
		m.ends.Remove(end{r.end, k})
	}
}

// Prune implements [Pruner]. It also moves the ends of documents that were written since, each once in the time for
// which it is kept.
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
	for removed < limit {
		k, due := m.firstEnd(now)
		if !due {
			break
		}
		if r := m.docs[k]; r.keep.After(r.end) {
			m.moveEnd(k, r)
		} else {
			m.put(Write{Key: k}, r, nil, time.Time{})
			removed++
		}
	}
	return removed, nil
}

// firstEnd returns the document whose end comes first, if it has come. m.mu is held.
func (m *Memory) firstEnd(now time.Time) (k Key, due bool) {
	for e := range m.ends.From(end{}) {
		return e.key, !now.Before(e.at)
	}
	return Key{}, false
}

// Walk implements [Walker]. The order is that of tenants and, within one, of IDs.
func (m *Memory) Walk(ctx context.Context, q WalkQuery) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	var after Key
	if q.After != "" {
		var err error
		if after, err = ParseKey(q.After); err != nil {
			return Page{}, err
		}
	}
	after.Kind = q.Kind
	return m.page(ctx, after, after, q.Size(), func(k Key) bool { return k.Kind == q.Kind }, Key.String)
}

// List implements [Store]. IDs that share a prefix are neighbors.
func (m *Memory) List(ctx context.Context, q Query) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	from := Key{Kind: q.Kind, Tenant: q.Tenant, ID: max(q.Prefix, q.After)}
	after := Key{Kind: q.Kind, Tenant: q.Tenant, ID: q.After}
	return m.page(ctx, from, after, q.Size(), func(k Key) bool {
		return k.Kind == q.Kind && k.Tenant == q.Tenant && strings.HasPrefix(k.ID, q.Prefix)
	}, func(k Key) string { return k.ID })
}

// page returns the documents from one on, but for the one that it is to come after, as long as they are selected.
func (m *Memory) page(ctx context.Context, from, after Key, size int, selected func(Key) bool,
	next func(Key) string) (Page, error) {
	m.mu.RLock()
	if err := m.open(ctx); err != nil {
		m.mu.RUnlock()
		return Page{}, err
	}
	p := Page{At: TruncateMilli(m.now())}
	for k := range m.order.From(from) {
		if k == after {
			continue
		}
		if !selected(k) {
			break
		}
		if len(p.Entries) == size {
			p.Next = next(p.Entries[size-1].Key)
			break
		}
		p.Entries = append(p.Entries, Entry{k, m.docs[k].doc})
	}
	m.mu.RUnlock()
	p.own()
	return p, nil
}

// own makes documents the caller's own. That takes longer than to find them, and needs no lock.
func own(docs []Doc) {
	for i := range docs {
		docs[i] = docs[i].Clone()
	}
}

// own is the same for a page.
func (p Page) own() {
	for i := range p.Entries {
		p.Entries[i].Doc = p.Entries[i].Doc.Clone()
	}
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
	return Gone(ctx)
}
