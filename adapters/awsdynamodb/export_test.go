package awsdynamodb

import "time"

// ReadClock gives a store both clocks of its machine.
func (s *Store) ReadClock(read func() (wall time.Time, monotonic time.Duration)) { s.clock.read = read }
