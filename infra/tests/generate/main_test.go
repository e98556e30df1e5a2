package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGenerated: the generated files are those that the table of settings and the modules make.
func TestGenerated(t *testing.T) {
	infra := t.TempDir()
	if err := os.CopyFS(infra, os.DirFS("../..")); err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		files, err := m.generate(infra, "../../..")
		if err != nil {
			t.Errorf("%s: %v", m.dir, err)
		}
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join("../..", m.dir, name)); err != nil || string(got) != want {
				t.Errorf("%s/%s is out of date (%v): make generate", m.dir, name, err)
			}
		}
	}
}
