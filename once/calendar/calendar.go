// Package calendar says when a job that comes round again is due: every hour, day or week, at a time of day, in a time
// zone. A [Calendar] is the Schedule of once.Options.
//
//	tokyo, err := time.LoadLocation("Asia/Tokyo")
//	…
//	nightly, err := calendar.New(calendar.Day, "23:00", tokyo)
//	…
//	out, err := once.Run(ctx, gate, "nightly", work, &once.Options{Schedule: nightly})
//
// What a zone does to its clock moves due times, and neither drops nor doubles one:
//
//   - A time of day that does not exist, as summer time begins, is due when the clock goes on: at the end of the gap.
//   - One that exists twice, as summer time ends, is due the first time.
//   - A date that a zone left out (Samoa, 30 December 2011) has no night of its own. A week whose day was left out is
//     due at the end of the gap.
//   - Hours are those of the zone's clock: half past by UTC in India. They are due each time the clock shows a full
//     hour, in the hour that comes twice, too, for no two hours should go by without a run.
package calendar

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Unit is what comes round again.
type Unit string

// The units.
const (
	Hour Unit = "hour" // due when the zone's clock shows a full hour
	Day  Unit = "day"  // due at a time of day, by default at midnight
	Week Unit = "week" // due at a time of day of a day of the week, by default at midnight on Mondays
)

// Calendar is a series of due times. Make one with [New]. It never changes, and may be used by several goroutines.
type Calendar struct {
	unit         Unit
	weekday      time.Weekday
	hour, minute int
	zone         *time.Location
}

// New returns the calendar of a unit in a zone; nil is UTC. at is the time of day as "23:00", from "00:00" to "23:59",
// for [Week] also after a day, as "Fri 23:00" or "friday 23:00". Empty is midnight, and a week without a day is due on
// Mondays. [Hour] has none. The error says what is allowed.
func New(unit Unit, at string, zone *time.Location) (*Calendar, error) {
	c := &Calendar{unit: unit, weekday: time.Monday, zone: zone}
	if zone == nil {
		c.zone = time.UTC
	}
	clock := at
	switch unit {
	case Hour:
		if at != "" {
			return nil, fmt.Errorf("%q: every hour is due when the clock shows a full hour, at no time of day", at)
		}
	case Day:
	case Week:
		if day, rest, ok := strings.Cut(at, " "); ok {
			clock = rest
			if c.weekday, ok = weekday(day); !ok {
				return nil, fmt.Errorf("%q: %q is no day of the week: write Mon, Tue, Wed, Thu, Fri, Sat or Sun", at, day)
			}
		}
	default:
		return nil, fmt.Errorf("%q is no unit of a calendar: must be hour, day or week", unit)
	}
	if at == "" {
		return c, nil
	}
	t, err := time.Parse("15:04", clock)
	switch {
	case (err != nil || len(clock) != len("15:04")) && unit == Week:
		return nil, fmt.Errorf("%q: must be a time of day from 00:00 to 23:59, or a day and a time, as in Mon 23:00", at)
	case err != nil || len(clock) != len("15:04"):
		return nil, fmt.Errorf("%q: must be a time of day from 00:00 to 23:59", at)
	}
	c.hour, c.minute = t.Hour(), t.Minute()
	return c, nil
}

// weekday is the day with a name, or with its first three letters.
func weekday(name string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()) || strings.EqualFold(name, d.String()[:3]) {
			return d, true
		}
	}
	return 0, false
}

// Around returns the latest due time at or before now and the first one after it, in UTC. They do not depend on the
// zone of now. Each due time is the next of the one before.
func (c *Calendar) Around(now time.Time) (due, next time.Time) {
	candidates := c.days
	if c.unit == Hour {
		candidates = c.hours
	}
	for _, t := range candidates(now) {
		if t.After(now) {
			return due, t
		}
		due = t
	}
	panic("calendar: no due time after " + now.String()) // a zone has a clock that goes on
}

// Local is a time as the zone's clock shows it, with the name of the zone: "23:00 Asia/Tokyo", or for a week "Mon 23:00
// Asia/Tokyo". It is for people: a time that comes twice a day is ambiguous.
func (c *Calendar) Local(t time.Time) string {
	layout := "15:04"
	if c.unit == Week {
		layout = "Mon 15:04"
	}
	return t.In(c.zone).Format(layout) + " " + c.zone.String()
}

// Lengths in seconds. What a clock shows is counted in them, too, as if it was that of UTC.
const (
	hour = 60 * 60
	day  = 24 * hour
)

// days are the due times of days or weeks around a time, in order.
func (c *Calendar) days(now time.Time) []time.Time {
	local := now.In(c.zone)
	y, m, d := local.Date()
	step := 1
	if c.unit == Week {
		step = 7
		d -= int(local.Weekday()-c.weekday+7) % 7
	}
	var all []time.Time
	// The due time of a date may be on the next one, and a date may come twice, or not at all.
	for i := -2; i <= 3; i++ {
		midnight := time.Date(y, m, d+i*step, 0, 0, 0, 0, time.UTC).Unix()
		if c.unit == Day && c.shows(c.first(midnight)) >= midnight+day {
			continue // the zone left the date out
		}
		all = append(all, time.Unix(c.first(midnight+int64(c.hour*hour+c.minute*60)), 0).UTC())
	}
	return slices.Compact(all)
}

// hours are the due times of hours around a time, in order.
func (c *Calendar) hours(now time.Time) []time.Time {
	from, to := now.Unix()-day, now.Unix()+day
	var all []time.Time
	before := c.shows(from)
	for begin := from; begin < to; {
		p := c.period(begin)
		shows := begin + p.offset
		full := begin + until(shows)
		if before+until(before) < shows { // the clock was set forward past a full hour, perhaps to another one
			all = append(all, time.Unix(begin, 0).UTC())
		}
		for ; full < min(p.end, to); full += hour {
			all = append(all, time.Unix(full, 0).UTC())
		}
		begin, before = p.end, p.end+p.offset
	}
	return all
}

// until is how far it is from what a clock shows to the full hour, 0 if it shows one.
func until(shows int64) int64 { return ((-shows)%hour + hour) % hour }

// first is the first time, in Unix seconds, at which the zone's clock shows a time of day or a later one. time.Date
// does not say which one it takes of a time that exists twice or not at all.
func (c *Calendar) first(shows int64) int64 {
	for t := shows - 2*day; ; { // no clock is so far ahead of UTC
		p := c.period(t)
		if t = max(t, shows-p.offset); t < p.end {
			return t
		}
		t = p.end
	}
}

// shows is what the zone's clock shows at a time.
func (c *Calendar) shows(t int64) int64 { return t + c.period(t).offset }

// period is a time during which a zone's clock is not set.
type period struct {
	end    int64 // in Unix seconds
	offset int64 // from UTC
}

// period is the one at a time.
func (c *Calendar) period(t int64) period {
	local := time.Unix(t, 0).In(c.zone)
	_, offset := local.Zone()
	p := period{math.MaxInt64 / 2, int64(offset)}
	if _, end := local.ZoneBounds(); !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}
