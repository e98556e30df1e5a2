package prove

import "testing"

// TestLatest: locks that each request takes from the one before, in histories in which the store's time can be told: a
// request that is delivered late ends no later one's lease.
func TestLatest(t *testing.T) {
	t.Parallel()
	for i := range uint64(24) {
		seed := i/2*16 + i%2
		if events, broken := Replay(seed); broken != nil {
			for _, e := range events[max(0, len(events)-60):] {
				t.Log(e)
			}
			t.Fatalf("seed %d: %v", seed, broken)
		}
	}
}
