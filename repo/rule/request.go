package rule

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Remembered is how many requests of one kind a document remembers, to recognise duplicates that arrive late.
const Remembered = 4

// Request is what a document remembers of a request: hashes instead of texts, because writes are billed by the KiB.
type Request struct {
	id     string // 64 bits over the identity: 11 characters
	params string // 24 bits over the parameters: 4 characters, or none
}

// idLength is how many characters of an entry are the request's identity.
const idLength = 11

// Identify returns the request with an identity: its kind, who sent it, its request_id, and what else tells it from
// others.
func Identify(parts ...string) Request { return Request{id: digest(8, parts)} }

// With adds the parameters, so that a request_id that is used again with others is recognised as such.
func (r Request) With(params ...string) Request {
	r.params = digest(3, params)
	return r
}

// Entry is the stored form.
func (r Request) Entry() docstore.String { return docstore.String(r.id + r.params) }

// Identity is the part of a stored entry that says which request it is, whatever its parameters; empty of an entry that
// says none.
func Identity(entry string) string {
	if len(entry) < idLength {
		return ""
	}
	return entry[:idLength]
}

// Identity is that of the request's entries.
func (r Request) Identity() string { return r.id }

// SameRequest reports whether two stored entries are of one request, whatever its parameters.
func SameRequest(a, b string) bool {
	return len(a) >= idLength && Identity(a) == Identity(b)
}

// Is reports whether a stored entry is of this request, and whether its parameters are the same.
func (r Request) Is(entry string) (is, same bool) {
	return entry != "" && strings.HasPrefix(entry, r.id), entry == r.id+r.params
}

// Register is the names of the fields in which a document remembers the last requests of one kind, the newest first. It
// is a shift register, so that a write adds a request without reading first.
type Register [Remembered]string

// Lacks holds while no field has the request, whatever its parameters.
func (g Register) Lacks(r Request) docstore.Cond { return r.Unknown(g) }

// Unknown holds while no field of any of the registers has the request, whatever its parameters. No character of an
// entry is above "~", and a missing field has nothing.
func (r Request) Unknown(registers ...Register) docstore.Cond {
	fields := len(registers) * Remembered
	in, bounds := make(docstore.Any, 0, fields), make([]docstore.Cond, 0, 2*fields)
	var first, last docstore.Value = docstore.String(r.id), docstore.String(r.id + "~")
	for _, g := range registers {
		for _, f := range g {
			bounds = append(bounds, docstore.Not{Cond: docstore.LE{Field: f, Value: first}},
				docstore.LE{Field: f, Value: last})
			in = append(in, docstore.All(bounds[len(bounds)-2:len(bounds):len(bounds)]))
		}
	}
	return docstore.Not{Cond: in}
}

// Remember adds the request to what a write sets; the oldest is forgotten.
func (g Register) Remember(set map[string]docstore.Value, r Request) { g.Shift(set, r.Entry()) }

// Shift is Remember for a register of texts that belong to requests.
func (g Register) Shift(set map[string]docstore.Value, v docstore.Value) { g.shiftAt(0, set, v) }

// shiftAt is Shift from a position on.
func (g Register) shiftAt(first int, set map[string]docstore.Value, v docstore.Value) {
	for i := first + 1; i < len(g); i++ {
		set[g[i]] = docstore.Before(g[i-1])
	}
	set[g[first]] = v
}

// RememberBehind is Remember for a request that must not take the place of the newest, which stays where it is: the
// oldest of the others is forgotten.
func (g Register) RememberBehind(set map[string]docstore.Value, r Request) {
	g.shiftAt(1, set, r.Entry())
}

// Requests are the entries of a [Register] as a document has them, the newest first; empty is none.
type Requests [Remembered]string

// Find returns the position of a request, 0 for the newest, and whether its parameters are the same; -1 if it is not
// remembered.
func (q Requests) Find(r Request) (position int, same bool) {
	i := slices.IndexFunc(q[:], func(e string) bool { return strings.HasPrefix(e, r.id) })
	return i, i >= 0 && q[i] == r.id+r.params
}

// digest is the first n bytes of a SHA-256 in base64url. Each part is preceded by its length, so that no two lists of
// parts are hashed alike.
func digest(n int, parts []string) string {
	var usual [256]byte // as long as most are
	b := usual[:0]
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	var text [16]byte
	return string(base64.RawURLEncoding.AppendEncode(text[:0], sum[:n]))
}
