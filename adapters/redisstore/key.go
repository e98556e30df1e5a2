package redisstore

import (
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// maxPrefix bounds the length of [Options].Prefix: every key repeats it.
const maxPrefix = 64

// maxShards bounds [Options].Shards: opening a store asks each of them.
const maxShards = 64

// layout is where documents are. A cluster puts a key into a slot by what stands between the first braces, which are
// the layout's own.
type layout struct {
	root   string   // the prefix, in braces
	shards []*shard // those of one have root; those of several have the number behind a slash, which no prefix has
}

// shard is a part of the documents whose keys are in one slot, so that a script may touch any of them.
type shard struct {
	root string

	// Keys. own is what the shard knows of itself: its generation, the number of writes, and how far counters have come.
	// ends is the sorted set of documents that end, by when they do, in milliseconds since 1970; its members are as the
	// names of documents end. tenants is the sorted set of the kinds and tenants that have documents; its members are as
	// the names of their IDs end.
	own, ends, tenants string
	first              any    // own, ready to be an argument
	server             string // of the server on which the documents are, see server.lua

	unmet   atomic.Bool // it is not known whether the server is another, see [Store.meet]
	known   known
	line    line
	tracker tracker
}

func newLayout(prefix string, shards int) (layout, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
	if len(prefix) > maxPrefix || strings.Trim(prefix, allowed) != "" {
		return layout{}, fmt.Errorf("redis: Prefix %q: letters, digits and ._:- only, %d at most", prefix, maxPrefix)
	}
	if shards < 0 || shards > maxShards {
		return layout{}, fmt.Errorf("redis: Shards %d: from 1 to %d, or 0 for 1", shards, maxShards)
	}
	l := layout{root: "{" + prefix + "}"}
	if shards <= 1 {
		l.shards = []*shard{newShard(l.root)}
		return l, nil
	}
	for i := range shards {
		l.shards = append(l.shards, newShard(fmt.Sprintf("{%s/%d}", prefix, i)))
	}
	return l, nil
}

func newShard(root string) *shard {
	return &shard{
		root: root, own: root + ":own", first: root + ":own", server: root + ":server", ends: root + ":ends",
		tenants: root + ":tenants",
	}
}

// number is the number of the shard that has the documents of a tenant. It must stay as it is: documents are found by
// it.
func (l layout) number(tenant string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant))
	return int(h.Sum32() % uint32(len(l.shards))) //nolint:gosec // at most maxShards
}

// of is the shard that has the documents of a tenant.
func (l layout) of(tenant string) *shard { return l.shards[l.number(tenant)] }

// mark is the key that says how the documents are laid out: what the only shard knows of itself where there is one, a
// text, else a sorted set with the number of shards.
func (l layout) mark() string { return l.root + ":own" }

// doc is the key of a document.
func (s *shard) doc(k docstore.Key) string { return s.root + ":doc:" + k.String() }

// ids is the key of the sorted set with the IDs of a kind and tenant.
func (s *shard) ids(kind, tenant string) string {
	return s.root + ":ids:" + place(kind, tenant)
}

// by is the key of the sorted set with the indexes of a kind and tenant, see index.lua.
func (s *shard) by(kind, tenant string) string { return s.root + ":by:" + place(kind, tenant) }

// appendKeys appends the keys of a document that is written: its own, that of the IDs, that of the indexes.
func (s *shard) appendKeys(keys []string, k docstore.Key) []string {
	p := place(k.Kind, k.Tenant)
	return append(keys, s.root+":doc:"+p+"/"+url.PathEscape(k.ID), s.root+":ids:"+p, s.root+":by:"+p)
}

// tenant reads a member of the set of tenants of a shard. ok is false for one that another program has put there: no
// document is at the place that it names.
func (l layout) tenant(of *shard, kind, member string) (tenant string, ok bool) {
	tenant, err := url.PathUnescape(strings.TrimPrefix(member, place(kind, "")))
	k := docstore.Key{Kind: kind, Tenant: tenant, ID: "x"}
	return tenant, err == nil && k.Validate() == nil && place(kind, tenant) == member && l.of(tenant) == of
}

// place is the member of a kind and tenant in the set of tenants.
func place(kind, tenant string) string { return url.PathEscape(kind) + "/" + url.PathEscape(tenant) }
