package suite

import "testing"

// TestEndsBite: the programs of late requests notice a store that does not look at the end of a write.
func TestEndsBite(t *testing.T) {
	t.Run("placement", func(t *testing.T) { endsBite(t, LatePlacements) })
	t.Run("machine IDs", func(t *testing.T) { endsBite(t, LateMachineIDs) })
}
