// Package tasks is the worker's side of a queue (BE-040, BE-041): one message → gate → done, come again later, or drop. A
// queue delivers at least once, and the same message may come twice at the same time; the gate lets one delivery run.
//
// # The way of a message
//
//	queue ──▶ [Door] (Cloud Tasks pushes)    ─┐
//	queue ──▶ a Lambda function (SQS)        ─┴─▶ [Worker.Deliver] ─▶ gate ─▶ work, for example a [Target]
//	                                                    │
//	          acknowledge, or come again later ◀────────┘  [Answer]
//
// # Who decides
//
// The gate does: [once.Run] asks for the lock, keeps it alive while the work runs, stops the work the moment that the lock
// is lost, and writes READY or FAILED only while the lock still stands. This package reads the message, and says in the
// queue's words what came of it; the table of both is at [Outcome].
//
// A message whose analysis somebody else runs is not acknowledged: if that somebody dies, nobody would be left to run it.
// It comes again, finds the analysis finished, and is acknowledged then. Worker.AckLocked gives the plain skip instead. That
// may acknowledge a message whose own earlier delivery is still at work: a sweep finds what a worker that dies leaves behind,
// but nothing finds an analysis whose run failed or was stopped after that.
//
// # What can go wrong
//
// A message that names no analysis, or one without a document, is acknowledged: it would come for ever. Work that fails
// or panics counts as a failed run, and the message comes again until Worker.MaxFailures turns the analysis FAILED. A
// worker that dies leaves its lock behind until the ttl is over; the queue, or the sweep, brings the message back.
//
// # Time
//
//	heartbeat < ttl           the lock is refreshed while the work runs
//	ttl < the queue's patience    a redelivery after a worker's death finds the lock ended
//
// A delivery that outlives the queue's patience does no harm: the one that follows it finds the analysis locked.
package tasks
