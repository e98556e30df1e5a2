// Package dynamodbtest is a DynamoDB in memory for tests: it speaks the service's protocol over HTTP, so that the real
// AWS SDK talks to it, and it makes happen on purpose what no emulator does by itself.
//
//	s := dynamodb.Start(t, nil)                        // closes with the test
//	client := sdk.New(sdk.Options{BaseEndpoint: &s.URL, Region: "eu-north-1", Credentials: anyStatic})
//
// A [Server] is an [net/http.Handler] too, for a listener of your own, and [Server.RoundTripper] connects a client to
// it without a network, inside a testing/synctest bubble for instance.
//
// # How it works
//
//	body ──decode──▶ request ──faults──▶ run, one at a time ──faults──▶ response
//	                    │                   │
//	                    │                   └─ tables, indexes and the capacity they consumed
//	                    └─ an unknown member is an error
//
// One mutex guards everything, so every request is atomic and all of them are serializable. A table is ready when
// CreateTable responds. Texts and shapes of errors are the service's, as far as they are known.
//
// # What is supported
//
// CreateTable, DescribeTable, ListTables, UpdateTable, DeleteTable, TagResource, UntagResource, ListTagsOfResource,
// UpdateTimeToLive, DescribeTimeToLive, PutItem, GetItem, UpdateItem, DeleteItem, Query, Scan, BatchGetItem, BatchWriteItem,
// TransactWriteItems and TransactGetItems, with
//
//   - keys of S, N and B with and without a sort key, global and local secondary indexes with every projection;
//   - the whole grammar of condition, filter, update, projection and key condition expressions, with reserved words,
//     unused and undefined placeholders, overlapping paths;
//   - numbers of 38 digits, compared and normalised as numbers;
//   - the limits: 400 KB items, 2048 and 1024 byte keys, 32 levels, 100 items and 4 MB in a transaction, 25 and 100 in a
//     batch, 1 MB in a page, 4 KB and 300 operators in an expression;
//   - ClientRequestToken, which makes a transaction idempotent for 10 minutes;
//   - billing modes, throughput, streams, encryption and table classes, which are kept and shown and change nothing else: a
//     stream has no records;
//   - ReturnConsumedCapacity with the service's prices. [Server.Consumed] adds them up, including conditional writes that
//     were rejected, which cost as well.
//
// # What is not
//
// Every member of a request, every operation and every option that the server lacks is rejected with an error that says
// "emulator/dynamodbtest does not support"; nothing is ignored. That holds for the parameters that expressions replaced
// (Expected, AttributeUpdates, KeyConditions and their kin), ReturnItemCollectionMetrics SIZE, ARNs as table names,
// reading streams, backups, PartiQL and global tables. Signatures are required and not verified. Without a
// fault, throughput is never used up and no read is late; batches are never left half done. Time to live deletes
// nothing until [Server.ExpireNow] is called: on the service an expired item may stay for days.
//
// # Faults
//
// [Server.Inject] takes a rule, [Fault]: which requests (operation, table, key, or a function of yours), how many of
// them, and what happens. The response or the connection can be lost after the write was applied, which is how an SDK
// comes to repeat a conditional write against itself; transactions can conflict or be in progress; reads without
// ConsistentRead can be stale; the Date header can be wrong; a request can be throttled, rejected or delayed. See
// [Kind] for all of them.
//
//	s.Inject(dynamodb.Fault{Kind: dynamodb.DropAfter, Op: "UpdateItem", Times: 1})
//
// [Server.Count] and [Server.Requests] say how many requests reached the server, so that a test can assert that an
// operation costs exactly one.
package dynamodbtest
