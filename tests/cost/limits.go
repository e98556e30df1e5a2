package cost

import "github.com/leasehold-dev/leasehold/internal/price"

// Carries is what a store takes in a second, by the documentation of the service or, on a machine, by a measurement.
type Carries struct {
	Store string

	// Document, Tenant and Whole are how many units one document, all documents of a tenant, and all together take in a
	// second. 0 is no bound of their own.
	Document, Tenant, Whole float64

	// Unit is what an operation uses of it.
	Unit func(Usage) float64

	// Doubles says that what a tenant takes grows by half with every five minutes of load.
	Doubles bool

	// Burst is for how many seconds what was not used can be used later: so that callers that come at the same moment do
	// not wait.
	Burst float64

	// Service is how long an operation takes by itself, in milliseconds.
	Service float64

	From string // where the numbers are from
}

func writes(u Usage) float64   { return u.Writes }
func requests(u Usage) float64 { return u.Requests }

// Stores is what the simulation knows.
var Stores = []Carries{
	{
		Store: price.DynamoDB.Name, Document: 1000, Tenant: 1000, Whole: 40_000, Unit: writes, Burst: 1, Service: 13,
		From: "1,000 write units a second for a partition, which an item never leaves and a tenant begins with: under load the service splits it. 40,000 for a table by default quotas",
	},
	{
		Store: price.FirestoreStandard.Name, Document: 1, Tenant: 500, Doubles: true, Unit: writes, Burst: 10, Service: 40,
		From: "about one write a second for long on a document; 500 a second on a collection, which a tenant's locks are, and half as much again after every five minutes. No documented bound for all",
	},
	{
		Store: "Redis", Whole: 20_424, Unit: requests, Service: 0.4,
		From: "one thread: 10,212 cycles a second of 64 callers on two cores that they shared with the server, all of it synced",
	},
	{
		Store: "SQLite", Whole: 35_400, Unit: requests, Service: 3,
		From: "one writer, whose commits wait for a sync together: 17,700 cycles a second of 64 callers on two cores, without HTTP",
	},
}
