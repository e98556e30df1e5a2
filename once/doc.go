// Package once runs a function under the lock of a run: by one worker at a time, and not again once it has finished. A
// run is that of an analysis, or one that its caller names. The package needs the standard library and package
// contracts only.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	work := func(ctx context.Context, lock once.Lock) (Receipt, error) {
//		return charge(ctx, order, lock.Token) // ctx ends before another can have the run
//	}
//	receipt, err := once.Do(ctx, c.Runs("default"), once.Key("order", order.ID), order, work, nil)
//
// A queue delivers at least once. [Run] stands between the queue and the work: it asks the gate for the run, refreshes
// the lock while the work runs, and writes the end under the lock's token.
//
//	      ┌────────── Acquire ──────────┐
//	      ▼                             ▼
//	not granted                      granted ───▶ work ──┬─ returns ──▶ Finish READY ───────────▶ Ready
//	AlreadyFinished, AlreadyFailed, Locked,       ▲  │   ├─ fails ────▶ Release, counted ───────▶ Retry
//	Unknown                               Refresh └──┘   │              or Finish FAILED ────────▶ Failed
//	                                  every Heartbeat    ├─ is stopped ▶ Release, not counted ───▶ Stopped
//	                                                     └─ loses the lock: nothing is written ──▶ Lost
//
// A work that succeeds after its lock has expired by the clocks of this process is finished all the same, if the gate
// accepts that: no other worker has begun, and the next one would do again what is done.
//
// # What a run is about
//
// Its name, and its input: what the work depends on and the name does not say. [Do] compares the [Fingerprint] of the
// input with that of the first call, so that no caller gets the result of another input. [Key] makes a name of parts.
//
// # The earlier result
//
// A run that had finished before does not begin again: Outcome.Result is what its work returned then. With
// Options.Wait, Run waits for the worker that has it now, and returns that one's result, or takes the run over if it
// dies.
//
// # Who decides
//
// The gate decides who runs, by its own clock. This package decides when to stop: it counts the lock's time from before
// the request that granted it, so that its expiry is early and never late, on two clocks of this process. The monotonic
// clock is right if the time is set; the wall clock is right if the machine slept and the monotonic clock stood still.
// The first of the two to reach the expiry counts. Setting a machine's clock forward can therefore cost a run; nothing
// can extend an expired one.
//
// # A process that was stopped
//
// A process can be stopped (SIGSTOP, a debugger, a frozen Lambda, a closed laptop) for longer than its lock. When it
// continues, the next statement of the work may run before any timer does. So the context of the work reads the clocks
// at each call of Err and Done, and [context.Cause] is right after them. Contexts derived from it are cancelled within
// a second; where that is too late, [Check] works with them. What was already sent cannot be stopped: that is what
// Lock.Token is for. Pass it on to whatever the work writes to.
//
// # What can go wrong
//
// A request whose response was lost is retried with the same request ID; each takes effect once. One for a run whose
// caller leaves, or to which the gate does not respond at all, is given up: see [Acquire].GiveUp. While the gate cannot
// be reached, the work continues until the lock expires. A work that does not stop when its context ends keeps Run
// waiting. If the end of the work could not be stored until the lock has expired, the status is [NotStored],
// and it is sent again in the background until the gate is back: see [Storing]. A worker
// that begins before does the work again.
package once
