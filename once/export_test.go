package once

import "time"

// SetClock gives a run two clocks of its own.
func (o *Options) SetClock(read func() (monotonic, wall time.Time)) {
	o.clock = func() moment {
		monotonic, wall := read()
		return moment{monotonic, wall}
	}
}
