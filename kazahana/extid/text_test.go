package extid

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		name   string
		bits   uint64
		number int
		text   string
	}{
		{"the format's own example", 0x0123456789abcdef, 0, "ASNFZ4mrze8"},
		{"under key 1", 0x0123456789abcdef, 1, "ASNFZ4mrze9"},
		{"under key 2", 0x0123456789abcdef, 2, "ASNFZ4mrze-"},
		{"under key 3", 0x0123456789abcdef, 3, "ASNFZ4mrze_"},
		{"zero", 0, 0, "AAAAAAAAAAA"},
		{"all bits", ^uint64(0), 0, "__________8"},
		{"all bits, key 3", ^uint64(0), 3, "___________"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(appendText(nil, c.bits, c.number)); got != c.text {
				t.Errorf("got %s, want %s", got, c.text)
			}
			bits, number, err := parseText(c.text)
			if bits != c.bits || number != c.number || err != nil {
				t.Errorf("back: got %x, %d, %v; want %x, %d", bits, number, err, c.bits, c.number)
			}
		})
	}
}

// TestTextIsBase64URL: with key 0 the text is what every base64url encoder writes.
func TestTextIsBase64URL(t *testing.T) {
	random := rand.New(rand.NewPCG(4648, 5))
	for range 1000 {
		bits := random.Uint64()
		want := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, bits))
		if got := string(appendText(nil, bits, 0)); got != want {
			t.Fatalf("%x: got %s, want %s", bits, got, want)
		}
	}
}

// TestEveryByteAtEveryPosition: 64 bytes are accepted at each position, each with its own meaning, and no other.
func TestEveryByteAtEveryPosition(t *testing.T) {
	type meaning struct {
		bits   uint64
		number int
	}
	for position := range Length {
		seen := map[meaning]byte{}
		for b := range 256 {
			s := []byte("AAAAAAAAAAA")
			s[position] = byte(b)
			bits, number, err := parseText(string(s))
			if err != nil {
				continue
			}
			m := meaning{bits, number}
			if other, ok := seen[m]; ok {
				t.Errorf("%q and %q at position %d mean the same", other, byte(b), position)
			}
			seen[m] = byte(b)
		}
		if len(seen) != len(alphabet) {
			t.Errorf("%d bytes are accepted at position %d", len(seen), position)
		}
	}
}
