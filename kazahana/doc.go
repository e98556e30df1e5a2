// Package kazahana makes sortable 64-bit IDs from leased machine IDs: standard library only, no request per ID.
//
//	0 | 41 bits of milliseconds | 14 bits of machine ID | 8 bits of sequence
//
// A [Generator] holds one or more leases of machine IDs and counts within them. Asking costs one look at a clock and one
// atomic addition; a lease bears 256 IDs in a millisecond, and several leases bear a multiple.
//
// # Why no two IDs are equal
//
// A [Lease] is the right to one machine ID for an interval of timestamps, [Created, Expired). The provider never lets the
// intervals of a machine ID overlap, and the generator writes a timestamp into an ID only if it lies in the interval. It is
// the stamp that is tested, not a clock: so clocks that differ, that are set, or that stand still while a process is suspended
// can delay IDs, but cannot make two equal ones. Giving a lease back keeps the rule, too. The generator stops first, and signs
// a time that no stamp of its exceeds; the machine ID's next interval begins behind it.
//
// The IDs of one generator rise strictly, in all modes and across all changes between them. Leases are used in the order of
// their machine IDs, and what changes the set of usable leases takes effect with a new millisecond.
//
// # Modes
//
//	            first lease                 all leases over, and the last
//	waiting ─────────────────▶ leased ◀───────────────────────────────────▶ fallback, or an error
//	   │                                      attempt to acquire failed          ▲
//	   └─────────────────────────────────────────────────────────────────────────┘
//	                        the first attempt to acquire failed
//
// With a provider, a goroutine in the background acquires leases and replaces them when 85 to 95 % of their time have passed.
// Calls wait for an attempt only if there is no lease and no attempt has failed: at the start, and after a long suspension.
// Otherwise, while there is no lease, IDs are made in fallback mode, or refused with a [LeaseAcquisitionError] if
// [Options.DisableFallback] says so. Used-up sequences are no reason to fall back: callers wait for the next millisecond.
// Without a provider the generator is always in fallback mode.
//
// # Fallback
//
// A fallback ID has the highest bit of the machine ID set, so it never equals one made under a lease. The 21 bits below it
// begin at a random number, drawn anew for each millisecond, and count up from there. A process never repeats its own IDs.
// Two processes in fallback mode can make equal ones: with m IDs each in the same millisecond, with probability
// (2m-1)/2^21. The probability that some of k processes with one ID each in the same millisecond do:
//
//	k = 2      0.000 05 %
//	k = 10     0.002 %
//	k = 54     0.07 %
//	k = 256    1.5 %
//
// Many processes that together make 1000 fallback IDs a second have one duplicate in 70 minutes, with 10 000 a second one in
// 42 seconds. That bridges an outage; it is not meant to be production without a provider. [Stats] counts such IDs.
//
// The machine ID of the last lease is not used for fallback IDs: before the lease ends there is no need, and afterwards the
// provider may have leased it to somebody else, who would repeat every such ID and not one in two million.
//
// # Clocks
//
// Time comes from the steady clock of the process, tied to the wall clock about once a second and at each lease. A wall clock
// that is set back behind the last ID delays IDs up to [Options.MaxBackwardMs] and leads to a [ClockBackwardError] beyond. One
// that jumps forward by more than a second may be the sign of a process that was suspended, or copied with its memory: its
// leases are replaced at once. Two copies of a running process, such as clones of a virtual machine, share a lease until then
// and can make equal IDs; create generators after cloning.
//
// Under load, when sequences are used up, stamps may be up to 4 ms late, because timers are: the milliseconds that a late
// timer has missed are made up. Otherwise stamps show the time of the call, less [Options.BurstWindow].
//
// # Using IDs
//
// Store an [ID] as BIGINT and send it as a string. Its lowest bits are a sequence that begins at 0 in each millisecond, so a
// quiet service makes multiples of 256: hash IDs before taking them modulo a number of shards. IDs tell when they were made
// and count up; package extid turns them into what strangers may see.
package kazahana
