package docstore

import "time"

// Usage is what a store has asked of its service since it was opened, for metrics. The numbers only grow, but for those
// of the clock and of the warnings.
type Usage struct {
	Requests  int64 // that were sent, with those that were sent again; of SQLite, transactions that were committed
	Retries   int64 // that were sent again; of SQLite, attempts at the lock of the file
	Throttled int64 // that the service rejected because there were too many
	Warnings  int   // now: what is set up in a way that can cost data, see the adapter's Warnings

	Billed Billed
	Clock  Clock
	Log    Log
}

// Log is the write-ahead log that a store keeps in a file.
type Log struct {
	Known bool // false for a store that has none
	Bytes int64
}

// Billed is what the service bills by use, as far as its responses tell: requests whose response was lost are not among
// it. On DynamoDB the units are those of capacity, for reads and writes; on Firestore they are documents, which is what
// its Standard edition bills.
type Billed struct {
	Known         bool // false for a store that is not billed by use, or that was not asked to count
	Reads, Writes float64
}

// Clock is what a store without a clock of its own knows of the caller's.
type Clock struct {
	Known bool // false before it was measured, and for a store that has a clock
	// by which the service's clock is ahead of the caller's: the smallest that its responses allow
	Offset      time.Duration
	Uncertainty time.Duration // between the smallest and the largest offset that they allow
}

// Meter is for a store that counts what it asks of its service.
type Meter interface {
	Usage() Usage
}

// Impaired is for a store whose calls succeed although it may be losing documents at the time: readiness asks it.
type Impaired interface {
	// Impaired is what is wrong, and what to do, for people; nil while the store knows of nothing. It asks the service
	// nothing.
	Impaired() error
}
