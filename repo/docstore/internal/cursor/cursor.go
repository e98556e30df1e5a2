// Package cursor encodes a place in the order of a field's value and a document's ID as a page token.
package cursor

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Cursor is the last document of a page. The zero Cursor is the beginning.
type Cursor struct {
	Value string // of the field
	ID    string // of the document, in the store's spelling
}

// Compare orders cursors by the bytes of the value, then of the ID.
func (c Cursor) Compare(d Cursor) int {
	if n := strings.Compare(c.Value, d.Value); n != 0 {
		return n
	}
	return strings.Compare(c.ID, d.ID)
}

// String is the cursor as a page's Next.
func (c Cursor) String() string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(c.Value)) + "." + enc.EncodeToString([]byte(c.ID))
}

// Parse reads what [Cursor.String] wrote; empty is the zero Cursor.
func Parse(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	value, id, both := strings.Cut(s, ".")
	v, err1 := base64.RawURLEncoding.Strict().DecodeString(value)
	i, err2 := base64.RawURLEncoding.Strict().DecodeString(id)
	if !both || err1 != nil || err2 != nil || len(i) == 0 || !utf8.Valid(v) || !utf8.Valid(i) {
		return Cursor{}, fmt.Errorf("after %q is not the Next of a page", s)
	}
	return Cursor{string(v), string(i)}, nil
}
