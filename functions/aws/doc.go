// Package aws is the entry point of Lambda functions. [Handler] passes the events of a function URL, an HTTP API, a
// REST API or an Application Load Balancer to an [http.Handler], and [Authorizer] returns the caller that the platform
// verified. [Worker] takes the batches of an SQS queue through the run-once guard to the work, and [Sweeper] queues
// stale analyses again when a schedule calls it. The command lambda is the program that a deployment uploads.
//
// # An HTTP event
//
//	event (JSON) ─▶ is it an HTTP request? ──no──▶ the invocation fails, its error says what to configure
//	  ─▶ is its front end one of the deployment's? ──no──▶ 403 with a problem, and an error in the log
//	  ─▶ method, path with its escapes, query, headers, cookies, body ──malformed──▶ 400 with a problem
//	  ─▶ context: the invocation's deadline, less [ResponseMargin]
//	  ─▶ http.Handler ─▶ status, headers, cookies, body (base64 only if it is not UTF-8), in the shape of the front end
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
// Who sent a request is in requestContext, which the platform writes and callers cannot. [Authorizer] reads it from
// there only, and only what the front end of the event writes; a request that no authorizer verified is
// UNAUTHENTICATED. A load balancer names no caller there, so that the function must verify tokens itself (package
// oidc).
//
// A principal that may invoke the function directly (lambda:InvokeFunction) writes whole events and so can be any
// caller, unless tokens are verified by the function itself. Grant that permission to the front end only (a resource
// policy with its ARN as the source). A caller of a function URL needs it too, with the condition
// lambda:InvokedViaFunctionUrl. [Options].FrontDoors rejects events of front ends that the deployment does not have.
//
// # Paths
//
// A function URL, a REST API and a load balancer deliver the path as it was sent. An HTTP API delivers it with its
// escapes resolved, so that "a%2Fb" and "a/b" arrive as the same bytes. Package httpapi is told so, and finds the names
// again: by the routes and by the tenant of the caller, or by the header Leasehold-Path, which says what was sent.
// Where neither settles it, the request is AMBIGUOUS_PATH. An HTTP API also cuts a path at a "?" that was escaped; only
// the header shows that.
//
// The default domain of an HTTP API has the name of the stage in front of the path, which is removed there and nowhere
// else: behind a custom domain, /v1/… is a path of the contract even if the stage is v1. What a custom domain maps to
// the API is [Options].BasePath.
//
// # Errors
//
// A panic of the handler becomes INTERNAL and is logged, and the instance goes on. An event that is not an HTTP request
// fails the invocation, so that a queue that was attached by mistake keeps its messages. A response beyond
// [MaxResponseBytes], which Lambda would drop, is replaced by a problem.
package aws
