package sqlitestore

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"io"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

var _ docstore.DueLister = (*Store)(nil)

// dueIndex is an index on a text field of the documents of one kind. It holds only documents that have such a field.
type dueIndex struct{ kind, field string }

// name is unique among indexes. Their names ignore case, those of fields do not, hence the digits.
func (x dueIndex) name() string { return fmt.Sprintf(`"due %s %s %x"`, x.kind, x.field, x.field) }

// on is what the index and its queries say alike, as SQLite wants it, so that one can use the other. Kinds and fields
// have no characters that would need quoting. A document that is no JSON is not in the index and does no harm to those
// that are.
func (x dueIndex) on() (value, where string) {
	guarded := func(call string) string {
		return fmt.Sprintf("CASE WHEN json_valid(doc) THEN %s(doc, '$.%s') END", call, x.field)
	}
	return guarded("json_extract"), fmt.Sprintf("kind = '%s' AND %s = 'text'", x.kind, guarded("json_type"))
}

// create is the statement that makes the index.
func (x dueIndex) create() string {
	value, where := x.on()
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON docs (tenant, %s, id) WHERE %s", x.name(), value, where)
}

// query finds documents by the index, or fails if there is none: a walk through all of them would go unnoticed. Its
// parameters are the tenant, the greatest value, and value and ID of the document before (both empty: from the first).
// The value is compared by itself, too, because SQLite does not look for a pair with an expression in an index.
func (x dueIndex) query() string {
	value, where := x.on()
	return fmt.Sprintf(
		"SELECT id, doc FROM docs INDEXED BY %[1]s WHERE %[3]s AND tenant = ?1 AND %[2]s <= ?2 AND %[2]s >= ?3 AND (%[2]s, id) > (?3, ?4) "+
			"ORDER BY %[2]s, id", x.name(), value, where)
}

// Due implements [docstore.DueLister]. The index is made when a kind and field are first asked for: that reads all
// documents once, and writers wait meanwhile.
func (s *Store) Due(ctx context.Context, q docstore.DueQuery) (docstore.Page, error) {
	if err := q.Validate(); err != nil {
		return docstore.Page{}, err
	}
	after, err := driver.ParseDueCursor(q.After)
	if err != nil {
		return docstore.Page{}, err
	}
	x := dueIndex{q.Kind, q.Field}
	if err := s.indexed(ctx, x); err != nil {
		return docstore.Page{}, err
	}
	var page docstore.Page
	err = s.view(ctx, func(r *reader) error {
		page = docstore.Page{}
		st, err := r.dueBy(x)
		if err != nil {
			return err
		}
		last := driver.DueCursor{}
		err = st.each(func(row []sqldriver.Value) error {
			k, err := parseKey(q.Kind, q.Tenant, row[0])
			if err != nil {
				return err
			}
			switch {
			case len(page.Entries) == q.Size():
				page.Next = last.String()
				return io.EOF
			case ctx.Err() != nil:
				return ctx.Err()
			}
			doc, err := parseRow(k, row[1])
			if err != nil {
				return err
			}
			if value, ok := doc[q.Field].(docstore.String); ok { // SQLite takes broken escapes for text
				last = driver.DueCursor{Value: string(value), ID: k.ID}
				page.Entries = append(page.Entries, docstore.Entry{Key: k, Doc: doc})
			}
			return nil
		}, q.Tenant, string(q.Bound()), after.Value, after.ID)
		page.At = docstore.TruncateMilli(s.now())
		return err
	})
	if err != nil {
		return docstore.Page{}, err
	}
	return page, nil
}

// dueBy is the statement for an index that is there.
func (r *reader) dueBy(x dueIndex) (*stmt, error) {
	if st := r.due[x]; st != nil {
		return st, nil
	}
	st, err := r.conn.prepare(x.query())
	if err == nil {
		r.due[x] = st
	}
	return st, err
}

// indexed makes an index unless it is there, on a connection of its own: the writer's belongs to its goroutine, and to
// the writer this is like a write of another process.
func (s *Store) indexed(ctx context.Context, x dueIndex) (err error) {
	if err := s.calls.Begin(ctx); err != nil {
		return err
	}
	defer s.calls.End()
	s.mu.Lock()
	made := s.indexes[x]
	s.mu.Unlock()
	if made {
		return nil
	}
	if err := s.stillThere(); err != nil { // the connection is opened by the path
		return s.explain("index", err)
	}
	c, err := openConn(s.path)
	if err != nil {
		return s.explain("index", err)
	}
	defer func() {
		if e := c.close(); err == nil && e != nil {
			err = s.explain("index", e)
		}
	}()
	if err := s.retry(ctx, func() error { return c.exec(x.create()) }); err != nil {
		return s.explain("index", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes[x] = true
	return nil
}
