package locks

import "github.com/leasehold-dev/leasehold/internal/term"

// WithClock are the options with another clock.
func (o Options) WithClock(c term.Clock) *Options {
	o.clock = c
	return &o
}
