// Package cost says what Leasehold costs on stores that bill by use, and how much load each store carries.
//
//	make costs
//
// prints the tables of docs/reference/limits.md. No cost in them is estimated from the code: count_test.go runs each
// operation on the emulators of the services and counts requests, billed units and, where a machine is paid for,
// commands and commits. package price has the dated list prices, and limits.go what the services document of their
// limits.
//
// The tests compare the page with what the program makes of today's code, so that it cannot become stale; -update
// writes it.
package cost
