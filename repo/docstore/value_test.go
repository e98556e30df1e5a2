package docstore_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

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
