package owner_test

import (
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/internal/owner"
)

// TestProcess: a server takes it as the suffix of a verified name: 1 to 64 characters of a few kinds.
func TestProcess(t *testing.T) {
	name := owner.Process("0123456789abcdef-42")
	if !owner.Plain(name) || len(name) > 64 || !strings.HasSuffix(name, "-0123456789abcdef-42") ||
		strings.HasPrefix(name, "-0") {
		t.Errorf("%q", name)
	}
}

// TestOf: names of hosts may be anything.
func TestOf(t *testing.T) {
	for host, want := range map[string]string{
		"": "host-1", "vm.example": "vm.example-1", "my host#ä": "my-host---1",
		strings.Repeat("h", 41): strings.Repeat("h", 40) + "-1",
	} {
		if got := owner.Of(host, "1"); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for s, want := range map[string]bool{"a.B_9-": true, "": true, "a b": false, "a#b": false, "ä": false,
		"a\n": false, "a/b": false} {
		if owner.Plain(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
}

// TestCheckText is at the bounds.
func TestCheckText(t *testing.T) {
	for s, says := range map[string]string{
		"a": "", "äb": "", "abc": "", "": "has 0 bytes: must have 1 to 3", "abcd": "has 4 bytes", "\xff": "must be UTF-8",
		"a\x00": "without control characters", "\u0085": "without control",
	} {
		err := owner.CheckText("the key", s, 3)
		if (err == nil) != (says == "") || err != nil && (!strings.HasPrefix(err.Error(), "the key ") ||
			!strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", s, err, says)
		}
	}
}
