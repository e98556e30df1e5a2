package extid

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestVectorsOfEncodings: the text of 64 bits and a key number is as the vectors say, in both directions.
func TestVectorsOfEncodings(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "contracts", "vectors", "kazahana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Encodings []struct {
			Bytes     string
			KeyNumber int
			Text      string
		}
		ExternalIDs []struct {
			Mode           Mode
			Secret, AESKey string
		}
	}
	if err := json.Unmarshal(content, &v); err != nil || len(v.Encodings) < 3 || len(v.ExternalIDs) < 3 {
		t.Fatal(len(v.Encodings), len(v.ExternalIDs), err)
	}
	for _, e := range v.Encodings {
		bits := binary.BigEndian.Uint64(unhex(t, e.Bytes))
		if got := string(appendText(nil, bits, e.KeyNumber)); got != e.Text {
			t.Errorf("%s, key %d: got %s, want %s", e.Bytes, e.KeyNumber, got, e.Text)
		}
		if got, number, err := parseText(e.Text); got != bits || number != e.KeyNumber || err != nil {
			t.Errorf("%s: got %x, key %d, %v", e.Text, got, number, err)
		}
	}
	for _, e := range v.ExternalIDs {
		if e.Mode == Unkeyed {
			continue
		}
		k := Key{Mode: e.Mode, Secret: unhex(t, e.Secret)}
		if got, err := k.derive(); string(got) != string(unhex(t, e.AESKey)) || err != nil {
			t.Errorf("%v: the key is %x, %v; want %s", k, got, err, e.AESKey)
		}
	}
}
