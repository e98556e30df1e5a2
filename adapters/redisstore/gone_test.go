package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
)

// unnoticed is a context whose deadline may have passed without its timer: so it is in a process that was stopped and
// goes on.
type unnoticed struct {
	context.Context //nolint:containedctx // it is one, with another deadline

	deadline time.Time
}

func (c unnoticed) Deadline() (time.Time, bool) { return c.deadline, true }

// TestCallsOfThoseWhoAreGone: what waits for its turn is not written once its caller has gone, or its time has passed.
func TestCallsOfThoseWhoAreGone(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of a case
		want bool
	}{
		"no deadline":  {t.Context(), true},
		"an hour left": {unnoticed{t.Context(), time.Now().Add(time.Hour)}, true},
		"no time left": {unnoticed{t.Context(), time.Now().Add(-time.Millisecond)}, false},
		"canceled":     {gone, false},
	} {
		if got := redisstore.Sent(c.ctx); got != c.want {
			t.Errorf("%s: it is sent: %v, want %v", name, got, c.want)
		}
	}
}
