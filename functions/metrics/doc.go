// Package metrics is the one place that measures: what requests end as, what stores do, and what is held.
//
// [Table] lists every instrument with its unit, its attributes and the question that it answers;
// docs/reference/metrics.md is written from it. A [Metrics] makes them with a meter of OpenTelemetry and is fed in two
// places:
//
//	functions/httpapi ──[Request] at the end of each exchange──▶ Metrics ──▶ metric.Meter ──▶ an exporter of the program
//	repo, adapters    ──[Metrics.Store] around the store───────▶
//
// Rules know nothing of it. A program without a meter has a nil *Metrics, which measures nothing and costs a
// comparison. The package imports the interface of OpenTelemetry alone; which SDK and which exporter there is, a
// program decides.
//
// The number of time series is bounded by the table: attributes have few values that are known beforehand. Keys, owners
// and subjects are never attributes, and tenants are only if [Options].Tenants says so.
package metrics
