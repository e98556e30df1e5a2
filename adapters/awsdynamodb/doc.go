// Package awsdynamodb keeps the documents of Leasehold in one DynamoDB table.
//
// # Who decides
//
// DynamoDB decides. A write is one UpdateItem whose condition and changes the service evaluates in one atomic step for
// its item; several writes are one TransactWriteItems. A rejection brings the item that was found
// (ReturnValuesOnConditionCheckFailure), so that it costs no second request. All reads are strongly consistent.
//
// # What an item looks like
//
//	_pk  "locks/acme"       partition key: kind and tenant
//	_sk  "deploy/prod"      sort key: the ID, so that a list is a Query in the order of bytes
//	…    token, state, …    one attribute for each field
//	_keep_until             Unix seconds until which the document is kept, if a write said so
//
// Attributes that the port cannot express (lists, sets, binary, fractions) are kept as they are. _keep_until is the table's
// time-to-live attribute: the service removes an item within a few days of that time, and never without one. Enable time to
// live on no other attribute.
//
// # Whose clock
//
// DynamoDB has no clock that a condition could use. [docstore.Now] is therefore the caller's clock, and three things
// keep the callers' clocks close:
//
//   - It is corrected. Every response carries a Date, which bounds how far the service's clock and the caller's are apart:
//     within a second and the time of the request by one response, closer with each further one. The correction is the
//     smallest that these bounds allow. [Open] takes the first measurement.
//   - It fails closed. A clock that is proven to be off by more than Options.MaxSkew, or that was set since it was last
//     measured, is not used: before anything is sent the call ends with [docstore.ErrClockSkew], and the clock is measured
//     again, at most once a second, until it is right.
//   - A margin is kept. In a condition, "this time has passed" ([docstore.LE] with a time) is asked for the instant
//     Now - MaxSkew; "this time has not passed yet" (the same inside a Not) for Now itself. So a holder acts until
//     expires_at by its clock, and no other caller takes over before expires_at + MaxSkew by its clock. A rejection's At is the instant
//     of its condition, and Result.Margin how far that lies before Now. A condition that asks both ways is explained by
//     the earlier instant.
//
// Two callers whose corrected clocks differ by less than MaxSkew never both hold a lease. What can still go wrong: two
// clocks that are off in opposite directions by more than half of MaxSkew, each known by a few responses only; a
// service or proxy whose Date is wrong; a clock that was set by less than a quarter of MaxSkew, until the next
// response; a caller that is paused between its last clock reading and its effect. Each can make two holders run at
// once for a short time. None can give them the same token, because the service alone counts tokens, so the comparison
// of tokens where the effect happens ([Condition], [Store.Check], lock.Guard) stops the earlier one.
//
// The instant of a write is that of its first attempt. A write that arrives late, because it was throttled or its
// connection was lost, carries an instant in the past: it takes over later than it could, and what it is granted
// expires sooner.
//
// # The response that got lost
//
// The SDK sends a request again when no response arrives, and so a write can arrive twice. Where the first arrival
// makes the second one fail, which is so for every command on locks and for every deletion, this is left to the SDK, and the rule finds its
// own request_id in the document. Where it does not, the store keeps the SDK from sending again, and returns
// [docstore.ErrUnavailable]: the caller decides. A transaction carries a ClientRequestToken. Throttling and conflicts
// change nothing; after them the request is sent again, with pauses drawn at random, for Options.RetryTimeout at most.
//
// # What else can go wrong
//
// An Add on text or beyond ±2^53, and a copy of what is not text, are rejected by the service itself, through guards in the
// condition. A fraction passes such a guard, for the language cannot ask for whole numbers: the sum is stored, and the call
// returns an error instead of a token, unless it wrote several documents. A global table copies between regions after the fact; two regions could grant the same lease, and [Open]
// warns. One partition takes some 1,000 writes a second, rejected ones included: callers that wait for a lock should
// wait the time that the rejection names, and not poll in a loop.
package awsdynamodb
