package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/internal/buildinfo"
)

// TestVersion: what the command prints as JSON.
func TestVersion(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	for _, args := range [][]string{{"version", "--json"}, {"--version", "--json"}, {"--json", "--version"},
		{"--json", "version"}} {
		var out, errs strings.Builder
		var got buildinfo.Info
		if code := run(t.Context(), args, &out, &errs); code != exitOK || json.Unmarshal([]byte(out.String()), &got) != nil ||
			got.Platform != here || got.Version == "" {
			t.Errorf("%v: %d %q %q", args, code, &out, &errs)
		}
	}
}
