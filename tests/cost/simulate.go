package cost

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Load is who asks for locks.
type Load struct {
	Name          string
	Tenants, Keys int // keys of each tenant
}

// Loads are those of the tables and the plot.
var Loads = []Load{
	{"one key", 1, 1},
	{"one tenant, 1,000 keys", 1, 1000},
	{"100 tenants, 1,000 keys each", 100, 1000},
}

// resource is something that takes so many units a second, and a burst of what it did not take in the last seconds.
type resource struct {
	rate float64 // units a second; 0 is no bound
	free float64 // when it has done all that it was given, in seconds
}

// take gives the resource units at a time, and returns when it begins with them.
func (r *resource) take(at, units, burst float64) float64 {
	if r.rate == 0 {
		return at
	}
	begin := max(r.free, at-burst)
	r.free = begin + units/r.rate
	return max(begin, at)
}

// simulated is for how long a load is simulated: at least so many seconds, some bursts, and so many cycles.
const (
	leastSeconds = 3
	leastBursts  = 3
	leastCycles  = 20_000
)

// simulate lets cycles arrive at random, so many a second, each at a key chosen at random, and gives wait how long each
// waits, in seconds, until it returns false. A cycle uses units of its document, of its tenant and of the store, and
// begins when all have room for it. A service that rejects what is too much is asked again, so that callers wait there
// as well. minutes is for how long the load has been there.
func simulate(c Carries, cycle Usage, l Load, perSecond, minutes float64, wait func(seconds float64) bool) {
	random := rand.New(rand.NewPCG(1, 2)) // the same table each time
	whole := resource{rate: c.Whole}
	tenants := make([]resource, l.Tenants)
	documents := make([]resource, l.Tenants*l.Keys)
	tenant, units, now := c.tenant(minutes), c.Unit(cycle), 0.0
	for range length(c, perSecond) {
		now += random.ExpFloat64() / perSecond
		t := random.IntN(l.Tenants)
		d := t*l.Keys + random.IntN(l.Keys)
		tenants[t].rate, documents[d].rate = tenant, c.Document
		begins := max(whole.take(now, units, c.Burst), tenants[t].take(now, units, c.Burst),
			documents[d].take(now, units, c.Burst))
		if !wait(begins - now) {
			return
		}
	}
}

// length is how many cycles are simulated.
func length(c Carries, perSecond float64) int {
	return max(leastCycles, int(perSecond*(leastSeconds+leastBursts*c.Burst)))
}

// slowest is the 99th percentile of how long a cycle takes, in milliseconds.
func slowest(c Carries, cycle Usage, l Load, perSecond, minutes float64) float64 {
	waits := make([]float64, 0, length(c, perSecond))
	simulate(c, cycle, l, perSecond, minutes, func(seconds float64) bool {
		waits = append(waits, seconds)
		return true
	})
	slices.Sort(waits)
	return c.Service + 1000*waits[len(waits)*99/100]
}

// carried reports whether 99 of 100 cycles take no longer than they may.
func carried(c Carries, cycle Usage, l Load, perSecond, minutes float64) bool {
	late, most := 0, length(c, perSecond)/100
	simulate(c, cycle, l, perSecond, minutes, func(seconds float64) bool {
		if c.Service+1000*seconds > worse*c.Service {
			late++
		}
		return late <= most
	})
	return late <= most
}

// tenant is what the documents of a tenant take together, in units a second, once the load has been there for so many
// minutes.
func (c Carries) tenant(minutes float64) float64 {
	if c.Doubles {
		return c.Tenant * math.Pow(1.5, math.Floor(minutes/5))
	}
	return c.Tenant
}

// worse is how much longer than by itself a cycle may take at the 99th percentile: beyond it, the load is too much.
const worse = 10

// Limit is the highest load that a store carries, in cycles a second: beyond it, the 99th percentile is more than ten
// times what a cycle takes by itself.
func Limit(c Carries, cycle Usage, l Load, minutes float64) float64 {
	bound := Bound(c, cycle, l, minutes)
	if math.IsInf(bound, 1) {
		return bound
	}
	low, high := bound/10, 1.5*bound
	for high/low > 1.03 {
		middle := math.Sqrt(low * high)
		if carried(c, cycle, l, middle, minutes) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// Bound is what no load can exceed for long, by the units alone: what the simulation must stay below.
func Bound(c Carries, cycle Usage, l Load, minutes float64) float64 {
	bound := math.Inf(1)
	for _, of := range []float64{c.Whole, c.tenant(minutes) * float64(l.Tenants), c.Document * float64(l.Tenants*l.Keys)} {
		if of > 0 {
			bound = min(bound, of/c.Unit(cycle))
		}
	}
	return bound
}
