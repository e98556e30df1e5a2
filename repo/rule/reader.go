package rule

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Reader takes the fields of a stored document and remembers the first that is not what it should be. A field that is
// missing is zero.
type Reader struct {
	key docstore.Key
	doc docstore.Doc
	err error
}

// Read returns a reader of the document d under the key k. A nil document has no fields.
func Read(k docstore.Key, d docstore.Doc) Reader { return Reader{key: k, doc: d} }

// Err is a [docstore.ErrDamaged] that names the document and the first field that was not what it should be, or nil.
func (r *Reader) Err() error { return r.err }

// Fail says that a field is not what it should be, such as "a time".
func (r *Reader) Fail(field, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: field %q is not %s", docstore.ErrDamaged, r.key, field, want)
	}
}

// Required says which fields a document has, if there is one.
func (r *Reader) Required(fields ...string) {
	for _, f := range fields {
		if r.doc != nil && r.doc[f] == nil {
			r.Fail(f, "there")
		}
	}
}

// take is the value of a field, if it has the type V.
func take[V docstore.Value](r *Reader, field, want string) V {
	stored := r.doc[field]
	v, ok := stored.(V)
	if !ok && stored != nil {
		r.Fail(field, want)
	}
	return v
}

// Text is the text of a field.
func (r *Reader) Text(field string) string { return string(take[docstore.String](r, field, "text")) }

// Number is the whole number of a field.
func (r *Reader) Number(field string) int64 {
	return int64(take[docstore.Int](r, field, "a whole number"))
}

// Flag is true if a field says so.
func (r *Reader) Flag(field string) bool {
	return bool(take[docstore.Bool](r, field, "true or false"))
}

// Table is the table of text of a field.
func (r *Reader) Table(field string) map[string]string {
	return take[docstore.Map](r, field, "a table of text")
}

// Bytes are the bytes of a field, nil for none.
func (r *Reader) Bytes(field string) []byte {
	if v := take[docstore.Bytes](r, field, "bytes"); v != "" {
		return []byte(v)
	}
	return nil
}

// Time is the time of a field that holds one as text, as [docstore.FormatTime] writes it.
func (r *Reader) Time(field string) time.Time {
	s := r.Text(field)
	if s == "" {
		return time.Time{}
	}
	t, err := docstore.ParseTime(docstore.String(s))
	if err != nil {
		r.Fail(field, "a time")
	}
	return t
}

// Requests are the entries of a register.
func (r *Reader) Requests(fields Register) (entries Requests) {
	for i, f := range fields {
		entries[i] = r.Text(f)
	}
	return entries
}
