package tests

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinesHave120Columns: a line of Go has at most 120 columns; a tab is one. What is one piece may be longer: a text,
// a line within a text of several lines, and a line of a comment that is shown as it stands, such as an example or a
// directive.
func TestLinesHave120Columns(t *testing.T) {
	t.Parallel()
	const most = 120
	for _, path := range tracked(t, "*.go") {
		source, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) || strings.HasSuffix(path, ".gen.go") {
			continue // deleted and not committed, or written by a program
		}
		if err != nil {
			t.Fatal(err)
		}
		pieces := textsByLine(source)
		for i, line := range strings.Split(string(source), "\n") {
			columns := utf8.RuneCountInString(line)
			comment := strings.TrimLeft(line, "\t ")
			asItStands := strings.HasPrefix(comment, "//\t") || strings.HasPrefix(comment, "//go:")
			if columns > most && columns-pieces[i+1] > most && !asItStands {
				t.Errorf("%s:%d has %d columns: break it, at most %d fit", path, i+1, columns, most)
			}
		}
	}
}

// textsByLine returns how many columns of each line are texts that cannot be broken well: of those within the line, the
// long ones.
func textsByLine(source []byte) map[int]int {
	const long = 40
	columns := map[int]int{}
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return columns
		}
		if kind != token.STRING {
			continue
		}
		for i, part := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(part); n > long || strings.Contains(text, "\n") {
				columns[file.Line(at)+i] += n
			}
		}
	}
}
