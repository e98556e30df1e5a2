package extid

// mixer is the unkeyed permutation: fmix64, the finalizer of MurmurHash3, of the ID exclusive-or salt. Each input bit
// changes each output bit with a probability near one half, also for IDs that follow one another.
type mixer struct{}

// salt keeps fmix64 from mapping 0 to 0. It is the fraction of the golden ratio; its first bit is set, so that the
// number mapped to 0 is not an ID.
const salt = 0x9e3779b97f4a7c15

// The factors of fmix64 and their inverses modulo 2^64.
const (
	factor1  = 0xff51afd7ed558ccd
	factor2  = 0xc4ceb9fe1a85ec53
	inverse1 = 0x4f74430c22a54005
	inverse2 = 0x9cb4b2f8129337db
)

func (mixer) forward(x uint64) uint64 {
	x ^= salt
	x ^= x >> 33
	x *= factor1
	x ^= x >> 33
	x *= factor2
	x ^= x >> 33
	return x
}

// inverse undoes forward step by step: a shift by more than half the width is its own inverse.
func (mixer) inverse(x uint64) uint64 {
	x ^= x >> 33
	x *= inverse2
	x ^= x >> 33
	x *= inverse1
	x ^= x >> 33
	return x ^ salt
}
