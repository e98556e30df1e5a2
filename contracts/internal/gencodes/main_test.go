package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCodesAreUpToDate: the files are what is made from contracts/codes.yaml.
func TestCodesAreUpToDate(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := Files(root)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: run make generate (%v)", name, err)
		}
	}
}

const row = `
- code: TOO_MANY_IDS
  status: 409
  retryable: false
  title: too many
  console: { en: Too many., ja: 多すぎます。 }
  text: |
    Too many.
`

// TestRow: rejections that are not retryable are final; failures of the server are if the row says so.
func TestRow(t *testing.T) {
	for text, final := range map[string]bool{
		row:                                   true,
		strings.Replace(row, "409", "500", 1): false,
		strings.Replace(row, "409", "500\n  final: true", 1):           true,
		strings.Replace(row, "retryable: false", "retryable: true", 1): false,
		row + strings.Replace(row, "TOO_MANY_IDS", "ANOTHER", 1):       true,
	} {
		rows, err := Rows([]byte(text))
		if err != nil || rows[0].Final != final || rows[0].name() != "CodeTooManyIDs" {
			t.Errorf("%s%+v, %v", text, rows, err)
		}
	}
}

// TestMalformedRows: a row that says too little, or what contradicts itself, is named.
func TestMalformedRows(t *testing.T) {
	for problem, text := range map[string]string{
		"must be words":        strings.Replace(row, "TOO_MANY_IDS", "TooMany", 1),
		"its status is 200":    strings.Replace(row, "409", "200", 1),
		"whether it is":        strings.Replace(row, "  retryable: false\n", "", 1),
		"both retryable":       strings.Replace(row, "retryable: false", "retryable: true\n  final: true", 1),
		"is missing":           strings.Replace(row, "ja: 多すぎます。", "ja:", 1),
		"has a quotation mark": strings.Replace(row, "Too many.,", "It's too many.,", 1),
		"it is there twice":    row + row,
		"field retriable":      strings.Replace(row, "retryable", "retriable", 1),
	} {
		if _, err := Rows([]byte(text)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %q of%s", err, problem, text)
		}
	}
}
