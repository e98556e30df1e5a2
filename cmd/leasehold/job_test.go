package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/once"
)

// TestJobFlags: what no job can be is refused, with the name of the flag and what is allowed.
func TestJobFlags(t *testing.T) {
	for _, c := range []struct {
		f    jobFlags
		says string
	}{
		{jobFlags{Every: "0"}, "--every 0: must be hour, day or week, or whole seconds from 1s to 3660d"},
		{jobFlags{Every: "-1h"}, "--every -1h: must be hour, day or week, or whole seconds from 1s to 3660d"},
		{jobFlags{Every: "1500ms"}, "--every 1500ms: must be hour, day or week, or whole seconds from 1s to 3660d"},
		{jobFlags{Every: "87841h"}, "--every 87841h: must be hour, day or week, or whole seconds from 1s to 3660d"},
		{jobFlags{Every: "month"}, "--every month: must be hour, day or week, or a duration such as 90m"},
		{jobFlags{Every: "60"}, "--every 60: must be hour, day or week, or a duration such as 90m"},
		{jobFlags{Every: "24h"}, "say --every day, or a duration that is shorter"},
		{jobFlags{Every: "60m"}, "say --every hour, or a duration that is shorter"},
		{jobFlags{Every: "168h"}, "say --every week, or a duration that is shorter"},
		{jobFlags{Every: "90m", At: "23:00"}, "--at 23:00: goes with --every day or week"},
		{jobFlags{Every: "90m", TZ: "UTC"}, "--tz UTC: goes with --at, or --every hour, day or week"},
		{jobFlags{Every: "hour", At: "23:00"}, "--at 23:00: goes with --every day or week"},
		{jobFlags{At: "25:00"}, `--at "25:00": must be a time of day from 00:00 to 23:59`},
		{jobFlags{At: "Mon 23:00", Every: "day"}, `--at "Mon 23:00": must be a time of day from 00:00 to 23:59`},
		{jobFlags{At: "Noday 23:00"}, `"Noday" is no day of the week`},
		{jobFlags{TZ: "Asia/Tokyo"}, "--tz Asia/Tokyo: no time is asked for: say --at"},
		{jobFlags{TZ: "Mars/Olympus", At: "23:00"}, `--tz "Mars/Olympus": there is no such time zone`},
		{jobFlags{TZ: "../../etc/passwd", At: "23:00"}, `--tz "../../etc/passwd": there is no such time zone`},
		{jobFlags{TZ: "Local", At: "23:00"}, "--tz Local: machines have zones of their own"},
		{jobFlags{Keep: longTime(time.Second)}, "--keep 1s: must be whole seconds from 1m to 3660d"},
		{jobFlags{Keep: longTime(-time.Hour)}, "--keep -1h: must be whole seconds from 1m to 3660d"},
		{jobFlags{Keep: longTime(3661 * aDay)}, "--keep 3661d: must be whole seconds from 1m to 3660d"},
		{jobFlags{Keep: longTime(61500 * time.Millisecond)}, "--keep 1m1.5s: must be whole seconds from 1m to 3660d"},
		{jobFlags{Keep: longTime(aDay), Every: "day"}, "--keep 1d: must be three times --every day at least, 3d"},
		{jobFlags{Keep: longTime(20 * aDay), Every: "week"}, "--keep 20d: must be three times --every week at least, 21d"},
		{jobFlags{Keep: longTime(time.Hour), Every: "90m"}, "--keep 1h: must be twice --every 90m at least, 3h"},
	} {
		if _, err := c.f.job(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.f, err, c.says)
		}
	}
}

// TestKept: the record of a job outlasts its next due times, whatever is said, and that of what runs once a year.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		f    jobFlags
		want time.Duration
	}{
		{jobFlags{}, 365 * aDay},
		{jobFlags{Keep: longTime(time.Minute)}, time.Minute},
		{jobFlags{Every: "hour"}, 30 * aDay},
		{jobFlags{At: "23:00"}, 30 * aDay},
		{jobFlags{At: "Fri 23:00"}, 30 * aDay},
		{jobFlags{Every: "hour", Keep: longTime(3 * time.Hour)}, 3 * time.Hour},
		{jobFlags{Every: "1s", Keep: longTime(time.Minute)}, time.Minute},
		{jobFlags{Every: "480h"}, 60 * aDay},
		{jobFlags{Every: "87840h"}, 3660 * aDay},
		{jobFlags{Every: "87840h", Keep: longTime(3660 * aDay)}, 3660 * aDay},
	} {
		if j, err := c.f.job(); err != nil || j.keep != c.want {
			t.Errorf("%+v: %v, %v", c.f, j.keep, err)
		}
	}
}

// TestNamed: what was chosen is in the name of a run.
func TestNamed(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		f    jobFlags
		due  time.Time
		want string
	}{
		{jobFlags{}, time.Time{}, "nightly"},
		{jobFlags{Every: "90m"}, time.Time{}, "nightly"},
		{jobFlags{At: "23:00", TZ: "Asia/Tokyo"}, at, "nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo)"},
		{jobFlags{At: "Sun 23:00", TZ: "Asia/Tokyo"}, at, "nightly@2026-11-22T14:00Z (due Sun 23:00 Asia/Tokyo)"},
		{jobFlags{Every: "hour"}, at, "nightly@2026-11-22T14:00Z (due 14:00 UTC)"},
	} {
		j, err := c.f.job()
		if err != nil {
			t.Fatal(err)
		}
		if got := j.named("nightly", c.due); got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
}

// TestZonesAreIncluded: a machine without a zone database knows the zones.
func TestZonesAreIncluded(t *testing.T) {
	all, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output() // without those of tests
	if err != nil || !strings.Contains(string(all), "\ntime/tzdata\n") {
		t.Errorf("the zones are not included: %v", err)
	}
}

// TestLongTime: durations may be in days.
func TestLongTime(t *testing.T) {
	for text, want := range map[string]string{
		"30d": "30d", "12h": "12h", "90m": "1h30m", "48h": "2d", "61s": "1m1s", "0": "must not be 0", "d": "whole number of days",
		"1.5d": "whole number of days", "-1d": "whole number of days", "99999d": "whole number of days", "soon": "no duration",
	} {
		var l longTime
		err := l.UnmarshalText([]byte(text))
		if got := l.String(); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestPastTime: a time of the past may be said by how long ago it was.
func TestPastTime(t *testing.T) {
	var p pastTime
	if err := p.UnmarshalText([]byte("24h")); err != nil || time.Since(p.Time).Round(time.Hour) != aDay {
		t.Errorf("24h: %v, %v", p, err)
	}
	if err := p.UnmarshalText([]byte("2026-11-22T14:00Z")); err != nil || !p.Equal(time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)) {
		t.Errorf("a time: %v, %v", p, err)
	}
	for _, bad := range []string{"-24h", "yesterday", ""} {
		if err := p.UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "is no time") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestWhySkipped: with -q nothing is said of a run that is done, or that another machine is at; any other reason is said,
// once.
func TestWhySkipped(t *testing.T) {
	j, err := jobFlags{At: "23:00", TZ: "Asia/Tokyo"}.job()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	before := at.Add(-aDay)
	for name, c := range map[string]struct {
		quiet bool
		first time.Time
		out   once.Outcome
		code  int
		says  string
	}{
		"done, quietly": {true, at, once.Outcome{Status: once.AlreadyFinished, Due: at}, 0, ""},
		"done": {false, at, once.Outcome{Status: once.AlreadyFinished, Due: at, Result: "r"}, 0,
			"leasehold: nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo) is finished already, with the result r, and nothing was " +
				"run; the next one is due at 23:00 Asia/Tokyo\n"},
		"at it, quietly": {true, at, once.Outcome{Status: once.Locked, Due: at, AtWork: at}, 0, ""},
		"at it": {false, at, once.Outcome{Status: once.Locked, Due: at, AtWork: at, RetryAfter: time.Minute}, 0,
			"leasehold: skipped: another worker runs nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo); its lock expires in 1m0s " +
				"unless it is refreshed\n"},
		"an earlier one, quietly": {true, at, once.Outcome{Status: once.Locked, Due: at, AtWork: before}, 0,
			"leasehold: skipped: nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo) had no run: the run of " +
				"nightly@2026-11-21T14:00Z (due 23:00 Asia/Tokyo) is still at work\n"},
		"one without a time, quietly": {true, at, once.Outcome{Status: once.Locked, Due: at}, 0,
			"leasehold: skipped: nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo) had no run: a run without a due time is still at " +
				"work\n"},
		"a clock that is ahead, quietly": {true, at.Add(aDay), once.Outcome{Status: once.AlreadyFinished, Due: at}, exitNotDue,
			"leasehold: nightly@2026-11-23T14:00Z (due 23:00 Asia/Tokyo) is not due by the server's clock, and " +
				"nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo) is finished: set the clock of this machine\n"},
		"failed before, quietly": {true, at, once.Outcome{Status: once.AlreadyFailed, Due: at, Err: once.ErrFailed},
			exitFailedBefore, "leasehold: nightly@2026-11-22T14:00Z (due 23:00 Asia/Tokyo): the run was FAILED before, and does " +
				"not begin again unless it is retried: leasehold run retry --tenant acme nightly --reason WHY\n"},
	} {
		var said strings.Builder
		s := &streams{&strings.Builder{}, &said}
		cmd := newOnceCmd()
		cmd.Tenant, cmd.Name, cmd.Quiet, cmd.Skip, cmd.job = "acme", "nightly", c.quiet, true, j
		n := &runNews{cmd: &cmd, s: s, first: c.first, asked: once.Acquire{Due: at, NextDue: at.Add(aDay)}}
		code := 0
		if err := n.end(t.Context(), c.out); err != nil {
			code = report(t.Context(), err, false, s)
		}
		if code != c.code || said.String() != c.says {
			t.Errorf("%s: %d %q, want %d %q", name, code, said.String(), c.code, c.says)
		}
	}
}
