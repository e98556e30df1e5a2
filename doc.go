// Package leasehold registers the entry points of Leasehold for Cloud Functions, whose builder looks for them in the
// root of a module. It exports nothing; a deployment names one of
//
//	API     the HTTP API over Firestore: locks with fencing tokens, run-once gate of analyses, machine IDs
//	Tasks   the endpoint that Cloud Tasks delivers to: it runs analyses
//	Sweep   the endpoint that Cloud Scheduler calls: it queues stale analyses again
//
// Leasehold is a coordination service for serverless functions: every grant is a lease, with a holder, an expiry time
// and a fencing token that only ever increases, and all state is in a document store. The packages:
//
//	contracts        the OpenAPI document, types and error codes
//	kazahana, once   libraries: 64-bit IDs; running a function once under a lease
//	client           clients of a server
//	repo             the rules, and the port to storage (repo/docstore) through which they read and write
//	adapters         stores and queues behind the ports
//	functions        the entry points: the HTTP API (httpapi), callers (oidc), queues (tasks), settings, gcp and aws
//	cmd/leasehold    the command line, with a server that needs nothing else
//	emulator         emulators of Firestore, DynamoDB, Redis, SQS and Cloud Tasks for tests
//
// ARCHITECTURE.md describes the packages and how a request flows.
package leasehold
