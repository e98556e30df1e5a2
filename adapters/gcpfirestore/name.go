package gcpfirestore

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A key becomes the name of a document below Options.Root:
//
//	{kind}/{id}                      without a tenant
//	tenants/{tenant}/{kind}/{id}     with one
//
// The two forms have different lengths, so that no key of the one is a key of the other, not even of a kind called
// "tenants".
//
// IDs are stored as they are, so that a document of the user's own has the ID that it always had, with two exceptions,
// because Firestore rejects some IDs. Both keep the order of bytes: List can then be one query on a range of names.
//
//   - A slash becomes ".／" (a full stop and U+FF0F). The only texts between those that begin with a full stop and those
//     that begin with "0" begin with a slash or with a full stop and something high. What could be taken for an escaped
//     slash, or would sort behind one, gets a U+FF0E: a full stop before a character from U+FF0E on becomes ".．".
//   - The IDs ".", "..", and "__…__" get a U+0001 at their end, and so do these IDs when they end in U+0001 already. No
//     character is lower, so that nothing lies between the two forms.
const (
	slash     = '/'
	stop      = '.'
	highStop  = '\uff0e' // "．" after a full stop: the character that follows means itself
	highSlash = '\uff0f' // "／" after a full stop: the two are a slash
	lowest    = '\u0001'
)

// maxIDBytes is what Firestore allows for one ID.
const maxIDBytes = 1500

// escapeID returns the ID that a document has in Firestore. It keeps the order of bytes, and different IDs different.
func escapeID(id string) string {
	return extend(escapeSlashes(id), func(core string) bool { return core == "." || core == ".." || isReserved(core) })
}

// unescapeID is the inverse of escapeID. It reports false for an ID that escapeID does not produce.
func unescapeID(escaped string) (string, bool) {
	if id := unescapeSlashes(escaped); escapeID(id) == escaped {
		return id, true
	}
	id := unescapeSlashes(strings.TrimSuffix(escaped, string(lowest)))
	return id, escapeID(id) == escaped
}

func escapeSlashes(s string) string {
	if !strings.ContainsRune(s, slash) && !strings.ContainsRune(s, stop) {
		return s
	}
	var b strings.Builder
	afterStop := false
	for _, r := range s {
		if afterStop && r >= highStop {
			b.WriteRune(highStop)
		}
		if r == slash {
			b.WriteRune(stop)
			b.WriteRune(highSlash)
		} else {
			b.WriteRune(r)
		}
		afterStop = r == stop
	}
	return b.String()
}

func unescapeSlashes(s string) string {
	if !strings.ContainsRune(s, stop) {
		return s
	}
	var b strings.Builder
	for s != "" {
		if after, ok := strings.CutPrefix(s, string(stop)+string(highSlash)); ok {
			b.WriteRune(slash)
			s = after
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		b.WriteString(s[:size])
		s = s[size:]
		if after, ok := strings.CutPrefix(s, string(highStop)); r == stop && ok {
			_, size = utf8.DecodeRuneInString(after)
			b.WriteString(after[:size])
			s = after[size:]
		}
	}
	return b.String()
}

// extend appends the lowest character to a text that is rejected, and to one that would otherwise look like the result.
func extend(s string, refused func(core string) bool) string {
	if refused(strings.TrimRight(s, string(lowest))) {
		return s + string(lowest)
	}
	return s
}

// isReserved reports whether Firestore keeps a name for itself.
func isReserved(s string) bool {
	return len(s) >= 4 && strings.HasPrefix(s, "__") && strings.HasSuffix(s, "__")
}

// layout knows where documents are.
type layout struct {
	database string // projects/{project}/databases/{database}
	root     string // path of the document below which all others are; may be empty
}

// checkRoot reports what is wrong with Options.Root.
func checkRoot(root string) error {
	if root == "" {
		return nil
	}
	ids := strings.Split(root, "/")
	if len(ids)%2 != 0 {
		return fmt.Errorf("firestore: Root %q names a collection: name a document, such as \"leasehold/v1\"", root)
	}
	for _, id := range ids {
		if id == "" || escapeID(id) != id || !utf8.ValidString(id) {
			return fmt.Errorf("firestore: Root %q: %q cannot be the ID of a collection or a document", root, id)
		}
	}
	if len(root) > maxIDBytes {
		return fmt.Errorf("firestore: Root has %d bytes, %d at most", len(root), maxIDBytes)
	}
	return nil
}

// collection is the path of the collection that holds a kind's documents of a tenant.
func collection(root, kind, tenant string) (string, error) {
	path := kind
	if tenant != "" {
		escaped, err := checkedID("tenant", tenant)
		if err != nil {
			return "", err
		}
		path = "tenants/" + escaped + "/" + kind
	}
	if root != "" {
		path = root + "/" + path
	}
	return path, nil
}

// document is the path of a key's document.
func document(root string, k docstore.Key) (string, error) {
	path, err := collection(root, k.Kind, k.Tenant)
	if err != nil {
		return "", err
	}
	id, err := checkedID("id", k.ID)
	return path + "/" + id, err
}

// documents is the beginning of the name of every document.
func (l layout) documents() string { return l.database + "/documents" }

// document is the name of a key's document.
func (l layout) document(k docstore.Key) (string, error) {
	path, err := document(l.root, k)
	return l.documents() + "/" + path, err
}

// checkedID escapes an ID. The port's bounds leave room for all but IDs that are long and full of slashes.
func checkedID(what, id string) (string, error) {
	escaped := escapeID(id)
	if len(escaped) > maxIDBytes {
		return "", fmt.Errorf("%w: %s has %d bytes with its slashes escaped (four bytes for each), Firestore takes %d",
			docstore.ErrInvalid, what, len(escaped), maxIDBytes)
	}
	return escaped, nil
}

// lowerBound returns an ID that Firestore takes and that is not above the escaped form of id: that form itself, unless
// it is too long.
func lowerBound(id string) string {
	s := escapeID(id)
	if len(s) <= maxIDBytes {
		return s
	}
	s = s[:maxIDBytes]
	for !utf8.ValidString(s) || isReserved(s) {
		s = s[:len(s)-1]
	}
	return s
}

// successor returns the lowest text that is above all texts that begin with prefix. It reports false if there is none.
func successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch r {
		case utf8.MaxRune:
			continue // nothing is above it: the character before it has to grow
		case 0xd7ff:
			r = 0xe000 // what lies between are no characters
		default:
			r++
		}
		return prefix + string(r), true
	}
	return "", false
}
