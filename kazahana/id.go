package kazahana

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ID is a 64-bit identifier that sorts by the time it was made. It is never negative, so that databases and languages
// without unsigned integers keep the order.
//
// Its text is decimal digits. In JSON it is a string: many readers hold numbers as float64, which round above 2^53. In
// SQL it is a BIGINT. As bytes it is big-endian, so that bytes sort as IDs do. Decimal digits do not, since there are
// more of them from year to year: where texts are to sort as IDs do, use [ID.Base32].
//
// An ID does not carry its [Layout]; to decode it, one must know it.
type ID int64

// ParseID reads the decimal digits that [ID.String] writes, and nothing else: one ID has one spelling. A sign, a
// leading zero, a space or a value of 2^63 and more is an error.
func ParseID(s string) (ID, error) {
	const most = 19 // digits of 2^63-1
	switch {
	case s == "":
		return 0, errors.New("ID is empty: must be decimal digits")
	case len(s) > most:
		return 0, fmt.Errorf("ID has %d characters: must be at most %d decimal digits", len(s), most)
	case len(s) > 1 && s[0] == '0':
		return 0, fmt.Errorf("ID %q: must not begin with a zero", s)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("ID %q: must be decimal digits only", s)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ID %q: must be at most %d", s, int64(math.MaxInt64))
	}
	return ID(n), nil
}

// String is the ID in decimal digits.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// Base32Length is how many characters [ID.Base32] has.
const Base32Length = 13

// base32Digits are those of base32hex (RFC 4648, section 7), whose bytes rise with their values.
const base32Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUV"

// Base32 is the ID in 13 digits of base 32, with zeros in front: texts sort as IDs do, by bytes and in the usual orders
// of databases. A negative ID, which no generator makes, has no such text: "".
func (id ID) Base32() string {
	if id < 0 {
		return ""
	}
	var text [Base32Length]byte
	for i := range text {
		text[i] = base32Digits[id>>(5*(Base32Length-1-i))&31]
	}
	return string(text[:])
}

// ParseBase32 reads what [ID.Base32] writes, and nothing else: lower case, another length and a value of 2^63 and more
// are errors.
func ParseBase32(s string) (ID, error) {
	if len(s) != Base32Length {
		return 0, fmt.Errorf("ID in base 32 has %d characters: must be %d", len(s), Base32Length)
	}
	if s[0] > '7' {
		return 0, fmt.Errorf("ID %q: must begin with a digit from 0 to 7", s)
	}
	var id ID
	for i := range len(s) {
		digit := strings.IndexByte(base32Digits, s[i])
		if digit < 0 {
			return 0, fmt.Errorf("ID %q: must be digits from 0 to 9 and A to V only", s)
		}
		id = id<<5 | ID(digit)
	}
	return id, nil
}

// Compare is -1 if id is smaller than other, which among IDs of one process means earlier; 0 if they are equal; else
// +1.
func (id ID) Compare(other ID) int { return cmp.Compare(id, other) }

// Time is when the ID was made, to the millisecond, in UTC. The layout is the one that it was made with.
func (id ID) Time(l Layout) time.Time { return l.Decode(id).Time }

// check rejects what could not be read back.
func (id ID) check() error {
	if id < 0 {
		return fmt.Errorf("ID %d: must not be negative", int64(id))
	}
	return nil
}

// AppendText appends the decimal digits to b.
func (id ID) AppendText(b []byte) ([]byte, error) {
	if err := id.check(); err != nil {
		return b, err
	}
	return strconv.AppendInt(b, int64(id), 10), nil
}

// MarshalText is the ID in decimal digits; it makes IDs keys of JSON objects.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText reads what [ID.MarshalText] writes, as strictly as [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	got, err := ParseID(string(text))
	if err == nil {
		*id = got
	}
	return err
}

// MarshalJSON is the ID as a JSON string of decimal digits.
func (id ID) MarshalJSON() ([]byte, error) {
	b, err := id.AppendText([]byte{'"'})
	if err != nil {
		return nil, err
	}
	return append(b, '"'), nil
}

// UnmarshalJSON reads a JSON string. It rejects numbers, even small ones: a number may have been rounded on its way. As
// in all of encoding/json, null changes nothing.
func (id *ID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) == 0 || b[0] != '"' {
		return errors.New("ID must be a JSON string of decimal digits: JSON numbers lose digits above 2^53")
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("ID: %w", err)
	}
	return id.UnmarshalText([]byte(s))
}

const idBytes = 8

// AppendBinary appends 8 bytes, big-endian, to b.
func (id ID) AppendBinary(b []byte) ([]byte, error) {
	if err := id.check(); err != nil {
		return b, err
	}
	return binary.BigEndian.AppendUint64(b, uint64(id)), nil //nolint:gosec // not negative
}

// MarshalBinary is the ID in 8 bytes, big-endian: bytes sort as IDs do.
func (id ID) MarshalBinary() ([]byte, error) { return id.AppendBinary(make([]byte, 0, idBytes)) }

// UnmarshalBinary reads exactly the 8 bytes that [ID.MarshalBinary] writes.
func (id *ID) UnmarshalBinary(b []byte) error {
	if len(b) != idBytes {
		return fmt.Errorf("ID has %d bytes: must have %d", len(b), idBytes)
	}
	n := binary.BigEndian.Uint64(b)
	if n > math.MaxInt64 {
		return errors.New("ID with its first bit set: must be at most 2^63-1")
	}
	*id = ID(n)
	return nil
}

// Value makes the ID a BIGINT in SQL.
func (id ID) Value() (driver.Value, error) { return int64(id), id.check() }

// Scan reads a BIGINT, or a column of text as strictly as [ParseID]. A column that can be NULL needs a sql.Null[ID].
func (id *ID) Scan(column any) error {
	switch v := column.(type) {
	case int64:
		if err := ID(v).check(); err != nil {
			return err
		}
		*id = ID(v)
		return nil
	case string:
		return id.UnmarshalText([]byte(v))
	case []byte:
		return id.UnmarshalText(v)
	case nil:
		return errors.New("ID is NULL: scan into a sql.Null[kazahana.ID]")
	default:
		return fmt.Errorf("ID from a %T: must be an integer or text", column)
	}
}

// Parts is an ID taken apart.
type Parts struct {
	Time      time.Time // when it was made, to the millisecond, in UTC
	Fallback  bool      // made without a live lease, and so unique only with high probability
	MachineID int64     // without the fallback bit; random in a fallback ID
	Sequence  int64     // among the IDs of this machine ID and millisecond, from 0
	Node      int64     // machine ID with its fallback bit, then sequence: all bits below the timestamp
}

// Decode takes an ID apart. The layout must be the one that the ID was made with: it is not in the ID. Time, Fallback
// and Node only ask for the widths that never change in the life of a namespace (CustomEpoch, BitReserve, BitTs); where
// the border between machine ID and sequence was moved meanwhile, MachineID and Sequence of older IDs are those of the
// layout given.
func (l Layout) Decode(id ID) Parts {
	node := int64(id) & (1<<l.BitNode() - 1)
	return Parts{
		Time:      time.UnixMilli(int64(id)>>l.BitNode() + l.CustomEpoch).UTC(),
		Fallback:  node>>(l.BitNode()-1) == 1,
		MachineID: node >> l.BitSeq & l.MaxMachineID(),
		Sequence:  node & (l.Throughput() - 1),
		Node:      node,
	}
}

// FirstID is the smallest ID of a time, cut to the millisecond: with it, "made since t" is a comparison that can use an
// index on IDs. A time before the epoch or from [Layout.End] on is an error.
func (l Layout) FirstID(t time.Time) (ID, error) {
	if epoch := time.UnixMilli(l.CustomEpoch); t.Before(epoch) || !t.Before(l.End()) {
		return 0, fmt.Errorf("time %s: must be from %s on and before %s, as the layout can say",
			t.UTC().Format(time.RFC3339), epoch.UTC().Format(time.RFC3339), l.End().Format(time.RFC3339))
	}
	return ID((t.UnixMilli() - l.CustomEpoch) << l.BitNode()), nil
}
