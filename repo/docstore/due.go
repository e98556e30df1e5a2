package docstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore/internal/cursor"
	"github.com/leasehold-dev/leasehold/repo/docstore/internal/ordered"
)

// DueQuery selects documents whose text field holds a time that has come, in the order of that field. Documents without
// the field, and those where it is not text, are never found.
type DueQuery struct {
	Kind   string
	Tenant string // may be empty, for kinds that belong to no tenant
	Field  string
	UpTo   time.Time // only documents whose field is less than or equal to FormatTime(UpTo), by bytes; years 0 to 9999
	After  string    // Page.Next of the page before; empty for the first
	Limit  int       // entries in the page, 1 to MaxLimit; 0 means DefaultLimit
}

// ErrNoIndex is the error of a [DueLister] that has no index on the field.
var ErrNoIndex = errors.New("docstore: no index")

// DueLister is for a store that has an index on a field, or makes one. Stores without it are walked by [Due].
type DueLister interface {
	// Due returns a page of documents by ascending bytes of the field; documents with the same value are in an order of
	// the store's own. Every document whose field stays as it is during the whole walk is seen exactly once. A page may be
	// older than the latest writes: what is done to the documents found must be conditional on what was found. A page may
	// be short, or even empty, and still have a Next. [ErrNoIndex] if there is no index on the field.
	//
	// An index can bring a bound with it: DynamoDB then refuses to store other than 1 to 1024 bytes of text in the field,
	// with [ErrInvalid].
	Due(ctx context.Context, q DueQuery) (Page, error)
}

// Due finds documents by a field through the store's index or, if it has none, by walking all documents of the kind,
// whose pages are then in the order of IDs.
func Due(ctx context.Context, s Store, q DueQuery) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	if d, ok := s.(DueLister); ok {
		if p, err := d.Due(ctx, q); !errors.Is(err, ErrNoIndex) {
			return p, err
		}
	}
	// Few documents may be due among many. Pages as large as they can be keep the number of requests down.
	p, err := s.List(ctx, Query{Kind: q.Kind, Tenant: q.Tenant, After: q.After, Limit: MaxLimit})
	if err != nil {
		return Page{}, err
	}
	found := Page{At: p.At, Damaged: p.Damaged, Next: p.Next}
	for _, e := range p.Entries {
		if !q.holds(e.Doc) {
			continue
		}
		if len(found.Entries) == q.Size() {
			found.Next = found.Entries[len(found.Entries)-1].Key.ID
			break
		}
		found.Entries = append(found.Entries, e)
	}
	return found, nil
}

// Validate reports whether the query is well formed, but for After, which only the store can read. The error is
// [ErrInvalid].
func (q DueQuery) Validate() error {
	if err := (Query{Kind: q.Kind, Tenant: q.Tenant, Limit: q.Limit}).Validate(); err != nil {
		return err
	}
	if err := checkField(q.Field); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if y := q.UpTo.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: time %v: the year must be from 0 to 9999", ErrInvalid, q.UpTo)
	}
	return nil
}

// Size is the number of entries that the query asks for: Limit, or [DefaultLimit] for 0.
func (q DueQuery) Size() int { return Query{Limit: q.Limit}.Size() }

// Bound is the greatest value of the field that the query asks for: UpTo in its stored form.
func (q DueQuery) Bound() String { return FormatTime(q.UpTo) }

func (q DueQuery) holds(d Doc) bool {
	return LE{Field: q.Field, Value: q.Bound()}.Holds(d, time.Time{})
}

// place is where a document is in the order of a field.
type place struct {
	kind, tenant string
	cursor.Cursor
}

func (p place) compare(q place) int {
	return cmp.Or(strings.Compare(p.kind, q.kind), strings.Compare(p.tenant, q.tenant), p.Compare(q.Cursor))
}

// placeOf returns the place of a document, if it has text in the field.
func placeOf(k Key, d Doc, field string) (place, bool) {
	text, ok := d[field].(String)
	return place{k.Kind, k.Tenant, cursor.Cursor{Value: string(text), ID: k.ID}}, ok
}

// Due implements [DueLister]. The first one on a field looks at all documents.
func (m *Memory) Due(ctx context.Context, q DueQuery) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	after, err := cursor.Parse(q.After)
	if err != nil {
		return Page{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.makeIndex(q.Field)
	m.mu.RLock()
	if err := m.open(ctx); err != nil {
		m.mu.RUnlock()
		return Page{}, err
	}
	p := Page{At: TruncateMilli(m.now())}
	from := place{q.Kind, q.Tenant, after}
	var last place
	for at := range m.fields[q.Field].From(from) {
		if at == from {
			continue // the last of the page before
		}
		if at.kind != q.Kind || at.tenant != q.Tenant || at.Value > string(q.Bound()) {
			break
		}
		if len(p.Entries) == q.Size() {
			p.Next = last.String()
			break
		}
		k := Key{Kind: at.kind, Tenant: at.tenant, ID: at.ID}
		p.Entries, last = append(p.Entries, Entry{k, m.docs[k].doc}), at
	}
	m.mu.RUnlock()
	p.own()
	return p, nil
}

// makeIndex makes the index on a field, if there is none.
func (m *Memory) makeIndex(field string) {
	m.mu.RLock()
	made := m.fields[field] != nil
	m.mu.RUnlock()
	if made {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fields[field] != nil {
		return
	}
	places := ordered.New(place.compare)
	for k, r := range m.docs {
		if p, ok := placeOf(k, r.doc, field); ok {
			places.Add(p)
		}
	}
	m.fields[field] = places
}
