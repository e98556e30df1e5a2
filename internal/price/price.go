// Package price has the list prices of what Leasehold runs on: the only file to change when they do. The tables of
// docs/reference/limits.md, which package tests/cost makes, and the counter of the demonstration take them from here.
package price

import "math"

// AsOf is when the list prices were read, and In where they apply. Free tiers, discounts, storage and traffic are left
// out.
const (
	AsOf = "2026-11"
	In   = "us-east-1 (AWS) and us-central1 (Google Cloud)"
)

// Billing is how a store bills what was counted.
type Billing struct {
	Name  string
	Write float64 // dollars for a million write units, or documents written
	Read  float64 // dollars for a million read units, or documents read
	Unit  string  // what a unit is
}

// Dollars is what a million operations cost that use so many units each; or, of so many units altogether, the millionth
// dollars that they cost.
func (b Billing) Dollars(writes, reads float64) float64 { return writes*b.Write + reads*b.Read }

// The stores that bill by use.
var (
	DynamoDB = Billing{
		"DynamoDB", 0.625, 0.125,
		"on demand, standard table class: a write unit for each KiB of an item, a read unit for each 4 KiB",
	}
	FirestoreStandard   = Billing{"Firestore Standard", 0.90, 0.30, "a document, whatever its size"}
	FirestoreEnterprise = Billing{
		"Firestore Enterprise", 0.26, 0.05,
		"a write unit for each KiB of a document and for each entry of an index, a read unit for each 4 KiB",
	}
)

// Function is how a platform bills functions.
type Function struct {
	Name     string
	Requests float64 // dollars for a million invocations, what stands before the function included
	Second   float64 // dollars for a second of the instance below
	Instance string
	Rounded  float64 // billed seconds are a multiple of this
}

// PerMillion is what a million requests to a function cost, each of which takes so many seconds.
func (f Function) PerMillion(seconds float64) float64 {
	return f.Requests + 1e6*f.Rounded*math.Ceil(seconds/f.Rounded-1e-9)*f.Second
}

// Functions are the platforms, with the smallest instance that suits.
var Functions = []Function{
	{"Lambda behind a function URL", 0.20, 0.128 * 0.0000133334, "arm64, 128 MB", 0.001},
	{"Lambda behind an HTTP API", 0.20 + 1.00, 0.128 * 0.0000133334, "arm64, 128 MB", 0.001},
	{"Cloud Run functions", 0.40, 1*0.000024 + 0.25*0.0000025, "1 vCPU, 256 MiB, one request at a time", 0.1},
}

// FunctionSeconds is how long one request keeps a function busy: an assumption, not a measurement. A conditional write
// to DynamoDB from a function took 6 to 7 ms in the middle and 12 to 14 ms at the 99th percentile (FaaSKeeper, HPDC
// 2024).
const FunctionSeconds = 0.010

// Machine is a virtual machine that runs all the time.
type Machine struct {
	Name string
	Hour float64 // dollars
}

// Day is what the machine costs in a day, in dollars.
func (m Machine) Day() float64 { return 24 * m.Hour }

// SmallMachine is what a store of one's own, or a node of a cluster of three, runs on.
var SmallMachine = Machine{"t3.small", 0.0208}

// FaaSKeeper is what the authors of FaaSKeeper, ZooKeeper on functions and cloud storage, published: HPDC 2024, doi
// 10.1145/3625549.3658661. A lock is a node that is created and deleted: two writes.
var FaaSKeeper = struct {
	WriteLeast, WriteMost float64 // dollars for a million writes at the prices of the paper
	DynamoDB              Billing // those prices
	// writes a day that cost what three small machines with ZooKeeper cost, as the paper has it
	BreakEven int
}{
	WriteLeast: 11.18, WriteMost: 13.60,
	DynamoDB:  Billing{"DynamoDB in 2024", 1.25, 0.25, ""},
	BreakEven: 131_000,
}
