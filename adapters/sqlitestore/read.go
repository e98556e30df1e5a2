package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// reader is a connection that only reads. In WAL mode it neither waits for the writer nor holds it up.
type reader struct {
	conn                             *conn
	begin, rollback, get, list, walk *stmt
	due                              map[dueIndex]*stmt // made when they are first needed
}

func openReader(path string) (r *reader, err error) {
	c, err := openConn(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	// Not opened read-only: such a connection could not recover the log of a process that was killed.
	if err := c.exec("PRAGMA query_only = ON"); err != nil {
		return nil, err
	}
	r = &reader{conn: c, due: map[dueIndex]*stmt{}}
	for sql, st := range r.statements() {
		if *st, err = c.prepare(sql); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// statements are those of a reader, but for the ones that find documents by a field, with where they are kept.
func (r *reader) statements() map[string]**stmt {
	return map[string]**stmt{
		"BEGIN":    &r.begin,
		"ROLLBACK": &r.rollback,
		readSQL:    &r.get,
		// The prefix is not part of the query: IDs that share it are neighbors, so that the walk begins at the prefix
		// and ends at the first ID without it. A pattern would have to escape it, and LIKE ignores case.
		"SELECT id, doc FROM docs WHERE kind = ? AND tenant = ? AND id >= ? ORDER BY id":                &r.list,
		"SELECT tenant, id, doc FROM docs WHERE kind = ? AND (tenant, id) > (?, ?) ORDER BY tenant, id": &r.walk,
	}
}

// view runs do inside a read transaction: all that it reads is of one instant, after every acknowledged write. It may
// run do more than once.
func (s *Store) view(ctx context.Context, do func(*reader) error) error {
	if err := s.calls.Begin(ctx); err != nil {
		return err
	}
	defer s.calls.End()
	var r *reader
	select {
	case r = <-s.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.idle <- r }()
	return s.explain("read", s.retry(ctx, func() error {
		if err := r.begin.exec(); err != nil {
			return err
		}
		err := do(r)
		// SQLite may have ended the transaction by itself after an error.
		if e := r.rollback.exec(); err == nil {
			err = e
		}
		if err == nil {
			err = s.stillThere() // last: what was read before does not count
		}
		return err
	}))
}

// Get implements [docstore.Store].
func (s *Store) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if err := docstore.ValidateKeys(keys); err != nil {
		return docstore.Snapshot{}, err
	}
	var snap docstore.Snapshot
	err := s.view(ctx, func(r *reader) (err error) {
		snap.Docs = make([]docstore.Doc, len(keys))
		for i, k := range keys {
			if snap.Docs[i], err = readDoc(r.get, k); err != nil {
				return err
			}
		}
		// Taken last, so that it is never before the time of a write that was seen.
		snap.At = docstore.TruncateMilli(s.now())
		return nil
	})
	if err != nil {
		return docstore.Snapshot{}, err
	}
	return snap, nil
}

// List implements [docstore.Store].
func (s *Store) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	var page docstore.Page
	err := s.view(ctx, func(r *reader) error {
		page = docstore.Page{}
		var last docstore.Key
		err := r.list.each(func(row []driver.Value) error {
			k, err := parseKey(q.Kind, q.Tenant, row[0])
			switch {
			case err != nil: // it and what follows have IDs that are no text: no one can name them
				page.Damaged = append(page.Damaged, docstore.Damaged{Key: k, Err: err})
				return io.EOF
			case k.ID == q.After:
				return nil
			case !strings.HasPrefix(k.ID, q.Prefix):
				return io.EOF
			case len(page.Entries)+len(page.Damaged) == q.Size():
				page.Next = last.ID
				return io.EOF
			case ctx.Err() != nil:
				return ctx.Err()
			}
			last = k
			take(&page, k, row[1])
			return nil
		}, q.Kind, q.Tenant, max(q.Prefix, q.After))
		page.At = docstore.TruncateMilli(s.now())
		return err
	})
	if err != nil {
		return docstore.Page{}, err
	}
	return page, nil
}

// take puts a row on a page: as a document, or as one that cannot be read.
func take(page *docstore.Page, k docstore.Key, stored driver.Value) {
	doc, err := parseRow(k, stored)
	if err != nil {
		page.Damaged = append(page.Damaged, docstore.Damaged{Key: k, Err: err})
		return
	}
	page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: doc})
}

var _ docstore.Walker = (*Store)(nil)

// Walk implements [docstore.Walker]. The order is that of tenants and, within one, of IDs.
func (s *Store) Walk(ctx context.Context, q docstore.WalkQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	var after docstore.Key
	if q.After != "" {
		var err error
		if after, err = docstore.ParseKey(q.After); err != nil {
			return docstore.Page{}, err
		}
	}
	var page docstore.Page
	err := s.view(ctx, func(r *reader) error {
		page = docstore.Page{}
		var last docstore.Key
		err := r.walk.each(func(row []driver.Value) error {
			tenant, ok := row[0].(string)
			if !ok { // it and what follows are of tenants that no one can name
				err := fmt.Errorf("%w: %s of a tenant that is not text", docstore.ErrDamaged, q.Kind)
				page.Damaged = append(page.Damaged, docstore.Damaged{Key: docstore.Key{Kind: q.Kind}, Err: err})
				return io.EOF
			}
			k, err := parseKey(q.Kind, tenant, row[1])
			switch {
			case err != nil: // the tenants behind it have others
				page.Damaged = append(page.Damaged, docstore.Damaged{Key: docstore.Key{Kind: q.Kind, Tenant: tenant}, Err: err})
				return ctx.Err()
			case len(page.Entries)+len(page.Damaged) >= q.Size() && last != (docstore.Key{}):
				page.Next = last.String()
				return io.EOF
			case ctx.Err() != nil:
				return ctx.Err()
			}
			last = k
			take(&page, k, row[2])
			return nil
		}, q.Kind, after.Tenant, after.ID)
		page.At = docstore.TruncateMilli(s.now())
		return err
	})
	if err != nil {
		return docstore.Page{}, err
	}
	return page, nil
}
