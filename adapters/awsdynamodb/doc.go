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
// Attributes that the port cannot express (lists, sets, fractions) are kept as they are. _keep_until is the table's
// time-to-live attribute: the service removes an item within a few days of that time, and never without one. Enable
// time to live on no other attribute.
//
// # Whose clock
//
// DynamoDB has no clock that a condition could use. The caller's is used instead, for as much as is known of it:
//
//   - The time is an interval. Every response carries a Date, which bounds the service's time within a second and the
//     time of the request. Each further response narrows the bounds, which drift and small steps of the caller's clock
//     widen again. [Open] takes the first measurement.
//   - What is written is the latest end of the interval: a lease of ten seconds lasts ten seconds at least. "This time
//     has passed" ([docstore.LE] with a time) is asked for its earliest end, "this time has not passed yet" (the same
//     inside a Not) for its latest; [docstore.Earliest] and [docstore.Latest] name one. A rejection's At is the instant
//     of its condition, and Result.Margin how far the latest end lies beyond it. A condition that asks for both is
//     explained by the earlier instant.
//   - It fails closed. A clock that is proven to be off by more than Options.MaxSkew, or that was set by more than a
//     quarter of it since it was last measured, is not used: before anything is sent the call ends with
//     [docstore.ErrClockSkew], and the clock is measured again, at most once a second, until it is right.
//
// So no caller takes over while the holder, who counts from before its request, may still act, however far their clocks
// are apart. The price is time, not requests: after a cold start, with one response to go by, a lease may last a second
// longer than it was asked for and be taken over yet a second later; after a hundred responses a tenth of that remains.
// A call after an idle hour (2 x MaxSkew / 500 ppm) measures first, with one GetItem.
//
// What can still go wrong: a service or proxy whose Date is wrong; a clock that is corrected by more than 500 µs a
// second for long while nothing is asked of the service; a machine that sleeps without either of its clocks showing it;
// a caller that is paused between its last clock reading and its effect. Each can make two holders run at once for a
// short time. None can give them the same token, because the service alone counts tokens, so the comparison of tokens
// where the effect happens ([Condition], [Store.Check], lock.Guard) stops the earlier one. A counter that starts at the
// store's time ([docstore.Write].StartAtNow) is above the one of a removed document if that was gone for longer than
// the widest interval, 1 s + 5 x MaxSkew.
//
// The instant of a write is that of its last attempt, unless the outcome of an earlier one is not known: such a write
// is sent as it was. It takes over later than it could, and what it is granted expires sooner. A Date that contradicts
// the reading of the clock shows that the machine was stopped in between: Result.Lost says for how long, at the most.
//
// # The response that got lost
//
// The SDK sends a request again when no response arrives, and so a write can arrive twice. Where the first arrival
// makes the second one fail, which is so for every command on locks and for every deletion, the store does the same,
// and the rule finds its own request_id in the document. Where it does not, the write is not sent again, and the error
// is [docstore.ErrUnavailable]: the caller decides. A transaction carries a ClientRequestToken. Throttling and
// conflicts change nothing; after them another request follows, with pauses drawn at random, for Options.RetryTimeout
// at most. A try without a response ends after 2.5 seconds, and the next one is sent on a new connection: the idle ones
// may be as dead.
//
// # What else can go wrong
//
// An Add on text or beyond ±2^53, and a copy of what is not text, are rejected by the service itself, through guards in
// the condition. A fraction passes such a guard, for the language cannot ask for whole numbers: the sum is stored, and
// the call returns an error instead of a token. After a write of several documents, of which the service returns none,
// the fraction stays unnoticed until the document is read or added to alone; then it is no whole number for any rule.
// Leasehold itself stores none. A global table copies between regions after the fact; two regions could grant the same
// lease, and [Open] warns. One partition takes some 1,000 writes a second, rejected ones included: callers that wait
// for a lock should wait the time that the rejection names, and not poll in a loop.
package awsdynamodb
