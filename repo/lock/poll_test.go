package lock

import (
	"testing"
	"time"
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
		mode             Mode
		code             Code
		position         int64
		free, held       time.Duration
		want             time.Duration
	}{
		"does not wait":            {0, 0, 30, "", "", 0, far, 0, 0},
		"granted":                  {20, 0, 30, "", OK, 0, 0, 0, 0},
		"too late":                 {20, 0, 30, "", TooLate, 0, 0, 0, 0},
		"full":                     {20, 0, 30, "", QueueFull, 0, 0, 0, 0},
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
		"of three permits":         {20, 3, 30, Permits, "", 3, far, 0, s},
		"after three permits":      {20, 3, 30, Permits, "", 4, far, 0, 1800 * ms},
		"a short lease, next":      {20, 0, 1, "", "", 1, s, 0, 500 * ms},
		"a short lease, behind":    {20, 0, 4, "", "", 9, s, 0, 2 * s},
		"a rate":                   {20, 3, 0, Rate, "", 2, far, 0, 4 * s},
		"a rate, soon":             {20, 3, 0, Rate, "", 3, 1500 * ms, 0, 1500 * ms},
		"a rate, behind":           {20, 3, 0, Rate, "", 5, far, 0, 1800 * ms},
		"no line":                  {20, 0, 1, "", "", 0, far, 0, 1800 * ms},
		"no line, and free sooner": {20, 0, 30, "", "", 0, 300 * ms, 0, 450 * ms},
		"closed":                   {20, 0, 30, "", Delayed, 0, 40 * s, 0, 1800 * ms},
	} {
		command := Acquire{RequestID: request, WaitSeconds: c.wait, Mode: c.mode, Limit: c.limit, TTLSeconds: c.ttl}
		o := Outcome{Code: c.code, Position: c.position, RetryAfter: c.free}
		if o.Code == "" {
			o.Code = Held
		}
		if got := command.PollAfter(o, c.held); got != c.want {
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
