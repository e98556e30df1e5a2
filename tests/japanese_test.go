package tests

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// translated is the first line of a page in Japanese: the page in English that it says again, and the beginning of that
// one's hash when it did.
var translated = regexp.MustCompile(`^<!-- (\S+) ([0-9a-f]{16}) -->\n`)

// pageLink is a link to a page of this repository, with or without a heading.
var pageLink = regexp.MustCompile(`\]\(([^):]+\.md)(?:#[^)]*)?\)`)

// japanese is the path of a page in Japanese, of that of the page in English.
func japanese(page string) string { return strings.TrimSuffix(page, ".md") + ".ja.md" }

// TestJapanese: each page in Japanese names the page in English of which it is the translation, has its programs, leads
// to other pages in Japanese where there are any, and is not behind it. Each tutorial has one. After a change of the
// English page, change the other, and run this with UPDATE_JAPANESE=1.
func TestJapanese(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, folder := range []string{"..", "../docs", "../docs/*"} {
		some, err := filepath.Glob(folder + "/*.ja.md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, some...)
	}
	tutorials, err := filepath.Glob("../docs/tutorials/*.md")
	if err != nil || len(tutorials) == 0 {
		t.Fatal(tutorials, err)
	}
	for _, page := range tutorials {
		if !strings.HasSuffix(page, ".ja.md") && !slices.Contains(pages, japanese(page)) {
			t.Errorf("there is no %s", japanese(page))
		}
	}
	code := regexp.MustCompile("(?ms)^ *```(\\w+)\n.*?^ *```$")
	comment := regexp.MustCompile(`(#|//) .*`) // in the language of the page
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := translated.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s: the first line must be <!-- PAGE HASH -->, with the page in English that it translates", page)
			continue
		}
		name := string(m[1])
		english, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256(english))[:16]
		if string(m[2]) != hash && os.Getenv("UPDATE_JAPANESE") != "" {
			m[2] = []byte(hash)
			line := fmt.Appendf(nil, "<!-- %s %s -->\n", m[1], hash)
			if err := os.WriteFile(page, append(line, text[len(m[0]):]...), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if string(m[2]) != hash {
			t.Errorf("%s is behind %s: bring it up to date, then run UPDATE_JAPANESE=1 go test ./tests -run TestJapanese", page,
				m[1])
		}
		want, got := code.FindAll(english, -1), code.FindAll(text, -1)
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) ||
				!bytes.Equal(comment.ReplaceAll(want[i], nil), comment.ReplaceAll(got[i], nil)) {
				t.Errorf("%s and %s differ in program %d of %d", page, m[1], i+1, len(want))
			}
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join(filepath.Dir(page), m[1])
			if to != filepath.Join("..", name) && slices.Contains(pages, japanese(to)) {
				t.Errorf("%s links to %s, which is there in Japanese", page, m[1])
			}
		}
		if titles := func(b []byte) int { return strings.Count("\n"+string(b), "\n## ") }; titles(english) > titles(text) {
			t.Errorf("%s has %d sections, and %s has %d", page, titles(text), m[1], titles(english))
		}
	}
}
