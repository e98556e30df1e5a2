package redisstore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// maxPrefix bounds the length of [Options].Prefix: every key repeats it.
const maxPrefix = 64

// layout makes the names of keys. A cluster puts a key into a slot by what stands between the first braces, which are
// the layout's own: all of a store's keys are in one slot.
type layout struct{ root string }

func newLayout(prefix string) (layout, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
	if len(prefix) > maxPrefix || strings.Trim(prefix, allowed) != "" {
		return layout{}, fmt.Errorf("redis: Prefix %q: letters, digits and ._:- only, %d at most", prefix, maxPrefix)
	}
	return layout{"{" + prefix + "}"}, nil
}

// own is the key of the hash with what the store knows of itself: its generation, the number of writes, and how far counters
// have come.
func (l layout) own() string { return l.root + ":own" }

// ends is the key of the sorted set of documents that end, by when they do, in milliseconds since 1970. Its members are as the
// names of documents end.
func (l layout) ends() string { return l.root + ":ends" }

// tenants is the key of the sorted set of the kinds and tenants that have documents. Its members are as the names of their IDs
// end.
func (l layout) tenants() string { return l.root + ":tenants" }

// doc is the key of a document's hash.
func (l layout) doc(k docstore.Key) string { return l.root + ":doc:" + k.String() }

// ids is the key of the sorted set with the IDs of a kind and tenant.
func (l layout) ids(kind, tenant string) string {
	return l.root + ":ids:" + place(kind, tenant)
}

// place is the member of a kind and tenant in the set of tenants.
func place(kind, tenant string) string { return url.PathEscape(kind) + "/" + url.PathEscape(tenant) }
