package docstore

import (
	"fmt"
	"time"
)

// timeFormat is ISO 8601 in UTC with a fixed width of 24 bytes, so that byte order is time order and conditions can
// compare times as text on every store. It is also the form that analysis documents use (BE-041).
const timeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime returns the stored form of an instant, cut to milliseconds: "2026-01-01T00:00:30.000Z". Years outside
// 0000 to 9999 have no such form; [checkValue] keeps offsets small enough that they do not occur.
//
// A document has up to a dozen times, which are written and read by every command: package time, which reads its layout
// each time, would take a third of what a command does.
func FormatTime(t time.Time) String {
	t = TruncateMilli(t)
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return String(t.Format(timeFormat))
	}
	hour, minute, second := t.Clock()
	text := [len(timeFormat)]byte([]byte(timeFormat))
	put(text[0:4], year)
	put(text[5:7], int(month))
	put(text[8:10], day)
	put(text[11:13], hour)
	put(text[14:16], minute)
	put(text[17:19], second)
	put(text[20:23], t.Nanosecond()/int(time.Millisecond))
	return String(text[:])
}

// put writes a number with as many digits as there is room for.
func put(text []byte, n int) {
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = byte('0' + n%10)
		n /= 10
	}
}

// ParseTime reads what [FormatTime] wrote, and nothing else: exactly 24 bytes, in UTC, with milliseconds.
func ParseTime(s String) (time.Time, error) {
	if t, ok := parseTime(string(s)); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time like %q", string(s), timeFormat)
}

func parseTime(s string) (time.Time, bool) {
	if len(s) != len(timeFormat) || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' ||
		s[19] != '.' || s[23] != 'Z' {
		return time.Time{}, false
	}
	year, month, day, milli := number(s[0:4]), number(s[5:7]), number(s[8:10]), number(s[20:23])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 31 || milli < 0 ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, milli*int(time.Millisecond), time.UTC)
	return t, day <= 28 || t.Day() == day // Date makes the 30th of February a day of March
}

// number reads digits; what is something else is less than 0.
func number(digits string) (n int) {
	for i := range len(digits) {
		d := digits[i] - '0' // of a byte that is below '0' it is above 9, too
		if d > 9 {
			return -1
		}
		n = 10*n + int(d)
	}
	return n
}

// TruncateMilli brings an instant to the form that all stores use: UTC, whole milliseconds, no monotonic reading. It
// cuts, as a store that keeps milliseconds does, so that two readings of one clock keep their order.
func TruncateMilli(t time.Time) time.Time {
	return t.Truncate(time.Millisecond).UTC()
}
