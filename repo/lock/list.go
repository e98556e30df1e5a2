package lock

import (
	"cmp"
	"context"
	"slices"
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
	Owner     string // who holds it, or held it last, or waits in line; empty selects all
	Urgent    bool   // only locks with a line, and those with a lease of which less than a third is left
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
	Looked  Looked
}

// Looked counts what was read for a page, whether or not it is in the page: the sums over all pages are those of all
// locks, and a page without a next after the first counts them exactly.
type Looked struct {
	Documents int // locks, those that cannot be read, and records without a lease
	Active    int // held, or with a rate in use
	Released  int
	Expired   int
	Waited    int // locks with a line
	Ending    int // locks with a lease of which less than a third is left: a holder that renews in time never comes there
}

// add counts a lock.
func (l *Looked) add(s Status, at time.Time) {
	switch s.Phase {
	case Active:
		l.Active++
	case Released:
		l.Released++
	case Expired:
		l.Expired++
	case None, shared, begun:
	}
	if len(s.Waiting) > 0 {
		l.Waited++
	}
	if s.ending(at) {
		l.Ending++
	}
}

// ending reports whether less than a third of a lease is left. What a rate grants has no ttl, and its end says nothing.
func (s Status) ending(at time.Time) bool {
	if s.Phase != Active {
		return false
	}
	late := func(expires time.Time, ttlSeconds int64) bool {
		return expires.Sub(at) < time.Duration(ttlSeconds)*time.Second/3
	}
	if len(s.Holders) == 0 {
		return late(s.ExpiresAt, s.TTLSeconds)
	}
	return slices.ContainsFunc(s.Holders, func(h Holder) bool { return late(h.ExpiresAt, h.TTLSeconds) })
}

// of reports whether an owner holds the lock, held it last, or waits for it.
func (s Status) of(owner string) bool {
	return s.Owner == owner || slices.ContainsFunc(s.Holders, func(h Holder) bool { return h.Owner == owner }) ||
		slices.ContainsFunc(s.Waiting, func(w Waiter) bool { return w.Owner == owner })
}

// selects reports whether a lock is one that was asked for.
func (q List) selects(s Status, at time.Time) bool {
	return s.Phase != None && (q.Phase == None || q.Phase == s.Phase) && (q.Owner == "" || s.of(q.Owner)) &&
		(!q.Urgent || len(s.Waiting) > 0 || s.ending(at))
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
		Selective: q.Phase != None || q.Owner != "" || q.Urgent,
	}
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	if err := first(name("tenant_id", q.Tenant, MaxTenantBytes),
		field.OptionalText("prefix", q.Prefix, MaxKeyBytes),
		field.OptionalText("owner_id", q.Owner, MaxOwnerBytes)); err != nil {
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
		p.Looked.Documents++
		id := ID{Tenant: q.Tenant, Key: e.Key.ID}
		s, err := id.State(e.Doc)
		if err = cmp.Or(damaged, err); err != nil {
			p.Damaged = append(p.Damaged, docstore.Damaged{Key: e.Key, Err: err})
			return page.Entry{Kept: true, Bytes: 256 + len(e.Key.ID)}
		}
		st := id.status(s, at)
		p.Looked.add(st, at)
		kept := q.selects(st, at)
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
