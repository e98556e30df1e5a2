package placement

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// HashVersion names the functions of this file. It is stored with a cluster: a program that hashes otherwise would
// place the same identity elsewhere, so it must not take part. contracts/vectors/placement.json has what they return.
const HashVersion = 1

// Hash mixes the hashes of the kind and the ID (XXH64, seed 0). The parts are hashed each by itself, so no two
// identities are hashed alike because of how their parts were joined, and nothing is copied.
func (i Identity) Hash() uint64 {
	return score(xxhash.Sum64String(i.ID), xxhash.Sum64String(i.Kind))
}

// seed is what a member's ID contributes to its scores.
func seed(member string) uint64 { return xxhash.Sum64String(member) }

// score ranks a member for a key, as in rendezvous hashing: the member with the highest score has it. It is the high
// and the low half of a 128-bit product, exclusive-or.
func score(key, seed uint64) uint64 {
	high, low := bits.Mul64(key^0xa0761d6478bd642f, seed^0xe7037ed1a0b428db)
	return high ^ low
}

// partitionKey spreads the numbers of partitions for [score].
func partitionKey(p int) uint64 {
	return uint64(p+1) * 0x9e3779b97f4a7c15 //nolint:gosec // a partition is not negative
}
