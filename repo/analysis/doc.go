// Package analysis is the rule of the analysis gate (BE-041): a task queue delivers at least once, the analysis runs once.
// The lock of an analysis lives in the analysis' own document, which belongs to the user: fields are patched, never
// replaced, and fields that are not listed here are left alone.
//
// # Who decides
//
// The document analyses/{analysisId} does. Each command ([Acquire], [Refresh], [Release], [Finish], and [Requeue] and
// [Abandon] of the sweep) is a value with two methods that say the same thing twice: Decide, a pure function of the
// [State] found and the time, and Write, the one conditional write that a store carries out. A property test holds the
// two together. [Analyses] sends the write and, when the store refuses it, lets Decide explain the refusal.
//
// # States
//
//	                 acquire (lockToken+1)
//	  free ───────────────────────────────────▶ running ──┐ refresh
//	   ▲ ▲                                      │ │ │ ▲───┘
//	   │ └────────── release ───────────────────┘ │ │      now ≥ lockExpiresAt: nobody writes,
//	   │                                          │ └────┐ time alone does it
//	   │                    finish (READY|FAILED) │      ▼
//	   │                                          │    stale ──── acquire (lockToken+1) ──▶ running
//	(status unfinished)                           ▼      │
//	                                          finished ◀─┘ the holder's finish, if nobody took over;
//	                                                       or the sweep's FAILED after too many takeovers
//
// An analysis is finished when its status is READY or FAILED, and that is for ever: no command changes the status again. If
// somebody else wrote it while a lock was held, the holder's next refresh is refused; its release, or its finish
// with the same status, still takes the lock off.
//
// # The fence
//
// lockToken rises with every acquire and is never removed. Whatever the holder writes is conditional on its owner and its
// token, so that a worker that was paused beyond its lock can neither finish, nor fail, nor release somebody else's run
// (Powertools' idempotency, for one, writes without a condition there). A finish that comes late is accepted as long as
// nobody took over: the token proves it, and a result is not thrown away.
//
// # The answer that got lost
//
// An acquire stores its request ID; a repeated one finds it in the document and gets the same grant. A repeated refresh
// refreshes. The sweep knows its own mark by its name. A repeated release or finish finds that the lock of its token is gone, and since only the holder of a
// token can have done that, it is answered as done.
//
// # What can be in the document
//
//	status           READY and FAILED are finished; any other text, or none, is not. A status that is no text is ErrDamaged.
//	lockOwner        who runs it; missing or empty: nobody. Another type, null among them, is somebody, until lockExpiresAt.
//	lockExpiresAt    ISO 8601 in UTC, as JavaScript's toISOString writes it. With an owner, a missing time, another type and
//	                 text that is no such time count as long past.
//	lockHeartbeatAt  the last acquire or refresh
//	lockToken        the fence: number of acquires so far
//	lockRequestId    of the acquire
//	lockRuns         runs begun since the last that ended with a release or finish; more than one: takeovers
//	lockFailures     releases of runs that failed
//	lockRequeuedAt   when the sweep queued the stale analysis again
//	lockRequeueId    which sweep
//	result           what Finish(READY) was given, if anything
//	failureReason    of the last failed run, or of FAILED
//
// A lockToken, lockRuns or lockFailures that is no whole number from 0 on is ErrDamaged as well, and whatever is damaged is
// not written to.
//
// Times have a fixed width, so that byte order is time order on every store. The one thing that can break the fence is
// deleting and creating an analysis' document anew while a worker still runs: the token begins again.
package analysis
