package field_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/field"
)

func TestSentences(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want string // empty: the value is accepted
	}{
		{"text", field.Text("owner_id", "ann", 8), ""},
		{"text of another alphabet", field.Text("owner_id", "東京", 6), ""},
		{"text with spaces, slashes and quotes", field.Text("lock_key", `a /"%'`, 8), ""},
		{"text at the bound", field.Text("owner_id", "12345678", 8), ""},
		{"text beyond the bound", field.Text("owner_id", "123456789", 8), "owner_id has 9 bytes, 8 at most"},
		{"bytes are counted, not letters", field.Text("owner_id", "東京", 5), "owner_id has 6 bytes, 5 at most"},
		{"text missing", field.Text("owner_id", "", 8), "owner_id is required: 1 to 8 bytes of text"},
		{"text cut in a letter", field.Text("owner_id", "ann\xe6\x9d", 8), "owner_id is not valid UTF-8"},
		{"NUL", field.Text("owner_id", "a\x00b", 8), "owner_id has the control character U+0000 at byte 1: remove it"},
		{"line break", field.Text("owner_id", "ann\n", 8), "owner_id has the control character U+000A at byte 3: remove it"},
		{"DEL", field.Text("owner_id", "\x7f", 8), "owner_id has the control character U+007F at byte 0: remove it"},
		{"C1 control after another alphabet", field.Text("owner_id", "ü\u0085", 8),
			"owner_id has the control character U+0085 at byte 2: remove it"},
		{"the length is looked at first", field.Text("owner_id", "a\x00\xff", 2), "owner_id has 3 bytes, 2 at most"},

		{"optional text", field.OptionalText("reason", "hangs", 8), ""},
		{"optional text missing", field.OptionalText("reason", "", 8), ""},
		{"optional text beyond the bound", field.OptionalText("reason", "123456789", 8), "reason has 9 bytes, 8 at most"},
		{"optional text with a control character", field.OptionalText("reason", "\t", 8),
			"reason has the control character U+0009 at byte 0: remove it"},

		{"number at the lower bound", field.Range("ttl_seconds", 1, 1, 60), ""},
		{"number at the upper bound", field.Range("ttl_seconds", 60, 1, 60), ""},
		{"number below", field.Range("ttl_seconds", 0, 1, 60), "ttl_seconds must be a whole number from 1 to 60"},
		{"number above", field.Range("ttl_seconds", 61, 1, 60), "ttl_seconds must be a whole number from 1 to 60"},
		{"negative number", field.Range("ttl_seconds", -1, 1, 60), "ttl_seconds must be a whole number from 1 to 60"},

		{"a sentence of one's own", field.Errorf("page_token", "is %d days old", 3), "page_token is 3 days old"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if c.err != nil {
				got = c.err.Error()
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestErrorNamesItsField: endpoints show the field and the sentence apart, also after others have wrapped the error.
func TestErrorNamesItsField(t *testing.T) {
	err := fmt.Errorf("acquire: %w", field.Text("owner_id", strings.Repeat("x", 3), 2))
	e, ok := errors.AsType[*field.Error](err)
	if !ok || *e != (field.Error{Name: "owner_id", Problem: "has 3 bytes, 2 at most"}) {
		t.Errorf("got %#v in %v", e, err)
	}
}
