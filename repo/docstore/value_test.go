package docstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestFormatTime(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*60*60)
	for want, at := range map[docstore.String]time.Time{
		"2026-01-01T00:00:30.000Z": time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC),
		"2025-12-31T15:00:00.000Z": time.Date(2026, 1, 1, 0, 0, 0, 0, tokyo),
		"2026-01-01T00:00:00.999Z": time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC), // cut, not rounded
		"1969-12-31T23:59:59.999Z": time.Unix(0, -1),                                      // cut towards the past, also before 1970
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

func TestEqualAndClone(t *testing.T) {
	d := docstore.Doc{"m": docstore.Map{"a": "1"}, "n": docstore.Int(1), "o": docstore.Opaque{Raw: "[1]"}}
	c := d.Clone()
	if !c.Equal(d) {
		t.Fatalf("%#v is not equal to its copy %#v", d, c)
	}
	c["m"].(docstore.Map)["a"] = "2"
	if c.Equal(d) || d["m"].(docstore.Map)["a"] != "1" {
		t.Errorf("the copy shares a map: %#v and %#v", d, c)
	}
	none, empty := docstore.Doc(nil), docstore.Doc{}
	if none.Equal(empty) || empty.Equal(none) || !none.Equal(none.Clone()) || !empty.Equal(empty.Clone()) {
		t.Error("no document and the empty one are not told apart")
	}
	if !d.Equal(docstore.Doc{"m": docstore.Map{"a": "1"}, "n": docstore.Int(1), "o": docstore.Opaque{Raw: 0.5}}) {
		t.Error("opaque values differ")
	}
	if d.Equal(docstore.Doc{"m": docstore.Map{"a": "1"}, "n": docstore.Int(1), "o": docstore.Int(1)}) {
		t.Error("an opaque value equals a number")
	}
}

func TestOpaqueInConditions(t *testing.T) {
	found := docstore.Doc{"o": docstore.Opaque{Raw: "null"}}
	for name, c := range map[string]struct {
		cond docstore.Cond
		want bool
	}{
		"has":       {docstore.Has{Field: "o"}, true},
		"eq text":   {docstore.Eq{Field: "o", Value: docstore.String("null")}, false},
		"eq map":    {docstore.Eq{Field: "o", Value: docstore.Map{}}, false},
		"le number": {docstore.LE{Field: "o", Value: docstore.Int(docstore.MaxInt)}, false},
	} {
		if got := c.cond.Holds(found, time.Time{}); got != c.want {
			t.Errorf("%s is %v, want %v", name, got, c.want)
		}
	}
}

// TestBytesShareNothing: bytes are copied when they are made of a slice and when they are made into one.
func TestBytesShareNothing(t *testing.T) {
	slice := []byte{0, 255}
	d := docstore.Doc{"b": docstore.Bytes(slice)}
	slice[0] = 1
	taken := []byte(d["b"].(docstore.Bytes))
	taken[1] = 1
	if want := (docstore.Doc{"b": docstore.Bytes("\x00\xff")}); !d.Equal(want) || !d.Clone().Equal(want) {
		t.Errorf("%#v, want %#v", d, want)
	}
	if d.Equal(docstore.Doc{"b": docstore.String("\x00\xff")}) {
		t.Error("bytes equal text")
	}
}
