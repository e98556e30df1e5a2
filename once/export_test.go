package once

import (
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// SetClock gives a run two clocks of its own.
func (o *Options) SetClock(read func() (monotonic, wall time.Time)) {
	o.clock = func() term.Moment { return term.On(read()) }
}

// Canonical is what a fingerprint is made of.
func Canonical(value any) ([]byte, error) { return canonical(value) }
