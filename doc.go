// Package leasehold registers the entry points of Leasehold for Cloud Functions, whose builder looks for them in the root
// of a module. It exports nothing; what a deployment names is
//
//	API     the HTTP API: locks with fencing tokens, over Firestore
//	Tasks   for a task queue; not in this version
//	Sweep   for a schedule; not in this version
//
// Leasehold is a coordination service for serverless functions: every exclusive right is a lease, with a subject, a
// holder, a fencing token and an interval of time, and all state lives in a document store. Where to look:
//
//	contracts        what callers are promised: the OpenAPI document, types, error codes
//	repo             the rules, and the port to storage (repo/docstore) through which they touch it
//	adapters         the stores behind the port
//	functions        the doors: the HTTP API (httpapi), who is it (oidc), Cloud Functions (gcp), Lambda (aws)
//	cmd/leasehold    the command line, with a server that needs nothing else
//	client           what programs that use Leasehold import
//	emulator         Firestore, DynamoDB and Redis for tests
//
// ARCHITECTURE.md tells how they work together.
package leasehold
