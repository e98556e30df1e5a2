package docstore_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestFormatTime(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*60*60)
	for want, at := range map[docstore.String]time.Time{
		"2026-01-01T00:00:30.000Z": time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC),
		"2025-12-31T15:00:00.000Z": time.Date(2026, 1, 1, 0, 0, 0, 0, tokyo),
		"2026-01-01T00:00:00.999Z": time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC), // cut, not rounded
		// cut towards the past, also before 1970
		"1969-12-31T23:59:59.999Z": time.Unix(0, -1),
		"0000-01-01T00:00:00.000Z": time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999Z": time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC),
	} {
		got := docstore.FormatTime(at)
		if got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
		}
		if back, err := docstore.ParseTime(want); err != nil || back != docstore.TruncateMilli(at) {
			t.Errorf("ParseTime(%q) is %v, error %v, want %v", want, back, err, docstore.TruncateMilli(at))
		}
	}
}

func TestParseTimeRefuses(t *testing.T) {
	for _, s := range []docstore.String{
		"", "now", "2026-01-01", "2026-01-01T00:00:30Z", "2026-01-01T00:00:30.0Z", "2026-01-01T00:00:30.000000Z",
		"2026-01-01T00:00:30.000", "2026-01-01T00:00:30.000+00:00", "2026-01-01T00:00:30.000z", "2026-01-01 00:00:30.000Z",
		"2026-01-01T00:00:30,000Z", "2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-01-01T24:00:00.000Z",
		"2026-01-01T00:00:60.000Z", "+2026-01-01T00:00:00.000Z", "12026-01-01T00:00:00.000Z", " 2026-01-01T00:00:30.000Z",
		"2026-1-1T0:0:30.000Z",
	} {
		if got, err := docstore.ParseTime(s); err == nil || !strings.Contains(err.Error(), "is not a time like") {
			t.Errorf("ParseTime(%q) is %v, error %v", s, got, err)
		}
	}
}

// TestTimesAreThoseOfPackageTime compares with the layout that the documents promise, for all years that have a stored
// form, and for texts that are nearly times.
func TestTimesAreThoseOfPackageTime(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000Z"
	first, last := time.Date(-1, 12, 31, 23, 0, 0, 0, time.UTC).UnixMilli(),
		time.Date(10000, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(first, last).Draw(t, "ms")).Add(
			time.Duration(rapid.Int64Range(0, 999_999).Draw(t, "ns")))
		at = at.In(time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone")))
		text := docstore.FormatTime(at)
		if want := at.Truncate(time.Millisecond).UTC().Format(layout); string(text) != want {
			t.Fatalf("FormatTime(%v) is %q, package time says %q", at, text, want)
		}
		b := []byte(text)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0123456789-:.,TZtz +/;")).Draw(t, "byte")
		}
		want, err := time.Parse(layout, string(b))
		valid := err == nil && want.Format(layout) == string(b)
		got, err := docstore.ParseTime(docstore.String(b))
		if (err == nil) != valid || valid && got != want {
			t.Fatalf("ParseTime(%q) is %v, error %v; package time says %v, %v", b, got, err, want, valid)
		}
	})
}
