package contracts

import (
	"slices"
	"strings"
)

// CodeInfo is what a [Code] means to a caller.
type CodeInfo struct {
	Status    int    // the HTTP status
	Retryable bool   // whether the same request may succeed later
	Final     bool   // whether the same request would be rejected again, until people have changed what is wrong
	Title     string // the code in words
}

// Codes returns all codes that this version knows, in the order of the page about errors.
func Codes() []Code { return slices.Clone(order) }

// Info returns what the code means. ok is false for a code that this version does not know.
func (c Code) Info() (info CodeInfo, ok bool) {
	info, ok = codes[c]
	return info, ok
}

// Final reports whether the same request would be rejected again, as far as the code alone says. It is false for a code
// that this version does not know.
func (c Code) Final() bool { return codes[c].Final }

// DocsURL is where the codes are explained, one heading for each.
const DocsURL = "https://github.com/leasehold-dev/leasehold/blob/main/docs/reference/errors.md"

// TypeURI is the "type" of the code's problem documents: the place where it is explained.
func (c Code) TypeURI() string { return DocsURL + "#" + strings.ToLower(string(c)) }
