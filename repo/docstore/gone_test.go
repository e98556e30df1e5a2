package docstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// late is a context whose timer has not noticed its deadline.
type late struct {
	context.Context //nolint:containedctx // it is one

	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// TestGone: what no caller waits for any more is gone when its deadline has passed, whether a timer has noticed or not;
// by either clock, because the monotonic one may have stood still while the process was stopped.
func TestGone(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context //nolint:containedctx // of one call
		want error
	}{
		{t.Context(), nil},
		{ended, context.Canceled},
		{late{t.Context(), time.Now().Add(time.Hour)}, nil},
		{late{t.Context(), time.Now().Add(-time.Second)}, context.DeadlineExceeded},
	} {
		if err := docstore.Gone(c.ctx); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	begin := time.Now()
	deadline := term.Of(begin.Add(10 * time.Second))
	for _, c := range []struct {
		monotonic, wall time.Duration // since then
		want            bool
	}{
		{9 * time.Second, 9 * time.Second, false},
		{10 * time.Second, 10 * time.Second, false},
		{11 * time.Second, 11 * time.Second, true},
		{0, 10 * time.Minute, true},
		{10 * time.Minute, -time.Hour, true},
	} {
		if got := docstore.Over(term.On(begin.Add(c.monotonic), begin.Add(c.wall)), deadline); got != c.want {
			t.Errorf("after %v and %v: %t", c.monotonic, c.wall, got)
		}
	}
}
