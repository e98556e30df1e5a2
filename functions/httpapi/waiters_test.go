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
	for name, c := range map[string]struct {
		wait, limit, ttl int64
		mode             lock.Mode
		code             lock.Code
		position         int64
		free, held       time.Duration
		want             time.Duration
	}{
		"does not wait":            {ttl: 30, free: time.Minute},
		"granted":                  {wait: 20, ttl: 30, code: lock.OK},
		"too late":                 {wait: 20, ttl: 30, code: lock.TooLate},
		"full":                     {wait: 20, ttl: 30, code: lock.QueueFull},
		"held as long as asked":    {wait: 20, ttl: 30, position: 1, free: time.Minute, held: 20 * time.Second},
		"nearly":                   {wait: 20, ttl: 30, position: 1, free: time.Minute, held: 18 * time.Second},
		"a second, as asked":       {wait: 1, ttl: 30, position: 1, free: time.Minute, held: time.Second},
		"a second, not held":       {wait: 1, ttl: 30, position: 1, free: time.Minute, held: 3 * time.Millisecond, want: 997 * time.Millisecond},
		"next":                     {wait: 20, ttl: 30, position: 1, free: time.Minute, want: time.Second},
		"next, and free sooner":    {wait: 20, ttl: 30, position: 1, free: 300 * time.Millisecond, want: 300 * time.Millisecond},
		"next, and free at once":   {wait: 20, ttl: 30, position: 1, free: time.Millisecond, want: 50 * time.Millisecond},
		"next, and free unknown":   {wait: 20, ttl: 30, position: 1, want: time.Second},
		"held for a while":         {wait: 20, ttl: 30, position: 1, free: time.Minute, held: 400 * time.Millisecond, want: 600 * time.Millisecond},
		"held for long":            {wait: 20, ttl: 30, position: 1, free: time.Minute, held: 5 * time.Second, want: 50 * time.Millisecond},
		"second":                   {wait: 20, ttl: 30, position: 2, free: 300 * time.Millisecond, want: 1800 * time.Millisecond},
		"fourth":                   {wait: 20, ttl: 30, position: 4, free: time.Minute, want: 3600 * time.Millisecond},
		"hundredth":                {wait: 20, ttl: 30, position: 100, free: time.Minute, want: 3600 * time.Millisecond},
		"of three permits":         {wait: 20, ttl: 30, mode: lock.Permits, limit: 3, position: 3, free: time.Minute, want: time.Second},
		"after three permits":      {wait: 20, ttl: 30, mode: lock.Permits, limit: 3, position: 4, free: time.Minute, want: 1800 * time.Millisecond},
		"a short lease, next":      {wait: 20, ttl: 1, position: 1, free: time.Second, want: 500 * time.Millisecond},
		"a short lease, behind":    {wait: 20, ttl: 4, position: 9, free: time.Second, want: 2 * time.Second},
		"a rate":                   {wait: 20, limit: 3, mode: lock.Rate, position: 2, free: time.Minute, want: 4 * time.Second},
		"a rate, soon":             {wait: 20, limit: 3, mode: lock.Rate, position: 3, free: 1500 * time.Millisecond, want: 1500 * time.Millisecond},
		"a rate, behind":           {wait: 20, limit: 3, mode: lock.Rate, position: 5, free: time.Minute, want: 1800 * time.Millisecond},
		"no line":                  {wait: 20, ttl: 1, free: time.Minute, want: 1800 * time.Millisecond},
		"no line, and free sooner": {wait: 20, ttl: 30, free: 300 * time.Millisecond, want: 450 * time.Millisecond},
		"closed":                   {wait: 20, ttl: 30, code: lock.Delayed, free: 40 * time.Second, want: 1800 * time.Millisecond},
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
