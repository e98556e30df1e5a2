package cost

import (
	"fmt"

	"github.com/leasehold-dev/leasehold/internal/price"
)

// Usage is what an operation was counted to use of a store.
type Usage struct {
	Requests float64 // round trips to the store; commits of a SQLite file
	Writes   float64 // write units, or documents written
	Reads    float64 // read units, or documents read
}

// Times is the usage of n of it.
func (u Usage) Times(n float64) Usage { return Usage{n * u.Requests, n * u.Writes, n * u.Reads} }

// On is what a million of it costs in dollars, at the prices of a store.
func (u Usage) On(b price.Billing) float64 { return b.Dollars(u.Writes, u.Reads) }

// Operations that are counted. The text is how the tables name them.
const (
	Cycle       = "cycle: acquire and release"
	Renew       = "renew"
	Held        = "acquire, held by another"
	Expired     = "acquire, of a lease that has expired"
	Look        = "look at a lock"
	SharedCycle = "cycle beside another holder, `shared`"
	SharedRenew = "renew beside another holder, `shared`"
	SharedHeld  = "acquire of a writer beside readers"
	SetCycle    = "cycle of three locks together"
	Run         = "run of an analysis: acquire and finish"
	Refresh     = "heartbeat of a run"
	Finished    = "message about an analysis that has finished"
	Running     = "message about an analysis that is running"
	MachineIDs  = "lease of a machine ID"
)

// Products are counted as how often something is sent, at most, and what it takes.
const (
	WaitMinute    = "minute in which requests wait for a lock, on one server"
	MachineIDHour = "hour of one generator of IDs"
)

// Operations are all, in the order of the tables.
var Operations = []string{
	Cycle, Renew, Held, Expired, Look, WaitMinute, SharedCycle, SharedRenew, SharedHeld, SetCycle, Run, Refresh, Finished,
	Running, MachineIDs, MachineIDHour,
}

// Counted is what was counted on a store.
type Counted struct {
	Store   string
	Bill    *price.Billing // nil: a machine is paid for, not requests
	Usage   map[string]Usage
	Entries map[string]Entries // nil on stores whose indexes are billed, or have none that one did not ask for
}

// Entries are how many entries an operation adds to indexes and removes from them.
type Entries struct {
	All      float64 // of those that a store makes by itself
	Declared float64 // with the exemptions that Leasehold declares
}

// Of returns the usage of an operation. It panics if that was not counted, because a table must not show a zero for it.
func (c Counted) Of(operation string) Usage {
	u, ok := c.Usage[operation]
	if !ok {
		panic(fmt.Sprintf("cost: %q was not counted on %s", operation, c.Store))
	}
	return u
}

// find returns what was counted on a store, nil if it was not.
func find(all []Counted, store string) *Counted {
	for i := range all {
		if all[i].Store == store {
			return &all[i]
		}
	}
	return nil
}
