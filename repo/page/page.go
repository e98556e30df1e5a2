// Package page reads lists page by page. A page is bounded by a number of entries and by bytes, and so is what is read
// for it, so that neither a caller that reads slowly nor one that looks for few documents among many takes the server's
// memory.
package page

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of a page.
const (
	DefaultSize = 100  // entries
	MaxSize     = 1000 // entries

	// maxScanned bounds the documents that are read for one page. A page may then be short, or even empty, and still have
	// a next.
	maxScanned = 5000

	// maxBytes is about how many bytes a page has at most, and about how many one request to the store brings. A page has
	// one entry at least. Text can become six times as long on its way through the event of a function, which has 6 MB at
	// most.
	maxBytes = 3 << 18
)

// Query selects documents of one kind and tenant by ascending bytes of their IDs.
type Query struct {
	Kind   string
	Tenant string
	Prefix string // of the ID; empty selects all

	// Size is the number of entries of a page, 1 to MaxSize; 0 means DefaultSize.
	Size int

	// Token is what [Query.Read] returned for the page before; empty for the first.
	Token string

	// FirstRead is how many documents are read before their size is known.
	FirstRead int

	// Selective says that documents are passed over: requests to the store then ask for more of them than the page has
	// room for.
	Selective bool
}

// Entry is what the reader of a page made of a document.
type Entry struct {
	Kept  bool
	Bytes int // of the entry, if it is kept, and of the document: about
}

// Cost is about how many bytes a page took.
type Cost struct {
	Kept int // of the entries of the page
	Read int // of the documents that were read for it
}

// Done is what [Query.Read] knows at the end of a page.
type Done struct {
	Next string    // Query.Token of the page after; empty if there is none
	At   time.Time // the store's time of the last read
	Cost Cost
}

// Validate reports whether size and token are well formed. The error is a [field.Error].
func (q Query) Validate() error {
	if q.Size != 0 {
		if err := field.Range("page_size", int64(q.Size), 1, MaxSize); err != nil {
			return err
		}
	}
	_, err := q.after()
	return err
}

// token is the Query.Token of the page that begins behind an ID.
func token(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

// after is the ID behind which the page begins: the inverse of token.
func (q Query) after() (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.Token)
	if err != nil || len(b) > docstore.MaxIDBytes || !utf8.Valid(b) || bytes.ContainsRune(b, 0) {
		return "", field.Errorf("page_token", "is not one that a page gave: leave it out to begin again")
	}
	return string(b), nil
}

// Read gives keep the documents of a page, each with the store's time of the read, until the page is full. One that the
// store cannot read comes with why, and without fields: it keeps no other from being listed.
func (q Query) Read(ctx context.Context, store docstore.Store, keep func(docstore.Entry, error, time.Time) Entry) (Done,
	error) {
	at, err := q.after()
	if err != nil {
		return Done{}, err
	}
	var done Done
	size := q.Size
	if size == 0 {
		size = DefaultSize
	}
	kept := 0 // entries of the page
	for scanned, limit := 0, min(size, q.FirstRead); scanned < maxScanned; {
		r, err := store.List(ctx, docstore.Query{Kind: q.Kind, Tenant: q.Tenant, Prefix: q.Prefix, After: at, Limit: limit})
		if err != nil {
			return Done{}, fmt.Errorf("%s of %q: %w", q.Kind, q.Tenant, err)
		}
		done.At = r.At
		left := len(r.Entries) + len(r.Damaged)
		for e, damaged := range r.All() {
			seen := keep(e, damaged, r.At)
			left--
			done.Cost.Read += seen.Bytes
			if e.Key.ID == "" {
				continue // nothing can begin behind it; it fills no page
			}
			if seen.Kept {
				kept++
				done.Cost.Kept += seen.Bytes
			}
			if (kept == size || done.Cost.Kept >= maxBytes) && (left > 0 || r.Next != "") {
				done.Next = token(e.Key.ID)
				return done, nil
			}
		}
		at = r.Next
		if at == "" {
			return done, nil
		}
		// Where few documents are kept, a small page must not cost a request for each that is passed over; and no request
		// brings more than some megabytes.
		scanned += len(r.Entries) + len(r.Damaged)
		most := maxBytes * scanned / max(1, done.Cost.Read)
		if q.Selective {
			most = min(most, 2*limit)
		} else {
			most = min(most, size-kept)
		}
		limit = max(1, min(most, docstore.MaxLimit, maxScanned-scanned))
	}
	done.Next = token(at)
	return done, nil
}
