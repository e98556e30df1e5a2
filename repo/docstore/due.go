package docstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore/internal/cursor"
)

// DueQuery selects documents whose text field holds a time that has come, in the order of that field. Documents without the
// field, and those where it is not text, are never found.
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
	// Due returns a page of documents by ascending bytes of the field; documents with the same value are in an order of the
	// store's own. Every document whose field stays as it is during the whole walk is seen exactly once. A page may be older
	// than the latest writes: what is done to the documents found must be conditional on what was found. A page may be
	// short, or even empty, and still have a Next. [ErrNoIndex] if there is no index on the field.
	//
	// An index can bring a bound with it: DynamoDB then refuses to store other than 1 to 1024 bytes of text in the field,
	// with [ErrInvalid].
	Due(ctx context.Context, q DueQuery) (Page, error)
}

// Due finds documents by a field through the store's index or, if it has none, by walking all documents of the kind, whose
// pages are then in the order of IDs.
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
	found := Page{At: p.At, Next: p.Next}
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

// Due implements [DueLister].
func (m *Memory) Due(ctx context.Context, q DueQuery) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	after, err := cursor.Parse(q.After)
	if err != nil {
		return Page{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.open(ctx); err != nil {
		return Page{}, err
	}
	p := Page{At: TruncateMilli(m.now())}
	at := func(e Entry) cursor.Cursor {
		return cursor.Cursor{Value: string(e.Doc[q.Field].(String)), ID: e.Key.ID}
	} //nolint:forcetypeassert // holds says so
	for k, d := range m.docs {
		if e := (Entry{k, d}); k.Kind == q.Kind && k.Tenant == q.Tenant && q.holds(d) && at(e).Compare(after) > 0 {
			p.Entries = append(p.Entries, Entry{k, d.Clone()})
		}
	}
	slices.SortFunc(p.Entries, func(a, b Entry) int { return at(a).Compare(at(b)) })
	if n := q.Size(); len(p.Entries) > n {
		p.Entries = p.Entries[:n:n]
		p.Next = at(p.Entries[n-1]).String()
	}
	return p, nil
}
