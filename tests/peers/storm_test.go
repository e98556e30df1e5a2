package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain makes a process of the storm of the test's own program.
func TestMain(m *testing.M) {
	if os.Getenv(asStormShop) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestStorm has each row of the storm happen to one key: the middleware has as many effects as
// docs/guides/idempotency.md says. What Powertools does is not judged, only that it responds.
func TestStorm(t *testing.T) {
	names, results, err := quick(t).storm(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 1 {
		t.Log("SKIPPED: Powertools is not installed; .ci/run tools installs it")
	}
	for i, s := range stormRows {
		for n := range results[i][0].effects {
			if n < s.want[0] || n > s.want[1] {
				t.Errorf("%s: %d effects, want %v", s.what, n, s.want)
			}
		}
		for j, c := range results[i] {
			if _, none := c.statuses[0]; none {
				t.Errorf("%s: %s does not respond: %v", s.what, names[j], c)
			}
		}
	}
	text := stormTable(names, results, 1)
	page, err := os.ReadFile("../../docs/guides/idempotency.md")
	for _, s := range stormRows {
		if !strings.Contains(text, "| "+s.what+" |") || !strings.Contains(string(page), "| "+s.what+" |") {
			t.Errorf("docs/guides/idempotency.md has no line for %q: %v; make storm writes them", s.what, err)
		}
	}
}
