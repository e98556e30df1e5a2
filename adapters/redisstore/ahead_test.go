package redisstore_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestRedisThatWasAhead: everything is held on a Redis whose clock is a day ahead, which is then started again with a
// clock that is right. Nothing stays closed for a day.
func TestRedisThatWasAhead(t *testing.T) {
	t.Parallel()
	server := redistest.StartAhead(t, 24*time.Hour, "--appendonly", "yes", "--appendfsync", "always")
	suite.ClockThatWasAhead(t, open(t, server, nil), func() { server.SetRight(t) })
}
