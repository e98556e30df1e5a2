// Package analysis is the rule of the analysis gate: a task queue delivers at least once, the analysis runs once. The
// lock of an analysis is in the analysis' own document, which belongs to the user: fields are patched, never replaced,
// and fields that are not listed here are left alone.
//
// The rule is in rule.go: each command ([Acquire], [Refresh], [Release], [Finish], [Create]) is one conditional write,
// in the form of package rule. The first four are also the rule of documents of another [Shape], such as those of
// package runs. document.go reads documents of any shape. retry.go has the administrator's [Retry], sweep.go the
// commands of the sweep, state.go what a document says, outcome.go what a command returns, list.go pages of analyses.
// [Analyses] runs the commands on a store.
//
// # States
//
//	                 acquire (lockToken+1)
//	  free ───────────────────────────────────▶ running ──┐ refresh
//	   ▲ ▲                                      │ │ │ ▲───┘
//	   │ └────────── release ───────────────────┘ │ │      now ≥ lockExpiresAt:
//	   │                                          │ └────┐ no write
//	   │                    finish (READY|FAILED) │      ▼
//	   │                                          │    stale ──── acquire (lockToken+1) ──▶ running
//	(status unfinished)                           ▼      │
//	                                          finished ◀─┘ the holder's finish, if no one took over; or
//	                                                       FAILED by an acquire or a sweep after too many takeovers
//
// An analysis is finished when its status is READY or FAILED. Only [Retry], an administrator's command, changes the
// status again: it makes a FAILED analysis PENDING, without a lock and with the next token. If another writer set the
// status while a lock was held, the holder's next refresh is rejected; its release, or its finish with the same status,
// still removes the lock.
//
// # The fence
//
// lockToken increases with every acquire and is never removed. Whatever the holder writes is conditional on its owner
// and its token, so that a worker that was paused beyond its lock can neither finish, nor fail, nor release the run of
// another (Powertools' idempotency, for one, writes without a condition there). A late finish is accepted as long as no
// one took over: the token proves it, and a result is not thrown away.
//
// # Lost responses
//
// An acquire is remembered by a hash; a retry finds it in the document and gets the same grant as long as that lasts,
// and later nothing: it had its run. A repeated refresh refreshes. The sweep knows its own mark by its name. A repeated
// release or finish finds that the lock of its token is gone; since only the holder of a token can have done that, it
// succeeds, unless it carries a result or a reason that was not stored. A retry is remembered by a hash too, in a
// register of its own, which acquires do not push it out of.
//
// # What is due
//
// The sweep looks for a lockExpiresAt that has passed: that of a stale lock, or of a [Retry], which sets it to its own
// time although no one holds a lock then. The next acquire overwrites it, so that a retried analysis is due until a
// worker has begun it.
//
// # What can be in the document
//
// null counts as a missing field in status, lockOwner and lockExpiresAt.
//
//	status           READY and FAILED are finished; any other text, or none, is not. A status that is no text is ErrDamaged.
//	lockOwner        who runs it; missing or empty: no one. Another type counts as an owner until lockExpiresAt.
//	lockExpiresAt    ISO 8601 in UTC, as JavaScript's toISOString writes it. Of other writers, any form that [Expiry] reads; one
//	                 that cannot be judged is never taken over. With an owner, a missing time is long past.
//	lockHeartbeatAt  the last acquire or refresh
//	lockToken        the fence: one more with each acquire, from the store's time in microseconds on
//	lockRequest1..4  the last acquires, as hashes
//	lockRuns         runs begun since the last that ended with a release or finish; more than one: takeovers
//	lockFailures     runs that failed
//	lockFailedToken  the token of the last of them
//	lockRequeuedAt   when the sweep queued the stale analysis again
//	lockRequeueId    which sweep
//	lockFinishedAt   when the gate wrote READY or FAILED
//	lockRetriedAt    when an administrator made the FAILED analysis PENDING, the last time
//	lockRetriedBy    who did
//	lockRetryReason  and why
//	lockRetry1..4    the last retries, as hashes
//	result           what Finish(READY) was given, if anything
//	failureReason    of the last failed run, or of FAILED
//	lockFingerprint  what the run is about, if an acquire said so; one that is not text equals none
//
// A lockToken, lockRuns or lockFailures that is no whole number from 0 on is ErrDamaged as well, and so is a
// lockRequest or lockRetry that is no text. A damaged document is never written to.
//
// The gate's own times have a fixed width, so that byte order is time order on every store. A document that is deleted
// and created again under a worker begins with a higher token, as long as it was gone for longer than clocks may
// differ.
package analysis
