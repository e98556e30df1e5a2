// Package telemetry shows what a process does: traces and metrics, by the API of OpenTelemetry. What sends them
// somewhere is in the programs.
//
// There is one seam. [Store] is a store around another one that tells an [Observer] of each call and of the command
// that it belongs to:
//
//	functions/httpapi ──▶ repo/lock, … ──rule.Run──▶ Store ──▶ adapter
//	                                        │          │
//	                                        ▼          ▼
//	                              Observer.Observe   Observer.Call
//
// Without an observer there is no such store, and nothing is spent on it.
package telemetry
