package lock

import (
	"maps"
	"slices"
	"strconv"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// How many requests a lock remembers, of each kind by itself: heartbeats must not push out the acquire.
const (
	// RememberedRequests is for the last acquires, those that were given up, renewals of the lease, and force-releases.
	RememberedRequests = rule.Remembered
	RememberedReleases = 8 // the last releases, by token
)

var (
	acquires = rule.Register{"a1", "a2", "a3", "a4"}
	renewals = rule.Register{"r1", "r2", "r3", "r4"}
	forces   = rule.Register{"f1", "f2", "f3", "f4"}
	givenUps = rule.Register{"u1", "u2", "u3", "u4"} // acquires
)

// releases are the fields that remember releases, by token modulo their number, which is a power of two.
var releases = [RememberedReleases]string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"}

// released is the field that remembers the release of a token.
func released(token int64) string { return releases[token&(RememberedReleases-1)] }

// number and table are parts of a request's identity or parameters.
func number(n int64) string { return strconv.FormatInt(n, 10) }

func table(m map[string]string) []string {
	parts := make([]string, 0, 2*len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k, m[k])
	}
	return parts
}

// beside adds the keys of a set to the parameters of a request that is one of it.
func beside(set string, params ...string) []string {
	if set == "" {
		return params
	}
	return append(params, set)
}
