// Package leasehold is the front page of the module; it exports nothing. Leasehold is a coordination service for
// serverless functions, queue workers and cron jobs: locks with fencing tokens, work that runs once, machine IDs for
// 64-bit IDs, and identities that are each on one process of many. Every grant is a lease, with a holder, an end and a
// token that only ever increases, and all state is in a document store: Firestore, DynamoDB, Redis, or SQLite, which is
// embedded.
//
// A server is one command, go run ./cmd/leasehold serve, and a lock in a program is this:
//
//	server, err := client.New("http://127.0.0.1:8080", nil)
//	// …
//	holder, err := server.Locks("default", nil)
//	// …
//	defer holder.Close(ctx)
//	err = holder.Do(ctx, "deploy-prod", nil, func(ctx context.Context, l *locks.Lock) error {
//		return deploy(ctx, l.Token()) // ctx ends before the lease does
//	})
//
// What programs import:
//
//	client       a server, over HTTP: locks, runs, machine IDs, clusters
//	locks        hold a lock while you work: modes, lines, several at once, elections
//	once         run a function once, and give later callers its result
//	idempotency  the same for HTTP requests with an Idempotency-Key
//	fence        reject the tokens of leases that have ended: SQL, HTTP, object stores
//	kazahana     64-bit IDs that sort by time
//	cluster      put each of many identities on one process, with its state and its alarms
//
// What a server is made of:
//
//	contracts    the OpenAPI document, its types and its error codes
//	repo         the rules, and the port to storage (repo/docstore)
//	adapters     stores and queues behind the ports
//	functions    the entry points: HTTP, Lambda, Cloud Functions, queues, settings
//	emulator     emulators of stores and queues for tests; they promise nothing
//
// This package registers the entry points of Cloud Functions, whose builder looks for them in the root of a module. A
// deployment names one of
//
//	API     the HTTP API over Firestore
//	Tasks   the endpoint that Cloud Tasks delivers to: it runs analyses
//	Sweep   the endpoint that Cloud Scheduler calls: it queues stale analyses again
//
// ARCHITECTURE.md describes the packages and how a request flows.
package leasehold
