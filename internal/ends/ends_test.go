package ends_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/ends"
)

// client is a client whose clock is wrong, and the server whose time is that of the test.
type client struct {
	ends.Clock
	off time.Duration
}

func (c *client) begin() *client {
	c.Now = func() time.Time { return time.Now().Add(c.off) }
	return c
}

// date is what the server's header says now.
func date() time.Time { return time.Now().Truncate(time.Second) }

// ahead is how far the end of a request lies in the future of the server.
func (c *client) ahead(ctx context.Context, t *testing.T, try time.Duration) time.Duration {
	t.Helper()
	end, err := time.Parse(contracts.TimeFormat, c.End(ctx, try))
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(end)
}

// TestEnd: a request ends 2 s after its caller can use it no more.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := (&client{}).begin()
		soon, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		over, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		for _, tc := range []struct {
			name string
			ctx  context.Context //nolint:containedctx // of the case
			try  time.Duration
			want time.Duration
		}{
			{"a try", t.Context(), 15 * time.Second, 17 * time.Second},
			{"a try and a wait", t.Context(), 35 * time.Second, 37 * time.Second},
			{"the caller's deadline", soon, 35 * time.Second, 6 * time.Second},
			{"a try before the deadline", soon, time.Second, 3 * time.Second},
			{"a deadline that is over", over, 15 * time.Second, 2 * time.Second},
			{"a deadline alone", soon, 0, 6 * time.Second},
			{"no bound", t.Context(), 0, 30*time.Minute + 2*time.Second},
			{"a bound of hours", t.Context(), 3 * time.Hour, 30*time.Minute + 2*time.Second},
		} {
			if got := c.ahead(tc.ctx, t, tc.try); got != tc.want {
				t.Errorf("%s: the end is %v ahead, want %v", tc.name, got, tc.want)
			}
		}
		if got := c.End(t.Context(), time.Second); len(got) != len("2000-01-01T00:00:03.000Z") {
			t.Errorf("the end is %q, which is not the contract's form", got)
		}
	})
}

// TestLearn: the server's time is learned from Date if the own clock differs by more than 2 s, up to the second that
// Date does not say.
func TestLearn(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour, -3 * time.Second, 4 * time.Second, 0, -time.Second} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(400 * time.Millisecond)
			c := (&client{off: off}).begin()
			c.Learn(time.Time{}, 0)
			if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second+off {
				t.Fatalf("a clock off by %v has moved by %v without a Date", off, got-3*time.Second-off)
			}
			c.Learn(date(), 0)
			got := c.ahead(t.Context(), t, time.Second) - 3*time.Second
			switch small := off.Abs() < 2*time.Second; {
			case small && got != off:
				t.Errorf("a clock off by %v has moved by %v", off, got-off)
			case !small && (got < -time.Second || got > time.Second):
				t.Errorf("a clock off by %v is off by %v after a Date", off, got)
			}
		})
	}
}

// TestLearnFromASlowResponse: Date may have been said at any moment of the exchange, so a clock that is right stays
// right, and one that is wrong moves no further than must be.
func TestLearnFromASlowResponse(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{0, 10 * time.Second, 20 * time.Second} { // the header
		synctest.Test(t, func(t *testing.T) {
			c, wrong := (&client{}).begin(), (&client{off: time.Hour}).begin()
			time.Sleep(before)
			said := date()
			time.Sleep(20*time.Second - before)
			c.Learn(said, 20*time.Second)
			if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second {
				t.Errorf("a clock that is right has moved by %v", got-3*time.Second)
			}
			wrong.Learn(said, 20*time.Second)
			if got := wrong.ahead(t.Context(), t, time.Second) - 3*time.Second; got.Abs() > 21*time.Second {
				t.Errorf("a clock off by an hour is off by %v after a Date", got)
			}
		})
	}
}

// TestCorrect: the store's time counts from then on, and no Date undoes it.
func TestCorrect(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := (&client{off: off}).begin()
			store := time.Now().Add(-10 * time.Minute) // of which the server's Date knows nothing
			c.Correct(time.Time{}, 0)
			c.Learn(date(), 0)
			c.Correct(store, 0)
			for range 3 {
				c.Learn(date(), 0)
				if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second-10*time.Minute {
					t.Errorf("the end is %v ahead of the store's time, want 3s", got+10*time.Minute)
				}
			}
			c.off += time.Hour // it is set while the client runs
			if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second+50*time.Minute {
				t.Errorf("after the clock was set, the end is %v ahead", got)
			}
			c.Correct(store, 0)
			if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second-10*time.Minute {
				t.Errorf("after another correction, the end is %v ahead of the store's time, want 3s", got+10*time.Minute)
			}
		})
	}
}

// TestSetWhileRunning: a clock that is set while the client runs is right again after the next Date.
func TestSetWhileRunning(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := (&client{}).begin()
			c.Learn(date(), 0)
			c.off = step
			c.Learn(date(), 0)
			if got := c.ahead(t.Context(), t, time.Second) - 3*time.Second; got.Abs() > time.Second {
				t.Errorf("a clock that was set by %v is off by %v", step, got)
			}
			c.off = 0 // and back
			c.Learn(date(), 0)
			if got := c.ahead(t.Context(), t, time.Second) - 3*time.Second; got.Abs() > time.Second {
				t.Errorf("a clock that was set back by %v is off by %v", step, got)
			}
		})
	}
}

// TestRefused: only an error that has the store's time is the refusal of an end.
func TestRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := (&client{off: time.Hour}).begin()
		for _, err := range []error{nil, errors.New("reset"), contracts.CodeTooLate, contracts.Errorf(contracts.CodeTooLate, "")} {
			if c.Refused(err, 0) {
				t.Errorf("%v has no time of the store", err)
			}
		}
		e := contracts.Errorf(contracts.CodeTooLate, "")
		e.StoreTime = time.Now()
		if !c.Refused(fmt.Errorf("acquire: %w", e), 0) {
			t.Errorf("%v has the store's time", e)
		}
		if got := c.ahead(t.Context(), t, time.Second); got != 3*time.Second {
			t.Errorf("the end is %v ahead, want 3s", got)
		}
	})
}
