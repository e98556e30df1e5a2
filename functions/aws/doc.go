// Package aws is the door of a Lambda function. [Handler] hands the events of an API Gateway HTTP API or of a function URL
// (payload format 2.0, one shape for both) to an [http.Handler], and [Authorizer] says who the caller is as the platform
// verified it. [Worker] takes the batches of an SQS queue through the analysis gate to the work, and [Sweeper] looks for
// analyses whose worker died when a schedule says so.
//
// # The way of an HTTP event
//
//	event (JSON) ─▶ is it payload format 2.0? ──no──▶ the invocation fails, its error says what to configure
//	  ─▶ method, path with its escapes, query, headers, cookies, body ──malformed──▶ 400 with a problem
//	  ─▶ context: the invocation's deadline, less [AnswerMargin]
//	  ─▶ http.Handler ─▶ status, headers, cookies, body (base64 only if it is not UTF-8)
//
// # The way of a batch
//
//	event (JSON) ─▶ is it a batch of SQS messages? ──no──▶ the invocation fails, and the event stays where it came from
//	  ─▶ each message, side by side (a FIFO group in its order)
//	       ─▶ tasks.Worker.Deliver: gate, work, heartbeats that hide the message for as long as the lock lasts
//	            done        ─▶ the platform deletes the message
//	            come again  ─▶ named in batchItemFailures, and hidden until the lock in its way ends
//	            time over   ─▶ cancelled before the invocation ends, lock and message handed back
//
// # Who decides
//
// Who sent a request is in requestContext.authorizer, which the platform writes and callers cannot. [Authorizer] reads it
// from there and from nowhere else; a request that no authorizer vouches for is UNAUTHENTICATED. Whoever may invoke
// the function directly (lambda:InvokeFunction) writes whole events and so can be anybody: grant that permission to API
// Gateway alone, and nobody but lambda:InvokeFunctionUrl for a function URL.
//
// # Paths
//
// A function URL delivers the path as it was sent. An HTTP API delivers it with its escapes resolved, so that "a%2Fb" and
// "a/b" arrive as the same bytes. The paths of the contract allow the key to be found again: it is what stands between
// the collection and the action. What an HTTP API loses for good is a key with "?" in it: the path arrives cut there.
//
// # What can go wrong
//
// A panic of the handler is answered with INTERNAL and logged, and the instance lives on. An event that is no HTTP
// request fails the invocation instead of being answered, so that a queue that was attached by mistake keeps its
// messages. An answer beyond [MaxAnswerBytes], which Lambda would drop, is replaced by a problem.
package aws
