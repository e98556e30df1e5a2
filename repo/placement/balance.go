package placement

import (
	"cmp"
	"slices"
)

// balance gives each partition an owner. owners are those that the partitions have (noMember: none), weights the
// members' shares; a member of weight 0 gets nothing. It is a pure function: the same table and members make the same
// table, wherever it runs.
//
// A member's quota is its share, rounded up or down. Who owns more than its quota gives the partitions away for which
// it scores lowest; partitions without an owner go to the member with the highest score whose quota is not filled. So
// as few partitions move as can, and none from one member to another that both had enough.
func balance(owners []uint16, weights []int, seeds []uint64) []uint16 {
	table := slices.Clone(owners)
	owned := make([][]int, len(weights)) // the partitions of each member
	var free []int
	for p, m := range table {
		if m == noMember || weights[m] == 0 {
			table[p] = noMember
			free = append(free, p)
			continue
		}
		owned[m] = append(owned[m], p)
	}
	quota := quotas(len(table), weights, owned)
	if quota == nil {
		return table
	}
	var open []int // members whose quota is not filled
	for m, partitions := range owned {
		if over := len(partitions) - quota[m]; over > 0 {
			slices.SortFunc(partitions, func(p, q int) int {
				return cmp.Or(cmp.Compare(score(partitionKey(p), seeds[m]), score(partitionKey(q), seeds[m])), p-q)
			})
			free = append(free, partitions[:over]...)
			quota[m] = 0
			continue
		}
		if quota[m] -= len(partitions); quota[m] > 0 {
			open = append(open, m)
		}
	}
	slices.Sort(free)
	for _, p := range free {
		key := partitionKey(p)
		at, highest := 0, uint64(0)
		for i, m := range open {
			if s := score(key, seeds[m]); i == 0 || s > highest {
				at, highest = i, s
			}
		}
		m := open[at]
		table[p] = uint16(m) //nolint:gosec // there are MaxMembers at most
		if quota[m]--; quota[m] == 0 {
			open = slices.Delete(open, at, at+1)
		}
	}
	return table
}

// quotas are how many partitions each member is to own: its share, rounded down, and of the partitions that are left
// over one more for as many members, first for those that own it already, then by the fraction that was cut off. nil if
// no member has a weight.
func quotas(partitions int, weights []int, owned [][]int) []int {
	total := 0
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		return nil
	}
	quota := make([]int, len(weights))
	var fractions []int // members with a fraction
	rest := partitions
	for m, w := range weights {
		quota[m] = partitions * w / total
		rest -= quota[m]
		if partitions*w%total > 0 {
			fractions = append(fractions, m)
		}
	}
	slices.SortStableFunc(fractions, func(a, b int) int {
		more := func(m int) int {
			if len(owned[m]) > quota[m] {
				return 1
			}
			return 0
		}
		return cmp.Or(more(b)-more(a), partitions*weights[b]%total-partitions*weights[a]%total)
	})
	for _, m := range fractions[:rest] {
		quota[m]++
	}
	return quota
}
