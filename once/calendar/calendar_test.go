package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests know the same zones everywhere

	"github.com/leasehold-dev/leasehold/once/calendar"
)

// years are zones and years in which they are worth a look.
var years = []struct {
	zone string
	year int
	why  string
}{
	{"UTC", 2026, "no summer time"},
	{"Europe/Berlin", 2026, "summer time from 02:00 to 03:00"},
	{"America/New_York", 2026, "the same, on other days"},
	{"America/Sao_Paulo", 2026, "no summer time any more"},
	{"America/Sao_Paulo", 2018, "summer time began at midnight, which did not exist, and ended at midnight, to the day before"},
	{"Asia/Tokyo", 2026, "nine hours ahead"},
	{"Asia/Kolkata", 2026, "half an hour"},
	{"Asia/Kathmandu", 2026, "a quarter"},
	{"Australia/Lord_Howe", 2026, "summer time of half an hour"},
	{"Australia/Adelaide", 2026, "half an hour, and summer time"},
	{"Pacific/Apia", 2011, "30 December was left out"},
	{"Africa/Casablanca", 2026, "the clock is set back for Ramadan, in spring"},
	{"America/St_Johns", 2026, "half an hour behind"},
	{"America/St_Johns", 2010, "summer time ended at 00:01, to the day before"},
	{"Pacific/Chatham", 2026, "three quarters, at 02:45"},
	{"Antarctica/Troll", 2026, "summer time of two hours"},
	{"Africa/Cairo", 2026, "summer time begins at midnight"},
	{"America/Nuuk", 2024, "summer time begins at 23:00 or earlier, the day before others"},
	{"America/Nuuk", 2026, "the gap is before midnight"},
	{"Asia/Gaza", 2013, "midnight, both ways"},
	{"Pacific/Kwajalein", 1993, "21 August was left out"},
	{"Pacific/Kwajalein", 1969, "30 September came twice"},
	{"Asia/Pyongyang", 2018, "half an hour forward, a minute before midnight: the gap is over it"},
}

// at are the times of day that are tried, and times in weeks.
var (
	atDay  = []string{"", "00:30", "01:30", "02:15", "02:30", "03:00", "23:00", "23:45"}
	atWeek = []string{"", "Sun 02:30", "Sun 00:00", "Fri 23:00", "Thursday 23:45"}
)

// minute is a minute of a zone's clock.
type minute struct {
	at  time.Time
	day int64 // number of the date that the clock shows
	of  int   // minute of that day
}

// epoch is the number of 1 January 1970: those before have one, too.
const epoch = 1_000_000

// walk is all minutes of a year by a zone's clock, and some before and after: what a person would write down who looks at
// it.
func walk(zone *time.Location, year int) []minute {
	t := time.Date(year, 1, 1, 0, 0, 0, 0, zone).AddDate(0, 0, -16).UTC()
	end := t.AddDate(1, 1, 10)
	all := make([]minute, 0, end.Sub(t)/time.Minute)
	for ; t.Before(end); t = t.Add(time.Minute) {
		local := t.In(zone)
		y, m, d := local.Date()
		all = append(all, minute{t, time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()/86400 + epoch, local.Hour()*60 + local.Minute()})
	}
	return all
}

// nights are the due times of a time of day, by what a person has written down: a date is due with its first minute that
// is at or after the time of day, and if it had none, with the first minute after it.
func nights(all []minute, of int) []time.Time {
	var due []time.Time
	seen := map[int64]bool{all[0].day: true} // the first date may have begun before
	date, waits := all[0].day, false
	for i, m := range all[1:] {
		if m.day == all[i].day && (!waits || m.day < date || m.of < of) {
			continue
		}
		if waits && (m.day > date || m.day == date && m.of >= of) {
			due, waits = append(due, m.at), false
		}
		if !seen[m.day] {
			seen[m.day] = true
			if date, waits = m.day, m.of < of; !waits {
				due = append(due, m.at)
			}
		}
	}
	return due
}

// weeks are the due times of a time of a day of the week, also if that day is left out.
func weeks(all []minute, weekday time.Weekday, of int) []time.Time {
	var due []time.Time
	next := all[0].day + 1 // the first day that may be due
	for time.Unix((next-epoch)*86400, 0).UTC().Weekday() != weekday {
		next++
	}
	for _, m := range all {
		if m.day > next || m.day == next && m.of >= of {
			due, next = append(due, m.at), next+7
		}
	}
	return due
}

// hours are the due times of hours: when the clock shows a full hour, or was set past one.
func hours(all []minute) []time.Time {
	var due []time.Time
	for i, m := range all[1:] {
		before, now := all[i].day*24*60+int64(all[i].of), m.day*24*60+int64(m.of)
		if m.of%60 == 0 || now > before && now/60 != before/60 {
			due = append(due, m.at)
		}
	}
	return due
}

// TestYear: every due time of a year is what one finds who looks at the zone's clock each minute; Around says it from
// every side.
func TestYear(t *testing.T) {
	t.Parallel()
	for _, y := range years {
		t.Run(fmt.Sprint(y.zone, y.year), func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(y.zone)
			if err != nil {
				t.Fatal(err)
			}
			all := walk(zone, y.year)
			for _, at := range atDay {
				same(t, must(t, calendar.Day, at, zone), nights(all, ofDay(at)))
			}
			for _, at := range atWeek {
				day, clock := time.Monday, at
				if name, rest, ok := strings.Cut(at, " "); ok {
					day, clock = map[string]time.Weekday{"sun": 0, "thu": 4, "fri": 5}[strings.ToLower(name[:3])], rest
				}
				same(t, must(t, calendar.Week, at, zone), weeks(all, day, ofDay(clock)))
			}
			same(t, must(t, calendar.Hour, "", zone), hours(all))
		})
	}
}

// ofDay is the minute of the day of a time of day.
func ofDay(at string) int {
	var h, m int
	_, _ = fmt.Sscanf(at, "%d:%d", &h, &m) // empty is midnight
	return h*60 + m
}

// must is a calendar that there is.
func must(t *testing.T, unit calendar.Unit, at string, zone *time.Location) *calendar.Calendar {
	t.Helper()
	c, err := calendar.New(unit, at, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same compares a calendar with all due times of a year.
func same(t *testing.T, c *calendar.Calendar, want []time.Time) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(len(want)), 48))
	for i := range len(want) - 1 {
		due, next := want[i], want[i+1]
		length := next.Sub(due)
		if length <= 0 {
			t.Fatalf("the oracle is wrong: %v, then %v", due, next)
		}
		for _, now := range []time.Time{
			due, due.Add(time.Duration(random.Int64N(int64(length)))), next.Add(-1),
		} {
			gotDue, gotNext := c.Around(now)
			if !gotDue.Equal(due) || !gotNext.Equal(next) || gotDue.Location() != time.UTC || gotNext.Location() != time.UTC {
				t.Fatalf("%s at %v: got %v and %v, want %v and %v", c.Local(due), now, gotDue, gotNext, due, next)
			}
		}
	}
}

// TestNotable: the turns that people ask about.
func TestNotable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, at, now, due, next string
	}{
		{"Europe/Berlin", "02:30", "2026-03-29T00:59:59Z", "2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z"}, // 03:00, at the end of the gap
		{"Europe/Berlin", "02:30", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}, // the first 02:30
		{"Europe/Berlin", "02:30", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}, // the second one is none
		{"Pacific/Apia", "23:00", "2011-12-30T10:00:00Z", "2011-12-30T09:00:00Z", "2011-12-31T09:00:00Z"},  // 29 December, 31 December
		{"Pacific/Apia", "00:00", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},  // 31 December, once
		{"America/Sao_Paulo", "00:00", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"Asia/Tokyo", "23:00", "2026-11-22T23:00:00Z", "2026-11-22T14:00:00Z", "2026-11-23T14:00:00Z"}, // caught up at 08:00
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, c.now)
		due, next := must(t, calendar.Day, c.at, zone).Around(now)
		if due.Format(time.RFC3339) != c.due || next.Format(time.RFC3339) != c.next {
			t.Errorf("%s %s at %s: got %v and %v, want %s and %s", c.zone, c.at, c.now, due, next, c.due, c.next)
		}
	}
}

// TestLongAgo: zones that have no clock before a year, and years that no table has, have due times all the same.
func TestLongAgo(t *testing.T) {
	t.Parallel()
	for _, y := range years {
		zone, err := time.LoadLocation(y.zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1, 1799, 1969, 1970, 2037, 2500, 9998} {
			now := time.Date(year, 6, 1, 1, 2, 3, 4, time.UTC)
			for unit, longest := range map[calendar.Unit]time.Duration{calendar.Hour: time.Hour, calendar.Day: 48 * time.Hour,
				calendar.Week: 8 * 24 * time.Hour} {
				due, next := must(t, unit, "", zone).Around(now)
				if due.After(now) || !next.After(now) || next.Sub(due) > longest {
					t.Errorf("%s %s at %v: %v, %v", y.zone, unit, now, due, next)
				}
			}
		}
	}
}

// TestNew: what no calendar can be is refused, with what is allowed.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit     calendar.Unit
		at, says string
	}{
		{"month", "", "must be hour, day or week"},
		{"", "", "must be hour, day or week"},
		{calendar.Hour, "23:00", "every hour is due when the clock shows a full hour"},
		{calendar.Day, "25:00", "from 00:00 to 23:59"},
		{calendar.Day, "24:00", "from 00:00 to 23:59"},
		{calendar.Day, "9:00", "from 00:00 to 23:59"},
		{calendar.Day, "23:00:00", "from 00:00 to 23:59"},
		{calendar.Day, "23", "from 00:00 to 23:59"},
		{calendar.Day, "11pm", "from 00:00 to 23:59"},
		{calendar.Day, "Mon 23:00", "from 00:00 to 23:59"},
		{calendar.Week, "Mon", "Mon 23:00"},
		{calendar.Week, "Mon  23:00", "Mon 23:00"},
		{calendar.Week, "Noday 23:00", "write Mon, Tue"},
		{calendar.Week, "M 23:00", "write Mon, Tue"},
		{calendar.Week, " 23:00", "write Mon, Tue"},
	} {
		if _, err := calendar.New(c.unit, c.at, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q at %q: %v", c.unit, c.at, err)
		}
	}
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		unit calendar.Unit
		zone *time.Location
		want string
	}{{calendar.Day, zone, "23:00 Asia/Tokyo"}, {calendar.Week, zone, "Sun 23:00 Asia/Tokyo"}, {calendar.Hour, nil, "14:00 UTC"}} {
		if got := must(t, c.unit, "", c.zone).Local(at); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func ExampleNew() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	nightly, err := calendar.New(calendar.Day, "02:30", berlin)
	if err != nil {
		fmt.Println(err)
		return
	}
	// In the night of 29 March the clock goes from 02:00 to 03:00.
	due, next := nightly.Around(time.Date(2026, 3, 29, 8, 0, 0, 0, berlin))
	fmt.Println(nightly.Local(due), due.Format(time.RFC3339))
	fmt.Println(nightly.Local(next), next.Format(time.RFC3339))
	// Output:
	// 03:00 Europe/Berlin 2026-03-29T01:00:00Z
	// 02:30 Europe/Berlin 2026-03-30T00:30:00Z
}
