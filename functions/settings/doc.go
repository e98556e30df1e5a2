// Package settings is the one table of Leasehold's settings, and the one place that reads and checks them.
//
// [Table] lists every setting with its environment variable, flag, type, default, bounds, help and the entry points
// that take it. [Load] reads the settings of one entry point:
//
//	environment, flags ─▶ unknown LEASEHOLD_ variables ─▶ types and bounds ─▶ required ─▶ rules between settings ─▶ Config
//
// "leasehold serve" and "leasehold worker" make their flags from the table, the Cloud Functions and the Lambda
// functions read the same variables, and docs/reference/settings.md and the tables of the Terraform modules are written
// from it (make generate).
//
// An empty variable counts as not set, unless that would turn a check of callers off: such a variable must not be
// empty. An error names the variable or the flag that was set, the value unless it is secret, and what is allowed.
package settings
