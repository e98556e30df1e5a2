package lock

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
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
	Locks []Status
	Next  string // List.PageToken of the next page; empty when this was the last
	Bytes int    // about how much memory the locks take
}

// Bounds of a page.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000

	// maxScanned bounds the documents that one call reads while it looks for locks of a phase. A page may then be
	// short, or even empty, and still have a Next.
	maxScanned = 5000

	// maxPageBytes is about how many bytes of names and metadata a page has at most, so that a slow reader of large locks does not
	// take the server's memory. A page has one lock at least. Text can become six times as long on its way through the event of a
	// function, which has 6 MB at most.
	maxPageBytes = 3 << 18

	// firstLimit is how many documents are read before their size is known.
	firstLimit = 100
)

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q List) Validate() error {
	if err := first(name("tenant_id", q.Tenant, MaxTenantBytes), field.OptionalText("prefix", q.Prefix, MaxKeyBytes)); err != nil {
		return err
	}
	switch q.Phase {
	case None, Active, Released, Expired:
	default:
		return field.Errorf("state", "must be ACTIVE, RELEASED or EXPIRED, or left out")
	}
	if q.PageSize != 0 {
		if err := field.Range("page_size", int64(q.PageSize), 1, MaxPageSize); err != nil {
			return err
		}
	}
	_, err := q.after()
	return err
}

// pageToken is the List.PageToken of the page that begins behind a key.
func pageToken(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// after is the key behind which the page begins: the inverse of pageToken.
func (q List) after() (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.PageToken)
	if err != nil || field.OptionalText("page_token", string(b), MaxKeyBytes) != nil {
		return "", field.Errorf("page_token", "is not one that a page gave: leave it out to begin again")
	}
	return string(b), nil
}

// List returns a page of the tenant's locks. Each page is a strongly consistent read by itself; a lock that changes
// between two pages may be seen in either state.
func (l *Locks) List(ctx context.Context, q List) (Page, error) {
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	at, _ := q.after()
	size := q.PageSize
	if size == 0 {
		size = DefaultPageSize
	}
	p := Page{Locks: make([]Status, 0, min(size, firstLimit))}
	read := 0 // bytes of the documents
	for scanned, limit := 0, min(size, firstLimit); scanned < maxScanned; {
		r, err := l.store.List(ctx, docstore.Query{Kind: Kind, Tenant: q.Tenant, Prefix: q.Prefix, After: at, Limit: limit})
		if err != nil {
			return Page{}, fmt.Errorf("locks of %q: %w", q.Tenant, err)
		}
		for i, e := range r.Entries {
			id := ID{Tenant: q.Tenant, Key: e.Key.ID}
			s, err := id.State(e.Doc)
			if err != nil {
				return Page{}, err
			}
			st := id.lease(s, r.At).Status
			read += st.size()
			if st.Phase != None && (q.Phase == None || q.Phase == st.Phase) {
				p.Locks = append(p.Locks, st)
				p.Bytes += st.size()
			}
			if (len(p.Locks) == size || p.Bytes >= maxPageBytes) && (i+1 < len(r.Entries) || r.Next != "") {
				p.Next = pageToken(e.Key.ID)
				return p, nil
			}
		}
		at = r.Next
		if at == "" {
			return p, nil
		}
		// Where few locks are of the phase, a small page must not cost a request for each lock that is passed over; and no request
		// brings more than some megabytes.
		scanned += len(r.Entries)
		most := maxPageBytes * scanned / max(1, read)
		if q.Phase == None {
			most = min(most, size-len(p.Locks))
		} else {
			most = min(most, 2*limit)
		}
		limit = max(1, min(most, docstore.MaxLimit, maxScanned-scanned))
	}
	p.Next = pageToken(at)
	return p, nil
}

// size is about how many bytes the lock takes.
func (s Status) size() int {
	n := 256 + len(s.Tenant) + len(s.Key) + len(s.Owner) + len(s.LeaseID) + len(s.Forced.By) + len(s.Forced.Reason)
	for k, v := range s.Metadata {
		n += len(k) + len(v) + 8
	}
	return n
}
