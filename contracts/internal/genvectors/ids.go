package main

import (
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// vectors is the file.
type vectors struct {
	Comment              string              `json:"comment"`
	Layouts              map[string]layout   `json:"layouts"`
	IDs                  []id                `json:"ids"`
	MalformedIDs         []string            `json:"malformedIds"`
	MalformedBase32      []string            `json:"malformedBase32"`
	Releases             []release           `json:"releases"`
	Encodings            []encoding          `json:"encodings"`
	ExternalIDs          []externalID        `json:"externalIds"`
	Plausibility         []plausibility      `json:"plausibility"`
	MalformedExternalIDs []malformedExternal `json:"malformedExternalIds"`
}

type layout struct {
	kazahana.Layout
	MaxMachineID int64  `json:"maxMachineId"`
	Throughput   int64  `json:"throughputPerMs"`
	End          string `json:"end"`
}

// layouts are the default, one with the same epoch and other widths, and one that differs in all.
var layouts = map[string]kazahana.Layout{
	"default":   kazahana.DefaultLayout(),
	"12+10":     {CustomEpoch: kazahana.DefaultEpoch, BitReserve: 1, BitTs: 41, BitID: 12, BitSeq: 10},
	"epoch2020": {CustomEpoch: 1_577_836_800_000, BitReserve: 2, BitTs: 40, BitID: 16, BitSeq: 6},
}

type id struct {
	Layout    string      `json:"layout"`
	ID        kazahana.ID `json:"id"`
	Bytes     string      `json:"bytes"`
	Base32    string      `json:"base32"`
	UnixMs    int64       `json:"unixMs"`
	Time      string      `json:"time"`
	Fallback  bool        `json:"fallback"`
	MachineID int64       `json:"machineId"`
	Sequence  int64       `json:"sequence"`
	Node      int64       `json:"node"`
}

// text is a time as the HTTP contract writes it.
func text(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ids are put together here from their parts, not taken apart: a mistake in Layout.Decode does not get into the file.
func ids() ([]id, error) {
	var all []id
	for _, name := range []string{"default", "12+10", "epoch2020"} {
		l := layouts[name]
		epoch, last := time.UnixMilli(l.CustomEpoch), l.End().Add(-time.Millisecond)
		for _, p := range []struct {
			at                time.Time
			fallback          bool
			machine, sequence int64
		}{
			{epoch, false, 0, 0},
			{epoch, false, 0, 1},
			{epoch.Add(time.Millisecond), false, l.MaxMachineID(), l.Throughput() - 1},
			{time.Date(2026, 1, 21, 11, 33, 20, 0, time.UTC), false, 5, 7},
			{time.Date(2026, 1, 21, 11, 33, 20, 0, time.UTC), true, 5, 7},
			{time.Date(2028, 2, 29, 23, 59, 59, 999_000_000, time.UTC), false, 1234, 42},
			{last, false, l.MaxMachineID(), l.Throughput() - 1},
			{last, true, l.MaxMachineID(), l.Throughput() - 1},
		} {
			first, err := l.FirstID(p.at)
			if err != nil {
				return nil, err
			}
			node := p.machine<<l.BitSeq | p.sequence
			if p.fallback {
				node |= 1 << (l.BitNode() - 1)
			}
			made := first + kazahana.ID(node)
			b, err := made.MarshalBinary()
			if err != nil {
				return nil, err
			}
			all = append(all, id{
				Layout: name, ID: made, Bytes: hex.EncodeToString(b), Base32: base32Of(b),
				UnixMs: p.at.UnixMilli(), Time: text(p.at),
				Fallback: p.fallback, MachineID: p.machine, Sequence: p.sequence, Node: node,
			})
		}
	}
	return all, nil
}

// base32Of is an ID's bytes in 13 digits of base 32: those of base32hex behind one bit that is zero, so that 65 bits
// are 13 digits. It is made from bytes here: a mistake in ID.Base32 does not get into the file.
func base32Of(b []byte) string {
	digits := new(big.Int).SetBytes(b).Text(32)
	return strings.ToUpper(strings.Repeat("0", kazahana.Base32Length-len(digits)) + digits)
}

// malformedBase32 are what other decoders take.
func malformedBase32() []string {
	return []string{
		"", "0", "000000000000", "00000000000000", "000000000000v", "000000000000W", "00000000000 0", "0000000000-00",
		"8000000000000", "V000000000000", "000000000000\n", "000000000000=", "000000000000０",
	}
}

// malformedIDs are what other parsers of numbers take.
func malformedIDs() []string {
	return []string{
		"", "-1", "+1", "01", "00", " 1", "1 ", "1\n", "1.0", "1e3", "0x1", "1_000", "１", "9223372036854775808",
		"18446744073709551615",
		"10000000000000000000000",
	}
}

type release struct {
	Secret    string `json:"secret"`
	MachineID int64  `json:"id"`
	Timestamp int64  `json:"timestamp"`
	Signature string `json:"signature"`
}

func releases() []release {
	all := []release{
		{Secret: "9f2c5a7e1b3d4f60", MachineID: 0, Timestamp: kazahana.DefaultEpoch},
		{Secret: "9f2c5a7e1b3d4f60", MachineID: 8191, Timestamp: 1_768_994_000_123},
		{Secret: "a secret is text: its UTF-8 bytes are the key, é too", MachineID: 42, Timestamp: math.MaxInt32 * 1000},
	}
	for i, r := range all {
		all[i].Signature = kazahana.Sign(r.Secret, r.MachineID, r.Timestamp)
	}
	return all
}
