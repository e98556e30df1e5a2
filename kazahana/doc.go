// Package kazahana makes 64-bit IDs that sort by time, from leased machine IDs: standard library only, no request per
// ID. The name is the Japanese word for snowflakes that flutter in the wind from a clear sky.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	ids, err := kazahana.New(c.MachineIDs(), &kazahana.Options{ServiceID: "payments"})
//	id, err := ids.NextID(ctx) // and ids.Close(ctx) at the end
//
//	0 | 41 bits of milliseconds | 14 bits of machine ID | 8 bits of sequence
//
// A [Generator] holds one or more leases of machine IDs and counts within them. An ID costs one clock read and one
// atomic addition. A lease carries 256 IDs per millisecond, several leases a multiple.
//
// # Why no two IDs are equal
//
// A [Lease] is the right to one machine ID for an interval of timestamps, [Created, Expired). The provider never lets
// the intervals of a machine ID overlap, and the generator writes a timestamp into an ID only if it lies in the
// interval. The timestamp is checked, not a clock. Clocks that differ, that are set, or that stop while a process is
// suspended can delay IDs, but cannot make two equal ones. Releasing a lease keeps the rule: the generator stops first
// and signs a time that no timestamp of its IDs exceeds; the next interval of the machine ID begins after it.
//
// The IDs of one generator increase strictly, in all modes and across all changes between them. Leases are used in the
// order of their machine IDs, and a change of the usable leases takes effect with a new millisecond.
//
// # Modes
//
//	            first lease                 all leases expired, and the last
//	waiting ─────────────────▶ leased ◀───────────────────────────────────▶ fallback, or an error
//	   │                                      attempt to acquire failed          ▲
//	   └─────────────────────────────────────────────────────────────────────────┘
//	                        the first attempt to acquire failed
//
// With a provider, a background goroutine acquires leases and replaces them when 85 to 95 % of their time have passed.
// Calls wait for an attempt only if there is no lease and no attempt has failed: at the start, and after a long
// suspension. Otherwise, without a lease, IDs are made in fallback mode, or fail with a [LeaseAcquisitionError] if
// [Options.DisableFallback] is set. Used-up sequences do not cause a fallback: callers wait for the next millisecond.
// Without a provider the generator is always in fallback mode.
//
// A fallback is never silent: [Options.Log] gets one warning when the provider grants no leases and one line when it
// does again. And it does not hide a mistake: if there never was a lease and what the provider sends is no lease
// (another URL, a missing token, an unknown service), calls fail with a [ConfigurationError].
//
// # Fallback
//
// A fallback ID has the highest bit of the machine ID set, so it never equals one made under a lease. A process never
// repeats its own IDs; two processes in fallback mode can make equal ones.
//
// After a lease, the bits below are its machine ID (those of all last leases, if there were several) and a sequence
// that begins at a random number, drawn anew for each millisecond, and counts up to its end: 128 IDs in a millisecond
// on average. Processes that were cut off together had different machine IDs and make no equal IDs. If one was cut off
// earlier, another process may have leased its machine ID afterwards, and been cut off as well: the two make equal IDs
// in one of 256 milliseconds in which both make one.
//
// Without a lease before, the 21 bits begin at a random number, drawn anew for each millisecond. Two such processes
// with m IDs each in the same millisecond make equal ones with probability (2m-1)/2^21. Many that together make 1000
// IDs a second have one duplicate in 70 minutes, with 10 000 a second one in 42 seconds. Fallback bridges an outage; it
// does not replace a provider in production. [Stats] counts such IDs.
//
// # Clocks
//
// Time comes from the monotonic clock of the process, compared with the wall clock about once a second and at each
// lease. A wall clock that is set back behind the last ID delays IDs up to [Options.MaxBackwardMs] and causes a
// [ClockBackwardError] beyond. A jump forward by more than a second may mean that the process was suspended, or copied
// with its memory: its leases are replaced at once, and not used for fallback IDs. Until then two copies of a running
// process, such as clones of a virtual machine, share a lease and can make equal IDs; create generators after cloning.
//
// Under load, when sequences are used up, timestamps may be up to 4 ms late, because timers are: the milliseconds that
// a late timer has missed are used. Otherwise timestamps show the time of the call, less [Options.BurstWindow].
//
// # Using IDs
//
// Store an [ID] as BIGINT and send it as a string. Its lowest bits are a sequence that begins at 0 in each millisecond,
// so a quiet service makes multiples of 256: hash IDs before taking them modulo a number of shards. IDs show when they
// were made and count up; package extid converts them to public IDs, which do not.
package kazahana
