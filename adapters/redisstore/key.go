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

// doc is the key of a document's hash.
func (l layout) doc(k docstore.Key) string { return l.root + ":doc:" + k.String() }

// ids is the key of the sorted set with the IDs of a kind and tenant.
func (l layout) ids(kind, tenant string) string {
	return l.root + ":ids:" + url.PathEscape(kind) + "/" + url.PathEscape(tenant)
}
