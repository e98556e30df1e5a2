package dynamodbtest

import (
	"maps"
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Bytes that one unit pays for.
const (
	readUnit  = 4096
	writeUnit = 1024
)

// Units is capacity: read request units and write request units, or read and write capacity units.
type Units struct{ Read, Write float64 }

// usage is the capacity that a request consumed on one table.
type usage struct {
	table   *table
	base    Units
	indexes Units
	factor  float64 // 2 in transactions
}

func newUsage(t *table) *usage {
	return &usage{table: t, factor: 1}
}

func ceilUnits(size, unit int) float64 { return float64(max(1, (size+unit-1)/unit)) }

// readCost is the cost of reading size bytes: half when the read may be stale. A read that finds nothing costs as much
// as one that finds little.
func readCost(size int, consistent bool) float64 {
	units := ceilUnits(size, readUnit)
	if !consistent {
		units /= 2
	}
	return units
}

// wrote adds the cost of a write: the larger of the item before and after, and what it changes in the indexes.
func (u *usage) wrote(before, after attr.Map) {
	u.base.Write += u.factor * ceilUnits(max(attr.Size(before), attr.Size(after)), writeUnit)
	for _, x := range u.table.indexes {
		was, is := x.image(before), x.image(after)
		var cost float64
		switch {
		case was == nil && is == nil || was != nil && is != nil && attr.Equal(was, is):
			continue
		case was == nil || is == nil || attr.Equal(x.key.of(was), x.key.of(is)):
			cost = ceilUnits(max(attr.Size(was), attr.Size(is)), writeUnit)
		default: // the old entry is deleted and a new one put
			cost = ceilUnits(attr.Size(was), writeUnit) + ceilUnits(attr.Size(is), writeUnit)
		}
		u.indexes.Write += cost // not times factor: an index is brought up to date after the transaction, at the plain price
	}
}

// refused adds the cost of a write whose condition did not hold: it pays for the item that it looked at.
func (u *usage) refused(found attr.Map) {
	u.base.Write += u.factor * ceilUnits(attr.Size(found), writeUnit)
}

// read adds the cost of reading size bytes of the table.
func (u *usage) read(size int, consistent bool) { u.base.Read += u.factor * readCost(size, consistent) }

// readIndex adds the cost of reading size bytes of an index.
func (u *usage) readIndex(size int) { u.indexes.Read += u.factor * readCost(size, false) }

func (u *usage) total() Units {
	return Units{Read: u.base.Read + u.indexes.Read, Write: u.base.Write + u.indexes.Write}
}

// json is the ConsumedCapacity of a response. Only transactions say whether they read or wrote.
func (u *usage) json() map[string]any {
	sum := u.total()
	out := map[string]any{"TableName": u.table.name, "CapacityUnits": sum.Read + sum.Write}
	if u.factor != 1 {
		if sum.Read > 0 {
			out["ReadCapacityUnits"] = sum.Read
		}
		if sum.Write > 0 {
			out["WriteCapacityUnits"] = sum.Write
		}
	}
	return out
}

// checkCapacity checks a ReturnConsumedCapacity.
func checkCapacity(level string) *apiError {
	if level == "INDEXES" {
		return unsupported("ReturnConsumedCapacity INDEXES")
	}
	return oneOf("ReturnConsumedCapacity", level, "INDEXES", "TOTAL", "NONE")
}

func wantsCapacity(level string) bool { return level == "TOTAL" }

// charge adds what requests consumed to the totals of [Server.Consumed].
func (s *Server) charge(all ...*usage) {
	for _, u := range all {
		sum := u.total()
		s.consumed.Read += sum.Read
		s.consumed.Write += sum.Write
	}
}

// usages holds what one request consumed on each of its tables.
type usages map[*table]*usage

func (us usages) of(t *table) *usage {
	if us[t] == nil {
		us[t] = newUsage(t)
		us[t].factor = transactFactor
	}
	return us[t]
}

func (us usages) sorted() []*usage {
	return slices.SortedFunc(maps.Values(us), func(a, b *usage) int { return compareNames(a.table.name, b.table.name) })
}

func (us usages) json() []map[string]any {
	var out []map[string]any
	for _, u := range us.sorted() {
		out = append(out, u.json())
	}
	return out
}
