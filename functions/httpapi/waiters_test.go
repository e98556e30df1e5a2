package httpapi

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestPollAfter: who is next in line comes again every second, or when the lock is free if that is sooner; the others
// later, but in time to claim what the line has granted to them; and no one comes earlier than after 50 ms.
func TestPollAfter(t *testing.T) {
	const request = "r943" // of which spread makes 0.9
	if got := spread(time.Second, request); got != 900*time.Millisecond {
		t.Fatalf("a second becomes %v", got)
	}
	const (
		ms, s = time.Millisecond, time.Second
		far   = time.Minute
	)
	for name, c := range map[string]struct {
		wait, limit, ttl int64
		mode             lock.Mode
		code             lock.Code
		position         int64
		free, held       time.Duration
		want             time.Duration
	}{
		"does not wait":            {0, 0, 30, "", "", 0, far, 0, 0},
		"granted":                  {20, 0, 30, "", lock.OK, 0, 0, 0, 0},
		"too late":                 {20, 0, 30, "", lock.TooLate, 0, 0, 0, 0},
		"full":                     {20, 0, 30, "", lock.QueueFull, 0, 0, 0, 0},
		"held as long as asked":    {20, 0, 30, "", "", 1, far, 20 * s, 0},
		"nearly":                   {20, 0, 30, "", "", 1, far, 18 * s, 0},
		"a second, as asked":       {1, 0, 30, "", "", 1, far, s, 0},
		"a second, not held":       {1, 0, 30, "", "", 1, far, 3 * ms, 997 * ms},
		"next":                     {20, 0, 30, "", "", 1, far, 0, s},
		"next, and free sooner":    {20, 0, 30, "", "", 1, 300 * ms, 0, 300 * ms},
		"next, and free at once":   {20, 0, 30, "", "", 1, ms, 0, 50 * ms},
		"next, and free unknown":   {20, 0, 30, "", "", 1, 0, 0, s},
		"held for a while":         {20, 0, 30, "", "", 1, far, 400 * ms, 600 * ms},
		"held for long":            {20, 0, 30, "", "", 1, far, 5 * s, 50 * ms},
		"second":                   {20, 0, 30, "", "", 2, 300 * ms, 0, 1800 * ms},
		"fourth":                   {20, 0, 30, "", "", 4, far, 0, 3600 * ms},
		"hundredth":                {20, 0, 30, "", "", 100, far, 0, 3600 * ms},
		"of three permits":         {20, 3, 30, lock.Permits, "", 3, far, 0, s},
		"after three permits":      {20, 3, 30, lock.Permits, "", 4, far, 0, 1800 * ms},
		"a short lease, next":      {20, 0, 1, "", "", 1, s, 0, 500 * ms},
		"a short lease, behind":    {20, 0, 4, "", "", 9, s, 0, 2 * s},
		"a rate":                   {20, 3, 0, lock.Rate, "", 2, far, 0, 4 * s},
		"a rate, soon":             {20, 3, 0, lock.Rate, "", 3, 1500 * ms, 0, 1500 * ms},
		"a rate, behind":           {20, 3, 0, lock.Rate, "", 5, far, 0, 1800 * ms},
		"no line":                  {20, 0, 1, "", "", 0, far, 0, 1800 * ms},
		"no line, and free sooner": {20, 0, 30, "", "", 0, 300 * ms, 0, 450 * ms},
		"closed":                   {20, 0, 30, "", lock.Delayed, 0, 40 * s, 0, 1800 * ms},
	} {
		command := lock.Acquire{RequestID: request, WaitSeconds: c.wait, Mode: c.mode, Limit: c.limit, TTLSeconds: c.ttl}
		o := lock.Outcome{Code: c.code, Position: c.position, RetryAfter: c.free}
		if o.Code == "" {
			o.Code = lock.Held
		}
		if got := pollAfter(command, o, c.held); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestSpread: of many requests some come after three quarters of the time, some after five, and each always the same.
func TestSpread(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for n := range 10_000 {
		id := string(rune('a'+n%26)) + time.Duration(n).String()
		d := spread(time.Second, id)
		if d != spread(time.Second, id) {
			t.Fatalf("%s: another time", id)
		}
		least, most = min(least, d), max(most, d)
	}
	if least < 750*time.Millisecond || least > 760*time.Millisecond || most > 1250*time.Millisecond ||
		most < 1240*time.Millisecond {
		t.Errorf("from %v to %v", least, most)
	}
}

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
