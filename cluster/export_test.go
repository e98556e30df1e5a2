package cluster

import "time"

// WithClock makes a member read this clock.
func (o Options) WithClock(now func() time.Time) *Options {
	o.clock = now
	return &o
}
