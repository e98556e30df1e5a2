package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built is this program, whose clients can have clocks that are off.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return "", err
	}
	return clockProgram(context.Background(), dir)
})

// TestMain removes the program.
func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// TestFaults puts every fault to every program. Of Leasehold none may do harm; of the others it is only asked that
// there is a word for what they did.
func TestFaults(t *testing.T) {
	t.Parallel()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	results, err := quick(t).faultTable(t.Context(), t.TempDir(), binary)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/internals/faults.md")
	for i, row := range faultRows {
		if !strings.Contains(string(page), "| "+row.what+" |") {
			t.Errorf("docs/internals/faults.md has no line for %q: %v; make faults-beside writes them", row.what, err)
		}
		for j, p := range programs {
			word := results[i][j]
			if word == "" {
				t.Logf("SKIPPED: %s", p.name)
			} else if strings.HasPrefix(p.name, "Leasehold") && !harmless(word) || !inLegend(word) {
				t.Errorf("%s: %s: %s", row.what, p.name, word)
			}
		}
	}
}

func harmless(word string) bool {
	return strings.HasPrefix(word, kept) || word == errorSaid || word == notPut
}

func inLegend(word string) bool {
	return harmless(word) || slices.ContainsFunc([]string{unsaid, stuck, twoHolders, lostUpdate}, func(w string) bool {
		return strings.HasPrefix(word, w)
	})
}

// TestStorm has each row of the storm happen to one key: the middleware has as many effects as docs/internals/faults.md
// says. What Powertools does is not judged, only that it responds.
func TestStorm(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	names, results, err := quick(t).storm(t.Context(), t.TempDir(), binary, 1)
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
	page, err := os.ReadFile("../../docs/internals/faults.md")
	for _, s := range stormRows {
		if !strings.Contains(text, "| "+s.what+" |") || !strings.Contains(string(page), "| "+s.what+" |") {
			t.Errorf("docs/internals/faults.md has no line for %q: %v; make faults-beside writes them", s.what, err)
		}
	}
}
