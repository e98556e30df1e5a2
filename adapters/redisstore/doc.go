// Package redisstore keeps the documents of Leasehold in Redis, version 7 or later, or in what speaks its protocol.
//
// # Who decides
//
// Redis decides, in one Lua script for each write, of however many documents. Redis runs one script at a time and
// nothing beside it. The script reads the documents, evaluates all conditions, and either changes everything or
// nothing; it returns the document after the write, or as much of it as the write asks for, or the documents that
// rejected it. A write is one round trip, a read of several documents is one, a page of a list is two.
//
//	Write ─▶ EVALSHA ─▶ read all ─▶ check all ─┬─ rejected, damaged ─▶ the documents found
//	                                           └─ ZADD MSET ────────▶ what is read after
//
// Rules write in few shapes: the same condition on the same fields and the same fields set, with other values. Each
// shape becomes a script of its own (shape.go, write.lua) that interprets nothing; the server learns it with the first
// write. Several writes have one for the shapes that they are of, however many documents there are (several.lua). What
// is rarer brings its text along, as an argument of one script that runs it (carry.lua): a server may keep a script
// until it ends, so a store tells it 256 at most.
//
// Requests of many callers go out together (line.go): one that comes while the connections are busy waits for the next
// to be free, and shares its way with all that came meanwhile. With appendfsync always, they share a sync as well.
//
// A script that fails half-way is not undone. The script therefore checks all that can fail before it changes anything,
// and Redis checks its own memory, disk and role before it starts one. What remains is a user with permission for some
// of the commands only; [Open] rejects that.
//
// # What is stored where
//
//	{leasehold}:doc:locks/acme/deploy%2Fprod   text: the fields of the document, and when it ends in milliseconds since 1970, or 0
//	{leasehold}:ids:locks/acme                 sorted set: the IDs of a kind and tenant, all with the score 0
//	{leasehold}:tenants                        sorted set: the kinds and tenants that have documents, as locks/acme
//	{leasehold}:ends                           sorted set: documents that end, by when they do in milliseconds since 1970
//	{leasehold}:by:analyses/                   sorted set: the indexes of a kind and tenant, see index.lua; there is none before the first Due
//	{leasehold}:own                            text: generation, writes, floor; indexed, indexes, and for each KIND/FIELD what index.lua says;
//	                                           the latest write of each of 16 stores, see stop.lua; what counters go on from, see server.lua
//	{leasehold}:server                         text: which server the documents are on, see server.lua
//
// The part in braces, Options.Prefix, decides the slot of a cluster. With one shard, all keys of a store are in one
// slot, and so on one member of the cluster. With several (Options.Shards), what stands above exists once for each: the
// part in braces is {leasehold/0}, {leasehold/1} and so on, and the shard of a document is that of its tenant, so that
// a script may touch all documents of a tenant. Then {leasehold}:own is a sorted set with the number of shards. Each
// store looks at it before anything else, and one that was opened with another number fails: it would find no
// documents, and grant what is held.
//
// Texts are MessagePack, which Redis' Lua reads and writes in C. In a document
//
//	"ACTIVE"                 text is text
//	42                       a whole number is a number
//	true                     so is a boolean
//	1767225630000.5          a time is its milliseconds since 1970 and a half: no other number has a fraction
//	"\xffx\x00\x01"          bytes, behind a byte that text does not have
//	"\xffm{\"build\":\"991\"}"  a map, as JSON
//
// A value in any other form is foreign: the port reads it as [docstore.Opaque] and leaves it as it is. Programs may
// keep fields of their own in a document, with a script. One that they create themselves, with false for its end, is
// found by its key and appears in lists after the first write of Leasehold. No key ever gets an expiry, and none may
// get one by hand: a lock would be free before its time.
//
// # Documents that are not there any more
//
// What the store keeps of itself, in one text for each shard, begins with a random generation, which is as old as the
// documents, and the number of writes so far; the latest write of each store that writes stands at its end. Every
// script compares them with what its caller knows, and does nothing else if they do not fit: the server was emptied,
// the address leads to another one, or acknowledged writes are lost.
// The store then fails with an error that says what to do, reads and readiness as well. It is the same round trip.
//
// What one process notices, all know. The script that finds too few writes puts lost: before the generation, in the
// same step, and no script of any process fits any more (stop.lua). With several shards, the process marks the others
// then, before its call returns, and goes on until all have the mark or tokens were raised: where the server cannot be
// written to, as soon as it can; where a further failover has taken the mark away, again. Processes that start find the
// mark. After leasehold store raise-tokens the generation says how often tokens were raised, as NAME.1, and all
// processes go on by themselves ([Store.TokensRaised]). One that knows of a raise that the server has lost stops as
// well.
//
// Lost writes are noticed with the next call of the process that made them, whatever others have written since, and by
// processes that had seen them, unless others have made as many since.
// After a backup was restored, or a failover lost writes, run leasehold store raise-tokens.
//
// # Another server
//
// Tokens do not repeat, whoever notices. With the first script of each connection the store looks whether the server is
// another than before (server.lua): started again, or a replica that has become the primary. It may have forgotten
// grants then, and no counter is increased that is below the server's time of that moment ([docstore.BehindError]).
//
// # Sentinels
//
// With [Options].SentinelMaster the store asks Sentinels for the server, whenever it connects, and follows a failover.
//
// # Whose clock
//
// The server's. [docstore.Now] is its TIME, cut to milliseconds, read when the script starts; the clocks of the callers
// play no part. If that clock is set back, or if a replica whose clock is behind becomes the primary, leases last
// longer than they should.
//
// # What is acknowledged, and what survives
//
// Redis acknowledges a write when it is in memory. A fencing token that is issued and then lost is issued again, so the
// settings matter: with appendonly yes and appendfsync always a write is on
// the disk before it is acknowledged and survives the loss of power. With everysec, the default of the append-only
// file, a second of acknowledged writes may be lost; without the file, all since the last snapshot. Replication is
// asynchronous: after a failover, what the replica had not received yet is gone, whatever the disk of the other
// holds. [Store.Warnings] says what [Open] found.
//
// # Lost responses
//
// A write without a response may have been applied. It is sent again only if its own condition then certainly fails, of
// a step that of one of its writes: what its caller sees is the document with its effect, in which it recognises its
// own request. All else ends with [docstore.ErrUnavailable], and the caller decides. What was certainly not executed is
// sent again after a pause: no connection could be made, or the server reports that it is loading, not the primary, or
// busy. So is a read.
//
// A try without a response ends after 2.5 seconds, unless a URL names another time (read_timeout), and the next one is
// sent on a new connection: the idle ones may be as dead.
//
// # What else can go wrong
//
// The server may be out of memory, unable to write to its disk or without the replicas that it wants: those are
// [docstore.ErrUnavailable], and nothing was changed. A user or password that is not accepted, and a command that is
// forbidden, are errors of their own with a text that says what to do. A key of another type is
// [docstore.ErrDamaged]. No error shows a password.
package redisstore
