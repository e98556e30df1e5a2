package docstore

import "github.com/leasehold-dev/leasehold/repo/docstore/internal/ordered"

// CountComparisons makes an empty store count how often it compares two keys, two ends or two places in its order.
func (m *Memory) CountComparisons() (compared *int) {
	compared = new(int)
	m.order = ordered.New(func(a, b Key) int {
		*compared++
		return compareKeys(a, b)
	})
	m.ends = ordered.New(func(a, b end) int {
		*compared++
		return a.compare(b)
	})
	return compared
}

// Over is over.
var Over = over
