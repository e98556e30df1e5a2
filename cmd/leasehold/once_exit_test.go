package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// TestExitCodesOfOnce: what is not the command's own has a code that commands seldom have.
func TestExitCodesOfOnce(t *testing.T) {
	errLost := fmt.Errorf("%w: it expired", once.ErrLost)
	for name, c := range map[string]struct {
		out  once.Outcome
		code int
		says string
	}{
		"ready": {once.Outcome{Status: once.Ready}, 0, ""},
		"locked": {once.Outcome{Status: once.Locked, RetryAfter: time.Minute}, 120,
			"another worker runs a1; its lock expires in 1m0s unless it is refreshed"},
		"lost":    {once.Outcome{Status: once.Lost, Err: errLost}, 121, "the lock is lost: it expired"},
		"unknown": {once.Outcome{Status: once.Unknown}, 122, "there is no analysis a1; --create makes it"},
		"not stored": {once.Outcome{Status: once.Retry, Err: errors.New("no answer")}, 125,
			"the run of a1 failed, and may be tried again: no answer"},
		"too large": {once.Outcome{Status: once.Failed, Err: errors.New("the result is too large")}, 125,
			"a1 is FAILED: the result is too large"},
		"not found": {once.Outcome{Status: once.Retry, Err: once.Uncounted(notStarted(fs.ErrNotExist))}, 127,
			"the run of a1 failed, and may be tried again: file does not exist"},
		"no program": {once.Outcome{Status: once.Retry, Err: once.Uncounted(notStarted(fs.ErrPermission))}, 126,
			"the run of a1 failed, and may be tried again: permission denied"},
		"over time": {once.Outcome{Status: once.Stopped, Err: errors.New("over")}, 125, "the run of a1 was stopped: over"},
	} {
		err := (&onceCmd{Analysis: "a1"}).exit(c.out)
		code, says := 0, ""
		if err != nil {
			says = err.Error()
			code = report(t.Context(), err, false, &streams{&strings.Builder{}, &strings.Builder{}})
		}
		if code != c.code || says != c.says {
			t.Errorf("%s: got %d %q, want %d %q", name, code, says, c.code, c.says)
		}
	}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"a setting":      {usage("--ttl"), 125},
		"the server":     {contracts.Errorf(contracts.CodePermissionDenied, "no"), 125},
		"unreachable":    {&unreachableError{"gone", errors.New("refused")}, 118},
		"overloaded":     {contracts.Errorf(contracts.CodeOverloaded, "later"), 118},
		"rate limited":   {contracts.Errorf(contracts.CodeRateLimited, "later"), 118},
		"internal error": {contracts.Errorf(contracts.CodeInternal, "no"), 118},
		"damaged":        {contracts.Errorf(contracts.CodeDocumentDamaged, "no"), 125},
		"no command":     {notStarted(&exec.Error{Name: "x", Err: exec.ErrNotFound}), 127},
		"no program":     {notStarted(&exec.Error{Name: "x", Err: fs.ErrPermission}), 126},
		"here, not PATH": {notStarted(&exec.Error{Name: "x", Err: exec.ErrDot}), 126},
	} {
		if code := report(t.Context(), trouble(c.err), false,
			&streams{&strings.Builder{}, &strings.Builder{}}); code != c.code {
			t.Errorf("%s: %d, want %d", name, code, c.code)
		}
	}
}

// TestWindowName: the windows of --every have one name each, whatever the time zone, and begin at midnight and on
// Mondays.
func TestWindowName(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*3600)
	for _, c := range []struct {
		every time.Duration
		now   time.Time
		want  string
	}{
		{0, time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), "nightly"},
		{24 * time.Hour, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), "nightly@2026-11-22T00:00Z"},
		{24 * time.Hour, time.Date(2026, 11, 22, 23, 59, 59, 999, time.UTC), "nightly@2026-11-22T00:00Z"},
		{24 * time.Hour, time.Date(2026, 11, 23, 8, 59, 59, 0, tokyo), "nightly@2026-11-22T00:00Z"},
		{24 * time.Hour, time.Date(2026, 11, 23, 9, 0, 0, 0, tokyo), "nightly@2026-11-23T00:00Z"},
		// the Monday before that Sunday
		{7 * 24 * time.Hour, time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC), "nightly@2026-11-16T00:00Z"},
		{time.Hour, time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), "nightly@2026-11-22T13:00Z"},
		{15 * time.Minute, time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), "nightly@2026-11-22T13:00Z"},
		{15 * time.Minute, time.Date(2026, 11, 22, 13, 15, 0, 0, time.UTC), "nightly@2026-11-22T13:15Z"},
		{time.Minute, time.Date(2026, 11, 22, 13, 14, 15, 0, time.UTC), "nightly@2026-11-22T13:14Z"},
	} {
		if got := windowName("nightly", c.every, c.now); got != c.want {
			t.Errorf("every %v at %v: %s, want %s", c.every, c.now, got, c.want)
		}
	}
	for _, every := range []time.Duration{-time.Minute, time.Second, 59 * time.Second, 90 * time.Second,
		maxEvery + time.Minute} {
		_, err := (&onceCmd{TTL: time.Minute, Every: every, Command: []string{"true"}}).prepare()
		if err == nil || !strings.Contains(err.Error(), "--every "+every.String()+
			": must be whole minutes from 1m to 8784h") {
			t.Errorf("every %v: %v", every, err)
		}
	}
}
