// Package aws is the entry point of Lambda functions. [Handler] passes the events of an API Gateway HTTP API or of a function URL
// (payload format 2.0, one shape for both) to an [http.Handler], and [Authorizer] returns the caller that the platform
// verified. [Worker] takes the batches of an SQS queue through the run-once guard to the work, and [Sweeper] queues stale
// analyses again when a schedule calls it. The command lambda is the program that a deployment uploads.
//
// # An HTTP event
//
//	event (JSON) ─▶ is it payload format 2.0? ──no──▶ the invocation fails, its error says what to configure
//	  ─▶ method, path with its escapes, query, headers, cookies, body ──malformed──▶ 400 with a problem
//	  ─▶ context: the invocation's deadline, less [ResponseMargin]
//	  ─▶ http.Handler ─▶ status, headers, cookies, body (base64 only if it is not UTF-8)
//
// # A batch
//
//	event (JSON) ─▶ is it a batch of SQS messages? ──no──▶ the invocation fails, and the event stays where it came from
//	  ─▶ each message concurrently (a FIFO group in its order)
//	       ─▶ tasks.Worker.Deliver: guard, work, heartbeats that hide the message for as long as the lock lasts
//	            done              ─▶ the platform deletes the message
//	            retry             ─▶ listed in batchItemFailures, and hidden until the lock in its way expires
//	            deadline exceeded ─▶ cancelled before the invocation ends, lock released, message visible again
//
// # Who decides
//
// Who sent a request is in requestContext.authorizer, which the platform writes and callers cannot. [Authorizer] reads it
// from there only; a request that no authorizer verified is UNAUTHENTICATED. A principal that may invoke the function directly
// (lambda:InvokeFunction) writes whole events and so can be any caller: grant that permission to API Gateway only. A
// caller of a function URL needs it too, with the condition lambda:InvokedViaFunctionUrl.
//
// # Paths
//
// A function URL delivers the path as it was sent. An HTTP API delivers it with its escapes resolved, so that "a%2Fb" and
// "a/b" arrive as the same bytes. The paths of the contract allow the key to be found again: it is between the collection and
// the action. A key with "?" in it is lost in an HTTP API: the path arrives cut there.
//
// # Errors
//
// A panic of the handler becomes INTERNAL and is logged, and the instance goes on. An event that is not an HTTP request fails
// the invocation, so that a queue that was attached by mistake keeps its messages. A response beyond [MaxResponseBytes], which
// Lambda would drop, is replaced by a problem.
package aws
