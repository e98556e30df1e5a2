package driver

import (
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Billed counts the units that a service bills, for [docstore.Meter]. The zero value is ready for use.
type Billed struct {
	reads, writes atomic.Int64 // in thousandths: there are halves
}

const perUnit = 1000

// Read counts units of reading.
func (b *Billed) Read(units float64) { b.reads.Add(int64(units * perUnit)) }

// Wrote counts units of writing.
func (b *Billed) Wrote(units float64) { b.writes.Add(int64(units * perUnit)) }

// Sum is what was counted.
func (b *Billed) Sum() docstore.Billed {
	return docstore.Billed{Known: true, Reads: float64(b.reads.Load()) / perUnit,
		Writes: float64(b.writes.Load()) / perUnit}
}
