package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a machine without a zone database has jobs, too

	"github.com/leasehold-dev/leasehold/once/calendar"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// jobFlags say how a job comes round again, and how long its record is kept.
type jobFlags struct {
	Every string   `placeholder:"hour|day|week|DURATION" help:"Run it again each hour, day or week by the calendar (see --at and --tz), or when so long has passed since the last run that succeeded began: whole seconds up to 3660 days, such as 90m."`
	At    string   `placeholder:"TIME" help:"Due at this time of day, such as 23:00, each day or with --every week on Mondays; on another day of the week with \"Fri 23:00\". The default is midnight."`
	TZ    string   `name:"tz" placeholder:"ZONE" help:"The time zone of --at and --every hour, day and week, such as Asia/Tokyo (default UTC). It is the same on all machines, whatever their own zones are."`
	Keep  longTime `placeholder:"DURATION" help:"How long the record of the run is kept after its end, from 1m to 3660d, such as 30d or 12h: from then on the name is a new one. The default is 365d, for a job that comes round again 30d or, if that is longer, three times --every."`
}

// job is what the flags say.
type job struct {
	calendar *calendar.Calendar // nil: the run comes round by no calendar
	every    time.Duration      // with no calendar: the least time since the last success began; 0: it runs once
	keep     time.Duration
}

// Bounds of how long the record of a run is kept, and of the time between two runs.
const (
	minKeep = runs.MinKeepSeconds * time.Second
	maxKeep = runs.MaxKeepSeconds * time.Second
	aDay    = 24 * time.Hour

	keptOnce = 365 * aDay // of what runs once
	keptJob  = 30 * aDay
)

// lengths are the longest times between two due times of a unit, but for what zones do to their clocks.
var lengths = map[calendar.Unit]time.Duration{calendar.Hour: time.Hour, calendar.Day: aDay, calendar.Week: 7 * aDay}

// job checks the flags. The error names one, and what is allowed.
func (f jobFlags) job() (j job, err error) {
	unit, length := calendar.Unit(f.Every), lengths[calendar.Unit(f.Every)]
	switch {
	case f.Every == "" && f.At == "" && f.TZ != "":
		return j, usage("--tz %s: no time is asked for: say --at, such as --at 23:00, or --every hour, day or week", f.TZ)
	case f.Every == "" && f.At == "":
		j.keep = keptOnce
		return f.kept(j, minKeep, "")
	case f.Every == "" && strings.Contains(f.At, " "):
		unit, length = calendar.Week, lengths[calendar.Week]
	case f.Every == "":
		unit, length = calendar.Day, aDay
	case length == 0:
		return f.sinceSuccess()
	}
	if unit == calendar.Hour && f.At != "" {
		return j, usage("--at %s: goes with --every day or week; hours are due when the clock shows a full hour", f.At)
	}
	zone, err := f.zone()
	if err != nil {
		return j, err
	}
	if j.calendar, err = calendar.New(unit, f.At, zone); err != nil {
		return j, usage("--at %w", err)
	}
	// Two due times later, and one for what zones do to their clocks: the record tells that a run is done.
	j.keep = max(keptJob, 3*length)
	return f.kept(j, 3*length, "three times --every "+string(unit))
}

// zone is the time zone.
func (f jobFlags) zone() (*time.Location, error) {
	if f.TZ == "Local" { // that of the machine
		return nil, usage(
			"--tz Local: machines have zones of their own: name one that is the same on all, such as Asia/Tokyo")
	}
	zone, err := time.LoadLocation(f.TZ) // empty is UTC
	if err != nil {
		return nil, usage("--tz %q: there is no such time zone: name one as Asia/Tokyo, Europe/Berlin or UTC", f.TZ)
	}
	return zone, nil
}

// sinceSuccess is a job that runs again when so long has passed.
func (f jobFlags) sinceSuccess() (j job, err error) {
	every, err := time.ParseDuration(f.Every)
	switch {
	case err != nil:
		return j, usage("--every %s: must be hour, day or week, or a duration such as 90m", f.Every)
	case every < time.Second || every > maxKeep || every%time.Second != 0:
		return j, usage("--every %s: must be hour, day or week, or whole seconds from 1s to %v, such as 90m", f.Every,
			longTime(maxKeep))
	case f.At != "":
		return j, usage("--at %s: goes with --every day or week; --every %s counts from the last success", f.At, f.Every)
	case f.TZ != "":
		return j, usage("--tz %s: goes with --at, or --every hour, day or week; --every %s counts from the last success",
			f.TZ, f.Every)
	}
	for unit, length := range lengths {
		if every == length {
			return j, usage("--every %s: counts from when the last success began, so that a job started each %s would find "+
				"now and then that less has passed, and be skipped: say --every %[2]s, or a duration that is shorter", f.Every,
				unit)
		}
	}
	j.every, j.keep = every, min(max(keptJob, 3*every), maxKeep)
	return f.kept(j, max(minKeep, min(2*every, maxKeep)), "twice --every "+f.Every)
}

// kept is the job with what --keep says, if that is no less than what it needs.
func (f jobFlags) kept(j job, least time.Duration, needs string) (job, error) {
	keep := time.Duration(f.Keep)
	switch {
	case keep == 0:
		return j, nil
	case keep < minKeep || keep > maxKeep || keep%time.Second != 0:
		return j, usage("--keep %v: must be whole seconds from %v to %v, such as 30d", f.Keep, longTime(minKeep),
			longTime(maxKeep))
	case keep < least:
		return j, usage("--keep %v: must be %s at least, %v: a job without its record runs again", f.Keep, needs,
			longTime(least))
	}
	j.keep = keep
	return j, nil
}

// named is the name of a run as it is shown: with the time for which it is due, if it comes round by a calendar.
func (j job) named(name string, due time.Time) string {
	if j.calendar == nil || due.IsZero() {
		return name
	}
	return fmt.Sprintf("%s@%s (due %s)", name, due.UTC().Format("2006-01-02T15:04Z"), j.calendar.Local(due))
}

// longTime is a duration that may be in days: "30d".
type longTime time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *longTime) UnmarshalText(text []byte) error {
	if number, ok := strings.CutSuffix(string(text), "d"); ok {
		days, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no duration: write a whole number of days, such as 30d", text)
		}
		*l = longTime(time.Duration(days) * aDay)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number with a unit, such as 30d, 12h or 90m", text)
	}
	if d == 0 {
		return errors.New("must not be 0: leave it out for the default")
	}
	*l = longTime(d)
	return nil
}

// String has days where it can.
func (l longTime) String() string {
	if d := time.Duration(l); d >= aDay && d%aDay == 0 {
		return strconv.FormatInt(int64(d/aDay), 10) + "d"
	}
	return inShort(time.Duration(l))
}

// inShort is a duration without the zeros at its end: 90m is 1h30m.
func inShort(d time.Duration) string {
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}
