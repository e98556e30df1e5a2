// Package tasks is the worker's side of a queue: one message → gate → done, retry later, or drop. A
// queue delivers at least once, and the same message may come twice at the same time; the gate lets one delivery run.
//
// # The way of a message
//
//	queue ──▶ [Endpoint] (Cloud Tasks pushes)    ─┐
//	queue ──▶ a Lambda function (SQS)          ─┴─▶ [Worker.Deliver] ─▶ gate ─▶ work, for example a [Target]
//	                                                      │
//	          acknowledge, or retry later        ◀────────┘  [Result]
//
// # Who decides
//
// The gate does: [once.Run] asks for the lock, keeps it alive while the work runs, stops the work the moment that the
// lock is lost, and writes READY or FAILED only while the lock still stands. This package reads the message, and says
// what to do with it; the table is at [Outcome].
//
// A message whose analysis another worker runs is not acknowledged: if that worker crashes, no one would run it. It is
// retried, finds the analysis finished, and is acknowledged then. Worker.AckLocked gives the plain skip instead. That
// may acknowledge a message whose own earlier delivery is still at work: a sweep finds what a worker that dies leaves
// behind, but nothing finds an analysis whose run failed or was stopped after that.
//
// # What can go wrong
//
// A message that names no analysis is dead: it would come for ever. One without a document, or with one that cannot be
// read, is retried for Worker.Grace, because a task can overtake its document, and is dead then. Work that fails or
// panics counts as a failed run, and the message is retried until Worker.MaxFailures turns the analysis FAILED. A
// worker that dies leaves its lock behind until the ttl is over; the queue, or the sweep, brings the message back,
// until the gate ends the analysis after too many takeovers. A queue that hangs up first has seen a failed run.
//
// # Time
//
//	heartbeat < ttl           the lock is refreshed while the work runs
//	ttl < the queue's timeout     a redelivery after a worker's death finds the lock ended
//
// A delivery that outlives the queue's timeout does no harm: the one that follows it finds the analysis locked.
package tasks
