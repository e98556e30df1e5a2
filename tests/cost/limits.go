package cost

// Carries is what a store carries, by the documentation of the service or, for a store on a machine, by a measurement. Rates are per second.
type Carries struct {
	Store string

	// Document and Partition are the units that one document, and one partition of documents, take in a second; 0 is no bound of their own. Whole is
	// what all take together.
	Document, Partition, Whole float64

	// Unit is what is counted: what an operation uses of it, from its usage.
	Unit func(Usage) float64

	// Doubles says that Whole grows by half every five minutes under load.
	Doubles bool

	// Service is how long a request takes in the middle, without any other, in milliseconds.
	Service float64

	From string // where the numbers come from
}

func writes(u Usage) float64   { return u.Writes }
func requests(u Usage) float64 { return u.Requests }

// Stores are what the simulation knows of each store.
var Stores = []Carries{
	{
		Store: DynamoDB.Name, Document: 1000, Partition: 1000, Whole: 40_000, Unit: writes, Service: 6,
		From: "1,000 write units a second for a partition, 40,000 for a table with default quotas; a partition is split after some minutes under load, but an item never",
	},
	{
		Store: FirestoreStandard.Name, Document: 1, Whole: 500, Doubles: true, Unit: writes, Service: 15,
		From: "about one write a second for long to a document; 500 a second in a collection at first, and half as much again every five minutes",
	},
	{
		Store: "Redis", Whole: 25_000, Unit: requests, Service: 0.3,
		From: "one thread: 40 µs of processor time for a command, measured by `INFO commandstats` on one core",
	},
	{
		Store: "SQLite", Whole: 16_000, Unit: requests, Service: 1,
		From: "a sync of 1 ms that commits wait for together, and 60 µs for each: at most some 16,000 commits a second",
	},
}
