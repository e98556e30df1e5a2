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
	indexes map[*index]Units
	factor  float64 // 2 in transactions
}

func newUsage(t *table) *usage {
	return &usage{table: t, indexes: map[*index]Units{}, factor: 1}
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
		was, is := x.image(u.table, before), x.image(u.table, after)
		var cost float64
		switch {
		case was == nil && is == nil || was != nil && is != nil && attr.Equal(was, is):
			continue
		case was == nil || is == nil || attr.Equal(x.key.of(was), x.key.of(is)):
			cost = ceilUnits(max(attr.Size(was), attr.Size(is)), writeUnit)
		default: // the old entry is deleted and a new one put
			cost = ceilUnits(attr.Size(was), writeUnit) + ceilUnits(attr.Size(is), writeUnit)
		}
		if x.local {
			cost *= u.factor // a global index is brought up to date after the transaction, at the plain price
		}
		entry := u.indexes[x]
		entry.Write += cost
		u.indexes[x] = entry
	}
}

// rejected adds the cost of a write whose condition did not hold: it pays for the item that it looked at.
func (u *usage) refused(found attr.Map) {
	u.base.Write += u.factor * ceilUnits(attr.Size(found), writeUnit)
}

// read adds the cost of reading size bytes of the table.
func (u *usage) read(size int, consistent bool) { u.base.Read += u.factor * readCost(size, consistent) }

// readIndex adds the cost of reading size bytes of an index.
func (u *usage) readIndex(x *index, size int, consistent bool) {
	entry := u.indexes[x]
	entry.Read += u.factor * readCost(size, consistent)
	u.indexes[x] = entry
}

func (u *usage) total() Units {
	sum := u.base
	for _, x := range u.indexes {
		sum.Read += x.Read
		sum.Write += x.Write
	}
	return sum
}

// json is the ConsumedCapacity of a response at the level asked for: TOTAL or INDEXES.
func (u *usage) json(level string) map[string]any {
	out := u.units(u.total())
	out["TableName"] = u.table.name
	if level != "INDEXES" {
		return out
	}
	out["Table"] = u.units(u.base)
	for x, units := range u.indexes {
		member := "GlobalSecondaryIndexes"
		if x.local {
			member = "LocalSecondaryIndexes"
		}
		if out[member] == nil {
			out[member] = map[string]any{}
		}
		out[member].(map[string]any)[x.name] = u.units(units)
	}
	return out
}

// units writes a sum. Only transactions say whether they read or wrote.
func (u *usage) units(sum Units) map[string]any {
	out := map[string]any{"CapacityUnits": sum.Read + sum.Write}
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
	return oneOf("ReturnConsumedCapacity", level, "INDEXES", "TOTAL", "NONE")
}

func wantsCapacity(level string) bool { return level == "TOTAL" || level == "INDEXES" }

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

func (us usages) of(t *table, factor float64) *usage {
	if us[t] == nil {
		us[t] = newUsage(t)
		us[t].factor = factor
	}
	return us[t]
}

func (us usages) sorted() []*usage {
	return slices.SortedFunc(maps.Values(us), func(a, b *usage) int { return compareNames(a.table.name, b.table.name) })
}

func (us usages) json(level string) []map[string]any {
	var out []map[string]any
	for _, u := range us.sorted() {
		out = append(out, u.json(level))
	}
	return out
}
