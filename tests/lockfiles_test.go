package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestLockFiles: npm packages are known by their hashes and come from the registry of the machine that installs them.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.ci/*/package-lock.json")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct{ Version, Integrity, Resolved string } `json:"packages"`
		}
		if err := json.Unmarshal(content, &lock); err != nil {
			t.Fatal(err)
		}
		for name, p := range lock.Packages {
			if name != "" && (p.Integrity == "" || p.Resolved != "") { // "" is the folder itself
				t.Errorf("%s: %s %s has the hash %q and the URL %q", file, name, p.Version, p.Integrity, p.Resolved)
			}
		}
	}
}
