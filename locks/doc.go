// Package locks holds locks while a program works: it waits for a lock, renews it, says at once when it is lost, and
// releases it. It needs the standard library and the libraries of this module only.
//
// What decides is a [Provider]: client.LockAPI.For over HTTP, or functions/direct on a store.
//
//	server, err := client.New("http://127.0.0.1:8080", nil)
//	c, err := server.Locks("default", nil) // or direct.NewLocks(store, "default", nil)
//	defer c.Close(ctx)
//
//	err = c.Do(ctx, "deploy-prod", nil, func(ctx context.Context, l *locks.Lock) error {
//		return deploy(ctx, l.Token()) // ctx ends before another can have the lock
//	})
//
// [Client.TryLock] and [Client.Lock] return a [Lock] instead, which is to be unlocked: their ctx bounds the acquire
// alone. One that no one has any more, nor its context, is not renewed, and expires: see [Forgotten].
//
// # States
//
//	        Lock, Do                 Unlock, or the work returns
//	free ───────────────▶ held ──────────────────────────────────▶ released
//	       (Waiting)      │  ▲ │
//	                      └──┘ │ not renewed in time, taken or forced, MaxHold, forgotten
//	                   Renewed │
//	                           └─────▶ lost: the context ends with ErrLost
//
// # Several holders, and a line
//
// LockOptions also says how many may hold a lock: readers or a writer (Shared), or so many at a time (Permits). Those
// who wait are then served in the order in which they came, as with Fair, and MaxWaiting bounds how many they are. With
// Replace the latest has the lock. [Client.Take] bounds how often something is done.
//
//	err = c.Do(ctx, "reports", &locks.LockOptions{Permits: 3}, report)                      // three at a time
//	err = c.Do(ctx, "deploy", &locks.LockOptions{Fair: true, MaxWaiting: 1}, deploy)         // one runs, one waits, others get LOCK_QUEUE_FULL
//	token, err := c.Take(ctx, "mail", locks.Rate{Limit: 10, Window: time.Minute}, nil)       // ten a minute
//
// # Who decides
//
// The provider decides who has the lock, by its own clock. This package decides when to stop: it counts the lease from
// before the request that granted or extended it was sent, or so much later as the provider says that it waited, on the
// monotonic clock and on the wall clock, and the first of the two to reach the end counts. The lock's context ends a
// tenth of the lease earlier (LockOptions.Margin), so that the work can stop while no one else has the lock. A response
// that comes late extends nothing.
//
// # A process that was stopped
//
// A process can be stopped (SIGSTOP, a debugger, a frozen Lambda, a closed laptop) for longer than its lease. When it
// continues, the next statement of the work may run before any timer does. So the context of the lock reads the clocks
// at each call of Err and Done. Contexts derived from it end within a second; where that is too late, [Check] works
// with them. What was already sent cannot be stopped: that is what [Lock.Token] is for. Pass it on to whatever the work
// writes to, which rejects a lower one than it has seen.
//
// # What can go wrong
//
// A request whose response was lost is sent again with the same request_id; each takes effect once. While the provider
// cannot be reached, the work goes on until the context ends, and each renewal that fails is an [Event]. If a lock
// cannot be released, that is tried again until its lease ends. An acquire that is given up leaves nothing held: its
// request is sent again in the background, and what it obtained is released. A provider that hangs delays no other
// lock, and one that sends anything but the lease that was asked for has granted nothing.
package locks
