package httpapi

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"
)

// resource is something that the callers of a process share.
type resource int

// What callers share.
const (
	slots      resource = iota // on which requests are worked: Limits.Concurrent
	bodies                     // bytes of bodies that are read: Limits.BodyBytes
	lists                      // that are read from the store at once: Limits.Lists
	pages                      // bytes of pages that are read and sent: Limits.PageBytes
	histories                  // readings of audit events
	lockWaits                  // responses that are held for locks: Options.MaxWaiting
	eventWaits                 // responses that are held for events: Options.MaxWaiting
	streams                    // of one connection of HTTP/2
	resources
)

// shared is the one statement of how much of each resource one tenant can have, and one subject of a tenant. Both are
// less than the whole, so that what one party holds, whatever it does or does not do with it, never is what others
// need.
var shared = [resources]struct {
	tenant, subject float64 // parts of the whole
	least           int64   // which a party can have in any case
	says            string  // why there is no room: %[1]d is the whole, %[2]d a tenant's share, %[3]d a subject's
}{
	slots: {3. / 4, 1. / 2, 1,
		"the server works on as many requests as it may: %[1]d, %[2]d of a tenant and %[3]d of a subject; and others wait"},
	bodies: {1. / 2, 1. / 4, bodyMost,
		"as many bodies of requests are on their way as may: send them to the end"},
	lists: {1. / 2, 3. / 8, 1,
		"the server reads as many lists as it may: %[1]d, %[2]d of a tenant and %[3]d of a subject; and others wait"},
	pages: {3. / 4, 1. / 2, pageReading,
		"the pages that the server sends, or yours, take as much memory as they may: ask for smaller ones, and read them to the end"},
	histories: {1. / 2, 1. / 2, 1,
		"the server reads audit events for as many requests as it may: %[1]d, %[2]d of a tenant; and others wait"},
	lockWaits: {1. / 4, 1. / 8, 1,
		"as many requests wait for locks as may: %[1]d, %[2]d of a tenant and %[3]d of a subject"},
	eventWaits: {1. / 4, 1. / 8, 1,
		"as many requests wait for events as may: %[1]d, %[2]d of a tenant and %[3]d of a subject"},
	streams: {3. / 4, 1. / 2, 1,
		"%[2]d requests of a tenant and %[3]d of a subject are under way on this connection, as many as may: use another one"},
}

// Callers who are not known have their own share of each resource, so small that they are in the way of no one: all of
// them together, and those of one network.
const (
	ofStrangers = 1. / 8
	ofNetwork   = 1. / 32
)

// shares are what is shared in numbers.
type shares struct{ whole, tenant, subject, strangers, network int64 }

// of divides a whole.
func (r resource) of(whole int64) shares {
	s := shared[r]
	part := func(part float64) int64 {
		n := min(int64(math.Ceil(float64(whole)*part)), whole-s.least) // never the whole, unless that is the least
		return max(s.least, n)
	}
	return shares{max(whole, s.least), part(s.tenant), part(s.subject), part(ofStrangers), part(ofNetwork)}
}

// most is how much a party can have: its tenant, and itself.
func (s shares) most(p party) (tenant, subject int64) {
	if p.tenant == strangers {
		return s.strangers, s.network
	}
	return s.tenant, s.subject
}

// noBound is the whole of what has no bound, and is counted.
const noBound = math.MaxInt64 / 2

// newBound bounds a resource. Of what does not fit at once, so many requests wait, for so long.
func newBound(r resource, whole int64, queue int, wait time.Duration) *bound {
	of := r.of(whole)
	if whole == noBound {
		of = shares{noBound, noBound, noBound, noBound, noBound}
	}
	return &bound{says: fmt.Sprintf(shared[r].says, of.whole, of.tenant, of.subject), of: of, queue: queue, wait: wait}
}

// strangers stands for the tenant of all callers who are not known. No tenant has this name.
const strangers = "\x00"

// stranger is a caller that is not known: its network, which is what it cannot change at will.
func stranger(remote string) party { return party{strangers, networkOf(remote)} }

// networkOf is the network that an address is in: of IPv4 the first three numbers, of IPv6 the first half, which is
// what one customer has. Another text is its own.
func networkOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return cut(remote, maxUnknownName)
	}
	bits := 24
	if addr = addr.Unmap(); addr.Is6() {
		bits = 64
	}
	network, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return remote
	}
	return network.String()
}
