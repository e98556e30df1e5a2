package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// List selects locks of one tenant for [Locks.List].
type List struct {
	Tenant    string
	Prefix    string // of the lock_key; empty selects all
	Phase     Phase  // None selects all
	PageSize  int    // 1 to MaxPageSize; 0 means DefaultPageSize
	PageToken string // Page.Next of the page before; empty for the first
}

// Page is a page of locks by ascending bytes of their keys.
type Page struct {
	Locks   []Status
	Damaged []docstore.Damaged // those of the page that cannot be read, whatever the phase that was asked for
	At      time.Time          // the store's time of the last read, by which phases were told
	Next    string             // List.PageToken of the next page; empty when this was the last
	Cost    page.Cost
}

// Bounds of a page.
const (
	DefaultPageSize = page.DefaultSize
	MaxPageSize     = page.MaxSize

	// firstRead is how many locks are read before their size is known.
	firstRead = 100
)

// page is the query for the documents.
func (q List) page() page.Query {
	return page.Query{
		Kind: Kind, Tenant: q.Tenant, Prefix: q.Prefix, Size: q.PageSize, Token: q.PageToken, FirstRead: firstRead,
		Selective: q.Phase != None,
	}
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	if err := first(name("tenant_id", q.Tenant, MaxTenantBytes),
		field.OptionalText("prefix", q.Prefix, MaxKeyBytes)); err != nil {
		return err
	}
	switch q.Phase {
	case None, Active, Released, Expired:
	default:
		return field.Errorf("state", "must be ACTIVE, RELEASED or EXPIRED, or left out")
	}
	return q.page().Validate()
}

// List returns a page of the tenant's locks, bounded by bytes too. Each page is a strongly consistent read by itself; a
// lock that changes between two pages may be seen in either state.
func (l *Locks) List(ctx context.Context, q List) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	p := Page{Locks: []Status{}}
	done, err := q.page().Read(ctx, l.store, func(e docstore.Entry, damaged error, at time.Time) page.Entry {
		id := ID{Tenant: q.Tenant, Key: e.Key.ID}
		s, err := id.State(e.Doc)
		if err = cmp.Or(damaged, err); err != nil {
			p.Damaged = append(p.Damaged, docstore.Damaged{Key: e.Key, Err: err})
			return page.Entry{Kept: true, Bytes: 256 + len(e.Key.ID)}
		}
		st := id.status(s, at)
		kept := st.Phase != None && (q.Phase == None || q.Phase == st.Phase)
		if kept {
			p.Locks = append(p.Locks, st)
		}
		return page.Entry{Kept: kept, Bytes: st.size()}
	})
	if err != nil {
		return Page{}, err
	}
	p.Next, p.At, p.Cost = done.Next, done.At, done.Cost
	return p, nil
}

// size is about how many bytes the lock takes.
func (s Status) size() int {
	n := 256 + len(s.Tenant) + len(s.Key) + len(s.Owner) + len(s.LeaseID) + len(s.Forced.By) + len(s.Forced.Reason) +
		labelBytes(s.Metadata)
	for _, h := range s.Holders {
		n += 256 + len(h.Owner) + len(h.LeaseID) + labelBytes(h.Metadata)
	}
	for _, w := range s.Waiting {
		n += 256 + len(w.Owner)
	}
	return n
}

func labelBytes(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v) + 8
	}
	return n
}
