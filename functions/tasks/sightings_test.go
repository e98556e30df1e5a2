package tasks

import (
	"strconv"
	"testing"
	"time"
)

// TestManyMessagesWithoutAnAnalysis: however many messages wait for documents that never come, each is dead at last.
// None begins its grace anew because of the others.
func TestManyMessagesWithoutAnAnalysis(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Minute // each comes again twice in it
	for _, messages := range []int{maxSightings, maxSightings + 1, 10 * maxSightings} {
		var s sightings
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		dead, now := map[int]bool{}, begin
		most := time.Duration((messages+maxSightings-1)/maxSightings) * 3 * grace
		for ; len(dead) < messages && now.Sub(begin) <= most; now = now.Add(grace / 2) {
			for m := range messages {
				if !dead[m] && now.Sub(s.first(strconv.Itoa(m), now, grace)) >= grace {
					dead[m] = true
				}
			}
			if len(s.since) > maxSightings {
				t.Fatalf("%d messages are remembered", len(s.since))
			}
		}
		if len(dead) < messages {
			t.Errorf("%d messages: %d wait after %v", messages, messages-len(dead), now.Sub(begin))
		}
	}
}
