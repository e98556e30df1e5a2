// Package cost says what Leasehold costs on stores that bill by use.
//
//	make costs
//
// prints the tables of docs/costs.md. Nothing in them is estimated from the code: count_test.go runs each operation on
// the emulators of the services and counts requests, billed units and, where a machine is paid for, commands and commits. prices.go
// has the dated list prices, the only file to change when they do.
//
// The tests compare the document with what the program makes of today's code, so that it cannot become stale; -update writes it.
package cost
