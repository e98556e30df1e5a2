package extid_test

import (
	"errors"
	"testing"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/kazahana/extid"
)

// FuzzRoundTrip: in every mode, an ID comes back from its public ID.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(0), "user", secretA)
	f.Add(uint64(1), "", secretB)
	f.Add(^uint64(0)>>1, "order", secretA)
	f.Add(uint64(0x9e3779b97f4a7c15), "a-name-of-an-entity-that-is-longer-than-a-block", secretB)
	f.Fuzz(func(t *testing.T, bits uint64, entity string, secret []byte) {
		id := kazahana.ID(bits >> 1)
		for name, keys := range keyrings {
			keys = append([]extid.Key(nil), keys...)
			if keys[0].Secret != nil {
				keys[0].Secret = secret
			}
			c, err := extid.New(keys, &extid.Options{Entity: entity, AnyID: true})
			if err != nil {
				return // the fuzzer's secret or entity; TestRefusedOptions looks at the errors
			}
			text := c.Encode(id)
			if len(text) != extid.Length {
				t.Fatalf("%s: %d is %q", name, id, text)
			}
			if got, err := c.Decode(text); got != id || err != nil {
				t.Fatalf("%s: %d became %s, and that %d, %v", name, id, text, got, err)
			}
		}
	})
}

// FuzzDecode: Decode takes every string without a panic, and accepts only the one that Encode writes for the ID under
// the key that the string names. Rejections are of the documented kinds.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "ASNFZ4mrze8", "ASNFZ4mrze9", "ASNFZ4mrze8=", "ASNFZ4mrze8\n", "-----------",
		"___________", "AAAAAAAAAé"} {
		f.Add(s)
	}
	keys := []extid.Key{{Mode: extid.Unkeyed}, {Number: 1, Secret: secretA},
		{Number: 3, Mode: extid.AES128, Secret: secretB}}
	all := converter(f, extid.Options{Entity: "user"}, keys...)
	var each []*extid.Converter
	for _, k := range keys {
		each = append(each, converter(f, extid.Options{Entity: "user"}, k))
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := all.Decode(s)
		if err != nil {
			e, ok := errors.AsType[*extid.KeyNumberError](err)
			unknown := ok && e.Number == 2
			if id != 0 || !unknown && !errors.Is(err, extid.ErrMalformed) && !errors.Is(err, extid.ErrImplausible) {
				t.Fatalf("%q: %d, %v", s, id, err)
			}
			return
		}
		writers := 0
		for _, one := range each {
			if one.Encode(id) == s {
				writers++
			}
		}
		if writers != 1 {
			t.Fatalf("%q is %d, which %d keys write so", s, id, writers)
		}
	})
}
