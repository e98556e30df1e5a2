package analysis

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Expiry is what lockExpiresAt says: when the lock ends.
type Expiry struct {
	// Text is the field as it stands; empty if it is missing or not text.
	Text string

	// Earliest and Latest are the bounds of the time, in whole milliseconds, rounded up. They are equal if the field says
	// exactly when, and differ if it lacks an offset from UTC. Both are zero, which is long past, if the field is missing,
	// null or empty.
	Earliest, Latest time.Time

	// Unclear says that the field holds something that is no time: whether the lock has ended cannot be judged.
	Unclear bool
}

// passed reports whether the time has certainly come at now.
func (e Expiry) passed(now time.Time) bool { return !e.Unclear && !now.Before(e.Latest) }

// ahead reports whether the time is certainly still to come at now.
func (e Expiry) ahead(now time.Time) bool { return !e.Unclear && now.Before(e.Earliest) }

// expiry reads lockExpiresAt; nil is a missing field.
func expiry(v docstore.Value) Expiry {
	switch v := v.(type) {
	case nil:
		return Expiry{}
	case docstore.String:
		if v == "" {
			return Expiry{}
		}
		from, to, ok := parseISO(string(v))
		return Expiry{Text: string(v), Earliest: from, Latest: to, Unclear: !ok}
	case docstore.Opaque:
		switch {
		case v.Null:
			return Expiry{}
		case !v.Time.IsZero():
			t := ceilMilli(v.Time)
			return Expiry{Earliest: t, Latest: t}
		}
	}
	return Expiry{Unclear: true}
}

// isoForm is the forms of ISO 8601 that are read: a calendar date, extended or basic, and if there is a time of the
// day, "T", hours and minutes, seconds and a fraction if any, and the offset from UTC if any. The extended form may
// have a year of six digits, as JavaScript writes those beyond 9999.
func isoForm() *regexp.Regexp {
	iso.Do(func() {
		iso.form = regexp.MustCompile(`^(?:` +
			`([0-9]{4}|[+-][0-9]{6})-([0-9]{2})-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,30}))?)?` +
			isoZone + `)?|` +
			`([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})(?:([0-9]{2})(?:[.,]([0-9]{1,30}))?)?` + isoZone + `)?)$`)
	})
	return iso.form
}

// iso is made with the first text that is read: not before main, nor with what [sync.OnceValue] does there.
var iso struct {
	sync.Once

	form *regexp.Regexp
}

const isoZone = `(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?`

// maxISO bounds the text that is read, and with it what a condition has to compare.
const maxISO = 80

// The offsets from UTC that are in use on Earth: a time without one lies between those two.
const (
	westernmost = -12 * time.Hour
	easternmost = 14 * time.Hour
)

// lastTime is the last time that has the form in which the gate writes times. A later one counts as this.
func lastTime() time.Time {
	return time.Date(9999, 12, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)
}

// parseISO reads a time of ISO 8601. Without an offset from UTC it may be that of any place, and a date alone is any
// time of that day.
func parseISO(s string) (earliest, latest time.Time, ok bool) {
	if len(s) > maxISO {
		return time.Time{}, time.Time{}, false
	}
	m := isoForm().FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, time.Time{}, false
	}
	if m = m[1:]; m[0] == "" {
		m = m[8:]
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(m[i]) // digits, or none
		return v
	}
	t := time.Date(n(0), time.Month(n(1)), n(2), n(3), n(4), n(5), 0, time.UTC)
	day := time.Date(n(0), time.Month(n(1)), n(2), 0, 0, 0, 0, time.UTC)
	whole := strings.Trim(m[6], "0") == ""
	switch {
	case m[0] == "-000000", day.Month() != time.Month(n(1)) || day.Day() != n(2), n(4) > 59, n(5) > 60:
		return time.Time{}, time.Time{}, false
	case n(3) > 24, n(3) == 24 && (n(4) != 0 || n(5) != 0 || !whole): // 24:00:00 is the end of the day
		return time.Time{}, time.Time{}, false
	}
	t = t.Add(fraction(m[6]))
	last := t
	if m[3] == "" {
		last = t.AddDate(0, 0, 1)
	}
	switch zone := m[7]; zone {
	case "":
		return bounded(t.Add(-easternmost)), bounded(last.Add(-westernmost)), true
	case "Z":
	default:
		digits := strings.ReplaceAll(zone[1:], ":", "") + "00"
		hours, _ := strconv.Atoi(digits[:2])
		minutes, _ := strconv.Atoi(digits[2:4])
		if hours > 23 || minutes > 59 {
			return time.Time{}, time.Time{}, false
		}
		offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
		if zone[0] == '-' {
			offset = -offset
		}
		t = t.Add(-offset)
	}
	return bounded(t), bounded(t), true
}

func bounded(t time.Time) time.Time {
	if last := lastTime(); t.After(last) {
		return last
	}
	return t
}

// fraction is the digits after the decimal sign of the seconds, rounded up to whole milliseconds.
func fraction(digits string) time.Duration {
	padded := digits + "000"
	ms, _ := strconv.Atoi(padded[:3])
	if strings.Trim(padded[3:], "0") != "" {
		ms++
	}
	return time.Duration(ms) * time.Millisecond
}

// ceilMilli is the next whole millisecond: a lock must not end early for those who wait for it.
func ceilMilli(t time.Time) time.Time {
	cut := docstore.TruncateMilli(t)
	if cut.Before(t) {
		cut = cut.Add(time.Millisecond)
	}
	return cut
}
