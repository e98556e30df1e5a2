package extid_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

// vectors is contracts/vectors/kazahana.json as its README describes it.
type vectors struct {
	Comment string
	Layouts map[string]struct {
		kazahana.Layout
		MaxMachineID    int64
		ThroughputPerMs int64
		End             time.Time
	}
	IDs []struct {
		Layout, ID, Bytes, Base32, Time   string
		UnixMs, MachineID, Sequence, Node int64
		Fallback                          bool
	}
	MalformedIDs, MalformedBase32 []string

	Releases []struct {
		Secret        string
		ID, Timestamp int64
		Signature     string
	}
	Encodings []struct {
		Bytes     string
		KeyNumber int
		Text      string
	}
	ExternalIDs []struct {
		Mode                   extid.Mode
		Secret, AESKey, Entity string
		KeyNumber              int
		ID                     kazahana.ID
		ExternalID             string
	}
	Plausibility []struct {
		Layout     string
		NowUnixMs  int64
		ExternalID string
		ID         kazahana.ID
		Accepted   bool
	}
	MalformedExternalIDs []struct {
		Text      string
		KnownKeys []int
		Reason    string
		Position  int
		KeyNumber int
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "contracts", "vectors", "kazahana.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	var v vectors
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{
		"layouts": len(v.Layouts), "ids": len(v.IDs), "malformedIds": len(v.MalformedIDs),
		"malformedBase32": len(v.MalformedBase32), "releases": len(v.Releases),
		"encodings": len(v.Encodings), "externalIds": len(v.ExternalIDs), "plausibility": len(v.Plausibility),
		"malformedExternalIds": len(v.MalformedExternalIDs),
	} {
		if n < 3 {
			t.Fatalf("%s: %d", name, n)
		}
	}
	return v
}

// TestVectorsOfIDs: IDs are as the vectors say, taken apart and put together.
func TestVectorsOfIDs(t *testing.T) {
	v := readVectors(t)
	for name, l := range v.Layouts {
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if l.Layout.MaxMachineID() != l.MaxMachineID || l.Throughput() != l.ThroughputPerMs || !l.Layout.End().Equal(l.End) {
			t.Errorf("%s: %d, %d, %v", name, l.Layout.MaxMachineID(), l.Throughput(), l.Layout.End())
		}
	}
	for _, want := range v.IDs {
		l := v.Layouts[want.Layout].Layout
		id, err := kazahana.ParseID(want.ID)
		if err != nil || id.String() != want.ID {
			t.Errorf("%s is read as %d, %v", want.ID, id, err)
		}
		if b, err := id.MarshalBinary(); hex.EncodeToString(b) != want.Bytes || err != nil {
			t.Errorf("%s in bytes: %x, %v", want.ID, b, err)
		}
		var back kazahana.ID
		if b, err := hex.DecodeString(want.Bytes); err != nil || back.UnmarshalBinary(b) != nil || back != id {
			t.Errorf("%s in bytes and back: %v, %v", want.ID, back, err)
		}
		if text := id.Base32(); text != want.Base32 {
			t.Errorf("%s in base 32: %s, want %s", want.ID, text, want.Base32)
		}
		if back, err := kazahana.ParseBase32(want.Base32); err != nil || back != id {
			t.Errorf("%s in base 32 and back: %v, %v", want.ID, back, err)
		}
		at, err := time.Parse(time.RFC3339, want.Time)
		if err != nil || at.UnixMilli() != want.UnixMs {
			t.Errorf("%s: time %s is not %d, %v", want.ID, want.Time, want.UnixMs, err)
		}
		parts := kazahana.Parts{
			Time: at.UTC(), Fallback: want.Fallback, MachineID: want.MachineID, Sequence: want.Sequence, Node: want.Node,
		}
		if got := l.Decode(id); got != parts {
			t.Errorf("%s: got %+v, want %+v", want.ID, got, parts)
		}
		node := want.MachineID<<l.BitSeq | want.Sequence
		if want.Fallback {
			node += (l.MaxMachineID() + 1) << l.BitSeq
		}
		if first, err := l.FirstID(at); err != nil || int64(first)|node != int64(id) || node != want.Node {
			t.Errorf("%s: put together %d, %v", want.ID, int64(first)|node, err)
		}
	}
	for _, s := range v.MalformedIDs {
		if id, err := kazahana.ParseID(s); err == nil {
			t.Errorf("%q was read as %d", s, id)
		}
	}
	for _, s := range v.MalformedBase32 {
		if id, err := kazahana.ParseBase32(s); err == nil {
			t.Errorf("%q was read as %d in base 32", s, id)
		}
	}
	for _, r := range v.Releases {
		if got := kazahana.Sign(r.Secret, r.ID, r.Timestamp); got != r.Signature {
			t.Errorf("signature of %d:%d: %s, want %s", r.ID, r.Timestamp, got, r.Signature)
		}
	}
}

// TestVectorsOfExternalIDs: public IDs are as the vectors say, in both directions.
func TestVectorsOfExternalIDs(t *testing.T) {
	v := readVectors(t)
	modes := map[extid.Mode]int{}
	for _, want := range v.ExternalIDs {
		modes[want.Mode]++
		secret, err := hex.DecodeString(want.Secret)
		if err != nil {
			t.Fatal(err)
		}
		c := converter(t, extid.Options{Entity: want.Entity, AnyID: true},
			extid.Key{Number: want.KeyNumber, Mode: want.Mode, Secret: secret})
		if got := c.Encode(want.ID); got != want.ExternalID {
			t.Errorf("%s, %q: %d is %s, want %s", want.Mode, want.Entity, want.ID, got, want.ExternalID)
		}
		if got, err := c.Decode(want.ExternalID); got != want.ID || err != nil {
			t.Errorf("%s, %q: %s is %d, %v, want %d", want.Mode, want.Entity, want.ExternalID, got, err, want.ID)
		}
	}
	if len(modes) != 3 {
		t.Errorf("the modes are %v", modes)
	}
	for _, p := range v.Plausibility {
		c := converter(t, extid.Options{
			Layout: v.Layouts[p.Layout].Layout, Now: func() time.Time { return time.UnixMilli(p.NowUnixMs) },
		}, extid.Key{Mode: extid.Unkeyed})
		if got := c.Encode(p.ID); got != p.ExternalID {
			t.Errorf("%d is %s, want %s", p.ID, got, p.ExternalID)
		}
		if _, err := c.Decode(p.ExternalID); (err == nil) != p.Accepted || err != nil &&
			!errors.Is(err, extid.ErrImplausible) {
			t.Errorf("%s, accepted: %v, want %v", p.ExternalID, err, p.Accepted)
		}
	}
}

func TestVectorsOfMalformedExternalIDs(t *testing.T) {
	reasons := map[string]bool{}
	for _, m := range readVectors(t).MalformedExternalIDs {
		reasons[m.Reason] = true
		var keys []extid.Key
		for _, n := range m.KnownKeys {
			keys = append(keys, extid.Key{Number: n, Secret: []byte(strings.Repeat(string(rune('a'+n)), 16))})
		}
		var want any
		switch m.Reason {
		case "length":
			want = &extid.LengthError{Length: len(m.Text)}
		case "character":
			want = &extid.CharacterError{Character: []rune(m.Text)[m.Position-1], Position: m.Position}
		case "keyNumber":
			want = &extid.KeyNumberError{Number: m.KeyNumber, Known: m.KnownKeys}
		}
		_, err := converter(t, extid.Options{AnyID: true}, keys...).Decode(m.Text)
		if got := any(err); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", m.Text, err, want)
		}
	}
	if len(reasons) != 3 {
		t.Errorf("the reasons are %v", reasons)
	}
}
