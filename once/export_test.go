package once

import "time"

// SetClock gives a run two clocks of its own.
func (o *Options) SetClock(read func() (steady, wall time.Time)) {
	o.clock = func() moment {
		steady, wall := read()
		return moment{steady, wall}
	}
}
