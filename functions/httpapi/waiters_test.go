package httpapi

import (
	"context"
	"testing"
	"time"
)

// TestLongest: a response is held as long as its request asks for, as the server holds one, and as its platform allows,
// whichever is least.
func TestLongest(t *testing.T) {
	a := &api{frame: &frame{timeout: 10 * time.Second}}
	for _, c := range []struct{ setting, platform, asked, want time.Duration }{
		{20 * time.Second, 0, 7 * time.Second, 7 * time.Second},
		{5 * time.Second, 0, 7 * time.Second, 5 * time.Second},
		{0, 0, 7 * time.Second, 0},
		{20 * time.Second, 13 * time.Second, 7 * time.Second, 3 * time.Second},
		{2 * time.Second, 13 * time.Second, 7 * time.Second, 2 * time.Second},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.platform > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), c.platform)
		}
		a.maxWait = c.setting
		if got := a.longest(ctx, c.asked); got > c.want || got < c.want-time.Second {
			t.Errorf("%+v: %v", c, got)
		}
		cancel()
	}
}
