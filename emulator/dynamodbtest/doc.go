// Package dynamodbtest is a DynamoDB in memory for tests: it speaks the service's protocol over HTTP, so that the real
// AWS SDK talks to it, and it makes happen on purpose what no emulator does by itself.
//
// It is experimental: any release may change or remove it.
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
// What Leasehold's adapter, its guides and its tests use: CreateTable, DescribeTable, ListTables, UpdateTable,
// UpdateTimeToLive, DescribeTimeToLive, PutItem, GetItem, UpdateItem, DeleteItem, Query, Scan, TransactWriteItems and
// TransactGetItems, with
//
//   - tables that are paid per request, keys of S, N and B with and without a sort key, global secondary indexes with
//     whole items or with keys only; UpdateTable creates or deletes one index at a time;
//   - condition, filter, update and key condition expressions on attributes as a whole, with reserved words, unused and
//     undefined placeholders, and attributes that are changed twice;
//   - numbers of 38 digits, compared and normalised as numbers;
//   - the limits: 400 KB items, 2048 and 1024 byte keys, 32 levels, 100 items and 4 MB in a transaction, 1 MB in a
//     page, 4 KB and 300 operators in an expression;
//   - ClientRequestToken, which makes a transaction idempotent for 10 minutes;
//   - ReturnConsumedCapacity TOTAL with the service's prices. [Server.Consumed] adds them up, including conditional
//     writes that were rejected, which cost as well.
//
// # What is not
//
// Every member of a request, every operation and every option that the server lacks is rejected with an error that says
// "emulator/dynamodbtest does not support"; nothing is ignored. That holds for batches, DeleteTable, projections, paths
// into an attribute, sets, the functions contains, size and list_append, IN, parallel scans, local indexes, provisioned
// throughput, streams, encryption and tags, the parameters that expressions replaced (Expected, AttributeUpdates,
// KeyConditions and their kin), ARNs as table names, backups, PartiQL and global tables. Signatures are required and
// not verified. Without a fault, throughput is never used up and no read is late. Time to live deletes nothing until
// [Server.ExpireNow] is called: on the service an expired item may stay for days.
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
