// Package gcp wires Leasehold to Firestore for Cloud Functions and Cloud Run. The package at the root of the module
// registers what is here under the names that a deployment chooses from:
//
//	API     the HTTP API
//	Tasks   the worker's door, to which Cloud Tasks delivers: POST /internal/tasks/analysis
//	Sweep   the scheduler's door: POST /internal/sweep
//
// # An instance's life
//
//	start ─▶ settings are read ─▶ first request: the store is opened ─▶ every request uses it
//	                                     │ cannot be opened: UNAVAILABLE, and the next request tries again
//
// Requests that arrive while the store is being opened wait for it, each as long as its own deadline allows.
//
// # Settings
//
//	GOOGLE_CLOUD_PROJECT          project of the database; default: that of the credentials
//	LEASEHOLD_DATABASE            database; default (default)
//	LEASEHOLD_ROOT                document under which Leasehold's documents are; default: the database's root
//	LEASEHOLD_AUTH_ISSUER         OpenID Connect issuer whose tokens are accepted; without it nobody's are
//	LEASEHOLD_AUTH_AUDIENCE       audience that tokens must be meant for; required with an issuer
//	LEASEHOLD_AUTH_JWKS_URL       where the issuer's keys are, if not where its discovery document says
//	LEASEHOLD_AUTH_TENANT_CLAIM   claim that names the tenant; default tenant_id
//	LEASEHOLD_AUTH_ADMIN_SCOPE    scope that may force-release; default leasehold:admin
//	LEASEHOLD_AUTH_WORKER_SCOPE   scope that may run analyses; default leasehold:worker
//	LEASEHOLD_AUTH_LEEWAY         how far the issuer's clock may be off; default 30s
//	LEASEHOLD_TENANT              one tenant for all callers, in place of a claim
//	LEASEHOLD_SUBJECTS            with LEASEHOLD_TENANT: the subjects that belong to it, with commas between them
//	LEASEHOLD_WORKERS             subjects that may run analyses without the worker's scope, with commas between them
//	LEASEHOLD_ID_SERVICES         services that machine IDs are leased to, as a JSON list; default: one service, default
//	FIRESTORE_EMULATOR_HOST       an emulator in place of Firestore
//	LEASEHOLD_DEVELOPMENT         1, with an emulator and without an issuer: believe every caller on this machine
//
// Those of the functions Tasks and Sweep, beside the first three and the last two:
//
//	LEASEHOLD_TARGET_URL          Tasks: where analyses are run; without it the function says so
//	LEASEHOLD_TARGET_TOKEN        Tasks: bearer token for the target
//	LEASEHOLD_TARGET_TOKEN_FILE   Tasks: file with it, such as a mounted secret; read for each run
//	LEASEHOLD_TARGET_AUDIENCE     Tasks: in its place, an ID token of the function's own account for this audience
//	LEASEHOLD_TTL                 Tasks: how long a lock lasts without a heartbeat; default 5m
//	LEASEHOLD_HEARTBEAT           Tasks: between heartbeats; default a fifth of the ttl
//	LEASEHOLD_MAX_FAILURES        Tasks: runs that may fail before the analysis turns FAILED; default 5
//	LEASEHOLD_ON_LOCKED           Tasks: what the queue hears while somebody else runs the analysis: retry (default) or ack
//	LEASEHOLD_TASK_TIMEOUT        both: time for one run; default 10m, at most 30m and a little less than the function's own
//	LEASEHOLD_TASK_AUTH           both: token (default), or platform: Cloud Run checks callers (IAM), and nobody here does
//	LEASEHOLD_TASK_ACCOUNT        both: service account whose tokens the tasks carry; required unless the platform checks
//	LEASEHOLD_TASK_AUDIENCE       both: audience of these tokens; default LEASEHOLD_TASK_URL
//	LEASEHOLD_TASK_ISSUER         both: their issuer; default https://accounts.google.com
//	LEASEHOLD_TASK_QUEUE          Sweep: projects/P/locations/L/queues/Q; without it the function says so
//	LEASEHOLD_TASK_URL            Sweep: where that queue delivers, https://…/internal/tasks/analysis
//	LEASEHOLD_SWEEP_ACCOUNT       Sweep: service account of the scheduler's tokens; default LEASEHOLD_TASK_ACCOUNT
//	LEASEHOLD_MAX_TAKEOVERS       Sweep: an analysis that was taken over this often becomes FAILED; default 5
//	LEASEHOLD_REQUEUE_EVERY       Sweep: a queued analysis that nobody has begun is queued again after this; default 15m
//	LEASEHOLD_SWEEP_GRACE         Sweep: how long a lock must have been over; default none
//	CLOUD_TASKS_EMULATOR_HOST     Sweep: an emulator in place of Cloud Tasks
//
// # Callers with Google's identities
//
// A service account calls with an ID token of the issuer https://accounts.google.com, for an audience such as the
// service's URL. The subject is then the account's numeric ID. Such tokens have no claim for a tenant, so set
// LEASEHOLD_TENANT. Everybody with a Google account can get a token for any audience, so LEASEHOLD_SUBJECTS is required
// with this issuer.
//
// If Cloud Run checks callers too (IAM), it takes the signature off the token that it has checked, and what is left proves
// nothing to anybody. The caller sends Cloud Run's token in X-Serverless-Authorization, and Leasehold's, which may be
// the same, in Authorization: Cloud Run then leaves Authorization as it is. Cloud Tasks and Cloud Scheduler cannot: either
// everybody may invoke the service and Leasehold checks the token, or IAM does and LEASEHOLD_TASK_AUTH is platform.
package gcp
