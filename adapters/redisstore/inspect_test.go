package redisstore

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckVersion is about servers that are hard to come by.
func TestCheckVersion(t *testing.T) {
	for version, want := range map[string]struct{ err, warning string }{
		"7.0.0": {}, "7.2.4": {}, "8.4.0": {}, "10.0": {}, "7": {},
		"6.2.14": {err: "is of version 6.2.14: 7 or later is needed"},
		"2.8":    {err: "7 or later"},
		"":       {warning: "its version could not be checked"},
		"latest": {warning: "its version could not be checked"},
	} {
		s := &Store{addr: "there", keys: layout{"{x}"}}
		err := s.checkVersion(version)
		if (err != nil) != (want.err != "") || !strings.Contains(fmt.Sprint(err), want.err) && want.err != "" {
			t.Errorf("%q: %v, want %q", version, err, want.err)
		}
		if got := strings.Join(s.warnings, ""); (got != "") != (want.warning != "") || !strings.Contains(got, want.warning) {
			t.Errorf("%q: warning %q, want %q", version, got, want.warning)
		}
	}
}
