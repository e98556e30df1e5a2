// Package firestoretest is an emulator of the Firestore API that runs inside a test: a gRPC server on a loopback port
// for the real client library, with transactions that exclude each other in both of the service's modes, and with
// faults on demand. It starts in a millisecond and needs nothing installed.
//
// It is experimental: any release may change or remove it.
//
//	s := firestore.Start(t, nil)                                       // closes with the test
//	client, err := sdk.NewClient(ctx, "my-project", s.ClientOptions()...) // cloud.google.com/go/firestore
//
// [Listen] starts one outside of tests; its [Server.Addr] is what FIRESTORE_EMULATOR_HOST takes. Projects and databases
// exist as soon as they are named, side by side, unless Options.Databases says which do.
//
// # What is there
//
// What Leasehold's adapter, its guides and its tests use:
//
//   - documents: BatchGetDocuments, in a transaction, at a time within the last hour, or now
//   - writes: Commit, all or nothing, with preconditions, update masks and server timestamps
//   - transactions: BeginTransaction and Rollback, of the kind that reads documents and writes
//   - queries: RunQuery outside of transactions, on collections and collection groups: comparisons that all hold,
//     ascending order, cursors, limit
//   - Listen, for documents
//
// Whatever else a request asks for is rejected with UNIMPLEMENTED and the name of the method or field; nothing is
// ignored silently. That holds for methods on single documents, lists, BatchWrite, the Write stream of browsers and
// devices, aggregations, increments and other transforms, masks of reads, queries in transactions, read-only
// transactions, projections, offsets, descending order, OR, IN and their like, PartitionQuery, pipelines, vectors and
// query explanation. REST is 501.
//
// # Who waits for whom
//
// In [Pessimistic] mode, a transaction locks every document that it reads, found or not. Reads share and wait for no
// one. A commit, in a transaction or not, is one step; it waits until no other transaction holds what it writes.
//
//	BeginTransaction ──▶ open ──read──▶ open, holds locks
//	                      ├─ Commit ──▶ waits ──▶ applied, or rejected by a precondition; closed
//	                      │               └─ lock timeout ─▶ ABORTED, closed
//	                      ├─ Rollback ─▶ closed
//	                      └─ left alone for 60 s, or open for 270 s ─▶ expired
//
// Commits that wait are served in the order in which they came. A read passes them, so that many readers can starve a
// writer. Of transactions that wait for each other, such as two that have read one document and both want to write it,
// the youngest is ABORTED at once. A transaction that names the one that it tries again (retry_transaction) keeps its
// age, so that each has its turn. A commit whose client gives up while it waits is withdrawn.
//
// In [Optimistic] mode, a transaction reads one snapshot, of the time of its first read, and locks nothing. Its Commit
// is ABORTED if it writes and a document that it read has changed since.
//
// # Time
//
// Times are whole microseconds of one clock for the whole server, which never goes back; every commit has its own. A
// server timestamp is the time at which the request came in, in milliseconds: never compare it with an update time. The
// response waits for the end of that millisecond, so that the next commit has a later one. A write that changes nothing
// keeps the update time.
//
// # Faults
//
// [Server.Inject] takes a rule: which requests, how many of them, and what they meet.
//
//	Fail           an error, and nothing done          a request that was lost, a quota, missing permission
//	ApplyThenFail  done, then an error                 a response that was lost; the generated client code sends a Commit
//	                                                   again by itself after UNAVAILABLE and RESOURCE_EXHAUSTED
//	ApplyLate      an error or none, and done later    DEADLINE_EXCEEDED that means "unknown", not "failed"
//	Delay          done later, response later          a slow service
//
// [Server.SetClockOffset] moves the server's clock, [Server.DropListeners] ends streams. After UNKNOWN,
// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED (a minute's pause), INTERNAL, UNAVAILABLE and UNAUTHENTICATED the Go client
// listens again, after other codes it gives up. [Server.Count] counts the requests of each method, retries included, so
// that a test can state exactly what an operation costs.
//
// # Unlike the official emulator
//
// The tests run the same random programs on the official emulator where one is installed, and compare codes, data and
// results. These are the known differences:
//
//   - A Commit whose client gives up while it waits for locks is withdrawn. There it is applied later.
//   - The official emulator ignores a transaction's concurrency mode and always locks. Here the mode is an option of
//     the server.
//   - There, transactions that wait for each other end by the lock timeout, 2 s later.
//   - There, a Commit takes more than 500 writes and documents of another database, and reads at a time go back further
//     than an hour.
//   - A listener that resumes is told everything again.
//   - Codes are the same, messages in part.
//   - There are no security rules.
//
// Unlike the service, no query needs an index, nothing limits the rate of writes, and no value is cut for comparison at
// 1,500 bytes. What is kept of the past is an hour, as there, and at most 1,000 versions of one document.
package firestoretest
