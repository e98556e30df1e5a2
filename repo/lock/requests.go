package lock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// How many requests a lock remembers, of each kind by itself: heartbeats must not push out the acquire.
const (
	RememberedRequests = 4 // the last acquires, renewals of the lease, and force-releases
	RememberedReleases = 8 // the last releases, by token
)

// requests are the remembered requests of one kind, newest first. Each is an entry (see [request]); empty is none. They are a
// shift register in the document, so that a write adds one without reading first.
type requests [RememberedRequests]string

// register is the names of the fields that hold [requests].
type register [RememberedRequests]string

var (
	acquires = register{"a1", "a2", "a3", "a4"}
	renewals = register{"r1", "r2", "r3", "r4"}
	forces   = register{"f1", "f2", "f3", "f4"}
)

// released is the field that remembers the release of a token: one of e0 to e7.
func released(token int64) string { return "e" + strconv.FormatInt(token%RememberedReleases, 10) }

// request is what a lock remembers of a request: hashes instead of texts, because writes are billed by the KiB.
type request struct {
	id     string // 64 bits over the kind, who sent it, and the request_id: 11 characters
	params string // 24 bits over the parameters: 4 characters
}

// identify returns the request with the given identity. Parameters are added where they matter.
func identify(parts ...string) request { return request{id: digest(8, parts)} }

func (r request) with(params ...string) request {
	r.params = digest(3, params)
	return r
}

// entry is the stored form.
func (r request) entry() docstore.String { return docstore.String(r.id + r.params) }

// in holds where a field has an entry of the request, whatever its parameters. No character of an entry is above "~", and
// a missing field holds nothing.
func (r request) in(field string) docstore.Cond {
	return docstore.All{
		docstore.Not{Cond: docstore.LE{Field: field, Value: docstore.String(r.id)}},
		docstore.LE{Field: field, Value: docstore.String(r.id + "~")},
	}
}

// notIn holds where a register does not have the request.
func (r request) notIn(fields register) docstore.Cond {
	var anywhere docstore.Any
	for _, f := range fields {
		anywhere = append(anywhere, r.in(f))
	}
	return docstore.Not{Cond: anywhere}
}

// find returns the position of the request, 0 for the newest, and whether its parameters are the same; -1 if it is not
// remembered.
func (r request) find(entries requests) (position int, same bool) {
	i := slices.IndexFunc(entries[:], func(e string) bool { return strings.HasPrefix(e, r.id) })
	return i, i >= 0 && entries[i] == r.id+r.params
}

// remember adds the request to a register; the oldest is forgotten.
func (r request) remember(set map[string]docstore.Value, fields register) {
	for i := 1; i < len(fields); i++ {
		set[fields[i]] = docstore.Before(fields[i-1])
	}
	set[fields[0]] = r.entry()
}

// digest is the first n bytes of a SHA-256 in base64url. Each part is preceded by its length, so that no two lists of parts
// are hashed alike.
func digest(n int, parts []string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:n])
}

// number and table are parameters as parts of a digest.
func number(n int64) string { return strconv.FormatInt(n, 10) }

func table(m map[string]string) []string {
	parts := make([]string, 0, 2*len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k, m[k])
	}
	return parts
}
