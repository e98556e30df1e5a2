// Package lock is the lock rule: leases on (tenant, key) with fencing tokens, of one holder at a time or of several.
//
// The rule is in rule.go: each command ([Acquire], [Renew], [Release], [ForceRelease]) is one conditional write, in the
// form of package rule. state.go is what the lock's document says, outcome.go what a command returns. [Locks] runs the
// commands on a store, [Guard] compares tokens.
//
// # States
//
//	           acquire (token+1)
//	no record ──────────────────▶ ACTIVE ──┐ renew
//	                              │ ▲ │ ▲──┘
//	  release, or force-release   │ │ │   now ≥ expires_at:
//	                ┌─────────────┘ │ └─────────────┐  no write
//	                ▼               │               ▼
//	            RELEASED ───────────┴──────────── EXPIRED
//	                      acquire (token+1)
//
// That is the plain form of the document, with one lease. In shared form ([Shared], [Permits], [Rate], and
// [Acquire].Fair where requests wait) it has several leases and a line of requests: sharedform.go says what the
// document is then, sharedform_rule.go what the commands make of it, join.go how a request gets into the line, codec.go
// how it is stored, reservation.go how a request for several locks ([AcquireSet]) has its turn beside a line. A command
// is refused by the plain condition first, and then decides on the document found.
//
// A lease is held while now < expires_at. The tokens of a key only ever increase: the first is the store's time in
// microseconds, so that the document may be removed once the lock has been free for the retention (see [Options]).
//
// # The fencing token
//
// Each grant gets the next token. A holder that was paused for longer than its lease cannot know that it lost the lock,
// so the resource behind the lock must compare tokens and reject an older one: see [Guard]. Clocks only bound how long
// two holders can both believe that they hold the lock; the token decides. (Gray and Cheriton, "Leases", SOSP 1989;
// Burrows, "The Chubby lock service", OSDI 2006, sequencers.)
//
// # Lost responses
//
// A write may be applied and its response lost. The retry then fails its own condition. So every command carries the
// caller's request_id, the granting write stores it, and a refused command looks for its own request_id in the document
// found. Retry a command with the same request_id until a response arrives; use a new one for a new intention.
//
// A lock remembers the last requests of each kind, see [RememberedRequests] and [RememberedReleases]. A request that is
// delivered late has no second effect: an acquire whose lease has ended is rejected, a renewal does not move the
// expiry, a release and a force-release touch no later lease.
package lock
