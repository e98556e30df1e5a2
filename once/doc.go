// Package once runs an analysis exactly once at a time, from Go: standard library and contract types only.
//
// A queue delivers at least once. [Run] stands between the queue and the work: it asks the gate for the run, keeps the lock
// alive while the work runs, and writes the end under the lock's token.
//
//	      ┌────────── Acquire ──────────┐
//	      ▼                             ▼
//	not granted                      granted ───▶ work ──┬─ returns ──▶ Finish READY ───────────▶ Ready
//	Finished, Busy, Unknown                       ▲  │   ├─ fails ────▶ Release, counted ───────▶ Retry
//	                                      Refresh └──┘   │              or Finish FAILED ────────▶ Failed
//	                                  every Heartbeat    ├─ is stopped ▶ Release, not counted ───▶ Stopped
//	                                                     └─ loses the lock: nothing is written ──▶ Lost
//
// # Who decides
//
// The gate decides who runs, by its own clock. This package decides when to stop believing that it is still us: the lock's
// end is reckoned from before the request that granted it, so that it comes early and never late, on two clocks of this
// process at once. The steady clock is right when somebody sets the time; the wall clock is right when the machine was
// asleep and the steady clock stood still. Whichever says first that the time is over is believed. Setting a machine's clock
// forward can therefore cost a run; nothing can keep a run alive that has ended.
//
// # A process that was stopped
//
// A process can be stopped (SIGSTOP, a debugger, a frozen Lambda, a closed laptop) for longer than its lock. When it goes on,
// the next statement of the work may run before any timer does. So the context of the work consults the clocks whenever
// it is asked: Err, Done and [context.Cause] are right at the first call after the thaw. Contexts derived
// from it are cancelled within a second; where that is too late, [Check] asks through them. What cannot be stopped in
// time is what was already sent: that is what Lock.Token is for. Pass it on to whatever the work writes to.
//
// # What can go wrong
//
// A lost answer is asked for again, with the same request ID; each request takes effect once. While the gate cannot be
// reached, the work goes on until the lock's time is over. A work that does not stop when it is told to keeps Run waiting,
// because a run that still runs is not over. If the result could not be stored the verdict is Retry; the lock then runs out.
package once
