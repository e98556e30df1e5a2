package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestVectorsAreUpToDate: the files in contracts/vectors are what the code gives. That what the code gives is right,
// the tests of kazahana/extid, repo/placement and once ask of the files.
func TestVectorsAreUpToDate(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", "vectors", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: run make generate (%v)", name, err)
		}
	}
}
