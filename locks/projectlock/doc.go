// Package projectlock is the lock of a project: of the folder that a program saves to, in the background and from
// several processes. It needs the standard library and packages of this module only.
//
// [New] makes a [Project]. Its methods are the five functions of the browser's project lock, in Go's form:
//
//	acquireProjectLock   Project.Acquire     takes the lock; four retries after 500, 1000, 2000 and 4000 ms
//	renewProjectLock     Project.Renew       30 s from now on; the caller renews every 20 s
//	releaseProjectLock   Project.Release     frees the lock
//	withProjectLock      Project.With        acquires, renews while a function runs, releases
//	subscribeLockEvents  Project.Subscribe   what happens, in order: lock:acquired, lock:retry, …
//
//	            contended, or an error that may pass: lock:retry, 4 times
//	              ┌──────┐
//	              ▼      │                            ┌── every 20 s: lock:renewed
//	Acquire ──▶ attempt ─┴─▶ lock:acquired ──▶ lease ─┴─▶ Release ──▶ lock:released
//	              │                             │            └──────▶ lock:cleanup-warning: the lock could not be removed
//	              └─▶ lock:error                └─▶ lost: it expired, or another process has the lock
//	                  lock-unavailable              lock-renewal-failed: acquire again
//
// # The file
//
// By default the lock is the file .lock in the project's folder, which names the lease and when it expires. Both scopes
// share it. No other file is created, changed or removed, and the folder itself must exist.
//
// The file is created with O_EXCL. One whose time has passed, by the clock of the process that looks and the time that
// its writer named, is an orphan, and is taken over by writing to it; a damaged file counts as one that was written
// when it was last changed. Whatever changes or removes an existing file does so under the kernel's lock on it (flock;
// a handle that is not shared on Windows), after having read it again. So of two processes that find the same orphan
// one gets it, a renewal never overwrites a lease that has taken over, and a release removes its own file only, however
// long a process was stopped between two steps. The kernel's lock ends with the process, so that a crash leaves an
// orphan and nothing else. On a filesystem without such locks no lease is granted.
//
// Processes on one machine have one clock. Over a network filesystem the clocks of the machines must agree to well
// below 30 s, and its locks must work between machines.
//
// # The service
//
// With Options.Service the lock is one of a Leasehold service, or of a store, under the name imgponic:project:autosave
// or imgponic:project:history. Neither backend falls back to the other: a process that cannot reach the service would
// have the file, and another one the service's lock.
//
// # What a lease is worth
//
// A lease says how far it excludes others, [Lease.Reach]. A lease of the service has a fencing token; one of the file
// has none, so that nothing can reject a write that its holder sent before it was stopped and that arrives later.
// [Lease.Token] is an error then.
package projectlock
