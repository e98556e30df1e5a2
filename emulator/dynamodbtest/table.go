package dynamodbtest

import (
	"crypto/md5" //nolint:gosec // it spreads keys and guards nothing
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// table is one table with its indexes. The server's mutex guards it.
type table struct {
	name        string
	id          string
	created     time.Time
	definitions []keyAttr // in the order of the request
	key         keySchema
	items       map[itemID]attr.Map
	rows        *view // all items in the order of the key
	indexes     []*index

	ttl     string   // attribute that holds the time to live; empty: disabled
	history []change // the latest changes, oldest first, at most maxHistory
	writes  int64    // groups of changes so far: one request's changes share a number
}

// index is a global secondary index.
type index struct {
	name       string
	key        keySchema
	projection string // ALL or KEYS_ONLY
	rows       *view
}

// change is what one write did to one item.
type change struct {
	group  int64
	id     itemID
	before attr.Map // nil: there was no item
	after  attr.Map // nil: deleted
}

// maxHistory bounds how many changes a table remembers for stale reads.
const maxHistory = 1024

// put stores an item, or deletes it when after is nil, and remembers the change.
func (t *table) put(key itemID, after attr.Map) {
	before := t.items[key]
	if before == nil && after == nil {
		return
	}
	t.replace(key, before, after)
	if len(t.history) == maxHistory {
		t.history = slices.Delete(t.history, 0, maxHistory/2)
	}
	t.history = append(t.history, change{t.writes, key, before, after})
}

// replace changes an item in the table and in its indexes.
func (t *table) replace(key itemID, before, after attr.Map) {
	if after == nil {
		delete(t.items, key)
	} else {
		t.items[key] = after
	}
	t.rows.replace(before, after)
	for _, x := range t.indexes {
		x.rows.replace(x.image(before), x.image(after))
	}
}

// commit ends a group of changes that were made by one request.
func (t *table) commit() { t.writes++ }

// previous returns an item as it was before its latest change that the table remembers; an item that never changed is
// as it is.
func (t *table) previous(key itemID) attr.Map {
	for _, c := range slices.Backward(t.history) {
		if c.id == key {
			return c.before
		}
	}
	return t.items[key]
}

// rewind takes back the changes of the latest write and returns what makes them again.
func (t *table) rewind() (forward func()) {
	first := len(t.history)
	for first > 0 && t.history[first-1].group == t.history[len(t.history)-1].group {
		first--
	}
	last := t.history[first:]
	for _, c := range last { // in any order: a write changes an item once
		t.replace(c.id, c.after, c.before)
	}
	return func() {
		for _, c := range last {
			t.replace(c.id, c.before, c.after)
		}
	}
}

// index returns a secondary index by name, or nil.
func (t *table) index(name string) *index {
	for _, x := range t.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

// image returns what an index holds of an item: nil when the item lacks one of the index's keys.
func (x *index) image(item attr.Map) attr.Map {
	if item == nil {
		return nil
	}
	for _, a := range x.key.attrs() {
		if v := item[a.name]; v == nil || v.Type() != a.kind { // of another type: from before the index
			return nil
		}
	}
	if x.projection == wholeItems {
		return item
	}
	keys := x.key.of(item)
	maps.Copy(keys, x.rows.table.of(item))
	return keys
}

// view keeps items in the order in which queries and scans return them: by a hash of the hash key, then by the sort
// key, then, in an index, by the table's key.
type view struct {
	key   keySchema
	table keySchema
	parts []*partition // by position
}

// partition is the run of items with one hash key.
type partition struct {
	position uint64
	hash     string
	rows     []attr.Map
}

// position spreads hash keys over all of uint64.
func position(hash string) uint64 {
	sum := md5.Sum([]byte(hash)) //nolint:gosec // it spreads keys and guards nothing
	return binary.BigEndian.Uint64(sum[:])
}

func (p *partition) compare(q *partition) int {
	switch {
	case p.position < q.position:
		return -1
	case p.position > q.position:
		return 1
	default:
		return strings.Compare(p.hash, q.hash)
	}
}

func (v *view) find(hash string) (int, bool) {
	probe := &partition{position: position(hash), hash: hash}
	return slices.BinarySearchFunc(v.parts, probe, (*partition).compare)
}

// partition returns the items with a hash key in order.
func (v *view) partition(hash attr.Value) []attr.Map {
	if i, ok := v.find(id(hash)); ok {
		return v.parts[i].rows
	}
	return nil
}

// compare orders two items of one hash key.
func (v *view) compare(a, b attr.Map) int {
	keys := []*keyAttr{v.key.sort, &v.table.hash, v.table.sort}
	for _, k := range keys {
		if k == nil {
			continue
		}
		if order, _ := attr.Compare(a[k.name], b[k.name]); order != 0 {
			return order
		}
	}
	return 0
}

// replace takes one item out and puts another in; either may be nil.
func (v *view) replace(before, after attr.Map) {
	if before != nil {
		v.remove(before)
	}
	if after != nil {
		v.insert(after)
	}
}

func (v *view) insert(item attr.Map) {
	hash := id(item[v.key.hash.name])
	i, ok := v.find(hash)
	if !ok {
		v.parts = slices.Insert(v.parts, i, &partition{position: position(hash), hash: hash})
	}
	p := v.parts[i]
	j, _ := slices.BinarySearchFunc(p.rows, item, v.compare)
	p.rows = slices.Insert(p.rows, j, item)
}

func (v *view) remove(item attr.Map) {
	i, ok := v.find(id(item[v.key.hash.name]))
	if !ok {
		return
	}
	p := v.parts[i]
	if j, ok := slices.BinarySearchFunc(p.rows, item, v.compare); ok {
		p.rows = slices.Delete(p.rows, j, j+1)
	}
	if len(p.rows) == 0 {
		v.parts = slices.Delete(v.parts, i, i+1)
	}
}
