// Package observability has no code: alerts, dashboards and their tests. README.md says how to use them.
package observability
