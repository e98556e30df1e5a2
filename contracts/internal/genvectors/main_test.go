package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestVectorsAreUpToDate: the file in contracts/vectors is what the code gives. That what the code gives is right, the tests of
// kazahana/extid ask of the file.
func TestVectorsAreUpToDate(t *testing.T) {
	want, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "vectors", "kazahana.json"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("kazahana.json differs: run make generate (%v)", err)
	}
}
