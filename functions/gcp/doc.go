// Package gcp wires the HTTP API to Firestore for Cloud Functions and Cloud Run. The package at the root of the module
// registers what is here under the names that a deployment chooses from.
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
//	LEASEHOLD_AUTH_LEEWAY         how far the issuer's clock may be off; default 30s
//	LEASEHOLD_TENANT              one tenant for all callers, in place of a claim
//	LEASEHOLD_SUBJECTS            with LEASEHOLD_TENANT: the subjects that belong to it, with commas between them
//	FIRESTORE_EMULATOR_HOST       an emulator in place of Firestore
//	LEASEHOLD_DEVELOPMENT         1, with an emulator and without an issuer: believe every caller on this machine
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
// the same, in Authorization: Cloud Run then leaves Authorization as it is.
package gcp
