// Package gcp connects Leasehold to Firestore and Cloud Tasks for Cloud Functions and Cloud Run. The package at the
// root of the module registers these functions:
//
//	API     the HTTP API
//	Tasks   the endpoint that Cloud Tasks delivers to: POST /internal/tasks/analysis
//	Sweep   the endpoint that Cloud Scheduler calls: POST /internal/sweep
//
// # Life of an instance
//
//	start ─▶ first request: settings are read, the store is opened ─▶ all requests use it
//	                            │ error: UNAVAILABLE, the log has the reason, the next request tries again
//
// Requests that arrive while the store is being opened wait for it until their own deadlines.
//
//	SIGTERM ─▶ runs of Tasks are cancelled and release their locks, other requests finish, within 9 s ─▶ the last metrics and spans are sent ─▶ the process ends
//
// Cloud Run kills the process 10 s after SIGTERM, and the framework would end it at once. The functions take the signal
// over with their first request.
//
// # Metrics and traces
//
// A function that is built with the tag leasehold.otlp sends metrics and spans by OTLP if a variable of OpenTelemetry
// asks for it, such as OTEL_EXPORTER_OTLP_ENDPOINT. Without the tag the SDK is not linked.
//
// # Settings
//
// Settings are environment variables; the package settings and docs/reference/settings.md list them.
//
// # Callers with Google identities
//
// A service account calls with an ID token of the issuer https://accounts.google.com, for an audience such as the
// service's URL. The subject is the account's numeric ID. Such tokens have no claim for a tenant: set
// LEASEHOLD_AUTH_TENANT. Every Google account can get a token for any audience, so LEASEHOLD_AUTH_SUBJECTS is required
// with this issuer.
//
// If Cloud Run verifies callers too (IAM), it removes the signature of the token that it has verified, and the rest
// proves nothing. The caller then sends Cloud Run's token in X-Serverless-Authorization and Leasehold's, which may be
// the same, in Authorization: Cloud Run leaves Authorization unchanged. Cloud Tasks and Cloud Scheduler cannot do this:
// either everyone may invoke the service and Leasehold verifies the token, or IAM does and LEASEHOLD_TASK_AUTH is
// platform.
package gcp
