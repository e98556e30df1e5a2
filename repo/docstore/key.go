package docstore

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Key names a document: what kind of thing it is, whose it is, and which one. Two keys are the same document exactly
// when all three parts are the same bytes; no adapter may join them in a way that loses that.
type Key struct {
	Kind   string // "locks", "analyses": a lower-case word, see [MaxKindBytes]
	Tenant string // may be empty, for kinds that belong to no tenant; documents that change in one step have the same
	ID     string
}

// Bounds of the parts of a [Key], in bytes.
const (
	MaxKindBytes   = 32
	MaxTenantBytes = 512
	MaxIDBytes     = 1024 // DynamoDB's sort key

	// SafeIDBytes is the length up to which every store takes a tenant or an ID, whatever it is made of. A store that must
	// escape may refuse a longer one with [ErrInvalid]: Firestore allows 1500 bytes, and each slash takes four of them.
	SafeIDBytes = 375
)

// Validate reports whether the key is well formed. The error is [ErrInvalid].
func (k Key) Validate() error {
	if k.Kind == "" || len(k.Kind) > MaxKindBytes ||
		strings.Trim(k.Kind, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" ||
		k.Kind[0] < 'a' || k.Kind[0] > 'z' {
		return fmt.Errorf("%w: kind %q: a lower-case letter, then letters, digits, '-' and '_', %d bytes at most", ErrInvalid,
			k.Kind, MaxKindBytes)
	}
	if k.Tenant != "" {
		if err := checkText("tenant", k.Tenant, MaxTenantBytes); err != nil {
			return err
		}
	}
	return checkText("id", k.ID, MaxIDBytes)
}

// String is the key in one piece, "locks/acme/deploy%2Fprod": readable, and different for different keys. Stores that
// have one string for a name use it; [ParseKey] is its inverse. Each part is escaped as a URL path segment.
func (k Key) String() string {
	return url.PathEscape(k.Kind) + "/" + url.PathEscape(k.Tenant) + "/" + url.PathEscape(k.ID)
}

// ParseKey reads what [Key.String] wrote, and nothing else: a string that another spelling of the same key would give
// is refused, so that one key has one string. The error is [ErrInvalid].
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("%w: key %q: kind/tenant/id, each escaped", ErrInvalid, s)
	}
	for i, p := range parts {
		u, err := url.PathUnescape(p)
		if err != nil {
			return Key{}, fmt.Errorf("%w: key %q: %w", ErrInvalid, s, err)
		}
		parts[i] = u
	}
	k := Key{Kind: parts[0], Tenant: parts[1], ID: parts[2]}
	if err := k.Validate(); err != nil {
		return Key{}, err
	}
	if k.String() != s {
		return Key{}, fmt.Errorf("%w: key %q is not in its one spelling %q", ErrInvalid, s, k)
	}
	return k, nil
}

func checkText(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(s) > most:
		return fmt.Errorf("%w: %s has %d bytes, %d at most", ErrInvalid, what, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalid, what)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%w: %s has a NUL byte", ErrInvalid, what)
	}
	return nil
}

// checkField keeps field names to what needs no quoting on any store.
func checkField(f string) error {
	if f == "" || len(f) > 64 {
		return fmt.Errorf("field name %q: from 1 to 64 bytes", f)
	}
	all := later
	for i := range len(f) {
		all &= inFields[f[i]]
	}
	if all == 0 || inFields[f[0]]&first == 0 {
		return fmt.Errorf("field name %q: a letter, then letters, digits and '_'", f)
	}
	return nil
}

// inFields says where in the names of fields a byte can be. Every command checks some fifty names.
var inFields = func() (in [256]byte) {
	for c := range 'z' - 'a' + 1 {
		in['a'+c], in['A'+c] = first|later, first|later
	}
	for c := '0'; c <= '9'; c++ {
		in[c] = later
	}
	in['_'] = later
	return in
}()

// Places of a byte in the name of a field.
const (
	first byte = 1 << iota
	later
)
