package analysis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// RememberedRequests is how many acquires an analysis remembers, to recognise a late duplicate.
const RememberedRequests = 4

// requests are the remembered acquires, newest first. Each is an entry (see [request]); empty is none.
type requests [RememberedRequests]string

// fRequests are the fields that hold [requests]: a shift register, so that one write adds an entry without reading first.
var fRequests = [RememberedRequests]string{"lockRequest1", "lockRequest2", "lockRequest3", "lockRequest4"}

// request is what is remembered of a request: hashes instead of texts, because writes are billed by the KiB.
type request struct {
	id     string // 64 bits over the kind, who sent it, and the request ID: 11 characters
	params string // 24 bits over the parameters: 4 characters
}

// request identifies the command. The kind leaves room for other commands in the same register.
func (c Acquire) request() request {
	return request{digest(8, "acquire", c.Owner, c.RequestID), digest(3, strconv.FormatInt(c.TTLSeconds, 10))}
}

// forgotten holds while none of the fields has an entry of the request, whatever its parameters. No character of an entry is
// above "~", and a missing field holds nothing.
func (r request) forgotten() docstore.Cond {
	var in docstore.Any
	for _, f := range fRequests {
		in = append(in, docstore.All{
			docstore.Not{Cond: docstore.LE{Field: f, Value: docstore.String(r.id)}},
			docstore.LE{Field: f, Value: docstore.String(r.id + "~")},
		})
	}
	return docstore.Not{Cond: in}
}

// find returns the position of the request, 0 for the newest, and whether its parameters are the same; -1 if it is not
// remembered.
func (r request) find(entries requests) (position int, same bool) {
	i := slices.IndexFunc(entries[:], func(e string) bool { return strings.HasPrefix(e, r.id) })
	return i, i >= 0 && entries[i] == r.id+r.params
}

// remember adds the request to a patch; the oldest is forgotten.
func (r request) remember(set map[string]docstore.Value) {
	for i := 1; i < len(fRequests); i++ {
		set[fRequests[i]] = docstore.Before(fRequests[i-1])
	}
	set[fRequests[0]] = docstore.String(r.id + r.params)
}

// digest is the first n bytes of a SHA-256 in base64url. Each part is preceded by its length, so that no two lists of parts
// are hashed alike.
func digest(n int, parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:n])
}
