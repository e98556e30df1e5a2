// Package machineid leases machine IDs for 64-bit ID generators: [Service] is the [kazahana.LeaseProvider] over any
// store.
//
// # The interval rule
//
// A lease of a machine ID is the right to make IDs with the timestamps in [created, expired), and with no others. For
// every machine ID the store keeps notBefore: all timestamps before it are taken, none from it on is.
//
//	grant    only if notBefore <= now:   created = now, expired = now + duration, notBefore = expired
//	release  signed at ts:               notBefore = ts + 1, but never before created and never later than it was
//
//	            created           ts          expired
//	────────────────┼──────────────┼──────────────┼───────────▶ timestamps of one machine ID
//	 taken before   │ this lease   │ released     │ free
//	                └─ notBefore ──▶ moves right with a grant; a release moves it left, behind what was stamped
//
// So the intervals of one machine ID never overlap, and no two IDs are equal. This needs no clock to be right. A now
// that lies behind finds notBefore ahead of it and grants nothing; a now that is ahead begins its interval late; a
// writer that was paused between its read and its write either finds the page changed, and writes nothing, or writes
// the interval that was free and still is. The holder compares the timestamp inside the ID with its interval, not its
// clock with a deadline, so a wrong clock can cost it IDs and never makes two equal. For the same reason no store keeps
// a margin after a lease: margins protect against two holders that run at once, and here that is harmless.
//
// A release trusts the holder in one thing: that it stamps nothing after the timestamp that it signed.
//
// # Spaces, units, pages
//
// A space is a set of machine IDs that are never leased twice at once. It is divided into units, 8192 at the default
// layout, and a unit is a slot in a page. Services with different layouts may share a space: machine ID and sequence
// are always the same bits of an ID, so a lease with 2^k times the sequence is an aligned run of 2^k units, and runs of
// all sizes come out of one table. The document "space" keeps what can never change. Where leases become smaller than
// the units, the page that they are leased from is written again with its units split: servers with old and new widths
// go on with the same pages.
//
//	space ──▶ up to 256 pages ──▶ 128 slots each: notBefore, and the lease that holds it
//
// # Atomicity
//
// An acquire reads one page at random, decides by a pure function, and writes the page on the condition that its
// revision is still the one that was read: two requests for any number of leases. It takes the slots that have been
// free for longest, so that a machine ID is not used again at once. A page without enough free slots leads to one read
// of all pages, after which it is known where they are, or that there are none: then the error says when the next one
// becomes free.
//
// # Leases of several sizes
//
// Where leases of a space have several sizes, small ones must not take a part of everything that a large one needs
// whole. In a page, a lease goes into the smallest aligned gap that holds it, and among equal ones into that which has
// been free for longest. Among pages, the largest leases of the space begin at one end and all others at the other: an
// acquire reads a page of its half, then some more of its half and one beyond, then all. Only where no such page has
// space does it take another, so a lease is always granted while a free aligned group of units exists.
//
// # Missing documents
//
// Documents are never deleted, because notBefore lives in them. The first acquire of a space creates all its pages, and
// then the document of the space says that it is complete. A page that is missing from then on was deleted, by hand or
// by a time to live. Who leased from it is not known any more, so it is created again with all its slots taken until
// the longest lease that it can have held has ended, a day later. The other pages go on. If the document of the space
// is missing itself, nothing is leased. On the usual path that costs nothing: the page is read anyway, and the document
// of the space once in each process.
//
// # What can go wrong
//
// A write whose response was lost may be retried by the store's own library, and then fails its own condition. The
// document found then holds the secrets that were drawn for it, and the result is the grant. If no response arrives at
// all, the slots stay taken until their leases expire: lost for a while, and never leased twice. A grant that took so
// long that half of it is over is not handed out. If fewer machine IDs are free than requested, a caller gets one, so
// that as many callers as possible can work.
//
// Restoring a backup of the store, or deleting all documents of a space, forgets what was leased since: wait for as
// long as the longest lease lasts before serving again.
//
// # Who
//
// A service that is not configured leases as [DefaultServiceID] does, and is counted by its own name. An administrator
// ends the leases of holders that are gone with [Service.ForceRelease].
package machineid
