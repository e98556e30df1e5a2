package cluster

import (
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// WithClock makes a member read this clock.
func (o Options) WithClock(now func() time.Time) *Options {
	o.clock = func() term.Moment { return term.Of(now()) }
	return &o
}
