// Package lock is the lock rule: exclusive leases on (tenant, key) with fencing tokens (LS-SPEC-001).
//
// # Who decides
//
// The document of the lock does, nobody's memory. Each command ([Acquire], [Renew], [Release], [ForceRelease]) is a
// value with two methods that say the same thing twice: Decide, a pure function of the [State] found and the time, and
// Write, the one conditional write that a store carries out. A property test holds the two together. [Locks] sends the
// write; when the store refuses it, Decide explains the refusal from the document that the store found.
//
// # States
//
//	            acquire (token+1)
//	(nothing) ───────────────────▶ ACTIVE ──┐ renew
//	                               │ ▲ │ ▲──┘
//	   release, or force-release   │ │ │   now ≥ expires_at: nobody writes,
//	                 ┌─────────────┘ │ └─────────────┐    time alone does it
//	                 ▼               │               ▼
//	             RELEASED ───────────┴──────────── EXPIRED
//	                       acquire (token+1)
//
// A lease is held while now < expires_at; at expires_at it is over. The document is never deleted, because the token
// counter lives in it: tokens of a key rise for ever (LS-INV-002), whatever happens to the leases.
//
// # The fencing token
//
// Each grant gets the next token. A holder that was paused for longer than its lease cannot know that it lost the lock,
// so what lies behind the lock must compare tokens and refuse an older one: see [Guard] (LS-FENCE-001). Clocks only
// bound how long two holders can both believe that they run; the token decides who is right. (Gray and Cheriton,
// "Leases", SOSP 1989; Burrows, "The Chubby lock service", OSDI 2006, sequencers.)
//
// # The answer that got lost
//
// A write may be applied and its answer lost; the SDK or the caller then sends it again, and it fails its own
// condition. Every command therefore carries the caller's request_id, the granting write stores it, and a refused
// command looks for its own request_id in the document found before it says no (LS-ACQ-004, LS-RNW-003, LS-REL-003).
// Send a command again with the same request_id until an answer arrives; send a new intention with a new one.
//
// What cannot be told apart: an acquire that is delivered again after its lease has ended is a new intention, and gets
// a new lease with a new token. A dead lease is never brought back to life.
package lock
