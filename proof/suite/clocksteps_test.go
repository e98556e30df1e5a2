package suite

import "testing"

// TestClockSteps: nothing stays closed because the store's clock was wrong.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	ClockSteps(t, onMemory)
}
