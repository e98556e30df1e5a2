package docstoretest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// everyByte is each byte once: no text, whatever it is read as.
func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// checkBytes stores bytes that are no text, at their bound, and beside the text that is spelled as they are. Stores
// without a type for them spell them in another: what looks like that spelling must stay what it is.
func checkBytes(ctx context.Context, s docstore.Store) error {
	var f findings
	every := docstore.Bytes(everyByte())
	values := map[string]docstore.Bytes{
		"none":        "",
		"NUL":         "\x00",
		"zeros":       docstore.Bytes(make([]byte, 1000)),
		"every":       every,
		"backwards":   "\xff\xfe\x00\x01",
		"text":        "hello",
		"ends in NUL": "a\x00",
		"newlines":    "\r\n\n\r",
		"mark":        "\xef\xbb\xbf", // U+FEFF: readers of text drop it
		"surrogate":   "\xed\xa0\x80",
		"length 1":    "a", "length 2": "ab", "length 3": "abc", "length 4": "abcd", // base64 ends differently after each
	}
	for name, v := range values {
		k := key(name)
		want := docstore.Doc{"v": v, "other": docstore.Int(1)}
		r, err := s.Write(ctx, docstore.Write{Key: k, Set: want})
		f.applied(name, r, err, want)
		f.expect(ctx, s, k, want)
		for other, w := range values {
			r, err := s.Write(ctx, docstore.Write{Key: k, If: docstore.Eq{Field: "v", Value: w},
				Add: map[string]int64{"other": 0}})
			if other == name {
				f.applied(name+" equals itself", r, err, want)
			} else {
				f.refused(name+" and "+other, r, err, want)
			}
		}
	}

	// The forms in which stores spell bytes, as values of other types.
	want := docstore.Doc{
		"base64": docstore.String("aGVsbG8="), "prefixed": docstore.String("x:hello"),
		"list": docstore.String(`["base64","aGVsbG8="]`),
		"map":  docstore.Map{"base64": "aGVsbG8="}, "B": docstore.Map{"B": "aGVsbG8="},
		"bytesValue": docstore.Map{"bytesValue": "aGVsbG8="},
		"hex":        docstore.String("\\x68656c6c6f"), "raw": docstore.Bytes("hello"),
		"like": docstore.Bytes(`["base64","aGVsbG8="]`),
	}
	r, err := s.Write(ctx, docstore.Write{Key: key("spellings"), Set: want})
	f.applied("spellings", r, err, want)
	f.expect(ctx, s, key("spellings"), want)
	for field := range want {
		r, err := s.Write(ctx, docstore.Write{Key: key("spellings"),
			If: docstore.Eq{Field: field, Value: docstore.Bytes("hello")}})
		if field == "raw" {
			f.applied("spelling "+field, r, err, want)
		} else {
			f.refused("spelling "+field, r, err, want)
		}
	}

	// The bound, beside fields that change without it, and in a refusal, which brings the document back.
	large := docstore.Doc{"v": docstore.Bytes(strings.Repeat(string(every), docstore.MaxBytes/len(every)))}
	k := key("large")
	r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Set: large})
	f.applied("large", r, err, large)
	f.expect(ctx, s, k, large)
	r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}, Set: large})
	f.refused("large, again", r, err, large)
	large["n"] = docstore.Int(1)
	r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Eq{Field: "v", Value: large["v"]},
		Add: map[string]int64{"n": 1}})
	f.applied("beside large", r, err, large)
	page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant, Prefix: "large"})
	if err != nil || len(page.Entries) != 1 || !page.Entries[0].Doc.Equal(large) {
		f.addf("list: %d entries, error %v", len(page.Entries), err)
	}
	r, err = s.Write(ctx, docstore.Write{Key: k, Set: docstore.Doc{"v": docstore.Bytes("")}},
		docstore.Write{Key: key("beside"), Set: docstore.Doc{"v": every}})
	f.severalApplied(ctx, s, "emptied", r, err, k, key("beside"))
	f.expect(ctx, s, k, docstore.Doc{"v": docstore.Bytes(""), "n": docstore.Int(1)})
	f.expect(ctx, s, key("beside"), docstore.Doc{"v": every})
	return f.err()
}

// checkBytesOwnership changes the slices that bytes were made of and were taken out as. A store that keeps a slice
// shares it.
func checkBytesOwnership(ctx context.Context, s docstore.Store) error {
	var f findings
	k := key("owned")
	given := everyByte()
	want := docstore.Doc{"v": docstore.Bytes(everyByte())}
	spoil := func(b []byte) {
		for i := range b {
			b[i] = 'x'
		}
	}
	take := func(d docstore.Doc) error {
		v, _ := d["v"].(docstore.Bytes)
		taken := []byte(v)
		if !bytes.Equal(taken, everyByte()) {
			return fmt.Errorf("the document is %#v", d)
		}
		spoil(taken)
		return nil
	}
	w := docstore.Write{Key: k, Set: docstore.Doc{"v": docstore.Bytes(given)}}
	spoil(given)
	r, err := s.Write(ctx, w)
	if err != nil {
		return err
	}
	if err := take(r.Docs[0]); err != nil {
		f.addf("write: %w", err)
	}
	if r, err = s.Write(ctx, docstore.Write{Key: k, If: docstore.Absent{}}); err != nil {
		return err
	}
	if err := take(r.Docs[0]); err != nil {
		f.addf("refusal: %w", err)
	}
	for range 2 {
		got, err := get(ctx, s, k)
		if err != nil {
			return err
		}
		if err := take(got); err != nil {
			f.addf("get: %w", err)
		}
		page, err := s.List(ctx, docstore.Query{Kind: k.Kind, Tenant: k.Tenant})
		if err != nil || len(page.Entries) != 1 {
			return fmt.Errorf("list: %d entries, error %w", len(page.Entries), err)
		}
		if err := take(page.Entries[0].Doc); err != nil {
			f.addf("list: %w", err)
		}
		all, err := walkPage(ctx, s, docstore.WalkQuery{Kind: k.Kind})
		if err != nil || len(all.Entries) != 1 {
			return fmt.Errorf("walk: %d entries, error %w", len(all.Entries), err)
		}
		if err := take(all.Entries[0].Doc); err != nil {
			f.addf("walk: %w", err)
		}
	}
	f.expect(ctx, s, k, want)
	return f.err()
}
