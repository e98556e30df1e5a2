package kazahana_test

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/kazahana"
)

var (
	_ fmt.Stringer               = kazahana.ID(0)
	_ encoding.TextMarshaler     = kazahana.ID(0)
	_ encoding.TextAppender      = kazahana.ID(0)
	_ encoding.TextUnmarshaler   = (*kazahana.ID)(nil)
	_ encoding.BinaryMarshaler   = kazahana.ID(0)
	_ encoding.BinaryAppender    = kazahana.ID(0)
	_ encoding.BinaryUnmarshaler = (*kazahana.ID)(nil)
	_ json.Marshaler             = kazahana.ID(0)
	_ json.Unmarshaler           = (*kazahana.ID)(nil)
	_ driver.Valuer              = kazahana.ID(0)
	_ sql.Scanner                = (*kazahana.ID)(nil)
)

func TestParseID(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       kazahana.ID
		wrong      string // part of the error
	}{
		{name: "zero", text: "0"},
		{name: "largest", text: "9223372036854775807", want: math.MaxInt64},
		{name: "beyond float64", text: "9007199254740993", want: 1<<53 + 1},
		{name: "empty", text: "", wrong: "empty"},
		{name: "one too many", text: "9223372036854775808", wrong: "at most 9223372036854775807"},
		{name: "all nines", text: "9999999999999999999", wrong: "at most 9223372036854775807"},
		{name: "too long", text: strings.Repeat("1", 20), wrong: "20 characters"},
		{name: "minus", text: "-1", wrong: "decimal digits only"},
		{name: "plus", text: "+1", wrong: "decimal digits only"},
		{name: "leading zero", text: "01", wrong: "begin with a zero"},
		{name: "two zeros", text: "00", wrong: "begin with a zero"},
		{name: "leading space", text: " 1", wrong: "decimal digits only"},
		{name: "trailing newline", text: "1\n", wrong: "decimal digits only"},
		{name: "underscore", text: "1_000", wrong: "decimal digits only"},
		{name: "hexadecimal", text: "1f", wrong: "decimal digits only"},
		{name: "other digits", text: "１２", wrong: "decimal digits only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := kazahana.ParseID(c.text)
			if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Fatalf("ParseID(%q): %v, want %q", c.text, err, c.wrong)
			}
			if got != c.want {
				t.Errorf("ParseID(%q) = %d, want %d", c.text, got, c.want)
			}
			// A failed reading leaves what was there.
			into := kazahana.ID(42)
			if err := into.UnmarshalText([]byte(c.text)); (err == nil) != (c.wrong == "") {
				t.Errorf("UnmarshalText: %v", err)
			} else if err != nil && into != 42 {
				t.Errorf("UnmarshalText failed and left %d", into)
			}
		})
	}
}

func TestIDInJSON(t *testing.T) {
	type row struct {
		ID    kazahana.ID            `json:"id"`
		Seats map[kazahana.ID]string `json:"seats,omitempty"`
	}
	b, err := json.Marshal(row{ID: 1<<53 + 1, Seats: map[kazahana.ID]string{7: "a"}})
	if want := `{"id":"9007199254740993","seats":{"7":"a"}}`; err != nil || string(b) != want {
		t.Fatalf("marshal: %s %v, want %s", b, err, want)
	}
	for _, c := range []struct {
		name, json string
		want       kazahana.ID
		wrong      string
	}{
		{name: "string", json: `{"id":"9007199254740993"}`, want: 1<<53 + 1},
		{name: "escaped", json: `{"id":"\u0031"}`, want: 1},
		{name: "null changes nothing", json: `{"id":null}`, want: 42},
		{name: "number", json: `{"id":5}`, wrong: "must be a JSON string"},
		{name: "number with a fraction", json: `{"id":5.0}`, wrong: "must be a JSON string"},
		{name: "boolean", json: `{"id":true}`, wrong: "must be a JSON string"},
		{name: "object", json: `{"id":{}}`, wrong: "must be a JSON string"},
		{name: "space inside", json: `{"id":" 1"}`, wrong: "decimal digits only"},
		{name: "empty", json: `{"id":""}`, wrong: "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := row{ID: 42}
			err := json.Unmarshal([]byte(c.json), &got)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
			} else if err != nil || got.ID != c.want {
				t.Errorf("%d %v, want %d", got.ID, err, c.want)
			}
		})
	}
	var id kazahana.ID
	if err := id.UnmarshalJSON([]byte(`"1`)); err == nil {
		t.Error("a broken string was read")
	}
}

func TestIDInBytes(t *testing.T) {
	b, err := kazahana.ID(0x0123456789ABCDEF).MarshalBinary()
	if want := []byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF}; err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%x %v, want %x", b, err, want)
	}
	for _, b := range [][]byte{nil, make([]byte, 7), make([]byte, 9), {0x80, 0, 0, 0, 0, 0, 0, 0}} {
		id := kazahana.ID(42)
		if err := id.UnmarshalBinary(b); err == nil || id != 42 {
			t.Errorf("UnmarshalBinary(%x): %v, left %d", b, err, id)
		}
	}
}

func TestIDInSQL(t *testing.T) {
	for _, c := range []struct {
		name   string
		column any
		want   kazahana.ID
		wrong  string
	}{
		{name: "integer", column: int64(7), want: 7},
		{name: "text", column: "7", want: 7},
		{name: "bytes", column: []byte("7"), want: 7},
		{name: "negative", column: int64(-7), wrong: "negative"},
		{name: "not an ID", column: "seven", wrong: "decimal digits"},
		{name: "null", column: nil, wrong: "sql.Null"},
		{name: "float", column: 7.0, wrong: "float64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := kazahana.ID(42)
			err := got.Scan(c.column)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || got != 42 {
					t.Errorf("%v, left %d, want %q", err, got, c.wrong)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%d %v, want %d", got, err, c.want)
			}
		})
	}
	var null sql.Null[kazahana.ID]
	if err := null.Scan(nil); err != nil || null.Valid {
		t.Errorf("sql.Null: %v %v", null, err)
	}
	if v, err := kazahana.ID(7).Value(); err != nil || v != int64(7) {
		t.Errorf("Value: %v %v", v, err)
	}
}

// What could not be read back is not written.
func TestNegativeIDIsNotWritten(t *testing.T) {
	id := kazahana.ID(-1)
	for name, write := range map[string]func() error{
		"text":   func() error { _, err := id.MarshalText(); return err },
		"JSON":   func() error { _, err := id.MarshalJSON(); return err },
		"binary": func() error { _, err := id.MarshalBinary(); return err },
		"SQL":    func() error { _, err := id.Value(); return err },
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIDForms: whatever form an ID takes, it comes back, and texts of one length, bytes and IDs sort alike.
func TestIDForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) kazahana.ID { return kazahana.ID(n) })
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		text, err := a.MarshalText()
		if err != nil || string(text) != a.String() {
			t.Fatal(err, string(text))
		}
		js, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		bin, err := a.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		other, err := b.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		value, err := a.Value()
		if err != nil {
			t.Fatal(err)
		}
		var back [4]kazahana.ID
		for i, err := range []error{
			back[0].UnmarshalText(text), back[1].UnmarshalJSON(js), back[2].UnmarshalBinary(bin), back[3].Scan(value),
		} {
			if err != nil || back[i] != a {
				t.Errorf("form %d: %d %v, want %d", i, back[i], err, a)
			}
		}
		if bytes.Compare(bin, other) != a.Compare(b) {
			t.Errorf("%x and %x sort otherwise than %d and %d", bin, other, a, b)
		}
	})
}

func TestDecode(t *testing.T) {
	l := kazahana.DefaultLayout()
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)
	first, err := l.FirstID(at.Add(999 * time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		id     kazahana.ID
		layout kazahana.Layout
		want   kazahana.Parts
	}{
		{name: "first of its time", id: first, layout: l, want: kazahana.Parts{Time: at}},
		{
			name: "leased", id: first | 0x1FFF<<8 | 0xFF, layout: l,
			want: kazahana.Parts{Time: at, MachineID: 8191, Sequence: 255, Node: 1<<21 - 1},
		},
		{
			name: "fallback", id: first | 1<<21 | 5<<8 | 3, layout: l,
			want: kazahana.Parts{Time: at, Fallback: true, MachineID: 5, Sequence: 3, Node: 1<<21 | 5<<8 | 3},
		},
		{
			name: "another border, same node", id: first | 1<<21 | 5<<8 | 3,
			layout: kazahana.Layout{CustomEpoch: l.CustomEpoch, BitReserve: 1, BitTs: 41, BitID: 12, BitSeq: 10},
			want:   kazahana.Parts{Time: at, Fallback: true, MachineID: 1, Sequence: 1<<8 | 3, Node: 1<<21 | 5<<8 | 3},
		},
		{
			name: "largest", id: math.MaxInt64, layout: l,
			want: kazahana.Parts{Time: l.End().Add(-time.Millisecond), Fallback: true, MachineID: 8191, Sequence: 255,
				Node: 1<<22 - 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.layout.Decode(c.id); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got := c.id.Time(c.layout); !got.Equal(c.want.Time) {
				t.Errorf("Time: %v, want %v", got, c.want.Time)
			}
		})
	}
}

func TestFirstID(t *testing.T) {
	l := kazahana.DefaultLayout()
	epoch := time.UnixMilli(l.CustomEpoch)
	if id, err := l.FirstID(epoch); err != nil || id != 0 {
		t.Errorf("epoch: %d %v", id, err)
	}
	if id, err := l.FirstID(l.End().Add(-1)); err != nil || id != math.MaxInt64&^(1<<22-1) {
		t.Errorf("last millisecond: %d %v", id, err)
	}
	for _, at := range []time.Time{epoch.Add(-1), l.End(), {}} {
		if _, err := l.FirstID(at); err == nil || !strings.Contains(err.Error(), "2026-01-01T00:00:00Z") {
			t.Errorf("%v: %v", at, err)
		}
	}
	ids := []kazahana.ID{3, 1, 2}
	if slices.SortFunc(ids, kazahana.ID.Compare); !slices.IsSorted(ids) {
		t.Errorf("sorted: %v", ids)
	}
}

// TestBase32Sorts: texts in base 32 sort as IDs do, from the first to the last, and each has one ID.
func TestBase32Sorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 2, 20).Draw(t, "ids")
		slices.Sort(ids)
		for i, n := range ids {
			id := kazahana.ID(n)
			text := id.Base32()
			if back, err := kazahana.ParseBase32(text); err != nil || back != id || len(text) != kazahana.Base32Length {
				t.Errorf("%d is %q, which is read as %d, %v", id, text, back, err)
			}
			if i > 0 && n > ids[i-1] && text <= kazahana.ID(ids[i-1]).Base32() {
				t.Errorf("%d and %d are %q and %q", ids[i-1], n, kazahana.ID(ids[i-1]).Base32(), text)
			}
		}
	})
	if text := kazahana.ID(-1).Base32(); text != "" {
		t.Errorf("-1 is %q", text)
	}
}
